;;; efrit-lint.el --- Check what a package consists of  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Three checks of all files of the package at once: no file uses a private name
;; (efrit-part--name) of another, the slots of a session and of its work log are set
;; in the file that defines them alone, and package-lint, where it is installed,
;; finds nothing.

;;; Code:

(require 'cl-lib)
(require 'seq)

(declare-function package-lint-buffer "package-lint" (&optional buffer))
(defvar package-lint-main-file)

;;;; Private names

(defun efrit-lint--private-p (symbol)
  "Return non-nil when SYMBOL is private by its name."
  (string-match-p "\\`efrit-.*--" (symbol-name symbol)))

(defun efrit-lint--symbols (form)
  "Return the private symbols of our own that occur in FORM."
  (let ((waiting (list form)) found)
    (while waiting
      (let ((value (pop waiting)))
        (cond ((consp value)
               (push (cdr value) waiting)
               (push (car value) waiting))
              ((vectorp value) (setq waiting (append value waiting)))
              ((and value (symbolp value) (efrit-lint--private-p value))
               (push value found)))))
    (seq-uniq found)))

(defun efrit-lint--defined (form)
  "Return the private symbols that FORM, at the top of a file, defines."
  (when (and (consp form) (string-match-p "\\`\\(?:cl-\\)?def" (symbol-name (car form)))
             (cdr form))
    (let ((name (cadr form)))
      ;; The options of a structure name its constructor, those of a variable its hooks.
      (seq-filter #'efrit-lint--private-p
                  (if (consp name)
                      (append (and (symbolp (car name)) (list (car name)))
                              (efrit-lint--symbols
                               (seq-filter (lambda (option)
                                             (memq (car-safe option)
                                                   '(:constructor :copier :predicate)))
                                           (cdr name))))
                    (list name))))))

(defun efrit-lint-borrowed (files)
  "Return a line about each private name in FILES that is another file's.
FILES is an alist of names and lists of forms."
  (let ((owners (make-hash-table)))
    (pcase-dolist (`(,name . ,forms) files)
      (dolist (form forms)
        (dolist (symbol (efrit-lint--defined form))
          (puthash symbol name owners))))
    (seq-mapcat
     (pcase-lambda (`(,name . ,forms))
       (delq nil
             (mapcar (lambda (symbol)
                       (let ((owner (gethash symbol owners name)))
                         (unless (equal owner name)
                           (format "%s: `%s' is private to %s: make it public, or use it there only"
                                   name symbol owner))))
                     (efrit-lint--symbols forms))))
     files)))

(defun efrit-lint--forms (file)
  "Return the forms in FILE."
  (with-temp-buffer
    (insert-file-contents file)
    (emacs-lisp-mode)
    (let (forms)
      (condition-case nil
          (while t (push (read (current-buffer)) forms))
        (end-of-file (nreverse forms))))))

;;;; Slots

(defconst efrit-lint--sealed '(efrit-session efrit-progress)
  "The structures whose slots are set in the file that defines them alone.")

(defun efrit-lint--slots (form)
  "Return the accessors of the sealed structure that FORM defines, or nil."
  (pcase form
    (`(cl-defstruct ,(or `(,name . ,_) name) . ,slots)
     (when (memq name efrit-lint--sealed)
       (mapcar (lambda (slot) (intern (format "%s-%s" name (if (consp slot) (car slot) slot))))
               (seq-remove #'stringp slots))))))

(defun efrit-lint--places (form)
  "Return the places that FORM sets, as far as it is itself what sets them."
  (pcase form
    (`(,(or 'setf 'cl-psetf) . ,pairs) (cl-loop for (place) on pairs by #'cddr collect place))
    (`(,(or 'push 'cl-pushnew 'add-to-list) ,_ ,place . ,_) (list place))
    (`(,(or 'pop 'cl-incf 'cl-decf 'incf 'decf) ,place . ,_) (list place))
    (`(,(or 'cl-callf 'cl-callf2) ,_ . ,places) places)
    (`(,(or 'cl-rotatef 'cl-shiftf) . ,places) places)
    (`(,(or 'cl-letf 'cl-letf*) ,bindings . ,_) (mapcar #'car-safe bindings))
    (`(,(or 'setcar 'setcdr 'aset 'nconc 'puthash) . ,places) places)))

(defun efrit-lint--set-slot (place slots)
  "Return the accessor among SLOTS whose slot is set where PLACE is, or nil."
  (when (consp place)
    (cond ((memq (car place) slots) (car place))
          ;; The slot of another structure, which is only found through this one.
          ((string-prefix-p "efrit-" (format "%s" (car place))) nil)
          (t (seq-some (lambda (part) (efrit-lint--set-slot part slots)) (cdr place))))))

(defun efrit-lint--subforms (form)
  "Return FORM and all lists in it, as far as it is a proper list."
  (when (and (consp form) (proper-list-p form))
    (cons form (seq-mapcat #'efrit-lint--subforms form))))

(defun efrit-lint-set-slots (files)
  "Return a line about each slot in FILES that is set in a file of another.
FILES is as for `efrit-lint-borrowed'."
  (let ((owners (seq-mapcat
                 (pcase-lambda (`(,name . ,forms))
                   (mapcar (lambda (slot) (cons slot name))
                           (seq-mapcat #'efrit-lint--slots forms)))
                 files)))
    (seq-mapcat
     (pcase-lambda (`(,name . ,forms))
       (let ((foreign (seq-remove (lambda (owner) (equal (cdr owner) name)) owners)))
         (cl-loop for form in (seq-mapcat #'efrit-lint--subforms forms)
                  append
                  (cl-loop for place in (efrit-lint--places form)
                           for slot = (efrit-lint--set-slot place (mapcar #'car foreign))
                           when slot
                           collect (format "%s: `%s' is set here: that is for %s alone"
                                           name slot (alist-get slot foreign))))))
     files)))

;;;; package-lint

(defconst efrit-lint--accepted
  (regexp-opt '("Package should have a Homepage or URL header" ; There is no page yet.
                ;; Its newest release knows Emacs 27.
                "This makes the package uninstallable in all released Emacs versions"
                ;; What cl-lib loads when it is first used must be there before a request is.
                "This file is not in the `cl-lib' ELPA compatibility package"))
  "What package-lint says and we do not follow.")

(defun efrit-lint--package (main files)
  "Return lines about what package-lint finds in FILES, of which MAIN is one."
  (let ((package-lint-main-file main))
    (seq-mapcat
     (lambda (file)
       (with-current-buffer (find-file-noselect file)
         (delq nil
               (mapcar (pcase-lambda (`(,line ,_column ,_kind ,text))
                         (unless (string-match-p efrit-lint--accepted text)
                           (format "%s:%d: %s" file line text)))
                       (package-lint-buffer)))))
     files)))

(defun efrit-lint-batch ()
  "Check the files of the package on the command line, and end Emacs."
  (let* ((files command-line-args-left)
         (forms (mapcar (lambda (file) (cons file (efrit-lint--forms file))) files))
         (lines (append
                 (efrit-lint-borrowed forms)
                 (efrit-lint-set-slots forms)
                 ;; Emacs 30 warns of its source.
                 (if (let ((inhibit-message t)) (require 'package-lint nil t))
                     (efrit-lint--package "efrit.el" files)
                   (message "package-lint is not installed: its checks are left out")
                   nil))))
    (dolist (line lines) (message "%s" line))
    (kill-emacs (if lines 1 0))))

(provide 'efrit-lint)
;;; efrit-lint.el ends here
