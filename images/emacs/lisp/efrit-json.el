;;; efrit-json.el --- JSON in the one form that is used for conversations  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What a model says, what it is told and what is kept of both: objects are
;; alists with symbols for keys, arrays vectors, {} is nil.  A value that was read
;; is written again as it was.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'efrit-print)

(defun efrit-json-parse (text)
  "Return the value of the JSON TEXT."
  (json-parse-string text :object-type 'alist :array-type 'array
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
