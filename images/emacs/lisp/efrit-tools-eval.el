;;; efrit-tools-eval.el --- Run a tool so that it can be stopped  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Tools that work inside Emacs run as the code of a request does: no way out of
;; them but back here, no conversation (but see `efrit-eval-attended'), stopped by
;; SIGUSR2 with a control file of the request.  A deadline of the session stops
;; them too: while the call runs, a file in tmp/ has the watchdog send the signal.
;; eval_sexp is such a tool.

;;; Code:

(require 'cl-lib)
(require 'efrit-files)
(require 'efrit-eval)
(require 'efrit-eval-watchdog)
(require 'efrit-json)
(require 'efrit-tool-context)
(require 'efrit-tool)

;;;; Within its time

(defun efrit-tools-eval--marker (context)
  "Return the file that is there while a call for CONTEXT runs."
  (efrit-files-path "tmp" (concat "call_" (efrit-tool-context-request-id context))))

(defun efrit-tools-eval--mark (marker seconds)
  "Make the file MARKER and have Emacs signalled when it is there after SECONDS."
  (efrit-files-isolated
    (efrit-files-make-directories)
    (efrit-files-delete marker)
    (let ((write-region-inhibit-fsync t))
      (efrit-files-write marker "")))
  (efrit-watchdog-signal marker seconds))

(defun efrit-tools-eval-run (context function)
  "Call FUNCTION for CONTEXT, guarded; return an `efrit-result' with its value."
  (let ((id (efrit-tool-context-request-id context))
        (seconds (efrit-tool-context-seconds-left context))
        (marker (efrit-tools-eval--marker context)))
    (unwind-protect
        (progn
          (when seconds (efrit-tools-eval--mark marker (max 0 seconds)))
          (efrit-eval-run id (efrit-tool-context-deadline context) function
                          (efrit-tool-context-facts-wanted context)))
      (when seconds (efrit-files-isolated (efrit-files-delete marker))))))

;;;; What came of it

(defun efrit-tools-eval-call (handler input context)
  "Call HANDLER with INPUT and CONTEXT, guarded; return an `efrit-tool-result'.
HANDLER returns such a result, or an `efrit-print' to be returned with what was
printed and said."
  (let* ((result (efrit-tools-eval-run context
                                       (lambda () (funcall handler input context))))
         (value (efrit-result-value result)))
    (if (efrit-tool-result-p value)
        value
      (setf (efrit-tool-context-facts context) (efrit-result-context result))
      ;; Each part of it has been cut.
      (efrit-tool-result-uncut
       :status (efrit-tools-eval--status result)
       :content (efrit-json-clean (efrit-tools-eval--content result))))))

(defun efrit-tools-eval--status (result)
  "Return the status of a tool that RESULT, an `efrit-result', amounts to."
  (pcase (efrit-result-reason result)
    ("Succeeded" "success")
    ("TimedOut" "timeout")
    ("Cancelled" "interrupted")
    (_ "error")))

(defun efrit-tools-eval--content (result)
  "Return the content for RESULT: the value or error, output, messages."
  (concat (if (equal (efrit-result-reason result) "Succeeded")
              (efrit-tools-eval--value (efrit-result-value result))
            (efrit-tools-eval--error result))
          (efrit-tools-eval--part "output" (efrit-result-output result))
          (efrit-tools-eval--part "messages" (efrit-result-messages result))))

(defun efrit-tools-eval--value (printed)
  "Return the text of PRINTED, an `efrit-print', and what is missing from it."
  (if (efrit-print-truncated printed)
      (format "%s\n[the value is longer: only its first %d bytes are here]"
              (efrit-print-text printed)
              (string-bytes (efrit-print-text printed)))
    (efrit-print-text printed)))

(defun efrit-tools-eval--part (name text)
  "Return TEXT under NAME, unless it is empty."
  (if (string-empty-p text) "" (format "\n[%s]\n%s" name text)))

(defun efrit-tools-eval--error (result)
  "Return what RESULT says went wrong."
  (if (memq (efrit-result-error-code result) '(nil error))
      (efrit-result-error result)
    (format "%s: %s" (efrit-result-error-code result) (efrit-result-error result))))

;;;; eval_sexp

(efrit-define-tool eval_sexp (input context)
  "Evaluate Emacs Lisp in the running Emacs, starting in the workspace and in the \
buffer *scratch*. What it defines and changes stays. A prompt, as of `read-string', \
reaches the person who has begun this work in a frame of this Emacs; where there is \
none, asking is an error. Returns the printed value of the last expression, then \
what was printed and what was said by `message'."
  :kind execution
  :input ((expr string "One or more Lisp expressions" :required t))
  (let ((evaluate (lambda ()
                    (efrit-eval-printed-value (alist-get 'expr input) efrit-tool-result-bytes))))
    (if (efrit-tool-context-by-hand context)  ; gate: ask-by-hand
        (efrit-eval-attended evaluate)
      (funcall evaluate))))

(provide 'efrit-tools-eval)
;;; efrit-tools-eval.el ends here
