;;; efrit-plan-json.el --- What plans take and return, as JSON  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Every function of a plan takes one JSON text and gives one back.  Long values
;; travel packed (gzip, base64).  In the repository a tree has one task on each
;; line, so that what git shows of a change is the tasks that changed.  Pure, but
;; for gzip.

;;; Code:

(require 'cl-lib)
(require 'efrit-json)
(require 'efrit-plan-git)

(defconst efrit-plan-json--longest 20000
  "Characters of a JSON text beyond which it travels packed.")

;;;; Arguments

(defun efrit-plan-json-arguments (text)
  "Return the object that TEXT is the JSON of."
  (let ((value (efrit-plan-json--parse text "The argument")))
    (unless (and (consp value) (consp (car value)))
      (efrit-plan-fail 'efrit-plan-arguments "The argument is not a JSON object with members"))
    value))

(defun efrit-plan-json--parse (text what)
  "Return the value that TEXT is the JSON of; WHAT names it in an error."
  (condition-case err
      (efrit-json-parse text)
    (error (efrit-plan-fail 'efrit-plan-arguments "%s is not JSON that Emacs can read: %s"
                            what (error-message-string err)))))

(defconst efrit-plan-json--kinds
  '((string . stringp) (count . natnump) (number . numberp) (list . vectorp)
    (object . listp))
  "What a member may be, and the function that says whether it is.")

(defun efrit-plan-json-get (arguments name kind &optional default)
  "Return the member NAME of ARGUMENTS, which is of KIND; else DEFAULT.
Without DEFAULT it must be there.  KIND is one of `efrit-plan-json--kinds'."
  (let ((value (alist-get name arguments :null)))
    (cond ((and (eq value :null) default) default)
          ((funcall (alist-get kind efrit-plan-json--kinds) value) value)
          (t (efrit-plan-fail 'efrit-plan-arguments "The argument's member %s must be %s" name
                              (pcase kind
                                ('count "an integer from 0 on") ('object "an object")
                                (_ (format "a %s" kind))))))))

(defun efrit-plan-json-option (arguments name kind)
  "Return the member NAME of ARGUMENTS, which is of KIND, nil when it is absent."
  (unless (eq (alist-get name arguments :null) :null)
    (efrit-plan-json-get arguments name kind)))

;;;; Packing

(defun efrit-plan-json-payload (arguments name)
  "Return the value of the member NAME of ARGUMENTS: {value}, {packed}, or itself.
It is :null when it is absent."
  (let ((payload (alist-get name arguments :null)))
    (pcase payload
      (`((value . ,value)) value)
      (`((packed . ,packed)) (efrit-plan-json--parse (efrit-plan-json--unpack packed name) name))
      (_ payload))))

(defun efrit-plan-json--unpack (packed name)
  "Return the text that PACKED, the member NAME, is the gzip and base64 of."
  (unless (and (fboundp 'zlib-available-p) (zlib-available-p))
    (efrit-plan-fail 'efrit-plan-arguments "This Emacs cannot read packed values: use one with zlib"))
  (with-temp-buffer
    (set-buffer-multibyte nil)
    (unless (condition-case nil
                (progn (insert (base64-decode-string packed))
                       (zlib-decompress-region (point-min) (point-max)))
              (error nil))
      (efrit-plan-fail 'efrit-plan-arguments "The member packed of %s is not the base64 of gzip" name))
    (decode-coding-string (buffer-string) 'utf-8-unix t)))

(defun efrit-plan-json-packed (text)
  "Return the member that TEXT, a JSON text, travels as: an alist of one."
  (or (and (> (length text) efrit-plan-json--longest)
           (efrit-plan-json--gzip text))
      `((value . ,(efrit-json-parse text)))))

(defun efrit-plan-json--gzip (text)
  "Return ((packed . BASE64)) for TEXT, nil where there is no gzip."
  (let ((program (executable-find "gzip")) (default-directory "/")
        (coding-system-for-read 'no-conversion) (coding-system-for-write 'no-conversion))
    (when program
      (with-temp-buffer
        (set-buffer-multibyte nil)
        (when (equal 0 (call-process-region (encode-coding-string text 'utf-8-unix) nil program
                                            nil '(t nil) nil "-n" "-c"))
          `((packed . ,(base64-encode-string (buffer-string) t))))))))

;;;; The tree as a file

(defun efrit-plan-json-tree-text (tree)
  "Return the JSON of TREE, one task on each line."
  (with-temp-buffer
    (efrit-plan-json--insert-task tree 0)
    (insert "\n")
    (buffer-string)))

(defun efrit-plan-json--insert-task (task depth)
  "Insert TASK, DEPTH parents deep."
  (unless (and (consp task) (stringp (alist-get 'id task)))
    (efrit-plan-fail 'efrit-plan-arguments "A task of the tree is not an object with an id"))
  (let ((children (alist-get 'children task)))
    (insert-char ?\s depth)
    (if (= (length children) 0)
        (insert (efrit-plan-json--object task))
      (insert (substring (efrit-plan-json--object (assq-delete-all 'children (copy-sequence task)))
                         0 -1)
              ",\"children\":[\n")
      (cl-loop for child across children for first = t then nil
               do (unless first (insert ",\n"))
               do (efrit-plan-json--insert-task child (1+ depth)))
      (insert "\n")
      (insert-char ?\s depth)
      (insert "]}"))))

(defun efrit-plan-json--object (object)
  "Return the JSON of OBJECT, the same in every Emacs."
  ;; Emacs 28 makes 0.20000000000000001 of 0.2.  Inside a string, quotes have backslashes.
  (replace-regexp-in-string
   "\"[a-z_]+\":[0-9]+\\.[0-9]\\{15,\\}"
   (lambda (member)
     (let ((start (1+ (string-search ":" member))))
       (concat (substring member 0 start)
               (number-to-string (string-to-number (substring member start))))))
   (efrit-json-text object) t t))

(defun efrit-plan-json-line-task (line)
  "Return the task, without its children, on LINE of the file of a tree, or nil."
  (when (string-prefix-p "{" line)
    (let ((line (string-remove-suffix "," line)))
      (ignore-errors
        (efrit-json-parse (if (string-suffix-p ",\"children\":[" line)
                              (concat (substring line 0 -13) "}")
                            line))))))

(defun efrit-plan-json-text (value)
  "Return VALUE as the text of a JSON file."
  (concat (efrit-json-text value) "\n"))

(provide 'efrit-plan-json)
;;; efrit-plan-json.el ends here
