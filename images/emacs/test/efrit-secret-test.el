;;; efrit-secret-test.el --- Tests of the key of the model's API  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Where the key comes from, and that text that is shown does not have it.

;;; Code:

(require 'ert)
(require 'efrit-secret)

(defmacro efrit-secret-test--with-file (text &rest body)
  "Run BODY with TEXT in the key's file, and no key known."
  (declare (indent 1) (debug t))
  `(let* ((efrit-model-api-key-file (make-temp-file "efrit-key-" nil nil ,text))
          (efrit-secret--shapes nil))
     (unwind-protect (progn ,@body)
       (delete-file efrit-model-api-key-file))))

(ert-deftest efrit-secret-the-line-end-is-no-part-of-the-key ()
  (dolist (text '("sk-test-1" "sk-test-1\n" "sk-test-1\r\n"))
    (efrit-secret-test--with-file text
      (should (equal (efrit-secret-key) "sk-test-1")))))

(ert-deftest efrit-secret-a-replaced-key-is-read-and-both-are-redacted ()
  (efrit-secret-test--with-file "sk-old-1"
    (should (equal (efrit-secret-key) "sk-old-1"))
    (write-region "sk-new-2\n" nil efrit-model-api-key-file nil 'silent)
    (should (equal (efrit-secret-key) "sk-new-2"))
    (should (equal (efrit-secret-redact "é sk-old-1, sk-new-2; sk-new-2")
                   "é [API key], [API key]; [API key]"))))

(ert-deftest efrit-secret-the-key-is-redacted-inside-json-too ()
  (efrit-secret-test--with-file "sk\"te\\st"
    (let ((key (efrit-secret-key)))
      (should (equal (efrit-secret-redact (json-serialize (list :text key)))
                     "{\"text\":\"[API key]\"}"))
      (should (equal (efrit-secret-redact key) "[API key]")))))

(ert-deftest efrit-secret-a-key-that-text-has-by-chance-is-refused ()
  (dolist (text '("x" "1" "test" "sk-1234" "sk-1234\n"))
    (efrit-secret-test--with-file text
      (let ((err (should-error (efrit-secret-key) :type 'efrit-error)))
        (should (string-search "fewer than 8 characters" (error-message-string err))))
      (efrit-secret-refresh)
      (should (equal (efrit-secret-redact "the latest xx 1 sk-1234") "the latest xx 1 sk-1234")))))

(ert-deftest efrit-secret-json-keeps-its-own-names-and-marks ()
  ;; Each of these is a part of the JSON that goes out, were it not refused or spared.
  (dolist (key '("execution_time" "truncated" "\":\"result" "null,\"sha256" "\\\\\\\\\\\\\\\\"))
    (efrit-secret-test--with-file key
      (efrit-secret-key)
      (let* ((value `((execution_time . 1.5) (result . ,(concat "a" key "b")) (truncated . t)
                      (list . [,key 1 :null ((,(intern (concat "K-" key)) . "v"))]) (error . :null)))
             (text (efrit-secret-json value #'json-serialize))
             (read (json-parse-string text :object-type 'alist :null-object :null)))
        (should (equal (alist-get 'result read) "a[API key]b"))
        (should (equal (alist-get 'truncated read) t))
        (should (equal (alist-get 'execution_time read) 1.5))
        (should (equal (aref (alist-get 'list read) 0) "[API key]"))
        (should (equal (symbol-name (caar (aref (alist-get 'list read) 3)))
                       "K-[API key]"))))))

(ert-deftest efrit-secret-ids-and-the-words-of-the-protocol-are-no-key ()
  (dolist (key '("assistant" "Succeeded" "the-name" "name-of-" "2026-01-03"))
    (efrit-secret-test--with-file key
      (efrit-secret-key)
      (let ((value '((id . "the-name-of-it") (role . "assistant") (reason . "Succeeded")
                     (time . "2026-01-03T18:30:00.000Z")
                     (text . "assistant: the-name-of-it Succeeded, 2026-01-03"))))
        (should (equal (json-parse-string
                        (efrit-secret-json value #'json-serialize nil "the-name-of-it")
                        :object-type 'alist)
                       `(,@(seq-take value 4)
                         (text . ,(string-replace key "[API key]" (alist-get 'text value))))))))))

(ert-deftest efrit-secret-the-state-of-the-key-is-one-word ()
  (pcase-dolist (`(,text . ,state)
                 '(("sk-test-1" . "Usable") ("sk-test-1\n" . "Usable") ("sk-1234\n" . "TooShort")
                   ("x" . "TooShort") ("" . "Empty") ("\r\n" . "Empty")
                   ("two words" . "Invalid") ("a b" . "Invalid") ("schlüssel" . "Invalid")))
    (efrit-secret-test--with-file text
      (let ((efrit-model-name "m"))
        (should (equal (cons text (efrit-secret-state)) (cons text state))))))
  (let ((efrit-model-api-key-file "/nonexistent/key"))
    (let ((efrit-model-name "m")) (should (equal (efrit-secret-state) "Unreadable")))
    ;; Nobody asks a model here.
    (let ((efrit-model-name nil)) (should-not (efrit-secret-state))))
  (let ((efrit-model-name "m") (efrit-model-api-key-file nil))
    (should-not (efrit-secret-state))))

(ert-deftest efrit-secret-without-a-key-text-stays-the-same-object ()
  (efrit-secret-test--with-file "unread"
    (let ((text "unread"))
      (should (eq (efrit-secret-redact text) text)))))

(ert-deftest efrit-secret-other-text-stays-the-same-object ()
  (efrit-secret-test--with-file "sk-test-1"
    (efrit-secret-key)
    (let ((text "sk-test-0"))
      (should (eq (efrit-secret-redact text) text)))))

(ert-deftest efrit-secret-what-no-header-can-carry-is-no-key ()
  (dolist (text '("" "\n" "two\nlines" "a b" "schlüssel" "a\0b"))
    (efrit-secret-test--with-file text
      (should-error (efrit-secret-key) :type 'efrit-error)
      (should-not efrit-secret--shapes))))

(ert-deftest efrit-secret-a-missing-file-is-an-error-of-ours ()
  (let ((efrit-model-api-key-file "/nonexistent/key"))
    (should-error (efrit-secret-key) :type 'efrit-error))
  (let ((efrit-model-api-key-file nil))
    (should-error (efrit-secret-key) :type 'efrit-error)))

(ert-deftest efrit-secret-an-error-does-not-show-the-key ()
  (efrit-secret-test--with-file "sk-test with spaces"
    (let ((err (should-error (efrit-secret-key))))
      (should-not (string-search "sk-test" (error-message-string err))))))

(provide 'efrit-secret-test)
;;; efrit-secret-test.el ends here
