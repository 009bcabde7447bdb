;;; efrit-server-test.el --- Tests of answering in a daemon  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What a client sees: files in, files out, with nothing but the daemon.

;;; Code:

(require 'efrit-test-daemon)

(defun efrit-server-test--order (ids)
  "Return IDS in the order in which their evaluation began."
  (let ((journal (split-string (efrit-test-read "" "claims.log") "\n" t)))
    (seq-filter (lambda (id) (member id ids))
                (mapcar (lambda (line) (car (split-string line))) journal))))

(ert-deftest efrit-server-work-that-an-event-begins-has-the-handlers-of-files ()
  (efrit-test-with-daemon ()
    (let ((file (concat efrit-workspace-directory "text.gz")))
      (let ((coding-system-for-write 'utf-8)) (write-region "inside" nil file nil 'silent))
      (should (equal "\"inside\""
                     (efrit-test-value
                      "read" (format "(with-temp-buffer (insert-file-contents %S) (buffer-string))" file)))))
    (efrit-test-eval "add" "(push '(\"\\\\`/mine:\" . ignore) file-name-handler-alist)")
    (should (equal "ignore" (efrit-test-value "find" "(find-file-name-handler \"/mine:\" 'load)")))))

(ert-deftest efrit-server-answers-the-published-example-without-a-bridge ()
  (efrit-test-with-daemon ("EFRIT_BRIDGE=0")
    (efrit-test-write "requests" "req_efrit_1735939200_1234.json"
                      "{
  \"id\": \"efrit_1735939200_1234\",
  \"type\": \"eval\",
  \"content\": \"(with-current-buffer (get-buffer-create \\\"test.txt\\\") (insert \\\"hello\\\") (buffer-string))\",
  \"options\": {
    \"timeout\": 30,
    \"return_context\": true
  }
}
")
    (let* ((answer (efrit-test-answer "efrit_1735939200_1234"))
           (context (alist-get 'context answer)))
      (should (equal (alist-get 'status answer) "success"))
      (should (equal (alist-get 'result answer) "\"hello\""))
      (should (floatp (alist-get 'execution_time answer)))
      (should (string-match-p "\\`[0-9-]+T[0-9:.]+Z\\'" (alist-get 'timestamp answer)))
      (should (= (alist-get 'buffer_count context) (length (alist-get 'buffers context))))
      (should (seq-contains-p (alist-get 'buffers context) "test.txt"))
      (should (equal (alist-get 'current_buffer context) "*scratch*"))
      (should (natnump (alist-get 'cursor_position context))))))

(ert-deftest efrit-server-an-answer-has-every-member-of-the-protocol ()
  (efrit-test-with-daemon ()
    (let ((answer (efrit-test-eval "a" "(+ 1 2)")))
      (pcase-dolist (`(,member . ,value)
                     `((id . "a") (version . "1.0.0") (status . "success") (result . "3")
                       (error . nil) (context . nil) (reason . "Succeeded")
                       (outcome . "Success") (attempt . 1) (output . "") (messages . "")
                       (truncated . nil) (result_bytes . 1) (result_path . nil)
                       (error_code . nil) (sha256 . ,(secure-hash 'sha256 "3"))))
        (should (assq member answer))
        (should (equal (alist-get member answer) value)))
      (should (string-match-p "\\`[0-9-]+T[0-9:]+\\.[0-9]\\{3\\}Z\\'"
                              (alist-get 'started answer))))
    (efrit-test-wait (member "req_a.json" (efrit-test-names "archive")))
    (should-not (efrit-test-names "processing"))
    (should-not (efrit-test-names "requests"))
    (should (= (file-modes (efrit-files-path "responses/resp_a.json")) #o600))))

(ert-deftest efrit-server-notices-files-however-they-arrive ()
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=60")
    (efrit-test-write "requests" "written.json" (efrit-test-request "written"))
    (efrit-test-answer "written")
    (efrit-test-submit "moved")
    (efrit-test-answer "moved")
    (efrit-test-write "requests" "renamed.json.part" (efrit-test-request "renamed"))
    (rename-file (efrit-files-path "requests/renamed.json.part")
                 (efrit-files-path "requests/renamed.json"))
    (efrit-test-answer "renamed")
    (efrit-test-write "tmp" "linked" (efrit-test-request "linked"))
    (add-name-to-file (efrit-files-path "tmp/linked")
                      (efrit-files-path "requests/linked.json"))
    (efrit-test-answer "linked")))

(ert-deftest efrit-server-finds-what-no-event-announced ()
  (efrit-test-with-daemon ()
    ;; Code of a request may take the watch away; the next tick looks for itself
    ;; before it sets up another.
    (efrit-test-eval "deaf" "(advice-add 'efrit-server--on-event :override #'ignore)")
    (efrit-test-submit "unheard")
    (should (equal (alist-get 'status (efrit-test-answer "unheard")) "success"))))

(ert-deftest efrit-server-deletes-large-results-whose-answers-are-gone ()
  (efrit-test-with-daemon ()
    (let ((path (alist-get 'result_path (efrit-test-eval "large" "(make-string 800000 ?x)"))))
      (should (file-exists-p path))
      (efrit-test-daemon-end)
      (delete-file (efrit-files-path "responses/resp_large.json"))
      (efrit-test-daemon-start)
      (efrit-test-wait (not (file-exists-p path))))))

(ert-deftest efrit-server-a-file-written-in-pieces-is-answered-once-whole ()
  (efrit-test-with-daemon ()
    (efrit-test-eval "patient" "(setq efrit-settle-seconds 600)")
    (let ((text (efrit-test-request "slow" :content "(+ 20 3)"))
          (path (efrit-files-path "requests/slow.json")))
      (dotimes (i (length text))
        (write-region (substring text i (1+ i)) nil path t 'silent))
      (should (equal (alist-get 'result (efrit-test-answer "slow")) "23")))))

(ert-deftest efrit-server-a-bad-file-is-rejected-and-archived ()
  (efrit-test-with-daemon ()
    (efrit-test-write "requests" "req_bad.json" "{\"id\": \"bad\", ")
    (efrit-test-write "requests" "no id here.json" "nonsense")
    (let ((answer (efrit-test-answer "bad")))
      (should (equal (alist-get 'reason answer) "Rejected"))
      (should (equal (alist-get 'status answer) "error")))
    (efrit-test-wait (seq-find (lambda (name) (string-prefix-p "resp_bad_" name))
                                  (efrit-test-names "responses")))
    (efrit-test-wait (member "req_bad.json" (efrit-test-names "archive")))
    (should-not (efrit-test-names "requests"))))

(ert-deftest efrit-server-what-is-not-for-it-is-refused-with-a-reason ()
  (efrit-test-with-daemon ("EFRIT_INSTANCE_ID=team/one")
    (efrit-test-submit "chat" :type "chat")
    (efrit-test-submit "command" :type "command")
    (efrit-test-submit "other" :instance_id "team/two" :content "(kill-emacs)")
    (efrit-test-submit "mine" :instance_id "team/one")
    (pcase-dolist (`(,id . ,reason) '(("chat" . "ModelNotConfigured")
                                      ("command" . "ModelNotConfigured")
                                      ("other" . "Rejected")
                                      ("mine" . "Succeeded")))
      (should (equal (alist-get 'reason (efrit-test-answer id)) reason)))))

(ert-deftest efrit-server-reports-its-stats ()
  (efrit-test-with-daemon ()
    (efrit-test-eval "a" "1")
    (efrit-test-eval "b" "(car 1)")
    (efrit-test-submit "stats" :type "status")
    (let ((stats (json-parse-string (alist-get 'result (efrit-test-answer "stats"))
                                    :object-type 'alist)))
      (pcase-dolist (`(,member . ,value)
                     `((processed . 2) (succeeded . 1) (failed . 1) (interrupted . 0)
                       (pending . 0) (current . "stats") (emacs_version . ,emacs-version)))
        (should (equal (alist-get member stats) value))))))

(ert-deftest efrit-server-beats-and-says-what-runs ()
  (efrit-test-with-daemon ()
    (let ((beat (efrit-test-heartbeat)))
      (should (equal (alist-get 'state beat) "idle"))
      (should (= (alist-get 'pid beat) (process-id efrit-test-daemon)))
      (efrit-test-wait (not (equal (alist-get 'time beat)
                                     (alist-get 'time (efrit-test-heartbeat))))))
    (efrit-test-submit "long" :content (efrit-test-held "long" "1") :options '(:timeout 17))
    (let ((beat (efrit-test-wait
                  (let ((beat (efrit-test-heartbeat)))
                    (and (equal (alist-get 'current beat) "long") beat)))))
      (should (equal (alist-get 'state beat) "busy"))
      (should (= (alist-get 'timeout beat) 17))
      (should (stringp (alist-get 'started beat))))
    (efrit-test-release "long")
    (efrit-test-wait (equal (alist-get 'state (efrit-test-heartbeat)) "idle"))
    (should (efrit-test-answer-p "long"))))

(ert-deftest efrit-server-rests-while-nothing-goes-on-and-nothing-is-left-behind ()
  (efrit-test-with-daemon nil
    (cl-flet ((rest () (alist-get 'rest (efrit-test-heartbeat))))
      (efrit-test-wait (equal (rest) 10.5))
      (should (equal (efrit-test-value "timer" "(progn (defvar my-timer (run-with-timer 1000 nil #'ignore)) 1)") "1"))
      (efrit-server-test--beats-p 3)
      (should-not (rest))
      ;; A request finds it awake or resting, and is begun at once.
      (should (equal (efrit-test-value "cancel" "(progn (cancel-timer my-timer) 2)") "2"))
      (efrit-test-wait (equal (rest) 10.5))
      (should (equal (efrit-test-value "advice" "(progn (advice-add 'efrit-queue-scan :before #'ignore) 3)") "3"))
      (efrit-server-test--beats-p 3)
      (should-not (rest))
      (should (equal (efrit-test-value "none" "(progn (advice-remove 'efrit-queue-scan #'ignore) 4)") "4"))
      (efrit-test-wait (equal (rest) 10.5))
      (let ((before (alist-get 'time (efrit-test-heartbeat))))
        (signal-process efrit-test-daemon 'SIGUSR2)
        (efrit-test-wait (not (equal before (alist-get 'time (efrit-test-heartbeat))))))))
  ;; Nobody would wake it where there is no bridge.
  (efrit-test-with-daemon ("EFRIT_BRIDGE=")
    (efrit-server-test--beats-p 3)
    (should-not (alist-get 'rest (efrit-test-heartbeat)))))

(ert-deftest efrit-server-beats-while-code-waits-however-it-was-found ()
  ;; Without a watch, every request is found by the tick.
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=0.3")
    (efrit-test-eval "blind" "(advice-add 'file-notify-add-watch :override #'error)
                              (mapc #'file-notify-rm-watch
                                    (hash-table-keys file-notify-descriptors))")
    (efrit-test-submit "long" :content (efrit-test-held "long" "1"))
    (efrit-test-wait (efrit-test-running-p "long"))
    (dotimes (_ 2)
      (let ((time (alist-get 'time (efrit-test-heartbeat))))
        (efrit-test-wait (not (equal time (alist-get 'time (efrit-test-heartbeat)))))
        (should (equal (alist-get 'current (efrit-test-heartbeat)) "long"))))))

(ert-deftest efrit-server-serves-what-waits-in-order ()
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=0.2")
    (efrit-test-write "control" "pause" "")
    (efrit-test-submit "third" :timestamp "2025-01-03T18:30:02Z")
    (efrit-test-submit "second" :timestamp "2025-01-03T18:30:01Z")
    (efrit-test-submit "first" :timestamp "2025-01-03T18:30:59Z"
                       :options '(:priority 1))
    ;; What comes while something runs may be noticed one by one: each beat looks at all.
    (efrit-server-test--beats-p 2)
    (delete-file (efrit-files-path "control/pause"))
    (mapc #'efrit-test-answer '("first" "second" "third"))
    (should (equal (efrit-server-test--order '("first" "second" "third"))
                   '("first" "second" "third")))))

(ert-deftest efrit-server-code-that-waits-lets-nobody-in-between ()
  (efrit-test-with-daemon ()
    ;; A file that is looked at again and again keeps a timer going.
    (efrit-test-write "requests" "half.json" "{")
    (efrit-test-eval "before" "1")
    (efrit-test-submit
     "waits" :content (format "(progn (defvar inside t) (setq inside t) %s (sleep-for 1.5) (sit-for 0.3)
                                (accept-process-output nil 0.3) (prog1 inside (setq inside nil)))"
                              (efrit-test-held "waits" "t")))
    (efrit-test-wait (efrit-test-running-p "waits"))
    (efrit-test-submit "next" :content "inside")
    (efrit-test-release "waits")
    (should (equal (alist-get 'result (efrit-test-answer "waits")) "t"))
    (should (equal (alist-get 'result (efrit-test-answer "next")) "nil"))))

(defun efrit-server-test--beats-p (times)
  "Wait until the heartbeat of the daemon has changed TIMES times."
  (dotimes (_ times t)
    (let ((before (alist-get 'time (efrit-test-heartbeat))))
      (efrit-test-wait
        (not (equal before (ignore-errors (alist-get 'time (efrit-test-heartbeat)))))))))

(ert-deftest efrit-server-the-heartbeat-reports-what-the-key-of-the-model-is-worth ()
  (let ((file (make-temp-file "efrit-key-" nil nil "short\n")))
    (unwind-protect
        (efrit-test-with-daemon ((concat "EFRIT_MODEL_API_KEY_FILE=" file) "EFRIT_MODEL_NAME=m"
                                 "EFRIT_HEARTBEAT_SECONDS=0.2" "EFRIT_BRIDGE=")
          (should (equal (alist-get 'model_key (efrit-test-heartbeat)) "TooShort"))
          ;; A replaced key is noticed though nothing runs.
          (write-region "long-enough\n" nil file nil 'silent)
          (efrit-test-wait (equal (alist-get 'model_key (efrit-test-heartbeat)) "Usable"))
          (delete-file file)
          (efrit-test-wait (equal (alist-get 'model_key (efrit-test-heartbeat)) "Unreadable")))
      (when (file-exists-p file) (delete-file file)))))

(ert-deftest efrit-server-a-throw-out-of-the-regular-timer-does-not-end-it ()
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=0.2" "EFRIT_BRIDGE=")
    ;; Past its advice; the timer leaves the recursive edit by a throw.
    (should (equal (alist-get 'error_code
                              (efrit-test-eval "r" "(funcall (advice--cd*r
                                                     (symbol-function 'recursive-edit)))"))
                   "inhibited-interaction"))
    (should (efrit-server-test--beats-p 5))
    (efrit-test-eval "c" "(defun thrower () (throw 'out 1))
                          (advice-add 'efrit-health-beat-if-stale :before #'thrower)
                          (catch 'out (sleep-for 600))
                          (advice-remove 'efrit-health-beat-if-stale #'thrower)")
    (should (efrit-server-test--beats-p 5))
    ;; With no request under way, nothing but the timers themselves can notice: both of
    ;; them, and those that they set.
    (efrit-test-eval "d" "(defvar throws-left 4)
                          (defun leaver ()
                            (unless efrit-server-busy
                              (when (= (cl-decf throws-left) 0)
                                (advice-remove 'efrit-health-beat-if-stale #'leaver))
                              (throw 'top-level 1)))
                          (advice-add 'efrit-health-beat-if-stale :before #'leaver)")
    (should (efrit-server-test--beats-p 5))))

(ert-deftest efrit-server-no-timer-repeats-which-would-delay-those-of-requests ()
  ;; After one that repeats has gone off, Emacs sleeps until it is due again, whatever
  ;; else is due before: a timeout of one second took two.
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=0.2" "EFRIT_BRIDGE=")
    (should (efrit-server-test--beats-p 2))
    (should (equal (efrit-test-value "a" "(list (delq nil (mapcar #'timer--repeat-delay timer-list))
                                                (> (length timer-list) 1))")
                   "(nil t)"))))

(ert-deftest efrit-server-an-answered-id-is-not-run-again ()
  (efrit-test-with-daemon ()
    (efrit-test-eval "start" "(defvar count 0)")
    (efrit-test-eval "twice" "(setq count (1+ count))")
    (efrit-test-wait (member "req_twice.json" (efrit-test-names "archive")))
    (efrit-test-submit "twice" :content "(setq count (1+ count))")
    (efrit-test-wait (not (efrit-test-names "requests")))
    (efrit-test-submit "twice" :content "(setq count 100)")
    (efrit-test-wait (member "rejected_twice_1.json" (efrit-test-names "archive")))
    (should (equal (efrit-test-value "end" "count") "1"))))

(ert-deftest efrit-server-the-first-answer-wins ()
  (efrit-test-with-daemon ()
    (efrit-test-submit "race" :content (efrit-test-held "race" "1"))
    (efrit-test-wait (efrit-test-running-p "race"))
    (efrit-test-write "responses" "resp_race.json" "{\"reason\":\"Cancelled\"}")
    (efrit-test-release "race")
    (efrit-test-wait (member "req_race.json" (efrit-test-names "archive")))
    (should (equal (efrit-test-read "responses" "resp_race.json")
                   "{\"reason\":\"Cancelled\"}"))
    ;; A heartbeat is there for a moment too.
    (efrit-test-wait (not (efrit-test-names "tmp")))))

(ert-deftest efrit-server-the-claim-is-on-record-before-anything-runs ()
  (efrit-test-with-daemon ()
    (should (equal (efrit-test-value
                    "a" (format "(with-temp-buffer (insert-file-contents %S)
                                   (and (search-forward \"a 1 \" nil t) t))"
                                (efrit-files-path "claims.log")))
                   "t"))))

(ert-deftest efrit-server-an-answer-that-cannot-be-stored-is-kept-and-said ()
  (efrit-test-with-daemon ()
    (efrit-test-submit
     "a" :content (format "(defvar runs 0) (setq runs (1+ runs))
                           (delete-directory %S) (write-region \"\" nil %S)"
                          (efrit-files-path "responses") (efrit-files-path "responses")))
    (let ((beat (efrit-test-wait
                  (let ((beat (efrit-test-heartbeat)))
                    (and (equal (alist-get 'state beat) "degraded") beat)))))
      (should (equal (alist-get 'current beat) "a"))
      (should (stringp (alist-get 'problem beat))))
    (efrit-test-submit "b" :content "runs")
    (should (equal (efrit-test-names "processing") '("req_a.json")))
    (delete-file (efrit-files-path "responses"))
    (should (equal (alist-get 'reason (efrit-test-answer "a")) "Succeeded"))
    (should (equal (alist-get 'result (efrit-test-answer "b")) "1"))
    (efrit-test-wait (equal (alist-get 'state (efrit-test-heartbeat)) "idle"))
    (should-not (alist-get 'problem (efrit-test-heartbeat)))))

(ert-deftest efrit-server-a-claim-that-cannot-be-recorded-runs-nothing ()
  (efrit-test-with-daemon ()
    (delete-file (efrit-files-path "claims.log"))
    (make-directory (efrit-files-path "claims.log"))
    (efrit-test-submit "a")
    (efrit-test-wait (equal (alist-get 'state (efrit-test-heartbeat)) "degraded"))
    (should-not (efrit-test-answer-p "a"))
    (efrit-test-wait (equal (efrit-test-names "requests") '("req_a.json")))
    (delete-directory (efrit-files-path "claims.log"))
    (efrit-test-write "" "claims.log" "")
    (should (equal (alist-get 'result (efrit-test-answer "a")) "3"))))

(ert-deftest efrit-server-what-waited-while-nobody-served-is-run-at-start ()
  (efrit-test-with-queue
    (efrit-test-submit "old" :content "(* 6 7)" :timestamp "2001-01-01T00:00:00Z")
    (unwind-protect
        (progn (efrit-test-daemon-start)
               (should (equal (alist-get 'result (efrit-test-answer "old")) "42")))
      (efrit-test-daemon-end 'SIGKILL))))

(ert-deftest efrit-server-a-killed-daemon-answers-interrupted-when-it-is-back ()
  (dolist (signal '(SIGKILL SIGTERM))
    (efrit-test-with-daemon ()
      (efrit-test-submit "busy" :content "(while t)")
      (efrit-test-submit "waits" :timestamp "2099-01-01T00:00:00Z")
      (efrit-test-wait (efrit-test-running-p "busy"))
      (efrit-test-daemon-end signal)
      (should-not (efrit-test-answer-p "busy"))
      (efrit-test-daemon-start)
      (should (equal (alist-get 'reason (efrit-test-answer "busy")) "Interrupted"))
      (should (equal (alist-get 'reason (efrit-test-answer "waits")) "Succeeded"))
      (efrit-test-wait (= 1 (alist-get 'interrupted (efrit-test-heartbeat)))))))

(ert-deftest efrit-server-a-safe-request-runs-again-after-a-crash ()
  (efrit-test-with-daemon ()
    (let ((marks (concat efrit-workspace-directory "marks")))
      (efrit-test-submit
       "safe" :content (format "(write-region \"x\" nil %S t) (while (< (file-attribute-size
                                (file-attributes %S)) 2)) 'done" marks marks)
       :options '(:retry "if-interrupted" :max_attempts 2))
      ;; Killed before the first mark is in the file, the second run would wait for ever.
      (efrit-test-wait (and (file-exists-p marks)
                               (> (file-attribute-size (file-attributes marks)) 0)))
      (efrit-test-daemon-end 'SIGKILL)
      (efrit-test-daemon-start)
      (let ((answer (efrit-test-answer "safe")))
        (should (equal (alist-get 'result answer) "done"))
        (should (= (alist-get 'attempt answer) 2))))))

(ert-deftest efrit-server-a-second-daemon-leaves-the-queue-alone ()
  (efrit-test-with-daemon ()
    (efrit-test-submit "busy" :content (efrit-test-held "busy" "t"))
    (efrit-test-wait (efrit-test-running-p "busy"))
    (let ((first efrit-test-daemon)
          (second (make-process
                   :name "second" :buffer nil :noquery t
                   :command (list (expand-file-name invocation-name invocation-directory)
                                  "--fg-daemon=efrit-test-second" "-Q"
                                  "-L" efrit-test-daemon--lisp "-l" "efrit-server"
                                  "--eval" (format "(setq efrit-queue-directory %S)"
                                                   efrit-queue-directory)
                                  "-f" "efrit-server-start"))))
      (unwind-protect
          (progn
            (efrit-test-wait (not (process-live-p second)))
            (should (= (process-exit-status second) 3))
            (should (process-live-p first))
            (efrit-test-release "busy")
            (should (equal (alist-get 'reason (efrit-test-answer "busy")) "Succeeded")))
        (when (process-live-p second) (delete-process second))))))

(ert-deftest efrit-server-a-lock-left-by-an-emacs-that-was-killed-stops-no-request ()
  (efrit-test-with-daemon nil
    ;; The number of its process belongs to somebody else by now.
    (make-symbolic-link (format "%s@%s.1" (user-login-name) (system-name))
                        (concat efrit-workspace-directory ".#kept"))
    (should (equal (efrit-test-value
                    "w" "(progn (write-region \"x\" nil \"kept\" t 0) (find-file-noselect \"kept\")
                           (with-current-buffer \"kept\" (insert \"y\") (save-buffer)) 'written)")
                   "written"))))

(ert-deftest efrit-server-loads-the-init-file-and-survives-its-errors ()
  (efrit-test-with-queue
    (let ((init (concat efrit-workspace-directory "init.el")))
      (write-region "(defvar from-init 12)\n(sleep-for 4)\n(error \"Broken init\")\n" nil init nil 'silent)
      (unwind-protect
          (progn
            (efrit-test-daemon-start (concat "EFRIT_INIT_FILE=" init))
            (should (equal (efrit-test-value "a" "from-init") "12"))
            (should (equal (efrit-test-value
                            "b" "(with-current-buffer (messages-buffer)
                                   (and (string-match-p \"Broken init\" (buffer-string)) t))")
                           "t")))
        (efrit-test-daemon-end 'SIGKILL)))))

(ert-deftest efrit-server-no-compiler-runs-beside-the-daemon ()
  (efrit-test-with-daemon ()
    (should (equal (efrit-test-value
                    "a" "(list (get-buffer \"*Async-native-compile-log*\")
                          (bound-and-true-p native-comp-jit-compilation)
                          (bound-and-true-p native-comp-deferred-compilation)
                          (bound-and-true-p comp-files-queue))")
                   "(nil nil nil nil)"))))

(ert-deftest efrit-server-needs-no-byte-compilation ()
  ;; As on a laptop, or in an image that was given the sources alone.
  (let* ((sources (make-temp-file "efrit-sources-" t))
         (compiled efrit-test-daemon--lisp)
         (efrit-test-daemon--lisp (file-name-as-directory sources)))
    (unwind-protect
        (progn
          (dolist (file (directory-files compiled t "\\`efrit.*\\.el\\'"))
            (copy-file file efrit-test-daemon--lisp))
          (efrit-test-with-daemon ()
            (should (equal (alist-get 'result (efrit-test-eval "a" "(+ 1 2)")) "3"))))
      (delete-directory sources t))))

(provide 'efrit-server-test)
;;; efrit-server-test.el ends here
