;;; efrit-plan-git.el --- Git for the repositories of plans  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The lowest layer of a plan: runs git in one repository, the same whatever the
;; user's configuration is, and says in a sentence what went wrong.  Which
;; repository is always said, never looked for.  Nothing here knows what a commit
;; of a plan is.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'efrit-settings)
(require 'efrit-clock)
(require 'efrit-json)
(require 'efrit-text)

;;;; Errors

;; Of file errors alone Emacs prints the text as it is, without quotes.
(define-error 'efrit-plan-error "EfritPlan" '(efrit-error file-error))
(define-error 'efrit-plan-arguments "EfritPlan" 'efrit-plan-error)
(define-error 'efrit-plan-no-credentials "EfritPlan" 'efrit-plan-arguments)
(define-error 'efrit-plan-git-failed "EfritPlan" 'efrit-plan-error)
(define-error 'efrit-plan-no-git "EfritPlan" 'efrit-plan-git-failed)
(define-error 'efrit-plan-disk "EfritPlan" 'efrit-plan-git-failed)

(defun efrit-plan-fail (condition format &rest arguments)
  "Signal CONDITION with the sentence that FORMAT makes of ARGUMENTS."
  (signal condition (list (efrit-json-clean (apply #'format format arguments)))))

;;;; The program

(defconst efrit-plan-git--oldest "2.38"
  "The oldest git whose environment says how to sync and whom to trust.")

(defvar efrit-plan-git--checked nil
  "The program that was found to be new enough, or nil.")

(defun efrit-plan-git-program ()
  "Return the path of git; it is an error when there is none, or an old one."
  (let ((program (executable-find "git")))
    (unless program
      (efrit-plan-fail 'efrit-plan-no-git
                       "There is no git in this Emacs' image (PATH is %s): use an image with git %s or newer"
                       (getenv "PATH") efrit-plan-git--oldest))
    (unless (equal program efrit-plan-git--checked)
      (let ((version (efrit-plan-git--version program)))
        (when (version< version efrit-plan-git--oldest)
          (efrit-plan-fail 'efrit-plan-no-git
                           "%s is version %s, plans need %s or newer: use a newer image"
                           program version efrit-plan-git--oldest)))
      (setq efrit-plan-git--checked program))
    program))

(defun efrit-plan-git--version (program)
  "Return the version of the git PROGRAM."
  (with-temp-buffer
    (let ((default-directory "/")
          (status (call-process program nil '(t nil) nil "version")))
      (goto-char (point-min))
      (if (and (equal status 0) (re-search-forward "version \\([0-9]+\\(?:\\.[0-9]+\\)+\\)" nil t))
          (match-string 1)
        (efrit-plan-fail 'efrit-plan-no-git "%s does not report its version (exit status %s)"
                         program status)))))

;;;; Its surroundings

(defconst efrit-plan-git--configuration
  '(("core.hooksPath" . "/dev/null") ("core.fsmonitor" . "false")
    ("commit.gpgSign" . "false") ("gc.auto" . "0") ("maintenance.auto" . "false")
    ("core.excludesFile" . "/dev/null") ("core.attributesFile" . "/dev/null")
    ("core.autocrlf" . "false") ("core.safecrlf" . "false") ("core.quotePath" . "false")
    ;; What a commit consists of has reached the disk when its name is returned.
    ("core.fsync" . "committed,loose-object")  ; gate: plan-fsync
    ("advice.addEmbeddedRepo" . "false") ("advice.detachedHead" . "false")
    ("submodule.recurse" . "false") ("color.ui" . "false") ("log.showSignature" . "false")
    ("i18n.commitEncoding" . "UTF-8") ("i18n.logOutputEncoding" . "UTF-8")
    ("transfer.credentialsInUrl" . "die")
    ;; A volume may belong to another user than the one who works on it.
    ("safe.directory" . "*"))
  "What holds in every call, whatever a repository says.")

(defconst efrit-plan-git--passed-variables
  '("GIT_SSL_CAINFO" "GIT_SSL_CAPATH" "GIT_COMMITTER_DATE" "GIT_AUTHOR_DATE")
  "Variables of git's own that are left to it.")

(defun efrit-plan-git-environment (root &optional configuration)
  "Return the environment of a git that works on the repository ROOT, or on none.
CONFIGURATION is an alist of what holds beside what always does."
  (let* ((settings (append efrit-plan-git--configuration configuration)) (count 0))
    (append
     (and root (list (concat "GIT_DIR=" root ".git") (concat "GIT_WORK_TREE=" root)))
     (list (format "GIT_CONFIG_COUNT=%d" (length settings)))
     (cl-loop for (name . value) in settings
              collect (format "GIT_CONFIG_KEY_%d=%s" count name)
              collect (format "GIT_CONFIG_VALUE_%d=%s" count value)
              do (cl-incf count))
     '("GIT_CONFIG_NOSYSTEM=1" "GIT_CONFIG_GLOBAL=/dev/null" "GIT_ATTR_NOSYSTEM=1"
       "GIT_TERMINAL_PROMPT=0" "GIT_ASKPASS=" "GIT_EDITOR=true" "GIT_PAGER=cat"
       "GIT_OPTIONAL_LOCKS=0" "GIT_LITERAL_PATHSPECS=1" "GIT_NO_REPLACE_OBJECTS=1"
       "GIT_AUTHOR_NAME=Efrit" "GIT_AUTHOR_EMAIL=efrit@localhost"
       "GIT_COMMITTER_NAME=Efrit" "GIT_COMMITTER_EMAIL=efrit@localhost"
       "LC_ALL=C" "TZ=UTC")
     (seq-remove (lambda (variable)
                   (and (string-prefix-p "GIT_" variable)
                        (not (member (car (split-string variable "=")) efrit-plan-git--passed-variables))))
                 process-environment))))

;;;; One call

(defun efrit-plan-git-try (root input &rest arguments)
  "Run git with ARGUMENTS in the repository ROOT, given the bytes INPUT or nil.
Return (STATUS OUTPUT ERRORS): the exit status, or a string about the signal
that killed it, and two strings of bytes."
  (efrit-plan-git--call root input (efrit-plan-git-program) arguments))

(defvar efrit-plan-git--errors nil
  "The file that takes what git says of errors, one for the life of this Emacs.")

(defun efrit-plan-git--errors-file ()
  "Return the path of `efrit-plan-git--errors', made anew if need be."
  (unless (and efrit-plan-git--errors (file-exists-p efrit-plan-git--errors))
    (setq efrit-plan-git--errors (make-temp-file "efrit-git-"))
    (add-hook 'kill-emacs-hook #'efrit-plan-git--forget-errors))
  efrit-plan-git--errors)

(defun efrit-plan-git--forget-errors ()
  "Delete the file that takes what git says of errors."
  (ignore-errors (delete-file efrit-plan-git--errors)))

(defun efrit-plan-git--call (root input program arguments)
  "Run PROGRAM with ARGUMENTS as `efrit-plan-git-try' does, for ROOT and INPUT."
  (let* ((default-directory root)
         (file-name-handler-alist nil)
         (process-environment (efrit-plan-git-environment root))
         (coding-system-for-read 'no-conversion) (coding-system-for-write 'no-conversion)
         (errors (efrit-plan-git--errors-file)))
    (with-temp-buffer
      (set-buffer-multibyte nil)
      (let ((status (if input
                        (apply #'call-process-region input nil program nil
                               (list t errors) nil arguments)
                      (apply #'call-process program nil (list t errors) nil arguments))))
        (list status (buffer-string)
              (progn (erase-buffer)
                     (insert-file-contents-literally errors nil 0 8192)
                     (buffer-string)))))))

(defun efrit-plan-git-input (root input &rest arguments)
  "Return what git says, given INPUT and run with ARGUMENTS in the repository ROOT.
It is an error unless it succeeds."
  (pcase-let ((`(,status ,output ,errors) (apply #'efrit-plan-git-try root input arguments)))
    (unless (equal status 0)
      (efrit-plan-git-failed root (car arguments) status errors))
    (decode-coding-string output 'utf-8-unix t)))

(defun efrit-plan-git (root &rest arguments)
  "Return what git says, run with ARGUMENTS in the repository ROOT."
  (apply #'efrit-plan-git-input root nil arguments))

(defun efrit-plan-git-line (root &rest arguments)
  "Return the one line git says, run with ARGUMENTS in the repository ROOT."
  (string-trim-right (apply #'efrit-plan-git root arguments)))

(defun efrit-plan-git-head (root bytes &rest arguments)
  "Return the first BYTES of what git says, run with ARGUMENTS in ROOT.
They are decoded, and may end inside a character."
  (pcase-let ((`(,status ,output ,errors)
               (efrit-plan-git--call
                root nil "/bin/sh"
                (append (list "-c" "\"$@\" | head -c \"$0\"" (number-to-string bytes)
                              (efrit-plan-git-program))
                        arguments))))
    ;; The status is that of head: git died of the pipe, or of what it says.
    (unless (and (equal status 0) (not (string-match-p "^\\(?:fatal\\|error\\): " errors)))
      (efrit-plan-git-failed root (car arguments) status errors))
    (decode-coding-string output 'utf-8-unix t)))

(defun efrit-plan-git-init (directory)
  "Make DIRECTORY, which exists, an empty repository."
  (let* ((default-directory directory)
         ;; With the path of the repository on its command line, git would write that down in it.
         (process-environment (efrit-plan-git-environment nil))
         (status (call-process (efrit-plan-git-program) nil nil nil
                               "init" "-q" "--template=" "-b" "main")))
    (unless (equal status 0)
      (efrit-plan-git-failed directory "init" status ""))))

(defun efrit-plan-git-files (root &rest names)
  "Return the texts of the files NAMES in the head of ROOT, nil for none.
A name has the form of a path."
  (pcase-let ((`(,status ,output ,errors)
               (efrit-plan-git-try root
                                   (mapconcat (lambda (name) (format "HEAD:%s\n" name)) names "")
                                   "cat-file" "--batch"))
              (position 0) (case-fold-search nil))
    (unless (equal status 0) (efrit-plan-git-failed root "cat-file" status errors))
    (mapcar (lambda (_)
              (let* ((end (string-search "\n" output position))
                     (line (substring output position end))
                     (size (and (string-match "\\`[0-9a-f]+ [a-z]+ \\([0-9]+\\)\\'" line)
                                (string-to-number (match-string 1 line)))))
                (setq position (+ end 1 (if size (1+ size) 0)))
                (and size (string-search " blob " line)
                     (decode-coding-string
                      (substring output (1+ end) (+ end 1 size)) 'utf-8-unix t))))
            names)))

;;;; What went wrong

(defconst efrit-plan-git--troubles
  '(("No space left on device\\|Disk quota exceeded\\|File too large" efrit-plan-disk
     "The volume of the workspace is full. Free space on it or make it larger; what was \
written is kept, and the step can be asked for again")
    ("Read-only file system\\|Input/output error\\|Stale file handle\\|\
\\(?:unable to\\|could not\\|couldn't\\|failed to\\) write" efrit-plan-disk
     "The volume of the workspace cannot be used as it should. Look at the volume; what was \
written is kept, and the step can be asked for again")
    ("Permission denied" efrit-plan-disk
     "Something in the workspace may not be read or written by the user Emacs runs as. Change \
its owner or its mode and ask for the step again")
    ("not a git repository\\|bad object\\|object file .* is empty\\|is corrupt\\|unable to read tree"
     efrit-plan-git-failed
     "The repository is damaged. `git fsck' in it says more; take it from a backup, or move the \
directory away and begin the plan again"))
  "A regexp on what was said, the condition it amounts to, and what to say of it.")

(defun efrit-plan-git-trouble (text)
  "Return (CONDITION SENTENCE) about the known trouble that TEXT reports."
  (let ((case-fold-search t))
    (cdr (seq-find (lambda (trouble) (string-match-p (car trouble) text))
                   efrit-plan-git--troubles))))

(defun efrit-plan-git-failed (root what status errors)
  "Signal that git WHAT ended with STATUS and ERRORS in the repository ROOT."
  (let* ((git-errors (string-trim (efrit-text-cut (decode-coding-string errors 'utf-8-unix) 2000)))
         (trouble (efrit-plan-git-trouble git-errors)))
    (efrit-plan-fail
     (or (car trouble) 'efrit-plan-git-failed)
     "%sgit %s in %s ended with %s%s"
     (if trouble (concat (cadr trouble) ": ") "") what (directory-file-name root)
     (if (numberp status) (format "exit status %d" status) (format "signal %s" status))
     (if (string-empty-p git-errors) "" (concat ": " git-errors)))))

;;;; Locks that were left behind

(defvar efrit-plan-git--lock-seconds 10
  "Seconds a git that still works in a repository is waited for.")

(defun efrit-plan-git-unlock (root)
  "Remove the locks that a git which died has left in the repository ROOT."
  (let ((locks (efrit-plan-git--locks root)))
    (when locks
      (efrit-plan-git--await-others root)
      (dolist (lock locks)
        (condition-case nil (delete-file lock) (file-missing nil))))))

(defun efrit-plan-git--locks (root)
  "Return the lock files of the repository ROOT."
  (let ((git (concat root ".git/")))
    (append (seq-filter #'file-exists-p
                        (mapcar (lambda (name) (concat git name ".lock"))
                                '("index" "HEAD" "config" "packed-refs" "shallow")))
            (and (file-directory-p (concat git "refs"))
                 (directory-files-recursively (concat git "refs") "\\.lock\\'")))))

(defun efrit-plan-git--await-others (root)
  "Wait until no git works below ROOT; it is an error when one goes on for long."
  (let ((until (+ (efrit-clock) efrit-plan-git--lock-seconds)) pid)
    (while (and (setq pid (efrit-plan-git--other root))
                (< (efrit-clock) until))
      (accept-process-output nil 0.05))
    (when pid
      (efrit-plan-fail 'efrit-plan-git-failed
                       "A git (process %d) works in %s and holds its lock: end it, or wait for it, \
and ask for the step again" pid root))))

(defun efrit-plan-git--other (root)
  "Return the number of a process of git that works in ROOT or below it, or nil."
  (let ((root (file-truename root)))
    (seq-find (lambda (pid)
                (let ((directory (file-symlink-p (format "/proc/%d/cwd" pid))))
                  (and directory
                       (string-prefix-p root (file-name-as-directory directory))
                       (string-prefix-p
                        "git" (or (alist-get 'comm (process-attributes pid)) "")))))
              (list-system-processes))))

(provide 'efrit-plan-git)
;;; efrit-plan-git.el ends here
