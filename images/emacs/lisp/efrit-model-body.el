;;; efrit-model-body.el --- What is sent to the model  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A conversation in, the body of the request to the Messages API out.  Adds the
;; settings and the marks up to which the API may keep what it has read: tools,
;; instructions, and the conversation so far.  Pure; reads no text.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'efrit-settings)
(require 'efrit-json)
(require 'efrit-files)
(require 'efrit-print)

(defconst efrit-model-body--cache-mark '(cache_control . ((type . "ephemeral")))
  "The member that marks a block as the end of what is worth keeping.")

(defun efrit-model-body (conversation)
  "Return the request for CONVERSATION as bytes of JSON.
CONVERSATION is an alist with `messages' and, if there are any, `system' and
`tools'; other members are sent as they are."
  (let ((request (efrit-model-body--request conversation)))
    (efrit-files-bytes
     (condition-case nil
         (efrit-json-text request)
       ;; A tool may have seen bytes that are not text.
       (error (efrit-json-text (efrit-model-body--clean request)))))))

(defun efrit-model-body--request (conversation)
  "Return the request for CONVERSATION, which stays as it is, as an alist."
  (append `((model . ,efrit-model-name)
            (max_tokens . ,efrit-model-max-tokens)
            (stream . t))
          (delq nil (mapcar #'efrit-model-body--member conversation))))

(defun efrit-model-body--member (member)
  "Return MEMBER of a conversation as it is sent, or nil."
  (pcase member
    (`(system . ,(or 'nil "")) nil)
    (`(system . ,(and text (pred stringp)))
     `(system . [((type . "text") (text . ,text) ,efrit-model-body--cache-mark)]))
    (`(tools . ,(pred seq-empty-p)) nil)
    (`(tools . ,tools) `(tools . ,(efrit-model-body--mark-last tools)))
    (`(messages . ,messages)
     `(messages . ,(efrit-model-body--mark-messages messages)))
    (_ member)))

(defun efrit-model-body--mark-last (blocks)
  "Return a copy of the vector BLOCKS, the last of them with the mark."
  (let ((blocks (copy-sequence blocks))
        (last (1- (length blocks))))
    (when (and (>= last 0) (efrit-model-body--markable-p (aref blocks last)))
      (aset blocks last (append (aref blocks last) (list efrit-model-body--cache-mark))))
    blocks))

(defun efrit-model-body--markable-p (block)
  "Return non-nil when the API takes a mark on BLOCK."
  (not (or (alist-get 'cache_control block)
           (equal (alist-get 'text block) "")
           (member (alist-get 'type block) '("thinking" "redacted_thinking")))))

(defun efrit-model-body--mark-messages (messages)
  "Return a copy of the vector MESSAGES, with the mark in the last of the user."
  (let* ((messages (copy-sequence messages))
         (last (cl-position-if (lambda (message) (equal (alist-get 'role message) "user"))
                               messages :from-end t)))
    (when last
      (aset messages last
            (mapcar (lambda (member)
                      (if (eq (car member) 'content)
                          `(content . ,(efrit-model-body--mark-content (cdr member)))
                        member))
                    (aref messages last))))
    messages))

(defun efrit-model-body--mark-content (content)
  "Return CONTENT, a string or a vector of blocks, with the mark."
  (efrit-model-body--mark-last
   (if (stringp content)
       (vector `((type . "text") (text . ,content)))
     content)))

(defun efrit-model-body--clean (value)
  "Return VALUE with the strings in it made fit for JSON."
  (cond ((stringp value) (efrit-print-clean value))
        ((vectorp value) (cl-map 'vector #'efrit-model-body--clean value))
        ((consp value)
         (mapcar (lambda (member)
                   (cons (car member) (efrit-model-body--clean (cdr member))))
                 value))
        (t value)))

(provide 'efrit-model-body)
;;; efrit-model-body.el ends here
