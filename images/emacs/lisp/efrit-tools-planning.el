;;; efrit-tools-planning.el --- Tools for the list of todos  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The handlers of the tools todo_*: the list as JSON, nothing added.

;;; Code:

(require 'efrit-world)
(require 'efrit-todo)

(declare-function efrit-tool-state "efrit-tool" (world))
(declare-function efrit-tool-names-offered "efrit-tool" (world))

(defun efrit-tools-todo-add (input world)
  "Add the todo of INPUT to WORLD."
  (efrit-tool-json
   (efrit-todo-add world (alist-get 'content input) (alist-get 'priority input))))

(defun efrit-tools-todo-update (input world)
  "Change the todo of WORLD that INPUT names."
  (let* ((id (alist-get 'id input))
         (todo (efrit-todo-update world id
                                  :status (alist-get 'status input)
                                  :content (alist-get 'content input)
                                  :priority (alist-get 'priority input))))
    (if todo
        (efrit-tool-json todo)
      (efrit-tool-error "There is no todo %d; there are: %s" id
                        (mapconcat (lambda (other)
                                     (number-to-string (alist-get 'id other)))
                                   (efrit-world-todos world) ", ")))))

(defun efrit-tools-todo-status (_input world)
  "Return the todos of WORLD and how many have each status."
  (efrit-tool-json `((counts . ,(efrit-todo-counts world))
                     (todos . ,(vconcat (efrit-world-todos world))))))

(defun efrit-tools-todo-next (_input world)
  "Return the todo of WORLD whose turn it is by the order of the list."
  (efrit-tool-json `((todo . ,(or (efrit-todo-next world) :null)))))

(defun efrit-tools-todo-get-instructions (_input world)
  "Return the state of WORLD, its todos and the tools that are offered in it."
  (setf (efrit-world-instructions-given world) t)
  (efrit-tool-json `((state . ,(symbol-name (efrit-tool-state world)))
                     (tools . ,(vconcat (efrit-tool-names-offered world)))
                     (todos . ,(vconcat (efrit-world-todos world))))))

(provide 'efrit-tools-planning)
;;; efrit-tools-planning.el ends here
