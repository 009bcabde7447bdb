;;; efrit-server-self-check.el --- Check between requests that answers are right  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Whatever requests have left behind, the next answer must be right.  Between requests
;; a known request is read, evaluated, printed and made into the bytes of an answer by the
;; functions that do so for others; the bytes are compared with those of the start.
;; The comparison is a closure over function objects, which no redefinition reaches.
;;
;; After a first failure nothing is claimed; after a second one the heartbeat says so,
;; and whoever supervises Emacs ends it.  Where a person may be working in this Emacs,
;; nothing is checked: it is not ended for what that person tries.

;;; Code:

(require 'efrit-settings)
(require 'efrit-clock)
(require 'efrit-files)
(require 'efrit-queue-request)
(require 'efrit-queue-claim)
(require 'efrit-eval)
(require 'efrit-queue-answer)
(require 'efrit-eval-guard)
(require 'efrit-eval-background)

(defconst efrit-self-check-seconds 10.0
  "Seconds between two checks; a failure has another one at the next tick.
A request has one before the next request is claimed.")

(defconst efrit-self-check--max-failures 2  ; gate: check-failures
  "Failures in a row after which the check has failed.")

(defconst efrit-self-check--time-limit 2.0
  "Seconds after which a signal stops the form of the check.")

(defconst efrit-self-check--id "self check"
  "The id that the form is evaluated for; no request can have it.")

(defconst efrit-self-check--content
  "(progn (prin1 'printed) (list (+ 1 2) \"caf\u00e9\" 'symbol))"
  "What is evaluated.")

(defconst efrit-self-check--request
  (format "{\"id\":\"self-check\",\"type\":\"eval\",\"content\":%S}"
          efrit-self-check--content)
  "A request for it, as in a file.")

(defconst efrit-self-check--members
  '("\"status\":\"success\""
    "\"result\":\"(3 \\\"caf\303\251\\\" symbol)\""
    "\"output\":\"printed\""
    "\"sha256\":\"b4b10b47c5d633c7500ed92ccaef54ebdc638d7f9c3902f80ffdd977fdbe56d2\"")
  "What the answer consists of, among others.")

(defvar efrit-self-check--function nil
  "The closure that checks; see `efrit-self-check--closure'.")

(defvar efrit-self-check--failures 0
  "How often in a row the check has failed.")

(defvar efrit-self-check--problem nil
  "What the last check has found, or nil.")

(defvar efrit-self-check--time nil
  "When the last check was, in seconds since the epoch, or nil.")

(defvar efrit-self-check--requested nil
  "Non-nil when a request has run since the last check.")

;;;; The check

(defconst efrit-self-check--nothing (lambda () nil)
  "Puts nothing back.")

(defconst efrit-self-check--nothing-recorded (lambda () efrit-self-check--nothing)
  "Records nothing.")

(defun efrit-self-check--answer ()
  "Return the bytes of the answer to the form of the check."
  (let* ((scratch (get-buffer "*scratch*"))
         ;; What the last request has left current stays.
         (efrit-eval-directory (and scratch (buffer-local-value 'default-directory scratch)))
         ;; Settings that may be changed change nothing here.
         (efrit-inline-result-bytes 4096)
         (efrit-captured-bytes 4096)
         ;; They have just been called, and the form changes nothing.
         (efrit-guard-restorer efrit-self-check--nothing)
         (efrit-guard-recorder efrit-self-check--nothing-recorded)
         (request (efrit-request-parse efrit-self-check--request "self-check.json"))
         (result (efrit-eval-run
                  efrit-self-check--id
                  (+ (efrit-clock) efrit-self-check--time-limit)
                  (lambda ()
                    (efrit-eval-printed-value (efrit-self-check--content-of request)
                                              efrit-inline-result-bytes)))))
    ;; Advice may say something each time, and is right all the same.
    (setf (efrit-result-seconds result) 0.0
          (efrit-result-messages result) "")
    (efrit-files-bytes
     (efrit-answer-text
      (efrit-answer-make
       (efrit-claim-make :request (efrit-request-make :id efrit-self-check--id) :attempt 1)
       result)))))

(defun efrit-self-check--content-of (request)
  "Return the content of REQUEST, of which nothing is wrong."
  (when (efrit-request-problem request)
    (error "A known request is refused: %s" (efrit-request-problem request)))
  (efrit-request-content request))  ; gate: check-reading

(defun efrit-self-check--closure ()
  "Return a function that returns nil, or what is wrong with this Emacs as text."
  (let* ((answer (symbol-function 'efrit-self-check--answer))
         (clean (symbol-function 'efrit-self-check--excerpt))
         (describe (symbol-function 'error-message-string))
         (same (symbol-function 'string=))  ; gate: check-functions
         (before (symbol-function 'string-lessp))
         (part (symbol-function 'substring))
         (size (symbol-function 'length))
         (join (symbol-function 'concat))
         (text-p (symbol-function 'stringp))
         (stamp (symbol-function 'format-time-string))
         ;; What is written is written in these; `define-coding-system-alias' takes any name.
         (coding (symbol-function 'coding-system-base))
         (bytes (funcall coding 'no-conversion))
         (utf-8 (funcall coding 'utf-8-unix))
         (restorer efrit-guard-restorer)
         (recorder efrit-guard-recorder)
         (first (condition-case err (funcall answer)
                  (error (funcall join "error: " (funcall describe err)))))
         (start (string-match "[0-9]\\{4\\}-[0-9][0-9]-[0-9][0-9]T" first))
         (end (and start (+ start 24))))
    (if (or (null end) (memq nil (mapcar (lambda (member) (string-search member first))
                                         efrit-self-check--members)))
        (let ((problem (concat "at the start a known form was answered with "
                               (efrit-self-check--excerpt first))))
          (lambda () problem))
      (lambda ()
        (condition-case err
            (let* ((locale-coding-system 'efrit-utf-8)
                   (earliest (funcall stamp "%FT%T.%3NZ" nil t))
                   (text (funcall answer))
                   (latest (funcall stamp "%FT%T.%3NZ" nil t)))
              (cond ((not (and (eq (funcall coding 'no-conversion) bytes)
                               (eq (funcall coding 'utf-8-unix) utf-8)))
                     "answers would be written in another coding system")
                    ;; The check itself goes without them.
                    ((not (and (eq efrit-guard-restorer restorer)
                               (eq efrit-guard-recorder recorder)))  ; gate: check-guard
                     "what puts functions and variables back has been replaced")
                    ((not (and (funcall text-p text)
                               (>= (funcall size text) end)
                               (funcall same (funcall part text 0 start)
                                        (funcall part first 0 start))))
                     (funcall join "a known form was answered with "
                              (funcall clean text)))
                    ((not (funcall same (funcall part text end)
                                   (funcall part first end)))
                     (funcall join "a known form was answered with "
                              (funcall clean (funcall part text end)
                                       (funcall part first end))))
                    ((or (funcall before (funcall part text start end) earliest)
                         (funcall before latest (funcall part text start end)))
                     (funcall join "an answer has the time "
                              (funcall clean (funcall part text start end))))))
          (error (funcall join "a known form cannot be answered: "
                          (funcall clean (funcall describe err)))))))))

;; Compiled, it calls little by its name.
(defun efrit-self-check--excerpt (text &optional expected)
  "Return the beginning of TEXT, any object, in printable ASCII.
With EXPECTED, a string, the part from a little before where TEXT differs."
  (if (not (stringp text))
      "no text"
    (let ((index 0) (end (length text)) characters)
      (when expected
        (while (and (< index end) (< index (length expected))
                    (= (aref text index) (aref expected index)))
          (setq index (1+ index)))
        (setq index (max 0 (- index 10))))
      (setq end (min end (+ index 80)))
      (while (< index end)
        (setq end (1- end))
        (setq characters (cons (if (<= 32 (aref text end) 126) (aref text end) ??)
                               characters)))
      (concat characters))))

;;;; Between requests

(defun efrit-self-check-start ()
  "Have this Emacs checked from now on, if it is a daemon."
  (setq efrit-self-check--failures 0
        efrit-self-check--problem nil
        efrit-self-check--time nil
        efrit-self-check--requested nil
        efrit-self-check--function (and (daemonp) (efrit-self-check--closure))))

(defun efrit-self-check-request-ended ()
  "Have a check made before the next claim: a request may have changed anything."
  (setq efrit-self-check--requested t))

(defun efrit-self-check-requested-p ()
  "Return non-nil when a request has run since the last check."
  efrit-self-check--requested)

(defun efrit-self-check-due-p ()
  "Return non-nil when it is time for a check."
  (cond ((or (null efrit-self-check--function) (efrit-background-attended-p))
         (setq efrit-self-check--failures 0
               efrit-self-check--time nil)
         nil)
        (t
         (or efrit-self-check--requested
             (null efrit-self-check--time)
             (> efrit-self-check--failures 0)
             ;; A clock that was set back would put the next one off.
             (not (< -0.001 (- (float-time) efrit-self-check--time)
                     efrit-self-check-seconds))))))

(defun efrit-self-check ()
  "Check this Emacs; return what is wrong when that is certain now and was not."
  (let* ((failures efrit-self-check--failures)
         ;; What is known for certain is reported in the same words until it is over.
         (certain (and (>= failures efrit-self-check--max-failures)
                       efrit-self-check--problem)))
    ;; Ahead of the check: one that is left by a throw has failed.
    (setq efrit-self-check--requested nil
          efrit-self-check--time (float-time)
          efrit-self-check--failures (1+ failures)
          efrit-self-check--problem
          (or certain "the check of a known form did not come to its end"))
    (let ((problem (funcall efrit-self-check--function)))
      (setq efrit-self-check--problem (and problem (or certain problem))))
    (unless efrit-self-check--problem (setq efrit-self-check--failures 0))
    (and (= efrit-self-check--failures efrit-self-check--max-failures)
         efrit-self-check--problem)))

(defun efrit-self-check-holds-p ()
  "Return non-nil while nothing may be claimed, because the last check failed."
  (> efrit-self-check--failures 0))

(defun efrit-self-check-facts ()
  "Return what the heartbeat says of the check, as a JSON alist, or :null."
  (if (or (null efrit-self-check--time) (efrit-background-attended-p))
      :null
    (let ((failed (>= efrit-self-check--failures efrit-self-check--max-failures)))
      `((passed . ,(if failed :false t))
        (time . ,(efrit-answer-time efrit-self-check--time))
        (problem . ,(if failed efrit-self-check--problem :null))))))

(provide 'efrit-server-self-check)
;;; efrit-server-self-check.el ends here
