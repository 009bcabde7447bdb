;;; series.el --- Figures about series of numbers  -*- lexical-binding: t; -*-

;;; Commentary:
;; One of the sources the sample request compiles and checks.

;;; Code:

(defun series-mean (numbers)
  "Return the arithmetic mean of NUMBERS."
  (/ (apply #'+ 0.0 numbers) (length numbers)))

(defun series-percentile (numbers rank)
  "Return the value at RANK (0 to 100) of NUMBERS, by nearest rank."
  (let* ((sorted (sort (copy-sequence numbers) #'<))
         (index (ceiling (* (/ rank 100.0) (length sorted)))))
    (nth (max 0 (1- index)) sorted)))

(provide 'series)
;;; series.el ends here
