;;; efrit-checkdoc.el --- Run checkdoc in batch mode  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Prints what checkdoc says of each file named on the command line and ends
;; Emacs, with an error if it said anything.

;;; Code:

(require 'checkdoc)

(defun efrit-checkdoc-batch ()
  "Check the files on the command line and end Emacs."
  (let ((found 0))
    (dolist (file command-line-args-left)
      (with-current-buffer (find-file-noselect file)
        ;; The name of a test is its sentence.
        (let ((checkdoc-create-error-function
               (lambda (text start _end &optional _unfixable)
                 (unless (efrit-checkdoc--test-p start)
                   (setq found (1+ found))
                   (message "%s:%d: %s" file (line-number-at-pos start) text))
                 nil))
              ;; It takes every word that may be a verb for one.
              (checkdoc-verb-check-experimental-flag nil)
              (checkdoc-spellcheck-documentation-flag nil))
          (checkdoc-current-buffer t))))
    (kill-emacs (min 1 found))))

(defun efrit-checkdoc--test-p (position)
  "Return non-nil when POSITION is inside a test."
  (save-excursion
    (goto-char (or position (point)))
    (end-of-line)
    (beginning-of-defun)
    (looking-at-p "(ert-deftest ")))

(provide 'efrit-checkdoc)
;;; efrit-checkdoc.el ends here
