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
  "Return the success whose content is the JSON of VALUE, an object.
Where that is too long, long texts in it are cut, and so is its longest array;
the member `left_out' is how many elements are not there."
  (let ((text (efrit-json-text value)) (parts '(2 8 32)))
    (while (and parts (> (string-bytes text) efrit-tool-result-bytes))  ; gate: json-length
      (setq text (efrit-json-text
                  (efrit-tool--shortened
                   (efrit-tool--texts-cut value (/ efrit-tool-result-bytes (pop parts)))))))
    (efrit-tool-result-make "success" text)))

(defun efrit-tool--texts-cut (value limit)
  "Return the JSON VALUE with its texts of more than LIMIT bytes cut to about that."
  (cond ((stringp value) (efrit-text-cut value limit))
        ((vectorp value)
         (vconcat (mapcar (lambda (element) (efrit-tool--texts-cut element limit)) value)))
        ((consp value)
         (mapcar (lambda (member)
                   (cons (car member) (efrit-tool--texts-cut (cdr member) limit)))
                 value))
        (t value)))

(defun efrit-tool--shortened (value)
  "Return the JSON object VALUE, its longest array cut to what there is room for.
One element stays, so that whoever calls may cut the texts in it."
  (let* ((bytes (lambda (json) (string-bytes (efrit-json-text json))))
         (whole (funcall bytes value))
         (arrays (mapcar (lambda (member) (cons (funcall bytes (cdr member)) member))
                         (seq-filter (lambda (member) (vectorp (cdr member))) value)))
         (longest (car (seq-sort-by #'car #'> arrays))))
    (if (or (null longest) (<= whole efrit-tool-result-bytes))
        value
      (let* ((array (cddr longest))
             (room (- efrit-tool-result-bytes (- whole (car longest)) 64))
             (kept (max 1 (length (seq-take-while
                                   (lambda (element)
                                     (< 0 (setq room (- room 1 (funcall bytes element)))))
                                   array))))
             (left-out (+ (alist-get 'left_out value 0) (- (length array) kept))))
        `(,@(mapcar (lambda (member)
                      (if (eq member (cdr longest))
                          (cons (car member) (seq-take array kept))
                        member))
                    (assq-delete-all 'left_out (copy-sequence value)))
          (left_out . ,left-out))))))

;;;; Paths

(defun efrit-tool-path (path)
  "Return PATH as an absolute file name; a relative one starts in the workspace."
  (expand-file-name path (efrit-eval-start-directory)))

(provide 'efrit-tool-context)
;;; efrit-tool-context.el ends here
