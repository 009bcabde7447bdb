;;; efrit-tool.el --- Define the tools a model may call  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; `efrit-define-tool' says in one place what a tool is called, takes and does; all
;; else that is known of tools is made of that.  Tools are in the files efrit-tools-*,
;; one for each subject.  Which of them are offered follows from the state of the
;; session and from what the instance allows.  What a tool's input or result means is
;; the model's affair: nothing here reads it.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'efrit-settings)
(require 'efrit-tool-context)

;;;; What a tool is

(cl-defstruct (efrit-tool (:constructor efrit-tool--make))
  "A tool; see `efrit-define-tool' for KIND and ONLY, and :ends for ENDING.
SUBJECT is the feature that defines it.  SCHEMA is the JSON schema of its input.
HANDLER is called with the input and the `efrit-tool-context' and returns an
`efrit-tool-result'; a tool that is LATER is not waited for: its handler also
takes a function for the result, and returns one that stops it."
  name kind subject description schema handler later ending only)

(defconst efrit-tool-kinds '(planning query execution control)
  "What a tool may be: one that plans, looks, changes things, or ends the request.")

(defconst efrit-tool-subjects
  '(efrit-tools-planning efrit-tools-eval efrit-tools-shell efrit-tools-files
    efrit-tools-find efrit-tools-buffers efrit-tools-control)
  "The features that define tools, in the order in which their tools are offered.")

(defvar efrit-tool--defined nil
  "All tools, in the order in which they were defined.")

