;;; efrit-tools-todo-test.el --- Tests of the list of todos  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The todo_* tools, and the list across a restart.

;;; Code:

(require 'efrit-test-tool)

(ert-deftest efrit-todo-what-is-added-comes-back-in-its-order ()
  (efrit-test-with-queue
    (let ((context (efrit-tool-context-make :request-id "r")))
      (should (equal (efrit-test-parsed
                      (efrit-tool-result-content
                       (efrit-test-call "todo_add" '(:content "één" :priority "high") context)))
                     '((id . 1) (content . "één") (status . "pending") (priority . "high"))))
      (efrit-test-call "todo_add" '(:content "two") context)
      (let-alist (efrit-test-parsed
                  (efrit-tool-result-content (efrit-test-call "todo_status" nil context)))
        (should (equal .counts '((pending . 2) (in_progress . 0) (completed . 0)
                                 (cancelled . 0))))
        (should (equal (mapcar (lambda (todo) (alist-get 'id todo)) .todos) '(1 2)))))))

(ert-deftest efrit-todo-a-list-that-is-too-long-says-how-many-are-left-out ()
  (efrit-test-with-queue
    (dolist (name '("todo_status" "todo_get_instructions"))
      (let ((context (efrit-tool-context-make :request-id "r")))
        (dotimes (number 500) (efrit-todo-add context (format "%d %s" number (make-string 200 ?é))))
        (let ((text (efrit-tool-result-content (efrit-test-call name nil context))))
          (should (<= (string-bytes text) efrit-tool-result-bytes))
          (let-alist (efrit-test-parsed text)
            (should (< 50 (length .todos) 500))
            (should (= (alist-get 'id (car .todos)) 1))
            (should (= (+ (length .todos) .left_out) 500))))))))

(ert-deftest efrit-todo-a-text-that-is-too-long-is-cut-in-the-json ()
  (efrit-test-with-queue
    (let ((context (efrit-tool-context-make :request-id "r"))
          (content (make-string 50000 1)))
      (pcase-dolist (`(,name . ,input) `(("todo_add" :content ,content) ("todo_update" :id 1 :status "pending")
                                         ("todo_next") ("todo_status")))
        (let ((text (efrit-tool-result-content (efrit-test-call name input context))))
          (should (<= (string-bytes text) efrit-tool-result-bytes))
          (should (efrit-test-parsed text))
          (should (string-search "bytes left out]" text))))
      ;; The list itself has all of it.
      (should (equal (alist-get 'content (efrit-todo-find context 1)) content)))))

(ert-deftest efrit-todo-the-next-is-the-one-in-progress-then-the-first-pending ()
  (efrit-test-with-queue
    (let ((context (efrit-tool-context-make :request-id "r")))
      (cl-flet ((next () (let-alist (efrit-test-parsed
                                     (efrit-tool-result-content
                                      (efrit-test-call "todo_next" nil context)))
                           .todo.id))
                (update (id status)
                  (efrit-test-call "todo_update" (list :id id :status status) context)))
        (should-not (next))
        (dolist (content '("a" "b" "c")) (efrit-todo-add context content))
        (should (= (next) 1))
        (update 2 "in_progress")
        (should (= (next) 2))
        (update 2 "completed")
        (update 1 "cancelled")
        (should (= (next) 3))
        (update 3 "completed")
        (should-not (next))))))

(ert-deftest efrit-todo-an-update-changes-what-it-names-only ()
  (efrit-test-with-queue
    (let ((context (efrit-test-context)))
      (efrit-test-call "todo_update" '(:id 1 :content "other") context)
      (should (equal (efrit-todo-find context 1)
                     '((id . 1) (content . "other") (status . "pending")))))))

(ert-deftest efrit-todo-an-unknown-id-is-an-error ()
  (efrit-test-with-queue
    (should (equal (efrit-test-failure "error" "todo_update" :id 7 :status "completed")
                   "There is no todo 7; there are: 1"))))

(ert-deftest efrit-todo-the-instructions-are-the-state-the-tools-and-the-todos ()
  (efrit-test-with-queue
    (let-alist (efrit-test-parsed (efrit-test-content "todo_get_instructions"))
      (should (equal .state "todos-created"))
      (should (member "eval_sexp" .tools))
      (should-not (member "todo_get_instructions" .tools))
      (should (equal (alist-get 'content (car .todos)) "work")))))

(ert-deftest efrit-todo-a-context-comes-back-from-its-json ()
  (let ((context (efrit-test-context :deadline 5.0)))
    (efrit-todo-add context "b" "low")
    (setf (efrit-tool-context-instructions-given context) t)
    (let ((back (efrit-tool-context-from-json
                 (efrit-json-parse (efrit-json-text (efrit-tool-context-to-json context))))))
      (should (equal (efrit-tool-context-todos back) (efrit-tool-context-todos context)))
      (should (efrit-tool-context-instructions-given back))
      (should-not (efrit-tool-context-deadline back))
      (should (= (alist-get 'id (efrit-todo-add back "c")) 3))))
  (let ((back (efrit-tool-context-from-json (efrit-tool-context-to-json (efrit-tool-context-make)))))
    (should-not (efrit-tool-context-todos back))
    (should-not (efrit-tool-context-instructions-given back))))

(provide 'efrit-tools-todo-test)
;;; efrit-tools-todo-test.el ends here
