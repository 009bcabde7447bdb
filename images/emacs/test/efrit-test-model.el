;;; efrit-test-model.el --- The scripted model for tests  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The server is started by whoever runs the tests and named in
;; EFRIT_TEST_MODEL_URL; a test that needs it fails where it is missing.

;;; Code:

(require 'ert)
(require 'url)
(require 'efrit-test-queue)
(require 'efrit-test-daemon)

(defvar efrit-test-model--key-file nil
  "The file with the key, during a test.")

(defun efrit-test-model-url ()
  "Return where the scripted model is."
  (or (getenv "EFRIT_TEST_MODEL_URL")
      (ert-fail "EFRIT_TEST_MODEL_URL is not set: start python3 tests/model/server.py")))

(defun efrit-test-model-key ()
  "Return the key that the scripted model takes."
  "test-key")

(defun efrit-test-model-environment ()
  "Return the environment of a daemon that asks the scripted model."
  (list "EFRIT_MODEL_NAME=scripted"
        (concat "EFRIT_MODEL_BASE_URL=" (efrit-test-model-url))
        (concat "EFRIT_MODEL_API_KEY_FILE=" efrit-test-model--key-file)))

(defmacro efrit-test-with-model (&rest body)
  "Run BODY with the scripted model as if nothing had been asked of it."
  (declare (indent 0) (debug t))
  `(let ((efrit-test-model--key-file (make-temp-file "efrit-key-")))
     (unwind-protect
         (progn
           (write-region (concat (efrit-test-model-key) "\n") nil
                         efrit-test-model--key-file nil 'silent)
           (efrit-test-model-post "/_reset")
           ,@body)
       (delete-file efrit-test-model--key-file))))

(defun efrit-test-model-play (name toml)
  "Have the scripted model take the scenario TOML as NAME."
  (efrit-test-model-post (concat "/_scenarios/" name) "PUT" toml))

(defun efrit-test-model-post (path &optional method data)
  "Send DATA to PATH of the scripted model by METHOD, which is POST by default."
  (let ((url-request-method (or method "POST")) (url-request-data data)
        (url-show-status nil))
    (kill-buffer (url-retrieve-synchronously
                  (concat (efrit-test-model-url) path) t t efrit-test-timeout))))

(defmacro efrit-test-with-model-daemon (environment &rest body)
  "Run BODY with a daemon that has a model; ENVIRONMENT is added to the daemon's."
  (declare (indent 1) (debug t))
  `(efrit-test-with-model
     (efrit-test-with-queue
       (with-current-buffer (get-buffer-create "*efrit-test-daemon*") (erase-buffer))
       (unwind-protect
           (progn
             (apply #'efrit-test-daemon-start
                    (append ,environment (efrit-test-model-environment)))
             ,@body)
         (efrit-test-daemon-end 'SIGKILL)))))

(provide 'efrit-test-model)
;;; efrit-test-model.el ends here
