;;; efrit-eval-guard.el --- Keep what the server consists of  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; The code of a request may redefine anything, the functions of the server and the
;; primitives it depends on included.  They are recorded at the start and compared
;; after each request, by their function objects; what was redefined is put back.
;; Advice stays, since that is how a resident Emacs is instrumented; where it keeps the
;; server from answering, that Emacs ends and the next one answers.
;;
;; The server's variables are recorded as each request begins.  Those that the request
;; has unbound are bound again, and where it has changed one that never changes, all of
;; them get back the values that they had.  Functions that watch the server's variables,
;; or those of Emacs that it binds, would run within the server: they are removed.  What
;; is not a timer is taken out of the lists of timers, at which Emacs would stop.  The coding
;; systems that answers are written in get their meaning back.
;;
;; What puts things back is a closure, which holds all of that.  Between requests nothing
;; says which values the variables should have: where one that never changes has changed
;; then, that Emacs ends.

;;; Code:

(require 'nadvice)
(require 'seq)
(require 'efrit-settings)

(defconst efrit-guard--primitives
  '(add-name-to-file apply assoc boundp buffer-live-p buffer-local-value buffer-name
    buffer-size buffer-string buffer-substring-no-properties cancel-timer clrhash
    copy-marker copy-sequence current-time decode-coding-string default-file-modes
    delete delete-file delq directory-file-name directory-files emacs-pid
    encode-coding-string error-message-string eval expand-file-name fboundp
    file-accessible-directory-p file-attributes file-directory-p file-exists-p
    file-name-as-directory file-name-directory file-name-nondirectory
    file-notify-add-watch file-symlink-p float-time format format-message
    format-time-string funcall generate-new-buffer get-buffer get-buffer-create gethash
    identity insert-file-contents insert-file-contents-literally intern
    json-parse-string json-serialize kill-buffer logand make-directory make-hash-table
    make-local-variable make-string make-symbol mapatoms mapbacktrace mapc mapcar
    mapconcat maphash marker-buffer marker-position match-data message
    multibyte-string-p next-property-change number-to-string plist-get plist-member
    position-bytes prin1 prin1-to-string process-attributes puthash read-from-string
    recursion-depth remhash rename-file replace-regexp-in-string reverse run-with-timer
    secure-hash set-buffer-modified-p set-buffer-multibyte set-default-file-modes
    set-match-data signal sort string string-bytes string-match string-match-p
    string-replace string-search string-to-multibyte string-to-number
    substring-no-properties symbol-name text-properties-at throw time-convert
    time-subtract timer-activate timer-event-handler timer-set-time type-of
    unibyte-string write-region)
  "Functions of Emacs that the server cannot do without.")

(defconst efrit-guard--variables
  '(after-insert-file-functions buffer-list-update-hook case-fold-search
    coding-system-for-read coding-system-for-write coding-system-require-warning
    create-lockfiles current-time-list debug-on-error debug-on-event debug-on-next-call
    debug-on-quit debug-on-signal debugger deactivate-mark default-directory
    default-file-name-coding-system default-process-coding-system file-name-coding-system
    file-name-handler-alist format-alist gc-cons-threshold inhibit-changing-match-data
    inhibit-debugger inhibit-eol-conversion inhibit-interaction inhibit-message
    inhibit-modification-hooks inhibit-quit inhibit-read-only
    internal-when-entered-debugger kill-buffer-hook kill-buffer-query-functions
    kill-emacs-hook kill-emacs-query-functions load-file-name locale-coding-system
    max-lisp-eval-depth message-log-max print-circle print-length print-level
    process-connection-type process-environment quit-flag read-circle
    read-symbol-shorthands select-safe-coding-system-function signal-hook-function
    standard-input standard-output system-messages-locale throw-on-input timer-idle-list
    timer-list use-dialog-box values write-region-annotate-functions
    write-region-inhibit-fsync write-region-post-annotation-function)
  "Variables of Emacs that the server binds or sets.")

(defconst efrit-guard--lasting
  '(efrit-bridge-p efrit-claim-boot efrit-fence-generation efrit-queue-directory)
  "Variables that never change while the server runs, as constants do not.
Those whose symbol has the property `efrit-guard-lasting' are others.")

(defconst efrit-guard--max-timers 10000
  "A longer list of timers is not looked through.")

(defvar efrit-guard--recorded nil
  "The functions as they were at the start, a list of (SYMBOL . FUNCTION).")

(defvar efrit-guard--restored nil
  "Symbols that were put back and are not logged yet.")

(defvar efrit-guard--advised-p (symbol-function 'advice--p)
  "How a function that is advised is recognised.")

(defvar efrit-guard--kill-emacs (symbol-function 'kill-emacs)
  "What ends Emacs.")

(defvar efrit-guard-restorer #'ignore
  "A closure without arguments that puts back what was redefined.")

(defvar efrit-guard--tidier #'ignore
  "A closure without arguments that removes watchers and restores coding systems.")

(defvar efrit-guard-recorder (lambda () #'ignore)
  "A closure without arguments that records the server's variables.
It returns one that puts back what has been made of them since.")

(defvar efrit-guard-checker #'identity
  "A closure that takes a function and returns it guarded.
See `efrit-guard--make-checker'.")

(defvar efrit-guard-own-functions nil
  "What the `efrit-guard-checker' has returned.")

(defun efrit-guard-start ()
  "Record the functions of the server and those it depends on."
  (let ((under-way (list nil)) functions variables)
    (mapatoms
     (lambda (symbol)
       (when (string-prefix-p "efrit-" (symbol-name symbol))
         (when (and (fboundp symbol)
                    ;; Loading it is how this one is meant to change.
                    (not (autoloadp (symbol-function symbol))))
           (push (cons symbol (symbol-function symbol)) functions))
         (when (and (boundp symbol) (not (local-variable-if-set-p symbol)))
           (push symbol variables)))))
    (dolist (symbol efrit-guard--primitives)
      (when (fboundp symbol)
        (push (cons symbol (symbol-function symbol)) functions)))
    (setq efrit-guard--recorded functions
          efrit-guard-restorer (efrit-guard--functions-restorer functions)
          efrit-guard--tidier (efrit-guard--make-tidier variables)
          efrit-guard-recorder (efrit-guard--variables-recorder
                                variables efrit-guard--tidier under-way)
          efrit-guard-own-functions nil
          efrit-guard-checker (efrit-guard--make-checker
                               (seq-filter #'efrit-guard--lasting-p variables)
                               efrit-guard-restorer under-way))))

(defun efrit-guard-stop ()
  "Guard nothing any more."
  (setq efrit-guard--recorded nil
        efrit-guard-restorer #'ignore
        efrit-guard--tidier #'ignore
        efrit-guard-recorder (lambda () #'ignore)
        efrit-guard-own-functions nil
        efrit-guard-checker #'identity))

(defun efrit-guard-restore ()
  "Put back what was redefined, and remove what watches the server."
  ;; First: nothing of it is to run at what follows.
  (funcall efrit-guard--tidier)
  (funcall efrit-guard-restorer))

;;;; What Emacs calls in whatever runs

(defun efrit-guard-hooked ()
  "Return a new list of what Emacs calls after a garbage collection."
  (cond ((functionp post-gc-hook) (list post-gc-hook))
        ((proper-list-p post-gc-hook) (copy-sequence post-gc-hook))))

(defun efrit-guard-hooked-since-p (earlier)
  "Return non-nil when `efrit-guard-hooked' is not what it was, EARLIER."
  (let ((now (efrit-guard-hooked)))
    (while (and now (eq (car now) (car earlier)))
      (setq now (cdr now)
            earlier (cdr earlier)))
    (or now earlier)))

(defun efrit-guard-unhook ()
  "Hook what is being called, and is about to be stopped, to no garbage collection.
It would hold up whatever runs when there is one."
  (let ((hooked (efrit-guard-hooked)) called)
    (when hooked
      ;; Nothing of it is to run meanwhile, and no signal to come in between.
      (let ((post-gc-hook nil) (signal-hook-function nil) (debug-on-signal nil)
            (debug-on-event nil) (inhibit-quit t))
        (mapbacktrace (lambda (_evaluated function _arguments _flags)
                        (when (memq function hooked) (push function called)))))
      (when called
        (setq post-gc-hook (seq-remove (lambda (function) (memq function called)) hooked)
              efrit-guard--restored (cons 'post-gc-hook efrit-guard--restored))))))

;;;; What puts things back

;; Compiled, these closures call nothing by its name: whatever a request does to names,
;; they still work.

(defun efrit-guard--functions-restorer (recorded)
  "Return a closure that puts back RECORDED functions and repairs timers.
It is a list of (SYMBOL . FUNCTION).  A function that is only advised stays."
  (let ((advised-p efrit-guard--advised-p)
        (repair-timers (efrit-guard--timers-repairer))
        (repair-conversion (efrit-guard--conversion-repairer)))
    (lambda ()
      (let ((rest recorded) pair current)
        (while rest
          (setq pair (car rest)
                rest (cdr rest)
                current (symbol-function (car pair)))
          (unless (or (eq current (cdr pair))
                      (and current (funcall advised-p current)))
            (fset (car pair) (cdr pair))  ; gate: restore-functions
            (setq efrit-guard--restored (cons (car pair) efrit-guard--restored)))))
      (funcall repair-timers)  ; gate: repair-timers
      (funcall repair-conversion))))  ; gate: repair-conversion

(defun efrit-guard--conversion-repairer ()
  "Return a closure that makes the buffer writable in which Emacs converts text.
Where it is read-only, Emacs does not take what a process writes."
  (let ((get (symbol-function 'get-buffer)))
    (lambda ()
      (let ((buffer (funcall get " *code-conversion-work*")))
        (when buffer
          (with-current-buffer buffer (setq buffer-read-only nil)))))))

(defun efrit-guard--timers-repairer ()
  "Return a closure that leaves nothing but timers in the lists of timers."
  (let ((bound-p (symbol-function 'boundp))
        (proper-p (symbol-function 'proper-list-p))
        (timer-p (symbol-function 'timerp))
        (most efrit-guard--max-timers))
    (lambda ()
      (let ((variables '(timer-list timer-idle-list)) variable count rest timers others)
        (while variables
          (setq variable (car variables)
                variables (cdr variables)
                rest (and (funcall bound-p variable) (symbol-value variable))
                count (funcall proper-p rest)
                others (not (and count (funcall bound-p variable)))
                timers nil)
          (when (and count (< count most))
            (while rest
              (if (funcall timer-p (car rest))
                  (setq timers (cons (car rest) timers))
                (setq others t))
              (setq rest (cdr rest))))
          (when others
            (set variable (nreverse timers))
            (setq efrit-guard--restored (cons variable efrit-guard--restored))))))))

(defun efrit-guard--lasting-p (variable)
  "Return non-nil when VARIABLE, one of the server's, never changes."
  ;; What `defconst' leaves on its symbol.
  (or (get variable 'risky-local-variable) (get variable 'efrit-guard-lasting)
      (memq variable efrit-guard--lasting)))

(defun efrit-guard--variables-recorder (variables tidy under-way)
  "Return what is the `efrit-guard-recorder' for VARIABLES, a list of symbols.
TIDY is `efrit-guard--tidier'.  The car of UNDER-WAY is what puts the values
back while code of a request runs, and nil otherwise."
  (let* ((bound-p (symbol-function 'boundp))
         (value (symbol-function 'symbol-value))
         (each (symbol-function 'mapcar))
         (call (symbol-function 'mapc))
         (lasting (seq-filter #'efrit-guard--lasting-p variables))
         ;; Those that never change come first.
         (variables (append lasting (seq-remove #'efrit-guard--lasting-p variables)))
         ;; What is unbound is rare: all are bound, or each is asked.
         (bound (lambda (variables)
                  (let ((rest variables) found
                        ;; What they call is not to run in the midst of this.
                        (signal-hook-function nil) (debug-on-signal nil))
                    (condition-case nil
                        (progn (funcall call value variables) variables)
                      (void-variable
                       (while rest
                         (when (funcall bound-p (car rest))
                           (setq found (cons (car rest) found)))
                         (setq rest (cdr rest)))
                       (nreverse found)))))))
    (lambda ()
      (let* ((outer (car under-way))
             (recorded (funcall bound variables))
             (values (funcall each value recorded))
             put-back)
        (setq put-back
              (lambda ()
                (funcall tidy)
                (let* ((whole (eq (funcall bound recorded) recorded))
                       (rest recorded) (wanted values) (constant lasting) (all nil) restored)
                  (while (and constant (not all))
                    ;; One that was unbound already is not among those recorded.
                    (when (eq (car rest) (car constant))
                      (setq all (not (and (or whole (funcall bound-p (car rest)))
                                          (equal (symbol-value (car rest)) (car wanted))))
                            rest (cdr rest)
                            wanted (cdr wanted)))
                    (setq constant (cdr constant)))
                  (unless (and whole (not all))
                    (setq rest recorded
                          wanted values)
                    (while rest
                      (unless (and (funcall bound-p (car rest))
                                   (or (not all) (eq (symbol-value (car rest)) (car wanted))))
                        (set (car rest) (car wanted))  ; gate: restore-variables
                        (setq restored (cons (car rest) restored)))
                      (setq rest (cdr rest)
                            wanted (cdr wanted)))
                    (setq efrit-guard--restored (nconc restored efrit-guard--restored))))))
        (setcar under-way put-back)
        (lambda ()
          (setcar under-way outer)
          (funcall put-back))))))

(defun efrit-guard--make-checker (lasting restore under-way)
  "Return a closure that takes a function of the server and returns it guarded.
Before each call, what was redefined is put back by RESTORE, and where a
variable of LASTING has changed, this Emacs ends.  While code of a request runs,
the car of UNDER-WAY puts the variables back, and functions are left to it."
  (let* ((bound-p (symbol-function 'boundp))
         (end (efrit-guard--make-ender))
         recorded
         (altered-p (lambda ()
                      (let ((rest recorded) altered)
                        (while (and rest (not altered))
                          (setq altered (not (and (funcall bound-p (car (car rest)))
                                                  (equal (symbol-value (car (car rest)))
                                                         (cdr (car rest)))))
                                rest (cdr rest)))
                        altered))))
    (lambda (function)
      (unless recorded
        (setq recorded (mapcar (lambda (variable) (cons variable (symbol-value variable)))
                               lasting)))
      (let ((checked (lambda ()
                       (when (funcall altered-p)
                         ;; gate: altered-between-requests
                         (funcall (or (car under-way) end)))
                       (unless (car under-way) (funcall restore))
                       (funcall function))))
        (setq efrit-guard-own-functions (cons checked efrit-guard-own-functions))
        checked))))

(defun efrit-guard--make-ender ()
  "Return a closure that ends this Emacs, if it is a daemon, and needs no name."
  (let ((daemon-p (symbol-function 'daemonp)) (kill efrit-guard--kill-emacs))
    (lambda ()
      (when (funcall daemon-p)
        (let ((kill-emacs-hook nil) (kill-emacs-query-functions nil)
              (file-name-handler-alist nil))
          (funcall kill 70))))))

(defun efrit-guard--make-tidier (variables)
  "Return what is `efrit-guard--tidier' for the server's VARIABLES."
  (let ((remove-watchers (efrit-guard--watchers-remover
                          (append variables efrit-guard--variables)))
        (restore-codings (efrit-guard--codings-restorer)))
    (lambda ()
      (funcall remove-watchers)  ; gate: remove-watchers
      (funcall restore-codings))))

(defun efrit-guard--codings-restorer ()
  "Return a closure that gives coding systems their meaning back.
Only the server's own names for them stay what they are whatever code does."
  (let* ((base (symbol-function 'coding-system-base))
         (line-ends (symbol-function 'coding-system-eol-type))
         (define (symbol-function 'define-coding-system-alias))
         (facts (lambda (name) (list (funcall base name) (funcall line-ends name))))
         (recorded (mapcar (lambda (pair) (cons (funcall facts (car pair)) pair))
                           '((utf-8-unix . efrit-utf-8) (no-conversion . efrit-bytes)))))
    (lambda ()
      (let ((rest recorded) name)
        (while rest
          (setq name (car (cdr (car rest))))
          (unless (equal (funcall facts name) (car (car rest)))
            (funcall define name (cdr (cdr (car rest))))
            (setq efrit-guard--restored (cons name efrit-guard--restored)))
          (setq rest (cdr rest)))))))

(defun efrit-guard--watchers-remover (variables)
  "Return a closure that removes watchers that VARIABLES do not have now."
  (let* ((watchers (symbol-function 'get-variable-watchers))
         (remove (symbol-function 'remove-variable-watcher))
         (recorded (mapcar (lambda (variable)
                             (cons variable (copy-sequence (funcall watchers variable))))
                           variables)))
    (lambda ()
      (let ((rest recorded) variable functions watcher watched)
        (while rest
          (setq variable (car (car rest))
                functions (funcall watchers variable))
          (while functions
            (setq watcher (car functions)
                  functions (cdr functions))
            (unless (memq watcher (cdr (car rest)))
              (funcall remove variable watcher)
              (setq watched (cons variable watched))))
          (setq rest (cdr rest)))
        ;; Last: this variable may have been watched too.
        (when watched
          (setq efrit-guard--restored (nconc watched efrit-guard--restored)))))))

(defun efrit-guard-take-restored ()
  "Return the symbols that were put back since the last call, as text, or nil."
  (let ((symbols efrit-guard--restored))
    (setq efrit-guard--restored nil)
    (when symbols
      (concat (mapconcat #'symbol-name (seq-take symbols 5) ", ")
              (if (> (length symbols) 5) (format " and %d more" (- (length symbols) 5)) "")))))

(defun efrit-guard-altered-p ()
  "Return non-nil when a recorded function is not what it was at the start."
  (seq-some (pcase-lambda (`(,symbol . ,function))
              (not (eq (symbol-function symbol) function)))
            efrit-guard--recorded))

(defun efrit-guard-end ()
  "End this Emacs, which cannot answer; whoever supervises it starts another.
Return where it is not a daemon: such an Emacs belongs to its user."
  (when (daemonp)
    ;; Emacs names files as it ends.
    (let ((kill-emacs-hook nil) (kill-emacs-query-functions nil) (file-name-handler-alist nil))
      (funcall efrit-guard--kill-emacs 70))))  ; gate: cannot-answer

(provide 'efrit-eval-guard)
;;; efrit-eval-guard.el ends here
