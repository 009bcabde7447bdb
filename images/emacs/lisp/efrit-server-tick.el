;;; efrit-server-tick.el --- What wakes the server  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; File notification is a hint, the scan is the truth.  Whatever wakes the
;; server (an event, the regular tick, a signal) also revives the others, since
;; the code of a request may have removed any of them.  A tick also ends an Emacs
;; that only seems to serve.
;;
;; In a pod an Emacs rests when nothing goes on and nothing is left that could begin
;; by itself: its ticks are rare, and its heartbeat says how rare.  A request wakes it by
;; its event at once; the bridge sends a signal if it does not.

;;; Code:

(require 'filenotify)
(require 'efrit-settings)
(require 'efrit-clock)
(require 'efrit-files)
(require 'efrit-queue)
(require 'efrit-queue-claim)
(require 'efrit-queue-fence)
(require 'efrit-queue-recover)
(require 'efrit-queue-request)
(require 'efrit-queue-results)
(require 'efrit-eval)
(require 'efrit-eval-background)
(require 'efrit-eval-guard)
(require 'efrit-eval-interrupt)
(require 'efrit-session-state)
(require 'efrit-session-scheduler)
(require 'efrit-tools-process)
(require 'efrit-server-health)
(require 'efrit-server-self-check)
(require 'efrit-server-state)
(require 'efrit-server-work)

;;;; What wakes the server

(defvar efrit-server--after-event nil
  "Non-nil while an event is handled, `work' where work follows it.")

(defun efrit-server--on-event (event)
  "Take the file notification EVENT as a hint."
  (efrit-server-entry
    (pcase-let ((`(,_ ,action . ,files) event))
      (cond ((or (efrit-server-busy-p) efrit-server-held (eq action 'stopped))
             (setq efrit-server-dirty t))
            (t (mapc #'efrit-server--note files)))
      (unless (or (efrit-server-busy-p) (eq action 'deleted))
        ;; What arrived together must be known before the first is chosen.
        (when (and (input-pending-p) (efrit-queue-scan-cheap-p))
          (setq efrit-server-dirty t))
        (if efrit-server--after-event
            (setq efrit-server--after-event 'work)
          (efrit-server-work))))))

(defun efrit-server--note (file)
  "Take note of FILE, a part of a file notification."
  (when (stringp file)
    (let ((name (file-name-nondirectory file)))
      (cond ((efrit-queue-name-p name) (efrit-queue-update-entry name))
            ;; Emacs decodes names as user code says: it may be any file's.
            ((not (string-match-p "\\`[[:ascii:]]*\\'" name)) (setq efrit-server-dirty t))))))

(defun efrit-server-on-tick ()
  "Beat, and have the queue scanned in case an event was lost."
  (unless (efrit-server-busy-p) (efrit-guard-restore))
  (setq efrit-server-overdue nil)
  ;; Whatever happens in this tick, the next two are set.
  (efrit-server--set-ticks efrit-heartbeat-seconds)  ; gate: next-tick
  (efrit-server-entry (efrit-server--end-if-superseded))
  (efrit-server--end-if-unwound)
  (efrit-server--end-if-stuck)
  (efrit-server-entry (efrit-server--end-if-blind))
  (let ((efrit-server-ticking t)) (efrit-server--run-tick))
  (when efrit-health-rest (efrit-server--set-ticks efrit-health-rest))
  ;; A signal that came while a callback ran, this one included, was not handled.
  (when efrit-server-busy (efrit-interrupt-now-if-ordered)))

(defun efrit-server--end-if-superseded ()
  "End Emacs when another one has taken its queue: it was silent for too long.
In a pod, whoever has started both ends the older one."
  (when (and (not efrit-bridge-p) (efrit-fence-superseded-p))  ; gate: end-superseded
    (efrit-server-give-up "another Emacs has taken the queue")))

(defun efrit-server--end-if-unwound ()
  "End Emacs when it seems to work and does not.
After an overflow of the C stack, Emacs goes on at its command loop and takes no
binding back: whatever was bound while a request ran stays so for good."
  (when (and efrit-server-busy  ; gate: unwound
             (not (efrit-background-on-stack-p
                   '(efrit-server-work efrit-server-load-init-file
                     efrit-server-check-self))))
    (efrit-server-log "%s overflowed the C stack: ending this Emacs"
                       (if efrit-health-current
                           (concat "request " (efrit-request-id (efrit-claim-request
                                                                 efrit-health-current)))
                         "code"))
    (efrit-background-end-emacs)))

(defun efrit-server--end-if-stuck ()
  "End Emacs when the server waits, which only code of a request makes it do.
Timers go off meanwhile, so that the heartbeat says nothing of it.  What a
request itself waits for is its own affair until its time is over."
  (let ((waits (and (or efrit-server-busy efrit-server-ticking)
                    (not (efrit-interrupt-running-p))
                    (not efrit-server-loading)
                    (not (efrit-background-attended-p)))))
    (cond ((not waits) (setq efrit-server-stuck nil))
          ((not (eql (car efrit-server-stuck) efrit-server-turns))
           (setq efrit-server-stuck (cons efrit-server-turns (efrit-clock))))
          ;; gate: stuck
          ((>= (- (efrit-clock) (cdr efrit-server-stuck)) efrit-server-stuck-seconds)
           (efrit-server-give-up "code that waits keeps it from its work")))))

(defun efrit-server--end-if-blind ()
  "End Emacs when a request waits with nothing in its way, and code has advised us.
That may have made a step of the way to a claim do nothing, without an error."
  (let ((name (and efrit-server-up
                   (not (or (efrit-server-busy-p) efrit-server-held efrit-sessions
                            (efrit-background-attended-p) (efrit-server-draining-p)))
                   (efrit-files-isolated
                     (car (funcall efrit-server-list-files (efrit-files-path "requests")
                                   nil "\\`[^.].*\\.json\\'"))))))
    (cond ((null name) (setq efrit-server-unclaimed nil))
          ((not (equal name (car efrit-server-unclaimed)))
           (setq efrit-server-unclaimed (cons name (efrit-clock))))
          ;; gate: blind
          ((and (>= (- (efrit-clock) (cdr efrit-server-unclaimed))
                    efrit-server-unclaimed-seconds)
                (efrit-guard-altered-p))
           (efrit-server-give-up "requests are not claimed with the functions as they are now")))))

(defconst efrit-server--rest-seconds 10.5
  "Seconds between two ticks of an Emacs that rests.
A little more than `efrit-self-check-seconds', so that each has a check.")

(defun efrit-server--may-rest-p ()
  "Return non-nil when nothing goes on, and an event or a signal means work.
Without a bridge nobody would send a signal, and others who share the queue go
by the heartbeat."
  ;; gate: may-rest
  (and efrit-bridge-p
       efrit-server-up
       (> efrit-server--rest-seconds efrit-heartbeat-seconds)
       (efrit-server--watching-p)
       (not (or (efrit-server-busy-p) efrit-server-held efrit-sessions
                efrit-server-stuck efrit-server-unclaimed
                (> (efrit-queue-pending) 0)
                (efrit-self-check-holds-p)
                (efrit-background-attended-p)))
       (efrit-health-well-p)
       (efrit-background-quiet-p)
       (not (efrit-guard-altered-p))))

(defun efrit-server-stir ()
  "Rest no longer: something is to be done."
  (when efrit-health-rest
    (setq efrit-health-rest nil)
    (efrit-server--set-ticks efrit-heartbeat-seconds)))

(defun efrit-server-on-frame (_frame)
  "Have the heartbeat say at once that somebody has come."
  (efrit-server-tick-soon))

(defun efrit-server--set-ticks (seconds)
  "Set the timers of the tick in SECONDS and of the one that goes off in its stead.
Both are set anew for each tick: a throw out of a repeating timer would end it,
and Emacs lets other timers be late while one that repeats goes off."
  (dolist (timer (list efrit-server-tick efrit-server-spare-tick))
    (when (timerp timer) (cancel-timer timer)))
  (setq efrit-server-tick
        (run-with-timer seconds nil efrit-server-tick-function)
        efrit-server-spare-tick
        (run-with-timer (+ seconds (* 0.5 efrit-heartbeat-seconds)) nil
                        efrit-server-tick-function)))

(defun efrit-server--ticks-set-p ()
  "Return non-nil when both ticks are set."
  (let ((seconds (+ (or efrit-health-rest efrit-heartbeat-seconds)
                    (* 2 efrit-heartbeat-seconds))))
    (and (efrit-server--timer-set-p efrit-server-tick seconds)
         (efrit-server--timer-set-p efrit-server-spare-tick seconds))))

(defun efrit-server--run-tick ()
  "Do what is to be done with every tick."
  (efrit-server-entry
    (efrit-eval-leave-recursion)
    (unless (efrit-server-busy-p)
      (efrit-files-make-directories)
      (efrit-server-check-self))
    (efrit-health-set-rest (and (efrit-server--may-rest-p) efrit-server--rest-seconds))
    (when (and (efrit-health-limited-p) (not (efrit-server-busy-p)))
      (efrit-server-give-up "a limit of this process keeps it from the heartbeat"))
    (efrit-health-update-key-state)
    (efrit-session-note-ends)
    (efrit-process-update-all)
    (efrit-background-log-stopped-threads)
    (unless (efrit-server-busy-p)
      (efrit-server--settle-strays)  ; gate: settle-strays
      ;; The list of results is that of the Emacs whose queue this is.
      (when (efrit-fence-holds-p) (efrit-server--delete-stale-results))
      ;; What goes on resting has the time for it, and gives memory back.
      (unless (or efrit-sessions (efrit-queue-next))
        (garbage-collect-maybe (if efrit-health-rest 16 4)))
      (setq efrit-server-dirty t)  ; gate: emacs-rescan
      ;; A timer does not run within itself: work done here would stop the beat.
      (unless (efrit-server--timer-set-p efrit-server-soon 10)
        (efrit-server-resume-in 0)))))

(defvar efrit-server--results-problem nil
  "Why the list of large results could not be read at the last check, or nil.")

(defun efrit-server--delete-stale-results ()
  "Delete large results that are over; log why the list of them cannot be read."
  (let ((problem (efrit-results-delete-stale)))
    (unless (equal problem efrit-server--results-problem)
      (setq efrit-server--results-problem problem)
      (efrit-server-log (if problem
                            "large results stay until their list can be read: %s"
                          "the list of large results can be read again")
                        problem))))

(defun efrit-server--settle-strays ()
  "Settle claims of an Emacs that this one has taken the queue from.
An answer that is held back is one of our own, though of no session any more."
  (unless efrit-server-held
    (condition-case err
        (efrit-health-count-interrupted
         (efrit-recover-strays
          (append
           (efrit-claim-give-back-stranded)
           (mapcar (lambda (claim) (efrit-request-id (efrit-claim-request claim)))
                   (delq nil (mapcar #'efrit-session-claim efrit-sessions))))))
      ((efrit-queue-trouble file-error)
       (efrit-server-log "%s" (error-message-string err))))))

(defun efrit-server-tick-soon ()
  "Have everything looked at, as soon as what runs is over."
  (efrit-server--note-overdue)
  ;; Whoever asks waits: what runs now may keep Emacs from its heartbeat.
  (setq efrit-health-rest nil)  ; gate: rest-until-asked
  (run-with-timer 0 nil #'efrit-server-on-tick))

(defun efrit-server-on-sigusr2 ()
  "Check everything again; SIGUSR2 calls this when no evaluation handles it."
  (interactive)
  (if efrit-server-busy
      (efrit-interrupt-now-if-ordered)
    (efrit-server--note-overdue)
    (efrit-server-on-tick)))

(defun efrit-server--note-overdue ()
  "End Emacs when a second signal finds the ticks overdue: its timers rest.
After the first one, an Emacs that was only late has looked at them.  While a
request waits for a thread of its own, that one may keep them."
  (when (and (efrit-server--ticks-overdue-p)
             (not (efrit-server-busy-p)))  ; gate: thread-keeps-timers
    (let ((since (or efrit-server-overdue (efrit-clock))))
      ;; gate: timers-rest
      (when (and (< efrit-heartbeat-seconds (- (efrit-clock) since))
                 (not (efrit-background-attended-p)))
        (efrit-server-give-up "timers no longer go off"))
      (setq efrit-server-overdue since))))

(defun efrit-server--ticks-overdue-p ()
  "Return non-nil when both ticks should have come a while ago.
Emacs looks at its timers before it takes a signal as an event."
  (and (timerp efrit-server-spare-tick)
       (< (* 0.5 efrit-heartbeat-seconds)
          (float-time (time-subtract nil (timer--time efrit-server-spare-tick))))))

;;;; Staying awake

(defun efrit-server-arm ()
  "Set up the tick and the watch where they are missing."
  (efrit-background-arm)
  (unless (efrit-server--ticks-set-p) (efrit-server--set-ticks efrit-heartbeat-seconds))
  (unless (efrit-server--watching-p)
    (efrit-server-watch)))

(defun efrit-server--timer-set-p (timer seconds)
  "Return non-nil when TIMER will go off, within SECONDS."
  (and (memq timer timer-list)
       ;; After the clock was set back, a timer would sleep that much longer.
       (< (float-time (time-subtract (timer--time timer) nil)) seconds)))

(defun efrit-server--requests-inode ()
  "Return the inode of requests/, or nil."
  (efrit-files-isolated (efrit-files-inode (efrit-files-path "requests"))))

(defun efrit-server--watching-p ()
  "Return non-nil when the watch is on the directory that is there now."
  (and efrit-server-watch
       (let ((file-name-handler-alist nil))
         (file-notify-valid-p (car efrit-server-watch)))
       (equal (cdr efrit-server-watch) (efrit-server--requests-inode))))

(defun efrit-server-watch ()
  "Watch requests/."
  (efrit-server-unwatch)
  (efrit-files-make-directories)
  (let ((inode (efrit-server--requests-inode))
        (default-directory "/")
        (file-name-handler-alist nil))
    (setq efrit-server-watch
          (condition-case err
              (cons (efrit-files-with-own-coding
                      (file-notify-add-watch (efrit-files-path "requests") '(change)
                                             #'efrit-server--on-event))
                    inode)
            ;; Without events the tick finds the requests, only later.
            (error (efrit-server-log "%s" (error-message-string err)) nil))))
  (setq efrit-server-dirty t))

(defun efrit-server-unwatch ()
  "Watch requests/ no longer."
  (when efrit-server-watch
    (let ((file-name-handler-alist nil))
      (ignore-errors (file-notify-rm-watch (car efrit-server-watch))))
    (setq efrit-server-watch nil)))

(defun efrit-server-handle-notification (event)
  "Handle the file notification EVENT of any watch.
What code has put into `file-name-handler-alist' has no say about our own."
  (interactive "e")
  (let ((ours (and efrit-server-watch
                   (equal (car-safe (car-safe (cdr-safe event)))
                          (car efrit-server-watch)))))
    (cond ((not ours) (file-notify-handle-event event))
          ((efrit-server--echo-p (car (cdr event))))
          ;; The work itself has all handlers: its code may read compressed and remote files.
          ((eq 'work (let ((efrit-server--after-event 'nothing) (file-name-handler-alist nil))
                       (file-notify-handle-event event)
                       efrit-server--after-event))
           (efrit-server-entry (efrit-server-work))))))

(defun efrit-server--echo-p (event)
  "Return non-nil when EVENT only reports that a file left that does not wait."
  (pcase event
    (`(,_ (moved-from) ,(and name (pred stringp)) . ,_)
     (not (efrit-queue-known-p name)))))

(provide 'efrit-server-tick)
;;; efrit-server-tick.el ends here
