;;; efrit-queue-fence-test.el --- Tests of two Emacsen on one queue  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The newest run has the queue, whatever an older one does beside it.

;;; Code:

(require 'efrit-test-daemon)
(require 'efrit-queue-fence)
(require 'efrit-queue-recover)

(defmacro efrit-fence-test--as (generation &rest body)
  "Run BODY as an Emacs of GENERATION, on an empty queue."
  (declare (indent 1) (debug t))
  `(efrit-test-with-queue
     (let ((efrit-fence-generation ,generation)
           (efrit-fence--last-read nil)
           (efrit-recover--strays nil)
           (efrit-claim--attempts (make-hash-table :test #'equal))
           (efrit-claim--torn nil))
       (efrit-claim-new-boot)
       ,@body)))

(defun efrit-fence-test--say (text)
  "Write TEXT to generation, as another Emacs does."
  (efrit-test-write "tmp" "generation" text)
  (rename-file (efrit-files-path "tmp" "generation")
               (efrit-files-path "generation") t))

(defun efrit-fence-test--leave (id &optional claimed)
  "Leave the request ID in processing/, with CLAIMED also in the journal."
  (efrit-test-write "processing" (format "req_%s.json" id) (efrit-test-request id))
  (when claimed
    (write-region (format "%s 1 00112233445566aa\n" id) nil
                  (efrit-files-path "claims.log") t 'silent)))

(ert-deftest efrit-fence-the-newest-run-has-the-queue ()
  (efrit-fence-test--as 4
    (pcase-dolist (`(,newest . ,holds) '(("3\n" . t) ("4\n" . t) ("5\n") ("6") ("12\n")))
      (efrit-fence-test--say newest)
      (should (eq (and (efrit-fence-holds-p) t) holds)))))

(ert-deftest efrit-fence-without-a-generation-the-queue-is-ones-own ()
  (efrit-fence-test--as nil
    (efrit-fence-test--say "5\n")
    (should (efrit-fence-holds-p))
    (should (equal (efrit-test-read "" "generation") "5\n"))))

(ert-deftest efrit-fence-what-became-of-the-file-is-put-right ()
  (efrit-fence-test--as 4
    (dolist (text '(nil "" "three" "3\n" "-1\n" "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"))
      (if text
          (efrit-fence-test--say text)
        (efrit-files-delete (efrit-files-path "generation")))
      (should (efrit-fence-holds-p))
      (should (equal (efrit-test-read "" "generation") "4\n")))
    (delete-file (efrit-files-path "generation"))
    (make-directory (efrit-files-path "generation"))
    (should (efrit-fence-holds-p))))

(ert-deftest efrit-fence-a-pause-is-for-the-run-it-names ()
  (efrit-fence-test--as 4
    (pcase-dolist (`(,name . ,paused) '(("pause_3") ("pause_5") ("pause_40")
                                        ("pause_4" . t) ("pause" . t)))
      (efrit-test-write "control" name "")
      (should (eq (and (efrit-fence-paused-p) t) paused))
      (delete-file (efrit-files-path "control" name)))))

(ert-deftest efrit-fence-what-was-claimed-while-the-queue-was-taken-does-not-run ()
  (efrit-fence-test--as 4
    (efrit-test-submit "one")
    (efrit-queue-forget-all)
    (efrit-queue-scan)
    (let ((entry (efrit-queue-next))
          (journal (symbol-function 'efrit-claim--journal)))
      (cl-letf (((symbol-function 'efrit-claim--journal)
                 (lambda (id attempt)
                   (funcall journal id attempt)
                   (efrit-fence-test--say "5\n"))))
        (should-not (efrit-claim-take entry))))
    ;; All of it is left to the one that has the queue.
    (should (equal (efrit-test-names "processing") '("req_one.json")))
    (should-not (efrit-test-names "responses"))))

(ert-deftest efrit-fence-what-ends-after-the-queue-was-taken-has-no-answer ()
  (efrit-fence-test--as 4
    (efrit-test-submit "one")
    (efrit-queue-forget-all)
    (efrit-queue-scan)
    (let ((answer (efrit-answer-make (efrit-claim-take (efrit-queue-next))
                                     (efrit-result-make :reason "Succeeded"))))
      (efrit-fence-test--say "5\n")
      (should-not (efrit-answer-store answer))
      (should-not (efrit-test-names "responses"))
      (should (equal (efrit-test-names "processing") '("req_one.json")))
      (efrit-fence-test--say "4\n")
      (should (efrit-answer-store answer)))))

(ert-deftest efrit-fence-a-claim-that-came-late-is-settled-at-the-second-look ()
  (efrit-fence-test--as 4
    (efrit-fence-test--leave "begun" t)
    (efrit-fence-test--leave "own" t)
    (should (= (efrit-recover-strays '("own")) 0))
    (efrit-fence-test--leave "later" t)
    (should (= (efrit-recover-strays '("own")) 1))
    (should (equal (alist-get 'reason (efrit-test-json "responses" "resp_begun.json"))
                   "Interrupted"))
    (should (equal (efrit-test-names "processing") '("req_later.json" "req_own.json")))))

(ert-deftest efrit-fence-what-was-taken-and-not-claimed-waits-again ()
  (efrit-fence-test--as 4
    (efrit-fence-test--leave "taken")
    (dotimes (_ 2) (should (= (efrit-recover-strays nil) 0)))
    (should (equal (efrit-test-names "requests") '("req_taken.json")))
    (should-not (efrit-test-names "responses"))))

(ert-deftest efrit-fence-an-older-run-settles-nothing ()
  (efrit-fence-test--as 4
    (efrit-fence-test--leave "theirs" t)
    (efrit-fence-test--say "5\n")
    (dotimes (_ 3) (should (= (efrit-recover-strays nil) 0)))
    (should (equal (efrit-test-names "processing") '("req_theirs.json")))))

(defun efrit-fence-test--size (name)
  "Return the size of the file NAME in the workspace."
  (file-attribute-size (file-attributes (concat efrit-workspace-directory name))))

(ert-deftest efrit-fence-an-emacs-of-an-older-run-leaves-what-waits-alone ()
  (efrit-test-with-daemon ("EFRIT_GENERATION=4" "EFRIT_HEARTBEAT_SECONDS=0.2")
    (should (equal (efrit-test-value
                    "before" (format "(write-region \"\" nil \"turns\")
                                      (run-with-timer 0 0.2 #'write-region \"x\" nil %S t 0)
                                      3"
                                     (concat efrit-workspace-directory "turns")))
                   "3"))
    (should (equal (efrit-test-read "" "generation") "4\n"))
    (efrit-fence-test--say "5\n")
    (efrit-test-submit "waits")
    (cl-flet ((turns (number)
                (let ((size (+ number (efrit-fence-test--size "turns"))))
                  (efrit-test-wait (>= (efrit-fence-test--size "turns") size)))))
      ;; A beat that had begun before is over when another timer goes off.
      (turns 1)
      (let ((beat (efrit-test-read "" "heartbeat")))
        (efrit-test-interrupt "waits")
        (turns 5)
        (should (equal (efrit-test-read "" "heartbeat") beat))))
    (should (equal (efrit-test-names "requests") '("req_waits.json")))
    (let ((older efrit-test-daemon))
      (unwind-protect
          (progn
            ;; As in a pod of its own: beside a daemon of its name, this one would end.
            (efrit-test-daemon-start "EFRIT_GENERATION=5"
                                     (concat "TMPDIR=" efrit-workspace-directory))
            (should (equal (alist-get 'result (efrit-test-answer "waits")) "3"))
            (should (process-live-p older)))
        (signal-process older 'SIGKILL)))))

(ert-deftest efrit-fence-a-daemon-settles-a-claim-of-the-run-before ()
  (efrit-test-with-daemon ("EFRIT_GENERATION=4")
    (should (equal (efrit-test-value "before" "(+ 1 2)") "3"))
    (efrit-fence-test--leave "late" t)
    (should (equal (alist-get 'reason (efrit-test-answer "late")) "Interrupted"))))

(provide 'efrit-queue-fence-test)
;;; efrit-queue-fence-test.el ends here
