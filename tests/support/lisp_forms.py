"""Lisp that tests have Emacs evaluate."""

from __future__ import annotations

NEVER_ENDS = '(while t (call-process "sleep" nil nil nil "1"))'
"""Keeps Emacs from all else as `(while t)` does, and a signal ends it as one ends that; it takes no processor.

A test of what a loop does otherwise has the loop.
"""
