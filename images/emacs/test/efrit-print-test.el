;;; efrit-print-test.el --- Tests of bounded printing  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Values that would hang or flood a plain `prin1'.

;;; Code:

(require 'efrit-test-queue)
(require 'efrit-print)

(defun efrit-print-test--text (value &optional limit)
  "Return VALUE printed in LIMIT bytes, by default many."
  (efrit-print-text (efrit-print value (or limit 100000))))

(defmacro efrit-print-test--in-time (&rest body)
  "Run BODY and fail when that took longer than a busy machine explains."
  (declare (indent 0))
  `(let ((start (float-time)))
     (prog1 (progn ,@body)
       (should (< (- (float-time) start) efrit-test-timeout)))))

(ert-deftest efrit-print-ordinary-values-print-as-ever ()
  (dolist (value (list nil t 3 -1.5 'symbol "text \"quoted\"\n" '(1 . 2) [1 [2]]
                       (expt 2 200) ''quoted "héllo €" (make-bool-vector 3 t)))
    (let ((printed (efrit-print value 100000)))
      (should (equal (efrit-print-text printed) (prin1-to-string value)))
      (should (= (efrit-print-bytes printed)
                 (string-bytes (prin1-to-string value))))
      (should-not (efrit-print-truncated printed)))))

(ert-deftest efrit-print-settings-of-user-code-change-nothing ()
  (let ((print-length 1) (print-level 1) (print-escape-newlines t)
        (float-output-format "%.1f"))
    (should (equal (efrit-print-test--text '(1 (2 (3)) "a\nb" 2.25))
                   "(1 (2 (3)) \"a\nb\" 2.25)"))))

(ert-deftest efrit-print-circles-of-every-kind-end ()
  (let ((list (list 1 2)) (vector (vector 1 nil)) (table (make-hash-table)))
    (setcdr (cdr list) list)
    (aset vector 1 vector)
    (puthash 1 table table)
    (should (equal (efrit-print-test--text list) "#1=(1 2 . #1#)"))
    (should (equal (efrit-print-test--text vector) "#1=[1 #1#]"))
    (efrit-print-test--in-time (efrit-print-test--text table))
    (efrit-print-test--in-time
      (efrit-print-test--text (let ((record (record 'thing nil)))
                                (aset record 1 record)
                                record)))))

(ert-deftest efrit-print-a-gigantic-string-is-cut-at-once ()
  (let ((printed (efrit-print-test--in-time
                   (efrit-print (make-string 50000000 ?x) 1000))))
    (should (= (length (efrit-print-text printed)) 1000))
    (should (efrit-print-truncated printed))))

(ert-deftest efrit-print-a-gigantic-list-is-cut-at-once ()
  (let* ((list (number-sequence 1 1000000))
         (printed (efrit-print-test--in-time (efrit-print list 1000))))
    (should (string-prefix-p "(1 2 3 " (efrit-print-text printed)))
    (should (= (string-bytes (efrit-print-text printed)) 1000))
    (should (efrit-print-truncated printed))))

(ert-deftest efrit-print-a-bomb-of-shared-lists-is-cut ()
  (let ((bomb 1))
    (dotimes (_ 60) (setq bomb (list bomb bomb)))
    (efrit-print-test--in-time (efrit-print bomb 1000))))

(defun efrit-print-test--deep (depth leaf)
  "Return a list of lists, DEPTH levels deep, with LEAF in the last."
  (let ((deep leaf))
    (dotimes (_ depth deep) (setq deep (list deep)))))

(ert-deftest efrit-print-a-deep-value-is-an-error-and-does-not-end-emacs ()
  (dolist (leaf (list nil (propertize "a" 'face 'bold) (number-sequence 1 200000)))
    (should-error (efrit-print-test--in-time
                    (efrit-print (efrit-print-test--deep 100000 leaf) 10000))
                  :type 'efrit-unprintable))
  ;; What is not measured is printed in another way, which goes less deep.
  (should-error (efrit-print (efrit-print-test--deep 500 (propertize "a" 'face 'bold)) 10000)
                :type 'efrit-unprintable))

(ert-deftest efrit-print-a-value-that-is-not-too-deep-is-whole ()
  (let ((printed (efrit-print (efrit-print-test--deep 900 'a) 10000)))
    (should-not (efrit-print-truncated printed))
    (should (equal (efrit-print-text printed)
                   (concat (make-string 900 ?\() "a" (make-string 900 ?\))))))
  (let ((printed (efrit-print (efrit-print-test--deep 150 (propertize "a" 'face 'bold)) 10000)))
    (should-not (efrit-print-truncated printed))
    (should (string-match-p "(#(\"a\" 0 1 (face bold)))" (efrit-print-text printed)))))

(ert-deftest efrit-print-properties-are-printed-and-bounded ()
  (let ((text (propertize "abc" 'face 'bold)))
    (should (string-match-p "bold" (efrit-print-test--text text)))
    (should (string-match-p "bold" (efrit-print-test--text (list text))))
    (should (= (string-bytes (efrit-print-test--text
                              (propertize "a" 'data (make-string 100000 ?y)) 500))
               500))))

(ert-deftest efrit-print-odd-objects-are-printed ()
  (dolist (value (list (current-buffer) (point-marker) (syntax-table)
                       (lambda (x) x) (symbol-function 'car)
                       (byte-compile '(lambda (x) (* 2 x))) (selected-window)))
    (should (stringp (json-serialize (list :value (efrit-print-test--text value)))))))

(ert-deftest efrit-print-the-cut-falls-between-characters ()
  (dotimes (limit 12)
    (let ((head (efrit-print-head "aé€😀é" limit)))
      (should (<= (string-bytes head) limit))
      (should (string-prefix-p head "aé€😀é"))
      (should (stringp (json-serialize (list :head head)))))))

(ert-deftest efrit-print-what-json-cannot-hold-is-escaped ()
  (dolist (case (list (cons "\377" "\\377")
                      (cons (string-to-multibyte "a\200b") "a\\200b")
                      (cons "a\0001" "a\\0001")
                      (cons (string #xd800) "\\ud800")
                      (cons (string #xd7ff) (string #xd7ff))
                      (cons (string #xdfff) "\\udfff")
                      (cons (string #xe000) (string #xe000))
                      (cons (string #x10ffff) (string #x10ffff))
                      (cons (string #x110000) "\\x110000")
                      (cons (string #x3fff7f) "\\x3fff7f")
                      (cons "plain é" "plain é")))
    ;; Short and long texts, and those of ASCII, are looked through in ways of their own.
    (dolist (before (list "" (make-string 200 ?a) (make-string 200 ?é)))
      (let ((clean (efrit-print-clean (concat before (car case)))))
        (should (equal clean (concat before (cdr case))))
        (should (stringp (json-serialize (list :clean clean)))))))
  (dolist (value (list "\0\1\177" "\377" (intern "sym\377") (string #xdfff)))
    (should (stringp (json-serialize (list :v (efrit-print-test--text value)))))))

(provide 'efrit-print-test)
;;; efrit-print-test.el ends here
