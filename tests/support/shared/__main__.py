"""Requests of three hosts at one queue, one of which is frozen and one killed meanwhile; fails if one ran twice.

python -m tests.support.shared [REQUESTS [MEMORY [TAKEOVER]]]        by default 1000 requests, 3 and 15 seconds
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.support.command_line import parser
from tests.support.shared.hosts import Site, play, violations
from tests.support.shared.program import available


def main(requests: int, memory: float, takeover: float) -> int:
    """Play it and print what came of it; return the exit status."""
    if not available():
        print("a host takes root, /dev/fuse and Go", file=sys.stderr)
        return 77
    directory = Path(tempfile.mkdtemp(prefix="efrit-hosts-"))
    site = Site(directory, memory, takeover)
    began = time.monotonic()
    try:
        answers = play(site, requests)
        wrong = violations(site, answers)
        runs = {number for word, _, number in site.notes() if word == "begin"}
        reasons = ", ".join(f"{count} {reason}" for reason, count in Counter(a["reason"] for a in answers).items())
    finally:
        site.close()
        shutil.rmtree(directory, ignore_errors=True)
    print(f"{requests} requests of 3 hosts in {time.monotonic() - began:.0f} s; memory {memory:g} s")
    print(f"{reasons}; {len(runs)} Emacsen, one after the other")
    print("\n".join(wrong) or "each ran once")
    return 1 if wrong else 0


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("requests", type=int, nargs="?", default=1000)
    arguments.add_argument("memory", type=float, nargs="?", default=3, help="in seconds")
    arguments.add_argument("takeover", type=float, nargs="?", default=15, help="in seconds")
    options = arguments.parse_args()
    sys.exit(main(options.requests, options.memory, options.takeover))
