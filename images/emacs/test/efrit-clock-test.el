;;; efrit-clock-test.el --- Tests of the clock that nobody sets  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The clock while the time of day is set, with and without what Linux says of it, and
;; what has a deadline by it.

;;; Code:

(require 'efrit-clock)
(require 'efrit-eval-interrupt)
(require 'efrit-server-health)
(require 'efrit-session)
(require 'efrit-test-queue)
(require 'efrit-tool-context)

(ert-deftest efrit-clock-is-the-time-of-day-until-that-is-set ()
  (efrit-test-with-clock
    (should (= (efrit-clock) efrit-test-now))
    (efrit-test-pass 3600)
    (should (= (efrit-clock) efrit-test-now)))
  ;; As it is on this machine.
  (should (< (abs (- (efrit-clock) (float-time))) 3600)))

(ert-deftest efrit-clock-goes-on-where-the-time-of-day-is-set ()
  (efrit-test-with-clock
    (let ((start (efrit-clock)))
      (dolist (set '(-3600 0 7200 -86400 0.5 -0.5 31536000))
        (let ((before (efrit-clock)))
          (efrit-test-pass 10 set)
          (ert-info ((format "%s" set))
            (should (< 9.9 (- (efrit-clock) before) 10.1)))))
      (should (< 69.9 (- (efrit-clock) start) 70.1)))))

(ert-deftest efrit-clock-without-a-time-since-the-start-never-goes-back ()
  (efrit-test-with-clock
    (delete-file efrit-clock--uptime-file)
    (cl-flet ((pass (seconds)
                (setq efrit-test-now (+ efrit-test-now seconds))
                (efrit-clock)))
      (let ((start (efrit-clock)))
        (should (= (- (pass 10) start) 10))
        (should (= (- (pass -3600) start) 10))
        (should (= (- (pass 20) start) 30))
        ;; Nothing tells a clock that was set forward from one that nobody has read.
        (should (= (- (pass 3600) start) 3630))))
    (write-region "nonsense" nil efrit-clock--uptime-file)
    (should-not (efrit-clock--uptime))))

(ert-deftest efrit-clock-goes-on-where-the-time-since-the-start-cannot-be-read-for-a-while ()
  (efrit-test-with-clock
    (let ((start (efrit-clock)))
      (delete-file efrit-clock--uptime-file)
      (setq efrit-test-now (- efrit-test-now 3600)
            efrit-test-uptime (+ efrit-test-uptime 10))
      (should (= (- (efrit-clock) start) 0))
      (efrit-test-pass 10)
      (should (< 19.9 (- (efrit-clock) start) 20.1)))))

(ert-deftest efrit-clock-costs-a-look-at-a-file-once-a-second-at-most ()
  (efrit-test-with-clock
    (efrit-clock)
    (delete-file efrit-clock--uptime-file)
    (make-directory efrit-clock--uptime-file)
    (unwind-protect
        (let ((read 0))
          (cl-letf (((symbol-function 'efrit-clock--uptime) (lambda () (setq read (1+ read)) nil)))
            (dotimes (_ 100) (efrit-clock))
            (setq efrit-test-now (+ efrit-test-now 1.0))
            (efrit-clock)
            (should (= read 0))
            (setq efrit-test-now (+ efrit-test-now 0.5))
            (dotimes (_ 100) (efrit-clock))
            (should (= read 1))))
      (delete-directory efrit-clock--uptime-file))))

;;;; What goes by it

(ert-deftest efrit-clock-a-session-has-its-time-however-the-clock-is-set ()
  (dolist (set '(-3600 3600))
    (efrit-test-with-queue
      (efrit-test-with-clock
        (let ((session (efrit-session-make :request-id "r" :deadline (+ (efrit-clock) 60)
                                           :budget '(:iteration-seconds 30)))
              (context (efrit-tool-context-make :request-id "r" :deadline (+ (efrit-clock) 60))))
          (setf (efrit-session-turn-started-at session) (efrit-clock))
          (efrit-test-pass 20 set)
          (ert-info ((format "%s" set))
            (should-not (efrit-session-order session))
            (should (< 39 (efrit-tool-context-seconds-left context) 41))
            (efrit-test-pass 11)
            (should (equal (efrit-session-order session) "BudgetExhausted"))
            (efrit-test-pass 30)
            (should (equal (efrit-session-order session) "TimedOut"))
            (should (< -2 (efrit-tool-context-seconds-left context) 0))))))))

(ert-deftest efrit-clock-code-has-its-time-however-the-clock-is-set ()
  (dolist (set '(-3600 3600))
    (efrit-test-with-queue
      (efrit-test-with-clock
        (let ((efrit-interrupt--id "r")
              (efrit-interrupt--deadline (+ (efrit-clock) 60)))
          (efrit-test-pass 20 set)
          (should-not (efrit-interrupt-reason))
          (efrit-test-pass 41)
          (should (equal (efrit-interrupt-reason) "TimedOut")))))))

(ert-deftest efrit-clock-that-is-set-forward-makes-no-heartbeat-late ()
  (efrit-test-with-queue
    (efrit-test-with-clock
      (let ((efrit-fence-generation nil) (efrit-health-rest nil)
            (efrit-health--written (efrit-clock)))
        (efrit-test-pass 0.5 3600)
        (should (< 0.4 (efrit-health-beat-age) 0.6))))))

(provide 'efrit-clock-test)
;;; efrit-clock-test.el ends here
