;;; efrit-model-sse.el --- Server-sent events, as they arrive  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Bytes in, in pieces of any size; events out, each as soon as its last byte is
;; there.  Follows the section "Parsing an event stream" of the HTML standard;
;; the fields `id' and `retry' are skipped, since nothing here reconnects.  An
;; event that the stream breaks off is never passed on.  Pure but for its callback.

;;; Code:

(require 'cl-lib)
(require 'efrit-settings)

(define-error 'efrit-sse-too-long "An event of the stream is too long" 'efrit-error)

(cl-defstruct (efrit-sse (:constructor efrit-sse--make) (:copier nil))
  "A stream being read.
ON-EVENT is called with the type and the data of each event, two strings.
PIECES are those of the line that has no end yet, the last one first; DATA and
TYPE are what the event that has no end yet has said; SIZE counts the bytes of
both.  AFTER-CR says that a line feed belongs to a line that has ended, BEGUN
that the first line is over, CLOSED that nothing is passed on any more."
  on-event (limit most-positive-fixnum)
  pieces data type (size 0) after-cr begun closed)

(defun efrit-sse-open (on-event limit)
  "Return a stream that calls ON-EVENT with events of at most LIMIT bytes."
  (efrit-sse--make :on-event on-event :limit limit))

(defun efrit-sse-close (stream)
  "Have STREAM report nothing any more, not even what it was just given."
  (setf (efrit-sse-closed stream) t
        (efrit-sse-pieces stream) nil
        (efrit-sse-data stream) nil))

(defun efrit-sse-feed (stream bytes)
  "Give BYTES, a unibyte string, to STREAM.
Signal `efrit-sse-too-long' when an event is longer than the limit."
  (let ((start 0) (case-fold-search nil) end)
    (while (and (not (efrit-sse-closed stream))
                (setq start (efrit-sse--skip-lf stream bytes start)
                      end (string-match "[\r\n]" bytes start)))
      (efrit-sse--keep stream (substring bytes start end))
      (setf (efrit-sse-after-cr stream) (eq (aref bytes end) ?\r))
      (setq start (1+ end))
      (efrit-sse--end-line stream))
    (when (and (not (efrit-sse-closed stream)) (< start (length bytes)))
      (efrit-sse--keep stream (substring bytes start)))))

(defun efrit-sse--skip-lf (stream bytes start)
  "Return where to go on in BYTES of STREAM, given START, after a carriage return."
  (cond ((and (efrit-sse-after-cr stream) (< start (length bytes)))
         (setf (efrit-sse-after-cr stream) nil)
         (if (eq (aref bytes start) ?\n) (1+ start) start))
        (t start)))

(defun efrit-sse--keep (stream piece)
  "Add PIECE to the line that STREAM is in."
  (unless (string-empty-p piece)
    (push piece (efrit-sse-pieces stream))
    (setf (efrit-sse-size stream) (+ (efrit-sse-size stream) (length piece)))
    (when (> (efrit-sse-size stream) (efrit-sse-limit stream))
      (signal 'efrit-sse-too-long nil))))

(defun efrit-sse--end-line (stream)
  "Take the line that STREAM has read to its end."
  (let ((line (apply #'concat (nreverse (efrit-sse-pieces stream)))))
    (setf (efrit-sse-pieces stream) nil)
    (unless (efrit-sse-begun stream)
      (setf (efrit-sse-begun stream) t)
      (when (string-prefix-p "\xef\xbb\xbf" line)
        (setq line (substring line 3))))
    (if (string-empty-p line)
        (efrit-sse--dispatch stream)
      (efrit-sse--field stream line))))

(defun efrit-sse--field (stream line)
  "Take the field that LINE of STREAM sets."
  (let* ((colon (string-search ":" line))
         (name (substring line 0 colon))
         (value (if colon (substring line (1+ colon)) "")))
    (when (string-prefix-p " " value)
      (setq value (substring value 1)))
    (pcase name
      ("data" (push value (efrit-sse-data stream)))
      ("event" (setf (efrit-sse-type stream) value)))))

(defun efrit-sse--dispatch (stream)
  "Tell the event that STREAM has read to its end, unless it is empty."
  (let ((data (efrit-sse-data stream))
        (type (efrit-sse-type stream)))
    (setf (efrit-sse-data stream) nil
          (efrit-sse-type stream) nil
          (efrit-sse-size stream) 0)
    (when data
      (funcall (efrit-sse-on-event stream)
               (if (member type '(nil "")) "message" (efrit-sse--text type))
               (efrit-sse--text (if (cdr data)
                                    (string-join (nreverse data) "\n")
                                  (car data)))))))

(defun efrit-sse--text (bytes)
  "Return the text that BYTES are in UTF-8."
  (decode-coding-string bytes 'utf-8-unix t))

(provide 'efrit-model-sse)
;;; efrit-model-sse.el ends here
