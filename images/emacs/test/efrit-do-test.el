;;; efrit-do-test.el --- Chats and commands by hand, in a real daemon  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Code:

(require 'efrit-test-queue)
(require 'efrit-test-daemon)
(require 'efrit-test-model)
(require 'efrit-do)

(defvar efrit-do-test--number 0
  "How many evals were sent.")

(defun efrit-do-test--value (content)
  "Return the printed value of CONTENT in the daemon."
  (setq efrit-do-test--number (1+ efrit-do-test--number))
  (efrit-test-value (format "e%d" efrit-do-test--number) content))

(defun efrit-do-test--until-shown (text)
  "Wait until the buffer that shows the work has TEXT."
  (efrit-test-wait
    (equal "t" (efrit-do-test--value
                (format "(and (get-buffer \"*efrit*\") (with-current-buffer \"*efrit*\" (and (string-match-p %S (buffer-string)) t)))"
                        text)))))

(ert-deftest efrit-do-a-command-by-hand-is-carried-out-and-shown ()
  (efrit-test-with-model-daemon nil
    (efrit-do-test--value "(progn (efrit-do \"Do twelve steps. (scenario=twelve-steps)\") t)")
    (efrit-do-test--until-shown "-> eval_sexp")
    (efrit-do-test--until-shown "\\[Succeeded\\]")
    (should (equal (efrit-do-test--value "efrit-do-mode-line") "nil"))
    ;; It came from no file and leaves none among the requests.
    (should-not (seq-filter (lambda (name) (string-match-p "hand" name))
                            (efrit-test-names "responses")))))

(ert-deftest efrit-do-a-question-is-answered-by-going-on ()
  (efrit-test-with-model-daemon nil
    (efrit-do-test--value
     "(progn (efrit-do \"Write my favourite colour to colour.txt. (scenario=question)\") t)")
    (efrit-do-test--until-shown "Which colour is your favourite")
    (efrit-do-test--value "(progn (efrit-continue \"Blue\") t)")
    (efrit-do-test--until-shown "\\[Succeeded\\]")
    (should (file-exists-p (concat efrit-workspace-directory "colour.txt")))))

(ert-deftest efrit-do-what-is-under-way-can-be-looked-at-and-cancelled ()
  (efrit-test-with-model-daemon nil
    (efrit-do-test--value "(progn (efrit-chat \"Speak. (scenario=slow)\") t)")
    (efrit-do-test--until-shown "Speak")
    (efrit-test-wait (string-match-p "turn 1" (efrit-do-test--value "(efrit-status)")))
    (efrit-test-wait (string-match-p "Efrit: turn 1" (efrit-do-test--value "efrit-do-mode-line")))
    (efrit-do-test--value "(progn (efrit-cancel) t)")
    (efrit-do-test--until-shown "\\[Cancelled")
    (should (string-match-p "does nothing" (efrit-do-test--value "(efrit-status)")))))

(ert-deftest efrit-do-what-comes-meanwhile-waits ()
  (efrit-test-with-model-daemon nil
    (should (string-match-p
             "1 wait"
             (efrit-do-test--value
              "(progn (efrit-do \"Number one. (scenario=thinking-time)\")
                      (efrit-chat \"Good day, who are you? (scenario=chat)\")
                      (efrit-status))")))
    (efrit-do-test--until-shown "I am a model that reads from a script")))

(ert-deftest efrit-do-a-chat-is-one-conversation-and-goes-on-as-a-chat ()
  (efrit-test-with-model-daemon nil
    (efrit-do-test--value "(progn (efrit-chat \"Good day, who are you? (scenario=chat)\") t)")
    (efrit-do-test--until-shown "reads from a script")
    (let ((session (efrit-do-test--value "efrit-do--last")))
      (efrit-do-test--value "(progn (efrit-chat \"What did I just learn?\") t)")
      (efrit-do-test--until-shown "Succeeded\\(.\\|\n\\)*just learn\\(.\\|\n\\)*Succeeded")
      (should (equal (efrit-do-test--value "efrit-do--last") session))
      ;; What `efrit-continue' says in a chat is a chat: no tool is called.
      (efrit-do-test--value "(progn (efrit-continue \"And now?\") t)")
      (should (equal (efrit-do-test--value "(list efrit-do--last-type efrit-do--last)")
                     (format "(\"chat\" %s)" session)))
      (efrit-test-wait (equal (efrit-do-test--value "efrit-do--session") "nil"))
      (efrit-do-test--value "(progn (efrit-chat \"Good day, who are you? (scenario=chat)\" t) t)")
      (should-not (equal (efrit-do-test--value "efrit-do--last") session)))))

(ert-deftest efrit-do-a-cancel-asks-and-goes-on-with-what-waits ()
  (efrit-test-with-model-daemon nil
    (efrit-do-test--value
     "(progn (efrit-do \"Number one. (scenario=slow)\")
             (efrit-chat \"Good day, who are you? (scenario=chat)\" t) t)")
    (efrit-do-test--value
     "(cl-letf (((symbol-function 'y-or-n-p) #'ignore)) (call-interactively #'efrit-cancel) t)")
    (should (string-match-p "1 wait" (efrit-do-test--value "(efrit-status)")))
    (efrit-do-test--value
     "(cl-letf (((symbol-function 'y-or-n-p) (lambda (_) t))) (call-interactively #'efrit-cancel) t)")
    (efrit-do-test--until-shown "\\[Cancelled")
    (efrit-do-test--until-shown "I am a model that reads from a script")))

(ert-deftest efrit-do-the-minibuffer-says-how-far-it-is ()
  (efrit-test-with-model-daemon nil
    (efrit-do-test--value "(progn (efrit-do \"Do twelve steps. (scenario=twelve-steps)\") t)")
    (efrit-do-test--until-shown "\\[Succeeded\\]")
    (should (equal (efrit-do-test--value
                    "(with-current-buffer \"*Messages*\"
                       (and (string-match-p \"^Efrit: turn [0-9]+, [0-9]+ calls\" (buffer-string)) t))")
                   "t"))))

(defmacro efrit-do-test--with-buffer (size &rest body)
  "Run BODY with a new buffer that shows the work and keeps SIZE characters."
  (declare (indent 1) (debug t))
  `(let ((efrit-do-buffer-size ,size))
     (when (get-buffer "*efrit*") (kill-buffer "*efrit*"))
     (unwind-protect (progn ,@body)
       (when (get-buffer "*efrit*") (kill-buffer "*efrit*")))))

(ert-deftest efrit-do-the-buffer-keeps-the-newest-lines-and-nothing-to-undo ()
  (efrit-do-test--with-buffer 1000
    (dotimes (number 2000)
      (efrit-do--show (format "line %d\n" number))
      (with-current-buffer "*efrit*"
        (should (<= (buffer-size) 1000))))
    (with-current-buffer "*efrit*"
      (should (eq buffer-undo-list t))
      (should (> (buffer-size) 700))
      (should (string-match-p "\\`line [0-9]+\n" (buffer-string)))
      (should (string-suffix-p "line 1998\nline 1999\n" (buffer-string))))))

(ert-deftest efrit-do-the-buffer-is-bounded-where-no-line-ends ()
  (efrit-do-test--with-buffer 1000
    (dotimes (_ 20)
      (efrit-do--show (make-string 5000 ?x))
      (with-current-buffer "*efrit*"
        (should (<= 700 (buffer-size) 1000))))))

(ert-deftest efrit-do-without-a-model-says-what-to-set ()
  (efrit-test-with-daemon nil
    (let ((answer (efrit-test-eval "e" "(efrit-do \"x\")")))
      (should (equal (alist-get 'reason answer) "EvalError"))
      (should (string-match-p "efrit-model-name" (alist-get 'error answer))))))

;;;; What an instance allows, and what waits

(ert-deftest efrit-do-what-a-request-may-not-do-is-refused-by-hand ()
  (efrit-test-with-model-daemon nil
    (efrit-do-test--value "(require 'efrit-do)")
    (pcase-dolist
        (`(,setting ,call ,problem)
         '(("(efrit-tools-deny '(\"shel_exec\"))" "(efrit-do \"x\")" "cannot name: shel_exec")
           ("(efrit-model-protocol \"elisp\") (efrit-tools-deny '(\"eval_sexp\"))" "(efrit-do \"x\")"
            "do not allow eval_sexp")
           ("" "(efrit-do (make-string 300000 ?x))" "of which a model is sent at most")
           ("(efrit-do--last \"gone\") (efrit-do--last-type \"chat\")" "(efrit-continue \"x\")"
            "There is no session gone")))
      (should (string-match-p
               problem
               (efrit-do-test--value
                (format "(let (%s) (condition-case err (progn %s t) (user-error (cadr err))))" setting call)))))
    (should (equal (efrit-do-test--value "efrit-do--session") "nil"))
    (should (equal (efrit-do-test--value
                    "(let ((efrit-max-timeout 5) (before (float-time)))
                       (efrit-chat \"Speak slowly. (scenario=slow)\")
                       (<= (+ before 5) (efrit-session-deadline efrit-do--session) (+ (float-time) 5)))")
                   "t"))))

(ert-deftest efrit-do-a-session-under-way-for-a-request-is-left-alone ()
  (efrit-test-with-model-daemon nil
    (efrit-test-submit "theirs" :type "chat" :content "Speak slowly. (scenario=slow)")
    (efrit-test-wait (string-match-p "theirs" (efrit-do-test--value "(format \"%s\" (efrit-sessions-under-way))")))
    (efrit-do-test--value "(setq efrit-do--last \"theirs\" efrit-do--last-type \"chat\")")
    (should (string-match-p
             "under way in the session theirs"
             (efrit-do-test--value "(condition-case err (efrit-continue \"And?\") (user-error (cadr err)))")))))

(ert-deftest efrit-do-what-waits-stays-in-its-conversation-when-another-one-is-begun ()
  (efrit-test-with-model-daemon nil
    (efrit-do-test--value
     "(progn (efrit-chat \"Good day, who are you? (scenario=chat)\")
             (efrit-chat \"What did I just learn?\")
             (efrit-chat \"Good day, who are you? (scenario=chat)\" t)
             t)")
    (efrit-do-test--until-shown "You said: What did I just learn")))

(ert-deftest efrit-do-a-conversation-that-is-no-longer-kept-is-reported-and-begun-anew ()
  (efrit-test-with-model-daemon nil
    (efrit-do-test--value
     "(progn (setq efrit-do--chat \"gone\") (efrit-chat \"Good day, who are you? (scenario=chat)\") t)")
    (efrit-do-test--until-shown "no longer kept\\(.\\|\n\\)*reads from a script")
    (should-not (equal (efrit-do-test--value "efrit-do--chat") "\"gone\""))))

(ert-deftest efrit-do-a-cancel-stops-what-it-asked-about-and-nothing-else ()
  (efrit-test-with-model-daemon nil
    (efrit-do-test--value
     "(progn (efrit-chat \"Speak slowly. (scenario=slow)\") t)")
    ;; While the person thinks, that has ended and the next one has begun.
    (efrit-do-test--value
     "(cl-letf* ((asked efrit-do--session)
                 ((symbol-function 'y-or-n-p)
                  (lambda (_) (setq efrit-do--session (copy-sequence asked)) t)))
        (call-interactively #'efrit-cancel)
        (setq efrit-do--session asked)
        t)")
    (should (equal (efrit-do-test--value "(efrit-session-ordered efrit-do--session)") "nil"))))

(ert-deftest efrit-do-what-waits-is-bounded-and-what-cannot-begin-holds-up-nothing ()
  (efrit-test-with-model-daemon nil
    (efrit-do-test--value "(require 'efrit-do)")
    (should (string-match-p
             "2 requests wait"
             (efrit-do-test--value
              "(let ((efrit-do-max-waiting 2))
                 (efrit-do \"Number one. (scenario=slow)\")
                 (efrit-do (make-string 300000 ?x))
                 (efrit-chat \"Good day, who are you? (scenario=chat)\")
                 (condition-case err (efrit-chat \"And?\") (user-error (cadr err))))")))
    (efrit-do-test--value "(progn (efrit-cancel) t)")
    (efrit-do-test--until-shown "of which a model is sent at most")
    (efrit-do-test--until-shown "I am a model that reads from a script")))

;;;; What the model's Lisp asks

(defun efrit-do-test--attach ()
  "Attach a client in a terminal to the daemon; return its process."
  ;; It serves requests before it takes clients.
  (efrit-test-wait (equal "t" (efrit-do-test--value "(and (bound-and-true-p server-process) t)")))
  (let* ((process-environment (append '("TERM=vt100" "EDITOR=") process-environment))
         (client (make-process
                  :name "efrit-test-client" :buffer (generate-new-buffer " *efrit-test-client*")
                  :command (list (expand-file-name "emacsclient" invocation-directory) "-t" "-s" (format "efrit-test-%d" (emacs-pid)))
                  :connection-type 'pty :noquery t :sentinel #'ignore)))
    (set-process-window-size client 24 80)
    (efrit-test-wait (equal (alist-get 'attended (efrit-test-heartbeat)) t))
    client))

(defun efrit-do-test--answer (client prompt keys)
  "Wait until CLIENT is asked PROMPT, and type KEYS there."
  (efrit-test-wait (efrit-do-test--shown-p client prompt))
  (process-send-string client keys))

(defmacro efrit-do-test--attended (client &rest body)
  "Run BODY with a daemon that has a model, and a person who is at CLIENT."
  (declare (indent 1) (debug t))
  `(efrit-test-with-model-daemon nil
     (let ((,client (efrit-do-test--attach)))
       (unwind-protect (progn ,@body)
         (delete-process ,client)
         (kill-buffer (process-buffer ,client))))))

(defun efrit-do-test--ask (seconds)
  "Have the model ask by Lisp, in work by hand that may take SECONDS."
  (efrit-do-test--value
   (format "(progn (setq efrit-do-timeout %d) (efrit-do \"Ask for my favourite colour. (scenario=prompt)\") t)"
           seconds)))

(defmacro efrit-do-test-asked (client seconds &rest body)
  "Run BODY with a daemon whose model asks by Lisp the person who is at CLIENT.
The work may take SECONDS."
  (declare (indent 2) (debug t))
  `(efrit-do-test--attended ,client
     (efrit-do-test--ask ,seconds)
     ,@body))

(defun efrit-do-test--shown-p (client text)
  "Return non-nil when CLIENT was shown TEXT."
  (with-current-buffer (process-buffer client)
    (save-excursion (goto-char (point-min)) (search-forward text nil t))))

(ert-deftest efrit-do-what-the-models-lisp-asks-is-answered-by-the-person-attached ()
  (efrit-do-test-asked client 3600
    (efrit-do-test--answer client "Colour? " "Bl")
    ;; There is other work, which waits.
    (signal-process efrit-test-daemon 'SIGUSR2)
    (process-send-string client "ue\r")
    (efrit-do-test--answer client "Sure? " "y")
    (efrit-do-test--answer client "Size? " "la\t\r")
    (efrit-do-test--until-shown "(\"Blue\" t \"large\")")
    (efrit-do-test--until-shown "\\[Succeeded\\]")
    ;; A request of somebody else asks nobody, whoever is attached.
    (should (equal (alist-get 'error_code (efrit-test-eval "other" "(read-string \"? \")"))
                   "inhibited-interaction"))))

(defun efrit-do-test--timer (depth)
  "Return Lisp that sets a timer which asks once DEPTH minibuffers are open."
  (format "(run-with-timer 0.05 0.05
             (lambda ()
               (let ((file %S) (enable-recursive-minibuffers t))
                 (unless (or (< (minibuffer-depth) %d) (file-exists-p file))
                   (sit-for 0.01)
                   (write-region (condition-case err (read-string \"Uninvited? \")
                                   (error (symbol-name (car err))))
                                 nil (concat file \".part\") nil 'silent)
                   (rename-file (concat file \".part\") file t)))))"
          (concat efrit-workspace-directory "asked") depth))

(defun efrit-do-test--refused-p (client)
  "Wait until the timer has asked; return non-nil where CLIENT was not asked."
  (let ((file (concat efrit-workspace-directory "asked")))
    (efrit-test-wait (or (efrit-do-test--shown-p client "Uninvited? ") (file-exists-p file)))
    (and (file-exists-p file)
         (equal (with-temp-buffer (insert-file-contents file) (buffer-string))
                "inhibited-interaction"))))

(ert-deftest efrit-do-what-a-request-has-left-behind-asks-nobody ()
  (efrit-do-test--attended client
    (efrit-do-test--value (efrit-do-test--timer 0))
    (should (efrit-do-test--refused-p client))))

;; What a timer of a request sets is not a request's, and a timer goes off while a question is open.
(ert-deftest efrit-do-a-timer-of-anybody-asks-nothing-while-work-by-hand-may-ask ()
  (efrit-do-test--attended client
    (efrit-do-test--value (format "(run-with-timer 0 nil (lambda () (setq set %s)))"
                                  (efrit-do-test--timer 1)))
    (efrit-test-wait (equal (efrit-do-test--value "(boundp 'set)") "t"))
    (efrit-do-test--ask 3600)
    (efrit-test-wait (efrit-do-test--shown-p client "Colour? "))
    (should (efrit-do-test--refused-p client))
    (process-send-string client "\C-g")
    (efrit-do-test--until-shown "\\[Succeeded\\]")))

(ert-deftest efrit-do-a-command-of-somebody-else-asks-nobody-whoever-is-attached ()
  (efrit-do-test--attended client
    (efrit-test-submit "other" :type "command"
                       :content "Ask for my favourite colour. (scenario=prompt)")
    (should (string-search "inhibited-interaction: " (alist-get 'result (efrit-test-answer "other"))))
    (should-not (efrit-do-test--shown-p client "Colour? "))))

(ert-deftest efrit-do-a-question-that-is-quit-is-an-error-for-the-model ()
  (efrit-do-test-asked client 3600
    (efrit-do-test--answer client "Colour? " "Bl\C-g")
    (efrit-do-test--until-shown "minibuffer-quit: Quit")
    (efrit-do-test--until-shown "\\[Succeeded\\]")))

(ert-deftest efrit-do-a-question-ends-with-the-terminal-it-was-asked-in ()
  (efrit-do-test-asked client 3600
    (efrit-do-test--answer client "Colour? " "Bl")
    (delete-process client)
    (efrit-do-test--until-shown "inhibited-interaction")
    (efrit-do-test--until-shown "\\[Succeeded\\]")))

(defun efrit-do-test--ended ()
  "Return how many works by hand are recorded as ended."
  (seq-count (lambda (name) (string-search "\"type\":\"end\"" (efrit-test-read "sessions" name)))
             (efrit-test-names "sessions")))

(ert-deftest efrit-do-a-question-that-nobody-answers-ends-with-the-time-of-the-work ()
  (efrit-do-test--attended client
    ;; As long as it takes until the question is asked in time.
    (let ((seconds 5) (ended 0))
      (while (progn (efrit-do-test--ask seconds)
                    (efrit-test-wait (or (efrit-do-test--shown-p client "Colour? ")
                                         (> (efrit-do-test--ended) ended)))
                    (not (efrit-do-test--shown-p client "Colour? ")))
        (setq seconds (* 2 seconds) ended (efrit-do-test--ended))))
    (process-send-string client "Bl")
    (efrit-do-test--until-shown "\\[TimedOut")
    ;; The work is over, and then its question.
    (efrit-test-wait (equal (efrit-do-test--value "(recursion-depth)") "0"))))

(ert-deftest efrit-do-without-a-terminal-what-the-models-lisp-asks-is-an-error ()
  (efrit-test-with-model-daemon nil
    (efrit-do-test--value "(progn (efrit-do \"Ask for my favourite colour. (scenario=prompt)\") t)")
    (efrit-do-test--until-shown "inhibited-interaction: User interaction while inhibited")
    (efrit-do-test--until-shown "\\[Succeeded\\]")))

(provide 'efrit-do-test)
;;; efrit-do-test.el ends here
