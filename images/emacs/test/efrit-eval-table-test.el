;;; efrit-eval-table-test.el --- Evals that outlast their time, on an Emacs alone  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Plays rows of tests/evals, which the script that runs the tests leaves beside this
;; file as JSON: each ends as its row says, and the next eval is answered rightly.  They
;; are those that end Emacs or run out of time, as this one supervises itself; all are
;; played behind a bridge (tests/integration/bridge), on the same versions of Emacs.

;;; Code:

(require 'efrit-test-queue)
(require 'efrit-test-daemon)

(defconst efrit-eval-table-test--file
  (expand-file-name "evals.json"
                    (file-name-directory (or load-file-name buffer-file-name
                                             byte-compile-current-file "./")))
  "The table.")

(defconst efrit-eval-table-test--next
  "(progn (print \"é\") (message \"said\") (list 40 2 (emacs-pid)))"
  "The eval after each one.")

(defun efrit-eval-table-test--rows ()
  "Return the rows of the table as alists, without what does not matter."
  (with-temp-buffer
    (insert-file-contents efrit-eval-table-test--file)
    (append (json-parse-buffer :object-type 'alist :null-object nil :false-object nil) nil)))

(defun efrit-eval-table-test--differences (row answer)
  "Return in which members ANSWER is not what ROW says."
  (let-alist row
    (let (different)
      (pcase-dolist (`(,member . ,value)
                     `((reason . ,.reason) (result . ,.result) (error_code . ,.error_code)
                       (output . ,.output) (messages . ,.messages)
                       (result_bytes . ,.bytes)))
        (unless (or (null value) (equal value (alist-get member answer)))
          (push member different)))
      (unless (eq .truncated (alist-get 'truncated answer)) (push 'truncated different))
      (pcase-dolist (`(,member . ,part)
                     `((output . ,.output_part) (messages . ,.messages_part)
                       (,(if (equal .reason "Succeeded") 'result 'error) . ,.contains)))
        (unless (or (null part) (string-search part (or (alist-get member answer) "")))
          (push member different)))
      different)))

(defun efrit-eval-table-test--play (row)
  "Play ROW; return nil, or what was wrong as a list."
  (let-alist row
    (let ((next (concat .name "-next")) (pid (process-id efrit-test-daemon)))
      (apply #'efrit-test-submit .name :content .form
             (and (> .timeout 0) (list :options (list :timeout .timeout))))
      ;; Files that are made within one tick of the clock are taken in the order of their names.
      (efrit-test-wait (not (member (format "req_%s.json" .name)
                                       (efrit-test-names "requests"))))
      (unless .ends (efrit-test-answer .name))
      (efrit-test-submit next :content efrit-eval-table-test--next)
      (when .ends
        (efrit-test-wait (efrit-test-daemon-gone-p))
        (efrit-test-daemon-start "EFRIT_BRIDGE=0"))
      (let* ((answer (efrit-test-answer .name))
             (after (efrit-test-answer next))
             (different (efrit-eval-table-test--differences row answer))
             (now (process-id efrit-test-daemon)))
        (when .ends (setq pid now))
        (cond (different (list .name .form different answer))
              ((not (and (equal (alist-get 'result after) (format "(40 2 %d)" pid))
                         (equal (alist-get 'output after) "\n\"é\"\n")
                         (equal (alist-get 'messages after) "said\n")))
               (list .name .form 'next pid after)))))))

(ert-deftest efrit-eval-table-each-ends-as-the-table-says-and-the-next-is-answered-rightly ()
  (let ((rows (efrit-eval-table-test--rows)) wrong)
    (should (>= (length rows) 50))
    (efrit-test-with-daemon ("EFRIT_BRIDGE=0")
      (dolist (row rows)
        (ert-info ((format "%s: %s" (alist-get 'name row) (alist-get 'form row)))
          (let ((problem (efrit-eval-table-test--play row)))
            (when problem (push problem wrong))))))
    ;; As text: of a long list, a report shows little.
    (when wrong
      (ert-fail (mapconcat (lambda (problem) (format "%S" problem)) wrong "\n")))))

(provide 'efrit-eval-table-test)
;;; efrit-eval-table-test.el ends here
