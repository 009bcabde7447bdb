;;; efrit-eval-limits.el --- Resource limits of this Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The code of a request may lower the limits that the system sets this process: open
;; files, sizes of files, memory.  Nothing raises all of them again, and the next request
;; could not be begun or answered, so an Emacs whose limits are lower than at its start
;; ends once what runs is answered.  Where the system does not report the limits, the
;; errors do.

;;; Code:

(require 'efrit-settings)
(require 'efrit-files)

(defconst efrit-limits--file "/proc/self/limits"
  "Where Linux reports the limits of this process.")

(defconst efrit-limits--names
  '("cpu time" "file size" "data size" "stack size" "resident set" "processes" "open files"
    "locked memory" "address space")
  "The limits that are compared, in the words of the system.")

(defvar efrit-limits--start nil
  "The limits at the start, as `efrit-limits--parse' returns them, or nil.")

(defvar efrit-limits--text nil
  "What the system last said of limits that were not lower, or nil.")

(defun efrit-limits--read ()
  "Return what the system says of the limits, or nil where it says none."
  (efrit-files-isolated
    (when (file-readable-p efrit-limits--file)
      (efrit-files-read efrit-limits--file))))

(defun efrit-limits--parse (text)
  "Return the limits in TEXT as an alist of names and numbers.
Those that have no end are left out; where TEXT is nil, all are."
  (let ((position 0) (case-fold-search nil) limits)
    (while (and text (string-match "^Max \\([a-z ]+?\\)  +\\([0-9]+\\) " text position))
      (setq position (match-end 0))
      (let ((name (match-string 1 text)))
        (when (member name efrit-limits--names)
          (push (cons name (string-to-number (match-string 2 text))) limits))))
    limits))

(defun efrit-limits-start ()
  "Take the limits as they are now for those that are to last."
  (let ((text (ignore-errors (efrit-limits--read))))
    (setq efrit-limits--text text
          efrit-limits--start (cons 'known (efrit-limits--parse text)))))

(defun efrit-limits-lowered ()
  "Return the name of a limit that is lower than at the start, or nil.
Where the limits cannot be read any more, one of them is in the way."
  (when efrit-limits--start
    (condition-case err
        (let ((text (efrit-limits--read)))
          (unless (and text (equal text efrit-limits--text))
            (or (efrit-limits--lower (efrit-limits--parse text) (cdr efrit-limits--start))
                (ignore (setq efrit-limits--text text)))))
      (error (error-message-string err)))))

(defun efrit-limits--lower (limits earlier)
  "Return the name of one of LIMITS that is lower than EARLIER, or nil."
  (let (variable)
    (while (and limits (not variable))
      (let ((before (assoc (caar limits) earlier)))
        (when (or (null before) (< (cdar limits) (cdr before)))  ; gate: lowered-limits
          (setq variable (caar limits))))
      (setq limits (cdr limits)))
    variable))

(defconst efrit-limits--errors
  (regexp-opt '("Too many open files" "File too large" "Cannot allocate memory"
                "Memory exhausted"))
  "What is said of a limit that another Emacs would not have.")

(defun efrit-limits-error-p (message)
  "Return non-nil when MESSAGE, that of an error, is about a limit of this process."
  (and (string-match-p efrit-limits--errors message)
       (not (string-search "Too many open files in system" message))))

(provide 'efrit-eval-limits)
;;; efrit-eval-limits.el ends here
