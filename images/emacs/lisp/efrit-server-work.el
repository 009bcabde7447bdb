;;; efrit-server-work.el --- What the server does in its turns  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Requests and the steps of sessions take turns, for a slice of time; between
;; them the server checks that an answer would be right.

;;; Code:

(require 'efrit-settings)
(require 'efrit-queue)
(require 'efrit-queue-fence)
(require 'efrit-eval-guard)
(require 'efrit-eval-limits)
(require 'efrit-session-scheduler)
(require 'efrit-server-self-check)
(require 'efrit-server-state)
(require 'efrit-server-request)

(declare-function efrit-server-arm "efrit-server-tick" ())
(declare-function efrit-server-stir "efrit-server-tick" ())

;;;; Whether answers are right

(defun efrit-server-check-self (&optional restored)
  "Check between requests that an answer would be right, when it is time for that.
RESTORED says that what code had redefined has just been put back."
  (when (efrit-self-check-due-p)
    ;; Code that waits must not begin a request in the midst of it.
    (efrit-server-working
      (unless restored (efrit-guard-restore))
      (efrit-server-log-restored)
      (let ((problem (efrit-self-check)) (limit (efrit-limits-lowered)))
        ;; Sessions would be lost with it.
        (when (and limit (null efrit-sessions))
          (efrit-server-give-up
           (format "a limit of this process is lower than at its start: %s" limit)))
        (when problem
          (efrit-server-log "the self-check failed, so nothing is claimed until another Emacs serves: %s"
                             problem))))))

;;;; The work

(defun efrit-server-work ()
  "Answer requests in their order, for a while."
  (unless (or (efrit-server-busy-p) (not efrit-server-up))
    ;; Ahead of all that binds variables, which code may watch.
    (efrit-guard-restore)
    (efrit-server-working
      (let (whole)
        (unwind-protect
            (efrit-server-entry
              (efrit-server-log-restored)
              (condition-case err
                  (when (efrit-server-release)
                    (efrit-server--work-slice))
                ((efrit-queue-trouble file-error) (efrit-server-trouble err)))
              (efrit-server-arm)
              (setq whole t))
          (if whole
              (setq efrit-server-breakdowns 0)
            (efrit-server-note-breakdown)))))))

(defun efrit-server-draining-p ()
  "Return non-nil while nothing new is to be claimed: this Emacs is about to end."
  ;; gate: draining
  (or (efrit-fence-paused-p) (not (efrit-fence-holds-p)) (efrit-self-check-holds-p)))

(defun efrit-server--work-slice ()
  "Answer requests until none waits or a slice of time is over.
Sessions take turns with requests: a step, a request, a step."
  ;; `efrit-server-work' has just done so.
  (let ((start (float-time)) entry session (restored t))
    (while (progn
             (setq efrit-server-turns (1+ efrit-server-turns))
             (when efrit-server-dirty
               (setq efrit-server-dirty nil)
               (efrit-queue-scan))
             ;; At the next tick, a request that comes before it would be answered wrongly.
             ;; gate: check-before-claim
             (when (efrit-self-check-requested-p) (efrit-server-check-self restored))
             (setq restored nil)
             (setq session (efrit-session-next)
                   entry (and (not (efrit-server-draining-p))
                              (efrit-queue-next (efrit-sessions-under-way))))
             (when (or session entry) (efrit-server-stir))
             (when session (efrit-server-step session))
             (when entry (setq restored (efrit-server-serve entry)))
             (and (or session entry)
                  (< -0.001 (- (float-time) start) efrit-server-slice))))
    ;; Meanwhile requests may have come that go before those known.
    (when (and entry (efrit-queue-scan-cheap-p))
      (setq efrit-server-dirty t))
    ;; A delay of zero would run timers only: events need a wait to be read.
    (cond ((or session entry) (efrit-server-resume-in 0.001))
          ((efrit-queue-unsettled-p)
           (efrit-server-resume-in 0.25 #'efrit-server-rescan))
          ((efrit-sessions-pause)
           (efrit-server-resume-in (max 0.001 (efrit-sessions-pause)))))))

(provide 'efrit-server-work)
;;; efrit-server-work.el ends here
