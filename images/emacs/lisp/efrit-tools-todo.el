;;; efrit-tools-todo.el --- The list of todos of a session  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A todo is an alist of `id', `content', `status' and, if given, `priority', as
;; the model wrote them: nothing is read into the texts.  Once there is one, the
;; session is in its second state, where tools that change things are offered.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'efrit-tool-context)

(defconst efrit-todo-statuses ["pending" "in_progress" "completed" "cancelled"]
  "What the status of a todo may be.")

(defun efrit-todo-add (context content &optional priority)
  "Append a todo of CONTENT and PRIORITY to those of CONTEXT; return it."
  (let ((todo `((id . ,(cl-incf (efrit-tool-context-last-todo-number context)))
                (content . ,content)
                (status . "pending")
                ,@(and priority `((priority . ,priority))))))
    (setf (efrit-tool-context-todos context) (append (efrit-tool-context-todos context) (list todo)))
    todo))

(defun efrit-todo-find (context id)
  "Return the todo ID of CONTEXT, or nil."
  (seq-find (lambda (todo) (= (alist-get 'id todo) id)) (efrit-tool-context-todos context)))

(defun efrit-todo-update (context id &rest members)
  "Give the todo ID of CONTEXT the MEMBERS, a plist of which nil is left alone.
Return the todo, nil when there is none."
  (let ((todo (efrit-todo-find context id)))
    (when todo
      (let ((changed (copy-alist todo)))
        (cl-loop for (key value) on members by #'cddr
                 when value
                 do (setf (alist-get (intern (substring (symbol-name key) 1)) changed)
                          value))
        (setf (efrit-tool-context-todos context)
              (mapcar (lambda (other) (if (eq other todo) changed other))
                      (efrit-tool-context-todos context)))
        changed))))

(defun efrit-todo-next (context)
  "Return the todo of CONTEXT that is in progress, else the first pending, or nil."
  (cl-flet ((first-of (status)
              (seq-find (lambda (todo) (equal (alist-get 'status todo) status))
                        (efrit-tool-context-todos context))))
    (or (first-of "in_progress") (first-of "pending"))))

(defun efrit-todo-counts (context)
  "Return how many todos of CONTEXT have each status, as an alist."
  (mapcar (lambda (status)
            (cons (intern status)
                  (seq-count (lambda (todo) (equal (alist-get 'status todo) status))
                             (efrit-tool-context-todos context))))
          efrit-todo-statuses))

(provide 'efrit-tools-todo)
;;; efrit-tools-todo.el ends here
