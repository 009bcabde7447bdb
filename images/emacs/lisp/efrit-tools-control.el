;;; efrit-tools-control.el --- Tools that end the request  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What these are called with is their result; the session ends as they say.

;;; Code:

(require 'efrit-tool-context)
(require 'efrit-tool)

(efrit-define-tool session_complete (input _context)
  "End the session: the work is done."
  :kind control
  :ends complete
  :input ((message string "The result, for whoever asked" :required t))
  (efrit-tool-result-make "success" (alist-get 'message input)))

(efrit-define-tool request_user_input (input _context)
  "End the session for now with a question; the answer continues it."
  :kind control
  :ends need-input
  :input ((question string "The question, for whoever asked" :required t))
  (efrit-tool-result-make "success" (alist-get 'question input)))

(provide 'efrit-tools-control)
;;; efrit-tools-control.el ends here
