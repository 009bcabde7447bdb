;;; efrit-queue-answer.el --- Answer a request, durably  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The last step of the flow: an `efrit-result' becomes responses/resp_<id>.json,
;; then the request moves processing/ -> archive/.  The first answer of an id
;; wins.  Each step may be repeated, so that a full disk only delays the answer.

;;; Code:

(require 'cl-lib)
(require 'efrit-settings)
(require 'efrit-files)
(require 'efrit-queue-fence)
(require 'efrit-queue-request)
(require 'efrit-queue-claim)
(require 'efrit-eval-interrupt)
(require 'efrit-print)
(require 'efrit-queue-results)
(require 'efrit-eval)
(require 'efrit-secret)

(defconst efrit-answer-version "1.0.0"
  "The version of the answer's format.")

(cl-defstruct (efrit-answer (:constructor efrit-answer--make))
  "An answer on its way: the request's ID, its TEXT, and what is done so far.
LARGE is nil or (PATH . TEXT), the file of the workspace to write first; CUT
returns the text to store instead, given why there can be no such file.
FAILURES counts how often writing that file has failed."
  id text large cut stored (failures 0))

;;;; The text of an answer

(defun efrit-answer-time (&optional time)
  "Return TIME, by default now, as RFC 3339 with milliseconds in UTC."
  ;; Emacs decodes the digits by the coding system of the locale.
  (let ((locale-coding-system 'efrit-utf-8))
    (format-time-string "%FT%T.%3NZ" time t)))

(defun efrit-answer--status (reason)
  "Return the status of the protocol that stands for REASON."
  (pcase reason
    ("Succeeded" "success")
    ("TimedOut" "timeout")
    (_ "error")))

(defun efrit-answer-make (claim result)
  "Return the `efrit-answer' that gives RESULT to the request of CLAIM."
  (let* ((id (efrit-request-id (efrit-claim-request claim)))
         (large (efrit-answer--place-result result id)))
    (efrit-answer--make :id id
                        :text (efrit-answer--text claim result id large)
                        :large (plist-get large :file)
                        :cut (lambda (why)
                               (let ((efrit-workspace-directory nil)
                                     (result (copy-efrit-result result)))
                                 (setf (efrit-result-messages result)
                                       ;; First: whoever shortens them keeps the beginning.
                                       (concat why "\n" (efrit-result-messages result)))
                                 (efrit-answer--text
                                  claim result id
                                  (efrit-answer--place-result result id)))))))

