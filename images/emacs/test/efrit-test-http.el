;;; efrit-test-http.el --- A server that misbehaves on request  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Stands for the model's API where a test says byte by byte what comes over the
;; wire.  It lives in the Emacs of the test and answers one request after the
;; other by the next of its replies.

;;; Code:

(require 'ert)
(require 'cl-lib)
(require 'efrit-test-queue)

(defvar efrit-test-http-server nil
  "The server of the test.")

(defvar efrit-test-http-url nil
  "Where the server of the test is.")

(defvar efrit-test-http--replies nil
  "The replies that were not given yet.")

(defvar efrit-test-http--held nil
  "The connection that is held and the steps that are left, or nil.")

(defvar efrit-test-http-requests nil
  "The requests so far, the last one first, as (HEAD . BODY), unibyte strings.")

(defmacro efrit-test-with-http (replies &rest body)
  "Run BODY with a server that gives REPLIES, a list, one for each request.
A reply is a list of steps: a string is sent; `close' closes the connection;
`pause' lets Emacs and curl go on, so that what follows arrives by itself;
`hold' waits for `efrit-test-http-go'; a function is called.  After the last
step the connection stays open."
  (declare (indent 1) (debug t))
  `(let* ((efrit-test-http--replies ,replies)
          (efrit-test-http--held nil)
          (efrit-test-http-requests nil)
          (efrit-test-http-server (efrit-test-http--start))
          (efrit-test-http-url
           (format "http://127.0.0.1:%d"
                   (process-contact efrit-test-http-server :service))))
     (unwind-protect (progn ,@body)
       (efrit-test-http--stop efrit-test-http-server))))

(defun efrit-test-http--start ()
  "Start the server."
  (make-network-process :name "efrit-test-http" :server t :host "127.0.0.1"
                        :service t :family 'ipv4 :noquery t :coding 'binary
                        :filter #'efrit-test-http--receive :sentinel #'ignore))

(defun efrit-test-http--stop (server)
  "Stop SERVER and close its connections."
  (delete-process server)
  (dolist (process (process-list))
    (when (string-prefix-p "efrit-test-http" (process-name process))
      (delete-process process))))

(defun efrit-test-http--receive (connection bytes)
  "Take BYTES that came over CONNECTION, and reply when the request is whole."
  (let* ((case-fold-search t)
         (text (concat (process-get connection 'text) bytes))
         (end (string-search "\r\n\r\n" text)))
    (process-put connection 'text text)
    (when (and end
               (string-match "^content-length: \\([0-9]+\\)" text)
               (>= (length text)
                   (+ end 4 (string-to-number (match-string 1 text)))))
      (process-put connection 'text nil)
      (push (cons (substring text 0 end) (substring text (+ end 4)))
            efrit-test-http-requests)
      ;; An error here would end Emacs; a request too many finds nobody.
      (efrit-test-http--play connection (if efrit-test-http--replies
                                            (pop efrit-test-http--replies)
                                          '(close))))))

(defun efrit-test-http--play (connection steps)
  "Do STEPS of a reply on CONNECTION."
  (while steps
    (let ((step (pop steps)))
      (cond ((stringp step)
             ;; A client that has gone gets nothing.
             (when (process-live-p connection)
               (ignore-errors
                 (process-send-string connection (efrit-files-bytes step)))))
            ((eq step 'close) (delete-process connection))
            ((eq step 'hold)
             (setq efrit-test-http--held (list connection steps)
                   steps nil))
            ((eq step 'pause)
             (run-with-timer 0.003 nil #'efrit-test-http--play connection steps)
             (setq steps nil))
            (t (funcall step))))))

(defun efrit-test-http-go ()
  "Go on with the reply that is held."
  (apply #'efrit-test-http--play (prog1 efrit-test-http--held
                                   (setq efrit-test-http--held nil))))

(defun efrit-test-http-head (status &rest headers)
  "Return the head of a response with STATUS, text, and HEADERS, lines."
  (concat "HTTP/1.1 " status "\r\n"
          (mapconcat (lambda (header) (concat header "\r\n")) headers "")
          "Connection: close\r\n\r\n"))

(defun efrit-test-http-chunk (text)
  "Return TEXT as a chunk of a body whose length was not announced."
  (let ((bytes (efrit-files-bytes text)))
    (concat (format "%x\r\n" (length bytes)) bytes "\r\n")))

(defconst efrit-test-http-nobody "http://127.0.0.1:9"
  "Where nobody listens.
The port of a server that has ended may be given to somebody else at once.")

;;;; Replies of the Messages API

(defun efrit-test-http-event (type &rest members)
  "Return the event TYPE of the API with MEMBERS, a plist."
  (format "event: %s\ndata: %s\n\n" type
          (decode-coding-string
           (efrit-files-bytes (json-serialize (append (list :type type) members)))
           'utf-8)))

(defun efrit-test-http-text-events (&rest texts)
  "Return the events of a message with TEXTS, the pieces of one block."
  (append
   (list (efrit-test-http-event
          "message_start"
          :message '(:id "msg_1" :role "assistant" :content []
                     :usage (:input_tokens 10 :cache_read_input_tokens 4
                             :cache_creation_input_tokens 3 :output_tokens 1)))
         (efrit-test-http-event "content_block_start" :index 0
                                :content_block '(:type "text" :text ""))
         (efrit-test-http-event "ping"))
   (mapcar (lambda (text)
             (efrit-test-http-event "content_block_delta" :index 0
                                    :delta (list :type "text_delta" :text text)))
           texts)
   (list (efrit-test-http-event "content_block_stop" :index 0)
         (efrit-test-http-event "message_delta" :delta '(:stop_reason "end_turn")
                                :usage '(:output_tokens 15))
         (efrit-test-http-event "message_stop"))))

(defun efrit-test-http-stream (events)
  "Return the reply that sends EVENTS as the API does."
  `(,(efrit-test-http-head "200 OK" "Content-Type: text/event-stream; charset=utf-8"
                           "Transfer-Encoding: chunked")
    ,(efrit-test-http-chunk (apply #'concat events)) "0\r\n\r\n" close))

(defun efrit-test-http-reply (&rest texts)
  "Return the reply that is a message with TEXTS."
  (efrit-test-http-stream (apply #'efrit-test-http-text-events texts)))

(defun efrit-test-http-refusal (status type message &rest headers)
  "Return the reply of the API with STATUS, text, that refuses a request.
TYPE and MESSAGE are the API's; HEADERS are lines."
  (list (apply #'efrit-test-http-head status "Content-Type: application/json" headers)
        (json-serialize `(:type "error" :error (:type ,type :message ,message)))
        'close))

(provide 'efrit-test-http)
;;; efrit-test-http.el ends here
