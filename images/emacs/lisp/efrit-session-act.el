;;; efrit-session-act.el --- Run what the model calls  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; One call a step, in the order of the answer, until all have their results; then
;; the model is informed.  The circuit breaker is here: so many calls, and so many times
;; the same one in a row.


;;; Code:

(require 'cl-lib)
(require 'efrit-settings)
(require 'efrit-clock)
(require 'efrit-json)
(require 'efrit-session-history)
(require 'efrit-session-progress)
(require 'efrit-tool)
(require 'efrit-tool-call)
(require 'efrit-tools-eval)
(require 'efrit-session)
(require 'efrit-session-end)

;;;; The next call

(defun efrit-session-step-act (session)
  "Run the next call of the model of SESSION, or send it the results of all."
  (let* ((history (efrit-session-history session))
         (call (car (efrit-session-calls session)))
         (begun (and call (efrit-history-begun-p history call))))
    (cond ((null call)
           (efrit-history-add history "message" nil
                              :message (efrit-history-results-message history))
           (efrit-session-message-recorded session))
          ((efrit-history-result history call)
           (efrit-session-result-found
            session (efrit-session-block-result (efrit-history-result history call))))
          ;; Begun by an Emacs that has ended.
          ((and begun (not (efrit-tool-ends (alist-get 'name call))))
           (efrit-session-leave-call session call))
          ((and (not begun) (efrit-session--break session call)))
          (t (efrit-session--begin-call session call)))))

(defun efrit-session--signature (call)
  "Return what is equal for two calls of the same tool with the same input as CALL."
  (secure-hash 'sha256
               (encode-coding-string
                (concat (alist-get 'name call) "\n" (efrit-json-text (alist-get 'input call)))
                'efrit-utf-8)))

(defun efrit-session--break (session call)
  "End SESSION when CALL is one too many; return non-nil then.
A budget bounds the request, the limits of the instance the whole session."
  (let* ((history (efrit-session-history session))
         (repeats (efrit-history-repeats-of history (efrit-session--signature call)))
         (budget (plist-get (efrit-session-budget session) :tool-calls)))
    (cond ((and budget (>= (efrit-history-calls history) budget))
           (efrit-session-end session "BudgetExhausted"
                              :error "The budget of tool calls is used up (maxToolCalls)")
           t)
          ((>= (efrit-history-all-calls history) efrit-max-tool-calls)
           (efrit-session-end session "CircuitBroken"
                              :error (format "More than %d tool calls in this session%s"
                                             efrit-max-tool-calls
                                             (efrit-request-limit-name :tool-calls)))
           t)
          ((> repeats efrit-max-repeated-calls)
           (efrit-session-end
            session "CircuitBroken"
            :error (format "More than %d times the same call of %s in a row"
                           efrit-max-repeated-calls (alist-get 'name call)))
           t))))

(defun efrit-session--begin-call (session call)
  "Run CALL of the model of SESSION."
  (let* ((name (alist-get 'name call))
         (progress (efrit-session-progress session)))
    ;; What did not begin is not a repetition.
    (efrit-history-add (efrit-session-history session) "begun" nil
                       :call (alist-get 'id call)
                       :signature (efrit-session--signature call))
    (efrit-progress-count-calls progress (efrit-history-calls (efrit-session-history session)))
    (when (string-blank-p (efrit-session-text session)) (efrit-progress-say progress name))
    (efrit-progress-note progress "tool" :name name :call (alist-get 'id call)
                         :input (alist-get 'input call))
    (efrit-progress-write-figures progress)
    (efrit-session-call-started session)
    (setf (efrit-tool-context-deadline (efrit-session-context session))
          (efrit-session-wall session))
    (efrit-session--start-tool session name (alist-get 'input call))))

(defun efrit-session--start-tool (session name input)
  "Start the tool NAME of SESSION with INPUT."
  (let ((done (lambda (result) (efrit-session-call-finished session result)))
        (context (efrit-session-context session)))
    (efrit-session-call-stoppable
     session
     (cond ((efrit-session--unreadable session)
            (funcall done (efrit-session--unreadable session))
            nil)
           ((not (efrit-session-unified-p session))
            (efrit-tool-start name input context done))
           ((equal name "") (funcall done (efrit-session--not-unified)) nil)
           (t (funcall done (efrit-tools-eval-call #'efrit-tools-eval-sexp input context))
              nil)))))

(defun efrit-session--unreadable (session)
  "Return the result of the call of SESSION when its input was not a JSON object."
  (let ((input (assoc (alist-get 'id (efrit-session-current session))
                      (efrit-session-unreadable session))))
    (and input
         (efrit-tool-result-make
          "refused"
          (concat "Nothing was run: the input must be a JSON object, and it was:\n"
                  (cdr input))))))

(defun efrit-session--not-unified ()
  "Return the result of an answer that is not what the protocol says."
  (efrit-tool-result-make
   "refused"
   (concat "Nothing was run: the answer must be one JSON object with a string `elisp' "
           "and `session.status' continue, complete or need-input")))

;;;; What came of it

(defun efrit-session-take-outcome (session)
  "Record what came of the call of SESSION, and go on or end as it said."
  (let* ((call (efrit-session-current session))
         (ends (efrit-tool-ends (alist-get 'name call)))
         (result (efrit-session-outcome session))
         (content (efrit-tool-result-content result))
         (success (equal (efrit-tool-result-status result) "success")))
    (efrit-session-record-outcome session)
    (cond ((efrit-session-unified-p session)
           (efrit-session--take-unified-outcome session result))
          ((and success (eq ends 'need-input))  ; gate: question-ends
           (efrit-session-need-input session content))
          ((and success (or (eq ends 'complete)
                            (eq t (alist-get 'final (alist-get 'input call)))))
           (efrit-session-complete session content))
          (t (efrit-session-result-recorded session)))))

;;;; Of answers with Lisp

(defun efrit-session--unified-outcome (session status text)
  "Return what the model of SESSION is sent: STATUS and TEXT, and a short log."
  (let ((history (efrit-session-history session)))
    (efrit-json-text
     `((status . ,status)
       (result . ,(efrit-print-clean text))
       (session . ((id . ,(efrit-history-id history))))
       (log . ((steps . ,(efrit-history-calls history))
               (elapsed_seconds . ,(- (efrit-clock) (efrit-session-started session)))))))))

(defun efrit-session--take-unified-outcome (session result)
  "Tell the model of SESSION the RESULT of its Lisp, or end as it said."
  (let* ((status (efrit-tool-result-status result))
         (content (efrit-tool-result-content result))
         (about (efrit-session-unified session))
         (question (alist-get 'question about)))
    (pcase (and (equal status "success") (alist-get 'status about))
      ("complete" (efrit-session-complete session content))
      ("need-input"
       (efrit-session-need-input session (if (stringp question) question content)))
      (_ (efrit-session-say session
                            (efrit-session--unified-outcome session status content))))))

(provide 'efrit-session-act)
;;; efrit-session-act.el ends here
