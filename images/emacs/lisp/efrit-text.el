;;; efrit-text.el --- Text within a limit of bytes  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Long text is cut in the middle, at whole characters.  What is left out is always
;; said, in a line of its own in square brackets.

;;; Code:

(require 'efrit-json)
(require 'efrit-print)

(defun efrit-text-cut (text limit)
  "Return TEXT fit for JSON; of more than LIMIT bytes, both ends are kept."
  (let* ((text (efrit-json-clean text))
         (bytes (string-bytes text)))
    (if (<= bytes limit)
        text
      (let ((head (efrit-print-head text (/ limit 2)))
            (tail (efrit-text-tail text (/ limit 2))))
        (efrit-text-joined
         head (- bytes (string-bytes head) (string-bytes tail)) tail)))))

(defun efrit-text-joined (head lost tail)
  "Return HEAD and TAIL with a line between about the LOST bytes."
  (concat head
          (if (or (string-empty-p head) (string-suffix-p "\n" head)) "" "\n")
          (format "[%d bytes left out]\n" lost)
          tail))

(defun efrit-text-tail (text limit)
  "Return the longest tail of TEXT, which is clean, of at most LIMIT bytes."
  (let* ((bytes (encode-coding-string text 'utf-8-unix t))
         (start (max 0 (- (length bytes) limit))))
    ;; A byte 10xxxxxx continues a character.
    (while (and (< start (length bytes)) (= (logand (aref bytes start) #xc0) #x80))
      (setq start (1+ start)))
    (decode-coding-string (substring bytes start) 'utf-8-unix t)))

(provide 'efrit-text)
;;; efrit-text.el ends here
