;;; efrit-model-retry-test.el --- Tests of errors and pauses  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Tables: how a request ended, and what follows from it.

;;; Code:

(require 'ert)
(require 'cl-lib)
(require 'efrit-model-retry)

(ert-deftest efrit-model-retry-each-status-has-its-kind ()
  (pcase-dolist (`(,status ,kind ,retry)
                 '((408 "408" t) (409 "409" t) (429 "429" t) (500 "500" t) (503 "503" t)
                   (529 "529" t)
                   (401 "authentication" nil) (403 "authentication" nil)
                   (400 "refused" nil) (404 "refused" nil) (413 "refused" nil)
                   (200 "protocol" nil) (204 "protocol" nil) (307 "protocol" nil)))
    (let ((error (efrit-model-retry-status-error status nil "" 0)))
      (should (equal (efrit-model-error-kind error) kind))
      (should (eq (efrit-model-error-retry error) retry))
      (should (= (efrit-model-error-status error) status)))))

(ert-deftest efrit-model-retry-a-server-may-say-whether-to-try-again ()
  (should (efrit-model-error-retry
           (efrit-model-retry-status-error 400 '(("x-should-retry" . "true")) "" 0)))
  (should-not (efrit-model-error-retry
               (efrit-model-retry-status-error 529 '(("x-should-retry" . "false")) "" 0))))

(ert-deftest efrit-model-retry-the-message-is-that-of-the-api ()
  (pcase-dolist (`(,body ,message)
                 '(("{\"type\":\"error\",\"error\":{\"type\":\"a_error\",\"message\":\"Too é\"}}"
                    "a_error: Too é (HTTP 400)")
                   ("<html>bad\377</html>\n" "<html>bad\\377</html> (HTTP 400)")
                   ("{\"error\":\"x\"}" "{\"error\":\"x\"} (HTTP 400)")
                   ("" "The response is not a reply of the API (HTTP 400)")))
    (should (equal (efrit-model-error-message
                    (efrit-model-retry-status-error 400 nil body 0))
                   message)))
  (should (< (length (efrit-model-error-message
                      (efrit-model-retry-status-error 502 nil (make-string 60000 ?x) 0)))
             600)))

(ert-deftest efrit-model-retry-each-end-of-curl-has-its-kind ()
  (pcase-dolist (`(,code ,connected ,late ,kind ,retry)
                 '((6 nil nil "connect" t) (7 nil nil "connect" t) (5 nil nil "connect" t)
                   (28 nil nil "connect" t) (28 t nil "cut" t)
                   (28 t t "timeout" nil) (28 nil t "timeout" nil)
                   (0 t nil "cut" t) (18 t nil "cut" t) (52 t nil "cut" t)
                   (56 t nil "cut" t) (92 t nil "cut" t)
                   (nil t nil "cut" t) (nil nil nil "cut" t)
                   (60 t nil "tls" nil) (77 t nil "tls" nil) (35 t nil "tls" t)
                   (1 nil nil "connect" nil) (3 nil nil "connect" nil)))
    (let ((error (efrit-model-retry-end-error
                  (efrit-curl--make-end :code code :message "" :connected connected) late)))
      (should (equal (list code connected late (efrit-model-error-kind error)
                           (efrit-model-error-retry error))
                     (list code connected late kind retry)))
      (should-not (string-empty-p (efrit-model-error-message error))))))

(ert-deftest efrit-model-retry-the-server-says-when-in-several-ways ()
  (pcase-dolist (`(,headers ,seconds)
                 '((nil nil)
                   ((("retry-after" . "7")) 7)
                   ((("retry-after" . "0.25")) 0.25)
                   ((("retry-after-ms" . "250") ("retry-after" . "9")) 0.25)
                   ((("retry-after" . "Thu, 01 Jan 1970 00:20:00 GMT")) 200.0)
                   ((("retry-after" . "Thu, 01 Jan 1970 00:10:00 GMT")) 0.0)
                   ((("retry-after" . "soon")) nil)
                   ((("retry-after" . "-5")) nil)
                   ((("retry-after" . "")) nil)))
    (should (equal (efrit-model-retry-after headers 1000) seconds))))

(ert-deftest efrit-model-retry-pauses-grow-and-end ()
  (let ((efrit-model-max-attempts 6) (efrit-model-first-delay 0.5)
        (efrit-model-max-delay 6))
    (cl-flet ((delay (attempts chance &rest more)
                (efrit-model-retry-delay
                 (apply #'efrit-model-failure "429" "" :attempts attempts more) chance)))
      (should (equal (mapcar (lambda (attempts) (delay attempts 0 :retry t))
                             '(1 2 3 4 5 6 7))
                     '(0.5 1.0 2.0 4.0 6.0 nil nil)))
      (should (equal (delay 1 1 :retry t) 0.375))
      (should-not (delay 1 0))
      (should (equal (delay 1 1 :retry t :retry-after 3) 3))
      (should (equal (delay 5 1 :retry t :retry-after 0.1) 0.1))
      (should (equal (delay 1 1 :retry t :retry-after 3600) 6))
      (should (equal (delay 1 0 :retry t :retry-after 0) 0.5))
      (should-not (delay 6 0 :retry t :retry-after 3)))))

(ert-deftest efrit-model-retry-a-message-does-not-show-the-key ()
  (let ((efrit-secret--shapes '("sk-secret")))
    (should (equal (efrit-model-error-message
                    (efrit-model-retry-status-error
                     401 nil "{\"error\":{\"message\":\"no such key sk-secret\"}}" 0))
                   "no such key [API key] (HTTP 401)"))))

(provide 'efrit-model-retry-test)
;;; efrit-model-retry-test.el ends here
