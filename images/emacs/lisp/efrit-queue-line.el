;;; efrit-queue-line.el --- Waiting entries in the order of their turns  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A line of things that come one by one, are taken in an order and may be gone in
;; between.  To find the first of thousands costs what a few cost: new ones are looked
;; through while they are few, and sorted into the others together.  Knows nothing of
;; requests: the order and who is gone are functions.

;;; Code:

(require 'cl-lib)

(cl-defstruct (efrit-queue-line (:constructor efrit-queue-line-make))
  "Entries in the order of BEFORE-P, as far as GONE-P is nil for them.
SORTED has most of them in their order, ARRIVALS those that came since."
  before-p gone-p sorted arrivals)

(defconst efrit-queue-line--max-arrivals 32
  "How many arrivals are looked through before they are sorted into the others.")

(defun efrit-queue-line-add (line entry)
  "Add ENTRY to LINE."
  (push entry (efrit-queue-line-arrivals line)))

(defun efrit-queue-line-first (line)
  "Return the entry of LINE that comes first, or nil."
  (when (> (length (efrit-queue-line-arrivals line)) efrit-queue-line--max-arrivals)
    (efrit-queue-line--sort line))
  (let ((gone-p (efrit-queue-line-gone-p line))
        (before-p (efrit-queue-line-before-p line)))
    (while (and (efrit-queue-line-sorted line)
                (funcall gone-p (car (efrit-queue-line-sorted line))))
      (pop (efrit-queue-line-sorted line)))
    (let ((best (car (efrit-queue-line-sorted line))))
      (dolist (entry (efrit-queue-line-arrivals line) best)
        (unless (or (funcall gone-p entry)
                    (and best (funcall before-p best entry)))
          (setq best entry))))))

(defun efrit-queue-line-remove (line entry)
  "Remove ENTRY, the first of LINE, from it."
  (if (eq entry (car (efrit-queue-line-sorted line)))
      (pop (efrit-queue-line-sorted line))
    (setf (efrit-queue-line-arrivals line)
          (delq entry (efrit-queue-line-arrivals line)))))

(defun efrit-queue-line--sort (line)
  "Sort the arrivals of LINE into the others, and leave out whatever is gone."
  (let ((gone-p (efrit-queue-line-gone-p line))
        (before-p (efrit-queue-line-before-p line)))
    (setf (efrit-queue-line-sorted line)
          (cl-merge 'list
                    (cl-delete-if gone-p (efrit-queue-line-sorted line))
                    (sort (cl-delete-if gone-p (efrit-queue-line-arrivals line)) before-p)
                    before-p)
          (efrit-queue-line-arrivals line) nil)))

(provide 'efrit-queue-line)
;;; efrit-queue-line.el ends here
