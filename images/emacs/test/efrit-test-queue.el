;;; efrit-test-queue.el --- A queue of its own for each test  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What the tests share: a temporary queue, files put into it the way clients
;; do, and waiting for a condition.  No behaviour is tested here.

;;; Code:

(require 'ert)
(require 'cl-lib)
(require 'subr-x)
(require 'efrit-settings)
(require 'efrit-files)
(require 'efrit-clock)

(defmacro efrit-test-with-queue (&rest body)
  "Run BODY with an empty queue of its own."
  (declare (indent 0) (debug t))
  `(let* ((root (file-name-as-directory (make-temp-file "efrit-test-" t)))
          (efrit-queue-directory (concat root "queue/"))
          (efrit-workspace-directory (concat root "workspace/"))
          (efrit-instance-id nil)
          (efrit-bridge-p t))
     (unwind-protect
         (progn
           (make-directory efrit-workspace-directory t)
           (efrit-files-make-directories)
           ;; The bridge does this.
           (efrit-files-isolated (efrit-files-write (efrit-files-path "claims.log") ""))
           ,@body)
       (delete-directory root t))))

(defun efrit-test-read (part name)
  "Return the text of NAME in directory PART of the queue."
  (with-temp-buffer
    (let ((coding-system-for-read 'utf-8-unix))
      (insert-file-contents (efrit-files-path part name)))
    (buffer-string)))

(defun efrit-test-names (part)
  "Return the sorted names of the files in directory PART of the queue."
  (directory-files (efrit-files-path part) nil directory-files-no-dot-files-regexp))

(defun efrit-test-write (part name text)
  "Write TEXT to NAME in directory PART of the queue, in place."
  (let ((coding-system-for-write 'utf-8-unix))
    (write-region text nil (efrit-files-path part name) nil 'silent)))

(defun efrit-test-request (id &rest members)
  "Return the JSON text of request ID; MEMBERS is a plist of further members."
  (json-serialize
   (append (list :version "1.0.0" :id id)
           (unless (plist-member members :type) (list :type "eval"))
           (unless (plist-member members :content) (list :content "(+ 1 2)"))
           members)))

(defun efrit-test-submit (id &rest members)
  "Put the request ID with MEMBERS into requests/ by a rename."
  (let ((name (concat "req_" id ".json")))
    (efrit-test-write "tmp" name (apply #'efrit-test-request id members))
    (rename-file (efrit-files-path "tmp" name) (efrit-files-path "requests" name))))

(defun efrit-test-json (part name)
  "Return the JSON object in NAME of directory PART, as an alist."
  (json-parse-string (efrit-test-read part name)
                     :object-type 'alist :null-object nil :false-object nil))

(defconst efrit-test-timeout
  (string-to-number (or (getenv "EFRIT_TEST_TIMEOUT") "180"))
  "Seconds to wait for what will come, however busy the machine is.
Tests wait for conditions, so that a test that passes never takes this long.")

(defmacro efrit-test-wait (condition)
  "Wait until the form CONDITION is non-nil and return its value.
Fail after `efrit-test-timeout'."
  (declare (indent 0) (debug t))
  `(let ((deadline (+ (float-time) efrit-test-timeout)) value)
     (while (and (not (setq value ,condition))
                 (or (< (float-time) deadline)
                     (ert-fail (list "never came" ',condition))))
       (accept-process-output nil 0.01))
     value))

(defvar efrit-test-now nil
  "The time of day that a test has set, or nil.")

(defvar efrit-test-uptime nil
  "The seconds since the machine has started, as a test has them.")

(defmacro efrit-test-with-clock (&rest body)
  "Run BODY, in which time passes by `efrit-test-pass' alone."
  (declare (indent 0) (debug t))
  `(let ((efrit-clock--uptime-file (make-temp-file "efrit-test-uptime-"))
         (efrit-clock--ahead 0.0) (efrit-clock--base nil) (efrit-clock--checked nil)
         (efrit-test-now 1700000000.0) (efrit-test-uptime 5000.0)
         (float-time (symbol-function 'float-time)))
     (unwind-protect
         (cl-letf (((symbol-function 'float-time)
                    (lambda (&optional time)
                      (if time (funcall float-time time) efrit-test-now))))
           (efrit-test-pass 0)
           ,@body)
       (delete-file efrit-clock--uptime-file))))

(defun efrit-test-pass (seconds &optional set)
  "Have SECONDS pass, and the time of day be SET by so many more."
  (setq efrit-test-now (+ efrit-test-now seconds (or set 0))
        efrit-test-uptime (+ efrit-test-uptime seconds))
  (let ((inhibit-message t))
    (write-region (format "%.2f 12.00\n" efrit-test-uptime) nil efrit-clock--uptime-file)))

(defun efrit-test-answer-p (id)
  "Return non-nil when the request ID is answered."
  (file-exists-p (efrit-files-path "responses" (format "resp_%s.json" id))))

(defun efrit-test-answer (id)
  "Wait for the answer to the request ID and return it as an alist."
  (efrit-test-wait (efrit-test-answer-p id))
  (efrit-test-json "responses" (format "resp_%s.json" id)))

(provide 'efrit-test-queue)
;;; efrit-test-queue.el ends here
