"""How much is played: a choice that covers each thing, or with CHAOS_EVERYTHING=1 every thing with every other."""

from __future__ import annotations

import os

EVERYTHING = bool(os.environ.get("CHAOS_EVERYTHING"))
