;;; efrit-tools-eval-test.el --- Tests of eval_sexp  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What an evaluation gives back, and how a call is stopped in a daemon.

;;; Code:

(require 'efrit-test-daemon)
(require 'efrit-test-tool)

(ert-deftest efrit-tools-eval-the-value-the-output-and-the-messages-are-returned ()
  (efrit-test-with-queue
    (should (equal (efrit-test-content "eval_sexp" :expr "(setq a 1) (list a \"é\")")
                   "(1 \"é\")"))
    (should (equal (efrit-test-content
                    "eval_sexp" :expr "(princ \"out\") (message \"said %d\" 7) 'v")
                   "v\n[output]\nout\n[messages]\nsaid 7\n"))))

(ert-deftest efrit-tools-eval-an-error-reports-its-symbol ()
  (efrit-test-with-queue
    (pcase-dolist (`(,expr ,message)
                   '(("(car 1)" "wrong-type-argument: Wrong type argument: listp, 1")
                     ("(read-string \"? \")"
                      "inhibited-interaction: User interaction while inhibited")
                     ("(top-level)" "no-catch: The code left")
                     ("(list 1" "end-of-file: ")))
      (should (string-prefix-p message (efrit-test-failure "error" "eval_sexp" :expr expr))))))

(ert-deftest efrit-tools-eval-a-long-value-is-cut-and-says-so ()
  (efrit-test-with-queue
    (let ((content (efrit-test-content "eval_sexp" :expr "(make-string 5000000 ?x)")))
      (should (< (string-bytes content) (+ efrit-tool-result-bytes 200)))
      (should (string-suffix-p "xxx\n[the value is longer: only its first 32768 bytes are here]"
                               content)))))

(ert-deftest efrit-tools-eval-content-is-fit-for-json-and-can-be-read-back ()
  (efrit-test-with-queue
    (let ((content (efrit-test-content "eval_sexp" :expr "\"a\\0b\\377\"")))
      (should (equal content "\"a\\000b\\377\""))
      (should (equal (json-parse-string (efrit-json-text (vector content)))
                     (vector content))))))

(ert-deftest efrit-tools-eval-after-the-deadline-nothing-runs ()
  (efrit-test-with-queue
    (let ((result (efrit-test-call "eval_sexp" '(:expr "(setq efrit-tools-eval-test--ran t)")
                                   (efrit-test-context :deadline (- (float-time) 1)))))
      (should (equal (efrit-tool-result-status result) "timeout"))
      (should-not (boundp 'efrit-tools-eval-test--ran)))))

(ert-deftest efrit-tools-eval-nothing-is-left-of-a-call ()
  (efrit-test-with-queue
    (unwind-protect
        (progn
          (efrit-test-call "eval_sexp" '(:expr "1")
                           (efrit-test-context :deadline (+ (float-time) 60)))
          (should-not (efrit-test-names "tmp")))
      (efrit-watchdog-stop))))

(defun efrit-tools-eval-test--code (expr seconds)
  "Return code that calls eval_sexp with EXPR for request inner within SECONDS.
Its value is a list of the status and the content."
  (format "(require 'efrit-tool-call)
           (let ((context (efrit-tool-context-make :request-id \"inner\" :deadline %s)) results)
             (efrit-todo-add context \"work\")
             (efrit-tool-start \"eval_sexp\" '((expr . %S)) context
                               (lambda (result) (push result results)))
             (mapcan (lambda (result) (list (efrit-tool-result-status result)
                                            (efrit-tool-result-content result)))
                     results))"
          (if seconds (format "(+ (float-time) %s)" seconds) "nil") expr))

(ert-deftest efrit-tools-eval-an-order-and-a-signal-stop-a-call ()
  (efrit-test-with-daemon ()
    (efrit-test-submit "a" :content (efrit-tools-eval-test--code
                                     "(write-region \"\" nil \"begun\" nil 'silent) (while t (ignore-errors (while t)))"
                                     600))
    (efrit-test-wait (file-exists-p (concat efrit-workspace-directory "begun")))
    (efrit-test-interrupt "inner" "Cancelled")
    (should (equal (alist-get 'result (efrit-test-answer-signalling "a"))
                   "(\"interrupted\" \"The request was cancelled while it ran\")"))
    (efrit-test-wait (not (efrit-test-names "tmp")))))

(ert-deftest efrit-tools-eval-the-deadline-stops-a-call-where-there-is-a-bridge ()
  (efrit-test-with-daemon ()
    (let ((number 0))
      (dolist (expr '("(while t)" "(sleep-for 600)" "(while t (ignore-errors (while t)))"))
        (should (equal (efrit-test-value (format "r%d" (setq number (1+ number)))
                                         (efrit-tools-eval-test--code expr 0.3))
                       "(\"timeout\" \"The time of the request was over\")"))))
    (should (equal (efrit-test-value "after" "(recursion-depth)") "0"))))

(provide 'efrit-tools-eval-test)
;;; efrit-tools-eval-test.el ends here
