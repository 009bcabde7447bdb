;;; efrit-plan-crash-test.el --- Tests of plans whose Emacs dies  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; For every function that commits, an Emacs of its own is killed before and
;; after each call of git that may change something, and before each file it
;; writes; then the same is asked for again.  There must be one commit of the step,
;; what it holds must be what it would have held, and nothing of the work may be
;; lost.  The same with a disk that takes no more, at each such call of git.

;;; Code:

(require 'efrit-test-plan)
(require 'efrit-test-queue)

;;;; An Emacs that dies

(defconst efrit-plan-crash-test--git "
# What only reads leaves all as it is: to be killed there is to be killed before the next.
case $1 in version|log|cat-file|rev-parse) exec \"$GIT\" \"$@\" ;; esac
count=0
[ ! -e \"$EFRIT_TEST_COUNT\" ] || read -r count < \"$EFRIT_TEST_COUNT\"
count=$(( count + 1 ))
echo $count > \"$EFRIT_TEST_COUNT\"
[ $count = \"$EFRIT_TEST_AT\" ] || exec \"$GIT\" \"$@\"
case $EFRIT_TEST_HOW in
  before) kill -9 \"$EFRIT_TEST_VICTIM\" ;;
  after) \"$GIT\" \"$@\"; kill -9 \"$EFRIT_TEST_VICTIM\" ;;
  late)
    case $1 in commit-tree) cat > \"$EFRIT_TEST_COUNT.input\" ;; *) : > \"$EFRIT_TEST_COUNT.input\" ;; esac
    echo $1 > \"$EFRIT_TEST_COUNT.what\"
    # Emacs waits for whoever holds what it reads.
    exec >/dev/null 2>&1
    kill -9 \"$EFRIT_TEST_VICTIM\"
    while [ ! -e \"$EFRIT_TEST_COUNT.go\" ] && [ -d \"${EFRIT_TEST_COUNT%/*}\" ]; do sleep 0.02; done
    \"$GIT\" \"$@\" < \"$EFRIT_TEST_COUNT.input\"
    touch \"$EFRIT_TEST_COUNT.done\" ;;
  full)
    # Nothing can be written to a file; what is said goes through a pipe.
    set -o pipefail
    { (trap '' XFSZ; ulimit -f 0; exec \"$GIT\" \"$@\" 2>&1 >&3) | cat >&2; } 3>&1 ;;
esac
"
  "A git that does at one of its calls what the environment says.")

(defun efrit-plan-crash-test--stand-in (at how)
  "Have git do HOW at its call number AT from now on."
  (let ((count (concat (file-name-directory (directory-file-name efrit-workspace-directory))
                       "count")))
    (ignore-errors (delete-file count))
    (setenv "EFRIT_TEST_COUNT" count)
    (setenv "EFRIT_TEST_AT" (number-to-string at))
    (setenv "EFRIT_TEST_HOW" how)))

(defun efrit-plan-crash-test--child (name members &optional writes)
  "Have an Emacs of its own call the function NAME of plans with MEMBERS.
It kills itself before its file number WRITES, unless nil.
Return (STATUS . OUTPUT)."
  (with-temp-buffer
    ;; What one that is killed leaves is gone with the workspace.
    (let ((process-environment
           (cons (concat "TMPDIR=" (file-name-directory (directory-file-name efrit-workspace-directory)))
                 process-environment))
          (form `(progn
                   (setq gc-cons-threshold ,gc-cons-threshold)
                   (setenv "EFRIT_TEST_VICTIM" (number-to-string (emacs-pid)))
                   (require 'efrit-plan)
                   (setq efrit-workspace-directory ,efrit-workspace-directory)
                   (let ((left ,writes))
                     (when left
                       ;; All that writes is byte code: native code, for which a library is loaded, would take as long again.
                       (setq comp-enable-subr-trampolines nil native-comp-enable-subr-trampolines nil
                             features (delq 'native-compile features))
                       (advice-add 'write-region :before
                                   (lambda (&rest _)
                                     (when (= (setq left (1- left)) 0)
                                       (signal-process (emacs-pid) 'SIGKILL)
                                       (sleep-for 60))))))
                   (princ (funcall ',(intern (format "efrit-plan-%s" name))
                                   ,(efrit-test-plan-arguments members))))))
      (cons (call-process (expand-file-name invocation-name invocation-directory) nil t nil "-Q" "--batch" "-L" (file-name-directory (locate-library "efrit-plan"))
                          "--eval" (prin1-to-string form))
            (buffer-string)))))

(defun efrit-plan-crash-test--once (name members check how at)
  "Kill an Emacs HOW at AT while it does NAME with MEMBERS; return whether it died.
CHECK is as in `efrit-plan-crash-test--every'."
  (efrit-plan-crash-test--stand-in (if (eq how 'write) -1 at) (format "%s" how))
  (pcase-let ((`(,status . ,output)
               (efrit-plan-crash-test--child name members (and (eq how 'write) at))))
    (ert-info ((format "%s, killed %s number %d" name how at))
      (unless (stringp status) (should (equal (cons status output) (cons 0 output))))
      (efrit-plan-crash-test--stand-in -1 "")
      (funcall check (apply #'efrit-test-plan name members))
      (should (equal (efrit-test-plan-git "status" "--porcelain" "user_intent" "working_plan")
                     ""))
      (should-not (directory-files-recursively (concat efrit-test-plan-root ".git") "\\.lock\\'"))
      (efrit-test-plan-git "fsck" "--strict"))
    (stringp status)))

(defun efrit-plan-crash-test--shell (directory script)
  "Run the shell SCRIPT in DIRECTORY."
  (let ((default-directory directory))
    (should (equal 0 (call-process "sh" nil nil nil "-ec" script)))))

(defvar efrit-plan-crash-test--stride 1
  "From a call of git that is hit, how many on the next is that is hit.")

(defun efrit-plan-crash-test--every (name members prepare check)
  "Kill an Emacs at every point of the function NAME of plans called with MEMBERS.
PREPARE makes what is there before, once: each Emacs finds it as it was.
CHECK is called when the same was asked for again, with the answer.
MEMBERS may be a function that returns them."
  (efrit-test-with-plan
    (funcall prepare)
    (when (functionp members) (setq members (funcall members)))
    (efrit-plan-crash-test--shell top "set -- *; mkdir kept; cp -a \"$@\" kept")
    (efrit-test-plan-stand-in (concat top "bin/") efrit-plan-crash-test--git)
    (cl-flet ((once (how at)
                (efrit-plan-crash-test--shell
                 top "for each in kept/*; do rm -rf \"${each#kept/}\"; done; cp -a kept/. .")
                (efrit-plan-crash-test--once name members check how at)))
      ;; What is after a call of git is before the next, but for the last.
      (let ((at 1))
        (while (once 'before at)
          (setq at (+ at efrit-plan-crash-test--stride)))
        (should (> at 4))
        (when (= efrit-plan-crash-test--stride 1)
          (should (once 'after (1- at)))))
      (let ((at 1))
        (while (once 'write at)
          (setq at (1+ at)))
        (should (> at (if (eq name 'commit-act) 0 1)))))))

;;;; Killed at each point

(ert-deftest efrit-plan-crash-an-act-is-committed-once ()
  (efrit-plan-crash-test--every
   'commit-act '(:step 1 :task "a" :description "Do a" :outcome "Success" :result "Done.")
   (lambda ()
     (efrit-test-plan-begin)
     (efrit-test-plan-work "a" "work\n")
     (efrit-test-plan-work "sub/b" "more\n"))
   (lambda (answer)
     (should (equal (efrit-test-plan-subjects) '("[begin] PLAN: Make a thing" "[a] ACT: Do a")))
     (should (equal (alist-get 'changed answer) '("a" "sub/b")))
     (should (equal (efrit-test-plan-git "show" "HEAD:environment/sub/b") "more"))
     (should (equal (efrit-test-plan-git "show" "HEAD:working_plan/result.json") "\"Done.\""))
     (should (equal (efrit-test-plan-git "status" "--porcelain") "")))))

(ert-deftest efrit-plan-crash-an-adapt-is-committed-once ()
  (efrit-plan-crash-test--every
   'commit-adapt (efrit-test-plan-adapt-members 2)
   (lambda ()
     (efrit-test-plan-begin)
     (efrit-test-plan-act 1)
     (efrit-test-plan-work "new" "work of the next act\n"))
   (lambda (_)
     (should (equal (efrit-test-plan-subjects)
                    '("[begin] PLAN: Make a thing" "[a] ACT: Do a" "[a] ADAPT: It is done")))
     (should (equal (efrit-test-plan-git "diff" "--name-only" "HEAD^" "HEAD")
                    "working_plan/current.json\nworking_plan/observations.json"))
     (should (string-search "\"done\"" (efrit-test-plan-read "working_plan/current.json")))
     (should (equal (efrit-test-plan-read "environment/new") "work of the next act\n")))))

(ert-deftest efrit-plan-crash-an-amendment-is-committed-once ()
  (efrit-plan-crash-test--every
   'amend '(:step 1 :number 1 :text "Also")
   #'efrit-test-plan-begin
   (lambda (_)
     (should (equal (efrit-test-plan-subjects) '("[begin] PLAN: Make a thing" "[amend] 1: Also")))
     (should (equal (efrit-test-plan-read "user_intent/amendments/0001.json")
                    "{\"number\":1,\"text\":\"Also\"}\n")))))

(ert-deftest efrit-plan-crash-a-plan-begins-once ()
  (efrit-plan-crash-test--every
   'begin (efrit-test-plan-begin-members)
   #'ignore
   (lambda (answer)
     (should (equal (alist-get 'step answer) 0))
     (should (equal (efrit-test-plan-subjects) '("[begin] PLAN: Make a thing")))
     (should (equal (directory-files (concat efrit-workspace-directory "plans") nil "[^.]")
                    '(".new" "p")))
     (should-not (directory-files (concat efrit-workspace-directory "plans/.new") nil "[^.]")))))

(defun efrit-plan-crash-test--upstream ()
  "Make a repository beside the workspace; return the URL it is cloned from."
  (let ((default-directory (file-name-as-directory
                            (expand-file-name "../upstream" efrit-workspace-directory))))
    (make-directory default-directory)
    (write-region "1\n" nil "old" nil 'silent)
    (dolist (arguments '(("init" "-q" "-b" "main") ("add" "old")
                         ("-c" "user.name=U" "-c" "user.email=u@x" "commit" "-q" "-m" "Upstream")))
      (should (equal 0 (apply #'call-process "git" nil nil nil arguments))))
    (concat "file://" (directory-file-name default-directory))))

(ert-deftest efrit-plan-crash-a-plan-on-a-clone-begins-once ()
  ;; Most of its calls are those of a plan without a clone.
  (let ((efrit-plan-crash-test--stride 3) url)
    (efrit-plan-crash-test--every
     'begin (lambda () (efrit-test-plan-begin-members :environment `((git . ,url))))
     (lambda () (setq url (efrit-plan-crash-test--upstream)))
     (lambda (_)
       (should (equal (efrit-test-plan-subjects) '("[begin] PLAN: Make a thing")))
       (should (equal (efrit-test-plan-read "environment/old") "1\n"))
       (should (equal (efrit-test-plan-git "status" "--porcelain") ""))))))

(ert-deftest efrit-plan-crash-an-act-in-a-clone-is-committed-once-in-each-repository ()
  (efrit-plan-crash-test--every
   'commit-act '(:step 1 :task "a" :description "Do a" :outcome "Success" :result "Done.")
   (lambda ()
     (efrit-test-plan-begin :environment `((git . ,(efrit-plan-crash-test--upstream))))
     (efrit-test-plan-work "new" "work\n"))
   (lambda (answer)
     (should (equal (alist-get 'changed answer) '("new")))
     (should (equal (efrit-test-plan-subjects) '("[begin] PLAN: Make a thing" "[a] ACT: Do a")))
     (let ((efrit-test-plan-root (concat efrit-test-plan-root "environment/")))
       (should (equal (efrit-test-plan-subjects) '("Upstream" "[a] ACT: Do a")))
       (should (equal (efrit-test-plan-git "status" "--porcelain") ""))))))

;;;; A git that outlives its Emacs

(ert-deftest efrit-plan-crash-a-git-that-wakes-up-late-makes-no-second-commit ()
  (let ((met nil) (at 0))
    (while (not (equal met "update-ref"))
      (setq at (1+ at))
      (efrit-test-with-plan
        (efrit-test-plan-begin)
        (efrit-test-plan-work "a" "work\n")
        (efrit-test-plan-stand-in (concat top "bin/") efrit-plan-crash-test--git)
        (efrit-plan-crash-test--stand-in at "late")
        (let ((count (getenv "EFRIT_TEST_COUNT")) (members '(:step 1 :task "a" :description "Do a")))
          (should (stringp (car (efrit-plan-crash-test--child 'commit-act members))))
          (setq met (string-trim (efrit-plan-crash-test--text (concat count ".what"))))
          (efrit-plan-crash-test--stand-in -1 "")
          ;; Made within one second, both commits would be the same.
          (let ((now (truncate (float-time))))
            (efrit-test-wait (> (truncate (float-time)) now)))
          (let ((hash (alist-get 'hash (apply #'efrit-test-plan 'commit-act members))))
            (write-region "" nil (concat count ".go") nil 'silent)
            (efrit-test-wait (file-exists-p (concat count ".done")))
            (ert-info ((format "late: %s" met))
              (should (equal (efrit-test-plan-git "rev-parse" "HEAD") hash))
              (should (equal (length (efrit-test-plan-subjects)) 2))
              (efrit-test-plan-adapt 2)
              (should (equal (length (efrit-test-plan-subjects)) 3)))))))))

(defun efrit-plan-crash-test--text (file)
  "Return the text of FILE."
  (with-temp-buffer (insert-file-contents file) (buffer-string)))

;;;; What was half done

(ert-deftest efrit-plan-crash-half-of-a-file-is-thrown-away ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (efrit-test-plan-write "working_plan/current.json" "{\"id\":\"ro")
    (efrit-test-plan-write "working_plan/observations.json" "[{")
    (efrit-test-plan-write "user_intent/amendments/0001.json" "{")
    (efrit-test-plan-git "add" "-A")
    (write-region "" nil (concat efrit-test-plan-root ".git/index.lock") nil 'silent)
    (write-region "garbage" nil (concat efrit-test-plan-root ".git/objects/tmp_obj_x") nil 'silent)
    (efrit-test-plan-work "a" "work\n")
    (should (equal (efrit-test-plan-get (efrit-test-plan-look) 'tree 'value 'id) "root"))
    (should (equal (alist-get 'changed (efrit-test-plan-act 1)) '("a")))
    (should (equal (efrit-test-plan-git "ls-files")
                   "environment/a\nuser_intent/project.json\nworking_plan/current.json"))
    (efrit-test-plan 'amend :step 2 :number 1 :text "Also")
    (should (equal (efrit-test-plan-git "status" "--porcelain") ""))))

(ert-deftest efrit-plan-crash-half-of-a-plan-is-begun-anew ()
  (efrit-test-with-plan
    (let ((half (concat efrit-workspace-directory "plans/.new/p/")))
      (make-directory (concat half ".git") t)
      (make-directory (concat half "environment"))
      (write-region "x" nil (concat half "environment/half") nil 'silent)
      (should (equal (efrit-test-plan-look) '((missing . t))))
      (should (equal (alist-get 'step (efrit-test-plan-begin)) 0))
      (should-not (file-exists-p half))
      (should-not (file-exists-p (concat efrit-test-plan-root "environment/half"))))))

;;;; A disk that takes no more

(ert-deftest efrit-plan-crash-a-full-disk-costs-nothing-at-any-call-of-git ()
  (dolist (step '(commit-act commit-adapt))
    (let ((at 0) (refused 0) (done nil))
      (while (not done)
        (setq at (1+ at))
        (efrit-test-with-plan
          (efrit-test-plan-begin)
          (efrit-test-plan-work "a" "work\n")
          (efrit-test-plan-stand-in (concat top "bin/") efrit-plan-crash-test--git)
          (efrit-plan-crash-test--stand-in at "full")
          (let ((call (lambda () (if (eq step 'commit-act) (efrit-test-plan-act 1)
                                   (efrit-test-plan-adapt 1)))))
            (ert-info ((format "%s, call %d" step at))
              (condition-case err
                  (funcall call)
                (efrit-plan-disk
                 (setq refused (1+ refused))
                 (should (string-match-p "\\`The volume of the workspace \\(is full\\|cannot be used\\)"
                                         (error-message-string err)))))
              (setq done (< (string-to-number
                             (efrit-plan-crash-test--text (getenv "EFRIT_TEST_COUNT")))
                            at))
              (efrit-plan-crash-test--stand-in -1 "")
              (funcall call)
              (should (equal (length (efrit-test-plan-subjects)) 2))
              (should (equal (efrit-test-plan-read "environment/a") "work\n"))
              (efrit-test-plan-git "fsck" "--strict")))))
      (should (>= refused 3)))))

(ert-deftest efrit-plan-crash-files-that-cannot-be-written-are-reported-as-such ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (let ((amend (lambda ()
                   (efrit-test-plan-git "add" "-A")
                   (efrit-test-plan-git "commit" "-q" "--amend" "--allow-empty" "--no-edit")))
          (full (concat efrit-test-plan-root "working_plan/observations.json")))
      (make-symbolic-link "/dev/full" full)
      (funcall amend)
      (should (string-prefix-p "The volume of the workspace is full"
                               (efrit-test-plan-error 'efrit-plan-disk
                                                      (lambda () (efrit-test-plan-adapt 1)))))
      (should (equal (length (efrit-test-plan-subjects)) 1))
      (delete-file full)
      (efrit-test-plan-git "checkout" "-q" "--" "working_plan/current.json")
      (funcall amend)
      (efrit-test-plan-adapt 1)
      (should (equal (length (efrit-test-plan-subjects)) 2)))))

(provide 'efrit-plan-crash-test)
;;; efrit-plan-crash-test.el ends here
