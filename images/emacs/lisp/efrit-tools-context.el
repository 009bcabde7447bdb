;;; efrit-tools-context.el --- Tools for what is in Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Buffers, directories and the state of Emacs, raw and bounded; and buffers made
;; and edited.  What any of it means is not asked here.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'efrit-context)
(require 'efrit-world)
(require 'efrit-tools-text)

(defconst efrit-tools-context--most-files 1000
  "Entries of a directory that are listed.")

;;;; Looking

(defun efrit-tools-buffer-contents (input _world)
  "Return the text of the buffer that INPUT names."
  (with-current-buffer (efrit-tools-context--buffer (alist-get 'buffer input))
    (efrit-tool-result-make "success"
                            (efrit-tools-text-lines (alist-get 'offset input)
                                                    (alist-get 'limit input) nil))))

(defun efrit-tools-context--buffer (name)
  "Return the buffer called NAME; it is an error when there is none."
  (or (get-buffer name) (error "There is no buffer called %s" name)))

(defun efrit-tools-warnings-buffer (_input _world)
  "Return the text of the buffer for warnings, as far as there is one."
  (let ((buffer (get-buffer "*Warnings*")))
    (efrit-tool-result-make
     "success"
     (if buffer
         (with-current-buffer buffer
           (save-restriction
             (widen)
             (buffer-substring-no-properties (point-min) (point-max))))
       "[there is no buffer *Warnings*]"))))

(defun efrit-tools-directory-files (input _world)
  "Return what is in the directory that INPUT names."
  (let* ((directory (efrit-world-path (or (alist-get 'path input) ".")))
         (names (directory-files directory nil directory-files-no-dot-files-regexp))
         (listed (seq-take names efrit-tools-context--most-files)))
    (efrit-tool-json
     `((directory . ,(efrit-world-clean directory))
       (entries . ,(vconcat (mapcar (lambda (name)
                                      (efrit-tools-context--entry name directory))
                                    listed)))
       (left_out . ,(- (length names) (length listed)))))))

(defun efrit-tools-context--entry (name directory)
  "Return what is known of the entry NAME of DIRECTORY, for JSON."
  (let* ((attributes (file-attributes (expand-file-name name directory)))
         (type (file-attribute-type attributes)))
    `((name . ,(efrit-world-clean name))
      (type . ,(cond ((stringp type) "link")
                     (type "directory")
                     (t "file")))
      (size . ,(or (file-attribute-size attributes) :null))
      (modified . ,(if attributes
                       (format-time-string
                        "%FT%TZ" (file-attribute-modification-time attributes) t)
                     :null)))))

(defun efrit-tools-current-context (_input _world)
  "Return the state of Emacs, as a person who attached to it would find it."
  (with-current-buffer (window-buffer (selected-window))
    (efrit-tool-json
     `(,@(efrit-context)
       (buffer_file . ,(or (and buffer-file-name (efrit-world-clean buffer-file-name))
                           :null))
       (modified . ,(if (buffer-modified-p) t :false))
       (mark . ,(or (mark t) :null))
       (region_active . ,(if (region-active-p) t :false))
       (line . ,(line-number-at-pos))
       (workspace . ,(efrit-world-clean (efrit-world-path ".")))))))

;;;; Changing

(defun efrit-tools-buffer-create (input _world)
  "Make the buffer that INPUT describes, which must not exist."
  (let ((name (alist-get 'name input))
        (mode (efrit-tools-context--mode (alist-get 'mode input))))
    (when (get-buffer name) (error "There is a buffer called %s already" name))
    (with-current-buffer (get-buffer-create name)
      (setq default-directory (efrit-world-path "./"))
      (insert (or (alist-get 'content input) ""))
      (goto-char (point-min))
      (when mode (funcall mode))
      (efrit-tool-success "Made the buffer %s: %d characters"
                          (buffer-name) (buffer-size)))))

(defun efrit-tools-context--mode (name)
  "Return the command for the major mode called NAME; nil when that is nil."
  (when name
    (let ((mode (intern-soft name)))
      (if (and mode (string-suffix-p "-mode" name) (commandp mode))
          mode
        (error "There is no mode called %s" name)))))

(defun efrit-tools-buffer-edit (input _world)
  "Put one text in place of another in the buffer, all as INPUT says."
  (with-current-buffer (efrit-tools-context--buffer (alist-get 'buffer input))
    (let ((lines (efrit-tools-text-undoable
                   (efrit-tools-text-edit input (buffer-name)))))
      (efrit-tool-success "Replaced %d times in the buffer %s, at lines %s"
                          (length lines) (buffer-name)
                          (efrit-tools-text-numbers lines)))))

(provide 'efrit-tools-context)
;;; efrit-tools-context.el ends here
