;;; efrit-session-begin.el --- Begin a chat or a command, or go on with it  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The world is taken down once, when the request begins, in one record with what the
;; request asks and with the results of the calls that an earlier request of the
;; session left open.  What an Emacs that has ended left in the middle of this very
;; request goes on where it was.  Where the end was put down, and only its answer is
;; missing, that answer is all there is to do.


;;; Code:

(require 'efrit-settings)
(require 'efrit-json)
(require 'efrit-session-history)
(require 'efrit-session-progress)
(require 'efrit-session-prompt)
(require 'efrit-text)
(require 'efrit-tool)
(require 'efrit-session)
(require 'efrit-session-ask)
(require 'efrit-session-act)
(require 'efrit-session-end)

(defun efrit-session-step-begin (session)
  "Begin with the request of SESSION, or do what is left to do for it."
  (let* ((history (efrit-session-history session))
         (continued (equal (efrit-history-request history)
                       (efrit-session-request-id session))))
    (cond ((and continued (efrit-history-ended history))  ; gate: session-ended
           (efrit-session-give session (efrit-history-ended history)))
          ;; Behind a message of this request only: the last one may be an earlier answer.
          ;; gate: session-asked
          ((and continued (efrit-history-asked history)) (efrit-session--resume session))
          (t (efrit-session--open session)))))

(defun efrit-session--open (session)
  "Record what the request of SESSION asks, with the world as it is."
  (let* ((history (efrit-session-history session))
         (snapshot (efrit-prompt-snapshot (efrit-history-id history)
                                          (efrit-history-message-count history))))
    (efrit-history-add history "request" nil
                       :request (efrit-session-request-id session)
                       :kind (symbol-name (efrit-session-kind session))
                       :snapshot snapshot
                       :message (efrit-session--question session snapshot))
    (efrit-progress-note (efrit-session-progress session) "snapshot" :world snapshot)
    (efrit-session-message-recorded session)))

(defun efrit-session--question (session snapshot)
  "Return the message with what the request of SESSION asks, and SNAPSHOT.
The calls that an earlier request left open have their results in it: the first
question among them that which was asked now."
  (let* ((history (efrit-session-history session))
         (content (efrit-session-content session))
         (open (efrit-history-open-calls history))
         (question (seq-find (lambda (call)
                               (eq (efrit-tool-ends (alist-get 'name call)) 'need-input))
                             open)))
    (efrit-secret-refresh)
    `((role . "user")
      (content
       . ,(vconcat
           (mapcar (lambda (call)
                     (cond ((not (memq call open)) (efrit-history-result history call))
                           ((eq call question)  ; gate: question-answer
                            (efrit-session-result-block call "success"
                                                        (efrit-json-clean content)))
                           (t (apply #'efrit-session-result-block call
                                     (efrit-session-left-call history call)))))
                   (efrit-history-last-calls history))
           (unless question (list (efrit-history-text content)))
           (when (eq (efrit-session-kind session) 'command)
             (list (efrit-history-text
                    (efrit-session--snapshot-text snapshot)))))))))

(defconst efrit-session--snapshot-bytes 32768
  "Most bytes of the facts about Emacs that the model is sent.")

(defun efrit-session--snapshot-text (snapshot)
  "Return the JSON of SNAPSHOT, cut where it is too long."
  (efrit-text-cut (efrit-json-text `((context . ,snapshot))) efrit-session--snapshot-bytes))

(defun efrit-session--resume (session)
  "Go on with SESSION where an Emacs that has ended left it."
  (let* ((history (efrit-session-history session))
         (progress (efrit-session-progress session))
         (reply (efrit-history-reply history)))
    (efrit-progress-resume progress (efrit-history-turns history)
                           (efrit-history-calls history) (efrit-history-tokens history))
    (if (null reply)
        (efrit-session-message-recorded session)
      (efrit-session-reply-recorded session
                                    (alist-get 'content (alist-get 'message reply))
                                    ;; Version 0.1 did not record it.
                                    (or (alist-get 'stop_reason reply) "end_turn")
                                    (efrit-session-recorded-unreadable reply)))))

(provide 'efrit-session-begin)
;;; efrit-session-begin.el ends here
