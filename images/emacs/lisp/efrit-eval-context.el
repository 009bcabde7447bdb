;;; efrit-eval-context.el --- Where an evaluation left Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Gathers the plain facts that `return_context' asks for, bounded, right after
;; the evaluation and in the buffer it left current.  Facts only: what they mean
;; is for the reader to say.

;;; Code:

(require 'seq)
(require 'efrit-print)

(defconst efrit-context--max-buffers 200
  "How many buffer names are listed.")

(defconst efrit-context--longest-text 1024
  "How many bytes of a name are kept.")

(defun efrit-context--text (text)
  "Return TEXT fit for JSON and bounded, or nil when it is not a string."
  (and (stringp text)
       (efrit-print-head (efrit-print-clean text) efrit-context--longest-text)))

(defun efrit-context ()
  "Return the facts about the current state of Emacs, as an alist for JSON.
Buffers whose name begins with a space are Emacs's own and left out."
  (let ((buffers (seq-remove (lambda (name) (string-prefix-p " " name))
                             (delq nil (mapcar #'buffer-name (buffer-list))))))
    `((buffers . ,(vconcat (mapcar #'efrit-context--text
                                   (seq-take buffers efrit-context--max-buffers))))
      (buffer_count . ,(length buffers))
      (current_buffer . ,(or (efrit-context--text (buffer-name)) :null))
      (cursor_position . ,(point))
      (point . ,(point))
      (major_mode . ,(efrit-context--text (symbol-name major-mode)))
      (default_directory . ,(or (efrit-context--text default-directory) :null))
      (emacs_version . ,emacs-version))))

(provide 'efrit-eval-context)
;;; efrit-eval-context.el ends here
