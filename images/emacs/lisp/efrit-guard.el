;;; efrit-guard.el --- Keep what the server consists of  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The code of a request may redefine anything, the functions of the server and the
;; primitives it depends on included.  They are recorded at the start and compared
;; after each request, by their function objects; what was redefined is put back.
;; Advice stays, since that is how a resident Emacs is instrumented; where it keeps the
;; server from answering, that Emacs ends and the next one answers.

;;; Code:

(require 'nadvice)
(require 'seq)

(defconst efrit-guard--primitives
  '(add-name-to-file assoc cancel-timer copy-sequence current-time
    decode-coding-string delete-file directory-files encode-coding-string
    error-message-string expand-file-name file-attributes file-exists-p
    file-name-directory file-name-nondirectory file-notify-add-watch float-time format
    format-message format-time-string generate-new-buffer get-buffer-create gethash
    insert-file-contents-literally json-parse-string json-serialize kill-buffer
    make-directory mapcar maphash message prin1 prin1-to-string puthash read-from-string
    remhash rename-file replace-regexp-in-string run-with-timer secure-hash sort
    string-match string-match-p string-replace string-search timer-activate
    timer-event-handler timer-set-time unibyte-string write-region)
  "Functions of Emacs that the server cannot do without.")

(defvar efrit-guard--recorded nil
  "The functions as they were at the start, a list of (SYMBOL . FUNCTION).")

(defvar efrit-guard--restored nil
  "Symbols that were put back and are not logged yet.")

(defvar efrit-guard--advised-p (symbol-function 'advice--p)
  "What tells a function that is advised.")

(defvar efrit-guard--kill-emacs (symbol-function 'kill-emacs)
  "What ends Emacs.")

(defun efrit-guard-start ()
  "Record the functions of the server and those it depends on."
  (let (recorded)
    (mapatoms
     (lambda (symbol)
       (when (and (fboundp symbol) (string-prefix-p "efrit-" (symbol-name symbol)))
         (push (cons symbol (symbol-function symbol)) recorded))))
    (dolist (symbol efrit-guard--primitives)
      (when (fboundp symbol)
        (push (cons symbol (symbol-function symbol)) recorded)))
    (setq efrit-guard--recorded recorded)))

(defun efrit-guard-stop ()
  "Guard nothing any more."
  (setq efrit-guard--recorded nil))

;; Compiled, this calls nothing by its name but where something was redefined: hold on
;; to its function object, and whatever a request does to names it still works.
(defun efrit-guard-restore ()
  "Put back each recorded function that was redefined, unless it is only advised."
  (let ((rest efrit-guard--recorded) pair current)
    (while rest
      (setq pair (car rest)
            rest (cdr rest)
            current (symbol-function (car pair)))
      (unless (or (eq current (cdr pair))
                  (and current (funcall efrit-guard--advised-p current)))
        (fset (car pair) (cdr pair))
        (setq efrit-guard--restored (cons (car pair) efrit-guard--restored))))))

(defvar efrit-guard-restorer (symbol-function 'efrit-guard-restore)
  "What `efrit-guard-restore' was when it was loaded.")

(defun efrit-guard-take-restored ()
  "Return the symbols that were put back since the last call, as text, or nil."
  (let ((symbols efrit-guard--restored))
    (setq efrit-guard--restored nil)
    (when symbols
      (concat (mapconcat #'symbol-name (seq-take symbols 5) ", ")
              (if (> (length symbols) 5) (format " and %d more" (- (length symbols) 5)) "")))))

(defun efrit-guard-altered-p ()
  "Return non-nil when a recorded function is not what it was at the start."
  (seq-some (pcase-lambda (`(,symbol . ,function))
              (not (eq (symbol-function symbol) function)))
            efrit-guard--recorded))

(defun efrit-guard-end ()
  "End this Emacs, which cannot answer; whoever supervises it starts another.
Return where it is not a daemon: such an Emacs belongs to its user."
  (when (daemonp)
    (let ((kill-emacs-hook nil) (kill-emacs-query-functions nil))
      (funcall efrit-guard--kill-emacs 70))))

(provide 'efrit-guard)
;;; efrit-guard.el ends here
