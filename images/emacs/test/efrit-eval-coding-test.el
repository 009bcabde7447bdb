;;; efrit-eval-coding-test.el --- Coding systems that requests change  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Whatever a request makes of the coding systems of Emacs, the answers of the next
;; ones are right, and the queue stays where it is.

;;; Code:

(require 'efrit-test-queue)
(require 'efrit-test-daemon)
(require 'efrit-test-model)

(defconst efrit-eval-coding-test--changes
  '("(prefer-coding-system 'utf-16)"
    "(prefer-coding-system 'utf-8-with-signature)"
    "(prefer-coding-system 'iso-latin-1-dos)"
    "(set-default-coding-systems 'iso-2022-jp)"
    "(set-language-environment \"Japanese\")"
    "(setq file-name-coding-system 'iso-latin-1)"
    "(setq default-file-name-coding-system 'utf-16 file-name-coding-system nil)"
    "(setq locale-coding-system 'utf-16)"
    "(setq default-process-coding-system '(utf-16 . utf-16))"
    "(setq coding-system-for-read 'utf-16 coding-system-for-write 'utf-16)"
    "(setq-default buffer-file-coding-system 'utf-16)"
    "(modify-coding-system-alist 'file \"\" 'utf-16)"
    "(modify-coding-system-alist 'process \"\" 'utf-16)"
    "(setq auto-coding-functions (list (lambda (_) 'utf-16)))"
    "(setq inhibit-eol-conversion t coding-system-require-warning t)"
    "(setq select-safe-coding-system-function (lambda (&rest _) 'utf-16))")
  "What a request may do to the coding systems.")

(defconst efrit-eval-coding-test--values
  '("(+ 1 2)" "\"größe 日本\"" "(make-string 70000 ?x)" "(concat (make-string 40000 #xe9) \"y\")")
  "Forms whose answers are compared: short and long, ASCII and not.")

(defun efrit-eval-coding-test--whole (answer)
  "Return the result that ANSWER gives, from its file where it has one."
  (let ((path (alist-get 'result_path answer)))
    (if (null path)
        (alist-get 'result answer)
      (with-temp-buffer
        (let ((coding-system-for-read 'utf-8-unix)) (insert-file-contents path))
        (buffer-string)))))

(defun efrit-eval-coding-test--check (id)
  "Have requests whose ids begin with ID answered rightly."
  (let ((number 0))
    (dolist (form efrit-eval-coding-test--values)
      (let* ((answer (efrit-test-eval (format "%s-%d" id (setq number (1+ number))) form))
             (expected (prin1-to-string (eval (car (read-from-string form)) t))))
        (should (equal (alist-get 'reason answer) "Succeeded"))
        (should (equal (efrit-eval-coding-test--whole answer) expected))
        (should (equal (alist-get 'sha256 answer)
                       (secure-hash 'sha256 (encode-coding-string expected 'utf-8-unix))))
        (should (= (alist-get 'result_bytes answer) (string-bytes expected)))))))

(defmacro efrit-eval-coding-test--with-daemon (environment &rest body)
  "Run BODY with a daemon, started with ENVIRONMENT, whose paths are not ASCII."
  (declare (indent 1) (debug t))
  `(efrit-test-with-queue
     (let ((efrit-queue-directory (concat root "größe/queue/"))
           (efrit-workspace-directory (concat root "größe/workspace/")))
       (make-directory efrit-workspace-directory t)
       (efrit-files-make-directories)
       (efrit-files-isolated (efrit-files-write (efrit-files-path "claims.log") ""))
       (unwind-protect
           (progn
             (efrit-test-daemon-start ,@environment)
             ,@body)
         (efrit-test-daemon-end 'SIGKILL)))))

(ert-deftest efrit-eval-coding-answers-are-right-whatever-a-request-has-set ()
  (efrit-eval-coding-test--with-daemon ()
    (let ((number 0))
      (dolist (change efrit-eval-coding-test--changes)
        (ert-info (change)
          (let ((id (format "c%d" (setq number (1+ number)))))
            (efrit-test-eval id change)
            (efrit-eval-coding-test--check id)
            ;; Nothing was made under another spelling of the path.
            (should (equal (directory-files root nil directory-files-no-dot-files-regexp)
                           '("größe" "queue" "workspace")))))))))

(ert-deftest efrit-eval-coding-a-changed-file-name-coding-does-not-move-the-queue ()
  (dolist (change '("(setq file-name-coding-system 'iso-latin-1)"
                    "(prefer-coding-system 'iso-latin-1)"))
    (efrit-eval-coding-test--with-daemon ("EFRIT_HEARTBEAT_SECONDS=0.2")
      (efrit-test-eval "change" change)
      (let ((before (alist-get 'time (efrit-test-heartbeat))))
        (efrit-test-wait (not (equal before (alist-get 'time (efrit-test-heartbeat))))))
      (efrit-eval-coding-test--check "after")
      (should (equal (directory-files root nil directory-files-no-dot-files-regexp)
                     '("größe" "queue" "workspace"))))))

(ert-deftest efrit-eval-coding-a-request-begins-in-its-directory-whatever-is-set ()
  (efrit-eval-coding-test--with-daemon ()
    (let ((number 0))
      (dolist (change '("(prefer-coding-system 'iso-latin-1-dos)"
                        "(setq file-name-coding-system 'utf-16)"
                        "(setq default-file-name-coding-system 'utf-16 file-name-coding-system nil)"))
        (ert-info (change)
          (setq number (1+ number))
          (efrit-test-eval (format "d%d" number) change)
          (let ((answer (efrit-test-eval (format "there%d" number) "(+ 1 2)"
                                         :directory (directory-file-name efrit-workspace-directory))))
            (should (equal (alist-get 'result answer) "3"))))))))

(ert-deftest efrit-eval-coding-a-request-is-noticed-at-once-though-the-names-of-events-are-not-decoded ()
  ;; No tick comes to help.
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=6000")
    (efrit-test-eval "change" "(setq default-file-name-coding-system 'utf-16 file-name-coding-system nil)")
    (dotimes (number 3)
      (should (equal (efrit-test-value (format "after%d" number) "(+ 1 2)") "3")))))

(ert-deftest efrit-eval-coding-a-command-reads-and-writes-as-before ()
  (efrit-test-with-model-daemon nil
    (efrit-test-value "e" "(progn (prefer-coding-system 'utf-16)
                                  (modify-coding-system-alist 'process \"\" 'utf-16) t)")
    (write-region "one\ntwo\nthree\n" nil (concat efrit-workspace-directory "notes.txt"))
    (efrit-test-submit "k" :type "command" :content "scenario=shell größe"
                       :options '(:timeout 600))
    (let ((answer (efrit-test-wait (and (efrit-test-answer-p "k") (efrit-test-answer "k")))))
      (should (equal (alist-get 'result answer) "There are 3 lines.")))))

(provide 'efrit-eval-coding-test)
;;; efrit-eval-coding-test.el ends here
