;;; efrit-session.el --- A chat or a command, step by step  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What the server does with a chat or a command: ask the model, run what it
;; calls, tell it what came of that, until it says that it is done or a limit is
;; reached.  One step at a time, so that evals and other sessions run in between.
;; Nothing here looks into what is said: the model decides, this carries it out.
;;
;; The state of a session names what its next step is:
;;   begin -> ask -> asking -> reply -> act -> acting -> acted -> act ... -> ask
;; and `over' in the end.  In `asking' and `acting' it waits for a process; what
;; that process says may come while the code of another request runs, so it is
;; only noted, and the step is done later.

;;; Code:

(require 'cl-lib)
(require 'let-alist)
(require 'efrit-settings)
(require 'efrit-request)
(require 'efrit-claim)
(require 'efrit-interrupt)
(require 'efrit-print)
(require 'efrit-eval)
(require 'efrit-history)
(require 'efrit-progress)
(require 'efrit-prompt)
(require 'efrit-model)
(require 'efrit-tool)

(cl-defstruct (efrit-session (:constructor efrit-session--make))
  "The work on one request of a session.
KIND is `chat' or `command'; CLAIM nil for work that came from no file.  BUDGET
is a plist as in `efrit-request'.  ORDERED is why it is to end now, or nil.
RESULT is the `efrit-result' once STATE is `over'."
  claim request-id kind content budget deadline limit history world progress
  (state 'begin) ordered call reply failure unified
  calls current outcome stop started turn-started last-call (repeats 0)
  (text "") streamed (usage (list :input 0 :output 0 :cache-read 0 :cache-write 0))
  (model-calls 0) model-errors result on-end)

(defvar efrit-sessions nil
  "The sessions under way; the one whose step comes next is the first.")

(defvar efrit-session-wake-function #'efrit-session--wake
  "Called when a session has something to do; it must not do it at once.")

;;;; Beginning

(defun efrit-session-start (request claim &optional on-end on-line)
  "Begin the work on REQUEST, a chat or a command, that CLAIM has taken.
With CLAIM nil it came from no file: ON-END is called with the session when it
is over, and ON-LINE with each line of the work log.
Return the `efrit-session'."
  (efrit-session--enter
   (efrit-session--make
    :claim claim
    :on-end on-end
    :progress (efrit-progress-new :id (and claim (efrit-request-id request))
                                  :line on-line)
    :request-id (efrit-request-id request)
    :kind (intern (efrit-request-type request))
    :content (efrit-request-content request)
    :budget (efrit-request-budget request)
    :limit (efrit-request-max-result-bytes request)
    :deadline (+ (float-time) (efrit-request-timeout request)))
   (or (efrit-request-session request) (efrit-request-id request))))

(defun efrit-session--enter (session id)
  "Have SESSION work on the session ID; return it."
  (let ((history (efrit-history-open id)))
    (setf (efrit-session-started session) (float-time)
          (efrit-session-history session) history
          (efrit-session-world session)
          (efrit-session--make-world session (efrit-history-world history)))
    (setf (efrit-progress-session (efrit-session-progress session)) id)
    (setq efrit-sessions (append efrit-sessions (list session)))
    session))

(defun efrit-session--make-world (session json)
  "Return what the tools of SESSION keep, as it was written in JSON."
  (let ((world (if json (efrit-world-from-json json) (efrit-world-make))))
    (setf (efrit-world-request-id world) (efrit-session-request-id session))
    world))

(defun efrit-session-problem (request)
  "Return why the chat or command REQUEST cannot be begun, or nil."
  (let ((session (efrit-request-session request)))
    (when (and session (not (efrit-history-known-p session)))
      (format "There is no session %s on this instance: leave the session out to begin one"
              session))))

(defun efrit-session-may-start-p (request)
  "Return non-nil when there is room for the chat or command REQUEST now."
  (and (< (length efrit-sessions) efrit-concurrency)
       (let ((id (efrit-request-session request)))
         ;; What continues a session waits for what is under way in it.
         (not (and id (seq-find (lambda (session)
                                  (equal id (efrit-history-id
                                             (efrit-session-history session))))
                                efrit-sessions))))))

(defun efrit-session--begin (session)
  "Record the request of SESSION with the world as it is, and what it asks."
  (let* ((history (efrit-session-history session))
         (id (efrit-session-request-id session))
         (resumed (and (equal (efrit-history-request history) id)
                       (not (efrit-history-ended history))))
         (snapshot (efrit-prompt-snapshot (efrit-history-id history)
                                          (length (efrit-history-messages history)))))
    (efrit-history-add history "request" nil :request id
                       :kind (symbol-name (efrit-session-kind session))
                       :snapshot snapshot)
    (efrit-progress-note (efrit-session-progress session) "snapshot" :world snapshot)
    (if (and resumed (efrit-history-messages history))
        (efrit-session--resume session)
      (efrit-session--open session snapshot))))

(defun efrit-session--open (session snapshot)
  "Put what the request of SESSION asks to the conversation, with SNAPSHOT."
  (let* ((history (efrit-session-history session))
         (content (efrit-session-content session))
         (answered (efrit-session--answer-calls session content)))
    (efrit-history-add
     history "message" nil
     :message (apply #'efrit-history-results-message history
                     (delq nil
                           (list (unless answered (efrit-history-text content))
                                 (when (eq (efrit-session-kind session) 'command)
                                   (efrit-history-text
                                    (efrit-history-serialize
                                     `((context . ,snapshot)))))))))
    (setf (efrit-session-state session) 'ask)))

(defun efrit-session--answer-calls (session content)
  "Give the calls an earlier request of SESSION left open their results.
A question gets CONTENT; return non-nil when there was one."
  (let ((history (efrit-session-history session)) answered)
    (dolist (call (efrit-history-open-calls history) answered)
      (cond ((and (equal (alist-get 'name call) "request_user_input") (not answered))
             (setq answered t)
             (efrit-session--record session call "success" content))
            (t (efrit-session--leave-call session call))))))

(defun efrit-session--leave-call (session call)
  "Give CALL, which was not brought to its end, a result in SESSION."
  (if (efrit-history-begun-p (efrit-session-history session) call)
      (efrit-session--record session call "interrupted"
                             "It was interrupted; what it did is unknown.")
    (efrit-session--record session call "refused" "It was not run.")))

(defun efrit-session--resume (session)
  "Go on with SESSION where an Emacs that has ended left it."
  (let* ((history (efrit-session-history session))
         (last (car (efrit-history-messages history)))
         (open (efrit-history-open-calls history)))
    (dolist (call open)
      (when (efrit-history-begun-p history call)
        (efrit-session--leave-call session call)))
    (cond ((equal (alist-get 'role last) "user")
           (setf (efrit-session-state session) 'ask))
          ((efrit-session--unified-p session)
           (if (efrit-history-begun history)
               (efrit-session--say session
                                   (efrit-session--unified-outcome
                                    session "interrupted"
                                    "It was interrupted; what it did is unknown."))
             (efrit-session--take-content session (alist-get 'content last) "end_turn")))
          (t
           (efrit-session--take-content session (alist-get 'content last) "tool_use")
           (setf (efrit-session-calls session) (efrit-history-open-calls history))))))

(defun efrit-session--say (session text)
  "Put TEXT into the conversation of SESSION, for the model to read."
  (efrit-history-add (efrit-session-history session) "message" nil
                     :message `((role . "user")
                                (content . [,(efrit-history-text text)])))
  (setf (efrit-session-state session) 'ask))

;;;; Whose step is next

(defun efrit-session-ready-p (session)
  "Return non-nil when SESSION waits for nothing but its turn."
  (or (efrit-session-ordered session)
      (not (memq (efrit-session-state session) '(asking acting)))))

(defun efrit-session-next ()
  "Return the session whose step is next, or nil; its next one comes last."
  (let ((session (seq-find #'efrit-session-ready-p efrit-sessions)))
    (when session
      (setq efrit-sessions (append (remq session efrit-sessions) (list session))))
    session))

(defun efrit-session-look ()
  "Note which sessions are to end: by order, or because their time is over."
  (dolist (session efrit-sessions)
    (unless (efrit-session-ordered session)
      (setf (efrit-session-ordered session) (efrit-session--order session)))
    ;; Code of a request may have removed what the call lives on.
    (when (and (efrit-session-call session) (eq (efrit-session-state session) 'asking))
      (efrit-model-tend (efrit-session-call session)))))

(defun efrit-session--order (session)
  "Return why SESSION is to end now, or nil."
  (let ((now (float-time)) (until (efrit-session--turn-end session)))
    (or (efrit-interrupt-ordered (efrit-session-request-id session))
        (and (>= now (efrit-session-deadline session)) "TimedOut")
        (and until (>= now until) "BudgetExhausted"))))

(defun efrit-session--turn-end (session)
  "Return when the turn of SESSION must be over, or nil."
  (let ((seconds (plist-get (efrit-session-budget session) :iteration-seconds)))
    (and seconds (efrit-session-turn-started session)
         (+ seconds (efrit-session-turn-started session)))))

(defun efrit-session--wall (session)
  "Return when what SESSION does now must be over."
  (min (efrit-session-deadline session)
       (or (efrit-session--turn-end session) (efrit-session-deadline session))))

(defun efrit-session-step (session)
  "Do the next step of SESSION; return non-nil when it is over.
Signal `file-error' when the step could not be recorded: it is done again then."
  (condition-case err
      (progn
        (unless (efrit-session-ordered session)
          (setf (efrit-session-ordered session) (efrit-session--order session)))
        (cond ((eq (efrit-session-state session) 'over))
              ((efrit-session-ordered session) (efrit-session--stop session))
              (t (efrit-session--go-on session))))
    (file-error (signal (car err) (cdr err)))
    (error (efrit-session--fail session err)))
  (when (eq (efrit-session-state session) 'over)
    (setq efrit-sessions (remq session efrit-sessions))
    t))

(defun efrit-session--go-on (session)
  "Do what the state of SESSION says."
  (pcase (efrit-session-state session)
    ('begin (efrit-session--begin session))
    ('ask (efrit-session--ask session))
    ('reply (efrit-session--take-reply session))
    ('failed (efrit-session--take-failure session))
    ('act (efrit-session--act session))
    ('acted (efrit-session--take-outcome session))))

(defun efrit-session--wake ()
  "Have the sessions go on where no server does that."
  (run-with-timer 0 nil #'efrit-session-work))

(defun efrit-session-work ()
  "Do the steps that are due, where no server does that."
  (let ((session (efrit-session-next)))
    (when session
      (when (and (efrit-session-step session) (efrit-session-on-end session))
        (funcall (efrit-session-on-end session) session))
      (efrit-session--wake))))

;;;; Asking

(defun efrit-session--ask (session)
  "Ask the model, unless the budget of SESSION has no room for it."
  (let* ((history (efrit-session-history session))
         (progress (efrit-session-progress session))
         (spent (efrit-session--spent session)))
    (if spent
        (efrit-session--end session "BudgetExhausted" :error spent)
      (setf (efrit-session-turn-started session) (float-time)
            (efrit-session-streamed session) nil
            (efrit-session-state session) 'asking
            (efrit-progress-step progress) (1+ (efrit-history-turns history)))
      (efrit-progress-note progress "turn" :step (efrit-progress-step progress))
      (efrit-progress-tell progress)
      (setf (efrit-session-call session) (efrit-session--call-model session)))))

(defun efrit-session--spent (session)
  "Return which part of the budget of SESSION leaves no room for a turn, or nil."
  (let ((budget (efrit-session-budget session))
        (history (efrit-session-history session)))
    (cl-flet ((spent-p (key figure)
                (let ((most (plist-get budget key))) (and most (>= figure most)))))
      (cond ((spent-p :iterations (efrit-history-turns history))
             "The budget of turns is used up (maxIterations)")
            ((spent-p :tokens (efrit-history-tokens history))
             "The budget of tokens is used up (maxTokens)")))))

(defun efrit-session--call-model (session)
  "Send the conversation of SESSION to the model; return the call."
  (efrit-model-ask
   (efrit-session--body session)
   :on-text (lambda (text) (efrit-session--note-text session text))
   :on-done (lambda (reply)
              (setf (efrit-session-reply session) reply)
              (efrit-session--come-to session 'asking 'reply))
   :on-error (lambda (failure)
               (setf (efrit-session-failure session) failure)
               (efrit-session--come-to session 'asking 'failed))
   :on-retry (lambda (failure delay) (efrit-session--note-retry session failure delay))
   :deadline (efrit-session--wall session)))

(defun efrit-session--body (session)
  "Return what is sent to the model for SESSION."
  (let ((messages (efrit-history-to-send (efrit-session-history session))))
    `((system . ,(efrit-session--system session))
      ,@(cond ((efrit-session--unified-p session) nil)
              ((eq (efrit-session-kind session) 'command)
               `((tools . ,(efrit-tools-offered (efrit-session-world session)))))
              ;; The calls in what was said before must be known, and none may be made.
              ((efrit-session--calls-in-p messages)
               `((tools . ,(efrit-tools-offered (efrit-session-world session)))
                 (tool_choice . ((type . "none"))))))
      (messages . ,messages))))

(defun efrit-session--system (session)
  "Return the system prompt of SESSION."
  (cond ((eq (efrit-session-kind session) 'chat) efrit-prompt-chat)
        ((efrit-session--unified-p session) efrit-prompt-elisp)
        (t efrit-prompt-tools)))

(defun efrit-session--calls-in-p (messages)
  "Return non-nil when a tool is called in MESSAGES."
  (seq-some (lambda (message)
              (seq-some (lambda (block) (equal (alist-get 'type block) "tool_use"))
                        (alist-get 'content message)))
            messages))

(defun efrit-session--come-to (session from to)
  "Note that SESSION has come from state FROM to state TO, and have it go on."
  (when (eq (efrit-session-state session) from)
    (setf (efrit-session-state session) to)
    (funcall efrit-session-wake-function)))

(defun efrit-session--note-text (session text)
  "Tell that the model of SESSION has said TEXT."
  (push text (efrit-session-streamed session))
  (efrit-progress-note (efrit-session-progress session) "text"
                       :text (efrit-print-clean text)))

(defun efrit-session--note-retry (session failure delay)
  "Tell that the model of SESSION is asked again after DELAY because of FAILURE."
  (setf (efrit-session-streamed session) nil)
  (efrit-session--count-failure session failure)
  (efrit-progress-note (efrit-session-progress session) "retry"
                       :kind (efrit-model-error-kind failure)
                       :message (efrit-print-clean (efrit-model-error-message failure))
                       :delay (float delay)))

(defun efrit-session--count-failure (session failure)
  "Count FAILURE among the errors of the model of SESSION."
  (cl-incf (alist-get (intern (efrit-model-error-kind failure))
                      (efrit-session-model-errors session) 0)))

;;;; What the model says

(defun efrit-session--take-reply (session)
  "Record the reply of the model to SESSION and do what it says."
  (let* ((reply (efrit-session-reply session))
         (content (efrit-model-reply-content reply))
         (usage (efrit-model-reply-usage reply))
         (tokens (cl-loop for (_ number) on usage by #'cddr sum (or number 0))))
    (unless (seq-empty-p content)
      (efrit-history-add (efrit-session-history session) "message" t
                         :message `((role . "assistant") (content . ,content))
                         :tokens tokens))
    (setf (efrit-session-reply session) nil
          (efrit-session-streamed session) nil)
    (cl-incf (efrit-session-model-calls session))
    (efrit-session--count-usage session usage tokens)
    (efrit-session--take-content session content (efrit-model-reply-stop-reason reply))))

(defun efrit-session--count-usage (session usage tokens)
  "Add USAGE, of TOKENS in all, to what SESSION has used."
  (cl-loop for (key number) on usage by #'cddr
           do (setf (plist-get (efrit-session-usage session) key)
                    (+ (or number 0) (or (plist-get (efrit-session-usage session) key) 0))))
  (cl-incf (efrit-progress-tokens (efrit-session-progress session)) tokens))

(defun efrit-session--take-content (session content stop-reason)
  "Do what the CONTENT of an answer to SESSION says; STOP-REASON says why it ended."
  (let ((calls (seq-filter (lambda (block) (equal (alist-get 'type block) "tool_use"))
                           content))
        (text (mapconcat (lambda (block)
                           (if (equal (alist-get 'type block) "text")
                               (alist-get 'text block) ""))
                         content "")))
    (unless (string-blank-p text)
      (setf (efrit-session-text session) text)
      (efrit-progress-say (efrit-session-progress session) text))
    (cond ((equal stop-reason "refusal")
           (efrit-session--end session "ModelError" :code "refusal"
                               :error "The model refused to answer"))
          ((equal stop-reason "pause_turn") (setf (efrit-session-state session) 'ask))
          ((equal stop-reason "max_tokens") (efrit-session--take-cut session calls))
          ((eq (efrit-session-kind session) 'chat) (efrit-session--complete session text))
          ((efrit-session--unified-p session) (efrit-session--take-unified session text))
          (calls (setf (efrit-session-calls session) calls
                       (efrit-session-state session) 'act))
          ((efrit-session--todos-open-p session)
           (efrit-session--end session "Partial"
                               :error "The model ended its turn before all todos were completed"))
          (t (efrit-session--complete session text)))))

(defun efrit-session--take-cut (session calls)
  "Go on with SESSION after an answer cut at its limit of tokens, with CALLS in it."
  (if (or (null calls) (eq (efrit-session-kind session) 'chat))
      (efrit-session--end session "Partial"
                          :error "The model's answer was cut at its limit of tokens (maxTokens)")
    ;; The last call may lack its end: none is run, and the model is told.
    (dolist (call calls)
      (efrit-session--record session call "refused"
                             "It was not run: the answer was cut at its limit of tokens."))
    (setf (efrit-session-calls session) nil
          (efrit-session-state session) 'act)))

(defun efrit-session--todos-open-p (session)
  "Return non-nil when the model of SESSION has todos that are not done with."
  (seq-some (lambda (todo)
              (not (member (alist-get 'status todo) '("completed" "cancelled"))))
            (efrit-world-todos (efrit-session-world session))))

(defun efrit-session--take-failure (session)
  "End SESSION, whose model could not be asked."
  (let ((failure (efrit-session-failure session)))
    (efrit-session--count-failure session failure)
    (efrit-session--end session "ModelError"
                        :code (efrit-model-error-kind failure)
                        :error (efrit-print-clean (efrit-model-error-message failure)))))

;;;; One protocol for everything: Lisp and what becomes of the session

(defun efrit-session--unified-p (session)
  "Return non-nil when the model of SESSION answers with Lisp."
  (and (eq (efrit-session-kind session) 'command)
       (equal efrit-model-protocol "elisp")))

(defun efrit-session--take-unified (session text)
  "Do what TEXT, an answer with Lisp to SESSION, says."
  (let* ((json (condition-case nil (efrit-history-parse (string-trim text)) (error nil)))
         (elisp (and (consp json) (alist-get 'elisp json)))
         (about (and (consp json) (alist-get 'session json)))
         (status (and (consp about) (alist-get 'status about))))
    (if (and (stringp elisp) (member status '("continue" "complete" "need-input")))
        (setf (efrit-session-unified session) about
              (efrit-session-calls session)
              `(((type . "tool_use") (id . "elisp") (name . "eval_sexp")
                 (input . ((expr . ,elisp)))))
              (efrit-session-state session) 'act)
      (setf (efrit-session-unified session) nil
            (efrit-session-calls session)
            `(((type . "tool_use") (id . "elisp") (name . "") (input . nil)))
            (efrit-session-state session) 'act))))

(defun efrit-session--unified-outcome (session status text)
  "Return what the model of SESSION is told: STATUS and TEXT, and a short log."
  (let ((history (efrit-session-history session)))
    (efrit-history-serialize
     `((status . ,status)
       (result . ,(efrit-print-clean text))
       (session . ((id . ,(efrit-history-id history))))
       (log . ((steps . ,(efrit-history-calls history))
               (elapsed_seconds . ,(- (float-time) (efrit-session-started session)))))))))

(defun efrit-session--take-unified-outcome (session result)
  "Tell the model of SESSION the RESULT of its Lisp, or end as it said."
  (let* ((status (efrit-tool-result-status result))
         (content (efrit-tool-result-content result))
         (about (efrit-session-unified session))
         (question (alist-get 'question about)))
    (pcase (and (equal status "success") (alist-get 'status about))
      ("complete" (efrit-session--complete session content))
      ("need-input"
       (efrit-session--need-input session (if (stringp question) question content)))
      (_ (efrit-session--say session
                             (efrit-session--unified-outcome session status content))))))

;;;; Acting

(defun efrit-session--act (session)
  "Run the next call of the model of SESSION, or tell it the results of all."
  (let ((call (car (efrit-session-calls session))))
    (cond ((null call)
           (efrit-history-add (efrit-session-history session) "message" nil
                              :message (efrit-history-results-message
                                        (efrit-session-history session)))
           (setf (efrit-session-state session) 'ask))
          ((efrit-session--break session call))
          (t (efrit-session--begin-call session call)))))

(defun efrit-session--break (session call)
  "End SESSION when CALL is one too many; return non-nil then."
  (let* ((signature (list (alist-get 'name call)
                          (efrit-history-serialize (alist-get 'input call))))
         (repeats (if (equal signature (efrit-session-last-call session))
                      (1+ (efrit-session-repeats session))
                    1))
         (calls (efrit-history-calls (efrit-session-history session)))
         (budget (plist-get (efrit-session-budget session) :tool-calls)))
    (cond ((and budget (>= calls budget))
           (efrit-session--end session "BudgetExhausted"
                               :error "The budget of tool calls is used up (maxToolCalls)")
           t)
          ((and (null budget) (>= calls efrit-max-tool-calls))
           (efrit-session--end session "CircuitBroken"
                               :error (format "More than %d tool calls" efrit-max-tool-calls))
           t)
          ((> repeats efrit-max-repeated-calls)
           (efrit-session--end
            session "CircuitBroken"
            :error (format "More than %d times the same call of %s in a row"
                           efrit-max-repeated-calls (car signature)))
           t)
          (t (setf (efrit-session-last-call session) signature
                   (efrit-session-repeats session) repeats)
             nil))))

(defun efrit-session--begin-call (session call)
  "Run CALL of the model of SESSION."
  (let ((name (alist-get 'name call))
        (progress (efrit-session-progress session)))
    (efrit-history-add (efrit-session-history session) "begun" nil
                       :call (alist-get 'id call))
    (setf (efrit-progress-tool-calls progress)
          (efrit-history-calls (efrit-session-history session)))
    (when (string-blank-p (efrit-session-text session)) (efrit-progress-say progress name))
    (efrit-progress-note progress "tool" :name name :call (alist-get 'id call)
                         :input (alist-get 'input call))
    (efrit-progress-tell progress)
    (pop (efrit-session-calls session))
    (setf (efrit-session-current session) call
          (efrit-session-outcome session) nil
          (efrit-session-stop session) nil
          (efrit-world-deadline (efrit-session-world session)) (efrit-session--wall session)
          (efrit-session-state session) 'acting)
    (efrit-session--start-tool session name (alist-get 'input call))))

(defun efrit-session--start-tool (session name input)
  "Start the tool NAME of SESSION with INPUT."
  (let ((done (lambda (result)
                (when (and (eq (efrit-session-state session) 'acting)
                           (null (efrit-session-outcome session)))
                  (setf (efrit-session-outcome session) result)
                  (efrit-session--come-to session 'acting 'acted))))
        (world (efrit-session-world session)))
    (setf (efrit-session-stop session)
          (cond ((member name '("session_complete" "request_user_input"))
                 (funcall done (efrit-session--control name input world))
                 nil)
                ((not (efrit-session--unified-p session))
                 (efrit-tool-start name input world done))
                ((equal name "") (funcall done (efrit-session--not-unified)) nil)
                (t (funcall done (efrit-tools-eval-call #'efrit-tools-eval-sexp input world))
                   nil)))))

(defun efrit-session--not-unified ()
  "Return the result of an answer that is not what the protocol says."
  (efrit-tool-result-make
   "refused"
   (concat "Nothing was run: the answer must be one JSON object with a string `elisp' "
           "and `session.status' continue, complete or need-input")))

(defun efrit-session--control (name input world)
  "Return the result of the tool NAME, which ends the request, called with INPUT.
WORLD is that of the session."
  (or (efrit-tool-refusal name input world)
      (efrit-tool-result-make
       "success"
       (alist-get (if (equal name "session_complete") 'message 'question) input))))

(defun efrit-session--record (session call status content)
  "Record in SESSION that CALL ended with STATUS and CONTENT."
  (let ((text (efrit-print-clean content)))
    (efrit-history-add
     (efrit-session-history session) "result" nil
     :call (alist-get 'id call)
     :block `((type . "tool_result")
              (tool_use_id . ,(alist-get 'id call))
              (content . ,(vconcat (list (efrit-history-text (concat "status: " status)))
                                   (unless (string-empty-p text)
                                     (list (efrit-history-text text)))))
              (is_error . ,(if (equal status "success") :false t)))
     :world (efrit-world-to-json (efrit-session-world session)))
    (efrit-progress-note (efrit-session-progress session) "result"
                         :name (alist-get 'name call) :call (alist-get 'id call)
                         :status status :content text)))

(defun efrit-session--take-outcome (session)
  "Record what came of the call of SESSION, and go on or end as it said."
  (let* ((call (efrit-session-current session))
         (name (alist-get 'name call))
         (result (efrit-session-outcome session))
         (content (efrit-tool-result-content result))
         (success (equal (efrit-tool-result-status result) "success")))
    (efrit-session--record-outcome session)
    (cond ((efrit-session--unified-p session)
           (efrit-session--take-unified-outcome session result))
          ((and success (equal name "request_user_input"))
           (efrit-session--need-input session content))
          ((and success (or (equal name "session_complete")
                            (eq t (alist-get 'final (alist-get 'input call)))))
           (efrit-session--complete session content))
          (t (setf (efrit-session-state session) 'act)))))

(defun efrit-session--record-outcome (session)
  "Record what came of the call of SESSION.
A question stays open: its result is what the user answers."
  (let* ((call (efrit-session-current session))
         (result (efrit-session-outcome session))
         (status (efrit-tool-result-status result)))
    (unless (and (equal (alist-get 'name call) "request_user_input")
                 (equal status "success"))
      (efrit-session--record session call status (efrit-tool-result-content result)))))

;;;; The end

(defun efrit-session--stop (session)
  "End SESSION as it was ordered."
  (let ((reason (efrit-session-ordered session)))
    (when (efrit-session-call session) (efrit-model-abort (efrit-session-call session)))
    (let ((stop (efrit-session-stop session)))
      (setf (efrit-session-stop session) nil)
      (when stop (funcall stop)))
    (when (and (eq (efrit-session-state session) 'acted) (efrit-session-outcome session))
      (efrit-session--record-outcome session)
      (setf (efrit-session-outcome session) nil))
    (efrit-session--end
     session reason
     :error (pcase reason
              ("TimedOut" "The time of the request was over")
              ("BudgetExhausted" "A turn took longer than its time (iterationTimeoutSeconds)")
              (_ "The request was cancelled while it ran")))))

(defun efrit-session--complete (session text)
  "End SESSION, whose work is done: TEXT is its result."
  (setf (efrit-session-text session) text)
  (efrit-session--finish session "Succeeded" "Success" "complete"))

(defun efrit-session--need-input (session question)
  "End the request of SESSION with QUESTION for the user."
  (efrit-session--finish session "InputRequired" "Partial" "need-input"
                         :question question
                         :error "The model asks for input: continue the session with the answer"))

(cl-defun efrit-session--end (session reason &key error code)
  "End SESSION early for REASON, told in ERROR and CODE; what was done is kept."
  (let ((streamed (string-join (reverse (efrit-session-streamed session)))))
    (unless (string-blank-p streamed)
      (setf (efrit-session-text session) streamed))
    (efrit-session--finish session reason
                           (if (or (> (efrit-history-calls (efrit-session-history session)) 0)
                                   (not (string-blank-p (efrit-session-text session))))
                               "Partial" "Failure")
                           "continue" :error error :code code)))

(cl-defun efrit-session--finish (session reason outcome status &key error code question)
  "End SESSION for REASON with OUTCOME; STATUS is what becomes of the session.
ERROR, CODE and QUESTION are told as well."
  (let ((seconds (max 0.0 (- (float-time) (efrit-session-started session)))))
    (efrit-history-add (efrit-session-history session) "end" t
                       :request (efrit-session-request-id session)
                       :reason reason :status status)
    (efrit-progress-tell (efrit-session-progress session))
    (efrit-progress-note (efrit-session-progress session) "end"
                         :reason reason :outcome outcome)
    (setf (efrit-session-result session)
          (efrit-result--make :reason reason :outcome outcome
                              :value (efrit-session--value session)
                              :error error :error-code code :seconds seconds
                              :extra (efrit-session--extra session status question))
          (efrit-session-state session) 'over)))

(defun efrit-session--fail (session err)
  "End SESSION because of ERR, an error of the server itself."
  (ignore-errors
    (when (efrit-session-call session) (efrit-model-abort (efrit-session-call session))))
  (setf (efrit-session-result session)
        (efrit-result--make
         :reason "ModelError" :error-code (car err)
         :outcome (if (> (efrit-history-calls (efrit-session-history session)) 0)
                      "Partial" "Failure")
         :error (concat "The server failed: "
                        (efrit-print-clean (error-message-string err)))
         :extra (efrit-session--extra session "continue" nil))
        (efrit-session-state session) 'over))

(defun efrit-session--value (session)
  "Return the result of SESSION as an `efrit-print'."
  (let* ((text (efrit-print-clean (efrit-session-text session)))
         (limit (or (efrit-session-limit session) efrit-max-result-bytes))
         (head (efrit-print-head text limit)))
    (efrit-print--make :text head :bytes (string-bytes text)
                       :truncated (< (string-bytes head) (string-bytes text)))))

(defun efrit-session--extra (session status question)
  "Return what an answer tells of SESSION: its STATUS, a QUESTION, its figures."
  (let ((usage (efrit-session-usage session)))
    `((session . ((id . ,(efrit-history-id (efrit-session-history session)))
                  (status . ,status)
                  (question . ,(if question (efrit-print-clean question) :null))))
      (progress . ,(efrit-progress-json (efrit-session-progress session)))
      (usage . ((input_tokens . ,(plist-get usage :input))
                (output_tokens . ,(plist-get usage :output))
                (cache_read_tokens . ,(plist-get usage :cache-read))
                (cache_write_tokens . ,(plist-get usage :cache-write))
                (model_calls . ,(efrit-session-model-calls session))
                (model_errors . ,(efrit-session-model-errors session)))))))

(provide 'efrit-session)
;;; efrit-session.el ends here
