;;; efrit-server-state.el --- What the server knows of itself  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The variables that its parts share, how they log, how work begins, and how
;; the server goes on, or ends this Emacs where code has broken it.

;;; Code:

(require 'efrit-secret)
(require 'efrit-eval-interrupt)
(require 'efrit-eval-guard)

(declare-function efrit-server-work "efrit-server-work" ())

;;;; State

(defvar efrit-server-up nil
  "Non-nil once the server has started.")
(put 'efrit-server-up 'efrit-guard-lasting t)

(defvar efrit-server-busy nil
  "Non-nil while the server works; what comes in meanwhile waits.")

(defvar efrit-server--worker nil
  "The thread in which the server works, or nil.
The binding of `efrit-server-busy' is that thread's own.")

(defvar efrit-server-dirty nil
  "Non-nil when something happened in requests/ that was not looked at.")

(defvar efrit-server-turns 0
  "How often the server has gone on to another request or step.")

(defvar efrit-server-stuck nil
  "Since when its work waits, as (TURNS . TIME), or nil while it does not.")

(defconst efrit-server-stuck-seconds 3.0
  "How long work that is the server's own may wait before this Emacs ends.")

(defvar efrit-server-unclaimed nil
  "The file of a request that nothing keeps from being claimed, or nil.
It is (NAME . TIME), where TIME is when that was first seen.")

(defconst efrit-server-unclaimed-seconds 4.0
  "How long such a request may wait where functions have changed.")

(defconst efrit-server-list-files (symbol-function 'directory-files)
  "What lists files, whatever its name has come to mean.")

(defvar efrit-server-loading nil
  "Non-nil while the init file is loaded, which may wait.")

(defvar efrit-server-ticking nil
  "Non-nil while a tick looks around.")

(defvar efrit-server-overdue nil
  "When a signal has found the ticks overdue, if none has come since, or nil.")

(defvar efrit-server-tick-function #'ignore
  "What a tick calls: `efrit-server-on-tick', guarded.")

(defvar efrit-server-tick nil
  "The timer of the next tick.")

(defvar efrit-server-spare-tick nil
  "The timer that goes off when the tick before it has failed to.")

(defvar efrit-server-soon nil
  "The timer that goes on with the work, if it is set.")

(defvar efrit-server-watch nil
  "The watch on requests/ as (DESCRIPTOR . INODE), or nil.")

(defvar efrit-server-held nil
  "A function that must succeed before anything else is claimed, or nil.")

(defvar efrit-server-failures 0
  "How often in a row the queue could not be written.")

(defconst efrit-server-slice 0.05
  "Seconds of work after which Emacs looks at its events.")

(defun efrit-server-log (format &rest arguments)
  "Log FORMAT and ARGUMENTS, to *Messages* and so to the daemon's output."
  (let ((inhibit-message nil))
    (message "efrit: %s" (efrit-secret-redact (apply #'format-message format arguments)))))

(defmacro efrit-server-entry (&rest body)
  "Run BODY as an entry from Emacs into the server: no error leaves it."
  (declare (indent 0) (debug t))
  `(save-current-buffer
     (save-match-data
       (condition-case err
           (let ((inhibit-quit t) (debug-on-event nil)) ,@body)
         (error (efrit-server-log "%s" (error-message-string err)))))))

(defmacro efrit-server-working (&rest body)
  "Run BODY as work of the server, and no other work in any thread meanwhile."
  (declare (indent 0) (debug t))
  `(let ((efrit-server-busy t) (outer efrit-server--worker))
     (unwind-protect
         (progn (setq efrit-server--worker (efrit-interrupt-thread))
                ,@body)
       (setq efrit-server--worker outer))))

(defun efrit-server-busy-p ()
  "Return non-nil while the server works, in whatever thread.
Timers and events come in any thread that waits, those of a request included."
  (or efrit-server-busy
      (and efrit-server--worker
           (thread-live-p efrit-server--worker)
           (not (eq efrit-server--worker (efrit-interrupt-thread))))))  ; gate: one-thread

;;;; Going on

(defun efrit-server-resume-in (seconds &optional function)
  "Work again in SECONDS, by calling FUNCTION if that is non-nil."
  (when (timerp efrit-server-soon) (cancel-timer efrit-server-soon))
  (setq efrit-server-soon
        (run-with-timer seconds nil (or function #'efrit-server-work))))

(defun efrit-server-rescan ()
  "Scan, then work."
  (setq efrit-server-dirty t)
  (efrit-server-work))

;;;; When code has broken the server

(defvar efrit-server-breakdowns 0
  "How often in a row the work ended in an error that is none of the queue.")

(defconst efrit-server--max-breakdowns 3
  "After how many such errors this Emacs ends.")

(defun efrit-server-note-breakdown ()
  "Note that the work ended in an error of the server itself, and try again.
Code of requests must have broken it: when that goes on, another one is needed."
  (setq efrit-server-breakdowns (1+ efrit-server-breakdowns))
  (if (>= efrit-server-breakdowns efrit-server--max-breakdowns)
      (efrit-server-give-up "it no longer works, whatever requests have done to it")
    (efrit-server-resume-in 0.25 #'efrit-server-rescan)))

(defun efrit-server-give-up (why)
  "End this Emacs, so that another one answers, and log WHY."
  (let ((end (symbol-function 'efrit-guard-end)))
    (unwind-protect
        (ignore-errors (efrit-server-log "This Emacs ends: %s" why))
      (funcall end))))

(defun efrit-server-log-restored ()
  "Log what was put back of what code had redefined of the server."
  (let ((restored (efrit-guard-take-restored)))
    (when restored
      (efrit-server-log "put back what the code of a request had redefined: %s" restored))))

(provide 'efrit-server-state)
;;; efrit-server-state.el ends here
