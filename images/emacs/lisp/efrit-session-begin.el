;;; efrit-session-begin.el --- Begin a chat or a command, or go on with it  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The world is taken down once, when the request begins.  What an earlier request
;; of the session left open gets its results first; what an Emacs that has ended
;; left in the middle of this very request goes on where it was.  Where the end was
;; put down, and only its answer is missing, that answer is all there is to do.


;;; Code:

(require 'efrit-settings)
(require 'efrit-json)
(require 'efrit-history)
(require 'efrit-progress)
(require 'efrit-prompt)
(require 'efrit-session)
(require 'efrit-session-ask)
(require 'efrit-session-act)
(require 'efrit-session-end)

(defun efrit-session--begin (session)
  "Begin with the request of SESSION, or do what is left to do for it."
  (let* ((history (efrit-session-history session))
         (known (equal (efrit-history-request history)
                       (efrit-session-request-id session))))
    (if (and known (efrit-history-ended history))
        (efrit-session--give session (efrit-history-ended history))
      (efrit-session--record-request session known))))

(defun efrit-session--record-request (session resumed)
  "Record the request of SESSION with the world as it is, and what it asks.
With RESUMED, go on with it where it was."
  (let* ((history (efrit-session-history session))
         (id (efrit-session-request-id session))
         (snapshot (efrit-prompt-snapshot (efrit-history-id history)
                                          (length (efrit-history-messages history)))))
    (efrit-history-add history "request" nil :request id
                       :kind (symbol-name (efrit-session-kind session))
                       :snapshot snapshot)
    (efrit-progress-note (efrit-session-progress session) "snapshot" :world snapshot)
    (if (and resumed (efrit-history-messages history))
        (efrit-session--resume session)
      (efrit-session--open session snapshot))))

(defun efrit-session--open (session snapshot)
  "Put what the request of SESSION asks to the conversation, with SNAPSHOT."
  (let* ((history (efrit-session-history session))
         (content (efrit-session-content session))
         (answered (efrit-session--answer-calls session content)))
    (efrit-history-add
     history "message" nil
     :message (apply #'efrit-history-results-message history
                     (delq nil
                           (list (unless answered (efrit-history-text content))
                                 (when (eq (efrit-session-kind session) 'command)
                                   (efrit-history-text
                                    (efrit-json-text
                                     `((context . ,snapshot)))))))))
    (setf (efrit-session-state session) 'ask)))

(defun efrit-session--answer-calls (session content)
  "Give the calls an earlier request of SESSION left open their results.
A question gets CONTENT; return non-nil when there was one."
  (let ((history (efrit-session-history session)) answered)
    (dolist (call (efrit-history-open-calls history) answered)
      (cond ((and (equal (alist-get 'name call) "request_user_input") (not answered))
             (setq answered t)
             (efrit-session--record session call "success" content))
            (t (efrit-session--leave-call session call))))))

(defun efrit-session--resume (session)
  "Go on with SESSION where an Emacs that has ended left it."
  (let* ((history (efrit-session-history session))
         (last (car (efrit-history-messages history)))
         (open (efrit-history-open-calls history)))
    (dolist (call open)
      (when (efrit-history-begun-p history call)
        (efrit-session--leave-call session call)))
    (cond ((equal (alist-get 'role last) "user")
           (setf (efrit-session-state session) 'ask))
          ((efrit-session--unified-p session)
           (if (efrit-history-begun history)
               (efrit-session--say session
                                   (efrit-session--unified-outcome
                                    session "interrupted"
                                    "It was interrupted; what it did is unknown."))
             (efrit-session--take-content session (alist-get 'content last) "end_turn")))
          (t
           (efrit-session--take-content session (alist-get 'content last) "tool_use")
           (setf (efrit-session-calls session) (efrit-history-open-calls history))))))

(provide 'efrit-session-begin)
;;; efrit-session-begin.el ends here
