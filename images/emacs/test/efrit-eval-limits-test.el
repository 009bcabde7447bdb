;;; efrit-eval-limits-test.el --- Tests of the resource limits  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Code:

(require 'efrit-test-queue)
(require 'efrit-test-daemon)
(require 'efrit-eval-limits)

(defconst efrit-limits-test--text
  "Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max file size             5000                 unlimited            bytes
Max core file size        0                    unlimited            bytes
Max processes             63448                63448                processes
Max open files            1024                 524288               files
Max realtime timeout      unlimited            unlimited            us
"
  "What Linux tells.")

(ert-deftest efrit-limits-reads-what-the-system-reports ()
  (should (equal (efrit-limits--parse efrit-limits-test--text)
                 '(("open files" . 1024) ("processes" . 63448) ("file size" . 5000))))
  (should-not (efrit-limits--parse "")))

(ert-deftest efrit-limits-finds-one-that-is-lower-and-minds-no-other ()
  (let ((now '(("open files" . 100) ("file size" . 50))))
    (should-not (efrit-limits--lower now now))
    (should-not (efrit-limits--lower now '(("open files" . 99) ("file size" . 50))))
    (should-not (efrit-limits--lower nil now))
    (should (equal (efrit-limits--lower now '(("open files" . 101) ("file size" . 50)))
                   "open files"))
    ;; It had no end before.
    (should (equal (efrit-limits--lower now '(("open files" . 100))) "file size"))))

(ert-deftest efrit-limits-that-cannot-be-read-any-more-are-in-the-way ()
  (let (efrit-limits--start)
    (should-not (efrit-limits-lowered))
    (efrit-limits-start)
    (should-not (efrit-limits-lowered))
    (let ((efrit-files--insert
           (lambda (&rest _) (signal 'file-error '("Opening input file" "Too many open files")))))
      (should (string-match-p "Too many open files" (efrit-limits-lowered))))))

(ert-deftest efrit-limits-are-distinguished-from-faults-of-the-disk-and-of-the-system ()
  (dolist (message '("Opening output file: Too many open files, /q/tmp/x"
                     "Write error: File too large, /q/tmp/x"
                     "Memory exhausted--use C-x s then exit and restart Emacs"))
    (should (efrit-limits-error-p message)))
  (dolist (message '("Opening output file: Too many open files in system, /q/tmp/x"
                     "Write error: No space left on device, /q/tmp/x"))
    (should-not (efrit-limits-error-p message))))

(ert-deftest efrit-limits-that-a-request-lowers-end-emacs-once-it-is-answered ()
  (skip-unless (executable-find "prlimit"))
  (efrit-test-with-daemon nil
    (should (equal (efrit-test-value
                    "lowers" "(call-process \"prlimit\" nil nil nil \"--pid\" (format \"%d\" (emacs-pid)) \"--fsize=100000\")")
                   "0"))
    (efrit-test-wait (efrit-test-daemon-gone-p))
    (should (string-match-p "a limit of this process is lower than at its start: file size"
                            (with-current-buffer "*efrit-test-daemon*" (buffer-string))))
    (efrit-test-submit "next")
    (efrit-test-daemon-start)
    (should (equal (alist-get 'result (efrit-test-answer "next")) "3"))))

(provide 'efrit-eval-limits-test)
;;; efrit-eval-limits-test.el ends here
