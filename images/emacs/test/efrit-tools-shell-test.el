;;; efrit-tools-shell-test.el --- Tests of shell_exec  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What commands give back, and that none of them outlives or blocks Emacs.

;;; Code:

(require 'efrit-test-daemon)
(require 'efrit-test-tool)

(defun efrit-tools-shell-test--alive-p (pid)
  "Return non-nil when the process PID, a number as text, runs."
  (not (member (alist-get 'state (process-attributes (string-to-number pid)))
               '(nil "Z" "X"))))

(defun efrit-tools-shell-test--pid (name)
  "Wait until a command has written a number to NAME in the workspace; return it."
  (let ((path (concat efrit-workspace-directory name)))
    (efrit-test-wait
      (and (file-exists-p path)
           (with-temp-buffer
             (insert-file-contents path)
             (and (string-suffix-p "\n" (buffer-string))
                  (string-trim (buffer-string))))))))

;;;; What is given back

(ert-deftest efrit-tools-shell-output-errors-and-exit-status-are-returned ()
  (efrit-test-with-queue
    (pcase-dolist (`(,command ,status ,content)
                   '(("echo hi" "success" "hi\n[exit status 0]")
                     ("true" "success" "[exit status 0]")
                     ("printf 'a\\nb'" "success" "a\nb\n[exit status 0]")
                     ("echo out; echo err >&2; exit 3" "error"
                      "out\n[stderr]\nerr\n[exit status 3]")
                     ("kill -9 $$" "error" "[exit status 137]")
                     ("cat; read -r x; echo \"<$x>\"" "success" "<>\n[exit status 0]")
                     ("printf '\\377 \\303\\251'" "success" "\\377 é\n[exit status 0]")
                     ("echo \"$0\" 'a  b' \\\"" "success" "/bin/bash a  b \"\n[exit status 0]")
                     ("[ -t 0 ] || [ -t 1 ] || echo no terminal" "success"
                      "no terminal\n[exit status 0]")))
      (let ((result (efrit-test-call "shell_exec" (list :command command))))
        (ert-info (command)
          (should (equal (efrit-tool-result-content result)
                         content))
          (should (equal (efrit-tool-result-status result) status)))))))

(defun efrit-tools-shell-test--group-runs-p (leader)
  "Return non-nil when a process of the group of LEADER runs."
  (cl-some (lambda (pid)
             (let ((attributes (process-attributes pid)))
               (and (eql (alist-get 'pgrp attributes) leader)
                    (not (equal (alist-get 'state attributes) "Z")))))
           (list-system-processes)))

(ert-deftest efrit-tools-shell-errors-that-came-before-a-late-look-are-returned ()
  (efrit-test-with-queue
    (let* ((err (efrit-capture-beginning 1000))
           (program (efrit-process-start '("/bin/sh" "-c" "echo err >&2")
                                         :directory efrit-workspace-directory :seconds 60
                                         :out (efrit-capture-beginning 1000) :err err :done #'ignore))
           (process (efrit-process-process program)))
      (set-process-sentinel process #'ignore)
      ;; All of it writes and ends while Emacs reads nothing; when that looks again, nothing is waited for any more.
      (while (or (process-live-p process)
                 (efrit-tools-shell-test--group-runs-p (process-id process)))
        (call-process "sleep" nil nil nil "0.01"))
      (setf (efrit-process-exited program) (- (float-time) 60))
      (efrit-process--update program)
      (should (efrit-process-ended program))
      (should-not (efrit-process-behind program))
      (should (equal (efrit-capture-text err) "err\n")))))

(ert-deftest efrit-tools-shell-a-clock-that-is-set-changes-no-time-of-a-command ()
  (dolist (set '(-3600 3600))
    (efrit-test-with-queue
      (efrit-test-with-clock
        (let ((program (efrit-process-start
                        '("/bin/sh" "-c" "trap '' TERM; echo ready; while :; do sleep 60; done")
                        :directory efrit-workspace-directory :seconds 60
                        :out (efrit-capture-beginning 1000)
                        :err (efrit-capture-beginning 1000) :done #'ignore)))
          (efrit-test-wait
            (not (efrit-capture-empty-p (efrit-process-out program))))
          (unwind-protect
              (cl-flet ((look (seconds &optional set)
                          (efrit-test-pass seconds set)
                          (efrit-process--update program)))
                (look 30)
                (look 2 set)
                (should-not (efrit-process-why program))
                (look 29)
                (should (eq (efrit-process-why program) 'timeout))
                (look 0 set)
                (should-not (efrit-process-ended program))
                (look (* 4 efrit-process--grace))
                (should (efrit-process-ended program)))
            (unless (efrit-process-ended program)
              (efrit-process--finish program))))))))

(ert-deftest efrit-tools-shell-a-command-runs-in-the-workspace-or-where-its-input-says ()
  (efrit-test-with-queue
    (make-directory (concat efrit-workspace-directory "sub"))
    (let ((workspace (directory-file-name efrit-workspace-directory)))
      (should (equal (efrit-test-content "shell_exec" :command "pwd")
                     (concat workspace "\n[exit status 0]")))
      (should (equal (efrit-test-content "shell_exec" :command "pwd" :directory "sub")
                     (concat workspace "/sub\n[exit status 0]"))))
    (should (string-search "No directory that can be entered"
                           (efrit-test-failure "error" "shell_exec" :command "pwd"
                                               :directory "none")))))

(ert-deftest efrit-tools-shell-of-endless-output-both-ends-are-kept ()
  (efrit-test-with-queue
    (let* ((result (efrit-test-call "shell_exec"
                                    '(:command "seq 1 500000; seq 1 9999 >&2")))
           (content (efrit-tool-result-content result)))
      (should (equal (efrit-tool-result-status result) "success"))
      (should (< (string-bytes content) (+ efrit-tool-result-bytes 200)))
      (should (string-prefix-p "1\n2\n3\n" content))
      (should (string-search "\n500000\n[stderr]\n1\n2\n" content))
      (should (string-suffix-p "\n9999\n[exit status 0]" content))
      (with-temp-buffer
        (insert content)
        (should (= (how-many "^\\[[0-9]+ bytes left out\\]$" (point-min)) 2))))))

(ert-deftest efrit-tools-shell-what-is-kept-is-bounded-while-it-arrives ()
  (let ((capture (efrit-capture-ends 100)))
    (dotimes (_ 10000)
      (efrit-capture-add capture "0123456789")
      (should (<= (apply #'+ (length (efrit-capture-head capture))
                         (mapcar #'length (efrit-capture-tail capture)))
                  5000)))
    (should (string-search "\n[99900 bytes left out]\n" (efrit-capture-text capture)))))

(ert-deftest efrit-tools-shell-no-character-is-torn-where-chunks-end ()
  (let ((bytes (encode-coding-string "aé€😀" 'utf-8)))
    (let ((capture (efrit-capture-ends 100)))
      (seq-doseq (byte bytes) (efrit-capture-add capture (unibyte-string byte)))
      (should (equal (efrit-capture-text capture) "aé€😀")))
    (pcase-dolist (`(,most . ,kept) '((1 . "a") (2 . "a") (3 . "aé") (5 . "aé") (6 . "aé€")
                                      (8 . "aé€") (9 . "aé€")))
      (let ((capture (efrit-capture-beginning most)))
        (efrit-capture-add capture bytes)
        (should (string-prefix-p (concat kept "\n[") (efrit-capture-text capture)))))))

;;;; Its end

(ert-deftest efrit-tools-shell-after-its-time-the-whole-group-is-gone ()
  (efrit-test-with-queue
    (dolist (command '("sleep 600 & echo $! > child; echo before; wait"
                       "trap '' TERM; sleep 600 & echo $! > child; echo before; wait; wait"
                       "(trap '' TERM HUP; exec sleep 600) & echo $! > child; echo before"))
      (ert-info (command)
        (let* ((command (concat command "; sleep 600"))
               (result (efrit-test-with-time-over-at "before"
                         (efrit-test-call "shell_exec" (list :command command :timeout 600)))))
          (should (equal (efrit-tool-result-status result) "timeout"))
          (should (equal (efrit-tool-result-content result)
                         "before\n[stopped: its time was over]"))
          (let ((pid (efrit-tools-shell-test--pid "child")))
            (efrit-test-wait (not (efrit-tools-shell-test--alive-p pid))))
          (delete-file (concat efrit-workspace-directory "child")))))
    (should-not efrit-process--running)))

(ert-deftest efrit-tools-shell-the-deadline-of-the-session-ends-it-too ()
  (efrit-test-with-queue
    (should (equal (efrit-tool-result-status
                    (efrit-test-call "shell_exec" '(:command "sleep 600")
                                     (efrit-test-context :deadline (+ (float-time) 0.3))))
                   "timeout"))))

(ert-deftest efrit-tools-shell-stopping-it-ends-the-group-and-reports-what-came ()
  (efrit-test-with-queue
    (let* (results
           (stop (efrit-tool-start
                  "shell_exec" '((command . "echo some; sleep 600 & echo $! > child; wait"))
                  (efrit-test-context) (lambda (result) (push result results))))
           (pid (efrit-tools-shell-test--pid "child")))
      (efrit-test-wait
        (string-search "some" (efrit-capture-text (efrit-process-out (car efrit-process--running)))))
      (should-not results)
      (funcall stop)
      (funcall stop)
      (efrit-test-wait results)
      (should (equal (efrit-tool-result-status (car results)) "interrupted"))
      (should (equal (efrit-tool-result-content (car results))
                     "some\n[stopped: the session was asked to stop]"))
      (efrit-test-wait (not (efrit-tools-shell-test--alive-p pid)))
      (funcall stop)
      (should (= (length results) 1)))))

(ert-deftest efrit-tools-shell-what-gets-a-signal-may-tidy-up ()
  (efrit-test-with-queue
    (let ((efrit-process--grace efrit-test-timeout))
      (should (string-prefix-p
               "ready\ntidy\n"
               (efrit-test-with-time-over-at "ready"
                 (efrit-test-failure
                  "timeout" "shell_exec" :timeout 600
                  :command "sh -c 'trap \"echo tidy; exit\" TERM; echo ready; while :; do sleep 0.1; done'")))))))

(ert-deftest efrit-tools-shell-children-that-hold-the-pipes-are-not-waited-for ()
  (efrit-test-with-queue
    ;; Its time, of two minutes, would be over if it were.
    (let ((content (efrit-test-content
                    "shell_exec" :command "sleep 600 & echo $! > child; echo done")))
      (should (string-prefix-p "done\n[exit status 0]\n[processes left behind" content))
      ;; It was left behind on purpose, as any shell leaves it.
      (let ((pid (efrit-tools-shell-test--pid "child")))
        (should (efrit-tools-shell-test--alive-p pid))
        (signal-process (string-to-number pid) 'SIGKILL)))))

(ert-deftest efrit-tools-shell-emacs-does-other-work-meanwhile ()
  (efrit-test-with-queue
    (let ((results nil))
      (dotimes (_ 5)
        (efrit-tool-start "shell_exec" '((command . "until [ -e go ]; do sleep 0.05; done; echo x"))
                          (efrit-test-context) (lambda (result) (push result results))))
      (efrit-test-content "shell_exec" :command "true")
      (should-not results)
      (write-region "" nil (concat efrit-workspace-directory "go") nil 'silent)
      (efrit-test-wait (= (length results) 5))
      (dolist (result results)
        (should (equal (efrit-tool-result-content result) "x\n[exit status 0]"))))))

(defun efrit-tools-shell-test--code (command timeout)
  "Return code that starts COMMAND with TIMEOUT; `its-status' will be its status."
  (format "(setq its-status nil)
           (let ((context (efrit-tool-context-make :request-id \"inner\")))
             (efrit-todo-add context \"work\")
             (efrit-tool-start \"shell_exec\" '((command . %S) (timeout . %s)) context
                               (lambda (result)
                                 (setq its-status (efrit-tool-result-status result))))
             'started)"
          command timeout))

(ert-deftest efrit-tools-shell-code-that-removes-the-timers-does-not-keep-it-alive ()
  (efrit-test-with-daemon ()
    (efrit-test-value "a" (efrit-tools-shell-test--code
                           "trap '' TERM; echo $$ > child; while :; do sleep 1; done" 600))
    (let ((pid (efrit-tools-shell-test--pid "child")) (number 0))
      (efrit-test-value "b" "(setf (efrit-process-due (car efrit-process--running)) 0)
                             (mapc #'cancel-timer timer-list) (setq timer-list nil)")
      (efrit-test-wait
        (equal (efrit-test-value (format "r%d" (setq number (1+ number))) "its-status")
               "\"timeout\""))
      (efrit-test-wait (not (efrit-tools-shell-test--alive-p pid))))))

(ert-deftest efrit-tools-shell-a-command-does-not-outlive-emacs ()
  (efrit-test-with-daemon ()
    (efrit-test-value "a" (efrit-tools-shell-test--code
                           "trap '' HUP TERM; echo $$ > child; sleep 600 & wait; wait" 600))
    (let ((pid (efrit-tools-shell-test--pid "child")))
      (should (efrit-tools-shell-test--alive-p pid))
      (efrit-test-daemon-end 'SIGKILL)
      (efrit-test-wait (not (efrit-tools-shell-test--alive-p pid))))))

(ert-deftest efrit-tools-shell-code-that-removes-everything-costs-no-result ()
  (efrit-test-with-queue
    (dolist (code '((mapc #'delete-process (process-list))
                    (mapc #'kill-buffer (seq-filter (lambda (buffer)
                                                      (string-match-p "efrit-err"
                                                                      (buffer-name buffer)))
                                                    (buffer-list)))
                    (dolist (process (process-list)) (set-process-sentinel process #'ignore))
                    (mapc #'cancel-timer timer-list)))
      (ert-info ((format "%S" code))
        (let (results)
          (efrit-tool-start "shell_exec" '((command . "sleep 0.3") (timeout . 60))
                            (efrit-test-context) (lambda (result) (push result results)))
          (eval code t)
          ;; A server does this at its tick.
          (efrit-test-wait (progn (efrit-process-update-all) results))
          (should (= (length results) 1)))))))

(ert-deftest efrit-tools-shell-many-commands-leave-nothing ()
  (efrit-test-with-queue
    (let ((processes (length (process-list))) (buffers (length (buffer-list)))
          (timers (length timer-list)))
      (dotimes (_ 20) (efrit-test-content "shell_exec" :command "echo 1 >&2"))
      (should-not efrit-process--running)
      (should (<= (length (process-list)) processes))
      (should (<= (length (buffer-list)) (1+ buffers)))
      (should (<= (length timer-list) timers)))))

(provide 'efrit-tools-shell-test)
;;; efrit-tools-shell-test.el ends here
