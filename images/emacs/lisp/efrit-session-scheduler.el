;;; efrit-session-scheduler.el --- Whose step is next  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What the server does with a chat or a command: begins it, does its steps one at
;; a time and in turn with those of the others, looks whether it is to end.  The
;; model decides, this carries it out.


;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'efrit-settings)
(require 'efrit-clock)
(require 'efrit-queue-request)
(require 'efrit-eval)
(require 'efrit-json)
(require 'efrit-session-conversation)
(require 'efrit-session-history)
(require 'efrit-session-progress)
(require 'efrit-model)
(require 'efrit-tool)
(require 'efrit-session)
(require 'efrit-session-begin)
(require 'efrit-session-ask)
(require 'efrit-session-act)
(require 'efrit-session-end)

(defvar efrit-sessions nil
  "The sessions under way; the one whose step comes next is the first.")

;;;; Beginning

(defun efrit-session-start (request claim &optional on-end on-line)
  "Begin the work on REQUEST, a chat or a command, that CLAIM has taken.
With CLAIM nil it came from no file: ON-END is called with the session when it
is over, and ON-LINE with each line of the work log.
Return the `efrit-session'."
  (let* ((id (or (efrit-request-session request) (efrit-request-id request)))
         (deadline (+ (efrit-clock) (efrit-request-timeout request)))
         (history (efrit-history-open id))
         (session (efrit-session-make
                   :claim claim
                   :on-end on-end
                   :progress (efrit-progress-new :id (and claim (efrit-request-id request))
                                                 :line on-line)
                   :request-id (efrit-request-id request)
                   :kind (intern (efrit-request-type request))
                   :content (efrit-request-content request)
                   :budget (efrit-request-budget request)
                   :directory (efrit-request-directory request)
                   :limit (efrit-request-max-result-bytes request)
                   :deadline deadline
                   :started (efrit-clock)
                   :history history
                   :context (efrit-session--context request history (null claim)))))
    (efrit-progress-name-session (efrit-session-progress session) id)
    (setq efrit-sessions (append efrit-sessions (list session)))
    session))

(defun efrit-session--context (request history by-hand)
  "Return what the tools of REQUEST work on, as HISTORY has kept it.
BY-HAND is as in `efrit-tool-context'."
  (let* ((json (efrit-history-world history))
         (context (if json (efrit-tool-context-from-json json) (efrit-tool-context-make))))
    (setf (efrit-tool-context-request-id context) (efrit-request-id request)
          (efrit-tool-context-by-hand context) by-hand
          (efrit-tool-context-facts-wanted context) (efrit-request-return-context request))
    context))

(defun efrit-session-problem (request)
  "Return why the chat or command REQUEST cannot be begun, or nil."
  (let ((session (efrit-request-session request))
        (bytes (string-bytes (efrit-json-text
                              (efrit-json-clean (efrit-request-content request))))))
    (cond ((and session (not (efrit-history-known-p session)))
           (format "There is no session %s on this instance: leave the session out to begin one"
                   session))
          ((efrit-history-problem (or session (efrit-request-id request))))
          ((efrit-session--damage (or session (efrit-request-id request))))
          ((> bytes efrit-conversation-question-bytes)
           (format "The content has %d bytes as JSON, of which a model is sent at most %d: \
put it into a file of the workspace and name that file"
                   bytes efrit-conversation-question-bytes))
          ((and (equal (efrit-request-type request) "command")
                (efrit-tools-problem)))
          (session (efrit-session--exhausted session request)))))

(defun efrit-session--damage (id)
  "Return what is wrong with the history of the session ID, or nil."
  (condition-case err
      (progn (efrit-history-cache (efrit-history-open id)) nil)
    (efrit-history-damaged (cadr err))))

(defun efrit-session--exhausted (session request)
  "Return why no limit of the instance lets REQUEST continue SESSION, or nil."
  (let* ((history (efrit-history-open session))
         (reached (or (efrit-session-limit-reached history)
                      (and (equal (efrit-request-type request) "command")
                           (>= (efrit-history-all-calls history) efrit-max-tool-calls)
                           (format "The session has used its %d tool calls%s"
                                   efrit-max-tool-calls
                                   (efrit-request-limit-name :tool-calls))))))
    (efrit-history-cache history)
    ;; An earlier Emacs may have begun this very request: its end says what was done.
    (and reached
         (not (equal (efrit-history-request history) (efrit-request-id request)))
         (concat reached ": begin another session, or raise the limit"))))

(defun efrit-session-of (id)
  "Return what is under way in the session ID, or nil."
  (seq-find (lambda (session) (equal (efrit-history-id (efrit-session-history session)) id))
            efrit-sessions))

(defun efrit-sessions-under-way ()
  "Return the ids of the sessions under way, or t when no other can be begun.
What continues a session waits for what is under way in it."
  (or (>= (length efrit-sessions) efrit-concurrency)
      (mapcar (lambda (session) (efrit-history-id (efrit-session-history session)))
              efrit-sessions)))

;;;; Whose step is next

(defun efrit-session-ready-p (session)
  "Return non-nil when SESSION waits for nothing but its turn."
  (or (efrit-session-ordered session)
      (not (or (memq (efrit-session-state session) efrit-session-waiting-states)
               (< 0.0 (or (efrit-session-pause session) 0.0))))))

(defun efrit-sessions-pause ()
  "Return the seconds until a step is to be recorded again, or nil."
  (let ((pauses (delq nil (mapcar #'efrit-session-pause efrit-sessions))))
    (and pauses (apply #'min pauses))))

(defun efrit-session-next ()
  "Return the session whose step is next, or nil; its next one comes last."
  (let ((session (seq-find #'efrit-session-ready-p efrit-sessions)))
    (when session
      (setq efrit-sessions (append (remq session efrit-sessions) (list session))))
    session))

(defun efrit-session-note-ends ()
  "Note which sessions are to end: by order, or because their time is over."
  (dolist (session efrit-sessions)
    (unless (efrit-session-ordered session)
      (efrit-session-ordered-to-end session (efrit-session-order session)))
    ;; Code of a request may have removed what the call lives on.
    (when (and (efrit-session-call session) (eq (efrit-session-state session) 'asking))
      (efrit-model-ensure-running (efrit-session-call session)))))

;;;; A step

(defun efrit-session-step (session)
  "Do the next step of SESSION; return non-nil when it is over.
A step that could not be recorded is done again after a pause."
  (condition-case err
      (progn
        (unless (efrit-session-ordered session)
          (efrit-session-ordered-to-end session (efrit-session-order session)))
        (cond ((eq (efrit-session-state session) 'over))
              ;; What came of it is decided: no order changes that.
              ((and (efrit-session-ordered session)
                    (not (eq (efrit-session-state session) 'ending)))
               (efrit-session-end-by-order session))
              (t (let ((efrit-eval-directory (efrit-session-directory session)))
                   (efrit-session--take-step session))))
        (efrit-session-step-recorded session))
    (efrit-record-failed (efrit-session-record-failed session err))  ; gate: unrecorded-session
    (error (efrit-session-fail session err)))
  (when (eq (efrit-session-state session) 'over)
    (efrit-history-cache (efrit-session-history session))
    (setq efrit-sessions (remq session efrit-sessions))
    t))

(defconst efrit-session-steps
  '((begin . efrit-session-step-begin)
    (ask . efrit-session-step-ask)
    (reply . efrit-session-take-reply)
    (said . efrit-session-take-said)
    (failed . efrit-session-take-failure)
    (act . efrit-session-step-act)
    (acted . efrit-session-take-outcome)
    (ending . efrit-session-record-end))
  "The step that each state of a session calls for.")

(defun efrit-session--take-step (session)
  "Take the step that the state of SESSION calls for."
  (let ((step (alist-get (efrit-session-state session) efrit-session-steps)))
    (when step (funcall step session))))

;;;; Without a server

(defun efrit-session-wake ()
  "Have the sessions go on where no server does that."
  (run-with-timer 0 nil #'efrit-session-work))

(defun efrit-session-work ()
  "Do the steps that are due, where no server does that."
  (let ((session (efrit-session-next)))
    (when session
      (when (and (efrit-session-step session) (efrit-session-on-end session))
        (funcall (efrit-session-on-end session) session))
      (efrit-session-wake))))

(provide 'efrit-session-scheduler)
;;; efrit-session-scheduler.el ends here
