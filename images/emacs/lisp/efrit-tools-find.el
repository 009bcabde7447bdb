;;; efrit-tools-find.el --- Tools that find files and what is in them  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A tree of files may be large, so find, grep and sort do the work beside Emacs
;; and are stopped when enough has come.  What they print is given back as it is,
;; but for the length of its lines.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'efrit-files)
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
grep -zE -e \"$2\" /dev/null
[ $? -le 1 ] || exit 2
find -H \"$1\" -name .git -prune -o ! -type d -print0 |
  grep -zaE -e \"$2\" | LC_ALL=C sort -z | tr '\\000' '\\n'
"
  "Prints the files below $1 whose path matches $2.")

(defconst efrit-tools-find--search-script "
grep -E -e \"$3\" /dev/null
[ $? -le 1 ] || exit 2
grep -zE -e \"$2\" /dev/null
[ $? -le 1 ] || exit 2
find -H \"$1\" -name .git -prune -o -type f -print0 |
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

(defconst efrit-tools-find--longest-glob 4096
  "Characters of a GLOB that are taken.")

(defun efrit-tools-find--translate (glob)
  "Return GLOB as an extended regular expression, read as a shell reads it.
A [ or { that nothing closes stands for itself."
  (cond ((> (length glob) efrit-tools-find--longest-glob)
         (error "The pattern has %d characters, of which at most %d are taken"
                (length glob) efrit-tools-find--longest-glob))
        ;; To grep, a line end is the end of one expression of several.
        ((string-search "\n" glob) (error "The pattern has a line end in it: %S" glob)))
  (with-temp-buffer
    (insert glob)
    (goto-char (point-min))
    (mapconcat (lambda (part) (if (consp part) (car part) part))
               (efrit-tools-find--parts) "")))

(defun efrit-tools-find--parts ()
  "Return the parts of the expression for the glob that begins at point.
A part that is not a string has the expression in its car."
  (let ((parts nil) (open nil) (unclosed (point)) (case-fold-search nil))
    ;; Each of OPEN has the parts that mean something else once its brace is closed.
    (cl-flet ((part (text meaning)
                (let ((part (cons text meaning)))
                  (push part (car open))
                  part)))
      (while (not (eobp))
        (let ((bracket (and (eq (char-after) ?\[) (>= (point) unclosed)
                            (efrit-tools-find--bracket))))
          (when (integerp bracket) (setq unclosed bracket))
          (push (cond ((stringp bracket) bracket)
                      ((looking-at "\\*\\*/") "(.*/)?")
                      ((looking-at "\\*\\*") ".*")
                      ((looking-at "\\*") "[^/]*")
                      ((looking-at "\\?") "[^/]")
                      ((looking-at "\\\\\\(.\\)") (efrit-tools-find--quote (match-string 1)))
                      ((looking-at "{") (push nil open) (part "\\{" "("))
                      ((and open (looking-at ",")) (part "," "|"))
                      ((and open (looking-at "}"))
                       (dolist (part (pop open)) (setcar part (cdr part)))
                       ")")
                      ((looking-at ".") (save-match-data
                                          (efrit-tools-find--quote (match-string 0)))))
                parts)
          (unless (stringp bracket) (goto-char (match-end 0)))))
      (nreverse parts))))

(defun efrit-tools-find--bracket ()
  "Return the expression for the bracket that begins at point, and go behind it.
Where nothing closes it before a slash, stay, and return up to where nothing
closes any other."
  (let* ((start (point))
         (negated (looking-at "\\[[!^]"))
         (first (+ start (if negated 2 1)))
         (members nil) (member nil) (classes nil) (others nil))
    (goto-char first)
    (while (cond ((and (> (point) first) (eq (char-after) ?\])) nil)
                 ((looking-at "\\[:[a-z]+:]")
                  (let* ((class (match-string 0))
                         (other (and (not negated)
                                     (cdr (assoc class efrit-tools-find--without-slash)))))
                    (if other (push other others) (push class members)))
                  (setq classes t)
                  (goto-char (match-end 0)))
                 ((setq member (efrit-tools-find--member))
                  (push (or (and (looking-at "-[^]]")
                                 (efrit-tools-find--range-to member))
                            (efrit-tools-find--member-text member))
                        members))))
    (if (eq (char-after) ?\])
        (progn (forward-char)
               (efrit-tools-find--bracket-text negated (nreverse members) others))
      (prog1 (if classes (1+ start) (point))
        (goto-char start)))))

(defconst efrit-tools-find--without-slash
  '(("[:punct:]" . "[^/[:alnum:][:space:][:cntrl:]]")
    ("[:graph:]" . "[^/[:space:][:cntrl:]]")
    ("[:print:]" . "[^/[:cntrl:]]"))
  "Expressions for the classes that have a slash in them, without it.")

(defun efrit-tools-find--bracket-text (negated members others)
  "Return the expression for a bracket of MEMBERS and what OTHERS match.
When it is NEGATED, there are no OTHERS."
  (let ((own (and (or negated members)
                  (list (concat "[" (and negated "^/") (apply #'concat members) "]")))))
    (if others
        (concat "(" (string-join (append own others) "|") ")")
      (car own))))

(defun efrit-tools-find--member ()
  "Return the member of a bracket at point, a character, and go behind it.
A backslash goes before what it stands for.  At a slash, return nil."
  (when (looking-at "\\\\?\\([^/]\\)")
    (goto-char (match-end 0))
    (char-before)))

(defun efrit-tools-find--member-text (character)
  "Return the expression for CHARACTER in a bracket."
  (if (memq character '(?\[ ?\] ?^ ?-))
      (format "[.%c.]" character)
    (char-to-string character)))

(defun efrit-tools-find--range-to (first)
  "Return the expression for the range from FIRST whose hyphen is at point.
Go behind it; where no range begins, stay and return nil."
  (let ((start (point)) (last (progn (forward-char) (efrit-tools-find--member))))
    (cond ((null last) (goto-char start) nil)
          ((< first ?/ last)  ; gate: range-slash
           (concat (efrit-tools-find--range first ?.) (efrit-tools-find--range ?0 last)))
          (t (efrit-tools-find--range first last)))))

(defun efrit-tools-find--range (first last)
  "Return the expression for the range in a bracket from FIRST to LAST."
  (if (eq first last)
      (efrit-tools-find--member-text first)
    (concat (efrit-tools-find--member-text first) "-" (efrit-tools-find--member-text last))))

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
         (found (efrit-files-names directory))
         (entries (efrit-tools-find--entries (car found) directory)))
    (efrit-tool-json
     `((directory . ,(efrit-json-clean directory))
       (entries . ,(vconcat entries))
       (left_out . ,(- (length (car found)) (length entries)))
       ,@(and (cdr found) '((unread . t)))))))

(defun efrit-tools-find--entries (names directory)
  "Return the entries of the first of NAMES in DIRECTORY that fit into a result."
  (let ((bytes 0))
    (cl-loop for name in names
             repeat efrit-tools-find--max-files
             for entry = (efrit-tools-find--entry name directory)
             do (setq bytes (+ bytes 1 (string-bytes (efrit-json-text entry))))
             while (<= bytes efrit-tool-result-bytes)
             collect entry)))

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
