;;; efrit-session-history-test.el --- Tests of efrit-history  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Code:

(require 'efrit-test-queue)
(require 'efrit-session-history)

(defun efrit-history-test--say (history role &rest blocks)
  "Add a message of ROLE with BLOCKS to HISTORY."
  (efrit-history-add history "message" nil
                     :message `((role . ,role) (content . ,(vconcat blocks)))
                     :tokens 5))

(defun efrit-history-test--call (id)
  "Return a tool call ID."
  `((type . "tool_use") (id . ,id) (name . "eval_sexp") (input . ((expr . "1")))))

(defun efrit-history-test--result (history id)
  "Record a result of the call ID in HISTORY."
  (efrit-history-add history "result" nil :call id
                     :block `((type . "tool_result") (tool_use_id . ,id)
                              (content . [,(efrit-history-text "status: success")]))
                     :world '((todos . []))))

(ert-deftest efrit-history-a-restarted-emacs-knows-the-same ()
  (efrit-test-with-queue
    (let ((history (efrit-history-open "s")))
      (efrit-history-add history "request" nil :request "r1")
      (efrit-history-test--say history "user" (efrit-history-text "do it é"))
      (efrit-history-test--say history "assistant"
                               (efrit-history-test--call "a") (efrit-history-test--call "b"))
      (efrit-history-add history "begun" nil :call "a")
      (efrit-history-test--result history "a")
      (efrit-history-add history "begun" nil :call "b")
      (let ((read (efrit-history-open "s")))
        (should (equal read history))
        (should (equal (mapcar (lambda (call) (alist-get 'id call))
                               (efrit-history-open-calls read))
                       '("b")))
        (should (efrit-history-begun-p read (efrit-history-test--call "b")))
        (should (= (efrit-history-turns read) 1))
        (should (= (efrit-history-calls read) 2))
        (should (= (efrit-history-tokens read) 10))))))

(ert-deftest efrit-history-figures-begin-anew-with-a-new-request-and-not-with-the-same ()
  (efrit-test-with-queue
    (let ((history (efrit-history-open "s")))
      (efrit-history-add history "request" nil :request "r1")
      (efrit-history-test--say history "assistant" (efrit-history-text "a"))
      (efrit-history-add history "request" nil :request "r1")
      (should (= (efrit-history-turns history) 1))
      (efrit-history-add history "end" t :request "r1")
      (should (efrit-history-ended history))
      (efrit-history-add history "request" nil :request "r2")
      (should-not (efrit-history-ended history))
      (should (= (efrit-history-turns history) 0)))))

(ert-deftest efrit-history-a-line-that-a-crash-cut-short-says-nothing ()
  (efrit-test-with-queue
    (let ((history (efrit-history-open "s")))
      (efrit-history-test--say history "user" (efrit-history-text "one"))
      (efrit-test-write "sessions" "s.ndjson"
                        (concat (efrit-test-read "sessions" "s.ndjson")
                                "{\"type\":\"message\",\"mess"))
      (let ((read (efrit-history-open "s")))
        (should (= (length (efrit-history-to-send read)) 1))
        (efrit-history-test--say read "assistant" (efrit-history-text "two"))
        (should (= (length (efrit-history-to-send (efrit-history-open "s"))) 2))))))

(ert-deftest efrit-history-a-damaged-file-is-named-with-its-line ()
  (efrit-test-with-queue
    (pcase-dolist (`(,text ,line)
                   '(("garbage\n" 1) ("\377\376\0x\n" 1) ("[1]\n" 1) ("{\"a\":1}\n" 1) ("{\"type\":5}\n" 1)
                     ("{\"type\":\"end\",\"n\":1}\n\n{\"type\":\"end\",\"n\":\"x\"}\n" 3)
                     ("{\"type\":\"message\"}\n" 1) ("{\"type\":\"message\",\"message\":5}\n" 1)
                     ("{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":[7]}}\n" 1)
                     ("{\"type\":\"request\",\"request\":[]}\n" 1)
                     ("{\"type\":\"result\",\"call\":\"a\",\"block\":{\"a\":1},\"world\":[]}\n" 1)
                     ;; What a crash leaves behind is not damage.
                     ("" nil) ("{\"ty" nil) ("{\"ty\n{\"type\":\"mess\n" nil) ("\0\0\n" nil)
                     ("{\"type\":\"end\"}\n{\"t\0\0{\"type\":\"end\"}\n" nil)))
      (ert-info (text)
        (efrit-test-write "sessions" "s.ndjson" text)
        (let ((said (condition-case err (progn (efrit-history-open "s") nil)
                      (efrit-history-damaged (cadr err)))))
          (if line
              (should (string-search (format "line %d of %s" line (efrit-history-path "s")) said))
            (should-not said)))))))

