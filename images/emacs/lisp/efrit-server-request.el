;;; efrit-server-request.el --- Answer one request  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; From the claim of a request to its answer, or to the session that it becomes;
;; what cannot be stored is held back until it can.

;;; Code:

(require 'efrit-settings)
(require 'efrit-files)
(require 'efrit-print)
(require 'efrit-queue-fence)
(require 'efrit-queue-request)
(require 'efrit-queue-claim)
(require 'efrit-queue-answer)
(require 'efrit-eval)
(require 'efrit-eval-background)
(require 'efrit-eval-guard)
(require 'efrit-eval-interrupt)
(require 'efrit-eval-limits)
(require 'efrit-eval-watchdog)
(require 'efrit-secret)
(require 'efrit-session-state)
(require 'efrit-session-scheduler)
(require 'efrit-server-health)
(require 'efrit-server-self-check)
(require 'efrit-server-state)

;;;; Serving one request

(defun efrit-server-serve (entry)
  "Claim the request of ENTRY and answer it, or make a session of it.
Return non-nil when its code ran to its end, which puts back functions."
  (let ((claim (efrit-claim-take entry)) settled restored)
    (when claim
      (unwind-protect
          (let (result)
            (efrit-health-begin claim (efrit-server--long-p claim))
            (efrit-background-record nil)
            (setq result (efrit-server--result claim))
            (if (efrit-session-p result)
                (efrit-health-end)
              (setq restored (efrit-server--ran-to-end-p claim result))
              (efrit-server--finish claim result))
            (setq settled t))
        ;; An answer that is made and could not be stored yet is held back.
        (unless (or settled efrit-server-held)
          (efrit-server-give-up "a request could not be answered"))))
    restored))

(defun efrit-server--ran-to-end-p (claim result)
  "Return non-nil when RESULT is that of code of CLAIM that nothing has cut short.
A signal that ends a request may come while what it had redefined is put back."
  (and (equal (efrit-request-type (efrit-claim-request claim)) "eval")
       (equal (efrit-result-reason result) "Succeeded")))

(defun efrit-server--long-p (claim)
  "Return non-nil when the request of CLAIM may keep the heartbeat back for long.
Other hosts then have to know it, and its time, beforehand."
  (and (not efrit-bridge-p)
       (> (or (efrit-request-timeout (efrit-claim-request claim)) 0)
          (/ efrit-takeover-seconds 3.0))))

(defun efrit-server--finish (claim result)
  "Answer the request of CLAIM with RESULT."
  (let ((answer (efrit-server--answer claim result)))
    (unless (efrit-server--sound-p answer)
      (efrit-server-give-up "an answer was not JSON"))
    (efrit-health-count result)
    (efrit-self-check-request-ended)
    (efrit-background-record (efrit-request-id (efrit-claim-request claim)))
    (setq efrit-server-held (lambda () (efrit-server--store answer)))
    (efrit-server-release)))

(defun efrit-server--sound-p (answer)
  "Return non-nil when the text of ANSWER is that of an answer to its request."
  (let ((text (efrit-answer-text answer)))
    (and (stringp text)
         (string-prefix-p "{" text)
         (string-search (format "\"%s\"" (efrit-answer-id answer)) text)
         (string-search "\"status\":" text))))

(defun efrit-server--store (answer)
  "Store ANSWER; see `efrit-answer-store'.
End this Emacs where code has made of that something that stores nothing."
  (efrit-answer-store answer)
  (when (and (efrit-files-isolated
               (file-exists-p (efrit-claim-processing-path (efrit-answer-id answer))))
             (efrit-fence-holds-p))
    (efrit-server-give-up "an answer could not be stored, and no error said so")))

(defun efrit-server-step (session)
  "Do the next step of SESSION, and answer its request when it is over."
  (let ((claim (efrit-session-claim session)) (acts (eq (efrit-session-state session) 'act)))
    ;; A tool may occupy Emacs for long: whoever watches must know which request that is.
    (when claim (efrit-health-begin claim acts))
    ;; Ahead of the step, which may be left by a throw.
    (when acts
      (efrit-self-check-request-ended)  ; gate: check-after-tool
      (efrit-background-record nil))
    (let ((ended (efrit-session-step session)))
      (when (and acts claim)
        (efrit-background-record (efrit-request-id (efrit-claim-request claim))))
      (cond ((not ended) (efrit-health-end))
            (claim (efrit-server--finish claim (efrit-session-result session)))
            ((efrit-session-on-end session)
             (funcall (efrit-session-on-end session) session))))))

(defun efrit-server-wake ()
  "Go on with the sessions soon; what they waited for has come."
  (unless efrit-server-busy
    (efrit-server-resume-in 0.001)))

(defun efrit-server--result (claim)
  "Return the `efrit-result' for CLAIM, whatever happens, or its session.
An error here is one of the server, or of code that has changed the server."
  (condition-case err
      (efrit-server--dispatch claim)
    (error
     (efrit-server-log "%s: %s" (efrit-request-id (efrit-claim-request claim))
                        (error-message-string err))
     (efrit-result-make :reason "EvalError" :error-code (car err)
                        :error (concat "The server failed: "
                                       (efrit-print-clean
                                        (error-message-string err)))))))

(defun efrit-server--dispatch (claim)
  "Return the `efrit-result' for CLAIM, according to its type, or its session."
  (let* ((request (efrit-claim-request claim))
         (id (efrit-request-id request))
         (problem (efrit-request-problem request))
         (ordered (efrit-interrupt-ordered id)))
    (cond (problem
           (efrit-result-make :reason "Rejected" :error problem))
          ((efrit-server--directory-problem request)
           (efrit-result-make :reason "Rejected"
                              :error (efrit-server--directory-problem request)))
          (ordered
           (efrit-result-make :reason ordered
                              :error "The request was stopped before it ran"))
          (t
           ;; What is not known cannot be kept out of what is answered, and the key may
           ;; be another one by the time of the answer.
           (efrit-secret-refresh)
           (pcase (efrit-request-type request)
             ("eval" (efrit-server--eval request))
             ("status"
              (efrit-result-make :reason "Succeeded"
                                 :value (efrit-server--status)))
             (_ (efrit-server--converse claim request)))))))

(defun efrit-server--directory-problem (request)
  "Return why REQUEST cannot begin in the directory it names, or nil."
  (let ((directory (efrit-request-directory request)))
    (unless (or (null directory)
                (efrit-files-with-own-coding (file-accessible-directory-p directory)))
      (format "There is no directory %s where this Emacs runs: name another one"
              (file-name-unquote directory)))))

(defun efrit-server--converse (claim request)
  "Return the session for REQUEST of CLAIM, or an `efrit-result' that says why not."
  (let ((problem (efrit-session-problem request)))
    (cond ((not (efrit-settings-model-p))
           (efrit-result-make
            :reason "ModelNotConfigured"
            :error (concat "This instance has no model: only eval and status are answered; "
                           (if efrit-bridge-p "set spec.model"
                             "set EFRIT_MODEL_NAME and restart it"))))
          (problem (efrit-result-make :reason "Rejected" :error problem))
          (t (efrit-session-start request claim)))))

(defun efrit-server--eval (request)
  "Evaluate the content of REQUEST and return the `efrit-result'."
  (let ((id (efrit-request-id request))
        (timeout (efrit-request-timeout request))
        (efrit-eval-directory (efrit-request-directory request)))
    (efrit-watchdog-watch (efrit-claim-processing-path id) timeout)
    (efrit-eval id (efrit-request-content request) timeout
                (efrit-request-max-result-bytes request)
                (efrit-request-return-context request))))

(defun efrit-server--status ()
  "Return the stats as an `efrit-print'."
  (let ((text (decode-coding-string (efrit-files-bytes (efrit-health-stats)) 'efrit-utf-8)))
    (efrit-print-make :text text :bytes (string-bytes text))))

(defun efrit-server--answer (claim result)
  "Return the answer that gives RESULT to CLAIM.
Where no JSON can be made of RESULT, the answer says so."
  (condition-case err
      (progn
        (efrit-secret-refresh)
        (efrit-answer-make claim result))
    (error
     (efrit-server-log "%s: %s" (efrit-request-id (efrit-claim-request claim))
                        (error-message-string err))
     (efrit-answer-make
      claim
      (efrit-result-make :reason "EvalError" :error-code 'efrit-error
                         :error "The request ran, but no answer could be made of its result"
                         :seconds (efrit-result-seconds result))))))

;;;; When the disk fails

(defun efrit-server-release ()
  "Do what is held back; return non-nil when nothing is any more."
  (when efrit-server-held
    (funcall efrit-server-held)
    (setq efrit-server-held nil)
    (efrit-health-end))
  (setq efrit-server-failures 0)
  (efrit-health-set-problem nil)
  t)

(defconst efrit-server--max-failures 6
  "Failures in a row, in about six seconds, for which functions are blamed.")

(defun efrit-server-trouble (err)
  "Note that ERR kept the queue from being served, and try again later."
  (let ((message (error-message-string err))
        (delay (min 5.0 (* 0.1 (expt 2 (min 10 efrit-server-failures))))))
    (when (= efrit-server-failures 0)
      (efrit-server-log "%s; trying again" message))
    (setq efrit-server-failures (1+ efrit-server-failures)
          ;; What could not be claimed was forgotten, and is there all the same.
          efrit-server-dirty t)
    (efrit-health-set-problem message)
    ;; Not every such error is the disk's.
    (when (and (> efrit-server-failures 1) (efrit-limits-error-p message))
      (efrit-server-give-up "a limit of this process keeps it from the queue"))
    (when (and (>= efrit-server-failures efrit-server--max-failures)
               (efrit-guard-altered-p))
      (efrit-server-give-up "the queue cannot be written with the functions as they are now"))
    (efrit-server-resume-in delay)))

(provide 'efrit-server-request)
;;; efrit-server-request.el ends here
