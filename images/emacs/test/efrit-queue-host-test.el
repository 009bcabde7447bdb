;;; efrit-queue-host-test.el --- Tests of a queue that hosts share  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Whose the queue is by a heartbeat from here or elsewhere, and how one Emacs takes
;; it from another.

;;; Code:

(require 'efrit-test-daemon)
(require 'efrit-queue-host)
(require 'efrit-queue-fence)
(require 'efrit-server-health)

(defun efrit-host-test--beat (server &rest members)
  "Return a heartbeat with the alist SERVER over our own identity, and MEMBERS."
  (let ((beat (make-hash-table :test #'equal))
        (own (make-hash-table :test #'equal)))
    (pcase-dolist (`(,key . ,value) (append efrit-host-identity server))
      (puthash (symbol-name key) value own))
    (puthash "server" own beat)
    (while members
      (puthash (pop members) (pop members) beat))
    beat))

(defconst efrit-host-test--other
  '((host . "other") (boot_id . "b") (pid_namespace . "pid:[1]")))

(ert-deftest efrit-host-whose-the-queue-is-says-the-heartbeat ()
  (let ((other efrit-host-test--other)
        (here (alist-get 'boot_id efrit-host-identity)))
    (pcase-dolist
        (`(,beat ,remote ,silence ,verdict)
         `((nil t 0 pid)
           (,(efrit-host-test--beat nil) t 9999 pid)
           ;; The name of a host may change while it runs.
           (,(efrit-host-test--beat '((host . "renamed"))) t 0 pid)
           (,(efrit-host-test--beat '((pid_namespace . "pid:[1]"))) t 89 taken)
           (,(efrit-host-test--beat '((pid_namespace . "pid:[1]"))) t 90 free)
           (,(efrit-host-test--beat other) t 0 taken)
           (,(efrit-host-test--beat other) t 89 taken)
           (,(efrit-host-test--beat other) t 90 free)
           (,(efrit-host-test--beat `((state . "ended") ,@other)) t 0 free)
           ;; Nobody else mounts it: this host was booted since.
           (,(efrit-host-test--beat other) nil 0 free)
           (,(efrit-host-test--beat `((boot_id . ,here) (pid_namespace . "pid:[1]"))) nil 0 taken)
           ;; While it evaluates, it writes no heartbeat.
           (,(efrit-host-test--beat other "current" "one" "timeout" 600) t 689 taken)
           (,(efrit-host-test--beat other "current" "one" "timeout" 600) t 690 free)
           (,(efrit-host-test--beat other "current" :null "timeout" 600) t 90 free)
           ;; A system that says neither boot nor namespace.
           (,(efrit-host-test--beat '((boot_id . :null) (host . "other"))) t 0 taken)
           (,(efrit-host-test--beat '((boot_id . :null))) t 0 pid)))
      (let ((efrit-takeover-seconds 90)
            (efrit-host--remote (cons efrit-queue-directory remote)))
        (ert-info ((format "%S" (list beat remote silence)))
          (should (eq (efrit-host-verdict beat (lambda () silence)) verdict)))))))

(ert-deftest efrit-host-a-process-knows-where-it-is ()
  (should (equal (alist-get 'host efrit-host-identity) (system-name)))
  (should (string-match-p "\\`[0-9a-f-]\\{36\\}\\'" (alist-get 'boot_id efrit-host-identity)))
  (should (string-match-p "\\`pid:" (alist-get 'pid_namespace efrit-host-identity)))
  (should (natnump (alist-get 'process_start efrit-host-identity))))

(ert-deftest efrit-host-a-file-system-is-remote-by-its-type ()
  (let ((mounts (concat "/dev/sda / ext4 rw 0 0\nhost:/a /mnt nfs4 rw 0 0\n"
                        "tmpfs /mnt/own tmpfs rw 0 0\nx /with\\040space fuse.sshfs rw 0 0\n")))
    (pcase-dolist (`(,path . ,remote) '(("/home/q/" . nil) ("/mnt/q/" . t) ("/mnt2/q/" . nil)
                                        ("/mnt/own/q/" . nil) ("/with space/q/" . t)))
      (should (eq (efrit-host--remote-type-p (efrit-host--type mounts path)) remote)))))

;; A host of many containers has a table of mounts of more than a hundred kilobytes.
(ert-deftest efrit-host-what-the-system-reports-is-read-whole-within-a-bound ()
  (should (> (length (efrit-host--read "/proc/self/smaps")) (* 4 efrit-host--piece)))
  (let ((efrit-host--max-bytes (1+ efrit-host--piece)))
    (should (<= (length (efrit-host--read "/proc/self/smaps")) (* 2 efrit-host--piece))))
  (should-not (efrit-host--read "/proc/nothing")))

(ert-deftest efrit-host-silence-is-measured-by-the-file-server ()
  (efrit-test-with-queue
    (efrit-test-write "" "heartbeat" "{}")
    (set-file-times (efrit-files-path "heartbeat") (time-subtract nil 500))
    (should (< 499 (efrit-host-silence) (+ 500 efrit-test-timeout)))
    (set-file-times (efrit-files-path "heartbeat") (time-add nil 500))
    (should (= (efrit-host-silence) 0))))

(ert-deftest efrit-host-each-claim-of-the-queue-has-a-number-of-its-own ()
  (efrit-test-with-queue
    (let ((efrit-fence--last-read nil) numbers)
      (dotimes (_ 12)
        (let ((efrit-fence-generation nil))
          (efrit-fence-claim "0011223344556677")
          (should (efrit-fence-holds-p))
          (push efrit-fence-generation numbers)))
      (should (equal (nreverse numbers) (number-sequence 1 12)))
      ;; One that looked before the last claims were made gets none of theirs.
      (efrit-test-write "" "generation" "9\n")
      (let ((efrit-fence-generation nil))
        (efrit-fence-claim "0011223344556677")
        (should (= efrit-fence-generation 13)))
      (should (= (length (efrit-test-names "control")) 9)))))

(ert-deftest efrit-host-a-newer-run-is-seen-behind-attributes-that-are-remembered ()
  (efrit-test-with-queue
    (let* ((path (efrit-files-path "generation"))
           (efrit-fence-generation 4) (efrit-fence--last-read nil)
           (efrit-host--remote (cons efrit-queue-directory t)))
      (efrit-test-write "" "generation" "4\n")
      (let ((old (file-attributes path 'integer))
            (attributes (symbol-function 'file-attributes)))
        (should (efrit-fence-holds-p))
        (efrit-test-write "" "generation" "5\n")
        (cl-letf (((symbol-function 'file-attributes)
                   (lambda (name &rest more)
                     (if (equal name path) old (apply attributes name more)))))
          (should-not (efrit-fence-holds-p))
          (should (efrit-fence-superseded-p)))))))

(ert-deftest efrit-host-what-cannot-be-read-is-nobodys-and-is-not-overwritten ()
  (efrit-test-with-queue
    (let ((efrit-fence-generation 4) (efrit-fence--last-read nil)
          (efrit-host--remote (cons efrit-queue-directory t)))
      (efrit-test-write "" "generation" "5\n")
      (cl-letf (((symbol-function 'efrit-files-read)
                 (lambda (_path) (signal 'file-error '("Stale file handle")))))
        (should-not (efrit-fence-holds-p))
        (should-not (efrit-fence-superseded-p)))
      (should (equal (efrit-test-read "" "generation") "5\n")))))

(ert-deftest efrit-host-an-emacs-ends-once-the-queue-is-taken ()
  (efrit-test-with-daemon ("EFRIT_BRIDGE=")
    (should (equal (efrit-test-value "before" "(+ 1 2)") "3"))
    (let ((server (alist-get 'server (efrit-test-heartbeat))))
      (should (equal (alist-get 'generation server) 1))
      (should (equal (alist-get 'state server) "serving")))
    (efrit-test-write "tmp" "generation" "2\n")
    (rename-file (efrit-files-path "tmp" "generation") (efrit-files-path "generation") t)
    (efrit-test-submit "waits")
    (efrit-test-wait (efrit-test-daemon-gone-p))
    (should (equal (efrit-test-names "requests") '("req_waits.json")))
    (should (equal (alist-get 'state (alist-get 'server (efrit-test-heartbeat))) "serving"))))

(ert-deftest efrit-host-an-emacs-that-ends-in-order-says-so ()
  (efrit-test-with-daemon ("EFRIT_BRIDGE=")
    ;; By a signal it may end inside of malloc, which aborts.
    (efrit-test-submit "ends" :content "(kill-emacs)")
    (efrit-test-wait (efrit-test-daemon-gone-p))
    (should (equal (alist-get 'state (alist-get 'server (efrit-test-heartbeat))) "ended"))))

(ert-deftest efrit-host-no-emacs-starts-beside-that-of-another-host ()
  (efrit-test-with-queue
    (let* ((efrit-bridge-p nil) (efrit-fence-generation nil)
           (efrit-host-identity (append efrit-host-test--other efrit-host-identity))
           (efrit-host--remote (cons efrit-queue-directory t)))
      (efrit-claim-new-boot)
      (efrit-health-reset)
      (efrit-health-beat))
    (let ((efrit-fence-generation nil)
          (efrit-host--remote (cons efrit-queue-directory t)))
      (should (equal (should-error (efrit-health-check-alone) :type 'efrit-queue-taken)
                     `(efrit-queue-taken ,efrit-queue-directory "other")))
      (set-file-times (efrit-files-path "heartbeat")
                      (time-subtract nil (+ 10 efrit-takeover-seconds)))
      (should (efrit-health-check-alone)))))

(ert-deftest efrit-host-an-order-of-another-host-stops-an-eval ()
  (efrit-test-with-daemon ("EFRIT_BRIDGE=")
    (efrit-test-submit "spins" :content "(while t)" :options '(:timeout 600))
    (efrit-test-wait (equal (alist-get 'current (efrit-test-heartbeat)) "spins"))
    (should (equal (alist-get 'timeout (efrit-test-heartbeat)) 600))
    (efrit-test-write "control" "cancel_spins" "Cancelled\n")
    (should (equal (alist-get 'reason (efrit-test-answer "spins")) "Cancelled"))))

(provide 'efrit-queue-host-test)
;;; efrit-queue-host-test.el ends here