(ert-deftest efrit-history-what-no-emacs-can-read-is-replaced ()
  (pcase-dolist (`(,json . ,value)
                 '(("a\\u0000b" . "a\\000b") ("\\u00001" . "\\0001") ("\\\\u0000" . "\\u0000")
                   ("\\\\\\u0000" . "\\\\000") ("\\\\\\\\ud800" . "\\\\ud800")
                   ("\\ud800" . "\ufffd") ("\\uDFFFx" . "\ufffdx") ("\\ud800\\n" . "\ufffd\n")
                   ("\\uD83D\\uDE00" . "😀") ("\\ud800\\ud83d\\ude00" . "\ufffd😀")
                   ("\\ude00\\ud83d" . "\ufffd\ufffd") ("\\\\ud83d\\ude00" . "\\ud83d\ufffd")
                   ("\\ud83d\\u0000é" . "\ufffd\\000é") ("\\ud7ff\\ue000" . "\ud7ff\ue000")
                   ("\\u0001\\\"u0000" . "\1\"u0000") ("\\u00e9 é" . "é é")))
    (ert-info (json)
      (let ((read (efrit-json-parse (format "{\"%s\":[\"%s\"]}" json json))))
        (should (equal read `((,(intern value) . [,value]))))
        (should (equal (efrit-json-parse (efrit-json-text read)) read)))))
  (dolist (json '("\"\\U0000\"" "\"\\u000\"" "\"\\ud8zz\"" "\"\\ud800"))
    (should-error (efrit-json-parse json)))
  ;; Text without such an escape is not even copied.
  (let ((text "\"\\n\\\\ \\u00e9\""))
    (should (eq (efrit-json--readable text) text))))

