;;; efrit-tool-call.el --- Check what a model calls, and call it  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Each input is checked against its schema before the handler sees it, and each call
;; comes to exactly one result.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'efrit-tool)
(require 'efrit-tools-eval)

(mapc #'require efrit-tool-subjects)

;;;; Checking an input

(defun efrit-tool-call--type-p (type value)
  "Return non-nil when the JSON VALUE is of TYPE, the name of a JSON type."
  (pcase type
    ("string" (stringp value))
    ("boolean" (memq value '(t :false)))
    ("integer" (or (integerp value) (and (floatp value) (= value (ffloor value)))))
    ("number" (numberp value))))

(defun efrit-tool-call--value-problem (name schema value)
  "Return what is wrong with VALUE, of the property NAME with SCHEMA, or nil."
  (let ((type (alist-get 'type schema))
        (enum (alist-get 'enum schema))
        (minimum (alist-get 'minimum schema)))
    (cond ((not (efrit-tool-call--type-p type value))
           (format "%s must be of type %s" name type))
          ((and enum (not (seq-contains-p enum value)))
           (format "%s must be one of: %s" name (string-join enum ", ")))
          ((and minimum (< value minimum))
           (format "%s must be at least %s" name minimum)))))

(defun efrit-tool-call--input-problems (tool input)
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
                                  (efrit-tool-call--value-problem name schema value)
                                (format "%s is not a field; the fields are: %s" name
                                        (mapconcat (lambda (property)
                                                     (symbol-name (car property)))
                                                   properties ", ")))
                when problem collect problem)))))

(defun efrit-tool-call--without-nulls (input)
  "Return INPUT without the fields that are null, which is as if they were absent."
  (if (listp input)
      (seq-remove (lambda (field) (eq (cdr-safe field) :null)) input)
    input))

(defun efrit-tool-call--prepared (input)
  "Return INPUT, which is good, with the values that handlers take."
  (mapcar (lambda (field)
            (let ((value (cdr field)))
              (cons (car field)
                    (cond ((eq value :false) nil)
                          ((floatp value) (if (= value (ffloor value))
                                              (truncate value)
                                            value))
                          (t value)))))
          (efrit-tool-call--without-nulls input)))

(defun efrit-tool-refusal (name input context)
  "Return the result that refuses to call the tool NAME with INPUT in CONTEXT.
Return nil when the call is good."
  (let* ((tool (efrit-tool-find name))
         (problem
          (cond ((not (efrit-tool-available-p name context))
                 (format "The tool %s %s; offered now: %s" name
                         (if tool "is not offered now" "does not exist")
                         (string-join (efrit-tool-names-offered context) ", ")))
                (t (let ((problems (efrit-tool-call--input-problems
                                    tool (efrit-tool-call--without-nulls input))))
                     (and problems
                          (format "The input of %s is not usable: %s" name
                                  (string-join problems "; "))))))))
    (and problem (efrit-tool-result-make "refused" problem))))

;;;; Calling

(defun efrit-tool-start (name input context done)
  "Call the tool NAME with INPUT for CONTEXT.
DONE is called exactly once with an `efrit-tool-result', before this returns or
later.  Return nil, or a function that stops the call at once."
  (let* ((once (efrit-tool-call--once done))
         (outcome (or (efrit-tool-refusal name input context)
                      (efrit-tool-call--run (efrit-tool-find name)
                                        (efrit-tool-call--prepared input) context once))))
    (if (efrit-tool-result-p outcome)
        (progn (funcall once outcome) nil)
      outcome)))

(defun efrit-tool-call--once (done)
  "Return a function that calls DONE with its argument, the first time only."
  (let ((called nil))
    (lambda (result)
      (unless called
        (setq called t)
        (funcall done result)))))

(defun efrit-tool-call--run (tool input context done)
  "Call TOOL with INPUT, which is good, for CONTEXT.
Return its result, or a function that stops it when DONE will get that."
  (let ((handler (efrit-tool-handler tool)))
    (condition-case err
        (cond ((eq (efrit-tool-kind tool) 'control) (funcall handler input context))
              ((efrit-tool-later tool) (funcall handler input context done))
              (t (efrit-tools-eval-call handler input context)))
      ;; No call ends without a result.
      (error (efrit-tool-error "%s" (error-message-string err))))))

(provide 'efrit-tool-call)
;;; efrit-tool-call.el ends here
