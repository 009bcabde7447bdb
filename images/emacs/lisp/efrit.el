;;; efrit.el --- Answer requests from a queue, and have a model work  -*- lexical-binding: t; -*-

;; Author: Efrit operator authors
;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1"))
;; Keywords: processes, tools
;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; Efrit gives a resident Emacs work through a queue of files: evals, which are
;; evaluated once and answered once, and chats and commands, in which a model speaks
;; and uses tools.  The Efrit operator and the program efrit write such requests.
;;
;; By hand, in an Emacs of your own:
;;
;;   M-x efrit-do            have the model work with tools
;;   M-x efrit-chat          talk to it
;;   M-x efrit-continue      go on with the last session, or answer its question
;;   M-x efrit-cancel        stop what is under way
;;   M-x efrit-status        say how far it is
;;   M-x efrit-server-start  answer the requests in `efrit-queue-directory'
;;   M-x efrit-server-stop   answer no more
;;
;; `efrit-command-map' has the commands for the model; bind it to a prefix key of your
;; own.  The options are in the groups below `efrit': M-x customize-group RET efrit.
;; A model needs `efrit-model-name', and most need `efrit-model-api-key-file'.
;;
;; This file says where the parts begin, so that each is loaded when it is needed.

;;; Code:

(require 'efrit-settings)

;;;; The queue

(dolist (command '(efrit-server-start efrit-server-stop))
  (autoload command "efrit-server" nil t))

;;;; For whoever works in this Emacs, or attaches to the daemon

(dolist (command '(efrit-do efrit-chat efrit-continue efrit-cancel efrit-status))
  (autoload command "efrit-do" nil t))
(autoload 'efrit-command-map "efrit-do" nil nil 'keymap)

;;;; For whoever drives a plan

(dolist (function '(efrit-plan-begin efrit-plan-look efrit-plan-facts efrit-plan-history
                                     efrit-plan-commit-act efrit-plan-commit-adapt
                                     efrit-plan-amend))
  (autoload function "efrit-plan"))

(provide 'efrit)
;;; efrit.el ends here
