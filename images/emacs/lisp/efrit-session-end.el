;;; efrit-session-end.el --- How a chat or a command ends  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; One end for each request, whatever it was: done, asked for input, or ended early,
;; which keeps what was done and is never called success.  The end is put down in
;; the history with all that is answered, and the `efrit-result' that the server
;; answers with is made of that: the same one where Emacs ends in between.


;;; Code:

(require 'cl-lib)
(require 'let-alist)
(require 'efrit-settings)
(require 'efrit-clock)
(require 'efrit-print)
(require 'efrit-eval)
(require 'efrit-eval-context)
(require 'efrit-model)
(require 'efrit-session-history)
(require 'efrit-session-progress)
(require 'efrit-tool)
(require 'efrit-tool-context)
(require 'efrit-session)

;;;; Done

(defun efrit-session-complete (session text)
  "End SESSION, whose work is done: TEXT is its result."
  (efrit-session-keep-text session text)
  (efrit-session--finish session "Succeeded" "Success" "complete"))

(defun efrit-session-need-input (session question)
  "End the request of SESSION with QUESTION for the user."
  (efrit-session--finish session "InputRequired" "Partial" "need-input"
                         :question question
                         :error "The model asks for input: continue the session with the answer"))

;;;; Ended early

(cl-defun efrit-session-end (session reason &key error code)
  "End SESSION early for REASON, with ERROR and CODE; what was done is kept."
  (let ((streamed (string-join (reverse (efrit-session-streamed session)))))
    (unless (string-blank-p streamed)
      (efrit-session-keep-text session streamed))
    (efrit-session--finish session reason
                           (if (or (> (efrit-history-calls (efrit-session-history session)) 0)
                                   (not (string-blank-p (efrit-session-text session))))
                               "Partial" "Failure")
                           "continue" :error error :code code)))

(defun efrit-session-end-by-order (session)
  "End SESSION as it was ordered."
  (let ((reason (efrit-session-ordered session)))
    (when (efrit-session-call session) (efrit-model-abort (efrit-session-call session)))
    (let ((stop (efrit-session-stop session)))
      (efrit-session-call-stoppable session nil)
      (when stop (funcall stop)))
    (when (and (eq (efrit-session-state session) 'acted) (efrit-session-outcome session))
      ;; Without its record the call counts as interrupted; the end must not wait for it.
      (condition-case err
          (efrit-session-record-outcome session)
        (efrit-record-failed (efrit-session-record-failed session err)))
      (efrit-session-outcome-kept session))
    (efrit-session-end
     session reason
     :error (concat
             (pcase reason
               ("TimedOut" "The time of the request was over")
               ("BudgetExhausted" "A turn took longer than its time (iterationTimeoutSeconds)")
               (_ "The request was cancelled while it ran"))
             (and (efrit-session-record-error session)
                  (format "; its session could not be recorded: %s"
                          (efrit-session-record-error session)))))))

(defun efrit-session-record-outcome (session)
  "Record what came of the call of SESSION.
A question stays open: its result is what the user answers."
  (let* ((call (efrit-session-current session))
         (result (efrit-session-outcome session))
         (status (efrit-tool-result-status result)))
    (unless (or (efrit-history-result (efrit-session-history session) call)
                ;; gate: question-open
                (and (eq (efrit-tool-ends (alist-get 'name call)) 'need-input)
                     (equal status "success")))
      (efrit-session-record session call status (efrit-tool-result-content result)))))

(defun efrit-session-fail (session err)
  "End SESSION because of ERR, an error of the server itself."
  (ignore-errors
    (when (efrit-session-call session) (efrit-model-abort (efrit-session-call session))))
  (efrit-session-server-failed
   session
   (efrit-result-make
    :reason "ModelError" :error-code (car err)
    :outcome (if (> (efrit-history-calls (efrit-session-history session)) 0)
                 "Partial" "Failure")
    :error (concat "The server failed: "
                   (efrit-print-clean (error-message-string err)))
    :extra (efrit-session--extra session "continue" nil))))

;;;; The result

(cl-defun efrit-session--finish (session reason outcome status &key error code question)
  "End SESSION for REASON with OUTCOME; STATUS is what becomes of the session.
ERROR, CODE and QUESTION are part of the answer."
  (efrit-session-end-decided
   session
   (list :request (efrit-session-request-id session)
         :reason reason :outcome outcome
         :error (if error (efrit-json-clean error) :null) :code (or code :null)
         :text (efrit-json-clean (efrit-session-text session))
         :seconds (max 0.0 (- (efrit-clock) (efrit-session-started session)))
         :context (or (efrit-session--facts session) :null)
         :told (efrit-session--extra session status question)))
  (efrit-session-record-end session))

(defun efrit-session--facts (session)
  "Return the context of Emacs that the request of SESSION asks for, or nil.
It is as the last code of the model left it; where none ran, as it is."
  (let ((context (efrit-session-context session)))
    (and (efrit-tool-context-facts-wanted context)
         (or (efrit-tool-context-facts context)
             (with-current-buffer (get-buffer-create "*scratch*")
               (let ((default-directory (efrit-eval-start-directory)))
                 (efrit-context)))))))

(defun efrit-session-record-end (session)
  "Record the end of SESSION, which is decided, and give its answer.
Where it cannot be recorded and the time is over, the answer is given all the
same: what the request came to is known."
  (let ((history (efrit-session-history session))
        (progress (efrit-session-progress session))
        (ending (efrit-session-ending session)))
    (condition-case err
        (apply #'efrit-history-add history "end" t ending)
      (efrit-record-failed
       (unless (efrit-session-ordered session) (signal (car err) (cdr err)))))
    (efrit-progress-write-figures progress)
    (efrit-progress-note progress "end" :reason (plist-get ending :reason)
                         :outcome (plist-get ending :outcome))
    (efrit-session-give session (or (efrit-history-ended history)
                                    (efrit-json-object ending)))))

(defun efrit-session-give (session end)
  "Give the request of SESSION the answer that END says, the record of its end."
  (let-alist end
    (efrit-session-answered
     session
     (efrit-result-make :reason .reason :outcome .outcome
                        :value (efrit-session--value session .text)
                        :error (and (stringp .error) .error)
                        :error-code (and (stringp .code) .code)
                        :context (and (consp .context) .context)
                        :seconds .seconds :extra .told))))

(defun efrit-session--value (session text)
  "Return TEXT, the result of SESSION, as an `efrit-print'."
  (let* ((limit (or (efrit-session-limit session) efrit-max-result-bytes))
         (head (efrit-print-head text limit)))
    (efrit-print-make :text head :bytes (string-bytes text)
                      :truncated (< (string-bytes head) (string-bytes text)))))

(defun efrit-session--extra (session status question)
  "Return what an answer says of SESSION: its STATUS, a QUESTION, its figures."
  (let ((usage (efrit-session-usage session)))
    `((session . ((id . ,(efrit-history-id (efrit-session-history session)))
                  (status . ,status)
                  (question . ,(if question (efrit-print-clean question) :null))))
      (progress . ,(efrit-progress-json (efrit-session-progress session)))
      (usage . ((input_tokens . ,(plist-get usage :input))
                (output_tokens . ,(plist-get usage :output))
                (cache_read_tokens . ,(plist-get usage :cache-read))
                (cache_write_tokens . ,(plist-get usage :cache-write))
                (model_calls . ,(efrit-session-model-calls session))
                (model_errors . ,(efrit-session-model-errors session)))))))

(provide 'efrit-session-end)
;;; efrit-session-end.el ends here
