;;; efrit-plan.el --- The workspace of an EfritPlan  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A plan is one git repository on the workspace, <workspace>/plans/<plan>/:
;;   user_intent/   what is wanted: written once; amendments are only added
;;   working_plan/  the living tree of tasks, and what was said and observed last
;;   environment/   the work
;; Whoever drives the plan calls the functions of this file by requests.  Each
;; takes the text of a JSON object and returns that of another.
;;
;; Every change is one commit, and every commit one step.  A function that commits
;; is given the step it makes: asked again, it finds that step at the head and
;; makes nothing.  What a crash left half done of user_intent/ and working_plan/ is
;; thrown away first; the work in environment/ is kept, it belongs to the step.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'efrit-eval)
(require 'efrit-files)
(require 'efrit-plan-git)
(require 'efrit-plan-json)
(require 'efrit-plan-log)
(require 'efrit-plan-environment)

(autoload 'efrit-plan-clone "efrit-plan-clone")
(autoload 'efrit-plan-facts-run "efrit-plan-facts")
(autoload 'efrit-plan-history-read "efrit-plan-history")

;;;; Being called

(defun efrit-plan--answer (text function)
  "Call FUNCTION with the arguments in TEXT and the plan's directory.
Return its value as JSON."
  (let* ((arguments (efrit-plan-json-arguments text))
         (root (efrit-plan--root (efrit-plan-json-get arguments 'plan 'string))))
    (when (string-empty-p (efrit-plan-json-get arguments 'uid 'string))
      (efrit-plan-fail 'efrit-plan-arguments "The argument's member uid is empty"))
    (efrit-json-text
     (condition-case err
         (funcall function arguments root)
       (efrit-plan-error (signal (car err) (cdr err)))
       (file-error (efrit-plan--file-failed err))))))

(defun efrit-plan--file-failed (err)
  "Signal what ERR, of a file of a plan, amounts to."
  (let* ((description (error-message-string err)) (trouble (efrit-plan-git-trouble description)))
    (efrit-plan-fail (or (car trouble) 'efrit-plan-disk) "%s%s"
                     (if trouble (concat (cadr trouble) ": ") "") description)))

(defun efrit-plan--root (plan)
  "Return the directory of PLAN."
  (let ((case-fold-search nil))
    (unless (and (<= (length plan) 63)
                 (string-match-p "\\`[a-z0-9]\\(?:[-a-z0-9]*[a-z0-9]\\)?\\'" plan))
      (efrit-plan-fail 'efrit-plan-arguments
                       "The name of a plan is at most 63 of a-z, 0-9 and `-', not %S" plan)))
  (concat (expand-file-name "plans" (efrit-eval-start-directory)) "/" plan "/"))

(defun efrit-plan--uid (arguments)
  "Return the uid of the plan that ARGUMENTS are about."
  (efrit-plan-json-get arguments 'uid 'string))

;;;; Files

(defun efrit-plan--write (root name text)
  "Make TEXT that of the file NAME in ROOT."
  (let ((path (concat root name))
        (file-name-handler-alist nil) (create-lockfiles nil)
        (coding-system-for-write 'no-conversion)
        (write-region-annotate-functions nil) (write-region-post-annotation-function nil)
        ;; Git syncs what it keeps of it.
        (write-region-inhibit-fsync t))
    (make-directory (file-name-directory path) t)
    (write-region (efrit-files-bytes text) nil path nil 'silent)))

(defconst efrit-plan--own '("user_intent" "working_plan")
  "The directories that nobody changes but this file.")

(defun efrit-plan--restore (root)
  "Throw away what the head of ROOT does not have of its own directories."
  (unless (string-empty-p (efrit-plan--status root))
    (apply #'efrit-plan-git root "checkout" "-q" "-f" "--no-overlay" "HEAD" "--" efrit-plan--own)
    (apply #'efrit-plan-git root "clean" "-q" "-f" "-d" "-x" "--" efrit-plan--own)))

(defun efrit-plan--status (root)
  "Return what git says is changed in the own directories of ROOT."
  (pcase-let* ((call (lambda ()
                       (apply #'efrit-plan-git-try root nil "status" "--porcelain" "-z" "-uall" "--"
                              efrit-plan--own)))
               (`(,status ,output ,errors) (funcall call)))
    ;; A power cut can take the index, which only repeats what is elsewhere.
    (when (and (not (equal status 0)) (string-match-p "index file\\|bad signature\\|bad index" errors))
      (delete-file (concat root ".git/index"))
      (efrit-plan-git root "read-tree" "HEAD")
      (pcase-setq `(,status ,output ,errors) (funcall call)))
    (unless (equal status 0) (efrit-plan-git-failed root "status" status errors))
    output))

;;;; Where a plan stands

(defun efrit-plan--exists-p (root)
  "Return non-nil when there is a repository in ROOT."
  (file-directory-p (concat root ".git")))

(defun efrit-plan--head (root)
  "Return the commit at the head of ROOT, which is a step of some plan."
  (efrit-plan-log-check root (car (efrit-plan-log-read root 1))))

(defun efrit-plan--ours-p (root arguments)
  "Return non-nil when the repository in ROOT is that of the plan in ARGUMENTS."
  (and (efrit-plan--exists-p root)
       (equal (efrit-plan-commit-uid (efrit-plan--head root)) (efrit-plan--uid arguments))))

(defun efrit-plan--position (root)
  "Return where the plan in ROOT stands, as a value for JSON."
  (pcase-let* ((commits (efrit-plan-log-read root))
               (head (efrit-plan-log-check root (car commits)))
               (steps (seq-filter #'efrit-plan-commit-step commits))
               (`(,tree ,observations)
                (efrit-plan-git-files root "working_plan/current.json"
                                      "working_plan/observations.json")))
    (unless tree
      (efrit-plan-fail 'efrit-plan-changed "%s was changed by hand: its head has no working_plan/current.json"
                       (directory-file-name root)))
    `((step . ,(efrit-plan-commit-step head))
      (kind . ,(efrit-plan-commit-kind head))
      (task . ,(or (efrit-plan-commit-task head) :null))
      (head . ,(efrit-plan-commit-hash head))
      (amendments . ,(efrit-plan--count steps "amend"))
      (tree . ,(efrit-plan-json-packed tree))
      (observations . ,(if observations (efrit-plan-json-packed observations) :null))
      (commits . ,(vconcat (mapcar #'efrit-plan-log-to-json (nreverse (seq-take commits 20)))))
      (totals . ,(efrit-plan-totals steps)))))

(defun efrit-plan--count (steps kind)
  "Return how many of STEPS are of KIND."
  (cl-count kind steps :key #'efrit-plan-commit-kind :test #'equal))

(defun efrit-plan-totals (steps)
  "Return the sums over STEPS, as a value for JSON."
  (let ((sum (lambda (member) (apply #'+ (mapcar member steps)))))
    `((steps . ,(1- (length steps)))
      (acts . ,(efrit-plan--count steps "act"))
      (adapts . ,(efrit-plan--count steps "adapt"))
      (inputTokens . ,(funcall sum #'efrit-plan-commit-input-tokens))
      (outputTokens . ,(funcall sum #'efrit-plan-commit-output-tokens))
      (seconds . ,(/ (round (* 1000 (funcall sum #'efrit-plan-commit-seconds))) 1000.0)))))

;;;; One step

(defun efrit-plan--commit (arguments kind subject)
  "Return the commit of KIND that ARGUMENTS ask for, with the line SUBJECT."
  (let ((usage (efrit-plan-json-option arguments 'usage 'object)))
    (efrit-plan-commit-make
     :subject subject :kind kind
     :uid (efrit-plan--uid arguments)
     :step (efrit-plan-json-get arguments 'step 'count 0)
     :task (efrit-plan-json-option arguments 'task 'string)
     :outcome (efrit-plan-json-option arguments 'outcome 'string)
     :input-tokens (and usage (efrit-plan-json-get usage 'input 'count 0))
     :output-tokens (and usage (efrit-plan-json-get usage 'output 'count 0))
     :seconds (efrit-plan-json-option arguments 'seconds 'number))))

(defun efrit-plan--make (root commit text prepare)
  "Make COMMIT, about TEXT, the next step of the plan in ROOT, unless it is made.
PREPARE is called to have the index hold it.  Return the commit that is made."
  (unless (efrit-plan--exists-p root)
    (efrit-plan-fail 'efrit-plan-out-of-order "There is no plan in %s: begin it first"
                     (directory-file-name root)))
  (efrit-plan-git-unlock root)  ; gate: plan-unlock
  (let* ((head (efrit-plan--head root))
         (last (efrit-plan-commit-step head)) (step (efrit-plan-commit-step commit)))
    (cond ((not (equal (efrit-plan-commit-uid head) (efrit-plan-commit-uid commit)))
           (efrit-plan-fail 'efrit-plan-out-of-order
                            "%s is that of an earlier plan of this name: begin this one first"
                            (directory-file-name root)))
          ((= last step) (efrit-plan--same head commit))  ; gate: plan-step-made
          ((= last (1- step))
           (efrit-plan--restore root)  ; gate: plan-restore
           (funcall prepare)
           (efrit-plan-log-commit root (efrit-plan-commit-hash head) commit text))
          (t (efrit-plan-fail 'efrit-plan-out-of-order
                              "Step %d cannot be made in %s, whose last step is %d: look at the plan anew"
                              step (directory-file-name root) last)))))

(defun efrit-plan--same (head commit)
  "Return HEAD, a step that is made, unless COMMIT wants to be another one."
  (unless (and (equal (efrit-plan-commit-kind head) (efrit-plan-commit-kind commit))
               (equal (efrit-plan-commit-task head) (efrit-plan-commit-task commit))
               ;; The first line of an amendment says which it is.
               (or (not (equal (efrit-plan-commit-kind head) "amend"))
                   (equal (efrit-plan-commit-subject head) (efrit-plan-commit-subject commit))))
    (efrit-plan-fail 'efrit-plan-out-of-order
                     "Step %d is another one already (%s): look at the plan anew"
                     (efrit-plan-commit-step head) (efrit-plan-commit-subject head)))
  head)

;;;; Beginning

;;;###autoload
(defun efrit-plan-begin (json)
  "Make the repository of the plan in JSON, unless it is there.
Return where the plan stands."
  (efrit-plan--answer
   json
   (lambda (arguments root)
     (unless (efrit-plan--ours-p root arguments)
       (efrit-plan--move-aside root)
       (efrit-plan--build arguments root))
     (efrit-plan--position root))))

(defun efrit-plan--move-aside (root)
  "Move what is in ROOT away if it is the repository of an earlier plan."
  (when (efrit-files-exists-p (directory-file-name root))
    (unless (efrit-plan--exists-p root)
      (efrit-plan-fail 'efrit-plan-changed
                       "%s is in the way: it is not a repository of a plan. Move it away and begin again"
                       (directory-file-name root)))
    (let ((aside (format "%s.earlier/%s.%s" (file-name-directory (directory-file-name root))
                         (file-name-nondirectory (directory-file-name root))
                         (replace-regexp-in-string
                          "[^A-Za-z0-9-]" "_" (efrit-plan-commit-uid (efrit-plan--head root))))))
      (make-directory (file-name-directory aside) t)
      (rename-file (directory-file-name root) aside))))

(defun efrit-plan--build (arguments root)
  "Make the repository of the plan in ARGUMENTS; call it ROOT when it is whole."
  (let* ((name (directory-file-name root))
         (new (concat (file-name-directory name) ".new/" (file-name-nondirectory name) "/")))
    (when (file-exists-p new) (delete-directory new t))
    (make-directory new t)
    (efrit-plan-git-init new)
    (let* ((intent (efrit-plan-json-get arguments 'intent 'object))
           (description (efrit-plan-json-get intent 'description 'string))
           (commit (efrit-plan--commit arguments "begin"
                                       (efrit-plan-log-subject "[begin] PLAN:" description))))
      (setf (efrit-plan-commit-step commit) 0)
      (efrit-plan--write-intent new arguments intent)
      (efrit-plan--make-environment new arguments commit description)
      (efrit-plan-git new "add" "--all" "--" "user_intent" "working_plan")
      (efrit-plan-log-commit new nil commit description))
    (rename-file (directory-file-name new) name)
    (efrit-files-sync-directories (file-name-directory name))))

(defun efrit-plan--write-intent (root arguments intent)
  "Write what never changes of the plan in ARGUMENTS, and its tree, to ROOT.
INTENT is what is wanted."
  (let ((tree (efrit-plan-json-tree-text (efrit-plan-json-payload arguments 'tree))))
    (efrit-plan--write root "user_intent/project.json"
                       (format "{\"plan\":%s,\"uid\":%s,\n\"intent\":%s,\n\"tree\":\n%s}\n"
                               (efrit-json-text (efrit-plan-json-get arguments 'plan 'string))
                               (efrit-json-text (efrit-plan--uid arguments))
                               (efrit-json-text intent) (string-trim-right tree)))
    (efrit-plan--write root "working_plan/current.json" tree)))

(defun efrit-plan--make-environment (root arguments commit text)
  "Make environment/ in ROOT what ARGUMENTS want it to be.
COMMIT, about TEXT, is the beginning of the plan."
  (let* ((environment (efrit-plan-json-option arguments 'environment 'object))
         (url (and environment (efrit-plan-json-option environment 'git 'string)))
         (clone (efrit-plan-environment-path root)))
    (if (not url)
        (make-directory clone)
      (let ((branch (efrit-plan-json-option environment 'branch 'string))
            (revision (efrit-plan-json-option environment 'revision 'string)))
        (efrit-plan-clone url (directory-file-name clone)
                          :plan (efrit-plan-json-get arguments 'plan 'string)
                          :branch branch :revision revision
                          :credentials (efrit-plan-json-option environment 'credentialsFile 'string)
                          :seconds (efrit-plan-json-option arguments 'timeout 'number))
        (efrit-plan--write root "user_intent/environment.json"
                           (efrit-plan-json-text
                            `((git . ,url) (branch . ,(or branch :null))
                              (revision . ,(or revision :null)))))
        (efrit-plan-environment-link
         root (efrit-plan-environment-first clone commit text))))))

;;;; Looking

;;;###autoload
(defun efrit-plan-look (json)
  "Return where the plan in JSON stands, or that it is missing."
  (efrit-plan--answer
   json
   (lambda (arguments root)
     (if (efrit-plan--ours-p root arguments)
         (efrit-plan--position root)
       '((missing . t))))))

;;;###autoload
(defun efrit-plan-facts (json)
  "Run the commands in JSON on the work of its plan; return what came of them."
  (efrit-plan--answer
   json
   (lambda (arguments root)
     (efrit-plan-facts-run (efrit-plan-environment-path root)
                           (efrit-plan-json-get arguments 'commands 'object)
                           (efrit-plan-json-option arguments 'timeout 'number)
                           (efrit-plan-json-option arguments 'maxOutput 'count)))))

;;;###autoload
(defun efrit-plan-history (json)
  "Return the whole history of the plan in JSON."
  (efrit-plan--answer
   json
   (lambda (arguments root)
     (if (efrit-plan--ours-p root arguments)
         (efrit-plan-json-packed
          (efrit-json-text
           (efrit-plan-history-read root (efrit-plan-json-option arguments 'limit 'count))))
       '((missing . t))))))

;;;; Changing

;;;###autoload
(defun efrit-plan-commit-act (json)
  "Commit the work that the task in JSON has done; return what it changed."
  (efrit-plan--answer
   json
   (lambda (arguments root)
     (let* ((text (efrit-plan-json-get arguments 'description 'string))
            (commit (efrit-plan--commit
                     arguments "act"
                     (efrit-plan-log-subject
                      (format "[%s] ACT:" (efrit-plan-json-get arguments 'task 'string)) text)))
            (made (efrit-plan--make
                   root commit text
                   (lambda ()
                     (efrit-plan--write-result root (efrit-plan-json-payload arguments 'result))
                     (efrit-plan-environment-record root commit text)))))
       (append (efrit-plan-log-to-json made)
               (efrit-plan-environment-changes
                root (efrit-plan-commit-hash made)
                (efrit-plan-json-get arguments 'maxDiff 'count 20000)))))))

(defun efrit-plan--write-result (root result)
  "Have the index of ROOT hold RESULT, what the executor said; :null is nothing."
  (unless (eq result :null)
    (efrit-plan--write root "working_plan/result.json" (efrit-plan-json-text result))
    (efrit-plan-git root "add" "--" "working_plan/result.json")))

;;;###autoload
(defun efrit-plan-commit-adapt (json)
  "Commit the tree and the observations in JSON."
  (efrit-plan--answer
   json
   (lambda (arguments root)
     (let* ((text (efrit-plan-json-get arguments 'reason 'string))
            (tree (efrit-plan-json-tree-text (efrit-plan-json-payload arguments 'tree)))
            (commit (efrit-plan--commit
                     arguments "adapt"
                     (efrit-plan-log-subject
                      (format "[%s] ADAPT:" (efrit-plan-json-get arguments 'task 'string)) text))))
       (efrit-plan-log-to-json
        (efrit-plan--make
         root commit text
         (lambda ()
           (efrit-plan--write root "working_plan/current.json" tree)
           (efrit-plan--write root "working_plan/observations.json"
                              (efrit-plan-json-text
                               (efrit-plan-json-payload arguments 'observations)))
           (efrit-plan-git root "add" "--all" "--" "working_plan"))))))))

;;;###autoload
(defun efrit-plan-amend (json)
  "Commit the amendment in JSON; what is there already stays as it is."
  (efrit-plan--answer
   json
   (lambda (arguments root)
     (let* ((text (efrit-plan-json-get arguments 'text 'string))
            (number (efrit-plan-json-get arguments 'number 'count))
            (name (format "user_intent/amendments/%04d.json" number))
            (commit (efrit-plan--commit
                     arguments "amend"
                     (efrit-plan-log-subject (format "[amend] %d:" number) text))))
       (efrit-plan-log-to-json
        (efrit-plan--make
         root commit text
         (lambda ()
           (when (file-exists-p (concat root name))
             (efrit-plan-fail 'efrit-plan-out-of-order "Amendment %d of the plan is there already"
                              number))
           (efrit-plan--write root name
                              (efrit-plan-json-text `((number . ,number) (text . ,text))))
           (efrit-plan-git root "add" "--all" "--" "user_intent"))))))))

(provide 'efrit-plan)
;;; efrit-plan.el ends here
