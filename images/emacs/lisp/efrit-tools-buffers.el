;;; efrit-tools-buffers.el --- Tools for what is in Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Buffers and the state of Emacs, raw and bounded; and buffers made and edited.
;; What any of it means is not asked here.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'thingatpt)
(require 'add-log)
(require 'efrit-eval-context)
(require 'efrit-json)
(require 'efrit-text)
(require 'efrit-tool-context)
(require 'efrit-tool)
(require 'efrit-tools-text)

;;;; The text of a buffer

(efrit-define-tool buffer_contents (input _context)
  "Return the text of a buffer."
  :kind query
  :input ((buffer string "The name of the buffer" :required t)
          (offset integer "The first line; 1 when not given" :minimum 1)
          (limit integer "How many lines; 2000 when not given" :minimum 1))
  (with-current-buffer (efrit-tools-buffers--buffer (alist-get 'buffer input))
    (efrit-tool-result-make "success"
                            (efrit-tools-text-lines (alist-get 'offset input)
                                                    (alist-get 'limit input) nil))))

(defun efrit-tools-buffers--buffer (name)
  "Return the buffer called NAME; it is an error when there is none."
  (or (get-buffer name) (error "There is no buffer called %s" name)))

;;;; Changing

(efrit-define-tool buffer_create (input _context)
  "Make a new buffer with a text."
  :kind planning
  :input ((name string "The name of the buffer" :required t)
          (content string "The text; empty when not given")
          (mode string "The major mode, as the name of its command"))
  (let ((name (alist-get 'name input))
        (mode (efrit-tools-buffers--mode (alist-get 'mode input))))
    (when (get-buffer name) (error "There is a buffer called %s already" name))
    (with-current-buffer (get-buffer-create name)
      (setq default-directory (efrit-tool-path "./"))
      (insert (or (alist-get 'content input) ""))
      (goto-char (point-min))
      (when mode (funcall mode))
      (efrit-tool-success "Made the buffer %s: %d characters"
                          (buffer-name) (buffer-size)))))

(defun efrit-tools-buffers--mode (name)
  "Return the command for the major mode called NAME; nil when that is nil."
  (when name
    (let ((mode (intern-soft name)))
      (if (and mode (string-suffix-p "-mode" name) (commandp mode))
          mode
        (error "There is no mode called %s" name)))))

(efrit-define-tool buffer_edit (input _context)
  "Put one text in place of another in a buffer. Unless replace_all is true, the old \
text must be there exactly once. The change can be undone there; no file is saved."
  :kind execution
  :input ((buffer string "The name of the buffer" :required t)
          (old string "The text to replace, exactly" :required t)
          (new string "The text to put in its place" :required t)
          (replace_all boolean "true to replace it wherever it is"))
  (with-current-buffer (efrit-tools-buffers--buffer (alist-get 'buffer input))
    (let ((lines (efrit-tools-text-undoable
                   (efrit-tools-text-edit input (buffer-name)))))
      (efrit-tool-success "Replaced %d times in the buffer %s, at lines %s"
                          (length lines) (buffer-name)
                          (efrit-tools-text-numbers lines)))))

;;;; What Emacs shows

(efrit-define-tool warnings_buffer (_input _context)
  "Return the text of the buffer *Warnings*."
  :kind query
  (let ((buffer (get-buffer "*Warnings*")))
    (efrit-tool-result-make
     "success"
     (if buffer
         (with-current-buffer buffer
           (save-restriction
             (widen)
             (buffer-substring-no-properties (point-min) (point-max))))
       "[there is no buffer *Warnings*]"))))

(efrit-define-tool current_context (_input _context)
  "Return the state of Emacs as JSON: the buffers, and of the one in the selected \
window its mode, file, point, mark and directory."
  :kind query
  (with-current-buffer (window-buffer (selected-window))
    (efrit-tool-json
     `(,@(efrit-context)
       (buffer_file . ,(or (and buffer-file-name (efrit-json-clean buffer-file-name))
                           :null))
       (modified . ,(if (buffer-modified-p) t :false))
       (mark . ,(or (mark t) :null))
       (region_active . ,(if (region-active-p) t :false))
       (line . ,(line-number-at-pos))
       (workspace . ,(efrit-json-clean (efrit-tool-path ".")))))))

(efrit-define-tool function_at_point (input _context)
  "Return the function around point in a buffer as JSON: its name, text and first \
line; null when point is in none."
  :kind query
  :input ((buffer string "The name of the buffer" :required t)
          (line integer "Look around the beginning of this line instead" :minimum 1))
  (with-current-buffer (efrit-tools-buffers--buffer (alist-get 'buffer input))
    (save-excursion
      (save-restriction
        (widen)
        (when (alist-get 'line input)
          (goto-char (point-min))
          (forward-line (1- (alist-get 'line input))))
        (let ((bounds (bounds-of-thing-at-point 'defun)))
          (efrit-tool-json
           `((function
              . ,(if (null bounds) :null
                   `((name . ,(efrit-tools-buffers--function-name))
                     (line . ,(line-number-at-pos (car bounds)))
                     (text . ,(efrit-tools-buffers--text (car bounds) (cdr bounds)))))))))))))

(defun efrit-tools-buffers--function-name ()
  "Return the name of the function around point, or :null."
  (let ((name (ignore-errors (add-log-current-defun))))
    (if name (efrit-json-clean name) :null)))

(defun efrit-tools-buffers--text (start end)
  "Return the text from START to END, fit for JSON and cut where it is too long."
  (efrit-text-cut (efrit-json-clean (buffer-substring-no-properties start end))
                  (/ efrit-tool-result-bytes 2)))

(defconst efrit-tools-buffers--max-changes 50
  "How many changes of a buffer are returned.")

(efrit-define-tool recent_changes (input _context)
  "Return the last changes of a buffer that can be undone, the newest first, as JSON: \
where text was inserted, and which text was deleted."
  :kind query
  :input ((buffer string "The name of the buffer" :required t))
  (with-current-buffer (efrit-tools-buffers--buffer (alist-get 'buffer input))
    (let ((changes (delq nil (mapcar #'efrit-tools-buffers--change
                                     (and (listp buffer-undo-list) buffer-undo-list)))))
      (efrit-tool-json
       `((modified . ,(if (buffer-modified-p) t :false))
         (changes . ,(vconcat (seq-take changes efrit-tools-buffers--max-changes)))
         (left_out . ,(max 0 (- (length changes) efrit-tools-buffers--max-changes))))))))

(defun efrit-tools-buffers--change (entry)
  "Return what ENTRY of `buffer-undo-list' says of a text, for JSON, or nil."
  (pcase entry
    (`(,(and start (pred integerp)) . ,(and end (pred integerp)))
     `((inserted_at . ,start) (characters . ,(- end start))))
    (`(,(and text (pred stringp)) . ,(and position (pred integerp)))
     `((deleted_at . ,(abs position))
       (text . ,(efrit-text-cut (efrit-json-clean text) 256))))))

(provide 'efrit-tools-buffers)
;;; efrit-tools-buffers.el ends here
