"""How long a test waits for what will come. It waits for conditions: a test that passes never takes this long."""

from __future__ import annotations

import os

TIMEOUT = float(os.environ.get("EFRIT_TEST_TIMEOUT", "180"))
"""In seconds. Long, because a busy machine is slow; the Lisp tests have the same (efrit-test-queue.el)."""
