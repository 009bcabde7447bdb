;;; text-tools.el --- Small tools for text  -*- lexical-binding: t; -*-

;;; Commentary:
;; One of the sources the sample request compiles and checks.

;;; Code:

(defun text-tools-words (string)
  "Return the words of STRING as a list."
  (split-string string "[^[:alnum:]]+" t))

(defun text-tools-frequencies (string)
  "Return an alist of the words of STRING and how often each occurs."
  (let ((table (make-hash-table :test #'equal)))
    (dolist (word (text-tools-words (downcase string)))
      (puthash word (1+ (gethash word table 0)) table))
    (let (pairs)
      (maphash (lambda (word count) (push (cons word count) pairs)) table)
      (sort pairs (lambda (a b) (> (cdr a) (cdr b)))))))

(defun text-tools-wrap (string width)
  "Return STRING filled to WIDTH columns."
  (with-temp-buffer
    (insert string)
    (let ((fill-column width))
      (fill-region (point-min) (point-max)))
    (buffer-string)))

(provide 'text-tools)
;;; text-tools.el ends here
