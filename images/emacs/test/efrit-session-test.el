;;; efrit-session-test.el --- Chats and commands in a real daemon  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The model is a scripted server that speaks the real protocol; what it says is
;; in the scenario that a request names.  How each scenario ends is in
;; tests/integration/chat.

;;; Code:

(require 'efrit-test-queue)
(require 'efrit-test-daemon)
(require 'efrit-test-model)
(require 'efrit-session-scheduler)

(defun efrit-session-test--ask (id type content &rest options)
  "Submit the request ID of TYPE with CONTENT and OPTIONS, a plist."
  (apply #'efrit-test-submit id :type type :content content
         (list :options (append options '(:timeout 600)))))

(defun efrit-session-test--answer (id type content &rest options)
  "Submit the request ID of TYPE with CONTENT and OPTIONS; return the answer."
  (apply #'efrit-session-test--ask id type content options)
  (efrit-test-answer id))

(defun efrit-session-test--get (answer &rest keys)
  "Return what is at the path KEYS in ANSWER."
  (dolist (key keys answer) (setq answer (alist-get key answer))))

(defconst efrit-session-test--hello "Good day, who are you? (scenario=chat)"
  "What the scenario of a chat begins with.")

(ert-deftest efrit-session-an-unknown-session-is-refused-and-runs-nothing ()
  (efrit-test-with-model-daemon nil
    (let ((answer (efrit-session-test--answer "c" "chat" "scenario=chat x"
                                              :session '(:id "nowhere"))))
      (should (equal (alist-get 'reason answer) "Rejected"))
      (should (string-match-p "no session nowhere" (alist-get 'error answer))))))

(ert-deftest efrit-session-a-history-that-is-no-ordinary-file-is-refused-and-named ()
  (efrit-test-with-model-daemon nil
    (make-directory (efrit-files-path "sessions" "c.ndjson"))
    (dolist (session '(nil (:session (:id "c"))))
      (let ((answer (apply #'efrit-session-test--answer (if session "c2" "c") "chat"
                           efrit-session-test--hello session)))
        (should (equal (alist-get 'reason answer) "Rejected"))
        (should (string-search "/sessions/c.ndjson" (alist-get 'error answer)))))))

(ert-deftest efrit-session-a-damaged-history-is-refused-and-named ()
  (efrit-test-with-model-daemon nil
    (efrit-test-write "sessions" "c.ndjson" "{\"type\":\"message\",\"message\":5}\n")
    (dolist (session '(nil (:session (:id "c"))))
      (let ((answer (apply #'efrit-session-test--answer (if session "c2" "c") "chat"
                           efrit-session-test--hello session)))
        (should (equal (alist-get 'reason answer) "Rejected"))
        (should (string-search "/sessions/c.ndjson is not a record" (alist-get 'error answer)))))))

(ert-deftest efrit-session-a-nul-that-the-model-says-ends-nothing-and-is-kept ()
  (efrit-test-with-model-daemon nil
    (efrit-test-model-play "nul" "
[[turn]]
[[turn.reply]]
tool = \"todo_add\"
input = {content = \"Count\\u0000\"}
[[turn]]
[[turn.reply]]
tool = \"eval_sexp\"
input = {expr = \"(list \\\"a\\u0000b\\\" (length \\\"a\\u0000b\\\"))\"}
[[turn]]
[[turn.reply]]
tool = \"session_complete\"
input = {message = \"x\\u0000y {{last_result}}\"}
[[turn]]
[[turn.reply]]
text = \"z\\u0000\"
")
    (let ((answer (efrit-session-test--answer "n" "command" "Count (scenario=nul)")))
      (should (equal (alist-get 'reason answer) "Succeeded"))
      (should (string-search "x\\000y" (alist-get 'result answer)))
      (should (string-search "(\"a\\000b\" 3)" (alist-get 'result answer))))
    (let ((answer (efrit-session-test--answer "n2" "chat" "And?" :session '(:id "n"))))
      (should (equal (alist-get 'reason answer) "Succeeded"))
      (should (equal (alist-get 'result answer) "z\\000")))
    (should (equal (seq-elt (reverse (efrit-history-to-send (efrit-history-open "n"))) 0)
                   '((role . "assistant") (content . [((type . "text") (text . "z\\000"))]))))))

(ert-deftest efrit-session-a-budget-that-ends-keeps-what-was-done ()
  (efrit-test-with-model-daemon nil
    (let ((answer (efrit-session-test--answer "b" "command" "scenario=many-calls go"
                                              :budget '(:max_tool_calls 4))))
      (should (equal (alist-get 'reason answer) "BudgetExhausted"))
      (should (equal (alist-get 'outcome answer) "Partial"))
      (should (= (efrit-session-test--get answer 'progress 'tool_calls) 4)))
    (let ((answer (efrit-session-test--answer "t" "command" "scenario=many-calls go"
                                              :budget '(:max_iterations 2))))
      (should (equal (alist-get 'reason answer) "BudgetExhausted"))
      (should (= (efrit-session-test--get answer 'usage 'model_calls) 2)))
    (let ((answer (efrit-session-test--answer "u" "command" "scenario=many-calls go"
                                              :budget '(:max_tokens 1))))
      (should (equal (alist-get 'reason answer) "BudgetExhausted"))
      (should (= (efrit-session-test--get answer 'usage 'model_calls) 1)))))

(ert-deftest efrit-session-a-turn-that-takes-too-long-ends-the-budget-and-keeps-what-was-said ()
  (efrit-test-with-model-daemon nil
    (let ((answer (efrit-session-test--answer "i" "command" "scenario=slow-command go"
                                              :budget '(:iteration_timeout 3))))
      (should (equal (alist-get 'reason answer) "BudgetExhausted"))
      (should (equal (alist-get 'outcome answer) "Partial"))
      (should (string-match-p "iterationTimeoutSeconds" (alist-get 'error answer))))))

(ert-deftest efrit-session-the-world-is-taken-down-once-and-kept-with-the-request ()
  (efrit-test-with-model-daemon nil
    (efrit-test-value "e" "(progn (with-current-buffer (get-buffer-create \"mine\") (insert \"x\")) t)")
    (write-region "" nil (concat efrit-workspace-directory "a-file"))
    (write-region "" nil (concat efrit-workspace-directory "größe"))
    (efrit-session-test--answer "k" "command" "scenario=twelve-steps go")
    (dolist (name '("progress/k.ndjson" "sessions/k.ndjson"))
      (let ((lines (seq-filter
                    (lambda (line) (string-match-p "\"buffers\":" line))
                    (split-string (efrit-test-read (file-name-directory name)
                                                   (file-name-nondirectory name))
                                  "\n"))))
        (should (seq-some (lambda (line)
                            (and (string-match-p "\"mine\"" line)
                                 (string-match-p "\"a-file\"" line)
                                 (string-match-p "\"größe\"" line)))
                          lines))))
    ;; What the model was sent of it.
    (let ((first (seq-first (efrit-history-to-send (efrit-history-open "k")))))
      (should (string-match-p "größe" (alist-get 'text (aref (alist-get 'content first) 1)))))
    (should (= 1 (seq-count (lambda (line) (string-match-p "\"type\":\"snapshot\"" line))
                            (split-string (efrit-test-read "progress" "k.ndjson") "\n"))))))

(ert-deftest efrit-session-names-of-buffers-and-files-fail-no-command-whatever-they-are ()
  (efrit-test-with-model-daemon nil
    (efrit-test-value "e" "(progn (get-buffer-create \"nul\\0name\")
                                  (get-buffer-create (make-string 1000000 ?n))
                                  (dotimes (i 300) (get-buffer-create (format \"%s-%d\" (make-string 2000 ?m) i)))
                                  t)")
    (let ((answer (efrit-session-test--answer "k" "command" "scenario=twelve-steps go")))
      (should (equal (alist-get 'reason answer) "Succeeded")))
    (should (< (file-attribute-size (file-attributes (efrit-files-path "sessions" "k.ndjson")))
               600000))))

(ert-deftest efrit-session-a-question-longer-than-a-model-is-sent-is-refused ()
  (efrit-test-with-model-daemon nil
    (let ((answer (efrit-session-test--answer "long" "chat"
                                              (concat "scenario=chat " (make-string 300000 ?x)))))
      (should (equal (alist-get 'reason answer) "Rejected"))
      (should (string-match-p "300016 bytes as JSON.*at most 300000.*file of the workspace"
                              (alist-get 'error answer))))))

(ert-deftest efrit-session-the-instances-limits-hold-for-all-requests-of-a-session ()
  (efrit-test-with-model-daemon '("EFRIT_MAX_TOOL_CALLS=3")
    (efrit-session-test--answer "b" "command" "scenario=many-calls go"
                                :budget '(:max_tool_calls 2))
    (let ((again (efrit-session-test--answer "c" "command" "scenario=many-calls go"
                                             :session '(:id "b"))))
      (should (equal (alist-get 'reason again) "CircuitBroken"))
      (should (= (efrit-session-test--get again 'progress 'tool_calls) 1)))
    (let ((refused (efrit-session-test--answer "d" "command" "scenario=many-calls go"
                                               :session '(:id "b"))))
      (should (equal (alist-get 'reason refused) "Rejected"))
      (should (string-match-p "used its 3 tool calls .*begin another session"
                              (alist-get 'error refused))))))

(ert-deftest efrit-session-the-circuit-counts-the-same-call-across-requests ()
  (efrit-test-with-model-daemon nil
    (dolist (id '("b" "c" "d"))
      (efrit-session-test--answer id "command" "scenario=same-calls go"
                                  :budget '(:max_tool_calls 1)
                                  :session (and (not (equal id "b")) '(:id "b"))))
    (let ((answer (efrit-session-test--answer "e" "command" "scenario=same-calls go"
                                              :session '(:id "b"))))
      (should (equal (alist-get 'reason answer) "CircuitBroken"))
      ;; The third one in a row; it would have run three of its own.
      (should (= (efrit-session-test--get answer 'progress 'tool_calls) 1)))))

(ert-deftest efrit-session-an-instance-bounds-turns-tokens-and-the-time-of-a-turn ()
  (pcase-dolist (`(,variable ,scenario ,reason ,text)
                 '(("EFRIT_MAX_ITERATIONS=2" "many-calls" "CircuitBroken" "used its 2 turns")
                   ("EFRIT_MAX_TOKENS=1" "many-calls" "CircuitBroken" "used its 1 tokens")
                   ("EFRIT_ITERATION_TIMEOUT=3" "slow-command" "BudgetExhausted"
                    "iterationTimeoutSeconds")))
    (efrit-test-with-model-daemon (list variable)
      (let ((answer (efrit-session-test--answer "b" "command"
                                                (format "scenario=%s go" scenario))))
        (should (equal (list variable (alist-get 'reason answer)) (list variable reason)))
        (should (string-match-p text (alist-get 'error answer)))))))

(ert-deftest efrit-session-no-budget-and-no-timeout-exceeds-a-limit ()
  (efrit-test-with-model-daemon '("EFRIT_MAX_TIMEOUT=600" "EFRIT_MAX_TOKENS=100000"
                                  "EFRIT_COMMAND_TIMEOUT=600")
    (pcase-dolist (`(,options . ,problem)
                   '(((:budget (:max_tool_calls 60))
                    . "max_tool_calls. is 60.*at most 30 (limits.maxToolCalls)")
                     ((:budget (:max_tokens 100001)) . "max_tokens. is 100001.*at most 100000")
                     ((:timeout 601) . "timeout. is 601, .*at most 600 (limits.maxTimeoutSeconds)")))
      (let ((answer (apply #'efrit-session-test--answer (symbol-name (gensym "r"))
                           "command" "scenario=many-calls go" options)))
        (should (equal (alist-get 'reason answer) "Rejected"))
        (should (string-match-p problem (alist-get 'error answer)))))))

(ert-deftest efrit-session-tools-that-there-are-not-are-not-denied-in-silence ()
  (pcase-dolist (`(,variables . ,problem)
                 '((("EFRIT_TOOLS_DENY=shell,eval_sexp") . "cannot name: shell;.*shell_exec")
                   (("EFRIT_TOOLS_DENY=eval_sexp" "EFRIT_MODEL_PROTOCOL=elisp")
                    . "do not allow eval_sexp")
                   (("EFRIT_TOOLS_ALLOW=file_read" "EFRIT_MODEL_PROTOCOL=elisp")
                    . "do not allow eval_sexp")))
    (efrit-test-with-model-daemon variables
      (let ((answer (efrit-session-test--answer "b" "command" "scenario=elisp go")))
        (should (equal (alist-get 'reason answer) "Rejected"))
        (should (string-match-p problem (alist-get 'error answer)))))))

(ert-deftest efrit-session-the-context-of-emacs-comes-with-the-answer-when-it-is-asked-for ()
  (efrit-test-with-model-daemon nil
    (should-not (alist-get 'context (efrit-session-test--answer "n" "chat" "scenario=chat go")))
    (let ((context (alist-get 'context (efrit-session-test--answer
                                        "c" "chat" "scenario=chat go" :return_context t))))
      (should (equal (alist-get 'current_buffer context) "*scratch*")))
    (let ((context (alist-get 'context (efrit-session-test--answer
                                        "k" "command" "scenario=hello-buffer go"
                                        :return_context t))))
      (should (equal (alist-get 'current_buffer context) "test.txt"))
      (should (= (alist-get 'cursor_position context) 12))
      (should (seq-contains-p (alist-get 'buffers context) "test.txt")))))

(ert-deftest efrit-session-errors-of-the-model-are-retried-or-reported ()
  (efrit-test-with-model-daemon nil
    (dolist (scenario '("rate-limited" "overloaded" "server-error" "cut"))
      (let ((answer (efrit-session-test--answer scenario "chat"
                                                (format "scenario=%s go" scenario))))
        (should (equal (list scenario (alist-get 'reason answer)) (list scenario "Succeeded")))
        (should (efrit-session-test--get answer 'usage 'model_errors))))
    (let ((answer (efrit-session-test--answer "r" "chat" "scenario=key-refused go")))
      (should (equal (alist-get 'reason answer) "ModelError"))
      (should (equal (alist-get 'outcome answer) "Failure")))))

(defconst efrit-session-test--refactoring "
[[turn]]
[[turn.reply]]
text = '''
{
  \"elisp\": \"(list :function (thing-at-point 'defun) :mode major-mode)\",
  \"session\": {\"id\": \"ref-123\", \"status\": \"continue\"}
}'''
[[turn]]
expect.user = [\":function .*:mode lisp-interaction-mode\"]
[[turn.reply]]
text = '''
{
  \"elisp\": \"(list :imports (efrit-context-find-imports) :test-file (efrit-find-test-file))\",
  \"session\": {\"id\": \"ref-123\", \"status\": \"continue\"}
}'''
[[turn]]
expect.user = [\"void-function\"]
[[turn.reply]]
text = '''{\"elisp\": \"(list :buffer (buffer-name) :mode major-mode)\", \"session\": {\"id\": \"ref-123\", \"status\": \"continue\"}}'''
[[turn]]
expect.user = [\":buffer \"]
[[turn.reply]]
text = '''{\"elisp\": \"(message \\\"Working on refactoring...\\\")\", \"session\": {\"id\": \"ref-123\", \"status\": \"continue\"}}'''
[[turn]]
expect.user = [\"Working on refactoring\"]
[[turn.reply]]
text = '''{\"elisp\": \"(read-string \\\"Prompt: \\\")\", \"session\": {\"id\": \"ref-123\", \"status\": \"continue\"}}'''
[[turn]]
expect.user = [\"error\"]
[[turn.reply]]
text = '''
{
  \"elisp\": \"(progn (goto-char ...) (delete-region ...) (insert ...) \\\"Refactored to async/await\\\")\",
  \"session\": {\"id\": \"ref-123\", \"status\": \"complete\"}
}'''
[[turn]]
expect.user = [\"void-variable\"]
[[turn.reply]]
text = '''{\"elisp\": \"(progn (goto-char 1) (delete-region 1 2) (insert ?x) \\\"Refactored to async/await\\\")\", \"session\": {\"id\": \"ref-123\", \"status\": \"complete\"}}'''
"
  "The session of the original design.
Its dots are an error that the model gets; then it says what they stand for.")

(ert-deftest efrit-session-the-session-of-the-original-design-runs-as-written ()
  (efrit-test-with-model-daemon '("EFRIT_MODEL_PROTOCOL=elisp")
    (efrit-test-model-play "refactoring" efrit-session-test--refactoring)
    (let ((answer (efrit-session-test--answer
                   "r" "command" "refactor this function to use async/await (scenario=refactoring)")))
      (should (equal (alist-get 'reason answer) "Succeeded"))
      (should (equal (alist-get 'result answer) "\"Refactored to async/await\""))
      ;; A session is named by its first request, whatever the model calls it.
      (should (equal (efrit-session-test--get answer 'session 'id) "r")))))

(defconst efrit-session-test--resumed "
description = \"Counts, then waits; once it knows that it was interrupted, it ends\"
[[turn]]
[[turn.reply]]
tool = \"todo_add\"
input = {content = \"Count\"}
[[turn]]
[[turn.reply]]
tool = \"eval_sexp\"
input = {expr = '(write-region \"x\" nil \"first\" t 0)'}
[[turn]]
[[turn.reply]]
tool = \"eval_sexp\"
input = {expr = '(progn (write-region \"x\" nil \"second\" t 0) (sleep-for 600))'}
[[turn]]
expect.anywhere = [\"interrupted\"]
[[turn.reply]]
tool = \"session_complete\"
input = {message = \"Done.\"}
"
  "A scenario whose Emacs is killed in its third turn.")

(ert-deftest efrit-session-interrupted-by-the-end-of-emacs-it-ends-or-goes-on-as-its-request-says ()
  (efrit-test-with-model-daemon nil
    (efrit-session-test--ask "never" "chat" "scenario=slow go")
    (efrit-test-model-play "resumed" efrit-session-test--resumed)
    (efrit-session-test--ask "again" "command" "scenario=resumed go"
                             :retry "if-interrupted" :max_attempts 2)
    (efrit-test-wait (and (efrit-test-running-p "never") (efrit-test-running-p "again")))
    (efrit-test-wait (file-exists-p (concat efrit-workspace-directory "second")))
    (efrit-test-daemon-end 'SIGKILL)
    (apply #'efrit-test-daemon-start (efrit-test-model-environment))
    (should (equal (alist-get 'reason (efrit-test-answer "never")) "Interrupted"))
    (let ((answer (efrit-test-answer "again")))
      (should (equal (alist-get 'reason answer) "Succeeded"))
      (should (= (alist-get 'attempt answer) 2)))
    ;; What had been done was not done again, and what had been begun was reported to the model.
    (should (equal (with-temp-buffer
                     (insert-file-contents (concat efrit-workspace-directory "first"))
                     (buffer-string))
                   "x"))))

(defconst efrit-session-test--dies-before-it-answers
  "(advice-add 'efrit-answer-store :before
               (lambda (answer)
                 (when (equal (efrit-answer-id answer) \"late\")
                   (signal-process (emacs-pid) 'SIGKILL)
                   (sleep-for 60))))"
  "Has Emacs end when all is known and nothing is answered.")

(ert-deftest efrit-session-an-end-that-could-not-be-answered-is-answered-by-the-next-emacs ()
  (dolist (case `(("chat" . ,efrit-session-test--hello)
                  ("command" . "scenario=twelve-steps go")
                  ("command" . "scenario=question go")))
    (efrit-test-with-model-daemon nil
      (let ((expected (efrit-session-test--answer "soon" (car case) (cdr case)))
            (names '(reason outcome status result error)))
        (efrit-test-value "e" efrit-session-test--dies-before-it-answers)
        (efrit-session-test--ask "late" (car case) (cdr case)
                                 :retry "if-interrupted" :max_attempts 2)
        (efrit-test-wait (efrit-test-daemon-gone-p))
        (let ((before (efrit-test-read "sessions" "late.ndjson")))
          (apply #'efrit-test-daemon-start (efrit-test-model-environment))
          (let ((answer (efrit-test-answer "late")))
            (should (= (alist-get 'attempt answer) 2))
            (dolist (name names)
              (should (equal (alist-get name answer) (alist-get name expected))))
            (dolist (path '((usage model_calls) (progress tool_calls) (session status) (session question)))
              (should (equal (apply #'efrit-session-test--get answer path)
                             (apply #'efrit-session-test--get expected path)))))
          ;; Neither the model was asked again nor a tool run.
          (should (equal (efrit-test-read "sessions" "late.ndjson") before)))))))

(ert-deftest efrit-session-what-continues-a-session-waits-for-what-is-under-way-in-it ()
  (efrit-test-with-model-daemon nil
    (efrit-session-test--answer "c1" "chat" efrit-session-test--hello)
    (efrit-session-test--ask "c2" "chat" "What did I just learn?" :session '(:id "c1"))
    (efrit-session-test--ask "c3" "chat" "What did I do?" :session '(:id "c1"))
    (efrit-test-answer "c2")
    (efrit-test-answer "c3")
    ;; Had they run at once, neither would know the other.
    (let ((roles (mapcar (lambda (message) (alist-get 'role message))
                         (efrit-history-to-send (efrit-history-open "c1")))))
      (should (equal (seq-take roles 4) '("user" "assistant" "user" "assistant"))))))

(ert-deftest efrit-session-a-call-whose-input-is-not-an-object-is-refused ()
  (let ((efrit-session-wake-function #'ignore)
        (session (efrit-session-make :kind 'command :state 'acting
                                      :current '((id . "a"))
                                      :unreadable '(("a" . "{oops")))))
    (efrit-session--start-tool session "eval_sexp" nil)
    (let ((result (efrit-session-outcome session)))
      (should (equal (efrit-tool-result-status result) "refused"))
      (should (string-match-p "{oops" (efrit-tool-result-content result))))
    (should (eq (efrit-session-state session) 'acted))))

(ert-deftest efrit-session-the-key-is-shown-nowhere ()
  (efrit-test-with-model-daemon nil
    (let ((key (efrit-test-model-key)))
      (should-not (string-match-p
                   key (efrit-test-value
                        "e" "(with-temp-buffer (insert-file-contents efrit-model-api-key-file) (buffer-string))")))
      (efrit-session-test--answer "k" "command" "scenario=shell go")
      ;; No file is moved while it is read.
      (efrit-test-wait (member "req_k.json" (efrit-test-names "archive")))
      (dolist (part '("responses" "archive" "progress" "sessions"))
        (dolist (name (efrit-test-names part))
          (should-not (string-match-p (regexp-quote key) (efrit-test-read part name)))))
      (should-not (string-match-p (regexp-quote key)
                                  (with-current-buffer "*efrit-test-daemon*"
                                    (buffer-string)))))))

(defconst efrit-session-test--rotates
  "(let ((key (concat \"sk-rota\" \"ted\")))
     (write-region key nil efrit-model-api-key-file nil 'silent)
     key)"
  "Code during which the key is replaced, and which reads the new one.")

(ert-deftest efrit-session-a-key-replaced-while-code-runs-is-shown-nowhere ()
  (dolist (type '("eval" "command"))
    (efrit-test-with-model-daemon nil
      (efrit-test-model-play
       "rotates" (format "[[turn]]\n[[turn.reply]]\ntool = \"todo_add\"\ninput = {content = \"Read\"}\n
[[turn]]\n[[turn.reply]]\ntool = \"eval_sexp\"\ninput = {expr = '''%s''', final = true}\n"
                         efrit-session-test--rotates))
      (let ((answer (efrit-session-test--answer
                     "k" type (if (equal type "eval") efrit-session-test--rotates
                                "scenario=rotates go"))))
        (should (equal (alist-get 'result answer) "\"[API key]\"")))
      (dolist (part '("responses" "progress" "sessions"))
        (dolist (name (efrit-test-names part))
          (should-not (string-search "sk-rotated" (efrit-test-read part name))))))))

(ert-deftest efrit-session-a-name-that-has-the-key-in-it-stays-the-name-of-its-answer ()
  (efrit-test-with-model-daemon nil
    (let ((id (concat (efrit-test-model-key) "-1")) (pid (process-id efrit-test-daemon)))
      (should (equal (efrit-session-test--get
                      (efrit-session-test--answer id "chat" efrit-session-test--hello)
                      'session 'id)
                     id))
      (let ((second (efrit-session-test--answer (concat (efrit-test-model-key) "-2") "chat"
                                                "What did I just learn?" :session (list :id id))))
        (should (equal (alist-get 'reason second) "Succeeded"))
        (should (equal (efrit-session-test--get second 'session 'id) id)))
      (should (equal (efrit-test-value "pid" "(emacs-pid)") (number-to-string pid))))))

(ert-deftest efrit-session-a-key-too-short-to-be-one-is-refused-and-changes-no-answer ()
  (dolist (key '("x" "1" "test" "result"))
    (efrit-test-with-model-daemon nil
      (write-region key nil efrit-test-model--key-file nil 'silent)
      (let ((answer (efrit-session-test--answer "e" "eval" "(list \"the latest result\" 11)")))
        (should (equal (alist-get 'result answer) "(\"the latest result\" 11)"))
        (should (equal (alist-get 'reason answer) "Succeeded")))
      (let ((answer (efrit-session-test--answer "c" "chat" efrit-session-test--hello)))
        (should (equal (alist-get 'reason answer) "ModelError"))
        (should (equal (alist-get 'error_code answer) "no-key"))
        (should (string-prefix-p "The key in " (alist-get 'error answer)))
        (should (string-suffix-p " has fewer than 8 characters: put a longer one there"
                                 (alist-get 'error answer)))))))

(ert-deftest efrit-session-a-question-ends-the-request-and-its-answer-continues ()
  (efrit-test-with-model-daemon nil
    (let* ((asked (efrit-session-test--answer "q1" "command" "scenario=question go"))
           (session (alist-get 'session asked)))
      (should (equal (alist-get 'reason asked) "InputRequired"))
      (should (equal (alist-get 'outcome asked) "Partial"))
      (should (equal (alist-get 'status session) "need-input"))
      (should (stringp (alist-get 'question session)))
      (let ((done (efrit-session-test--answer "q2" "command" "Blue"
                                              :session (list :id (alist-get 'id session)))))
        (should (equal (alist-get 'reason done) "Succeeded"))))))

(provide 'efrit-session-test)
;;; efrit-session-test.el ends here
