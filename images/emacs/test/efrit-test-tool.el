;;; efrit-test-tool.el --- Call tools in a test  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What the tests of tools share: a context in its second state, a call that is
;; waited for, and what it came to.  No behaviour is tested here.

;;; Code:

(require 'efrit-test-queue)
(require 'efrit-tool-call)
(require 'efrit-tools-process)

(defun efrit-test-context (&rest members)
  "Return a context with one todo; MEMBERS as in `efrit-tool-context-make'."
  (let ((context (apply #'efrit-tool-context-make
                      `(,@(unless (plist-member members :request-id) '(:request-id "r"))
                        ,@members))))
    (efrit-todo-add context "work")
    context))

(defun efrit-test-call (name input &optional context)
  "Call the tool NAME with INPUT, a plist, in CONTEXT; return its result.
Fail when the result comes twice or never."
  (let ((results nil))
    (unwind-protect
        (efrit-tool-start name (efrit-test-input input) (or context (efrit-test-context))
                          (lambda (result) (push result results)))
      ;; The workspace of this test will be deleted.
      (with-current-buffer "*scratch*" (setq default-directory "/")))
    (efrit-test-wait results)
    (should (= (length results) 1))
    (should (stringp (efrit-tool-result-content (car results))))
    (should (json-serialize (efrit-tool-result-content (car results))))
    (car results)))

(defun efrit-test-end-time-at (text)
  "End the time of every program that runs and has written TEXT."
  (dolist (program efrit-process--running)
    (when (string-search text (efrit-capture-text (efrit-process-out program)))
      (setf (efrit-process-due program) 0)))
  (efrit-process-update-all))

(defmacro efrit-test-with-time-over-at (text &rest body)
  "Run BODY, in which the time of a program is over once it has written TEXT."
  (declare (indent 1) (debug t))
  `(let ((timer (run-with-timer 0 0.02 #'efrit-test-end-time-at ,text)))
     (unwind-protect (progn ,@body)
       (cancel-timer timer))))

(defun efrit-test-input (plist)
  "Return PLIST, which has keywords for keys, as the alist of a JSON object."
  (cl-loop for (key value) on plist by #'cddr
           collect (cons (intern (substring (symbol-name key) 1)) value)))

(defun efrit-test-status (name &rest input)
  "Return the status that the tool NAME called with the plist INPUT comes to."
  (efrit-tool-result-status (efrit-test-call name input)))

(defun efrit-test-content (name &rest input)
  "Return the content that the tool NAME called with the plist INPUT gives.
Fail unless it is a success."
  (let ((result (efrit-test-call name input)))
    (unless (equal (efrit-tool-result-status result) "success") (ert-fail result))
    (efrit-tool-result-content result)))

(defun efrit-test-failure (status name &rest input)
  "Return the content that the tool NAME called with the plist INPUT gives.
Fail unless it comes to STATUS."
  (let ((result (efrit-test-call name input)))
    (unless (equal (efrit-tool-result-status result) status) (ert-fail result))
    (efrit-tool-result-content result)))

(defun efrit-test-parsed (text)
  "Return the JSON of TEXT as Lisp."
  (json-parse-string text :object-type 'alist :array-type 'list
                     :null-object nil :false-object nil))

(provide 'efrit-test-tool)
;;; efrit-test-tool.el ends here
