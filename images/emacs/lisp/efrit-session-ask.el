;;; efrit-session-ask.el --- Ask the model, and take what it says  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A turn of the model: the conversation is sent, and the reply put down before
;; anything in it is done.  What the blocks of a reply are is looked at, never what
;; they say.


;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'efrit-settings)
(require 'efrit-json)
(require 'efrit-print)
(require 'efrit-session-history)
(require 'efrit-session-progress)
(require 'efrit-session-prompt)
(require 'efrit-model)
(require 'efrit-tool)
(require 'efrit-session)
(require 'efrit-session-end)

;;;; Asking

(defun efrit-session-step-ask (session)
  "Ask the model, unless the budget of SESSION has no room for it."
  (let* ((history (efrit-session-history session))
         (progress (efrit-session-progress session))
         (spent (efrit-session--spent session)))
    (if spent
        (efrit-session-end session (car spent) :error (cdr spent))
      (efrit-session-turn-started session)
      (efrit-progress-begin-turn progress (1+ (efrit-history-turns history)))
      (efrit-session-model-called session (efrit-session--call-model session)))))

(defun efrit-session--spent (session)
  "Return why SESSION has no room for a turn, as (REASON . TEXT), or nil."
  (let ((budget (efrit-session-budget session))
        (history (efrit-session-history session)))
    (cl-flet ((spent-p (key figure)
                (let ((most (plist-get budget key))) (and most (>= figure most)))))
      (cond ((spent-p :iterations (efrit-history-turns history))
             '("BudgetExhausted" . "The budget of turns is used up (maxIterations)"))
            ((spent-p :tokens (efrit-history-tokens history))
             '("BudgetExhausted" . "The budget of tokens is used up (maxTokens)"))
            ((efrit-session-limit-reached history)
             (cons "CircuitBroken" (efrit-session-limit-reached history)))))))

(defun efrit-session--call-model (session)
  "Send the conversation of SESSION to the model; return the call."
  (efrit-model-ask
   (efrit-session--body session)
   :on-text (lambda (text) (efrit-session--note-text session text))
   :on-done (lambda (reply) (efrit-session-reply-received session reply))
   :on-error (lambda (failure) (efrit-session-model-failed session failure))
   :on-retry (lambda (failure delay) (efrit-session--note-retry session failure delay))
   :deadline (efrit-session-wall session)))

(defun efrit-session--body (session)
  "Return what is sent to the model for SESSION."
  (let ((messages (efrit-history-to-send (efrit-session-history session))))
    `((system . ,(efrit-session--system session))
      ,@(cond ((efrit-session-unified-p session) nil)
              ((eq (efrit-session-kind session) 'command)
               `((tools . ,(efrit-tools-offered (efrit-session-context session)))))
              ;; The calls in what was said before must be known, and none may be made.
              ((efrit-session--calls-in-p messages)
               `((tools . ,(efrit-tools-offered (efrit-session-context session)))
                 (tool_choice . ((type . "none"))))))
      (messages . ,messages))))

(defun efrit-session--system (session)
  "Return the system prompt of SESSION."
  (cond ((eq (efrit-session-kind session) 'chat) efrit-prompt-chat)
        ((efrit-session-unified-p session) efrit-prompt-elisp)
        (t efrit-prompt-tools)))

(defun efrit-session--calls-in-p (messages)
  "Return non-nil when a tool is called in MESSAGES."
  (seq-some (lambda (message)
              (seq-some (lambda (block) (equal (alist-get 'type block) "tool_use"))
                        (alist-get 'content message)))
            messages))

(defun efrit-session--note-text (session text)
  "Tell that the model of SESSION has said TEXT."
  (efrit-session-text-streamed session text)
  (efrit-progress-note (efrit-session-progress session) "text"
                       :text (efrit-print-clean text)))

(defun efrit-session--note-retry (session failure delay)
  "Tell that the model of SESSION is asked again after DELAY because of FAILURE."
  (efrit-session-turn-retried session)
  (efrit-session--count-failure session failure)
  (efrit-progress-note (efrit-session-progress session) "retry"
                       :kind (efrit-model-error-kind failure)
                       :message (efrit-print-clean (efrit-model-error-message failure))
                       :delay (float delay)))

(defun efrit-session--count-failure (session failure)
  "Count FAILURE among the errors of the model of SESSION."
  (efrit-session-count-model-error session (intern (efrit-model-error-kind failure))))

;;;; What the model says

(defun efrit-session-take-reply (session)
  "Record the reply of the model to SESSION; what it says is done next."
  (let* ((reply (efrit-session-reply session))
         ;; The API says a blank text at times, and takes none back.
         (content (vconcat (seq-remove #'efrit-session--blank-text-p
                                       (efrit-model-reply-content reply))))
         (usage (efrit-model-reply-usage reply))
         (tokens (cl-loop for (_ number) on usage by #'cddr sum (or number 0))))
    (unless (seq-empty-p content)
      (efrit-history-add (efrit-session-history session) "message" t
                         :message `((role . "assistant") (content . ,content))
                         :tokens tokens
                         :stop_reason (efrit-model-reply-stop-reason reply)
                         :unreadable (efrit-session--unreadable-record reply)))
    (efrit-session-reply-recorded session content (efrit-model-reply-stop-reason reply)
                                  (efrit-model-reply-unreadable reply))
    (efrit-session-count-model-call session usage)
    (efrit-progress-spend (efrit-session-progress session) tokens)))

(defun efrit-session--unreadable-record (reply)
  "Return the inputs in REPLY that are not JSON objects, as a value for JSON."
  (vconcat (mapcar (pcase-lambda (`(,call . ,input))
                     `((call . ,call) (input . ,(efrit-json-clean input))))
                   (efrit-model-reply-unreadable reply))))

(defun efrit-session-recorded-unreadable (record)
  "Return what `efrit-session--unreadable-record' made of a reply, from its RECORD."
  (mapcar (lambda (entry) (cons (alist-get 'call entry) (alist-get 'input entry)))
          (alist-get 'unreadable record)))

(defun efrit-session--blank-text-p (block)
  "Return non-nil when BLOCK of an answer is a text with nothing in it."
  (and (equal (alist-get 'type block) "text")
       (string-blank-p (alist-get 'text block))))

(defun efrit-session-take-said (session)
  "Do what the model of SESSION has said."
  (efrit-session--take-content session (car (efrit-session-said session))
                               (cdr (efrit-session-said session))))

(defun efrit-session--take-content (session content stop-reason)
  "Do what the CONTENT of an answer to SESSION says; STOP-REASON says why it ended."
  (let ((calls (seq-filter (lambda (block) (equal (alist-get 'type block) "tool_use"))
                           content))
        (text (mapconcat (lambda (block)
                           (if (equal (alist-get 'type block) "text")
                               (alist-get 'text block) ""))
                         content "")))
    (unless (string-blank-p text)
      (efrit-session-keep-text session text)
      (efrit-progress-say (efrit-session-progress session) text))
    (cond ((equal stop-reason "refusal")
           (efrit-session-end session "ModelError" :code "refusal"
                              :error "The model refused to answer"))
          ((equal stop-reason "pause_turn") (efrit-session-turn-paused session))
          ((equal stop-reason "max_tokens") (efrit-session--take-cut session calls))
          ((eq (efrit-session-kind session) 'chat) (efrit-session-complete session text))
          ((efrit-session-unified-p session) (efrit-session--take-unified session text))
          (calls (efrit-session-calls-found session calls))
          ((efrit-session--todos-open-p session)
           (efrit-session-end session "Partial"
                              :error "The model ended its turn before all todos were completed"))
          (t (efrit-session-complete session text)))))

(defun efrit-session--take-cut (session calls)
  "Go on with SESSION after an answer cut at its limit of tokens, with CALLS in it."
  (if (or (null calls) (eq (efrit-session-kind session) 'chat))
      (efrit-session-end session "Partial"
                         :error "The model's answer was cut at its limit of tokens (maxTokens)")
    ;; The last call may lack its end: none is run, and the model is informed.
    (dolist (call calls)
      (unless (efrit-history-result (efrit-session-history session) call)
        (efrit-session-record session call "refused"
                              "It was not run: the answer was cut at its limit of tokens.")))
    (efrit-session-calls-found session nil)))

(defun efrit-session--todos-open-p (session)
  "Return non-nil when the model of SESSION has todos that are not done with."
  (seq-some (lambda (todo)
              (not (member (alist-get 'status todo) '("completed" "cancelled"))))
            (efrit-tool-context-todos (efrit-session-context session))))

(defun efrit-session-take-failure (session)
  "End SESSION, whose model could not be asked."
  (let ((failure (efrit-session-failure session)))
    (efrit-session--count-failure session failure)
    (efrit-session-end session "ModelError"
                       :code (efrit-model-error-kind failure)
                       :error (efrit-print-clean (efrit-model-error-message failure)))))

;;;; Answers with Lisp

(defun efrit-session--take-unified (session text)
  "Do what TEXT, an answer with Lisp to SESSION, says."
  (let* ((json (condition-case nil (efrit-json-parse (string-trim text)) (error nil)))
         (elisp (and (consp json) (alist-get 'elisp json)))
         (about (and (consp json) (alist-get 'session json)))
         (status (and (consp about) (alist-get 'status about))))
    (if (and (stringp elisp) (member status '("continue" "complete" "need-input")))
        (efrit-session-calls-found
         session
         `(((type . "tool_use") (id . "elisp") (name . "eval_sexp")
            (input . ((expr . ,elisp)))))
         about)
      (efrit-session-calls-found
       session `(((type . "tool_use") (id . "elisp") (name . "") (input . nil)))))))

(provide 'efrit-session-ask)
;;; efrit-session-ask.el ends here
