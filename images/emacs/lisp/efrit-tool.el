;;; efrit-tool.el --- The tools a model may call  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; One table says what each tool is called, takes and does.  It is filtered by
;; the state of the session and by what the instance allows, and each input is
;; checked against its schema before the handler sees it.  What a tool's input or
;; result means is the model's affair: nothing here reads it.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'efrit-settings)
(require 'efrit-world)
(require 'efrit-todo)
(require 'efrit-tools-planning)
(require 'efrit-tools-eval)
(require 'efrit-tools-shell)
(require 'efrit-tools-files)
(require 'efrit-tools-find)
(require 'efrit-tools-context)

;;;; The table

(cl-defstruct (efrit-tool (:constructor efrit-tool--make))
  "A tool.  KIND is `planning', `query', `execution' or `control'.
SCHEMA is the JSON schema of its input.  HANDLER is called with the input and the
world and returns an `efrit-tool-result'; a tool that is LATER is not waited for:
its handler also takes a function for the result, and returns one that stops it.
The handler of a control tool is nil: the session does what it says."
  name kind description schema handler later)

(defconst efrit-tool--rows
  `(("todo_add" planning efrit-tools-todo-add
     "Append a todo to the list of this session. Tools that change things are offered \
once the list has one. Returns the todo as JSON."
     (content string "What is to be done" :required t)
     (priority string "How urgent it is" :enum ["low" "medium" "high"]))
    ("todo_update" execution efrit-tools-todo-update
     "Change a todo of the list. Returns the todo as JSON."
     (id integer "The id of the todo" :required t)
     (status string "Its new status" :enum ,efrit-todo-statuses)
     (content string "Its new text")
     (priority string "Its new priority" :enum ["low" "medium" "high"]))
    ("todo_status" query efrit-tools-todo-status
     "Return all todos, and how many have each status, as JSON.")
    ("todo_next" query efrit-tools-todo-next
     "Return the todo that is in progress, or else the first that is pending, as JSON.")
    ("todo_get_instructions" query efrit-tools-todo-get-instructions
     "Return the state of the session, the tools offered in it and the todos, as JSON. \
Can be called once.")
    ("eval_sexp" execution efrit-tools-eval-sexp
     "Evaluate Emacs Lisp in the running Emacs, starting in the workspace and in the \
buffer *scratch*. What it defines and changes stays. Nobody is there to answer a \
prompt: asking is an error. Returns the printed value of the last expression, then \
what was printed and what was said by `message'."
     (expr string "One or more Lisp expressions" :required t))
    ("shell_exec" execution (later efrit-tools-shell-exec)
     "Run a shell command (bash, or sh where there is none) with nothing to read on \
standard input. Its whole process group is stopped when its time is over. Returns \
standard output, standard error and exit status; of long output both ends."
     (command string "The command" :required t)
     (timeout number "Seconds it may run; 120 when not given" :minimum 0.1)
     (directory string "Where it runs; a relative path starts in the workspace, which \
is where it runs when this is not given"))
    ("file_read" query efrit-tools-file-read
     "Return the lines of a file, each with its number and a tab before it."
     (path string "The file; a relative path starts in the workspace" :required t)
     (offset integer "The first line; 1 when not given" :minimum 1)
     (limit integer "How many lines; 2000 when not given" :minimum 1))
    ("file_write" execution efrit-tools-file-write
     "Make a text the content of a file, which is made if need be, with its directories. \
The change is made in the buffer that visits the file, can be undone there, and is \
saved."
     (path string "The file; a relative path starts in the workspace" :required t)
     (content string "The whole content" :required t))
    ("file_edit" execution efrit-tools-file-edit
     "Put one text in place of another in a file. Unless replace_all is true, the old \
text must be there exactly once. The change is made in the buffer that visits the file, \
can be undone there, and is saved."
     (path string "The file; a relative path starts in the workspace" :required t)
     (old string "The text to replace, exactly" :required t)
     (new string "The text to put in its place" :required t)
     (replace_all boolean "true to replace it wherever it is"))
    ("file_search" query (later efrit-tools-find-search)
     "Return the lines of files that match a regular expression, as path:line:text. \
Binary files and .git directories are left out."
     (pattern string "An extended regular expression (POSIX, as of grep -E)" :required t)
     (path string "A file, or a directory with all below; the workspace when not given")
     (glob string "The files to search, as in glob_files; all when not given"))
    ("glob_files" query (later efrit-tools-find-glob)
     "Return the paths of the files that match a pattern, sorted. .git directories are \
left out."
     (pattern string "*, ?, [a-z], {a,b}, and ** for any directories; without a slash \
it is matched against file names at any depth, else against paths below the directory"
              :required t)
     (path string "The directory; the workspace when not given"))
    ("directory_files" query efrit-tools-directory-files
     "Return the entries of a directory with type, size and time, as JSON."
     (path string "The directory; the workspace when not given"))
    ("buffer_contents" query efrit-tools-buffer-contents
     "Return the text of a buffer."
     (buffer string "The name of the buffer" :required t)
     (offset integer "The first line; 1 when not given" :minimum 1)
     (limit integer "How many lines; 2000 when not given" :minimum 1))
    ("buffer_create" planning efrit-tools-buffer-create
     "Make a new buffer with a text."
     (name string "The name of the buffer" :required t)
     (content string "The text; empty when not given")
     (mode string "The major mode, as the name of its command"))
    ("buffer_edit" execution efrit-tools-buffer-edit
     "Put one text in place of another in a buffer. Unless replace_all is true, the old \
text must be there exactly once. The change can be undone there; no file is saved."
     (buffer string "The name of the buffer" :required t)
     (old string "The text to replace, exactly" :required t)
     (new string "The text to put in its place" :required t)
     (replace_all boolean "true to replace it wherever it is"))
    ("warnings_buffer" query efrit-tools-warnings-buffer
     "Return the text of the buffer *Warnings*.")
    ("current_context" query efrit-tools-current-context
     "Return the state of Emacs as JSON: the buffers, and of the one in the selected \
window its mode, file, point, mark and directory.")
    ("session_complete" control nil
     "End the session: the work is done."
     (message string "The result, for whoever asked" :required t))
    ("request_user_input" control nil
     "End the session for now with a question; the answer continues it."
     (question string "The question, for whoever asked" :required t)))
  "The tools as (NAME KIND HANDLER DESCRIPTION PROPERTY...).
A handler may be (later FUNCTION); a property is (NAME TYPE DESCRIPTION . PLIST)
with :required, :enum and :minimum.")

(defun efrit-tool--property (row)
  "Return the JSON schema of the property ROW as a pair (NAME . SCHEMA)."
  (pcase-let ((`(,name ,type ,description . ,more) row))
    (cons name `((type . ,(symbol-name type))
                 (description . ,description)
                 ,@(and (plist-get more :enum) `((enum . ,(plist-get more :enum))))
                 ,@(and (plist-get more :minimum)
                        `((minimum . ,(plist-get more :minimum))))))))

(defun efrit-tool--schema (rows)
  "Return the JSON schema of an input with the properties ROWS."
  `((type . "object")
    (properties . ,(mapcar #'efrit-tool--property rows))
    (required . ,(vconcat (mapcar (lambda (row) (symbol-name (car row)))
                                  (seq-filter (lambda (row)
                                                (plist-get (cdddr row) :required))
                                              rows))))))

(defconst efrit-tool--final
  (efrit-tool--property
   '(final boolean "true on the call that is the last step of the work"))
  "The property that every tool takes which is a step of the work.")

(defun efrit-tool--from-row (row)
  "Return the tool that ROW describes."
  (pcase-let* ((`(,name ,kind ,handler ,description . ,rows) row)
               (schema (efrit-tool--schema rows)))
    (unless (eq kind 'control)
      (setf (alist-get 'properties schema)
            (append (alist-get 'properties schema) (list efrit-tool--final))))
    (efrit-tool--make :name name :kind kind :description description :schema schema
                      :handler (if (consp handler) (cadr handler) handler)
                      :later (consp handler))))

(defconst efrit-tool-table (mapcar #'efrit-tool--from-row efrit-tool--rows)
  "All tools, in the order in which they are offered.")

(defun efrit-tool-find (name)
  "Return the tool called NAME, or nil."
  (seq-find (lambda (tool) (equal (efrit-tool-name tool) name)) efrit-tool-table))

;;;; What is offered

(defun efrit-tool-state (world)
  "Return the state WORLD is in: `initial' or `todos-created'."
  (if (efrit-world-todos world) 'todos-created 'initial))

(defun efrit-tool--allowed-p (tool)
  "Return non-nil when the instance allows TOOL."
  (let ((name (efrit-tool-name tool)))
    (or (eq (efrit-tool-kind tool) 'control)
        (and (or (null efrit-tools-allow) (member name efrit-tools-allow))
             (not (member name efrit-tools-deny))))))

(defun efrit-tool--in-state-p (tool world)
  "Return non-nil when the state of WORLD has a place for TOOL."
  (cond ((equal (efrit-tool-name tool) "todo_get_instructions")
         (not (efrit-world-instructions-given world)))
        ((eq (efrit-tool-kind tool) 'execution)
         (or (eq (efrit-tool-state world) 'todos-created)
             ;; Where no todo can be made, the first state would never end.
             (not (efrit-tool--allowed-p (efrit-tool-find "todo_add")))))
        (t t)))

(defun efrit-tool--offered (world)
  "Return the tools that are offered to the model in WORLD."
  (seq-filter (lambda (tool)
                (and (efrit-tool--allowed-p tool) (efrit-tool--in-state-p tool world)))
              efrit-tool-table))

(defun efrit-tool-names-offered (world)
  "Return the names of the tools that are offered in WORLD."
  (mapcar #'efrit-tool-name (efrit-tool--offered world)))

(defun efrit-tool-available-p (name world)
  "Return non-nil when the tool called NAME is offered in WORLD."
  (and (member name (efrit-tool-names-offered world)) t))

(defun efrit-tools-offered (world)
  "Return the tools that are offered in WORLD, as a value for the model's API."
  (vconcat (mapcar (lambda (tool)
                     `((name . ,(efrit-tool-name tool))
                       (description . ,(efrit-tool-description tool))
                       (input_schema . ,(efrit-tool-schema tool))))
                   (efrit-tool--offered world))))

;;;; Checking an input

(defun efrit-tool--type-p (type value)
  "Return non-nil when the JSON VALUE is of TYPE, the name of a JSON type."
  (pcase type
    ("string" (stringp value))
    ("boolean" (memq value '(t :false)))
    ("integer" (or (integerp value) (and (floatp value) (= value (ffloor value)))))
    ("number" (numberp value))))

(defun efrit-tool--value-problem (name schema value)
  "Return what is wrong with VALUE, of the property NAME with SCHEMA, or nil."
  (let ((type (alist-get 'type schema))
        (enum (alist-get 'enum schema))
        (minimum (alist-get 'minimum schema)))
    (cond ((not (efrit-tool--type-p type value))
           (format "%s must be of type %s" name type))
          ((and enum (not (seq-contains-p enum value)))
           (format "%s must be one of: %s" name (string-join enum ", ")))
          ((and minimum (< value minimum))
           (format "%s must be at least %s" name minimum)))))

(defun efrit-tool--input-problems (tool input)
  "Return what is wrong with INPUT for TOOL, a list of strings."
  (let ((properties (alist-get 'properties (efrit-tool-schema tool)))
        (required (alist-get 'required (efrit-tool-schema tool))))
    (if (not (and (listp input) (seq-every-p #'consp input)))
        (list "the input must be an object")
      (append
       (cl-loop for name across required
                unless (assq (intern name) input)
                collect (format "%s is missing" name))
       (cl-loop for (name . value) in input
                for schema = (alist-get name properties)
                for problem = (if schema
                                  (efrit-tool--value-problem name schema value)
                                (format "%s is no field; the fields are: %s" name
                                        (mapconcat (lambda (property)
                                                     (symbol-name (car property)))
                                                   properties ", ")))
                when problem collect problem)))))

(defun efrit-tool--without-nulls (input)
  "Return INPUT without the fields that are null, which is as if they were absent."
  (if (listp input)
      (seq-remove (lambda (field) (eq (cdr-safe field) :null)) input)
    input))

(defun efrit-tool--prepared (input)
  "Return INPUT, which is good, with the values that handlers take."
  (mapcar (lambda (field)
            (let ((value (cdr field)))
              (cons (car field)
                    (cond ((eq value :false) nil)
                          ((floatp value) (if (= value (ffloor value))
                                              (truncate value)
                                            value))
                          (t value)))))
          (efrit-tool--without-nulls input)))

(defun efrit-tool-refusal (name input world)
  "Return the result that refuses to call the tool NAME with INPUT in WORLD.
Return nil when the call is good."
  (let* ((tool (efrit-tool-find name))
         (problem
          (cond ((not (efrit-tool-available-p name world))
                 (format "The tool %s %s; offered now: %s" name
                         (if tool "is not offered now" "does not exist")
                         (string-join (efrit-tool-names-offered world) ", ")))
                (t (let ((problems (efrit-tool--input-problems
                                    tool (efrit-tool--without-nulls input))))
                     (and problems
                          (format "The input of %s is not usable: %s" name
                                  (string-join problems "; "))))))))
    (and problem (efrit-tool-result-make "refused" problem))))

;;;; Calling

(defun efrit-tool-start (name input world done)
  "Call the tool NAME with INPUT for WORLD.
DONE is called exactly once with an `efrit-tool-result', before this returns or
later.  Return nil, or a function that stops the call at once."
  (let* ((once (efrit-tool--once done))
         (outcome (or (efrit-tool-refusal name input world)
                      (efrit-tool--call (efrit-tool-find name)
                                        (efrit-tool--prepared input) world once))))
    (if (efrit-tool-result-p outcome)
        (progn (funcall once outcome) nil)
      outcome)))

(defun efrit-tool--once (done)
  "Return a function that calls DONE with its argument, the first time only."
  (let ((called nil))
    (lambda (result)
      (unless called
        (setq called t)
        (funcall done result)))))

(defun efrit-tool--call (tool input world done)
  "Call TOOL with INPUT, which is good, for WORLD.
Return its result, or a function that stops it when DONE will be told of that."
  (let ((handler (efrit-tool-handler tool)))
    (condition-case err
        (cond ((null handler) (efrit-tool-result-make "success" ""))
              ((efrit-tool-later tool) (funcall handler input world done))
              (t (efrit-tools-eval-call handler input world)))
      ;; No call ends without a result.
      (error (efrit-tool-error "%s" (error-message-string err))))))

(provide 'efrit-tool)
;;; efrit-tool.el ends here
