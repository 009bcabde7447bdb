;;; efrit-tool-test.el --- Tests of the table of tools  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Which tools are offered when, and what becomes of a call that is not good.

;;; Code:

(require 'efrit-test-tool)

(defun efrit-tool-test--of-kind (kind)
  "Return the names of the tools of KIND."
  (mapcar #'efrit-tool-name
          (seq-filter (lambda (tool) (eq (efrit-tool-kind tool) kind)) (efrit-tool-table))))

;;;; Defining a tool

(ert-deftest efrit-tool-a-definition-makes-the-tool-and-its-handler ()
  (efrit-test-with-queue
    (let ((efrit-tool--defined efrit-tool--defined))
      (eval '(efrit-define-tool test_add (input _context)
               "Return the sum of two numbers."
               :kind query
               :input ((a integer "One number" :required t :minimum 1)
                       (b integer "Another number" :required t))
               (efrit-tool-success "%d" (+ (alist-get 'a input) (alist-get 'b input))))
            t)
      (should (functionp 'efrit-tools-test-add))
      ;; What is of no subject comes last.
      (should (equal (car (last (efrit-tool-names-offered (efrit-test-context)))) "test_add"))
      (should (equal (efrit-test-content "test_add" :a 1 :b 2) "3"))
      (should (string-search "a must be at least 1"
                             (efrit-test-failure "refused" "test_add" :a 0 :b 2)))
      (eval '(efrit-define-tool test_add (_input _context done)
               "Return another number, later."
               :kind query
               (funcall done (efrit-tool-success "4"))
               #'ignore)
            t)
      (should (equal (efrit-test-content "test_add") "4"))
      (should (= 1 (seq-count (lambda (tool) (equal (efrit-tool-name tool) "test_add"))
                              (efrit-tool-table)))))))

(ert-deftest efrit-tool-a-definition-that-lacks-something-is-refused-with-what-it-lacks ()
  (pcase-dolist (`(,definition ,lack)
                 '((((input) "Text." :kind query) "its arguments must be")
                   (((input context) " " :kind query) "it has no description")
                   (((input context) (list "Text.") :kind query) "it has no description")
                   (((input context) "Text.") ":kind must be one of")
                   (((input context) "Text." :kind other) ":kind must be one of")
                   (((input context) "Text." :kind control) ":ends, complete or need-input")
                   (((input context) "Text." :kind query :ends complete) ":ends, complete")
                   (((input context) "Text." :kind query :also t) "an unknown keyword")
                   (((input context) "Text." :kind query :input (a)) "is not (NAME TYPE")
                   (((input context) "Text." :kind query :input ((a text "An a"))) "type of a")
                   (((input context) "Text." :kind query :input ((a string ""))) "a has no desc")
                   (((input context) "Text." :kind query :input ((a string "An a" :most 1)))
                    "a has unknown keywords")))
    (ert-info (lack)
      (let ((problem (should-error (macroexpand `(efrit-define-tool test_bad ,@definition)))))
        (should (string-prefix-p "The tool test_bad: " (cadr problem)))
        (should (string-search lack (cadr problem)))))))

(ert-deftest efrit-tool-each-subject-defines-tools-and-each-tool-is-of-a-subject ()
  (dolist (subject efrit-tool-subjects)
    (ert-info ((symbol-name subject))
      (should (featurep subject))
      (should (seq-some (lambda (tool) (eq (efrit-tool-subject tool) subject))
                        (efrit-tool-table)))))
  (dolist (tool (efrit-tool-table))
    (ert-info ((efrit-tool-name tool))
      (should (memq (efrit-tool-subject tool) efrit-tool-subjects))
      (should (functionp (efrit-tool-handler tool))))))

