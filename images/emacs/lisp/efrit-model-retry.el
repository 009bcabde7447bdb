;;; efrit-model-retry.el --- What went wrong, and when to ask again  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; How a request ended in, an `efrit-model-error' and a delay out.  The rules are
;; those of the API's own clients: what may go away by itself is tried again, with
;; growing pauses, or with the one that the server asks for.  Pure: time and
;; chance are parameters.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'efrit-settings)
(require 'efrit-json)
(require 'efrit-secret)
(require 'efrit-print)
(require 'efrit-model-curl)
(require 'efrit-model-reply)

(cl-defstruct (efrit-model-error (:constructor efrit-model-error--make) (:copier nil))
  "Why there is no reply.
KIND is a status like \"429\" where trying again may help, or one of connect,
tls, timeout, cut, authentication, refused, protocol, no-curl and no-key.
MESSAGE says more, without the key; STATUS is the one of the response, if any;
ATTEMPTS says how often was asked.  RETRY is non-nil when trying again may help,
RETRY-AFTER how many seconds the server wants to pass before, or nil."
  kind message status (attempts 0) retry retry-after)

(defun efrit-model-failure (kind message &rest more)
  "Return an `efrit-model-error' of KIND with MESSAGE; MORE is a plist of slots."
  (apply #'efrit-model-error--make
         :kind kind
         :message (efrit-print-head
                   (efrit-secret-redact (efrit-print-clean message))
                   efrit-captured-bytes)
         more))

;;;; Which error it is

(defconst efrit-model-retry--passing '(408 409 429)
  "The statuses below 500 that may go away by themselves.")

(defconst efrit-model-retry--connect-codes '(5 6 7 97)
  "Exit statuses of curl that mean that there was no connection.")

(defconst efrit-model-retry--tls-codes '(35 51 53 54 58 59 60 64 66 77 80 82 83 90 91 98)
  "Exit statuses of curl that are about TLS and certificates.")

(defconst efrit-model-retry--setup-codes '(1 2 3 4 27 43 48)
  "Exit statuses of curl that mean that it could not even try.")

(defun efrit-model-retry-status-error (status headers body now)
  "Return the error that a response with STATUS, HEADERS and BODY amounts to.
NOW is the time; BODY is the text, or the beginning of it."
  (let* ((passing (or (>= status 500) (memq status efrit-model-retry--passing)))
         (order (cdr (assoc "x-should-retry" headers))))
    (efrit-model-failure
     (cond (passing (number-to-string status))
           ((memq status '(401 403)) "authentication")
           ((<= 400 status 499) "refused")
           (t "protocol"))
     (format "%s (HTTP %d)" (efrit-model-retry--body-text body) status)
     :status status
     :retry (pcase order
              ("true" t)
              ("false" nil)
              (_ (and passing t)))
     :retry-after (efrit-model-retry-after headers now))))

(defun efrit-model-retry--body-text (body)
  "Return what BODY, of a response that is an error, says."
  (or (condition-case nil
          (efrit-model-reply-error-text (efrit-json-parse body))
        (error nil))
      (let ((text (string-trim body)))
        (if (string-empty-p text)
            "The response is not a reply of the API"
          (efrit-print-head (efrit-print-clean text) 500)))))

(defun efrit-model-retry-end-error (end late)
  "Return the error that END, an `efrit-curl-end' without a reply, amounts to.
LATE is non-nil when the time for the reply is over."
  (let* ((code (efrit-curl-end-code end))
         (curl-message (efrit-curl-end-message end))
         (message (if (string-empty-p curl-message)
                      (if (eq code 0)
                          "The stream ended before the message did"
                        (format "curl ended with status %s" (or code "unknown")))
                    curl-message)))
    (cond ((and late (eq code 28))
           (efrit-model-failure "timeout" message))
          ((memq code efrit-model-retry--setup-codes)
           (efrit-model-failure "connect" message))
          ((memq code efrit-model-retry--tls-codes)
           ;; A peer that went away during the handshake has this code as well.
           (efrit-model-failure "tls" message :retry (eq code 35)))
          ((or (memq code efrit-model-retry--connect-codes)
               ;; Without a code, something else has ended curl.
               (and code (not (efrit-curl-end-connected end))))
           (efrit-model-failure "connect" message :retry t))
          (t
           (efrit-model-failure "cut" message :retry t)))))

;;;; When to ask again

(defun efrit-model-retry-after (headers now)
  "Return how many seconds after NOW the HEADERS of a response ask to wait, or nil."
  (let ((milliseconds (efrit-model-retry--number (cdr (assoc "retry-after-ms" headers))))
        (value (cdr (assoc "retry-after" headers))))
    (cond (milliseconds (/ milliseconds 1000.0))
          ((null value) nil)
          ((efrit-model-retry--number value))
          (t (efrit-model-retry--until value now)))))

(defun efrit-model-retry--number (text)
  "Return the number that TEXT is, or nil."
  (and text
       (string-match-p "\\`[0-9]+\\(?:\\.[0-9]+\\)?\\'" text)
       (string-to-number text)))

(defun efrit-model-retry--until (date now)
  "Return the seconds from NOW to DATE, text as in HTTP, or nil."
  (condition-case nil
      (max 0.0 (- (float-time (date-to-time date)) now))
    (error nil)))

(defun efrit-model-retry-delay (error chance)
  "Return how many seconds to wait after ERROR, or nil when to give up.
CHANCE is a number from 0 to 1, by which clients that failed together part."
  (let ((attempts (efrit-model-error-attempts error))
        (retry-after (efrit-model-error-retry-after error)))
    (cond ((or (not (efrit-model-error-retry error))
               (>= attempts efrit-model-max-attempts))
           nil)
          ((and retry-after (> retry-after 0))
           (min retry-after efrit-model-max-delay))
          (t
           (* (min efrit-model-max-delay
                   (* efrit-model-first-delay (expt 2.0 (1- attempts))))
              (- 1.0 (* 0.25 chance)))))))

(provide 'efrit-model-retry)
;;; efrit-model-retry.el ends here
