"""The calculator that the example builds: what each act writes into `environment/`, wrong turns included.

Emacs Lisp, because every Emacs image can run it: `emacs -Q --batch -L . -l sums.el -f sums-main '2.5 * (1 + 3)'`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Files = Mapping[str, str]

TESTS = "emacs -Q --batch -L . $(printf -- '-l %s ' test-*.el) -f ert-run-tests-batch-and-exit"
COMPILES = (
    "emacs -Q --batch -L . --eval '(setq byte-compile-error-on-warn t)' -f batch-byte-compile sums*.el; "
    "code=$?; rm -f sums*.elc; exit $code"
)
RUNS = "emacs -Q --batch -L . -l sums.el -f sums-main '2.5 * (1 + 3)'"


def _reader(number: str, more: str = "", value: str = "string-to-number", signs: str = "-+*/()") -> str:
    return f""";;; sums-read.el --- Sums as numbers and signs  -*- lexical-binding: t -*-
{more}
(defun sums-read (text)
  "Return the numbers and signs (as characters) of the sum TEXT."
  (let ((at 0) found)
    (while (string-match "\\\\`[ ]*\\\\(?:\\\\({number}\\\\)\\\\|\\\\([{signs}]\\\\)\\\\)" (substring text at))
      (let ((rest (substring text at)))
        (push (if (match-string 1 rest) ({value} (match-string 1 rest)) (aref (match-string 2 rest) 0)) found)
        (setq at (+ at (match-end 0)))))
    (when (string-match-p "[^ ]" text at) (error "No number or sign: %s" (substring text at)))
    (nreverse found)))

