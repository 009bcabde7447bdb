;;; efrit-queue.el --- What waits in requests/, and whose turn it is  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The first step of the flow: requests/ -> a table in memory -> the next one.
;; Each file is read once, when it is first seen; a scan only lists names, so a
;; thousand waiting requests cost no more than their listing.  The table is a
;; copy: the rename in efrit-queue-claim.el decides whether a request is still there.

;;; Code:

(require 'cl-lib)
(require 'efrit-settings)
(require 'efrit-clock)
(require 'efrit-files)
(require 'efrit-queue-request)
(require 'efrit-queue-line)

(cl-defstruct (efrit-entry (:constructor efrit-entry--make))
  "A file seen in requests/.
REQUEST is nil while the file cannot be read; CHANGED is when it last differed.
STAMP identifies the version that was read, TURN and MODIFIED the order."
  name stamp request changed turn modified seen)

(defvar efrit-queue--waiting (make-hash-table :test #'equal)
  "The entries of requests/ by file name.")

(defun efrit-queue--line-make ()
  "Return an empty line of entries."
  (efrit-queue-line-make :before-p #'efrit-queue--before-p :gone-p #'efrit-queue--gone-p))

;; However many chats wait, an eval is found without going through them.
(defvar efrit-queue--line (efrit-queue--line-make)
  "The entries that are done in one step.")

(defvar efrit-queue--session-line (efrit-queue--line-make)
  "The entries that begin or continue a session with the model.")

(defvar efrit-queue--held-lines nil
  "Entries that were found to continue a session under way, as (ID . LINE).")

(defvar efrit-queue--unsettled 0
  "How many of the waiting files could not be read yet.")

(defvar efrit-queue--scans 0
  "The number of the last scan.")

(defvar efrit-queue--scan-end 0.0
  "When the last scan ended.")

(defvar efrit-queue--scan-seconds 0.0
  "How long the last scan took.")

(defconst efrit-queue--name-regexp "\\`[^.][^/]*\\.json\\'"
  "A file name in requests/ that is looked at.")

(defun efrit-queue-forget-all ()
  "Forget what was seen in requests/."
  (clrhash efrit-queue--waiting)
  (setq efrit-queue--line (efrit-queue--line-make)
        efrit-queue--session-line (efrit-queue--line-make)
        efrit-queue--held-lines nil
        efrit-queue--unsettled 0
        efrit-queue--scan-end 0.0
        efrit-queue--scan-seconds 0.0))

(defun efrit-queue-name-p (name)
  "Return non-nil when a file called NAME may be a request."
  (let ((case-fold-search nil))
    (string-match-p efrit-queue--name-regexp name)))

;;;; Looking at one file

(defun efrit-queue-update-entry (name)
  "Bring the entry of the file NAME of requests/ up to date."
  (efrit-files-isolated
    (let* ((path (efrit-files-path "requests" name))
           (attributes (file-attributes path 'integer))
           (entry (gethash name efrit-queue--waiting)))
      (cond ((null attributes) (efrit-queue-forget name))
            ((not (efrit-files-regular-p attributes))
             (efrit-queue-forget name)
             (efrit-queue--set-aside name))
            ((and entry
                  (efrit-entry-request entry)
                  (equal (efrit-entry-stamp entry) (efrit-files-stamp attributes)))
             entry)
            (t (efrit-queue--read name path attributes entry))))))

(defun efrit-queue--read (name path attributes entry)
  "Enter the file NAME at PATH with ATTRIBUTES; ENTRY is its entry so far."
  (let* ((stamp (efrit-files-stamp attributes))
         (now (efrit-clock))
         (same (and entry (equal stamp (efrit-entry-stamp entry))))
         (changed (if same (efrit-entry-changed entry) now))
         ;; A clock that was set back must not keep a bad file for ever.
         (settled (and same (not (< -0.001 (- now changed) efrit-settle-seconds))))
         (request
          (cond ((> (file-attribute-size attributes) efrit-max-request-file-bytes)
                 (efrit-request-unreadable
                  name (format "the file is larger than %d bytes"
                               efrit-max-request-file-bytes)))
                ((and same (not settled)) nil)
                (t (condition-case nil
                       (efrit-request-parse (efrit-files-read path) name)
                     (efrit-unreadable-request
                      (and settled
                           (efrit-request-unreadable
                            name "the file is not a JSON object")))
                     ;; Whatever is wrong with one file, the next is looked at.
                     (error
                      (and settled
                           (efrit-request-unreadable
                            name "the file cannot be read")))))))
         (modified (nth 2 stamp)))
    (efrit-queue-forget name)
    (efrit-queue--enter
     (efrit-entry--make
      :name name :stamp stamp :request request :changed changed
      :modified modified :seen efrit-queue--scans
      :turn (and request (efrit-request-turn request modified))))))

(defun efrit-queue--enter (entry)
  "Add ENTRY to the waiting files and return it."
  (if (efrit-entry-request entry)
      (efrit-queue-line-add (if (efrit-request-session-p (efrit-entry-request entry))
                                efrit-queue--session-line
                              efrit-queue--line)
                            entry)
    (setq efrit-queue--unsettled (1+ efrit-queue--unsettled)))
  (puthash (efrit-entry-name entry) entry efrit-queue--waiting))

(defun efrit-queue-known-p (name)
  "Return non-nil when the file NAME of requests/ waits, as far as was seen."
  (and (gethash name efrit-queue--waiting) t))

(defun efrit-queue-forget (name)
  "Drop the entry of the file NAME, if there is one."
  (let ((entry (gethash name efrit-queue--waiting)))
    (when entry
      (unless (efrit-entry-request entry)
        (setq efrit-queue--unsettled (1- efrit-queue--unsettled)))
      (remhash name efrit-queue--waiting))
    nil))

(defun efrit-queue--set-aside (name)
  "Move NAME, which is not an ordinary file, out of requests/ unread."
  ;; A directory that nobody may write to cannot be moved: it is left alone.
  (condition-case nil
      (efrit-queue-archive-as
       (efrit-files-path "requests" name)
       (concat "aside_" (efrit-request-derived-id name)))
    (file-error nil))
  nil)

(defun efrit-queue-archive-as (path stem)
  "Move the file at PATH to archive/ under STEM and the first free number."
  (let ((number 1) done)
    (while (not done)
      (setq done (condition-case nil
                     (progn (efrit-files-move
                             path (efrit-files-path
                                   "archive" (format "%s_%d.json" stem number)))
                            t)
                   (file-already-exists nil))
            number (1+ number)))))

;;;; Looking at all of them

(defun efrit-queue-scan ()
  "Make the table of waiting files match requests/."
  (let ((start (float-time)))
    (setq efrit-queue--scans (1+ efrit-queue--scans))
    (dolist (name (efrit-files-isolated
                    (condition-case nil
                        (directory-files (efrit-files-path "requests") nil
                                         efrit-queue--name-regexp t)
                      (file-missing (efrit-files-make-directories) nil))))
      (let ((entry (gethash name efrit-queue--waiting)))
        (unless (and entry (efrit-entry-request entry))
          (setq entry (efrit-queue-update-entry name)))
        (when entry (setf (efrit-entry-seen entry) efrit-queue--scans))))
    (maphash (lambda (name entry)
               (unless (= (efrit-entry-seen entry) efrit-queue--scans)
                 (efrit-queue-forget name)))
             efrit-queue--waiting)
    (setq efrit-queue--scan-end (float-time)
          efrit-queue--scan-seconds (max 0.0 (- efrit-queue--scan-end start)))))

(defun efrit-queue-scan-cheap-p ()
  "Return non-nil when a scan costs little beside the time since the last."
  (let ((age (- (float-time) efrit-queue--scan-end)))
    (not (< -0.001 age (max 0.02 (* 20 efrit-queue--scan-seconds))))))

;;;; Whose turn it is

(defun efrit-queue-next (&optional under-way)
  "Return the entry whose turn it is, or nil.
UNDER-WAY is t when no session can be begun now, otherwise the ids of those
that cannot be continued now."
  (let ((best (efrit-queue-line-first efrit-queue--line)))
    (if (eq under-way t)
        best
      (efrit-queue--earlier best (efrit-queue--next-session under-way)))))

(defun efrit-queue--next-session (under-way)
  "Return the first entry for a session that is not among UNDER-WAY, or nil."
  (let (best entry id)
    (while (and (setq entry (efrit-queue-line-first efrit-queue--session-line))
                (setq id (efrit-request-session (efrit-entry-request entry)))
                (member id under-way))
      (efrit-queue-line-remove efrit-queue--session-line entry)
      (efrit-queue--hold entry id))
    (setq best entry)
    (dolist (held-line efrit-queue--held-lines best)
      (unless (member (car held-line) under-way)
        (let ((first (efrit-queue-line-first (cdr held-line))))
          (if first
              (setq best (efrit-queue--earlier best first))
            (setq efrit-queue--held-lines (remq held-line efrit-queue--held-lines))))))))

(defun efrit-queue--hold (entry id)
  "Keep ENTRY, which continues the session ID, for when that can be continued."
  (unless (assoc id efrit-queue--held-lines)
    (push (cons id (efrit-queue--line-make)) efrit-queue--held-lines))
  (efrit-queue-line-add (cdr (assoc id efrit-queue--held-lines)) entry))

(defun efrit-queue--earlier (a b)
  "Return the earlier one of the entries A and B, each of which may be nil."
  (if (and a (or (null b) (efrit-queue--before-p a b))) a b))

(defun efrit-queue--gone-p (entry)
  "Return non-nil when ENTRY no longer stands for a file that waits."
  (not (eq entry (gethash (efrit-entry-name entry) efrit-queue--waiting))))

(defun efrit-queue--before-p (a b)
  "Return non-nil when entry A comes before entry B."
  (let ((turn-a (efrit-entry-turn a)) (turn-b (efrit-entry-turn b)))
    (or (< turn-a turn-b)
        (and (= turn-a turn-b)
             (let ((modified-a (efrit-entry-modified a))
                   (modified-b (efrit-entry-modified b)))
               (or (< modified-a modified-b)
                   (and (= modified-a modified-b)
                        (string< (efrit-entry-name a) (efrit-entry-name b)))))))))

(defun efrit-queue-pending ()
  "Return how many requests wait."
  (hash-table-count efrit-queue--waiting))

(defun efrit-queue-unsettled-p ()
  "Return non-nil when a file waits to become readable."
  (> efrit-queue--unsettled 0))

(provide 'efrit-queue)
;;; efrit-queue.el ends here
