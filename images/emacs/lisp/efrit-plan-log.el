;;; efrit-plan-log.el --- The commits of a plan  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What a commit of a plan says, how it is read again, and how one is made: as
;; the step after the one that was seen, or not at all.  A commit is a step when
;; its trailers say so; anything else at the head was made by hand.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'efrit-plan-git)

(define-error 'efrit-plan-changed "EfritPlan" 'efrit-plan-error)
(define-error 'efrit-plan-out-of-order "EfritPlan" 'efrit-plan-error)

(cl-defstruct (efrit-plan-commit (:constructor efrit-plan-commit-make))
  "A commit of a plan.
HASH, TIME (ISO 8601) and SUBJECT are git's; UID, STEP, KIND, TASK, OUTCOME (or
nil), INPUT-TOKENS, OUTPUT-TOKENS and SECONDS those of its trailers."
  hash time subject uid step kind task outcome input-tokens output-tokens seconds)

;;;; What a commit says

(defconst efrit-plan-log--subject 200
  "Most characters of the first line of a commit.")

(defun efrit-plan-log--flat (text)
  "Return TEXT as one line."
  (string-trim (replace-regexp-in-string "[\0- \x7f-\x9f\u2028\u2029]+" " " text)))

(defun efrit-plan-log-subject (label text)
  "Return the first line of a commit: LABEL and TEXT, cut where that is too long."
  (let ((line (efrit-plan-log--flat (concat label " " text))))
    (if (<= (length line) efrit-plan-log--subject)
        line
      (concat (substring line 0 (1- efrit-plan-log--subject)) "…"))))

(defun efrit-plan-log-message (commit text)
  "Return the message of COMMIT, which is about TEXT."
  (let ((subject (efrit-plan-commit-subject commit))
        (text (string-trim (replace-regexp-in-string
                            "[\0-\x08\x0b-\x1f\x7f-\x9f]+" " " text))))
    (concat subject "\n\n"
            ;; The whole text, where the first line has not room for it.
            (unless (string-suffix-p text subject) (concat text "\n\n"))
            (mapconcat (lambda (trailer) (format "%s: %s\n" (car trailer) (cdr trailer)))
                       (efrit-plan-log--trailers commit) ""))))

(defun efrit-plan-log--trailers (commit)
  "Return the trailers of COMMIT as an alist."
  (seq-filter
   #'cdr
   (list (cons "Efrit-Plan" (efrit-plan-commit-uid commit))
         (cons "Efrit-Step" (efrit-plan-commit-step commit))
         (cons "Efrit-Kind" (efrit-plan-commit-kind commit))
         (cons "Efrit-Task" (and (efrit-plan-commit-task commit)
                                 (efrit-plan-log--flat (efrit-plan-commit-task commit))))
         (cons "Efrit-Outcome" (and (efrit-plan-commit-outcome commit)
                                    (efrit-plan-log--flat (efrit-plan-commit-outcome commit))))
         (cons "Efrit-Input-Tokens" (efrit-plan-commit-input-tokens commit))
         (cons "Efrit-Output-Tokens" (efrit-plan-commit-output-tokens commit))
         (cons "Efrit-Seconds" (and (efrit-plan-commit-seconds commit)
                                    (format "%.3f" (efrit-plan-commit-seconds commit)))))))

;;;; Reading

(defconst efrit-plan-log--format
  "--format=%H%x1f%ct%x1f%s%x1f%(trailers:only,unfold,separator=%x1e)"
  "What git says of a commit.")

(defun efrit-plan-log-read (root &optional most)
  "Return the commits at the head of the repository ROOT, the newest first.
At most MOST of them, unless nil.  Those made by hand have no step."
  (mapcar #'efrit-plan-log--parse
          (split-string (apply #'efrit-plan-git root "log" "-z" "--first-parent"
                               efrit-plan-log--format
                               (append (and most (list (format "--max-count=%d" most)))
                                       '("HEAD" "--")))
                        "\0" t)))

(defun efrit-plan-log--parse (record)
  "Return the commit in RECORD, which is in `efrit-plan-log--format'."
  (pcase-let* ((`(,hash ,time ,subject ,trailers) (split-string record "\x1f"))
               (said (mapcar (lambda (trailer)
                               (let ((colon (string-search ": " trailer)))
                                 (cons (substring trailer 0 colon)
                                       (and colon (substring trailer (+ 2 colon))))))
                             (split-string (or trailers "") "\x1e" t)))
               (count (lambda (name)
                        (let ((text (cdr (assoc name said))))
                          (and text (string-match-p "\\`[0-9]+\\'" text)
                               (string-to-number text))))))
    (efrit-plan-commit-make
     :hash hash :time (efrit-plan-log--time (string-to-number time)) :subject (efrit-json-clean subject)
     :uid (cdr (assoc "Efrit-Plan" said))
     :step (and (assoc "Efrit-Plan" said) (funcall count "Efrit-Step"))
     :kind (cdr (assoc "Efrit-Kind" said))
     :task (cdr (assoc "Efrit-Task" said))
     :outcome (cdr (assoc "Efrit-Outcome" said))
     :input-tokens (or (funcall count "Efrit-Input-Tokens") 0)
     :output-tokens (or (funcall count "Efrit-Output-Tokens") 0)
     :seconds (string-to-number (or (cdr (assoc "Efrit-Seconds" said)) "0")))))

