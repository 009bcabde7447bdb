;;; efrit-model-body-test.el --- Tests of what is sent to the model  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Conversations in, JSON out.

;;; Code:

(require 'ert)
(require 'cl-lib)
(require 'efrit-model-body)

(defun efrit-model-body-test--sent (conversation)
  "Return what is sent for CONVERSATION, read back."
  (let ((efrit-model-name "model-1") (efrit-model-max-tokens 99))
    (efrit-json-parse (decode-coding-string (efrit-model-body conversation) 'utf-8))))

(defun efrit-model-body-test--marks (value)
  "Return how many marks are in VALUE."
  (cond ((vectorp value) (apply #'+ (mapcar #'efrit-model-body-test--marks value)))
        ((consp value)
         (apply #'+ (mapcar (lambda (pair)
                              (if (eq (car pair) 'cache_control) 1
                                (efrit-model-body-test--marks (cdr pair))))
                            value)))
        (t 0)))

(defconst efrit-model-body-test--mark '((type . "ephemeral"))
  "The mark.")

(ert-deftest efrit-model-body-settings-and-conversation-are-sent ()
  (should (equal (efrit-model-body-test--sent
                  '((messages . [((role . "user") (content . "héllo"))])
                    (tool_choice . ((type . "auto")))))
                 `((model . "model-1") (max_tokens . 99) (stream . t)
                   (messages . [((role . "user")
                                 (content . [((type . "text") (text . "héllo")
                                              (cache_control . ,efrit-model-body-test--mark))]))])
                   (tool_choice . ((type . "auto")))))))

(ert-deftest efrit-model-body-bytes-are-utf-8 ()
  (let ((efrit-model-name "m"))
    (should-not (multibyte-string-p
                 (efrit-model-body '((messages . [((role . "user") (content . "é€😀"))])))))))

(ert-deftest efrit-model-body-the-end-of-each-part-is-marked ()
  (let ((sent (efrit-model-body-test--sent
               '((system . "be brief")
                 (tools . [((name . "a") (input_schema . ((type . "object"))))
                           ((name . "b") (input_schema . ((type . "object"))))])
                 (messages . [((role . "user") (content . "one"))
                              ((role . "assistant") (content . [((type . "text") (text . "two"))]))
                              ((role . "user")
                               (content . [((type . "tool_result") (tool_use_id . "1"))
                                           ((type . "tool_result") (tool_use_id . "2"))]))])))))
    (let-alist sent
      (should (equal .system `[((type . "text") (text . "be brief")
                                (cache_control . ,efrit-model-body-test--mark))]))
      (should (alist-get 'cache_control (aref .tools 1)))
      (should (alist-get 'cache_control (aref (alist-get 'content (aref .messages 2)) 1)))
      (should (equal (alist-get 'content (aref .messages 0)) "one")))
    (should (= 3 (efrit-model-body-test--marks sent)))))

(ert-deftest efrit-model-body-the-last-of-the-user-is-marked-when-the-model-spoke-last ()
  (let* ((sent (efrit-model-body-test--sent
                '((messages . [((role . "user") (content . "one"))
                               ((role . "assistant") (content . "{"))]))))
         (messages (alist-get 'messages sent)))
    (should (equal (alist-get 'content (aref messages 1)) "{"))
    (should (= 1 (efrit-model-body-test--marks (aref messages 0))))))

(ert-deftest efrit-model-body-what-takes-no-mark-gets-none ()
  (dolist (content '("" [] [((type . "text") (text . ""))]
                     [((type . "thinking") (thinking . "hm"))]))
    (should (= 0 (efrit-model-body-test--marks
                  (efrit-model-body-test--sent
                   `((messages . [((role . "user") (content . ,content))])))))))
  (should (= 1 (efrit-model-body-test--marks
                (efrit-model-body-test--sent
                 `((messages . [((role . "user")
                                 (content . [((type . "text") (text . "x")
                                              (cache_control . ((type . "ephemeral"))))]))])))))))

(ert-deftest efrit-model-body-empty-parts-are-not-sent ()
  (dolist (empty '(((system . "") (tools . [])) ((system) (tools))))
    (should (equal (mapcar #'car (efrit-model-body-test--sent
                                  (append empty '((messages . [])))))
                   '(model max_tokens stream messages)))))

(ert-deftest efrit-model-body-the-conversation-stays-as-it-is ()
  (let* ((make (lambda ()
                 (list (cons 'system "s")
                       (cons 'tools (vector (list (cons 'name "a"))))
                       (cons 'messages
                             (vector (list (cons 'role "user")
                                           (cons 'content
                                                 (vector (list (cons 'type "text")
                                                               (cons 'text "x"))))))))))
         (conversation (funcall make)))
    (efrit-model-body-test--sent conversation)
    (should (equal conversation (funcall make)))))

(ert-deftest efrit-model-body-values-of-json-are-sent-as-they-are ()
  (let ((input '((empty) (list . []) (null . :null) (no . :false) (yes . t) (n . 1.5))))
    (should (equal (alist-get 'input
                              (aref (alist-get 'content
                                               (aref (alist-get 'messages
                                                                (efrit-model-body-test--sent
                                                                 `((messages . [((role . "assistant")
                                                                                 (content . [((input . ,input))]))]))))
                                                     0))
                                    0))
                   input))))

(ert-deftest efrit-model-body-bytes-that-are-no-text-are-escaped ()
  (let* ((raw (concat "é " (string-to-multibyte "\377") (string #xd800)))
         (sent (efrit-model-body-test--sent
                `((messages . [((role . "user")
                                (content . [((type . "tool_result") (content . ,raw)
                                             (is_error . :false))]))])))))
    (let ((block (aref (alist-get 'content (aref (alist-get 'messages sent) 0)) 0)))
      (should (equal (alist-get 'content block) "é \\377\\ud800"))
      (should (eq (alist-get 'is_error block) :false)))))

(provide 'efrit-model-body-test)
;;; efrit-model-body-test.el ends here
