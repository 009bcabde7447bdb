;;; unfinished.el --- A file with something to find  -*- lexical-binding: t; -*-

;;; Commentary:
;; The byte compiler has two remarks about this one.

;;; Code:

(defun unfinished-greeting (name)
  "Return a greeting."
  (let ((unused 1))
    (format "Hello, %s" (unfinished-title-of name))))

(provide 'unfinished)
;;; unfinished.el ends here
