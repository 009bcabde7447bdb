;;; efrit-model.el --- Ask the model  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; One turn of the model: conversation (efrit-model-body) -> POST (efrit-curl) ->
;; events (efrit-sse) -> reply (efrit-model-reply), and again after a failure
;; (efrit-model-retry).  Only a whole reply is returned.  Nothing here waits: Emacs
;; goes on, and callbacks report what came, perhaps inside the code of a request.
;; What a reply says is the business of others.

;;; Code:

(require 'cl-lib)
(require 'efrit-settings)
(require 'efrit-clock)
(require 'efrit-files)
(require 'efrit-eval-interrupt)
(require 'efrit-secret)
(require 'efrit-model-sse)
(require 'efrit-model-curl)
(require 'efrit-model-body)
(require 'efrit-model-reply)
(require 'efrit-model-retry)

(cl-defstruct (efrit-model-call (:constructor efrit-model-call--make) (:copier nil))
  "A turn under way.
STATE is `asking', `waiting' or `over'; TIMER does THEN at the time DUE.  BODY is
what is sent each time, ATTEMPTS how often it was; KEY-HASH identifies the key it was
sent with.  The others belong to the attempt under way: CURL, STATUS, HEADERS,
STREAM and DRAFT, or TEXT, the body of a response that is not a stream."
  body on-text on-done on-error on-retry deadline
  (state 'asking) (attempts 0) timer due then key-hash key-retried
  curl status headers stream draft text (received 0))

(defconst efrit-model--api-version "2023-06-01"
  "The version of the API that is spoken.")

(defconst efrit-model--max-text 65536
  "Bytes kept of a response that is not a stream.")

(defconst efrit-model--end-grace-seconds 1.0
  "Seconds that the end of the stream may come after the end of the message.")

;;;; Asking

(cl-defun efrit-model-ask (body &key on-text on-done on-error on-retry deadline)
  "Ask the model for the next turn of the conversation BODY; return the call.
BODY is an alist: `messages', a vector, and perhaps `system', a string, and
`tools', a vector.  ON-TEXT is called with pieces of text as they come, also of
attempts that fail; ON-RETRY with an `efrit-model-error' and a number of seconds
before each pause; then, once and after this has returned, either ON-DONE with
an `efrit-model-reply' or ON-ERROR with an `efrit-model-error'.  Nothing is
tried beyond DEADLINE, of the `efrit-clock', unless that is nil."
  (let ((call (efrit-model-call--make
               :on-text on-text :on-done on-done :on-error on-error
               :on-retry on-retry :deadline deadline)))
    (condition-case err
        (progn (setf (efrit-model-call-body call) (efrit-model-body body))
               (efrit-model--attempt call))
      (error (efrit-model--fail-soon
              call (efrit-model-failure "protocol" (error-message-string err)))))
    call))

(defun efrit-model-abort (call)
  "End CALL at once; its callbacks are not called any more."
  (efrit-model--end-attempt call)
  (setf (efrit-model-call-state call) 'over
        (efrit-model-call-body call) nil))

(defun efrit-model-ensure-running (call)
  "Revive CALL where its timer does not come, or its process was removed.
Whoever asks should call this now and then."
  (efrit-interrupt-shielded
    (let ((timer (efrit-model-call-timer call))
          (curl (efrit-model-call-curl call)))
      (cond ((eq (efrit-model-call-state call) 'over))
            ;; Where the clock was set back, it would come as much later.
            ((and timer (>= (efrit-clock) (efrit-model-call-due call)))  ; gate: model-due
             (cancel-timer timer)
             (efrit-model--resume call))
            (curl (efrit-curl-ensure-running curl))))))

(defun efrit-model--attempt (call)
  "Send the request of CALL."
  (setf (efrit-model-call-state call) 'asking
        (efrit-model-call-attempts call) (1+ (efrit-model-call-attempts call)))
  (condition-case err
      (if (efrit-model--late-p call 0)
          (efrit-model--fail-soon
           call (efrit-model-failure "timeout" "There is no time left to ask the model"))
        (let ((key (efrit-model--key)))
          (when (and key (efrit-settings-in-the-clear-p efrit-model-base-url))
            (signal 'efrit-error
                    (list "The key of the model is not sent over http, where anybody on the way reads it: \
use https in the base URL, or for a Service of the cluster its name with .svc")))
          (when (and efrit-model-proxy (string-search "@" efrit-model-proxy)
                     (efrit-settings-in-the-clear-p efrit-model-proxy))
            (signal 'efrit-error
                    (list "The password of the proxy is not sent over http, where anybody on the way reads it: \
use https in its URL")))
          (when (and key (efrit-model--key-seen-by-proxy-p)) ; gate: key-proxy
            (signal 'efrit-error
                    (list "The key of the model is not sent over http by a proxy outside a private network, \
where anybody on the way reads it: use https in the base URL, or no proxy")))
          (setf (efrit-model-call-key-hash call) (efrit-files-sha256 (or key "")))
          (efrit-model--post call key)))
    (error
     (efrit-model--fail-soon
      call (efrit-model-failure (cond ((memq 'efrit-error (get (car err) 'error-conditions))
                                     "no-key")
                                    ((memq 'file-error (get (car err) 'error-conditions))
                                     "no-curl")
                                    (t "protocol"))
                              (efrit-error-text err))))))

(defun efrit-model--key-seen-by-proxy-p ()
  "Return non-nil if the key goes unencrypted to a proxy outside a private network.
A proxy that is reached by https, too, gets it as it is."
  (and efrit-model-proxy
       (string-match-p "\\`[Hh][Tt][Tt][Pp]:" efrit-model-base-url)
       (efrit-settings-in-the-clear-p
        (concat "http://" (replace-regexp-in-string "\\`[^/?#@]*://" "" efrit-model-proxy)))))

(defun efrit-model--key ()
  "Return the key to send, nil for a server of one's own that takes none."
  (unless (and (null efrit-model-api-key-file)
               (not (equal efrit-model-base-url efrit-model-default-base-url)))
    (efrit-secret-key)))

(defun efrit-model--post (call key)
  "Start curl for CALL with KEY, a string or nil."
  (setf (efrit-model-call-status call) nil
        (efrit-model-call-text call) ""
        (efrit-model-call-received call) 0
        (efrit-model-call-draft call)
        (efrit-model-reply-draft
         (lambda (text) (efrit-model--run-callback call (efrit-model-call-on-text call) text)))
        (efrit-model-call-stream call)
        (efrit-sse-open (lambda (_type data) (efrit-model--on-event call data))
                        efrit-model-max-reply-bytes)
        (efrit-model-call-curl call)
        (efrit-curl-post
         (efrit-model--url)
         `(("content-type" . "application/json")
           ("accept" . "text/event-stream")
           ("anthropic-version" . ,efrit-model--api-version)
           ,@(when key `(("x-api-key" . ,key))))
         (efrit-model-call-body call)
         :on-head (lambda (status headers) (efrit-model--on-head call status headers))
         :on-body (lambda (bytes) (efrit-model--on-body call bytes))
         :on-end (lambda (end) (efrit-model--on-end call end))
         :proxy efrit-model-proxy
         :connect-seconds efrit-model-connect-seconds
         :idle-seconds efrit-model-idle-seconds
         :seconds (and (efrit-model-call-deadline call)
                       (- (efrit-model-call-deadline call) (efrit-clock))))))

(defun efrit-model--url ()
  "Return where the API takes messages."
  (concat (string-trim-right efrit-model-base-url "/+") "/v1/messages"))

;;;; The response

(defun efrit-model--on-head (call status headers)
  "Take STATUS and HEADERS of the response to CALL."
  (setf (efrit-model-call-status call) status
        (efrit-model-call-headers call) headers))

(defun efrit-model--streaming-p (call)
  "Return non-nil when the response to CALL is a stream of events."
  (and (eq (efrit-model-call-status call) 200)
       (string-prefix-p "text/event-stream"
                        (or (cdr (assoc "content-type" (efrit-model-call-headers call)))
                            "")
                        t)))

(defun efrit-model--on-body (call bytes)
  "Take BYTES of the body of the response to CALL."
  (cond ((not (efrit-model--streaming-p call))
         (let ((room (- efrit-model--max-text (length (efrit-model-call-text call)))))
           (setf (efrit-model-call-text call)
                 (concat (efrit-model-call-text call)
                         (substring bytes 0 (min room (length bytes)))))))
        ((> (setf (efrit-model-call-received call)
                  (+ (efrit-model-call-received call) (length bytes)))
            efrit-model-max-reply-bytes)
         (efrit-model--fail
          call (efrit-model-failure "protocol"
                                  (format "The reply is longer than %d bytes"
                                          efrit-model-max-reply-bytes))))
        (t (efrit-sse-feed (efrit-model-call-stream call) bytes))))

(defun efrit-model--on-event (call data)
  "Take DATA, an event of the stream, into the reply to CALL."
  (let ((draft (efrit-model-call-draft call)))
    (condition-case err
        (progn
          (efrit-model-reply-read draft data)
          (when (and (efrit-model-draft-reply draft)
                     (not (efrit-model-call-timer call)))
            ;; The server should end the stream now, and need not.
            (efrit-model--later call efrit-model--end-grace-seconds #'efrit-model--done)))
      (error
       (efrit-model--fail
        call (efrit-model-failure "cut" (efrit-model--error-text err) :retry t))))))

(defun efrit-model--error-text (err)
  "Return what the condition ERR says."
  (if (eq (car err) 'efrit-model-broken)
      (format "%s" (or (cadr err) "The API reported an error"))
    (concat "The stream makes no sense: " (error-message-string err))))

(defun efrit-model--on-end (call end)
  "Take END, an `efrit-curl-end', of the response to CALL."
  (let ((status (efrit-model-call-status call))
        (draft (efrit-model-call-draft call)))
    (cond ((efrit-curl-end-lost end)
           (efrit-model--fail
            call (efrit-model-failure "cut" "A part of the stream was lost in Emacs" :retry t)))
          ((efrit-model-draft-reply draft)
           (efrit-model--done call))
          ((and status (not (efrit-model--streaming-p call)))
           (efrit-model--fail
            call (efrit-model-retry-status-error
                  status (efrit-model-call-headers call)
                  (decode-coding-string (efrit-model-call-text call) 'utf-8-unix t)
                  (float-time))))
          (t
           (efrit-model--fail
            call (efrit-model-retry-end-error end (efrit-model--late-p call 0.25)))))))

;;;; The end of an attempt

(defun efrit-model--end-attempt (call)
  "Stop what is under way for CALL."
  (when (efrit-model-call-stream call)
    (efrit-sse-close (efrit-model-call-stream call)))
  (when (efrit-model-call-curl call)
    (efrit-curl-stop (efrit-model-call-curl call)))
  (when (timerp (efrit-model-call-timer call))
    (cancel-timer (efrit-model-call-timer call)))
  (setf (efrit-model-call-stream call) nil
        (efrit-model-call-curl call) nil
        (efrit-model-call-timer call) nil
        (efrit-model-call-text call) ""))

(defun efrit-model--done (call)
  "Tell the reply to CALL."
  (let ((reply (efrit-model-draft-reply (efrit-model-call-draft call))))
    (efrit-model-abort call)
    (efrit-model--run-callback nil (efrit-model-call-on-done call) reply)))

(defun efrit-model--fail (call error)
  "Take ERROR as the end of the attempt under way for CALL."
  (efrit-model--end-attempt call)
  (setf (efrit-model-error-attempts error) (efrit-model-call-attempts call))
  (let ((delay (if (efrit-model--new-key-p call error)
                   0
                 (efrit-model-retry-delay error (/ (random 1000) 1000.0)))))
    (cond ((and delay (not (efrit-model--late-p call delay)))
           (efrit-model--run-callback call (efrit-model-call-on-retry call) error delay)
           (unless (eq (efrit-model-call-state call) 'over)
             (setf (efrit-model-call-state call) 'waiting)
             (efrit-model--later call delay #'efrit-model--attempt)))
          (t
           (efrit-model-abort call)
           (efrit-model--run-callback nil (efrit-model-call-on-error call) error)))))

(defun efrit-model--fail-soon (call error)
  "Take ERROR as the end of the attempt of CALL, but not before its caller goes on."
  (efrit-model--end-attempt call)
  (efrit-model--later call 0 (lambda (call) (efrit-model--fail call error))))

(defun efrit-model--late-p (call seconds)
  "Return non-nil when SECONDS from now is beyond the deadline of CALL."
  (let ((deadline (efrit-model-call-deadline call)))
    (and deadline (>= (+ (efrit-clock) seconds) deadline))))

(defun efrit-model--new-key-p (call error)
  "Return non-nil when ERROR of CALL may be due to a key that was since replaced."
  (and (eq (efrit-model-error-status error) 401)
       (not (efrit-model-call-key-retried call))
       (condition-case nil
           (not (equal (efrit-files-sha256 (or (efrit-model--key) ""))
                       (efrit-model-call-key-hash call)))
         (efrit-error nil))
       (setf (efrit-model-call-key-retried call) t)))

;;;; Timers and callbacks

(defun efrit-model--later (call seconds function)
  "Call FUNCTION with CALL in SECONDS."
  (setf (efrit-model-call-then call) function
        (efrit-model-call-due call) (+ (efrit-clock) seconds)
        (efrit-model-call-timer call)
        (run-with-timer seconds nil #'efrit-model--on-timer call)))

(defun efrit-model--on-timer (call)
  "Go on with CALL, whose timer went off."
  (efrit-interrupt-shielded (efrit-model--resume call)))

(defun efrit-model--resume (call)
  "Do with CALL what its timer was set for."
  (let ((function (efrit-model-call-then call)))
    (setf (efrit-model-call-timer call) nil)
    (unless (eq (efrit-model-call-state call) 'over)
      (funcall function call))))

(defun efrit-model--run-callback (call function &rest arguments)
  "Call FUNCTION, unless it is nil, with ARGUMENTS; an error in it is logged.
With CALL, no callback is called when that is over."
  (when (and function
             (not (and call (eq (efrit-model-call-state call) 'over))))
    (efrit-interrupt-shielded (apply function arguments))))

(provide 'efrit-model)
;;; efrit-model.el ends here
