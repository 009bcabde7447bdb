;;; efrit-eval-guard-test.el --- Tests of an Emacs whose functions are redefined  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Code:

(require 'efrit-test-queue)
(require 'efrit-test-daemon)
(require 'efrit-eval-guard)
(require 'efrit-eval-backtrace)
(require 'efrit-queue-claim)
(require 'efrit-session-state)

(defconst efrit-guard-test--everything
  "(mapatoms (lambda (symbol)
               (when (string-prefix-p \"efrit-\" (symbol-name symbol))
                 (fset symbol #'ignore))))"
  "Redefines all functions of the server.")

(ert-deftest efrit-guard-a-function-that-was-redefined-is-put-back-and-an-advised-one-is-not ()
  (unwind-protect
      (let ((json-serialize (symbol-function 'json-serialize))
            (take (symbol-function 'efrit-guard-take-restored)))
        (efrit-guard-start)
        (cl-letf (((symbol-function 'efrit-guard-take-restored) #'ignore)
                  ((symbol-function 'json-serialize) #'ignore)
                  ((symbol-function 'prin1) nil))
          (advice-add 'efrit-files-path :around #'apply)
          (efrit-guard-restore)
          (should (eq (symbol-function 'json-serialize) json-serialize))
          (should (eq (symbol-function 'efrit-guard-take-restored) take))
          (should (fboundp 'prin1))
          (should (advice-member-p #'apply 'efrit-files-path))
          (should (string-match-p "json-serialize" (efrit-guard-take-restored)))
          (should-not (efrit-guard-take-restored))))
    (advice-remove 'efrit-files-path #'apply)
    (efrit-guard-stop)))

(ert-deftest efrit-guard-what-a-process-writes-arrives-after-every-buffer-was-made-read-only ()
  (let* ((work (get-buffer-create " *code-conversion-work*"))
         (arrived "")
         (filter (lambda (_process text) (setq arrived (concat arrived text)))))
    (unwind-protect
        (progn
          (efrit-guard-start)
          (with-current-buffer work (setq buffer-read-only t))
          (efrit-guard-restore)
          (let ((process (make-process :name "writes" :command '("echo" "alpha") :buffer nil
                                       :coding 'no-conversion :connection-type 'pipe
                                       :filter filter)))
            (efrit-test-wait (not (process-live-p process)))
            (while (accept-process-output process))
            (should (equal arrived "alpha\n"))))
      (with-current-buffer work (setq buffer-read-only nil))
      (efrit-guard-stop))))

(ert-deftest efrit-guard-a-function-that-its-first-call-loaded-stays-loaded ()
  (let ((directory (make-temp-file "efrit-test-" t)) (late (intern "efrit-guard-test--late")))
    (unwind-protect
        (let ((load-path (cons directory load-path)))
          (write-region "(defun efrit-guard-test--late () 7)" nil
                        (expand-file-name "efrit-guard-late.el" directory))
          (autoload late "efrit-guard-late")
          (efrit-guard-start)
          (should (equal (funcall late) 7))
          (efrit-guard-restore)
          (should-not (autoloadp (symbol-function late)))
          (should-not (efrit-guard-take-restored)))
      (efrit-guard-stop)
      (fmakunbound late)
      (delete-directory directory t))))

(ert-deftest efrit-guard-what-a-request-redefines-is-put-back-before-its-own-answer ()
  (efrit-test-with-daemon nil
    (let ((boot (alist-get 'boot (efrit-test-heartbeat))) (number 0))
      (dolist (code (list "(setq comp-enable-subr-trampolines nil native-comp-enable-subr-trampolines nil)"
                          efrit-guard-test--everything
                          "(mapc #'fmakunbound '(efrit-server-work efrit-server--finish efrit-answer-make))"
                          "(mapc (lambda (name) (fset name #'ignore))
                                 '(write-region rename-file json-serialize directory-files
                                   file-attributes float-time prin1 run-with-timer))"
                          "(defun json-serialize (&rest _) (error \"Never\"))"
                          "(unload-feature 'efrit-print t)"))
        (cl-incf number)
        (should (equal (efrit-test-value (format "sabotage-%d" number) (format "(progn %s 7)" code))
                       "7"))
        (should (equal (efrit-test-value (format "next-%d" number) "(+ 1 2)") "3")))
      (should (equal (alist-get 'boot (efrit-test-heartbeat)) boot)))
    (should (string-match-p "put back what the code of a request had redefined: "
                            (with-current-buffer "*efrit-test-daemon*" (buffer-string))))))

;;;; Variables

(defmacro efrit-guard-test--guarded (&rest body)
  "Run BODY between what records the variables and what puts them back."
  (declare (indent 0) (debug t))
  `(unwind-protect
       (let ((put-back (progn (efrit-guard-start) (funcall efrit-guard-recorder))))
         ,@body
         (funcall put-back))
     (efrit-guard-stop)))

(ert-deftest efrit-guard-puts-back-all-variables-where-one-has-changed-that-never-does ()
  (let ((boot efrit-claim-boot) (path efrit-queue-directory) (serial efrit-files--serial)
        (wake efrit-session-wake-function))
    (should wake)
    (efrit-guard-test--guarded
      (let (symbols)
        (mapatoms (lambda (symbol)
                    (when (and (boundp symbol) (string-prefix-p "efrit-" (symbol-name symbol))
                               (not (string-prefix-p "efrit-test" (symbol-name symbol))))
                      (push symbol symbols))))
        (dolist (symbol symbols) (set symbol nil))))
    (should (equal efrit-claim-boot boot))
    (should (equal efrit-queue-directory path))
    (should (equal efrit-files--serial serial))
    (should (eq efrit-session-wake-function wake))))

(ert-deftest efrit-guard-leaves-the-servers-state-as-it-has-become ()
  (let ((efrit-files--serial 7) (efrit-settle-seconds 1))
    (efrit-guard-test--guarded (setq efrit-files--serial 8 efrit-settle-seconds 2))
    (should (equal efrit-files--serial 8))
    (should (equal efrit-settle-seconds 2))))

(ert-deftest efrit-guard-binds-again-what-was-unbound ()
  (let ((serial efrit-files--serial))
    (efrit-guard-test--guarded (makunbound 'efrit-files--serial))
    (should (equal efrit-files--serial serial))))

(defvar efrit-guard-test--other nil
  "A variable that is none of the server's, and is left alone.")

(ert-deftest efrit-guard-removes-watchers-of-the-variables-that-the-server-binds ()
  (let ((watcher (lambda (&rest _) (error "Watched"))) (early (lambda (&rest _) nil)))
    (unwind-protect
        (progn
          (add-variable-watcher 'efrit-files--serial early)
          (efrit-guard-test--guarded
            (dolist (variable '(efrit-files--serial default-directory standard-output inhibit-quit
                                efrit-guard--restored efrit-guard-test--other))
              (add-variable-watcher variable watcher)))
          (should (equal (get-variable-watchers 'efrit-files--serial) (list early)))
          (dolist (variable '(default-directory standard-output inhibit-quit))
            (should-not (get-variable-watchers variable)))
          (should-not (get-variable-watchers 'efrit-guard--restored)))
      (dolist (variable '(efrit-files--serial default-directory standard-output inhibit-quit
                          efrit-guard-test--other))
        (remove-variable-watcher variable watcher))
      (remove-variable-watcher 'efrit-files--serial early))))

;; An error of a watcher, in the hook of an error, called that hook again.
(ert-deftest efrit-guard-an-error-in-what-notes-an-error-is-no-further-one ()
  (let ((watcher (lambda (&rest _) (error "Watched"))) (calls 0))
    (unwind-protect
        (let* ((efrit-backtrace--form '(form)) (efrit-backtrace--remaining 5)
               (signal-hook-function (lambda (symbol data)
                                       (setq calls (1+ calls))
                                       (efrit-backtrace-note symbol data))))
          (add-variable-watcher 'efrit-backtrace--remaining watcher)
          (should-error (error "First"))
          ;; The end of the binding is a change too.
          (remove-variable-watcher 'efrit-backtrace--remaining watcher)
          (should (equal calls 1)))
      (remove-variable-watcher 'efrit-backtrace--remaining watcher))))

;; What is not in the guard's list can be watched, and code that watches can hold the server up.
(ert-deftest efrit-guard-knows-each-variable-of-emacs-that-the-server-binds-around-files ()
  (let ((form (macroexpand '(efrit-files-isolated nil))))
    (dolist (binding (cadr form))
      (should (memq (car binding) efrit-guard--variables)))))

(ert-deftest efrit-guard-leaves-nothing-but-timers-in-the-lists-of-timers ()
  (let* ((timer (timer-create)) (circle (list timer)))
    (setcdr circle circle)
    (unwind-protect
        (pcase-dolist (`(,value . ,expected)
                       `((5) (,circle) ((,timer . 5)) ((5 ,timer [1 2]) ,timer)
                         ((,timer) ,timer) (nil)))
          (efrit-guard-start)
          (let ((timer-list value) (timer-idle-list value))
            (efrit-guard-restore)
            (should (equal timer-list expected))
            (should (equal timer-idle-list expected))))
      (efrit-guard-stop))))

(ert-deftest efrit-guard-gives-coding-systems-their-meaning-back ()
  (efrit-guard-test--guarded
    (define-coding-system-alias 'utf-8-unix 'utf-16)
    (define-coding-system-alias 'no-conversion 'utf-8-dos)
    (should (equal (efrit-files-bytes "é") "\303\251")))
  (should (equal (encode-coding-string "é\n" 'utf-8-unix) "\303\251\n"))
  (should (equal (encode-coding-string "é\n" 'no-conversion)
                 (encode-coding-string "é\n" 'efrit-bytes))))

;;;; An Emacs that cannot answer

(defun efrit-guard-test--restarted (number code)
  "Have a daemon evaluate CODE as request NUMBER, which ends it.
Return the answers of a new one to it and to the next request."
  (efrit-test-submit (format "end-%d" number) :content code)
  (efrit-test-wait (efrit-test-daemon-gone-p))
  (efrit-test-daemon-start)
  (list (alist-get 'reason (efrit-test-answer (format "end-%d" number)))
        (efrit-test-value (format "after-%d" number) "(+ 1 2)")))

(ert-deftest efrit-guard-an-emacs-that-cannot-answer-ends-and-the-next-one-answers ()
  (efrit-test-with-daemon nil
    (let ((number 0))
      (dolist (code '("(advice-add 'json-serialize :override #'ignore)"
                      "(advice-add 'write-region :override #'ignore)"
                      "(advice-add 'efrit-answer-store :override #'ignore)"
                      "(advice-add 'efrit-server--finish :override (lambda (&rest _) (throw 'out 1)))"))
        (cl-incf number)
        (should (equal (efrit-guard-test--restarted number code) '("Interrupted" "3")))
        (should (string-match-p "This Emacs ends: "
                                (with-current-buffer "*efrit-test-daemon*" (buffer-string))))))
    ;; Here it is answered, and the next one cannot be begun.
    (pcase-dolist (`(,id . ,code)
                   '(("unbound" . "(setq efrit-queue--waiting 5)")
                     ("blind" . "(advice-add 'directory-files :override (lambda (&rest _) 7))")
                     ;; The heartbeat goes on meanwhile, and tells nobody.
                     ("waits" . "(advice-add 'directory-files :before (lambda (&rest _) (sleep-for 600)))")
                     ("tidies" . "(advice-add 'delete-file :before (lambda (&rest _) (sleep-for 600)))")))
      (efrit-test-eval id code)
      (efrit-test-wait (efrit-test-daemon-gone-p))
      (efrit-test-submit (concat id "-next"))
      (efrit-test-daemon-start)
      (should (equal (efrit-test-value (concat id "-last") "(+ 1 2)") "3"))
      (should (equal (alist-get 'result (efrit-test-answer (concat id "-next"))) "3")))))

;; The heartbeat said idle, and the self-check passed.
(ert-deftest efrit-guard-an-emacs-that-silently-claims-nothing-ends-and-the-next-one-answers ()
  (dolist (function '(efrit-claim-take efrit-server-work file-attributes))
    (efrit-test-with-daemon nil
      (efrit-test-eval "left" (format "(advice-add '%s :override #'ignore)" function))
      (efrit-test-submit "next")
      (efrit-test-wait (efrit-test-daemon-gone-p))
      (efrit-test-daemon-start)
      (should (equal (alist-get 'result (efrit-test-answer "next")) "3")))))

;;;; Between requests

(defun efrit-guard-test--later (code)
  "Return code that has a timer run CODE for each symbol of ours, called s."
  (format "(progn (run-with-timer 0.05 nil (lambda ()
             (mapatoms (lambda (s) (when (string-prefix-p \"efrit-\" (symbol-name s)) %s)))
             (write-region \"\" nil %S)))
             1)"
          code (concat efrit-workspace-directory "changed")))

(defun efrit-guard-test--changed-p ()
  "Return non-nil when the code of `efrit-guard-test--later' has run."
  (file-exists-p (concat efrit-workspace-directory "changed")))

(ert-deftest efrit-guard-an-emacs-whose-variables-were-changed-between-requests-ends ()
  (dolist (code '("(ignore-errors (set s nil))" "(ignore-errors (makunbound s))"))
    (efrit-test-with-daemon nil
      (efrit-test-eval "left" (efrit-guard-test--later code))
      (efrit-test-wait (efrit-test-daemon-gone-p))
      (should (efrit-guard-test--changed-p)))))

(ert-deftest efrit-guard-what-a-timer-changes-while-a-request-runs-ends-no-emacs ()
  (efrit-test-with-daemon nil
    (efrit-test-submit "runs" :content
                       (format "(progn %s %s)"
                               (efrit-guard-test--later "(ignore-errors (set s nil))")
                               (efrit-test-held "long" "(+ 1 2)")))
    (efrit-test-wait (efrit-guard-test--changed-p))
    (dotimes (_ 2)
      (let ((before (alist-get 'time (efrit-test-heartbeat))))
        (efrit-test-wait (not (equal (alist-get 'time (efrit-test-heartbeat)) before)))))
    (efrit-test-release "long")
    (should (equal (alist-get 'result (efrit-test-answer "runs")) "3"))
    (should (equal (efrit-test-value "next" "(+ 1 2)") "3"))))

;; Signals kept the heartbeat going, and nothing else.
(ert-deftest efrit-guard-an-emacs-whose-timers-no-longer-go-off-ends ()
  (efrit-test-with-daemon ("EFRIT_HEARTBEAT_SECONDS=0.2")
    (efrit-test-submit "left" :content "(progn (advice-add 'timer-event-handler :override #'ignore)
                                               (advice-add 'file-notify-handle-event :override #'ignore))")
    (let ((deadline (+ (float-time) efrit-test-timeout)))
      (while (and (process-live-p efrit-test-daemon) (< (float-time) deadline))
        ;; As seldom as a supervisor, in periods of the heartbeat.
        (accept-process-output nil 0.6)
        (efrit-test-interrupt "nobody")))
    (should-not (process-live-p efrit-test-daemon))
    (efrit-test-wait (efrit-test-daemon-gone-p))
    (should (string-match-p "This Emacs ends: timers no longer go off"
                            (with-current-buffer "*efrit-test-daemon*" (buffer-string))))))

(ert-deftest efrit-guard-a-tick-puts-back-what-was-redefined-between-requests ()
  (efrit-test-with-daemon nil
    (let ((pid (process-id efrit-test-daemon)))
      (efrit-test-eval "left" (efrit-guard-test--later "(when (fboundp s) (fset s #'ignore))"))
      (efrit-test-wait (efrit-guard-test--changed-p))
      (should (equal (efrit-test-value "next" "(emacs-pid)") (number-to-string pid))))))

(provide 'efrit-eval-guard-test)
;;; efrit-eval-guard-test.el ends here
