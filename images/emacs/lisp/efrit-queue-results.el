;;; efrit-queue-results.el --- Large results on the workspace  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A large result is a file of the workspace and lives as long as the answer that
;; names it: once the answer has left the archive of the queue, the file is deleted.
;; results.log in the queue names the requests whose results are on the workspace,
;; each in a line of its own, before the file is written.  A file that is not named
;; there is never deleted: other instances may share the workspace, and whoever works
;; there may put files of their own beside ours.

;;; Code:

(require 'seq)
(require 'efrit-settings)
(require 'efrit-files)
(require 'efrit-queue-claim)

(defconst efrit-results--max-per-call 20
  "How many results one round checks.")

(defconst efrit-results--pause 60
  "Seconds between two rounds of checks.")

(defvar efrit-results--ids nil
  "The ids of the requests with a result on the workspace.")

(defvar efrit-results--unchecked nil
  "The ids that this round has yet to check.")

(defvar efrit-results--round-end nil
  "When the last round of checks ended, or nil.")

(defvar efrit-results--stale 0
  "How many lines of results.log are of results that are gone.")

(defvar efrit-results--unread nil
  "Why results.log could not be read, or nil.
What it names is not known then, and it is not written anew.")

(defun efrit-results-directory ()
  "Return the directory of the workspace that large results go to, or nil."
  (and efrit-workspace-directory
       (concat efrit-workspace-directory ".efrit/results/")))

(defun efrit-results-path (id)
  "Return the path of the large result of the request ID."
  (concat (efrit-results-directory) id ".txt"))

(defun efrit-results--log ()
  "Return the path of the list of results."
  (efrit-files-path "results.log"))

(defun efrit-results-reset ()
  "Read the list of results anew."
  (setq efrit-results--unchecked nil
        efrit-results--round-end nil
        efrit-results--stale 0
        efrit-results--ids nil)
  (efrit-results--take-in))

(defun efrit-results--take-in ()
  "Take in what the list of results names, or why that cannot be read."
  (setq efrit-results--unread
        (condition-case err
            (progn
              (efrit-files-isolated (efrit-files-set-aside (efrit-results--log)))
              (setq efrit-results--ids
                    (delete-dups (append efrit-results--ids (efrit-results--read))))
              nil)
          (file-missing nil)
          (file-error (error-message-string err)))))  ; gate: results-unread

(defun efrit-results--read ()
  "Return the ids in results.log; of a line that was cut short there is none."
  (efrit-files-isolated
    (delete-dups
     (delq nil (mapcar (lambda (line)
                         (and (string-match "\\`\\([A-Za-z0-9._-]\\{1,128\\}\\) result\\'" line)
                              (match-string 1 line)))
                       (split-string (efrit-files-read (efrit-results--log)) "\n"))))))

(defun efrit-results-note (id)
  "Record, synced, that the request ID is to have a result on the workspace."
  (unless (member id efrit-results--ids)
    (efrit-files-set-aside (efrit-results--log))
    ;; On a line of its own, whatever a failed write has left.
    (efrit-files-append (efrit-results--log) (concat "\n" id " result\n"))
    (push id efrit-results--ids)))

(defun efrit-results--needed-p (id)
  "Return non-nil while the request ID is open, or its answer can be read.
Looked for in the order in which files move, so that none is missed on its way.
Signal `file-error' where the disk does not say: unlike `file-exists-p', which
takes a disk that fails for a file that is gone."
  (seq-some (lambda (place)
              (file-attributes
               (efrit-files-path (car place) (concat (cdr place) id ".json"))))
            '(("requests" . "req_") ("processing" . "req_")
              ("responses" . "resp_") ("archive" . "resp_"))))

(defun efrit-results-delete-stale ()
  "Delete some of the results whose answers are gone; a few at each call.
Return why the list of results cannot be read, or nil."
  (when (and efrit-workspace-directory efrit-results--unread)
    (efrit-results--take-in))
  (when (and efrit-workspace-directory efrit-results--ids)
    (efrit-files-isolated
      (when (and (null efrit-results--unchecked)
                 (or (null efrit-results--round-end)
                     ;; A clock that was set back does not put it off.
                     (not (< -0.001 (- (float-time) efrit-results--round-end)
                             efrit-results--pause))))
        (setq efrit-results--unchecked (copy-sequence efrit-results--ids)))
      (let ((remaining efrit-results--max-per-call))
        (while (and efrit-results--unchecked (> remaining 0))
          (setq remaining (1- remaining))
          (efrit-results--check (pop efrit-results--unchecked))
          (unless efrit-results--unchecked
            (setq efrit-results--round-end (float-time))
            (efrit-results--compact))))))
  efrit-results--unread)

(defun efrit-results--check (id)
  "Delete the result of the request ID unless it is still needed."
  (condition-case nil
      (unless (efrit-results--needed-p id)  ; gate: needed-result
        (efrit-results-delete id)
        (setq efrit-results--ids (delete id efrit-results--ids)
              efrit-results--stale (1+ efrit-results--stale)))
    ;; Tried again in the next round.
    (file-error nil)))

(defun efrit-results-delete (id)
  "Delete the result of the request ID, if it is where we have put it."
  (unless (or (file-symlink-p (concat efrit-workspace-directory ".efrit"))
              (file-symlink-p (directory-file-name (efrit-results-directory))))
    (dolist (path (list (efrit-results-path id)
                        (concat (efrit-results-path id) ".part")))
      ;; Where there can be no such file, there is nothing to try again.
      (when (efrit-files-exists-p path)
        (efrit-files-delete path)))))

(defun efrit-results--compact ()
  "Write results.log anew where lines of it are of results that are gone."
  (when (and (> efrit-results--stale 0) (null efrit-results--unread))
    (condition-case nil
        (progn
          (efrit-files-replace (efrit-results--log)
                               (mapconcat (lambda (id) (concat id " result\n"))
                                          efrit-results--ids "")
                               efrit-claim-boot t)
          (setq efrit-results--stale 0))
      ;; A list that is too long names files that are gone, which does no harm.
      (file-error nil))))

(provide 'efrit-queue-results)
;;; efrit-queue-results.el ends here
