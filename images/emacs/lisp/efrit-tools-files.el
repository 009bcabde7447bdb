;;; efrit-tools-files.el --- Tools that read and change files  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A file is changed in the buffer that visits it, so that a person finds it there
;; and can undo it, and saved at once.  Reading visits nothing.  A buffer with
;; changes that are not saved goes before its file, in both; a file that somebody
;; else has changed meanwhile is never overwritten by such a buffer.

;;; Code:

(require 'cl-lib)
(require 'efrit-tool-context)
(require 'efrit-tool)
(require 'efrit-tools-text)

(defvar vc-follow-symlinks)
(defvar vc-handled-backends)

(defconst efrit-tools-files--max-bytes 8388608
  "Bytes of a file that are looked at.")

;;;; Reading

(efrit-define-tool file_read (input _context)
  "Return the lines of a file, each with its number and a tab before it."
  :kind query
  :input ((path string "The file; a relative path starts in the workspace" :required t)
          (offset integer "The first line; 1 when not given" :minimum 1)
          (limit integer "How many lines; 2000 when not given" :minimum 1))
  (let* ((path (efrit-tools-files--existing (alist-get 'path input)))
         (buffer (find-buffer-visiting path))
         (lines (lambda ()
                  (efrit-tools-text-lines (alist-get 'offset input)
                                          (alist-get 'limit input) t))))
    (efrit-tool-result-make
     "success"
     (if (and buffer (buffer-modified-p buffer))
         (with-current-buffer buffer
           (format "%s\n[from the buffer %s, which has changes that are not saved]"
                   (funcall lines) (buffer-name)))
       (with-temp-buffer
         (insert-file-contents path nil 0 efrit-tools-files--max-bytes)
         (concat (funcall lines) (efrit-tools-files--unseen path)))))))

(defun efrit-tools-files--unseen (path)
  "Return a line that says what of the file PATH was not looked at, if any."
  (let ((size (file-attribute-size (file-attributes (file-truename path)))))
    (if (<= size efrit-tools-files--max-bytes)
        ""
      (format "\n[only the first %d of its %d bytes were looked at]"
              efrit-tools-files--max-bytes size))))

(defun efrit-tools-files--existing (path)
  "Return PATH as an absolute name; it is an error unless that is a file."
  (let ((path (efrit-tool-path path)))
    (efrit-tools-files--check path)
    (unless (file-exists-p path) (error "There is no file %s" path))
    path))

(defun efrit-tools-files--check (path)
  "Signal an error when there is something else than a file at PATH."
  (when (file-exists-p path)
    (cond ((file-directory-p path) (error "%s is a directory" path))
          ;; Reading a pipe or a device may never end.
          ((not (file-regular-p path)) (error "%s is not an ordinary file" path)))))

;;;; The buffer that visits a file

(defmacro efrit-tools-files--unasked (&rest body)
  "Run BODY with what would be a question to a user decided for safety."
  (declare (indent 0) (debug t))
  `(let ((enable-local-variables :safe) (enable-local-eval nil)
         (large-file-warning-threshold nil) (create-lockfiles nil)
         (make-backup-files nil) (find-file-suppress-same-file-warnings t)
         (vc-follow-symlinks t) (vc-handled-backends nil) (inhibit-message t))
     ,@body))

(defun efrit-tools-files--check-size (path)
  "Signal an error when the file PATH has more than a buffer is to hold."
  (let ((bytes (file-attribute-size (file-attributes (file-truename path)))))
    (when (and bytes (> bytes efrit-tools-text-max-bytes))  ; gate: visit-size
      (error "%s has %d bytes: no file of more than %d is changed"
             path bytes efrit-tools-text-max-bytes))
    ;; Of a compressed file, what comes out of it counts.
    (when (and bytes (find-file-name-handler path 'insert-file-contents))
      (with-temp-buffer
        (insert-file-contents path nil 0 (1+ efrit-tools-text-max-bytes))
        (when (> (position-bytes (point-max)) (1+ efrit-tools-text-max-bytes))
          (error "%s holds more than %d bytes: no file of more is changed"
                 path efrit-tools-text-max-bytes))))))

(defun efrit-tools-files--visit (path)
  "Return a buffer that visits the file PATH and has what is in it."
  (efrit-tools-files--check-size path)
  (with-current-buffer (find-file-noselect path t)
    (unless (or (verify-visited-file-modtime) (not (file-exists-p path)))
      (when (buffer-modified-p)
        (error "%s has changed since the buffer %s, which has changes too, was read"
               path (buffer-name)))
      (revert-buffer t t t))
    (current-buffer)))

(defun efrit-tools-files--save ()
  "Write the current buffer to the file it visits, as it is."
  (let ((require-final-newline nil))
    (efrit-tools-files--choose-coding)
    (set-buffer-modified-p t)
    (basic-save-buffer)))

(defun efrit-tools-files--choose-coding ()
  "See to it that the current buffer can be written without asking how."
  (let ((coding buffer-file-coding-system))
    (if (memq (coding-system-type coding) '(undecided nil))
        (setq buffer-file-coding-system
              (coding-system-change-text-conversion (or coding 'utf-8-unix) 'utf-8))
      (let ((position (unencodable-char-position (point-min) (point-max) coding)))
        (when position
          (error "The coding system of the file, %s, has no place for the character %c"
                 coding (char-after position)))))))

(defun efrit-tools-files--change (path function)
  "Call FUNCTION in the buffer that visits PATH and save it, or change nothing.
Return the value of FUNCTION."
  (efrit-tools-files--unasked
    (let* ((visiting (find-buffer-visiting path))
           (buffer (efrit-tools-files--visit path))
           (modified (buffer-modified-p buffer))
           (done nil))
      (unwind-protect
          (with-current-buffer buffer
            (prog1 (efrit-tools-text-undoable
                     (prog1 (save-restriction (widen) (funcall function))
                       (efrit-tools-files--save)))
              (setq done t)))
        (unless (or done (not (buffer-live-p buffer)))
          (efrit-tools-files--forget buffer (and visiting modified) (not visiting)))))))

(defun efrit-tools-files--forget (buffer modified kill)
  "Leave BUFFER, in which a change has failed, MODIFIED or not; or KILL it."
  (with-current-buffer buffer
    (set-buffer-modified-p modified)
    (when kill (kill-buffer))))

;;;; Changing

(efrit-define-tool file_write (input _context)
  "Make a text the content of a file, which is made if need be, with its directories. \
The change is made in the buffer that visits the file, can be undone there, and is \
saved."
  :kind execution
  :input ((path string "The file; a relative path starts in the workspace" :required t)
          (content string "The whole content" :required t))
  (let* ((path (efrit-tool-path (alist-get 'path input)))
         (content (alist-get 'content input))
         (new (not (file-exists-p path))))
    (efrit-tools-files--check path)
    ;; A buffer for a file whose directory is missing is read-only.
    (make-directory (file-name-directory path) t)
    (efrit-tools-files--change
     path (lambda ()
            (unless (equal (buffer-string) content)
              (erase-buffer)
              (insert content))))
    (efrit-tool-success "%s %s: %d characters" (if new "Made" "Replaced")
                        path (length content))))

(efrit-define-tool file_edit (input _context)
  "Put one text in place of another in a file. Unless replace_all is true, the old \
text must be there exactly once. The change is made in the buffer that visits the file, \
can be undone there, and is saved."
  :kind execution
  :input ((path string "The file; a relative path starts in the workspace" :required t)
          (old string "The text to replace, exactly" :required t)
          (new string "The text to put in its place" :required t)
          (replace_all boolean "true to replace it wherever it is"))
  (let* ((path (efrit-tools-files--existing (alist-get 'path input)))
         (lines (efrit-tools-files--change
                 path (lambda () (efrit-tools-text-edit input path)))))
    (efrit-tool-success "Replaced %d times in %s, at lines %s"
                        (length lines) path (efrit-tools-text-numbers lines))))

(provide 'efrit-tools-files)
;;; efrit-tools-files.el ends here
