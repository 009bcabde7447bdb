;;; efrit-session-history.el --- What a session has said and done, durably  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A session is a file of records, sessions/<id>.ndjson; what is known of it is
;; what the records add up to, so that a restarted Emacs knows the same.  A
;; record counts once it is written.  Each has a number, `n'; of two with one number
;; the later counts: a write that failed may have left its record behind.  Nothing
;; here asks a model or runs a tool.

;;; Code:

(require 'cl-lib)
(require 'let-alist)
(require 'seq)
(require 'efrit-settings)
(require 'efrit-files)
(require 'efrit-json)
(require 'efrit-print)
(require 'efrit-secret)
(require 'efrit-session-conversation)

(cl-defstruct (efrit-history (:constructor efrit-history--make))
  "What the records of the session ID add up to.
CONVERSATION: the messages, as far as they are sent, an `efrit-conversation'.
BEGUN: ids of the tool calls of the last answer that were begun; RESULTS: their results, (ID . BLOCK).  WORLD:
what the tools keep.  REQUEST: id of the request served last, ENDED the record of
its end, nil before; TURNS, CALLS and TOKENS count within it, ALL-TURNS, ALL-CALLS
and ALL-TOKENS in all requests.  SIGNATURE: that of the call begun last, REPEATS how
often in a row.  ASKED: whether what it asks is in the conversation.  REPLY: the record
of the model's last message, nil after any other message.  NUMBER: that of the last
record.  TORN: the last line may lack its end."
  id (conversation (efrit-conversation-make)) begun results world request asked ended reply
  (turns 0) (calls 0) (tokens 0) (all-turns 0) (all-calls 0) (all-tokens 0)
  signature (repeats 0) (number 0) torn)

(defun efrit-history-path (id)
  "Return the path of the session ID."
  (efrit-files-path "sessions" (concat id ".ndjson")))

(defconst efrit-history--max-bytes 134217728
  "Size beyond which the file of a session is not read.")

(defun efrit-history-known-p (id)
  "Return non-nil when there is a session ID."
  (efrit-files-isolated (file-exists-p (efrit-history-path id))))

