;;; efrit-server-health.el --- Counters and the heartbeat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What the server reports about itself: counters since this start, the answer to
;; a `status' request, and the heartbeat file.  A heartbeat shows that Emacs is responding,
;; it is not a record: it is not synced, and a failure to write it is not a failure.

;;; Code:

(require 'efrit-settings)
(require 'efrit-clock)
(require 'efrit-files)
(require 'efrit-print)
(require 'efrit-queue-request)
(require 'efrit-queue-claim)
(require 'efrit-queue)
(require 'efrit-queue-answer)
(require 'efrit-session-scheduler)
(require 'efrit-queue-fence)
(require 'efrit-queue-host)
(require 'efrit-eval)
(require 'efrit-eval-limits)
(require 'efrit-eval-background)
(require 'efrit-secret)
(require 'efrit-server-self-check)

(defvar efrit-health--counts nil
  "The counters, a plist.")

(defvar efrit-health--since 0.0
  "When this server started.")

(defvar efrit-health-current nil
  "The `efrit-claim' that is being answered, or nil.")

(defvar efrit-health--problem nil
  "Why the queue cannot be served, or nil.")

(defvar efrit-health-init-problem nil
  "What went wrong in the init file, or nil.")

(defvar efrit-health--model-key nil
  "What the file of the model's key holds, see `efrit-secret-state'.")

(defvar efrit-health--written 0.0
  "When the heartbeat was last written.")

(defvar efrit-health--shown nil
  "Non-nil when the heartbeat on disk says that a request runs.")

(defvar efrit-health--limited 0
  "How many heartbeats in a row a limit of this process has prevented.")

(defvar efrit-health-rest nil
  "Seconds from one heartbeat to the next while this Emacs rests, or nil.
Else there is one each `efrit-heartbeat-seconds'.")

(defvar efrit-health-serving "serving"
  "What this Emacs says that it does: starting, serving or ended.")

(defconst efrit-health--pause 0.25
  "Seconds between two heartbeats at least, but for the regular ones.")

;;;; Counting

(defun efrit-health-reset ()
  "Start counting."
  (setq efrit-health--counts (list :processed 0 :succeeded 0 :failed 0 :interrupted 0
                                   :seconds 0.0)
        efrit-health--since (efrit-clock)
        efrit-health-current nil
        efrit-health--problem nil
        efrit-health--written 0.0
        efrit-health--limited 0
        efrit-health-rest nil
        efrit-health--shown nil))

(defun efrit-health--add (key amount)
  "Add AMOUNT to the counter KEY."
  (setq efrit-health--counts
        (plist-put efrit-health--counts key
                   (+ amount (plist-get efrit-health--counts key)))))

(defun efrit-health-count (result)
  "Count the `efrit-result' RESULT."
  (efrit-health--add :processed 1)
  (efrit-health--add (if (equal (efrit-result-reason result) "Succeeded")
                         :succeeded :failed)
                     1)
  (efrit-health--add :seconds (efrit-result-seconds result)))

(defun efrit-health-count-interrupted (number)
  "Count NUMBER requests that an earlier Emacs did not finish."
  (efrit-health--add :interrupted number))

;;;; Telling

