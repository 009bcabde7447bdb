;;; efrit-model-reply.el --- A reply of the model, from its events  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Events of the Messages API in, the blocks of the message out, as if the API
;; had sent it in one.  Kinds of events and blocks that are not known here are
;; skipped and kept, respectively: the API says that there will be new ones.
;; What makes no sense, and what ends early, is an error and never half a reply.
;; Pure but for the callback that takes the text.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'efrit-settings)
(require 'efrit-json)

(define-error 'efrit-model-broken "The stream of the model broke" 'efrit-error)

(cl-defstruct (efrit-model-reply (:constructor efrit-model-reply--make) (:copier nil))
  "What the model answered in one turn.
CONTENT is a vector of blocks, STOP-REASON a string, USAGE a plist of numbers
:input, :output, :cache-read and :cache-write.  UNREADABLE is an alist from the
ids of tool calls to their input, for input that is not a JSON object, as when the
tokens ended in it; `input' of such a block is empty."
  content stop-reason usage unreadable)

(cl-defstruct (efrit-model-draft (:constructor efrit-model-draft--make) (:copier nil))
  "A reply being read.
ON-TEXT is called with pieces of text.  PARTS is an alist from the indices to
the blocks so far, the last one first.  REPLY is set when all has come."
  on-text begun parts stop-reason usage reply)

(cl-defstruct (efrit-model-part (:constructor efrit-model-part--make) (:copier nil))
  "A block being read.
HEAD is the block as it began, PIECES an alist from its members to what came for
them since, the last one first."
  head pieces)

(defconst efrit-model-reply--deltas
  '(("text_delta" text text)
    ("input_json_delta" partial_json input)
    ("thinking_delta" thinking thinking)
    ("signature_delta" signature signature)
    ("citations_delta" citation citations))
  "For each type of delta, where it has its piece and which member that is of.")

(defconst efrit-model-reply--usage
  '((:input . input_tokens)
    (:output . output_tokens)
    (:cache-read . cache_read_input_tokens)
    (:cache-write . cache_creation_input_tokens))
  "How the API calls the numbers of the usage.")

;;;; Reading events

(defun efrit-model-reply-draft (on-text)
  "Return a new draft that calls ON-TEXT, unless that is nil, with the text."
  (efrit-model-draft--make :on-text on-text))

(defun efrit-model-reply-read (draft data)
  "Take DATA, the JSON of an event, into DRAFT.
Signal `efrit-model-broken' when the stream cannot be used."
  (let* ((event (efrit-model-reply--parse data))
         (type (alist-get 'type event)))
    (pcase type
      ("error"
       (signal 'efrit-model-broken (list (efrit-model-reply-error-text event))))
      ("message_start" (efrit-model-reply--begin draft event))
      ((or "content_block_start" "content_block_delta" "message_delta" "message_stop")
       (unless (and (efrit-model-draft-begun draft)
                    (not (efrit-model-draft-reply draft)))
         (efrit-model-reply--signal-broken "%s outside of a message" type))
       (pcase type
         ("content_block_start" (efrit-model-reply--begin-part draft event))
         ("content_block_delta" (efrit-model-reply--add draft event))
         ("message_delta" (efrit-model-reply--note-end draft event))
         ("message_stop" (efrit-model-reply--finish draft)))))))

(defun efrit-model-reply--parse (data)
  "Return the event that the JSON text DATA is."
  (condition-case nil
      (let ((event (efrit-json-parse data)))
        (if (stringp (alist-get 'type event)) event (signal 'json-error nil)))
    (error (efrit-model-reply--signal-broken "an event is not a JSON object with a type"))))

(defun efrit-model-reply--signal-broken (format &rest arguments)
  "Signal that the stream makes no sense; FORMAT and ARGUMENTS say why."
  (signal 'efrit-model-broken
          (list (concat "The stream makes no sense: "
                        (apply #'format format arguments)))))

(defun efrit-model-reply-error-text (value)
  "Return what VALUE, an error of the API as an alist, says of itself, or nil."
  (let* ((error (alist-get 'error value))
         (type (and (consp error) (alist-get 'type error)))
         (message (and (consp error) (alist-get 'message error))))
    (and (stringp message)
         (if (stringp type) (format "%s: %s" type message) message))))

(defun efrit-model-reply--begin (draft event)
  "Take EVENT, the beginning of the message, into DRAFT."
  (when (efrit-model-draft-begun draft)
    (efrit-model-reply--signal-broken "a second message"))
  (setf (efrit-model-draft-begun draft) t)
  (efrit-model-reply--count draft (alist-get 'usage (alist-get 'message event))))

(defun efrit-model-reply--begin-part (draft event)
  "Take EVENT, the beginning of a block, into DRAFT."
  (let ((index (alist-get 'index event))
        (head (alist-get 'content_block event)))
    (unless (and (natnump index) (consp head)
                 (not (assq index (efrit-model-draft-parts draft))))
      (efrit-model-reply--signal-broken "a block begins that is none"))
    (push (cons index (efrit-model-part--make :head head))
          (efrit-model-draft-parts draft))
    (efrit-model-reply--stream-text draft (alist-get 'type head) "text" (alist-get 'text head))))

(defun efrit-model-reply--add (draft event)
  "Take EVENT, a piece of a block, into DRAFT."
  (let* ((part (alist-get (alist-get 'index event) (efrit-model-draft-parts draft)))
         (delta (alist-get 'delta event))
         (type (and (consp delta) (alist-get 'type delta))))
    (unless (and part type)
      (efrit-model-reply--signal-broken "a piece of a block that did not begin"))
    (pcase-let ((`(,from ,to) (cdr (assoc type efrit-model-reply--deltas))))
      (when to
        (push (alist-get from delta) (alist-get to (efrit-model-part-pieces part)))
        (efrit-model-reply--stream-text draft type "text_delta" (alist-get from delta))))))

(defun efrit-model-reply--stream-text (draft type streamed-type text)
  "Tell the callback of DRAFT of TEXT when TYPE is STREAMED-TYPE."
  (when (and (equal type streamed-type) (stringp text) (not (string-empty-p text))
             (efrit-model-draft-on-text draft))
    (funcall (efrit-model-draft-on-text draft) text)))

(defun efrit-model-reply--note-end (draft event)
  "Take EVENT, which says why the message ends, into DRAFT."
  (let ((reason (alist-get 'stop_reason (alist-get 'delta event))))
    (when (stringp reason)
      (setf (efrit-model-draft-stop-reason draft) reason)))
  (efrit-model-reply--count draft (alist-get 'usage event)))

(defun efrit-model-reply--count (draft usage)
  "Take USAGE into DRAFT; later numbers replace earlier ones."
  (pcase-dolist (`(,key . ,name) efrit-model-reply--usage)
    (let ((number (and (consp usage) (alist-get name usage))))
      (when (natnump number)
        (setf (efrit-model-draft-usage draft)
              (plist-put (efrit-model-draft-usage draft) key number))))))

;;;; Putting it together

(defun efrit-model-reply--finish (draft)
  "Put the reply of DRAFT together."
  (unless (efrit-model-draft-stop-reason draft)
    (efrit-model-reply--signal-broken "the message ends without a reason"))
  (let ((reply (efrit-model-reply--make
                :stop-reason (efrit-model-draft-stop-reason draft)
                :usage (efrit-model-draft-usage draft)))
        blocks)
    (pcase-dolist (`(,_ . ,part) (sort (efrit-model-draft-parts draft)
                                       (lambda (one other) (< (car one) (car other)))))
      (let ((block (efrit-model-reply--block part reply)))
        ;; The API sends empty text, but takes none back.
        (unless (and (equal (alist-get 'type block) "text")
                     (equal (alist-get 'text block) ""))
          (push block blocks))))
    (setf (efrit-model-reply-content reply) (vconcat (nreverse blocks))
          (efrit-model-draft-parts draft) nil
          (efrit-model-draft-reply draft) reply)))

(defun efrit-model-reply--block (part reply)
  "Return the block that PART has become.
Input that cannot be read is noted in REPLY."
  (let ((head (efrit-model-part-head part)))
    (pcase-dolist (`(,member . ,pieces) (efrit-model-part-pieces part))
      (let* ((pieces (reverse pieces))
             (value (pcase member
                      ('input (efrit-model-reply--input
                               (efrit-model-reply--joined "" pieces)
                               (alist-get 'id head) reply))
                      ('citations (efrit-model-reply--appended
                                   (alist-get 'citations head) pieces))
                      (_ (efrit-model-reply--joined (alist-get member head) pieces)))))
        (setq head (if (assq member head)
                       (mapcar (lambda (pair)
                                 (if (eq (car pair) member) (cons member value) pair))
                               head)
                     (append head (list (cons member value)))))))
    head))

(defun efrit-model-reply--joined (start pieces)
  "Return the string START, or none, with the list PIECES after it."
  (unless (cl-every #'stringp pieces)
    (efrit-model-reply--signal-broken "a piece of text is none"))
  (apply #'concat (if (stringp start) start "") pieces))

(defun efrit-model-reply--appended (start pieces)
  "Return the vector START, or none, with the list PIECES after it."
  (vconcat (and (vectorp start) start) pieces))

(defun efrit-model-reply--input (text id reply)
  "Return the input that the JSON TEXT of the call ID is.
What is not an object is noted in REPLY."
  (if (string-empty-p text)
      nil
    (condition-case nil
        (let ((value (efrit-json-parse text)))
          (if (listp value) value (signal 'json-error nil)))
      (error
       (push (cons id text) (efrit-model-reply-unreadable reply))
       nil))))

(provide 'efrit-model-reply)
;;; efrit-model-reply.el ends here
