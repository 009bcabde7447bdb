;;; efrit-tool-test.el --- Tests of the table of tools  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Which tools are offered when, and what becomes of a call that is not good.

;;; Code:

(require 'efrit-test-tool)

(defun efrit-tool-test--of-kind (kind)
  "Return the names of the tools of KIND."
  (mapcar #'efrit-tool-name
          (seq-filter (lambda (tool) (eq (efrit-tool-kind tool) kind)) efrit-tool-table)))

;;;; What is offered

(ert-deftest efrit-tool-the-offer-is-good-json-schema ()
  (let* ((world (efrit-test-world))
         (offered (json-parse-string
                   (json-serialize (efrit-tools-offered world) :false-object :false)
                   :object-type 'alist)))
    (should (= (length offered) (length efrit-tool-table)))
    (seq-doseq (tool offered)
      (let-alist tool
        (ert-info (.name)
          (should (string-match-p "\\`[a-zA-Z0-9_-]\\{1,64\\}\\'" .name))
          (should (> (length .description) 10))
          (should (equal .input_schema.type "object"))
          (should (vectorp .input_schema.required))
          (seq-doseq (name .input_schema.required)
            (should (alist-get (intern name) .input_schema.properties)))
          (pcase-dolist (`(,_ . ,schema) .input_schema.properties)
            (should (member (alist-get 'type schema)
                            '("string" "integer" "number" "boolean")))
            (should (stringp (alist-get 'description schema)))))))
    (should (equal (length (delete-dups (mapcar (lambda (tool) (alist-get 'name tool))
                                                offered)))
                   (length offered)))))

(ert-deftest efrit-tool-every-handler-is-there ()
  (dolist (tool efrit-tool-table)
    (ert-info ((efrit-tool-name tool))
      (if (eq (efrit-tool-kind tool) 'control)
          (should-not (efrit-tool-handler tool))
        (should (functionp (efrit-tool-handler tool)))))))

(ert-deftest efrit-tool-nothing-that-executes-is-offered-before-there-is-a-todo ()
  (let ((world (efrit-world-make)))
    (should (eq (efrit-tool-state world) 'initial))
    (dolist (name (efrit-tool-test--of-kind 'execution))
      (should-not (efrit-tool-available-p name world)))
    (dolist (kind '(planning query control))
      (dolist (name (efrit-tool-test--of-kind kind))
        (should (efrit-tool-available-p name world))))
    (efrit-todo-add world "a")
    (should (eq (efrit-tool-state world) 'todos-created))
    (dolist (tool efrit-tool-table)
      (should (efrit-tool-available-p (efrit-tool-name tool) world)))))

(ert-deftest efrit-tool-the-instructions-are-given-once ()
  (efrit-test-with-queue
    (let ((world (efrit-test-world)))
      (should (equal (efrit-tool-result-status
                      (efrit-test-call "todo_get_instructions" nil world))
                     "success"))
      (should-not (efrit-tool-available-p "todo_get_instructions" world))
      (should (equal (efrit-tool-result-status
                      (efrit-test-call "todo_get_instructions" nil world))
                     "refused")))))

(ert-deftest efrit-tool-the-instance-allows-and-denies ()
  (let ((world (efrit-test-world)))
    (let ((efrit-tools-allow '("todo_add" "eval_sexp")))
      (should (equal (efrit-tool-names-offered world)
                     '("todo_add" "eval_sexp" "session_complete" "request_user_input"))))
    (let ((efrit-tools-deny '("eval_sexp" "session_complete")))
      (should-not (efrit-tool-available-p "eval_sexp" world))
      (should (efrit-tool-available-p "session_complete" world))
      (should (efrit-tool-available-p "todo_add" world)))
    (let ((efrit-tools-allow '("eval_sexp")) (efrit-tools-deny '("eval_sexp")))
      (should-not (efrit-tool-available-p "eval_sexp" world)))))

(ert-deftest efrit-tool-without-a-way-to-plan-there-is-no-planning-first ()
  (let ((world (efrit-world-make)))
    (let ((efrit-tools-allow '("eval_sexp")))
      (should (efrit-tool-available-p "eval_sexp" world)))
    (let ((efrit-tools-deny '("todo_add")))
      (should (efrit-tool-available-p "eval_sexp" world)))))

(ert-deftest efrit-tool-all-but-control-can-be-the-last-step ()
  (dolist (tool efrit-tool-table)
    (should (eq (and (alist-get 'final (alist-get 'properties (efrit-tool-schema tool))) t)
                (not (eq (efrit-tool-kind tool) 'control))))))

;;;; Calls that are not good

(ert-deftest efrit-tool-a-call-that-is-not-good-is-refused-with-what-to-change ()
  (efrit-test-with-queue
    (pcase-dolist (`(,name ,input ,told)
                   '(("no_such_tool" nil "does not exist")
                     ("eval_sexp" nil "expr is missing")
                     ("eval_sexp" (:expr :null) "expr is missing")
                     ("eval_sexp" (:expr 1) "expr must be of type string")
                     ("eval_sexp" (:expr "1" :final "yes") "final must be of type boolean")
                     ("eval_sexp" (:expr "1" :exprs "2") "exprs is no field")
                     ("todo_update" (:id 1.5) "id must be of type integer")
                     ("todo_update" (:id "1") "id must be of type integer")
                     ("todo_update" (:id 1 :status "done") "status must be one of: pending")
                     ("session_complete" (:message ["a"]) "message must be of type string")
                     ("session_complete" (:message "a" :final t) "final is no field")))
      (ert-info ((format "%s %s" name input))
        (should (string-search told (apply #'efrit-test-failure "refused" name input)))))))

(ert-deftest efrit-tool-an-input-that-is-no-object-is-refused ()
  (efrit-test-with-queue
    (dolist (input '("text" 1 ["a"] t :null ("a" "b")))
      (let (result)
        (efrit-tool-start "eval_sexp" input (efrit-test-world)
                          (lambda (it) (setq result it)))
        (should (equal (efrit-tool-result-status result) "refused"))))))

(ert-deftest efrit-tool-a-tool-out-of-its-state-is-refused-and-does-not-run ()
  (efrit-test-with-queue
    (let ((result (efrit-test-call "eval_sexp" '(:expr "(setq efrit-tool-test--ran t)")
                                   (efrit-world-make :request-id "r"))))
      (should (equal (efrit-tool-result-status result) "refused"))
      (should (string-search "offered now: todo_add" (efrit-tool-result-content result)))
      (should-not (boundp 'efrit-tool-test--ran)))))

(ert-deftest efrit-tool-null-is-as-good-as-absent-and-a-whole-float-is-an-integer ()
  (efrit-test-with-queue
    (should (equal (efrit-test-status "todo_update" :id 1.0 :content :null :final :false)
                   "success"))))

(ert-deftest efrit-tool-a-good-control-call-is-only-checked ()
  (efrit-test-with-queue
    (should (equal (efrit-test-content "session_complete" :message "done") ""))
    (should (equal (efrit-test-content "request_user_input" :question "which?") ""))))

;;;; What is given back

(ert-deftest efrit-tool-content-is-cut-in-the-middle-at-whole-characters ()
  (should (equal (efrit-world-cut "abc" 3) "abc"))
  (should (equal (efrit-world-cut "abcdefghij" 4) "ab\n[6 bytes left out]\nij"))
  (should (equal (efrit-world-cut "a\ncdefghij" 4) "a\n[6 bytes left out]\nij"))
  (should (equal (efrit-world-cut "€€€€€" 8) "€\n[9 bytes left out]\n€"))
  (should (equal (efrit-world-cut "\377" 10) "\\377")))

(provide 'efrit-tool-test)
;;; efrit-tool-test.el ends here
