;;; efrit-session-fault-test.el --- Faults at every record of a session  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Each step of a session records before it acts.  Here every append to a session's
;; file fails in turn, in three ways, four times and, where that leaves something
;; behind, once; or Emacs is killed at it, in the first request of a session and in a
;; later one.  The answer must be the one of an undisturbed run.

;;; Code:

(require 'cl-lib)
(require 'efrit-test-queue)
(require 'efrit-test-daemon)
(require 'efrit-test-model)
(require 'efrit-session-history)

(defconst efrit-session-fault-test--injector
  "(progn
     (defvar faults (make-hash-table :test #'equal))
     (defvar ran 0)
     (setq efrit-session-retry-first 0.01)
     (cl-progv '(comp-enable-subr-trampolines native-comp-enable-subr-trampolines) '(nil nil)
       (advice-add
        'write-region :around
        (lambda (function start end path &rest arguments)
          (let* ((id (and (stringp path)
                          (string-match \"/sessions/\\\\([^/]+\\\\)\\\\.ndjson\\\\'\" path)
                          (match-string 1 path)))
                 (fault (and id (gethash id faults))))
            (if (not (and fault (= 0 (cl-decf (nth 0 fault)))))
                (apply function start end path arguments)
              (let ((how (nth 2 fault)))
                (cond ((< 0 (cl-decf (nth 1 fault))) (setf (nth 0 fault) 1))
                      (t (remhash id faults)))
                (pcase how
                  ((or 'torn 'killed-torn)
                   (apply function (substring start 0 (/ (length start) 2)) end path arguments))
                  ((or 'after 'killed-after) (apply function start end path arguments)))
                (when (memq how '(killed-before killed-torn killed-after))
                  (signal-process (emacs-pid) 'SIGKILL)
                  (sleep-for 60))
                (signal 'file-error (list \"Writing\" \"No space left on device\" path))))))))
     t)"
  "Has appends to the files of sessions fail as the table `faults' says.")

(defconst efrit-session-fault-test--scenarios
  '(("said" "chat" ("Hello (scenario=said)" "And then?") "
[[turn]]
[[turn.reply]]
text = \"The first.\"
[[turn]]
[[turn.reply]]
text = \"The second.\"
")
    ("cut-short" "chat" ("Hello (scenario=cut-short)" "And then?") "
[[turn]]
stop_reason = \"max_tokens\"
[[turn.reply]]
text = \"Once upon\"
[[turn]]
stop_reason = \"max_tokens\"
[[turn.reply]]
text = \"a time\"
")
    ("refused" "chat" ("Hello (scenario=refused)" "And then?") "
[[turn]]
stop_reason = \"refusal\"
[[turn.reply]]
text = \"No.\"
[[turn]]
stop_reason = \"refusal\"
[[turn.reply]]
text = \"No again.\"
")
    ("worked" "command" ("Work (scenario=worked)" "More") "
[[turn]]
[[turn.reply]]
tool = \"todo_add\"
input = {content = \"Work\"}
[[turn]]
[[turn.reply]]
text = \"Now.\"
[[turn.reply]]
tool = \"eval_sexp\"
input = {expr = '(setq ran (1+ (or (bound-and-true-p ran) 0)) done 7)'}
[[turn.reply]]
tool = \"eval_sexp\"
input = {expr = '(setq ran (1+ (or (bound-and-true-p ran) 0)) done 7)'}
[[turn]]
[[turn.reply]]
tool = \"eval_sexp\"
input = {expr = '(setq ran (1+ (or (bound-and-true-p ran) 0)) done 7)'}
[[turn.reply]]
tool = \"session_complete\"
input = {message = \"Worked.\"}
[[turn]]
[[turn.reply]]
tool = \"eval_sexp\"
input = {expr = '(setq ran (1+ (or (bound-and-true-p ran) 0)) done 8)', final = true}
")
    ("asked" "command" ("Ask (scenario=asked)" "Blue") "
[[turn]]
[[turn.reply]]
tool = \"todo_add\"
input = {content = \"Ask\"}
[[turn]]
[[turn.reply]]
tool = \"request_user_input\"
input = {question = \"Which?\"}
[[turn]]
[[turn.expect.results]]
tool = \"request_user_input\"
failed = false
contains = [\"Blue\"]
[[turn.reply]]
tool = \"session_complete\"
input = {message = \"Got it.\"}
")
    ("call-cut" "command" ("Write (scenario=call-cut)" "More") "
[[turn]]
[[turn.reply]]
tool = \"todo_add\"
input = {content = \"Write\"}
[[turn]]
stop_reason = \"max_tokens\"
[[turn.reply]]
tool = \"eval_sexp\"
loose = true
input = {expr = '(setq ran (1+ (or (bound-and-true-p ran) 0)))'}
[[turn]]
[[turn.expect.results]]
tool = \"eval_sexp\"
failed = true
[[turn.reply]]
tool = \"session_complete\"
input = {message = \"Shorter.\"}
[[turn]]
stop_reason = \"max_tokens\"
[[turn.reply]]
tool = \"eval_sexp\"
loose = true
input = {expr = '(setq ran (1+ (or (bound-and-true-p ran) 0)))'}
[[turn]]
[[turn.reply]]
tool = \"session_complete\"
input = {message = \"Shorter still.\"}
"))
  "Conversations: name, type, the texts of two requests, what the model says.")

(defconst efrit-session-fault-test--lisp-scenario
  '("lisp" "command" ("Add (scenario=lisp)" "More") "
protocol = \"elisp\"
[[turn]]
[[turn.reply]]
elisp = \"(setq ran (1+ (or (bound-and-true-p ran) 0)) done 7)\"
[[turn]]
[[turn.reply]]
text = \"no Lisp\"
[[turn]]
[[turn.reply]]
elisp = \"(setq ran (1+ (or (bound-and-true-p ran) 0)) done 60)\"
status = \"complete\"
[[turn]]
[[turn.reply]]
elisp = \"(ignore)\"
status = \"need-input\"
question = \"Why?\"
")
  "The same for a model that answers with Lisp.")

;;;; Running one conversation

(defun efrit-session-fault-test--ask (scenario turn session id)
  "Submit request ID: the request number TURN of SCENARIO, in SESSION."
  (efrit-test-submit
   id :type (nth 1 scenario) :content (nth turn (nth 2 scenario))
   :options `(:timeout 600 :retry "if-interrupted" :max_attempts 3
              ,@(unless (equal session id) `(:session (:id ,session))))))

(defun efrit-session-fault-test--facts (answer session)
  "Return of ANSWER, and of the conversation of SESSION, what must be the same."
  (let-alist answer
    (list .reason .outcome .status
          (and .result (string-replace session "SESSION" .result))
          .error .session.status .session.question
          .progress.tool_calls .progress.step .usage.model_calls
          (mapcar (lambda (message)
                    (cons (alist-get 'role message)
                          (mapcar (lambda (block) (alist-get 'type block))
                                  (alist-get 'content message))))
                  (efrit-history-to-send (efrit-history-open session))))))

(defun efrit-session-fault-test--lines (session)
  "Return how many records SESSION has."
  (if (file-exists-p (efrit-history-path session))
      (length (split-string (efrit-test-read "sessions" (concat session ".ndjson")) "\n" t))
    0))

(defun efrit-session-fault-test--plan (faults)
  "Have FAULTS happen, a list of (SESSION SITE TIMES HOW)."
  (dolist (answer (list (efrit-test-eval
                         (format "plan-%s-%s" (caar faults) (efrit-session-fault-test--lines (caar faults)))
                         (format "(dolist (fault '%S) (puthash (car fault) (cdr fault) faults))"
                                 faults))))
    (should (equal (alist-get 'reason answer) "Succeeded"))))

(defun efrit-session-fault-test--prefix (turn id)
  "Return the id of the request number TURN of the session ID."
  (if (= turn 0) id (format "%s-%d" id turn)))

(defun efrit-session-fault-test--undisturbed (scenario)
  "Play SCENARIO; return for each request (FACTS . NUMBER-OF-RECORDS)."
  (efrit-test-model-play (car scenario) (format "description = \"Plays\"\n%s" (nth 3 scenario)))
  (let ((session (concat "plain-" (car scenario))) (records 0))
    (cl-loop for turn from 0 below (length (nth 2 scenario))
             collect
             (let ((id (efrit-session-fault-test--prefix turn session)))
               (efrit-session-fault-test--ask scenario turn session id)
               (let* ((answer (efrit-test-answer id))
                      (lines (efrit-session-fault-test--lines session)))
                 (prog1 (cons (efrit-session-fault-test--facts answer session)
                              (- lines records))
                   (setq records lines)))))))

;;;; Every append fails

(defun efrit-session-fault-test--fail-everywhere (scenario)
  "Have each append of each request of SCENARIO fail, and compare the answers."
  (let ((plain (efrit-session-fault-test--undisturbed scenario)))
    (cl-loop
     for (facts . records) in plain for turn from 0 do
     (let (faults)
       (should (> records 1))
       (dotimes (site records)
         (dolist (how '(before torn after))
           (dolist (times (if (eq how 'before) '(4) '(1 4)))
             (push (list (format "%s-t%d-%d-%s-%d" (car scenario) turn (1+ site) how times)
                         (1+ site) times how)
                   faults))))
       (dotimes (earlier turn)
         (pcase-dolist (`(,session . ,_) faults)
           (efrit-session-fault-test--ask
            scenario earlier session (efrit-session-fault-test--prefix earlier session)))
         (pcase-dolist (`(,session . ,_) faults)
           (efrit-test-answer (efrit-session-fault-test--prefix earlier session))))
       (efrit-session-fault-test--plan faults)
       (pcase-dolist (`(,session . ,_) faults)
         (efrit-session-fault-test--ask
          scenario turn session (efrit-session-fault-test--prefix turn session)))
       (pcase-dolist (`(,session . ,_) faults)
         (ert-info (session :prefix "Fault: ")
           (should (equal (efrit-session-fault-test--facts
                           (efrit-test-answer
                            (efrit-session-fault-test--prefix turn session))
                           session)
                          facts))))
       (should (equal (efrit-test-value (format "left-%s-%d" (car scenario) turn)
                                        "(hash-table-count faults)")
                      "0"))))))

(ert-deftest efrit-session-fault-a-record-that-cannot-be-written-at-first-changes-no-answer ()
  (efrit-test-with-model-daemon nil
    (should (equal (efrit-test-value "inject" efrit-session-fault-test--injector) "t"))
    (mapc #'efrit-session-fault-test--fail-everywhere efrit-session-fault-test--scenarios)))

(ert-deftest efrit-session-fault-a-record-of-answers-with-lisp-that-cannot-be-written-at-first-changes-none ()
  (efrit-test-with-model-daemon '("EFRIT_MODEL_PROTOCOL=elisp")
    (should (equal (efrit-test-value "inject" efrit-session-fault-test--injector) "t"))
    (efrit-session-fault-test--fail-everywhere efrit-session-fault-test--lisp-scenario)))

;;;; Emacs ends at every append

(defun efrit-session-fault-test--kill-everywhere (scenario environment)
  "Kill Emacs, started with ENVIRONMENT, at each append of SCENARIO.
The answer must be the same, but where the model learns of a call cut short."
  (efrit-test-eval (concat "inject-" (car scenario)) efrit-session-fault-test--injector)
  (let ((plain (efrit-session-fault-test--undisturbed scenario)))
    (cl-loop
     for (facts . records) in plain for turn from 0 do
     (dotimes (site records)
       (let* ((session (format "%s-k%d-%d" (car scenario) turn (1+ site)))
              (id (efrit-session-fault-test--prefix turn session)))
         (dotimes (earlier turn)
           (efrit-session-fault-test--ask
            scenario earlier session (efrit-session-fault-test--prefix earlier session))
           (efrit-test-answer
            (efrit-session-fault-test--prefix earlier session)))
         (efrit-test-eval (concat "inject-" id) efrit-session-fault-test--injector)
         (efrit-session-fault-test--plan (list (list session (1+ site) 1 'killed-torn)))
         (efrit-session-fault-test--ask scenario turn session id)
         (efrit-test-wait (efrit-test-daemon-gone-p))
         (apply #'efrit-test-daemon-start
                (append environment (efrit-test-model-environment)))
         (let ((answer (efrit-test-answer id)))
           (ert-info (id :prefix "Fault: ")
             (should (= (alist-get 'attempt answer) 2))
             (unless (string-search "It was interrupted"
                                    (efrit-test-read "sessions" (concat session ".ndjson")))
               (should (equal (seq-take (efrit-session-fault-test--facts answer session) 9)
                              (seq-take facts 9)))))))))))

(ert-deftest efrit-session-fault-the-end-of-emacs-at-any-record-changes-no-answer ()
  (efrit-test-with-model-daemon nil
    (dolist (scenario efrit-session-fault-test--scenarios)
      (efrit-session-fault-test--kill-everywhere scenario nil))))

(ert-deftest efrit-session-fault-the-end-of-emacs-at-any-record-changes-no-answer-with-lisp ()
  (let ((environment '("EFRIT_MODEL_PROTOCOL=elisp")))
    (efrit-test-with-model-daemon environment
      (efrit-session-fault-test--kill-everywhere
       efrit-session-fault-test--lisp-scenario environment))))

;;;; One that can never be written

(ert-deftest efrit-session-fault-a-session-that-cannot-be-written-holds-back-nobody-else ()
  (efrit-test-with-model-daemon nil
    (efrit-test-model-play "said" (format "description = \"Plays\"\n%s"
                                          (nth 3 (assoc "said" efrit-session-fault-test--scenarios))))
    (efrit-test-eval "inject" efrit-session-fault-test--injector)
    (efrit-session-fault-test--plan '(("blocked" 1 1000000 before)))
    (efrit-test-submit "blocked" :type "chat" :content "Hello (scenario=said)"
                       :options '(:timeout 600))
    (efrit-test-wait (efrit-test-running-p "blocked"))
    (dotimes (number 5)
      (should (equal (efrit-test-value (format "e%d" number) "(+ 1 2)") "3")))
    (efrit-test-submit "free" :type "chat" :content "Hello (scenario=said)")
    (should (equal (alist-get 'result (efrit-test-answer "free")) "The first."))
    (should-not (efrit-test-answer-p "blocked"))
    (let ((answer (efrit-test-stop "blocked" "TimedOut")))
      (should (equal (alist-get 'reason answer) "TimedOut"))
      (should (string-search "could not be recorded: Writing: No space left on device"
                             (alist-get 'error answer))))))

;;;; Files of an earlier version

(defconst efrit-session-fault-test--released
  (concat
   "{\"type\":\"request\",\"request\":\"s\",\"kind\":\"chat\",\"snapshot\":{}}\n"
   "{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":"
   "[{\"type\":\"text\",\"text\":\"Hello (scenario=said)\"}]}}\n"
   "{\"type\":\"message\",\"message\":{\"role\":\"assistant\",\"content\":"
   "[{\"type\":\"text\",\"text\":\"The first.\"}]},\"tokens\":9}\n"
   "{\"type\":\"end\",\"request\":\"s\",\"reason\":\"Succeeded\",\"outcome\":\"Success\","
   "\"error\":null,\"code\":null,\"text\":\"The first.\",\"seconds\":0.1,\"told\":{}}\n")
  "A session as version 0.1 wrote it.")

(ert-deftest efrit-session-fault-a-session-of-the-version-before-goes-on ()
  (dolist (begun '("" "{\"type\":\"request\",\"request\":\"s-1\",\"kind\":\"chat\",\"snapshot\":{}}\n"))
    (efrit-test-with-model-daemon nil
      (efrit-test-model-play "said" (format "description = \"Plays\"\n%s"
                                            (nth 3 (assoc "said" efrit-session-fault-test--scenarios))))
      ;; That version wrote what is asked after the request: a crash came in between.
      (efrit-test-write "sessions" "s.ndjson"
                        (concat efrit-session-fault-test--released begun))
      (efrit-session-fault-test--ask (assoc "said" efrit-session-fault-test--scenarios)
                                     1 "s" "s-1")
      (should (equal (alist-get 'result (efrit-test-answer "s-1"))
                     "The second."))
      (should (= (length (efrit-history-to-send (efrit-history-open "s"))) 4)))))

(provide 'efrit-session-fault-test)
;;; efrit-session-fault-test.el ends here
