;;; efrit-settings.el --- What may be set, and the error tree  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The first file of the flow: every other file requires it, it requires none.
;; The environment gives the defaults (a container has nothing else to set),
;; Customize may override them.  Nothing here touches a file.

;;; Code:

(require 'subr-x)

(defgroup efrit nil
  "Answer requests from a queue of files."
  :group 'processes
  :prefix "efrit-")

(defgroup efrit-queue nil
  "The queue that is served, and what belongs to it."
  :group 'efrit
  :prefix "efrit-")

(defgroup efrit-eval nil
  "Evaluations and their results."
  :group 'efrit
  :prefix "efrit-")

(defgroup efrit-model nil
  "The model that chats and commands ask."
  :group 'efrit
  :prefix "efrit-model-")

(defgroup efrit-session nil
  "Chats and commands."
  :group 'efrit
  :prefix "efrit-")

(defgroup efrit-tools nil
  "What a command may do."
  :group 'efrit
  :prefix "efrit-")

(defgroup efrit-do nil
  "Chats and commands by hand."
  :group 'efrit
  :prefix "efrit-do-")

;;;; Reading the environment

(defun efrit-settings--env (name)
  "Return the value of environment variable NAME, nil when empty or unset."
  (let ((value (getenv name)))
    (and value (not (string-empty-p value)) value)))

(defun efrit-settings-env-number (name default)
  "Return environment variable NAME as a positive number, else DEFAULT."
  (let* ((text (efrit-settings--env name))
         (value (and text
                     (string-match-p "\\`[0-9]+\\(?:\\.[0-9]+\\)?\\'" text)
                     (string-to-number text))))
    (if (and value (> value 0)) value default)))

(defun efrit-settings--env-directory (name default)
  "Return environment variable NAME as an absolute directory, else DEFAULT."
  (let ((value (or (efrit-settings--env name) default)))
    (and value (file-name-as-directory (expand-file-name value "~/")))))

;;;; Coding systems

;; `define-coding-system-alias' takes any name: under names of our own, their meaning stays.
(unless (coding-system-p 'efrit-utf-8)
  (define-coding-system-alias 'efrit-utf-8 'utf-8-unix)
  (define-coding-system-alias 'efrit-bytes 'no-conversion))

;;;; Where things are

(defun efrit-settings--state-directory ()
  "Return the directory of the user for state, as an absolute name."
  (let ((named (getenv "XDG_STATE_HOME")))
    (if (and named (string-prefix-p "/" named)) named "~/.local/state")))

(defcustom efrit-queue-directory
  (efrit-settings--env-directory "EFRIT_QUEUE_DIR"
                                 (concat (efrit-settings--state-directory)
                                         "/efrit/instances/default/queue"))
  "Directory of the queue; its parts must lie on one file system."
  :group 'efrit-queue
  :type 'directory)

(defcustom efrit-workspace-directory
  (efrit-settings--env-directory "EFRIT_WORKSPACE" nil)
  "Directory every evaluation starts in, and where large results go.
With nil, evaluations start in the home directory and large results are cut."
  :group 'efrit-queue
  :type '(choice (const :tag "None" nil) directory))

(defcustom efrit-instance-id (efrit-settings--env "EFRIT_INSTANCE_ID")
  "Name of this instance; a request that names another one is rejected.
With nil, the name in a request does not matter."
  :group 'efrit-queue
  :type '(choice (const :tag "Any" nil) string))

(defcustom efrit-init-file (efrit-settings--env "EFRIT_INIT_FILE")
  "File loaded once the server is up; an error in it is logged, never fatal."
  :group 'efrit-queue
  :type '(choice (const :tag "None" nil) file))

(defcustom efrit-bridge-p (equal (efrit-settings--env "EFRIT_BRIDGE") "1")
  "Non-nil when another process enforces the time limits of requests."
  :group 'efrit-queue
  :type 'boolean)

;;;; Several hosts

(defcustom efrit-takeover-seconds
  (efrit-settings-env-number "EFRIT_TAKEOVER_SECONDS" 90)
  "Seconds an Emacs of another host is silent before its queue may be taken.
Longer than any host may remember what a file server has said before."
  :group 'efrit-queue
  :type 'number)

;;;; Limits

(defcustom efrit-request-timeout
  (efrit-settings-env-number "EFRIT_REQUEST_TIMEOUT" 30)
  "Seconds an eval may run when it does not say."
  :group 'efrit-eval
  :type 'number)

(defcustom efrit-command-timeout
  (efrit-settings-env-number "EFRIT_COMMAND_TIMEOUT" 600)
  "Seconds a chat or a command may run when it does not say."
  :group 'efrit-session
  :type 'number)

(defcustom efrit-max-result-bytes
  (truncate (efrit-settings-env-number "EFRIT_MAX_RESULT_BYTES" 1048576))
  "Most bytes of a printed value that are kept; a request may ask for less."
  :group 'efrit-eval
  :type 'natnum)

(defcustom efrit-inline-result-bytes 786432
  "A longer result goes to a file of the workspace instead of the answer."
  :group 'efrit-eval
  :type 'natnum)

(defcustom efrit-result-head-bytes 32768
  "How much of a result kept in a file is repeated in the answer."
  :group 'efrit-eval
  :type 'natnum)

(defcustom efrit-captured-bytes 8192
  "Most bytes kept of what was printed, and of what `message' said."
  :group 'efrit-eval
  :type 'natnum)

(defcustom efrit-max-request-file-bytes 8388608
  "A request file larger than this is rejected without being read."
  :group 'efrit-queue
  :type 'natnum)

(defcustom efrit-settle-seconds 2.0
  "How long after its last change an unreadable request file is rejected.
A client that writes in place shows half a file first."
  :group 'efrit-queue
  :type 'number)

(defcustom efrit-heartbeat-seconds
  (efrit-settings-env-number "EFRIT_HEARTBEAT_SECONDS" 1)
  "Seconds between two heartbeats, and between two rescans of the queue."
  :group 'efrit-queue
  :type 'number)

(defcustom efrit-gc-cons-threshold (* 32 1024 1024)
  "Bytes of Lisp data made between two garbage collections.
The server collects while it is idle, so that a request seldom waits for it."
  :group 'efrit-queue
  :type 'natnum)

;;;; The model

(defcustom efrit-model-name (efrit-settings--env "EFRIT_MODEL_NAME")
  "Name of the model that chats and commands ask; with nil there is none."
  :group 'efrit-model
  :type '(choice (const :tag "None" nil) string))

(defconst efrit-model-default-base-url "https://api.anthropic.com"
  "Where the model's API is when nothing else is said.")

(defcustom efrit-model-base-url
  (or (efrit-settings--env "EFRIT_MODEL_BASE_URL") efrit-model-default-base-url)
  "Where the model's API is, without the path of the call."
  :group 'efrit-model
  :type 'string)

(defcustom efrit-model-max-tokens
  (truncate (efrit-settings-env-number "EFRIT_MODEL_MAX_TOKENS" 8192))
  "Longest answer of one turn of the model, in tokens."
  :group 'efrit-model
  :type 'natnum)

(defcustom efrit-model-api-key-file (efrit-settings--env "EFRIT_MODEL_API_KEY_FILE")
  "File with the key of the model's API; it is read for each call."
  :group 'efrit-model
  :type '(choice (const :tag "None" nil) file))

(defcustom efrit-model-protocol
  (or (efrit-settings--env "EFRIT_MODEL_PROTOCOL") "tools")
  "How the model acts in a command: by calling tools, or by answers with Lisp."
  :group 'efrit-model
  :type '(choice (const "tools") (const "elisp")))

(defcustom efrit-model-proxy (efrit-settings--env "EFRIT_MODEL_PROXY")
  "URL of the proxy to the model's API; with nil, what curl takes from its own."
  :group 'efrit-model
  :type '(choice (const :tag "None" nil) string))

;; The API pings while the model thinks, so silence means that it is gone.
(defcustom efrit-model-idle-seconds
  (efrit-settings-env-number "EFRIT_MODEL_IDLE_SECONDS" 120)
  "Seconds without a byte from the model's API after which it is asked again."
  :group 'efrit-model
  :type 'number)

(defcustom efrit-model-connect-seconds 10
  "Seconds that connecting to the model's API may take."
  :group 'efrit-model
  :type 'number)

(defcustom efrit-model-max-attempts 6
  "How often the model is asked for one turn when that fails."
  :group 'efrit-model
  :type 'natnum)

(defcustom efrit-model-first-delay 0.5
  "Seconds before the model is asked again; every time they double."
  :group 'efrit-model
  :type 'number)

(defcustom efrit-model-max-delay 60
  "Most seconds before the model is asked again, even if its API wants more."
  :group 'efrit-model
  :type 'number)

(defcustom efrit-model-max-reply-bytes 16777216
  "Most bytes of the stream of one turn of the model."
  :group 'efrit-model
  :type 'natnum)

(defconst efrit-settings--private-hosts
  (concat "\\`\\(?:\\(?:[a-z0-9_-]+\\|\\(?:[a-z0-9._-]+\\.\\)?localhost\\|"
          "[a-z0-9._-]+\\.svc\\(?:\\.[a-z0-9._-]+\\)?\\|[a-z0-9._-]+\\.cluster\\.local\\)\\.?\\|"
          "\\(?:127\\|10\\|192\\.168\\|172\\.\\(?:1[6-9]\\|2[0-9]\\|3[01]\\)\\)\\(?:\\.[0-9]+\\)+\\|"
          "\\[\\(?:::1\\|f[cd][0-9a-f]\\{2\\}:.*\\)\\]\\)\\'")
  "Hosts of this machine, a cluster or a private network, by name or address.")

(defun efrit-settings-in-the-clear-p (url)
  "Return non-nil if what is sent to URL can be read outside a private network."
  (save-match-data
    (and (let ((case-fold-search t))
           (string-match "\\`http://\\(?:[^/?#@]*@\\)?\\(\\[[^]/?#]*\\]\\|[^][:/?#]*\\)" url))
         (let ((host (downcase (match-string 1 url))) case-fold-search)
           ;; To curl, a number without dots is an address.
           (or (string-match-p "\\`\\(?:0x[0-9a-f]*\\|[0-9]+\\)\\.?\\'" host)
               (not (string-match-p efrit-settings--private-hosts host)))))))

(defun efrit-settings-model-p ()
  "Return non-nil when there is a model to ask."
  (and efrit-model-name efrit-model-base-url t))

(defcustom efrit-concurrency
  (truncate (efrit-settings-env-number "EFRIT_CONCURRENCY" 4))
  "How many sessions with the model may be under way at once."
  :group 'efrit-session
  :type 'natnum)

;;;; What a command may do

(defun efrit-settings--env-bound (name)
  "Return environment variable NAME as a positive integer, or nil."
  (let ((value (efrit-settings-env-number name nil)))
    (and value (max 1 (truncate value)))))

(defcustom efrit-max-timeout (efrit-settings--env-bound "EFRIT_MAX_TIMEOUT")
  "Longest timeout in seconds that a request may ask for; with nil, a week."
  :group 'efrit-queue
  :type '(choice (const :tag "A week" nil) natnum))

(defcustom efrit-max-iterations (efrit-settings--env-bound "EFRIT_MAX_ITERATIONS")
  "Most turns of the model in a session, in all its requests; with nil, any number."
  :group 'efrit-session
  :type '(choice (const :tag "Any number" nil) natnum))

(defcustom efrit-max-tokens (efrit-settings--env-bound "EFRIT_MAX_TOKENS")
  "Most tokens, in and out, of a session in all its requests; with nil, any number."
  :group 'efrit-session
  :type '(choice (const :tag "Any number" nil) natnum))

(defcustom efrit-iteration-timeout (efrit-settings--env-bound "EFRIT_ITERATION_TIMEOUT")
  "Most seconds that one turn of a session may take; with nil, any time."
  :group 'efrit-session
  :type '(choice (const :tag "Any time" nil) number))

(defun efrit-settings--env-words (name)
  "Return the words of environment variable NAME, which commas separate."
  (split-string (or (efrit-settings--env name) "") "," t "[ \t]+"))

(defcustom efrit-max-tool-calls
  (truncate (efrit-settings-env-number "EFRIT_MAX_TOOL_CALLS" 30))
  "Most tool calls of a session, in all its requests; no budget exceeds it."
  :group 'efrit-tools
  :type 'natnum)

(defcustom efrit-max-repeated-calls
  (truncate (efrit-settings-env-number "EFRIT_MAX_REPEATED_CALLS" 3))
  "How often the same call may follow itself before a command is ended."
  :group 'efrit-tools
  :type 'natnum)

(defcustom efrit-tools-allow (efrit-settings--env-words "EFRIT_TOOLS_ALLOW")
  "Names of the tools a command may use; with nil, all."
  :group 'efrit-tools
  :type '(repeat string))

(defcustom efrit-tools-deny (efrit-settings--env-words "EFRIT_TOOLS_DENY")
  "Names of the tools a command may not use."
  :group 'efrit-tools
  :type '(repeat string))

;;;; The error tree

(define-error 'efrit-error "Efrit")
(define-error 'efrit-queue-taken "The queue is served by another Emacs" 'efrit-error)
(define-error 'efrit-queue-not-trusted "Others could have code run as you" 'efrit-error)
(define-error 'efrit-queue-trouble "The queue cannot be written" 'efrit-error)
(define-error 'efrit-claim-failed "The claim could not be recorded" 'efrit-queue-trouble)
(define-error 'efrit-answer-failed "The answer could not be stored" 'efrit-queue-trouble)
(define-error 'efrit-record-failed "The session could not be recorded" 'efrit-error)
(define-error 'efrit-history-damaged "The session cannot be read" 'efrit-error)
(define-error 'efrit-sync-failed "Directories could not be synced" '(efrit-error file-error))
(define-error 'efrit-bad-request "Not a usable request" 'efrit-error)
(define-error 'efrit-unreadable-request "Not a JSON object" 'efrit-bad-request)

(defun efrit-error-text (err)
  "Return the message of ERR, without the name of the tree for an `efrit-error'.
What such an error says is a sentence of ours: it needs neither name nor quotes."
  (pcase err
    (`(efrit-error ,(and (pred stringp) message)) message)
    (_ (error-message-string err))))

(provide 'efrit-settings)
;;; efrit-settings.el ends here
