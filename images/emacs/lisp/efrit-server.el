;;; efrit-server.el --- Serve the queue from an Emacs daemon  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Wires the steps: notice (efrit-queue) -> claim (efrit-claim) -> evaluate
;; (efrit-eval) -> answer (efrit-answer), one request at a time.  A chat or a
;; command waits for its model most of the time: it becomes a session
;; (efrit-session), whose steps are done in turn with what else is to be done.
;;
;; A daemon serves when it is started with these arguments:
;;   --fg-daemon=efrit -Q -L DIR -l efrit-server -f efrit-server-start
;;
;; File notification is a hint, the scan is the truth.  Whatever wakes the
;; server (an event, the regular tick, a signal) also revives the others, since
;; the code of a request may have removed any of them.  Code of a request that
;; waits lets events and timers run: they note what happened and leave the work
;; to the server, which goes on when that request is done.

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
(require 'efrit)
(require 'efrit-settings)
(require 'efrit-files)
(require 'efrit-queue-host)
(require 'efrit-queue-fence)
(require 'efrit-eval-limits)
(require 'efrit-queue-request)
(require 'efrit-queue)
(require 'efrit-queue-claim)
(require 'efrit-eval-interrupt)
(require 'efrit-eval)
(require 'efrit-secret)
(require 'efrit-session-scheduler)
(require 'efrit-queue-answer)
(require 'efrit-queue-results)
(require 'efrit-server-health)
(require 'efrit-queue-recover)
(require 'efrit-eval-watchdog)
(require 'efrit-tools-process)
(require 'efrit-eval-background)
(require 'efrit-eval-guard)
(require 'efrit-server-self-check)

;; The default would let the signal open a debugger in an idle daemon.
(setq debug-on-event nil)

;;;; State

(defvar efrit-server--up nil
  "Non-nil once the server has started.")
(put 'efrit-server--up 'efrit-guard-lasting t)

(defvar efrit-server--busy nil
  "Non-nil while the server works; what comes in meanwhile waits.")

(defvar efrit-server--worker nil
  "The thread in which the server works, or nil.
The binding of `efrit-server--busy' is that thread's own.")

(defvar efrit-server--dirty nil
  "Non-nil when something happened in requests/ that was not looked at.")

(defvar efrit-server--turns 0
  "How often the server has gone on to another request or step.")

(defvar efrit-server--stuck nil
  "Since when its work waits, as (TURNS . TIME), or nil while it does not.")

(defconst efrit-server--stuck-seconds 3.0
  "How long work that is the server's own may wait before this Emacs ends.")

(defvar efrit-server--unclaimed nil
  "The file of a request that nothing keeps from being claimed, or nil.
It is (NAME . TIME), where TIME is when that was first seen.")

(defconst efrit-server--unclaimed-seconds 4.0
  "How long such a request may wait where functions have changed.")

(defconst efrit-server--list-files (symbol-function 'directory-files)
  "What lists files, whatever its name has come to mean.")

(defvar efrit-server--loading nil
  "Non-nil while the init file is loaded, which may wait.")

(defvar efrit-server--ticking nil
  "Non-nil while a tick looks around.")

(defvar efrit-server--overdue nil
  "When a signal has found the ticks overdue, if none has come since, or nil.")

(defvar efrit-server--tick-function #'ignore
  "What a tick calls: `efrit-server--on-tick', guarded.")

(defvar efrit-server--tick nil
  "The timer of the next tick.")

(defvar efrit-server--spare-tick nil
  "The timer that goes off when the tick before it has failed to.")

(defvar efrit-server--soon nil
  "The timer that goes on with the work, if it is set.")

(defvar efrit-server--watch nil
  "The watch on requests/ as (DESCRIPTOR . INODE), or nil.")

(defvar efrit-server--held nil
  "A function that must succeed before anything else is claimed, or nil.")

(defvar efrit-server--failures 0
  "How often in a row the queue could not be written.")

(defconst efrit-server--slice 0.05
  "Seconds of work after which Emacs looks at its events.")

(defun efrit-server--log (format &rest arguments)
  "Log FORMAT and ARGUMENTS, to *Messages* and so to the daemon's output."
  (let ((inhibit-message nil))
    (message "efrit: %s" (efrit-secret-redact (apply #'format-message format arguments)))))

(defmacro efrit-server--entry (&rest body)
  "Run BODY as an entry from Emacs into the server: no error leaves it."
  (declare (indent 0) (debug t))
  `(save-current-buffer
     (save-match-data
       (condition-case err
           (let ((inhibit-quit t) (debug-on-event nil)) ,@body)
         (error (efrit-server--log "%s" (error-message-string err)))))))

(defmacro efrit-server--working (&rest body)
  "Run BODY as work of the server, and no other work in any thread meanwhile."
  (declare (indent 0) (debug t))
  `(let ((efrit-server--busy t) (outer efrit-server--worker))
     (unwind-protect
         (progn (setq efrit-server--worker (efrit-interrupt-thread))
                ,@body)
       (setq efrit-server--worker outer))))

(defun efrit-server--busy-p ()
  "Return non-nil while the server works, in whatever thread.
Timers and events come in any thread that waits, those of a request included."
  (or efrit-server--busy
      (and efrit-server--worker
           (thread-live-p efrit-server--worker)
           (not (eq efrit-server--worker (efrit-interrupt-thread))))))  ; gate: one-thread

;;;; Serving one request

(defun efrit-server--serve (entry)
  "Claim the request of ENTRY and answer it, or make a session of it."
  (let ((claim (efrit-claim-take entry)) settled)
    (when claim
      (unwind-protect
          (let (result)
            (efrit-health-begin claim (efrit-server--long-p claim))
            (efrit-background-record nil)
            (setq result (efrit-server--result claim))
            (if (efrit-session-p result)
                (efrit-health-end)
              (efrit-server--finish claim result))
            (setq settled t))
        ;; An answer that is made and could not be stored yet is held back.
        (unless (or settled efrit-server--held)
          (efrit-server--give-up "a request could not be answered"))))))

(defun efrit-server--long-p (claim)
  "Return non-nil when the request of CLAIM may keep the heartbeat back for long.
Other hosts then have to know it, and its time, beforehand."
  (and (not efrit-bridge-p)
       (> (or (efrit-request-timeout (efrit-claim-request claim)) 0)
          (/ efrit-takeover-seconds 3.0))))

(defun efrit-server--finish (claim result)
  "Answer the request of CLAIM with RESULT."
  (let ((answer (efrit-server--answer claim result)))
    (unless (efrit-server--sound-p answer)
      (efrit-server--give-up "an answer was no JSON"))
    (efrit-health-count result)
    (efrit-self-check-request-ended)
    (efrit-background-record (efrit-request-id (efrit-claim-request claim)))
    (setq efrit-server--held (lambda () (efrit-server--store answer)))
    (efrit-server--release)))

(defun efrit-server--sound-p (answer)
  "Return non-nil when the text of ANSWER is that of an answer to its request."
  (let ((text (efrit-answer-text answer)))
    (and (stringp text)
         (string-prefix-p "{" text)
         (string-search (format "\"%s\"" (efrit-answer-id answer)) text)
         (string-search "\"status\":" text))))

(defun efrit-server--store (answer)
  "Store ANSWER; see `efrit-answer-store'.
End this Emacs where code has made of that something that stores nothing."
  (efrit-answer-store answer)
  (when (and (efrit-fence-holds-p)
             (efrit-files-isolated
               (file-exists-p (efrit-claim-processing-path (efrit-answer-id answer)))))
    (efrit-server--give-up "an answer could not be stored, and no error said so")))

(defun efrit-server--step (session)
  "Do the next step of SESSION, and answer its request when it is over."
  (let ((claim (efrit-session-claim session)) (acts (eq (efrit-session-state session) 'act)))
    ;; A tool may occupy Emacs for long: whoever watches must know which request that is.
    (when claim (efrit-health-begin claim acts))
    ;; Ahead of the step, which may be left by a throw.
    (when acts (efrit-self-check-request-ended))  ; gate: check-after-tool
    (cond ((not (efrit-session-step session)) (efrit-health-end))
          (claim (efrit-server--finish claim (efrit-session-result session)))
          ((efrit-session-on-end session)
           (funcall (efrit-session-on-end session) session)))))

(defun efrit-server--wake ()
  "Go on with the sessions soon; what they waited for has come."
  (unless efrit-server--busy
    (efrit-server--go-on-in 0.001)))

(defun efrit-server--result (claim)
  "Return the `efrit-result' for CLAIM, whatever happens, or its session.
An error here is one of the server, or of code that has changed the server."
  (condition-case err
      (efrit-server--dispatch claim)
    (error
     (efrit-server--log "%s: %s" (efrit-request-id (efrit-claim-request claim))
                        (error-message-string err))
     (efrit-result-make :reason "EvalError" :error-code (car err)
                        :error (concat "The server failed: "
                                       (efrit-print-clean
                                        (error-message-string err)))))))

(defun efrit-server--dispatch (claim)
  "Return the `efrit-result' for CLAIM, according to its type, or its session."
  (let* ((request (efrit-claim-request claim))
         (id (efrit-request-id request))
         (problem (efrit-request-problem request))
         (ordered (efrit-interrupt-ordered id)))
    (cond (problem
           (efrit-result-make :reason "Rejected" :error problem))
          ((efrit-server--directory-problem request)
           (efrit-result-make :reason "Rejected"
                              :error (efrit-server--directory-problem request)))
          (ordered
           (efrit-result-make :reason ordered
                              :error "The request was stopped before it ran"))
          (t
           ;; What is not known cannot be kept out of what is told, and the key may
           ;; be another one by the time of the answer.
           (efrit-secret-learn)
           (pcase (efrit-request-type request)
             ("eval" (efrit-server--eval request))
             ("status"
              (efrit-result-make :reason "Succeeded"
                                 :value (efrit-server--status)))
             (_ (efrit-server--converse claim request)))))))

(defun efrit-server--directory-problem (request)
  "Return why REQUEST cannot begin in the directory it names, or nil."
  (let ((directory (efrit-request-directory request)))
    (unless (or (null directory)
                (efrit-files-with-own-coding (file-accessible-directory-p directory)))
      (format "There is no directory %s where this Emacs runs: name another one"
              (file-name-unquote directory)))))

(defun efrit-server--converse (claim request)
  "Return the session for REQUEST of CLAIM, or an `efrit-result' that says why not."
  (let ((problem (efrit-session-problem request)))
    (cond ((not (efrit-settings-model-p))
           (efrit-result-make
            :reason "ModelNotConfigured"
            :error (concat "This instance has no model: only eval and status are answered; "
                           (if efrit-bridge-p "set spec.model"
                             "set EFRIT_MODEL_NAME and restart it (efrit restart)"))))
          (problem (efrit-result-make :reason "Rejected" :error problem))
          (t (efrit-session-start request claim)))))

(defun efrit-server--eval (request)
  "Evaluate the content of REQUEST and return the `efrit-result'."
  (let ((id (efrit-request-id request))
        (timeout (efrit-request-timeout request))
        (efrit-eval-directory (efrit-request-directory request)))
    (efrit-watchdog-watch (efrit-claim-processing-path id) timeout)
    (efrit-eval id (efrit-request-content request) timeout
                (efrit-request-max-result-bytes request)
                (efrit-request-return-context request))))

(defun efrit-server--status ()
  "Return the stats as an `efrit-print'."
  (let ((text (decode-coding-string (efrit-files-bytes (efrit-health-stats)) 'efrit-utf-8)))
    (efrit-print-make :text text :bytes (string-bytes text))))

(defun efrit-server--answer (claim result)
  "Return the answer that gives RESULT to CLAIM.
Where no JSON can be made of RESULT, the answer says so."
  (condition-case err
      (progn
        (efrit-secret-learn)
        (efrit-answer-make claim result))
    (error
     (efrit-server--log "%s: %s" (efrit-request-id (efrit-claim-request claim))
                        (error-message-string err))
     (efrit-answer-make
      claim
      (efrit-result-make :reason "EvalError" :error-code 'efrit-error
                         :error "The request ran, but no answer could be made of its result"
                         :seconds (efrit-result-seconds result))))))

;;;; When the disk fails

(defun efrit-server--release ()
  "Do what is held back; return non-nil when nothing is any more."
  (when efrit-server--held
    (funcall efrit-server--held)
    (setq efrit-server--held nil)
    (efrit-health-end))
  (setq efrit-server--failures 0)
  (efrit-health-set-problem nil)
  t)

(defconst efrit-server--most-failures 6
  "Failures in a row, in about six seconds, for which functions are blamed.")

(defun efrit-server--trouble (err)
  "Note that ERR kept the queue from being served, and try again later."
  (let ((message (error-message-string err))
        (delay (min 5.0 (* 0.1 (expt 2 (min 10 efrit-server--failures))))))
    (when (= efrit-server--failures 0)
      (efrit-server--log "%s; trying again" message))
    (setq efrit-server--failures (1+ efrit-server--failures)
          ;; What could not be claimed was forgotten, and is there all the same.
          efrit-server--dirty t)
    (efrit-health-set-problem message)
    ;; Not every such error is the disk's.
    (when (and (> efrit-server--failures 1) (efrit-limits-error-p message))
      (efrit-server--give-up "a limit of this process keeps it from the queue"))
    (when (and (>= efrit-server--failures efrit-server--most-failures)
               (efrit-guard-altered-p))
      (efrit-server--give-up "the queue cannot be written with the functions as they are now"))
    (efrit-server--go-on-in delay)))

;;;; When code has broken the server

(defvar efrit-server--breakdowns 0
  "How often in a row the work ended in an error that is none of the queue.")

(defconst efrit-server--most-breakdowns 3
  "After how many such errors this Emacs ends.")

(defun efrit-server--note-breakdown ()
  "Note that the work ended in an error of the server itself, and try again.
Code of requests must have broken it: when that goes on, another one is needed."
  (setq efrit-server--breakdowns (1+ efrit-server--breakdowns))
  (if (>= efrit-server--breakdowns efrit-server--most-breakdowns)
      (efrit-server--give-up "it no longer works, whatever requests have done to it")
    (efrit-server--go-on-in 0.25 #'efrit-server--look-again)))

(defun efrit-server--give-up (why)
  "End this Emacs, so that another one answers, and log WHY."
  (let ((end (symbol-function 'efrit-guard-end)))
    (unwind-protect
        (ignore-errors (efrit-server--log "This Emacs ends: %s" why))
      (funcall end))))

(defun efrit-server--restore ()
  "Put back what code has redefined of the server, and log it."
  (efrit-guard-restore)
  (let ((restored (efrit-guard-take-restored)))
    (when restored
      (efrit-server--log "put back what the code of a request had redefined: %s" restored))))

;;;; Whether answers are right

(defun efrit-server--check-self ()
  "Check between requests that an answer would be right, when it is time for that."
  (when (efrit-self-check-due-p)
    ;; Code that waits must not begin a request in the midst of it.
    (efrit-server--working
      (efrit-server--restore)
      (let ((problem (efrit-self-check)) (limit (efrit-limits-lowered)))
        ;; Sessions would be lost with it.
        (when (and limit (null efrit-sessions))
          (efrit-server--give-up
           (format "a limit of this process is lower than at its start: %s" limit)))
        (when problem
          (efrit-server--log "the self-check failed, so nothing is claimed until another Emacs serves: %s"
                             problem))))))

;;;; The work

(defun efrit-server--work ()
  "Answer requests in their order, for a while."
  (unless (or (efrit-server--busy-p) (not efrit-server--up))
    ;; Ahead of all that binds variables, which code may watch.
    (efrit-guard-restore)
    (efrit-server--working
      (let (whole)
        (unwind-protect
            (efrit-server--entry
              (efrit-server--restore)
              (condition-case err
                  (when (efrit-server--release)
                    (efrit-server--work-slice))
                ((efrit-queue-trouble file-error) (efrit-server--trouble err)))
              (efrit-server--arm)
              (setq whole t))
          (if whole
              (setq efrit-server--breakdowns 0)
            (efrit-server--note-breakdown)))))))

(defun efrit-server--draining-p ()
  "Return non-nil while nothing new is to be claimed: this Emacs is about to end."
  ;; gate: draining
  (or (efrit-fence-paused-p) (not (efrit-fence-holds-p)) (efrit-self-check-holds-p)))

(defun efrit-server--work-slice ()
  "Answer requests until none waits or a slice of time is over.
Sessions take turns with requests: a step, a request, a step."
  (let ((start (float-time)) entry session)
    (while (progn
             (setq efrit-server--turns (1+ efrit-server--turns))
             (when efrit-server--dirty
               (setq efrit-server--dirty nil)
               (efrit-queue-scan))
             ;; At the next tick, a request that comes before it would be answered wrongly.
             ;; gate: check-before-claim
             (when (efrit-self-check-requested-p) (efrit-server--check-self))
             (setq session (efrit-session-next)
                   entry (and (not (efrit-server--draining-p))
                              (efrit-queue-next (efrit-sessions-under-way))))
             (when session (efrit-server--step session))
             (when entry (efrit-server--serve entry))
             (and (or session entry)
                  (< -0.001 (- (float-time) start) efrit-server--slice))))
    ;; Meanwhile requests may have come that go before those known.
    (when (and entry (efrit-queue-scan-cheap-p))
      (setq efrit-server--dirty t))
    ;; A delay of zero would run timers only: events need a wait to be read.
    (cond ((or session entry) (efrit-server--go-on-in 0.001))
          ((efrit-queue-unsettled-p)
           (efrit-server--go-on-in 0.25 #'efrit-server--look-again))
          ((efrit-sessions-pause)
           (efrit-server--go-on-in (max 0.001 (efrit-sessions-pause)))))))

(defun efrit-server--go-on-in (seconds &optional function)
  "Work again in SECONDS, by calling FUNCTION if that is non-nil."
  (when (timerp efrit-server--soon) (cancel-timer efrit-server--soon))
  (setq efrit-server--soon
        (run-with-timer seconds nil (or function #'efrit-server--work))))

(defun efrit-server--look-again ()
  "Scan, then work."
  (setq efrit-server--dirty t)
  (efrit-server--work))

;;;; What wakes the server

(defun efrit-server--on-event (event)
  "Take the file notification EVENT as a hint."
  (efrit-server--entry
    (pcase-let ((`(,_ ,action . ,files) event))
      (cond ((or (efrit-server--busy-p) efrit-server--held (eq action 'stopped))
             (setq efrit-server--dirty t))
            (t (mapc #'efrit-server--note files)))
      (unless (or (efrit-server--busy-p) (eq action 'deleted))
        ;; What arrived together must be known before the first is chosen.
        (when (and (input-pending-p) (efrit-queue-scan-cheap-p))
          (setq efrit-server--dirty t))
        (efrit-server--work)))))

(defun efrit-server--note (file)
  "Take note of FILE, a part of a file notification."
  (when (stringp file)
    (let ((name (file-name-nondirectory file)))
      (cond ((efrit-queue-name-p name) (efrit-queue-look name))
            ;; Emacs decodes names as user code says: it may be any file's.
            ((not (string-match-p "\\`[[:ascii:]]*\\'" name)) (setq efrit-server--dirty t))))))

(defun efrit-server--on-tick ()
  "Beat, and have the queue scanned in case an event was lost."
  (unless (efrit-server--busy-p) (efrit-guard-restore))
  (setq efrit-server--overdue nil)
  ;; Whatever happens in this tick, the next two are set.
  (efrit-server--set-ticks)  ; gate: next-tick
  (efrit-server--entry (efrit-server--end-if-superseded))
  (efrit-server--end-if-unwound)
  (efrit-server--end-if-stuck)
  (efrit-server--entry (efrit-server--end-if-blind))
  (let ((efrit-server--ticking t)) (efrit-server--look-around))
  ;; A signal that came while a callback ran, this one included, was not heard.
  (when efrit-server--busy (efrit-interrupt-now-if-ordered)))

(defun efrit-server--end-if-unwound ()
  "End Emacs when it seems to work and does not.
After an overflow of the C stack, Emacs goes on at its command loop and takes no
binding back: whatever was bound while a request ran stays so for good."
  (when (and efrit-server--busy  ; gate: unwound
             (not (efrit-background-on-stack-p
                   '(efrit-server--work efrit-server--load-init-file
                     efrit-server--check-self))))
    (efrit-server--log "%s overflowed the C stack: ending this Emacs"
                       (if efrit-health-current
                           (concat "request " (efrit-request-id (efrit-claim-request
                                                                 efrit-health-current)))
                         "code"))
    (efrit-background-end-emacs)))

(defun efrit-server--end-if-stuck ()
  "End Emacs when the server waits, which only code of a request makes it do.
Timers go off meanwhile, so that the heartbeat says nothing of it.  What a
request itself waits for is its own affair until its time is over."
  (let ((waits (and (or efrit-server--busy efrit-server--ticking)
                    (not (efrit-interrupt-running-p))
                    (not efrit-server--loading)
                    (not (efrit-background-attended-p)))))
    (cond ((not waits) (setq efrit-server--stuck nil))
          ((not (eql (car efrit-server--stuck) efrit-server--turns))
           (setq efrit-server--stuck (cons efrit-server--turns (float-time))))
          ;; gate: stuck
          ((>= (- (float-time) (cdr efrit-server--stuck)) efrit-server--stuck-seconds)
           (efrit-server--give-up "code that waits keeps it from its work")))))

(defun efrit-server--end-if-blind ()
  "End Emacs when a request waits with nothing in its way, and code has advised us.
That may have made a step of the way to a claim do nothing, and no error tells."
  (let ((name (and efrit-server--up
                   (not (or (efrit-server--busy-p) efrit-server--held efrit-sessions
                            (efrit-background-attended-p) (efrit-server--draining-p)))
                   (efrit-files-isolated
                     (car (funcall efrit-server--list-files (efrit-files-path "requests")
                                   nil "\\`[^.].*\\.json\\'"))))))
    (cond ((null name) (setq efrit-server--unclaimed nil))
          ((not (equal name (car efrit-server--unclaimed)))
           (setq efrit-server--unclaimed (cons name (float-time))))
          ;; gate: blind
          ((and (>= (- (float-time) (cdr efrit-server--unclaimed))
                    efrit-server--unclaimed-seconds)
                (efrit-guard-altered-p))
           (efrit-server--give-up "requests are not claimed with the functions as they are now")))))

(defun efrit-server--set-ticks ()
  "Set the timers of the next tick and of the one that goes off in its stead.
Both are set anew for each tick: a throw out of a repeating timer would end it,
and Emacs lets other timers be late while one that repeats goes off."
  (dolist (timer (list efrit-server--tick efrit-server--spare-tick))
    (when (timerp timer) (cancel-timer timer)))
  (setq efrit-server--tick
        (run-with-timer efrit-heartbeat-seconds nil efrit-server--tick-function)
        efrit-server--spare-tick
        (run-with-timer (* 1.5 efrit-heartbeat-seconds) nil efrit-server--tick-function)))

(defun efrit-server--ticks-set-p ()
  "Return non-nil when both ticks are set."
  (and (efrit-server--timer-set-p efrit-server--tick (* 3 efrit-heartbeat-seconds))
       (efrit-server--timer-set-p efrit-server--spare-tick
                                  (* 3 efrit-heartbeat-seconds))))

(defun efrit-server--look-around ()
  "Do what is to be done with every tick."
  (efrit-server--entry
    (efrit-eval-leave-recursion)
    (unless (efrit-server--busy-p)
      (efrit-files-make-directories)
      (efrit-server--check-self))
    (efrit-health-beat-if-stale)
    (when (and (efrit-health-limited-p) (not (efrit-server--busy-p)))
      (efrit-server--give-up "a limit of this process keeps it from the heartbeat"))
    (efrit-health-look-at-key)
    (efrit-session-look)
    (efrit-process-look-at-all)
    (efrit-background-look-at-threads)
    (unless (efrit-server--busy-p)
      (efrit-server--settle-strays)  ; gate: settle-strays
      ;; The list of results is that of the Emacs whose queue this is.
      (when (efrit-fence-holds-p) (efrit-results-look))
      (unless (or efrit-sessions (efrit-queue-next)) (garbage-collect-maybe 4))
      (setq efrit-server--dirty t)  ; gate: emacs-rescan
      ;; A timer does not run within itself: work done here would stop the beat.
      (unless (efrit-server--timer-set-p efrit-server--soon 10)
        (efrit-server--go-on-in 0)))))

(defun efrit-server--settle-strays ()
  "Settle claims of an Emacs that this one has taken the queue from.
An answer that is held back is one of our own, though of no session any more."
  (unless efrit-server--held
    (condition-case err
        (efrit-health-count-interrupted
         (efrit-recover-strays
          (append
           (efrit-claim-give-back-stranded)
           (mapcar (lambda (claim) (efrit-request-id (efrit-claim-request claim)))
                   (delq nil (mapcar #'efrit-session-claim efrit-sessions))))))
      ((efrit-queue-trouble file-error)
       (efrit-server--log "%s" (error-message-string err))))))

(defun efrit-server--look-soon ()
  "Have everything looked at, as soon as what runs is over."
  (efrit-server--note-overdue)
  (run-with-timer 0 nil #'efrit-server--on-tick))

(defun efrit-server-poke ()
  "Look at everything again; SIGUSR2 calls this when no evaluation hears it."
  (interactive)
  (if efrit-server--busy
      (efrit-interrupt-now-if-ordered)
    (efrit-server--note-overdue)
    (efrit-server--on-tick)))

(defun efrit-server--note-overdue ()
  "End Emacs when a second signal finds the ticks overdue: its timers rest.
After the first one, an Emacs that was only late has looked at them."
  (when (efrit-server--ticks-overdue-p)
    (let ((since (or efrit-server--overdue (float-time))))
      ;; gate: timers-rest
      (when (and (< efrit-heartbeat-seconds (- (float-time) since))
                 (not (efrit-background-attended-p)))
        (efrit-server--give-up "timers no longer go off"))
      (setq efrit-server--overdue since))))

(defun efrit-server--ticks-overdue-p ()
  "Return non-nil when both ticks should have come a while ago.
Emacs looks at its timers before it takes a signal as an event."
  (and (timerp efrit-server--spare-tick)
       (< (* 0.5 efrit-heartbeat-seconds)
          (float-time (time-subtract nil (timer--time efrit-server--spare-tick))))))

;;;; Staying awake

(defun efrit-server--arm ()
  "Set up the tick and the watch where they are missing."
  (efrit-background-arm)
  (unless (efrit-server--ticks-set-p) (efrit-server--set-ticks))
  (unless (efrit-server--watching-p)
    (efrit-server--watch)))

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
  (and efrit-server--watch
       (let ((file-name-handler-alist nil))
         (file-notify-valid-p (car efrit-server--watch)))
       (equal (cdr efrit-server--watch) (efrit-server--requests-inode))))

(defun efrit-server--watch ()
  "Watch requests/."
  (efrit-server--unwatch)
  (efrit-files-make-directories)
  (let ((inode (efrit-server--requests-inode))
        (default-directory "/")
        (file-name-handler-alist nil))
    (setq efrit-server--watch
          (condition-case err
              (cons (efrit-files-with-own-coding
                      (file-notify-add-watch (efrit-files-path "requests") '(change)
                                             #'efrit-server--on-event))
                    inode)
            ;; Without events the tick finds the requests, only later.
            (error (efrit-server--log "%s" (error-message-string err)) nil))))
  (setq efrit-server--dirty t))

(defun efrit-server--unwatch ()
  "Watch requests/ no longer."
  (when efrit-server--watch
    (let ((file-name-handler-alist nil))
      (ignore-errors (file-notify-rm-watch (car efrit-server--watch))))
    (setq efrit-server--watch nil)))

(defun efrit-server-handle-notification (event)
  "Handle the file notification EVENT of any watch.
What code has put into `file-name-handler-alist' has no say about our own."
  (interactive "e")
  (let ((file-name-handler-alist
         (unless (and efrit-server--watch
                      (equal (car-safe (car-safe (cdr-safe event)))
                             (car efrit-server--watch)))
           file-name-handler-alist)))
    (file-notify-handle-event event)))

;;;; Starting and stopping

;;;###autoload
(defun efrit-server-start ()
  "Serve the queue in `efrit-queue-directory' until Emacs ends."
  (interactive)
  (unless efrit-server--up
    (condition-case err
        (efrit-server--start)
      (efrit-error
       (efrit-server--log "%s" (error-message-string err))
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
  (efrit-server--take-queue)
  (efrit-eval-install)
  ;; An Emacs that was killed leaves its locks, whose process numbers others get: asking
  ;; whether to steal them would be an error, and nobody else edits here.
  (when efrit-bridge-p (setq create-lockfiles nil))
  (define-key special-event-map [sigusr2] #'efrit-server-poke)
  (define-key special-event-map [file-notify] #'efrit-server-handle-notification)
  (add-hook 'kill-emacs-hook #'efrit-server--on-exit)
  (setq efrit-session-wake-function #'efrit-server--wake
        efrit-interrupt-heard-function #'efrit-health-beat
        efrit-interrupt-idle-function #'efrit-server--look-soon
        efrit-background-beat-age-function #'efrit-health-beat-age
        efrit-background-log-function (lambda (line) (efrit-server--log "%s" line))
        efrit-sessions nil
        efrit-server--dirty t
        efrit-server--failures 0
        ;; Nothing is claimed before what was left behind is settled.
        efrit-server--held (lambda ()
                             (when (efrit-fence-holds-p)
                               (efrit-health-count-interrupted (efrit-recover)))))
  (efrit-guard-start)
  (efrit-limits-start)
  (efrit-health-look-at-key)
  (efrit-self-check-start)
  (efrit-health-beat)
  (setq efrit-server--up t
        efrit-server--tick-function (funcall efrit-guard-checker
                                             (symbol-function 'efrit-server--on-tick)))
  (efrit-server--arm)
  (efrit-background-record nil)
  (efrit-server--load-init-file)
  (efrit-server--entry (efrit-server--check-self))
  (efrit-server--log "serving %s" efrit-queue-directory)
  (efrit-server--go-on-in 0))

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
        (let ((limit (+ (float-time) efrit-server--settle-seconds)))
          (while (< (float-time) limit)
            (efrit-health-beat)
            (sleep-for 0.2)
            (when (efrit-fence-superseded-p)
              (signal 'efrit-queue-taken (list efrit-queue-directory
                                               "a newer one has taken it")))))))
    (setq efrit-health-serving "serving")))

(defun efrit-server--end-if-superseded ()
  "End Emacs when another one has taken its queue: it was silent for too long.
In a pod, whoever has started both ends the older one."
  (when (and (not efrit-bridge-p) (efrit-fence-superseded-p))  ; gate: end-superseded
    (efrit-server--give-up "another Emacs has taken the queue")))

(defun efrit-server--load-init-file ()
  "Load `efrit-init-file'."
  (when efrit-init-file
    (efrit-server--working
      (let ((inhibit-interaction t) (efrit-server--loading t))
        (condition-case err
            (load efrit-init-file nil t)
          (error (efrit-server--note-init-problem
                  (format "%s: %s" efrit-init-file (error-message-string err)))))))))

(defun efrit-server--note-init-problem (problem)
  "Log PROBLEM, the error of an init file, and have the heartbeat tell it."
  (efrit-server--log "%s" problem)
  (setq efrit-health-init-problem problem)
  (efrit-health-beat))

(defun efrit-server--on-exit ()
  "Log which request the end of Emacs interrupts, and tell other hosts of that end."
  (unless efrit-bridge-p
    (setq efrit-health-serving "ended")
    (efrit-health-beat))
  (when (and efrit-server--busy efrit-health-current)
    (efrit-server--log "Emacs ends while request %s runs"
                       (efrit-request-id
                        (efrit-claim-request efrit-health-current)))))

;;;###autoload
(defun efrit-server-stop ()
  "Stop serving the queue; what waits keeps waiting."
  (interactive)
  (setq efrit-server--up nil)
  (efrit-server--unwatch)
  (dolist (timer (list efrit-server--tick efrit-server--spare-tick efrit-server--soon))
    (when (timerp timer) (cancel-timer timer)))
  (efrit-watchdog-stop)
  (efrit-guard-stop)
  (efrit-eval-uninstall)
  (remove-hook 'kill-emacs-hook #'efrit-server--on-exit))

(provide 'efrit-server)
;;; efrit-server.el ends here
