;;; efrit-test-compile.el --- Compile what a change may reach  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The mutation gate runs a few tests on each of many copies that differ in one
;; place.  The compiled files of the original serve all of them, but for the file
;; that was changed, and, where it changed more than functions, the files that
;; require it: macros and the accessors of structures are expanded into those.

;;; Code:

(require 'bytecomp)
(require 'seq)

(defconst efrit-test-compile--own
  '(defun cl-defun defvar defvar-local defconst defcustom define-error ert-deftest provide declare-function)
  "Forms that are compiled into their own file alone.")

(defun efrit-test-compile--forms (file)
  "Return the top-level forms of FILE, where it exists."
  (when (file-exists-p file)
    (with-temp-buffer
      (insert-file-contents file)
      (let (forms form)
        (while (setq form (ignore-error end-of-file (read (current-buffer))))
          (push form forms))
        (nreverse forms)))))

(defun efrit-test-compile--expanded-p (file)
  "Return non-nil when what changed in FILE may be expanded into other files."
  (let ((old (efrit-test-compile--forms (concat file ".original")))
        (new (efrit-test-compile--forms file)))
    (seq-find (lambda (form) (not (memq (car form) efrit-test-compile--own)))
              (append (seq-difference old new) (seq-difference new old)))))

(defun efrit-test-compile--requiring (names)
  "Return the files here that require one of NAMES, directly or not, and NAMES."
  (let ((files (directory-files "." nil "\\.el\\'")) (size 0))
    (while (/= size (length names))
      (setq size (length names))
      (dolist (file files)
        (unless (member file names)
          (when (seq-find (lambda (form)
                            (and (eq (car-safe form) 'require)
                                 (member (format "%s.el" (cadr (cadr form))) names)))
                          (efrit-test-compile--forms file))
            (push file names)))))
    names))

(defun efrit-test-compile-changed ()
  "Compile the files that have no compiled file, and those they are expanded into.
Beside a file that was changed is the original, as FILE.original."
  (let* ((changed (seq-remove (lambda (file) (file-exists-p (concat file "c")))
                              (directory-files "." nil "\\.el\\'")))
         (expanded (seq-filter #'efrit-test-compile--expanded-p changed))
         (files (seq-uniq (append changed (efrit-test-compile--requiring expanded)))))
    ;; All of them first: what is compiled loads what it requires.
    (dolist (file files)
      (when (file-exists-p (concat file "c")) (delete-file (concat file "c"))))
    (dolist (file files)
      (unless (byte-compile-file file) (kill-emacs 1)))))

(provide 'efrit-test-compile)
;;; efrit-test-compile.el ends here
