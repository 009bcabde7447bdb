;;; efrit-tools-text.el --- Text of buffers, for tools  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What the tools for files and those for buffers have in common: lines of a
;; buffer within limits, and one text put in place of another so that it can be
;; undone.  Texts are compared, never read.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'efrit-json)
(require 'efrit-tool-context)

(defconst efrit-tools-text--max-lines 2000
  "Lines that are given back when a call does not say.")

(defconst efrit-tools-text--longest-line 2000
  "Characters of a line that are given back.")

(defconst efrit-tools-text-max-bytes 33554432
  "Bytes of a text that is changed.")

(defconst efrit-tools-text--max-places 200000
  "Places of a text that are changed at once.")

;;;; Lines

(defun efrit-tools-text-lines (first count numbered)
  "Return COUNT lines of the current buffer from line FIRST on, within limits.
With NUMBERED, each has its number before it.  A last line in brackets says
what is left out."
  (save-excursion
    (save-restriction
      (widen)
      (goto-char (point-min))
      (let* ((inhibit-field-text-motion t)
             (total (efrit-tools-text--count-lines))
             (first (or first 1))
             (last (min total (+ first -1 (or count efrit-tools-text--max-lines))))
             (lines nil) (bytes 0) (number first))
        (forward-line (1- first))
        (while (and (<= number last) (< bytes efrit-tool-result-bytes))
          (let ((line (efrit-tools-text--line (and numbered number))))
            (setq bytes (+ bytes (string-bytes line)))
            (when (or (null lines) (<= bytes efrit-tool-result-bytes))
              (push line lines)
              (setq number (1+ number))))
          (forward-line))
        (concat (apply #'concat (nreverse lines))
                (efrit-tools-text--shown first (1- number) total))))))

(defun efrit-tools-text--count-lines ()
  "Return the number of lines of the current buffer."
  (count-lines (point-min) (point-max)))

(defun efrit-tools-text--line (number)
  "Return the line at point, cut, with NUMBER before it unless that is nil."
  (let* ((end (line-end-position))
         (over (- end (point) efrit-tools-text--longest-line))
         (text (efrit-json-clean
                (buffer-substring-no-properties (point) (- end (max 0 over))))))
    (concat (and number (format "%6d\t" number))
            text
            (and (> over 0) (format " [%d characters left out]" over))
            (if (and (null number) (= end (point-max))) "" "\n"))))

(defun efrit-tools-text--shown (first last total)
  "Return the line that says that lines FIRST to LAST of TOTAL are there.
Return the empty string when nothing is left out."
  (cond ((and (= first 1) (= last total)) "")
        ((< last first) (format "[no lines from %d on: there are %d]" first total))
        (t (format "[lines %d to %d of %d]" first last total))))

;;;; Replacing

(defun efrit-tools-text--places (text name)
  "Return where TEXT is in the current buffer, a list of (POSITION . LINE).
It is an error when there are too many; NAME is what the buffer is called then."
  (save-excursion
    (goto-char (point-min))
    (let ((case-fold-search nil) (line 1) (before (point-min)) (count 0) places)
      (while (search-forward text nil t)
        (let ((here (match-beginning 0)))
          (when (> (cl-incf count) efrit-tools-text--max-places)  ; gate: text-places
            (error "The old text is more than %d times in %s: so many are not replaced at once"
                   efrit-tools-text--max-places name))
          (setq line (+ line (efrit-tools-text--newlines before here))
                before here)
          (push (cons here line) places)))
      (nreverse places))))

(defun efrit-tools-text--newlines (start end)
  "Return the number of line ends between START and END."
  (save-excursion
    (goto-char end)
    (- (count-lines start end) (if (or (= start end) (bolp)) 0 1))))

(defun efrit-tools-text-edit (input name)
  "Replace text of the current buffer as INPUT, of a tool that edits, says.
Return the numbers of the lines where the old text was.  NAME is what the buffer
is called when the text is not there, or more than once without replace_all."
  (let ((old (alist-get 'old input)) (new (alist-get 'new input)))
    (cond ((string-empty-p old) (error "The old text is empty"))
          ((equal old new) (error "The old text and the new are the same")))
    (save-restriction
      (widen)
      (let* ((places (efrit-tools-text--places old name)) (lines (mapcar #'cdr places)))
        (cond ((null places) (error "The old text is not in %s" name))
              ((and (cdr places) (not (alist-get 'replace_all input)))
               (error "The old text is %d times in %s, at lines %s, not once"
                      (length places) name (efrit-tools-text-numbers lines))))
        (efrit-tools-text--check-growth (* (length places) (- (string-bytes new) (string-bytes old)))
                                        name)
        (efrit-tools-text--replace (mapcar #'car places) (length old) new)
        lines))))

(defun efrit-tools-text--check-growth (growth name)
  "Signal an error when GROWTH bytes more are too many for the current buffer.
NAME is what it is called then."
  (let ((bytes (+ (position-bytes (point-max)) -1 growth)))
    (when (and (> growth 0) (> bytes efrit-tools-text-max-bytes))  ; gate: text-growth
      (error "%s would have %d bytes: no text is made longer than %d"
             name bytes efrit-tools-text-max-bytes))))

(defun efrit-tools-text--replace (places length new)
  "Put NEW in place of the LENGTH characters at each of PLACES."
  (save-excursion
    (dolist (place (reverse places))
      (goto-char place)
      (delete-region place (+ place length))
      (insert new))))

(defun efrit-tools-text-numbers (numbers)
  "Return NUMBERS as text; of many, the first."
  (concat (mapconcat #'number-to-string (seq-take numbers 20) ", ")
          (if (nthcdr 20 numbers) ", …" "")))

(defmacro efrit-tools-text-undoable (&rest body)
  "Change the current buffer by BODY as one step that `undo' takes back.
When BODY does not come to its end, nothing is changed."
  (declare (indent 0) (debug t))
  `(progn
     (when (eq buffer-undo-list t) (buffer-enable-undo))
     (undo-boundary)
     (prog1 (atomic-change-group ,@body)
       (undo-boundary))))

(provide 'efrit-tools-text)
;;; efrit-tools-text.el ends here
