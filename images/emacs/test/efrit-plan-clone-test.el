;;; efrit-plan-clone-test.el --- Tests of plans that work on a clone  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Cloning from a server on loopback and from a directory, what is recorded of a
;; clone, and that nothing keeps or tells what was used to prove who asks.

;;; Code:

(require 'efrit-test-plan)
(require 'efrit-test-queue)
(require 'efrit-plan-clone)
(require 'url)

(defconst efrit-plan-clone-test--token "test-token-5up3r"
  "What the server of the tests wants to know.")

(defun efrit-plan-clone-test--url (path)
  "Return the URL of PATH on the server of the tests."
  (concat (or (getenv "EFRIT_TEST_GIT_URL") (error "No server: start the tests by images/emacs/test/run"))
          "/" path "/code.git"))

(defun efrit-plan-clone-test--begin (url &rest members)
  "Begin the plan on a clone of URL, with MEMBERS, a plist, of the environment."
  (efrit-test-plan-begin :environment (efrit-json-object `(:git ,url ,@members))))

(defun efrit-plan-clone-test--inside (&rest arguments)
  "Return what git, run with ARGUMENTS, says of the clone."
  (let ((efrit-test-plan-root (concat efrit-test-plan-root "environment/")))
    (apply #'efrit-test-plan-git arguments)))

(defun efrit-plan-clone-test--secret (name &rest files)
  "Make the directory NAME with FILES, a plist of names and texts; return its path."
  (let ((path (expand-file-name (concat "../" name) efrit-workspace-directory)))
    (make-directory path)
    (cl-loop for (file text) on files by #'cddr
             do (write-region text nil (concat path "/" file) nil 'silent))
    path))

(defun efrit-plan-clone-test--asked ()
  "Return the lines the server of the tests keeps about requests."
  (with-temp-buffer
    (call-process "curl" nil t nil "-s" (concat (getenv "EFRIT_TEST_GIT_URL") "/asked"))
    (split-string (buffer-string) "\n" t)))

;;;; Cloning

(ert-deftest efrit-plan-clone-it-begins-on-a-branch-of-its-own ()
  (efrit-test-with-plan
    (efrit-plan-clone-test--begin (efrit-plan-clone-test--url "public"))
    (should (equal (efrit-plan-clone-test--inside "log" "--format=%s") "Second\nFirst"))
    (should (equal (efrit-plan-clone-test--inside "symbolic-ref" "HEAD") "refs/heads/efrit/p"))
    (should (equal (efrit-test-plan-read "environment/old.txt") "two\n"))
    (should (equal (efrit-test-plan-git "ls-tree" "HEAD" "environment")
                   (format "160000 commit %s\tenvironment"
                           (efrit-plan-clone-test--inside "rev-parse" "HEAD"))))
    (should (equal (efrit-test-plan-value (efrit-test-plan-read "user_intent/environment.json"))
                   `((git . ,(efrit-plan-clone-test--url "public")) (branch) (revision))))
    (should (equal (efrit-test-plan-git "status" "--porcelain") ""))))

(ert-deftest efrit-plan-clone-it-begins-at-the-given-revision ()
  (dolist (members '((:branch "side") (:revision "v1") (:branch "main" :revision "side")))
    (efrit-test-with-plan
      (apply #'efrit-plan-clone-test--begin (efrit-plan-clone-test--url "public") members)
      (should (equal (efrit-plan-clone-test--inside "log" "--format=%s") "First"))
      (should (equal (efrit-test-plan-read "environment/old.txt") "one\n"))))
  (efrit-test-with-plan
    (should (string-search "has no branch, tag or commit none"
                           (efrit-test-plan-error
                            'efrit-plan-arguments
                            (lambda () (efrit-plan-clone-test--begin
                                        (efrit-plan-clone-test--url "public") :revision "none")))))
    (should (equal (efrit-test-plan-look) '((missing . t))))))

(ert-deftest efrit-plan-clone-an-empty-repository-gets-its-first-commit ()
  (efrit-test-with-plan
    (efrit-plan-clone-test--begin (efrit-plan-clone-test--url "empty"))
    (efrit-test-plan-work "new" "1\n")
    (should (equal (alist-get 'changed (efrit-test-plan-act 1)) '("new")))
    (should (equal (efrit-plan-clone-test--inside "log" "--reverse" "--format=%s")
                   "[begin] PLAN: Make a thing\n[a] ACT: Do a"))))

(ert-deftest efrit-plan-clone-a-url-that-is-none-is-refused-unseen ()
  (efrit-test-with-plan
    (dolist (url '("ext::sh -c true" "-u x" "--upload-pack=x" "relative/path" "" "ftp://host/x"
                   "https://user:5ecret@host/x" "https://5ecret@host/x" "ssh://u:5ecret@host/x"
                   "https://host/x?private_token=5ecret" "https://host/x\nhelper = y"))
      (ert-info (url)
        (should-not (string-search "5ecret"
                                   (efrit-test-plan-error
                                    'efrit-plan-arguments
                                    (lambda () (efrit-plan-clone-test--begin url)))))))
    (should-not (file-exists-p efrit-test-plan-root))))

(ert-deftest efrit-plan-clone-what-cannot-be-cloned-leaves-no-plan ()
  (efrit-test-with-plan
    (let ((said (efrit-test-plan-error
                 'efrit-plan-git-failed
                 (lambda () (efrit-plan-clone-test--begin "http://127.0.0.1:9/none")))))
      (should (string-prefix-p "http://127.0.0.1:9/none could not be cloned" said)))
    (should (equal (efrit-test-plan-look) '((missing . t))))
    (should (equal (alist-get 'step (efrit-test-plan-begin)) 0))))

(ert-deftest efrit-plan-clone-it-takes-as-long-as-it-may ()
  (efrit-test-with-plan
    (let ((server (make-network-process :name "silent" :server t :host "127.0.0.1" :service t :noquery t)))
      (unwind-protect
          (should (string-search
                   "could not be cloned in 0.5 seconds"
                   (efrit-test-plan-error
                    'efrit-plan-git-failed
                    (lambda ()
                      (efrit-test-plan-begin
                       :timeout 0.5
                       :environment `((git . ,(format "http://127.0.0.1:%d/x"
                                                      (process-contact server :service)))))))))
        (delete-process server)))))

;;;; Proving who asks

(defun efrit-plan-clone-test--found (directory &rest texts)
  "Return the files below DIRECTORY in which one of TEXTS is."
  (cl-loop for text in texts
           append (with-temp-buffer
                    (call-process "grep" nil t nil "-rlaF" "--" text directory)
                    (split-string (buffer-string) "\n" t))))

(ert-deftest efrit-plan-clone-credentials-of-any-form-do-and-are-kept-nowhere ()
  (let ((token efrit-plan-clone-test--token))
    (pcase-dolist (`(,form . ,make)
                   `((token . ,(lambda () (efrit-plan-clone-test--secret "secret" "token" (concat token "\n"))))
                     (basic . ,(lambda () (efrit-plan-clone-test--secret
                                           "secret" "username" "me" "password" token)))
                     (line . ,(lambda () (concat (efrit-plan-clone-test--secret "secret" "f" (concat token "\r\n"))
                                                 "/f")))
                     (lines . ,(lambda () (concat (efrit-plan-clone-test--secret
                                                   "secret" "f" (format "username=me\npassword=%s\n" token))
                                                  "/f")))
                     (named . ,(lambda () (concat (efrit-plan-clone-test--secret
                                                   "secret" "f" (format "token=%s\n" token))
                                                  "/f")))))
      (ert-info ((symbol-name form))
        (efrit-test-with-plan
          (setenv "HOME" top)
          (setenv "GIT_TRACE" (concat top "trace"))
          (setenv "GIT_CURL_VERBOSE" "1")
          (let* ((path (funcall make))
                 (answer (format "%S" (efrit-plan-clone-test--begin
                                       (efrit-plan-clone-test--url "private")
                                       :credentialsFile path)))
                 (encoded (base64-encode-string (concat "me:" token))))
            (efrit-test-plan-work "new" "1\n")
            (setq answer (concat answer (efrit-plan-commit-act
                                         (efrit-test-plan-arguments
                                          '(:step 1 :task "a" :description "x")))
                                 (efrit-plan-history (efrit-test-plan-arguments nil))
                                 (with-current-buffer (messages-buffer) (buffer-string))))
            (should-not (string-search token answer))
            (should-not (string-search "credentialsFile" answer))
            (delete-directory (concat top "secret") t)
            (should-not (efrit-plan-clone-test--found top token encoded path))))))))

(ert-deftest efrit-plan-clone-a-credential-is-in-no-argument-and-no-environment ()
  (efrit-test-with-plan
    (let ((path (efrit-plan-clone-test--secret "secret" "token" efrit-plan-clone-test--token)))
      (efrit-test-plan-stand-in (concat top "bin/")
                                (format "{ printf '%%s\\n' \"$@\"; cat /proc/$$/environ; } >> %sseen
exec \"$GIT\" \"$@\"" top))
      (efrit-plan-clone-test--begin (efrit-plan-clone-test--url "private") :credentialsFile path)
      (delete-directory path t)
      (should (string-search "/code.git" (efrit-test-plan-read "../../../seen")))
      (should-not (efrit-plan-clone-test--found top efrit-plan-clone-test--token)))))

(ert-deftest efrit-plan-clone-a-refusal-says-what-to-do-without-the-secret ()
  (efrit-test-with-plan
    (should (string-search "it wants credentials; put them into a Secret"
                           (efrit-test-plan-error
                            'efrit-plan-git-failed
                            (lambda () (efrit-plan-clone-test--begin
                                        (efrit-plan-clone-test--url "private"))))))
    (let ((path (efrit-plan-clone-test--secret "secret" "token" "wr0ng-secret")))
      (let ((said (efrit-test-plan-error
                   'efrit-plan-git-failed
                   (lambda () (efrit-plan-clone-test--begin (efrit-plan-clone-test--url "private")
                                                            :credentialsFile path)))))
        (should (string-search "it does not take the credentials in the Secret" said))
        (should-not (string-search "wr0ng" said)))
      (should (string-search "the Secret needs token"
                             (efrit-test-plan-error
                              'efrit-plan-arguments
                              (lambda () (efrit-plan-clone-test--begin
                                          (efrit-plan-clone-test--url "private")
                                          :credentialsFile top)))))
      (should (string-search "cannot be read"
                             (efrit-test-plan-error
                              'efrit-plan-no-credentials
                              (lambda () (efrit-plan-clone-test--begin
                                          (efrit-plan-clone-test--url "private")
                                          :credentialsFile (concat path "/none")))))))))

(ert-deftest efrit-plan-clone-what-a-server-repeats-of-a-secret-is-left-out ()
  (efrit-test-with-plan
    (let ((path (efrit-plan-clone-test--secret "secret" "token" "5ecret-token")))
      (efrit-test-plan-stand-in (concat top "bin/")
                                "[ \"$1\" = clone ] || exec \"$GIT\" \"$@\"
echo 'remote: you said 5ecret-token' >&2; exit 128")
      (should (string-search "remote: you said [credential]"
                             (efrit-test-plan-error
                              'efrit-plan-git-failed
                              (lambda () (efrit-plan-clone-test--begin "https://localhost/x"
                                                                       :credentialsFile path))))))))

(ert-deftest efrit-plan-clone-another-host-does-not-get-the-secret ()
  (efrit-test-with-plan
    (let ((path (efrit-plan-clone-test--secret "secret" "token" efrit-plan-clone-test--token)))
      (efrit-test-plan-error 'efrit-plan-git-failed
                             (lambda () (efrit-plan-clone-test--begin
                                         (efrit-plan-clone-test--url "moved") :credentialsFile path)))
      (let ((asked (efrit-plan-clone-test--asked)))
        (should (seq-find (lambda (line) (string-prefix-p "localhost /private/" line)) asked))
        (should-not (seq-find (lambda (line) (string-match-p "\\`localhost .* credential" line)) asked))))))

(ert-deftest efrit-plan-clone-an-ssh-key-is-known-to-an-agent-alone ()
  (efrit-test-with-plan
    (let* ((path (efrit-plan-clone-test--secret "secret" "known_hosts" "host ssh-ed25519 AAAA\n"))
           (upstream (concat top "upstream")) (bin (concat top "bin/")))
      (should (equal 0 (call-process "ssh-keygen" nil nil nil "-q" "-t" "ed25519" "-N" "" "-C" "the key"
                                     "-f" (concat path "/ssh-privatekey"))))
      (make-directory upstream)
      (let ((default-directory (file-name-as-directory upstream)))
        (should (equal 0 (call-process "git" nil nil nil "init" "-q")))
        (should (equal 0 (call-process "git" nil nil nil "-c" "user.name=U" "-c" "user.email=u@x"
                                       "commit" "-q" "--allow-empty" "-m" "Upstream"))))
      ;; An ssh that tells what it was given, and serves the repository itself.
      (make-directory bin)
      (write-region (format "#!/bin/sh\n{ printf '%%s\\n' \"$@\"; ssh-add -l; } > %sseen
exec git upload-pack %s\n"
                            top upstream)
                    nil (concat bin "ssh") nil 'silent)
      (set-file-modes (concat bin "ssh") #o755)
      (setenv "PATH" (concat bin ":" (getenv "PATH")))
      (efrit-plan-clone-test--begin "ssh://git@host/code.git" :credentialsFile path)
      (should (equal (efrit-plan-clone-test--inside "log" "--format=%s") "Upstream"))
      (let ((seen (efrit-test-plan-read "../../../seen")))
        (should (string-search "the key (ED25519)" seen))
        (should (string-search "StrictHostKeyChecking=yes" seen))
        (should (string-search (concat "UserKnownHostsFile=" path "/known_hosts") seen)))
      (let ((line (with-temp-buffer
                    (insert-file-contents (concat path "/ssh-privatekey"))
                    (forward-line 2)
                    (buffer-substring (point) (line-end-position)))))
        (delete-directory path t)
        (should-not (efrit-plan-clone-test--found top line))))))

(ert-deftest efrit-plan-clone-an-unknown-host-is-not-cloned-from ()
  (dolist (files '(nil ("token" "t0ken") ("known_hosts" "host ssh-ed25519 AAAA\n")))
    (efrit-test-with-plan
      (let* ((path (and files (apply #'efrit-plan-clone-test--secret "secret" files)))
             (variables (string-join (efrit-plan-clone--variables path "ssh://git@host/x") "\n")))
        (should (string-search "StrictHostKeyChecking=yes" variables))
        (should-not (string-search "accept-new" variables))
        (should-not (string-search "/dev/null" variables))
        (should (eq (and (equal (car files) "known_hosts") t)
                    (and (string-search "UserKnownHostsFile=" variables) t)))))))

(ert-deftest efrit-plan-clone-credentials-are-not-sent-in-the-clear ()
  (dolist (files '(("token" "t0ken") ("username" "u" "password" "5ecret")))
    (efrit-test-with-plan
      (let ((path (apply #'efrit-plan-clone-test--secret "secret" files)))
        (should (string-search "needs https"
                               (efrit-test-plan-error
                                'efrit-plan-arguments
                                (lambda () (efrit-plan-clone-test--begin "http://git.example.invalid/code.git"
                                                                         :credentialsFile path)))))))))

(ert-deftest efrit-plan-clone-https-is-not-left-for-http ()
  ;; Without credentials as well: of the code anybody on the way could make another.
  (pcase-dolist (`(,url ,allowed) '(("https://host/x" nil) ("HTTPS://host/x" nil) ("ssh://git@host/x" nil)
                                    ("http://host.team.svc/x" t) ("HTTP://10.0.0.1/x" t)))
    (ert-info (url)
      (let ((protocols (seq-some (lambda (variable)
                                   (and (string-prefix-p "GIT_ALLOW_PROTOCOL=" variable)
                                        (split-string (substring variable 19) ":")))
                                 (efrit-plan-clone--variables nil url))))
        (should (member "https" protocols))
        (should (eq allowed (and (member "http" protocols) t)))))))

;;;; Working in it

(ert-deftest efrit-plan-clone-an-act-commits-there-first ()
  (efrit-test-with-plan
    (efrit-plan-clone-test--begin (efrit-plan-clone-test--url "public"))
    (efrit-test-plan-work "old.txt" "three\n")
    (efrit-test-plan-work "sub/new" "1\n")
    (let ((answer (efrit-test-plan-act 1)))
      (should (equal (alist-get 'changed answer) '("old.txt" "sub/new")))
      (should (string-search "-two\n+three\n" (alist-get 'diff answer)))
      (should (equal (efrit-plan-clone-test--inside "log" "-1" "--format=%s%n%an%n%(trailers:key=Efrit-Step)")
                     "[a] ACT: Do a\nEfrit\nEfrit-Step: 1"))
      (should (equal (efrit-test-plan-git "rev-parse" "HEAD:environment")
                     (efrit-plan-clone-test--inside "rev-parse" "HEAD")))
      (should (equal (efrit-test-plan-act 1) answer)))
    (should (equal (alist-get 'diff (efrit-test-plan-act 2)) ""))
    (should (equal (efrit-plan-clone-test--inside "rev-list" "--count" "HEAD") "3"))
    (should (equal (efrit-test-plan-get (nth 1 (efrit-test-plan-get (efrit-test-plan 'history)
                                                                    'value 'commits))
                                        'work)
                   '((files . 2) (insertions . 2) (deletions . 1))))))

(ert-deftest efrit-plan-clone-what-a-crash-between-the-two-commits-missed-belongs-to-the-first ()
  (efrit-test-with-plan
    (efrit-plan-clone-test--begin (efrit-plan-clone-test--url "public"))
    (efrit-test-plan-work "one" "1\n")
    (efrit-test-plan-act 1)
    ;; As if only the first had been made, and a process of the task had gone on.
    (efrit-test-plan-git "reset" "-q" "--soft" "HEAD^")
    (efrit-test-plan-work "two" "2\n")
    (should (equal (alist-get 'changed (efrit-test-plan-act 1)) '("one" "two")))
    (should (equal (efrit-plan-clone-test--inside "log" "--format=%s")
                   "[a] ACT: Do a\nSecond\nFirst"))))

(ert-deftest efrit-plan-clone-what-a-task-commits-itself-is-recorded ()
  (efrit-test-with-plan
    (efrit-plan-clone-test--begin (efrit-plan-clone-test--url "public"))
    (efrit-plan-clone-test--inside "checkout" "-q" "-b" "feature")
    (efrit-test-plan-work "one" "1\n")
    (efrit-plan-clone-test--inside "add" "-A")
    (efrit-plan-clone-test--inside "commit" "-q" "-m" "By the task")
    (efrit-test-plan-work "two" "2\n")
    (should (equal (alist-get 'changed (efrit-test-plan-act 1)) '("one" "two")))
    (should (equal (efrit-plan-clone-test--inside "log" "-3" "--format=%s")
                   "[a] ACT: Do a\nBy the task\nSecond"))
    (should (equal (efrit-plan-clone-test--inside "symbolic-ref" "HEAD") "refs/heads/feature"))))

(ert-deftest efrit-plan-clone-a-merge-a-task-has-begun-is-ended ()
  (efrit-test-with-plan
    (efrit-plan-clone-test--begin (efrit-plan-clone-test--url "public") :branch "side")
    (efrit-test-plan-work "new" "1\n")
    (efrit-plan-clone-test--inside "add" "-A")
    (efrit-plan-clone-test--inside "commit" "-q" "-m" "By the task")
    (efrit-plan-clone-test--inside "merge" "-q" "--no-commit" "origin/main")
    (efrit-test-plan-act 1)
    (should (equal (efrit-plan-clone-test--inside "log" "-1" "--format=%s" "--merges") "[a] ACT: Do a"))
    (should (equal (efrit-plan-clone-test--inside "status" "--porcelain") ""))))

(ert-deftest efrit-plan-clone-one-that-is-not-a-repository-any-more-is-reported-as-such ()
  (efrit-test-with-plan
    (efrit-plan-clone-test--begin (efrit-plan-clone-test--url "public"))
    (delete-directory (concat efrit-test-plan-root "environment/.git") t)
    (should (string-search "was cloned, and is not a git repository any more"
                           (efrit-test-plan-error 'efrit-plan-changed
                                                  (lambda () (efrit-test-plan-act 1)))))
    (should (equal (efrit-test-plan-read "environment/old.txt") "two\n"))))

(provide 'efrit-plan-clone-test)
;;; efrit-plan-clone-test.el ends here