(defun efrit-history-problem (id)
  "Return why the session ID cannot be gone on with, or nil.
To open a pipe would keep this Emacs until somebody writes to it."
  (let ((attributes (efrit-files-isolated
                      (file-attributes (efrit-history-path id) 'integer))))
    (cond ((null attributes) nil)
          ((not (efrit-files-regular-p attributes))  ; gate: session-file
           (format "The history of the session %s is not an ordinary file: remove %s"
                   id (efrit-history-path id)))
          ((> (file-attribute-size attributes) efrit-history--max-bytes)
           (format "The history of the session %s has %d bytes, of at most %d: begin another session"
                   id (file-attribute-size attributes) efrit-history--max-bytes)))))

;;;; Reading

(defun efrit-history-open (id)
  "Return the session ID, a new one when there is none."
  (or (efrit-history--take-cached id)
      (efrit-history--read id)))

(defun efrit-history--read (id)
  "Return what the file of the session ID says.
Signal `efrit-history-damaged' when that is not what was written to it."
  (let ((history (efrit-history--make :id id))
        (text (efrit-files-isolated
                (condition-case nil
                    (efrit-files-read (efrit-history-path id))
                  (file-missing "")))))
    (setf (efrit-history-torn history)
          (not (or (string-empty-p text) (string-suffix-p "\n" text))))
    (dolist (record (efrit-history--records id text))
      (efrit-history--apply history record))
    history))

(defun efrit-history--records (id text)
  "Return the records in TEXT, the content of the file of session ID, that count."
  (let ((line-number 0) records)
    (dolist (line (split-string text "\n"))
      (cl-incf line-number)
      ;; A line that a crash cut short says nothing.
      (let* ((record (condition-case nil (efrit-json-parse line) (error nil)))
             (number (and (consp record) (alist-get 'n record))))
        (unless (if (consp record)
                    (efrit-history--sound-p record)
                  (efrit-history--cut-short-p line))
          (signal 'efrit-history-damaged
                  (list (efrit-history--damage id line-number))))
        (cond ((not (consp record)))
              ((and number (equal number (alist-get 'n (car records))))
               (setcar records record))  ; gate: record-number
              (t (push record records)))))
    (nreverse records)))

(defun efrit-history--damage (id line)
  "Return what to say of the session ID when LINE of its file is not a record."
  (format "The history of the session %s is damaged: line %d of %s is not a record of a session. \
Begin another session, or put a sound copy of that file back"
          id line (efrit-history-path id)))

(defconst efrit-history--beginning "{\"type\":\""
  "What each record begins with, as it is written.")

(defun efrit-history--cut-short-p (line)
  "Return non-nil when LINE may be a record that a crash cut short, or nothing.
Where power is lost, a disk may have zeros for what was not on it yet."
  (let ((head (or (car (split-string line "\0+" t)) "")))
    (or (string-prefix-p efrit-history--beginning head)
        (string-prefix-p head efrit-history--beginning))))

(defun efrit-history--sound-p (record)
  "Return non-nil when RECORD, an alist, has members of the kinds that are written."
  (let-alist record
    (and (stringp .type)
         (or (null .n) (natnump .n))
         (or (null .tokens) (natnump .tokens))
         (or (not (or (equal .type "message") .message))
             (efrit-history--sound-message-p .message))
         (pcase .type
           ("request" (stringp .request))
           ("result" (and (stringp .call) (consp .block) (listp .world)
                          (efrit-history--objects-p (alist-get 'todos .world []))
                          (natnump (alist-get 'last_todo_number .world 0))))
           (_ t)))))

(defun efrit-history--sound-message-p (message)
  "Return non-nil when MESSAGE has a role and blocks."
  (and (consp message)
       (stringp (alist-get 'role message))
       (efrit-history--objects-p (alist-get 'content message))))

(defun efrit-history--objects-p (value)
  "Return non-nil when VALUE is a vector of objects that are not empty."
  (and (vectorp value) (cl-every #'consp value)))

(defun efrit-history--apply (history record)
  "Add RECORD to what HISTORY knows."
  (let-alist record
    (setf (efrit-history-number history) (or .n (1+ (efrit-history-number history))))
    (pcase .type
      ("request"
       (unless (equal .request (efrit-history-request history))
         (setf (efrit-history-turns history) 0
               (efrit-history-calls history) 0
               (efrit-history-tokens history) 0
               (efrit-history-asked history) nil))
       (setf (efrit-history-request history) .request
             (efrit-history-ended history) nil)
       ;; Version 0.1 wrote what is asked as a message of its own.
       (when .message (efrit-history--apply-message history record)))
      ("message" (efrit-history--apply-message history record))
      ("begun"
       (unless (member .call (efrit-history-begun history))
         (cl-incf (efrit-history-calls history))
         (cl-incf (efrit-history-all-calls history))
         (setf (efrit-history-repeats history)
               (efrit-history-repeats-of history .signature)
               (efrit-history-signature history) .signature)
         (push .call (efrit-history-begun history))))
      ("result"
       (setf (alist-get .call (efrit-history-results history) nil nil #'equal) .block
             (efrit-history-world history) .world))
      ("end" (setf (efrit-history-ended history) record)))))

(defun efrit-history--apply-message (history record)
  "Add the message in RECORD to what HISTORY knows."
  (let* ((message (alist-get 'message record))
         (reply (equal (alist-get 'role message) "assistant")))
    (efrit-conversation-add (efrit-history-conversation history) message
                            (equal (alist-get 'type record) "request"))
    (cl-incf (efrit-history-tokens history) (or (alist-get 'tokens record) 0))
    (cl-incf (efrit-history-all-tokens history) (or (alist-get 'tokens record) 0))
    (when reply
      (cl-incf (efrit-history-turns history))
      (cl-incf (efrit-history-all-turns history)))
    (setf (efrit-history-asked history) t
          (efrit-history-reply history) (and reply record)
          (efrit-history-begun history) nil
          (efrit-history-results history) nil)))

;;;; Keeping

(defvar efrit-history--cache nil
  "Histories that need not be read again, the newest first, as (STAMP . HISTORY).
STAMP is that of the file which HISTORY is all of.")

(defconst efrit-history--max-cached 8
  "How many histories are kept.")

(defun efrit-history-cache (history)
  "Keep HISTORY, whose request is over, for the next request of the session.
A session that is continued is not read again from its beginning each time."
  (let ((stamp (efrit-history--stamp (efrit-history-id history))))
    (when (and stamp (not (efrit-history-torn history)))
      (setq efrit-history--cache
            (seq-take (cons (cons stamp history) efrit-history--cache)
                      efrit-history--max-cached)))))

(defun efrit-history--take-cached (id)
  "Return the history of the session ID that was kept, if its file is the same.
It is kept no longer."
  (let ((cached (seq-find (lambda (entry) (equal id (efrit-history-id (cdr entry))))
                        efrit-history--cache)))
    (when cached
      (setq efrit-history--cache
            (seq-remove (lambda (entry) (equal id (efrit-history-id (cdr entry))))
                        efrit-history--cache))
      (and (equal (car cached) (efrit-history--stamp id)) (cdr cached)))))

(defun efrit-history--stamp (id)
  "Return what tells the versions of the file of the session ID apart, or nil."
  (let ((attributes (efrit-files-isolated
                      (file-attributes (efrit-history-path id) 'integer))))
    (and attributes
         (cons (efrit-history-path id) (efrit-files-stamp attributes)))))

;;;; Writing

(defun efrit-history-add (history type sync &rest members)
  "Record TYPE with MEMBERS, a plist, in HISTORY; with SYNC it is on the disk then.
Signal `efrit-record-failed' when it could not be written; it does not count
then, and what is recorded next takes its place."
  (let* ((record `((type . ,type)
                   (n . ,(1+ (efrit-history-number history)))
                   ,@(efrit-json-object members)))
         ;; What a reader would see: the same after a restart as before.
         (line (efrit-secret-json record #'efrit-json-text
                                  (efrit-history-id history) (plist-get members :request)
                                  (efrit-history-request history)))
         (torn (efrit-history-torn history)))
    (setf (efrit-history-torn history) t)
    (condition-case err
        (efrit-files-isolated
          (let ((write-region-inhibit-fsync (not sync)))
            (efrit-files-append (efrit-history-path (efrit-history-id history))
                                (concat (if torn "\n" "") line "\n"))))
      (file-error
       (signal 'efrit-record-failed (list (error-message-string err)))))
    (setf (efrit-history-torn history) nil)
    (efrit-history--apply history (efrit-json-parse line))))

;;;; The conversation

(defun efrit-history-last-calls (history)
  "Return the tool calls of the last message of HISTORY when it is the model's."
  (let ((last (efrit-conversation-last (efrit-history-conversation history))))
    (when (equal (alist-get 'role last) "assistant")
      (seq-filter (lambda (block) (equal (alist-get 'type block) "tool_use"))
                  (alist-get 'content last)))))

(defun efrit-history-open-calls (history)
  "Return the tool calls in HISTORY that have no result, in their order."
  (seq-remove (lambda (call)
                (assoc (alist-get 'id call) (efrit-history-results history)))
              (efrit-history-last-calls history)))

(defun efrit-history-result (history call)
  "Return the result of CALL, of the last message in HISTORY, as a block, or nil."
  (cdr (assoc (alist-get 'id call) (efrit-history-results history))))

(defun efrit-history-begun-p (history call)
  "Return non-nil when the tool call CALL in HISTORY was begun."
  (member (alist-get 'id call) (efrit-history-begun history)))

(defun efrit-history-repeats-of (history signature)
  "Return how often in a row HISTORY would have come to a call of SIGNATURE."
  (if (and signature (equal signature (efrit-history-signature history)))
      (1+ (efrit-history-repeats history))
    1))

(defun efrit-history-results-message (history)
  "Return the message of all results in HISTORY."
  `((role . "user")
    (content . ,(vconcat (mapcar (lambda (call) (efrit-history-result history call))
                                 (efrit-history-last-calls history))))))

(defun efrit-history-text (text)
  "Return the content block of TEXT."
  `((type . "text") (text . ,(efrit-json-clean text))))

;;;; What is sent of it

(defun efrit-history-message-count (history)
  "Return how many messages HISTORY has had."
  (efrit-conversation-count (efrit-history-conversation history)))

(defun efrit-history-to-send (history)
  "Return the messages of HISTORY as they are sent, a vector."
  (efrit-conversation-to-send (efrit-history-conversation history)))

(provide 'efrit-session-history)
;;; efrit-session-history.el ends here
