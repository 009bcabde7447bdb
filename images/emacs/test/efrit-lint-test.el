;;; efrit-lint-test.el --- Tests of the package as a whole  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Code:

(require 'ert)
(require 'efrit-lint)
(require 'efrit-server)
(require 'efrit-do)
(require 'efrit-plan)

(ert-deftest efrit-lint-finds-a-private-name-of-another-file ()
  (dolist (use '((efrit-a--f) (mapcar #'efrit-a--f x) (setq efrit-a--v 1) (efrit-a--make :slot 1)
                 `(list ,efrit-a--v) [efrit-a--v]))
    (ert-info ((format "%S" use))
      (let ((lines (efrit-lint-borrowed
                    `(("a.el" (defun efrit-a--f ()) (defvar efrit-a--v nil)
                       (cl-defstruct (efrit-a (:constructor efrit-a--make)) slot)
                       ,use)
                      ("b.el" (defun efrit-b--f () ,use))))))
        (should (equal (length lines) 1))
        (should (string-match-p "\\`b\\.el: `efrit-a--[a-z]+' is private to a\\.el" (car lines)))))))

(ert-deftest efrit-lint-takes-the-private-names-of-a-file-and-the-public-ones-of-others ()
  (should-not (efrit-lint-borrowed
               '(("a.el" (defun efrit-a-f () (throw 'efrit-a--tag (other--name))))
                 ("b.el" (defun efrit-b--f () (efrit-a-f)) (efrit-b--f))))))

(ert-deftest efrit-lint-finds-a-slot-of-a-session-that-another-file-sets ()
  (let ((definition '(cl-defstruct (efrit-session (:constructor x)) "Doc." calls (usage 1))))
    (dolist (use '((setf other 1 (efrit-session-calls s) nil)
                   (when t (pop (efrit-session-calls s)))
                   (push 1 (efrit-session-calls s))
                   (let ((x 1)) (cl-incf (plist-get (efrit-session-usage s) :key) x))
                   (setf (alist-get 'a (efrit-session-usage s)) 1)
                   (setcar (efrit-session-calls s) 1)
                   (cl-letf (((efrit-session-calls s) nil)) s)))
      (ert-info ((format "%S" use))
        (let ((lines (efrit-lint-set-slots `(("a.el" ,definition ,use) ("b.el" (defun f () ,use))))))
          (should (equal (length lines) 1))
          (should (string-match-p
                   "\\`b\\.el: `efrit-session-\\(calls\\|usage\\)' is set here: that is for a\\.el"
                   (car lines))))))
    (dolist (use '((setf (efrit-other-slot (efrit-session-calls s)) 1)
                   (setf other (efrit-session-calls s))
                   (cl-incf (alist-get 'key (efrit-other-slot (efrit-session-usage s))))
                   (efrit-session-calls s)))
      (should-not (efrit-lint-set-slots `(("a.el" ,definition) ("b.el" ,use)))))))

(ert-deftest efrit-settings-each-option-has-a-type-and-is-in-one-group-of-ours ()
  (let ((groups (make-hash-table)) (options 0))
    (mapatoms (lambda (symbol)
                (when (string-prefix-p "efrit" (symbol-name symbol))
                  (dolist (member (get symbol 'custom-group))
                    (should (get symbol 'group-documentation))
                    (push symbol (gethash (car member) groups))))))
    (mapatoms (lambda (symbol)
                (when (and (string-prefix-p "efrit-" (symbol-name symbol))
                           (custom-variable-p symbol))
                  (setq options (1+ options))
                  (ert-info ((symbol-name symbol))
                    (should (get symbol 'custom-type))
                    (should (equal (length (gethash symbol groups)) 1))
                    ;; A part of its own each, below the group of all.
                    (should (equal (gethash (car (gethash symbol groups)) groups) '(efrit)))))))
    (should (> options 30))))

(provide 'efrit-lint-test)
;;; efrit-lint-test.el ends here
