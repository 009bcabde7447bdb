;;; efrit-eval-backtrace.el --- Where an error of a request came from  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Remembers the calls that were under way when the last condition was signalled,
;; and prints them once it is known that nothing has handled it.  `handler-bind'
;; would do this for unhandled conditions alone, but is new in Emacs 30.

;;; Code:

(require 'seq)
(require 'efrit-print)

(defconst efrit-backtrace-frames 20
  "How many calls are remembered, the innermost first.")

(defconst efrit-backtrace-columns 160
  "How many characters of each call are printed.")

(defconst efrit-backtrace-signals 2000
  "How many conditions of a request are looked at.
Code that signals and handles more of them is to be no slower for it.")

(defvar efrit-backtrace--last nil
  "What was signalled last: (SYMBOL DATA . FRAMES), or nil.")

(defvar efrit-backtrace--remaining 0
  "How many conditions of this request are still looked at.")

(defvar efrit-backtrace--form nil
  "A list of the form that is evaluated for the request, or nil.")

(defconst efrit-backtrace--own 12
  "How many calls at most are the hook's own, in Lisp that is not compiled.")

(defun efrit-backtrace-begin ()
  "Forget what an earlier request has signalled."
  (setq efrit-backtrace--last nil
        efrit-backtrace--form nil
        efrit-backtrace--remaining efrit-backtrace-signals))

(defun efrit-backtrace-evaluate (form)
  "Return the value of FORM, whose calls are those worth remembering."
  (setq efrit-backtrace--form (list form))
  (prog1 (eval form t)
    (setq efrit-backtrace--form nil)))

(defun efrit-backtrace-note (symbol data)
  "Remember the calls that led to the condition SYMBOL with DATA.
To be called by `signal-hook-function', which knows no other way to the stack."
  (when (and efrit-backtrace--form (> efrit-backtrace--remaining 0))
    ;; First: an error here, such as one of code that watches a variable, would call this again.
    (let ((signal-hook-function nil) (debug-on-signal nil) (inhibit-quit t))
      (condition-case nil
          (efrit-backtrace--note symbol data)
        (error nil)))))

(defun efrit-backtrace--note (symbol data)
  "Remember the calls that led to the condition SYMBOL with DATA."
  (setq efrit-backtrace--remaining (1- efrit-backtrace--remaining))
  (let ((remaining (+ efrit-backtrace--own efrit-backtrace-frames)) frames)
    (condition-case nil
        (catch 'efrit-backtrace
          (mapbacktrace
           (lambda (evaluated function arguments _flags)
             (when (or (< remaining 1)
                       (and (eq function 'eval)
                            (eq (car arguments) (car efrit-backtrace--form))))
               (throw 'efrit-backtrace nil))
             (setq remaining (1- remaining))
             (push (list evaluated function arguments) frames))
           #'efrit-backtrace-note))
      (error nil))
    (setq efrit-backtrace--last
          (cons symbol (cons data (efrit-backtrace--without-hook
                                   (nreverse frames) symbol data))))))

(defun efrit-backtrace--without-hook (frames symbol data)
  "Return FRAMES without the calls of the hook, which get SYMBOL and DATA."
  (let ((rest frames) (frames-below frames) (remaining efrit-backtrace--own))
    (while (and rest (> remaining 0))
      (pcase-let ((`(,evaluated ,_ ,arguments) (pop rest)))
        (when (and evaluated (eq (car arguments) symbol) (eq (cadr arguments) data))
          (setq frames-below rest)))
      (setq remaining (1- remaining)))
    (seq-take frames-below efrit-backtrace-frames)))

(defun efrit-backtrace-text (condition)
  "Return the calls that led to CONDITION, one a line, or nil if unknown."
  (pcase efrit-backtrace--last
    ((and `(,symbol ,data . ,frames)
          (guard (and frames (eq symbol (car-safe condition)) (eq data (cdr-safe condition)))))
     (mapconcat #'efrit-backtrace--line frames ""))))

(defun efrit-backtrace--line (frame)
  "Return the line of FRAME, a list (EVALUATED FUNCTION ARGUMENTS)."
  (pcase-let* ((`(,evaluated ,function ,arguments) frame)
               (print-length 6) (print-level 3) (print-circle nil)
               (print-escape-newlines t) (print-escape-control-characters t)
               ;; The code of a function without a name says nothing to anybody.
               (function (if (or (symbolp function) (not evaluated)) function 'lambda))
               (text (condition-case nil
                         (if evaluated
                             (format "%S%s" function (if arguments (format "%S" arguments) "()"))
                           (format "%S" (cons function arguments)))
                       (error "…"))))
    (concat "  " (truncate-string-to-width (efrit-print-clean text) efrit-backtrace-columns nil nil "…")
            "\n")))

(provide 'efrit-eval-backtrace)
;;; efrit-eval-backtrace.el ends here