(defun efrit-answer--text (claim result id large)
  "Return the text of the answer that gives RESULT to CLAIM, whose request is ID.
LARGE is as returned by `efrit-answer--place-result'."
  (let ((session (efrit-request-session (efrit-claim-request claim))))
    (concat (efrit-secret-json (efrit-answer--json claim result id large) #'json-serialize
                               id session (car (plist-get large :file)))
            "\n")))

(defun efrit-answer--place-result (result id)
  "Decide where the value of RESULT, for the request ID, goes.
Return a plist of :text for the answer, :file (PATH . TEXT) or nil, :truncated,
:sha256 of the whole value, and :bytes of what is kept of it."
  (let* ((printed (efrit-result-value result))
         (text (and printed (efrit-secret-redact (efrit-print-text printed))))
         (truncated (and printed (efrit-print-truncated printed))))
    (cond ((null text) (list :text :null :bytes 0))
          ((<= (string-bytes text) efrit-inline-result-bytes)
           (list :text text :bytes (string-bytes text) :truncated truncated
                 :sha256 (and (not truncated) (efrit-files-sha256 text))))
          (efrit-workspace-directory
           (list :text (efrit-print-head text efrit-result-head-bytes)
                 :bytes (string-bytes text)
                 :truncated truncated
                 :sha256 (and (not truncated) (efrit-files-sha256 text))
                 :file (cons (efrit-results-path id) text)))
          (t
           (let ((head (efrit-print-head text efrit-inline-result-bytes)))
             (list :text head
                   :bytes (string-bytes head)
                   :truncated t
                   :sha256 (and (not truncated) (efrit-files-sha256 text))))))))

(defun efrit-answer--json (claim result id large)
  "Return the JSON alist of RESULT for CLAIM, whose request is ID.
LARGE is as returned by `efrit-answer--place-result'."
  (let ((reason (efrit-result-reason result))
        (code (efrit-result-error-code result)))
    `((id . ,id)
      (version . ,efrit-answer-version)
      (timestamp . ,(efrit-answer-time))
      (status . ,(efrit-answer--status reason))
      (result . ,(plist-get large :text))
      (error . ,(or (efrit-result-error result) :null))
      (execution_time . ,(float (efrit-result-seconds result)))
      (context . ,(or (efrit-result-context result) :null))
      (reason . ,reason)
      (outcome . ,(or (efrit-result-outcome result)
                      (if (equal reason "Succeeded") "Success" "Failure")))
      (attempt . ,(efrit-claim-attempt claim))
      (sha256 . ,(or (plist-get large :sha256) :null))
      (output . ,(or (efrit-result-output result) ""))
      (messages . ,(or (efrit-result-messages result) ""))
      (truncated . ,(if (plist-get large :truncated) t :false))
      (result_bytes . ,(plist-get large :bytes))
      (result_path . ,(or (car (plist-get large :file)) :null))
      (error_code . ,(if code
                         (efrit-print-clean (if (symbolp code) (symbol-name code)
                                              (format "%s" code)))
                       :null))
      (started . ,(if (efrit-claim-started claim)
                      (efrit-answer-time (efrit-claim-started claim))
                    :null))
      ,@(efrit-result-extra result))))

;;;; Storing it

(defun efrit-answer-store (answer)
  "Do what is left to do for ANSWER.
Return non-nil when the answer of its id is this one.  Signal
`efrit-answer-failed' when this must be called again.
Where the queue is another Emacs's by now, nothing is left to do: that one has
settled the request, and perhaps runs it again."
  (when (efrit-fence-holds-p)  ; gate: fence-answer
    (efrit-answer--store answer)))

(defun efrit-answer--store (answer)
  "Store ANSWER; see `efrit-answer-store'."
  (let ((id (efrit-answer-id answer)))
    (condition-case err
        (efrit-files-isolated
          (unless (efrit-answer-stored answer)
            (efrit-answer--keep-result answer)
            (setf (efrit-answer-stored answer)
                  (if (efrit-answer--publish answer) 'ours 'theirs)))
          (efrit-answer-tidy id)
          (efrit-claim-forget-attempts id)
          (eq (efrit-answer-stored answer) 'ours))
      (file-error
       ;; gate: unstored-answer
       (signal 'efrit-answer-failed (list id (error-message-string err)))))))

(defconst efrit-answer--lasting
  (regexp-opt '("Not a directory" "File exists" "Is a directory" "Permission denied"
                "Operation not permitted" "Too many levels of symbolic links"
                "File name too long" "No such file or directory"))
  "What is in the way of a file and does not go away by itself.")

(defconst efrit-answer--full
  (regexp-opt '("No space left on device" "Disk quota exceeded"))
  "What a full disk says.")

(defconst efrit-answer--max-failures 5
  "How often a large result is written before it is cut, within about two seconds.")

(defun efrit-answer--keep-result (answer)
  "Write the large result of ANSWER, or cut it where the workspace has no place.
Whatever code has made of the workspace, the requests that wait must go on."
  (when (efrit-answer-large answer)
    (efrit-results-note (efrit-answer-id answer)))
  (condition-case err
      (let ((system-messages-locale "C"))
        (efrit-answer--write-result answer))
    (file-error
     (let ((message (error-message-string err)))
       (unless (or (string-match-p efrit-answer--lasting message)
                   (string-match-p efrit-answer--full message)
                   (>= (cl-incf (efrit-answer-failures answer))
                       efrit-answer--max-failures))
         (signal (car err) (cdr err)))
       (condition-case nil
           (efrit-results-delete (efrit-answer-id answer))
         ;; The file is in the list of results: it is deleted later.
         (file-error nil))
       (setf (efrit-answer-text answer)
             (funcall (efrit-answer-cut answer)
                      (concat "efrit: the result was cut because it could not be written to the workspace: "
                              message))
             (efrit-answer-large answer) nil)))))

(defun efrit-answer--write-result (answer)
  "Write the large result of ANSWER, if it has one, to the workspace."
  (pcase (efrit-answer-large answer)
    (`(,path . ,text)
     (with-file-modes #o700
       (make-directory (file-name-directory path) t))
     (let ((temporary (concat path ".part")))
       (efrit-files-delete temporary)
       (efrit-files-write temporary text)
       (rename-file temporary path t)
       ;; The answer promises this file; its name must last as long.
       (efrit-files-sync-directories (file-name-directory path)
                                     (concat efrit-workspace-directory ".efrit")
                                     efrit-workspace-directory)
       (setf (efrit-answer-large answer) nil)))))

(defun efrit-answer--publish (answer)
  "Link ANSWER into responses/; return nil when its id has an answer already."
  (let ((path (efrit-files-path "responses"
                                (concat "resp_" (efrit-answer-id answer) ".json"))))
    (cond
     ;; The code of the request may have written one, which is archived by now.
     ((efrit-claim-answered-p (efrit-answer-id answer)) nil)
     (t
      (condition-case nil
          (efrit-files-publish path (efrit-answer-text answer) efrit-claim-boot)
        (file-missing
         (efrit-files-make-directories)
         (efrit-files-publish path (efrit-answer-text answer) efrit-claim-boot)))))))

(defun efrit-answer-tidy (id)
  "Put away the files of the request ID, which is answered."
  (let ((from (efrit-claim-processing-path id))
        (to (efrit-claim-archive-path id)))
    (efrit-files-set-aside from)
    (efrit-files-set-aside to)
    (condition-case nil
        (rename-file from to t)
      (file-missing
       (when (efrit-files-exists-p from)
         (efrit-files-make-directories)
         (rename-file from to t))))
    ;; Renaming one of two links of a file to the other does nothing, and succeeds.
    (let ((inode (efrit-files-inode from)))
      (when (and inode (equal inode (efrit-files-inode to)))
        (efrit-files-delete from))))
  (let ((order (efrit-interrupt-control-path id)))
    (efrit-files-set-aside order)
    (efrit-files-delete order)))

(provide 'efrit-queue-answer)
;;; efrit-queue-answer.el ends here
