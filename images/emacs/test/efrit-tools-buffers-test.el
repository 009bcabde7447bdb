;;; efrit-tools-buffers-test.el --- Tests of finding and looking  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The tools that find files and those for what is in Emacs.

;;; Code:

(require 'efrit-test-tool)

(defmacro efrit-tools-buffers-test-with (files &rest body)
  "Run BODY with a workspace of FILES, a list of (NAME TEXT)."
  (declare (indent 1) (debug t))
  `(efrit-test-with-queue
     (pcase-dolist (`(,name ,text) ,files)
       (let ((path (concat efrit-workspace-directory name)))
         (make-directory (file-name-directory path) t)
         (let ((coding-system-for-write 'utf-8-unix))
           (write-region text nil path nil 'silent))))
     ,@body))

(defmacro efrit-tools-buffers-test-with-buffer (name text &rest body)
  "Run BODY with a buffer called NAME that holds TEXT."
  (declare (indent 2) (debug t))
  `(with-current-buffer (get-buffer-create ,name)
     (unwind-protect
         (progn (insert ,text) ,@body)
       (kill-buffer ,name))))

;;;; Finding files

(ert-deftest efrit-tools-find-a-pattern-becomes-a-regular-expression ()
  (pcase-dolist (`(,glob ,start ,regexp)
                 '(("*.el" "." "^\\./(.*/)?[^/]*\\.el$")
                   ("src/*.el" "." "^\\./src/[^/]*\\.el$")
                   ("**/a?.el" "./x" "^\\./x/(.*/)?a[^/]\\.el$")
                   ("a/**" "/" "^/a/.*$")
                   ("[!ab]{c,d}+" "." "^\\./(.*/)?[^/ab](c|d)\\+$")
                   ("{a,{b,c}}" "." "^\\./(.*/)?(a|(b|c))$")
                   ("{a,{b}" "." "^\\./(.*/)?\\{a,(b)$")
                   ("a,b}{" "." "^\\./(.*/)?a,b\\}\\{$")
                   ("\\*" "/w.d" "^/w\\.d/(.*/)?\\*$")))
    (should (equal (efrit-tools-find--regexp glob start) regexp))))

(ert-deftest efrit-tools-find-files-are-found-by-their-paths ()
  (efrit-tools-buffers-test-with
      '(("b.el" "") ("a.el" "") ("src/deep/c.el" "") ("src/d.txt" "") (".git/e.el" "")
        ("src/é f.el" ""))
    (cl-flet ((found (&rest input)
                (split-string (apply #'efrit-test-content "glob_files" input) "\n" t)))
      (should (equal (found :pattern "*.el") '("a.el" "b.el" "src/deep/c.el" "src/é f.el")))
      (should (equal (found :pattern "./*.el") '("a.el" "b.el")))
      (should (equal (found :pattern "src/**/*.el") '("src/deep/c.el" "src/é f.el")))
      (should (equal (found :pattern "*.{txt,none}") '("src/d.txt")))
      (should (equal (found :pattern "*.el" :path "src") '("src/deep/c.el" "src/é f.el")))
      (should (equal (found :pattern "deep/*" :path "src/") '("src/deep/c.el")))
      (should (equal (found :pattern "c.el" :path efrit-workspace-directory)
                     (list (concat efrit-workspace-directory "src/deep/c.el"))))
      (should (equal (found :pattern "*.none") '("[nothing found]"))))
    (should (string-search "No such file or directory"
                           (efrit-test-failure "error" "glob_files" :pattern "*"
                                               :path "none")))))

(defun efrit-tools-buffers-test--shell-matches (globs names)
  "Return which of NAMES a shell matches with each of GLOBS, a list of lists."
  (with-temp-buffer
    (let ((coding-system-for-read 'utf-8-unix) (coding-system-for-write 'utf-8-unix))
      (dolist (glob globs)
        (apply #'call-process "bash" nil t nil "-c"
               "glob=$1; shift
for name; do case $name in $glob) printf '%s\\n' \"$name\";; esac; done; echo --"
               "bash" glob names))
      (mapcar (lambda (part) (split-string part "\n" t))
              (butlast (split-string (buffer-string) "^--\n"))))))

(ert-deftest efrit-tools-find-a-bracket-means-what-it-means-to-a-shell ()
  (let* ((names '("a[]b" "a[!]b" "a]b" "axb" "a-b" "a^b" "a!b" "a[b" "a\\b" "a.b" "{}" "a5b" "aéb"
                  "a\\]b" "[" "]" "[]" "a+b" "a0b" "a,b" "a b" "a—b"))
         (globs '("a[]b" "a[!]b" "a[]]b" "a[!]]b" "a[]-]b" "a[-x]b" "a[x-]b" "a[a-z]b" "a[[]b"
                  "a[.[]b" "a[\\]]b" "a[\\]b" "a[\\\\]b" "a[\\^]b" "a[^x]b" "a[^^]b" "a[!-x]b"
                  "a[[:digit:].]b" "a[![:alpha:]]b" "a[[-^]b" "[" "[]" "[]]" "[[]*" "a[x" "a[é]b"
                  "a[\\a-\\z]b" "a?b" "a[+-9]b" "a[.-0]b" "a[+-.]b" "a[0-9]b" "a[!+-9]b" "a[-+-9]b"
                  "a[[:punct:]]b" "a[x[:punct:]]b" "a[[:graph:]]b" "a[[:print:]]b" "a[[:print:][:digit:]]b"
                  "a[![:punct:]]b")))
    (efrit-tools-buffers-test-with (mapcar (lambda (name) (list name "")) names)
      (cl-mapc (lambda (glob expected)
                 (should (equal (cons glob (sort (split-string
                                                  (efrit-test-content "glob_files" :pattern glob)
                                                  "\n" t)
                                                 #'string<))
                                (cons glob (or (sort expected #'string<) '("[nothing found]"))))))
               globs (efrit-tools-buffers-test--shell-matches globs names)))))

(ert-deftest efrit-tools-find-what-a-brace-does-not-close-stands-for-itself ()
  (efrit-tools-buffers-test-with '(("{}" "") ("{a" "") ("{a,b" "") ("b" "") ("{a,b}" "") ("a" ""))
    (pcase-dolist (`(,glob . ,names) '(("{[}]" "{}") ("{a" "{a") ("{a,[b]" "{a,b") ("{a,b}" "a" "b")
                                       ("\\{a,b\\}" "{a,b}") ("{\\{a,b}" "b" "{a")))
      (should (equal (cons glob (split-string (efrit-test-content "glob_files" :pattern glob)
                                              "\n" t))
                     (cons glob names))))))

(ert-deftest efrit-tools-find-a-bracket-takes-no-slash ()
  (efrit-tools-buffers-test-with '(("a/b" "") ("a/xb" ""))
    (should (equal (efrit-test-content "glob_files" :pattern "./a[!x]b") "[nothing found]"))
    (should (equal (efrit-test-content "glob_files" :pattern "./a[!/]b") "[nothing found]"))
    (dolist (glob '("./a[+-9]b" "./a[.-9]b" "./a[+-0]b" "./a[!x-z]b" "./a[[:punct:]]b"
                    "./a[x[:graph:]]b" "./a[[:print:]x]b" "./a[![:alpha:]]b"))
      (should (equal (cons glob (efrit-test-content "glob_files" :pattern glob))
                     (cons glob "[nothing found]"))))))

(ert-deftest efrit-tools-find-a-pattern-that-means-nothing-is-an-error ()
  (efrit-tools-buffers-test-with '(("a" "text\n"))
    (pcase-dolist (`(,glob ,message) `(("[z-a]" "[stderr]\ngrep:")
                                       ("[[:none:]]" "[stderr]\ngrep:")
                                       ("a\nb" "The pattern has a line end in it")
                                       (,(make-string 5000 ?\[) "5000 characters, of which at most 4096")))
      (should (string-search message (efrit-test-failure "error" "glob_files" :pattern glob)))
      (should (string-search message (efrit-test-failure "error" "file_search" :pattern "text"
                                                         :glob glob))))
    ;; What takes longest to read.
    (should (equal (efrit-test-content "glob_files" :pattern (make-string 4096 ?\[))
                   "[nothing found]"))
    (should (equal (efrit-test-content "glob_files" :pattern (make-string 4096 ?\{))
                   "[nothing found]"))))

(ert-deftest efrit-tools-find-a-link-to-a-directory-is-searched ()
  (efrit-tools-buffers-test-with '(("release/a.el" "text\n"))
    (make-symbolic-link "release" (concat efrit-workspace-directory "current"))
    (should (equal (efrit-test-content "glob_files" :pattern "*.el" :path "current")
                   "current/a.el\n"))
    (should (equal (efrit-test-content "file_search" :pattern "text" :path "current")
                   "current/a.el:1:text\n"))))

(ert-deftest efrit-tools-find-lines-are-found-in-the-order-of-their-paths ()
  (efrit-tools-buffers-test-with
      '(("b.el" "x\n(defun two ())\n") ("a.el" "(defun één ())\n") ("a.txt" "(defun no)\n")
        ("-o" "(defun odd)\n") (".git/c.el" "(defun hidden ())\n") ("bin" "(defun \0\n"))
    (should (equal (efrit-test-content "file_search" :pattern "\\(defun [[:alpha:]]+"
                                       :glob "*.el")
                   "a.el:1:(defun één ())\nb.el:2:(defun two ())\n"))
    (should (equal (efrit-test-content "file_search" :pattern "defun (odd|no)\\)")
                   "-o:1:(defun odd)\na.txt:1:(defun no)\n"))
    (should (equal (efrit-test-content "file_search" :pattern "two" :path "b.el")
                   "b.el:2:(defun two ())\n"))
    (should (equal (efrit-test-content "file_search" :pattern "none at all")
                   "[nothing found]"))
    (should (string-search "[stderr]\ngrep:"
                           (efrit-test-failure "error" "file_search" :pattern "a(")))))

(ert-deftest efrit-tools-find-much-is-bounded-and-says-so ()
  (efrit-tools-buffers-test-with
      `(("many" ,(apply #'concat (make-list 100000 "a line\n")))
        ("wide" ,(concat "wide" (make-string 10000 ?x) "\n")))
    (let ((content (efrit-test-content "file_search" :pattern "a line")))
      (should (< (string-bytes content) (+ efrit-tool-result-bytes 100)))
      (should (string-match-p
               "\nmany:[0-9]+:a line\n\\[there is more, which is left out\\]\\'" content)))
    (should (string-match-p "\\`wide:1:widexxx+ \\[95[0-9]+ characters left out\\]\n\\'"
                            (efrit-test-content "file_search" :pattern "wide")))))

;;;; Looking

(ert-deftest efrit-tools-buffers-a-directory-is-listed-as-json ()
  (efrit-tools-buffers-test-with '(("b" "12345") ("a/x" "") ("é" ""))
    (make-symbolic-link "nowhere" (concat efrit-workspace-directory "link"))
    (let-alist (efrit-test-parsed (efrit-test-content "directory_files"))
      (should (equal (mapcar (lambda (entry) (cons (alist-get 'name entry)
                                                   (alist-get 'type entry)))
                             .entries)
                     '(("a" . "directory") ("b" . "file") ("link" . "link") ("é" . "file"))))
      (should (equal (alist-get 'size (nth 1 .entries)) 5))
      (should (= .left_out 0)))
    (should (string-search "file-missing"
                           (efrit-test-failure "error" "directory_files" :path "none")))))

(ert-deftest efrit-tools-buffers-of-a-directory-as-much-is-listed-as-a-result-holds ()
  (efrit-tools-buffers-test-with
      (mapcar (lambda (number) (list (format "%03d%s" number (make-string 180 ?x)) ""))
              (number-sequence 1 300))
    (let-alist (efrit-test-parsed (efrit-test-content "directory_files"))
      (should (< 50 (length .entries) 200))
      (should (string-prefix-p "001x" (alist-get 'name (car .entries))))
      (should (= (+ (length .entries) .left_out) 300))
      (should-not .unread))
    ;; As of one with a million: what is read is bounded.
    (let ((efrit-files--max-names 40))
      (let-alist (efrit-test-parsed (efrit-test-content "directory_files"))
        (should (= (length .entries) 40))
        (should (= .left_out 0))
        (should (eq .unread t))))))

(ert-deftest efrit-tools-buffers-the-text-of-a-buffer-is-raw ()
  (efrit-test-with-queue
    (efrit-tools-buffers-test-with-buffer "some buffer" (propertize "a\nb\nno end" 'face 'bold)
      (narrow-to-region 1 2)
      (should (equal (efrit-test-content "buffer_contents" :buffer "some buffer")
                     "a\nb\nno end"))
      (should (equal (efrit-test-content "buffer_contents" :buffer "some buffer"
                                         :offset 2 :limit 1)
                     "b\n[lines 2 to 2 of 3]")))
    (should (equal (efrit-test-failure "error" "buffer_contents" :buffer "no buffer")
                   "There is no buffer called no buffer"))))

(ert-deftest efrit-tools-buffers-a-line-with-fields-is-whole ()
  ;; As in a buffer of a shell, where the prompt is a field of its own.
  (efrit-test-with-queue
    (efrit-tools-buffers-test-with-buffer "some shell"
        (concat (propertize "$ " 'field 'output) "make\nend\n")
      (should (equal (efrit-test-content "buffer_contents" :buffer "some shell")
                     "$ make\nend\n")))))

(ert-deftest efrit-tools-buffers-warnings-are-raw ()
  (efrit-test-with-queue
    (should (equal (efrit-test-content "warnings_buffer") "[there is no buffer *Warnings*]"))
    (efrit-tools-buffers-test-with-buffer "*Warnings*" "Warning (x): é\n"
      (should (equal (efrit-test-content "warnings_buffer") "Warning (x): é\n"))
      ;; The example of the original design.
      (should (string-search "Warning (x): é"
                             (efrit-test-content "eval_sexp" :expr "(with-current-buffer \"*Warnings*\" (buffer-string))")))
      (insert (make-string 100000 ?x))
      (should (string-search "bytes left out]" (efrit-test-content "warnings_buffer"))))))

(ert-deftest efrit-tools-buffers-the-state-of-emacs-is-json ()
  (efrit-test-with-queue
    (let-alist (efrit-test-parsed (efrit-test-content "current_context"))
      (should (equal .current_buffer (buffer-name (window-buffer))))
      (should (equal .workspace (directory-file-name efrit-workspace-directory)))
      (should (member "*scratch*" .buffers))
      (should (numberp .point)))))

;;;; Changing buffers

(ert-deftest efrit-tools-buffers-a-buffer-is-made-once ()
  (efrit-test-with-queue
    (unwind-protect
        (progn
          (should (equal (efrit-test-content "buffer_create" :name "made" :content "a é\n"
                                             :mode "emacs-lisp-mode")
                         "Made the buffer made: 4 characters"))
          (with-current-buffer "made"
            (should (eq major-mode 'emacs-lisp-mode))
            (should (equal (buffer-string) "a é\n")))
          (should (equal (efrit-test-failure "error" "buffer_create" :name "made")
                         "There is a buffer called made already"))
          (should (equal (efrit-test-failure "error" "buffer_create" :name "other"
                                             :mode "delete-file")
                         "There is no mode called delete-file"))
          (should-not (get-buffer "other")))
      (kill-buffer "made"))))

(ert-deftest efrit-tools-buffers-an-edit-of-a-buffer-can-be-undone ()
  (efrit-test-with-queue
    (efrit-tools-buffers-test-with-buffer "edited" "one two one\n"
      (buffer-enable-undo)
      (should (equal (efrit-test-content "buffer_edit" :buffer "edited" :old "two" :new "2")
                     "Replaced 1 times in the buffer edited, at lines 1"))
      (should (equal (buffer-string) "one 2 one\n"))
      (efrit-test-content "buffer_edit" :buffer "edited" :old "one" :new "1" :replace_all t)
      (should (equal (buffer-string) "1 2 1\n"))
      (setq last-command nil)
      (undo)
      (should (equal (buffer-string) "one 2 one\n"))
      (should (string-search "2 times in edited"
                             (efrit-test-failure "error" "buffer_edit" :buffer "edited"
                                                 :old "one" :new "x")))
      (setq buffer-read-only t)
      (should (string-search "buffer-read-only"
                             (efrit-test-failure "error" "buffer_edit" :buffer "edited"
                                                 :old "2" :new "x"))))))

(ert-deftest efrit-tools-buffers-the-function-around-point-is-reported ()
  (efrit-test-with-queue
    (efrit-tools-buffers-test-with-buffer "code" "(defun one () 1)\n\n(defun two ()\n  2)\n"
      (emacs-lisp-mode)
      (let-alist (efrit-test-parsed
                  (efrit-test-content "function_at_point" :buffer "code" :line 4))
        (should (equal .function.name "two"))
        (should (equal .function.line 3))
        (should (string-match-p "\\`(defun two ()\n  2)" .function.text))))
    (efrit-tools-buffers-test-with-buffer "prose" "no function here"
      (should (string-match-p "\"function\":null"
                              (efrit-test-content "function_at_point" :buffer "prose"))))
    (should (equal (efrit-test-status "function_at_point" :buffer "gone") "error"))))

(ert-deftest efrit-tools-buffers-the-last-changes-are-reported ()
  (efrit-test-with-queue
    (efrit-tools-buffers-test-with-buffer "notes" "one two"
      (undo-boundary)
      (goto-char (point-min))
      (delete-char 4)
      (let-alist (efrit-test-parsed (efrit-test-content "recent_changes" :buffer "notes"))
        (should (equal (alist-get 'text (elt .changes 0)) "one "))
        (should (equal (alist-get 'deleted_at (elt .changes 0)) 1))
        (should (equal (alist-get 'characters (elt .changes 1)) 7)))
      (dotimes (_ 200) (insert "x") (undo-boundary) (delete-char -1) (undo-boundary))
      (let-alist (efrit-test-parsed (efrit-test-content "recent_changes" :buffer "notes"))
        (should (= (length .changes) 50))
        (should (> .left_out 0))))))

(ert-deftest efrit-tools-buffers-changes-that-are-too-long-are-left-out-and-counted ()
  (efrit-test-with-queue
    (efrit-tools-buffers-test-with-buffer "notes" ""
      (buffer-enable-undo)
      (dotimes (_ 60)
        (insert (make-string 256 1))
        (undo-boundary)
        (delete-region (point-min) (point-max))
        (undo-boundary))
      (let* ((text (efrit-test-content "recent_changes" :buffer "notes"))
             (parsed (efrit-test-parsed text)))
        (should (<= (string-bytes text) efrit-tool-result-bytes))
        (let-alist parsed
          (should (< 20 (length .changes) 50))
          (should (= (+ (length .changes) .left_out) 120)))
        (should (= (seq-count (lambda (member) (eq (car member) 'left_out)) parsed) 1))))))

(ert-deftest efrit-tools-buffers-the-state-of-emacs-is-json-whatever-its-buffers-are-called ()
  (efrit-test-with-queue
    (let ((buffers (mapcar (lambda (number)
                             (get-buffer-create (format "%03d%s" number (make-string 1000 1))))
                           (number-sequence 0 99))))
      (unwind-protect
          (let ((text (efrit-test-content "current_context")))
            (should (<= (string-bytes text) efrit-tool-result-bytes))
            (let-alist (efrit-test-parsed text)
              (should (> (length .buffers) 1))
              (should (= (+ (length .buffers) .left_out) .buffer_count))
              (should (equal .workspace (directory-file-name efrit-workspace-directory)))))
        (mapc #'kill-buffer buffers)))))

(ert-deftest efrit-tools-buffers-a-function-of-any-characters-is-json ()
  (efrit-test-with-queue
    (efrit-tools-buffers-test-with-buffer "code" (format "(defun one ()\n  \"%s\")\n" (make-string 30000 1))
      (emacs-lisp-mode)
      (let ((text (efrit-test-content "function_at_point" :buffer "code" :line 1)))
        (should (<= (string-bytes text) efrit-tool-result-bytes))
        (let-alist (efrit-test-parsed text)
          (should (equal .function.name "one"))
          (should (string-search "bytes left out]" .function.text)))))))

(provide 'efrit-tools-buffers-test)
;;; efrit-tools-buffers-test.el ends here
