;;; efrit-session-progress.el --- The work log of a session's request  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What a chat or a command does is written to progress/<id>.ndjson while it
;; happens, one JSON object a line.  Whoever watches the file sees how far the
;; work has come; when it is over the file is the whole record of it.  It is not
;; synced: what must not be lost is in the history (efrit-session-history.el).

;;; Code:

(require 'cl-lib)
(require 'efrit-settings)
(require 'efrit-files)
(require 'efrit-json)
(require 'efrit-print)
(require 'efrit-secret)

(cl-defstruct (efrit-progress (:constructor efrit-progress-new))
  "The work log of the request ID, and what was last written to it.
LINE is called with each line as well, unless it is nil."
  id (bytes 0) (step 0) (message "") (tool-calls 0) (tokens 0) session line)

(defconst efrit-progress--max-bytes 8388608
  "How long a work log may become.")

(defun efrit-progress-path (id)
  "Return the path of the work log of the request ID."
  (efrit-files-path "progress" (concat id ".ndjson")))

(defun efrit-progress-note (progress type &rest members)
  "Add a line of TYPE with MEMBERS, a plist of JSON values, to PROGRESS.
A line that cannot be written is left out: no work may end for its log."
  (condition-case nil
      (efrit-progress--write
       progress
       (concat (efrit-secret-json
                (append `((time . ,(format-time-string "%FT%T.%3NZ" nil t))
                          (type . ,type))
                        (efrit-json-object members))
                #'efrit-json-text
                (efrit-progress-id progress) (efrit-progress-session progress))
               "\n"))
    (error nil)))

(defun efrit-progress--write (progress line)
  "Append LINE to the file of PROGRESS while there is room for it."
  (let ((bytes (+ (efrit-progress-bytes progress) (string-bytes line))))
    (when (efrit-progress-line progress)
      (funcall (efrit-progress-line progress) line))
    (when (and (efrit-progress-id progress) (<= bytes efrit-progress--max-bytes))
      (efrit-files-isolated
        (let ((path (efrit-progress-path (efrit-progress-id progress))))
          (efrit-files-set-aside path)  ; gate: progress-odd
          (efrit-files-note path line)))
      (setf (efrit-progress-bytes progress) bytes))))

(defun efrit-progress-write-figures (progress)
  "Write the figures of PROGRESS."
  (efrit-progress-note progress "progress"
                       :step (efrit-progress-step progress)
                       :message (efrit-progress-message progress)
                       :tool_calls (efrit-progress-tool-calls progress)
                       :tokens (efrit-progress-tokens progress)
                       :session (or (efrit-progress-session progress) :null)))

(defun efrit-progress-begin-turn (progress step)
  "Write that the turn STEP of PROGRESS begins."
  (setf (efrit-progress-step progress) step)
  (efrit-progress-note progress "turn" :step step)
  (efrit-progress-write-figures progress))

(defun efrit-progress-count-calls (progress calls)
  "Take in that CALLS tools of PROGRESS have been called."
  (setf (efrit-progress-tool-calls progress) calls))

(defun efrit-progress-spend (progress tokens)
  "Add TOKENS to those of PROGRESS."
  (cl-incf (efrit-progress-tokens progress) tokens))

(defun efrit-progress-resume (progress step calls tokens)
  "Have PROGRESS go on with the turn STEP, after so many CALLS and TOKENS."
  (setf (efrit-progress-step progress) step
        (efrit-progress-tool-calls progress) calls
        (efrit-progress-tokens progress) tokens))

(defun efrit-progress-name-session (progress id)
  "Take in that PROGRESS is that of the session ID."
  (setf (efrit-progress-session progress) id))

(defun efrit-progress-say (progress text)
  "Set the message of PROGRESS to the head of TEXT."
  (setf (efrit-progress-message progress)
        (efrit-print-head (efrit-print-clean text) 200)))

(defun efrit-progress-json (progress)
  "Return the figures of PROGRESS as a JSON alist."
  `((step . ,(efrit-progress-step progress))
    (message . ,(efrit-progress-message progress))
    (tool_calls . ,(efrit-progress-tool-calls progress))
    (tokens . ,(efrit-progress-tokens progress))))

(provide 'efrit-session-progress)
;;; efrit-session-progress.el ends here
