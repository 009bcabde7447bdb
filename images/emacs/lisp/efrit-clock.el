;;; efrit-clock.el --- A clock that nobody sets  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Emacs tells the time of day, which may be set back or forward while something
;; has its time to end.  What is compared with a later moment goes by this clock
;; instead: the time of day at the start, and from then on the time since the machine
;; has started, as Linux says it.  Where nothing says that, the clock still never goes back
;; by more than a second.
;;
;; Timers of Emacs go by the time of day: after it was set, they come too early or too
;; late.  So what a timer is for is decided by this clock, and is looked at by others, too.

;;; Code:

(require 'efrit-files)

(defvar efrit-clock--uptime-file "/proc/uptime"
  "The file that begins with the seconds since the machine has started.")

(defvar efrit-clock--ahead 0.0
  "How far the time of day is ahead of the clock, in seconds.")

(defvar efrit-clock--base nil
  "How far the clock is ahead of the time since the machine has started, or nil.")

(defvar efrit-clock--checked nil
  "The time of day when the clock was last compared, or nil.")

(defconst efrit-clock--pause 1.0
  "Seconds for which the time of day is taken for right.")

(defconst efrit-clock--jitter 0.05
  "Seconds by which the two may differ: a clock is read before the other.")

(defun efrit-clock ()
  "Return the seconds of a clock that nobody sets.
Unless the time of day was set since the start, it is that, as of `float-time'."
  (let* ((now (float-time))
         (checked efrit-clock--checked))
    (unless (and checked (<= checked now (+ checked efrit-clock--pause)))  ; gate: clock-checked
      (efrit-clock--compare now (and checked (- checked now))))
    (- now efrit-clock--ahead)))

(defun efrit-clock--compare (now back)
  "Find out how far the time of day, which is NOW, is ahead of the clock.
It was set back by BACK seconds at least, if that is positive."
  (let ((uptime (efrit-clock--uptime)))
    (cond ((and uptime efrit-clock--base)
           (let ((ahead (- now uptime efrit-clock--base)))
             (unless (< (abs (- ahead efrit-clock--ahead)) efrit-clock--jitter)
               (setq efrit-clock--ahead ahead))))
          ((and back (> back 0))  ; gate: clock-without-uptime
           (setq efrit-clock--ahead (- efrit-clock--ahead back))))
    (when (and uptime (null efrit-clock--base))
      (setq efrit-clock--base (- now efrit-clock--ahead uptime)))
    (setq efrit-clock--checked now)))

(defun efrit-clock--uptime ()
  "Return the seconds since the machine has started, nil where nothing says it."
  (condition-case nil
      (efrit-files-isolated
        (let ((text (efrit-files-read efrit-clock--uptime-file)))
          (and (string-match-p "\\`[0-9]+\\(\\.[0-9]+\\)?[ \n]" text)
               (float (string-to-number text)))))
    (error nil)))

(provide 'efrit-clock)
;;; efrit-clock.el ends here
