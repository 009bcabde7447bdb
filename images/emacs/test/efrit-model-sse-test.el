;;; efrit-model-sse-test.el --- Tests of the parser of event streams  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Streams in pieces of every size, and streams that are none.

;;; Code:

(require 'ert)
(require 'cl-lib)
(require 'efrit-model-sse)

(defun efrit-sse-test--bytes (text)
  "Return TEXT in UTF-8."
  (encode-coding-string text 'utf-8-unix t))

(defun efrit-sse-test--events (pieces &optional limit)
  "Return the events that PIECES, a list of strings, hold; LIMIT is their size."
  (let* (events
         (stream (efrit-sse-open (lambda (type data) (push (cons type data) events))
                                 (or limit 1000000))))
    (dolist (piece pieces)
      (efrit-sse-feed stream (efrit-sse-test--bytes piece)))
    (nreverse events)))

(defun efrit-sse-test--split (bytes size)
  "Return BYTES in pieces of SIZE."
  (cl-loop for start from 0 below (length bytes) by size
           collect (substring bytes start (min (length bytes) (+ start size)))))

(ert-deftest efrit-sse-an-event-has-a-type-and-data ()
  (should (equal (efrit-sse-test--events '("event: greeting\ndata: hello\n\n"))
                 '(("greeting" . "hello")))))

(ert-deftest efrit-sse-an-event-without-a-type-is-a-message ()
  (should (equal (efrit-sse-test--events '("data: a\n\nevent:\ndata: b\n\n"))
                 '(("message" . "a") ("message" . "b")))))

(ert-deftest efrit-sse-several-lines-of-data-are-one-text ()
  (should (equal (efrit-sse-test--events '("data: one\ndata\ndata:  two\n\n"))
                 '(("message" . "one\n\n two")))))

(ert-deftest efrit-sse-comments-and-other-fields-say-nothing ()
  (should (equal (efrit-sse-test--events
                  '(": ping\n\nid: 7\nretry: 10\n\nevent: only\n\ndata:x\n\n"))
                 '(("message" . "x")))))

(ert-deftest efrit-sse-the-type-does-not-reach-the-next-event ()
  (should (equal (efrit-sse-test--events '("event: one\n\ndata: x\n\n"))
                 '(("message" . "x")))))

(ert-deftest efrit-sse-a-mark-of-the-byte-order-is-skipped ()
  (should (equal (efrit-sse-test--events '("\ufeffdata: x\n\ndata: \ufeff\n\n"))
                 '(("message" . "x") ("message" . "\ufeff")))))

(ert-deftest efrit-sse-an-event-without-its-end-is-not-passed-on ()
  (should-not (efrit-sse-test--events '("data: x\n")))
  (should-not (efrit-sse-test--events '("data: x\n" "data: y"))))

(ert-deftest efrit-sse-pieces-may-end-anywhere ()
  (dolist (ends '("\n" "\r\n" "\r"))
    (let* ((text (concat "\ufeffevent: größe" ends "data: héllo €" ends
                         "data: 😀 second" ends ends ": note" ends
                         "data: {\"a\": 1}" ends ends))
           (bytes (efrit-sse-test--bytes text))
           (expected '(("größe" . "héllo €\n😀 second") ("message" . "{\"a\": 1}")))
           ;; A carriage return may be the first half of a line end.
           (all (if (equal ends "\r") (concat bytes ":") bytes)))
      (cl-loop for size from 1 to (length all) do
               (should (equal (efrit-sse-test--events (efrit-sse-test--split all size))
                              expected))))))

(ert-deftest efrit-sse-an-event-is-passed-on-with-its-last-byte ()
  (dolist (text '("data: x\n\n" "data: x\r\n\r\n" "data: x\r\r"))
    (let ((bytes (if (string-suffix-p "\r\n" text) (substring text 0 -1) text)))
      (should (equal (efrit-sse-test--events (list bytes)) '(("message" . "x")))))))

(ert-deftest efrit-sse-a-closed-stream-reports-nothing ()
  (let (events stream)
    (setq stream (efrit-sse-open (lambda (_type data)
                                   (push data events)
                                   (efrit-sse-close stream))
                                 1000))
    (efrit-sse-feed stream "data: 1\n\ndata: 2\n\n")
    (efrit-sse-feed stream "data: 3\n\n")
    (should (equal events '("1")))))

(ert-deftest efrit-sse-an-event-that-never-ends-is-an-error ()
  (dolist (piece '("data: 0123456789" "data: 0123456789\n" "event: 0123456789\n"
                   ":0123456789"))
    (should-error (efrit-sse-test--events (make-list 100 piece) 500)
                  :type 'efrit-sse-too-long))
  (should (equal (length (efrit-sse-test--events
                          (make-list 100 "data: 0123456789\n\n") 500))
                 100)))

(ert-deftest efrit-sse-time-grows-with-the-bytes-only ()
  (cl-flet ((count-conses (events)
              (let ((text (concat "data: " (make-string (* 100 events) ?x) "\n\n"))
                    (before (nth 4 (memory-use-counts))))
                (efrit-sse-test--events (efrit-sse-test--split text 100) 100000000)
                (- (nth 4 (memory-use-counts)) before))))
    ;; Bytes of strings that were made: what copies the line for each piece makes
    ;; a hundred times as many, not ten times.
    (let ((small (count-conses 200)) (large (count-conses 2000)))
      (should (< large (* 20 small))))))

(provide 'efrit-model-sse-test)
;;; efrit-model-sse-test.el ends here
