"""`python -m tests.version_skew COMMIT [WORDS FOR PYTEST]`: an earlier build beside this one.

The tests of controller and bridge run twice: with a bridge of that commit (its Lisp and run-emacs too) beside this
commit's controller, and with a controller of that commit beside this commit's bridge. Resources and rights are those
of this commit, as after an upgrade or after a rollback of images. A test of what that commit did not have yet, or
did differently, fails: read them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.earlier_build import VARIABLE, Part, make

SUBJECTS = ("answers", "handover", "failures", "sessions", "deletion")
FILES = ["tests/version_skew", *(f"tests/integration/controller/test_{subject}.py" for subject in SUBJECTS)]


def main(words: list[str]) -> int:
    if words[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    if not words or not words[0] or words[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 64
    commit, *flags = words
    statuses = {}
    with TemporaryDirectory(prefix="efrit-earlier-") as directory:
        build = make(commit, Path(directory))
        for part in Part:
            print(f"== {part} of {commit}", flush=True)
            env = {**os.environ, VARIABLE: f"{part}={build.directory}"}
            statuses[part] = subprocess.run([sys.executable, "-m", "pytest", *FILES, *flags], env=env).returncode
    for part, status in statuses.items():
        print(f"{part} of {commit}: {'all passed' if status == 0 else f'pytest ended with {status}'}")
    return max(statuses.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
