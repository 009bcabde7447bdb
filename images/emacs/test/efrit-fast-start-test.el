;;; efrit-fast-start-test.el --- Tests of dumps of libraries  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; One Emacs makes a dump and ends, as run-emacs has it; another one starts from
;; it.  Which dump is used, and what becomes of one that is damaged, is tested
;; with run-emacs.

;;; Code:

(require 'cl-lib)
(require 'ert)
(require 'efrit-fast-start)

(defconst efrit-fast-start-test--lisp
  (file-name-directory (locate-library "efrit-fast-start"))
  "Where the Lisp under test is.")

(defvar efrit-fast-start-test--output nil
  "What the last Emacs wrote.")

(defmacro efrit-fast-start-test-with (libraries &rest body)
  "Evaluate BODY with `dumps' and `site', new directories.
LIBRARIES, an alist of names and texts, are in `site'."
  (declare (indent 1) (debug t))
  `(let* ((place (efrit-fast-start-test--place ,libraries))
          (dumps (concat place "dumps/"))
          (site (concat place "site/")))
     (ignore dumps)
     (unwind-protect (progn ,@body)
       (delete-directory place t))))

(defun efrit-fast-start-test--place (libraries)
  "Return a new directory with dumps/, and LIBRARIES, as above, in site/."
  (let ((place (file-name-as-directory (make-temp-file "efrit-fast-start" t))))
    (make-directory (concat place "dumps"))
    (make-directory (concat place "site"))
    (pcase-dolist (`(,name . ,text) libraries)
      (write-region (format "%s\n(provide '%s)\n" text name) nil
                    (concat place "site/" name ".el") nil 'quiet))
    place))

(defun efrit-fast-start-test--emacs (environment &rest arguments)
  "Run an Emacs in batch mode with ENVIRONMENT more and ARGUMENTS.
Return its status."
  (with-temp-buffer
    (let* ((process-environment (append environment process-environment))
           (status (apply #'call-process
                          (expand-file-name invocation-name invocation-directory)
                          nil t nil arguments)))
      (setq efrit-fast-start-test--output (buffer-string))
      status)))

(defun efrit-fast-start-test--dump (site dumps libraries &rest environment)
  "Have an Emacs dump LIBRARIES of SITE into DUMPS, with ENVIRONMENT.
Return its status."
  (efrit-fast-start-test--emacs
   (cons (concat "EFRIT_FAST_START_LIBRARIES=" libraries) environment)
   "--batch" "-Q" "-L" site "-L" efrit-fast-start-test--lisp "-l" "efrit-fast-start"
   "--eval" (format "(efrit-fast-start-dump %S)" dumps)))

(defun efrit-fast-start-test--from (dumps form)
  "Return what FORM prints in an Emacs that starts from the dump in DUMPS."
  (efrit-fast-start-test--emacs
   nil "--batch" (concat "--dump-file=" dumps "emacs.pdmp") "-Q"
   ;; What a library does at the end would be in the output.
   "--eval" (format "(progn (prin1 %S) (setq kill-emacs-hook nil))" form))
  efrit-fast-start-test--output)

(defun efrit-fast-start-test--lines (dumps name)
  "Return the lines of the file NAME in DUMPS."
  (with-temp-buffer
    (insert-file-contents (concat dumps name))
    (split-string (buffer-string) "\n" t)))

(ert-deftest efrit-fast-start-an-emacs-from-a-dump-has-its-libraries-and-their-functions ()
  (efrit-fast-start-test-with '(("a-site" . "(defun a-site-half (number) (/ number 2))"))
    (should (equal 0 (efrit-fast-start-test--dump site dumps "org ediff a-site")))
    (should (equal (efrit-fast-start-test--from
                    dumps
                    '(list (featurep 'org) (featurep 'ediff) (a-site-half 84)
                           (with-temp-buffer (insert "* a\n** b\n") (org-mode)
                                             (goto-char (point-max)) (org-back-to-heading) (org-outline-level))
                           (null after-init-time)))
                   "(t t 42 2 nil)"))))

(defconst efrit-fast-start-test--secret (concat "SECRET=" (md5 "of the maker"))
  "What is in the environment of whoever makes the dump that is shared.")

(defvar efrit-fast-start-test--shared nil
  "The directory of the dump of all tests that only look at one, or nil.
To make one takes a second of a processor.")

(defun efrit-fast-start-test--share ()
  "Make the dump that is shared; it is gone with this Emacs."
  (let* ((place (efrit-fast-start-test--place
                 '(("a-site" . "(require 'b-site)
(add-hook 'kill-emacs-hook (lambda () (error \"A hook has run\")))")
                   ("b-site" . "") ("c-site" . "")))))
    (add-hook 'kill-emacs-hook (lambda () (delete-directory place t)))
    (should (equal 0 (efrit-fast-start-test--dump (concat place "site/") (concat place "dumps/") "a-site"
                                                  efrit-fast-start-test--secret)))
    (setq efrit-fast-start-test--shared place)))

(defmacro efrit-fast-start-test-with-shared (&rest body)
  "Evaluate BODY with `dumps' and `site', those of the dump that is shared."
  (declare (indent 0) (debug t))
  `(let* ((place (or efrit-fast-start-test--shared (efrit-fast-start-test--share)))
          (dumps (concat place "dumps/"))
          (site (concat place "site/")))
     (ignore site)
     ,@body))

(ert-deftest efrit-fast-start-a-dump-says-what-it-was-made-of ()
  (efrit-fast-start-test-with-shared
    (let ((files (efrit-fast-start-test--lines dumps "files")))
      (should (member (file-truename (concat site "a-site.el")) files))
      (should (member (file-truename (concat site "b-site.el")) files))
      (should-not (member (file-truename (concat site "c-site.el")) files))
      (should (member (file-truename (expand-file-name invocation-name invocation-directory)) files))
      (should-not (cl-find "efrit-fast-start\\.elc?\\'" files :test #'string-match-p))
      (should (cl-every #'file-readable-p files)))
    (let ((directories (efrit-fast-start-test--lines dumps "directories")))
      (should (cl-find site directories :test #'file-equal-p))
      (should-not (cl-find efrit-fast-start-test--lisp directories :test #'file-equal-p)))))

(ert-deftest efrit-fast-start-a-dump-holds-nothing-of-its-makers-environment ()
  (efrit-fast-start-test-with-shared
    (with-temp-buffer
      (set-buffer-multibyte nil)
      (insert-file-contents-literally (concat dumps "emacs.pdmp"))
      (should-not (search-forward efrit-fast-start-test--secret nil t)))
    (should (equal (efrit-fast-start-test--from dumps '(getenv "SECRET")) "nil"))
    (should (equal (efrit-fast-start-test--from dumps '(stringp (getenv "PATH"))) "t"))))

(ert-deftest efrit-fast-start-what-a-library-does-at-the-end-is-not-done-by-who-makes-a-dump ()
  (efrit-fast-start-test-with-shared
    (should (equal (efrit-fast-start-test--from dumps '(length kill-emacs-hook)) "1"))))

(defconst efrit-fast-start-test--undumpable
  '(("is-missing" nil "is-missing")
    ("fails" "(error \"No such thing\")" "fails: No such thing")
    ("a-process" "(make-process :name \"one\" :command '(\"sleep\" \"60\") :noquery t)" "has started a process")
    ("a-thread" "(defvar a-thread-wait (make-mutex)) (mutex-lock a-thread-wait)
(make-thread (lambda () (mutex-lock a-thread-wait)))"
     "has started a thread")
    ("a-mutex" "(defvar a-mutex-kept (make-mutex))" "unsupported object"))
  "Libraries that cannot be dumped: name, text, and what the log says.")

(ert-deftest efrit-fast-start-of-what-cannot-be-dumped-the-log-says-why ()
  (pcase-dolist (`(,name ,text ,message) efrit-fast-start-test--undumpable)
    (efrit-fast-start-test-with (and text `((,name . ,text)))
      (ert-info (name)
        (should-not (equal 0 (efrit-fast-start-test--dump site dumps (concat "thingatpt " name))))
        (should (string-match-p (regexp-quote message) efrit-fast-start-test--output))))))

(ert-deftest efrit-fast-start-a-library-that-fails-leaves-the-others-loaded ()
  (efrit-fast-start-test-with '(("a-site" . "") ("fails" . "(error \"No\")") ("z-site" . ""))
    (should (equal 0 (efrit-fast-start-test--emacs
                      '("EFRIT_FAST_START_LIBRARIES=a-site fails is-missing z-site")
                      "--batch" "-Q" "-L" site "-L" efrit-fast-start-test--lisp "-l" "efrit-fast-start"
                      "--eval" "(prin1 (list (efrit-fast-start-load) (featurep 'a-site) (featurep 'z-site)))")))
    (should (string-match-p "(nil t t)" efrit-fast-start-test--output))
    (should (string-match-p "efrit-fast-start: fails: No" efrit-fast-start-test--output))
    (should (string-match-p "efrit-fast-start: is-missing: " efrit-fast-start-test--output))))

(ert-deftest efrit-fast-start-a-dump-beyond-the-limit-of-files-is-none ()
  (efrit-fast-start-test-with '(("a-site" . ""))
    (let ((process-environment (cons "EFRIT_FAST_START_LIBRARIES=a-site" process-environment)))
      (should-not
       (equal 0 (call-process "sh" nil nil nil "-c" "ulimit -f 2000; exec \"$@\"" "sh"
                              (expand-file-name invocation-name invocation-directory)
                              "--batch" "-Q" "-L" site "-L" efrit-fast-start-test--lisp "-l" "efrit-fast-start"
                              "--eval" (format "(efrit-fast-start-dump %S)" dumps)))))))

(ert-deftest efrit-fast-start-emacs-does-not-start-from-a-dump-of-another-one ()
  (efrit-fast-start-test-with-shared
    (let ((file (make-temp-file "efrit-fast-start"))
          (coding-system-for-write 'no-conversion))
      (unwind-protect
          (with-temp-buffer
            (set-buffer-multibyte nil)
            (insert-file-contents-literally (concat dumps "emacs.pdmp"))
            ;; The fingerprint of the program stands behind 16 bytes.
            (goto-char 20)
            (insert (logxor 255 (following-char)))
            (delete-char 1)
            (write-region nil nil file nil 'quiet)
            (should-not (equal 0 (efrit-fast-start-test--emacs
                                  nil "--batch" (concat "--dump-file=" file) "-Q" "--eval" "(kill-emacs 0)"))))
        (delete-file file)))))

(provide 'efrit-fast-start-test)
;;; efrit-fast-start-test.el ends here
