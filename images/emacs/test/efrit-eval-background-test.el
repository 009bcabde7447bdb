;;; efrit-eval-background-test.el --- Tests of code left behind by requests  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Requests leave something behind that keeps Emacs busy when they are over.  The
;; test signals as a supervisor does, and the next request is answered.

;;; Code:

(require 'efrit-test-daemon)

(defconst efrit-background-test--loops
  '(("timer" . "(run-with-timer 0.05 nil (lambda () (begun) (while t)))")
    ("timer" . "(run-with-timer 0.05 0.05 (lambda () (begun) (while t)))")
    ("timer" . "(run-with-timer 0.05 nil (lambda () (begun) (let ((inhibit-quit t)) (while t))))")
    ("timer" . "(run-with-timer 0.05 nil (lambda () (begun) (while t (ignore-errors (while t)))))")
    ("timer" . "(run-with-timer 0.05 nil (lambda () (begun)
                                           (call-process \"sleep\" nil nil nil \"600\")))")
    ("timer" . "(run-with-timer 0.05 nil
                  (lambda () (begun) (with-temp-buffer
                                       (while t (insert \"x\") (erase-buffer)))))")
    ;; It is due again as soon as it has run, and starves all timers set meanwhile.
    ("timer" . "(run-with-timer 0.05 0.01 (lambda () (begun)
                                            (let ((end (+ (float-time) 0.2)))
                                              (while (< (float-time) end)))))")
    ("timer" . "(run-with-idle-timer 0.05 nil (lambda () (begun) (while t)))")
    ("process" . "(make-process :name \"left\"
                    :command '(\"/bin/sh\" \"-c\" \"sleep 0.1; echo x; sleep 600\")
                    :filter (lambda (&rest _) (begun) (while t)))")
    ("process" . "(make-process :name \"left\" :command '(\"/bin/sh\" \"-c\" \"sleep 0.1\")
                    :sentinel (lambda (&rest _) (begun) (while t)))")
    ("thread" . "(make-thread (lambda () (begun) (while t)))")
    ("thread" . "(progn (require 'debug) (setq debugger 'debug)
                        (make-thread (lambda () (thread-yield) (begun) (while t))))"))
  "What runs, and code that leaves it behind; the code returns at once.")

(defun efrit-background-test--log ()
  "Return what the daemon has logged."
  (with-current-buffer "*efrit-test-daemon*" (buffer-string)))

;; What was there before the first request does not keep Emacs from its rest.
(ert-deftest efrit-background-code-of-the-init-file-is-stopped-though-no-heartbeat-was-due ()
  (efrit-test-with-queue
    (let ((init (concat efrit-workspace-directory "init.el"))
          (begun (concat efrit-workspace-directory "begun")))
      (write-region (format "(run-with-timer 0 0.1
                               (lambda ()
                                 (when (and efrit-health-rest (not (file-exists-p %S)))
                                   (setq efrit-health-rest 3600)
                                   (write-region \"\" nil %S)
                                   (while t))))"
                            begun begun)
                    nil init nil 'silent)
      (unwind-protect
          (progn
            (efrit-test-daemon-start (concat "EFRIT_INIT_FILE=" init)
                                     "EFRIT_HEARTBEAT_SECONDS=0.2")
            (let ((pid (process-id efrit-test-daemon)))
              (efrit-test-wait (file-exists-p begun))
              (efrit-test-submit "next" :content "(+ 1 2)")
              (should (equal (alist-get 'result (efrit-test-answer-signalling "next")) "3"))
              (should (process-live-p efrit-test-daemon))
              (should (= pid (process-id efrit-test-daemon)))))
        (efrit-test-daemon-end 'SIGKILL)))))

(ert-deftest efrit-background-what-a-request-leaves-running-is-stopped-and-named ()
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=0.2")
    (let ((number 0) (pid (process-id efrit-test-daemon)))
      (dolist (left efrit-background-test--loops)
        (let ((id (format "leaves%d" (setq number (1+ number))))
              (next (format "next%d" number)))
          (ert-info ((cdr left))
            (should (equal (alist-get 'reason (efrit-test-eval
                                               id (format "(defun begun () (write-region \"\" nil %S))
                                                           %s 1"
                                                          (concat efrit-workspace-directory id)
                                                          (cdr left))))
                           "Succeeded"))
            (efrit-test-wait (file-exists-p (concat efrit-workspace-directory id)))
            (efrit-test-submit next :content "(list (+ 1 2) (recursion-depth) inhibit-quit)")
            (let ((answer (efrit-test-answer-signalling next)))
              (should (equal (alist-get 'result answer) "(3 0 nil)"))
              (should (string-empty-p (alist-get 'messages answer))))
            (efrit-test-wait
              (string-match-p
               (format "stopped code .*: %s .*left behind by request %s" (car left) id)
               (efrit-background-test--log))))))
      (should (= pid (process-id efrit-test-daemon)))
      (should (process-live-p efrit-test-daemon)))))

;; Each request after it would wait for the next stop.
(ert-deftest efrit-background-code-that-comes-back-whenever-it-is-stopped-ends-emacs ()
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=0.2")
    (efrit-test-eval "leaves" "(progn (defun again () (run-with-timer 0 nil #'again) (while t))
                                      (run-with-timer 0.05 nil #'again))")
    (efrit-test-wait
      (progn (accept-process-output nil 0.05)
             (when (process-live-p efrit-test-daemon) (efrit-test-interrupt "nobody"))
             (efrit-test-daemon-gone-p)))
    (should (string-match-p "timer again left behind by request leaves\n"
                            (efrit-background-test--log)))))

;; The one that installed it may have been answered, so that nobody is to blame for its time.
(ert-deftest efrit-background-a-loop-after-garbage-collections-holds-up-one-request-only ()
  (efrit-test-with-daemon nil
    (efrit-test-eval "left" (format "(defvar loops nil)
                                     (add-hook 'post-gc-hook
                                               (lambda ()
                                                 (when loops
                                                   (write-region \"\" nil %S)
                                                   (while t))))"
                                    (concat efrit-workspace-directory "begun")))
    (efrit-test-submit "first" :content "(setq loops t) (garbage-collect)")
    (efrit-test-wait (file-exists-p (concat efrit-workspace-directory "begun")))
    (should (equal (alist-get 'reason (efrit-test-stop "first" "TimedOut")) "TimedOut"))
    (efrit-test-submit "next" :content "(garbage-collect) (list post-gc-hook loops)")
    (should (equal (alist-get 'result (efrit-test-answer-signalling "next")) "(nil t)"))))

(ert-deftest efrit-background-what-was-made-between-requests-is-no-request-s ()
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=0.2")
    (efrit-test-eval "leaves" "(progn (defun loops () (while t))
                                      (defun sets () (run-with-timer 0.05 nil #'loops))
                                      (run-with-timer 0.05 nil #'sets))")
    (efrit-test-wait
      (progn (accept-process-output nil 0.05)
             (efrit-test-interrupt "nobody")
             (string-match-p "stopped code .*: timer loops\n" (efrit-background-test--log))))))

(ert-deftest efrit-background-a-thread-that-a-request-waits-for-runs-no-other-request ()
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=0.1")
    (let (beats)
      ;; Where an event is not read, one long sleep passes over timers that late timers have set.
      (efrit-test-submit "joins" :content "(thread-join (make-thread (lambda () (while t (sleep-for 0.1)))))")
      (efrit-test-wait (efrit-test-running-p "joins"))
      (efrit-test-submit "beside")
      ;; Each is written by a timer in that thread, which would run requests as well.
      (efrit-test-wait
        (let ((beat (alist-get 'time (ignore-errors (efrit-test-heartbeat)))))
          (when beat (cl-pushnew beat beats :test #'equal))
          (> (length beats) 6)))
      (should-not (efrit-test-answer-p "beside"))
      (should (equal (alist-get 'reason (efrit-test-stop "joins" "TimedOut")) "TimedOut"))
      (should (equal (alist-get 'result (efrit-test-answer "beside")) "3"))
      (should (process-live-p efrit-test-daemon)))))

;; It is silent, as a request may be, and a signal need not be about it.
(ert-deftest efrit-background-a-thread-that-a-request-waits-for-is-not-left-behind ()
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=0.1")
    (let ((begun (concat efrit-workspace-directory "begun")))
      (efrit-test-submit "joins" :content (format "(thread-join (make-thread (lambda ()
                                                     (write-region \"\" nil %S)
                                                     (while (not (file-exists-p %S)))
                                                     'done)))"
                                                  begun (efrit-test-held-path "joins")))
      (efrit-test-wait (file-exists-p begun))
      (let ((signals 0))
        (efrit-test-wait
          (progn (accept-process-output nil 0.1)
                 (efrit-test-interrupt "nobody")
                 (< 10 (setq signals (1+ signals))))))
      (efrit-test-release "joins")
      (should (equal (alist-get 'result (efrit-test-answer-signalling "joins")) "done")))))

(ert-deftest efrit-background-code-that-is-soon-over-is-not-stopped ()
  ;; Soon, measured by the heartbeat: however long the machine takes for it.
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=600")
    (efrit-test-value "a" "(progn (defvar turns 0)
                                  (run-with-timer 0 0.4 (lambda ()
                                    (let ((end (+ (float-time) 0.2)))
                                      (while (< (float-time) end))
                                      (setq turns (1+ turns))))))")
    (let ((number 0))
      (efrit-test-wait
        (progn (dotimes (_ 10)
                 (accept-process-output nil 0.05)
                 (efrit-test-interrupt "nobody"))
               (not (equal (efrit-test-value (format "b%d" (setq number (1+ number))) "turns")
                           "0")))))
    (should-not (string-match-p "stopped code" (efrit-background-test--log)))))

;; What an idle Emacs calls at a signal is nothing that keeps it busy.
(ert-deftest efrit-background-an-emacs-that-stood-still-has-nothing-to-stop ()
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=0.2")
    ;; With a timer left behind it does not rest: its heartbeat is overdue at once.
    (efrit-test-value "a" "(progn (run-with-timer 3600 nil #'ignore) 1)")
    (dotimes (number 2)
      (signal-process efrit-test-daemon 'SIGSTOP)
      (let ((end (+ (float-time) 0.6)))
        (efrit-test-wait (< end (float-time))))
      ;; As a bridge that insists.
      (dolist (signal '(SIGUSR1 SIGUSR2 SIGCONT))
        (signal-process efrit-test-daemon signal))
      (should (equal (efrit-test-value (format "b%d" number) "(+ 1 2)") "3")))
    (should-not (string-match-p "stopped code" (efrit-background-test--log)))))

(defconst efrit-background-test--overflows
  '("(defun overflow (x) (1+ (overflow (list x))))"
    "(defun overflow (x) (mapcar #'overflow (list x)))"
    "(defun overflow (x) (catch 'efrit (unwind-protect (overflow (list x)) (ignore x))))")
  "Definitions of a function that calls itself for ever.")

(ert-deftest efrit-background-an-overflow-of-the-c-stack-ends-emacs-and-no-more ()
  (dolist (definition efrit-background-test--overflows)
    (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=0.2")
      (ert-info (definition)
        (efrit-test-submit
         "a" :content (concat "(setq max-lisp-eval-depth 100000000 max-specpdl-size 100000000)"
                              definition "(overflow 1)"))
        (efrit-test-wait (efrit-test-daemon-gone-p))
        (efrit-test-daemon-start)
        (should (equal (alist-get 'reason (efrit-test-answer "a")) "Interrupted"))
        (should (equal (efrit-test-value "b" "(list (+ 1 2) inhibit-quit)") "(3 nil)"))))))

(provide 'efrit-eval-background-test)
;;; efrit-eval-background-test.el ends here
