;;; efrit-queue-host.el --- Which host serves the queue  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Several hosts, or several PID namespaces of one, may share a queue.  A process
;; number means something only where it was given, so the heartbeat says where that
;; was.  Of an Emacs elsewhere nothing can be known but how old its heartbeat is, by
;; the clock of the file server: the clocks of two hosts differ.
;;
;; The rule is that of operator/efrit/backend/local/hosts.py.

;;; Code:

(require 'efrit-settings)
(require 'efrit-files)

(defconst efrit-host--remote-types
  '("9p" "afs" "beegfs" "ceph" "cifs" "gfs2" "glusterfs" "gpfs" "lustre" "nfs" "nfs4"
    "ocfs2" "smb3" "virtiofs")
  "File systems that several hosts mount, beside those of programs (fuse).")

(defconst efrit-host--piece 16384
  "How many bytes of a file of the system Emacs reads at once.")

(defconst efrit-host--max-bytes (* 4 1024 1024)
  "How many bytes of such a file are read, which is more than 10,000 mounts take.")

(defun efrit-host--read (path)
  "Return the text of PATH, in which the system describes itself, or nil."
  (condition-case nil
      (efrit-files-isolated
        (efrit-files-with-buffer
          (let ((start 0) (more t))
            ;; Such a file says that it is empty, and Emacs reads one piece of it then.
            (while (and more (< start efrit-host--max-bytes))  ; gate: whole-mounts
              (goto-char (point-max))
              (setq more (< 0 (cadr (insert-file-contents
                                     path nil start (+ start efrit-host--piece))))
                    start (+ start efrit-host--piece)))
            (buffer-string))))
    (file-error nil)))

(defun efrit-host--process-start ()
  "Return when this process began, in ticks since its host was booted, or nil."
  (let ((stat (efrit-host--read "/proc/self/stat")))
    (and stat
         (string-match ".*)\\(.*\\)" stat)
         (string-to-number (or (nth 19 (split-string (match-string 1 stat))) "")))))

(defconst efrit-host-identity
  (let ((boot (efrit-host--read "/proc/sys/kernel/random/boot_id")))
    `((host . ,(system-name))
      (boot_id . ,(if boot (string-trim boot) :null))
      (pid_namespace . ,(or (efrit-files-isolated (file-symlink-p "/proc/self/ns/pid"))
                            :null))
      (process_start . ,(or (efrit-host--process-start) :null))))
  "Where this process is, and when it began.")

;;;; The file system

(defun efrit-host--type (mounts path)
  "Return the type of the file system that has PATH, or nil.
MOUNTS is the text of /proc/self/mounts."
  (let ((longest -1) type)
    (dolist (line (split-string mounts "\n" t))
      (pcase-let ((`(,_ ,point ,kind . ,_) (split-string line " ")))
        (when (and point kind)
          (let ((point (file-name-as-directory
                        (replace-regexp-in-string
                         "\\\\\\([0-7]\\{3\\}\\)"
                         (lambda (part) (string (string-to-number (substring part 1) 8)))
                         point t t))))
            ;; Of two at one place, the later one covers the earlier one.
            (when (and (string-prefix-p point path) (>= (length point) longest))
              (setq longest (length point) type kind))))))
    type))

(defun efrit-host--remote-type-p (type)
  "Return non-nil when a file system of TYPE may be mounted by several hosts."
  (and type (or (member type efrit-host--remote-types)
                (equal type "fuse") (string-prefix-p "fuse." type))
       t))

(defvar efrit-host--remote nil
  "Whether the queue is on a remote file system, as (DIRECTORY . REMOTE).")

(defun efrit-host-remote-p ()
  "Return non-nil when other hosts may mount the file system of the queue."
  (unless (equal (car efrit-host--remote) efrit-queue-directory)
    (setq efrit-host--remote
          (cons efrit-queue-directory
                (efrit-host--remote-type-p
                 (efrit-host--type (or (efrit-host--read "/proc/self/mounts") "")
                                   (file-name-as-directory
                                    (efrit-files-isolated
                                      (file-truename efrit-queue-directory))))))))
  (cdr efrit-host--remote))

;;;; Whose the queue is

(defun efrit-host--modified (path)
  "Return when the file at PATH was modified, by the clock of its file server."
  (float-time (file-attribute-modification-time (file-attributes path))))

(defun efrit-host-silence ()
  "Return how old the heartbeat is, by the clock of the file server."
  (efrit-files-isolated
    (let ((clock (efrit-files-path "clock")))
      ;; A write has its time from the server.
      (write-region "\n" nil clock nil 'silent)
      (max 0.0 (- (efrit-host--modified clock)
                  (efrit-host--modified (efrit-files-path "heartbeat")))))))

(defun efrit-host-verdict (beat silence)
  "Return whose the queue is by the heartbeat BEAT, a hash table or nil.
The value is `free', `pid' where its process number can be looked at here, or
`taken'.  SILENCE is a function that returns how old BEAT is."
  (let* ((server (and beat (gethash "server" beat)))
         (theirs (lambda (key) (gethash (symbol-name key) server)))
         (ours (lambda (key) (alist-get key efrit-host-identity)))
         (same (lambda (key) (equal (funcall theirs key) (funcall ours key))))
         (named-p (lambda (key)
                  (and (stringp (funcall theirs key)) (stringp (funcall ours key))))))
    (cond ((not (hash-table-p server)) 'pid)
          ((if (and (funcall named-p 'boot_id) (funcall named-p 'pid_namespace))
               (and (funcall same 'boot_id) (funcall same 'pid_namespace))
             (funcall same 'host))
           'pid)
          ((equal (gethash "state" server) "ended") 'free)
          ;; What is mounted here alone was served by an earlier start of this host.
          ((and (funcall named-p 'boot_id) (not (funcall same 'boot_id))
                (not (efrit-host-remote-p)))
           'free)
          ((>= (funcall silence) (efrit-host--silence-limit beat)) 'free)
          (t 'taken))))

(defun efrit-host--silence-limit (beat)
  "Return how long an Emacs with the heartbeat BEAT may be silent.
One that evaluates writes none until its request is over."
  (let ((timeout (gethash "timeout" beat)))
    (+ efrit-takeover-seconds
       (if (and (stringp (gethash "current" beat)) (numberp timeout)) timeout 0))))

(provide 'efrit-queue-host)
;;; efrit-queue-host.el ends here
