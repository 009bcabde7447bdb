;;; efrit-server-tick-test.el --- Tests of what is done with every tick  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What the ticks log; what wakes the server is in efrit-server-test.el.

;;; Code:

(require 'efrit-test-queue)
(require 'efrit-server)

(ert-deftest efrit-server-a-list-of-results-that-cannot-be-read-is-logged-once ()
  (let ((problems '("denied" "denied" nil nil)) (efrit-server--results-problem nil) (lines nil))
    (cl-letf (((symbol-function 'efrit-results-delete-stale) (lambda () (pop problems)))
              ((symbol-function 'message)
               (lambda (&rest arguments) (push (apply #'format arguments) lines))))
      (dotimes (_ 4) (efrit-server--delete-stale-results)))
    (should (equal (reverse lines)
                   '("efrit: large results stay until their list can be read: denied"
                     "efrit: the list of large results can be read again")))))

(provide 'efrit-server-tick-test)
;;; efrit-server-tick-test.el ends here
