;;; efrit-plan-facts.el --- What a user's commands say of a plan's work  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Runs the commands of an assessment, one after the other, by what runs commands
;; for a model: each in a process group of its own, with bounded output, until a
;; given time at the latest.  The outcome of each is reported; nothing is made of it.

;;; Code:

(require 'cl-lib)
(require 'efrit-clock)
(require 'efrit-tools-process)
(require 'efrit-tools-shell)
(require 'efrit-plan-json)

(defconst efrit-plan-facts--seconds 300
  "Seconds a command may run when nobody says.")

(defconst efrit-plan-facts--bytes 8000
  "Bytes of a command's output that are kept when nobody says.")

(defun efrit-plan-facts-run (directory commands &optional seconds bytes)
  "Run COMMANDS in DIRECTORY; return the facts as a value for JSON.
COMMANDS is an object whose members are lists of shell commands.  Each may take
SECONDS; of its output BYTES (200 at least) are kept, half of them its end."
  (unless (file-accessible-directory-p directory)
    (efrit-plan-fail 'efrit-plan-error "There is no directory %s to run commands in" directory))
  (cl-loop for (perspective . list) in (efrit-plan-facts--checked commands)
           collect (cons perspective
                         (vconcat (mapcar (lambda (command)
                                            (efrit-plan-facts--one
                                             directory command
                                             (or seconds efrit-plan-facts--seconds)
                                             (max 200 (or bytes efrit-plan-facts--bytes))))
                                          list)))))

(defun efrit-plan-facts--checked (commands)
  "Return COMMANDS; it is an error unless they are lists of strings."
  (cl-loop for (perspective . list) in commands
           unless (and (vectorp list) (cl-every #'stringp list))
           do (efrit-plan-fail 'efrit-plan-arguments
                               "The commands of %s must be a list of strings" perspective))
  commands)

(defun efrit-plan-facts--one (directory command seconds bytes)
  "Run the shell COMMAND in DIRECTORY for SECONDS; return what came of it.
BYTES of its output are kept."
  (let* ((start (efrit-clock))
         (program (efrit-tools-shell-wait
                   ;; In the order in which it was written.
                   `("/bin/sh" "-c" "exec \"$@\" 2>&1" "sh"
                     ,(efrit-tools-shell-program) "-c" ,command)
                   :directory directory :seconds seconds
                   :out (efrit-capture-ends bytes) :err (efrit-capture-ends 1024)))
         (timed-out (eq (efrit-process-why program) 'timeout)))
    `((command . ,command)
      (exitCode . ,(if (efrit-process-why program) :null (efrit-process-status program)))
      (timedOut . ,(if timed-out t :false))
      (output . ,(efrit-json-clean (efrit-capture-text (efrit-process-out program))))
      (seconds . ,(/ (round (* 1000 (max 0.0 (- (efrit-clock) start)))) 1000.0)))))

(provide 'efrit-plan-facts)
;;; efrit-plan-facts.el ends here
