;;; efrit-fast-start.el --- Load libraries, and keep them in a dump  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Stands before the server: run-emacs has it load what the instance names, and
;; make a dump of an Emacs that has loaded it.  The dump holds this file and
;; those libraries alone: no other part of Efrit, whose settings come from the
;; environment of each start.
;;
;; What Emacs cannot dump ends it with an error: threads, windows, compiled
;; queries of tree-sitter, which are therefore not compiled in a dump.

;;; Code:

(require 'cl-lib)

(defvar efrit-fast-start--load-path nil
  "The `load-path' with which a dump was made.
Emacs sets `load-path' anew when it starts.")

(defvar efrit-fast-start--compile nil
  "The primitive `treesit-query-compile', while it is replaced.")
(defvar native-comp-enable-subr-trampolines)

(defun efrit-fast-start--libraries ()
  "Return the libraries to load, as symbols."
  (mapcar #'intern (split-string (or (getenv "EFRIT_FAST_START_LIBRARIES") "") " " t)))

(defun efrit-fast-start-load ()
  "Load the libraries that the environment names.
One that cannot be loaded is logged; a dump is not made then."
  (let ((complete t))
    (dolist (directory efrit-fast-start--load-path)
      (add-to-list 'load-path directory t))
    (dolist (library (efrit-fast-start--libraries))
      (condition-case err
          (require library)
        (error
         (setq complete nil)
         (message "efrit-fast-start: %s: %s" library (error-message-string err)))))
    complete))

(defconst efrit-fast-start--own
  (file-name-directory (or load-file-name buffer-file-name default-directory))
  "Where Efrit is.
A dump is made of no file there but this one, which run-emacs looks at itself.")

(defun efrit-fast-start--directories ()
  "Return the directories that libraries may come from."
  (cl-remove-if-not
   (lambda (directory)
     (and (file-directory-p directory)
          (not (file-equal-p directory efrit-fast-start--own))))
   (delete-dups (mapcar #'expand-file-name (delq nil (copy-sequence load-path))))))

(defun efrit-fast-start--files ()
  "Return the files of a dump: Emacs itself, libraries and native code."
  (cl-remove-if
   (lambda (file) (file-equal-p (file-name-directory file) efrit-fast-start--own))
   (delete-dups
    (append (list (expand-file-name invocation-name invocation-directory))
            (delq nil (mapcar (lambda (entry)
                                (and (stringp (car entry))
                                     (file-name-absolute-p (car entry))
                                     (file-exists-p (car entry))
                                     (car entry)))
                              load-history))
            (mapcar (lambda (unit) (native-comp-unit-file unit)) (efrit-fast-start--units))))))

(defun efrit-fast-start--units ()
  "Return the units of native code whose functions are defined."
  (let ((units nil)
        ;; The newer of its two names.
        (native-p (if (fboundp 'native-comp-function-p) 'native-comp-function-p
                    'subr-native-elisp-p)))
    (when (fboundp 'native-comp-unit-file)
      (mapatoms
       (lambda (symbol)
         (let ((function (symbol-function symbol)))
           (when (eq (car-safe function) 'macro) (setq function (cdr function)))
           (when (funcall native-p function)
             (cl-pushnew (subr-native-comp-unit function) units :test #'eq))))))
    units))

(defun efrit-fast-start--keep-queries ()
  "Have libraries keep queries of tree-sitter as they are written.
Emacs cannot dump compiled ones, and takes both.  Functions in native code would
call the primitive whatever its name stands for."
  (when (fboundp 'treesit-query-compile)
    (let ((load-no-native t)) (require 'treesit))
    (let ((native-comp-enable-subr-trampolines nil))
      (setq efrit-fast-start--compile (symbol-function 'treesit-query-compile))
      (fset 'treesit-query-compile (lambda (_language query &optional _eager) query)))))

(defun efrit-fast-start--write (name directory lines)
  "Write LINES to the file NAME in DIRECTORY."
  (let ((coding-system-for-write 'utf-8-unix))
    (with-temp-file (expand-file-name name directory)
      (dolist (line lines) (insert line "\n")))))

(defun efrit-fast-start-dump (directory)
  "Write to DIRECTORY a dump of this Emacs, and lists of what it was made of.
For an Emacs in batch mode, which ends."
  (efrit-fast-start--keep-queries)
  (unless (efrit-fast-start-load) (kill-emacs 1))
  (when (process-list) (error "A library has started a process: %S" (process-list)))
  (when (cdr (all-threads)) (error "A library has started a thread"))
  (efrit-fast-start--write "files" directory
                           (mapcar #'file-truename (efrit-fast-start--files)))
  (efrit-fast-start--write "directories" directory (efrit-fast-start--directories))
  (dolist (unit (efrit-fast-start--units))
    ;; As loadup.el does: Emacs joins the name to its own directory when it loads the dump.
    (let ((name (file-relative-name (file-truename (native-comp-unit-file unit))
                                    (file-truename invocation-directory))))
      (native-comp-unit-set-file unit (cons name name))))
  (setq efrit-fast-start--load-path load-path
        before-init-time nil
        after-init-time nil)
  (when efrit-fast-start--compile
    (let ((native-comp-enable-subr-trampolines nil))
      (fset 'treesit-query-compile efrit-fast-start--compile)))
  ;; A start adds its own to what is there.
  (setq process-environment nil
        initial-environment nil)
  (garbage-collect)
  (dump-emacs-portable (expand-file-name "emacs.pdmp" directory))
  ;; What libraries do when Emacs ends is not for this one.
  (let ((kill-emacs-hook nil)) (kill-emacs 0)))

(provide 'efrit-fast-start)
;;; efrit-fast-start.el ends here
