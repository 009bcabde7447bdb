;;; efrit-session-state.el --- The state of a chat or a command under way  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What is known of the work on one request of a session, and all that changes it:
;; each function below is an event in the life of a session, and the slots are set
;; here and nowhere else.  The state of a session names what its next step is;
;; `efrit-session-transitions' says which event leads from which state to which.
;;
;; In `asking' and `acting' a session waits for a process.  What that process says may
;; come while the code of another request runs, so it is only noted, and the step is
;; done later; what comes too late is left alone.

;;; Code:

(require 'cl-lib)
(require 'efrit-settings)
(require 'efrit-clock)
(require 'efrit-print)

(declare-function efrit-session-wake "efrit-session-scheduler" ())

(cl-defstruct (efrit-session (:constructor efrit-session-make))
  "The work on one request of a session.
KIND is `chat' or `command'; CLAIM nil for work that came from no file.  BUDGET
is a plist as in `efrit-request', DIRECTORY too.  CONTEXT is what its tools work
on.  ORDERED is why it is to end now, or nil.
SAID is what the model said last, as (CONTENT . STOP-REASON); ENDING the members of
the record of its end, once that is decided; RESULT the `efrit-result' once STATE is
`over'.  While the next step cannot be recorded, RECORD-ERROR says why, FAILURES
how often it was tried and RETRY-AT (a float) when it is tried again."
  claim request-id kind content budget deadline limit history context progress
  (state 'begin) ordered call reply failure unified
  calls current outcome stop started turn-started-at
  (text "") streamed (usage (list :input 0 :output 0 :cache-read 0 :cache-write 0))
  (model-calls 0) model-errors unreadable result on-end
  said ending record-error (failures 0) retry-at directory)

(defvar efrit-session-wake-function #'efrit-session-wake
  "Called when a session has something to do; it must not do it at once.")

;;;; States and events

(defconst efrit-session-transitions
  '((begin  (message-recorded . ask)   ; What is asked.
            (reply-recorded . said)    ; By an Emacs that has ended.
            (answered . over)          ; The end was recorded by such an Emacs.
            (end-decided . ending) (server-failed . over))
    (ask    (turn-started . asking)
            (end-decided . ending) (server-failed . over))
    (asking (reply-received . reply) (model-failed . failed)
            (end-decided . ending) (server-failed . over))
    (reply  (reply-recorded . said)
            (end-decided . ending) (server-failed . over))
    (said   (calls-found . act)
            (turn-paused . ask)        ; The model goes on when it is asked again.
            (end-decided . ending) (server-failed . over))
    (failed (end-decided . ending) (server-failed . over))
    (act    (call-started . acting)
            (result-found . acted)     ; From an Emacs that has ended.
            (message-recorded . ask)   ; The results of all calls.
            (end-decided . ending) (server-failed . over))
    (acting (call-finished . acted)
            (end-decided . ending) (server-failed . over))
    (acted  (result-recorded . act)
            (message-recorded . ask)   ; The result of an answer with Lisp.
            (end-decided . ending) (server-failed . over))
    (ending (answered . over) (server-failed . over))
    (over))
  "The states of a session, each with its events and the states they lead to.")

(defconst efrit-session-waiting-states '(asking acting)
  "The states in which a session waits for a process.")

(define-error 'efrit-session-out-of-order "The state of the session has no such event"
  'efrit-error)

(defun efrit-session-next-state (session event)
  "Return the state that EVENT leads SESSION to, nil when its state has no EVENT."
  (alist-get event (alist-get (efrit-session-state session) efrit-session-transitions)))

(defun efrit-session--change-state (session event)
  "Have SESSION be in the state that EVENT leads to."
  (setf (efrit-session-state session)
        (or (efrit-session-next-state session event)
            (signal 'efrit-session-out-of-order  ; gate: session-event
                    (list (efrit-session-state session) event)))))

(defun efrit-session--arrived (session event)
  "Note EVENT, which a process has reported, and have SESSION go on."
  (efrit-session--change-state session event)
  (funcall efrit-session-wake-function))

;;;; Turns of the model

(defun efrit-session-message-recorded (session)
  "Note that SESSION has a message that the model is to be asked about."
  (efrit-session--change-state session 'message-recorded))

(defun efrit-session-turn-started (session)
  "Note that a turn of the model of SESSION has started."
  (efrit-session--change-state session 'turn-started)
  (setf (efrit-session-turn-started-at session) (efrit-clock)
        (efrit-session-streamed session) nil))

(defun efrit-session-model-called (session call)
  "Note that CALL is what asks the model of SESSION."
  (setf (efrit-session-call session) call))

(defun efrit-session-text-streamed (session text)
  "Note that the model of SESSION has said TEXT, of a reply that is not whole."
  (push text (efrit-session-streamed session)))

(defun efrit-session-turn-retried (session)
  "Note that the model of SESSION is asked again, and begins from the start."
  (setf (efrit-session-streamed session) nil))

(defun efrit-session-count-model-error (session kind)
  "Count an error of KIND, a symbol, of the model of SESSION."
  (cl-incf (alist-get kind (efrit-session-model-errors session) 0)))

(defun efrit-session-reply-received (session reply)
  "Note the REPLY of the model to SESSION, unless it comes too late."
  (when (efrit-session-next-state session 'reply-received)  ; gate: late-reply
    (setf (efrit-session-reply session) reply)
    (efrit-session--arrived session 'reply-received)))

(defun efrit-session-model-failed (session failure)
  "Note the FAILURE to ask the model of SESSION, unless it comes too late."
  (when (efrit-session-next-state session 'model-failed)
    (setf (efrit-session-failure session) failure)
    (efrit-session--arrived session 'model-failed)))

(defun efrit-session-reply-recorded (session content stop-reason unreadable)
  "Note that the model of SESSION has said CONTENT and ended for STOP-REASON.
UNREADABLE are the inputs in it that are not JSON objects."
  (efrit-session--change-state session 'reply-recorded)
  (setf (efrit-session-said session) (cons content stop-reason)
        (efrit-session-unreadable session) unreadable
        (efrit-session-reply session) nil
        (efrit-session-streamed session) nil))

(defun efrit-session-count-model-call (session usage)
  "Count a call of the model of SESSION, and USAGE, a plist of tokens."
  (cl-incf (efrit-session-model-calls session))
  (cl-loop for (key number) on usage by #'cddr
           do (setf (plist-get (efrit-session-usage session) key)
                    (+ (or number 0) (or (plist-get (efrit-session-usage session) key) 0)))))

(defun efrit-session-turn-paused (session)
  "Note that the model of SESSION goes on when it is asked again."
  (efrit-session--change-state session 'turn-paused))

(defun efrit-session-keep-text (session text)
  "Have TEXT be what the answer of SESSION says."
  (setf (efrit-session-text session) text))

;;;; Calls of tools

(defun efrit-session-calls-found (session calls &optional unified)
  "Note that the model of SESSION makes CALLS.
UNIFIED is what it said beside its Lisp, where it answers with that."
  (efrit-session--change-state session 'calls-found)
  (setf (efrit-session-calls session) calls
        (efrit-session-unified session) unified))

(defun efrit-session-result-found (session result)
  "Note that the next call of SESSION had RESULT from an earlier Emacs."
  (efrit-session--change-state session 'result-found)
  (setf (efrit-session-current session) (pop (efrit-session-calls session))
        (efrit-session-outcome session) result))

(defun efrit-session-call-started (session)
  "Note that the next call of SESSION is under way."
  (efrit-session--change-state session 'call-started)
  (setf (efrit-session-current session) (pop (efrit-session-calls session))
        (efrit-session-outcome session) nil
        (efrit-session-stop session) nil))

(defun efrit-session-call-stoppable (session stop)
  "Note that STOP, a function or nil, stops the call of SESSION under way."
  (setf (efrit-session-stop session) stop))

(defun efrit-session-call-finished (session result)
  "Note the RESULT of the call of SESSION, unless it comes twice or too late."
  (when (efrit-session-next-state session 'call-finished)
    (setf (efrit-session-outcome session) result)
    (efrit-session--arrived session 'call-finished)))

(defun efrit-session-result-recorded (session)
  "Note that SESSION goes on with its next call."
  (efrit-session--change-state session 'result-recorded))

;;;; The end

(defun efrit-session-ordered-to-end (session reason)
  "Note that SESSION is to end because of REASON; nil when it is not."
  (setf (efrit-session-ordered session) reason))

(defun efrit-session-outcome-kept (session)
  "Note that what came of the call of SESSION is recorded, or cannot be."
  (setf (efrit-session-outcome session) nil))

(defun efrit-session-end-decided (session ending)
  "Note that SESSION ends with ENDING, the members of the record of its end."
  (efrit-session--change-state session 'end-decided)
  (setf (efrit-session-ending session) ending))

(defun efrit-session-answered (session result)
  "Note that RESULT is what the request of SESSION is answered."
  (efrit-session--change-state session 'answered)
  (setf (efrit-session-result session) result))

(defun efrit-session-server-failed (session result)
  "Note that SESSION ended with RESULT by an error of the server itself."
  (efrit-session--change-state session 'server-failed)
  (setf (efrit-session-result session) result))

;;;; When a record cannot be written

(defvar efrit-session-retry-first 0.1
  "Seconds after which a record that could not be written is tried again.
Each time they double, up to `efrit-session-retry-most'.")

(defconst efrit-session-retry-most 5.0
  "Most seconds between two tries to write a record.")

(defun efrit-session-record-failed (session err)
  "Note that the step of SESSION could not be recorded because of ERR."
  (let ((failures (1+ (efrit-session-failures session))))
    (setf (efrit-session-record-error session)
          (efrit-print-clean (or (cadr err) "unknown error"))
          (efrit-session-failures session) failures
          (efrit-session-retry-at session)
          (+ (efrit-clock)
             (min efrit-session-retry-most
                  (* efrit-session-retry-first (expt 2 (min 10 (1- failures)))))))))

(defun efrit-session-step-recorded (session)
  "Note that the step of SESSION could be recorded."
  (setf (efrit-session-record-error session) nil
        (efrit-session-failures session) 0
        (efrit-session-retry-at session) nil))

(provide 'efrit-session-state)
;;; efrit-session-state.el ends here