(defun efrit-plan-log--time (seconds)
  "Return the time SECONDS after the epoch in ISO 8601."
  (format-time-string "%FT%TZ" seconds t))

(defun efrit-plan-log-check (root commit)
  "Return COMMIT, the head of the repository ROOT, if it is a step of a plan.
Otherwise somebody has changed the repository, and what to do is said."
  (unless (efrit-plan-commit-step commit)
    (let ((last (string-trim
                 (efrit-plan-git root "log" "--max-count=1" "--format=%H" "--first-parent"
                                 "--extended-regexp" "--grep=^Efrit-Step: [0-9]+$" "HEAD" "--"))))
      (efrit-plan-fail
       'efrit-plan-changed
       "%s was changed by hand: its head %.12s (%s) is no step of the plan. %s"
       (directory-file-name root) (efrit-plan-commit-hash commit)
       (efrit-plan-commit-subject commit)
       (if (string-empty-p last)
           "Check out the branch the plan was on, or move the directory away and begin the plan again"
         (format "`git -C %s reset --soft %.12s' makes the plan's last step the head again and keeps \
the files" (shell-quote-argument (directory-file-name root)) last)))))
  commit)

(defun efrit-plan-log-to-json (commit)
  "Return COMMIT as it is reported: hash, subject, kind, task, step and time."
  `((hash . ,(efrit-plan-commit-hash commit))
    (subject . ,(efrit-plan-commit-subject commit))
    (kind . ,(or (efrit-plan-commit-kind commit) :null))
    (task . ,(or (efrit-plan-commit-task commit) :null))
    (step . ,(or (efrit-plan-commit-step commit) :null))
    (time . ,(efrit-plan-commit-time commit))))

;;;; Making

(defun efrit-plan-log-commit (root head commit text)
  "Make what the index of ROOT holds COMMIT, on top of HEAD, which may be nil.
TEXT is what it is about.  Return COMMIT, with its hash and its time.
When the head is another one meanwhile, it is an error, and nothing is made."
  (let* ((tree (efrit-plan-git-line root "write-tree"))
         (now (truncate (float-time)))
         (process-environment
          (append (list (format "GIT_COMMITTER_DATE=%d +0000" now)
                        (format "GIT_AUTHOR_DATE=%d +0000" now))
                  process-environment))
         (hash (string-trim-right
                (apply #'efrit-plan-git-input root
                       (encode-coding-string (efrit-plan-log-message commit text) 'utf-8-unix t)
                       "commit-tree" tree "-F" "-"
                       (and head (list "-p" head))))))
    ;; gate: plan-head
    (efrit-plan-git root "update-ref" "-m" (format "efrit: step %d" (efrit-plan-commit-step commit))
                    "HEAD" hash (or head (make-string 40 ?0)))
    (efrit-plan-log--sync root)
    (efrit-plan-log--tidy root (efrit-plan-commit-step commit))
    (setf (efrit-plan-commit-hash commit) hash
          (efrit-plan-commit-time commit) (efrit-plan-log--time now))
    commit))

(defun efrit-plan-log--sync (root)
  "Have the name of the head of ROOT reach the disk.
Git syncs what it writes, but not the directories it renames it into."
  (let ((default-directory root) (file-name-handler-alist nil))
    (when (executable-find "sync")
      (unless (equal 0 (call-process "sync" nil nil nil (concat root ".git/refs/heads")))
        (efrit-plan-fail 'efrit-plan-disk "The volume of %s could not be synced: look at it, and ask \
for the step again" root)))))

(defconst efrit-plan-log--tidy-steps 256
  "How many steps leave their objects in files of their own.")

(defun efrit-plan-log--tidy (root step)
  "Put the objects of ROOT into one file when STEP is one after which it is done.
Nobody depends on that."
  (when (and (> step 0) (= 0 (% step efrit-plan-log--tidy-steps)))
    (efrit-plan-git-try root nil "repack" "-d" "-l" "-q")))

(provide 'efrit-plan-log)
;;; efrit-plan-log.el ends here
