;;; efrit-todo.el --- The list of todos of a session  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A todo is an alist of `id', `content', `status' and, if given, `priority', as
;; the model wrote them: nothing is read into the texts.  Once there is one, the
;; session is in its second state, where tools that change things are offered.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'efrit-world)

(defconst efrit-todo-statuses ["pending" "in_progress" "completed" "cancelled"]
  "What the status of a todo may be.")

(defun efrit-todo-add (world content &optional priority)
  "Append a todo of CONTENT and PRIORITY to those of WORLD; return it."
  (let ((todo `((id . ,(cl-incf (efrit-world-last-todo-number world)))
                (content . ,content)
                (status . "pending")
                ,@(and priority `((priority . ,priority))))))
    (setf (efrit-world-todos world) (append (efrit-world-todos world) (list todo)))
    todo))

(defun efrit-todo-find (world id)
  "Return the todo ID of WORLD, or nil."
  (seq-find (lambda (todo) (= (alist-get 'id todo) id)) (efrit-world-todos world)))

(defun efrit-todo-update (world id &rest members)
  "Give the todo ID of WORLD the MEMBERS, a plist of which nil is left alone.
Return the todo, nil when there is none."
  (let ((todo (efrit-todo-find world id)))
    (when todo
      (let ((changed (copy-alist todo)))
        (cl-loop for (key value) on members by #'cddr
                 when value
                 do (setf (alist-get (intern (substring (symbol-name key) 1)) changed)
                          value))
        (setf (efrit-world-todos world)
              (mapcar (lambda (other) (if (eq other todo) changed other))
                      (efrit-world-todos world)))
        changed))))

(defun efrit-todo-next (world)
  "Return the todo of WORLD that is in progress, else the first pending, or nil."
  (cl-flet ((first-of (status)
              (seq-find (lambda (todo) (equal (alist-get 'status todo) status))
                        (efrit-world-todos world))))
    (or (first-of "in_progress") (first-of "pending"))))

(defun efrit-todo-counts (world)
  "Return how many todos of WORLD have each status, as an alist."
  (mapcar (lambda (status)
            (cons (intern status)
                  (seq-count (lambda (todo) (equal (alist-get 'status todo) status))
                             (efrit-world-todos world))))
          efrit-todo-statuses))

(provide 'efrit-todo)
;;; efrit-todo.el ends here
