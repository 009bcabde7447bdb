;;; efrit-print.el --- Print a value within limits  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Any Lisp value in, text that fits into JSON out, in bounded time and space
;; even when the value is circular or gigantic.  Pure; knows nothing of requests.
;;
;; The usual value is measured by a short walk and then printed by C code.  What
;; the walk finds too large, too deep or of a kind it does not know is printed
;; character by character, until the limit throws.

;;; Code:

(require 'cl-lib)
(require 'efrit-files)

(defvar print-unreadable-function)      ; Emacs 29
(defvar print-symbols-bare)             ; Emacs 29

(define-error 'efrit-unprintable "The value cannot be printed")

(defconst efrit-print--deepest 1000
  "Nesting that C code prints without danger to its stack.")

(defconst efrit-print--max-objects 100000
  "Objects in a value beyond which C code would need long to prepare.")

(cl-defstruct (efrit-print (:constructor efrit-print-make))
  "A printed value: TEXT, its whole BYTES as far as printed, TRUNCATED or not."
  text bytes truncated)

;;;; Printing

(defun efrit-print-reset ()
  "Have Emacs forget what an error has left in the buffer it makes strings in.
The next string that is printed would begin with it."
  (ignore (prin1-to-string nil)))

(defun efrit-print (value limit)
  "Print VALUE readably in at most LIMIT bytes of UTF-8; return an `efrit-print'.
Signal `efrit-unprintable' for what is nested too deeply: no part of it would be
what Emacs prints."
  (let* ((print-length nil) (print-level nil) (print-circle t)
         (print-quoted t) (print-gensym nil)
         (print-escape-newlines nil) (print-escape-control-characters nil)
         (print-escape-nonascii t) (print-escape-multibyte nil)
         (print-charset-text-property 'default)
         (print-integers-as-characters nil)
         (print-continuous-numbering nil) (print-number-table nil)
         (print-unreadable-function nil) (print-symbols-bare nil)
         (float-output-format nil)
         (case-fold-search nil)
         (verdict (efrit-print--measure value limit))
         (text (efrit-print-clean
                (pcase verdict
                  ('fits (prin1-to-string value))
                  ;; The text is cut below, so the closing quote is lost anyway.
                  ('long-string (prin1-to-string (substring value 0 (1+ limit))))
                  ('deep (efrit-print--too-deep efrit-print--deepest))
                  (_ (efrit-print--slowly value limit)))))
         (bytes (string-bytes text))
         (over (> bytes limit)))
    (efrit-print-make :text (if over (efrit-print-head text limit) text)
                      :bytes bytes
                      :truncated (or over (eq verdict 'long-string)))))

(defun efrit-print--too-deep (levels)
  "Signal that a value is nested deeper than LEVELS."
  (signal 'efrit-unprintable (list (format "it is nested deeper than %d levels" levels))))

(defun efrit-print--slowly (value limit)
  "Print VALUE one character at a time until LIMIT bytes are passed."
  ;; Without `print-circle' nothing is prepared; C code refuses level 200.
  (let ((print-circle nil) (printed 0))
    (efrit-files-with-buffer
      (catch 'efrit-print--full
        (condition-case err
            (prin1 value
                   (lambda (char)
                     (insert char)
                     (when (> (setq printed (+ printed (if (< char 128) 1
                                                         (string-bytes (string char)))))
                              limit)
                       (throw 'efrit-print--full nil))))
          (error
           (if (string-match-p "circular" (error-message-string err))
               (efrit-print--too-deep 199)
             (signal (car err) (cdr err))))))
      (buffer-string))))

;;;; Measuring

(defun efrit-print--measure (value limit)
  "Return how to print VALUE, of which LIMIT bytes will be kept.
`fits', `long-string', `deep', or `unknown'."
  (cond ((and (stringp value) (> (length value) limit))
         (if (efrit-print--plain-string-p value) 'long-string 'unknown))
        (t (efrit-print--walk value (* 4 (max limit 1024))))))

(defun efrit-print--plain-string-p (string)
  "Return non-nil when STRING has no text properties."
  (and (null (text-properties-at 0 string))
       (null (next-property-change 0 string))))

(defun efrit-print--walk (value most-bytes)
  "Return `fits' when VALUE is known to print in about MOST-BYTES at most.
Otherwise `deep' or `unknown'."
  (let ((todo (list (cons 0 value))) (objects 0) (bytes 0) (verdict 'fits)
        (visited nil))
    (cl-flet ((enter (depth element) (push (cons depth element) todo)))
      (while (and todo (eq verdict 'fits))
        (pcase-let ((`(,depth . ,object) (pop todo)))
          (setq objects (1+ objects))
          ;; Small values are not worth a table; a circle grows until it has one.
          (when (= objects 500) (setq visited (make-hash-table :test #'eq)))
          (cond ((or (> objects efrit-print--max-objects) (> bytes most-bytes))
                 (setq verdict 'unknown))
                ((> depth efrit-print--deepest) (setq verdict 'deep))
                ((symbolp object)
                 (setq bytes (+ bytes 1 (string-bytes (symbol-name object)))))
                ((or (fixnump object) (floatp object))
                 (setq bytes (+ bytes 24)))
                ((bignump object)
                 (setq bytes (+ bytes (/ (logb object) 3))))
                ((stringp object)
                 (setq bytes (+ bytes 3 (length object)))
                 (unless (efrit-print--plain-string-p object) (setq verdict 'unknown)))
                ((and visited (gethash object visited)))
                (t
                 (when visited (puthash object t visited))
                 (setq bytes (+ bytes 8))
                 (cond ((consp object)
                        (enter (1+ depth) (car object))
                        ;; A list is long, not deep.
                        (enter depth (cdr object)))
                       ((vectorp object)
                        (if (> (+ objects (length object)) efrit-print--max-objects)
                            (setq verdict 'unknown)
                          (mapc (lambda (element) (enter (1+ depth) element)) object)))
                       ((recordp object)
                        (let ((index 0))
                          (condition-case nil
                              (while t
                                (enter (1+ depth) (aref object index))
                                (setq index (1+ index)))
                            (args-out-of-range nil))))
                       ((hash-table-p object)
                        (if (> (+ objects (hash-table-count object))
                               efrit-print--max-objects)
                            (setq verdict 'unknown)
                          (maphash (lambda (key element)
                                     (enter (1+ depth) key)
                                     (enter (1+ depth) element))
                                   object)))
                       ((or (bufferp object) (markerp object) (overlayp object)
                            (processp object) (windowp object) (framep object)
                            (subrp object) (threadp object))
                        (setq bytes (+ bytes 200)))
                       (t (setq verdict 'unknown))))))))
    verdict))

;;;; Text that JSON can hold

(defconst efrit-print--unclean-regexp
  (format "[^%c-%c%c-%c]" 1 #xd7ff #xe000 #x10ffff)
  "What UTF-8 has no place for, surrogates, raw bytes and beyond, and NUL.
Emacs 28 reads no JSON that has one, and byte code that is printed has many.
To compile it, Emacs goes through all other characters, for a millisecond.")

(defconst efrit-print--short 100
  "Characters of a text that is looked through without a regular expression.
Emacs keeps twenty of those that it has compiled, whoever has used them.")

(defun efrit-print--clean-p (text)
  "Return non-nil when the multibyte string TEXT has nothing that JSON cannot hold."
  (cond ((= (length text) (string-bytes text)) (not (string-search "\0" text)))
        ((< (length text) efrit-print--short)
         (let ((index 0) (end (length text)) char)
           (while (and (< index end)
                       (setq char (aref text index))
                       (or (< 0 char #xd800) (< #xdfff char #x110000)))
             (setq index (1+ index)))
           (= index end)))
        (t (not (string-match-p efrit-print--unclean-regexp text)))))

(defun efrit-print-clean (text)
  "Return TEXT without properties, its NULs, raw bytes and surrogates escaped."
  (let ((text (if (multibyte-string-p text) text (string-to-multibyte text)))
        (case-fold-search nil))
    (if (efrit-print--clean-p text)
        (substring-no-properties text)
      (replace-regexp-in-string
       efrit-print--unclean-regexp
       (lambda (match)
         (let ((char (aref match 0)))
           (cond ((= char 0) "\\000")
                 ((>= char #x3fff80) (format "\\%03o" (- char #x3fff00)))
                 ((>= char #x110000) (format "\\x%x" char))
                 (t (format "\\u%04x" char)))))
       (substring-no-properties text) t t))))

(defun efrit-print-head (text limit)
  "Return the longest head of TEXT, which is clean, of at most LIMIT bytes."
  (if (<= (string-bytes text) limit)
      text
    (let* ((bytes (encode-coding-string text 'efrit-utf-8 t))
           (end limit))
      ;; A byte 10xxxxxx continues a character.
      (while (and (> end 0) (= (logand (aref bytes end) #xc0) #x80))
        (setq end (1- end)))
      (decode-coding-string (substring bytes 0 end) 'efrit-utf-8 t))))

(provide 'efrit-print)
;;; efrit-print.el ends here