(defun efrit-health--facts ()
  "Return what the heartbeat and the stats have in common, as a JSON alist."
  (let* ((claim efrit-health-current)
         (request (and claim (efrit-claim-request claim))))
    `((boot . ,efrit-claim-boot)
      (pid . ,(emacs-pid))
      (server . ,(efrit-health--server))
      (time . ,(efrit-answer-time))
      (emacs_version . ,emacs-version)
      (state . ,(cond (efrit-health--problem "degraded")
                      ((or claim efrit-sessions) "busy")
                      (t "idle")))
      (sessions . ,(length efrit-sessions))
      (problem . ,(if efrit-health--problem
                      (efrit-print-head (efrit-print-clean efrit-health--problem) 300)
                    :null))
      ,@(when efrit-health-init-problem
          `((init_problem . ,(efrit-print-head
                              (efrit-print-clean efrit-health-init-problem) 200))))
      ,@(when efrit-health--model-key
          `((model_key . ,efrit-health--model-key)))
      (attended . ,(if (efrit-background-attended-p) t :false))
      (rest . ,(or efrit-health-rest :null))
      (self_check . ,(efrit-self-check-facts))
      (current . ,(if request (efrit-request-id request) :null))
      (attempt . ,(if claim (efrit-claim-attempt claim) :null))
      (started . ,(if claim (efrit-answer-time (efrit-claim-started claim)) :null))
      (timeout . ,(or (and request (efrit-request-timeout request)) :null))
      (processed . ,(plist-get efrit-health--counts :processed))
      (succeeded . ,(plist-get efrit-health--counts :succeeded))
      (failed . ,(plist-get efrit-health--counts :failed))
      (interrupted . ,(plist-get efrit-health--counts :interrupted))
      (total_processing_seconds . ,(plist-get efrit-health--counts :seconds)))))

(defun efrit-health--server ()
  "Return where this Emacs runs and which run of the queue it is, as a JSON alist."
  `(,@efrit-host-identity
    (generation . ,(or efrit-fence-generation :null))
    (state . ,efrit-health-serving)))

(defun efrit-health-stats ()
  "Return the stats that answer a `status' request, as JSON text."
  (let ((processed (plist-get efrit-health--counts :processed))
        (seconds (plist-get efrit-health--counts :seconds)))
    (json-serialize
     `(,@(efrit-health--facts)
       (pending . ,(efrit-queue-pending))
       (average_processing_seconds . ,(if (> processed 0) (/ seconds processed) 0.0))
       (uptime_seconds . ,(max 0.0 (- (efrit-clock) efrit-health--since)))))))

;;;; The heartbeat

(defconst efrit-health--bytes 2048
  "Size of a heartbeat, filled up with spaces.
On a full disk it can still be written over the last one, of the same size.")

(defconst efrit-health--serialize (symbol-function 'json-serialize)
  "What makes a heartbeat's text, whatever its name has come to mean.")

(defun efrit-health--text ()
  "Return the text of a heartbeat."
  (let ((text (efrit-files-bytes (funcall efrit-health--serialize (efrit-health--facts)))))
    (concat text (make-string (max 0 (- efrit-health--bytes (length text) 1)) ?\s) "\n")))

(defun efrit-health-beat ()
  "Write the heartbeat, unless it is another Emacs's by now."
  (let ((path (efrit-files-path "heartbeat")))
    (condition-case err
        (efrit-files-isolated
          (when (efrit-fence-holds-p)
            (let ((text (efrit-health--text)))
              (condition-case nil
                  (efrit-files-replace path text efrit-claim-boot)
                (file-error
                 ;; A reader may see it half written, which beats silence.
                 (when (file-exists-p path) (efrit-files-overwrite path text))))))
          (setq efrit-health--shown (and efrit-health-current t)
                efrit-health--limited 0))
      (error
       (when (efrit-limits-error-p (error-message-string err))
         (setq efrit-health--limited (1+ efrit-health--limited))))))
  (setq efrit-health--written (efrit-clock)))

(defun efrit-health-well-p ()
  "Return non-nil when the queue can be served and heartbeats written."
  (and (null efrit-health--problem) (= efrit-health--limited 0)))

(defun efrit-health-limited-p ()
  "Return non-nil when a limit of this process has prevented heartbeats."
  (> efrit-health--limited 1))

(defun efrit-health-update-key-state ()
  "Say what the file of the model's key holds now: it may be replaced at any time."
  (let ((state (efrit-secret-state)))
    (unless (equal state efrit-health--model-key)
      (setq efrit-health--model-key state)
      (efrit-health-beat))))

(defun efrit-health-beat-if-stale ()
  "Write the heartbeat unless that was done a moment ago."
  (unless (< -0.001 (- (efrit-clock) efrit-health--written) efrit-health--pause)
    (efrit-health-beat)))

(defun efrit-health-set-rest (seconds)
  "Say that this Emacs lives, and that the next heartbeat is SECONDS from now.
With SECONDS nil it comes as usual."
  (let ((changes (not (equal seconds efrit-health-rest))))
    (setq efrit-health-rest seconds)
    (if changes (efrit-health-beat) (efrit-health-beat-if-stale))))

(defun efrit-health-beat-age ()
  "Return the seconds since the last heartbeat, without those of the rest after it."
  (- (efrit-clock) efrit-health--written
     (if efrit-health-rest (- efrit-health-rest efrit-heartbeat-seconds) 0)))

(defun efrit-health-begin (claim &optional now)
  "Say that CLAIM is being worked on; with NOW, whenever that was said last."
  (setq efrit-health-current claim)
  (if now (efrit-health-beat) (efrit-health-beat-if-stale)))

(defun efrit-health-end ()
  "Say that nothing is being worked on, where the heartbeat says otherwise."
  (setq efrit-health-current nil)
  (when efrit-health--shown (efrit-health-beat)))

(defun efrit-health-set-problem (problem)
  "Say that the queue cannot be served because of PROBLEM, a string or nil."
  (unless (equal problem efrit-health--problem)
    (setq efrit-health--problem problem)
    (efrit-health-beat)))

;;;; Two daemons, one queue

(defun efrit-health--last ()
  "Return the heartbeat that lies in the queue as a hash table, nil without one."
  (let* ((text (efrit-files-isolated
                 (condition-case nil
                     (efrit-files-read (efrit-files-path "heartbeat"))
                   (file-error ""))))
         (beat (condition-case nil (json-parse-string text) (error nil))))
    (and (hash-table-p beat) beat)))

(defun efrit-health-last-problem ()
  "Return what the heartbeat in the queue says that kept its Emacs from the queue.
The value is a string, or nil where nothing did."
  (let* ((beat (efrit-health--last))
         (problem (and beat (gethash "problem" beat))))
    (and (stringp problem) (efrit-print-head (efrit-print-clean problem) 300))))

(defun efrit-health-check-alone ()
  "Signal `efrit-queue-taken' when another live Emacs serves the queue.
Return non-nil when the last one was one of another host.
In a pod, whoever starts Emacs decides: it takes the queue from an older run."
  (unless efrit-fence-generation
    (let* ((beat (efrit-health--last))
           (pid (and beat (gethash "pid" beat)))
           (time (and pid (efrit-request-time (gethash "time" beat)))))
      (pcase (efrit-host-verdict beat #'efrit-host-silence)
        ('taken
         (signal 'efrit-queue-taken  ; gate: taken-elsewhere
                 (list (efrit-files-path "") (gethash "host" (gethash "server" beat)))))
        ('free t)
        (_ (when (and (natnump pid) time (/= pid (emacs-pid))
                      (efrit-health--emacs-since-p pid (/ time 1e9)))
             (signal 'efrit-queue-taken (list (efrit-files-path "") pid))))))))

(defun efrit-health--emacs-since-p (pid time)
  "Return non-nil when PID is an Emacs that already ran at TIME."
  (let* ((attributes (process-attributes pid))
         (command (alist-get 'comm attributes))
         (start (alist-get 'start attributes)))
    (and (stringp command)
         (string-prefix-p "emacs" command)
         start
         ;; Numbers of processes come back: a later one is somebody else.
         (<= (float-time start) time)
         (not (equal (alist-get 'state attributes) "Z")))))

(provide 'efrit-server-health)
;;; efrit-server-health.el ends here
