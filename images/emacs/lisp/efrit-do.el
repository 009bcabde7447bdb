;;; efrit-do.el --- Chats and commands by hand  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; For a person in front of Emacs, or attached to the daemon with emacsclient:
;; the same sessions that requests get, shown in a buffer as they go.
;;
;;   M-x efrit-do        have the model work with tools
;;   M-x efrit-chat      talk to it, without tools; C-u begins another conversation
;;   M-x efrit-continue  go on with the last session, or answer its question
;;   M-x efrit-cancel    stop what is under way, and go on with what waits
;;   M-x efrit-status    say how far it is
;;
;; `efrit-command-map' has them all; bind it to a prefix key of your own.

;;; Code:

(require 'cl-lib)
(require 'let-alist)
(require 'efrit-settings)
(require 'efrit-clock)
(require 'efrit-json)
(require 'efrit-files)
(require 'efrit-queue-claim)
(require 'efrit-queue-request)
(require 'efrit-session-history)
(require 'efrit-session-scheduler)

(defcustom efrit-do-timeout 3600
  "Seconds that work begun by hand may take; `efrit-max-timeout' bounds them."
  :group 'efrit-do
  :type 'number)

(defcustom efrit-do-buffer-size 1000000
  "Most characters that are kept in the buffer that shows the work."
  :group 'efrit-do
  :type 'natnum)

(defcustom efrit-do-max-waiting 100
  "Most requests by hand that wait for the one under way."
  :group 'efrit-do
  :type 'natnum)

(defvar efrit-do--session nil
  "The session that was begun by hand and is under way, or nil.")

(defvar efrit-do--last nil
  "The id of the session begun by hand last, or nil.")

(defvar efrit-do--last-type nil
  "What that session is: \"command\" or \"chat\".")

(defvar efrit-do--chat nil
  "The id of the conversation that `efrit-chat' continues, or nil.")

(defvar efrit-do--waiting nil
  "What waits for the session under way, the oldest first: (TYPE TEXT ID).")

(defvar efrit-do--timer nil
  "The timer that looks whether the time of the work is over.")

(defvar efrit-do--number 0
  "How many requests were made by hand.")

(defvar efrit-do-mode-line nil
  "What the mode line says of the work under way.")
(put 'efrit-do-mode-line 'risky-local-variable t)

(defvar efrit-command-map
  (let ((map (make-sparse-keymap)))
    (define-key map "d" #'efrit-do)
    (define-key map "t" #'efrit-chat)
    (define-key map "c" #'efrit-continue)
    (define-key map "k" #'efrit-cancel)
    (define-key map "s" #'efrit-status)
    map)
  "Keys for the commands of Efrit; bind it to a prefix of your own.")
;;;###autoload (autoload 'efrit-command-map "efrit-do" nil nil 'keymap)
(fset 'efrit-command-map efrit-command-map)

;;;; The commands

;;;###autoload
(defun efrit-do (command)
  "Have the model carry out COMMAND with tools, in a new session."
  (interactive "sCommand: ")
  (efrit-do--ask "command" command nil))

;;;###autoload
(defun efrit-chat (text &optional new)
  "Say TEXT to the model in the conversation under way, which has no tools.
With a prefix argument, or NEW, begin another conversation."
  (interactive "sSay: \nP")
  (efrit-do--ask "chat" text (if new nil 'conversation)))

;;;###autoload
(defun efrit-continue (text)
  "Go on with the last session by saying TEXT; that is how a question is answered."
  (interactive (list (read-string "Say (default continue): " nil nil "continue")))
  (unless efrit-do--last (user-error "No Efrit session yet"))
  (efrit-do--ask efrit-do--last-type text efrit-do--last))

;;;###autoload
(defun efrit-cancel ()
  "Ask, then stop the work begun by hand and go on with what waits.
What the work has done is not undone."
  (interactive)
  (let ((session efrit-do--session))
    (cond ((null session) (message "Efrit does nothing"))
          ((not (or (not (called-interactively-p 'any))
                    (y-or-n-p "Cancel the Efrit session under way? "))))
          ;; While the question was open, it may have ended and the next one have begun.
          ((not (eq session efrit-do--session))
           (message "It has ended meanwhile; nothing was cancelled"))
          (t (efrit-session-ordered-to-end session "Cancelled")
             (funcall efrit-session-wake-function)))))

;;;###autoload
(defun efrit-status ()
  "Say how far the work begun by hand is."
  (interactive)
  (if (null efrit-do--session)
      (message "Efrit does nothing%s"
               (if efrit-do--last (format "; the last session is %s" efrit-do--last) ""))
    (let ((progress (efrit-session-progress efrit-do--session)))
      (message "Efrit: %s, turn %d, %d tool calls, %d tokens, %.0f s%s"
               efrit-do--last
               (efrit-progress-step progress)
               (efrit-progress-tool-calls progress)
               (efrit-progress-tokens progress)
               (- (efrit-clock) (efrit-session-started efrit-do--session))
               (if efrit-do--waiting
                   (format "; %d wait" (length efrit-do--waiting)) "")))))

;;;; Carrying them out

(defun efrit-do--ask (type text id)
  "Begin a request of TYPE that says TEXT, in the session ID or a new one.
It waits while another is under way."
  (unless (efrit-settings-model-p)
    (user-error "Set `efrit-model-name' and `efrit-model-base-url' first"))
  (cond ((null efrit-do--session) (efrit-do--begin type text id))
        ((>= (length efrit-do--waiting) efrit-do-max-waiting)
         (user-error "%d requests wait already: let some end first" efrit-do-max-waiting))
        (t (setq efrit-do--waiting (append efrit-do--waiting (list (list type text id))))
           (message "Efrit will do that next"))))

(defun efrit-do--request (type text id)
  "Return the request of TYPE that says TEXT, in the session ID or a new one.
Signal a `user-error' where the instance would take no such request."
  (setq efrit-do--number (1+ efrit-do--number))
  (let* ((request (efrit-request-make
                   :id (format "hand-%s-%d" efrit-claim-boot efrit-do--number)
                   :type type :content text :session id
                   :timeout (min efrit-do-timeout (or efrit-max-timeout efrit-do-timeout))))
         (problem (if (and id (efrit-session-of id))
                      (format "A request is under way in the session %s: let it end first" id)
                    (efrit-session-problem request))))
    (when problem (user-error "%s" problem))
    request))

(defun efrit-do--begin (type text id)
  "Begin a request of TYPE that says TEXT, in the session ID or a new one.
The ID `conversation' is that of the chat under way, where there is one."
  (unless efrit-claim-boot (efrit-claim-new-boot))
  (efrit-files-make-directories)
  (when (eq id 'conversation) (setq id (efrit-do--conversation)))
  (let ((request (efrit-do--request type text id)))
    (efrit-do--show (format "\n%s %s\n" (if (equal type "chat") ">" "$") text))
    (setq efrit-do--session (efrit-session-start request nil #'efrit-do--end #'efrit-do--line)
          efrit-do--last (or id (efrit-request-id request))
          efrit-do--last-type type)
    (when (equal type "chat") (setq efrit-do--chat efrit-do--last))
    (unless (timerp efrit-do--timer)
      (setq efrit-do--timer (run-with-timer 1 1 #'efrit-do--tick)))
    (efrit-do--show-in-mode-line "begins")
    (display-buffer (efrit-do--buffer))
    (funcall efrit-session-wake-function)))

(defun efrit-do--conversation ()
  "Return the id of the conversation that `efrit-chat' continues, or nil."
  (when (and efrit-do--chat (not (efrit-history-known-p efrit-do--chat)))
    (efrit-do--show "\n[The conversation is no longer kept: another one begins]\n")
    (setq efrit-do--chat nil))
  efrit-do--chat)

(defun efrit-do--tick ()
  "End the work under way when its time is over."
  (efrit-session-note-ends)
  (when (and efrit-do--session (efrit-session-ready-p efrit-do--session))
    (funcall efrit-session-wake-function)))

(defun efrit-do--end (session)
  "Show how SESSION ended, and begin what waits."
  (let* ((result (efrit-session-result session))
         (extra (alist-get 'session (efrit-result-extra result)))
         (question (alist-get 'question extra)))
    (efrit-do--show
     (format "\n[%s%s]\n" (efrit-result-reason result)
             (if (efrit-result-error result)
                 (concat ": " (efrit-result-error result)) "")))
    (when (stringp question) (efrit-do--show (concat question "\n")))
    (message "Efrit: %s" (efrit-result-reason result)))
  (setq efrit-do--session nil)
  (when (timerp efrit-do--timer) (cancel-timer efrit-do--timer))
  (setq efrit-do--timer nil)
  (efrit-do--show-in-mode-line nil)
  ;; What cannot begin holds up nothing behind it.
  (while (and efrit-do--waiting (not efrit-do--session))
    (pcase-let ((`(,type ,text ,id) (pop efrit-do--waiting)))
      (condition-case err (efrit-do--begin type text id)
        (error (efrit-do--show (format "\n[Not begun: %s]\n%s\n" (error-message-string err)
                                       (efrit-print-head text 2000))))))))

;;;; Showing

(defun efrit-do--buffer ()
  "Return the buffer that shows the work."
  (or (get-buffer "*efrit*")
      (with-current-buffer (get-buffer-create "*efrit*")
        (special-mode)
        ;; Nobody edits here, and what is undone would be kept a second time.
        (buffer-disable-undo)
        (setq-local window-point-insertion-type t)
        (visual-line-mode)
        (current-buffer))))

(defun efrit-do--show (text)
  "Add TEXT to the buffer that shows the work."
  (with-current-buffer (efrit-do--buffer)
    (let ((inhibit-read-only t))
      (save-excursion
        (goto-char (point-max))
        (insert text))
      (efrit-do--forget-oldest))))

(defun efrit-do--forget-oldest ()
  "Delete the oldest lines of the current buffer when it has grown too long."
  (when (> (buffer-size) efrit-do-buffer-size)
    (save-excursion
      ;; A quarter at a time: not every piece of text moves all of the buffer.
      (let ((oldest (- (point-max) (/ (* 3 efrit-do-buffer-size) 4))))
        (goto-char oldest)
        (forward-line 1)
        ;; A line may be too long, or have no end.
        (unless (and (bolp) (<= (point) (+ oldest 2000)))
          (goto-char oldest))
        (delete-region (point-min) (point))))))

(defun efrit-do--line (line)
  "Show LINE of the work log."
  (let-alist (efrit-json-parse line)
    (pcase .type
      ("text" (efrit-do--show .text))
      ("tool" (efrit-do--show (format "\n-> %s %s\n" .name
                                      (efrit-json-text .input))))
      ("result" (efrit-do--show (format "<- %s\n%s\n" .status
                                        (efrit-print-head .content 2000))))
      ("retry" (efrit-do--show (format "\n[%s: again in %.0f s]\n" .kind .delay)))
      ("progress"
       (let ((text (format "turn %d, %d calls" .step .tool_calls)))
         (efrit-do--show-in-mode-line text)
         (efrit-do--show-in-minibuffer text))))))

(defun efrit-do--show-in-minibuffer (text)
  "Say TEXT in the minibuffer, unless somebody writes there."
  (unless (active-minibuffer-window)
    (message "Efrit: %s" text)))

(defun efrit-do--show-in-mode-line (text)
  "Have the mode line say TEXT; nothing with nil."
  (unless (memq 'efrit-do-mode-line global-mode-string)
    (setq global-mode-string
          (append (or global-mode-string '("")) '(efrit-do-mode-line))))
  (setq efrit-do-mode-line (and text (format " [Efrit: %s]" text)))
  (force-mode-line-update t))

(provide 'efrit-do)
;;; efrit-do.el ends here
