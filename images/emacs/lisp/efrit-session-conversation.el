;;; efrit-session-conversation.el --- The part of a conversation that the model gets  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Messages in, the messages to send out: never more than a limit of bytes, whatever
;; they consist of.  The newest are sent whole, older ones with their texts cut, still
;; older ones not at all, with a line about what is left out.  Messages leave in
;; batches, so that what is sent begins the same for many turns: the model's cache
;; depends on that.  A message that leaves is forgotten: the work of a turn depends
;; on what is sent, not on how long the session is.  Pure.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'efrit-json)
(require 'efrit-print)

(cl-defstruct (efrit-conversation (:constructor efrit-conversation-make))
  "The messages of a session that are still sent.
WHOLE and SHORT are lists of (BYTES . MESSAGE), the newest first: those sent as
they are, and older ones whose texts are cut; WHOLE-BYTES and SHORT-BYTES are
their sums.  COUNT is how many messages there were, DROPPED how many of the
oldest are not sent.  QUESTION is the text of what was asked last, cut, and
QUESTION-NUMBER the number of its message."
  whole short (whole-bytes 0) (short-bytes 0) (count 0) (dropped 0)
  question (question-number 0))

(defconst efrit-conversation-max-bytes 400000
  "Most bytes of JSON that the messages of one turn have.")

(defconst efrit-conversation-question-bytes 300000
  "Most bytes of JSON of what one request asks; a longer one is refused.")

(defconst efrit-conversation--reserve 20000
  "Bytes that are kept for the line about what is left out.")

(defconst efrit-conversation--short-bytes 40000
  "Most bytes of messages whose texts are cut.")

(defconst efrit-conversation--short 400
  "Bytes that are sent of each text in an older message.")

(defconst efrit-conversation--short-question 4096
  "Bytes that are sent of what an older request asked.")

(defconst efrit-conversation--limits '(65536 16384 4096 1024 400)
  "Limits of each text that are tried where the newest messages are too long.")

;;;; Adding

(defun efrit-conversation-add (conversation message &optional question-p)
  "Add MESSAGE to CONVERSATION; QUESTION-P says that it is what a request asks."
  (let ((bytes (efrit-conversation--bytes message)))
    (push (cons bytes message) (efrit-conversation-whole conversation))
    (cl-incf (efrit-conversation-whole-bytes conversation) bytes)
    (cl-incf (efrit-conversation-count conversation))
    (when question-p
      (setf (efrit-conversation-question conversation) (efrit-conversation--question-text message)
            (efrit-conversation-question-number conversation)
            (efrit-conversation-count conversation)))
    (when (< (efrit-conversation--budget conversation) 0)  ; gate: conversation-limit
      (efrit-conversation--shorten-oldest conversation)
      (efrit-conversation--drop-oldest conversation))))

(defun efrit-conversation-messages (conversation)
  "Return the newest messages of CONVERSATION as they were added, the last first."
  (mapcar #'cdr (efrit-conversation-whole conversation)))

(defun efrit-conversation-last (conversation)
  "Return the last message of CONVERSATION, or nil."
  (cdar (efrit-conversation-whole conversation)))

(defun efrit-conversation--bytes (message)
  "Return the bytes of MESSAGE as JSON, with the comma after it."
  (1+ (string-bytes (efrit-json-text message))))

(defun efrit-conversation--budget (conversation)
  "Return how many bytes more CONVERSATION may have; negative when it is too long."
  (- efrit-conversation-max-bytes efrit-conversation--reserve
     (efrit-conversation-whole-bytes conversation)
     (efrit-conversation-short-bytes conversation)))

(defun efrit-conversation--question-text (message)
  "Return the text in MESSAGE, which a request asks, cut."
  (efrit-conversation--cut
   (mapconcat (lambda (block)
                (if (equal (alist-get 'type block) "text") (alist-get 'text block) ""))
              (alist-get 'content message) "\n")
   efrit-conversation--short-question))

;;;; What leaves

(defun efrit-conversation--starts-p (entry)
  "Return non-nil when what is sent may begin with ENTRY, a (BYTES . MESSAGE).
The API takes no result of a tool without the call before it."
  (not (seq-some (lambda (block) (equal (alist-get 'type block) "tool_result"))
                 (alist-get 'content (cdr entry)))))

(defun efrit-conversation--next-start (entries)
  "Return the tail of ENTRIES, the oldest first, after what belongs to the first.
Nil when all of them do."
  (cl-member-if #'efrit-conversation--starts-p (cdr entries)))

(defun efrit-conversation--shorten-oldest (conversation)
  "Cut the oldest whole messages of CONVERSATION until half the limit is free."
  (let ((entries (reverse (efrit-conversation-whole conversation))) next)
    (while (and (> (efrit-conversation-whole-bytes conversation)
                   (/ efrit-conversation-max-bytes 2))
                (setq next (efrit-conversation--next-start entries)))
      (while (not (eq entries next))
        (let* ((entry (pop entries))
               (message (efrit-conversation--shorten (cdr entry)))
               (bytes (efrit-conversation--bytes message)))
          (push (cons bytes message) (efrit-conversation-short conversation))
          (cl-incf (efrit-conversation-short-bytes conversation) bytes)
          (cl-decf (efrit-conversation-whole-bytes conversation) (car entry)))))
    (setf (efrit-conversation-whole conversation) (reverse entries))))

(defun efrit-conversation--drop-oldest (conversation)
  "Drop the oldest short messages of CONVERSATION where they are too long."
  (when (> (efrit-conversation-short-bytes conversation) efrit-conversation--short-bytes)
    (let ((entries (reverse (efrit-conversation-short conversation))))
      (while (and entries (> (efrit-conversation-short-bytes conversation)
                             (/ efrit-conversation--short-bytes 2)))
        (let ((next (efrit-conversation--next-start entries)))
          (while (not (eq entries next))
            (cl-decf (efrit-conversation-short-bytes conversation) (car (pop entries)))
            (cl-incf (efrit-conversation-dropped conversation)))))
      (setf (efrit-conversation-short conversation) (reverse entries)))))

;;;; What is sent

(defun efrit-conversation-to-send (conversation)
  "Return the messages of CONVERSATION as they are sent, a vector."
  (efrit-conversation--join
   (append (efrit-conversation--opening conversation)
           (reverse (mapcar #'cdr (efrit-conversation-short conversation)))
           (reverse (efrit-conversation--newest conversation)))))

(defun efrit-conversation--opening (conversation)
  "Return a list of the message about what CONVERSATION no longer has, or nil."
  (let ((dropped (efrit-conversation-dropped conversation))
        (question (efrit-conversation-question conversation)))
    (when (> dropped 0)
      `(((role . "user")
         (content
          . [((type . "text")
              (text . ,(if (and question
                                (<= (efrit-conversation-question-number conversation) dropped))
                           (format "[%d earlier messages are left out, among them this request:]\n%s"
                                   dropped question)
                         (format "[%d earlier messages are left out]" dropped))))]))))))

(defun efrit-conversation--newest (conversation)
  "Return the newest messages of CONVERSATION, the last first, within the limit."
  (let ((messages (efrit-conversation-messages conversation))
        (limits efrit-conversation--limits)
        (room (+ (efrit-conversation--budget conversation)
                 (efrit-conversation-whole-bytes conversation)))
        fitting)
    (if (<= (efrit-conversation-whole-bytes conversation) room)
        messages
      (while (and limits (not fitting))
        (let ((cut (mapcar (lambda (message)
                             (efrit-conversation--shorten message (car limits)))
                           messages)))
          (if (<= (apply #'+ (mapcar #'efrit-conversation--bytes cut)) room)
              (setq fitting cut)
            (pop limits))))
      (or fitting
          (mapcar (lambda (message)
                    (efrit-conversation--as-text message (/ room (length messages))))
                  messages)))))

(defun efrit-conversation--as-text (message bytes)
  "Return MESSAGE as one text of at most BYTES, whatever blocks it consists of."
  `((role . ,(alist-get 'role message))
    (content . [((type . "text")
                 ;; JSON within JSON is at most twice as long.
                 (text . ,(efrit-conversation--cut (efrit-json-text message)
                                                   (- (/ bytes 2) 200))))])))

(defun efrit-conversation--shorten (message &optional limit)
  "Return MESSAGE with each text in it cut to LIMIT bytes, by default few."
  (let ((limit (or limit
                   (if (and (equal (alist-get 'role message) "user")
                            (efrit-conversation--starts-p (cons 0 message)))
                       efrit-conversation--short-question
                     efrit-conversation--short))))
    `((role . ,(alist-get 'role message))
      (content . ,(vconcat (mapcar (lambda (block)
                                     (efrit-conversation--shorten-block block limit))
                                   (alist-get 'content message)))))))

(defun efrit-conversation--shorten-block (block limit)
  "Return the content BLOCK with its text cut to LIMIT bytes."
  (pcase (alist-get 'type block)
    ("text" `((type . "text")
              (text . ,(efrit-conversation--cut (alist-get 'text block) limit))))
    ("tool_result"
     (let ((copy (copy-alist block)))
       (setf (alist-get 'content copy)
             (vconcat (mapcar (lambda (part) (efrit-conversation--shorten-block part limit))
                              (alist-get 'content block))))
       copy))
    ("tool_use"
     (let ((input (efrit-json-text (alist-get 'input block)))
           (copy (copy-alist block)))
       (when (> (string-bytes input) limit)
         (setf (alist-get 'input copy)
               `((input_left_out . ,(efrit-conversation--cut input limit)))))
       copy))
    (type
     (let ((bytes (efrit-conversation--bytes block)))
       (if (<= bytes limit)
           block
         `((type . "text") (text . ,(format "[%s of %d bytes left out]" type bytes))))))))

(defun efrit-conversation--cut (text limit)
  "Return the head of TEXT of LIMIT bytes, and how much is left out of it."
  (let ((omitted (- (string-bytes text) limit)))
    (if (<= omitted 0)
        text
      (format "%s\n[%d bytes left out]" (efrit-print-head text limit) omitted))))

(defun efrit-conversation--join (messages)
  "Return MESSAGES, a list, as a vector with neighbours of one role made one."
  (let (joined)
    (dolist (message messages)
      (if (and joined (equal (alist-get 'role message) (caar joined)))
          (push (alist-get 'content message) (cdr (car joined)))
        (push (list (alist-get 'role message) (alist-get 'content message)) joined)))
    (vconcat (mapcar (pcase-lambda (`(,role . ,contents))
                       `((role . ,role) (content . ,(apply #'vconcat (reverse contents)))))
                     (nreverse joined)))))

(provide 'efrit-session-conversation)
;;; efrit-session-conversation.el ends here
