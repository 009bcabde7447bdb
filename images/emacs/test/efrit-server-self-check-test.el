;;; efrit-server-self-check-test.el --- Tests of the check between requests  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Code:

(require 'efrit-test-queue)
(require 'efrit-test-daemon)
(require 'efrit-server-self-check)
(require 'efrit-server)

(defconst efrit-self-check-test--no-trampolines
  "(setq comp-enable-subr-trampolines nil native-comp-enable-subr-trampolines nil)"
  "Keeps an Emacs with a native compiler from compiling for each advised primitive.")

;;;; The check itself

(defmacro efrit-self-check-test--interpreted (&rest body)
  "Run BODY, which redefines primitives, without compiling for each of them."
  (declare (indent 0) (debug t))
  `(cl-progv '(comp-enable-subr-trampolines native-comp-enable-subr-trampolines) '(nil nil)
     ,@body))

(defmacro efrit-self-check-test--with (function definition &rest body)
  "Run BODY while the symbol FUNCTION has DEFINITION for its function."
  (declare (indent 2) (debug t))
  `(efrit-self-check-test--interpreted
     (cl-letf (((symbol-function ,function) ,definition)) ,@body)))

(defconst efrit-self-check-test--sabotage
  `((prin1-to-string . ,(lambda (&rest _) "7"))
    (prin1 . ,#'ignore)
    (read-from-string . ,(lambda (&rest _) '(8 . 1000)))
    (+ . ,(lambda (&rest _) 4))
    (secure-hash . ,(lambda (&rest _) (make-string 64 ?0)))
    (json-serialize . ,(lambda (&rest _) "{}"))
    (json-serialize . ,(lambda (&rest _) (error "Never \xff")))
    (json-serialize . ,#'ignore)
    (encode-coding-string . ,(lambda (&rest _) "x"))
    (format-time-string . ,(lambda (&rest _) "1970-01-01T00:00:00.000Z"))
    (format-time-string . ,(lambda (&rest _) "9970-01-01T00:00:00.000Z"))
    (gethash . ,#'ignore)
    (efrit-request-parse . ,(lambda (_ name) (efrit-request-unreadable name "No")))
    (efrit-request-parse . ,(lambda (&rest _) (efrit-request-make :content "(+ 4 4)")))
    (efrit-print . ,#'ignore)
    (efrit-answer-make . ,#'ignore)
    (generate-new-buffer . ,(lambda (&rest _) (error "No buffers"))))
  "Functions and definitions of them with which no answer is right.")

(ert-deftest efrit-self-check-finds-functions-that-make-answers-wrong ()
  (efrit-test-with-queue
    (let ((check (efrit-self-check--closure)))
      (pcase-dolist (`(,function . ,definition) efrit-self-check-test--sabotage)
        (should-not (funcall check))
        (let ((problem (efrit-self-check-test--with function definition (funcall check))))
          (ert-info ((format "%s: %s" function problem))
            (should (string-match-p "\\`a[n ].*\\(?:answer\\|time\\)" problem))
            (should (< (length problem) 200))
            (should (json-serialize problem)))))
      (should-not (funcall check)))))

