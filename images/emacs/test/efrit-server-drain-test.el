;;; efrit-server-drain-test.el --- Tests of ending without interrupting work  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A daemon that is about to end claims nothing more; what it runs may end.

;;; Code:

(require 'efrit-test-daemon)

(ert-deftest efrit-server-drain-a-paused-daemon-claims-nothing-and-goes-on-afterwards ()
  (efrit-test-with-daemon ()
    (efrit-test-eval "before" "1")
    (efrit-test-write "control" "pause" "")
    (efrit-test-write "requests" "req_waits.json"
                      "{\"id\": \"waits\", \"type\": \"eval\", \"content\": \"2\"}")
    ;; The beat shows that the daemon has looked again, and left the request where it is.
    (let ((beat (efrit-test-read "" "heartbeat")))
      (efrit-test-wait (not (equal beat (efrit-test-read "" "heartbeat"))))
      (setq beat (efrit-test-read "" "heartbeat"))
      (efrit-test-wait (not (equal beat (efrit-test-read "" "heartbeat")))))
    (should (member "req_waits.json" (efrit-test-names "requests")))
    (should-not (efrit-test-names "processing"))
    (delete-file (efrit-files-path "control/pause"))
    (should (equal (alist-get 'result (efrit-test-answer "waits")) "2"))))

(ert-deftest efrit-server-drain-what-runs-when-the-pause-comes-is-answered ()
  (efrit-test-with-daemon ()
    (efrit-test-write "requests" "req_runs.json"
                      (format "{\"id\": \"runs\", \"type\": \"eval\", \"content\": %S}"
                              (efrit-test-held "runs" "'done")))
    ;; What was moved alone is given back when the pause is there.
    (efrit-test-wait (efrit-test-running-p "runs"))
    (efrit-test-write "control" "pause" "")
    (efrit-test-release "runs")
    (should (equal (alist-get 'result (efrit-test-answer "runs")) "done"))))

(provide 'efrit-server-drain-test)
;;; efrit-server-drain-test.el ends here
