;;; efrit-watchdog.el --- Time limits without a bridge  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Where no bridge watches over Emacs, a small shell does.  It is told of each
;; request before that runs, and looks now and then whether its file is still in
;; processing/; when the time is over it sends SIGUSR2, and again every second.
;; A tool that a session calls is watched in the same way, bridge or not: its time
;; is the session's affair.
;; What the signal means is decided in efrit-interrupt.el.  One helper lives as
;; long as Emacs: telling it costs a write to a pipe, starting one a fork.

;;; Code:

(require 'efrit-settings)

(defconst efrit-watchdog--script "
emacs=$1
while read -r limit file; do
  waited=0
  while [ -e \"$file\" ]; do
    left=$((limit - waited))
    if [ \"$left\" -le 0 ]; then
      kill -USR2 \"$emacs\" || exit 0
      nap=1000
    else
      nap=$((waited / 4))
      [ \"$nap\" -ge 50 ] || nap=50
      [ \"$nap\" -le 1000 ] || nap=1000
      [ \"$nap\" -le \"$left\" ] || nap=$left
    fi
    rest=$((nap % 1000 + 1000))
    sleep \"$((nap / 1000)).${rest#1}\" || exit 1
    waited=$((waited + nap))
  done
done
"
  "The helper: reads lines of milliseconds and a file name.")

(defvar efrit-watchdog--process nil
  "The helper, or nil.")

(defun efrit-watchdog--start ()
  "Start the helper."
  (let ((default-directory "/") (file-name-handler-alist nil)
        (process-connection-type nil)
        ;; It needs `sleep', whatever code has made of the environment.
        (process-environment '("PATH=/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin")))
    (setq efrit-watchdog--process
          (make-process :name "efrit-watchdog"
                        :buffer nil
                        :command (list "/bin/sh" "-c" efrit-watchdog--script
                                       "efrit-watchdog"
                                       (number-to-string (emacs-pid)))
                        :coding 'utf-8-unix
                        :connection-type 'pipe
                        :noquery t
                        :sentinel #'ignore))))

(defun efrit-watchdog-watch (path seconds)
  "Where no bridge does, have a request signalled in time.
PATH is its file and SECONDS are as in `efrit-watchdog-signal'."
  (unless efrit-bridge-p
    (efrit-watchdog-signal path seconds)))

(defun efrit-watchdog-signal (path seconds)
  "Have Emacs signalled when the file at PATH is still there after SECONDS."
  (let ((line (format "%d %s\n" (+ 20 (ceiling (* 1000 seconds))) path)))
    (condition-case nil
        (efrit-watchdog--tell line)
      (error
       (efrit-watchdog-stop)
       (efrit-watchdog--tell line)))))

(defun efrit-watchdog--tell (line)
  "Send LINE to the helper, which is started when there is none."
  ;; User code may have killed it with every other process.
  (unless (process-live-p efrit-watchdog--process)
    (efrit-watchdog--start))
  (process-send-string efrit-watchdog--process line))

(defun efrit-watchdog-stop ()
  "End the helper."
  (when (processp efrit-watchdog--process)
    (delete-process efrit-watchdog--process))
  (setq efrit-watchdog--process nil))

(provide 'efrit-watchdog)
;;; efrit-watchdog.el ends here
