;;; efrit-model-curl-test.el --- Tests of one streaming POST  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A real curl and a real socket; what is said of bytes at every boundary is
;; tested without either.

;;; Code:

(require 'efrit-test-http)
(require 'efrit-model-curl)
(require 'efrit-eval-interrupt)

(defvar efrit-curl-test--calls nil
  "The calls back of the last request, in a list whose first element says nothing.")

(defun efrit-curl-test--calls (&optional kind)
  "Return the calls back of the last request, the first first.
With KIND, only the first of that kind, or nil."
  (if kind (assq kind (cdr efrit-curl-test--calls)) (cdr efrit-curl-test--calls)))

(defun efrit-curl-test--post (&rest arguments)
  "Post to the server of the test, with ARGUMENTS; return the request."
  (let* ((calls (setq efrit-curl-test--calls (list 'calls)))
         (note (lambda (&rest what) (nconc calls (list what))))
         (more (lambda (key default) (or (plist-get arguments key) default))))
    (efrit-curl-post
     (funcall more :url (concat efrit-test-http-url "/path"))
     (plist-get arguments :headers)
     (funcall more :body "hello")
     :on-head (apply-partially note 'head)
     :on-body (lambda (bytes)
                (when (plist-get arguments :on-body)
                  (funcall (plist-get arguments :on-body) bytes))
                (funcall note 'body bytes))
     :on-end (apply-partially note 'end)
     :proxy (plist-get arguments :proxy)
     :connect-seconds efrit-test-timeout
     :idle-seconds (funcall more :idle-seconds efrit-test-timeout)
     :seconds (plist-get arguments :seconds))))

(defun efrit-curl-test--end ()
  "Return how the request of the test ended, or nil while it has not."
  (cadr (efrit-curl-test--calls 'end)))

(defun efrit-curl-test--wait ()
  "Wait for the end of the request of the test and return it."
  (efrit-test-wait (efrit-curl-test--end)))

(defun efrit-curl-test--body ()
  "Return the body that came."
  (mapconcat #'cadr (seq-filter (lambda (call) (eq (car call) 'body))
                                (efrit-curl-test--calls))
             ""))

(defun efrit-curl-test--processes ()
  "Return the processes of curl that Emacs has."
  (seq-filter (lambda (process) (string-prefix-p "efrit-curl" (process-name process)))
              (process-list)))

(defun efrit-curl-test--timers ()
  "Return the timers that belong to a request."
  (seq-filter (lambda (timer)
                (string-prefix-p "efrit-curl" (format "%s" (timer--function timer))))
              timer-list))

(defun efrit-curl-test--ok (body)
  "Return the reply with BODY."
  (list (efrit-test-http-head "200 OK" (format "Content-Length: %d" (string-bytes body))
                              "X-Two:  words here ")
        body 'close))

(ert-deftest efrit-curl-head-body-and-end-come-in-order ()
  (efrit-test-with-http (list (efrit-curl-test--ok "héllo"))
    (efrit-curl-test--post)
    (let ((end (efrit-curl-test--wait)))
      (should (equal (efrit-curl-end-code end) 0))
      (should (efrit-curl-end-connected end))
      (should-not (efrit-curl-end-lost end)))
    (should (equal (mapcar #'car (efrit-curl-test--calls)) '(head body end)))
    (pcase-let ((`(,_ ,status ,headers) (efrit-curl-test--calls 'head)))
      (should (= status 200))
      (should (equal (cdr (assoc "x-two" headers)) "words here")))
    (should (equal (efrit-curl-test--body) (encode-coding-string "héllo" 'utf-8)))))

(ert-deftest efrit-curl-headers-and-body-arrive-as-they-are ()
  (let ((body (apply #'unibyte-string (number-sequence 0 255)))
        (key "a\"b\\c%{url}#' --insecure"))
    (efrit-test-with-http (list (efrit-curl-test--ok ""))
      (efrit-curl-test--post :headers `(("x-key" . ,key)) :body body)
      (efrit-curl-test--wait)
      (pcase-let ((`((,head . ,got)) efrit-test-http-requests))
        (should (string-prefix-p "POST /path HTTP/1.1\r\n" head))
        (should (string-search (concat "\r\nx-key: " key "\r\n") head))
        (should-not (string-search "Expect" head))
        (should (equal got body))))))

(ert-deftest efrit-curl-a-header-cannot-set-an-option ()
  (efrit-test-with-http (list (efrit-curl-test--ok ""))
    (efrit-curl-test--post :headers '(("x-key" . "a\"\nuser-agent = \"b\r\nx-more: c")))
    (efrit-curl-test--wait)
    (let ((head (caar efrit-test-http-requests)))
      (should (string-search "\r\nUser-Agent: efrit\r\n" head))
      (should-not (string-match-p "^x-more" head)))))

(ert-deftest efrit-curl-a-body-larger-than-any-pipe-arrives-whole ()
  (let ((body (apply #'concat (cl-loop for n from 1 to 100000
                                       collect (format "%08d" n)))))
    (efrit-test-with-http (list (efrit-curl-test--ok "thanks"))
      (efrit-curl-test--post :body body)
      (should (equal (efrit-curl-end-code (efrit-curl-test--wait)) 0))
      (should (equal (cdar efrit-test-http-requests) body))
      (should (equal (substring body 0 8) "00000001")))))

(ert-deftest efrit-curl-neither-arguments-nor-environment-show-a-header ()
  (efrit-test-with-http '(())
    (let* ((curl (efrit-curl-test--post :headers '(("x-key" . "sk-secret"))
                                        :body "sk-secret"))
           (pid (process-id (efrit-curl-process curl))))
      (efrit-test-wait efrit-test-http-requests)
      (dolist (file '("cmdline" "environ"))
        (should-not (string-search "sk-secret"
                                   (with-temp-buffer
                                     (set-buffer-multibyte nil)
                                     (insert-file-contents-literally
                                      (format "/proc/%d/%s" pid file))
                                     (buffer-string)))))
      (efrit-curl-stop curl))))

(ert-deftest efrit-curl-statuses-that-announce-another-are-skipped ()
  (efrit-test-with-http
      (list (cons "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
                  (efrit-curl-test--ok "x")))
    (efrit-curl-test--post)
    (efrit-curl-test--wait)
    (should (equal (mapcar #'car (efrit-curl-test--calls)) '(head body end)))
    (should (= 200 (cadr (efrit-curl-test--calls 'head))))))

(ert-deftest efrit-curl-a-redirect-is-not-followed ()
  (efrit-test-with-http
      (list (list (efrit-test-http-head "307 Elsewhere" "Location: /other"
                                        "Content-Length: 0")
                  'close))
    (efrit-curl-test--post)
    (efrit-curl-test--wait)
    (should (= 307 (cadr (efrit-curl-test--calls 'head))))))

(defun efrit-curl-test--feed (pieces)
  "Return what a request tells when curl writes PIECES, a list of bytes."
  (let* (came end
         (curl (efrit-curl--make
                :mark "\036mark"
                :on-head (lambda (status headers) (push (list status headers) came))
                :on-body (lambda (bytes) (push bytes came))
                :on-end (lambda (it) (setq end it)))))
    (dolist (piece pieces) (efrit-curl--take curl piece))
    (list (car (last came)) (apply #'concat (nreverse (butlast came))) end)))

(ert-deftest efrit-curl-what-curl-writes-may-come-in-any-pieces ()
  (let* ((body "data: \036 \036mar\036mar \036\036m\n\n\036mar")
         (all (concat "HTTP/1.1 100 Continue\r\n\r\n"
                      "HTTP/2 200 \r\nA: b\r\nC:d\r\n\r\n" body
                      (format "\036mark28 0.002 %d it was \036mark\n" (length body)))))
    (cl-loop
     for size from 1 to (length all) do
     (should (equal (efrit-curl-test--feed
                     (cl-loop for start from 0 below (length all) by size
                              collect (substring all start
                                                 (min (length all) (+ start size)))))
                    `((200 (("a" . "b") ("c" . "d"))) ,body
                      ,(efrit-curl--make-end :code 28 :message "it was \036mark"
                                             :connected t)))))))

(ert-deftest efrit-curl-the-end-of-an-event-is-not-held-back ()
  (dolist (body '("data: x\n\n" "data: x\r\n\r\n"))
    (should (equal (nth 1 (efrit-curl-test--feed
                           (list (concat "HTTP/1.1 200 OK\r\n\r\n" body))))
                   body))))

(ert-deftest efrit-curl-a-head-without-end-is-not-read-for-ever ()
  (efrit-test-with-http (list (append '("HTTP/1.1 200 OK\r\n")
                                      (cl-loop repeat 50 collect
                                               (concat "X: " (make-string 2000 ?x) "\r\n"))))
    (efrit-curl-test--post)
    (should (string-search "too long" (efrit-curl-end-message (efrit-curl-test--wait))))
    (should-not (efrit-curl-test--processes))))

(ert-deftest efrit-curl-nobody-listening-is-no-connection ()
  (let* ((efrit-test-http-url efrit-test-http-nobody)
         (end (progn (efrit-curl-test--post) (efrit-curl-test--wait))))
    (should (equal (efrit-curl-end-code end) 7))
    (should-not (efrit-curl-end-connected end))
    (should (string-search "connect" (efrit-curl-end-message end)))))

(ert-deftest efrit-curl-a-cut-connection-is-reported ()
  (pcase-dolist (`(,code . ,reply)
                 `((52 close)
                   (0 ,(efrit-test-http-head "200 OK") "x" close)
                   (18 ,(efrit-test-http-head "200 OK" "Content-Length: 9") "x" close)
                   (18 ,(efrit-test-http-head "200 OK" "Transfer-Encoding: chunked")
                       "5\r\nab" close)))
    (efrit-test-with-http (list reply)
      (efrit-curl-test--post)
      (let ((end (efrit-curl-test--wait)))
        (should (equal (efrit-curl-end-code end) code))
        (should (efrit-curl-end-connected end))))))

(ert-deftest efrit-curl-silence-and-time-over-end-it ()
  (dolist (limit '((:idle-seconds 1) (:seconds 0.5)))
    (efrit-test-with-http (list (list (efrit-test-http-head "200 OK") "x"))
      (apply #'efrit-curl-test--post limit)
      (should (equal (efrit-curl-end-code (efrit-curl-test--wait)) 28))
      (should-not (efrit-curl-test--processes)))))

(ert-deftest efrit-curl-a-missing-program-is-a-file-error ()
  (let ((efrit-test-http-url efrit-test-http-nobody))
    (dolist (efrit-curl-program '("nonexistent-curl" "/nonexistent/curl"))
      (should-error (efrit-curl-test--post) :type 'file-error)
      (should-not (efrit-curl-test--processes)))))

(ert-deftest efrit-curl-a-stop-leaves-nothing-and-calls-back-no-more ()
  (dolist (reply `(()
                   (,(efrit-test-http-head "200 OK"))
                   (,(efrit-test-http-head "200 OK") "x" pause "y" pause "z")))
    (efrit-test-with-http (list reply (efrit-curl-test--ok "other"))
      (let ((curl (efrit-curl-test--post :body (make-string 200000 ?x))) calls)
        (efrit-test-wait (if (cdr reply) (efrit-curl-test--calls 'body)
                              efrit-test-http-requests))
        (efrit-curl-stop curl)
        (setq calls (copy-sequence efrit-curl-test--calls))
        (should-not (efrit-curl-test--processes))
        (should-not (efrit-curl-test--timers))
        ;; Another request shows that time has passed.
        (let ((before efrit-curl-test--calls))
          (efrit-curl-test--post)
          (efrit-curl-test--wait)
          (should (equal before calls)))))))

(ert-deftest efrit-curl-a-stop-before-all-is-sent-leaves-nothing ()
  (efrit-test-with-http nil
    (efrit-curl-stop (efrit-curl-test--post :body (make-string 2000000 ?x)))
    (should-not (efrit-curl-test--processes))
    (should-not (efrit-curl-test--timers))))

(ert-deftest efrit-curl-an-end-leaves-nothing ()
  (efrit-test-with-http (list (efrit-curl-test--ok "x"))
    (let ((buffers (buffer-list)))
      (efrit-curl-test--post)
      (efrit-curl-test--wait)
      (should-not (efrit-curl-test--processes))
      (should-not (efrit-curl-test--timers))
      (should (equal (buffer-list) buffers)))))

(ert-deftest efrit-curl-a-callback-that-waits-does-not-mix-the-pieces ()
  (let ((depth 0) (deepest 0))
    (efrit-test-with-http
        (list `(,(efrit-test-http-head "200 OK" "Content-Length: 6")
                "a" pause "b" pause "c" pause "d" pause "e" pause "f" close))
      (efrit-curl-test--post
       :on-body (lambda (_)
                  (setq depth (1+ depth) deepest (max depth deepest))
                  (accept-process-output nil 0.02)
                  (setq depth (1- depth))))
      (efrit-curl-test--wait)
      (should (equal (efrit-curl-test--body) "abcdef"))
      (should (= deepest 1))
      (should (eq (caar (last (efrit-curl-test--calls))) 'end)))))

(ert-deftest efrit-curl-an-error-in-a-callback-does-not-stop-the-rest ()
  (efrit-test-with-http (list (efrit-curl-test--ok "x"))
    (efrit-curl-test--post :on-body (lambda (_) (let ((inhibit-message t))
                                                  (error "Of the test"))))
    (should (equal (efrit-curl-end-code (efrit-curl-test--wait)) 0))))

(ert-deftest efrit-curl-bytes-that-emacs-lost-are-noticed ()
  (efrit-test-with-http
      (list `(,(efrit-test-http-head "200 OK" "Content-Length: 4") "ab" hold "cd" close))
    (let ((process (efrit-curl-process (efrit-curl-test--post))))
      (efrit-test-wait (efrit-curl-test--calls 'body))
      ;; As when code of a request is stopped at the moment a filter is called.
      (set-process-filter process
                          (lambda (process _)
                            (set-process-filter process #'efrit-curl--on-output)))
      (efrit-test-http-go)
      (should (efrit-curl-end-lost (efrit-curl-test--wait))))))

(ert-deftest efrit-curl-what-user-code-has-bound-changes-nothing ()
  (efrit-test-with-http (list (efrit-curl-test--ok "hé\r\n\0"))
    (let ((default-directory "/nonexistent/")
          (process-environment '("http_proxy=http://127.0.0.1:1"
                                 "HTTP_PROXY=http://127.0.0.1:1" "PATH=/nonexistent"))
          (exec-path nil)
          (process-connection-type t)
          (shell-file-name "/nonexistent/sh")
          (file-name-handler-alist '(("" . ignore)))
          (case-fold-search nil))
      ;; These would change the server of the test too.
      (let ((coding-system-for-read 'utf-16) (coding-system-for-write 'utf-16))
        (efrit-curl-test--post :body "h\303\251"))
      (should (equal (efrit-curl-end-code (efrit-curl-test--wait)) 0)))
    (should (equal (cdar efrit-test-http-requests) "h\303\251"))
    (should (equal (efrit-curl-test--body) "h\303\251\r\n\0"))))

(ert-deftest efrit-curl-a-callback-does-not-end-the-request-it-interrupts ()
  (efrit-test-with-queue
    (efrit-test-with-http (list (efrit-curl-test--ok "x"))
      (should
       (eq 'ended
           (efrit-interrupt-run
            "other" nil
            (lambda ()
              (efrit-test-write "control" "cancel_other" "Cancelled\n")
              (efrit-curl-test--post
               :on-body (lambda (_) (ignore-errors (error "Of the test"))))
              (let ((debug-on-signal nil) (signal-hook-function nil))
                (while (not (efrit-curl-test--end)) (accept-process-output nil 0.01)))
              'ended)))))))

(ert-deftest efrit-curl-a-removed-timer-or-process-is-made-up-for ()
  (efrit-test-with-http (list (efrit-curl-test--ok "x"))
    (let ((curl (efrit-curl-test--post :body (make-string 200000 ?x))))
      (cancel-timer (efrit-curl-timer curl))
      (efrit-test-wait (progn (efrit-curl-ensure-running curl) (efrit-curl-test--end)))
      (should (equal (efrit-curl-end-code (efrit-curl-test--end)) 0))))
  (efrit-test-with-http '(())
    (let ((curl (efrit-curl-test--post)))
      (set-process-sentinel (efrit-curl-process curl) #'ignore)
      (delete-process (efrit-curl-process curl))
      ;; Not before its sentinel has had the time to be called.
      (efrit-test-wait (progn (efrit-curl-ensure-running curl) (efrit-curl-test--end)))
      (should-not (efrit-curl-end-code (efrit-curl-test--end)))
      (efrit-curl-ensure-running curl)
      (should (= 1 (length (efrit-curl-test--calls)))))))

(ert-deftest efrit-curl-output-that-a-busy-emacs-has-not-read-comes-before-the-end ()
  (let* ((efrit-test-http-url efrit-test-http-nobody)
         (curl (efrit-curl-test--post))
         (now (float-time)))
    ;; Emacs reads nothing meanwhile, as while the code of a request runs.
    (while (process-live-p (efrit-curl-process curl)))
    (cl-letf (((symbol-function 'float-time) (lambda (&rest _) now)))
      (dolist (seconds '(0 1.5 20 0.1))
        (setq now (+ now seconds))
        (efrit-curl-ensure-running curl)
        (should-not (efrit-curl-test--calls))))
    (should (equal (efrit-curl-end-code (efrit-curl-test--wait)) 7))))

(provide 'efrit-model-curl-test)
;;; efrit-model-curl-test.el ends here
