;;; efrit-tools-planning.el --- Tools for the list of todos  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The tools todo_*: the list as JSON, nothing added.

;;; Code:

(require 'efrit-tool-context)
(require 'efrit-tool)
(require 'efrit-tools-todo)

(efrit-define-tool todo_add (input context)
  "Append a todo to the list of this session. Tools that change things are offered \
once the list has one. Returns the todo as JSON."
  :kind planning
  :input ((content string "What is to be done" :required t)
          (priority string "How urgent it is" :enum ["low" "medium" "high"]))
  (efrit-tool-json
   (efrit-todo-add context (alist-get 'content input) (alist-get 'priority input))))

(efrit-define-tool todo_update (input context)
  "Change a todo of the list. Returns the todo as JSON."
  :kind execution
  :input ((id integer "The id of the todo" :required t)
          (status string "Its new status" :enum efrit-todo-statuses)
          (content string "Its new text")
          (priority string "Its new priority" :enum ["low" "medium" "high"]))
  (let* ((id (alist-get 'id input))
         (todo (efrit-todo-update context id
                                  :status (alist-get 'status input)
                                  :content (alist-get 'content input)
                                  :priority (alist-get 'priority input))))
    (if todo
        (efrit-tool-json todo)
      (efrit-tool-error "There is no todo %d; there are: %s" id
                        (mapconcat (lambda (other)
                                     (number-to-string (alist-get 'id other)))
                                   (efrit-tool-context-todos context) ", ")))))

(efrit-define-tool todo_status (_input context)
  "Return all todos, and how many have each status, as JSON."
  :kind query
  (efrit-tool-json `((counts . ,(efrit-todo-counts context))
                     (todos . ,(vconcat (efrit-tool-context-todos context))))))

(efrit-define-tool todo_next (_input context)
  "Return the todo that is in progress, or else the first that is pending, as JSON."
  :kind query
  (efrit-tool-json `((todo . ,(or (efrit-todo-next context) :null)))))

(efrit-define-tool todo_get_instructions (_input context)
  "Return the state of the session, the tools offered in it and the todos, as JSON. \
Can be called once; the tools that change things are offered then."
  :kind query
  :only (lambda (context) (not (efrit-tool-context-instructions-given context)))
  (setf (efrit-tool-context-instructions-given context) t)
  (efrit-tool-json `((state . ,(symbol-name (efrit-tool-state context)))
                     (tools . ,(vconcat (efrit-tool-names-offered context)))
                     (todos . ,(vconcat (efrit-tool-context-todos context))))))

(provide 'efrit-tools-planning)
;;; efrit-tools-planning.el ends here