(provide 'sums-read)
;;; sums-read.el ends here
"""


def _tests(about: str, feature: str, *pairs: tuple[str, str]) -> str:
    shoulds = "\n  ".join(f"(should (equal {form} {expected}))" for form, expected in pairs)
    return f""";;; test-{about}.el --- Tests  -*- lexical-binding: t -*-
(require 'ert)
(require '{feature})

(ert-deftest {about} ()
  {shoulds})
"""


NUMBERS: Files = {
    "sums-read.el": _reader("[0-9]+"),
    "test-numbers.el": _tests(
        "numbers", "sums-read", ('(sums-read "12+ 3")', "'(12 ?+ 3)"), ('(sums-read "(1)/2")', "'(?\\( 1 ?\\) ?/ 2)")
    ),
}

_DECIMAL = "[0-9]*\\\\.?[0-9]+"
_TEST_DECIMALS = _tests(
    "decimals", "sums-read", ('(sums-read "2.5")', "'(2.5)"), ('(sums-read "7*.5")', "'(7 ?* .5)")
)


def _with_calc(value: str, body: str = "") -> Files:
    more = f'\n(defun {value} (text)\n  "Return TEXT as a number."\n  {body})' if body else ""
    return {"sums-read.el": _reader(_DECIMAL, f"(require 'calc){more}", value), "test-decimals.el": _TEST_DECIMALS}


DECIMALS_BY_CALC: Sequence[tuple[Files, str]] = (
    (_with_calc("calc-eval"), "calc-eval answers with text, not with a number."),
    (_with_calc("sums--raw", "(calc-eval text 'raw)"), "Raw numbers of Calc are lists such as (float 25 -1)."),
    (_with_calc("math-read-number"), "math-read-number gives the same lists."),
    (
        _with_calc("sums--first", "(car (calc-eval (list text)))"),
        "An answer in a list is the place and words of an error, or nothing.",
    ),
    (
        _with_calc("sums--whole", "(truncate (string-to-number (calc-eval text)))"),
        "Cut to whole numbers the fraction is lost: Calc is the wrong tool.",
    ),
)
"""Each attempt, and what the navigator makes of it."""

DECIMALS_BY_HAND: Files = {"sums-read.el": _reader(_DECIMAL)}

_HEAD = """;;; sums-reckon.el --- What a sum comes to  -*- lexical-binding: t -*-
(require 'sums-read)

(defconst sums-signs '((?+ . +) (?- . -) (?* . *) (?/ . sums-divided))
  "The function of each sign.")

(defun sums-divided (a b)
  "Return A divided by B."
  (/ (float a) b))
"""
_FOOT = """
(provide 'sums-reckon)
;;; sums-reckon.el ends here
"""
_LEFT_TO_RIGHT = """
(defun sums-reckon (text)
  "Return what the sum TEXT comes to."
  (let* ((tokens (sums-read text)) (value (pop tokens)))
    (while tokens
      (setq value (funcall (cdr (assq (pop tokens) sums-signs)) value (pop tokens))))
    value))
"""
_PRODUCTS_FIRST = """
(defvar sums--tokens nil "What is left of the sum.")

(defun sums--chain (signs part)
  "Return what a chain of PARTs with SIGNS between them comes to."
  (let ((value (funcall part)))
    (while (memq (car sums--tokens) signs)
      (setq value (funcall (cdr (assq (pop sums--tokens) sums-signs)) value (funcall part))))
    value))

(defun sums--product ()
  "Return what the product that comes next is."
  (sums--chain '(?* ?/) #'sums--part))

(defun sums--sum ()
  "Return what the sum that comes next is."
  (sums--chain '(?+ ?-) #'sums--product))

(defun sums-reckon (text)
  "Return what the sum TEXT comes to."
  (let ((sums--tokens (sums-read text)))
    (prog1 (sums--sum)
      (when sums--tokens (error "Not understood: %S" sums--tokens)))))
"""
_PART = """
(defun sums--part ()
  "Return the number that comes next."
  (pop sums--tokens))
"""
_PART_WITH_BRACKETS = """
(defun sums--part ()
  "Return the number or the sum in brackets that comes next."
  (let ((token (pop sums--tokens)))
    (if (eq token ?\\()
        (prog1 (sums--sum)
          (unless (eq (pop sums--tokens) ?\\)) (error "A bracket is not closed")))
      token)))
"""
_PRECEDENCE = (
    ('(sums-reckon "1 + 2 * 3")', "7"),
    ('(sums-reckon "8 - 2 - 1")', "5"),
    ('(sums-reckon "3 / 2")', "1.5"),
)
_BRACKETS = (('(sums-reckon "2.5 * (1 + 3)")', "10.0"), ('(sums-reckon "((4))")', "4"))

RECKONED_AT_ONCE: Sequence[tuple[Files, str]] = (
    (
        {
            "sums-reckon.el": f"{_HEAD}{_LEFT_TO_RIGHT}{_FOOT}",
            "test-reckon.el": _tests("reckon", "sums-reckon", *_PRECEDENCE, *_BRACKETS),
        },
        "From left to right is wrong: products come before sums.",
    ),
    (
        {"sums-reckon.el": f"{_HEAD}{_PRODUCTS_FIRST}{_PART}{_FOOT}"},
        "Brackets are not read; two things at once are too much for one step.",
    ),
)
PRODUCTS_FIRST: Files = {
    "sums-reckon.el": f"{_HEAD}{_PRODUCTS_FIRST}{_PART}{_FOOT}",
    "test-reckon.el": _tests("reckon", "sums-reckon", *_PRECEDENCE),
}
WITH_BRACKETS: Files = {
    "sums-reckon.el": f"{_HEAD}{_PRODUCTS_FIRST}{_PART_WITH_BRACKETS}{_FOOT}",
    "test-brackets.el": _tests("brackets", "sums-reckon", *_BRACKETS),
}
COMMAND_LINE: Files = {
    "sums.el": """;;; sums.el --- A calculator for the command line  -*- lexical-binding: t -*-
(require 'sums-reckon)

(defun sums-main ()
  "Print what the sum on the command line comes to."
  (princ (format "%g\\n" (sums-reckon (pop command-line-args-left)))))

(provide 'sums)
;;; sums.el ends here
"""
}
REMAINDERS: Files = {
    "sums-read.el": _reader(_DECIMAL, signs="-+*/%()"),
    "sums-reckon.el": f"{_HEAD}{_PRODUCTS_FIRST}{_PART_WITH_BRACKETS}{_FOOT}".replace(
        "(?* . *)", "(?* . *) (?% . mod)"
    ).replace("'(?* ?/)", "'(?* ?/ ?%)"),
    "test-remainders.el": _tests(
        "remainders", "sums-reckon", ('(sums-reckon "7 % 3")', "1"), ('(sums-reckon "1 + 9 % 5 * 2")', "9")
    ),
}
