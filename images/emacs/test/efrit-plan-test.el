;;; efrit-plan-test.el --- Tests of a plan's workspace  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: Apache-2.0

;;; Commentary:

;; What the functions of a plan take and return, and what is in the repository
;; after each.  Crashes have a file of their own.

;;; Code:

(require 'efrit-test-plan)

;;;; Beginning and looking

(ert-deftest efrit-plan-a-plan-begins-with-one-commit ()
  (efrit-test-with-plan
    (let ((position (efrit-test-plan-begin)))
      (should (equal (efrit-test-plan-subjects) '("[begin] PLAN: Make a thing")))
      (should (equal (efrit-test-plan-git "log" "--format=%(trailers:only)")
                     "Efrit-Plan: u-1\nEfrit-Step: 0\nEfrit-Kind: begin"))
      (should (equal (efrit-test-plan-git "log" "--format=%an <%ae>, %cn <%ce>")
                     "Efrit <efrit@localhost>, Efrit <efrit@localhost>"))
      (should (equal (efrit-test-plan-git "ls-files")
                     "user_intent/project.json\nworking_plan/current.json"))
      (should (equal (efrit-test-plan-git "status" "--porcelain") ""))
      (should (file-directory-p (concat efrit-test-plan-root "environment")))
      (should (equal (mapcar #'car position)
                     '(step kind task head amendments tree observations commits totals)))
      (should (equal (alist-get 'step position) 0))
      (should (equal (alist-get 'kind position) "begin"))
      (should (equal (efrit-test-plan-get position 'tree 'value)
                     (efrit-test-plan-value
                      (efrit-json-text (efrit-test-plan-tree (efrit-test-plan-task "a")
                                                             (efrit-test-plan-task "b"))))))
      (should (equal (alist-get 'head position) (efrit-test-plan-git "rev-parse" "HEAD"))))))

(ert-deftest efrit-plan-what-is-wanted-is-kept-as-it-was-said ()
  (efrit-test-with-plan
    (efrit-test-plan-begin
     :intent (efrit-json-object '(:description "Größe: \"5\\6\"\n\nEfrit-Step: 9\n" :acceptanceCriteria []
                                  :constraints ["ℵ"])))
    (let ((project (efrit-test-plan-value (efrit-test-plan-read "user_intent/project.json"))))
      (should (equal (mapcar #'car project) '(plan uid intent tree)))
      (should (equal (efrit-test-plan-get project 'intent)
                     '((description . "Größe: \"5\\6\"\n\nEfrit-Step: 9\n")
                       (acceptanceCriteria) (constraints "ℵ")))))
    (should (equal (efrit-test-plan-subjects) '("[begin] PLAN: Größe: \"5\\6\" Efrit-Step: 9")))
    (should (equal (alist-get 'step (efrit-test-plan-look)) 0))))

(ert-deftest efrit-plan-beginning-again-changes-nothing ()
  (efrit-test-with-plan
    (let ((first (efrit-test-plan-begin)))
      (should (equal (efrit-test-plan-begin :tree `((value . ,(efrit-test-plan-tree)))) first))
      (efrit-test-plan-act 1)
      (should (equal (alist-get 'step (efrit-test-plan-begin)) 1)))))

(ert-deftest efrit-plan-what-is-not-there-is-missing ()
  (efrit-test-with-plan
    (should (equal (efrit-test-plan-look) '((missing . t))))
    (should (equal (efrit-test-plan 'history) '((missing . t))))
    (should (string-search "begin it first"
                           (efrit-test-plan-error 'efrit-plan-out-of-order
                                                  (lambda () (efrit-test-plan-act 1)))))))

(ert-deftest efrit-plan-an-earlier-plan-of-the-name-is-put-aside ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (efrit-test-plan-work "kept" "1")
    (should (equal (efrit-test-plan 'look :uid "u-2") '((missing . t))))
    (efrit-test-plan-error 'efrit-plan-out-of-order (lambda () (efrit-test-plan-act 1 :uid "u-2")))
    (should (equal (alist-get 'step (efrit-test-plan-begin :uid "u-2")) 0))
    (should-not (file-exists-p (concat efrit-test-plan-root "environment/kept")))
    (should (file-exists-p (concat efrit-workspace-directory "plans/.earlier/p.u-1/environment/kept")))
    (should (equal (efrit-test-plan-git "log" "--format=%(trailers:key=Efrit-Plan,valueonly)")
                   "u-2"))))

(ert-deftest efrit-plan-what-is-in-the-way-is-left-alone ()
  (efrit-test-with-plan
    (efrit-test-plan-write "mine" "1")
    (should (string-search "is in the way"
                           (efrit-test-plan-error 'efrit-plan-changed #'efrit-test-plan-begin)))
    (should (equal (efrit-test-plan-read "mine") "1"))))

(ert-deftest efrit-plan-bad-arguments-are-refused-in-a-sentence ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (pcase-dolist (`(,call . ,sentence)
                   `((,(lambda () (efrit-plan-look "{")) . "not JSON that Emacs can read")
                     (,(lambda () (efrit-plan-look "[]")) . "not a JSON object")
                     (,(lambda () (efrit-plan-look "{\"uid\":\"u\"}")) . "member plan must be a string")
                     (,(lambda () (efrit-test-plan 'look :plan "../p")) . "at most 63 of a-z")
                     (,(lambda () (efrit-test-plan 'look :plan "")) . "at most 63 of a-z")
                     (,(lambda () (efrit-test-plan 'look :plan (make-string 64 ?a))) . "at most 63")
                     (,(lambda () (efrit-test-plan 'look :uid "")) . "uid is empty")
                     (,(lambda () (efrit-test-plan-act "1")) . "member step must be an integer")
                     (,(lambda () (efrit-test-plan-act 1 :task 5)) . "member task must be a string")
                     (,(lambda () (efrit-test-plan-act 1 :usage '((input . "1"))))
                      . "member input must be an integer")
                     (,(lambda () (efrit-test-plan-adapt 1 :tree '((value . []))))
                      . "A task of the tree is not an object with an id")
                     (,(lambda () (efrit-test-plan-adapt 1 :tree '((packed . "!!"))))
                      . "is not the base64 of gzip")
                     (,(lambda () (efrit-test-plan-adapt 1 :tree `((packed . ,(base64-encode-string "x")))))
                      . "is not the base64 of gzip")
                     (,(lambda () (efrit-test-plan-begin :plan "q" :intent :null))
                      . "member intent must be an object")))
      (ert-info (sentence)
        (should (string-search sentence (efrit-test-plan-error 'efrit-plan-arguments call)))))
    (should (equal (alist-get 'step (efrit-test-plan-look)) 0))))

;;;; Acts

(ert-deftest efrit-plan-an-act-commits-the-work-and-reports-what-changed ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (efrit-test-plan-work "src/größe.txt" "one\ntwo\n")
    (efrit-test-plan-work "a.txt" "x\n")
    (let ((answer (efrit-test-plan-act 1 :description "Write\nboth files")))
      (should (equal (alist-get 'step answer) 1))
      (should (equal (alist-get 'hash answer) (efrit-test-plan-git "rev-parse" "HEAD")))
      (should (equal (alist-get 'changed answer) '("a.txt" "src/größe.txt")))
      (should (equal (alist-get 'files answer) 2))
      (should (equal (alist-get 'insertions answer) 3))
      (should (string-prefix-p "diff --git a/a.txt b/a.txt\n" (alist-get 'diff answer)))
      (should-not (alist-get 'truncated answer))
      (should (equal (efrit-test-plan-git "log" "-1" "--format=%B")
                     "[a] ACT: Write both files\n\nWrite\nboth files\n\nEfrit-Plan: u-1
Efrit-Step: 1\nEfrit-Kind: act\nEfrit-Task: a\nEfrit-Outcome: Success\nEfrit-Input-Tokens: 10
Efrit-Output-Tokens: 3\nEfrit-Seconds: 1.500"))
      (should (equal (efrit-test-plan-git "status" "--porcelain") "")))))

(ert-deftest efrit-plan-what-the-executor-said-is-committed-beside-the-tree ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (efrit-test-plan-work "one" "1\n")
    (let* ((said '((task . "a") (outcome . "Success") (text . "Größe: \"5\\6\"\n\nDone.")))
           (answer (efrit-test-plan-act 1 :result `((value . ,said)))))
      (should (equal (alist-get 'changed answer) '("one")))
      (should (equal (efrit-test-plan-value (efrit-test-plan-git "show" "HEAD:working_plan/result.json")) said))
      ;; Asked for again it is what it was; each task has its own, in its own commit.
      (should (equal (efrit-test-plan-act 1 :result '((value . ((text . "other"))))) answer))
      (efrit-test-plan-adapt 2)
      (efrit-test-plan-act 3 :task "b" :result '((value . ((task . "b") (text . "Of b.")))))
      (should (equal (efrit-test-plan-git "log" "--format=%s" "--" "working_plan/result.json")
                     "[b] ACT: Do a\n[a] ACT: Do a")))))

(ert-deftest efrit-plan-an-act-asked-for-again-is-returned-again ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (efrit-test-plan-work "a.txt" "x\n")
    (let ((first (efrit-test-plan-act 1)))
      (efrit-test-plan-work "a.txt" "later\n")
      (should (equal (efrit-test-plan-act 1) first))
      (should (equal (length (efrit-test-plan-subjects)) 2))
      (should (equal (efrit-test-plan-read "environment/a.txt") "later\n")))))

(ert-deftest efrit-plan-an-act-that-changed-nothing-is-a-step-too ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (let ((answer (efrit-test-plan-act 1)))
      (should (equal (alist-get 'changed answer) nil))
      (should (equal (alist-get 'diff answer) ""))
      (should-not (alist-get 'truncated answer)))
    (should (equal (alist-get 'step (efrit-test-plan-look)) 1))))

(ert-deftest efrit-plan-a-long-diff-is-cut-where-it-was-asked ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (dotimes (i 60)
      (efrit-test-plan-work (format "f%02d" i) (make-string 100000 ?ä)))
    (let ((answer (efrit-test-plan-act 1 :maxDiff 500)))
      (should (equal (length (alist-get 'diff answer)) 500))
      (should (alist-get 'truncated answer))
      (should (equal (alist-get 'files answer) 60))
      (should (equal (length (alist-get 'changed answer)) 50)))))

(ert-deftest efrit-plan-any-file-can-be-reported ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (efrit-test-plan-work "old" "1\n2\n3\n4\n5\n6\n7\n8\n")
    (efrit-test-plan-act 1)
    (rename-file (concat efrit-test-plan-root "environment/old")
                 (concat efrit-test-plan-root "environment/new \"n\"\tame"))
    (let ((coding-system-for-write 'no-conversion))
      (write-region "a\0b\377" nil (concat efrit-test-plan-root "environment/binary") nil 'silent)
      (write-region "bad \377 byte\n" nil (concat efrit-test-plan-root "environment/latin") nil 'silent))
    (make-symbolic-link "/nonexistent" (concat efrit-test-plan-root "environment/link"))
    (let ((answer (efrit-test-plan-act 2)))
      (should (equal (sort (alist-get 'changed answer) #'string<)
                     '("binary" "latin" "link" "new \"n\"\tame")))
      (should (string-search "rename from old" (alist-get 'diff answer)))
      (should (string-search "+bad \\377 byte" (alist-get 'diff answer))))))

(ert-deftest efrit-plan-what-the-work-ignores-is-not-recorded ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (efrit-test-plan-work ".gitignore" "build/\n")
    (efrit-test-plan-work "build/big.o" "1")
    (should (equal (alist-get 'changed (efrit-test-plan-act 1)) '(".gitignore")))
    (should (file-exists-p (concat efrit-test-plan-root "environment/build/big.o")))))

(ert-deftest efrit-plan-work-that-is-gone-altogether-is-recorded-as-gone ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (efrit-test-plan-work "a" "1\n")
    (efrit-test-plan-act 1)
    (delete-directory (concat efrit-test-plan-root "environment") t)
    (should (equal (alist-get 'deletions (efrit-test-plan-act 2)) 1))
    (should (file-directory-p (concat efrit-test-plan-root "environment")))))

(ert-deftest efrit-plan-of-repositories-a-task-has-made-the-files-are-recorded ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (dolist (inside '("one" "two/deep" "empty" "."))
      (make-directory (concat efrit-test-plan-root "environment/" inside) t)
      (let ((default-directory (concat efrit-test-plan-root "environment/" inside)))
        (should (equal 0 (call-process "git" nil nil nil "init" "-q")))))
    (efrit-test-plan-work "one/a" "1\n")
    (efrit-test-plan-work "two/deep/b" "1\n")
    (efrit-test-plan-work "c" "1\n")
    (let ((default-directory (concat efrit-test-plan-root "environment/one/")))
      (should (equal 0 (call-process "git" nil nil nil "-c" "user.name=A" "-c" "user.email=a@b"
                                     "commit" "-q" "--allow-empty" "-m" "x"))))
    (should (equal (alist-get 'changed (efrit-test-plan-act 1)) '("c" "one/a" "two/deep/b")))
    (efrit-test-plan-work "one/new" "1\n")
    (efrit-test-plan-work "two/deep/new" "1\n")
    (should (equal (alist-get 'changed (efrit-test-plan-act 2)) '("one/new" "two/deep/new")))
    (should-not (string-search "160000" (efrit-test-plan-git "ls-files" "-s")))))

;;;; Adapts and amendments

(ert-deftest efrit-plan-an-adapt-commits-tree-and-observations ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (let ((answer (efrit-test-plan-adapt 1)) (position (efrit-test-plan-look)))
      (should (equal (mapcar #'car answer) '(hash subject kind task step time)))
      (should (equal (alist-get 'subject answer) "[a] ADAPT: It is done"))
      (should (equal (efrit-test-plan-get position 'observations 'value)
                     '(((perspective . "build") (statement . "Builds")))))
      (should (equal (efrit-test-plan-get (car (efrit-test-plan-get position 'tree 'value 'children))
                                          'state)
                     "done"))
      (should (equal (alist-get 'head position) (alist-get 'hash answer)))
      (should (equal (efrit-test-plan-adapt 1) answer)))))

(ert-deftest efrit-plan-in-git-a-task-is-a-line ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (should (equal (efrit-test-plan-read "working_plan/current.json")
                   "{\"id\":\"root\",\"type\":\"parent\",\"description\":\"All of it\",\
\"failure_threshold\":0.0,\"state\":\"pending\",\"children\":[
 {\"id\":\"a\",\"type\":\"atomic\",\"description\":\"Do a\",\"failure_threshold\":0.2,\"state\":\"pending\"},
 {\"id\":\"b\",\"type\":\"atomic\",\"description\":\"Do b\",\"failure_threshold\":0.2,\"state\":\"pending\"}
]}\n"))
    (efrit-test-plan-adapt 1)
    (should (equal (efrit-test-plan-git "diff" "--numstat" "HEAD^" "HEAD" "--" "working_plan/current.json")
                   "1\t1\tworking_plan/current.json"))))

(ert-deftest efrit-plan-numbers-are-written-as-they-were-said ()
  (dolist (text '("{\"id\":\"a\",\"x\":0.2,\"y\":0.6000000000000001,\"z\":[],\"n\":12,\"o\":{},\"p\":null,\"q\":false}"
                  "{\"id\":\"\\\"x\\\":0.20000000000000001\",\"children\":[]}"))
    (should (equal (efrit-plan-json-tree-text (efrit-json-parse text)) (concat text "\n")))))

(ert-deftest efrit-plan-an-adapt-does-not-take-the-work-along ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (efrit-test-plan-work "a" "1\n")
    (efrit-test-plan-adapt 1)
    (should (equal (alist-get 'changed (efrit-test-plan-act 2)) '("a")))))

(ert-deftest efrit-plan-long-trees-travel-packed ()
  (efrit-test-with-plan
    (let* ((tasks (mapcar (lambda (i) (efrit-test-plan-task (format "t%d" i) :children []))
                          (number-sequence 1 2000)))
           (tree (apply #'efrit-test-plan-tree tasks))
           (packed (efrit-plan-json-packed (efrit-json-text tree))))
      (should (equal (mapcar #'car packed) '(packed)))
      (efrit-test-plan-begin :tree packed)
      (efrit-test-plan-adapt 1 :tree packed)
      (let ((position (efrit-json-parse (efrit-plan-look (efrit-test-plan-arguments nil)))))
        (should (< (length (efrit-json-text position)) 40000))
        (should (equal (efrit-plan-json-payload position 'tree) tree))))))

(ert-deftest efrit-plan-an-amendment-is-a-file-of-its-own ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (let ((answer (efrit-test-plan 'amend :step 1 :number 1 :text "Also\nthis")))
      (should (equal (alist-get 'subject answer) "[amend] 1: Also this"))
      (should (equal (alist-get 'kind answer) "amend"))
      (should (equal (efrit-test-plan 'amend :step 1 :number 1 :text "Also\nthis") answer)))
    (efrit-test-plan 'amend :step 2 :number 2 :text "And that")
    (should (equal (alist-get 'amendments (efrit-test-plan-look)) 2))
    (should (equal (efrit-test-plan-read "user_intent/amendments/0001.json")
                   "{\"number\":1,\"text\":\"Also\\nthis\"}\n"))))

(ert-deftest efrit-plan-an-amendment-is-never-changed ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (efrit-test-plan 'amend :step 1 :number 1 :text "One")
    (dolist (other '((:step 2 :number 1 :text "Two") (:step 1 :number 2 :text "One")
                     (:step 1 :number 1 :text "Two")))
      (efrit-test-plan-error 'efrit-plan-out-of-order
                             (lambda () (apply #'efrit-test-plan 'amend other))))
    (should (string-search "One" (efrit-test-plan-read "user_intent/amendments/0001.json")))))

;;;; The order of steps

(ert-deftest efrit-plan-steps-come-one-after-the-other ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (efrit-test-plan-act 1)
    (should (string-search "Step 3 cannot be made"
                           (efrit-test-plan-error 'efrit-plan-out-of-order
                                                  (lambda () (efrit-test-plan-adapt 3)))))
    (efrit-test-plan-adapt 2)
    (efrit-test-plan-error 'efrit-plan-out-of-order (lambda () (efrit-test-plan-act 1)))
    (should (string-search "Step 2 is another one already ([a] ADAPT: It is done)"
                           (efrit-test-plan-error 'efrit-plan-out-of-order
                                                  (lambda () (efrit-test-plan-act 2)))))
    (efrit-test-plan-error 'efrit-plan-out-of-order (lambda () (efrit-test-plan-adapt 2 :task "b")))
    (should (equal (length (efrit-test-plan-subjects)) 3))))

(ert-deftest efrit-plan-the-position-sums-up-and-shows-the-last-commits ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (dotimes (i 15)
      (efrit-test-plan-act (+ 1 (* 2 i)))
      (efrit-test-plan-adapt (+ 2 (* 2 i))))
    (let ((position (efrit-test-plan-look)))
      (should (equal (alist-get 'totals position)
                     '((steps . 30) (acts . 15) (adapts . 15) (inputTokens . 255) (outputTokens . 75)
                       (seconds . 30.0))))
      (should (equal (mapcar (lambda (commit) (alist-get 'step commit)) (alist-get 'commits position))
                     (number-sequence 11 30))))))

(ert-deftest efrit-plan-a-first-line-is-short-and-one-line ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (let* ((long (concat (make-string 150 ?ä) "\r\n\t\e[31m" (make-string 3000 ?b)))
           (answer (efrit-test-plan-act 1 :description long)))
      (should (= (length (alist-get 'subject answer)) 200))
      (should (equal (efrit-test-plan-git "log" "-1" "--format=%s") (alist-get 'subject answer)))
      (should (string-search (make-string 3000 ?b) (efrit-test-plan-git "log" "-1" "--format=%b")))
      (should (equal (alist-get 'step (efrit-test-plan-look)) 1)))))

(ert-deftest efrit-plan-many-steps-do-not-leave-many-files ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (let ((objects (lambda () (directory-files-recursively
                               (concat efrit-test-plan-root ".git/objects/") "\\`[0-9a-f]\\{38\\}\\'"))))
      (efrit-test-plan-git "commit" "-q" "--allow-empty" "-m"
                           "[a] ACT: x\n\nEfrit-Plan: u-1\nEfrit-Step: 255\nEfrit-Kind: act")
      (should (funcall objects))
      (efrit-test-plan-adapt 256)
      (should-not (funcall objects))
      (efrit-test-plan-adapt 257)
      (should (equal (efrit-test-plan-git "log" "-1" "--format=%(trailers:key=Efrit-Step,valueonly)") "257")))))

;;;; The history

(ert-deftest efrit-plan-the-history-has-all-a-report-needs ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (efrit-test-plan-work "a" "1\n2\n")
    (efrit-test-plan-act 1)
    (efrit-test-plan-adapt 2 :tree `((value . ,(efrit-test-plan-tree
                                                (efrit-test-plan-task "a" :state "done")
                                                (efrit-test-plan-task "c" :children
                                                                      (vector (efrit-test-plan-task "d")))))))
    (efrit-test-plan 'amend :step 3 :number 1 :text "Also")
    (let* ((history (alist-get 'value (efrit-test-plan 'history)))
           (commits (alist-get 'commits history)))
      (should (equal (mapcar #'car history)
                     '(plan uid intent amendments environment firstTree tree totals commits)))
      (should (equal (alist-get 'amendments history) '(((number . 1) (text . "Also")))))
      (should (equal (mapcar (lambda (commit) (alist-get 'kind commit)) commits)
                     '("begin" "act" "adapt" "amend")))
      (should (equal (alist-get 'work (nth 1 commits))
                     '((files . 1) (insertions . 2) (deletions . 0))))
      (should (equal (alist-get 'outcome (nth 1 commits)) "Success"))
      (let ((tasks (alist-get 'tasks (nth 2 commits))))
        (should (equal (mapcar (lambda (task) (alist-get 'id task)) (alist-get 'changed tasks))
                       '("a" "c" "d")))
        (should (equal (alist-get 'removed tasks) '("b"))))
      (should (equal (mapcar (lambda (commit) (alist-get 'step commit))
                             (efrit-test-plan-get (efrit-test-plan 'history :limit 2) 'value 'commits))
                     '(2 3))))))

(ert-deftest efrit-plan-a-long-history-travels-packed ()
  (efrit-test-with-plan
    (efrit-test-plan-begin :tree `((value . ,(efrit-test-plan-tree
                                              (efrit-test-plan-task "a" :description (make-string 30000 ?x))))))
    (let ((answer (efrit-json-parse (efrit-plan-history (efrit-test-plan-arguments nil)))))
      (should (equal (mapcar #'car answer) '(packed)))
      (should (equal (alist-get 'plan (efrit-plan-json-payload `((history . ,answer)) 'history)) "p")))))

;;;; Changes by hand

(ert-deftest efrit-plan-a-commit-by-hand-at-the-head-stops-the-plan-with-advice ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (let ((step (alist-get 'hash (efrit-test-plan-act 1))))
      (efrit-test-plan-work "mine" "1\n")
      (efrit-test-plan-git "add" "-A")
      (efrit-test-plan-git "commit" "-q" "-m" "By hand")
      (dolist (call (list #'efrit-test-plan-look (lambda () (efrit-test-plan-adapt 2))
                          #'efrit-test-plan-begin))
        (let ((said (efrit-test-plan-error 'efrit-plan-changed call)))
          (should (string-search "was changed by hand" said))
          (should (string-search (concat "reset --soft " (substring step 0 12)) said))))
      ;; What is advised helps, and loses nothing.
      (efrit-test-plan-git "reset" "-q" "--soft" (substring step 0 12))
      (efrit-test-plan-adapt 2)
      (should (equal (efrit-test-plan-read "environment/mine") "1\n")))))

(ert-deftest efrit-plan-the-advised-command-can-be-pasted-where-the-directory-has-a-space ()
  (efrit-test-with-plan
    (let* ((efrit-workspace-directory (concat efrit-workspace-directory "my work/"))
           (efrit-test-plan-root (concat efrit-workspace-directory "plans/p/")))
      (make-directory efrit-workspace-directory)
      (efrit-test-plan-begin)
      (efrit-test-plan-act 1)
      (efrit-test-plan-work "mine" "1\n")
      (efrit-test-plan-git "add" "-A")
      (efrit-test-plan-git "commit" "-q" "-m" "By hand")
      (let ((said (efrit-test-plan-error 'efrit-plan-changed #'efrit-test-plan-look)))
        (should (string-match "`\\(git [^']+\\)'" said))
        (should (equal (call-process-shell-command (match-string 1 said)) 0))
        (efrit-test-plan-adapt 2)))))

(ert-deftest efrit-plan-a-commit-by-hand-further-back-is-only-shown ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (efrit-test-plan-git "commit" "-q" "--allow-empty" "-m" "By hand")
    (efrit-test-plan-git "commit" "-q" "--allow-empty" "-m"
                         "[a] ACT: x\n\nEfrit-Plan: u-1\nEfrit-Step: 1\nEfrit-Kind: act\nEfrit-Task: a")
    (let ((position (efrit-test-plan-look)))
      (should (equal (mapcar (lambda (commit) (alist-get 'step commit)) (alist-get 'commits position))
                     '(0 nil 1)))
      (should (equal (efrit-test-plan-get position 'totals 'steps) 1)))))

(ert-deftest efrit-plan-what-a-hand-did-to-intent-and-tree-is-thrown-away ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (let ((project (efrit-test-plan-read "user_intent/project.json")))
      (efrit-test-plan-write "user_intent/project.json" "{}")
      (efrit-test-plan-write "user_intent/amendments/0007.json" "{}")
      (efrit-test-plan-write "working_plan/extra" "x")
      (efrit-test-plan-git "add" "-A")
      (efrit-test-plan-write "working_plan/more/extra" "x")
      (efrit-test-plan-work "mine" "1\n")
      (efrit-test-plan-act 1)
      (should (equal (efrit-test-plan-read "user_intent/project.json") project))
      (should (equal (efrit-test-plan-git "ls-files")
                     "environment/mine\nuser_intent/project.json\nworking_plan/current.json"))
      (should-not (file-exists-p (concat efrit-test-plan-root "working_plan/more"))))))

(ert-deftest efrit-plan-a-lost-index-is-made-anew ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (efrit-test-plan-work "a" "1\n")
    (efrit-test-plan-act 1)
    (dolist (index '(nil "" "DIRC garbage"))
      (let ((path (concat efrit-test-plan-root ".git/index")))
        (delete-file path)
        (when index (write-region index nil path nil 'silent)))
      (let ((step (1+ (alist-get 'step (efrit-test-plan-look)))))
        (efrit-test-plan-work "a" (format "%d\n" step))
        (should (equal (alist-get 'changed (efrit-test-plan-act step)) '("a")))
        (should (equal (efrit-test-plan-git "status" "--porcelain") ""))))))

(ert-deftest efrit-plan-a-damaged-repository-is-reported-as-such ()
  (efrit-test-with-plan
    (efrit-test-plan-begin)
    (let ((head (efrit-test-plan-git "rev-parse" "HEAD")))
      (let ((path (concat efrit-test-plan-root ".git/objects/" (substring head 0 2) "/" (substring head 2))))
        (set-file-modes path #o600)
        (write-region "" nil path nil 'silent)))
    (should (string-search "The repository is damaged. `git fsck'"
                           (efrit-test-plan-error 'efrit-plan-git-failed #'efrit-test-plan-look)))))

(provide 'efrit-plan-test)
;;; efrit-plan-test.el ends here
