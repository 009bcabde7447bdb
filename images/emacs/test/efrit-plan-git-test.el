;;; efrit-plan-git-test.el --- Tests of git for plans  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; That git does the same whatever its user has set, that what goes wrong is reported
;; in a sentence, and that locks of the dead are removed, but not those of the living.

;;; Code:

(require 'efrit-test-plan)
(require 'efrit-test-queue)

(defmacro efrit-plan-git-test--with-repository (&rest body)
  "Run BODY with an empty repository at `root'."
  (declare (indent 0) (debug t))
  `(efrit-test-with-plan
     (let ((root efrit-test-plan-root))
       (make-directory root t)
       (efrit-plan-git-init root)
       ,@body)))

(defun efrit-plan-git-test--commit (root)
  "Make a commit in ROOT of all that is in it; return its hash."
  (efrit-plan-git root "add" "--all")
  (efrit-plan-git root "commit" "-q" "--allow-empty" "-m" "x")
  (efrit-plan-git-line root "rev-parse" "HEAD"))

;;;; Its user

(ert-deftest efrit-plan-git-what-the-user-has-set-changes-nothing ()
  (efrit-plan-git-test--with-repository
    (let ((home (concat top "home/")))
      (make-directory (concat home ".config/git") t)
      (write-region "[user]\n name = Somebody\n[core]\n hooksPath = /nonexistent\n autocrlf = true\n excludesFile = ~/.ignored\n[commit]\n gpgSign = true\n[gpg]\n program = false\n"
                    nil (concat home ".gitconfig") nil 'silent)
      (write-region "*.txt\n" nil (concat home ".config/git/ignore") nil 'silent)
      (write-region "*.txt\n" nil (concat home ".ignored") nil 'silent)
      (setenv "HOME" home)
      (setenv "XDG_CONFIG_HOME" (concat home ".config"))
      (setenv "GIT_DIR" "/nonexistent")
      (setenv "GIT_INDEX_FILE" "/nonexistent/index")
      (setenv "GIT_AUTHOR_NAME" "Somebody")
      (setenv "GIT_TRACE" (concat top "trace"))
      (efrit-test-plan-write "a.txt" "one\r\n")
      (efrit-plan-git-test--commit root)
      (should (equal (efrit-plan-git-line root "log" "--format=%an %ae %cn %ce")
                     "Efrit efrit@localhost Efrit efrit@localhost"))
      (should (equal (efrit-plan-git root "show" "HEAD:a.txt") "one\r\n"))
      (should-not (file-exists-p (concat top "trace"))))))

(ert-deftest efrit-plan-git-no-hook-runs ()
  (efrit-plan-git-test--with-repository
    (dolist (hook '("pre-commit" "post-commit" "reference-transaction" "commit-msg"))
      (let ((path (concat root ".git/hooks/" hook)))
        (make-directory (file-name-directory path) t)
        (write-region (format "#!/bin/sh\ntouch %sran-%s\nexit 1\n" top hook) nil path nil 'silent)
        (set-file-modes path #o755)))
    (efrit-plan-git-test--commit root)
    (should-not (directory-files top nil "\\`ran-"))))

(ert-deftest efrit-plan-git-no-repository-around-is-taken-for-it ()
  (efrit-plan-git-test--with-repository
    (let ((inside (concat root "inside/")))
      (make-directory inside)
      (efrit-plan-git-test--commit root)
      (should (string-search "damaged"
                             (efrit-test-plan-error 'efrit-plan-git-failed
                                                    (lambda () (efrit-plan-git inside "status"))))))))

;;;; What goes wrong

(ert-deftest efrit-plan-git-a-failure-is-a-sentence-with-what-git-said ()
  (efrit-plan-git-test--with-repository
    (let ((said (efrit-test-plan-error 'efrit-plan-git-failed
                                       (lambda () (efrit-plan-git root "checkout" "nowhere")))))
      (should (string-prefix-p (format "git checkout in %s ended with exit status 1: "
                                       (directory-file-name root))
                               said))
      (should (string-search "nowhere" said)))))

(ert-deftest efrit-plan-git-without-git-it-is-said-what-to-do ()
  (efrit-plan-git-test--with-repository
    (let ((exec-path (list top)) (efrit-plan-git--checked nil))
      (should (string-search "use an image with git 2.38 or newer"
                             (efrit-test-plan-error 'efrit-plan-no-git
                                                    (lambda () (efrit-plan-git root "status"))))))))

(ert-deftest efrit-plan-git-an-old-one-is-refused ()
  (efrit-plan-git-test--with-repository
    (efrit-test-plan-stand-in (concat top "old/") "echo git version 2.30.2")
    (should (string-search "is version 2.30.2, plans need 2.38 or newer"
                           (efrit-test-plan-error 'efrit-plan-no-git
                                                  (lambda () (efrit-plan-git root "status")))))))

(ert-deftest efrit-plan-git-one-that-was-killed-is-reported-as-such ()
  (efrit-plan-git-test--with-repository
    (efrit-test-plan-stand-in (concat top "killed/")
                              "[ \"$1\" = version ] && exec \"$GIT\" version\nkill -9 $$")
    (should (string-search "ended with signal"
                           (efrit-test-plan-error 'efrit-plan-git-failed
                                                  (lambda () (efrit-plan-git root "status")))))))

(ert-deftest efrit-plan-git-a-full-disk-is-reported-as-such ()
  (efrit-plan-git-test--with-repository
    (efrit-test-plan-stand-in
     (concat top "full/")
     "[ \"$1\" = version ] && exec \"$GIT\" version
echo 'fatal: cannot create .git/x: No space left on device' >&2; exit 128")
    (should (string-prefix-p "The volume of the workspace is full. Free space"
                             (efrit-test-plan-error 'efrit-plan-disk
                                                    (lambda () (efrit-plan-git root "status")))))))

(ert-deftest efrit-plan-git-what-it-says-is-bounded ()
  (efrit-plan-git-test--with-repository
    (efrit-test-plan-stand-in
     (concat top "much/")
     "[ \"$1\" = version ] && exec \"$GIT\" version\nyes | head -c 9000000 >&2; exit 1")
    (should (< (length (efrit-test-plan-error 'efrit-plan-git-failed
                                              (lambda () (efrit-plan-git root "status"))))
               3000))))

(ert-deftest efrit-plan-git-of-long-output-the-beginning-can-be-had ()
  (efrit-plan-git-test--with-repository
    (efrit-test-plan-write "long" (make-string 3000000 ?x))
    (efrit-plan-git-test--commit root)
    (should (equal (efrit-plan-git-head root 5 "show" "HEAD:long") "xxxxx"))
    (should (equal (efrit-plan-git-head root 5000 "show" "-s" "--format=%s" "HEAD") "x\n"))
    (efrit-test-plan-error 'efrit-plan-git-failed
                           (lambda () (efrit-plan-git-head root 5 "show" "HEAD:none")))))

(ert-deftest efrit-plan-git-files-of-the-head-are-read-at-once ()
  (efrit-plan-git-test--with-repository
    (efrit-test-plan-write "a" "é\n\n")
    (efrit-test-plan-write "d/b" "")
    (efrit-plan-git-test--commit root)
    (should (equal (efrit-plan-git-files root "a" "none" "d/b" "d" "a")
                   '("é\n\n" nil "" nil "é\n\n")))))

;;;; What must survive a power cut

(ert-deftest efrit-plan-git-what-a-step-consists-of-is-synced-before-it-is-returned ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (efrit-test-plan-work "a" "1\n")
    (let ((trace (concat top "trace")) flushed)
      (efrit-test-plan-stand-in (concat top "bin/")
                                (format "GIT_TRACE2_EVENT=%s exec \"$GIT\" \"$@\"" trace))
      (write-region (format "#!/bin/sh\necho \"$@\" > %ssynced\n" top)
                    nil (concat top "bin/sync") nil 'silent)
      (set-file-modes (concat top "bin/sync") #o755)
      (efrit-test-plan-act 1)
      (with-temp-buffer
        (insert-file-contents trace)
        (while (re-search-forward "\"start\",\"sid\":\"\\([^\"]+\\)\".*\"argv\":\\[\"[^\"]*\",\"\\([^\"]+\\)\"" nil t)
          (let ((sid (match-string 1)) (command (match-string 2)))
            (when (save-excursion
                    (re-search-forward (concat (regexp-quote sid) ".*hardware-flush") nil t))
              (push command flushed)))))
      (should (equal (reverse flushed) '("add" "write-tree" "commit-tree" "update-ref")))
      (should (string-prefix-p (concat efrit-test-plan-root ".git/refs/heads")
                               (efrit-test-plan-read "../../../synced"))))))

;;;; Locks

(ert-deftest efrit-plan-git-locks-of-the-dead-are-removed ()
  (efrit-plan-git-test--with-repository
    (efrit-plan-git-test--commit root)
    (dolist (lock '("index" "HEAD" "packed-refs" "refs/heads/main"))
      (write-region "" nil (concat root ".git/" lock ".lock") nil 'silent))
    (efrit-test-plan-error 'efrit-plan-git-failed (lambda () (efrit-plan-git root "add" ".")))
    (efrit-plan-git-unlock root)
    (efrit-plan-git-test--commit root)
    (should-not (directory-files-recursively (concat root ".git") "\\.lock\\'"))))

(ert-deftest efrit-plan-git-a-lock-of-the-living-is-respected ()
  (efrit-plan-git-test--with-repository
    (let* ((lock (concat root ".git/index.lock"))
           (default-directory root)
           (efrit-plan-git--lock-seconds 0.2)
           (other (make-process :name "other" :command '("git" "cat-file" "--batch")
                                :connection-type 'pipe :noquery t)))
      (unwind-protect
          (progn
            (efrit-test-wait (efrit-plan-git--other root))
            (write-region "" nil lock nil 'silent)
            (should (string-search
                     (format "process %d" (process-id other))
                     (efrit-test-plan-error 'efrit-plan-git-failed
                                            (lambda () (efrit-plan-git-unlock root)))))
            (should (file-exists-p lock)))
        (delete-process other))
      (let ((efrit-plan-git--lock-seconds efrit-test-timeout))
        (efrit-plan-git-unlock root))
      (should-not (file-exists-p lock)))))

(provide 'efrit-plan-git-test)
;;; efrit-plan-git-test.el ends here
