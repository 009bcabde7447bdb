;;; efrit-tool-context.el --- What a tool is given and what it gives back  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The state of a session that tools work on, the result of a tool, and where a
;; relative path starts.  Pure but for the clock; knows no tool.

;;; Code:

(require 'cl-lib)
(require 'efrit-settings)
(require 'efrit-clock)
(require 'efrit-json)
(require 'efrit-text)
(require 'efrit-eval)

(defcustom efrit-tool-result-bytes 32768
  "Most bytes of what a tool gives back that are kept."
  :group 'efrit-tools
  :type 'natnum)

;;;; The state of a session

(cl-defstruct (efrit-tool-context (:constructor efrit-tool-context-make))
  "What the tools of one session work on.
REQUEST-ID is that of the request under way, DEADLINE the time of the `efrit-clock' when a
call must have ended, or nil.  TODOS are alists in their order, as in
efrit-tools-todo.el; INSTRUCTIONS-GIVEN is non-nil once they were asked for.
BY-HAND is non-nil when somebody has begun the work in this Emacs, with no file.
FACTS-WANTED is non-nil when the request asks for the context of Emacs, FACTS what
`efrit-context' said after the last code of the model, or nil."
  request-id deadline todos instructions-given (last-todo-number 0) by-hand facts-wanted facts)

(defun efrit-tool-context-to-json (context)
  "Return what is kept of CONTEXT as a value for JSON.
The request and the deadline belong to one run and are not kept."
  `((todos . ,(vconcat (efrit-tool-context-todos context)))
    (instructions_given . ,(if (efrit-tool-context-instructions-given context) t :false))
    (last_todo_number . ,(efrit-tool-context-last-todo-number context))))

(defun efrit-tool-context-from-json (json)
  "Return the context that `efrit-tool-context-to-json' made JSON of."
  (efrit-tool-context-make
   :todos (append (alist-get 'todos json) nil)
   :instructions-given (eq (alist-get 'instructions_given json) t)
   :last-todo-number (or (alist-get 'last_todo_number json) 0)))

(defun efrit-tool-context-seconds-left (context)
  "Return the seconds until the deadline of CONTEXT, nil when it has none."
  (and (efrit-tool-context-deadline context)
       (- (efrit-tool-context-deadline context) (efrit-clock))))

;;;; Results

(cl-defstruct (efrit-tool-result (:constructor efrit-tool-result-uncut))
  "What came of a call of a tool.
STATUS is \"success\", \"error\", \"timeout\", \"interrupted\" or \"refused\"; CONTENT a
string that fits into JSON and is bounded."
  status content)

(defun efrit-tool-result-make (status content)
  "Return the result of STATUS with CONTENT, cut where it is too long."
  (efrit-tool-result-uncut
   :status status
   :content (efrit-text-cut content (+ efrit-tool-result-bytes 1024))))

(defun efrit-tool-success (format &rest arguments)
  "Return a success that says FORMAT with ARGUMENTS."
  (efrit-tool-result-make "success" (apply #'format format arguments)))

(defun efrit-tool-error (format &rest arguments)
  "Return an error that says FORMAT with ARGUMENTS."
  (efrit-tool-result-make "error" (apply #'format format arguments)))

(defun efrit-tool-json (value)
  "Return the success whose content is the JSON of VALUE."
  (efrit-tool-result-make "success" (efrit-json-text value)))

;;;; Paths

(defun efrit-tool-path (path)
  "Return PATH as an absolute file name; a relative one starts in the workspace."
  (expand-file-name path (efrit-eval-start-directory)))

(provide 'efrit-tool-context)
;;; efrit-tool-context.el ends here
