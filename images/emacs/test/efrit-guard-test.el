;;; efrit-guard-test.el --- Tests of an Emacs whose functions are redefined  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Code:

(require 'efrit-test-queue)
(require 'efrit-test-daemon)
(require 'efrit-guard)

(defconst efrit-guard-test--everything
  "(mapatoms (lambda (symbol)
               (when (string-prefix-p \"efrit-\" (symbol-name symbol))
                 (fset symbol #'ignore))))"
  "Redefines all functions of the server.")

(ert-deftest efrit-guard-a-function-that-was-redefined-is-put-back-and-an-advised-one-is-not ()
  (unwind-protect
      (let ((json-serialize (symbol-function 'json-serialize))
            (take (symbol-function 'efrit-guard-take-restored)))
        (efrit-guard-start)
        (cl-letf (((symbol-function 'efrit-guard-take-restored) #'ignore)
                  ((symbol-function 'json-serialize) #'ignore)
                  ((symbol-function 'prin1) nil))
          (advice-add 'efrit-files-path :around #'apply)
          (efrit-guard-restore)
          (should (eq (symbol-function 'json-serialize) json-serialize))
          (should (eq (symbol-function 'efrit-guard-take-restored) take))
          (should (fboundp 'prin1))
          (should (advice-member-p #'apply 'efrit-files-path))
          (should (string-match-p "json-serialize" (efrit-guard-take-restored)))
          (should-not (efrit-guard-take-restored))))
    (advice-remove 'efrit-files-path #'apply)
    (efrit-guard-stop)))

(ert-deftest efrit-guard-what-a-request-redefines-is-put-back-before-its-own-answer ()
  (efrit-test-with-daemon nil
    (let ((boot (alist-get 'boot (efrit-test-heartbeat))) (number 0))
      (dolist (code (list "(setq comp-enable-subr-trampolines nil native-comp-enable-subr-trampolines nil)"
                          efrit-guard-test--everything
                          "(mapc #'fmakunbound '(efrit-server--work efrit-server--finish efrit-answer-make))"
                          "(mapc (lambda (name) (fset name #'ignore))
                                 '(write-region rename-file json-serialize directory-files
                                   file-attributes float-time prin1 run-with-timer))"
                          "(defun json-serialize (&rest _) (error \"Never\"))"))
        (cl-incf number)
        (should (equal (efrit-test-value (format "sabotage-%d" number) (format "(progn %s 7)" code))
                       "7"))
        (should (equal (efrit-test-value (format "next-%d" number) "(+ 1 2)") "3")))
      (should (equal (alist-get 'boot (efrit-test-heartbeat)) boot)))
    (should (string-match-p "put back what the code of a request had redefined: "
                            (with-current-buffer "*efrit-test-daemon*" (buffer-string))))))

(defun efrit-guard-test--restarted (number code)
  "Have a daemon evaluate CODE as request NUMBER, which ends it.
Return the answers of a new one to it and to the next request."
  (efrit-test-submit (format "end-%d" number) :content code)
  (efrit-test-wait 60 (not (process-live-p efrit-test-daemon)))
  (efrit-test-daemon-start)
  (list (alist-get 'reason (efrit-test-answer (format "end-%d" number)))
        (efrit-test-value (format "after-%d" number) "(+ 1 2)")))

(ert-deftest efrit-guard-an-emacs-that-cannot-answer-ends-and-the-next-one-answers ()
  (efrit-test-with-daemon nil
    (let ((number 0))
      (dolist (code '("(advice-add 'json-serialize :override #'ignore)"
                      "(advice-add 'write-region :override #'ignore)"
                      "(unload-feature 'efrit-print t)"
                      "(advice-add 'efrit-answer-store :override #'ignore)"
                      "(advice-add 'efrit-server--finish :override (lambda (&rest _) (throw 'out 1)))"))
        (cl-incf number)
        (should (equal (efrit-guard-test--restarted number code) '("Interrupted" "3")))
        (should (string-match-p "This Emacs ends: "
                                (with-current-buffer "*efrit-test-daemon*" (buffer-string))))))
    ;; Here it is answered, and the next one cannot be begun.
    (pcase-dolist (`(,id . ,code)
                   '(("unbound" . "(makunbound 'efrit-queue--waiting)")
                     ("blind" . "(advice-add 'directory-files :override (lambda (&rest _) 7))")))
      (efrit-test-eval id code)
      (efrit-test-wait 60 (not (process-live-p efrit-test-daemon)))
      (efrit-test-submit (concat id "-next"))
      (efrit-test-daemon-start)
      (should (equal (efrit-test-value (concat id "-last") "(+ 1 2)") "3"))
      (should (equal (alist-get 'result (efrit-test-answer (concat id "-next"))) "3")))))

(provide 'efrit-guard-test)
;;; efrit-guard-test.el ends here
