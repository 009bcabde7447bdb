;;; efrit-tools-files-test.el --- Tests of the tools for files  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Reading, writing and editing files, and the buffers that visit them.

;;; Code:

(require 'efrit-test-tool)

(defun efrit-tools-files-test--path (name)
  "Return the path of NAME in the workspace."
  (concat efrit-workspace-directory name))

(defun efrit-tools-files-test--write (name text &optional coding)
  "Write TEXT to the file NAME of the workspace, in CODING or else UTF-8."
  (let ((coding-system-for-write (or coding 'utf-8-unix))
        (path (efrit-tools-files-test--path name)))
    (make-directory (file-name-directory path) t)
    (write-region text nil path nil 'silent)))

(defun efrit-tools-files-test--bytes (name)
  "Return the bytes of the file NAME of the workspace."
  (with-temp-buffer
    (set-buffer-multibyte nil)
    (insert-file-contents-literally (efrit-tools-files-test--path name))
    (buffer-string)))

(defun efrit-tools-files-test--buffer (name)
  "Return the buffer that visits the file NAME of the workspace."
  (find-buffer-visiting (efrit-tools-files-test--path name)))

(defmacro efrit-tools-files-test-with (files &rest body)
  "Run BODY with a workspace of FILES, a list of (NAME TEXT).
Buffers that came to visit files are killed."
  (declare (indent 1) (debug t))
  `(efrit-test-with-queue
     (pcase-dolist (`(,name ,text) ,files)
       (efrit-tools-files-test--write name text))
     (let ((before (buffer-list)))
       (unwind-protect
           (progn ,@body)
         (dolist (buffer (buffer-list))
           (unless (memq buffer before)
             (with-current-buffer buffer (set-buffer-modified-p nil))
             (kill-buffer buffer)))))))

;;;; Reading

(ert-deftest efrit-tools-files-lines-are-numbered ()
  (efrit-tools-files-test-with '(("a" "één\ntwo\n") ("b" "no end") ("c" "") ("d" "\n\n"))
    (should (equal (efrit-test-content "file_read" :path "a") "     1\téén\n     2\ttwo\n"))
    (should (equal (efrit-test-content "file_read" :path "b") "     1\tno end\n"))
    (should (equal (efrit-test-content "file_read" :path "c") ""))
    (should (equal (efrit-test-content "file_read" :path "d") "     1\t\n     2\t\n"))
    (should (equal (efrit-test-content "file_read"
                                       :path (efrit-tools-files-test--path "b"))
                   "     1\tno end\n"))
    (should-not (efrit-tools-files-test--buffer "a"))))

(ert-deftest efrit-tools-files-a-part-says-that-it-is-one ()
  (efrit-tools-files-test-with
      `(("a" ,(mapconcat #'number-to-string (number-sequence 1 5000) "\n")))
    (should (equal (efrit-test-content "file_read" :path "a" :offset 3 :limit 2)
                   "     3\t3\n     4\t4\n[lines 3 to 4 of 5000]"))
    (should (equal (efrit-test-content "file_read" :path "a" :offset 5000)
                   "  5000\t5000\n[lines 5000 to 5000 of 5000]"))
    (should (equal (efrit-test-content "file_read" :path "a" :offset 5001)
                   "[no lines from 5001 on: there are 5000]"))
    (should (string-suffix-p "\n[lines 1 to 2000 of 5000]"
                             (efrit-test-content "file_read" :path "a")))
    (should (string-search "offset must be at least 1"
                           (efrit-test-failure "refused" "file_read" :path "a" :offset 0)))))

(ert-deftest efrit-tools-files-long-lines-and-files-are-cut ()
  (efrit-tools-files-test-with
      `(("long" ,(concat (make-string 5000 ?x) "\nend\n"))
        ("many" ,(apply #'concat (make-list 1000 (concat (make-string 99 ?y) "\n")))))
    (should (equal (efrit-test-content "file_read" :path "long")
                   (concat "     1\t" (make-string 2000 ?x)
                           " [3000 characters left out]\n     2\tend\n")))
    (let ((content (efrit-test-content "file_read" :path "many")))
      (should (< (string-bytes content) (+ efrit-tool-result-bytes 100)))
      (should (string-match "yyy\n\\[lines 1 to 30[0-9] of 1000\\]\\'" content)))))

(ert-deftest efrit-tools-files-of-a-huge-file-the-beginning-is-read ()
  (efrit-tools-files-test-with nil
    (let ((efrit-tools-files--max-bytes 100))
      (efrit-tools-files-test--write "huge" (make-string 1000 ?\n))
      (should (string-suffix-p
               "   100\t\n\n[only the first 100 of its 1000 bytes were looked at]"
               (efrit-test-content "file_read" :path "huge"))))))

(ert-deftest efrit-tools-files-what-is-no-text-is-escaped ()
  (efrit-tools-files-test-with nil
    (efrit-tools-files-test--write "bin" "\0\1\377\n" 'no-conversion)
    (should (equal (efrit-test-content "file_read" :path "bin")
                   "     1\t\\000\1\\377\n"))))

(ert-deftest efrit-tools-files-what-is-no-file-is-an-error ()
  (efrit-tools-files-test-with nil
    (call-process "mkfifo" nil nil nil (efrit-tools-files-test--path "pipe"))
    (dolist (tool '(("file_read") ("file_edit" :old "a" :new "b") ("file_write" :content "a")))
      (pcase-dolist (`(,path . ,message) '(("." . "is a directory")
                                        ("pipe" . "is not an ordinary file")
                                        ("/dev/zero" . "is not an ordinary file")))
        (should (string-search message (apply #'efrit-test-failure "error" (car tool)
                                           :path path (cdr tool))))))
    (should (equal (efrit-test-failure "error" "file_read" :path "none")
                   (format "There is no file %s" (efrit-tools-files-test--path "none"))))))

(ert-deftest efrit-tools-files-changes-that-are-not-saved-are-read ()
  (efrit-tools-files-test-with '(("a" "one\n"))
    (with-current-buffer (find-file-noselect (efrit-tools-files-test--path "a"))
      (insert "zero\n"))
    (should (equal (efrit-test-content "file_read" :path "a")
                   "     1\tzero\n     2\tone\n
[from the buffer a, which has changes that are not saved]"))))

;;;; What is too large

(defun efrit-tools-files-test--write-sparse (name bytes)
  "Make the file NAME of the workspace, of BYTES that take no place."
  (should (= 0 (call-process "truncate" nil nil nil "-s" (number-to-string bytes)
                             (efrit-tools-files-test--path name)))))

(ert-deftest efrit-tools-files-a-file-that-is-too-large-is-refused-unread ()
  (efrit-tools-files-test-with nil
    (efrit-tools-files-test--write-sparse "huge" 2147483648)
    (make-symbolic-link "huge" (efrit-tools-files-test--path "link"))
    (dolist (name '("huge" "link"))
      (pcase-dolist (`(,tool . ,input) '(("file_edit" :old "a" :new "b") ("file_write" :content "a")))
        (should (equal (apply #'efrit-test-failure "error" tool :path name input)
                       (format "%s has 2147483648 bytes: no file of more than 33554432 is changed"
                               (efrit-tools-files-test--path name))))))
    (should-not (efrit-tools-files-test--buffer "huge"))
    (should (= (file-attribute-size (file-attributes (efrit-tools-files-test--path "huge")))
               2147483648))
    (should (string-suffix-p "[only the first 8388608 of its 2147483648 bytes were looked at]"
                             (efrit-test-content "file_read" :path "huge")))))

(ert-deftest efrit-tools-files-of-a-compressed-file-counts-what-comes-out ()
  (efrit-tools-files-test-with '(("small" "one\n"))
    (let ((efrit-tools-text-max-bytes 100000))
      (should (= 0 (call-process "gzip" nil nil nil (efrit-tools-files-test--path "small"))))
      (efrit-test-content "file_edit" :path "small.gz" :old "one" :new "two")
      (should (equal (efrit-test-content "file_read" :path "small.gz") "     1\ttwo\n"))
      (efrit-tools-files-test--write-sparse "bomb" 100000000)
      (should (= 0 (call-process "gzip" nil nil nil (efrit-tools-files-test--path "bomb"))))
      (dolist (tool '(("file_edit" :old "a" :new "b") ("file_write" :content "a")))
        (should (string-prefix-p
                 (format "%s holds more than 100000 bytes: no file of more is changed"
                         (efrit-tools-files-test--path "bomb.gz"))
                 (apply #'efrit-test-failure "error" (car tool) :path "bomb.gz" (cdr tool))))))))

(ert-deftest efrit-tools-files-no-edit-makes-a-text-too-long ()
  (let ((efrit-tools-text-max-bytes 1000))
    (efrit-tools-files-test-with `(("a" ,(make-string 500 ?x)))
      (should (equal (efrit-test-failure "error" "file_edit" :path "a" :old "x" :new "été"
                                         :replace_all t)
                     (format "%s would have 2500 bytes: no text is made longer than 1000"
                             (efrit-tools-files-test--path "a"))))
      (should (equal (efrit-tools-files-test--bytes "a") (make-string 500 ?x)))
      (should-not (efrit-tools-files-test--buffer "a"))
      (efrit-test-content "file_edit" :path "a" :old "x" :new "é" :replace_all t)
      (should (= 1000 (length (efrit-tools-files-test--bytes "a")))))))

(ert-deftest efrit-tools-files-as-many-places-are-changed-as-memory-has-room-for ()
  (efrit-tools-files-test-with `(("a" ,(make-string 500 ?x)))
    (let ((efrit-tools-text--max-places 400))
      (dolist (all '(t :false))
        (should (string-prefix-p "The old text is more than 400 times in "
                                 (efrit-test-failure "error" "file_edit" :path "a" :old "x" :new "y"
                                                     :replace_all all))))
      (should (equal (efrit-tools-files-test--bytes "a") (make-string 500 ?x))))))

;;;; Writing

(ert-deftest efrit-tools-files-a-file-is-made-with-its-directories ()
  (efrit-tools-files-test-with nil
    (should (equal (efrit-test-content "file_write" :path "x/y/a.txt" :content "é no end")
                   (format "Made %s: 8 characters"
                           (efrit-tools-files-test--path "x/y/a.txt"))))
    (should (equal (efrit-tools-files-test--bytes "x/y/a.txt") "\303\251 no end"))
    (efrit-test-content "file_write" :path "empty" :content "")
    (should (equal (efrit-tools-files-test--bytes "empty") ""))))

(ert-deftest efrit-tools-files-what-is-written-can-be-undone ()
  (efrit-tools-files-test-with '(("a" "old\n"))
    (should (string-prefix-p "Replaced" (efrit-test-content "file_write"
                                                            :path "a" :content "new\n")))
    (efrit-test-content "file_edit" :path "a" :old "new" :new "newer")
    (should (equal (efrit-tools-files-test--bytes "a") "newer\n"))
    (with-current-buffer (efrit-tools-files-test--buffer "a")
      (should-not (buffer-modified-p))
      (setq last-command nil)
      (undo)
      (should (equal (buffer-string) "new\n"))
      (setq last-command 'undo)
      (undo)
      (should (equal (buffer-string) "old\n")))))

(ert-deftest efrit-tools-files-nothing-is-added-and-no-other-file-made ()
  (efrit-tools-files-test-with '(("a.el" ";; old") ("b.org" "* old"))
    (let ((require-final-newline t) (make-backup-files t)
          (backup-enable-predicate #'always))
      (efrit-test-content "file_write" :path "a.el" :content "(list)")
      (efrit-test-content "file_edit" :path "b.org" :old "old" :new "new")
      (should (equal (efrit-tools-files-test--bytes "a.el") "(list)"))
      (should (equal (efrit-tools-files-test--bytes "b.org") "* new"))
      (should (equal (directory-files efrit-workspace-directory nil
                                      directory-files-no-dot-files-regexp)
                     '("a.el" "b.org"))))))

(ert-deftest efrit-tools-files-coding-and-line-ends-stay ()
  (efrit-tools-files-test-with nil
    (efrit-tools-files-test--write "dos" "one\r\ntwo\r\n")
    (efrit-test-content "file_edit" :path "dos" :old "one\ntwo" :new "uno\ndos é")
    (should (equal (efrit-tools-files-test--bytes "dos") "uno\r\ndos \303\251\r\n"))
    (efrit-tools-files-test--write "latin" ";; -*- coding: latin-1 -*-\né\n" 'latin-1)
    (efrit-test-content "file_edit" :path "latin" :old "é" :new "ü")
    (should (string-suffix-p "\374\n" (efrit-tools-files-test--bytes "latin")))
    (should (string-search "has no place for the character €"
                           (efrit-test-failure "error" "file_edit" :path "latin"
                                               :old "ü" :new "€")))
    (should (string-suffix-p "\374\n" (efrit-tools-files-test--bytes "latin")))
    (with-current-buffer (efrit-tools-files-test--buffer "latin")
      (should-not (buffer-modified-p))
      (should (string-suffix-p "ü\n" (buffer-string))))))

;;;; Editing

(ert-deftest efrit-tools-files-the-old-text-must-be-there-once-or-all-are-meant ()
  (efrit-tools-files-test-with '(("a" "foo bar\nFoo\nfoo foo\n"))
    (should (equal (efrit-test-failure "error" "file_edit" :path "a" :old "foo" :new "x")
                   (format "The old text is 3 times in %s, at lines 1, 3, 3, not once"
                           (efrit-tools-files-test--path "a"))))
    (should (string-search "is not in" (efrit-test-failure "error" "file_edit" :path "a"
                                                           :old "fooo" :new "x")))
    (should (equal (efrit-test-failure "error" "file_edit" :path "a" :old "" :new "x")
                   "The old text is empty"))
    (should (equal (efrit-test-failure "error" "file_edit" :path "a" :old "x" :new "x")
                   "The old text and the new are the same"))
    (should (equal (efrit-tools-files-test--bytes "a") "foo bar\nFoo\nfoo foo\n"))
    (should (equal (efrit-test-content "file_edit" :path "a" :old "Foo" :new "\\& x")
                   (format "Replaced 1 times in %s, at lines 2"
                           (efrit-tools-files-test--path "a"))))
    (efrit-test-content "file_edit" :path "a" :old "foo" :new "foofoo" :replace_all t)
    (should (equal (efrit-tools-files-test--bytes "a")
                   "foofoo bar\n\\& x\nfoofoo foofoo\n"))))

(ert-deftest efrit-tools-files-a-file-that-changed-elsewhere-is-read-anew ()
  (efrit-tools-files-test-with '(("a" "one\n"))
    (efrit-test-content "file_edit" :path "a" :old "one" :new "two")
    (efrit-tools-files-test--write "a" "three\n")
    (set-file-times (efrit-tools-files-test--path "a") (time-add nil 5))
    (efrit-test-content "file_edit" :path "a" :old "three" :new "four")
    (should (equal (efrit-tools-files-test--bytes "a") "four\n"))))

(ert-deftest efrit-tools-files-changes-of-two-hands-are-not-lost ()
  (efrit-tools-files-test-with '(("a" "one\n"))
    (with-current-buffer (find-file-noselect (efrit-tools-files-test--path "a"))
      (insert "mine\n"))
    (efrit-tools-files-test--write "a" "theirs\n")
    (set-file-times (efrit-tools-files-test--path "a") (time-add nil 5))
    (dolist (input '(("file_write" :content "x") ("file_edit" :old "one" :new "x")))
      (should (string-search "which has changes too"
                             (apply #'efrit-test-failure "error" (car input)
                                    :path "a" (cdr input)))))
    (should (equal (efrit-tools-files-test--bytes "a") "theirs\n"))
    (with-current-buffer (efrit-tools-files-test--buffer "a")
      (should (equal (buffer-string) "mine\none\n"))
      (should (buffer-modified-p)))))

(ert-deftest efrit-tools-files-a-change-that-cannot-be-saved-is-taken-back ()
  (efrit-tools-files-test-with '(("a" "one\n"))
    (cl-flet ((fail () (error "No space left")))
      (let ((write-region-annotate-functions (list (lambda (&rest _) (fail)))))
        (should (equal (efrit-test-failure "error" "file_edit" :path "a"
                                           :old "one" :new "two")
                       "No space left"))
        (should-not (efrit-tools-files-test--buffer "a"))
        (find-file-noselect (efrit-tools-files-test--path "a"))
        (efrit-test-failure "error" "file_write" :path "a" :content "three")))
    (with-current-buffer (efrit-tools-files-test--buffer "a")
      (should (equal (buffer-string) "one\n"))
      (should-not (buffer-modified-p)))))

(ert-deftest efrit-tools-files-a-file-that-was-deleted-is-written-again ()
  (efrit-tools-files-test-with '(("a" "one\n"))
    (efrit-test-content "file_edit" :path "a" :old "one" :new "two")
    (delete-file (efrit-tools-files-test--path "a"))
    (efrit-test-content "file_write" :path "a" :content "two\n")
    (should (equal (efrit-tools-files-test--bytes "a") "two\n"))))

(ert-deftest efrit-tools-files-a-narrowed-buffer-is-edited-as-a-whole ()
  (efrit-tools-files-test-with '(("a" "one\ntwo\n"))
    (with-current-buffer (find-file-noselect (efrit-tools-files-test--path "a"))
      (narrow-to-region 1 4))
    (efrit-test-content "file_edit" :path "a" :old "two" :new "2")
    (should (equal (efrit-tools-files-test--bytes "a") "one\n2\n"))
    (efrit-test-content "file_write" :path "a" :content "one")
    (should (equal (efrit-tools-files-test--bytes "a") "one"))))

(ert-deftest efrit-tools-files-local-variables-of-a-file-ask-nobody-and-run-nothing ()
  (efrit-tools-files-test-with
      `(("a" ,(concat "x\n;; Local " "Variables:\n;; eval: (setq efrit-tools-files-test--ran t)
;; unknown-and-risky-function: car\n;; End:\n")))
    (efrit-test-content "file_edit" :path "a" :old "x\n" :new "y\n")
    (should-not (boundp 'efrit-tools-files-test--ran))))

(provide 'efrit-tools-files-test)
;;; efrit-tools-files-test.el ends here
