;;; efrit-session-progress-test.el --- Tests of the work log  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Where the work log of a request is written, whatever else is in its place.

;;; Code:

(require 'efrit-test-queue)
(require 'efrit-session-progress)

(ert-deftest efrit-progress-what-is-not-a-file-is-put-aside-and-not-written-to ()
  (dolist (make (list (lambda (path) (make-symbolic-link (efrit-files-path "sessions" "theirs") path))
                      (lambda (path) (make-directory (concat path "/inner") t))
                      (lambda (path) (call-process "mkfifo" nil nil nil path))))
    (efrit-test-with-queue
      (efrit-test-write "sessions" "theirs" "")
      (let ((progress (efrit-progress-new :id "r")))
        (efrit-progress-begin-turn progress 1)
        (delete-file (efrit-progress-path "r"))
        (funcall make (efrit-progress-path "r"))
        (efrit-progress-begin-turn progress 2)
        (should (equal (efrit-test-read "sessions" "theirs") ""))
        (should (= 2 (length (split-string (efrit-test-read "progress" "r.ndjson") "\n" t))))
        (should (seq-find (lambda (name) (string-prefix-p "aside_" name)) (efrit-test-names "progress")))))))

(provide 'efrit-session-progress-test)
;;; efrit-session-progress-test.el ends here
