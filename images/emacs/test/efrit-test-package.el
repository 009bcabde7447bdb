;;; efrit-test-package.el --- Install Efrit as a package, and use it  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Two steps, each in an Emacs of its own, since what is installed must be found by an
;; Emacs that starts later.  The package is in package/, beside which it is installed.

;;; Code:

(require 'package)

(setq package-user-dir (expand-file-name "package/elpa")
      package-archives nil)

(defconst efrit-test-package--commands
  '(efrit-do efrit-chat efrit-continue efrit-cancel efrit-status
    efrit-server-start efrit-server-stop)
  "What a user finds with \\[execute-extended-command].")

(defun efrit-test-package-install ()
  "Install the package; it is an error if a file of it does not compile."
  (package-initialize)
  (let ((tar (car (file-expand-wildcards (expand-file-name "package/efrit-*.tar"))))
        (inhibit-message t))
    (package-install-file tar))
  (dolist (file (directory-files (package-desc-dir (cadr (assq 'efrit package-alist)))
                                 t "\\`efrit.*\\.el\\'"))
    (unless (or (string-match-p "-\\(?:pkg\\|autoloads\\)\\.el\\'" file)
                (file-exists-p (concat file "c")))
      (error "%s was not compiled" file))))

(defun efrit-test-package-use ()
  "Find the commands of the package that is installed, and load what they are in."
  (package-initialize)
  (when (featurep 'efrit-settings) (error "Starting Emacs loads more than the autoloads"))
  (let ((description (cadr (assq 'efrit package-alist))))
    (unless (and description
                 (equal (package-desc-reqs description) '((emacs (28 1))))
                 (not (string-search "-*-" (package-desc-summary description))))
      (error "It is not installed as it should be: %S" description)))
  (dolist (command efrit-test-package--commands)
    (unless (and (autoloadp (symbol-function command)) (commandp command))
      (error "%s is no autoloaded command" command)))
  (unless (autoloadp (symbol-function 'efrit-command-map))
    (error "Efrit has no keymap to bind"))
  (require 'efrit)
  (dolist (command efrit-test-package--commands)
    (autoload-do-load (symbol-function command) command)
    (let ((file (symbol-file command 'defun)))
      (unless (and file (file-in-directory-p file package-user-dir)
                   (string-suffix-p ".elc" file))
        (error "%s is from %s, not from the package" command file))))
  (unless (keymapp (symbol-function 'efrit-command-map))
    (error "The keymap is none")))

(provide 'efrit-test-package)
;;; efrit-test-package.el ends here
