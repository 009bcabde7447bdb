;;; efrit-queue-test.el --- Tests of the waiting requests  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What is noticed in requests/, in which order it is served, and claiming it.

;;; Code:

(require 'efrit-test-queue)
(require 'efrit-queue)
(require 'efrit-queue-claim)
(require 'efrit-queue-answer)
(require 'efrit-server-health)
(require 'efrit-server)

(defmacro efrit-queue-test--with (&rest body)
  "Run BODY with an empty queue and nothing remembered of another."
  (declare (indent 0) (debug t))
  `(efrit-test-with-queue
     (let ((efrit-settle-seconds 0.1)
           (efrit-claim--attempts (make-hash-table :test #'equal))
           (efrit-claim--torn nil))
       (efrit-claim-new-boot)
       (efrit-queue-forget-all)
       ,@body)))

(defun efrit-queue-test--order ()
  "Return the ids of what waits, in the order they would be served."
  (let (ids entry)
    (while (setq entry (efrit-queue-next))
      (push (efrit-request-id (efrit-entry-request entry)) ids)
      (efrit-queue-forget (efrit-entry-name entry)))
    (nreverse ids)))

(defun efrit-queue-test--claim ()
  "Claim the next request; return the claim or nil."
  (efrit-claim-take (efrit-queue-next)))

(defun efrit-queue-test--journal ()
  "Return the lines of the journal without the name of the start."
  (mapcar (lambda (line) (string-remove-suffix (concat " " efrit-claim-boot) line))
          (split-string (efrit-test-read "" "claims.log") "\n" t)))

(ert-deftest efrit-queue-any-json-file-is-noticed-and-nothing-else ()
  (efrit-queue-test--with
    (efrit-test-submit "one")
    (efrit-test-write "requests" "two.json" (efrit-test-request "zwei"))
    (dolist (name '(".hidden.json" "notes.txt" "three.json.part" "json"))
      (efrit-test-write "requests" name (efrit-test-request "no")))
    (efrit-queue-scan)
    (should (equal (sort (efrit-queue-test--order) #'string<) '("one" "zwei")))))

(ert-deftest efrit-queue-that-a-file-left-is-news-where-it-waited ()
  (efrit-queue-test--with
    (efrit-test-submit "waits")
    (efrit-queue-scan)
    (let ((efrit-server-watch (list (cons 1 0))) reported)
      (pcase-dolist (`(,aspects ,name) '(((moved-from) "req_claimed.json")
                                         ((moved-from) "req_waits.json")
                                         ((moved-to) "req_new.json")
                                         ((create) "req_claimed.json")))
        (cl-letf (((symbol-function 'file-notify-handle-event)
                   (lambda (event) (push (nth 2 (nth 1 event)) reported))))
          (efrit-server-handle-notification
           (list 'file-notify (list (cons 1 0) aspects name 7) #'ignore))))
      (should (equal (nreverse reported)
                     '("req_waits.json" "req_new.json" "req_claimed.json"))))))

(ert-deftest efrit-queue-a-file-that-defeats-its-reader-hides-no-other ()
  (efrit-queue-test--with
    (efrit-test-write "requests" "a.json" "{}")
    (efrit-test-submit "b")
    (cl-letf (((symbol-function 'efrit-request-parse)
               (let ((parse (symbol-function 'efrit-request-parse)))
                 (lambda (text name)
                   (if (equal name "a.json") (error "Defeated") (funcall parse text name))))))
      (efrit-queue-scan)
      (should (equal (efrit-queue-test--order) '("b")))
      (sleep-for 0.15)
      (efrit-queue-scan)
      (should (equal (efrit-request-problem (efrit-entry-request (efrit-queue-next)))
                     "the file cannot be read")))))

(ert-deftest efrit-queue-what-cannot-be-moved-aside-hides-no-other ()
  (efrit-queue-test--with
    (make-directory (efrit-files-path "requests" "a.json"))
    (efrit-test-submit "b")
    (cl-letf* ((rename (symbol-function 'rename-file))
               ((symbol-function 'rename-file)
                (lambda (from &rest more)
                  (if (string-suffix-p "/a.json" from)
                      (signal 'file-error '("Renaming" "Permission denied"))
                    (apply rename from more)))))
      (efrit-queue-scan)
      (should (equal (efrit-queue-test--order) '("b"))))))

(ert-deftest efrit-answer-a-directory-in-the-archive-is-not-in-its-way ()
  (efrit-queue-test--with
    (efrit-test-submit "a")
    (efrit-queue-scan)
    (let ((claim (efrit-queue-test--claim)))
      (make-directory (efrit-files-path "archive" "req_a.json/inner") t)
      (should (efrit-answer-store
               (efrit-answer-make claim (efrit-result-make :reason "Succeeded"))))
      (should (efrit-test-answer-p "a"))
      (should (file-regular-p (efrit-files-path "archive" "req_a.json"))))))

;; Whatever code has made of the files of a request, the others go on.
(ert-deftest efrit-answer-what-is-not-a-file-is-not-in-its-way ()
  (dolist (make (list (lambda (path) (make-directory (concat path "/inner") t))
                      (lambda (path) (make-symbolic-link "/dev/null" path))
                      (lambda (path) (call-process "mkfifo" nil nil nil path))))
    (dolist (place '(("control" . "cancel_a") ("processing" . "req_a.json") ("archive" . "req_a.json")))
      (efrit-queue-test--with
        (efrit-test-submit "a")
        (efrit-queue-scan)
        (let ((claim (efrit-queue-test--claim)))
          (copy-file (efrit-files-path "processing" "req_a.json")
                     (efrit-files-path "archive" "req_a.json"))
          (efrit-files-delete (efrit-files-path (car place) (cdr place)))
          (funcall make (efrit-files-path (car place) (cdr place)))
          (should (efrit-answer-store
                   (efrit-answer-make claim (efrit-result-make :reason "Succeeded"))))
          (should (efrit-test-answer-p "a"))
          (should (file-regular-p (efrit-files-path "archive" "req_a.json")))
          (dolist (part '("control" "processing"))
            (should (equal (seq-remove (lambda (name) (string-prefix-p "aside_" name))
                                       (efrit-test-names part))
                           nil))))))))

(ert-deftest efrit-answer-a-list-of-results-that-is-not-a-file-holds-none-back ()
  (dolist (make (list #'make-directory
                      (lambda (path) (call-process "mkfifo" nil nil nil path))))
    (efrit-queue-test--with
      (efrit-test-submit "a")
      (efrit-queue-scan)
      (let ((claim (efrit-queue-test--claim))
            (size (1+ efrit-inline-result-bytes))
            efrit-results--ids)
        (funcall make (efrit-files-path "results.log"))
        (should (efrit-answer-store
                 (efrit-answer-make
                  claim (efrit-result-make
                         :reason "Succeeded"
                         :value (efrit-print-make :text (make-string size ?x) :bytes size)))))
        (should (file-regular-p (efrit-results-path "a")))))))

(ert-deftest efrit-queue-order-is-time-less-priority-then-file-time-then-name ()
  (efrit-queue-test--with
    (efrit-test-submit "late" :timestamp "2025-01-03T18:30:01Z")
    (efrit-test-submit "early" :timestamp "2025-01-03T18:30:00Z")
    (efrit-test-submit "urgent" :timestamp "2025-01-03T18:30:59Z"
                       :options '(:priority 1))
    (dolist (id '("b" "a")) (efrit-test-submit id))
    (dolist (id '("a" "b"))
      (set-file-times (efrit-files-path "requests" (format "req_%s.json" id)) 1e9))
    (efrit-queue-scan)
    (should (equal (efrit-queue-test--order) '("a" "b" "urgent" "early" "late")))))

(ert-deftest efrit-queue-a-half-written-file-is-looked-at-again ()
  (efrit-queue-test--with
    (let ((text (efrit-test-request "slow")) (efrit-settle-seconds 60))
      (efrit-test-write "requests" "slow.json" (substring text 0 20))
      (efrit-queue-scan)
      (should-not (efrit-queue-next))
      (should (efrit-queue-unsettled-p))
      (efrit-test-write "requests" "slow.json" text)
      (efrit-queue-scan)
      (should-not (efrit-queue-unsettled-p))
      (should (equal (efrit-queue-test--order) '("slow"))))))

(ert-deftest efrit-queue-a-file-that-stays-bad-is-rejected-under-its-name ()
  (efrit-queue-test--with
    (efrit-test-write "requests" "req_bad.json" "{")
    (efrit-queue-scan)
    (should-not (efrit-queue-next))
    (let ((entry (efrit-test-wait (progn (efrit-queue-scan) (efrit-queue-next)))))
      (should (equal (efrit-request-id (efrit-entry-request entry)) "bad"))
      (should (efrit-request-problem (efrit-entry-request entry))))))

(ert-deftest efrit-queue-a-file-that-is-too-large-is-rejected-unread ()
  (efrit-queue-test--with
    (let ((efrit-max-request-file-bytes 10))
      (efrit-test-submit "large")
      (efrit-queue-scan)
      (should (string-match-p "larger" (efrit-request-problem
                                        (efrit-entry-request (efrit-queue-next))))))))

(ert-deftest efrit-queue-many-that-come-and-go-keep-their-order ()
  (efrit-queue-test--with
    (let (all served)
      (dotimes (wave 3)
        ;; Arrivals before, between and after those that wait already.
        (dotimes (i 70)
          (let ((id (format "%03d-%d" (mod (* 37 i) 70) wave)))
            (efrit-test-submit id :timestamp (format "2025-01-03T18:%02d:%02dZ"
                                                     (/ (mod (* 37 i) 70) 60)
                                                     (mod (mod (* 37 i) 70) 60)))
            (push id all)))
        (efrit-queue-scan)
        (dotimes (_ 10)
          (let ((entry (efrit-queue-next)))
            (push (efrit-request-id (efrit-entry-request entry)) served)
            (delete-file (efrit-files-path "requests" (efrit-entry-name entry)))
            (efrit-queue-forget (efrit-entry-name entry))))
        (delete-file (efrit-files-path "requests" (format "req_065-%d.json" wave)))
        (setq all (delete (format "065-%d" wave) all)))
      (efrit-queue-scan)
      (should (equal (efrit-queue-test--order)
                     (sort (seq-difference all served) #'string<))))))

(defun efrit-queue-test--wait (number type turn &optional session)
  "Have NUMBER requests of TYPE wait whose turns are from TURN on.
They continue SESSION, unless that is nil."
  (dotimes (i number)
    (let ((id (format "%s-%d" type (+ turn i))))
      (efrit-queue--enter
       (efrit-entry--make :name (concat id ".json") :turn (+ turn i) :modified 0
                          :request (efrit-request-make :id id :type type :session session))))))

(defun efrit-queue-test--next (&optional under-way)
  "Return the id of the next request while the sessions UNDER-WAY are; forget it."
  (let ((entry (efrit-queue-next under-way)))
    (when entry
      (efrit-queue-forget (efrit-entry-name entry))
      (efrit-request-id (efrit-entry-request entry)))))

(defmacro efrit-queue-test--looks (&rest body)
  "Return how often BODY looks whether an entry is gone."
  (declare (debug t))
  `(let ((looks 0) (gone-p (symbol-function 'efrit-queue--gone-p)))
     (cl-letf (((symbol-function 'efrit-queue--gone-p)
                (lambda (entry) (cl-incf looks) (funcall gone-p entry))))
       ,@body)
     looks))

(ert-deftest efrit-queue-thousands-of-waiting-chats-cost-an-eval-nothing ()
  (dolist (session '(nil "busy"))
    (dolist (under-way '(t ("busy" "other")))
      (unless (and (null session) (consp under-way))
        (efrit-queue-test--with
          (efrit-queue-test--wait 5000 "chat" 0 session)
          (efrit-queue-test--wait 1 "eval" 6000)
          ;; The chats are sorted once.
          (should (equal (efrit-queue-test--next under-way) "eval-6000"))
          (should (< (efrit-queue-test--looks
                      (dotimes (i 1000)
                        (efrit-queue-test--wait 1 "eval" (+ 7000 i))
                        (should (equal (efrit-queue-test--next under-way)
                                       (format "eval-%d" (+ 7000 i))))
                        (should-not (efrit-queue-next under-way))))
                     100000)))))))

(ert-deftest efrit-queue-what-continues-a-session-under-way-waits-for-it-in-its-order ()
  (efrit-queue-test--with
    (efrit-queue-test--wait 3 "chat" 0 "a")
    (efrit-queue-test--wait 1 "chat" 10 "b")
    (efrit-queue-test--wait 1 "command" 20)
    (efrit-queue-test--wait 1 "eval" 30)
    (should (equal (efrit-queue-test--next '("a" "b")) "command-20"))
    (should (equal (efrit-queue-test--next '("a" "b" "command-20")) "eval-30"))
    (should-not (efrit-queue-test--next '("a" "b")))
    (efrit-queue-test--wait 1 "chat" 5 "a")
    (should (equal (efrit-queue-test--next '("a")) "chat-10"))
    (should (equal (list (efrit-queue-test--next '("b")) (efrit-queue-test--next)
                         (efrit-queue-test--next '("b")) (efrit-queue-test--next))
                   '("chat-0" "chat-1" "chat-2" "chat-5")))
    (should-not (efrit-queue-test--next))
    (should-not efrit-queue--held-lines)))

(ert-deftest efrit-queue-no-session-begins-while-there-is-no-room-for-one ()
  (efrit-queue-test--with
    (efrit-queue-test--wait 2 "chat" 0)
    (efrit-queue-test--wait 1 "eval" 10)
    (should (equal (efrit-queue-test--next t) "eval-10"))
    (should-not (efrit-queue-test--next t))
    (should (equal (efrit-queue-test--next) "chat-0"))))

(ert-deftest efrit-queue-links-pipes-and-directories-are-set-aside-unread ()
  (efrit-queue-test--with
    (let ((secret (concat efrit-workspace-directory "secret")))
      (write-region (efrit-test-request "stolen") nil secret nil 'silent)
      (make-symbolic-link secret (efrit-files-path "requests" "link.json"))
      (make-directory (efrit-files-path "requests" "folder.json"))
      (should (= 0 (call-process "mkfifo" nil nil nil
                                 (efrit-files-path "requests" "pipe.json"))))
      (efrit-queue-scan)
      (should (= (efrit-queue-pending) 0))
      (should-not (efrit-test-names "requests"))
      (should (= (length (efrit-test-names "archive")) 3))
      (should (file-exists-p secret)))))

(ert-deftest efrit-queue-what-is-withdrawn-is-forgotten ()
  (efrit-queue-test--with
    (efrit-test-submit "gone")
    (efrit-queue-scan)
    (rename-file (efrit-files-path "requests" "req_gone.json")
                 (efrit-files-path "tmp" "withdrawn_gone.json"))
    (should-not (efrit-queue-test--claim))
    (should-not (efrit-test-names "processing"))
    (should (equal (efrit-test-read "" "claims.log") ""))))

(ert-deftest efrit-queue-a-scan-looks-at-what-is-new-only ()
  (efrit-queue-test--with
    (dotimes (i 100) (efrit-test-write "requests" (format "junk%d.txt" i) ""))
    (dotimes (i 100) (efrit-test-submit (format "r%d" i)))
    (efrit-queue-scan)
    (should (= (efrit-queue-pending) 100))
    (efrit-test-submit "new")
    (let (looked (look (symbol-function 'efrit-queue-update-entry)))
      (cl-letf (((symbol-function 'efrit-queue-update-entry)
                 (lambda (name) (push name looked) (funcall look name))))
        (efrit-queue-scan)
        (efrit-queue-scan))
      (should (equal looked '("req_new.json"))))))

(ert-deftest efrit-claim-moves-the-file-and-then-writes-the-journal ()
  (efrit-queue-test--with
    (efrit-test-submit "one")
    (efrit-queue-scan)
    (let ((claim (efrit-queue-test--claim)))
      (should (= (efrit-claim-attempt claim) 1))
      (should (equal (efrit-test-names "processing") '("req_one.json")))
      (should-not (efrit-test-names "requests"))
      (should (equal (efrit-queue-test--journal) '("one 1"))))))

(ert-deftest efrit-claim-gives-a-foreign-file-its-canonical-name ()
  (efrit-queue-test--with
    (efrit-test-write "requests" "dropped in.json" (efrit-test-request "foreign"))
    (efrit-queue-scan)
    (efrit-queue-test--claim)
    (should (equal (efrit-test-names "processing") '("req_foreign.json")))))

(ert-deftest efrit-claim-of-what-is-not-evaluated-needs-no-journal ()
  (efrit-queue-test--with
    (efrit-test-submit "status" :type "status")
    (efrit-queue-scan)
    (should (efrit-queue-test--claim))
    (should (equal (efrit-test-read "" "claims.log") ""))))

;;;; What a host remembers of a file server

(defmacro efrit-queue-test--remote (remembered &rest body)
  "Run BODY where other hosts share the queue and this one REMEMBERED its answers.
REMEMBERED is t when it remembers answers of all requests, nil when of none."
  (declare (indent 1) (debug t))
  `(let ((efrit-host--remote (cons efrit-queue-directory t)))
     (cl-letf* ((exists (symbol-function 'efrit-files-exists-p))
                ((symbol-function 'efrit-files-exists-p)
                 (lambda (path)
                   (cond ((string-match-p "/\\(responses\\|archive\\)/resp_" path) ,remembered)
                         ((string-search "/archive/" path) nil)
                         (t (funcall exists path))))))
       (efrit-queue-scan)
       ,@body)))

(defun efrit-queue-test--ended (id)
  "Have the request ID run and end, and its answer be archived by another host."
  (efrit-test-submit id)
  (efrit-queue-scan)
  (efrit-answer-store (efrit-answer-make (efrit-queue-test--claim)
                                         (efrit-result-make :reason "Succeeded")))
  (let ((name (format "resp_%s.json" id)))
    (rename-file (efrit-files-path "responses" name) (efrit-files-path "archive" name))))

(ert-deftest efrit-claim-of-what-ended-behind-the-cache-runs-nothing ()
  (pcase-dolist (`(,content . ,kept) '(("(+ 1 2)" . ("req_one.json" "resp_one.json"))
                                       ("2" . ("rejected_one_1.json" "req_one.json" "resp_one.json"))))
    (efrit-queue-test--with
      (efrit-queue-test--ended "one")
      (efrit-test-submit "one" :content content)
      (efrit-queue-test--remote nil
        (should-not (efrit-queue-test--claim)))
      (should (equal (efrit-test-names "archive") kept))
      (should-not (append (efrit-test-names "requests") (efrit-test-names "processing")))
      (should (equal (efrit-queue-test--journal) '("one 1"))))))

(ert-deftest efrit-claim-on-a-shared-queue-leaves-no-second-name ()
  (efrit-queue-test--with
    (efrit-test-submit "one")
    (efrit-test-submit "two")
    ;; An Emacs that has ended there left its link; a directory that is gone is made again.
    (add-name-to-file (efrit-files-path "requests" "req_one.json")
                      (efrit-files-path "archive" "req_one.json"))
    (efrit-queue-test--remote nil
      (should (efrit-queue-test--claim))
      (delete-directory (efrit-files-path "archive"))
      (should (efrit-queue-test--claim)))
    (should (equal (efrit-test-names "processing") '("req_one.json" "req_two.json")))
    (should-not (efrit-test-names "archive"))))

(ert-deftest efrit-claim-of-an-answer-that-is-only-remembered-runs ()
  (efrit-queue-test--with
    (efrit-test-submit "one")
    (efrit-queue-test--remote t
      (let ((claim (efrit-queue-test--claim)))
        (should claim)
        ;; It does not hide the answer either.
        (should (efrit-answer-store
                 (efrit-answer-make claim (efrit-result-make :reason "Succeeded"))))))
    (should (efrit-test-answer-p "one"))))

(ert-deftest efrit-claim-asks-the-server-of-a-shared-queue-only ()
  (pcase-dolist (`(,remote ,message ,claimed) '((nil "Input/output error" t)
                                                (t "Input/output error" nil)
                                                (t "Operation not permitted" t)))
    (efrit-queue-test--with
      (efrit-test-submit "one")
      (efrit-queue-scan)
      (let ((efrit-host--remote (cons efrit-queue-directory remote)))
        (cl-letf (((symbol-function 'add-name-to-file)
                   (lambda (&rest _) (signal 'file-error (list "Adding new name" message)))))
          (if claimed
              (should (efrit-queue-test--claim))
            (should-error (efrit-queue-test--claim) :type 'efrit-claim-failed))))
      (should (equal (efrit-test-names (if claimed "processing" "requests")) '("req_one.json"))))))

(ert-deftest efrit-claim-whose-second-name-cannot-be-taken-back-runs-once-and-is-tidied-with-its-answer ()
  (efrit-queue-test--with
    (efrit-test-submit "one")
    (efrit-queue-scan)
    (let ((efrit-host--remote (cons efrit-queue-directory t)) claim)
      (cl-letf (((symbol-function 'efrit-files-delete)
                 (lambda (path)
                   (signal 'file-error (list "Removing old name" "Operation not permitted" path)))))
        (setq claim (efrit-queue-test--claim)))
      (should claim)
      (should (equal (efrit-test-names "archive") '("req_one.json")))
      (should (equal (efrit-test-names "processing") '("req_one.json")))
      (should (efrit-answer-store
               (efrit-answer-make claim (efrit-result-make :reason "Succeeded")))))
    (should-not (efrit-test-names "processing"))
    (should (equal (efrit-test-names "archive") '("req_one.json")))
    (should (efrit-test-answer-p "one"))
    (should (equal (efrit-queue-test--journal) '("one 1")))))

(ert-deftest efrit-claim-that-cannot-be-journaled-is-given-back ()
  (efrit-queue-test--with
    (efrit-test-submit "one")
    (efrit-queue-scan)
    (delete-file (efrit-files-path "claims.log"))
    (make-directory (efrit-files-path "claims.log"))
    (should-error (efrit-queue-test--claim) :type 'efrit-claim-failed)
    (should (equal (efrit-test-names "requests") '("req_one.json")))
    (should-not (efrit-test-names "processing"))
    (delete-directory (efrit-files-path "claims.log"))
    (efrit-test-write "" "claims.log" "")
    (efrit-queue-scan)
    (should (efrit-queue-test--claim))))

(ert-deftest efrit-claim-is-not-recorded-through-a-link ()
  "What /dev/null has taken, no recovery finds: the request would run twice."
  (dolist (efrit-bridge-p '(t nil))
    (efrit-queue-test--with
      (efrit-test-submit "one")
      (efrit-queue-scan)
      (delete-file (efrit-files-path "claims.log"))
      (make-symbolic-link "/dev/null" (efrit-files-path "claims.log"))
      (should-error (efrit-queue-test--claim) :type 'efrit-claim-failed)
      (should (equal (efrit-test-names "requests") '("req_one.json"))))))

(ert-deftest efrit-claim-what-is-not-a-file-keeps-no-request-waiting ()
  (efrit-queue-test--with
    (efrit-test-submit "one")
    (efrit-queue-scan)
    (make-directory (efrit-files-path "processing" "req_one.json/inner") t)
    (should-not (efrit-queue-test--claim))
    (efrit-queue-scan)
    (should (efrit-queue-test--claim))))

(ert-deftest efrit-files-a-pipe-is-not-read ()
  (efrit-queue-test--with
    (let ((path (efrit-files-path "control" "cancel_a")))
      (call-process "mkfifo" nil nil nil path)
      (should-error (efrit-files-read path) :type 'file-error)
      (should (equal (efrit-interrupt-ordered "a") "Cancelled")))))

(ert-deftest efrit-claim-of-what-waits-when-this-emacs-is-to-end-is-given-back ()
  (efrit-queue-test--with
    (efrit-test-submit "one")
    (efrit-queue-scan)
    ;; After the server has looked for it.
    (efrit-test-write "control" "pause" "")
    (should-not (efrit-queue-test--claim))
    (should (equal (efrit-test-names "requests") '("req_one.json")))
    (should-not (efrit-test-names "processing"))
    (should-not (efrit-queue-test--journal))
    (delete-file (efrit-files-path "control/pause"))
    (efrit-queue-scan)
    (should (efrit-queue-test--claim))))

(ert-deftest efrit-claim-that-cannot-be-given-back-is-given-back-later-and-runs ()
  (efrit-queue-test--with
    (efrit-test-submit "one")
    (efrit-queue-scan)
    (let ((move (symbol-function 'efrit-files-move))
          (journal (symbol-function 'efrit-claim--journal))
          (efrit-fence-generation 1)
          (fails t)
          (interrupted 0))
      (cl-letf (((symbol-function 'efrit-files-move)
                 (lambda (from to)
                   (if (and fails (string-search "/requests/" to))
                       (signal 'file-error '("Renaming" "Input/output error"))
                     (funcall move from to))))
                ;; The line is there, and may be lost.
                ((symbol-function 'efrit-claim--journal)
                 (lambda (id attempt)
                   (funcall journal id attempt)
                   (when fails
                     (signal 'file-error '("Write error" "No space left on device")))))
                ((symbol-function 'efrit-health-count-interrupted)
                 (lambda (number) (setq interrupted (+ interrupted number)))))
        (should-error (efrit-queue-test--claim) :type 'efrit-claim-failed)
        (should (equal (efrit-test-names "processing") '("req_one.json")))
        ;; It is nobody's, and yet it has not been interrupted.
        (dotimes (_ 3) (efrit-server--settle-strays))
        (should (equal interrupted 0))
        (setq fails nil)
        (efrit-server--settle-strays)))
    (should (equal (efrit-test-names "requests") '("req_one.json")))
    (should-not (efrit-test-names "processing"))
    (efrit-queue-scan)
    (should (efrit-queue-test--claim))))

(ert-deftest efrit-claim-of-a-file-that-changed-meanwhile-reads-it-again ()
  (efrit-queue-test--with
    (efrit-test-submit "one" :content "1")
    (efrit-queue-scan)
    (delete-file (efrit-files-path "requests" "req_one.json"))
    (efrit-test-submit "one" :content "(other)")
    (should-not (efrit-queue-test--claim))
    (efrit-queue-scan)
    (should (equal (efrit-request-content
                    (efrit-claim-request (efrit-queue-test--claim)))
                   "(other)"))))

(ert-deftest efrit-claim-of-an-answered-id-runs-nothing ()
  (efrit-queue-test--with
    (efrit-test-write "archive" "resp_one.json" "{}")
    (efrit-test-write "archive" "req_one.json" (efrit-test-request "one"))
    (efrit-test-submit "one" :timestamp "2025-01-03T18:30:00Z")
    (efrit-test-write "requests" "other.json" (efrit-test-request "one" :content "2"))
    (efrit-queue-scan)
    (should-not (efrit-queue-test--claim))
    (should-not (efrit-queue-test--claim))
    (should-not (efrit-test-names "requests"))
    (should (equal (efrit-test-names "archive")
                   '("rejected_one_1.json" "req_one.json" "resp_one.json")))
    (should (string-match-p "\"2\"" (efrit-test-read "archive" "rejected_one_1.json")))))

(ert-deftest efrit-claim-journal-survives-a-torn-line ()
  (efrit-queue-test--with
    (efrit-test-write "" "claims.log" "a 1 0123456789abcdef\nb 1 0123456789abc")
    (should (= (hash-table-count (efrit-claim-read-journal)) 1))
    (efrit-test-submit "c")
    (efrit-queue-scan)
    (efrit-queue-test--claim)
    (let ((attempts (efrit-claim-read-journal)))
      (should (equal (gethash "a" attempts) 1))
      (should-not (gethash "b" attempts))
      (should (equal (gethash "c" attempts) 1)))))

(ert-deftest efrit-claim-waits-for-the-journal-of-its-bridge ()
  (efrit-queue-test--with
    (delete-file (efrit-files-path "claims.log"))
    (efrit-test-submit "one")
    (efrit-queue-scan)
    (should-error (efrit-queue-test--claim) :type 'efrit-claim-failed)
    (should-not (file-exists-p (efrit-files-path "claims.log")))
    (should (equal (efrit-test-names "requests") '("req_one.json")))))

(ert-deftest efrit-claim-is-known-from-whichever-journal-a-crash-has-left ()
  (efrit-queue-test--with
    (efrit-test-write "" "claims.old" "a 2 0123456789abcdef\nb 1 0123456789abcdef\n")
    (efrit-test-write "" "claims.log" "b 3 0123456789abcdef\n")
    (efrit-test-write "" "claims.new" "c 1 0123456789abcdef\n")
    (let ((attempts (efrit-claim-read-journal)))
      (should (equal (mapcar (lambda (id) (gethash id attempts)) '("a" "b" "c"))
                     '(2 3 1))))))

(ert-deftest efrit-claim-is-known-though-journals-are-exchanged-while-they-are-read ()
  (efrit-queue-test--with
    (efrit-test-write "" "claims.old" "before 1 0123456789abcdef\n")
    (efrit-test-write "" "claims.log" "before 1 0123456789abcdef\nnow 2 0123456789abcdef\n")
    (let ((read (symbol-function 'efrit-files-read))
          (exchanged nil))
      (cl-letf (((symbol-function 'efrit-files-read)
                 (lambda (path)
                   ;; The bridge acts when claims.old has been read: what it has
                   ;; read of the journal does not have the claim of `now' yet.
                   (when (and (not exchanged) (string-suffix-p "claims.new" path))
                     (setq exchanged t)
                     (rename-file (efrit-files-path "claims.log")
                                  (efrit-files-path "claims.old") t)
                     (efrit-test-write "" "claims.log" "before 1 0123456789abcdef\n"))
                   (funcall read path))))
        (let ((attempts (efrit-claim-read-journal)))
          (should exchanged)
          (should (equal (gethash "before" attempts) 1))
          (should (equal (gethash "now" attempts) 2)))))))

(defmacro efrit-queue-test--writes (&rest body)
  "Run BODY; return what it wrote as a list of (FILE . SYNCED), in order."
  (declare (indent 0) (debug t))
  `(let* ((writes nil)
          (note (lambda (_start _end file &rest _)
                  (push (cons (file-relative-name file efrit-queue-directory)
                              (not write-region-inhibit-fsync))
                        writes))))
     (advice-add 'write-region :before note)
     (unwind-protect (progn ,@body)
       (advice-remove 'write-region note))
     (nreverse writes)))

(ert-deftest efrit-claim-syncs-the-journal-and-nothing-else ()
  (efrit-queue-test--with
    (efrit-test-submit "one")
    (efrit-queue-scan)
    (should (equal (efrit-queue-test--writes (efrit-queue-test--claim))
                   '(("claims.log" . t))))))

(ert-deftest efrit-answer-is-synced-before-it-is-linked ()
  (efrit-queue-test--with
    (efrit-test-submit "one")
    (efrit-queue-scan)
    (let* ((answer (efrit-answer-make
                    (efrit-queue-test--claim)
                    (efrit-result-make :reason "EvalError" :error "x")))
           (linked nil)
           (note (lambda (&rest _) (setq linked (efrit-test-names "tmp")))))
      (advice-add 'add-name-to-file :before note)
      (unwind-protect
          (should (equal (mapcar #'cdr (efrit-queue-test--writes
                                         (efrit-answer-store answer)))
                         '(t)))
        (advice-remove 'add-name-to-file note))
      (should (= (length linked) 1))
      (should-not (efrit-test-names "tmp")))))

(ert-deftest efrit-answer-large-result-is-synced-before-the-answer ()
  (efrit-queue-test--with
    (efrit-test-submit "one")
    (efrit-queue-scan)
    (let ((efrit-inline-result-bytes 10) efrit-results--ids)
      (should (equal (mapcar
                      #'cdr
                      (efrit-queue-test--writes
                        (efrit-answer-store
                         (efrit-answer-make
                          (efrit-queue-test--claim)
                          (efrit-result-make :reason "Succeeded"
                                              :value (efrit-print "0123456789" 100))))))
                     ;; The claim, the list of results, the result, the answer.
                     '(t t t t))))))

(ert-deftest efrit-answer-large-result-has-its-name-on-disk-before-the-answer ()
  (efrit-queue-test--with
    (efrit-test-submit "one")
    (efrit-queue-scan)
    (let* ((efrit-inline-result-bytes 10)
           (synced nil)
           (note (lambda (&rest directories)
                   (push (list (directory-files (car directories) nil "\\.txt\\'")
                               (efrit-test-names "responses"))
                         synced))))
      (advice-add 'efrit-files-sync-directories :before note)
      (unwind-protect
          (efrit-answer-store
           (efrit-answer-make
            (efrit-queue-test--claim)
            (efrit-result-make :reason "Succeeded"
                                :value (efrit-print "0123456789" 100))))
        (advice-remove 'efrit-files-sync-directories note))
      (should (equal synced '((("one.txt") nil)))))))

(ert-deftest efrit-files-a-directory-that-cannot-be-synced-is-an-error ()
  (efrit-queue-test--with
    (efrit-files-isolated (efrit-files-sync-directories (efrit-files-path "tmp")))
    (should-error (efrit-files-isolated
                    (efrit-files-sync-directories (efrit-files-path "nowhere")))
                  :type 'efrit-sync-failed)))

(ert-deftest efrit-answer-a-workspace-without-a-place-for-results-cuts-them ()
  (efrit-queue-test--with
    (efrit-test-submit "a")
    (efrit-queue-scan)
    (let* ((efrit-inline-result-bytes 5)
           (answer (efrit-answer-make
                    (efrit-queue-test--claim)
                    (efrit-result-make :reason "Succeeded" :value (efrit-print "0123456789" 100)))))
      (write-region "in the way" nil (concat efrit-workspace-directory ".efrit") nil 'silent)
      (should (efrit-answer-store answer))
      (let ((stored (efrit-test-json "responses" "resp_a.json")))
        (should (equal (alist-get 'result stored) "\"0123"))
        (should (eq (alist-get 'truncated stored) t))
        (should-not (alist-get 'result_path stored))))))

(ert-deftest efrit-answer-an-answer-already-acknowledged-stays-the-only-one ()
  (efrit-queue-test--with
    (efrit-test-submit "a")
    (efrit-queue-scan)
    (let ((answer (efrit-answer-make (efrit-queue-test--claim)
                                     (efrit-result-make :reason "Succeeded"))))
      (efrit-test-write "archive" "resp_a.json" "{}")
      (should-not (efrit-answer-store answer))
      (should-not (efrit-test-answer-p "a"))
      (should (equal (efrit-test-names "archive") '("req_a.json" "resp_a.json"))))))

(ert-deftest efrit-answer-a-workspace-that-fails-is-tried-again-and-then-done-without ()
  (efrit-queue-test--with
    (efrit-test-submit "a")
    (efrit-queue-scan)
    (let* ((efrit-inline-result-bytes 5)
           (answer (efrit-answer-make
                    (efrit-queue-test--claim)
                    (efrit-result-make :reason "Succeeded" :value (efrit-print "0123456789" 100)))))
      (cl-letf (((symbol-function 'efrit-answer--write-result)
                 (lambda (_) (signal 'file-error '("Write error" "Input/output error" "x")))))
        (dotimes (_ (1- efrit-answer--max-failures))
          (should-error (efrit-answer-store answer) :type 'efrit-answer-failed))
        (should (efrit-answer-store answer)))
      (let ((stored (efrit-test-json "responses" "resp_a.json")))
        (should (eq (alist-get 'truncated stored) t))
        (should (string-match-p "Input/output error" (alist-get 'messages stored)))))))

(ert-deftest efrit-answer-a-result-is-cut-and-says-so-where-the-workspace-is-full ()
  (efrit-queue-test--with
    (efrit-test-submit "a")
    (efrit-queue-scan)
    (let* ((efrit-inline-result-bytes 5)
           (answer (efrit-answer-make
                    (efrit-queue-test--claim)
                    (efrit-result-make :reason "Succeeded" :messages "hello"
                                        :value (efrit-print "0123456789" 100))))
           (write (symbol-function 'efrit-files-write)))
      (cl-letf (((symbol-function 'efrit-files-write)
                 (lambda (path text)
                   (when (string-suffix-p ".part" path)
                     (funcall write path (substring text 0 3))
                     (signal 'file-error
                             (list "Write error" "No space left on device" path)))
                   (funcall write path text))))
        (should (efrit-answer-store answer)))
      (let ((stored (efrit-test-json "responses" "resp_a.json")))
        (should (equal (alist-get 'result stored) "\"0123"))
        (should (eq (alist-get 'truncated stored) t))
        (should-not (alist-get 'result_path stored))
        (should (string-match-p "\\`efrit: the result was cut.*No space left.*\nhello"
                                (alist-get 'messages stored)))
        ;; Half a result must not take the last room.
        (should-not (directory-files (efrit-results-directory) nil "part\\'"))))))

(ert-deftest efrit-answer-a-failed-workspace-that-works-again-takes-the-result ()
  (efrit-queue-test--with
    (efrit-test-submit "a")
    (efrit-queue-scan)
    (let* ((efrit-inline-result-bytes 5)
           (answer (efrit-answer-make
                    (efrit-queue-test--claim)
                    (efrit-result-make :reason "Succeeded" :value (efrit-print "0123456789" 100)))))
      (cl-letf (((symbol-function 'efrit-answer--write-result)
                 (lambda (_) (signal 'file-error '("Write error" "Input/output error" "x")))))
        (should-error (efrit-answer-store answer) :type 'efrit-answer-failed))
      (should (efrit-answer-store answer))
      (should (alist-get 'result_path (efrit-test-json "responses" "resp_a.json"))))))

(ert-deftest efrit-answer-without-a-workspace-is-cut ()
  (efrit-queue-test--with
    (efrit-test-submit "one")
    (efrit-queue-scan)
    (let ((efrit-inline-result-bytes 5) (efrit-workspace-directory nil))
      (efrit-answer-store
       (efrit-answer-make
        (efrit-queue-test--claim)
        (efrit-result-make :reason "Succeeded" :value (efrit-print "0123456789" 100)))))
    (let ((answer (efrit-test-json "responses" "resp_one.json")))
      (should (equal (alist-get 'result answer) "\"0123"))
      (should (eq (alist-get 'truncated answer) t))
      (should (= (alist-get 'result_bytes answer) 5)))))

(ert-deftest efrit-answer-counts-the-bytes-of-what-is-kept-of-a-cut-result ()
  (efrit-queue-test--with
    (efrit-test-submit "one")
    (efrit-queue-scan)
    (let ((efrit-inline-result-bytes 5) (efrit-result-head-bytes 3))
      (efrit-answer-store
       (efrit-answer-make
        (efrit-queue-test--claim)
        (efrit-result-make :reason "Succeeded"
                           :value (efrit-print (make-string 5000 ?x) 100)))))
    (let* ((answer (efrit-test-json "responses" "resp_one.json"))
           (path (alist-get 'result_path answer)))
      (should (eq (alist-get 'truncated answer) t))
      (should (= (file-attribute-size (file-attributes path)) 100))
      (should (= (alist-get 'result_bytes answer) 100)))))

(ert-deftest efrit-answer-that-failed-is-stored-by-the-next-try ()
  (efrit-queue-test--with
    (efrit-test-submit "one")
    (efrit-queue-scan)
    (let ((answer (efrit-answer-make
                   (efrit-queue-test--claim)
                   (efrit-result-make :reason "EvalError" :error "x"))))
      (delete-directory (efrit-files-path "responses"))
      (efrit-test-write "" "responses" "in the way")
      (should-error (efrit-answer-store answer) :type 'efrit-answer-failed)
      (should (equal (efrit-test-names "processing") '("req_one.json")))
      (delete-file (efrit-files-path "responses"))
      (should (efrit-answer-store answer))
      (should (equal (efrit-test-names "responses") '("resp_one.json")))
      (should (equal (efrit-test-names "archive") '("req_one.json")))
      (should-not (efrit-test-names "tmp")))))

(ert-deftest efrit-files-are-private ()
  (efrit-queue-test--with
    (efrit-test-submit "one")
    (efrit-queue-scan)
    (efrit-queue-test--claim)
    (should (= (file-modes (efrit-files-path "claims.log")) #o600))
    (dolist (part efrit-files-parts)
      (should (= (file-modes (efrit-files-path part)) #o700)))))

(ert-deftest efrit-health-beats-without-room-for-a-new-file ()
  (efrit-queue-test--with
    (efrit-health-reset)
    (efrit-health-beat)
    (let ((before (efrit-test-json "" "heartbeat")))
      ;; Nothing can be made in tmp/, as on a full disk.
      (delete-directory (efrit-files-path "tmp"))
      (efrit-test-write "" "tmp" "in the way")
      (efrit-health-set-problem "disk full")
      (let ((after (efrit-test-json "" "heartbeat")))
        (should (equal (alist-get 'state before) "idle"))
        (should (equal (alist-get 'state after) "degraded"))
        (should (equal (alist-get 'problem after) "disk full"))))))

(ert-deftest efrit-files-that-cannot-be-replaced-leave-nothing-behind ()
  (efrit-queue-test--with
    (should-error (efrit-files-isolated
                    (efrit-files-replace (efrit-files-path "gone" "heartbeat") "x" "b"))
                  :type 'file-error)
    (should-not (efrit-test-names "tmp"))))

(ert-deftest efrit-health-what-is-not-a-file-does-not-silence-emacs ()
  (efrit-queue-test--with
    (make-directory (efrit-files-path "heartbeat" "inner") t)
    (efrit-health-reset)
    (efrit-health-beat)
    (should (equal (alist-get 'state (efrit-test-json "" "heartbeat")) "idle"))))

(ert-deftest efrit-files-publish-never-replaces ()
  (efrit-queue-test--with
    (let ((path (efrit-files-path "responses" "resp_a.json")))
      (should (efrit-files-isolated (efrit-files-publish path "first" "b")))
      (should-not (efrit-files-isolated (efrit-files-publish path "second" "b")))
      (should (equal (efrit-test-read "responses" "resp_a.json") "first"))
      (should-not (efrit-test-names "tmp")))))

(provide 'efrit-queue-test)
;;; efrit-queue-test.el ends here
