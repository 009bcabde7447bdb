;;; efrit-eval-interrupt.el --- Stop a request from outside  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Wraps the evaluation of one request.  A timer cannot stop `(while t)'; signal
;; SIGUSR2 can, because `debug-on-event' makes C code quit at the next chance,
;; even where `inhibit-quit' is bound.  The signal alone stops nothing: a file
;; control/cancel_<id> must say that the request that runs now is the one meant
;; (without a bridge, its time being over will do).
;;
;; C code does two things on the signal: it quits, and it calls the debugger at
;; the next function call.  Either may come first, and where the call comes
;; first, the quit comes inside it.  Hence two entries to the same decision,
;; `debugger' and `signal-hook-function'.  To stop is a `throw', which user code
;; cannot catch; to go on is to return from the debugger of a quit.

;;; Code:

(require 'seq)
(require 'efrit-settings)
(require 'efrit-clock)
(require 'efrit-eval-guard)
(require 'efrit-files)

(defvar efrit-interrupt--id nil
  "The id of the request that runs, or nil.")

(defvar efrit-interrupt--tag nil
  "Where to throw to, known to nobody else.")

(defvar efrit-interrupt--deadline nil
  "When the time of the request that runs is over, or nil when a bridge says.")

(defvar efrit-interrupt--under-way nil
  "What runs as (THREAD ID DEADLINE), for other threads to see, or nil.")

(defvar efrit-interrupt-handled-function #'ignore
  "Called when a signal came that does not mean the request that runs.")

(defvar efrit-interrupt-idle-function #'ignore
  "Called when a signal came while no request runs: there may be work.")

(defconst efrit-interrupt--reasons '("Cancelled" "TimedOut")
  "What a control file may say.")

;;;; What must not be interrupted

(defmacro efrit-interrupt-shielded (&rest body)
  "Run BODY, a callback that may come while the code of a request waits.
No signal leaves it half done, and no error leaves it at all; what the code had
current and matched stays."
  (declare (indent 0) (debug t))
  `(let ((signal-hook-function nil) (debug-on-signal nil) (debug-on-error nil)
         (debug-on-quit nil) (debug-on-event nil) (inhibit-quit t)
         (case-fold-search nil))
     (save-current-buffer
       (save-match-data
         (condition-case err
             (progn ,@body)
           (error (let ((inhibit-message nil))
                    (message "efrit: %s" (error-message-string err)))))))))

;;;; Control files

(defun efrit-interrupt-control-path (id)
  "Return the control file of the request ID."
  (efrit-files-path "control" (concat "cancel_" id)))

(defun efrit-interrupt-ordered (id)
  "Return why the request ID is to be stopped according to its file, or nil."
  (let ((path (efrit-interrupt-control-path id)))
    (efrit-files-isolated
      (and (file-exists-p path)
           (let ((text (condition-case nil
                           (efrit-files-read path)
                         (file-error ""))))
             (or (seq-find (lambda (reason) (string-prefix-p reason text))
                           efrit-interrupt--reasons)
                 "Cancelled"))))))

;;;; The decision

(defun efrit-interrupt-running-p ()
  "Return non-nil while something runs that an order can stop."
  (and efrit-interrupt--id t))

(defun efrit-interrupt-reason ()
  "Return why the request that runs is to be stopped now, or nil."
  (let ((signal-hook-function nil) (debug-on-signal nil) (debug-on-error nil)
        (debug-on-event nil) (inhibit-quit t))
    (condition-case nil
        (and efrit-interrupt--id
             (or (efrit-interrupt-ordered efrit-interrupt--id)
                 (and efrit-interrupt--deadline
                      (>= (efrit-clock) efrit-interrupt--deadline)
                      "TimedOut")))
      (error nil))))

