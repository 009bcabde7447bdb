;;; efrit-queue-request.el --- What a request file says  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Text of a request file in, an `efrit-request' out; pure, no files, no clock.
;; A file that is not JSON signals `efrit-unreadable-request' (it may be half
;; written); JSON that makes no sense becomes a request with a `problem', which
;; is answered without being run.  The content is never looked into.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'efrit-settings)

(cl-defstruct (efrit-request (:constructor efrit-request-make))
  "One request.
ORDER is when its turn comes, in nanoseconds since the epoch; nil when the
file does not say.  PROBLEM is why it cannot be run, or nil.  DIGEST is equal
for two files that ask for the same.  BUDGET is a plist of :tool-calls,
:iterations, :tokens and :iteration-seconds, without those that are not bounded;
SESSION the id of the session to continue, or nil; DIRECTORY the directory to
begin in, or nil for the workspace."
  id type content timeout return-context max-result-bytes retry max-attempts
  budget session directory order problem digest)

(defconst efrit-request-types '("eval" "command" "chat" "status")
  "The types of request that are known.")

(defconst efrit-request--longest 604800
  "Seconds a request may ask to run at most: a week.")

(defconst efrit-request--deepest 64
  "How deep the options of a request may be nested.")

(defun efrit-request-session-p (request)
  "Return non-nil when REQUEST begins or continues a session with the model."
  (and (member (efrit-request-type request) '("chat" "command"))
       (not (efrit-request-problem request))))

;;;; Ids

(defun efrit-request-id-p (id)
  "Return non-nil when ID may be the id of a request."
  (and (stringp id)
       (string-match-p "\\`[A-Za-z0-9._-]\\{1,128\\}\\'" id)
       (not (member id '("." "..")))))

(defun efrit-request-id-of-file (name)
  "Return the id the file name NAME gives, or nil."
  (let ((id (thread-last (string-remove-suffix ".json" name)
                         (string-remove-prefix "req_"))))
    (and (efrit-request-id-p id) id)))

(defun efrit-request-derived-id (name)
  "Return an id for a file whose NAME gives none."
  (concat "bad_" (substring (secure-hash 'sha256 (encode-coding-string name 'efrit-utf-8))
                            0 32)))

;;;; When its turn comes

(defconst efrit-request--time-regexp
  (rx string-start
      (group (= 4 digit)) "-" (group (= 2 digit)) "-" (group (= 2 digit))
      (any "Tt ")
      (group (= 2 digit)) ":" (group (= 2 digit)) ":" (group (= 2 digit))
      (optional "." (group (one-or-more digit)))
      (group (or (any "Zz") (seq (any "+-") (= 2 digit) ":" (= 2 digit))))
      string-end)
  "An RFC 3339 time.")

(defun efrit-request-time (text)
  "Return the RFC 3339 time TEXT in nanoseconds since the epoch, or nil."
  (when (and (stringp text) (string-match efrit-request--time-regexp text))
    (pcase-let* ((`(,year ,month ,day ,hour ,minute ,second)
                  (mapcar (lambda (n) (string-to-number (match-string n text)))
                          '(1 2 3 4 5 6)))
                 (fraction (or (match-string 7 text) ""))
                 (zone (match-string 8 text))
                 (offset (if (= (length zone) 1) 0
                           (* (if (eq (aref zone 0) ?-) -60 60)
                              (+ (* 60 (string-to-number (substring zone 1 3)))
                                 (string-to-number (substring zone 4 6)))))))
      (when (and (<= 1 month 12) (<= 1 day 31) (<= hour 23) (<= minute 59) (<= second 60))
        (+ (* 1000000000
              (- (car (time-convert
                       (encode-time (list second minute hour day month year nil nil 0))
                       1))
                 offset))
           (string-to-number
            (substring (concat fraction "000000000") 0 9)))))))

(defconst efrit-request--priority-ns 60000000000
  "One point of priority is worth a minute of waiting, so none starves.")

;;;; Reading

(defconst efrit-request--read (symbol-function 'json-parse-string)
  "What reads the JSON of a request, whatever its name has come to mean.")

(defun efrit-request-parse (text name)
  "Return the request that TEXT, the content of the file NAME, describes."
  (let ((json (condition-case nil
                  (funcall efrit-request--read text :null-object nil :false-object :false)
                (error (signal 'efrit-unreadable-request (list name))))))
    (unless (hash-table-p json)
      (signal 'efrit-unreadable-request (list name)))
    (let* ((id (efrit-request--id json name))
           (digest (condition-case nil
                       (efrit-request--digest json)
                     (efrit-bad-request nil)))
           (request (efrit-request-make
                     :id (or id (efrit-request-derived-id name))
                     :type (gethash "type" json)
                     :content (gethash "content" json)
                     :digest (or digest name))))
      (condition-case err
          (progn
            (unless id
              (efrit-request--refuse "neither `id' nor the file name is a usable id"))
            (efrit-request--check json)
            (unless digest
              (efrit-request--refuse "`options' must not be nested deeper than %d"
                                     efrit-request--deepest))
            (efrit-request--take-options request json))
        (efrit-bad-request
         (setf (efrit-request-problem request) (cadr err))))
      request)))

(defun efrit-request-unreadable (name why)
  "Return a request that stands for the file NAME, which cannot be read: WHY."
  (efrit-request-make :id (or (efrit-request-id-of-file name)
                              (efrit-request-derived-id name))
                      :problem why
                      :digest name))

(defun efrit-request--refuse (format &rest arguments)
  "Signal that a request cannot be run; FORMAT and ARGUMENTS say why."
  (signal 'efrit-bad-request (list (apply #'format-message format arguments))))

