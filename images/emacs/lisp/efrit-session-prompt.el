;;; efrit-session-prompt.el --- The system prompt of a session  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The system prompts, and the facts about Emacs that go with a command.  They
;; say how the protocol works and nothing else: no advice, no example of a
;; solution, no opinion about what to do next.  All of that is the model's.

;;; Code:

(require 'seq)
(require 'efrit-settings)
(require 'efrit-eval-context)
(require 'efrit-files)
(require 'efrit-json)
(require 'efrit-print)
(require 'efrit-eval)

(defconst efrit-prompt-chat
  "You are asked through Efrit, which runs in a resident Emacs.  You have no tools in this conversation."
  "The system prompt of a chat.")

(defconst efrit-prompt-tools
  "You act in a resident Emacs through tools.  Emacs runs what you call and returns the raw result with its status; it decides nothing and knows nothing about the task.

How it works:
- Which tools are offered depends on the state: while there are no todos, the tools that plan and that look; once there are todos, or todo_get_instructions was called, those that change things as well.
- The calls of one answer are run in their order, one at a time.
- The call that is the last step of the work may say \"final\": true; when it succeeds, the work ends with its result.  session_complete ends the work as well, with your message as the result.
- request_user_input ends this request with your question; the user's answer comes as the result of that call.
- Emacs, its buffers and its files stay as they are between calls and between requests."
  "The system prompt of a command that calls tools.")

(defconst efrit-prompt-elisp
  "You act in a resident Emacs through Emacs Lisp.  Answer with one JSON object and nothing else:

{\"elisp\": \"...\", \"session\": {\"id\": \"...\", \"status\": \"continue\" | \"complete\" | \"need-input\", \"question\": \"...\"}}

How it works:
- elisp is evaluated each time; its forms are run in their order and the value of the last is the result.
- continue: you get the raw result, its status and a short log of the work so far.
- complete: the work ends with the result, unless the evaluation failed; then you get the error.
- need-input: the request ends with your question; the user's answer comes next.
- A prompt, as of `read-string', reaches the person who has begun this work in a frame of this Emacs; where there is none, asking is an error.
- Emacs decides nothing and knows nothing about the task.  Its buffers and files stay as they are between evaluations and between requests."
  "The system prompt of a command that answers with Lisp.")

;;;; The world, once

(defconst efrit-prompt--max-names 200
  "How many buffers and how many files are listed.")

(defconst efrit-prompt--name-bytes 512
  "Most bytes of a name.")

(defun efrit-prompt--name (name)
  "Return NAME fit for JSON and not too long."
  (efrit-print-head (efrit-json-clean name) efrit-prompt--name-bytes))

(defun efrit-prompt-snapshot (session messages)
  "Return the facts about Emacs as a JSON alist, taken once for a request.
SESSION is the id of its session, MESSAGES how many that has."
  (let ((default-directory (efrit-eval-start-directory)))
    `((session . ((id . ,session) (messages . ,messages)))
      (directory . ,(efrit-prompt--name (expand-file-name default-directory)))
      ,@(efrit-prompt--files)
      ,@(efrit-prompt--buffers)
      (current_buffer . ,(efrit-prompt--name (buffer-name)))
      (major_mode . ,(efrit-prompt--name (symbol-name major-mode)))
      (point . ,(point))
      (emacs_version . ,emacs-version))))

(defun efrit-prompt--listed (key items function)
  "Return the member KEY that lists the first of ITEMS, and how many are left out.
FUNCTION makes the value of each."
  (let ((more (nthcdr efrit-prompt--max-names items)))
    `((,key . ,(vconcat (mapcar function (seq-take items efrit-prompt--max-names))))
      ,@(and more `((,(intern (format "%s_left_out" key)) . ,(length more)))))))

(defun efrit-prompt--files ()
  "Return the members that say which names the directory has that work starts in."
  (let ((found (condition-case nil
                   (efrit-files-names default-directory)
                 (file-error nil))))
    (append (efrit-prompt--listed 'files (car found) #'efrit-prompt--name)
            (and (cdr found) '((files_unread . t))))))

(defun efrit-prompt--buffers ()
  "Return the members that say of each buffer what is known, but Emacs's own."
  (efrit-prompt--listed
   'buffers
   (seq-remove (lambda (buffer) (string-prefix-p " " (buffer-name buffer))) (buffer-list))
   (lambda (buffer)
     (with-current-buffer buffer
       `((name . ,(efrit-prompt--name (buffer-name)))
         (file . ,(if buffer-file-name (efrit-prompt--name buffer-file-name) :null))
         (mode . ,(efrit-prompt--name (symbol-name major-mode)))
         (modified . ,(if (buffer-modified-p) t :false))
         (size . ,(buffer-size)))))))

(provide 'efrit-session-prompt)
;;; efrit-session-prompt.el ends here
