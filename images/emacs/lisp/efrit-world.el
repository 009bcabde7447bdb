;;; efrit-world.el --- What a tool is given and what it gives back  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The state of a session that tools work on, the result of a tool, and how text
;; is kept within its limit.  What is left out is always said, in a line of its
;; own in square brackets.  Pure but for the clock; knows no tool.

;;; Code:

(require 'cl-lib)
(require 'efrit-settings)
(require 'efrit-json)
(require 'efrit-print)
(require 'efrit-eval)

(defcustom efrit-tool-result-bytes 32768
  "Most bytes of what a tool gives back that are kept."
  :type 'natnum
  :group 'efrit)

;;;; The state of a session

(cl-defstruct (efrit-world (:constructor efrit-world-make))
  "What the tools of one session work on.
REQUEST-ID is that of the request under way, DEADLINE the time (a float) when a
call must have ended, or nil.  TODOS are alists in their order, as in
efrit-todo.el; INSTRUCTIONS-GIVEN is non-nil once they were asked for."
  request-id deadline todos instructions-given (last-todo-number 0))

(defun efrit-world-to-json (world)
  "Return what is kept of WORLD as a value for JSON.
The request and the deadline belong to one run and are not kept."
  `((todos . ,(vconcat (efrit-world-todos world)))
    (instructions_given . ,(if (efrit-world-instructions-given world) t :false))
    (last_todo_number . ,(efrit-world-last-todo-number world))))

(defun efrit-world-from-json (json)
  "Return the world that `efrit-world-to-json' made JSON of."
  (efrit-world-make
   :todos (append (alist-get 'todos json) nil)
   :instructions-given (eq (alist-get 'instructions_given json) t)
   :last-todo-number (or (alist-get 'last_todo_number json) 0)))

(defun efrit-world-seconds-left (world)
  "Return the seconds until the deadline of WORLD, nil when it has none."
  (and (efrit-world-deadline world)
       (- (efrit-world-deadline world) (float-time))))

;;;; Results

(cl-defstruct (efrit-tool-result (:constructor efrit-tool-result--make))
  "What came of a call of a tool.
STATUS is \"success\", \"error\", \"timeout\", \"interrupted\" or \"refused\"; CONTENT a
string that fits into JSON and is bounded."
  status content)

(defun efrit-tool-result-make (status content)
  "Return the result of STATUS with CONTENT, cut where it is too long."
  (efrit-tool-result--make
   :status status
   :content (efrit-world-cut content (+ efrit-tool-result-bytes 1024))))

(defun efrit-tool-success (format &rest arguments)
  "Return a success that says FORMAT with ARGUMENTS."
  (efrit-tool-result-make "success" (apply #'format format arguments)))

(defun efrit-tool-error (format &rest arguments)
  "Return an error that says FORMAT with ARGUMENTS."
  (efrit-tool-result-make "error" (apply #'format format arguments)))

(defun efrit-tool-json (value)
  "Return the success whose content is the JSON of VALUE."
  (efrit-tool-result-make "success" (efrit-json-text value)))

;;;; Text within its limit

(defun efrit-world-clean (text)
  "Return TEXT without what JSON cannot hold, or Emacs 28 not read from it."
  (efrit-json-clean text))

(defun efrit-world-cut (text limit)
  "Return TEXT fit for JSON; of more than LIMIT bytes, both ends are kept."
  (let* ((text (efrit-world-clean text))
         (bytes (string-bytes text)))
    (if (<= bytes limit)
        text
      (let ((head (efrit-print-head text (/ limit 2)))
            (tail (efrit-world-tail text (/ limit 2))))
        (efrit-world-joined
         head (- bytes (string-bytes head) (string-bytes tail)) tail)))))

(defun efrit-world-joined (head lost tail)
  "Return HEAD and TAIL with a line between about the LOST bytes."
  (concat head
          (if (or (string-empty-p head) (string-suffix-p "\n" head)) "" "\n")
          (format "[%d bytes left out]\n" lost)
          tail))

(defun efrit-world-tail (text limit)
  "Return the longest tail of TEXT, which is clean, of at most LIMIT bytes."
  (let* ((bytes (encode-coding-string text 'utf-8-unix t))
         (start (max 0 (- (length bytes) limit))))
    ;; A byte 10xxxxxx continues a character.
    (while (and (< start (length bytes)) (= (logand (aref bytes start) #xc0) #x80))
      (setq start (1+ start)))
    (decode-coding-string (substring bytes start) 'utf-8-unix t)))

;;;; Paths

(defun efrit-world-path (path)
  "Return PATH as an absolute file name; a relative one starts in the workspace."
  (expand-file-name path (efrit-eval-start-directory)))

(provide 'efrit-world)
;;; efrit-world.el ends here
