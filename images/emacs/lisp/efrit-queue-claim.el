;;; efrit-queue-claim.el --- Take a request, once  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The second step of the flow: requests/ -> processing/, then a line in the
;; journal claims.log.  The rename decides a race with whoever withdraws the
;; request; the synced line is what says, after a crash, that the request may
;; have begun.  No line, no evaluation.
;;
;; A host that shares its queue remembers which names were not there, that of an
;; answer included.  There, each claim links the request into archive/ and takes the
;; link back: a link is made by the file server, which knows whether the request was
;; put there before.

;;; Code:

(require 'cl-lib)
(require 'efrit-settings)
(require 'efrit-files)
(require 'efrit-queue-host)
(require 'efrit-queue-fence)
(require 'efrit-queue-request)
(require 'efrit-queue)

(defvar efrit-claim-boot nil
  "Sixteen hexadecimal digits that name this start of Emacs.")

(defvar efrit-claim--attempts (make-hash-table :test #'equal)
  "How often the requests that are to be run again have been claimed, by id.")

(defvar efrit-claim--torn nil
  "Non-nil when the last line of the journal may lack its end.")

(defvar efrit-claim--stranded nil
  "Requests that did not run and could not be given back, as (ID FROM . TO).")

(cl-defstruct (efrit-claim (:constructor efrit-claim-make))
  "A request that is ours: its REQUEST, ATTEMPT number and STARTED time."
  request attempt started)

(defun efrit-claim-new-boot ()
  "Choose the name of this start of Emacs."
  (setq efrit-claim-boot
        (substring (secure-hash 'sha256 (format "%s %s %s %s" (emacs-pid) (float-time)
                                                (random) (system-name)))
                   0 16)))

;;;; Answers and requests by id

(defun efrit-claim-answered-p (id)
  "Return non-nil when the request ID has an answer."
  (let ((name (concat "resp_" id ".json")))
    (or (efrit-claim--there-p (efrit-files-path "responses" name))
        (efrit-claim--there-p (efrit-files-path "archive" name)))))

(defun efrit-claim--there-p (path)
  "Return non-nil when something is at PATH, and is not only remembered."
  (and (efrit-files-exists-p path)
       (or (not (efrit-host-remote-p)) (efrit-files-open-p path))))  ; gate: claim-remembered

(defun efrit-claim-processing-path (id)
  "Return where the request ID lies while it runs."
  (efrit-files-path "processing" (concat "req_" id ".json")))

(defun efrit-claim-archive-path (id)
  "Return where the request ID lies once it is answered."
  (efrit-files-path "archive" (concat "req_" id ".json")))

;;;; Taking

(defun efrit-claim-take (entry)
  "Claim the request of ENTRY; return the `efrit-claim', or nil.
Nil means that there is nothing to run: the file is gone, has changed, its id is
answered, this Emacs is to end, or the queue is another Emacs's by now.  Signal
`efrit-claim-failed' when the journal cannot be written; the request is in
requests/ again then."
  (efrit-queue-forget (efrit-entry-name entry))
  (efrit-files-isolated
    (let* ((request (efrit-entry-request entry))
           (id (efrit-request-id request))
           (from (efrit-files-path "requests" (efrit-entry-name entry)))
           (to (efrit-claim-processing-path id)))
      (cond ((efrit-claim-answered-p id)  ; gate: claim-answered
             (efrit-claim--dispose from request)
             nil)
            ((not (condition-case nil
                      (efrit-files-move from to)
                    ;; The request of that id is not tidied away yet.
                    (file-already-exists (efrit-files-set-aside to) nil)))
             nil)
            ((not (equal (efrit-entry-stamp entry)  ; gate: claim-changed-file
                         (efrit-files-stamp (file-attributes to 'integer))))
             (efrit-claim--take-back id to from)
             nil)
            ;; Whoever is about to end this Emacs waits for what was claimed before
            ;; its pause was there, and for nothing else.
            ((efrit-fence-paused-p)  ; gate: claim-paused
             (efrit-claim--take-back id to from)
             nil)
            ((not (efrit-claim--first-p request from to)) nil)  ; gate: claim-ended
            (t (efrit-claim--record request from to))))))

(defun efrit-claim--first-p (request from to)
  "Return non-nil when REQUEST, renamed FROM requests/ TO processing/, is to run.
It is not when it ended before; this copy of it is put away then."
  (or (not (efrit-host-remote-p))
      (let ((id (efrit-request-id request)))
        (condition-case err
            (pcase (efrit-claim--ask-server to (efrit-claim-archive-path id))
              ('free t)
              ('ended (efrit-claim--dispose to request) nil))
          (file-error
           (efrit-claim--take-back id to from)
           (signal 'efrit-claim-failed (list id (error-message-string err))))))))

(defconst efrit-claim--no-links
  (regexp-opt '("Operation not permitted" "not supported" "not implemented" "Too many links"))
  "What is said of a file that can have no second name.")

(defun efrit-claim--ask-server (path archived)
  "Return what the file server says of the request at PATH, past all caches.
The value is `ended' when there is a request at ARCHIVED, `free' when there is
none, and nil when PATH is gone."
  (let ((tries 3) (system-messages-locale "C") verdict)
    (while (and (null verdict) (> tries 0) (efrit-files-exists-p path))
      (setq tries (1- tries)
            verdict
            (condition-case err
                (progn (add-name-to-file path archived)
                       (efrit-files-delete archived)
                       'free)
              (file-already-exists
               (cond ((equal (efrit-files-inode path)  ; gate: claim-own-link
                             (efrit-files-inode archived))
                      ;; An Emacs has ended before it took its link back.
                      (efrit-files-delete archived)
                      'free)
                     ;; What is only remembered is forgotten now, and asked for again.
                     ((or (= tries 0) (efrit-files-open-p archived)) 'ended)))
              (file-missing (efrit-files-make-directories) nil)
              (file-error
               (if (string-match-p efrit-claim--no-links (error-message-string err))
                   'free
                 (signal (car err) (cdr err)))))))
    verdict))

(defun efrit-claim--record (request from to)
  "Journal the claim of REQUEST, renamed FROM requests/ TO processing/."
  (let* ((id (efrit-request-id request))
         (attempt (1+ (gethash id efrit-claim--attempts 0))))
    (when (efrit-claim--runs-p request)
      (condition-case err
          (efrit-claim--journal id attempt)  ; gate: claim-journal
        (file-error  ; gate: claim-unjournaled
         (efrit-claim--take-back id to from)
         (signal 'efrit-claim-failed (list id (error-message-string err))))))
    ;; Whoever took the queue before this line was there settles the claim too, and
    ;; may have another one of that id by now: nothing of it is ours to touch.
    (when (efrit-fence-holds-p)  ; gate: fence-claim
      (efrit-claim-make :request request :attempt attempt :started (current-time)))))

(defun efrit-claim--runs-p (request)
  "Return non-nil when answering REQUEST can change anything outside the queue."
  (and (member (efrit-request-type request) '("eval" "chat" "command"))
       (null (efrit-request-problem request))))

(defun efrit-claim--take-back (id from to)
  "Move the request ID, which does not run, FROM processing/ back TO requests/.
Where the disk takes no name now it is tried again with each tick."
  (condition-case nil
      (efrit-claim-give-back from to)
    (file-error (push (cons id (cons from to)) efrit-claim--stranded))))  ; gate: claim-stranded

(defun efrit-claim-give-back-stranded ()
  "Try again to give back what could not be; return the ids of what still cannot."
  (efrit-files-isolated
    (let ((stranded efrit-claim--stranded))
      (setq efrit-claim--stranded nil)
      (pcase-dolist (`(,id ,from . ,to) stranded)
        (when (efrit-files-exists-p from)
          (efrit-claim--take-back id from to)))))
  (mapcar #'car efrit-claim--stranded))

(defun efrit-claim-give-back (from to)
  "Move the request FROM processing/ back TO requests/."
  (condition-case nil
      (efrit-files-move from to)
    ;; Somebody has put a new file of that name there: theirs waits, ours too.
    (file-already-exists
     (efrit-files-move
      from (efrit-files-path "requests"
                             (format "again_%d_%s" (random 1000000)
                                     (file-name-nondirectory from)))))))

(defun efrit-claim--dispose (path request)
  "Put away the file at PATH, whose REQUEST has an id that is answered.
The same request again is kept once; another request is kept as rejected."
  (let* ((id (efrit-request-id request))
         (archived (efrit-claim-archive-path id)))
    (cond ((and (not (efrit-files-exists-p archived))
                ;; It may be there all the same.
                (condition-case nil
                    (progn (efrit-files-move path archived) t)
                  (file-already-exists nil))))
          ;; gate: claim-second-digest
          ((equal (efrit-request-digest request) (efrit-claim--digest-at archived))
           (efrit-files-delete path))
          (t (efrit-queue-archive-as path (concat "rejected_" id))))))

(defun efrit-claim--digest-at (path)
  "Return the digest of the request in the file at PATH, nil if unreadable."
  (condition-case nil
      (efrit-request-digest
       (efrit-request-parse (efrit-files-read path) (file-name-nondirectory path)))
    (error nil)))

;;;; The journal

(defun efrit-claim--journal (id attempt)
  "Record that ATTEMPT at the request ID is about to begin."
  (let ((path (efrit-files-path "claims.log"))
        (line (format "%s %d %s\n" id attempt efrit-claim-boot))
        (torn efrit-claim--torn))
    ;; A file made here would have a name that is not on the disk yet.
    (when (and efrit-bridge-p (not (file-exists-p path)))
      (signal 'file-missing (list "The bridge has yet to make" path)))
    (setq efrit-claim--torn t)
    ;; The mark keeps a line that a failed write left behind from being read.
    (efrit-files-append path (if torn (concat "!\n" line) line))  ; gate: claim-torn-line
    (setq efrit-claim--torn nil)))

(defun efrit-claim-read-journal ()
  "Return a table of the highest attempt claimed, by request id.
The files are read again when the bridge has exchanged journals meanwhile:
claims could have moved behind the reader."
  (efrit-files-isolated
    (let ((journal (efrit-claim--journal-inode))
          (attempts (efrit-claim--read-journals)))
      ;; gate: claim-journals-twice
      (while (not (equal journal (setq journal (efrit-claim--journal-inode))))
        (setq attempts (efrit-claim--read-journals)))
      attempts)))

(defun efrit-claim--journal-inode ()
  "Return the number of the file that is the journal, nil without one."
  (file-attribute-inode-number (file-attributes (efrit-files-path "claims.log") 'integer)))

(defun efrit-claim--read-journals ()
  "Return a table of the highest attempt in all journals, by request id."
  (let ((attempts (make-hash-table :test #'equal)))
    ;; In the middle of an exchange, or where a crash has cut one short, only all of them
    ;; together have every claim; in this order none is missed that moves meanwhile.
    (dolist (name '("claims.old" "claims.new" "claims.log"))
      (let* ((path (efrit-files-path name))
             (text (condition-case nil
                       (if (efrit-files-odd-p path) "" (efrit-files-read path))
                     (file-missing ""))))
        (efrit-claim--count-claims text attempts)
        ;; The last one read is the one that is written.
        (setq efrit-claim--torn
              (not (or (string-empty-p text) (string-suffix-p "\n" text))))))
    attempts))

(defun efrit-claim--count-claims (text attempts)
  "Enter the claims in the lines of TEXT into the table ATTEMPTS."
  (let ((position 0))
    (while (string-match "^\\([A-Za-z0-9._-]+\\) \\([0-9]\\{1,9\\}\\) \\([0-9a-z]+\\)\n"
                         text position)
      (setq position (match-end 0))
      (let ((id (match-string 1 text))
            (attempt (string-to-number (match-string 2 text))))
        (puthash id (max attempt (gethash id attempts 0)) attempts)))))

(defun efrit-claim-compact-journal (attempts)
  "Write a journal that has ATTEMPTS, a table by id, and nothing else."
  (efrit-files-isolated
    (let (lines)
      (maphash (lambda (id attempt)
                 (push (format "%s %d %s\n" id attempt efrit-claim-boot) lines))
               attempts)
      (efrit-files-replace (efrit-files-path "claims.log") (apply #'concat lines)
                           efrit-claim-boot t)
      (efrit-files-delete (efrit-files-path "claims.old"))
      (efrit-files-delete (efrit-files-path "claims.new"))
      (setq efrit-claim--torn nil))))

(defun efrit-claim-expect-attempts (id attempts)
  "Remember that the request ID, which is to run again, had ATTEMPTS so far."
  (puthash id attempts efrit-claim--attempts))

(defun efrit-claim-forget-attempts (id)
  "Forget the attempts at the request ID: it is answered."
  (remhash id efrit-claim--attempts))

(provide 'efrit-queue-claim)
;;; efrit-queue-claim.el ends here
