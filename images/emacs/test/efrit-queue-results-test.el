;;; efrit-queue-results-test.el --- Tests of large results  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A large result lives as long as its answer, and nothing else is deleted.

;;; Code:

(require 'ert)
(require 'efrit-queue-results)
(require 'efrit-test-queue)

(defmacro efrit-results-test--with (&rest body)
  "Run BODY with a queue and a directory for results of its own."
  (declare (indent 0) (debug t))
  `(efrit-test-with-queue
     (let ((efrit-results--pause 0)
           efrit-results--ids efrit-results--unchecked efrit-results--round-end
           (efrit-results--stale 0) efrit-results--unread)
       (make-directory (efrit-results-directory) t)
       ,@body)))

(defun efrit-results-test--make (id)
  "Put a large result of the request ID on the workspace."
  (efrit-files-isolated (efrit-results-note id))
  (write-region "large" nil (efrit-results-path id) nil 'silent))

(defun efrit-results-test--left ()
  "Return the sorted names of the results."
  (directory-files (efrit-results-directory) nil directory-files-no-dot-files-regexp))

(ert-deftest efrit-results-a-result-goes-with-its-answer ()
  (efrit-results-test--with
    (dolist (place '(("open" "processing" "req_") ("answered" "responses" "resp_")
                     ("kept" "archive" "resp_") ("gone" "archive" "req_")))
      (efrit-results-test--make (car place))
      (efrit-test-write (nth 1 place) (format "%s%s.json" (nth 2 place) (car place)) "{}"))
    (efrit-results-delete-stale)
    (should (equal (efrit-results-test--left) '("answered.txt" "kept.txt" "open.txt")))
    (delete-file (efrit-files-path "archive" "resp_kept.json"))
    (efrit-results-delete-stale)
    (should (equal (efrit-results-test--left) '("answered.txt" "open.txt")))))

(ert-deftest efrit-results-files-of-others-stay ()
  "Other instances may share the workspace."
  (efrit-results-test--with
    (efrit-results-test--make "gone")
    (write-region "theirs" nil (efrit-results-path "other") nil 'silent)
    (efrit-results-delete-stale)
    (should (equal (efrit-results-test--left) '("other.txt")))))

(ert-deftest efrit-results-nothing-is-deleted-behind-a-link ()
  (efrit-results-test--with
    (let ((elsewhere (concat efrit-workspace-directory "elsewhere/")))
      (efrit-files-isolated (efrit-results-note "a"))
      (delete-directory (efrit-results-directory))
      (make-directory elsewhere)
      (write-region "mine" nil (concat elsewhere "a.txt") nil 'silent)
      (make-symbolic-link elsewhere (directory-file-name (efrit-results-directory)))
      (efrit-results-delete-stale)
      (should (file-exists-p (concat elsewhere "a.txt"))))))

(ert-deftest efrit-results-are-known-to-the-next-emacs-and-the-list-shrinks ()
  (efrit-results-test--with
    (dolist (id '("a" "b" "c")) (efrit-results-test--make id))
    (efrit-test-write "archive" "resp_b.json" "{}")
    ;; Of "b-torn" nothing tells how it went on.
    (write-region "b-torn\nd resu" nil (efrit-files-path "results.log") t 'silent)
    (efrit-results-reset)
    (should (equal (sort (copy-sequence efrit-results--ids) #'string<) '("a" "b" "c")))
    (efrit-results-delete-stale)
    (should (equal (efrit-results-test--left) '("b.txt")))
    (efrit-results-reset)
    (should (equal efrit-results--ids '("b")))
    (should (equal (with-temp-buffer
                     (insert-file-contents (efrit-files-path "results.log"))
                     (buffer-string))
                   "b result\n"))))

(ert-deftest efrit-results-one-look-checks-a-few-only ()
  (efrit-results-test--with
    (dotimes (number (* 3 efrit-results--max-per-call))
      (efrit-results-test--make (format "r%d" number)))
    (efrit-results-delete-stale)
    (should (= (length (efrit-results-test--left)) (* 2 efrit-results--max-per-call)))
    (efrit-results-delete-stale)
    (efrit-results-delete-stale)
    (should-not (efrit-results-test--left))))

(ert-deftest efrit-results-a-result-that-cannot-be-deleted-is-tried-again ()
  (efrit-results-test--with
    (efrit-results-test--make "a")
    (cl-letf (((symbol-function 'efrit-files-delete)
               (lambda (path) (signal 'file-error (list "Removing" "Input/output error" path)))))
      (efrit-results-delete-stale))
    (should (equal (efrit-results-test--left) '("a.txt")))
    (efrit-results-delete-stale)
    (should-not (efrit-results-test--left))))

;; The disk does not say whether the answer is there: a link to itself fails the look.
(ert-deftest efrit-results-a-queue-that-cannot-be-read-costs-no-result ()
  (efrit-results-test--with
    (efrit-results-test--make "a")
    (efrit-test-write "archive" "resp_a.json" "{}")
    (let ((archive (efrit-files-path "archive")))
      (rename-file archive (concat archive ".away"))
      (make-symbolic-link archive archive)
      (efrit-results-delete-stale)
      (should (equal (efrit-results-test--left) '("a.txt")))
      (should (member "a" efrit-results--ids)))))

(ert-deftest efrit-results-are-forgotten-where-the-workspace-has-no-place-for-them ()
  (efrit-results-test--with
    (efrit-results-test--make "a")
    (delete-directory (concat efrit-workspace-directory ".efrit") t)
    (write-region "" nil (concat efrit-workspace-directory ".efrit") nil 'silent)
    (efrit-results-delete-stale)
    (should-not efrit-results--ids)))

;; Of a list that may not be read nothing is known: it is none that is empty.
(ert-deftest efrit-results-a-list-that-cannot-be-read-is-read-once-it-can-be ()
  (efrit-results-test--with
    (dolist (id '("gone" "kept")) (efrit-results-test--make id))
    (efrit-test-write "archive" "resp_kept.json" "{}")
    (cl-letf (((symbol-function 'efrit-files-read)
               (lambda (path) (signal 'file-error (list "Opening input file" "Permission denied" path)))))
      (efrit-results-reset)
      (efrit-results-test--make "new")
      (should (string-search "Permission denied" (efrit-results-delete-stale)))
      ;; What is known of is looked after, and the list is not written anew without the rest.
      (should (equal (efrit-results-test--left) '("gone.txt" "kept.txt"))))
    (should-not (efrit-results-delete-stale))
    (should (equal (efrit-results-test--left) '("kept.txt")))
    (should (equal efrit-results--ids '("kept")))
    (efrit-results-reset)
    (should (equal efrit-results--ids '("kept")))))

(ert-deftest efrit-results-a-list-that-is-missing-is-empty ()
  (efrit-results-test--with
    (efrit-results-reset)
    (should-not (efrit-results-delete-stale))
    (should-not efrit-results--ids)))

(provide 'efrit-queue-results-test)
;;; efrit-queue-results-test.el ends here
