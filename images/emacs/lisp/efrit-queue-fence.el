;;; efrit-queue-fence.el --- Which Emacs the queue belongs to  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; A pod that was deleted by force lives on for seconds beside the one that takes
;; its place, on the same volume.  So every run of run-emacs has a number, its
;; generation, and generation says which is the newest: an Emacs of an
;; older one claims nothing, and begins nothing that it claimed while it became
;; the older one.  The newest looks at processing/ only after it has said so here:
;; what it finds there may have begun, what comes later never runs.
;;
;; Without a bridge an Emacs chooses its number when it starts.  A file of that name
;; in control/, linked there, keeps two from having the same one; of several the
;; highest has the queue, and each other one ends.
;;
;; A host remembers for a while what a file server has said of a name.  It asks again
;; when a file is opened: on a remote file system, generation is opened at each check.

;;; Code:

(require 'efrit-settings)
(require 'efrit-files)
(require 'efrit-queue-host)

(defvar efrit-fence-generation
  (let ((number (efrit-settings-env-number "EFRIT_GENERATION" nil)))
    (and (natnump number) number))
  "The number of the run that this Emacs belongs to, or nil.")

(defvar efrit-fence--last-read nil
  "What generation said last, as (STAMP . NUMBER).")

(defun efrit-fence-holds-p ()
  "Return non-nil when no newer run has taken the queue.
What a crash or the code of a request has done to the file is put right."
  (or (null efrit-fence-generation)
      (efrit-files-isolated
        (let ((newest (efrit-fence--newest)))
          (when (and newest (< newest efrit-fence-generation)) (efrit-fence--take))
          (and newest (<= newest efrit-fence-generation))))))

(defun efrit-fence-superseded-p ()
  "Return non-nil when a newer run has taken the queue."
  (and efrit-fence-generation
       (efrit-files-isolated
         (> (or (efrit-fence--newest) 0) efrit-fence-generation))))

(defun efrit-fence--newest ()
  "Return the number of the newest run, 0 where the file does not say.
Return nil where it cannot be read now."
  (let* ((path (efrit-files-path "generation"))
         (attributes (file-attributes path 'integer))
         (stamp (and attributes (efrit-files-stamp attributes))))
    (cond ((efrit-host-remote-p) (efrit-fence--read path attributes))  ; gate: fence-open
          ((null stamp) 0)
          ((equal stamp (car efrit-fence--last-read)) (cdr efrit-fence--last-read))
          (t (let ((number (efrit-fence--read path attributes)))
               (when number (setq efrit-fence--last-read (cons stamp number)))
               number)))))

(defun efrit-fence--read (path attributes)
  "Return the number in the file at PATH, 0 where there is none.
ATTRIBUTES are those of the file as far as known.
Return nil where it cannot be read."
  (condition-case nil
      (if (or (null attributes)
              (and (efrit-files-regular-p attributes)
                   (< (file-attribute-size attributes) 32)))
          (string-to-number (efrit-files-read path))
        0)
    (file-missing 0)
    ;; What another host has just replaced may be gone under the old name.
    (file-error (if (efrit-host-remote-p) nil 0))))

(defconst efrit-fence--retained-numbers 8
  "How many earlier numbers stay taken.")

(defun efrit-fence-claim (boot)
  "Take the queue for this Emacs, whose start is called BOOT, with a new number."
  (efrit-files-isolated
    (let ((number (1+ (or (efrit-fence--newest) 0))))
      (while (not (efrit-files-publish
                   (efrit-files-path "control" (format "generation_%d" number))
                   (format "%s %d\n" (system-name) (emacs-pid)) boot))
        (setq number (1+ number)))
      (setq efrit-fence-generation number)
      (efrit-fence--take)
      (dolist (name (directory-files (efrit-files-path "control") nil
                                     "\\`generation_[0-9]+\\'" t))
        (when (< (string-to-number (substring name (length "generation_")))
                 (- number efrit-fence--retained-numbers))
          (efrit-files-delete (efrit-files-path "control" name)))))))

(defun efrit-fence--take ()
  "Say that the queue belongs to this run.
A disk that takes no name now is asked again at the next check."
  (condition-case nil
      (efrit-files-replace (efrit-files-path "generation")
                           (format "%d\n" efrit-fence-generation)
                           (format "generation-%d" efrit-fence-generation))
    (file-error nil)))

(defun efrit-fence-paused-p ()
  "Return non-nil while this Emacs is to claim nothing because it is to end.
Whoever is about to end it says so by a file in control/: `pause' is for every
Emacs, one with a generation in its name for those of that run only."
  (efrit-files-isolated
    (or (file-exists-p (efrit-files-path "control/pause"))
        (and efrit-fence-generation
             (file-exists-p (efrit-files-path
                             (format "control/pause_%d" efrit-fence-generation)))))))

(provide 'efrit-queue-fence)
;;; efrit-queue-fence.el ends here
