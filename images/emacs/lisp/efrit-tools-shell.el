;;; efrit-tools-shell.el --- Tools that run a program beside Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; shell_exec, and what every tool does that starts a program and does not wait:
;; its time is the shorter of its own and the session's, and whatever comes of the
;; program, one result is made of it.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'efrit-tools-process)
(require 'efrit-tool-context)
(require 'efrit-tool)

(defconst efrit-tools-shell--seconds 120
  "Seconds a command may run when its call does not say.")

(defconst efrit-tools-shell--programs '("/bin/bash" "/usr/bin/bash" "/bin/sh")
  "The shells, of which the first that is there runs commands.")

;;;; Any program

(cl-defun efrit-tools-shell-start
    (context command done &key directory seconds out err report)
  "Run COMMAND, a list of strings, for CONTEXT; return a function that stops it.
DONE is called with the result that REPORT makes of the `efrit-process'.
DIRECTORY is absolute, SECONDS the most it may take; OUT and ERR are captures."
  (unless (file-accessible-directory-p directory)
    (signal 'file-missing (list "No directory that can be entered" directory)))
  (let* ((remaining (efrit-tool-context-seconds-left context))
         (program (efrit-process-start
                   command
                   :directory directory
                   :seconds (max 0 (min seconds (or remaining seconds)))
                   :out out :err err
                   :done (lambda (program)
                           (funcall done (efrit-tools-shell--call-or-error program report))))))
    (lambda () (efrit-process-stop program 'interrupted))))

(defun efrit-tools-shell--call-or-error (program report)
  "Return what REPORT makes of PROGRAM, an error when it cannot."
  (condition-case err
      (funcall report program)
    (error (efrit-tool-error "%s" (error-message-string err)))))

(cl-defun efrit-tools-shell-wait (command &key directory seconds out err)
  "Run COMMAND in DIRECTORY for SECONDS and wait until it has ended.
OUT and ERR are captures.  Emacs answers its events meanwhile.  Return the
`efrit-process'; whatever leaves this function early ends the program."
  (let* (ended
         (program (efrit-process-start command :directory directory :seconds seconds
                                       :out out :err err
                                       :done (lambda (_) (setq ended t)))))
    (unwind-protect
        (while (not ended)
          (accept-process-output nil 0.05)
          (efrit-process-note-end program)
          ;; An event may have removed the timers.
          (efrit-process-update-all))
      (unless ended (efrit-process-stop program 'interrupted)))
    program))

(defun efrit-tools-shell-program ()
  "Return the path of the shell that runs commands."
  (seq-find #'file-executable-p efrit-tools-shell--programs))

(defun efrit-tools-shell-status (program)
  "Return the status of a tool that PROGRAM, which has ended, amounts to."
  (pcase (efrit-process-why program)
    ('timeout "timeout")
    ('interrupted "interrupted")
    ('full "success")
    (_ (if (eql (efrit-process-status program) 0) "success" "error"))))

;;;; shell_exec

(efrit-define-tool shell_exec (input context done)
  "Run a shell command (bash, or sh where there is none) with nothing to read on \
standard input. Its whole process group is stopped when its time is over. Returns \
standard output, standard error and exit status; of long output both ends."
  :kind execution
  :input ((command string "The command" :required t)
          (timeout number "Seconds it may run; 120 when not given" :minimum 0.1)
          (directory string "Where it runs; a relative path starts in the workspace, which \
is where it runs when this is not given"))
  (efrit-tools-shell-start
   context
   (list (efrit-tools-shell-program) "-c" (alist-get 'command input))
   done
   :directory (efrit-tool-path (or (alist-get 'directory input) "."))
   :seconds (or (alist-get 'timeout input) efrit-tools-shell--seconds)
   :out (efrit-capture-ends (* 3 (/ efrit-tool-result-bytes 4)))
   :err (efrit-capture-ends (/ efrit-tool-result-bytes 4))
   :report #'efrit-tools-shell--result))

(defun efrit-tools-shell--result (program)
  "Return the result of the command that PROGRAM has run."
  (let ((err (efrit-process-err program)))
    (efrit-tool-result-make
     (efrit-tools-shell-status program)
     (concat (efrit-tools-shell--line (efrit-capture-text (efrit-process-out program)))
             (unless (efrit-capture-empty-p err)
               (concat "[stderr]\n" (efrit-tools-shell--line (efrit-capture-text err))))
             (efrit-tools-shell--end program)))))

(defun efrit-tools-shell--line (text)
  "Return TEXT as whole lines."
  (if (or (string-empty-p text) (string-suffix-p "\n" text)) text (concat text "\n")))

(defun efrit-tools-shell--end (program)
  "Return the lines that say how PROGRAM ended."
  (concat (pcase (efrit-process-why program)
            ('timeout "[stopped: its time was over]")
            ('interrupted "[stopped: the session was asked to stop]")
            (_ (format "[exit status %d]" (efrit-process-status program))))
          (when (efrit-process-behind program)
            "\n[processes left behind hold its output: what they write is not kept]")))

(provide 'efrit-tools-shell)
;;; efrit-tools-shell.el ends here