(ert-deftest efrit-self-check-finds-another-obarray ()
  (efrit-test-with-queue
    (let ((check (efrit-self-check--closure)))
      (should (let ((obarray (if (fboundp 'obarray-make) (obarray-make) (make-vector 7 0))))
                (funcall check)))
      (should-not (funcall check)))))

(ert-deftest efrit-self-check-finds-coding-systems-with-another-meaning ()
  (efrit-test-with-queue
    (let ((check (efrit-self-check--closure)))
      (unwind-protect
          (progn
            (define-coding-system-alias 'no-conversion 'utf-16)
            (should (equal (funcall check)
                           "answers would be written in another coding system")))
        ;; Another name of what it was.
        (define-coding-system-alias 'no-conversion 'binary))
      (should-not (funcall check)))))

(ert-deftest efrit-self-check-finds-that-what-puts-things-back-was-replaced ()
  (efrit-test-with-queue
    (let ((check (efrit-self-check--closure)))
      (dolist (variable '(efrit-guard-restorer efrit-guard-recorder))
        (cl-progv (list variable) (list (lambda (&rest _) (error "No")))
          (should (equal (funcall check)
                         "what puts functions and variables back has been replaced")))
        (should-not (funcall check))))))

(ert-deftest efrit-self-check-is-not-misled-by-redefinitions-of-what-compares ()
  (efrit-test-with-queue
    (let ((check (efrit-self-check--closure)))
      (efrit-self-check-test--interpreted
        (cl-letf (((symbol-function 'string=) (lambda (&rest _) t))
                  ((symbol-function 'equal) (lambda (&rest _) t))
                  ((symbol-function 'substring) (lambda (&rest _) ""))
                  ((symbol-function 'string-lessp) #'ignore)
                  ((symbol-function 'length) (lambda (&rest _) 0))
                  ((symbol-function 'efrit-self-check--answer) #'ignore)
                  ((symbol-function 'efrit-self-check--excerpt) #'ignore)
                  ((symbol-function 'prin1-to-string) (lambda (&rest _) "7")))
          (should (stringp (funcall check))))))))

(ert-deftest efrit-self-check-says-which-part-of-the-answer-is-wrong ()
  (efrit-test-with-queue
    (let ((check (efrit-self-check--closure)))
      (should (string-match-p
               (regexp-quote "answered with \"result\":\"7\",")
               (efrit-self-check-test--with 'prin1-to-string (lambda (&rest _) "7")
                 (funcall check)))))))

(ert-deftest efrit-self-check-has-nothing-against-code-that-watches ()
  (efrit-test-with-queue
    (let ((check (efrit-self-check--closure)) (watch (lambda (&rest _) (message "Watched"))))
      (unwind-protect
          (progn
            (dolist (function '(json-serialize efrit-print read-from-string))
              (advice-add function :before watch))
            (should-not (funcall check)))
        (dolist (function '(json-serialize efrit-print read-from-string))
          (advice-remove function watch))))))

(ert-deftest efrit-self-check-has-nothing-against-settings ()
  (efrit-test-with-queue
    (let ((check (efrit-self-check--closure)))
      (dolist (setting '((efrit-inline-result-bytes . 4) (efrit-captured-bytes . 2)
                         (efrit-max-result-bytes . 1) (locale-coding-system . utf-16)
                         (print-length . 1) (print-escape-newlines . t) (case-fold-search . nil)
                         (default-directory . "/nowhere/") (efrit-workspace-directory . "/nowhere/")))
        (cl-progv (list (car setting)) (list (cdr setting))
          (ert-info ((symbol-name (car setting)))
            (should-not (funcall check))))))))

(ert-deftest efrit-self-check-fails-for-good-where-the-start-was-wrong ()
  (efrit-test-with-queue
    (let ((check (efrit-self-check-test--with 'prin1-to-string (lambda (&rest _) "7")
                   (efrit-self-check--closure))))
      (should (string-match-p "\\`at the start " (funcall check))))))

;;;; When it is made, and what follows

(defmacro efrit-self-check-test--with-function (function &rest body)
  "Run BODY in an Emacs nobody works in, where FUNCTION is what checks."
  (declare (indent 1) (debug t))
  `(let ((efrit-self-check--failures 0)
         (efrit-self-check--problem nil)
         (efrit-self-check--time nil)
         (efrit-self-check--requested nil)
         (efrit-self-check--function ,function))
     (cl-letf (((symbol-function 'efrit-background-attended-p) #'ignore))
       ,@body)))

(ert-deftest efrit-self-check-one-failure-holds-claims-and-two-are-reported ()
  (let ((problem "wrong"))
    (efrit-self-check-test--with-function (lambda () problem)
      (should (eq (efrit-self-check-facts) :null))
      (should-not (efrit-self-check))
      (should (efrit-self-check-holds-p))
      (should (eq (alist-get 'passed (efrit-self-check-facts)) t))
      (should (equal (efrit-self-check) "wrong"))
      (should (eq (alist-get 'passed (efrit-self-check-facts)) :false))
      (should (equal (alist-get 'problem (efrit-self-check-facts)) "wrong"))
      (setq problem "wrong in another way")
      (should-not (efrit-self-check))
      (should (equal (alist-get 'problem (efrit-self-check-facts)) "wrong"))
      (setq problem nil)
      (should-not (efrit-self-check))
      (should-not (efrit-self-check-holds-p))
      (should (eq (alist-get 'passed (efrit-self-check-facts)) t))
      (should (eq (alist-get 'problem (efrit-self-check-facts)) :null)))))

(ert-deftest efrit-self-check-that-is-left-by-a-throw-has-failed ()
  (efrit-self-check-test--with-function (lambda () (throw 'out nil))
    (dotimes (_ 2) (catch 'out (efrit-self-check)))
    (should (efrit-self-check-holds-p))
    (should (stringp (alist-get 'problem (efrit-self-check-facts))))))

(ert-deftest efrit-self-check-is-made-seldom-and-after-requests-and-failures ()
  (let ((now 1000.0) problem)
    (efrit-self-check-test--with-function (lambda () problem)
      (cl-letf (((symbol-function 'float-time) (lambda (&rest _) now)))
        (should (efrit-self-check-due-p))
        (efrit-self-check)
        (should-not (efrit-self-check-due-p))
        (setq now (+ 1000.0 -0.1 efrit-self-check-seconds))
        (should-not (efrit-self-check-due-p))
        (setq now (+ 1000.0 efrit-self-check-seconds))
        (should (efrit-self-check-due-p))
        (efrit-self-check)
        (setq now 500.0)
        (should (efrit-self-check-due-p))
        (efrit-self-check)
        (efrit-self-check-request-ended)
        (should (efrit-self-check-due-p))
        (setq problem "wrong")
        (efrit-self-check)
        (should (efrit-self-check-due-p))))))

(ert-deftest efrit-self-check-comes-before-the-next-claim-once-a-request-has-ended ()
  (efrit-test-with-queue
    (let ((calls 0) (efrit-server-dirty t) (efrit-server-soon nil))
      (efrit-self-check-test--with-function (lambda () (setq calls (1+ calls)) "wrong")
        (unwind-protect
            (progn
              (efrit-test-submit "next")
              (efrit-self-check-request-ended)
              (dotimes (_ 2) (efrit-server--work-slice))
              (should (equal calls 1))
              (should (equal (efrit-test-names "requests") '("req_next.json"))))
          (when efrit-server-soon (cancel-timer efrit-server-soon)))))))

(ert-deftest efrit-self-check-follows-what-puts-functions-back-once-a-request-was-cut-short ()
  (efrit-test-with-queue
    (let* (steps
           (efrit-server-slice 3600)
           (efrit-server-dirty t)
           (efrit-guard-restorer (lambda () (push 'restore steps))))
      (efrit-self-check-test--with-function (lambda () (push 'check steps) nil)
        (efrit-health-reset)
        (efrit-test-submit "1")
        (efrit-test-submit "2" :content "(error \"No\")")
        (efrit-test-submit "3")
        (efrit-self-check-request-ended)
        ;; Each sets the directory of that buffer.
        (with-current-buffer (efrit-eval--scratch)
          (let ((default-directory default-directory))
            (efrit-server--work-slice)))
        (should (equal (nreverse steps)
                       ;; Each request puts functions back at its end.
                       '(check restore check restore restore check restore check)))))))

(ert-deftest efrit-self-check-comes-before-the-next-claim-once-a-tool-of-a-session-has-run ()
  (pcase-dolist (`(,state . ,requested) '((act . t) (ask . nil)))
    (let ((efrit-self-check--requested nil) (efrit-health--shown nil) stepped)
      (cl-letf (((symbol-function 'efrit-session-step)
                 (lambda (_) (setq stepped t) (throw 'out nil))))
        (catch 'out (efrit-server-step (efrit-session-make :state state))))
      (should stepped)
      (should (eq (efrit-self-check-requested-p) requested)))))

(ert-deftest efrit-self-check-leaves-an-emacs-alone-that-somebody-works-in ()
  (efrit-self-check-test--with-function (lambda () "wrong")
    (efrit-self-check)
    (cl-letf (((symbol-function 'efrit-background-attended-p) #'always))
      (should-not (efrit-self-check-due-p))
      (should-not (efrit-self-check-holds-p))
      (should (eq (efrit-self-check-facts) :null)))))

;;;; In a daemon

(defun efrit-self-check-test--facts ()
  "Return what the daemon's heartbeat says of its check."
  (alist-get 'self_check (efrit-test-heartbeat)))

(defun efrit-self-check-test--failed-p ()
  "Return what the daemon's heartbeat says its check has found, or nil."
  (let ((facts (efrit-self-check-test--facts)))
    (and facts (not (alist-get 'passed facts)) (alist-get 'problem facts))))

(defun efrit-self-check-test--later (time)
  "Wait for a check of the daemon that is later than TIME and return when it was."
  (efrit-test-wait
    (let ((now (alist-get 'time (efrit-self-check-test--facts))))
      (and now (not (equal now time)) now))))

(defun efrit-self-check-test--log ()
  "Return what the daemon has logged."
  (with-current-buffer "*efrit-test-daemon*" (buffer-string)))

(ert-deftest efrit-self-check-that-fails-is-in-the-heartbeat-and-nothing-is-claimed ()
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=0.3")
    (efrit-self-check-test--later nil)
    (should-not (efrit-self-check-test--failed-p))
    (efrit-test-eval "sabotage"
                     (format "(progn %s (advice-add 'prin1-to-string :override (lambda (&rest _) \"7\")))"
                             efrit-self-check-test--no-trampolines))
    (should (string-match-p "answered with .*\"result\":\"7\""
                            (efrit-test-wait (efrit-self-check-test--failed-p))))
    (should (equal (alist-get 'state (efrit-test-heartbeat)) "idle"))
    (efrit-test-submit "next")
    ;; The tick that makes a check looks for requests as well.
    (dotimes (_ 3)
      (efrit-self-check-test--later (alist-get 'time (efrit-self-check-test--facts))))
    (should (equal (efrit-test-names "requests") '("req_next.json")))
    (efrit-test-wait (string-match-p "the self-check failed, so nothing is claimed"
                                     (efrit-self-check-test--log)))
    (efrit-test-daemon-end 'SIGKILL)
    (efrit-test-daemon-start)
    (should (equal (alist-get 'result (efrit-test-answer "next")) "3"))))

(ert-deftest efrit-self-check-that-passes-again-lets-requests-run ()
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=0.3")
    (let ((boot (alist-get 'boot (efrit-test-heartbeat))))
      (efrit-test-eval "sabotage"
                       (format "(progn %s
                                  (advice-add 'secure-hash :override #'ignore '((name . broken)))
                                  (defun heal ()
                                    (if (file-exists-p \"heal\")
                                        (advice-remove 'secure-hash 'broken)
                                      (run-with-timer 0.1 nil #'heal)))
                                  (heal))"
                               efrit-self-check-test--no-trampolines))
      (efrit-test-wait (efrit-self-check-test--failed-p))
      (efrit-test-submit "next")
      (write-region "" nil (concat efrit-workspace-directory "heal"))
      (should (equal (alist-get 'result (efrit-test-answer "next")) "3"))
      (should (equal (alist-get 'boot (efrit-test-heartbeat)) boot)))))

(ert-deftest efrit-self-check-puts-back-what-was-redefined-between-requests ()
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=0.3")
    (let ((boot (alist-get 'boot (efrit-test-heartbeat))))
      (efrit-test-eval "sabotage"
                       (format "(progn %s (run-with-timer 0.1 nil
                                            (lambda () (fset 'prin1-to-string #'ignore))))"
                               efrit-self-check-test--no-trampolines))
      (efrit-test-wait
        (string-match-p "redefined: prin1-to-string" (efrit-self-check-test--log)))
      (should (equal (efrit-test-value "next" "(+ 1 2)") "3"))
      (should-not (efrit-self-check-test--failed-p))
      (should (equal (alist-get 'boot (efrit-test-heartbeat)) boot)))))

(provide 'efrit-server-self-check-test)
;;; efrit-server-self-check-test.el ends here