(defun efrit-request--id (json name)
  "Return the id in JSON, else the one that the file name NAME gives, else nil."
  (let ((id (gethash "id" json)))
    (if (efrit-request-id-p id) id (efrit-request-id-of-file name))))

(defun efrit-request--check (json)
  "Signal `efrit-bad-request' unless JSON is a request this server can take."
  (let ((version (gethash "version" json))
        (type (gethash "type" json))
        (instance (gethash "instance_id" json)))
    (when (and version (not (and (stringp version)
                                 (string-match-p "\\`1\\(?:\\.\\|\\'\\)" version))))
      (efrit-request--refuse "`version' must be 1.x, not %s"
                             (efrit-request--shown version)))
    (unless (member type efrit-request-types)
      (efrit-request--refuse "`type' must be one of %s"
                             (string-join efrit-request-types ", ")))
    (unless (or (stringp (gethash "content" json))
                (and (equal type "status") (null (gethash "content" json))))
      (efrit-request--refuse "`content' must be a string"))
    (when (and instance efrit-instance-id (not (equal instance efrit-instance-id)))
      (efrit-request--refuse "`instance_id' is %s, but this is %s"
                             (efrit-request--shown instance) efrit-instance-id))))

(defun efrit-request--shown (value)
  "Return VALUE, parsed JSON, as a short text: it may be of any length and depth."
  (cond ((stringp value) (truncate-string-to-width value 80 nil nil "..."))
        ((numberp value) (format "%s" value))
        (t "something else")))

