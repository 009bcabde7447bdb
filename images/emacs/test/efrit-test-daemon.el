;;; efrit-test-daemon.el --- A real daemon for a test  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Starts `emacs --fg-daemon' with the server on the test's queue, as the
;; container does, and ends it.  Batch mode behaves differently (no fsync, no
;; command loop), so what the daemon promises is tested on a daemon.

;;; Code:

(require 'efrit-test-queue)

(defvar efrit-test-daemon nil
  "The process of the daemon under test.")

(defconst efrit-test-daemon--lisp
  (file-name-directory (locate-library "efrit-server"))
  "Where the server's Lisp is.")

(defconst efrit-test-daemon--end-with-us
  (and (executable-find "setpriv") '("setpriv" "--pdeathsig" "KILL"))
  "What a daemon is started through, so that a run that is killed leaves none.
It becomes the program.")

(defun efrit-test-daemon-start (&rest environment)
  "Start a daemon on the test's queue; ENVIRONMENT is a list of NAME=VALUE.
Return when it serves."
  (let ((old (ignore-errors (alist-get 'boot (efrit-test-heartbeat))))
        (process-environment
         (append environment
                 (list (concat "EFRIT_QUEUE_DIR=" efrit-queue-directory)
                       (concat "EFRIT_WORKSPACE=" efrit-workspace-directory)
                       (concat "HOME=" efrit-workspace-directory)
                       "EFRIT_BRIDGE=1")
                 process-environment)))
    (setq efrit-test-daemon
          (make-process
           :name "efrit-test-daemon"
           :buffer (get-buffer-create "*efrit-test-daemon*")
           :command (append
                     efrit-test-daemon--end-with-us
                     (list (expand-file-name invocation-name invocation-directory)
                           (format "--fg-daemon=efrit-test-%d" (emacs-pid))
                           "-Q" "-L" efrit-test-daemon--lisp
                           "--eval" "(let ((gc-cons-threshold 67108864)) (load \"efrit-server\" nil t))"
                           "-f" "efrit-server-start"))
           :connection-type 'pipe
           :noquery t
           :sentinel (lambda (process _)
                       (unless (process-live-p process) (process-put process 'gone t)))))
    (efrit-test-wait
      (and (process-live-p efrit-test-daemon)
           (let ((boot (ignore-errors (alist-get 'boot (efrit-test-heartbeat)))))
             (and boot (not (equal boot old))))))))

(defun efrit-test-daemon-gone-p ()
  "Return non-nil once the daemon has ended and all that it said is in its buffer.
It is no longer alive a moment before."
  (process-get efrit-test-daemon 'gone))

(defun efrit-test-daemon-end (&optional signal)
  "End the daemon with SIGNAL, by default TERM, and wait until it is gone."
  (when (process-live-p efrit-test-daemon)
    (signal-process efrit-test-daemon (or signal 'SIGTERM))
    (efrit-test-wait (efrit-test-daemon-gone-p))))

(defun efrit-test-heartbeat ()
  "Return the heartbeat as an alist."
  (json-parse-string
   (with-temp-buffer
     (insert-file-contents (efrit-files-path "heartbeat"))
     (buffer-string))
   :object-type 'alist :null-object nil :false-object nil))

(defmacro efrit-test-with-daemon (environment &rest body)
  "Run BODY with a daemon on a queue of its own.
ENVIRONMENT is a list of NAME=VALUE strings, added to that of the daemon."
  (declare (indent 1) (debug t))
  `(efrit-test-with-queue
     (with-current-buffer (get-buffer-create "*efrit-test-daemon*") (erase-buffer))
     (unwind-protect
         (progn
           (efrit-test-daemon-start ,@environment)
           ,@body)
       (efrit-test-daemon-end 'SIGKILL))))

(defun efrit-test-eval (id content &rest options)
  "Have the daemon evaluate CONTENT as request ID; return the answer.
OPTIONS is a plist of options of the request."
  (apply #'efrit-test-submit id :content content
         (and options (list :options options)))
  (efrit-test-answer id))

(defun efrit-test-value (id content &rest options)
  "Return the printed value of CONTENT, evaluated by the daemon as request ID.
OPTIONS is a plist of options of the request."
  (let ((answer (apply #'efrit-test-eval id content options)))
    (unless (equal (alist-get 'status answer) "success") (ert-fail answer))
    (alist-get 'result answer)))

(defun efrit-test-held-path (name)
  "Return the file that what `efrit-test-held' made for NAME waits for."
  (concat efrit-workspace-directory name ".released"))

(defun efrit-test-held (name value)
  "Return code that waits for `efrit-test-release' of NAME and is then VALUE, code."
  (format "(progn (while (not (file-exists-p %S)) (sleep-for 0.02)) %s)"
          (efrit-test-held-path name) value))

(defun efrit-test-release (name)
  "Let what `efrit-test-held' made for NAME go on."
  (write-region "" nil (efrit-test-held-path name) nil 'silent))

(defun efrit-test-running-p (id)
  "Return non-nil when the request ID has been claimed and is not answered."
  (and (file-exists-p (efrit-files-path "processing" (format "req_%s.json" id)))
       (string-match-p (concat "^" (regexp-quote id) " ")
                       (with-temp-buffer
                         (ignore-errors
                           (insert-file-contents (efrit-files-path "claims.log")))
                         (buffer-string)))))

(defun efrit-test-interrupt (id &optional reason)
  "Signal the daemon once.
Unless REASON is nil, order it first to stop the request ID for it."
  (when reason
    (efrit-test-write "tmp" "order" (concat reason "\n"))
    (rename-file (efrit-files-path "tmp" "order")
                 (efrit-files-path "control" (concat "cancel_" id))))
  (signal-process efrit-test-daemon 'SIGUSR2))

(defun efrit-test-answer-signalling (id)
  "Return the answer to the request ID; signal the daemon until it comes.
A bridge repeats its signal too: one that comes while a callback runs
stops nothing."
  (efrit-test-wait
    (or (efrit-test-answer-p id)
        (progn (accept-process-output nil 0.2) (efrit-test-interrupt id) nil)))
  (efrit-test-answer id))

(defun efrit-test-stop (id reason)
  "Stop the request ID for REASON, as a bridge does; return the answer."
  (efrit-test-interrupt id reason)
  (efrit-test-answer-signalling id))

(provide 'efrit-test-daemon)
;;; efrit-test-daemon.el ends here
