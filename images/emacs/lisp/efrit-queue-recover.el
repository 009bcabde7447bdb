;;; efrit-queue-recover.el --- Find out what a crash left behind  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Runs when the server starts, before anything is claimed, and afterwards for what
;; an Emacs that the queue was taken from has left in processing/.  The decision
;; is a pure function of four facts about a request; the rest carries it out.
;; Each step may be cut short by the next crash and is repeated then.

;;; Code:

(require 'cl-lib)
(require 'efrit-settings)
(require 'efrit-files)
(require 'efrit-queue-fence)
(require 'efrit-queue-request)
(require 'efrit-queue-claim)
(require 'efrit-eval-interrupt)
(require 'efrit-eval)
(require 'efrit-queue-answer)

;;;; Deciding

(defun efrit-recover-decide (answered attempts request ordered)
  "Return what becomes of a request that an earlier Emacs may have begun.
ANSWERED: it has an answer.  ATTEMPTS: how often it was claimed.  ORDERED: why
it was to be stopped, or nil.  REQUEST says whether it may run again.
The return value is `archive', `wait', `again' or (answer . REASON)."
  (cond (answered 'archive)
        ((= attempts 0) 'wait)  ; gate: recover-claimed
        (ordered (cons 'answer ordered))
        ((and (null (efrit-request-problem request))
              (equal (efrit-request-retry request) "if-interrupted")  ; gate: recover-retry-policy
              (< attempts (efrit-request-max-attempts request)))  ; gate: recover-attempts
         'again)
        (t '(answer . "Interrupted"))))

;;;; Carrying it out

(defvar efrit-recover-problem nil
  "What kept the Emacs before this one from the queue at its end, a string or nil.")

(defun efrit-recover ()
  "Settle every request that an earlier Emacs left behind.
Return how many were answered."
  (let ((attempts (efrit-claim-read-journal))
        (retained (make-hash-table :test #'equal))
        (answered 0))
    (efrit-recover--clear-temporary)
    (dolist (part '("processing" "requests"))  ; gate: recover-lost-rename
      (dolist (name (efrit-recover--names part))
        (when (efrit-recover--settle part name attempts retained)
          (setq answered (1+ answered)))))
    ;; A bridge compacts the journal itself.
    (unless (or efrit-bridge-p (= (hash-table-count attempts) (hash-table-count retained)))
      (efrit-claim-compact-journal retained))
    answered))

;;;; What another Emacs left behind later

(defvar efrit-recover--strays nil
  "The names in processing/ that were nobody's at the last check.")

(defun efrit-recover-strays (ids)
  "Settle what has been in processing/ for two checks and is none of IDS.
IDS are those of the requests under way here.  Where the queue was taken from an
Emacs in the middle of a claim, the claim may come after the recovery of the
new one.  Return how many were answered."
  (let* ((own (mapcar (lambda (id) (concat "req_" id ".json")) ids))
         (strays (and efrit-fence-generation
                      (seq-remove (lambda (name) (member name own))
                                  (efrit-recover--names "processing"))))
         (again (seq-intersection strays efrit-recover--strays))
         (answered 0))
    (when (and again (efrit-fence-holds-p))
      (let ((attempts (efrit-claim-read-journal))
            (retained (make-hash-table :test #'equal)))
        (dolist (name again)
          (when (efrit-recover--settle "processing" name attempts retained)
            (setq answered (1+ answered))))))
    (setq efrit-recover--strays strays)
    answered))

(defun efrit-recover--names (part)
  "Return the names of the request files in directory PART of the queue."
  (efrit-files-isolated
    (seq-filter (lambda (name)
                  (let ((attributes (file-attributes (efrit-files-path part name)
                                                     'integer)))
                    (and attributes (efrit-files-regular-p attributes))))
                (directory-files (efrit-files-path part) nil
                                 "\\`[^.][^/]*\\.json\\'" t))))

(defun efrit-recover--clear-temporary ()
  "Delete what an earlier Emacs had not finished writing."
  (efrit-files-isolated
    (dolist (path (directory-files (efrit-files-path "tmp") t "\\`emacs_" t))
      (efrit-recover--delete-litter path))
    (let ((results (efrit-results-directory)))
      (when (and results (file-directory-p results))
        (dolist (path (directory-files results t "\\.txt\\.part\\'" t))
          (efrit-recover--delete-litter path))))))

(defun efrit-recover--delete-litter (path)
  "Delete the file at PATH; what cannot be deleted keeps no request waiting."
  (condition-case nil
      (efrit-files-delete path)
    (file-error nil)))  ; gate: recover-litter

(defun efrit-recover--request (part name)
  "Return the request in the file NAME of PART, a stand-in if unreadable."
  (efrit-files-isolated
    (condition-case nil
        (efrit-request-parse (efrit-files-read (efrit-files-path part name)) name)
      (error
       (efrit-request-unreadable name "the file is not a JSON object")))))

(defun efrit-recover--settle (part name attempts retained)
  "Settle the request in the file NAME of directory PART.
ATTEMPTS counts the claims by id; claims that still matter go into RETAINED.
Return non-nil when the request was answered."
  ;; Of what waits, only a request that was claimed can have begun: a crash can
  ;; lose the rename and keep the line.  The rest is not even opened.
  (let* ((guess (efrit-request-id-of-file name))
         (request (unless (and (equal part "requests")
                               (string-prefix-p "req_" name)
                               (= 0 (gethash guess attempts 0)))
                    (efrit-recover--request part name)))
         (id (and request (efrit-request-id request)))
         (claims (if id (gethash id attempts 0) 0)))
    (when (and request (or (equal part "processing") (> claims 0)))
      (pcase (efrit-recover-decide
              (efrit-files-isolated (efrit-claim-answered-p id))
              claims request (efrit-interrupt-ordered id))
        ('archive
         (when (equal part "processing")
           (efrit-files-isolated (efrit-answer-tidy id)))
         nil)
        ('wait (efrit-recover--requeue part name id) nil)
        ('again
         (efrit-claim-expect-attempts id claims)
         (puthash id claims retained)
         (efrit-recover--requeue part name id)
         nil)
        (`(answer . ,reason)
         (efrit-recover--answer part name request claims reason)
         t)))))

(defun efrit-recover--requeue (part name id)
  "Let the request ID in the file NAME of directory PART wait for its turn."
  (when (equal part "processing")
    (efrit-files-isolated
      (efrit-claim-give-back (efrit-files-path part name)
                             (efrit-files-path "requests"
                                               (concat "req_" id ".json"))))))

(defun efrit-recover--answer (part name request attempt reason)
  "Answer REQUEST, the file NAME of directory PART, with REASON.
ATTEMPT is the number of its last claim."
  (let ((from (efrit-files-path part name))
        (processing (efrit-claim-processing-path (efrit-request-id request))))
    (unless (equal from processing)
      (efrit-files-isolated
        (efrit-files-set-aside processing)
        (efrit-files-move from processing)))
    (efrit-answer-store
     (efrit-answer-make
      (efrit-claim-make :request request :attempt attempt)
      (efrit-result-make
       :reason reason
       :error (concat
               (pcase reason
                 ("Interrupted" "Emacs ended while the request ran; what it did is unknown")
                 ("TimedOut" "The time of the request was over; Emacs had to be ended")
                 (_ "The request was cancelled; Emacs had to be ended"))
               (efrit-recover--unstored (efrit-request-id request))))))))

(defun efrit-recover--unstored (id)
  "Return what to add where an earlier Emacs could not store its answer to ID."
  (if (and efrit-recover-problem
           ;; As `error-message-string' begins: another id may contain this one.
           (string-prefix-p (format "%s: %S" (get 'efrit-answer-failed 'error-message) id)
                            efrit-recover-problem))
      (concat ". It had an answer that could not be written to the volume of the queue: "
              efrit-recover-problem)
    ""))

(provide 'efrit-queue-recover)
;;; efrit-queue-recover.el ends here
