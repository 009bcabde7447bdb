;;; efrit-files.el --- Durable steps on the queue's files  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The lowest layer: where a file of the queue lies, and the few steps that are
;; done with one.  Every step runs inside `efrit-files-isolated', because the
;; code that requests bring along may have set any of the variables that change
;; what the file primitives do.  Nothing here knows what a file means.

;;; Code:

(require 'efrit-settings)

;;;; Isolation from the rest of Emacs

(defconst efrit-files--name-coding
  (let ((coding (or file-name-coding-system default-file-name-coding-system)))
    (when (and coding (not (coding-system-p 'efrit-file-name)))
      (define-coding-system-alias 'efrit-file-name coding))
    (and coding 'efrit-file-name))
  "The coding system of file names at the start, in which our paths were read.")

(defmacro efrit-files-with-own-coding (&rest body)
  "Run BODY, which names files or starts programs, with our own coding systems."
  (declare (indent 0) (debug t))
  `(let ((coding-system-for-read 'efrit-utf-8)
         (coding-system-for-write 'efrit-utf-8)
         (file-name-coding-system efrit-files--name-coding)
         (default-file-name-coding-system efrit-files--name-coding)
         (locale-coding-system 'efrit-utf-8)
         (default-process-coding-system '(efrit-utf-8 . efrit-utf-8))
         (inhibit-eol-conversion nil)
         (coding-system-require-warning nil))
     ,@body))

(defmacro efrit-files-isolated (&rest body)
  "Run BODY untouched by what user code has set, and with private file modes.
Interrupts wait until BODY is done."
  (declare (indent 0) (debug t))
  `(let ((debug-on-event nil)
         (inhibit-quit t)
         (inhibit-message t)
         (file-name-handler-alist nil)
         (coding-system-for-read 'efrit-utf-8)
         (coding-system-for-write 'efrit-bytes)
         (file-name-coding-system efrit-files--name-coding)
         (default-file-name-coding-system efrit-files--name-coding)
         (locale-coding-system 'efrit-utf-8)
         (inhibit-eol-conversion nil)
         (coding-system-require-warning nil)
         (write-region-inhibit-fsync nil)  ; gate: fsync-emacs
         (write-region-annotate-functions nil)
         (write-region-post-annotation-function nil)
         (after-insert-file-functions nil)
         (format-alist nil)
         (create-lockfiles nil)
         (inhibit-read-only t)
         (inhibit-modification-hooks t)
         (buffer-list-update-hook nil)
         (case-fold-search nil)
         (read-circle t)
         (default-directory "/")
         (gc-cons-threshold most-positive-fixnum))
     (save-match-data
       (with-file-modes #o600 ,@body))))

;;;; Where a file lies

(defconst efrit-files-parts
  '("tmp" "requests" "processing" "responses" "archive" "control" "progress"
    "sessions")
  "The directories of a queue.")

(defun efrit-files-path (part &optional name)
  "Return the path of NAME in directory PART of the queue.
Without NAME, the directory itself; a PART may be a file of the queue too."
  (if name
      (concat efrit-queue-directory part "/" name)
    (concat efrit-queue-directory part)))

(defun efrit-files-make-directories ()
  "Make the directories of the queue that are missing."
  (efrit-files-isolated
    (with-file-modes #o700
      (dolist (part efrit-files-parts)
        (let ((directory (efrit-files-path part)))
          (unless (file-directory-p directory)
            (make-directory directory t)))))))

(defun efrit-files-check-trusted ()
  "Signal an error where others may write into the queue, or change where it is.
Whoever writes there has code run as us."
  (efrit-files-isolated
    (dolist (part (cons "" efrit-files-parts))
      (let* ((directory (directory-file-name (efrit-files-path part)))
             (attributes (file-attributes directory 'integer)))
        (when attributes
          (efrit-files--check-trusted directory attributes))))))

(defun efrit-files--check-trusted (directory attributes)
  "Signal an error unless only we or root change DIRECTORY, which has ATTRIBUTES."
  (cond ((stringp (file-attribute-type attributes))
         (signal 'efrit-queue-not-trusted
                 (list (format "%s is a symbolic link; name the directory itself" directory))))
        ((not (memql (file-attribute-user-id attributes) (list (user-uid) 0)))
         (signal 'efrit-queue-not-trusted
                 (list (format "%s belongs to another user; use a directory of your own"
                               directory))))
        ((string-match-p "w" (substring (file-attribute-modes attributes) 4))
         (signal 'efrit-queue-not-trusted
                 (list (format "others may write to %s; run: chmod go-w %s" directory directory))))))

(defvar efrit-files--serial 0
  "How many temporary names this Emacs has made.")

(defun efrit-files--temporary (boot)
  "Return a path in tmp/ that nobody else uses, given this start's BOOT id."
  (setq efrit-files--serial (1+ efrit-files--serial))
  (efrit-files-path "tmp" (format "emacs_%s_%d" boot efrit-files--serial)))

;;;; Looking

(defun efrit-files-stamp (attributes)
  "Return what tells one version of a file from another, from its ATTRIBUTES."
  (list (file-attribute-inode-number attributes)
        (file-attribute-size attributes)
        (car (time-convert (file-attribute-modification-time attributes)
                           1000000000))))

(defun efrit-files-inode (path)
  "Return the inode number of the file at PATH, or nil."
  (file-attribute-inode-number (file-attributes path 'integer)))

(defun efrit-files-regular-p (attributes)
  "Return non-nil when ATTRIBUTES are those of an ordinary file."
  ;; The type is nil for pipes, sockets and devices as well.
  (and (null (file-attribute-type attributes))
       (eq (aref (file-attribute-modes attributes) 0) ?-)))

(defmacro efrit-files-with-buffer (&rest body)
  "Run BODY in a temporary buffer, which is killed while another is current.
Killing the current one would call the `buffer-predicate' of the frame."
  (declare (indent 0) (debug t))
  (let ((outer (make-symbol "outer")))
    `(let ((,outer (current-buffer)))
       (with-temp-buffer
         (unwind-protect (progn ,@body)
           (when (buffer-live-p ,outer) (set-buffer ,outer)))))))

(defconst efrit-files--insert (symbol-function 'insert-file-contents)
  "What reads a file into a buffer, whatever its name has come to mean.
With advice of a request, every later request would be another one, or none.")

(defconst efrit-files--text (symbol-function 'buffer-string)
  "What returns the text of a buffer, whatever its name has come to mean.")

(defun efrit-files-read (path)
  "Return the text of the file at PATH; bytes that are not UTF-8 stay raw.
Signal `file-error' for what is not an ordinary file."
  (when (efrit-files-odd-p path)
    (signal 'file-error (list "Not an ordinary file" path)))
  ;; A new buffer each time: code makes what it likes of one that lasts.
  (efrit-files-with-buffer
    (set-buffer-multibyte t)
    (funcall efrit-files--insert path)  ; gate: read-by-function
    (funcall efrit-files--text)))

;;;; Directories of others

(defconst efrit-files--max-names 10000
  "Names of a directory that are read for a list of them.")

(defun efrit-files-names (directory)
  "Return (NAMES . UNREAD): the names in DIRECTORY, sorted.
Of a directory with very many, some are not read, and UNREAD is non-nil."
  (let* ((names (directory-files directory nil directory-files-no-dot-files-regexp nil
                                 (1+ efrit-files--max-names)))
         (unread (nthcdr efrit-files--max-names names)))
    (cons (if unread (seq-take names efrit-files--max-names) names)
          (and unread t))))

;;;; What is not an ordinary file

(defun efrit-files-odd-p (path)
  "Return non-nil when what is at PATH is not an ordinary file.
To read a pipe may take for ever, and a symbolic link may lead anywhere."
  (let ((attributes (file-attributes path 'integer)))
    (and attributes (not (efrit-files-regular-p attributes)))))

(defun efrit-files-set-aside (path)
  "Rename what is at PATH unless it is an ordinary file: it is none of ours.
It stays in its directory, as one that nobody may write to goes nowhere else."
  (when (efrit-files-odd-p path)  ; gate: set-aside
    (rename-file path (format "%saside_%d" (file-name-directory path)
                              (random most-positive-fixnum)))))

;;;; Writing

(defun efrit-files-bytes (text)
  "Return TEXT as UTF-8 bytes, a unibyte string ready to be written or hashed."
  ;; Without the copy, ASCII would stay multibyte, and be hashed in another encoding.
  ;; gate: result-bytes
  (if (multibyte-string-p text) (encode-coding-string text 'efrit-utf-8) text))

(defun efrit-files-sha256 (text)
  "Return the SHA-256 of TEXT in UTF-8, in hexadecimal."
  (secure-hash 'sha256 (efrit-files-bytes text)))

(defun efrit-files-write (path text)
  "Write TEXT to the new file PATH and sync it; PATH must not exist."
  (write-region (efrit-files-bytes text) nil path nil 'silent nil 'excl))

(defun efrit-files-append (path text)
  "Append TEXT to the file PATH and sync it.
Signal `file-error' for what is not an ordinary file."
  ;; What is written through a link nobody reads, and to write to a pipe may take for ever.
  (when (efrit-files-odd-p path)  ; gate: append-odd
    (signal 'file-error (list "Not an ordinary file" path)))
  (write-region (efrit-files-bytes text) nil path t 'silent))

(defun efrit-files-note (path text)
  "Append TEXT to the file PATH, which a crash may take back."
  (let ((write-region-inhibit-fsync t))
    (efrit-files-append path text)))

(defun efrit-files-replace (path text boot &optional sync)
  "Put TEXT at PATH in one step, replacing what is there.
BOOT makes the temporary name.  With SYNC, the bytes are on disk before."
  (let ((temporary (efrit-files--temporary boot))
        (write-region-inhibit-fsync (not sync)))
    (condition-case err
        (progn
          (efrit-files-write temporary text)
          (efrit-files-set-aside path)  ; gate: replace-odd
          (rename-file temporary path t))
      (file-error
       (efrit-files-delete temporary)
       (signal (car err) (cdr err))))))

(defun efrit-files-overwrite (path text)
  "Write TEXT over the beginning of the file PATH, which exists."
  (let ((write-region-inhibit-fsync t))
    (write-region (efrit-files-bytes text) nil path 0 'silent)))

(defun efrit-files-publish (path text boot)
  "Put TEXT at PATH, synced and whole, unless PATH exists already.
BOOT makes the temporary name.  Return non-nil when PATH is ours."
  (let ((temporary (efrit-files--temporary boot)))
    (unwind-protect
        (progn
          (efrit-files-write temporary text)
          (condition-case nil
              (progn (efrit-files--link temporary path) t)
            (file-already-exists nil)))
      (efrit-files-delete temporary))))

(defun efrit-files--link (from to)
  "Give the file FROM the name TO, which must not exist."
  (condition-case err
      (add-name-to-file from to)  ; gate: answer-link
    (file-already-exists (signal (car err) (cdr err)))
    (file-error
     ;; A volume may know no hard links; a rename refuses an existing name too.
     (if (and (file-exists-p from) (file-directory-p (file-name-directory to)))
         (rename-file from to)
       (signal (car err) (cdr err))))))

(defun efrit-files-sync-directories (&rest directories)
  "Have the names in DIRECTORIES reach the disk.
Emacs can sync no directory; a program can, at the price of a process.
Signal `efrit-sync-failed' when it fails."
  (let* ((process-environment (cons "PATH=/usr/bin:/bin:/usr/sbin:/sbin" process-environment))
         (status (apply #'call-process "/bin/sh" nil nil nil "-c"
                        "command -v sync >/dev/null || exit 0; exec sync \"$@\"" "sync"
                        directories)))
    (unless (equal status 0)
      (signal 'efrit-sync-failed (cons "Syncing directories" directories)))))

(defun efrit-files-delete (path)
  "Delete the file at PATH if it is there."
  (condition-case nil (delete-file path) (file-missing nil)))

(defun efrit-files-move (from to)
  "Rename FROM to TO, which must not exist; return nil when FROM is gone.
Directories of the queue that were removed are made again."
  (condition-case err
      (progn (rename-file from to) t)
    (file-missing
     (when (efrit-files-exists-p from)
       (efrit-files-make-directories)
       (condition-case nil
           (progn (rename-file from to) t)
         (file-missing (signal (car err) (cdr err))))))))

(defun efrit-files-exists-p (path)
  "Return non-nil when something is at PATH, a dangling symbolic link included."
  (or (file-exists-p path) (file-symlink-p path)))

(defun efrit-files-open-p (path)
  "Return non-nil when the file at PATH can be opened, or is not an ordinary one.
A client of a file server asks the server when a file is opened; that a name is
there it may only remember."
  (let ((attributes (file-attributes path 'integer)))
    ;; To open a pipe may take for ever.
    (or (and attributes (not (efrit-files-regular-p attributes)))
        (condition-case nil
            (efrit-files-with-buffer (funcall efrit-files--insert path nil 0 1) t)
          (file-missing nil)
          (file-error t)))))

(provide 'efrit-files)
;;; efrit-files.el ends here
