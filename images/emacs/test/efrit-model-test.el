;;; efrit-model-test.el --- Tests of a turn of the model  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A real curl against a server that does what an API should not.

;;; Code:

(require 'efrit-test-http)
(require 'efrit-model)
(require 'efrit-eval-interrupt)

(defvar efrit-model-test--calls nil
  "The calls back of the last call, in a list whose first element says nothing.")

(defmacro efrit-model-test--with-model (replies &rest body)
  "Run BODY with a model whose API gives REPLIES, as in `efrit-test-with-http'."
  (declare (indent 1) (debug t))
  `(efrit-test-with-http ,replies
     (let ((efrit-model-name "model-1")
           (efrit-model-base-url efrit-test-http-url)
           (efrit-model-proxy nil)
           (efrit-model-api-key-file
            (make-temp-file "efrit-key-" nil nil "sk-test-key-1\n"))
           (efrit-model-first-delay 0.001)
           (efrit-model-connect-seconds efrit-test-timeout)
           (efrit-model-idle-seconds efrit-test-timeout)
           (efrit-secret--shapes nil))
       (unwind-protect (progn ,@body)
         (delete-file efrit-model-api-key-file)))))

(defun efrit-model-test--ask (&rest arguments)
  "Ask the model of the test, with ARGUMENTS for the call; return the call."
  (let* ((calls (setq efrit-model-test--calls (list 'calls)))
         (note (lambda (&rest what) (nconc calls (list what)))))
    (apply #'efrit-model-ask
           '((system . "be brief") (messages . [((role . "user") (content . "hi"))]))
           (append arguments
                   (list :on-text (apply-partially note 'text)
                         :on-done (apply-partially note 'done)
                         :on-error (apply-partially note 'error)
                         :on-retry (apply-partially note 'retry))))))

(defun efrit-model-test--all (kind)
  "Return all calls back of KIND in the last call."
  (seq-filter (lambda (call) (eq (car call) kind)) (cdr efrit-model-test--calls)))

(defun efrit-model-test--over ()
  "Return what ended the last call, or nil."
  (cadr (car (append (efrit-model-test--all 'done) (efrit-model-test--all 'error)))))

(defun efrit-model-test--outcome (&rest arguments)
  "Ask with ARGUMENTS and return the reply or the error."
  (apply #'efrit-model-test--ask arguments)
  (efrit-test-wait (efrit-model-test--over)))

(defun efrit-model-test--text (reply)
  "Return the text of REPLY."
  (unless (efrit-model-reply-p reply) (ert-fail reply))
  (mapconcat (lambda (block) (alist-get 'text block)) (efrit-model-reply-content reply) ""))

(defun efrit-model-test--kinds ()
  "Return the kinds of the errors that were tried again."
  (mapcar (lambda (call) (efrit-model-error-kind (cadr call)))
          (efrit-model-test--all 'retry)))

(defun efrit-model-test--left ()
  "Return the processes and timers of calls."
  (append
   (seq-filter (lambda (process) (string-prefix-p "efrit-curl" (process-name process)))
               (process-list))
   (seq-filter (lambda (timer)
                 (string-match-p "\\`efrit-\\(curl\\|model\\)-"
                                 (format "%s" (timer--function timer))))
               timer-list)))

(defmacro efrit-model-test--refused (status kind)
  "Check that a response with STATUS ends the call with an error of KIND."
  `(efrit-model-test--with-model
       (list (efrit-test-http-refusal ,status "some_error" "Not like this"))
     (let ((error (efrit-model-test--outcome)))
       (should (equal (efrit-model-error-kind error) ,kind))
       (should (string-prefix-p "some_error: Not like this" (efrit-model-error-message error)))
       (should (= 1 (efrit-model-error-attempts error))))))

;;;; What goes well

(ert-deftest efrit-model-a-reply-is-reported-once-and-leaves-nothing ()
  (efrit-model-test--with-model (list (efrit-test-http-reply "Hé" "llo"))
    (let* ((buffers (buffer-list)) (reply (efrit-model-test--outcome)))
      (should (equal (efrit-model-test--text reply) "Héllo"))
      (should (equal (efrit-model-reply-stop-reason reply) "end_turn"))
      (should (equal (mapcar #'car (cdr efrit-model-test--calls)) '(text text done)))
      (should-not (efrit-model-test--left))
      (should (equal (buffer-list) buffers)))))

(ert-deftest efrit-model-the-request-is-what-the-api-wants ()
  (efrit-model-test--with-model (list (efrit-test-http-reply "x"))
    (let ((efrit-model-base-url (concat efrit-model-base-url "/gateway/"))
          (case-fold-search t))
      (efrit-model-test--outcome)
      (pcase-let ((`((,head . ,body)) efrit-test-http-requests))
        (should (string-prefix-p "POST /gateway/v1/messages HTTP/1.1\r\n" head))
        (dolist (line '("x-api-key: sk-test-key-1" "anthropic-version: 2023-06-01"
                        "content-type: application/json"))
          (should (string-match-p (concat "^" line "\r?$") head)))
        (should (equal (alist-get 'model (json-parse-string body :object-type 'alist))
                       "model-1"))))))

