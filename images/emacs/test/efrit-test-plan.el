;;; efrit-test-plan.el --- A plan of its own for each test  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What the tests of plans share: a workspace with a plan, calls by JSON as
;; requests make them, and a git that stands before the real one.  No behaviour
;; is tested here.

;;; Code:

(require 'ert)
(require 'cl-lib)
(require 'efrit-plan)

(defvar efrit-test-plan-root nil
  "The repository of the plan under test.")

(defmacro efrit-test-with-plan (&rest body)
  "Run BODY with an empty workspace, in which `p' would be the plan."
  (declare (indent 0) (debug t))
  `(let* ((top (file-name-as-directory (make-temp-file "efrit-plan-" t)))
          (efrit-workspace-directory (concat top "workspace/"))
          (efrit-test-plan-root (concat efrit-workspace-directory "plans/p/"))
          (efrit-plan-git--checked nil)
          (exec-path exec-path)
          (process-environment (copy-sequence process-environment)))
     (unwind-protect
         (progn (make-directory efrit-workspace-directory)
                ,@body)
       (delete-directory top t))))

;;;; Calling

(defun efrit-test-plan-value (text)
  "Return the JSON of TEXT as Lisp, with lists for arrays."
  (json-parse-string text :object-type 'alist :array-type 'list
                     :null-object nil :false-object nil))

(defun efrit-test-plan-arguments (members)
  "Return the JSON that asks for something of the plan, with MEMBERS, a plist."
  (efrit-json-text
   (efrit-json-object (append (unless (plist-member members :plan) '(:plan "p"))
                              (unless (plist-member members :uid) '(:uid "u-1"))
                              members))))

(defun efrit-test-plan (name &rest members)
  "Call the function of plans called NAME with MEMBERS, a plist.
Return its answer as Lisp."
  (efrit-test-plan-value
   (funcall (intern (concat "efrit-plan-" (symbol-name name)))
            (efrit-test-plan-arguments members))))

(defun efrit-test-plan-task (id &rest members)
  "Return the task ID with MEMBERS, a plist."
  (let ((task (list :id id :type "atomic" :description (concat "Do " id)
                    :failure_threshold 0.2 :state "pending")))
    (cl-loop for (name value) on members by #'cddr
             do (setq task (plist-put task name value)))
    (efrit-json-object task)))

(defun efrit-test-plan-tree (&rest children)
  "Return a tree whose tasks are CHILDREN."
  (efrit-json-object (list :id "root" :type "parent" :description "All of it"
                           :failure_threshold 0.0 :state "pending"
                           :children (vconcat children))))

(defun efrit-test-plan-begin-members (&rest members)
  "Return what a plan begins with, with MEMBERS, a plist, before it."
  (append members
          (list :intent (efrit-json-object '(:description "Make a thing"
                                             :acceptanceCriteria ["it works"] :constraints []))
                :tree `((value . ,(efrit-test-plan-tree (efrit-test-plan-task "a")
                                                        (efrit-test-plan-task "b"))))
                :environment :null)))

(defun efrit-test-plan-begin (&rest members)
  "Begin the plan with MEMBERS, a plist; return its position."
  (apply #'efrit-test-plan 'begin (apply #'efrit-test-plan-begin-members members)))

(defun efrit-test-plan-act (step &rest members)
  "Commit an act as STEP, with MEMBERS, a plist; return the answer."
  (apply #'efrit-test-plan 'commit-act
         (append members (list :step step :task "a" :description "Do a" :outcome "Success"
                               :usage '((input . 10) (output . 3)) :seconds 1.5))))

(defun efrit-test-plan-adapt-members (step &rest members)
  "Return what asks for an adapt as STEP, with MEMBERS, a plist, before it."
  (append members
          (list :step step :task "a" :reason "It is done"
                :tree `((value . ,(efrit-test-plan-tree (efrit-test-plan-task "a" :state "done")
                                                        (efrit-test-plan-task "b"))))
                :observations `((value . [((perspective . "build") (statement . "Builds"))]))
                :usage '((input . 7) (output . 2)) :seconds 0.5)))

(defun efrit-test-plan-adapt (step &rest members)
  "Commit an adapt as STEP, with MEMBERS, a plist; return the answer."
  (apply #'efrit-test-plan 'commit-adapt (apply #'efrit-test-plan-adapt-members step members)))

(defun efrit-test-plan-look ()
  "Return where the plan stands."
  (efrit-test-plan 'look))

(defun efrit-test-plan-get (value &rest names)
  "Return what is in VALUE under NAMES, one below the other."
  (dolist (name names value) (setq value (alist-get name value))))

;;;; The repository

(defun efrit-test-plan-git (&rest arguments)
  "Return what git, run with ARGUMENTS by a user, says of the plan's repository."
  (let ((default-directory efrit-test-plan-root))
    (with-temp-buffer
      (let ((status (apply #'call-process "git" nil t nil
                           "-c" "user.name=U" "-c" "user.email=u@x" "-c" "safe.directory=*"
                           arguments)))
        (unless (equal status 0) (ert-fail (list arguments status (buffer-string)))))
      (string-trim (buffer-string)))))

(defun efrit-test-plan-subjects ()
  "Return the first lines of the plan's commits, the oldest first."
  (split-string (efrit-test-plan-git "log" "--reverse" "--format=%s") "\n" t))

(defun efrit-test-plan-write (name text)
  "Write TEXT to the file NAME of the plan's repository."
  (let ((path (concat efrit-test-plan-root name)) (coding-system-for-write 'utf-8-unix))
    (make-directory (file-name-directory path) t)
    (write-region text nil path nil 'silent)))

(defun efrit-test-plan-read (name)
  "Return the text of the file NAME of the plan's repository."
  (with-temp-buffer
    (let ((coding-system-for-read 'utf-8-unix))
      (insert-file-contents (concat efrit-test-plan-root name)))
    (buffer-string)))

(defun efrit-test-plan-work (name text)
  "Write TEXT to the file NAME of the work."
  (efrit-test-plan-write (concat "environment/" name) text))

(defun efrit-test-plan-error (condition function)
  "Call FUNCTION, which must signal CONDITION; return its sentence."
  (error-message-string (should-error (funcall function) :type condition)))

;;;; A git before the real one

(defun efrit-test-plan-stand-in (directory script)
  "Put a git that runs the shell SCRIPT into DIRECTORY, before the real one.
In SCRIPT, $GIT is the real one."
  (make-directory directory t)
  (let ((path (concat (file-name-as-directory directory) "git"))
        (real (executable-find "git")))
    (write-region (format "#!/bin/bash\nGIT=%s\n%s\n" real script) nil path nil 'silent)
    (set-file-modes path #o755)
    (push (directory-file-name directory) exec-path)
    (setq efrit-plan-git--checked nil)
    (setenv "PATH" (concat directory ":" (getenv "PATH")))))

(provide 'efrit-test-plan)
;;; efrit-test-plan.el ends here
