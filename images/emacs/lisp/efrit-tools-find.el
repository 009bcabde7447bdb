;;; efrit-tools-find.el --- Tools that find files and what is in them  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A tree of files may be large, so find, grep and sort do the work beside Emacs
;; and are stopped when enough has come.  What they print is given back as it is,
;; but for the length of its lines.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'efrit-json)
(require 'efrit-tool-context)
(require 'efrit-tool)
(require 'efrit-tools-capture)
(require 'efrit-tools-process)
(require 'efrit-tools-shell)

(defconst efrit-tools-find--seconds 60
  "Seconds a search may take.")

(defconst efrit-tools-find--longest-line 500
  "Characters of a line with a match that are given back.")

(defconst efrit-tools-find--glob-script "
find \"$1\" -name .git -prune -o ! -type d -print0 |
  grep -zaE -e \"$2\" | LC_ALL=C sort -z | tr '\\000' '\\n'
"
  "Prints the files below $1 whose path matches $2.")

(defconst efrit-tools-find--search-script "
grep -E -e \"$3\" /dev/null
[ $? -le 1 ] || exit 2
find \"$1\" -name .git -prune -o -type f -print0 |
  grep -zaE -e \"$2\" | LC_ALL=C sort -z | xargs -0 -r grep -nHIE -e \"$3\" --
[ $? -ne 127 ]
"
  "Prints the lines that match $3 of the files below $1 whose path matches $2.")

;;;; Patterns

(defconst efrit-tools-find--special "[.[()*+?{}|^$\\]"
  "A character that means something in an extended regular expression.")

(defun efrit-tools-find--quote (text)
  "Return an extended regular expression that matches TEXT alone."
  (replace-regexp-in-string efrit-tools-find--special "\\\\\\&" text))

(defun efrit-tools-find--regexp (glob start)
  "Return an extended regular expression for paths below START that match GLOB.
A GLOB without a slash is for the last part of the path alone."
  (let ((below (concat "^" (efrit-tools-find--quote (string-trim-right start "/")) "/")))
    (concat (if (string-search "/" glob) below (concat below "(.*/)?"))
            (efrit-tools-find--translate (string-remove-prefix "./" glob))
            "$")))

(defun efrit-tools-find--translate (glob)
  "Return GLOB as an extended regular expression."
  (let ((position 0) (depth 0) (parts nil) (case-fold-search nil))
    (while (< position (length glob))
      (cl-flet ((at (regexp) (eq (string-match regexp glob position) position)))
        (push (cond ((at "\\*\\*/") "(.*/)?")
                    ((at "\\*\\*") ".*")
                    ((at "\\*") "[^/]*")
                    ((at "\\?") "[^/]")
                    ((at "\\[\\([!^]\\)?\\(]?[^]/]*\\)]")
                     (concat "[" (and (match-string 1 glob) "^")
                             (save-match-data
                               (replace-regexp-in-string "\\\\" "" (match-string 2 glob)))
                             "]"))
                    ((at "\\\\\\(.\\)") (efrit-tools-find--quote (match-string 1 glob)))
                    ((and (at "{") (string-search "}" glob position))
                     (cl-incf depth) "(")
                    ((and (> depth 0) (at "}")) (cl-decf depth) ")")
                    ((and (> depth 0) (at ",")) "|")
                    ((at "\\(?:.\\|\n\\)")
                     (save-match-data
                       (efrit-tools-find--quote (match-string 0 glob)))))
              parts)
        (setq position (match-end 0))))
    (apply #'concat (nreverse parts))))

;;;; Running

(defun efrit-tools-find--start (input)
  "Return where a search begins according to INPUT, as an argument for find."
  (let ((path (or (alist-get 'path input) ".")))
    (cond ((string-match-p "\\`[/~]" path) (directory-file-name (efrit-tool-path path)))
          ((member path '("." "./" "")) ".")
          (t (concat "./" (directory-file-name path))))))

(defun efrit-tools-find--run (context done script start &rest arguments)
  "Run SCRIPT with START and ARGUMENTS for CONTEXT; DONE is called with the result.
Return a function that stops it."
  (unless (file-exists-p (efrit-tool-path start))
    (signal 'file-missing (list "No such file or directory" start)))
  (efrit-tools-shell-start
   context `("/bin/sh" "-c" ,script "sh" ,start ,@arguments) done
   :directory (efrit-tool-path ".")
   :seconds efrit-tools-find--seconds
   :out (efrit-capture-beginning (* 4 efrit-tool-result-bytes))
   :err (efrit-capture-ends (/ efrit-tool-result-bytes 8))
   :report #'efrit-tools-find--result))

;;;; What came of it

(defun efrit-tools-find--result (program)
  "Return the result of the search that PROGRAM has made."
  (let* ((out (efrit-process-out program))
         (lines (efrit-tools-find--lines (efrit-tools-find--whole-lines out)))
         (shown (efrit-tools-find--head lines))
         (err (efrit-process-err program)))
    (efrit-tool-result-make
     (efrit-tools-shell-status program)
     (concat (string-join shown)
             (unless (or lines (efrit-process-why program)) "[nothing found]")
             (when (or (nthcdr (length shown) lines) (efrit-capture-overflowed-p out))
               "[there is more, which is left out]")
             (unless (efrit-capture-empty-p err)
               (concat "\n[stderr]\n" (efrit-capture-text err)))
             (pcase (efrit-process-why program)
               ('timeout "\n[stopped: its time was over]")
               ('interrupted "\n[stopped: the session was asked to stop]"))))))

(defun efrit-tools-find--whole-lines (capture)
  "Return the text that CAPTURE has kept, up to the last whole line."
  (let* ((bytes (efrit-capture-head capture))
         (end (and (efrit-capture-overflowed-p capture)
                   (seq-position (reverse bytes) ?\n))))
    (efrit-json-clean
     (decode-coding-string (if end (substring bytes 0 (- (length bytes) end)) bytes)
                           'utf-8-unix))))

(defun efrit-tools-find--lines (text)
  "Return the lines of TEXT, each cut and without the ./ at its beginning."
  (mapcar (lambda (line)
            (let* ((line (string-remove-prefix "./" line))
                   (over (- (length line) efrit-tools-find--longest-line)))
              (if (> over 0)
                  (format "%s [%d characters left out]\n"
                          (substring line 0 efrit-tools-find--longest-line) over)
                (concat line "\n"))))
          (split-string text "\n" t)))

(defun efrit-tools-find--head (lines)
  "Return the first of LINES, as many as a result may hold."
  (let ((bytes 0))
    (seq-take-while (lambda (line)
                      (<= (setq bytes (+ bytes (string-bytes line)))
                          efrit-tool-result-bytes))
                    lines)))

;;;; The tools

(efrit-define-tool file_search (input context done)
  "Return the lines of files that match a regular expression, as path:line:text. \
Binary files and .git directories are left out."
  :kind query
  :input ((pattern string "An extended regular expression (POSIX, as of grep -E)" :required t)
          (path string "A file, or a directory with all below; the workspace when not given")
          (glob string "The files to search, as in glob_files; all when not given"))
  (let ((start (efrit-tools-find--start input))
        (glob (alist-get 'glob input)))
    (efrit-tools-find--run context done efrit-tools-find--search-script start
                           (if glob (efrit-tools-find--regexp glob start) "")
                           (alist-get 'pattern input))))

(efrit-define-tool glob_files (input context done)
  "Return the paths of the files that match a pattern, sorted. .git directories are \
left out."
  :kind query
  :input ((pattern string "*, ?, [a-z], {a,b}, and ** for any directories; without a slash \
it is matched against file names at any depth, else against paths below the directory"
                   :required t)
          (path string "The directory; the workspace when not given"))
  (let ((start (efrit-tools-find--start input)))
    (efrit-tools-find--run context done efrit-tools-find--glob-script start
                           (efrit-tools-find--regexp (alist-get 'pattern input) start))))

;;;; One directory

(defconst efrit-tools-find--max-files 1000
  "Entries of a directory that are listed.")

(efrit-define-tool directory_files (input _context)
  "Return the entries of a directory with type, size and time, as JSON."
  :kind query
  :input ((path string "The directory; the workspace when not given"))
  (let* ((directory (efrit-tool-path (or (alist-get 'path input) ".")))
         (names (directory-files directory nil directory-files-no-dot-files-regexp))
         (listed (seq-take names efrit-tools-find--max-files)))
    (efrit-tool-json
     `((directory . ,(efrit-json-clean directory))
       (entries . ,(vconcat (mapcar (lambda (name)
                                      (efrit-tools-find--entry name directory))
                                    listed)))
       (left_out . ,(- (length names) (length listed)))))))

(defun efrit-tools-find--entry (name directory)
  "Return what is known of the entry NAME of DIRECTORY, for JSON."
  (let* ((attributes (file-attributes (expand-file-name name directory)))
         (type (file-attribute-type attributes)))
    `((name . ,(efrit-json-clean name))
      (type . ,(cond ((stringp type) "link")
                     (type "directory")
                     (t "file")))
      (size . ,(or (file-attribute-size attributes) :null))
      (modified . ,(if attributes
                       (format-time-string
                        "%FT%TZ" (file-attribute-modification-time attributes) t)
                     :null)))))

(provide 'efrit-tools-find)
;;; efrit-tools-find.el ends here
