;;; efrit-plan-history.el --- The history of a plan, for a report  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Everything a report of a plan is made of, from its repository alone: what was
;; wanted, each step with what it cost and what it changed, and the tree at the
;; beginning and now.  Reads only.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'efrit-plan-json)
(require 'efrit-plan-log)
(require 'efrit-plan-environment)

(declare-function efrit-plan-totals "efrit-plan" (steps))

(defun efrit-plan-history-read (root &optional limit)
  "Return the history of the plan in ROOT, as a value for JSON.
With LIMIT, of the steps only that many are returned, the last ones."
  (pcase-let* ((commits (efrit-plan-log-read root))
               (`(,project ,environment ,tree)
                (mapcar (lambda (text) (if text (efrit-json-parse text) :null))
                        (efrit-plan-git-files root "user_intent/project.json"
                                              "user_intent/environment.json"
                                              "working_plan/current.json")))
               (tasks (efrit-plan-history--tasks root limit))
               (work (efrit-plan-history--work root limit)))
    `((plan . ,(alist-get 'plan project))
      (uid . ,(alist-get 'uid project))
      (intent . ,(alist-get 'intent project))
      (amendments . ,(efrit-plan-history--amendments root))
      (environment . ,environment)
      (firstTree . ,(alist-get 'tree project))
      (tree . ,tree)
      (totals . ,(efrit-plan-totals (seq-filter #'efrit-plan-commit-step commits)))
      (commits . ,(vconcat
                   (mapcar (lambda (commit) (efrit-plan-history--commit commit tasks work))
                           (reverse (if limit (seq-take commits limit) commits))))))))

(defun efrit-plan-history--commit (commit tasks work)
  "Return COMMIT as a value for JSON, with what TASKS and WORK know of it."
  (append (efrit-plan-log-to-json commit)
          `((outcome . ,(or (efrit-plan-commit-outcome commit) :null))
            (inputTokens . ,(efrit-plan-commit-input-tokens commit))
            (outputTokens . ,(efrit-plan-commit-output-tokens commit))
            (seconds . ,(efrit-plan-commit-seconds commit)))
          (pcase (efrit-plan-commit-kind commit)
            ("adapt" `((tasks . ,(gethash (efrit-plan-commit-step commit) tasks
                                          '((changed . []) (removed . []))))))
            ("act" `((work . ,(gethash (efrit-plan-commit-step commit) work
                                       '((files . 0) (insertions . 0) (deletions . 0)))))))))

(defun efrit-plan-history--amendments (root)
  "Return the amendments of the plan in ROOT, a vector."
  (let ((names (split-string (efrit-plan-git root "ls-tree" "-r" "-z" "--name-only" "HEAD"
                                             "user_intent/amendments/")
                             "\0" t)))
    (vconcat (and names
                  (mapcar #'efrit-json-parse (apply #'efrit-plan-git-files root names))))))

;;;; What each step changed

(defun efrit-plan-history--each (root limit options paths function)
  "Call FUNCTION with the step of each commit of ROOT and what git says of it.
OPTIONS are those of git's log, PATHS what is looked at, LIMIT as above.  Return
a table by step of what FUNCTION returns."
  (let ((table (make-hash-table :test #'eql)))
    (dolist (record (split-string
                     (apply #'efrit-plan-git root "log" "--first-parent"
                            "--format=%x1e%(trailers:key=Efrit-Step,valueonly)%x1f"
                            "--no-color" "--no-ext-diff" "--no-textconv"
                            (append options (and limit (list (format "--max-count=%d" limit)))
                                    '("HEAD" "--") paths))
                     "\x1e" t))
      (pcase-let ((`(,step ,said) (split-string record "\x1f")))
        (when (string-match-p "\\`[0-9]+" step)
          (puthash (string-to-number step) (funcall function (or said "")) table))))
    table))

(defun efrit-plan-history--tasks (root limit)
  "Return which tasks the steps of ROOT changed; LIMIT as above."
  (efrit-plan-history--each
   root limit '("-p" "-U0") '("working_plan/current.json")
   (lambda (diff)
     (let (changed gone)
       (dolist (line (split-string diff "\n"))
         (let ((task (and (string-match-p "\\`[-+] *{" line)
                          (efrit-plan-json-line-task (string-trim-left (substring line 1))))))
           (when task
             (if (eq (aref line 0) ?+) (push task changed)
               (push (alist-get 'id task) gone)))))
       (let ((there (mapcar (lambda (task) (alist-get 'id task)) changed)))
         `((changed . ,(vconcat (reverse changed)))
           (removed . ,(vconcat (seq-remove (lambda (id) (member id there))
                                            (nreverse gone))))))))))

(defun efrit-plan-history--work (root limit)
  "Return how much the steps of ROOT changed of the work; LIMIT as above."
  (let ((clone (efrit-plan-environment-clone-p root)))
    (efrit-plan-history--each
     (if clone (efrit-plan-environment-path root) root)
     limit '("--shortstat") (if clone nil '("environment"))
     #'efrit-plan-environment-statistics)))

(provide 'efrit-plan-history)
;;; efrit-plan-history.el ends here
