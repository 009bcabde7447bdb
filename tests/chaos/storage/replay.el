;;; replay.el --- Recover one crash state after the other  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Loaded by an Emacs in batch mode that has the server's files.  Each line of
;; standard input is a directory with a volume and a workspace: what a starting
;; Emacs does is done there, until no request waits.  One Emacs takes thousands.

;;; Code:

(require 'efrit-server)

(setq efrit-bridge-p t
      efrit-settle-seconds 0)

(defun replay-one (place)
  "Recover the queue below PLACE and answer what waits."
  (setq efrit-queue-directory (concat place "/volume/queue/")
        efrit-workspace-directory (concat place "/workspace/")
        efrit-claim--torn nil
        efrit-server-held nil)
  (clrhash efrit-claim--attempts)
  (efrit-claim-new-boot)
  (efrit-health-reset)
  (efrit-queue-forget-all)
  (efrit-files-make-directories)
  (efrit-recover)
  (let (entry)
    (while (progn (efrit-queue-scan)
                  (setq entry (efrit-queue-next)))
      (efrit-server-serve entry))))

(defun replay ()
  "Do what standard input asks for until it ends."
  (condition-case nil
      (while t
        (let ((place (read-from-minibuffer "")))
          (message "REPLAYED %s"
                   (condition-case err
                       (progn (replay-one place) "")
                     (error (replace-regexp-in-string
                             "\n" " " (error-message-string err)))))))
    (end-of-file nil)))

;;; replay.el ends here
