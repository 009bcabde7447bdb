;;; efrit-queue-trust-test.el --- Tests of whose queue is served  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Where others may write, code would run as us.

;;; Code:

(require 'efrit-test-daemon)
(require 'efrit-server)

(defun efrit-trust-test--attributes (user modes &optional link)
  "Return attributes of a directory of USER with MODES, or of a LINK."
  (list (or link t) 1 user 1 nil nil nil 0 modes nil 1 1))

(ert-deftest efrit-trust-a-directory-is-ours-or-roots-and-nobody-else-writes-there ()
  (pcase-dolist
      (`(,attributes ,why)
       `((,(efrit-trust-test--attributes (user-uid) "drwx------") nil)
         (,(efrit-trust-test--attributes (user-uid) "drwxr-xr-x") nil)
         (,(efrit-trust-test--attributes 0 "drwxr-xr-x") nil)
         (,(efrit-trust-test--attributes (1+ (user-uid)) "drwx------") "belongs to another user")
         (,(efrit-trust-test--attributes (user-uid) "drwxrwx---") "others may write")
         (,(efrit-trust-test--attributes (user-uid) "drwx----w-") "others may write")
         (,(efrit-trust-test--attributes 0 "drwxrwxrwt") "others may write")
         (,(efrit-trust-test--attributes (user-uid) "lrwxrwxrwx" "/else") "symbolic link")))
    (if (null why)
        (efrit-files--check-trusted "/queue" attributes)
      (should (string-match-p
               why (error-message-string
                    (should-error (efrit-files--check-trusted "/queue" attributes)
                                  :type 'efrit-queue-not-trusted)))))))

(ert-deftest efrit-trust-an-emacs-serves-no-queue-into-which-others-may-write ()
  (dolist (part '("" "requests"))
    (efrit-test-with-queue
      (let ((efrit-bridge-p nil) (path (efrit-files-path part)))
        (set-file-modes path #o777)
        (efrit-test-submit "r1" :content "(error \"not to be run\")")
        (should-error (efrit-server-start) :type 'efrit-queue-not-trusted)
        (should-not (file-exists-p (efrit-files-path "heartbeat")))
        (should (equal (efrit-test-names "requests") '("req_r1.json")))))))

(ert-deftest efrit-trust-an-emacs-serves-no-queue-behind-a-link ()
  (efrit-test-with-queue
    (let ((efrit-bridge-p nil) (link (concat root "link")))
      (make-symbolic-link (directory-file-name efrit-queue-directory) link)
      (let ((efrit-queue-directory (file-name-as-directory link)))
        (should-error (efrit-server-start) :type 'efrit-queue-not-trusted)))))

;;; efrit-queue-trust-test.el ends here
