;;; efrit-eval.el --- Evaluate the content of a request  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The third step of the flow: text in, an `efrit-result' out.  What the code
;; defines stays, as in any resident Emacs; what it left bound, current or
;; half-printed does not reach the next request.  Nothing is read into the
;; content: it is evaluated, and what came of it is reported.

;;; Code:

(require 'cl-lib)
;; Loading it sets `debugger', which must not happen while ours is bound.
(require 'debug)
(require 'efrit-settings)
(require 'efrit-clock)
(require 'efrit-eval-guard)
(require 'efrit-eval-interrupt)
(require 'efrit-eval-background)
(require 'efrit-print)
(require 'efrit-eval-context)
(require 'efrit-eval-backtrace)

(cl-defstruct (efrit-result (:constructor efrit-result-make))
  "What came of a request.
REASON is one of the protocol's; VALUE an `efrit-print' or nil; ERROR-CODE the
symbol of the condition; CONTEXT an alist or nil; SECONDS the time it took.
OUTCOME is one of the protocol's where REASON does not say it; EXTRA an alist
of what else the answer says; BACKTRACE the calls that led to the error."
  reason value error error-code output messages context (seconds 0.0) outcome extra
  (backtrace ""))

(defvar use-dialog-box)
(defvar messages-buffer-name)           ; Emacs 29

(defvar efrit-eval--running nil
  "Non-nil while the code of a request runs.")

(defvar efrit-eval--depth 0
  "The recursion depth at which the code of the request began.")

;;;; Reading and evaluating

(defvar efrit-eval--position nil
  "The (CONTENT . INDEX) at which the top-level form under way begins, or nil.")

(defun efrit-eval--forms (content)
  "Return the top-level forms of the string CONTENT, each as (INDEX . FORM)."
  (let ((position 0) (end (length content)) (case-fold-search nil)
        ;; They are meant for the file of a buffer, and would rename what is read.
        (read-symbol-shorthands nil)
        forms)
    (while
        (progn
          ;; To the reader, the end after a comment is an error like any other.
          (while (and (setq position
                            (or (string-match-p "[^\0- \u00a0]" content position) end))
                      (< position end)
                      (eq (aref content position) ?\;))
            (setq position (or (string-match-p "\n" content position) end)))
          (< position end))
      (setq efrit-eval--position (cons content position))
      (pcase-let ((`(,form . ,next) (read-from-string content position)))
        (push (cons position form) forms)
        (setq position next)))
    (nreverse forms)))

(defun efrit-eval--all (content)
  "Evaluate the forms of CONTENT in order; return the value of the last.
Nothing is evaluated unless all of it can be read."
  (let ((forms (efrit-eval--forms content))
        ;; Their names may mean something else by the time they are called.
        (restore efrit-guard-restorer)
        (put-back (funcall efrit-guard-recorder))
        (collect (symbol-function 'garbage-collect))
        (hooked (efrit-guard-hooked))
        (evaluate (symbol-function 'efrit-backtrace-evaluate))
        value)
    (unwind-protect
        (while forms
          (setq efrit-eval--position (cons content (caar forms)))
          (setq value (funcall evaluate (cdar forms)))
          (setq forms (cdr forms))
          ;; The last one has it done below.
          (when forms (funcall restore)))
      (funcall put-back)
      (funcall restore)
      ;; Where that takes too long, it takes the time of the request that is to blame.
      (when (efrit-guard-hooked-since-p hooked) (funcall collect)))
    (setq efrit-eval--position nil)
    value))

(defun efrit-eval--where ()
  "Return where in its text the form under way begins, in words.
That is empty where there is no such form, or the text is a single line."
  (pcase efrit-eval--position
    ((and `(,content . ,index) (guard (string-match-p "\n" content)))
     (let* ((before (substring content 0 index))
            (line (1+ (cl-count ?\n before)))
            (column (- index (or (cl-position ?\n before :from-end t) -1))))
       (format " (in the form at line %d, column %d)" line column)))
    (_ "")))

;;;; A stable place to begin

(defun efrit-eval--scratch ()
  "Return *scratch*, made again if need be."
  (or (get-buffer "*scratch*")
      (with-current-buffer (get-buffer-create "*scratch*")
        (ignore-errors (funcall initial-major-mode))
        (current-buffer))))

(defvar efrit-eval-directory nil
  "The directory that the request under way names to begin in, or nil.")

(defun efrit-eval-start-directory ()
  "Return the directory that evaluations start in."
  (or efrit-eval-directory
      efrit-workspace-directory (file-name-as-directory (expand-file-name "~/"))))

;;;; What was printed

(defvar efrit-eval--output nil
  "The buffer that takes what is printed to `standard-output'.")

(defvar-local efrit-eval--output-lost 0
  "Bytes of output that were not kept.")

(defun efrit-eval--bound-output (&rest _)
  "Keep the output buffer small, whatever is printed."
  (when (> (point-max) (* 8 efrit-captured-bytes))
    (let ((keep (+ (point-min) efrit-captured-bytes)))
      (setq efrit-eval--output-lost
            (+ efrit-eval--output-lost
               (- (position-bytes (point-max)) (position-bytes keep))))
      (delete-region keep (point-max)))))

(defun efrit-eval--output-buffer ()
  "Return an empty buffer for output.
It is a new one each time: code may have made the last one read-only, put hooks
or properties into it, or changed its mode."
  (let ((buffer-list-update-hook nil))
    (efrit-eval--kill-output)
    (setq efrit-eval--output (generate-new-buffer " *efrit-output*")))
  (with-current-buffer efrit-eval--output
    (set-buffer-multibyte t)
    (setq buffer-read-only nil
          buffer-undo-list t)
    (setq-local before-change-functions nil
                first-change-hook nil
                after-change-functions (list #'efrit-eval--bound-output)
                kill-buffer-hook nil
                ;; Code that kills every buffer would break its own next `print'.
                kill-buffer-query-functions (list #'ignore))
    (current-buffer)))

(defun efrit-eval--kill-output ()
  "Kill the buffer for output, whatever code has made of it."
  (when (buffer-live-p efrit-eval--output)
    (with-current-buffer efrit-eval--output
      (setq-local kill-buffer-hook nil
                  kill-buffer-query-functions nil)
      (set-buffer-modified-p nil))
    (ignore-errors (kill-buffer efrit-eval--output))))

(defun efrit-eval--printed ()
  "Return what was printed, bounded."
  (if (not (buffer-live-p efrit-eval--output))
      ""
    (with-current-buffer efrit-eval--output
      (save-restriction
        (widen)
        (efrit-eval--bounded (point-min) (point-max) efrit-eval--output-lost)))))

(defun efrit-eval--bounded (start end lost)
  "Return the text from START to END, cut, with a line about what is left out.
LOST bytes more have been left out before."
  (let* ((text (efrit-print-clean
                (buffer-substring-no-properties
                 start (min end (+ start efrit-captured-bytes)))))
         (head (efrit-print-head text efrit-captured-bytes))
         (omitted (+ lost (- (string-bytes text) (string-bytes head))
                  (- (position-bytes end)
                     (position-bytes (min end (+ start efrit-captured-bytes)))))))
    (if (> omitted 0)
        (format "%s\n[%d bytes left out]\n" head omitted)
      head)))

;;;; What `message' said

(defun efrit-eval--mark-messages ()
  "Return a marker at the end of *Messages*.
Emacs joins a message that repeats the line before it; an empty line between
two requests keeps the messages of one out of the other."
  ;; Emacs would end a line that was left unfinished only with the next message.
  (let ((inhibit-message t) (message-log-max t) (clear-message-function nil))
    (ignore-errors (message nil)))
  (with-current-buffer (messages-buffer)
    (save-restriction
      (widen)
      (let ((inhibit-read-only t) (inhibit-modification-hooks t))
        (unless (= (buffer-size) 0)
          (save-excursion (goto-char (point-max)) (insert "\n"))))
      (copy-marker (point-max)))))

(defun efrit-eval--messages-since (mark)
  "Return what was added to *Messages* after MARK, bounded."
  (let ((buffer (marker-buffer mark))
        (current (get-buffer (if (boundp 'messages-buffer-name)
                                 messages-buffer-name
                               "*Messages*"))))
    (prog1
        (if (null current)
            ""
          (with-current-buffer current
            (save-restriction
              (widen)
              (let ((start (if (eq buffer current) (marker-position mark) (point-min)))
                    (inhibit-read-only t) (inhibit-modification-hooks t))
                (prog1 (efrit-eval--bounded start (point-max) 0)
                  (when (and (eq buffer current) (> start 1)
                             (eq (char-before start) ?\n)
                             (memq (char-before (1- start)) '(?\n nil)))
                    (save-excursion
                      (delete-region (1- start) start))))))))
      (set-marker mark nil))))

;;;; No conversation

(defvar efrit-eval--may-ask nil
  "Non-nil while the code that runs may ask the person in front of a frame.
It is how many minibuffers were open before.")

(defun efrit-eval--frame ()
  "Return a frame that a person may be in front of, the selected one if it can be.
In a daemon that is one of a client; in batch mode there is none."
  (unless noninteractive
    (seq-find (lambda (frame)
                (not (equal (terminal-name (frame-terminal frame)) "initial_terminal")))
              (cons (selected-frame) (frame-list)))))

(defun efrit-eval-attended (function)
  "Call FUNCTION; what it asks reaches the person in front of this Emacs, if any."
  (let ((frame (efrit-eval--frame)) (buffer (current-buffer)))
    (if (null frame)
        (funcall function)
      (with-selected-frame frame
        (with-current-buffer buffer
          (let* ((efrit-eval--may-ask (minibuffer-depth))
                 (inhibit-interaction nil)
                 (debug-on-event debug-on-event)
                 (event debug-on-event)
                 ;; There, a signal would be taken for the key that quits.
                 (minibuffer-setup-hook
                  (cons (lambda () (setq debug-on-event nil))  ; gate: ask-signal
                        minibuffer-setup-hook))
                 (minibuffer-exit-hook
                  (cons (lambda () (setq debug-on-event event)) minibuffer-exit-hook))
                 (signal-hook-function (efrit-eval--quit-hook signal-hook-function))  ; gate: ask-quit
                 (timer (run-with-timer 1 1 #'efrit-eval--end-question)))
            (unwind-protect (funcall function)
              (cancel-timer timer))))))))

(defun efrit-eval--quit-hook (next)
  "Return a function that calls NEXT, but lets a person quit a question.
It is for `signal-hook-function'."
  (lambda (symbol data)
    (if (and (eq symbol 'quit) (> (minibuffer-depth) efrit-eval--may-ask))
        (throw 'exit (lambda () (signal 'minibuffer-quit nil)))
      (funcall next symbol data))))

(defun efrit-eval--end-question ()
  "End a question whose request is to stop, or that nobody is there to answer."
  (when (and efrit-eval--may-ask (> (minibuffer-depth) efrit-eval--may-ask))
    (efrit-interrupt-now-if-ordered)
    (efrit-eval-leave-recursion)))

(defun efrit-eval--timer-caller ()
  "Return a closure that is advice around `timer-event-handler'.
What a request has left behind asks nobody.  While work begun by hand may ask,
no timer does: the person would take its question for one of that work.
All timers go through it: it calls nothing by its name."
  (let ((left-p (efrit-background-make-leftover-tester))
        (bound-p (symbol-function 'boundp))
        (call (symbol-function 'apply)))
    (lambda (function timer &rest arguments)
      (let ((inhibit-interaction
             (or inhibit-interaction
                 (and (funcall bound-p 'efrit-eval--may-ask) efrit-eval--may-ask)  ; gate: ask-timer
                 (funcall left-p timer))))  ; gate: ask-left
        (funcall call function timer arguments)))))

(defun efrit-eval--question-open-p ()
  "Return non-nil while all that waits are questions to a person who is there."
  (and efrit-eval--may-ask
       (efrit-eval--frame)
       (<= (- (recursion-depth) efrit-eval--depth)
           (- (minibuffer-depth) efrit-eval--may-ask))))

(defun efrit-eval--refuse-recursion (&rest _)
  "Signal an error where the code of a request would wait for a user.
A debugger comes here with a signal, which may be an order to stop."
  (when (and efrit-eval--running (or inhibit-interaction efrit-eval--may-ask))
    (efrit-interrupt-now-if-ordered)
    (signal 'inhibited-interaction nil)))

(defun efrit-eval--debug (function &rest arguments)
  "Call `debug', given as FUNCTION, with ARGUMENTS unless a request runs.
Signals end here where code has set `debugger' to it: whether they are an order
to stop is decided first.  Called by hand, it would wait for a user.
Where nobody is, it would end Emacs."
  (cond ((not (and efrit-eval--running (or inhibit-interaction efrit-eval--may-ask)))
         (apply (if (efrit-background-attended-p) function #'efrit-background-debugger)
                arguments))
        (arguments (apply #'efrit-interrupt-debugger arguments))
        (t (signal 'inhibited-interaction nil))))

(defun efrit-eval--sit-for (function seconds &rest arguments)
  "Wait in `sit-for', called as FUNCTION with SECONDS and ARGUMENTS, without input.
Where interaction is inhibited, Emacs makes `sit-for' an error."
  (if (and inhibit-interaction (numberp seconds) (> seconds 0))
      (progn (sleep-for seconds) t)
    (apply function seconds arguments)))

(defun efrit-eval-leave-recursion ()
  "Leave a recursive edit that the code of a request has entered.
Compiled code may call `recursive-edit' past its advice; a timer calls this.
It leaves a question, too, once there is nobody to answer it."
  (when (and efrit-eval--running (> (recursion-depth) efrit-eval--depth)
             (not (efrit-eval--question-open-p)))
    (throw 'efrit-eval--recursion 'inhibited-interaction)))

(defun efrit-eval-install ()
  "Keep the code of requests from waiting for a user."
  ;; A trampoline for the primitive would start a compiler.  Only to ask whether one is wanted, the compiler is loaded
  ;; where Emacs has it: that is memory of each daemon.
  (cl-progv '(comp-enable-subr-trampolines native-comp-enable-subr-trampolines features)
      (list nil nil (remq 'native-compile features))
    (advice-add 'recursive-edit :before #'efrit-eval--refuse-recursion))
  ;; In a daemon without a terminal, `debug' ends Emacs.
  (advice-add 'debug :around #'efrit-eval--debug)
  (advice-add 'sit-for :around #'efrit-eval--sit-for)
  (advice-add 'timer-event-handler :around (efrit-eval--timer-caller)
              '((name . efrit-eval--timer-caller))))

(defun efrit-eval-uninstall ()
  "Undo `efrit-eval-install'."
  (advice-remove 'recursive-edit #'efrit-eval--refuse-recursion)
  (advice-remove 'debug #'efrit-eval--debug)
  (advice-remove 'sit-for #'efrit-eval--sit-for)
  (advice-remove 'timer-event-handler 'efrit-eval--timer-caller))

;;;; Running

(defun efrit-eval (id content timeout limit want-context)
  "Evaluate CONTENT for the request ID; return an `efrit-result'.
TIMEOUT is in seconds, LIMIT in bytes of the printed value.  WANT-CONTEXT asks
for the context as well."
  (efrit-eval-run id
                  (unless efrit-bridge-p (+ (efrit-clock) timeout))
                  (lambda () (efrit-eval-printed-value content limit))
                  want-context))

(defun efrit-eval-printed-value (content limit)
  "Evaluate CONTENT; return its value as an `efrit-print' of LIMIT bytes."
  (let ((value (efrit-eval--all content)))
    (efrit-print-reset)
    (efrit-print value limit)))

(defun efrit-eval-run (id deadline function &optional want-context)
  "Call FUNCTION for the request ID; return an `efrit-result' with its value.
Whatever FUNCTION does ends here.  DEADLINE, unless nil, is when a signal stops
it without a control file.  WANT-CONTEXT asks for the context as well."
  (efrit-backtrace-begin)
  (efrit-print-reset)
  (let* ((start (efrit-clock))
         (efrit-eval--position nil)
         (mark (efrit-eval--mark-messages))
         (output (efrit-eval--output-buffer))
         (result
          (with-current-buffer (efrit-eval--scratch)
            (widen)
            (setq default-directory (efrit-eval-start-directory))
            (efrit-eval--outcome
             (efrit-interrupt-run
              id deadline
              (lambda () (efrit-eval--guarded function want-context output)))))))
    (setf (efrit-result-seconds result) (max 0.0 (- (efrit-clock) start))
          (efrit-result-output result) (efrit-eval--printed)
          (efrit-result-messages result)
          (concat (efrit-eval--messages-since mark) (efrit-result-backtrace result)))
    result))

(defun efrit-eval--guarded (function want-context output)
  "Call FUNCTION so that every way out of it ends here.
WANT-CONTEXT is as in `efrit-eval-run', OUTPUT the buffer for what is printed.
Return a list (value VALUE CONTEXT), (error CONDITION CONTEXT) or (left . WHY)."
  (let ((why 'no-catch) outcome)
    (catch 'top-level
      (catch 'exit
        (setq why
              (catch 'efrit-eval--recursion
                (setq outcome (efrit-eval--caught function want-context output))
                nil))))
    ;; A timer may have replaced the handler of orders by something that throws.
    (unless outcome (efrit-interrupt-now-if-ordered))
    (or outcome (cons 'left why))))

(defun efrit-eval--caught (function want-context output)
  "Call FUNCTION with every condition handled.
WANT-CONTEXT and OUTPUT are as in `efrit-eval--guarded'."
  (let ((efrit-eval--running t)
        (efrit-eval--depth (recursion-depth))
        (standard-output output)
        (inhibit-interaction t)
        ;; It is in *Messages* and in the answer.  The daemon's output, which others
        ;; read, would have it as it is, with a key in it that is not an answer's.
        (inhibit-message t)
        ;; Emacs calls it all the same, and there is nothing to clear.
        (clear-message-function nil)
        ;; Left set, it would keep events from Emacs, that of the next request among them.
        (throw-on-input nil)
        ;; A dialog box that cannot be shown would answer for the user.
        (use-dialog-box nil)
        (message-log-max (if (natnump message-log-max) (max 1000 message-log-max) 1000))
        (load-file-name nil)
        (signal-hook-function (efrit-eval--signal-hook signal-hook-function)))
    (condition-case condition
        (let ((value (funcall function)))
          (list 'value value (and want-context (efrit-context))))
      (t
       ;; A debugger that took the place of ours ends what it stops in one of these.
       (when (memq (car-safe condition) '(quit inhibited-interaction))
         (efrit-interrupt-now-if-ordered))
       (list 'error condition (and want-context (efrit-context)))))))

(defun efrit-eval--signal-hook (next)
  "Return a function that calls NEXT, unless nil, and notes the condition.
It is for `signal-hook-function'."
  (let ((note (symbol-function 'efrit-backtrace-note)))
    (lambda (symbol data)
      (when next (funcall next symbol data))
      (unless (eq symbol 'quit)
        (funcall note symbol data)))))

(defun efrit-eval--error-text (condition)
  "Return what Emacs says of CONDITION, whatever it consists of."
  (prog1 (condition-case nil
             (error-message-string condition)
           (error "An error that has no message"))
    (efrit-print-reset)))

(defun efrit-eval--outcome (outcome)
  "Return the `efrit-result' that OUTCOME, of `efrit-eval--guarded', amounts to."
  (pcase outcome
    (`(interrupted . ,reason)
     (efrit-result-make :reason reason
                        :error (if (equal reason "TimedOut")
                                   "The time of the request was over"
                                 "The request was cancelled while it ran")))
    (`(value ,value ,context)
     (efrit-result-make :reason "Succeeded" :value value :context context))
    (`(error ,condition ,context)
     (efrit-result-make
      :reason "EvalError"
      :error (concat (efrit-print-head
                      (efrit-print-clean
                       (efrit-eval--error-text condition))
                      efrit-captured-bytes)
                     (efrit-eval--where))
      :backtrace (let ((calls (efrit-backtrace-text condition)))
                   (if calls (concat "Backtrace" (efrit-eval--where) ":\n" calls) ""))
      :error-code (car-safe condition)
      :context context))
    (_
     (efrit-result-make
      :reason "EvalError"
      :error-code (if (eq (cdr-safe outcome) 'inhibited-interaction)
                      'inhibited-interaction 'no-catch)
      :error (if (eq (cdr-safe outcome) 'inhibited-interaction)
                 "User interaction while inhibited"
               "The code left the evaluation by a throw to the command loop")))))

(provide 'efrit-eval)
;;; efrit-eval.el ends here
