;;; efrit-session-conversation-test.el --- Tests of what is sent of a conversation  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Conversations of every make-up in, messages within the limit out, which the API takes.

;;; Code:

(require 'ert)
(require 'cl-lib)
(require 'seq)
(require 'efrit-session-conversation)

(defun efrit-conversation-test--message (role &rest blocks)
  "Return the message of ROLE with BLOCKS."
  `((role . ,role) (content . ,(vconcat blocks))))

(defun efrit-conversation-test--text (text)
  "Return the block of TEXT."
  `((type . "text") (text . ,text)))

(defun efrit-conversation-test--call (id input)
  "Return the call ID of a tool with the text INPUT."
  `((type . "tool_use") (id . ,id) (name . "eval_sexp") (input . ((expr . ,input)))))

(defun efrit-conversation-test--result (id text)
  "Return the result TEXT of the call ID."
  `((type . "tool_result") (tool_use_id . ,id)
    (content . [,(efrit-conversation-test--text text)]) (is_error . :false)))

(defun efrit-conversation-test--ids (message type name)
  "Return the member NAME of each block of TYPE in MESSAGE."
  (delq nil (mapcar (lambda (block)
                      (and (equal (alist-get 'type block) type) (alist-get name block)))
                    (alist-get 'content message))))

(defun efrit-conversation-test--check (conversation)
  "Fail unless what is sent of CONVERSATION is within the limit and well formed.
Return it."
  (let* ((sent (efrit-conversation-to-send conversation))
         (bytes (string-bytes (efrit-json-text sent)))
         previous)
    (should (<= bytes efrit-conversation-max-bytes))
    (should (equal (alist-get 'role (aref sent 0)) "user"))
    (seq-doseq (message sent)
      (should-not (equal (alist-get 'role message) (alist-get 'role previous)))
      (should (> (length (alist-get 'content message)) 0))
      ;; Each result follows its call, and each call has its result.
      (should (equal (efrit-conversation-test--ids message "tool_result" 'tool_use_id)
                     (efrit-conversation-test--ids previous "tool_use" 'id)))
      (setq previous message))
    sent))

(defun efrit-conversation-test--filled (turns exchange &optional check-every)
  "Return a conversation that was asked something and had TURNS turns.
EXCHANGE is called with the number of a turn and returns its messages.  What is
sent is checked after the first and the last turn, and CHECK-EVERY so many."
  (let ((conversation (efrit-conversation-make)))
    (efrit-conversation-add conversation
                            (efrit-conversation-test--message
                             "user" (efrit-conversation-test--text "The task of all this."))
                            t)
    (dotimes (turn turns)
      (dolist (message (funcall exchange turn))
        (efrit-conversation-add conversation message))
      (when (or (memq turn (list 0 (1- turns)))
                (and check-every (= 0 (mod turn check-every))))
        (efrit-conversation-test--check conversation)))
    conversation))

(defun efrit-conversation-test--work (turn calls input output)
  "Return the messages of TURN: CALLS with INPUT, their OUTPUT."
  (let ((ids (mapcar (lambda (call) (format "toolu_%d_%d" turn call))
                     (number-sequence 1 calls))))
    (list (apply #'efrit-conversation-test--message "assistant"
                 (mapcar (lambda (id) (efrit-conversation-test--call id input)) ids))
          (apply #'efrit-conversation-test--message "user"
                 (mapcar (lambda (id) (efrit-conversation-test--result id output)) ids)))))

(defmacro efrit-conversation-test--limited (&rest body)
  "Run BODY with limits a tenth of the usual ones."
  (declare (indent 0) (debug t))
  `(let ((efrit-conversation-max-bytes 40000)
         (efrit-conversation--reserve 2000)
         (efrit-conversation--short-bytes 4000)
         (efrit-conversation--short 40)
         (efrit-conversation--short-question 400)
         (efrit-conversation--limits '(6553 1638 409 102 40)))
     ,@body))

(ert-deftest efrit-conversation-long-inputs-of-tools-are-within-the-limit ()
  (efrit-conversation-test--limited
    (efrit-conversation-test--filled
     100 (lambda (turn) (efrit-conversation-test--work turn 1 (make-string 5000 ?x) "1")) 10)))

(ert-deftest efrit-conversation-many-short-messages-are-within-the-limit ()
  (efrit-conversation-test--limited
    (let ((conversation (efrit-conversation-test--filled
                         2000 (lambda (turn) (efrit-conversation-test--work turn 1 "1" "1")) 200)))
      (should (= (efrit-conversation-count conversation) 4001)))))

(ert-deftest efrit-conversation-many-calls-in-one-turn-are-within-the-limit ()
  (efrit-conversation-test--limited
    (dolist (calls '(10 300 1000))
      (efrit-conversation-test--filled
       2 (lambda (turn) (efrit-conversation-test--work turn calls "é\"\\\n" (make-string 60 ?\")))))))

(ert-deftest efrit-conversation-any-other-make-up-is-within-the-limit ()
  (efrit-conversation-test--limited
    (dolist (blocks `((((type . "thinking") (thinking . ,(make-string 90000 ?t)) (signature . "s")))
                      (((type . "text") (text . ,(make-string 90000 ?\\))))
                      (((type . "text") (text . ,(make-string 30000 ?日))))
                      (((type . "server_tool_use") (id . "x") (input . ((q . ,(make-string 50000 ?q))))))
                      ,(make-list 900 '((type . "text") (text . "a short text")))))
      (efrit-conversation-test--filled
       4 (lambda (turn)
           (list (apply #'efrit-conversation-test--message "assistant" blocks)
                 (efrit-conversation-test--message
                  "user" (efrit-conversation-test--text (format "and %d" turn)))))))))

(ert-deftest efrit-conversation-requests-that-were-never-answered-are-within-the-limit ()
  (efrit-conversation-test--limited
    (efrit-conversation-test--filled
     1000 (lambda (_turn)
            (list (efrit-conversation-test--message
                   "user" (efrit-conversation-test--text (make-string 50 ?u)))))
     300)))

(ert-deftest efrit-conversation-the-request-under-way-is-sent-when-its-message-is-left-out ()
  (efrit-conversation-test--limited
    (let* ((conversation (efrit-conversation-test--filled
                          100 (lambda (turn)
                                (efrit-conversation-test--work turn 5 (make-string 90 ?i)
                                                               (make-string 900 ?o)))))
           (first (aref (efrit-conversation-to-send conversation) 0)))
      (should (string-match-p "\\`\\[[0-9]+ earlier messages are left out, among them this request:\\]\nThe task of all this.\\'"
                              (alist-get 'text (aref (alist-get 'content first) 0)))))))

(ert-deftest efrit-conversation-the-newest-messages-are-sent-as-they-are ()
  (efrit-conversation-test--limited
    (let* ((last (efrit-conversation-test--work 999 3 (make-string 2000 ?i) (make-string 3000 ?o)))
           (conversation (efrit-conversation-test--filled
                          50 (lambda (turn)
                               (if (= turn 49) last
                                 (efrit-conversation-test--work turn 3 (make-string 2000 ?i)
                                                                (make-string 3000 ?o))))))
           (sent (efrit-conversation-to-send conversation)))
      (should (equal (seq-subseq sent -2) (vconcat last)))
      (should (eq (efrit-conversation-last conversation) (nth 1 last))))))

(ert-deftest efrit-conversation-what-is-sent-begins-the-same-for-many-turns ()
  (efrit-conversation-test--limited
    (let ((conversation (efrit-conversation-test--filled
                         60 (lambda (turn)
                              (efrit-conversation-test--work turn 1 (make-string 300 ?i)
                                                             (make-string 3000 ?o)))))
          (changes 0) before)
      (dotimes (turn 60)
        (dolist (message (efrit-conversation-test--work (+ 60 turn) 1 (make-string 300 ?i)
                                                        (make-string 300 ?o)))
          (efrit-conversation-add conversation message))
        (let ((sent (efrit-conversation-to-send conversation)))
          (unless (or (null before)
                      (equal before (seq-subseq sent 0 (min (length sent) (length before)))))
            (cl-incf changes))
          (setq before sent)))
      (should (< 0 changes 5)))))

(ert-deftest efrit-conversation-the-work-of-a-turn-does-not-grow-with-the-session ()
  (efrit-conversation-test--limited
    (let ((conversation (efrit-conversation-test--filled
                         2000 (lambda (turn) (efrit-conversation-test--work turn 1 "1" "1"))))
          (written 0))
      (should (< (+ (length (efrit-conversation-whole conversation))
                    (length (efrit-conversation-short conversation)))
                 300))
      ;; A turn makes JSON of what is new: nothing is measured twice.
      (cl-letf* ((bytes (symbol-function 'efrit-conversation--bytes))
                 ((symbol-function 'efrit-conversation--bytes)
                  (lambda (message) (cl-incf written) (funcall bytes message))))
        (dotimes (turn 1000)
          (dolist (message (efrit-conversation-test--work turn 1 "1" "1"))
            (efrit-conversation-add conversation message))))
      (should (< written 8000)))))

(provide 'efrit-session-conversation-test)
;;; efrit-session-conversation-test.el ends here
