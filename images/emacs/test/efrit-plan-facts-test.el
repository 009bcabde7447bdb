;;; efrit-plan-facts-test.el --- Tests of the commands of an assessment  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What is reported of commands that are run on the work of a plan, and that none of
;; them goes on for ever.

;;; Code:

(require 'filenotify)
(require 'efrit-test-plan)
(require 'efrit-test-daemon)
(require 'efrit-test-tool)

(defun efrit-plan-facts-test--of (command &rest members)
  "Return what is reported of COMMAND, run with MEMBERS, a plist."
  (car (alist-get 'build (apply #'efrit-test-plan 'facts
                                :commands `((build . ,(vector command))) members))))

(ert-deftest efrit-plan-facts-report-exit-code-and-output-of-each-command ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (efrit-test-plan-work "here" "1")
    (let ((facts (efrit-test-plan 'facts :commands '((build . ["ls" "echo out; echo err >&2; exit 3"])
                                                     (integration . [])
                                                     (quality . ["printf '\\303\\251\\377'"])))))
      (should (equal (mapcar #'car facts) '(build integration quality)))
      (should (equal (mapcar (lambda (fact) (mapcar #'car fact)) (alist-get 'quality facts))
                     '((command exitCode timedOut output seconds))))
      (should (equal (mapcar (lambda (fact) (list (alist-get 'command fact) (alist-get 'exitCode fact)
                                                  (alist-get 'timedOut fact) (alist-get 'output fact)))
                             (append (alist-get 'build facts) (alist-get 'quality facts)))
                     '(("ls" 0 nil "here\n")
                       ("echo out; echo err >&2; exit 3" 3 nil "out\nerr\n")
                       ("printf '\\303\\251\\377'" 0 nil "é\\377")))))))

(ert-deftest efrit-plan-facts-a-command-ends-when-its-time-is-over ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (let ((fact (efrit-test-with-time-over-at "before"
                  (efrit-plan-facts-test--of "echo before; sleep 600" :timeout 600))))
      (should (equal (alist-get 'exitCode fact) nil))
      (should (equal (alist-get 'timedOut fact) t))
      (should (equal (alist-get 'output fact) "before\n"))
      (should (floatp (alist-get 'seconds fact))))))

;; Emacs calls no sentinel then: the end of each command was noted a second late.
(ert-deftest efrit-plan-facts-an-unread-file-notification-delays-no-command ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (let* ((watched (make-temp-file "efrit-watched-" t))
           (watch (file-notify-add-watch watched '(change) #'ignore))
           ;; Longer than the test may take.
           (efrit-process--grace (* 10 efrit-test-timeout)))
      (unwind-protect
          (progn
            (write-region "" nil (expand-file-name "new" watched) nil 'silent)
            (with-timeout (efrit-test-timeout (ert-fail "its end is not noted"))
              (should (equal (alist-get 'output (efrit-plan-facts-test--of "seq 1 500; echo end; exit 3"))
                             (concat (mapconcat #'number-to-string (number-sequence 1 500) "\n")
                                     "\nend\n")))))
        (file-notify-rm-watch watch)
        (delete-directory watched t)))))

(ert-deftest efrit-plan-facts-of-much-output-both-ends-are-kept ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (let ((output (alist-get 'output (efrit-plan-facts-test--of "seq 1 100000" :maxOutput 1000))))
      (should (string-prefix-p "1\n2\n" output))
      (should (string-suffix-p "\n100000\n" output))
      (should (string-match-p "^\\[[0-9]+ bytes left out\\]$" output))
      (should (< (length output) 1100)))
    ;; However little is asked for, the command is not stopped for it.
    (should (equal (alist-get 'exitCode (efrit-plan-facts-test--of "seq 1 100000; exit 7" :maxOutput 0)) 7))))

(ert-deftest efrit-plan-facts-without-work-are-an-error ()
  (efrit-test-with-plan
    (should (string-search "There is no directory"
                           (efrit-test-plan-error 'efrit-plan-error
                                                  (lambda () (efrit-plan-facts-test--of "true")))))
    (efrit-test-plan-begin)
    (should (string-search "must be a list of strings"
                           (efrit-test-plan-error
                            'efrit-plan-arguments
                            (lambda () (efrit-test-plan 'facts :commands '((build . [1])))))))))

(defun efrit-plan-facts-test--form (name members)
  "Return the form of a request that calls the function NAME with MEMBERS."
  (format "(efrit-plan-%s %S)" name (efrit-test-plan-arguments members)))

(ert-deftest efrit-plan-facts-a-daemon-beats-while-they-run-and-can-be-asked-to-stop ()
  (efrit-test-with-daemon ((concat "TMPDIR=" efrit-workspace-directory))
    (efrit-test-value "b" (efrit-plan-facts-test--form 'begin (efrit-test-plan-begin-members)))
    (efrit-test-submit "f" :content (efrit-plan-facts-test--form
                                     'facts '(:commands ((build . ["echo $$ > pid; sleep 600"])))))
    (let* ((path (concat efrit-workspace-directory "plans/p/environment/pid"))
           (pid (efrit-test-wait
                  (and (file-exists-p path)
                       (with-temp-buffer
                         (insert-file-contents path)
                         (and (string-suffix-p "\n" (buffer-string))
                              (string-to-number (buffer-string)))))))
           (beat (file-attribute-modification-time
                  (file-attributes (efrit-files-path "heartbeat")))))
      (efrit-test-wait
        (time-less-p beat (file-attribute-modification-time
                           (file-attributes (efrit-files-path "heartbeat")))))
      (should (equal (alist-get 'reason (efrit-test-stop "f" "Cancelled")) "Cancelled"))
      (efrit-test-wait (not (process-attributes pid))))))

(ert-deftest efrit-plan-facts-a-daemon-answers-every-function-by-requests ()
  (efrit-test-with-daemon ((concat "TMPDIR=" efrit-workspace-directory))
    (let ((value (lambda (id name members)
                   (efrit-test-plan-value
                    (read (efrit-test-value id (efrit-plan-facts-test--form name members)))))))
      (should (equal (alist-get 'step (funcall value "a" 'begin (efrit-test-plan-begin-members))) 0))
      (should (equal (alist-get 'step (funcall value "b" 'commit-act
                                               '(:step 1 :task "a" :description "\"ä\\\n\"")))
                     1))
      (should (equal (alist-get 'step (funcall value "c" 'commit-adapt (efrit-test-plan-adapt-members 2)))
                     2))
      (should (equal (alist-get 'step (funcall value "d" 'amend '(:step 3 :number 1 :text "x"))) 3))
      (should (equal (alist-get 'step (funcall value "e" 'look nil)) 3))
      (should (equal (alist-get 'plan (alist-get 'value (funcall value "f" 'history nil))) "p")))
    (let ((answer (efrit-test-eval "z" "(efrit-plan-look \"\")")))
      (should (equal (alist-get 'status answer) "error"))
      (should (equal (alist-get 'error_code answer) "efrit-plan-arguments")))))

(provide 'efrit-plan-facts-test)
;;; efrit-plan-facts-test.el ends here
