;;; efrit-queue-recover-test.el --- Tests of starting after a crash  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Each state a crash can leave, and what becomes of it.

;;; Code:

(require 'efrit-test-queue)
(require 'efrit-queue-recover)
(require 'efrit-server-health)

(defmacro efrit-recover-test--with (&rest body)
  "Run BODY with an empty queue and nothing remembered of another."
  (declare (indent 0) (debug t))
  `(efrit-test-with-queue
     (let ((efrit-claim--attempts (make-hash-table :test #'equal))
           (efrit-claim--torn nil))
       (efrit-claim-new-boot)
       ,@body)))

(defun efrit-recover-test--claimed (id &optional attempt)
  "Write a line of an earlier start into the journal: ID, ATTEMPT."
  (write-region (format "%s %d 00112233445566aa\n" id (or attempt 1)) nil
                (efrit-files-path "claims.log") t 'silent))

(defun efrit-recover-test--place (part id &rest members)
  "Put the request ID with MEMBERS into directory PART."
  (efrit-test-write part (format "req_%s.json" id)
                    (apply #'efrit-test-request id members)))

(defun efrit-recover-test--heartbeat (text)
  "Leave TEXT as the heartbeat of an earlier Emacs."
  (write-region text nil (efrit-files-path "heartbeat") nil 'silent))

(defun efrit-recover-test--reason (id)
  "Return the reason in the answer to ID."
  (alist-get 'reason (efrit-test-json "responses" (format "resp_%s.json" id))))

(ert-deftest efrit-recover-decides-by-four-facts ()
  (let ((once (efrit-request-parse (efrit-test-request "a") "a.json"))
        (twice (efrit-request-parse
                (efrit-test-request "a" :options '(:retry "if-interrupted"
                                                          :max_attempts 2))
                "a.json"))
        (never (efrit-request-parse
                (efrit-test-request "a" :options '(:retry "never" :max_attempts 2))
                "a.json")))
    (pcase-dolist (`(,answered ,attempts ,request ,ordered ,decision)
                   `((t 0 ,once nil archive)
                     (t 1 ,twice "Cancelled" archive)
                     (nil 0 ,once nil wait)
                     (nil 0 ,once "Cancelled" wait)
                     (nil 1 ,once nil (answer . "Interrupted"))
                     (nil 1 ,once "TimedOut" (answer . "TimedOut"))
                     (nil 1 ,never nil (answer . "Interrupted"))
                     (nil 1 ,twice nil again)
                     (nil 1 ,twice "Cancelled" (answer . "Cancelled"))
                     (nil 2 ,twice nil (answer . "Interrupted"))))
      (should (equal (efrit-recover-decide answered attempts request ordered)
                     decision)))))

(ert-deftest efrit-recover-what-was-claimed-is-answered-interrupted ()
  (efrit-recover-test--with
    (efrit-recover-test--place "processing" "one")
    (efrit-recover-test--claimed "one")
    (should (= (efrit-recover) 1))
    (should (equal (efrit-recover-test--reason "one") "Interrupted"))
    (should (equal (efrit-test-names "archive") '("req_one.json")))
    (should-not (efrit-test-names "processing"))))

(ert-deftest efrit-recover-a-lost-rename-does-not-hide-the-claim ()
  (efrit-recover-test--with
    (efrit-recover-test--place "requests" "one")
    (efrit-recover-test--claimed "one")
    (efrit-recover)
    (should (equal (efrit-recover-test--reason "one") "Interrupted"))
    (should-not (efrit-test-names "requests"))))

(ert-deftest efrit-recover-what-was-not-claimed-waits-again ()
  (efrit-recover-test--with
    (efrit-recover-test--place "processing" "one")
    (efrit-recover-test--place "requests" "two")
    (should (= (efrit-recover) 0))
    (should (equal (efrit-test-names "requests") '("req_one.json" "req_two.json")))
    (should-not (efrit-test-names "responses"))))

(ert-deftest efrit-recover-what-is-answered-is-put-away ()
  (efrit-recover-test--with
    (dolist (part '("responses" "archive"))
      (efrit-recover-test--place "processing" part)
      (efrit-recover-test--claimed part)
      (efrit-test-write part (format "resp_%s.json" part) "{\"first\":1}"))
    (should (= (efrit-recover) 0))
    (should-not (efrit-test-names "processing"))
    (should (equal (efrit-test-read "responses" "resp_responses.json") "{\"first\":1}"))))

(ert-deftest efrit-recover-a-hard-link-of-the-archived-request-is-put-away ()
  "Renaming one link of a file to the other does nothing and succeeds."
  (efrit-test-with-queue
    (efrit-test-write "processing" "req_a.json" (efrit-test-request "a"))
    (add-name-to-file (efrit-files-path "processing" "req_a.json")
                      (efrit-files-path "archive" "req_a.json"))
    (efrit-test-write "responses" "resp_a.json" "{}")
    (efrit-recover)
    (should-not (efrit-test-names "processing"))
    (should (equal (efrit-test-names "archive") '("req_a.json")))))

(ert-deftest efrit-recover-an-order-to-stop-is-the-reason ()
  (efrit-recover-test--with
    (dolist (case '(("a" . "Cancelled") ("b" . "TimedOut")))
      (efrit-recover-test--place "processing" (car case))
      (efrit-recover-test--claimed (car case))
      (efrit-test-write "control" (concat "cancel_" (car case)) (cdr case)))
    (efrit-recover)
    (should (equal (efrit-recover-test--reason "a") "Cancelled"))
    (should (equal (efrit-recover-test--reason "b") "TimedOut"))
    (should (equal (alist-get 'status (efrit-test-json "responses" "resp_b.json"))
                   "timeout"))
    (should-not (efrit-test-names "control"))))

(ert-deftest efrit-recover-an-answer-that-could-not-be-stored-is-named-with-the-volume ()
  (efrit-recover-test--with
    (dolist (id '("kept" "other" "kep"))
      (efrit-recover-test--place "processing" id)
      (efrit-recover-test--claimed id)
      (efrit-test-write "control" (concat "cancel_" id) "TimedOut"))
    (efrit-recover-test--heartbeat "{\"problem\": \"The answer could not be stored: \\\"kept\\\", \\\"Write error: \
No space left on device\\\"\"}")
    (let ((efrit-recover-problem (efrit-health-last-problem)))
      (efrit-recover))
    (let ((text (lambda (id)
                  (alist-get 'error (efrit-test-json "responses" (format "resp_%s.json" id))))))
      (should (string-match-p
               "answer that could not be written to the volume of the queue: .*No space left on device"
               (funcall text "kept")))
      (dolist (id '("other" "kep"))
        (should (equal (funcall text id)
                       "The time of the request was over; Emacs had to be ended"))))))

(ert-deftest efrit-recover-without-a-heartbeat-or-a-problem-nothing-is-named ()
  (efrit-recover-test--with
    (should-not (efrit-health-last-problem))
    (dolist (text '("{\"problem\": null}" "{" "[]" "{\"problem\": 1}"))
      (efrit-recover-test--heartbeat text)
      (should-not (efrit-health-last-problem)))))

(ert-deftest efrit-recover-a-safe-request-runs-again-as-the-next-attempt ()
  (efrit-recover-test--with
    (efrit-recover-test--place "processing" "one"
                               :options '(:retry "if-interrupted" :max_attempts 3))
    (efrit-recover-test--claimed "one" 1)
    (efrit-recover-test--claimed "one" 2)
    (should (= (efrit-recover) 0))
    (efrit-queue-forget-all)
    (efrit-queue-scan)
    (should (= (efrit-claim-attempt (efrit-claim-take (efrit-queue-next))) 3))))

(ert-deftest efrit-recover-a-safe-request-does-not-run-for-ever ()
  (efrit-recover-test--with
    (efrit-recover-test--place "processing" "one"
                               :options '(:retry "if-interrupted" :max_attempts 2))
    (efrit-recover-test--claimed "one" 2)
    (efrit-recover)
    (should (equal (efrit-recover-test--reason "one") "Interrupted"))
    (should (= (alist-get 'attempt (efrit-test-json "responses" "resp_one.json")) 2))))

(ert-deftest efrit-recover-twice-changes-nothing-more ()
  (efrit-recover-test--with
    (efrit-recover-test--place "processing" "one")
    (efrit-recover-test--place "processing" "two")
    (efrit-recover-test--claimed "one")
    (efrit-test-write "tmp" "emacs_old_1" "half an ans")
    (efrit-test-write "tmp" "withdrawn_three.json" "not ours")
    (efrit-recover)
    (let ((before (mapcar #'efrit-test-names efrit-files-parts)))
      (should (= (efrit-recover) 0))
      (should (equal (mapcar #'efrit-test-names efrit-files-parts) before)))
    (should (equal (efrit-test-names "tmp") '("withdrawn_three.json")))))

(ert-deftest efrit-recover-deletes-half-a-large-result ()
  (efrit-recover-test--with
    (let ((results (efrit-results-directory)))
      (make-directory results t)
      (dolist (name '("one.txt" "two.txt.part"))
        (write-region "x" nil (concat results name) nil 'silent))
      (efrit-recover)
      (should (equal (directory-files results nil "txt") '("one.txt"))))))

;; Code of a request may have put anything anywhere: the next Emacs serves all the same.
(ert-deftest efrit-recover-what-is-not-a-file-does-not-keep-emacs-from-starting ()
  (dolist (path '("queue/tmp/emacs_x/inner" "workspace/.efrit/results/x.txt.part/inner"
                  "queue/control/cancel_one/inner" "queue/processing/req_two.json/inner"
                  "queue/archive/req_one.json/inner" "queue/claims.old/inner"))
    (efrit-recover-test--with
      (efrit-recover-test--place "processing" "one")
      (efrit-recover-test--claimed "one")
      (efrit-recover-test--place "requests" "two")
      (efrit-recover-test--claimed "two")
      (make-directory (concat root path) t)
      (should (= (efrit-recover) 2))
      (should (equal (efrit-recover-test--reason "two") "Interrupted")))))

(ert-deftest efrit-recover-compacts-the-journal-where-no-bridge-does ()
  (efrit-recover-test--with
    (let ((efrit-bridge-p nil))
      (efrit-recover-test--claimed "answered")
      (efrit-recover-test--claimed "again" 1)
      (efrit-recover-test--place "processing" "again"
                                 :options '(:retry "if-interrupted" :max_attempts 2))
      (efrit-recover)
      (let ((attempts (efrit-claim-read-journal)))
        (should (= (hash-table-count attempts) 1))
        (should (= (gethash "again" attempts) 1))))))

(provide 'efrit-queue-recover-test)
;;; efrit-queue-recover-test.el ends here