(ert-deftest efrit-model-text-is-reported-as-it-arrives ()
  (let ((events (efrit-test-http-text-events "one" "two")))
    (efrit-model-test--with-model
        (list `(,(efrit-test-http-head "200 OK" "Content-Type: text/event-stream")
                ,@(seq-take events 4) hold ,@(seq-drop events 4) close))
      (efrit-model-test--ask)
      (should (equal (cadr (efrit-test-wait (car (efrit-model-test--all 'text)))) "one"))
      (should-not (efrit-model-test--over))
      (efrit-test-http-go)
      (should (equal (efrit-model-test--text (efrit-test-wait (efrit-model-test--over)))
                     "onetwo")))))

(ert-deftest efrit-model-a-stream-may-come-in-any-pieces ()
  (let ((bytes (efrit-files-bytes (apply #'concat (efrit-test-http-text-events "é€" "😀")))))
    (efrit-model-test--with-model
        (list `(,(efrit-test-http-head "200 OK" "Content-Type: text/event-stream")
                ,@(cl-loop for start from 0 below (length bytes) by 7
                           collect (substring bytes start (min (+ start 7) (length bytes)))
                           collect 'pause)
                close))
      (should (equal (efrit-model-test--text (efrit-model-test--outcome)) "é€😀")))))

(ert-deftest efrit-model-thousands-of-pieces-are-one-reply ()
  (efrit-model-test--with-model
      (list (apply #'efrit-test-http-reply (make-list 5000 "word ")))
    (should (= (length (efrit-model-test--text (efrit-model-test--outcome))) 25000))
    (should (= (length (efrit-model-test--all 'text)) 5000))))

(ert-deftest efrit-model-a-message-ends-even-if-the-stream-does-not ()
  (efrit-model-test--with-model
      (list (list (efrit-test-http-head "200 OK" "Content-Type: text/event-stream")
                  (apply #'concat (efrit-test-http-text-events "x"))))
    (should (equal (efrit-model-test--text (efrit-model-test--outcome)) "x"))
    (should-not (efrit-model-test--left))))

(ert-deftest efrit-model-a-proxy-is-asked-when-it-is-set ()
  (efrit-model-test--with-model (list (efrit-test-http-reply "x"))
    (let ((efrit-model-proxy efrit-test-http-url)
          (efrit-model-base-url "http://model.svc"))
      (efrit-model-test--outcome)
      (should (string-prefix-p "POST http://model.svc/v1/messages "
                               (caar efrit-test-http-requests))))))

(ert-deftest efrit-model-two-calls-at-once-do-not-mix ()
  (let ((first (efrit-test-http-text-events "a1" "a2"))
        (second (efrit-test-http-text-events "b1" "b2")))
    (cl-flet ((slowly (events)
                `(,(efrit-test-http-head "200 OK" "Content-Type: text/event-stream")
                  ,@(cl-loop for event in events collect event collect 'pause) close)))
      (efrit-model-test--with-model (list (slowly first) (slowly second))
        (let (replies)
          (dotimes (_ 2)
            (efrit-model-ask '((messages . [((role . "user") (content . "hi"))]))
                             :on-done (lambda (reply) (push reply replies))))
          (efrit-test-wait (cdr replies))
          (should (equal (sort (mapcar #'efrit-model-test--text replies) #'string<)
                         '("a1a2" "b1b2"))))))))

;;;; What goes wrong and is tried again

(ert-deftest efrit-model-a-stream-that-breaks-anywhere-is-asked-for-again ()
  (let* ((efrit-model-max-attempts 100)
         (bytes (apply #'concat (efrit-test-http-text-events "héllo")))
         (end (- (length bytes) 1))
         (cuts (append (number-sequence 0 end 61) (list end)))
         (heads (list (efrit-test-http-head "200 OK" "Content-Type: text/event-stream")
                      (efrit-test-http-head "200 OK" "Content-Type: text/event-stream"
                                            "Content-Length: 100000"))))
    (efrit-model-test--with-model
        (append (cl-loop for cut in cuts
                         for n from 0
                         collect (list (nth (% n 2) heads) (substring bytes 0 cut) 'close))
                (list '(close) (list (substring (car heads) 0 20) 'close)
                      (efrit-test-http-reply "at last")))
      (let ((efrit-model-max-delay 0.001))
        (should (equal (efrit-model-test--text (efrit-model-test--outcome)) "at last")))
      (should (equal (efrit-model-test--kinds) (make-list (+ 2 (length cuts)) "cut")))
      (should-not (efrit-model-test--left)))))

(ert-deftest efrit-model-a-busy-server-is-asked-again ()
  (efrit-model-test--with-model
      (list (efrit-test-http-refusal "429 Slow" "rate_limit_error" "Slow down")
            (efrit-test-http-refusal "529 Busy" "overloaded_error" "Overloaded")
            (efrit-test-http-refusal "500 Oops" "api_error" "Oops")
            (efrit-test-http-refusal "503 Gone" "api_error" "Gone")
            (efrit-test-http-reply "x"))
    (should (equal (efrit-model-test--text (efrit-model-test--outcome)) "x"))
    (should (equal (efrit-model-test--kinds) '("429" "529" "500" "503")))
    (should (equal (mapcar (lambda (event) (efrit-model-error-attempts (cadr event)))
                           (efrit-model-test--all 'retry))
                   '(1 2 3 4)))
    ;; Every time the same was asked.
    (should (= 1 (length (seq-uniq (mapcar #'cdr efrit-test-http-requests)))))))

(ert-deftest efrit-model-the-pause-is-the-one-that-the-server-wants ()
  (efrit-model-test--with-model
      (list (efrit-test-http-refusal "429 Slow" "rate_limit_error" "Slow" "Retry-After: 0.02")
            (efrit-test-http-reply "x"))
    (efrit-model-test--outcome)
    (should (equal (nth 2 (car (efrit-model-test--all 'retry))) 0.02))))

(ert-deftest efrit-model-the-attempts-have-an-end ()
  (let ((efrit-model-max-attempts 3))
    (efrit-model-test--with-model
        (make-list 3 (efrit-test-http-refusal "529 Busy" "overloaded_error" "Overloaded"))
      (let ((error (efrit-model-test--outcome)))
        (should (equal (efrit-model-error-kind error) "529"))
        (should (equal (efrit-model-error-message error)
                       "overloaded_error: Overloaded (HTTP 529)"))
        (should (= 3 (efrit-model-error-attempts error)))
        (should (= 2 (length (efrit-model-test--all 'retry))))
        (should-not (efrit-model-test--left))))))

(ert-deftest efrit-model-an-error-event-is-a-cut-with-its-words ()
  (efrit-model-test--with-model
      (list (efrit-test-http-stream
             (append (seq-take (efrit-test-http-text-events "half") 4)
                     (list (efrit-test-http-event
                            "error" :error '(:type "overloaded_error" :message "Busy")))))
            (efrit-test-http-reply "whole"))
    (should (equal (efrit-model-test--text (efrit-model-test--outcome)) "whole"))
    (let ((error (cadr (car (efrit-model-test--all 'retry)))))
      (should (equal (efrit-model-error-kind error) "cut"))
      (should (equal (efrit-model-error-message error) "overloaded_error: Busy")))))

(ert-deftest efrit-model-silence-is-a-cut ()
  (efrit-model-test--with-model
      (list (list (efrit-test-http-head "200 OK" "Content-Type: text/event-stream")
                  (car (efrit-test-http-text-events)))
            (efrit-test-http-reply "x"))
    (let ((efrit-model-idle-seconds 1) kinds)
      (should (equal (efrit-model-test--text
                      (efrit-model-test--outcome
                       :on-retry (lambda (error &rest _)
                                   (push (efrit-model-error-kind error) kinds)
                                   ;; The second time, only this machine may be slow.
                                   (setq efrit-model-idle-seconds efrit-test-timeout))))
                     "x"))
      (should (equal kinds '("cut"))))))

(ert-deftest efrit-model-nobody-listening-is-tried-again ()
  (efrit-model-test--with-model nil
    (let* ((efrit-model-max-attempts 2)
           (efrit-model-base-url efrit-test-http-nobody)
           (error (efrit-model-test--outcome)))
      (should (equal (efrit-model-error-kind error) "connect"))
      (should (equal (efrit-model-test--kinds) '("connect"))))))

(ert-deftest efrit-model-a-part-lost-in-emacs-is-asked-for-again ()
  (let ((events (efrit-test-http-text-events "one" "two" "three")))
    (efrit-model-test--with-model
        (list `(,(efrit-test-http-head "200 OK" "Content-Type: text/event-stream")
                ,@(seq-take events 4) hold ,(nth 4 events) hold
                ,@(seq-drop events 5) close)
              (efrit-test-http-reply "whole"))
      (let* ((curl (efrit-model-call-curl (efrit-model-test--ask)))
             (process (efrit-curl-process curl))
             (filter (process-filter process))
             lost)
        (efrit-test-wait (efrit-model-test--all 'text))
        (set-process-filter process (lambda (_process bytes) (setq lost bytes)))
        (efrit-test-http-go)
        (efrit-test-wait lost)
        (set-process-filter process filter)
        (efrit-test-http-go)
        (should (equal (efrit-model-test--text (efrit-test-wait (efrit-model-test--over)))
                       "whole"))
        (should (equal (efrit-model-test--kinds) '("cut")))))))

;;;; What goes wrong for good

(ert-deftest efrit-model-a-refusal-is-not-tried-again ()
  (efrit-model-test--refused "400 Bad" "refused")
  (efrit-model-test--refused "404 None" "refused")
  (efrit-model-test--refused "413 Large" "refused")
  (efrit-model-test--refused "401 Who" "authentication")
  (efrit-model-test--refused "403 No" "authentication"))

(ert-deftest efrit-model-a-replaced-key-is-tried-once ()
  (efrit-model-test--with-model
      ;; Replaced before the refusal is sent: what reads that may be fast.
      (list (cons
             (lambda ()
               (write-region "sk-test-key-2" nil efrit-model-api-key-file nil 'silent))
             (efrit-test-http-refusal "401 Who" "authentication_error" "invalid x-api-key"))
            (efrit-test-http-reply "x"))
    (should (equal (efrit-model-test--text (efrit-model-test--outcome)) "x"))
    (should (equal (mapcar (lambda (event) (nth 2 event)) (efrit-model-test--all 'retry)) '(0)))
    (should (equal (mapcar (lambda (request)
                             (and (string-match "sk-test-key-[0-9]" (car request))
                                  (match-string 0 (car request))))
                           (reverse efrit-test-http-requests))
                   '("sk-test-key-1" "sk-test-key-2")))))

(ert-deftest efrit-model-a-key-that-keeps-changing-is-not-tried-for-ever ()
  (let ((number 1))
    (efrit-model-test--with-model
        (make-list 2 (cons
                      (lambda ()
                        (write-region (format "sk-test-key-%d" (cl-incf number)) nil
                                      efrit-model-api-key-file nil 'silent))
                      (efrit-test-http-refusal "401 Who" "authentication_error" "Who?")))
      (let ((error (efrit-model-test--outcome)))
        (should (equal (efrit-model-error-kind error) "authentication"))
        (should (= 2 (efrit-model-error-attempts error)))))))

(ert-deftest efrit-model-what-leaves-a-private-network-unencrypted-is-in-the-clear ()
  ;; tests/unit/test_clear_text.py has the same.
  (dolist (url '("https://api.example.org" "http://localhost:8080/x" "http://127.0.0.1:1" "http://127.1.2.3"
                 "http://[::1]:80" "http://model" "http://model.team.svc"
                 "http://model.team.svc.cluster.local:80/v1" "http://model.localhost" "http://10.1.2.3"
                 "http://172.16.0.1" "http://192.168.1.2:11434" "http://[fd00::1]"))
    (ert-info (url) (should-not (efrit-settings-in-the-clear-p url))))
  (dolist (url '("http://api.example.org" "http://172.32.0.1" "http://8.8.8.8" "http://[2001:db8::1]:80"
                 "http://localhost.example.org" "http://127.0.0.1.example.org" "http://10.example.org"
                 "http://svc.example.org"
                 "http://134744072" "http://0x08080808/v1" "http://api%2eexample%2eorg"
                 "http://api\u3002example\uff0eorg" "http://api%2eexample%2eorg.svc"
                 "http://api.example.org?@localhost/" "http://api.example.org#@localhost/"
                 "HTTP://api.example.org" "http://[::ffff:8.8.8.8]"))
    (ert-info (url) (should (efrit-settings-in-the-clear-p url)))))

(ert-deftest efrit-model-a-key-is-not-sent-over-http-by-a-proxy-that-others-can-read ()
  (pcase-dolist (`(,url ,proxy ,refused)
                 '(("http://model.team.svc" "http://proxy.example.invalid:3128" t)
                   ("HTTP://10.1.2.3" "socks5h://8.8.8.8" t)
                   ("http://10.1.2.3" "https://proxy.example.invalid" t)
                   ("http://10.1.2.3" "proxy.example.invalid:3128" t)
                   ("http://10.1.2.3" "http://proxy.team.svc:3128" nil)
                   ("http://10.1.2.3" "socks5://10.1.2.4" nil)
                   ("http://10.1.2.3" nil nil)
                   ("https://api.example.invalid" "http://proxy.example.invalid:3128" nil)))
    (ert-info ((format "%s %s" url proxy))
      (let ((efrit-model-base-url url) (efrit-model-proxy proxy))
        (should (eq refused (and (efrit-model--key-seen-by-proxy-p) t)))))))

(ert-deftest efrit-model-no-key-no-curl-and-no-url-are-reported-later ()
  (pcase-dolist (`(,kind ,variable ,value)
                 '(("no-key" efrit-model-api-key-file "/nonexistent")
                   ("no-key" efrit-model-base-url "http://api.example.invalid")
                   ("no-key" efrit-model-proxy "http://user:5ecret@proxy.example.invalid")
                   ("no-key" efrit-model-proxy "http://proxy.example.invalid:3128")
                   ("no-curl" efrit-curl-program "/nonexistent/curl")
                   ("protocol" efrit-model-base-url nil)
                   ("connect" efrit-model-base-url "file:///etc")))
    (efrit-model-test--with-model nil
      (cl-progv (list variable) (list value)
        (efrit-model-test--ask)
        (should-not (efrit-model-test--over))
        (let ((error (efrit-test-wait (efrit-model-test--over))))
          (should (equal (efrit-model-error-kind error) kind))
          (should (= 1 (efrit-model-error-attempts error)))
          (should-not (efrit-model-test--left)))))))

(ert-deftest efrit-model-what-is-no-stream-is-no-reply ()
  (dolist (reply `((,(efrit-test-http-head "200 OK" "Content-Type: text/html")
                    "<html>Log in</html>" close)
                   (,(efrit-test-http-head "302 Found" "Location: /login") close)))
    (efrit-model-test--with-model (list reply)
      (should (equal (efrit-model-error-kind (efrit-model-test--outcome)) "protocol")))))

(ert-deftest efrit-model-a-reply-without-end-is-not-read-for-ever ()
  (let ((efrit-model-max-reply-bytes 20000))
    (efrit-model-test--with-model
        (list (list (efrit-test-http-head "200 OK" "Content-Type: text/event-stream")
                    (make-string 30000 ?x)))
      (should (equal (efrit-model-error-kind (efrit-model-test--outcome)) "protocol"))
      (should-not (efrit-model-test--left)))))

(ert-deftest efrit-model-a-server-without-tls-is-an-error-of-tls ()
  (efrit-model-test--with-model nil
    ;; What speaks no TLS answers the first bytes with a line of its own.
    (set-process-filter efrit-test-http-server
                        (lambda (connection _bytes)
                          (process-send-string connection "HTTP/1.0 400 Bad\r\n\r\n")))
    (let* ((efrit-model-max-attempts 1)
           (efrit-model-base-url (replace-regexp-in-string "\\`http" "https"
                                                           efrit-test-http-url))
           (error (efrit-model-test--outcome)))
      (should (equal (efrit-model-error-kind error) "tls")))))

(ert-deftest efrit-model-an-error-does-not-show-the-key ()
  (efrit-model-test--with-model
      (list (efrit-test-http-refusal "400 Bad" "invalid_request_error"
                                     "You sent sk-test-key-1"))
    (should (equal (efrit-model-error-message (efrit-model-test--outcome))
                   "invalid_request_error: You sent [API key] (HTTP 400)"))))

;;;; Deadlines

(ert-deftest efrit-model-a-reply-that-comes-too-late-is-a-timeout ()
  (efrit-model-test--with-model
      (list (list (efrit-test-http-head "200 OK" "Content-Type: text/event-stream")
                  (car (efrit-test-http-text-events))))
    (let ((error (efrit-model-test--outcome :deadline (+ (float-time) 0.7))))
      (should (equal (efrit-model-error-kind error) "timeout"))
      (should-not (efrit-model-test--left)))))

(ert-deftest efrit-model-no-pause-goes-beyond-the-deadline ()
  (efrit-model-test--with-model
      (list (efrit-test-http-refusal "429 Slow" "rate_limit_error" "Slow" "Retry-After: 50"))
    (let ((error (efrit-model-test--outcome :deadline (+ (float-time) 40))))
      (should (equal (efrit-model-error-kind error) "429"))
      (should-not (efrit-model-test--all 'retry)))))

(ert-deftest efrit-model-after-the-deadline-nothing-is-asked ()
  (efrit-model-test--with-model nil
    (let ((error (efrit-model-test--outcome :deadline (- (float-time) 1))))
      (should (equal (efrit-model-error-kind error) "timeout"))
      (should-not efrit-test-http-requests))))

;;;; Ending a call

(ert-deftest efrit-model-an-abort-leaves-nothing-and-nothing-is-reported-after-it ()
  (let ((events (efrit-test-http-text-events "one" "two"))
        (head (efrit-test-http-head "200 OK" "Content-Type: text/event-stream"))
        (efrit-model-first-delay 60))
    (pcase-dolist (`(,reply ,when)
                   `((() ,(lambda () efrit-test-http-requests))
                     ((,head ,@(seq-take events 4)) ,(lambda () (efrit-model-test--all 'text)))
                     ((,head ,@events) ,(lambda () (efrit-model-test--all 'text)))
                     (,(efrit-test-http-refusal "529 Busy" "overloaded_error" "Busy")
                      ,(lambda () (efrit-model-test--all 'retry)))
                     (,(efrit-test-http-reply "x") ,(lambda () (efrit-model-test--over)))))
      (efrit-model-test--with-model (list reply (efrit-test-http-reply "other"))
        (let ((call (efrit-model-test--ask)) before after)
          (efrit-test-wait (funcall when))
          (efrit-model-abort call)
          (efrit-model-abort call)
          (should-not (efrit-model-test--left))
          (setq before efrit-model-test--calls
                after (copy-sequence before))
          ;; The next call shows that time has passed.
          (efrit-model-test--outcome)
          (efrit-model-ensure-running call)
          (should (equal before after)))))))

(ert-deftest efrit-model-a-call-may-be-aborted-by-its-own-callbacks ()
  (let ((efrit-model-first-delay 60))
    (pcase-dolist (`(,callback ,reply)
                   `((:on-text ,(efrit-test-http-reply "one" "two"))
                     (:on-done ,(efrit-test-http-reply "one"))
                     (:on-retry ,(efrit-test-http-refusal "529 B" "overloaded_error" "Busy"))
                     (:on-error ,(efrit-test-http-refusal "400 B" "some_error" "Bad"))))
      (efrit-model-test--with-model (list reply)
        (let ((count 0) call)
          (setq call (efrit-model-test--ask callback (lambda (&rest _)
                                                       (setq count (1+ count))
                                                       (efrit-model-abort call))))
          (efrit-test-wait (> count 0))
          (efrit-test-wait (not (efrit-model-test--left)))
          (should (= count 1)))))))

(ert-deftest efrit-model-an-abort-before-anything-came-leaves-nothing ()
  (efrit-model-test--with-model nil
    (efrit-model-abort (efrit-model-test--ask))
    (let ((efrit-curl-program "/nonexistent/curl"))
      (efrit-model-abort (efrit-model-test--ask)))
    (should-not (efrit-model-test--left))))

;;;; Inside the code of a request

(ert-deftest efrit-model-a-reply-may-come-inside-the-code-of-a-request ()
  (efrit-test-with-queue
    (efrit-model-test--with-model
        (list (efrit-test-http-refusal "529 Busy" "overloaded_error" "Busy")
              (efrit-test-http-reply "one" "two"))
      (let (value)
        (with-temp-buffer
          (insert "text")
          (goto-char 2)
          (string-match "b" "abc")
          (setq value
                (efrit-interrupt-run
                 "other" nil
                 (lambda ()
                   (efrit-model-test--ask)
                   ;; Whoever handles an error now must not be the code above.
                   (efrit-test-write "control" "cancel_other" "Cancelled\n")
                   (let ((debug-on-signal nil) (signal-hook-function nil))
                     (while (not (efrit-model-test--over))
                       (accept-process-output nil 0.01)))
                   (list (match-beginning 0) (point) (buffer-string))))))
        (should (equal value '(1 2 "text")))
        (should (equal (efrit-model-test--text (efrit-model-test--over)) "onetwo"))))))

(ert-deftest efrit-model-a-removed-timer-or-process-is-made-up-for ()
  (efrit-model-test--with-model
      (list (efrit-test-http-refusal "529 Busy" "overloaded_error" "Busy" "Retry-After: 50")
            '()
            (efrit-test-http-reply "x"))
    (let ((call (efrit-model-test--ask)))
      (efrit-test-wait (efrit-model-test--all 'retry))
      (cancel-timer (efrit-model-call-timer call))
      ;; Before its time is not when it is made up for.
      (efrit-model-ensure-running call)
      (should (eq (efrit-model-call-state call) 'waiting))
      (setf (efrit-model-call-due call) (float-time))
      (efrit-model-ensure-running call)
      (efrit-test-wait (cdr efrit-test-http-requests))
      (let ((process (efrit-curl-process (efrit-model-call-curl call))))
        (set-process-sentinel process #'ignore)
        (delete-process process))
      (efrit-test-wait (progn (efrit-model-ensure-running call) (efrit-model-test--over)))
      (should (equal (efrit-model-test--text (efrit-model-test--over)) "x"))
      (should (equal (efrit-model-test--kinds) '("529" "cut"))))))

;; A timer goes by the time of day: after that was set back by an hour, it comes an hour late.
(ert-deftest efrit-model-a-clock-that-is-set-back-makes-no-pause-longer ()
  (efrit-model-test--with-model
      (list (efrit-test-http-refusal "529 Busy" "overloaded_error" "Busy" "Retry-After: 50")
            (efrit-test-http-reply "x"))
    (let ((call (efrit-model-test--ask)))
      (efrit-test-wait (efrit-model-test--all 'retry))
      (let ((timer (efrit-model-call-timer call)))
        (timer-set-time timer (time-add nil 3650))
        (setf (efrit-model-call-due call) (efrit-clock))
        (efrit-model-ensure-running call)
        (should-not (memq timer timer-list)))
      (should (equal (efrit-model-test--text (efrit-test-wait (efrit-model-test--over))) "x")))))

(ert-deftest efrit-model-a-clock-that-is-set-ends-no-call ()
  (dolist (set '(-3600 3600))
    (efrit-test-with-clock
      (let ((call (efrit-model-call--make :deadline (+ (efrit-clock) 60))))
        (efrit-test-pass 20 set)
        (should-not (efrit-model--late-p call 0))
        (should (efrit-model--late-p call 41))
        (efrit-test-pass 41)
        (should (efrit-model--late-p call 0))))))

;; Whoever asks looks after the call at any moment.
(ert-deftest efrit-model-a-reply-that-is-not-read-when-curl-has-ended-is-not-lost ()
  (efrit-model-test--with-model
      (list (cons 'hold (efrit-test-http-reply "x")) (efrit-test-http-reply "y"))
    (let ((call (efrit-model-test--ask)))
      (efrit-test-wait efrit-test-http--held)
      (let ((process (efrit-curl-process (efrit-model-call-curl call))))
        (efrit-test-http-go)
        (while (process-live-p process) (call-process "sleep" nil nil nil "0.01")))
      (efrit-model-ensure-running call)
      (efrit-test-wait (efrit-model-test--over))
      (should (equal (efrit-model-test--text (efrit-model-test--over)) "x"))
      (should-not (efrit-model-test--all 'retry)))))

(provide 'efrit-model-test)
;;; efrit-model-test.el ends here
