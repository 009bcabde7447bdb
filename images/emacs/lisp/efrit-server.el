;;; efrit-server.el --- Serve the queue from an Emacs daemon  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Wires the steps: notice (efrit-queue) -> claim (efrit-queue-claim) -> evaluate
;; (efrit-eval) -> answer (efrit-queue-answer), one request at a time.  A chat or a
;; command waits for its model most of the time: it becomes a session
;; (efrit-session), whose steps are done in turn with what else is to be done.
;;
;; A daemon serves when it is started with these arguments:
;;   --fg-daemon=efrit -Q -L DIR -l efrit-server -f efrit-server-start
;;
;; Code of a request that waits lets events and timers run: they note what
;; happened and leave the work to the server, which goes on when that request is
;; done.  The parts: what wakes the server (efrit-server-tick), its turns
;; (efrit-server-work), one request (efrit-server-request).

;;; Code:

;; A compiler beside the daemon would take memory and time from the requests.
;; Loading a file queues it for that compiler, so this comes first.
(dolist (variable '(native-comp-jit-compilation native-comp-deferred-compilation))
  (when (boundp variable) (set variable nil)))

(require 'filenotify)
;; Loaded when first used, they would depend on what a request has left of file names.
(require 'cl-extra)
(require 'cl-seq)
(require 'mule-util)
;; For its autoloads: of plans, and of whoever attaches to the daemon.
(require 'efrit)
(require 'efrit-settings)
(require 'efrit-clock)
(require 'efrit-files)
(require 'efrit-queue-host)
(require 'efrit-queue-fence)
(require 'efrit-eval-limits)
(require 'efrit-queue-request)
(require 'efrit-queue)
(require 'efrit-queue-claim)
(require 'efrit-eval-interrupt)
(require 'efrit-eval)
(require 'efrit-session-scheduler)
(require 'efrit-session-state)
(require 'efrit-queue-results)
(require 'efrit-server-health)
(require 'efrit-queue-recover)
(require 'efrit-eval-watchdog)
(require 'efrit-eval-background)
(require 'efrit-eval-guard)
(require 'efrit-server-self-check)
(require 'efrit-server-state)
(require 'efrit-server-request)
(require 'efrit-server-work)
(require 'efrit-server-tick)

;; The default would let the signal open a debugger in an idle daemon.
(setq debug-on-event nil)

;;;###autoload
(defun efrit-server-start ()
  "Serve the queue in `efrit-queue-directory' until Emacs ends."
  (interactive)
  (unless efrit-server-up
    (condition-case err
        (efrit-server--start)
      (efrit-error
       (efrit-server-log "%s" (error-message-string err))
       (if (daemonp) (kill-emacs 3) (signal (car err) (cdr err)))))))

(defun efrit-server--start ()
  "Start the server."
  (setq gc-cons-threshold (max gc-cons-threshold efrit-gc-cons-threshold))
  (efrit-claim-new-boot)
  (efrit-health-reset)
  ;; Emacs goes on after an error in the user's own init file, and only logs it.
  (when (and init-file-had-error user-init-file)
    (setq efrit-health-init-problem
          (format "%s: an error stopped it half-way" user-init-file)))
  (efrit-queue-forget-all)
  (efrit-files-make-directories)
  ;; In a pod the kubelet may give the volume's group the right to write.
  (unless efrit-bridge-p (efrit-files-check-trusted))  ; gate: queue-owner-emacs
  (efrit-results-reset)
  ;; Before this Emacs writes a heartbeat of its own.
  (setq efrit-recover-problem (efrit-health-last-problem))
  (efrit-server--take-queue)
  (efrit-eval-install)
  ;; An Emacs that was killed leaves its locks, whose process numbers others get: asking
  ;; whether to steal them would be an error, and nobody else edits here.
  (when efrit-bridge-p (setq create-lockfiles nil))
  (define-key special-event-map [sigusr2] #'efrit-server-on-sigusr2)
  (define-key special-event-map [file-notify] #'efrit-server-handle-notification)
  (add-hook 'kill-emacs-hook #'efrit-server--on-exit)
  (add-hook 'after-make-frame-functions #'efrit-server-on-frame)
  (setq efrit-session-wake-function #'efrit-server-wake
        efrit-interrupt-handled-function #'efrit-health-beat
        efrit-interrupt-idle-function #'efrit-server-tick-soon
        efrit-background-beat-age-function #'efrit-health-beat-age
        efrit-background-log-function (lambda (line) (efrit-server-log "%s" line))
        efrit-sessions nil
        efrit-server-dirty t
        efrit-server-failures 0
        ;; Nothing is claimed before what was left behind is settled.
        efrit-server-held (lambda ()
                             (when (efrit-fence-holds-p)
                               (efrit-health-count-interrupted (efrit-recover)))))
  (efrit-guard-start)
  (efrit-limits-start)
  (efrit-health-update-key-state)
  (efrit-self-check-start)
  (efrit-health-beat)
  (setq efrit-server-up t
        efrit-server-tick-function (funcall efrit-guard-checker
                                             (symbol-function 'efrit-server-on-tick)))
  (efrit-server-arm)
  (efrit-background-record nil)
  (efrit-server-load-init-file)
  (efrit-server-entry (efrit-server-check-self))
  (efrit-server-log "serving %s" efrit-queue-directory)
  (efrit-server-resume-in 0))

(defconst efrit-server--settle-seconds 3.0
  "How long an Emacs that shares its queue waits before it begins.
Of several that took it at once, all but the newest have seen that by then.")

(defun efrit-server--take-queue ()
  "Take the queue, where this Emacs decides that.
Signal `efrit-queue-taken' when it is another one's."
  (let ((shared (or (efrit-health-check-alone) (efrit-host-remote-p))))
    (unless efrit-bridge-p
      (efrit-fence-claim efrit-claim-boot)
      (when shared
        (setq efrit-health-serving "starting")
        (let ((limit (+ (efrit-clock) efrit-server--settle-seconds)))
          (while (< (efrit-clock) limit)
            (efrit-health-beat)
            (sleep-for 0.2)
            (when (efrit-fence-superseded-p)
              (signal 'efrit-queue-taken (list efrit-queue-directory
                                               "a newer one has taken it")))))))
    (setq efrit-health-serving "serving")))

(defun efrit-server-load-init-file ()
  "Load `efrit-init-file'."
  (when efrit-init-file
    (efrit-server-working
      (let ((inhibit-interaction t) (efrit-server-loading t))
        (condition-case err
            (load efrit-init-file nil t)
          (error (efrit-server--note-init-problem
                  (format "%s: %s" efrit-init-file (error-message-string err)))))))))

(defun efrit-server--note-init-problem (problem)
  "Log PROBLEM, the error of an init file, and have the heartbeat report it."
  (efrit-server-log "%s" problem)
  (setq efrit-health-init-problem problem)
  (efrit-health-beat))

(defun efrit-server--on-exit ()
  "Log which request the end of Emacs interrupts, and report it to other hosts."
  (unless efrit-bridge-p
    (setq efrit-health-serving "ended")
    (efrit-health-beat))
  (when (and efrit-server-busy efrit-health-current)
    (efrit-server-log "Emacs ends while request %s runs"
                       (efrit-request-id
                        (efrit-claim-request efrit-health-current)))))

;;;###autoload
(defun efrit-server-stop ()
  "Stop serving the queue; what waits keeps waiting."
  (interactive)
  (setq efrit-server-up nil)
  (efrit-server-unwatch)
  (dolist (timer (list efrit-server-tick efrit-server-spare-tick efrit-server-soon))
    (when (timerp timer) (cancel-timer timer)))
  (efrit-watchdog-stop)
  (efrit-guard-stop)
  (efrit-eval-uninstall)
  (remove-hook 'kill-emacs-hook #'efrit-server--on-exit)
  (remove-hook 'after-make-frame-functions #'efrit-server-on-frame))

(provide 'efrit-server)
;;; efrit-server.el ends here
