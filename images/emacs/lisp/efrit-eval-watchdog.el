;;; efrit-eval-watchdog.el --- Time limits without a bridge  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Where no bridge watches over Emacs, a small shell does.  It learns of each
;; request before that runs, and looks now and then whether its file is still in
;; processing/; when the time is over it sends SIGUSR2, and again every second.  An
;; Emacs that handles none of these signals for the grace time is killed.  A tool that
;; a session calls is watched in the same way, bridge or not: its time is the
;; session's affair, and where there is a bridge, the bridge kills.
;;
;; Each file is watched by a shell of its own, so that its time counts from its own
;; start.  Before each signal the shell asks whether Emacs is still its parent's
;; parent: numbers of processes come back.  One helper lives as long as Emacs:
;; a line to it costs a write to a pipe, starting one a fork.
;;
;; Before the kill it writes the order to stop, by which the next Emacs knows that the
;; time of the request was over.
;;
;; What the signal means is decided in efrit-eval-interrupt.el.

;;; Code:

(require 'efrit-settings)

(defconst efrit-watchdog--script "
emacs=$1
self=$$
parent() {
  if [ -r /proc/self/stat ]; then
    read -r stat < \"/proc/$self/stat\" && stat=${stat##*)} && set -- $stat && echo \"$2\"
  else
    ps -o ppid= -p \"$self\" | tr -d ' '
  fi
}
send() {
  [ \"$(parent)\" = \"$emacs\" ] && kill -s \"$1\" \"$emacs\" || exit 0  # gate: watchdog-parent
}
order() {
  id=${1##*/processing/req_}
  [ \"$id\" != \"$1\" ] || return 0
  (umask 077; set -C; echo TimedOut > \"${1%/processing/*}/control/cancel_${id%.json}\") 2>/dev/null
}
watch() {
  left=$1 grace=$2 file=$3 nap=50 signals=0
  id=${3##*/processing/req_}
  cancel=${3%/processing/*}/control/cancel_${id%.json}
  while [ -e \"$file\" ]; do
    # A client of another host can write the order, and cannot signal.
    [ ! -e \"$cancel\" ] || [ \"$left\" -le 0 ] || send USR2
    if [ \"$left\" -le 0 ]; then
      if [ \"$grace\" -gt 0 ] && [ \"$signals\" -ge \"$grace\" ]; then
        echo \"efrit: killing Emacs $emacs: it did not react to $signals signals\" >&2
        order \"$file\"
        send KILL
      else
        send USR2
        # Code may have set `debug-on-event' to the other signal that it can be.
        [ \"$signals\" -lt 2 ] || send USR1
      fi
      signals=$((signals + 1)) nap=1000
    elif [ \"$nap\" -gt \"$left\" ]; then
      nap=$left
    fi
    rest=$((nap % 1000 + 1000))
    sleep \"$((nap / 1000)).${rest#1}\" || exit 1
    left=$((left - nap))
    nap=$((nap + nap / 4))
    [ \"$nap\" -le 1000 ] || nap=1000
  done
}
while read -r limit grace file; do
  # Most are over by then, and cost no shell.
  [ ! -e \"$file\" ] || sleep 0.05 || exit 1
  if [ -e \"$file\" ]; then
    watch \"$((limit - 50))\" \"$grace\" \"$file\" < /dev/null &
  fi
done
"
  "The helper: reads lines of milliseconds, signals and a file name.
So many signals are sent before Emacs is killed; with 0, it never is.")

(defconst efrit-watchdog--grace 5
  "Signals, one a second, that Emacs may leave unheard before it is killed.")

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
                        :coding 'efrit-utf-8
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
  (let ((line (format "%d %d %s\n" (+ 20 (ceiling (* 1000 seconds)))
                      (if efrit-bridge-p 0 efrit-watchdog--grace) path)))
    (condition-case nil
        (efrit-watchdog--send line)
      (error
       (efrit-watchdog-stop)
       (efrit-watchdog--send line)))))

(defun efrit-watchdog--send (line)
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

(provide 'efrit-eval-watchdog)
;;; efrit-eval-watchdog.el ends here
