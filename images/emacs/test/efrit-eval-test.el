;;; efrit-eval-test.el --- Tests of evaluating in a daemon  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What the code of a request may do, and what comes back of it.  How each eval ends,
;; and that the next is answered whatever it has done, is in tests/evals.

;;; Code:

(require 'efrit-test-daemon)

(ert-deftest efrit-eval-several-forms-run-in-order-and-the-last-is-the-value ()
  (efrit-test-with-daemon ()
    (pcase-dolist (`(,id ,content ,value)
                   '(("several" "(setq a-var 1)\n(setq a-var (1+ a-var)) a-var" "2")
                     ("empty" "" "nil")
                     ("comments" "; nothing\n  ;; here" "nil")
                     ("trailing" "7 ; the end" "7")
                     ("macro" "(defmacro twice (x) `(* 2 ,x)) (twice 4)" "8")
                     ("lexical" "(let ((x 1)) (funcall (let ((f (lambda () x))) f)))" "1")
                     ("closure" "(funcall (let ((y 5)) (lambda () y)))" "5")
                     ("unicode" "\"héllo €\"" "\"héllo €\"")
                     ("bytes" "\"\\377\"" "\"\\377\"")))
      (should (equal (efrit-test-value id content) value)))))

(ert-deftest efrit-eval-an-answer-with-a-nul-is-read-by-every-emacs ()
  (efrit-test-with-daemon ()
    (let ((answer (efrit-test-eval "text" "(princ \"p\\0\") (message \"m\\0\") \"\\0001\"")))
      (should (equal (alist-get 'result answer) "\"\\0001\""))
      (should (equal (alist-get 'output answer) "p\\000"))
      (should (equal (alist-get 'messages answer) "m\\000\n")))
    (should (equal (alist-get 'error (efrit-test-eval "error" "(error \"e\\0\")")) "e\\000"))
    ;; A jump in byte code has one.
    (let ((function (read (efrit-test-value "code" "(byte-compile (lambda (x) (if x (car x) (list x))))"))))
      (should (equal (funcall function '(1)) 1))
      (should (equal (funcall function nil) '(nil))))))

(ert-deftest efrit-eval-an-error-reports-its-symbol-and-message ()
  (efrit-test-with-daemon ()
    (pcase-dolist (`(,id ,content ,code ,message)
                   '(("car" "(car 1)" "wrong-type-argument"
                      "Wrong type argument: listp, 1")
                     ("error" "(error \"Out of %s\" \"luck\")" "error" "Out of luck")
                     ("user" "(user-error \"No\")" "user-error" "No")
                     ("void" "(no-such-function)" "void-function"
                      "Symbol’s function definition is void: no-such-function")
                     ("odd" "(signal 'no-error '(1))" "no-error" "peculiar error: 1")
                     ("throw" "(throw 'nowhere 1)" "no-catch" "No catch for tag: nowhere, 1")
                     ("quit" "(keyboard-quit)" "quit" "Quit")
                     ("raw" "(error \"\\377\")" "error" "\\377")))
      (let ((answer (efrit-test-eval id content)))
        (should (equal (alist-get 'status answer) "error"))
        (should (equal (alist-get 'reason answer) "EvalError"))
        (should (equal (alist-get 'error_code answer) code))
        (should (equal (alist-get 'error answer) message))
        (should (null (alist-get 'result answer)))))))

(ert-deftest efrit-eval-an-error-in-a-text-of-several-lines-reports-where ()
  (efrit-test-with-daemon ()
    (pcase-dolist (`(,id ,content ,where)
                   '(("second" "(+ 1 2)\n  (car 1)" "line 2, column 3")
                     ("first" "(car 1)\n" "line 1, column 1")
                     ("inside" ";; one\n\n(progn\n  (car 1))" "line 3, column 1")
                     ("read" "(+ 1 2)\n(car '(1)" "line 2, column 1")
                     ("close" "(+ 1 2)\n\n )" "line 3, column 2")))
      (let ((message (alist-get 'error (efrit-test-eval id content))))
        (should (string-suffix-p (format " (in the form at %s)" where) message))))))

(ert-deftest efrit-eval-the-calls-that-led-to-an-error-are-among-the-messages ()
  (efrit-test-with-daemon ()
    (let ((messages (alist-get 'messages (efrit-test-eval
                                          "calls" "(defun inner (x) (car x)) (message \"hello\")
(defun outer () (inner 7))
(outer)"))))
      (should (string-prefix-p "hello\nBacktrace (in the form at line 3, column 1):\n  car(7)\n" messages))
      (should (string-match-p "^  inner(7)$" messages))
      (should (string-match-p "^  outer()$" messages))
      (should-not (string-match-p "efrit-" messages)))
    ;; What was handled, or ended another request, is of no interest.
    (should (equal (alist-get 'messages (efrit-test-eval "handled" "(ignore-errors (car 1))")) ""))
    (should (equal (alist-get 'messages (efrit-test-eval "value" "7")) ""))))

(ert-deftest efrit-eval-a-backtrace-is-bounded-and-costs-no-more-than-it-may ()
  (efrit-test-with-daemon ()
    (let ((messages (alist-get 'messages (efrit-test-eval
                                          "deep" "(defun f (x s) (if (= x 0) (car 1) (1+ (f (1- x) s))))
(f 150 (make-string 5000 ?x))"))))
      (should (< (length (split-string messages "\n" t)) 23))
      (should (< (string-bytes messages) 5000)))
    ;; Beyond the bound nothing is looked at, and the error is reported all the same.
    (let ((answer (efrit-test-eval "many" "(dotimes (_ 3000) (ignore-errors (car 1))) (car 2)")))
      (should (equal (alist-get 'error answer) "Wrong type argument: listp, 2"))
      (should (equal (alist-get 'messages answer) "")))))

(ert-deftest efrit-eval-what-is-printed-and-said-is-captured ()
  (efrit-test-with-daemon ()
    (let ((answer (efrit-test-eval "a" "(princ \"out\") (print 1) (message \"said %d\" 7) nil")))
      (should (equal (alist-get 'output answer) "out\n1\n"))
      (should (equal (alist-get 'messages answer) "said 7\n"))
      (should (equal (alist-get 'result answer) "nil")))
    (let ((answer (efrit-test-eval "b" "(let ((inhibit-message t)) (message \"said %d\" 7))")))
      (should (equal (alist-get 'output answer) ""))
      (should (equal (alist-get 'messages answer) "said 7\n")))
    (let ((answer (efrit-test-eval "c" "(message \"before\") (error \"x\")")))
      (should (string-prefix-p "before\nBacktrace:\n" (alist-get 'messages answer))))
    (should (equal (efrit-test-value
                    "d" "(with-current-buffer (messages-buffer)
                           (and (string-match-p \"said 7\" (buffer-string)) t))")
                   "t"))))

(ert-deftest efrit-eval-what-is-said-is-not-in-the-output-of-the-daemon ()
  (efrit-test-with-daemon ()
    (dolist (code '("(message \"spoken\")" "(progn (message \"spoken\") (error \"spoken too\"))"))
      (should (string-match-p "\\`spoken\n\\(Backtrace:\n\\|\\'\\)"
                              (alist-get 'messages (efrit-test-eval (md5 code) code)))))
    (efrit-test-eval "log" "(efrit-server-log \"written\")")
    (with-current-buffer "*efrit-test-daemon*"
      (efrit-test-wait (string-search "efrit: written" (buffer-string)))
      (should-not (string-search "spoken" (buffer-string))))))

(ert-deftest efrit-eval-output-and-messages-are-bounded-and-say-so ()
  (efrit-test-with-daemon ()
    (let* ((answer (efrit-test-eval
                    "a" "(dotimes (_ 100000) (princ \"ten bytes\\n\"))
                         (dotimes (i 2000) (message \"number %d of many\" i))"))
           (output (alist-get 'output answer))
           (messages (alist-get 'messages answer)))
      (should (< 8000 (string-bytes output) 8300))
      (should (string-suffix-p (format "[%d bytes left out]\n" (- 1000000 8192)) output))
      (should (< 8000 (string-bytes messages) 8300))
      (should (string-match-p "bytes left out\\]\n\\'" messages)))))

(ert-deftest efrit-eval-a-result-is-cut-at-the-limit-of-the-request ()
  (efrit-test-with-daemon ()
    (let ((answer (efrit-test-eval "a" "(make-string 5000 ?é)" :max_result_bytes 100)))
      (should (equal (alist-get 'status answer) "success"))
      (should (eq (alist-get 'truncated answer) t))
      (should (<= 99 (string-bytes (alist-get 'result answer)) 100))
      (should (= (alist-get 'result_bytes answer)
                 (string-bytes (alist-get 'result answer))))
      (should (null (alist-get 'sha256 answer))))))

(ert-deftest efrit-eval-a-large-result-goes-to-the-workspace ()
  (efrit-test-with-daemon ()
    (let* ((answer (efrit-test-eval "large" "(make-string 800000 ?x)"))
           (path (alist-get 'result_path answer))
           (text (with-temp-buffer (insert-file-contents path) (buffer-string))))
      (should (equal path (concat efrit-workspace-directory ".efrit/results/large.txt")))
      (should (= (length text) 800002))
      (should (equal (alist-get 'sha256 answer) (secure-hash 'sha256 text)))
      (should (= (alist-get 'result_bytes answer) 800002))
      (should (= (length (alist-get 'result answer)) 32768))
      (should-not (alist-get 'truncated answer)))))

(ert-deftest efrit-eval-starts-in-the-workspace-and-scratch-whatever-came-before ()
  (efrit-test-with-daemon ()
    (efrit-test-eval "a" "(let ((d (make-temp-file \"gone\" t))) (setq default-directory d)
                           (cd d) (delete-directory d))
                         (switch-to-buffer \"other\") (set-buffer \"other\")
                         (narrow-to-region 1 1)
                         (setq print-length 1 standard-output nil debug-on-error t)")
    (should (equal (efrit-test-value "b" "(list default-directory (buffer-name)
                                            (call-process \"true\") 1 2 3)")
                   (format "(%S \"*scratch*\" 0 1 2 3)" efrit-workspace-directory)))))

(ert-deftest efrit-eval-a-recursive-edit-past-the-advice-is-left-by-the-tick ()
  (efrit-test-with-daemon ()
    (let ((answer (efrit-test-eval
                   "a" "(advice-mapc (lambda (f _) (advice-remove 'recursive-edit f))
                                     'recursive-edit)
                        (recursive-edit)")))
      (should (equal (alist-get 'error_code answer) "inhibited-interaction")))
    (should (equal (efrit-test-value "b" "(recursion-depth)") "0"))))

(ert-deftest efrit-eval-code-that-deletes-the-queue-is-answered-all-the-same ()
  (efrit-test-with-daemon ()
    (let ((answer (efrit-test-eval "a" (format "(delete-directory %S t) 'deleted"
                                               efrit-queue-directory))))
      (should (equal (alist-get 'result answer) "deleted")))
    (efrit-test-wait (file-directory-p (efrit-files-path "requests")))
    (efrit-test-wait (file-exists-p (efrit-files-path "heartbeat")))
    ;; The bridge does this.
    (efrit-test-write "" "claims.log" "")
    (should (equal (efrit-test-value "b" "(+ 1 2)") "3"))))

(provide 'efrit-eval-test)
;;; efrit-eval-test.el ends here