(defun efrit-request--take-options (request json)
  "Fill REQUEST from the options in JSON."
  (let ((options (or (gethash "options" json) (make-hash-table :test #'equal :size 1))))
    (unless (hash-table-p options)
      (efrit-request--refuse "`options' must be an object"))
    (cl-flet ((option (key default test wanted)
                (let ((value (gethash key options)))
                  (cond ((null value) default)
                        ((funcall test value) value)
                        (t (efrit-request--refuse "`options.%s' must be %s" key wanted)))))
              (seconds (value) (and (numberp value)
                                    (< 0 value) (<= value efrit-request--longest)))
              (count (value) (and (integerp value) (> value 0))))
      (setf (efrit-request-timeout request)
            (option "timeout" (efrit-request--default-timeout request) #'seconds
                    (format "more than 0 and at most %d seconds" efrit-request--longest))
            (efrit-request-return-context request)
            (eq t (option "return_context" :false
                          (lambda (value) (memq value '(t :false))) "true or false"))
            (efrit-request-max-result-bytes request)
            (min efrit-max-result-bytes
                 (option "max_result_bytes" efrit-max-result-bytes
                         #'count "a positive integer"))
            (efrit-request-retry request)
            (option "retry" "never"
                    (lambda (value) (member value '("never" "if-interrupted")))
                    "never or if-interrupted")
            (efrit-request-max-attempts request)
            (option "max_attempts" 1 #'count "a positive integer")
            (efrit-request-budget request)
            (efrit-request--budget (option "budget" nil #'hash-table-p "an object"))
            (efrit-request-session request)
            (efrit-request--session (option "session" nil #'hash-table-p "an object"))
            (efrit-request-directory request)
            (efrit-request--directory
             (option "directory" nil #'stringp "an absolute path")))
      (efrit-request--within-limit :seconds "timeout" (efrit-request-timeout request))
      (let ((time (efrit-request-time (gethash "timestamp" json)))
            (priority (option "priority" 0 #'integerp "an integer")))
        ;; Kept apart from the time of the file, which a caller adds if need be.
        (setf (efrit-request-order request)
              (cons time (* efrit-request--priority-ns
                            (max -1000000 (min 1000000 priority)))))))))

(defun efrit-request-turn (request modified)
  "Return when the turn of REQUEST comes; MODIFIED is the time of its file.
Both are nanoseconds since the epoch."
  (pcase (efrit-request-order request)
    (`(,time . ,priority) (- (or time modified) priority))
    (_ modified)))

;;;; What bounds a command, and what it continues

(defun efrit-request--default-timeout (request)
  "Return the seconds that REQUEST may run when it does not say."
  (min (or efrit-max-timeout efrit-request--longest)
       (if (member (efrit-request-type request) '("chat" "command"))
           efrit-command-timeout
         efrit-request-timeout)))

(defconst efrit-request--bounds
  '((:tool-calls . "max_tool_calls") (:iterations . "max_iterations")
    (:tokens . "max_tokens") (:iteration-seconds . "iteration_timeout"))
  "The parts of a budget and their names in a request.")

(defconst efrit-request--limits
  '((:tool-calls efrit-max-tool-calls "maxToolCalls" "EFRIT_MAX_TOOL_CALLS")
    (:iterations efrit-max-iterations "maxIterations" "EFRIT_MAX_ITERATIONS")
    (:tokens efrit-max-tokens "maxTokens" "EFRIT_MAX_TOKENS")
    (:iteration-seconds efrit-iteration-timeout
                        "iterationTimeoutSeconds" "EFRIT_ITERATION_TIMEOUT")
    (:seconds efrit-max-timeout "maxTimeoutSeconds" "EFRIT_MAX_TIMEOUT"))
  "The limit of each part of a budget, and of a timeout.
That is a variable, a field of the instance and a variable of the environment.")

(defun efrit-request-limit (key)
  "Return the limit of the instance for KEY, a part of a budget, or nil."
  (symbol-value (nth 1 (assq key efrit-request--limits))))

(defun efrit-request-limit-name (key)
  "Return how to name the limit of the instance for KEY, a part of a budget."
  (pcase-let ((`(,_ ,_ ,field ,variable) (assq key efrit-request--limits)))
    (format " (%s)" (if efrit-bridge-p (concat "limits." field) variable))))

(defun efrit-request--within-limit (key name value)
  "Refuse VALUE of the option NAME where it exceeds the limit for KEY."
  (let ((most (efrit-request-limit key)))
    (when (and most (> value most))
      (efrit-request--refuse
       "`options.%s' is %s, and this instance allows at most %s%s: \
lower it, leave it out, or raise the limit"
       name value most (efrit-request-limit-name key)))))

(defun efrit-request--budget (budget)
  "Return BUDGET, an object of parsed JSON or nil, as a plist.
Signal `efrit-bad-request' where it asks for more than the instance allows."
  (let (plist)
    (pcase-dolist (`(,key . ,name) efrit-request--bounds plist)
      (let ((value (and budget (gethash name budget))))
        (when value
          (unless (and (numberp value) (> value 0) (<= value 1e12))
            (efrit-request--refuse "`options.budget.%s' must be a positive number" name))
          (efrit-request--within-limit key (concat "budget." name) value)
          (setq plist (plist-put plist key value)))))))

(defun efrit-request--session (session)
  "Return the id in SESSION, an object of parsed JSON or nil."
  (let ((id (and session (gethash "id" session))))
    (when (and id (not (efrit-request-id-p id)))
      (efrit-request--refuse "`options.session.id' is not an id"))
    id))

(defun efrit-request--directory (path)
  "Return PATH, a string or nil, as the name of a directory."
  (when path
    (unless (and (string-prefix-p "/" path) (<= (length path) 4096)
                 (not (string-search "\0" path)))
      (efrit-request--refuse "`options.directory' must be an absolute path"))
    ;; A name that looks remote is that of a directory on this machine all the same.
    (file-name-as-directory
     (if (string-match-p "\\`/[^/]*:" path) (concat "/:" path) path))))

;;;; Telling two requests with one id apart

(defun efrit-request--digest (json)
  "Return a value that is `equal' for two JSON requests that ask for the same."
  (mapcar (lambda (key) (efrit-request--canonical (gethash key json)))
          '("type" "content" "options" "instance_id")))

(defun efrit-request--canonical (value &optional depth)
  "Return VALUE, parsed JSON, with the members of objects in order of their names.
DEPTH is how deep VALUE lies in what is asked for."
  (let ((inside (1+ (or depth 0))))
    (when (> inside efrit-request--deepest)
      (signal 'efrit-bad-request (list "nested too deeply")))
    (cond ((hash-table-p value)
           (let (members)
             (maphash (lambda (key member)
                        (push (cons key (efrit-request--canonical member inside)) members))
                      value)
             (cons 'object (sort members (lambda (a b) (string< (car a) (car b)))))))
          ((vectorp value)
           (mapcar (lambda (member) (efrit-request--canonical member inside)) value))
          (t value))))

(provide 'efrit-queue-request)
;;; efrit-queue-request.el ends here
