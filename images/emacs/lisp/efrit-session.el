;;; efrit-session.el --- What is known of a chat or a command under way  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The work on one request of a session, and the few things every step needs: when
;; it must be over, how a step is put down, what kind it is.  The steps themselves
;; are in efrit-session-begin.el, -ask.el, -act.el and -end.el; whose step is next
;; is said in efrit-sessions.el.
;;
;; The state of a session names what its next step is:
;;   begin -> ask -> asking -> reply -> said -> act -> acting -> acted -> act ... -> ask
;; and `ending', `over' in the end.  In `asking' and `acting' it waits for a process;
;; what that process says may come while the code of another request runs, so it is
;; only noted, and the step is done later.
;;
;; A step records, then acts: one whose record could not be written has done nothing
;; and is done again after a pause, in which the others go on.


;;; Code:

(require 'cl-lib)
(require 'efrit-settings)
(require 'efrit-json)
(require 'efrit-interrupt)
(require 'efrit-print)
(require 'efrit-secret)
(require 'efrit-history)
(require 'efrit-progress)
(require 'efrit-tool)

(cl-defstruct (efrit-session (:constructor efrit-session--make))
  "The work on one request of a session.
KIND is `chat' or `command'; CLAIM nil for work that came from no file.  BUDGET
is a plist as in `efrit-request', DIRECTORY too.  ORDERED is why it is to end now, or nil.
SAID is what the model said last, as (CONTENT . STOP-REASON); ENDING the members of
the record of its end, once that is decided; RESULT the `efrit-result' once STATE is
`over'.  While the next step cannot be recorded, RECORD-ERROR says why, FAILURES
how often it was tried and RETRY-AT (a float) when it is tried again."
  claim request-id kind content budget deadline limit history world progress
  (state 'begin) ordered call reply failure unified
  calls current outcome stop started turn-started last-call (repeats 0)
  (text "") streamed (usage (list :input 0 :output 0 :cache-read 0 :cache-write 0))
  (model-calls 0) model-errors unreadable result on-end
  said ending record-error (failures 0) retry-at directory)

(defvar efrit-session-wake-function #'efrit-session--wake
  "Called when a session has something to do; it must not do it at once.")

;;;; What kind it is

(defun efrit-session--unified-p (session)
  "Return non-nil when the model of SESSION answers with Lisp."
  (and (eq (efrit-session-kind session) 'command)
       (equal efrit-model-protocol "elisp")))

;;;; When it must be over

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

;;;; When a record cannot be written

(defvar efrit-session-retry-first 0.1
  "Seconds after which a record that could not be written is tried again.
Each time they double, up to `efrit-session--retry-most'.")

(defconst efrit-session--retry-most 5.0
  "Most seconds between two tries to write a record.")

(defun efrit-session--note-record-error (session err)
  "Note that the step of SESSION could not be recorded because of ERR."
  (let ((failures (1+ (efrit-session-failures session))))
    (setf (efrit-session-record-error session) (efrit-print-clean (or (cadr err) "unknown error"))
          (efrit-session-failures session) failures
          (efrit-session-retry-at session)
          (+ (float-time) (min efrit-session--retry-most
                               (* efrit-session-retry-first (expt 2 (min 10 (1- failures)))))))))

(defun efrit-session--clear-record-error (session)
  "Note that the step of SESSION could be recorded."
  (setf (efrit-session-record-error session) nil
        (efrit-session-failures session) 0
        (efrit-session-retry-at session) nil))

(defun efrit-session-pause (session)
  "Return the seconds until the next step of SESSION may be tried, or nil.
Nil means that no record of it has failed."
  (let ((at (efrit-session-retry-at session)))
    (and at
         ;; A clock that was set back must not make the pause longer.
         (max 0.0 (min efrit-session--retry-most (- at (float-time)))))))

;;;; Putting down

(defun efrit-session--come-to (session from to)
  "Note that SESSION has come from state FROM to state TO, and have it go on."
  (when (eq (efrit-session-state session) from)
    (setf (efrit-session-state session) to)
    (funcall efrit-session-wake-function)))

(defun efrit-session--say (session text)
  "Put TEXT into the conversation of SESSION, for the model to read."
  (efrit-history-add (efrit-session-history session) "message" nil
                     :message `((role . "user")
                                (content . [,(efrit-history-text text)])))
  (setf (efrit-session-state session) 'ask))

(defun efrit-session--result-block (call status text)
  "Return the block that tells the model that CALL ended with STATUS and TEXT."
  `((type . "tool_result")
    (tool_use_id . ,(alist-get 'id call))
    ;; One text for both: the API refuses a blank one.
    (content . [,(efrit-history-text (concat "status: " status "\n" text))])
    (is_error . ,(if (equal status "success") :false t))))

(defun efrit-session--block-result (block)
  "Return the `efrit-tool-result' that `efrit-session--result-block' made BLOCK of."
  (let* ((text (alist-get 'text (aref (alist-get 'content block) 0)))
         (end (or (string-search "\n" text) (length text))))
    (efrit-tool-result--make
     :status (string-remove-prefix "status: " (substring text 0 end))
     :content (substring text (min (length text) (1+ end))))))

(defun efrit-session--record (session call status content)
  "Record in SESSION that CALL ended with STATUS and CONTENT."
  (efrit-secret-learn)
  (let ((text (efrit-json-clean content)))
    (efrit-history-add
     (efrit-session-history session) "result" nil
     :call (alist-get 'id call)
     :block (efrit-session--result-block call status text)
     :world (efrit-world-to-json (efrit-session-world session)))
    (efrit-progress-note (efrit-session-progress session) "result"
                         :name (alist-get 'name call) :call (alist-get 'id call)
                         :status status :content text)))

(defun efrit-session--leave-call (session call)
  "Record in SESSION that CALL was not brought to its end."
  (apply #'efrit-session--record session call
         (efrit-session--left-call (efrit-session-history session) call)))

(defun efrit-session--left-call (history call)
  "Return the status and the text that CALL in HISTORY, which has no result, gets."
  (if (efrit-history-begun-p history call)
      '("interrupted" "It was interrupted; what it did is unknown.")
    '("refused" "It was not run.")))

(provide 'efrit-session)
;;; efrit-session.el ends here