(defun efrit-tool-table ()
  "Return all tools, in the order in which they are offered."
  (seq-sort-by (lambda (tool)
                 (or (seq-position efrit-tool-subjects (efrit-tool-subject tool))
                     (length efrit-tool-subjects)))
               #'< efrit-tool--defined))

(defun efrit-tool-find (name)
  "Return the tool called NAME, or nil."
  (seq-find (lambda (tool) (equal (efrit-tool-name tool) name)) efrit-tool--defined))

(defun efrit-tool-ends (name)
  "Return what a call of the tool NAME makes of the session, or nil.
That is `complete' or `need-input'; nil means that the session goes on."
  (let ((tool (efrit-tool-find name)))
    (and tool (efrit-tool-ending tool))))

;;;; The schema of an input

(defconst efrit-tool--types '(string integer number boolean)
  "The types of JSON that a property may have.")

(defun efrit-tool--property (row)
  "Return the JSON schema of the property ROW as a pair (NAME . SCHEMA)."
  (pcase-let ((`(,name ,type ,description . ,more) row))
    (cons name `((type . ,(symbol-name type))
                 (description . ,description)
                 ,@(and (plist-get more :enum)
                        `((enum . ,(efrit-tool--enum (plist-get more :enum)))))
                 ,@(and (plist-get more :minimum)
                        `((minimum . ,(plist-get more :minimum))))))))

(defun efrit-tool--enum (values)
  "Return VALUES, a vector or a constant that has one."
  (if (symbolp values) (symbol-value values) values))

(defconst efrit-tool--final
  '(final boolean "true on the call that is the last step of the work")
  "The property that every tool takes which is a step of the work.")

(defun efrit-tool--schema (rows kind)
  "Return the JSON schema of an input with the properties ROWS, of a tool of KIND."
  `((type . "object")
    (properties . ,(mapcar #'efrit-tool--property
                           (if (eq kind 'control)
                               rows
                             (append rows (list efrit-tool--final)))))
    (required . ,(vconcat (mapcar (lambda (row) (symbol-name (car row)))
                                  (seq-filter (lambda (row)
                                                (plist-get (cdddr row) :required))
                                              rows))))))

;;;; Defining one

(defun efrit-tool--property-problem (row)
  "Return what is missing from the property ROW, or nil."
  (pcase row
    (`(,(and name (pred symbolp)) ,type ,description . ,more)
     (cond ((not (memq type efrit-tool--types))
            (format "the type of %s must be one of %s" name efrit-tool--types))
           ((not (and (stringp description) (not (string-blank-p description))))
            (format "%s has no description" name))
           ((seq-difference (efrit-tool--keywords more) '(:required :enum :minimum))
            (format "%s has unknown keywords" name))))
    (_ (format "%S is not (NAME TYPE DESCRIPTION . PLIST)" row))))

(defun efrit-tool--keywords (plist)
  "Return the keywords of PLIST."
  (cl-loop for (key) on plist by #'cddr collect key))

(defun efrit-tool--definition-problem (arguments description options)
  "Return what is missing from a definition, or nil.
ARGUMENTS, DESCRIPTION and OPTIONS are as in `efrit-define-tool'."
  (let ((kind (plist-get options :kind)) (ends (plist-get options :ends)))
    (cond ((not (memq (length arguments) '(2 3)))
           "its arguments must be (INPUT CONTEXT) or (INPUT CONTEXT DONE)")
          ((not (and (stringp description) (not (string-blank-p description))))
           "it has no description")
          ((not (memq kind efrit-tool-kinds))
           (format ":kind must be one of %s" efrit-tool-kinds))
          ((not (eq (eq kind 'control) (and (memq ends '(complete need-input)) t)))
           ":ends, complete or need-input, is for the kind control and no other")
          ((seq-difference (efrit-tool--keywords options) '(:kind :input :ends :only))
           "it has an unknown keyword")
          (t (seq-some #'efrit-tool--property-problem (plist-get options :input))))))

(defun efrit-tool--options (body)
  "Return the keywords at the beginning of BODY and the rest, as a pair."
  (let (options)
    (while (keywordp (car body))
      (setq options (append options (list (pop body) (pop body)))))
    (cons options body)))

(defmacro efrit-define-tool (name arguments description &rest body)
  "Define the tool NAME, a symbol with underscores, which the model may call.
Its handler, efrit-tools-NAME with hyphens, has ARGUMENTS and BODY.

ARGUMENTS are either (INPUT CONTEXT): BODY returns an `efrit-tool-result', or an
`efrit-print' to be returned with what was printed and said.  Or they are
\(INPUT CONTEXT DONE): BODY calls DONE with the result, then or later, and
returns a function that stops it.

DESCRIPTION is what the model reads.  BODY begins with keywords:
:kind   one of `efrit-tool-kinds'; the kind execution alone changes things
:input  the properties of the input, each (NAME TYPE DESCRIPTION . PLIST);
        PLIST may have :required, :enum (a vector, or a constant), :minimum
:ends   what the kind control makes of the session: complete or need-input
:only   a function of the context that returns whether the tool is offered"
  (declare (indent 2) (debug (symbolp (&rest symbolp) stringp def-body)))
  (pcase-let* ((`(,options . ,body) (efrit-tool--options body))
               (problem (efrit-tool--definition-problem arguments description options))
               (handler (intern (concat "efrit-tools-"
                                        (string-replace "_" "-" (symbol-name name))))))
    (when problem (error "The tool %s: %s" name problem))
    `(progn
       (defun ,handler ,arguments
         ,(format "Carry out a call of the tool %s; see `efrit-define-tool'." name)
         ,@(or body '(nil)))
       (efrit-tool--define
        (efrit-tool--make
         :name ,(symbol-name name) :kind ',(plist-get options :kind)
         :subject (and load-file-name (intern (file-name-base load-file-name)))
         :description ,description
         :schema (efrit-tool--schema ',(plist-get options :input)
                                     ',(plist-get options :kind))
         :handler #',handler :later ,(= (length arguments) 3)
         :ending ',(plist-get options :ends) :only ,(plist-get options :only))))))

(defun efrit-tool--define (tool)
  "Have TOOL among the tools that are defined, in the place of one of its name."
  (let ((place (seq-position efrit-tool--defined (efrit-tool-name tool)
                             (lambda (other name) (equal (efrit-tool-name other) name)))))
    (if place
        (setf (nth place efrit-tool--defined) tool)
      (setq efrit-tool--defined (append efrit-tool--defined (list tool))))))

;;;; What is offered

(defun efrit-tool-state (context)
  "Return the state CONTEXT is in: `initial' or `todos-created'."
  (if (efrit-tool-context-todos context) 'todos-created 'initial))

(defun efrit-tool--allowed-p (tool)
  "Return non-nil when the instance allows TOOL."
  (let ((name (efrit-tool-name tool)))
    (or (eq (efrit-tool-kind tool) 'control)
        (and (or (null efrit-tools-allow) (member name efrit-tools-allow))
             (not (member name efrit-tools-deny))))))

(defun efrit-tools-problem ()
  "Return why what the instance allows and denies lets no command run, or nil.
A name that no tool has would deny nothing, nor would that of one of the
kind control."
  (let* ((tools (seq-remove (lambda (tool) (eq (efrit-tool-kind tool) 'control))
                            (efrit-tool-table)))
         (names (mapcar #'efrit-tool-name tools))
         (others (seq-difference (append efrit-tools-allow efrit-tools-deny) names)))
    (cond (others
           (format "The instance's tools.allow and tools.deny cannot name: %s; \
they can name: %s"
                   (string-join others ", ") (string-join names ", ")))
          ((and (equal efrit-model-protocol "elisp")
                (not (efrit-tool--allowed-p (efrit-tool-find "eval_sexp"))))
           "The instance's tools do not allow eval_sexp, which each step of the model \
protocol elisp is: allow it, or set the protocol tools"))))

(defun efrit-tool--in-state-p (tool context)
  "Return non-nil when the state of CONTEXT has a place for TOOL."
  (and (or (null (efrit-tool-only tool)) (funcall (efrit-tool-only tool) context))
       (or (not (eq (efrit-tool-kind tool) 'execution))
           (eq (efrit-tool-state context) 'todos-created)
           (efrit-tool-context-instructions-given context)
           ;; Where no todo can be made, the first state would never end.
           (not (efrit-tool--allowed-p (efrit-tool-find "todo_add"))))))

(defun efrit-tool--offered (context)
  "Return the tools that are offered to the model in CONTEXT."
  (seq-filter (lambda (tool)
                (and (efrit-tool--allowed-p tool) (efrit-tool--in-state-p tool context)))
              (efrit-tool-table)))

(defun efrit-tool-names-offered (context)
  "Return the names of the tools that are offered in CONTEXT."
  (mapcar #'efrit-tool-name (efrit-tool--offered context)))

(defun efrit-tool-available-p (name context)
  "Return non-nil when the tool called NAME is offered in CONTEXT."
  (and (member name (efrit-tool-names-offered context)) t))

(defun efrit-tools-offered (context)
  "Return the tools that are offered in CONTEXT, as a value for the model's API."
  (vconcat (mapcar (lambda (tool)
                     `((name . ,(efrit-tool-name tool))
                       (description . ,(efrit-tool-description tool))
                       (input_schema . ,(efrit-tool-schema tool))))
                   (efrit-tool--offered context))))

(provide 'efrit-tool)
;;; efrit-tool.el ends here
