;;; efrit-tools-capture.el --- The kept part of a stream of bytes  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Output of a program is bounded while it arrives: the beginning is kept, and
;; the end if that is wanted too.  Bytes become text only when all have come, so
;; that no character is torn by where a chunk ended.  Pure.

;;; Code:

(require 'cl-lib)
(require 'efrit-print)
(require 'efrit-text)

(cl-defstruct (efrit-capture (:constructor efrit-capture--make))
  "What is kept of a stream: HEAD and TAIL, of which LOST bytes between are not.
HEAD-ROOM and TAIL-ROOM are the most bytes of each.  TAIL is a list of the last
chunks, the newest first, which have TAIL-BYTES."
  (head "") tail (tail-bytes 0) (lost 0) head-room tail-room)

(defun efrit-capture-ends (most)
  "Return a capture that keeps both ends of a stream, MOST bytes in all."
  (efrit-capture--make :head-room (/ most 2) :tail-room (/ most 2)))

(defun efrit-capture-beginning (most)
  "Return a capture that keeps the first MOST bytes of a stream."
  (efrit-capture--make :head-room most :tail-room 0))

(defun efrit-capture-add (capture bytes)
  "Add the unibyte string BYTES to CAPTURE."
  (let* ((head (efrit-capture-head capture))
         (fits (min (length bytes)
                    (- (efrit-capture-head-room capture) (length head)))))
    (when (> fits 0)
      (setf (efrit-capture-head capture) (concat head (substring bytes 0 fits))))
    (when (< fits (length bytes))
      (efrit-capture--add-to-tail capture (substring bytes fits)))))

(defun efrit-capture--add-to-tail (capture bytes)
  "Add BYTES, for which the head of CAPTURE has no room, to its tail."
  (push bytes (efrit-capture-tail capture))
  (cl-incf (efrit-capture-tail-bytes capture) (length bytes))
  ;; Cut seldom, so that each byte is copied about once.
  (when (> (efrit-capture-tail-bytes capture)
           (+ 4096 (* 4 (efrit-capture-tail-room capture))))
    (efrit-capture--cut capture)))

(defun efrit-capture--cut (capture)
  "Make the tail of CAPTURE one string that its room has place for."
  (let* ((tail (apply #'concat (reverse (efrit-capture-tail capture))))
         (newest (substring tail (max 0 (- (length tail)
                                         (efrit-capture-tail-room capture))))))
    (cl-incf (efrit-capture-lost capture) (- (length tail) (length newest)))
    (setf (efrit-capture-tail capture) (list newest)
          (efrit-capture-tail-bytes capture) (length newest))))

(defun efrit-capture-empty-p (capture)
  "Return non-nil when nothing came to CAPTURE."
  (string-empty-p (efrit-capture-head capture)))

(defun efrit-capture-overflowed-p (capture)
  "Return non-nil when more came to CAPTURE than it keeps."
  (or (> (efrit-capture-lost capture) 0)
      (> (efrit-capture-tail-bytes capture) (efrit-capture-tail-room capture))))

;;;; As text

(defun efrit-capture-text (capture)
  "Return the text of CAPTURE, with a line about what is left out of it."
  (efrit-capture--cut capture)
  (let ((head (efrit-capture-head capture))
        (tail (car (efrit-capture-tail capture)))
        (lost (efrit-capture-lost capture)))
    (if (= lost 0)
        (efrit-capture--decoded (concat head tail))
      (efrit-text-joined (efrit-capture--decoded (efrit-capture--whole head))
                          lost
                          (efrit-capture--decoded tail)))))

(defun efrit-capture--decoded (bytes)
  "Return BYTES as text that fits into JSON."
  (efrit-print-clean (decode-coding-string bytes 'efrit-utf-8)))

(defun efrit-capture--whole (bytes)
  "Return BYTES without the beginning of a character that is cut off at the end."
  (let* ((end (length bytes)) (start end))
    (while (and (> start 0) (> start (- end 3)) (= (logand (aref bytes (1- start)) #xc0) #x80))
      (setq start (1- start)))
    (if (and (> start 0)
             (< (- end start)
                (pcase (aref bytes (1- start))
                  ((pred (<= #xf0)) 3) ((pred (<= #xe0)) 2) ((pred (<= #xc0)) 1) (_ 0))))
        (substring bytes 0 (1- start))
      bytes)))

(provide 'efrit-tools-capture)
;;; efrit-tools-capture.el ends here
