;;; efrit-session-prompt-test.el --- Tests of what a model is told of Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The facts that go with a command: the first of many, how many are left out, and
;; names of any characters.

;;; Code:

(require 'efrit-session-prompt)
(require 'efrit-test-queue)

(defun efrit-prompt-test--facts ()
  "Return the facts of now, read back from their JSON."
  (json-parse-string (efrit-json-text (efrit-prompt-snapshot "s" 1))
                     :object-type 'alist :array-type 'list :null-object nil))

(ert-deftest efrit-prompt-names-the-first-files-and-says-how-many-are-left-out ()
  (efrit-test-with-queue
    (dotimes (number 300)
      (write-region "" nil (format "%sf%03d" efrit-workspace-directory number) nil 'silent))
    (let-alist (efrit-prompt-test--facts)
      (should (equal (length .files) 200))
      (should (equal (car .files) "f000"))
      (should (equal .files_left_out 100))
      (should-not .files_unread))
    (let ((efrit-files--max-names 250))
      (let-alist (efrit-prompt-test--facts)
        (should (equal (length .files) 200))
        (should (equal .files_left_out 50))
        (should (eq .files_unread t))))))

(ert-deftest efrit-prompt-names-every-file-where-there-are-few ()
  (efrit-test-with-queue
    (dolist (name '("é" "a\nb" "\377"))
      (write-region "" nil (concat efrit-workspace-directory name) nil 'silent))
    (let ((facts (efrit-prompt-test--facts)))
      (should (equal (sort (alist-get 'files facts) #'string<) '("\\377" "a\nb" "é")))
      (should-not (assq 'files_left_out facts))
      (should-not (assq 'files_unread facts)))
    (delete-directory efrit-workspace-directory t)
    (should-not (alist-get 'files (efrit-prompt-test--facts)))
    (make-directory efrit-workspace-directory)))

(ert-deftest efrit-prompt-names-the-first-buffers-and-says-how-many-are-left-out ()
  (efrit-test-with-queue
    (let ((buffers (mapcar (lambda (number) (get-buffer-create (format "many-%d" number)))
                           (number-sequence 1 300))))
      (unwind-protect
          (let-alist (efrit-prompt-test--facts)
            (should (equal (length .buffers) 200))
            (should (<= 100 .buffers_left_out))
            (should (= (+ 200 .buffers_left_out)
                       (cl-count-if-not (lambda (buffer) (string-prefix-p " " (buffer-name buffer)))
                                        (buffer-list)))))
        (mapc #'kill-buffer buffers)))))

(provide 'efrit-session-prompt-test)
;;; efrit-session-prompt-test.el ends here
