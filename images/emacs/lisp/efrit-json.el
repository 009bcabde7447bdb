;;; efrit-json.el --- JSON in the one form that is used for conversations  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What a model says, what it is sent and what is kept of both: objects are
;; alists with symbols for keys, arrays vectors, {} is nil.  A value that was read
;; is written again as it was.  What one of the versions of Emacs cannot read is
;; replaced first, the same in all of them, so that each reads what another wrote.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'efrit-print)

(defconst efrit-json--suspect-regexp "\\\\u\\(?:0000\\|[dD][89a-fA-F]\\)"
  "What text has that may have an escape to replace.")

(defconst efrit-json--escape-regexp
  (let ((digit "[0-9a-fA-F]"))
    (concat "\\\\\\(?:u[dD][89abAB]" digit digit "\\\\u[dD][c-fC-F]" digit digit
            "\\|\\(u[dD][89a-fA-F]" digit digit "\\)\\|\\(u0000\\)\\|[^u]\\)"))
  "An escape: a pair of surrogates, one alone (group 1), NUL (group 2), another.
Of two backslashes the second begins none.")

(defun efrit-json--readable (text)
  "Return the JSON TEXT without escapes that some Emacs refuses.
Emacs 28 takes no NUL, which becomes \\000 as in answers; none takes a surrogate
alone, which becomes U+FFFD."
  (let ((case-fold-search nil))
    (if (not (string-match-p efrit-json--suspect-regexp text))
        text
      (replace-regexp-in-string
       efrit-json--escape-regexp
       (lambda (escape)
         (cond ((match-beginning 1) "\\ufffd")
               ((match-beginning 2) "\\\\000")
               (t escape)))
       text t t))))

(defun efrit-json-parse (text)
  "Return the value of the JSON TEXT.
A NUL in it is read as \\000, a surrogate alone as U+FFFD."
  (json-parse-string (efrit-json--readable text) :object-type 'alist :array-type 'array
                     :null-object :null :false-object :false))

(defun efrit-json-text (value)
  "Return VALUE as JSON: text, which Emacs 30 would give as bytes."
  (let ((json (json-serialize value :null-object :null :false-object :false)))
    (if (multibyte-string-p json) json (decode-coding-string json 'efrit-utf-8 t))))

(defalias 'efrit-json-clean #'efrit-print-clean)

(defun efrit-json-object (members)
  "Return the object that has MEMBERS, a plist."
  (cl-loop for (key value) on members by #'cddr
           collect (cons (intern (substring (symbol-name key) 1)) value)))

(provide 'efrit-json)
;;; efrit-json.el ends here