(ert-deftest efrit-tool-the-order-of-the-offer-is-not-the-order-of-loading ()
  (let ((offered (efrit-tool-names-offered (efrit-test-context)))
        (efrit-tool--defined (seq-sort-by #'efrit-tool-subject #'string< efrit-tool--defined)))
    (should-not (equal (mapcar #'efrit-tool-name efrit-tool--defined) offered))
    (should (equal (efrit-tool-names-offered (efrit-test-context)) offered))))

;;;; What is offered

(defconst efrit-tool-test--offered
  (expand-file-name "tools-offered.jsonl" (file-name-directory (or load-file-name buffer-file-name)))
  "A file with the JSON of each tool as it is sent to the model, one on a line.")

(defun efrit-tool-test--sent (context)
  "Return the JSON of each tool of CONTEXT as it is sent to the model, a list."
  (mapcar (lambda (tool)
            ;; Emacs 28 writes 0.1 with all the digits of its double.
            (string-replace "0.10000000000000001" "0.1" (efrit-json-text tool)))
          (efrit-tools-offered context)))

(ert-deftest efrit-tool-the-model-is-sent-the-json-that-was-agreed-in-its-order ()
  (let ((agreed (with-temp-buffer
                  (let ((coding-system-for-read 'utf-8-unix))
                    (insert-file-contents efrit-tool-test--offered))
                  (split-string (buffer-string) "\n" t)))
        (sent (efrit-tool-test--sent (efrit-test-context))))
    (dolist (line sent)
      (ert-info ("A line of tools-offered.jsonl: ")
        (should (equal line (car (member line agreed))))))
    (should (equal sent agreed))))

(ert-deftest efrit-tool-the-offer-is-good-json-schema ()
  (let* ((context (efrit-test-context))
         (offered (json-parse-string
                   (json-serialize (efrit-tools-offered context) :false-object :false)
                   :object-type 'alist)))
    (should (= (length offered) (length (efrit-tool-table))))
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

(ert-deftest efrit-tool-nothing-that-executes-is-offered-before-there-is-a-todo ()
  (let ((context (efrit-tool-context-make)))
    (should (eq (efrit-tool-state context) 'initial))
    (dolist (name (efrit-tool-test--of-kind 'execution))
      (should-not (efrit-tool-available-p name context)))
    (dolist (kind '(planning query control))
      (dolist (name (efrit-tool-test--of-kind kind))
        (should (efrit-tool-available-p name context))))
    (efrit-todo-add context "a")
    (should (eq (efrit-tool-state context) 'todos-created))
    (dolist (tool (efrit-tool-table))
      (should (efrit-tool-available-p (efrit-tool-name tool) context)))))

(ert-deftest efrit-tool-the-instructions-are-given-once ()
  (efrit-test-with-queue
    (let ((context (efrit-test-context)))
      (should (equal (efrit-tool-result-status
                      (efrit-test-call "todo_get_instructions" nil context))
                     "success"))
      (should-not (efrit-tool-available-p "todo_get_instructions" context))
      ;; From then on there is something to do: the tools that change things.
      (should (efrit-tool-available-p "eval_sexp" context))
      (should (efrit-tool-available-p "todo_update" context))
      (should (equal (efrit-tool-result-status
                      (efrit-test-call "todo_get_instructions" nil context))
                     "refused")))))

(ert-deftest efrit-tool-the-instance-allows-and-denies ()
  (let ((context (efrit-test-context)))
    (let ((efrit-tools-allow '("todo_add" "eval_sexp")))
      (should (equal (efrit-tool-names-offered context)
                     '("todo_add" "eval_sexp" "session_complete" "request_user_input"))))
    (let ((efrit-tools-deny '("eval_sexp" "session_complete")))
      (should-not (efrit-tool-available-p "eval_sexp" context))
      (should (efrit-tool-available-p "session_complete" context))
      (should (efrit-tool-available-p "todo_add" context)))
    (let ((efrit-tools-allow '("eval_sexp")) (efrit-tools-deny '("eval_sexp")))
      (should-not (efrit-tool-available-p "eval_sexp" context)))))

;; docs/chat.md says so, and to deny both.
(ert-deftest efrit-tool-a-denied-shell-is-no-barrier-while-lisp-may-be-evaluated ()
  (efrit-test-with-queue
    (let ((efrit-tools-deny '("shell_exec")) (context (efrit-test-context)))
      (should-not (efrit-tool-available-p "shell_exec" context))
      (should (equal (efrit-tool-result-content
                      (efrit-test-call "eval_sexp"
                                       '(:expr "(shell-command-to-string \"printf hi\")")
                                       context))
                     "\"hi\"")))))

(ert-deftest efrit-tool-what-has-no-effect-may-not-be-denied ()
  (dolist (denied '("shel_exec" "session_complete"))
    (let ((efrit-tools-deny (list "shell_exec" denied)))
      (should (string-match-p (format "cannot name: %s;" denied) (efrit-tools-problem)))))
  (let ((efrit-tools-deny '("shell_exec"))) (should-not (efrit-tools-problem))))

(ert-deftest efrit-tool-without-a-way-to-plan-there-is-no-planning-first ()
  (let ((context (efrit-tool-context-make)))
    (let ((efrit-tools-allow '("eval_sexp")))
      (should (efrit-tool-available-p "eval_sexp" context)))
    (let ((efrit-tools-deny '("todo_add")))
      (should (efrit-tool-available-p "eval_sexp" context)))))

(ert-deftest efrit-tool-all-but-control-can-be-the-last-step ()
  (dolist (tool (efrit-tool-table))
    (should (eq (and (alist-get 'final (alist-get 'properties (efrit-tool-schema tool))) t)
                (not (eq (efrit-tool-kind tool) 'control))))))

;;;; Calls that are not good

(ert-deftest efrit-tool-a-call-that-is-not-good-is-refused-with-what-to-change ()
  (efrit-test-with-queue
    (pcase-dolist (`(,name ,input ,message)
                   '(("no_such_tool" nil "does not exist")
                     ("eval_sexp" nil "expr is missing")
                     ("eval_sexp" (:expr :null) "expr is missing")
                     ("eval_sexp" (:expr 1) "expr must be of type string")
                     ("eval_sexp" (:expr "1" :final "yes") "final must be of type boolean")
                     ("eval_sexp" (:expr "1" :exprs "2") "exprs is not a field")
                     ("todo_update" (:id 1.5) "id must be of type integer")
                     ("todo_update" (:id "1") "id must be of type integer")
                     ("todo_update" (:id 1 :status "done") "status must be one of: pending")
                     ("session_complete" (:message ["a"]) "message must be of type string")
                     ("session_complete" (:message "a" :final t) "final is not a field")))
      (ert-info ((format "%s %s" name input))
        (should (string-search message (apply #'efrit-test-failure "refused" name input)))))))

(ert-deftest efrit-tool-an-input-that-is-no-object-is-refused ()
  (efrit-test-with-queue
    (dolist (input '("text" 1 ["a"] t :null ("a" "b")))
      (let (result)
        (efrit-tool-start "eval_sexp" input (efrit-test-context)
                          (lambda (it) (setq result it)))
        (should (equal (efrit-tool-result-status result) "refused"))))))

(ert-deftest efrit-tool-a-tool-out-of-its-state-is-refused-and-does-not-run ()
  (efrit-test-with-queue
    (let ((result (efrit-test-call "eval_sexp" '(:expr "(setq efrit-tool-test--ran t)")
                                   (efrit-tool-context-make :request-id "r"))))
      (should (equal (efrit-tool-result-status result) "refused"))
      (should (string-search "offered now: todo_add" (efrit-tool-result-content result)))
      (should-not (boundp 'efrit-tool-test--ran)))))

(ert-deftest efrit-tool-null-is-as-good-as-absent-and-a-whole-float-is-an-integer ()
  (efrit-test-with-queue
    (should (equal (efrit-test-status "todo_update" :id 1.0 :content :null :final :false)
                   "success"))))

(ert-deftest efrit-tool-a-good-control-call-gives-back-what-it-says ()
  (efrit-test-with-queue
    (should (equal (efrit-test-content "session_complete" :message "done") "done"))
    (should (equal (efrit-test-content "request_user_input" :question "which?") "which?"))))

;;;; What is given back

(ert-deftest efrit-tool-content-is-cut-in-the-middle-at-whole-characters ()
  (should (equal (efrit-text-cut "abc" 3) "abc"))
  (should (equal (efrit-text-cut "abcdefghij" 4) "ab\n[6 bytes left out]\nij"))
  (should (equal (efrit-text-cut "a\ncdefghij" 4) "a\n[6 bytes left out]\nij"))
  (should (equal (efrit-text-cut "€€€€€" 8) "€\n[9 bytes left out]\n€"))
  (should (equal (efrit-text-cut "\377" 10) "\\377")))

(provide 'efrit-tool-test)
;;; efrit-tool-test.el ends here
