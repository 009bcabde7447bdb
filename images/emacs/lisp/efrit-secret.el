;;; efrit-secret.el --- The key of the model's API  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Reads the key, and takes it out of text that is to be shown.  The file is read
;; for each call, so that a key that was replaced is used from then on.  Nothing
;; here sends anything; code that requests bring along may read the same file.

;;; Code:

(require 'seq)
(require 'efrit-settings)
(require 'efrit-files)

(defconst efrit-secret--max-bytes 8192
  "Size beyond which a file holds no key.")

(defconst efrit-secret--fewest-characters 8
  "Length below which a key is refused: text has what is shorter by chance.")

(defvar efrit-secret--shapes nil
  "How every key read so far may appear in text.")

(defun efrit-secret-key ()
  "Return the key in `efrit-model-api-key-file', a string of printable ASCII.
Signal `efrit-error' when there is none."
  (unless efrit-model-api-key-file
    (signal 'efrit-error
            (list (format "%s takes a key, and none is set: %s" efrit-model-base-url
                          (if efrit-bridge-p "set spec.model.apiKeySecretRef"
                            "set EFRIT_MODEL_API_KEY_FILE to a file that holds it")))))
  (let* ((key (efrit-secret--trim (efrit-secret--file-text)))
         (problem (efrit-secret--problem key)))
    (when problem
      (signal 'efrit-error (list (format (cdr problem) efrit-model-api-key-file))))
    (efrit-secret--remember key)
    key))

(defun efrit-secret--problem (key)
  "Return why KEY is none, as a word and a format for the name of its file, or nil."
  (cond ((string-empty-p key) '("Empty" . "The file %s holds no key"))
        ;; Anything else would end the header it is sent in, or begin another.
        ((not (let ((case-fold-search nil)) (string-match-p "\\`[!-~]+\\'" key)))
         '("Invalid" . "The key in %s has characters other than printable ASCII"))
        ((< (length key) efrit-secret--fewest-characters)  ; gate: short-key
         (cons "TooShort"
               (format "The key in %%s has fewer than %d characters: put a longer one there"
                       efrit-secret--fewest-characters)))))

(defun efrit-secret-state ()
  "Return what the file of the key holds, in a word; nil when no model takes one.
The word is \"Usable\", \"Unreadable\", \"Empty\", \"Invalid\" or \"TooShort\":
nothing else of the key is reported."
  (when (and (efrit-settings-model-p) efrit-model-api-key-file)
    (condition-case nil
        (or (car (efrit-secret--problem (efrit-secret--trim (efrit-secret--file-text))))
            "Usable")
      (error "Unreadable"))))

(defun efrit-secret-refresh ()
  "Have the key redacted as it is now, if there is one.
Code that has run may have read one that came after the last call of the model."
  (when efrit-model-api-key-file
    (condition-case nil (efrit-secret-key) (efrit-error nil))))

(defun efrit-secret--file-text ()
  "Return the bytes of the key's file."
  (condition-case err
      (efrit-files-isolated
        (efrit-files-with-buffer
          (set-buffer-multibyte nil)
          (insert-file-contents-literally efrit-model-api-key-file nil
                                          0 efrit-secret--max-bytes)
          (buffer-string)))
    (file-error
     (signal 'efrit-error
             (list (format "The key of the model's API cannot be read: %s"
                           (error-message-string err)))))))

(defun efrit-secret--trim (text)
  "Return TEXT without the line ends after it."
  (let ((end (length text)))
    (while (and (> end 0) (memq (aref text (1- end)) '(?\n ?\r)))
      (setq end (1- end)))
    (substring text 0 end)))

(defun efrit-secret--remember (key)
  "Have KEY redacted from now on."
  (unless (member key efrit-secret--shapes)
    (push key efrit-secret--shapes)
    (let ((escaped (substring (json-serialize key) 1 -1)))
      (unless (equal escaped key) (push escaped efrit-secret--shapes)))))

(defun efrit-secret-redact (string)
  "Return STRING with every key that was ever read replaced."
  (dolist (shape efrit-secret--shapes string)
    (when (string-search shape string)
      (setq string (string-replace shape "[API key]" string)))))

;;;; In JSON

(defconst efrit-secret--words
  '("BudgetExhausted" "Cancelled" "CircuitBroken" "EvalError" "InputRequired" "Interrupted"
    "ModelError" "ModelNotConfigured" "Rejected" "Succeeded" "TimedOut" "assistant" "complete"
    "continue" "end_turn" "max_tokens" "need-input" "pause_turn" "progress" "redacted_thinking"
    "server_tool_use" "snapshot" "stop_sequence" "text_delta" "thinking" "tool_result" "tool_use")
  "Values that say something to a reader by being exactly these, and are no secret.")

(defun efrit-secret-json (value function &rest ids)
  "Return VALUE as the JSON that FUNCTION makes of it, without any key.
VALUE consists of alists with symbols for names, vectors, strings and atoms.
Keys are replaced in its strings: what JSON itself consists of stays, and what
is one of IDS, which clients have chosen and files are named by."
  (let ((text (funcall function value)))
    (if (seq-some (lambda (shape) (string-search shape text)) efrit-secret--shapes)
        (funcall function (efrit-secret--redact-value
                           value (append ids efrit-secret--words)))
      text)))

(defun efrit-secret--redact-value (value exempt)
  "Return VALUE, as in `efrit-secret-json', with the keys in it replaced.
Strings that are one of EXEMPT stay."
  (cond ((stringp value)
         (if (or (member value exempt) (efrit-secret--time-p value))
             value
           (efrit-secret-redact value)))
        ((vectorp value)
         (vconcat (mapcar (lambda (element) (efrit-secret--redact-value element exempt)) value)))
        ((consp value)
         (mapcar (pcase-lambda (`(,name . ,member))
                   (cons (efrit-secret--redact-name name)
                         (efrit-secret--redact-value member exempt)))
                 value))
        (t value)))

(defun efrit-secret--time-p (text)
  "Return non-nil when TEXT is a time as answers and records have it."
  (let ((case-fold-search nil))
    (string-match-p "\\`[0-9]\\{4\\}-[0-9][0-9]-[0-9][0-9]T[0-9:.]+Z\\'" text)))

(defun efrit-secret--redact-name (name)
  "Return the symbol NAME, of a member, with the keys in it replaced.
The names of our own members stay, whatever the key is."
  (let ((text (symbol-name name)) (case-fold-search nil))
    (if (string-match-p "\\`[a-z_]+\\'" text)
        name
      (intern (efrit-secret-redact text)))))

(provide 'efrit-secret)
;;; efrit-secret.el ends here
