;;; efrit-plan-clone.el --- An existing repository as a plan's work  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Clones a repository into environment/ and puts the branch efrit/<plan> on it.
;; What proves who asks is read by the programs that need it: by a helper of
;; git's, for the server of the URL alone, or by an ssh-agent that lives as long
;; as the clone.  It is in no argument, no environment, no file.  Here it is known
;; only to be kept out of the report of a failure.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'efrit-tools-shell)
(require 'efrit-plan-git)

(defconst efrit-plan-clone--seconds 600
  "Seconds a clone may take when nobody says.")

;;;; Where it comes from

(defun efrit-plan-clone-check-url (url)
  "Signal an error unless URL is one that is cloned from."
  (cond ((not (string-match-p
               (concat "\\`\\(?:https?://\\|ssh://\\|git://\\|file:///\\|/\\|"
                       "[A-Za-z0-9._-]+@[A-Za-z0-9._-]+:[^:]\\)[^\0- \x7f]*\\'")
               url))
         (efrit-plan-fail 'efrit-plan-arguments
                          "environment.git must be a URL (https, http, ssh, git, file), \
user@host:path, or an absolute path"))
        ;; The text of such a URL is not repeated.
        ((string-match-p "\\`\\(?:https?://[^/]*@\\|ssh://[^/@]*:[^/@]*@\\|https?://[^?#]*[?#]\\)" url)
         (efrit-plan-fail 'efrit-plan-arguments
                          "environment.git must hold no credentials and no query: put them into \
a Secret and name it in environment.git.secretRef"))))

;;;; Who asks

(defconst efrit-plan-clone--names '("token" "username" "password" "ssh-privatekey")
  "Files of a directory with credentials, and names in a file with them.")

(defun efrit-plan-clone--credentials (path)
  "Return the credentials at PATH, a file or a directory, as an alist by name."
  (condition-case err
      (if (file-directory-p path)
          (or (cl-loop for name in efrit-plan-clone--names
                       for file = (expand-file-name name path)
                       when (file-exists-p file)
                       collect (cons name (efrit-plan-clone--text file)))
              (efrit-plan-fail 'efrit-plan-arguments "There are no credentials in %s: the Secret needs \
token, or username and password, or ssh-privatekey" path))
        (efrit-plan-clone--parse (efrit-plan-clone--text path)))
    (efrit-plan-error (signal (car err) (cdr err)))
    (file-error
     (efrit-plan-fail 'efrit-plan-no-credentials "The credentials of the clone cannot be read: %s"
                      (error-message-string err)))))

(defun efrit-plan-clone--text (file)
  "Return the text of FILE, which is short."
  (with-temp-buffer
    (insert-file-contents-literally file nil 0 65536)
    (string-trim-right (buffer-string))))

(defun efrit-plan-clone--parse (text)
  "Return the credentials that TEXT, of a file, holds.
That is a key, lines NAME=VALUE, or nothing but a token."
  (if (string-prefix-p "-----BEGIN" text)
      (list (cons "ssh-privatekey" text))
    (or (cl-loop for line in (split-string text "[\r\n]+" t)
                 when (string-match "\\`\\(token\\|username\\|password\\)= *\\(.*\\)\\'" line)
                 collect (cons (match-string 1 line) (match-string 2 line)))
        (list (cons "token" (car (split-string text "[\r\n]+")))))))

(defun efrit-plan-clone--redacted (text credentials)
  "Return TEXT without what is secret of CREDENTIALS."
  (cl-loop for (name . value) in credentials
           unless (or (equal name "username") (< (length value) 4))
           do (setq text (string-replace value "[credential]" text)))
  text)

(defconst efrit-plan-clone--helper "!f() {
  [ \"$1\" = get ] || exit 0
  c=$EFRIT_PLAN_CREDENTIALS
  one() {
    if [ -d \"$c\" ]; then if [ -f \"$c/$1\" ]; then head -n 1 \"$c/$1\"; fi
    else sed -n \"s/^$1= *//p\" \"$c\" | head -n 1; fi | tr -d '\\r'
  }
  user=$(one username) secret=$(one password)
  [ -n \"$secret\" ] || secret=$(one token)
  [ -n \"$secret$user\" ] || [ -d \"$c\" ] || secret=$(head -n 1 \"$c\" | tr -d '\\r')
  [ -n \"$secret\" ] || exit 0
  printf 'username=%s\\npassword=%s\\n' \"${user:-x-access-token}\" \"$secret\"
}; f"
  "Gives git the credentials at a path.
A token goes with a name that any server takes.")

(defconst efrit-plan-clone--agent
  "k=$EFRIT_PLAN_CREDENTIALS
[ ! -d \"$k\" ] || k=$k/ssh-privatekey
{ cat \"$k\"; echo; } | SSH_ASKPASS=false ssh-add -q - || exit 78
exec \"$@\""
  "Gives an agent the key at a path, then runs the arguments.")

(defun efrit-plan-clone--check-privacy (url credentials)
  "Signal an error if CREDENTIALS would be sent to URL in the clear."
  (when (and (or (assoc "token" credentials) (assoc "password" credentials))
             (efrit-settings-in-the-clear-p url))
    (efrit-plan-fail 'efrit-plan-arguments
                     "environment.git.secretRef needs https: over http anybody on the way \
reads the credentials")))

(defun efrit-plan-clone--configuration (url credentials)
  "Return the configuration git gets for URL, to which CREDENTIALS belong."
  (when (and credentials (string-match "\\`https?://[^/]+" url))
    ;; gate: credential-host
    `((,(format "credential.%s.helper" (match-string 0 url)) . ,efrit-plan-clone--helper))))

(defun efrit-plan-clone--variables (path url)
  "Return variables of the environment for a clone of URL.
PATH is that of its credentials, or nil."
  (let ((known-hosts (and path (file-directory-p path) (expand-file-name "known_hosts" path))))
    (append
     (and path (list (concat "EFRIT_PLAN_CREDENTIALS=" (expand-file-name path))))
     (list (concat "GIT_ALLOW_PROTOCOL=https:ssh:git:file"
                   ;; A redirect from https to http would have anybody on the way exchange the code.
                   (and (string-match-p "\\`[Hh][Tt][Tt][Pp]:" url) ":http")) ; gate: clone-redirect
           (concat "GIT_SSH_COMMAND=ssh -F none -o BatchMode=yes -o IdentityFile=none"
                   ;; Without a list of its own, that of the user and that of the image count.
                   " -o StrictHostKeyChecking=yes" ; gate: known-hosts
                   (and known-hosts (file-exists-p known-hosts)
                        (concat " -o UserKnownHostsFile=" (shell-quote-argument known-hosts))))))))

;;;; Cloning

(defun efrit-plan-clone (url directory &rest options)
  "Clone URL into the new DIRECTORY and check a new branch out in it.
OPTIONS is a plist: :plan names the branch efrit/PLAN, :revision says where it
begins (a commit, a tag or a branch), :branch is a branch to begin at its end,
:credentials a path, and :seconds how long it may take."
  (efrit-plan-clone-check-url url)
  (let* ((path (plist-get options :credentials))
         (credentials (and path (efrit-plan-clone--credentials path))))
    (efrit-plan-clone--check-privacy url credentials) ; gate: credentials-in-the-clear
    (efrit-plan-clone--fetch url directory path credentials
                             (or (plist-get options :seconds) efrit-plan-clone--seconds))
    (efrit-plan-clone--check-out (file-name-as-directory directory) (concat "efrit/" (plist-get options :plan))
                                 (or (plist-get options :revision) (plist-get options :branch)))))

(defun efrit-plan-clone--fetch (url directory path credentials seconds)
  "Clone URL into DIRECTORY, without files.
PATH is that of CREDENTIALS, SECONDS how long it may take."
  (let* ((git (efrit-plan-git-program))
         (command (list git "clone" "-q" "--no-checkout" "--template=" "--" url directory))
         (process-environment
          (append (efrit-plan-clone--variables path url)
                  (efrit-plan-git-environment
                   nil (efrit-plan-clone--configuration url credentials))))
         (program
          (efrit-tools-shell-wait
           (if (assoc "ssh-privatekey" credentials)
               (append (list "ssh-agent" "/bin/sh" "-c" efrit-plan-clone--agent "sh") command)
             command)
           :directory (file-name-directory (directory-file-name directory))
           :seconds seconds
           :out (efrit-capture-ends 4096) :err (efrit-capture-ends 4096))))
    (unless (and (eql 0 (efrit-process-status program)) (null (efrit-process-why program)))
      (efrit-plan-clone--failed url program credentials seconds))))

(defun efrit-plan-clone--failed (url program credentials seconds)
  "Signal that the PROGRAM that was to clone URL in SECONDS did not.
CREDENTIALS are kept out of what is said."
  (let* ((errors (efrit-plan-clone--redacted
                (string-trim (efrit-capture-text (efrit-process-err program))) credentials))
         (full (string-match-p "No space left on device\\|Disk quota exceeded" errors)))
    (efrit-plan-fail
     (if full 'efrit-plan-disk 'efrit-plan-git-failed)
     "%s could not be cloned%s%s" url
     (cond (full ": the volume of the workspace is full. Free space on it or make it larger")
           ((eq (efrit-process-why program) 'timeout) (format " in %s seconds" seconds))
           ((eql (efrit-process-status program) 78) ": the ssh key in the Secret cannot be used (a \
key with a passphrase cannot)")
           ((eql (efrit-process-status program) 127) ": a program is missing in this Emacs' image")
           ((string-match-p "Host key verification failed" errors)
            ": its host key is not known; put known_hosts into the Secret, as `ssh-keyscan' prints it, \
after you have compared the key")
           ((string-match-p "could not read Username\\|Authentication failed\\|Permission denied\\|403" errors)
            (if credentials ": it does not take the credentials in the Secret"
              ": it wants credentials; put them into a Secret and name it in environment.git.secretRef"))
           (t ""))
     (if (string-empty-p errors) "" (concat ": " errors)))))

(defun efrit-plan-clone--check-out (clone branch start)
  "Check out the new BRANCH in CLONE.
It begins at START or where the server's head is."
  (let ((from (efrit-plan-clone--resolve clone start)))
    (if from
        (efrit-plan-git clone "checkout" "-q" "--no-track" "-b" branch from "--")
      ;; The repository is empty so far.
      (efrit-plan-git clone "symbolic-ref" "HEAD" (concat "refs/heads/" branch)))))

(defun efrit-plan-clone--resolve (clone start)
  "Return the commit of CLONE that START names; nil for no START and no commit."
  (let ((hash (cl-loop for name in (if start
                                        (list (concat "refs/remotes/origin/" start)
                                              (concat "refs/tags/" start) start)
                                      '("HEAD"))
                        for (status output) = (efrit-plan-git-try
                                               clone nil "rev-parse" "-q" "--verify"
                                               "--end-of-options" (concat name "^{commit}"))
                        when (equal status 0) return (string-trim output))))
    (when (and start (not hash))
      (efrit-plan-fail 'efrit-plan-arguments
                       "The cloned repository has no branch, tag or commit %s" start))
    hash))

(provide 'efrit-plan-clone)
;;; efrit-plan-clone.el ends here
