;;; efrit-eval-background.el --- Stop code that runs between requests  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A request may leave code behind that runs when the request is over: timers,
;; filters and sentinels of processes, threads.  Where such code keeps Emacs busy,
;; nobody is served and the heartbeat stops.  Whoever supervises Emacs notices the
;; silence and sends SIGUSR2.  The request's own debugger (efrit-eval-interrupt.el) is
;; not bound then; the one here is, globally.  It stops the code if Emacs has been
;; silent, and takes the signal as a request to look for work otherwise.
;;
;; The objects a request has left are recorded when it ends, so that the log can
;; name the request; those that such code has made since are nobody's.  Code that comes
;; back each time it is stopped ends Emacs.  Where people work in this Emacs, nothing
;; is stopped.

;;; Code:

(require 'efrit-settings)
(require 'efrit-eval-guard)
(require 'efrit-eval-interrupt)
(require 'efrit-print)

(defvar efrit-background-beat-age-function #'ignore
  "Function that returns the seconds since the last heartbeat, or nil.")

(defvar efrit-background-log-function #'ignore
  "Function called with a line for the log.")

(defconst efrit-background--silence 2.5
  "Periods of the heartbeat without one after which code is stopped.")

(defconst efrit-background--max-owned 2000
  "Most timers, processes and threads that are looked at after a request.")

;;;; Who left what behind

(defvar efrit-background--owners (make-hash-table :test 'eq :weakness 'key)
  "The timers, processes and threads that exist, and the request that left them.")

(defconst efrit-background--max-stops 3
  "How often the same code is stopped before this Emacs ends.")

(defconst efrit-background--stops-seconds 60.0
  "Seconds after which a stop no longer counts.")

(defvar efrit-background--stops nil
  "What was stopped lately as (NAME OWNER TIME COUNT), the latest first.")

(defvar efrit-background--request-run nil
  "Non-nil once a request has run in this Emacs.")

(defvar efrit-background--threads nil
  "The threads that requests have left behind and that may run.")

(defun efrit-background--objects ()
  "Return the timers, processes and threads that exist, bounded."
  (let (objects (count 0))
    (dolist (list (list timer-list timer-idle-list (process-list)
                        (and (fboundp 'all-threads) (all-threads))))
      (while (and (consp list) (< count efrit-background--max-owned))
        (push (pop list) objects)
        (setq count (1+ count))))
    objects))

(defun efrit-background-record (id)
  "Record that the request ID has left what exists now and did not before.
ID is nil for what was there before it, whoever made that."
  (when id (setq efrit-background--request-run t))
  (dolist (object (efrit-background--objects))
    (when (eq (gethash object efrit-background--owners 'unknown) 'unknown)
      (puthash object id efrit-background--owners)
      (when (and id (not (timerp object)) (not (processp object)))
        (push object efrit-background--threads)))))

(defun efrit-background-make-leftover-tester ()
  "Return a closure that says whether a request has left an object behind.
It calls nothing by its name."
  (let ((get (symbol-function 'gethash)) (owners efrit-background--owners))
    (lambda (object) (and (funcall get object owners) t))))

(defun efrit-background-log-stopped-threads ()
  "Log which threads were stopped: a quit ends one without a word."
  (let ((threads efrit-background--threads))
    (while threads
      (let ((thread (pop threads)))
        (unless (thread-live-p thread)
          (setq efrit-background--threads (delq thread efrit-background--threads))
          (when (eq (car-safe (thread-last-error t)) 'quit)
            (efrit-background--log (list "thread" thread nil))))))))

(defun efrit-background-quiet-p ()
  "Return non-nil when nothing but the server's own can begin by itself.
What was there before the first request counts as its own."
  ;; Emacs makes some of it once its start is over.
  (unless efrit-background--request-run (efrit-background-record nil))
  (let ((objects (efrit-background--objects)) object (count 0) (quiet t))
    (while (and quiet objects)
      (setq object (pop objects)
            count (1+ count)
            quiet (and (< count efrit-background--max-owned)
                       (or (and (timerp object)
                                (efrit-background--own-p (timer--function object)))
                           (null (gethash object efrit-background--owners 'unknown))))))
    quiet))

;;;; What runs

(defun efrit-background-on-stack-p (functions)
  "Return non-nil when one of FUNCTIONS, a list of symbols, is being called."
  (let (running)
    (mapbacktrace (lambda (_evaluated function _arguments _flags)
                    (when (memq function functions) (setq running t))))
    running))

(defun efrit-background--frames ()
  "Return the frames below the debugger as (FUNCTION . ARGUMENTS), outermost first."
  (let (frames)
    (mapbacktrace (lambda (_evaluated function arguments _flags)
                    (if (memq function '(efrit-background-debugger
                                         efrit-background--on-signal))
                        (setq frames nil)
                      (push (cons function arguments) frames))))
    frames))

(defun efrit-background--running ()
  "Return what runs between requests as (KIND OBJECT FUNCTION), or nil.
The server's own functions do not count."
  (let* ((frames (efrit-background--frames))
         (frame (car frames))
         (arguments (cdr frame))
         (timer (and (eq (car frame) 'timer-event-handler) (car-safe arguments))))
    (cond ((and (fboundp 'current-thread) (not (eq (current-thread) main-thread)))
           (list "thread" (current-thread) (car frame)))
          ((null frames) nil)
          ((timerp timer)
           (unless (efrit-background--own-p (timer--function timer))
             (list "timer" timer (timer--function timer))))
          ((efrit-background--own-p (car frame)) nil)
          ;; The first that an idle Emacs calls at a signal, of its own accord.
          ((eq (car frame) 'clear-minibuffer-message) nil)
          ((efrit-background--idle-command-p frames) nil)
          ((and (consp arguments) (processp (car arguments)))
           (list "process" (car arguments) (car frame)))
          (t (list "code" nil (car frame))))))

(defconst efrit-background--idle-commands
  '(command-execute call-interactively funcall-interactively ignore keyboard-quit)
  "What runs while an idle Emacs takes a signal for a key.")

(defun efrit-background--idle-command-p (frames)
  "Return non-nil when FRAMES are those of an idle Emacs that takes a signal."
  (while (memq (car-safe (car frames)) efrit-background--idle-commands)
    (setq frames (cdr frames)))
  (null frames))

(defun efrit-background--own-p (function)
  "Return non-nil when FUNCTION is named as one of the server's."
  (or (memq function efrit-guard-own-functions)
      (and (symbolp function) (string-prefix-p "efrit-" (symbol-name function)))))

(defun efrit-background--name (running)
  "Return what RUNNING, of `efrit-background--running', is, in words."
  (pcase-let ((`(,kind ,_ ,function) running))
    (concat kind
            (and function
                 (concat " " (efrit-print-head
                              (efrit-print-clean
                               (condition-case nil
                                   (let ((print-length 5) (print-level 3) (print-circle t))
                                     (prin1-to-string function))
                                 (error "Code that cannot be printed")))
                              200))))))

(defun efrit-background--owner (running)
  "Return the id of the request that has left RUNNING behind, or nil."
  (and (cadr running) (gethash (cadr running) efrit-background--owners)))

(defun efrit-background--description (running)
  "Return RUNNING, of `efrit-background--running', and its owner in words."
  (let ((owner (efrit-background--owner running)))
    (concat (efrit-background--name running)
            (and owner (format " left behind by request %s" owner)))))

(defun efrit-background--log (running)
  "Log that RUNNING, of `efrit-background--running', was stopped."
  (ignore-errors
    (funcall efrit-background-log-function
             (format "stopped code that kept Emacs busy between requests: %s"
                     (efrit-background--description running)))))

;;;; The decision

(defun efrit-background--of-request-p (running)
  "Return non-nil when RUNNING is a thread that no request has left behind yet.
While one runs it may be that one's, which waits for its value."
  ;; gate: thread-of-request
  (and (equal (car running) "thread")
       (efrit-interrupt-under-way-p)
       (eq (gethash (cadr running) efrit-background--owners 'unknown) 'unknown)))

(defun efrit-background-attended-p ()
  "Return non-nil when a person may be working in this Emacs."
  (or (not (daemonp))
      (let ((frames (frame-list)) attended)
        (while (and frames (not attended))
          (setq attended (not (equal (terminal-name (frame-terminal (pop frames)))
                                  "initial_terminal"))))
        attended)))

(defun efrit-background--silent-p ()
  "Return non-nil when the heartbeat is overdue.
A clock that was set back proves nothing."
  (let ((age (funcall efrit-background-beat-age-function)))
    (and age (> age (* efrit-background--silence efrit-heartbeat-seconds)))))

(defun efrit-background--stop (running &optional quit)
  "Leave RUNNING for the command loop, and log what it was.
With QUIT, what goes on when that thread has ended quits as well."
  ;; A thread ends without a word, and its signal may come by another way.
  (unless (equal (car running) "thread")
    (let ((inhibit-quit t) (debug-on-event nil))
      (efrit-background--log running)))
  (efrit-guard-unhook)
  (setq quit-flag nil
        debug-on-next-call nil
        debug-on-quit nil
        debug-on-signal nil)
  (if (not (equal (car running) "thread"))
      (throw 'top-level nil)
    (let ((signal-hook-function nil) (inhibit-quit t))
      (setq quit-flag quit)
      (signal 'quit nil))))

(defun efrit-background--stop-if-silent ()
  "Stop what runs between requests if it has kept Emacs from its heartbeat."
  ;; gate: stop-if-silent
  (let ((running (and (efrit-background--silent-p) (efrit-background--running))))
    (when (and running (not (efrit-background--of-request-p running)))
      ;; Other code may be what Emacs itself calls at a signal, if it was only late.
      ;; gate: comes-back
      (when (and (not (equal (car running) "code"))
                 (efrit-background--comes-back-p running))
        (efrit-background--log running)
        (efrit-background-end-emacs))
      (efrit-background--stop running))))

(defun efrit-background--comes-back-p (running)
  "Note that RUNNING is stopped; return non-nil when that was so too often.
A timer may set itself anew before it loops, and would hold up every request.
The same code that another request has left is another loop."
  (let* ((name (efrit-background--name running))
         (owner (efrit-background--owner running))
         (now (float-time))
         (last-stop (assoc name efrit-background--stops))
         (again (pcase last-stop
                  (`(,_ ,earlier ,time ,_)
                   (and (or (null owner) (equal owner earlier))
                        (< -0.001 (- now time) efrit-background--stops-seconds)))))
         (count (if again (1+ (nth 3 last-stop)) 1)))
    (setq efrit-background--stops
          (cons (list name (if again (nth 1 last-stop) owner) now count)
                (seq-take (remq last-stop efrit-background--stops) 19)))
    (>= count efrit-background--max-stops)))

(defun efrit-background--forward-stop ()
  "Have the thread stop that a signal is meant for, which has come to another one."
  (let ((thread (efrit-interrupt-thread-to-stop)))
    (cond ((null thread))
          ((eq thread (efrit-interrupt-thread))
           (efrit-background--stop (list "thread" thread nil) t))
          (t (thread-signal thread 'quit nil)))))

(defun efrit-background--on-signal (symbol _data)
  "Stop what runs between requests where the signal comes as a quit.
SYMBOL is the condition."
  (when (eq symbol 'quit) (efrit-background--forward-stop))
  (when (and (eq symbol 'quit) (not (efrit-background-attended-p)))
    (funcall efrit-guard-restorer)
    (efrit-background--stop-if-silent)
    ;; What is not stopped goes on where it was, by way of the debugger.
    (setq inhibit-debugger nil
          internal-when-entered-debugger -1
          debug-on-quit t
          debug-on-signal t)))

(defun efrit-background-debugger (&rest arguments)
  "Decide what a signal means between requests; called with ARGUMENTS."
  (setq internal-when-entered-debugger -1)
  (unless (eq (car arguments) 'exit) (efrit-background--forward-stop))
  (cond ((eq (car arguments) 'exit) (cadr arguments))
        ((efrit-background-attended-p)
         ;; Somebody who debugs here wants the debugger; a signal is not meant for it.
         (if (eq (car-safe (cadr arguments)) 'quit)
             (setq debug-on-quit nil)
           (let ((debugger #'debug)) (apply #'debug arguments))))
        (t
         (funcall efrit-guard-restorer)
         (efrit-background--stop-if-silent)
         (let ((inhibit-quit t) (debug-on-event nil))
           (ignore-errors (funcall efrit-interrupt-idle-function)))
         (setq debug-on-quit nil
               debug-on-signal nil)
         nil)))

(defun efrit-background-end-emacs ()
  "End Emacs at once, without a hook of anybody."
  (signal-process (emacs-pid) 'SIGKILL))

(defun efrit-background-arm ()
  "Have signals between requests come here, whatever code has set."
  (when (daemonp)
    (setq debugger #'efrit-background-debugger
          debug-on-event 'sigusr2
          signal-hook-function #'efrit-background--on-signal
          internal-when-entered-debugger -1
          inhibit-debugger nil)))

(provide 'efrit-eval-background)
;;; efrit-eval-background.el ends here