(defun efrit-interrupt-now-if-ordered ()
  "Leave the request that runs when it is to be stopped; else return nil."
  (let ((reason (efrit-interrupt-reason)))
    (when reason
      (efrit-guard-unhook)  ; gate: unhook
      (setq quit-flag nil
            debug-on-next-call nil
            debug-on-quit nil
            internal-when-entered-debugger -1)
      (throw efrit-interrupt--tag (cons 'interrupted reason)))))

(defun efrit-interrupt-debugger (&rest arguments)
  "Decide what a signal means; called as `debugger' with its ARGUMENTS."
  ;; C code enters a debugger once per input event, of which a daemon has none.
  (setq internal-when-entered-debugger -1)
  (if (eq (car arguments) 'exit)
      (cadr arguments)
    (funcall efrit-guard-restorer)
    (efrit-interrupt-now-if-ordered)
    (let ((inhibit-quit t) (debug-on-event nil))
      (ignore-errors (funcall efrit-interrupt-handled-function)))
    (setq debug-on-quit nil)
    nil))

(defun efrit-interrupt--on-signal (symbol _data)
  "Decide about a quit before any handler sees it; SYMBOL is the condition."
  (when (eq symbol 'quit)
    (funcall efrit-guard-restorer)
    (efrit-interrupt-now-if-ordered)
    ;; A quit that nobody ordered goes on where it was, by way of the debugger.
    (setq inhibit-debugger nil
          internal-when-entered-debugger -1
          debug-on-quit t
          debug-on-signal t)))

;;;; Other threads

(defun efrit-interrupt-thread ()
  "Return the thread that runs now, or nil where Emacs has none."
  (and (fboundp 'current-thread) (current-thread)))

(defun efrit-interrupt-under-way-p ()
  "Return non-nil while a request runs, in whichever thread."
  (and efrit-interrupt--under-way t))

(defun efrit-interrupt-thread-to-stop ()
  "Return the thread that a signal in another thread is meant for, or nil.
What waits for a thread to end gets no signal before: then it is that thread."
  (pcase efrit-interrupt--under-way
    ((and `(,thread ,id ,deadline)
          (guard (and thread (not (eq thread (efrit-interrupt-thread)))))
          (guard (let ((efrit-interrupt--id id) (efrit-interrupt--deadline deadline))
                   (efrit-interrupt-reason))))
     (let ((awaited (thread--blocker thread)))
       (cond ((threadp awaited) awaited)
             ((not (eq thread main-thread)) thread)
             ;; Emacs signals nothing to its main thread, which gets it when this one has ended.
             (t (efrit-interrupt-thread)))))))

;;;; The region

(defun efrit-interrupt-run (id deadline function)
  "Call FUNCTION for the request ID, so that it can be stopped.
Return its value, or (interrupted . REASON).  DEADLINE, unless nil, is when a
signal stops it without a control file."
  (let* ((efrit-interrupt--id id)
         (efrit-interrupt--deadline deadline)
         (efrit-interrupt--tag (make-symbol "efrit-interrupt"))
         (depth max-lisp-eval-depth)
         (outer efrit-interrupt--under-way)
         (result
          (catch efrit-interrupt--tag
            (setq efrit-interrupt--under-way (list (efrit-interrupt-thread) id deadline))
            ;; The functions, not their names, which code may redefine.
            (let ((debugger (symbol-function 'efrit-interrupt-debugger))
                  (signal-hook-function (symbol-function 'efrit-interrupt--on-signal))
                  (debug-on-signal t)
                  (debug-on-error nil)
                  (debug-on-quit nil)
                  (debug-ignored-errors nil)
                  (internal-when-entered-debugger -1)
                  (inhibit-debugger nil)
                  (inhibit-quit nil)
                  (debug-on-event 'sigusr2))
              ;; Ordered before the signal could be handled.
              (efrit-interrupt-now-if-ordered)
              (funcall function)))))
    (setq efrit-interrupt--under-way outer
          quit-flag nil debug-on-next-call nil debug-on-quit nil)
    ;; C code raises the limit a little when a hook is called near it.
    (when (< depth max-lisp-eval-depth (+ depth 200))
      (setq max-lisp-eval-depth depth))
    result))

(provide 'efrit-eval-interrupt)
;;; efrit-eval-interrupt.el ends here
