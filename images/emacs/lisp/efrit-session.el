;;; efrit-session.el --- What every step of a chat or a command needs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; When a session must be over, how a step is put down, what kind it is.  What is
;; known of a session and what changes it is in efrit-session-state.el, the steps
;; themselves are in -begin.el, -ask.el, -act.el and -end.el; whose step is next is
;; said in efrit-session-scheduler.el.
;;
;; A step records, then acts: one whose record could not be written has done nothing
;; and is done again after a pause, in which the others go on.


;;; Code:

(require 'cl-lib)
(require 'efrit-settings)
(require 'efrit-clock)
(require 'efrit-json)
(require 'efrit-queue-request)
(require 'efrit-eval-interrupt)
(require 'efrit-print)
(require 'efrit-secret)
(require 'efrit-session-history)
(require 'efrit-session-progress)
(require 'efrit-tool-context)
(require 'efrit-session-state)

;;;; What kind it is

(defun efrit-session-unified-p (session)
  "Return non-nil when the model of SESSION answers with Lisp."
  (and (eq (efrit-session-kind session) 'command)
       (equal efrit-model-protocol "elisp")))

;;;; When it must be over

(defun efrit-session-order (session)
  "Return why SESSION is to end now, or nil."
  (let ((now (efrit-clock)) (until (efrit-session--turn-end session)))
    (or (efrit-interrupt-ordered (efrit-session-request-id session))
        (and (>= now (efrit-session-deadline session)) "TimedOut")
        (and until (>= now until) "BudgetExhausted"))))

(defun efrit-session--turn-end (session)
  "Return when the turn of SESSION must be over, or nil."
  (let ((seconds (or (plist-get (efrit-session-budget session) :iteration-seconds)
                     efrit-iteration-timeout)))
    (and seconds (efrit-session-turn-started-at session)
         (+ seconds (efrit-session-turn-started-at session)))))

(defun efrit-session-limit-reached (history)
  "Return which limit of the instance leaves HISTORY no turn of the model, or nil.
These limits bound a session, however many requests continue it."
  (cl-loop for (key figure what) in
           `((:iterations ,(efrit-history-all-turns history) "turns")
             (:tokens ,(efrit-history-all-tokens history) "tokens"))
           for most = (efrit-request-limit key)
           when (and most (>= figure most))
           return (format "The session has used its %d %s%s"
                          most what (efrit-request-limit-name key))))

(defun efrit-session-wall (session)
  "Return when what SESSION does now must be over."
  (min (efrit-session-deadline session)
       (or (efrit-session--turn-end session) (efrit-session-deadline session))))

;;;; When a record cannot be written

(defun efrit-session-pause (session)
  "Return the seconds until the next step of SESSION may be tried, or nil.
Nil means that no record of it has failed."
  (let ((at (efrit-session-retry-at session)))
    (and at
         ;; A clock that was set back must not make the pause longer.
         (max 0.0 (min efrit-session-retry-most (- at (efrit-clock)))))))

;;;; Putting down

(defun efrit-session-say (session text)
  "Put TEXT into the conversation of SESSION, for the model to read."
  (efrit-history-add (efrit-session-history session) "message" nil
                     :message `((role . "user")
                                (content . [,(efrit-history-text text)])))
  (efrit-session-message-recorded session))

(defun efrit-session-result-block (call status text)
  "Return the block that tells the model that CALL ended with STATUS and TEXT."
  `((type . "tool_result")
    (tool_use_id . ,(alist-get 'id call))
    ;; One text for both: the API refuses a blank one.
    (content . [,(efrit-history-text (concat "status: " status "\n" text))])
    (is_error . ,(if (equal status "success") :false t))))

(defun efrit-session-block-result (block)
  "Return the `efrit-tool-result' that `efrit-session-result-block' made BLOCK of."
  (let* ((text (alist-get 'text (aref (alist-get 'content block) 0)))
         (end (or (string-search "\n" text) (length text))))
    (efrit-tool-result-uncut
     :status (string-remove-prefix "status: " (substring text 0 end))
     :content (substring text (min (length text) (1+ end))))))

(defun efrit-session-record (session call status content)
  "Record in SESSION that CALL ended with STATUS and CONTENT."
  (efrit-secret-refresh)
  (let ((text (efrit-json-clean content)))
    (efrit-history-add
     (efrit-session-history session) "result" nil
     :call (alist-get 'id call)
     :block (efrit-session-result-block call status text)
     :world (efrit-tool-context-to-json (efrit-session-context session)))
    (efrit-progress-note (efrit-session-progress session) "result"
                         :name (alist-get 'name call) :call (alist-get 'id call)
                         :status status :content text)))

(defun efrit-session-leave-call (session call)
  "Record in SESSION that CALL was not brought to its end."
  (apply #'efrit-session-record session call
         (efrit-session-left-call (efrit-session-history session) call)))

(defun efrit-session-left-call (history call)
  "Return the status and the text that CALL in HISTORY, which has no result, gets."
  (if (efrit-history-begun-p history call)
      '("interrupted" "It was interrupted; what it did is unknown.")
    '("refused" "It was not run.")))

(provide 'efrit-session)
;;; efrit-session.el ends here
