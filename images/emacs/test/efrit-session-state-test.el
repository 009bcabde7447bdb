;;; efrit-session-state-test.el --- Tests of the states of a session  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Each event in each state: it leads to the state that the table says, or is refused.

;;; Code:

(require 'ert)
(require 'cl-lib)
;; What is compiled inline calls functions of it that are not autoloaded.
(require 'cl-macs)
(require 'seq)
(require 'efrit-session-state)
(require 'efrit-session-scheduler)

(defconst efrit-session-state-test--events
  '((message-recorded . (efrit-session-message-recorded))
    (turn-started . (efrit-session-turn-started))
    (reply-received . (efrit-session-reply-received reply))
    (model-failed . (efrit-session-model-failed failure))
    (reply-recorded . (efrit-session-reply-recorded [] "end_turn" nil))
    (turn-paused . (efrit-session-turn-paused))
    (calls-found . (efrit-session-calls-found (call)))
    (result-found . (efrit-session-result-found result))
    (call-started . (efrit-session-call-started))
    (call-finished . (efrit-session-call-finished result))
    (result-recorded . (efrit-session-result-recorded))
    (end-decided . (efrit-session-end-decided (:reason "Succeeded")))
    (answered . (efrit-session-answered result))
    (server-failed . (efrit-session-server-failed result)))
  "Each event, with the function that notes it and what that takes.")

(defconst efrit-session-state-test--late '(reply-received model-failed call-finished)
  "The events that processes tell of, which may come too late.")

(defun efrit-session-state-test--note (event session)
  "Note EVENT in SESSION; return t, or `refused'."
  (pcase-let ((`(,function . ,arguments) (alist-get event efrit-session-state-test--events)))
    (condition-case nil
        (progn (apply function session arguments) t)
      (efrit-session-out-of-order 'refused))))

(defun efrit-session-state-test--slots (session)
  "Return the values of the slots of SESSION."
  (mapcar (lambda (slot) (cl-struct-slot-value 'efrit-session (car slot) session))
          (seq-filter (lambda (slot) (not (eq (car slot) 'cl-tag-slot)))
                      (cl-struct-slot-info 'efrit-session))))

(defmacro efrit-session-state-test--each (&rest body)
  "Run BODY for each STATE and EVENT, with NEXT by the table, SESSION and WOKEN."
  (declare (indent 0) (debug t))
  `(pcase-dolist (`(,state . ,transitions) efrit-session-transitions)
     (dolist (event (mapcar #'car efrit-session-state-test--events))
       (let* ((next (alist-get event transitions))
              (session (efrit-session-make :state state :calls (list 'call)))
              (woken 0)
              (efrit-session-wake-function (lambda () (cl-incf woken))))
         (ignore next session woken)
         (ert-info ((format "%s in the state %s" event state))
           ,@body)))))

(ert-deftest efrit-session-state-each-event-leads-where-the-table-says ()
  (efrit-session-state-test--each
    (when next
      (should (eq (efrit-session-state-test--note event session) t))
      (should (eq (efrit-session-state session) next))
      ;; What a process tells comes at any time: the step is done later.
      (should (= woken (if (memq event efrit-session-state-test--late) 1 0))))))

(ert-deftest efrit-session-state-every-other-event-is-refused-and-changes-nothing ()
  (efrit-session-state-test--each
    (unless next
      (let ((before (efrit-session-state-test--slots session)))
        (should (eq (efrit-session-state-test--note event session)
                    (if (memq event efrit-session-state-test--late) t 'refused)))
        (should (equal (efrit-session-state-test--slots session) before))
        (should (= woken 0))))))

(ert-deftest efrit-session-state-the-table-has-no-event-that-nothing-notes ()
  (let ((events (seq-uniq (seq-mapcat (lambda (row) (mapcar #'car (cdr row)))
                                      efrit-session-transitions)))
        (states (mapcar #'car efrit-session-transitions)))
    (should-not (seq-difference events (mapcar #'car efrit-session-state-test--events)))
    (should-not (seq-difference (mapcar #'car efrit-session-state-test--events) events))
    (pcase-dolist (`(,_ . ,transitions) efrit-session-transitions)
      (should-not (seq-difference (mapcar #'cdr transitions) states)))))

(defun efrit-session-state-test--reached (from)
  "Return the states that are reached from FROM, itself among them."
  (let ((reached (list from)) (waiting (list from)))
    (while waiting
      (pcase-dolist (`(,_ . ,next) (alist-get (pop waiting) efrit-session-transitions))
        (unless (memq next reached)
          (push next reached)
          (push next waiting))))
    reached))

(ert-deftest efrit-session-state-all-are-reached-and-each-comes-to-an-end ()
  (let ((states (mapcar #'car efrit-session-transitions)))
    (should-not (seq-difference states (efrit-session-state-test--reached 'begin)))
    (dolist (state states)
      (should (memq 'over (efrit-session-state-test--reached state))))))

(ert-deftest efrit-session-state-each-has-a-step-or-waits-or-is-the-last ()
  (dolist (state (mapcar #'car efrit-session-transitions))
    (ert-info ((symbol-name state))
      (let ((step (alist-get state efrit-session-steps)))
        (if (memq state (cons 'over efrit-session-waiting-states))
            (should-not step)
          (should (functionp step)))))))

(ert-deftest efrit-session-state-a-result-that-comes-twice-counts-once ()
  (let ((session (efrit-session-make :state 'acting)) (efrit-session-wake-function #'ignore))
    (efrit-session-call-finished session 'first)
    (efrit-session-call-finished session 'second)
    (should (eq (efrit-session-outcome session) 'first))))

(provide 'efrit-session-state-test)
;;; efrit-session-state-test.el ends here
