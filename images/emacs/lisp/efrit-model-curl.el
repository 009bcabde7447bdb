;;; efrit-model-curl.el --- One streaming POST by a curl process  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Starts curl for one request and reports what comes back, as it comes: the head,
;; pieces of the body, the end.  Headers and body go to curl's standard input,
;; so neither its arguments nor its environment show a key.  Retries, events and
;; models are the business of others.
;;
;; Process filters may run inside the code of a request, which has its own ideas
;; about variables and may be stopped at any moment.  So what arrives is first
;; put into an inbox and passed on one after the other, never one within the other;
;; curl's own count of the bytes says at the end whether all arrived.

;;; Code:

(require 'cl-lib)
(require 'efrit-settings)
(require 'efrit-eval-interrupt)
(require 'efrit-files)

(defcustom efrit-curl-program (or (executable-find "curl") "curl")
  "The program curl; code that changes variable `exec-path' does not change it."
  :group 'efrit-model
  :type 'string)

(cl-defstruct (efrit-curl (:constructor efrit-curl--make) (:copier nil))
  "A request under way.
ON-HEAD is called with the status, a number, and the headers, an alist of
strings, the names in lower case.  ON-BODY is called with pieces of the body,
unibyte strings.  ON-END is called with an `efrit-curl-end'; nothing comes
after that."
  on-head on-body on-end
  process unsent timer
  ;; When it was first and last seen that the process had ended, seconds since the epoch.
  ended
  inbox busy
  ;; PHASE is head, body, report or over; TEXT is what of the head or the report
  ;; has come so far; HELD may be the beginning of MARK, which goes before the report.
  (phase 'head) (text "") (held "") mark (received 0) answered)

(cl-defstruct (efrit-curl-end (:constructor efrit-curl--make-end) (:copier nil))
  "How a request ended.
CODE is the exit status of curl, 0 when the whole response came, nil when it was
not curl that ended it; MESSAGE is what curl says of it.  CONNECTED is non-nil
when there was a connection, LOST when bytes of the body went missing on their
way through Emacs."
  code message connected lost)

;;;; Starting

(defconst efrit-curl--fixed-options
  ;; The first two make standard output the response as it comes; redirects are
  ;; not followed, and certificates are checked unless configured otherwise.
  '("include" "no-buffer" "silent" "suppress-connect-headers" "globoff"
    "proto = \"=http,https\"" "user-agent = \"efrit\""
    ;; Else curl asks before it sends a larger body, which costs a round trip.
    "header = \"Expect:\"")
  "The part of curl's configuration that is the same for every request.")

(cl-defun efrit-curl-post (url headers body &key on-head on-body on-end
                               proxy connect-seconds idle-seconds seconds)
  "POST BODY, a unibyte string, to URL with HEADERS, an alist of strings.
ON-HEAD, ON-BODY and ON-END get what comes back, see `efrit-curl'; none of
them is called before this has returned an `efrit-curl'.  PROXY is the URL of a
proxy or nil.  CONNECT-SECONDS limits the time to connect, IDLE-SECONDS the time
without a byte, SECONDS, unless nil, all of it.
Signal a `file-error' when there is no curl."
  (let* ((mark (format "\036%015x" (random (ash 1 60))))
         (config (efrit-curl--config url headers mark proxy
                                     connect-seconds idle-seconds seconds))
         (curl (efrit-curl--make :on-head on-head :on-body on-body :on-end on-end
                                 :mark mark :busy t
                                 :unsent (efrit-curl--pieces config body))))
    (clear-string config)
    (efrit-curl--start curl)
    (efrit-curl--send curl)
    (setf (efrit-curl-busy curl) nil)
    (when (efrit-curl-inbox curl)
      (efrit-curl--wake curl 0))
    curl))

(defun efrit-curl--config (url headers mark proxy connect-seconds idle-seconds seconds)
  "Return curl's configuration, a unibyte string.
URL, HEADERS, PROXY, CONNECT-SECONDS, IDLE-SECONDS and SECONDS are as in
`efrit-curl-post'; MARK goes before curl's report."
  (let ((options
         (append
          efrit-curl--fixed-options
          (list (efrit-curl--option "url" url))
          (mapcar (lambda (header)
                    (efrit-curl--option "header" (concat (car header) ": " (cdr header))))
                  headers)
          (and proxy (list (efrit-curl--option "proxy" proxy)))
          (list (format "connect-timeout = %.3f" connect-seconds)
                "speed-limit = 1"
                (format "speed-time = %d" (ceiling idle-seconds)))
          (and seconds (list (format "max-time = %.3f" (max 0.001 seconds))))
          (list (efrit-curl--option
                 "write-out"
                 (concat mark "%{exitcode} %{time_connect} %{size_download} %{errormsg}\\n"))
                ;; The last option: from here on, standard input is the body.
                "data-binary = \"@-\""))))
    (encode-coding-string (concat (string-join options "\n") "\n") 'utf-8-unix t)))

(defun efrit-curl--option (name value)
  "Return the line of the configuration that sets option NAME to VALUE."
  (format "%s = \"%s\"" name
          (replace-regexp-in-string
           "[\"\\\\]" "\\\\\\&"
           ;; A line end would begin another option.
           (replace-regexp-in-string "[\n\r]+" " " value t t)
           t)))

(defun efrit-curl--program ()
  "Return the path of curl."
  ;; Some versions of Emacs look only after they have forked.
  (or (executable-find efrit-curl-program)
      (signal 'file-missing (list "Searching for program" "No such file or directory"
                                  efrit-curl-program))))

(defun efrit-curl--start (curl)
  "Start the process of CURL."
  (let* ((default-directory "/")
         (file-name-handler-alist nil)
         (process-environment initial-environment)
         ;; Else Emacs waits for more before it hands over a small piece.
         (process-adaptive-read-buffering nil)
         (process (efrit-files-with-own-coding
                    (make-process :name "efrit-curl"
                                  :buffer nil
                                  ;; The first option: no other configuration.
                                  :command (list (efrit-curl--program)
                                                 "-q" "--config" "-")
                                  :coding 'no-conversion
                                  :connection-type 'pipe
                                  :noquery t
                                  :filter #'efrit-curl--on-output
                                  :sentinel #'efrit-curl--on-change))))
    (process-put process 'efrit-curl curl)
    (setf (efrit-curl-process curl) process)))

;;;; Sending

(defconst efrit-curl--piece-bytes 61440
  "How much is sent at once: what a pipe of Linux takes while nobody reads.")

(defun efrit-curl--pieces (config body)
  "Return the strings to be sent, one after the other, of CONFIG and BODY."
  (let* ((start (min (length body) (max 0 (- efrit-curl--piece-bytes (length config)))))
         (pieces (list (concat config (substring body 0 start)))))
    (while (< start (length body))
      (let ((end (min (length body) (+ start efrit-curl--piece-bytes))))
        (push (substring body start end) pieces)
        (setq start end)))
    (nreverse pieces)))

(defconst efrit-curl--start-seconds 0.02
  "How long curl may take until it reads.")

(defun efrit-curl--send (curl)
  "Send a piece of what CURL still has to send, and later the others.
When a pipe is full, Emacs stands still for 20 ms.  So there is a pause between
the pieces, a longer one before curl reads and where it reads slowly."
  (let ((process (efrit-curl-process curl))
        (piece (pop (efrit-curl-unsent curl)))
        (start (float-time)))
    (condition-case nil
        (progn
          (process-send-string process piece)
          (unless (efrit-curl-unsent curl) (process-send-eof process)))
      ;; Curl is gone, and its sentinel reports it.
      (error (setf (efrit-curl-unsent curl) nil)))
    ;; The first piece has the key.
    (clear-string piece)
    (when (efrit-curl-unsent curl)
      (efrit-curl--wake curl (if (or (efrit-curl-busy curl)
                                     (> (- (float-time) start) 0.01))
                                 efrit-curl--start-seconds
                               0.001)))))

(defun efrit-curl--wake (curl seconds)
  "Go on with CURL in SECONDS."
  (when (timerp (efrit-curl-timer curl)) (cancel-timer (efrit-curl-timer curl)))
  (setf (efrit-curl-timer curl)
        (run-with-timer seconds nil #'efrit-curl-ensure-running curl)))

(defun efrit-curl-ensure-running (curl)
  "Go on with CURL where something waits to be sent or passed on.
Whoever uses CURL may call this now and then: code of a request may have removed
the timer, or the process."
  (efrit-interrupt-shielded
    (when (efrit-curl-unsent curl) (efrit-curl--send curl))
    (efrit-curl--empty-inbox curl)
    (efrit-curl--take-end curl)))

(defconst efrit-curl--sentinel-seconds 1
  "How long after the end of curl its sentinel may still be called.
Emacs reads what is left of the output first; looked after by a timer, that may
not have been its turn yet.")

(defconst efrit-curl--poll-seconds 0.1
  "Time from one check of a process that has ended to the next.")

(defconst efrit-curl--busy-seconds 0.5
  "Time between two such checks after which Emacs was busy, and has read nothing.")

(defun efrit-curl--take-end (curl)
  "Tell that the process of CURL has ended, if its sentinel does not."
  (unless (or (efrit-curl--over-p curl) (efrit-curl-busy curl)
              (process-live-p (efrit-curl-process curl)))
    (let* ((now (float-time))
           (first (car (efrit-curl-ended curl)))
           (last (cdr (efrit-curl-ended curl))))
      ;; gate: curl-busy
      (unless (and last (<= 0 (- now last) efrit-curl--busy-seconds))
        (setq first now))
      (setf (efrit-curl-ended curl) (cons first now))
      (if (>= (- now first) efrit-curl--sentinel-seconds)
          (efrit-curl--receive curl 'exit)
        (efrit-curl--wake curl efrit-curl--poll-seconds)))))

(defun efrit-curl-stop (curl)
  "End CURL at once; its callbacks are not called any more."
  (let ((process (efrit-curl-process curl)))
    (efrit-curl--over curl)
    (when process
      (set-process-filter process #'ignore)
      (set-process-sentinel process #'ignore)
      (delete-process process))))

(defun efrit-curl--over-p (curl)
  "Return non-nil when no callback of CURL is called any more."
  (eq (efrit-curl-phase curl) 'over))

(defun efrit-curl--over (curl)
  "Forget what CURL still has to do."
  (when (timerp (efrit-curl-timer curl)) (cancel-timer (efrit-curl-timer curl)))
  (setf (efrit-curl-phase curl) 'over
        (efrit-curl-timer curl) nil
        (efrit-curl-unsent curl) nil
        (efrit-curl-inbox curl) nil
        (efrit-curl-text curl) ""))

;;;; What arrives

(defun efrit-curl--on-output (process bytes)
  "Take BYTES that PROCESS wrote."
  (efrit-interrupt-shielded
    (efrit-curl--receive (process-get process 'efrit-curl) bytes)))

(defun efrit-curl--on-change (process _what)
  "Take the end of PROCESS."
  (efrit-interrupt-shielded
    (unless (process-live-p process)
      (efrit-curl--receive (process-get process 'efrit-curl) 'exit))))

(defun efrit-curl--receive (curl thing)
  "Take THING, bytes or the symbol `exit', of CURL after all that came before."
  (setf (efrit-curl-inbox curl) (nconc (efrit-curl-inbox curl) (list thing)))
  (efrit-curl--empty-inbox curl))

(defun efrit-curl--empty-inbox (curl)
  "Take what is in the inbox of CURL, unless that is being done already."
  (unless (efrit-curl-busy curl)
    (setf (efrit-curl-busy curl) t)
    (unwind-protect
        (while (and (efrit-curl-inbox curl) (not (efrit-curl--over-p curl)))
          (let ((thing (pop (efrit-curl-inbox curl))))
            (if (stringp thing)
                (efrit-curl--take curl thing)
              (efrit-curl--exited curl))))
      (setf (efrit-curl-busy curl) nil))))

(defun efrit-curl--call (function &rest arguments)
  "Call FUNCTION with ARGUMENTS; what goes wrong in it is its own affair."
  (efrit-interrupt-shielded (apply function arguments)))

(defun efrit-curl--take (curl bytes)
  "Take BYTES that came from the process of CURL."
  (if (eq (efrit-curl-phase curl) 'report)
      (progn (efrit-curl--add-text curl bytes)
             (efrit-curl--read-report curl))
    (let* ((mark (efrit-curl-mark curl))
           (bytes (concat (efrit-curl-held curl) bytes))
           (end (string-search mark bytes))
           (keep (or end (efrit-curl--maybe-mark mark bytes))))
      (setf (efrit-curl-held curl) (substring bytes keep))
      (efrit-curl--response curl (substring bytes 0 keep))
      (when (and end (not (efrit-curl--over-p curl)))
        (setf (efrit-curl-phase curl) 'report
              (efrit-curl-held curl) ""
              (efrit-curl-text curl) (substring bytes (+ end (length mark))))
        (efrit-curl--read-report curl)))))

(defun efrit-curl--maybe-mark (mark bytes)
  "Return where in BYTES the beginning of MARK may be, or the length of BYTES."
  (or (string-search (substring mark 0 1) bytes
                     (max 0 (- (length bytes) (1- (length mark)))))
      (length bytes)))

(defun efrit-curl--response (curl bytes)
  "Take BYTES of the response to CURL."
  (pcase (efrit-curl-phase curl)
    ((guard (string-empty-p bytes)))
    ('body
     (setf (efrit-curl-received curl) (+ (efrit-curl-received curl) (length bytes)))
     (efrit-curl--call (efrit-curl-on-body curl) bytes))
    ('head
     (efrit-curl--add-text curl bytes)
     (efrit-curl--read-head curl))))

(defconst efrit-curl--max-text 65536
  "Bytes beyond which neither a head nor a report is read.")

(defun efrit-curl--add-text (curl bytes)
  "Add BYTES to the head or the report of CURL."
  (setf (efrit-curl-text curl) (concat (efrit-curl-text curl) bytes))
  (when (> (length (efrit-curl-text curl)) efrit-curl--max-text)
    (efrit-curl--report-end curl (efrit-curl--make-end
                                :message "The head of the response is too long"
                                :connected t))))

(defun efrit-curl--read-head (curl)
  "Tell the head of the response to CURL, once it is whole."
  (let* ((text (efrit-curl-text curl))
         (begin (string-match "\r?\n\r?\n" text))
         (end (and begin (match-end 0))))
    (when (and end (string-match "\\`HTTP/[0-9.]+ +\\([0-9][0-9][0-9]\\)\\b" text))
      (let ((status (string-to-number (match-string 1 text))))
        (setf (efrit-curl-text curl) "")
        ;; A status below 200 only announces another.
        (unless (< status 200)
          (setf (efrit-curl-phase curl) 'body
                (efrit-curl-answered curl) t)
          (efrit-curl--call (efrit-curl-on-head curl) status
                            (efrit-curl--headers (substring text 0 begin))))
        (efrit-curl--response curl (substring text end))))))

(defun efrit-curl--headers (text)
  "Return the headers in TEXT, the head of a response, as an alist."
  (let (headers)
    (dolist (line (cdr (split-string text "\r?\n")) (nreverse headers))
      (when (string-match "\\`\\([^: \t]+\\):[ \t]*\\(.*?\\)[ \t]*\\'" line)
        (push (cons (downcase (match-string 1 line)) (match-string 2 line))
              headers)))))

(defun efrit-curl--read-report (curl)
  "Tell the end of CURL once its report is whole.
The process still has to clean up, which nobody needs to wait for."
  (let ((text (decode-coding-string (efrit-curl-text curl) 'utf-8-unix t)))
    (when (string-match "\\`\\([0-9]+\\) \\([0-9.]+\\) \\([0-9]+\\) ?\\([^\0]*\\)\n\\'" text)
      (let ((code (string-to-number (match-string 1 text)))
            (seconds (string-to-number (match-string 2 text)))
            (bytes (string-to-number (match-string 3 text)))
            (message (match-string 4 text)))
        (efrit-curl--report-end
         curl
         (efrit-curl--make-end :code code :message (string-trim message)
                               :connected (> seconds 0)
                               :lost (< (efrit-curl-received curl) bytes)))))))

(defun efrit-curl--exited (curl)
  "Tell the end of CURL, whose process has ended without a report."
  (efrit-curl--response curl (efrit-curl-held curl))
  (let* ((process (efrit-curl-process curl))
         (code (and (eq (process-status process) 'exit)
                    (process-exit-status process))))
    (efrit-curl--report-end
     curl
     (efrit-curl--make-end
      :code code
      ;; What is no response is what curl says of its configuration.
      :message (string-trim (decode-coding-string (efrit-curl-text curl) 'utf-8-unix t))
      :connected (efrit-curl-answered curl)
      ;; A curl that succeeds does report.
      :lost (eql code 0)))))

(defun efrit-curl--report-end (curl end)
  "Tell END of CURL, unless that was stopped meanwhile."
  (unless (efrit-curl--over-p curl)
    (efrit-curl-stop curl)
    (efrit-curl--call (efrit-curl-on-end curl) end)))

(provide 'efrit-model-curl)
;;; efrit-model-curl.el ends here
