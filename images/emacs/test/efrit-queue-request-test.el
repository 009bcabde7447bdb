;;; efrit-queue-request-test.el --- Tests of reading requests  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Text in, request out; no files.

;;; Code:

(require 'efrit-test-queue)
(require 'efrit-queue-request)

(defun efrit-request-test--parse (&rest members)
  "Return the request with MEMBERS, a plist."
  (efrit-request-parse (json-serialize members) "req_name.json"))

(defun efrit-request-test--problem (&rest members)
  "Return the problem of an eval request with MEMBERS, a plist."
  (efrit-request-problem
   (apply #'efrit-request-test--parse
          (append members '(:type "eval" :content "1")))))

(ert-deftest efrit-request-a-minimal-request-takes-the-defaults ()
  (let* ((efrit-request-timeout 7)
         (efrit-max-result-bytes 99)
         (request (efrit-request-parse
                   "{\"id\": \"efrit_1735939200_1234\", \"type\": \"eval\",
                     \"content\": \"(+ 1 2)\",
                     \"options\": {\"timeout\": 30, \"return_context\": true}}"
                   "whatever.json")))
    (should (null (efrit-request-problem request)))
    (should (equal (efrit-request-id request) "efrit_1735939200_1234"))
    (should (= (efrit-request-timeout request) 30))
    (should (= (efrit-request-max-result-bytes request) 99))
    (should (efrit-request-return-context request))
    (should (equal (efrit-request-retry request) "never"))
    (should (= (efrit-request-turn request 5) 5))))

(ert-deftest efrit-request-a-directory-to-begin-in-is-an-absolute-path-of-this-machine ()
  (pcase-dolist (`(,given ,directory) '(("/a/b" "/a/b/") ("/" "/") ("/ssh:host:/a" "/:/ssh:host:/a/")))
    (let ((request (efrit-request-test--parse :type "eval" :content "1"
                                              :options `(:directory ,given))))
      (should (null (efrit-request-problem request)))
      (should (equal (efrit-request-directory request) directory))))
  (dolist (given (list "a/b" "~/a" "" 5 (concat "/" (make-string 4096 ?x))))
    (should (string-match-p "options\\.directory. must be an absolute path"
                            (efrit-request-test--problem
                             :options `(:directory ,given))))))

(ert-deftest efrit-request-a-chat-or-command-has-longer-than-an-eval ()
  (let ((efrit-request-timeout 7) (efrit-command-timeout 77))
    (pcase-dolist (`(,type . ,seconds) '(("eval" . 7) ("chat" . 77) ("command" . 77)))
      (should (= seconds (efrit-request-timeout
                          (efrit-request-test--parse :type type :content "x")))))
    (should (= 5 (efrit-request-timeout
                  (efrit-request-test--parse :type "chat" :content "x"
                                             :options '(:timeout 5)))))))

(ert-deftest efrit-request-an-id-is-letters-digits-dot-dash-underscore ()
  (dolist (id (list "a" "A.b-c_9" "..." (make-string 128 ?x)))
    (should (efrit-request-id-p id)))
  (dolist (id (list "" "." ".." "a/b" "a b" "é" "a\nb" (make-string 129 ?x) nil 7))
    (should-not (efrit-request-id-p id))))

(ert-deftest efrit-request-a-missing-id-comes-from-the-file-name ()
  (dolist (case '(("req_abc.json" . "abc") ("abc.json" . "abc") ("req_.json" . nil)))
    (let ((request (efrit-request-parse "{\"type\":\"eval\",\"content\":\"1\"}"
                                        (car case))))
      (if (cdr case)
          (should (equal (efrit-request-id request) (cdr case)))
        (should (string-prefix-p "bad_" (efrit-request-id request)))
        (should (efrit-request-problem request))))))

(ert-deftest efrit-request-an-unusable-id-yields-to-the-file-name ()
  (should (equal (efrit-request-id (efrit-request-test--parse :id "../../etc/passwd"))
                 "name"))
  (should (equal (efrit-request-id (efrit-request-test--parse :id 17)) "name")))

(ert-deftest efrit-request-a-name-without-usable-id-gives-a-derived-one ()
  (let ((id (efrit-request-derived-id "two words.json")))
    (should (efrit-request-id-p id))
    (should (equal id (efrit-request-derived-id "two words.json")))
    (should-not (equal id (efrit-request-derived-id "three words.json")))))

(ert-deftest efrit-request-text-that-is-no-object-is-unreadable ()
  (dolist (text (list "" "{" "[1]" "17" "null" "{} {}" "{\"id\":\"a\",}"
                      "{\"id\":\"\200\"}" (concat (make-string 20000 ?\[) "]")))
    (should-error (efrit-request-parse text "a.json") :type 'efrit-unreadable-request)))

(ert-deftest efrit-request-what-cannot-be-run-says-why ()
  (dolist (case '(((:type "destroy") . "type")
                  ((:type 7) . "type")
                  ((:type :null) . "type")
                  ((:content 7) . "content")
                  ((:version "2.0.0") . "version")
                  ((:options []) . "options")
                  ((:options (:timeout 0)) . "timeout")
                  ((:options (:timeout "30")) . "timeout")
                  ((:options (:timeout 604801)) . "604800")
                  ((:options (:timeout 1e308)) . "604800")
                  ((:options (:max_result_bytes -1)) . "max_result_bytes")
                  ((:options (:retry "always")) . "retry")
                  ((:options (:max_attempts 1.5)) . "max_attempts")
                  ((:options (:return_context "yes")) . "return_context")
                  ((:options (:priority "high")) . "priority")))
    (should (string-match-p (cdr case)
                            (apply #'efrit-request-test--problem (car case))))))

(defun efrit-request-test--nested (depth)
  "Return the JSON text of an array nested DEPTH deep."
  (concat (make-string depth ?\[) (make-string depth ?\])))

(ert-deftest efrit-request-nested-values-are-refused-by-name-not-by-an-error ()
  (dolist (case '(("options" . "{\"x\":%s}") ("version" . "%s") ("instance_id" . "%s")
                  ("content" . "%s") ("type" . "%s") ("id" . "%s") ("timestamp" . "%s")))
    (let* ((efrit-instance-id "team/one")
           (text (format "{\"type\":\"eval\",\"content\":\"1\",\"%s\":%s}" (car case)
                         (format (cdr case) (efrit-request-test--nested 1000))))
           (request (efrit-request-parse text "a.json")))
      (should (equal (efrit-request-id request) "a"))
      (if (member (car case) '("id" "timestamp"))
          (should-not (efrit-request-problem request))
        (should (string-match-p (car case) (efrit-request-problem request)))))))

(ert-deftest efrit-request-what-is-said-of-a-long-value-is-short ()
  (let ((long (make-string 1000000 ?2)) (efrit-instance-id "team/one"))
    (dolist (member '(:version :instance_id))
      (should (< (length (efrit-request-test--problem member long)) 200)))))

(ert-deftest efrit-request-null-and-unknown-members-do-not-matter ()
  (should-not (efrit-request-test--problem
               :options '(:timeout :null :colour "red") :metadata '(:a [1]) :flavour 1
               :instance_id :null :version :null)))

(ert-deftest efrit-request-another-instance-is-refused-where-this-one-has-a-name ()
  (let ((efrit-instance-id "team/one"))
    (should (string-match-p "team/two"
                            (efrit-request-test--problem :instance_id "team/two")))
    (should-not (efrit-request-test--problem :instance_id "team/one"))
    (should-not (efrit-request-test--problem)))
  (let ((efrit-instance-id nil))
    (should-not (efrit-request-test--problem :instance_id "team/two"))))

(ert-deftest efrit-request-an-instance-limits-what-a-request-may-ask-for ()
  (let ((efrit-max-result-bytes 1000))
    (dolist (case '((10 . 10) (5000 . 1000)))
      (should (= (efrit-request-max-result-bytes
                  (efrit-request-test--parse
                   :type "eval" :content "1"
                   :options (list :max_result_bytes (car case))))
                 (cdr case))))))

(ert-deftest efrit-request-times-are-read-to-the-nanosecond ()
  (dolist (case '(("1970-01-01T00:00:01Z" . 1000000000)
                  ("1970-01-01T00:00:00.5Z" . 500000000)
                  ("1970-01-01T00:00:00.123456789123Z" . 123456789)
                  ("1970-01-01T01:00:00+01:00" . 0)
                  ("1969-12-31T23:00:00-01:00" . 0)
                  ("2025-01-03T18:30:00Z" . 1735929000000000000)
                  ("yesterday" . nil) ("2025-13-03T18:30:00Z" . nil) (7 . nil)))
    (should (equal (efrit-request-time (car case)) (cdr case)))))

(ert-deftest efrit-request-a-point-of-priority-is-worth-a-minute ()
  (cl-flet ((turn (time priority)
              (efrit-request-turn
               (efrit-request-test--parse :type "eval" :content "1" :timestamp time
                                          :options (list :priority priority))
               0)))
    (should (= (turn "2025-01-03T18:30:00Z" 0) (turn "2025-01-03T18:31:00Z" 1)))
    (should (< (turn "2025-01-03T18:30:00Z" 0) (turn "2025-01-03T18:31:01Z" 1)))
    (should (< (turn "2025-01-03T18:30:00Z" 1) (turn "2025-01-03T18:30:00Z" 0)))))

(ert-deftest efrit-request-the-digest-ignores-the-order-and-what-is-not-asked ()
  (cl-flet ((digest (text) (efrit-request-digest (efrit-request-parse text "a.json"))))
    (should (equal (digest "{\"type\":\"eval\",\"content\":\"1\",\"timestamp\":\"x\",
                             \"options\":{\"timeout\":1,\"priority\":2}}")
                   (digest "{\"options\":{\"priority\":2,\"timeout\":1},
                             \"content\":\"1\",\"type\":\"eval\"}")))
    (should-not (equal (digest "{\"type\":\"eval\",\"content\":\"1\"}")
                       (digest "{\"type\":\"eval\",\"content\":\"2\"}")))))

;; Each later request was refused as no JSON object, and the self-check passed.
(ert-deftest efrit-queue-requests-are-read-though-code-has-advised-what-reads ()
  (efrit-test-with-queue
    (cl-progv '(comp-enable-subr-trampolines native-comp-enable-subr-trampolines) '(nil nil)
      (dolist (function '(json-parse-string insert-file-contents buffer-string))
        (unwind-protect
            (progn
              (efrit-test-submit "a" :content "(+ 1 2)")
              (advice-add function :override #'ignore)
              (should (equal (efrit-request-content
                              (efrit-request-parse
                               (efrit-files-read (efrit-files-path "requests" "req_a.json"))
                               "req_a.json"))
                             "(+ 1 2)")))
          (advice-remove function #'ignore))
        (efrit-files-delete (efrit-files-path "requests" "req_a.json"))))))

(provide 'efrit-queue-request-test)
;;; efrit-queue-request-test.el ends here
