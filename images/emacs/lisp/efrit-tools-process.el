;;; efrit-tools-process.el --- A program beside Emacs, within limits  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Runs a program for a tool without waiting for it: in a process group of its
;; own, with bounded output, until a given time at the latest.  When Emacs ends,
;; however it ends, the group does too.
;;
;; Filters, sentinels and timers may be called while the code of a request waits,
;; and that code may remove any of them.  Hence one function looks at a program
;; and does what is due; everything that is called calls it, and
;; `efrit-process-update-all' does so for whoever has a clock of his own.

;;; Code:

(require 'cl-lib)
(require 'efrit-clock)
(require 'efrit-files)
(require 'efrit-eval-interrupt)
(require 'efrit-tools-capture)

(cl-defstruct (efrit-process (:constructor efrit-process--make))
  "A program that runs, or has run.
OUT and ERR are captures.  WHY is why it was asked to end: `timeout',
`interrupted' or `full', nil when it ended by itself.  STATUS is its exit status.
BEHIND is non-nil when processes it left behind still held its error output.
The other slots are times of the `efrit-clock', and what belongs to Emacs."
  out err why status behind
  process pipe done due stopped dead exited last-output ended timer)

(defvar efrit-process--running nil
  "The programs that run.")

(defconst efrit-process--grace 1.0
  "Seconds a group has to end after SIGTERM, before SIGKILL.")

(defconst efrit-process--linger 0.1
  "Seconds without error output after which a program that ended is done with.
Processes it left behind may hold the pipe open for ever.")

(defconst efrit-process--script "
exec 3<&0 </dev/null 4>&2 2>/dev/null
(
  trap '' HUP TERM INT
  read -r _ <&3
  kill -s KILL 0
) >/dev/null 4>&- &
watch=$!
exec 3<&-
trap 'stopping=1' TERM
(exec \"$@\" 2>&4 4>&-)
status=$?
[ -z \"${stopping-}\" ] || kill -s KILL 0
kill -s KILL \"$watch\"
exit \"$status\"
"
  "Runs its arguments as a program that has nothing to read.
Emacs holds the other end of standard input: when that closes, the group is
killed.  On SIGTERM the shell kills what the program has left behind.
What the shell itself prints about that goes nowhere.")

;;;; Starting

(cl-defun efrit-process-start (command &key directory seconds out err done)
  "Run COMMAND, a list of strings, in DIRECTORY for SECONDS at most.
OUT and ERR are captures.  Return an `efrit-process', with which DONE is called
when it has ended."
  (let* ((program (efrit-process--make :out out :err err :done done
                                       :due (+ (efrit-clock) seconds)))
         (default-directory (file-name-as-directory directory))
         (file-name-handler-alist nil)
         (process-environment (cons "TERM=dumb" process-environment))
         (process-adaptive-read-buffering nil))
    (setf (efrit-process-pipe program) (efrit-process--pipe program))
    (condition-case problem
        (setf (efrit-process-process program)
              (efrit-files-with-own-coding
                (make-process :name "efrit-process" :buffer nil :noquery t
                              :command `("/bin/sh" "-c" ,efrit-process--script "sh" ,@command)
                              :connection-type 'pipe :coding 'no-conversion
                              :stderr (efrit-process-pipe program)
                              :filter (efrit-process--filter program out)
                              :sentinel (lambda (&rest _) (efrit-process--on-end program)))))
      (error (delete-process (efrit-process-pipe program))
             (signal (car problem) (cdr problem))))
    (push program efrit-process--running)
    (efrit-process--arm program)
    program))

(defun efrit-process--pipe (program)
  "Return the Emacs process that reads the error output of PROGRAM."
  (let ((pipe (make-pipe-process :name "efrit-process-errors" :noquery t
                                 :buffer (generate-new-buffer " *efrit-errors*" t)
                                 :coding 'no-conversion
                                 :filter (efrit-process--filter
                                          program (efrit-process-err program))
                                 :sentinel (lambda (&rest _)
                                             (efrit-process--update program)))))
    ;; Code that kills every buffer would end a process that has one.
    (let ((buffer (process-buffer pipe)))
      (set-process-buffer pipe nil)
      (kill-buffer buffer))
    pipe))

(defun efrit-process--filter (program capture)
  "Return a filter that adds what PROGRAM writes to CAPTURE."
  (lambda (_process bytes)
    (efrit-interrupt-shielded
      (efrit-capture-add capture bytes)
      (setf (efrit-process-last-output program) (efrit-clock))
      (when (and (= (efrit-capture-tail-room capture) 0)
                 (efrit-capture-overflowed-p capture))
        (efrit-process-stop program 'full)))))

;;;; Ending

(defun efrit-process-stop (program why)
  "Have PROGRAM end, with its whole group, for the reason WHY."
  (unless (or (efrit-process-why program) (efrit-process-ended program))
    (setf (efrit-process-why program) why
          (efrit-process-stopped program) (efrit-clock))
    (efrit-process--signal program 'SIGTERM)
    (efrit-process--arm program)))

(defun efrit-process--signal (program signal)
  "Send SIGNAL to the group of PROGRAM, which its shell leads."
  (let ((process (efrit-process-process program)))
    ;; While the shell is there, its number is no one else's.
    (when (process-live-p process)
      (signal-process (- (process-id process)) signal))))

(defun efrit-process--on-end (program)
  "Note that PROGRAM, of which Emacs has read all output, has ended."
  (efrit-interrupt-shielded
    (unless (process-live-p (efrit-process-process program))
      (setf (efrit-process-exited program) (efrit-clock))))
  (efrit-process--update program))

(defun efrit-process--finish (program)
  "Be done with PROGRAM."
  (let ((process (efrit-process-process program)) (pipe (efrit-process-pipe program)))
    (setf (efrit-process-ended program) t
          (efrit-process-status program) (process-exit-status process)
          (efrit-process-behind program) (process-live-p pipe))
    (efrit-process--disarm program)
    (setq efrit-process--running (delq program efrit-process--running))
    (when (process-live-p process) (delete-process process))
    (delete-process pipe)
    (funcall (efrit-process-done program) program)))

;;;; Looking

(defun efrit-process-update-all ()
  "Do what is due with every program that runs."
  (mapc #'efrit-process--update (copy-sequence efrit-process--running)))

(defun efrit-process--update (program)
  "Do what is due with PROGRAM."
  (efrit-interrupt-shielded
    (unless (efrit-process-ended program)
      (let ((now (efrit-clock)))
        (efrit-process--note-death program now)
        (cond ((efrit-process-exited program)
               (when (efrit-process--silent-p program now)
                 (efrit-process--finish program)))
              ((efrit-process-stopped program)
               (efrit-process--insist program (- now (efrit-process-stopped program))))
              ((>= now (efrit-process-due program))
               (efrit-process-stop program 'timeout)))
        (unless (efrit-process-ended program)
          (efrit-process--arm program))))))

(defun efrit-process-note-end (program)
  "Note the end of PROGRAM, for code that waits for it.
Emacs calls no sentinel as long as it has not read a file notification, which it
does not do while code waits."
  (let ((process (efrit-process-process program)))
    (unless (or (efrit-process-ended program) (process-live-p process))
      ;; Bounded: what the program has left behind may write for ever.
      (cl-loop repeat 100 while (accept-process-output process 0))
      (efrit-process--on-end program))))

(defun efrit-process--note-death (program now)
  "Note at NOW whether PROGRAM is dead although nobody has said so.
Code may have taken its sentinel away."
  (unless (or (efrit-process-exited program)
              (process-live-p (efrit-process-process program)))
    (if (null (efrit-process-dead program))
        (setf (efrit-process-dead program) now)
      (when (> (- now (efrit-process-dead program)) efrit-process--grace)
        (setf (efrit-process-exited program) now)))))

(defun efrit-process--silent-p (program now)
  "Return non-nil when no more error output of PROGRAM is waited for at NOW.
What has come is read first: on a busy machine a timer may run before it."
  (let ((pipe (efrit-process-pipe program)))
    (when (efrit-process--waited-p program now)
      ;; Bounded: what the program has left behind may write for ever.
      (cl-loop repeat 100 while (accept-process-output pipe 0 nil 0)))
    (or (not (process-live-p pipe)) (efrit-process--waited-p program now))))

(defun efrit-process--waited-p (program now)
  "Return non-nil when PROGRAM's error output was waited for long enough at NOW."
  (let ((exited (efrit-process-exited program)))
    (or (>= now (+ efrit-process--linger
                   (max exited (or (efrit-process-last-output program) exited))))
        (>= now (+ efrit-process--grace exited)))))

(defun efrit-process--insist (program seconds)
  "Kill PROGRAM, which was asked to end SECONDS ago, when that was long enough."
  (when (>= seconds efrit-process--grace)
    (efrit-process--signal program 'SIGKILL))
  (when (>= seconds (* 3 efrit-process--grace))
    (efrit-process--finish program)))

(defun efrit-process--arm (program)
  "Have PROGRAM looked at when something will be due."
  (efrit-process--disarm program)
  (setf (efrit-process-timer program)
        (run-with-timer
         (cond ((efrit-process-exited program) (/ efrit-process--linger 2))
               ((efrit-process-stopped program) efrit-process--grace)
               ((efrit-process-dead program) efrit-process--grace)
               (t (max 0.0 (- (efrit-process-due program) (efrit-clock)))))
         nil #'efrit-process--update program)))

(defun efrit-process--disarm (program)
  "Have PROGRAM not looked at any more by its timer."
  (when (timerp (efrit-process-timer program))
    (cancel-timer (efrit-process-timer program))))

(provide 'efrit-tools-process)
;;; efrit-tools-process.el ends here
