;;; efrit-plan-environment.el --- The work of a plan, in git  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; environment/ is where the tasks of a plan are done.  Either it is a directory
;; of the plan's repository, or a clone: a repository of its own, in which the
;; work is committed first, and of which the plan's repository records the head.
;; Which of the two it is, user_intent/environment.json says.
;;
;; Whoever does a task may make repositories in the directory (many tools do).
;; Git would record of them a name at best: their files are recorded instead.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'efrit-plan-git)
(require 'efrit-plan-log)

(defconst efrit-plan-environment--seed ".efrit-seed"
  "A name for an entry of the index that no file has.")

(defun efrit-plan-environment-path (root)
  "Return the directory of the work in the repository ROOT."
  (concat root "environment/"))

(defun efrit-plan-environment-clone-p (root)
  "Return non-nil when the work in the repository ROOT is a clone."
  (file-exists-p (concat root "user_intent/environment.json")))

;;;; Recording

(defun efrit-plan-environment-record (root commit text)
  "Have the index of ROOT hold the work as it is.
COMMIT, about TEXT, is the step that this is done for; a clone gets it too."
  (make-directory (efrit-plan-environment-path root) t)
  (if (efrit-plan-environment-clone-p root)
      (efrit-plan-environment--record-clone root commit text)
    (efrit-plan-environment--add root "environment/")))

(defun efrit-plan-environment--record-clone (root commit text)
  "Commit the work in the clone of ROOT as COMMIT about TEXT; record its head."
  (let ((clone (efrit-plan-environment-path root)))
    (unless (file-exists-p (concat clone ".git"))
      (efrit-plan-fail 'efrit-plan-changed
                       "%s was cloned, and is not a git repository any more: clone it there again, or \
move %s away and begin the plan again" clone (directory-file-name root)))
    (efrit-plan-git-unlock clone)
    (efrit-plan-environment--add clone "")
    (let ((message (encode-coding-string (efrit-plan-log-message commit text) 'utf-8-unix t)))
      ;; A crash between the two commits leaves the first: what it missed belongs to it.
      (efrit-plan-environment--commit-clone clone message
                                            ;; gate: plan-clone-made
                                            (efrit-plan-environment--made-p clone commit)))
    (efrit-plan-environment-link root (efrit-plan-git-line clone "rev-parse" "HEAD"))))

(defun efrit-plan-environment--made-p (clone commit)
  "Return non-nil when the head of CLONE is COMMIT's step of the same plan."
  (pcase (efrit-plan-environment--head clone)
    ('nil nil)
    (head (and (equal (efrit-plan-commit-uid head) (efrit-plan-commit-uid commit))
               (equal (efrit-plan-commit-step head) (efrit-plan-commit-step commit))))))

(defun efrit-plan-environment--head (clone)
  "Return the commit at the head of CLONE, nil when it has none yet."
  (when (equal 0 (car (efrit-plan-git-try clone nil "rev-parse" "-q" "--verify" "HEAD")))
    (car (efrit-plan-log-read clone 1))))

(defun efrit-plan-environment--commit-clone (clone message again)
  "Commit what the index of CLONE holds, with MESSAGE, if it is anything new.
AGAIN is non-nil when the head is this commit already."
  ;; A merge that a task has begun is ended by this.
  (pcase-let* ((arguments `("commit" "-q" "--no-verify" "--cleanup=verbatim" "-F" "-"
                            ,@(and again '("--amend"))))
               (clean (equal 0 (car (efrit-plan-git-try clone nil "diff-index" "--cached"
                                                        "--quiet" "HEAD" "--")))))
    (unless (and clean (not (file-exists-p (concat clone ".git/MERGE_HEAD")))
                 (efrit-plan-environment--head clone))
      (apply #'efrit-plan-git-input clone message arguments))))

(defun efrit-plan-environment-first (clone commit text)
  "Return the hash of the head of CLONE.
If it was empty, that is COMMIT about TEXT."
  (unless (efrit-plan-environment--head clone)
    (efrit-plan-git-input clone
                          (encode-coding-string (efrit-plan-log-message commit text) 'utf-8-unix t)
                          "commit" "-q" "--no-verify" "--cleanup=verbatim" "--allow-empty" "-F" "-"))
  (efrit-plan-git-line clone "rev-parse" "HEAD"))

(defun efrit-plan-environment-link (root hash)
  "Have the index of ROOT say that the clone's head is HASH."
  (efrit-plan-git root "update-index" "--add" "--cacheinfo" (concat "160000," hash ",environment")))

;;;; Adding, whatever repositories are inside

(defun efrit-plan-environment--add (root directory)
  "Have the index of ROOT hold all in DIRECTORY, which is relative to it."
  (let ((result (efrit-plan-environment--try-add root directory)))
    (when (efrit-plan-environment--repository-inside-p result)
      (efrit-plan-environment--seed root directory)
      (setq result (efrit-plan-environment--try-add root directory)))
    (unless (equal (car result) 0)
      (efrit-plan-git-failed root "add" (car result) (nth 2 result)))))

(defun efrit-plan-environment--try-add (root directory)
  "Add DIRECTORY of ROOT to its index; return what `efrit-plan-git-try' does."
  (let ((result (efrit-plan-git-try
                 root nil "add" "--all" "--"
                 (if (string-empty-p directory) "." (directory-file-name directory)))))
    ;; Nothing in it, and nothing of it known.
    (if (and (not (equal (car result) 0))
             (string-search "did not match any files" (nth 2 result)))
        (list 0 "" "")
      result)))

(defun efrit-plan-environment--repository-inside-p (result)
  "Return non-nil when RESULT, of adding, reports a repository in the directory."
  (string-match-p "adding embedded git repository\\|does not have a commit checked out"
                  (nth 2 result)))

(defun efrit-plan-environment--seed (root directory)
  "Have git look into the repositories that are in DIRECTORY of ROOT.
It takes one for a directory when its index has an entry below it."
  (let ((empty (string-trim-right (efrit-plan-git-input root "" "hash-object" "-w" "--stdin")))
        (zero (make-string 40 ?0)))
    (efrit-plan-git-input
     root
     (mapconcat (lambda (inside)
                  (format "0 %s\t%s\0%s %s\t%s/%s\0" zero inside
                          "100644" empty inside efrit-plan-environment--seed))
                (efrit-plan-environment--inside root directory) "")
     "update-index" "-z" "--add" "--index-info")))

(defun efrit-plan-environment--inside (root directory)
  "Return the repositories in DIRECTORY of ROOT, as bytes, relative to ROOT.
Those that ROOT has as its submodules are left out."
  (let ((default-directory root) (file-name-handler-alist nil)
        (coding-system-for-read 'no-conversion)
        (submodules (efrit-plan-environment--submodules root)))
    (with-temp-buffer
      (set-buffer-multibyte nil)
      (call-process "find" nil '(t nil) nil (if (string-empty-p directory) "." directory)
                    "-mindepth" "2" "-name" ".git" "-prune" "-print0")
      (when (file-exists-p (concat root directory ".git"))
        (unless (string-empty-p directory) (insert directory ".git\0")))
      (seq-difference
       (mapcar (lambda (path)
                 (directory-file-name
                  (string-remove-prefix "./" (or (file-name-directory path) path))))
               (split-string (buffer-string) "\0" t))
       submodules))))

(defun efrit-plan-environment--submodules (root)
  "Return the paths of the submodules of ROOT, as bytes."
  (append
   (cl-loop for entry in (efrit-plan-environment--entries root "ls-tree" "-r" "-z" "HEAD")
            when (string-prefix-p "160000 " entry)
            collect (substring entry (1+ (string-search "\t" entry))))
   (cl-loop for entry in (efrit-plan-environment--entries
                          root "config" "-z" "-f" (concat root ".gitmodules")
                          "--get-regexp" "^submodule\\..*\\.path$")
            collect (cadr (split-string entry "\n")))))

(defun efrit-plan-environment--entries (root &rest arguments)
  "Return what git, run with ARGUMENTS in ROOT, lists; nothing when it fails."
  (pcase-let ((`(,status ,output ,_) (apply #'efrit-plan-git-try root nil arguments)))
    (and (equal status 0) (split-string output "\0" t))))

;;;; What a step has changed

(defconst efrit-plan-environment--max-names 50
  "Most files that are named in a report of what has changed.")

(defconst efrit-plan-environment--names-bytes 262144
  "Bytes of a list of changed files beyond which the diff after it is not read.")

(defun efrit-plan-environment-changes (root hash most)
  "Return what the commit HASH of ROOT changed of the work.
That is members of an object: changed, files, insertions, deletions, diff and
truncated; the diff has MOST characters at most."
  (condition-case err
      (pcase-let ((`(,where ,old ,new . ,options) (efrit-plan-environment--versions root hash)))
        (efrit-plan-environment--change-members
         (if (equal old new)
             ""
           (apply #'efrit-plan-git-head where (+ efrit-plan-environment--names-bytes (* 4 most))
                  "diff-tree" "-z" "--numstat" "--shortstat" "-p" "-r" "-M" "--no-color"
                  "--no-ext-diff" "--no-textconv" (append options (list old new "--"))))
         most))
    (efrit-plan-git-failed
     ;; The commit is made, and stays.
     (efrit-plan-environment--members
      nil "" (format "[what was changed is unknown: %s]" (error-message-string err)) most))))

(defun efrit-plan-environment--versions (root hash)
  "Return (WHERE OLD NEW . OPTIONS) to compare for the commit HASH of ROOT."
  (if (efrit-plan-environment-clone-p root)
      (cons (efrit-plan-environment-path root)
            (split-string (efrit-plan-git root "rev-parse" (concat hash "^:environment")
                                          (concat hash ":environment"))
                          "\n" t))
    (list root (concat hash "^") hash "--relative=environment/")))

(defun efrit-plan-environment--change-members (output most)
  "Return the members for what OUTPUT, of git, says: names, counts and diff.
MOST characters of the diff are returned."
  (let ((case-fold-search nil))
    (if (string-match "\\(?:\\`\\|\0\\)\\( [0-9]+ files? changed[^\n]*\n\\)\0?" output)
        (let ((names (substring output 0 (match-beginning 0)))
              (statistics (match-string 1 output)) (diff (substring output (match-end 0))))
          (efrit-plan-environment--members
           (efrit-plan-environment--names names) statistics diff most))
      ;; Nothing, or so many files that their list alone is too long.
      (efrit-plan-environment--members
       (efrit-plan-environment--names output) ""
       (if (string-empty-p output) "" "[too many files were changed to list them]") most))))

(defun efrit-plan-environment--names (list)
  "Return the first paths of LIST, of git's --numstat."
  (let ((entries (split-string list "\0" t)) names)
    (while (and entries (< (length names) efrit-plan-environment--max-names))
      (let ((entry (pop entries)))
        (when (string-match "\\`[-0-9]+\t[-0-9]+\t" entry)
          (let ((name (substring entry (match-end 0))))
            ;; Of a file that was renamed, the old name and the new follow.
            (push (efrit-json-clean (if (string-empty-p name)
                                         (or (progn (pop entries) (pop entries)) "")
                                       name))
                  names)))))
    (nreverse names)))

(defun efrit-plan-environment--members (names statistics diff most)
  "Return the members for NAMES, STATISTICS and DIFF.
MOST characters of the diff are returned."
  `((changed . ,(vconcat names))
    ,@(efrit-plan-environment-statistics statistics)
    (diff . ,(efrit-json-clean (substring diff 0 (min most (length diff)))))
    (truncated . ,(if (or (> (length diff) most) (string-prefix-p "[" diff)) t :false))))

(defun efrit-plan-environment-statistics (output)
  "Return the counts in OUTPUT, of git's --shortstat, as members of an object."
  (cl-loop for (name . regexp) in '((files . "\\([0-9]+\\) files? changed")
                                    (insertions . "\\([0-9]+\\) insertion")
                                    (deletions . "\\([0-9]+\\) deletion"))
           collect (cons name (if (string-match regexp output)
                                  (string-to-number (match-string 1 output))
                                0))))

(provide 'efrit-plan-environment)
;;; efrit-plan-environment.el ends here