(ert-deftest efrit-history-only-an-ordinary-file-of-some-length-is-read ()
  (efrit-test-with-queue
    (pcase-dolist (`(,name ,command ,problem)
                   '(("pipe" "mkfifo" "not an ordinary file") ("directory" "mkdir" "not an ordinary file")
                     ("link" "ln -s /dev/zero" "not an ordinary file")
                     ("long" "truncate --size=134217729" "134217729 bytes")
                     ("short" "truncate --size=134217728" nil) ("none" "true" nil)))
      (ert-info (name)
        (should (eq 0 (call-process-shell-command
                       (concat command " " (shell-quote-argument (efrit-history-path name))))))
        (if problem
            (should (string-search problem (efrit-history-problem name)))
          (should-not (efrit-history-problem name)))))))

(ert-deftest efrit-history-what-could-not-be-written-does-not-count ()
  (efrit-test-with-queue
    (dolist (make (list #'make-directory
                        (lambda (path) (make-symbolic-link (concat path ".elsewhere") path))
                        (lambda (path) (call-process "mkfifo" nil nil nil path))))
      (let ((history (efrit-history-open "s")) (path (efrit-history-path "s")))
        (funcall make path)
        (should-error (efrit-history-test--say history "user" (efrit-history-text "x"))
                      :type 'efrit-record-failed)
        (should (equal (efrit-history-to-send history) []))
        (if (file-directory-p path) (delete-directory path) (delete-file path))))
    (should-not (file-exists-p (concat (efrit-history-path "s") ".elsewhere")))))

(ert-deftest efrit-history-json-that-is-sent-keeps-its-characters ()
  (let ((value '((name . "Zoë 日本") (list . [1 :null t :false]) (empty . nil))))
    (should (equal (alist-get 'text (efrit-history-text (efrit-json-text value)))
                   "{\"name\":\"Zoë 日本\",\"list\":[1,null,true,false],\"empty\":{}}"))
    (should (equal (efrit-json-parse (efrit-json-text value)) value))))

(ert-deftest efrit-history-neighbours-of-one-role-are-sent-as-one ()
  (efrit-test-with-queue
    (let ((history (efrit-history-open "s")))
      (efrit-history-test--say history "user" (efrit-history-text "a"))
      (efrit-history-test--say history "user" (efrit-history-text "b"))
      (efrit-history-test--say history "assistant" (efrit-history-text "c"))
      (let ((sent (efrit-history-to-send history)))
        (should (= (length sent) 2))
        (should (= (length (alist-get 'content (aref sent 0))) 2))))))

(ert-deftest efrit-history-long-ones-are-sent-within-the-limit-and-the-same-after-a-restart ()
  (efrit-test-with-queue
    (let ((history (efrit-history-open "s"))
          (long (make-string 30000 ?x)))
      (dotimes (number 20)
        (efrit-history-test--say history (if (cl-evenp number) "user" "assistant")
                                 (efrit-history-text long)))
      (let ((sent (efrit-history-to-send history)))
        (should (< (string-bytes (efrit-json-text sent)) 400000))
        (should (string-match-p "bytes left out"
                                (alist-get 'text (aref (alist-get 'content (aref sent 0)) 0))))
        (should (equal (alist-get 'text (aref (alist-get 'content (aref sent 19)) 0)) long))
        (should (equal sent (efrit-history-to-send (efrit-history-open "s"))))))))

(defmacro efrit-history-test--reads (&rest body)
  "Return how many session files BODY reads."
  (declare (debug t))
  `(let ((reads 0) (read (symbol-function 'efrit-history--read)))
     (cl-letf (((symbol-function 'efrit-history--read)
                (lambda (id) (cl-incf reads) (funcall read id))))
       ,@body)
     reads))

(ert-deftest efrit-history-a-session-that-is-continued-is-not-read-again ()
  (efrit-test-with-queue
    (let ((efrit-history--cache nil)
          (history (efrit-history-open "s")))
      (should (= 0 (efrit-history-test--reads
                    (dotimes (_ 3)
                      (efrit-history-test--say history "user" (efrit-history-text "x"))
                      (efrit-history-cache history)
                      (should (eq history (efrit-history-open "s")))))))
      (should (equal history (efrit-history--read "s"))))))

(ert-deftest efrit-history-a-session-whose-file-changed-is-read-again ()
  (efrit-test-with-queue
    (let ((efrit-history--cache nil)
          (history (efrit-history-open "s")))
      (efrit-history-test--say history "user" (efrit-history-text "x"))
      (efrit-history-cache history)
      (efrit-test-write "sessions" "s.ndjson"
                        (concat (efrit-test-read "sessions" "s.ndjson") "{\"type\":\"begun\"}\n"))
      (should (= 1 (efrit-history-test--reads (efrit-history-open "s"))))
      (should-not efrit-history--cache))))

(ert-deftest efrit-history-few-sessions-are-kept ()
  (efrit-test-with-queue
    (let ((efrit-history--cache nil))
      (dotimes (number 20)
        (let ((history (efrit-history-open (format "s%d" number))))
          (efrit-history-test--say history "user" (efrit-history-text "x"))
          (efrit-history-cache history)))
      (should (= (length efrit-history--cache) efrit-history--max-cached))
      (should (equal (efrit-history-id (cdar efrit-history--cache)) "s19")))))

(ert-deftest efrit-history-text-with-a-nul-is-recorded ()
  (efrit-test-with-queue
    (let ((history (efrit-history-open "s")))
      (efrit-history-test--say history "user" (efrit-history-text "a\0b"))
      (should (equal (efrit-history--read "s") history)))))

(provide 'efrit-session-history-test)
;;; efrit-session-history-test.el ends here
