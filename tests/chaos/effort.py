"""How much is tested: a selection that covers each case, or with CHAOS_EVERYTHING=1 all combinations."""

from __future__ import annotations

import os

EVERYTHING = bool(os.environ.get("CHAOS_EVERYTHING"))
