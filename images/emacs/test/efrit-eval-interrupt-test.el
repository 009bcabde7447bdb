;;; efrit-eval-interrupt-test.el --- Tests of stopping what runs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Signals to a busy and to an idle daemon, with and without an order.

;;; Code:

(require 'efrit-test-daemon)
(require 'efrit-eval-watchdog)

(defconst efrit-interrupt-test--busy
  '("(begun) (while t)"
    "(begun) (while t (condition-case nil (while t) (quit nil)))"
    "(begun) (while t (ignore-errors (condition-case nil (while t) (t nil))))"
    "(begun) (let ((inhibit-quit t)) (while t))"
    "(begun) (while t (let ((inhibit-quit t)) (+ 1 2)))"
    "(begun) (sleep-for 600)" "(begun) (sit-for 600)" "(begun) (accept-process-output nil 600)"
    "(begun) (call-process \"sleep\" nil nil nil \"600\")"
    "(begun) (funcall (byte-compile '(lambda () (while t))))"
    "(unwind-protect (progn (begun) (while t)) (setq cleaned t))"
    "(begun) (setq debugger #'ignore) (while t)"
    "(begun) (run-at-time 0 nil (lambda () (while t))) (sleep-for 600)"
    "(begun) (with-timeout (600) (while t))"
    "(begun) (string-match \"\\\\(a*\\\\)*b\" (make-string 40 ?a))")
  "Code that does not end by itself.")

(defun efrit-interrupt-test--submit (id content &rest members)
  "Submit CONTENT, which calls `begun' before it hangs, as request ID.
MEMBERS are as in a request."
  (apply #'efrit-test-submit id
         :content (format "(defun begun () (write-region \"\" nil \"begun-%s\")) %s" id content)
         members))

(defun efrit-interrupt-test--begun-p (id)
  "Return non-nil once the code of the request ID has called `begun'."
  (file-exists-p (concat efrit-workspace-directory "begun-" id)))

(ert-deftest efrit-interrupt-an-order-and-a-signal-stop-what-runs ()
  (efrit-test-with-daemon ()
    (let ((number 0))
      (dolist (content efrit-interrupt-test--busy)
        (let* ((id (format "r%d" (setq number (1+ number))))
               (reason (if (cl-oddp number) "Cancelled" "TimedOut")))
          (ert-info (content)
            (efrit-interrupt-test--submit id content)
            (efrit-test-wait (efrit-interrupt-test--begun-p id))
            (should (equal (alist-get 'reason (efrit-test-stop id reason)) reason))))))
    (should (equal (efrit-test-value "after" "(list (recursion-depth) cleaned)") "(0 t)"))
    (should-not (efrit-test-names "control"))))

(defconst efrit-interrupt-test--debuggers
  '("(require 'debug) (begun) (while t)"
    "(setq debugger 'debug) (begun) (while t)"
    "(let ((debugger 'debug)) (begun) (while t))"
    "(let ((debugger #'debug) (debug-on-quit t)) (begun) (while t (ignore-errors (while t))))"
    "(let ((debugger 'debug) (signal-hook-function nil)) (begun) (while t))"
    "(require 'ert)
     (ert-deftest hang-1 () (begun) (while t))
     (ert-deftest hang-2 () (sleep-for 600))
     (ert-deftest hang-3 () (while t (ignore-errors (while t))))
     (ert-run-tests-batch \"^hang-\")"
    "(require 'edebug)
     (with-temp-buffer
       (emacs-lisp-mode)
       (insert \"(defun instrumented () (begun) (while t (identity 1)))\")
       (let ((edebug-all-defs t)) (eval-buffer)))
     (let ((edebug-initial-mode 'Go-nonstop)) (instrumented))")
  "Code that does not end, with a debugger of its own.")

(ert-deftest efrit-interrupt-code-that-brings-a-debugger-is-stopped-truthfully ()
  ;; A new daemon for each: what is loaded once is not loaded again.
  (dolist (content efrit-interrupt-test--debuggers)
    (efrit-test-with-daemon ()
      (ert-info (content)
        (efrit-interrupt-test--submit "a" content)
        (efrit-test-wait (efrit-interrupt-test--begun-p "a"))
        (should (equal (alist-get 'reason (efrit-test-stop "a" "TimedOut")) "TimedOut"))
        (should (equal (efrit-test-value "after" "(list (+ 1 2) (recursion-depth))") "(3 0)"))))))

(ert-deftest efrit-interrupt-code-that-brings-a-debugger-is-stopped-without-a-bridge ()
  (dolist (content efrit-interrupt-test--debuggers)
    (efrit-test-with-daemon ("EFRIT_BRIDGE=0")
      (ert-info (content)
        (efrit-interrupt-test--submit "a" content :options '(:timeout 0.5))
        (efrit-test-wait (efrit-test-answer-p "a"))
        (should (equal (alist-get 'reason (efrit-test-answer "a")) "TimedOut"))
        (should (equal (efrit-test-value "after" "(list (+ 1 2) (recursion-depth))") "(3 0)"))))))

(ert-deftest efrit-interrupt-a-signal-without-an-order-changes-nothing ()
  (efrit-test-with-daemon ()
    (efrit-test-value "compiled" "(defalias 'compiled-loop
                                    (byte-compile '(lambda (file)
                                                     (while (not (file-exists-p file))) 'fine)))")
    (let ((number 0))
      (dolist (content '("(progn (while (not (file-exists-p %1$S))) 'fine)"
                         "(progn (while (not (file-exists-p %1$S)) (sleep-for 0.3)) 'fine)"
                         "(progn (while (not (file-exists-p %1$S)) (sit-for 0.3)) 'fine)"
                         "(progn (call-process \"sh\" nil nil nil \"-c\"
                                               \"until test -e \\\"$0\\\"; do sleep 0.1; done\" %1$S)
                                 'fine)"
                         "(condition-case nil (progn (while (not (file-exists-p %1$S))) 'fine)
                            (quit 'caught))"
                         "(compiled-loop %1$S)"))
        (let ((id (format "r%d" (setq number (1+ number)))))
          (efrit-test-submit id :content (format content (efrit-test-held-path id)))
          (efrit-test-wait (efrit-test-running-p id))
          (dotimes (_ 20)
            (accept-process-output nil 0.02)
            (efrit-test-interrupt id))
          (efrit-test-release id)
          (efrit-test-wait
            (progn (accept-process-output nil 0.02)
                   (efrit-test-interrupt id)
                   (efrit-test-answer-p id)))
          (ert-info (content)
            (should (equal (alist-get 'result (efrit-test-answer id)) "fine"))))))))

(ert-deftest efrit-interrupt-a-signal-to-an-idle-daemon-is-a-nudge ()
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=60")
    (efrit-test-eval "a" "1")
    (let ((before (alist-get 'time (efrit-test-heartbeat))))
      (efrit-test-wait
        (progn (accept-process-output nil 0.3)
               (efrit-test-interrupt "a")
               (not (equal before (alist-get 'time (efrit-test-heartbeat)))))))
    (should (equal (efrit-test-value "b" "(list (+ 1 2) (recursion-depth))") "(3 0)"))))

(ert-deftest efrit-interrupt-an-order-for-another-request-stops-nothing ()
  (efrit-test-with-daemon ()
    (efrit-test-submit "a" :content (efrit-test-held "a" "'fine"))
    (efrit-test-wait (efrit-test-running-p "a"))
    (efrit-test-interrupt "b" "Cancelled")
    (efrit-test-release "a")
    (should (equal (alist-get 'result (efrit-test-answer "a")) "fine"))))

(ert-deftest efrit-interrupt-an-order-whose-signal-was-lost-is-obeyed-at-the-next-beat ()
  (efrit-test-with-daemon ()
    (efrit-interrupt-test--submit "a" "(begun) (sleep-for 600)")
    (efrit-test-wait (efrit-interrupt-test--begun-p "a"))
    ;; A signal that comes while a callback of ours runs is lost, as if there were none.
    (efrit-test-write "control" "cancel_a" "Cancelled\n")
    (should (equal (alist-get 'reason (efrit-test-answer "a")) "Cancelled"))
    (should (equal (efrit-test-value "b" "(list (+ 1 2) (recursion-depth))") "(3 0)"))))

(ert-deftest efrit-interrupt-an-order-before-the-start-keeps-it-from-running ()
  (efrit-test-with-daemon ()
    (efrit-test-write "control" "cancel_a" "Cancelled\n")
    (let ((answer (efrit-test-eval "a" "(setq ran t)")))
      (should (equal (alist-get 'reason answer) "Cancelled")))
    (should (equal (efrit-test-value "b" "(boundp 'ran)") "nil"))
    (efrit-test-wait (not (efrit-test-names "control")))))

(ert-deftest efrit-interrupt-code-that-clears-up-for-ever-is-stopped-too ()
  (efrit-test-with-daemon ()
    (efrit-interrupt-test--submit "a" "(unwind-protect (progn (begun) (while t)) (while t))")
    (efrit-test-wait (efrit-interrupt-test--begun-p "a"))
    (should (equal (alist-get 'reason (efrit-test-stop "a" "TimedOut"))
                   "TimedOut"))))

(ert-deftest efrit-interrupt-time-is-limited-without-a-bridge ()
  (efrit-test-with-daemon ("EFRIT_BRIDGE=0")
    (let ((number 0))
      (dolist (content '("(while t)" "(sleep-for 600)" "(while t (ignore-errors (while t)))"
                         "(progn (mapc #'delete-process (process-list)) 'ok)" "(while t)"))
        (let* ((id (format "r%d" (setq number (1+ number))))
               (answer (efrit-test-eval id content :timeout 0.5)))
          (unless (string-suffix-p "'ok)" content)
            (should (equal (alist-get 'reason answer) "TimedOut"))
            (should (equal (alist-get 'status answer) "timeout"))
            (should (< 0.45 (alist-get 'execution_time answer)))))))))

(ert-deftest efrit-interrupt-time-is-limited-whatever-is-in-the-environment ()
  (dolist (change '("(setenv \"PATH\" \"\")" "(setq process-environment nil)"
                    "(setq exec-path nil shell-file-name \"/nonexistent\")"))
    (efrit-test-with-daemon ("EFRIT_BRIDGE=0")
      (ert-info (change)
        ;; The helper is started again, in what the code has left.
        (efrit-test-eval "a" (format "%s (mapc #'delete-process (process-list))" change))
        (efrit-test-submit "b" :content "(while t)" :options '(:timeout 0.5))
        (efrit-test-wait (efrit-test-answer-p "b"))
        (should (equal (alist-get 'reason (efrit-test-answer "b")) "TimedOut"))))))

(ert-deftest efrit-interrupt-code-that-ignores-signals-is-ended-with-its-emacs-without-a-bridge ()
  (efrit-test-with-daemon ("EFRIT_BRIDGE=0")
    ;; A loop that computes would take a processor until it is ended, and is as deaf.
    (efrit-test-submit "deaf" :options '(:timeout 0.5)
                       :content "(let ((debug-on-event nil) (inhibit-quit t))
                                   (while t (call-process \"sleep\" nil nil nil \"1\")))")
    (efrit-test-wait (efrit-test-daemon-gone-p))
    (efrit-test-daemon-start "EFRIT_BRIDGE=0")
    (should (equal (alist-get 'reason (efrit-test-answer "deaf")) "TimedOut"))
    (should (equal (efrit-test-value "next" "(+ 1 2)") "3"))))

(ert-deftest efrit-interrupt-each-time-limit-counts-from-its-own-start ()
  (efrit-test-with-daemon ("EFRIT_BRIDGE=0")
    ;; The helper watches another file, as of the tool of a session, for long.
    (efrit-test-eval "a" (format "(progn (write-region \"\" nil %S)
                                         (efrit-watchdog-signal %S 600))"
                                 (efrit-files-path "tmp" "other")
                                 (efrit-files-path "tmp" "other")))
    (efrit-test-submit "b" :content "(while t)" :options '(:timeout 0.5))
    (efrit-test-wait (efrit-test-answer-p "b"))
    (should (equal (alist-get 'reason (efrit-test-answer "b")) "TimedOut"))))

(ert-deftest efrit-interrupt-the-watchdog-signals-nobody-who-has-the-number-of-its-emacs ()
  ;; A file that is left when Emacs was killed, and a process that is not the parent.
  (efrit-test-with-queue
    (let* ((file (concat efrit-workspace-directory "left"))
           (other (make-process :name "other" :buffer nil :noquery t :sentinel #'ignore
                                :command '("sleep" "600")))
           (helper (make-process :name "helper" :buffer nil :noquery t :sentinel #'ignore
                                 :connection-type 'pipe
                                 :command (list "/bin/sh" "-c"
                                                (concat efrit-watchdog--script
                                                        "wait; echo > \"$2\"")
                                                "watchdog" (number-to-string (process-id other))
                                                (concat file "-over")))))
      (unwind-protect
          (progn
            (write-region "" nil file nil 'silent)
            (process-send-string helper (format "0 1 %s\n" file))
            (process-send-eof helper)
            (efrit-test-wait (file-exists-p (concat file "-over")))
            (should (process-live-p other)))
        (mapc #'delete-process (list helper other))))))

(provide 'efrit-eval-interrupt-test)
;;; efrit-eval-interrupt-test.el ends here
