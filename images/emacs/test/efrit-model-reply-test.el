;;; efrit-model-reply-test.el --- Tests of replies from events  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Events in, blocks out; no socket.

;;; Code:

(require 'efrit-test-http)
(require 'efrit-model-sse)
(require 'efrit-model-reply)

(defun efrit-model-reply-test--read (events &optional on-text)
  "Return the reply that EVENTS, the text of a stream, are, or nil.
ON-TEXT is called with pieces of text."
  (let* ((draft (efrit-model-reply-draft on-text))
         (stream (efrit-sse-open (lambda (_type data) (efrit-model-reply-read draft data))
                                 most-positive-fixnum)))
    (efrit-sse-feed stream (efrit-files-bytes events))
    (efrit-model-draft-reply draft)))

(defun efrit-model-reply-test--message (parts &optional reason)
  "Return the stream of a message with PARTS that ends for REASON.
Each part is a list of a block and of the deltas to it, plists."
  (concat
   (efrit-test-http-event "message_start" :message '(:usage (:input_tokens 1)))
   (apply #'concat
          (cl-loop for (block . deltas) in parts
                   for index from 0
                   collect (efrit-test-http-event "content_block_start"
                                                  :index index :content_block block)
                   append (mapcar (lambda (delta)
                                    (efrit-test-http-event "content_block_delta"
                                                           :index index :delta delta))
                                  deltas)
                   collect (efrit-test-http-event "content_block_stop" :index index)))
   (efrit-test-http-event "message_delta"
                          :delta (list :stop_reason (or reason "end_turn"))
                          :usage '(:output_tokens 2))
   (efrit-test-http-event "message_stop")))

(ert-deftest efrit-model-reply-text-is-passed-on-as-it-comes-and-put-together ()
  (let* (texts
         (reply (efrit-model-reply-test--read
                 (apply #'concat (efrit-test-http-text-events "Hé" "llo" " €"))
                 (lambda (text) (push text texts)))))
    (should (equal (nreverse texts) '("Hé" "llo" " €")))
    (should (equal (efrit-model-reply-content reply)
                   [((type . "text") (text . "Héllo €"))]))
    (should (equal (efrit-model-reply-stop-reason reply) "end_turn"))
    (should (equal (efrit-model-reply-usage reply)
                   '(:input 10 :output 15 :cache-read 4 :cache-write 3)))
    (should-not (efrit-model-reply-unreadable reply))))

(ert-deftest efrit-model-reply-blocks-keep-their-order-and-kind ()
  (let ((reply (efrit-model-reply-test--read
                (efrit-model-reply-test--message
                 '(((:type "thinking" :thinking "" :signature "")
                    (:type "thinking_delta" :thinking "h")
                    (:type "thinking_delta" :thinking "m")
                    (:type "signature_delta" :signature "c2ln"))
                   ((:type "redacted_thinking" :data "abc"))
                   ((:type "text" :text "see ")
                    (:type "text_delta" :text "this")
                    (:type "citations_delta" :citation (:n 1))
                    (:type "citations_delta" :citation (:n 2)))
                   ((:type "tool_use" :id "t1" :name "eval_sexp" :input #s(hash-table))
                    (:type "input_json_delta" :partial_json "")
                    (:type "input_json_delta" :partial_json "{\"expr\": \"(+ 1 \\u00")
                    (:type "input_json_delta" :partial_json "e9 2)\", \"a\": [1, null, false, {}]}"))
                   ((:type "tool_use" :id "t2" :name "todo_next" :input #s(hash-table)))
                   ((:type "of_next_year" :anything [1 2])
                    (:type "of_next_year_delta" :more "x")))
                 "tool_use"))))
    (should (equal (efrit-model-reply-stop-reason reply) "tool_use"))
    (should (equal
             (efrit-model-reply-content reply)
             [((type . "thinking") (thinking . "hm") (signature . "c2ln"))
              ((type . "redacted_thinking") (data . "abc"))
              ((type . "text") (text . "see this") (citations . [((n . 1)) ((n . 2))]))
              ((type . "tool_use") (id . "t1") (name . "eval_sexp")
               (input . ((expr . "(+ 1 é 2)") (a . [1 :null :false nil]))))
              ((type . "tool_use") (id . "t2") (name . "todo_next") (input . nil))
              ((type . "of_next_year") (anything . [1 2]))]))))

(ert-deftest efrit-model-reply-input-that-cannot-be-read-is-noted ()
  (dolist (input '("{\"path\": \"/tm" "[1]" "\"x\"" "null"))
    (let ((reply (efrit-model-reply-test--read
                  (efrit-model-reply-test--message
                   `(((:type "tool_use" :id "t1" :name "a" :input ,(make-hash-table))
                      (:type "input_json_delta" :partial_json ,input)))
                   "max_tokens"))))
      (should (equal (efrit-model-reply-unreadable reply) `(("t1" . ,input))))
      (should (equal (efrit-model-reply-content reply)
                     [((type . "tool_use") (id . "t1") (name . "a") (input . nil))])))))

(ert-deftest efrit-model-reply-empty-text-is-left-out ()
  (should (equal (efrit-model-reply-content
                  (efrit-model-reply-test--read
                   (efrit-model-reply-test--message '(((:type "text" :text ""))))))
                 [])))

(ert-deftest efrit-model-reply-later-numbers-replace-earlier-ones ()
  (let ((reply (efrit-model-reply-test--read
                (concat
                 (efrit-test-http-event "message_start"
                                        :message '(:usage (:input_tokens 1 :output_tokens 1)))
                 (efrit-test-http-event "message_delta" :delta '(:stop_reason "end_turn")
                                        :usage '(:input_tokens :null :output_tokens 5
                                                 :cache_read_input_tokens 7))
                 (efrit-test-http-event "message_stop")))))
    (should (equal (efrit-model-reply-usage reply) '(:input 1 :output 5 :cache-read 7)))))

(ert-deftest efrit-model-reply-no-beginning-of-a-stream-is-a-reply ()
  (let* ((events (efrit-files-bytes
                  (efrit-model-reply-test--message
                   '(((:type "text" :text "") (:type "text_delta" :text "é"))
                     ((:type "tool_use" :id "t1" :name "a" :input #s(hash-table))
                      (:type "input_json_delta" :partial_json "{\"é\": 1}"))))))
         (end (length events)))
    (should (efrit-model-reply-test--read events))
    (dotimes (cut end)
      (should-not (efrit-model-reply-test--read (substring events 0 cut))))))

(ert-deftest efrit-model-reply-an-error-event-is-reported-with-its-message ()
  (let ((err (should-error
              (efrit-model-reply-test--read
               (concat (efrit-test-http-event "message_start" :message '(:usage nil))
                       (efrit-test-http-event
                        "error" :error '(:type "overloaded_error" :message "Overloaded"))))
              :type 'efrit-model-broken)))
    (should (equal (cadr err) "overloaded_error: Overloaded"))))

(ert-deftest efrit-model-reply-events-of-other-kinds-are-skipped ()
  (should (efrit-model-reply-test--read
           (concat (efrit-test-http-event "ping")
                   (efrit-test-http-event "weather" :rain t)
                   (efrit-model-reply-test--message nil)
                   (efrit-test-http-event "ping")))))

(ert-deftest efrit-model-reply-a-stream-without-sense-is-an-error ()
  (let ((start (efrit-test-http-event "message_start" :message '(:usage nil)))
        (part (efrit-test-http-event "content_block_start" :index 0
                                     :content_block '(:type "text" :text "")))
        (piece (efrit-test-http-event "content_block_delta" :index 0
                                      :delta '(:type "text_delta" :text "x")))
        (stop (efrit-test-http-event "message_stop")))
    (dolist (events (list "data: {\n\n" "data: [1]\n\n" "data: {}\n\n" "data: {\"type\": 1}\n\n"
                          "data: \377\n\n"
                          part piece stop
                          (concat start start)
                          (concat start piece)
                          (concat start part part)
                          (concat start stop)
                          (concat start part
                                  (efrit-test-http-event "content_block_delta" :index 0))
                          (concat (efrit-model-reply-test--message nil) stop)))
      (should-error (efrit-model-reply-test--read events) :type 'efrit-model-broken))))

(ert-deftest efrit-model-reply-many-pieces-take-memory-once ()
  (cl-flet ((characters (pieces)
              (let ((events (apply #'concat
                                   (apply #'efrit-test-http-text-events
                                          (make-list pieces "word "))))
                    (before (nth 4 (memory-use-counts))))
                (efrit-model-reply-test--read events #'ignore)
                (- (nth 4 (memory-use-counts)) before))))
    (let ((small (characters 200)) (large (characters 2000)))
      (should (< large (* 20 small))))))

(provide 'efrit-model-reply-test)
;;; efrit-model-reply-test.el ends here
