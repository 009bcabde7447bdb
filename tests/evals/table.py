"""The table of evals: what each form must end with, and that the next one is answered rightly.

The rows are in *.toml here. tests/integration/bridge plays them behind a bridge, on Emacs 28 and 30, and
images/emacs/test/efrit-eval-table-test.el those on an Emacs alone whose end is decided by who supervises it. As a
program this prints the latter as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

NEXT = '(progn (print "é") (message "said") (list 40 2 (emacs-pid)))'
"""The eval after each one; its value is (40 2 PID)."""
NEXT_OUTPUT = '\n"é"\n'
NEXT_MESSAGES = "said\n"
ENDS = "ends-"
"""What the names of the rows begin with that are about the end of Emacs."""


@dataclass(frozen=True)
class Eval:
    """One row: a form and what its answer must have; None where anything will do.

    contains: a part of the result, or of the error where there is one. timeout: in seconds, 0 for the default.
    ends: whether Emacs is replaced; it must not be otherwise.
    """

    name: str
    form: str
    reason: str = "Succeeded"
    result: str | None = None
    contains: str | None = None
    error_code: str | None = None
    output: str | None = None
    output_part: str | None = None
    messages: str | None = None
    messages_part: str | None = None
    bytes: int | None = None
    truncated: bool = False
    timeout: float = 0.0
    ends: bool = False

    def differences(self, answer: Mapping[str, object]) -> list[str]:
        """Return in which members ANSWER, a response as JSON, is not what the row says."""
        exact = {
            "reason": self.reason,
            "result": self.result,
            "error_code": self.error_code,
            "output": self.output,
            "messages": self.messages,
            "result_bytes": self.bytes,
            "truncated": self.truncated,
        }
        different = [name for name, value in exact.items() if value is not None and answer[name] != value]
        parts = {"output": self.output_part, "messages": self.messages_part}
        parts["result" if self.reason == "Succeeded" else "error"] = self.contains
        return different + [name for name, part in parts.items() if part and part not in str(answer[name])]


def read() -> list[Eval]:
    """Return the rows of all files, in their order."""
    rows = []
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        evals = tomllib.loads(path.read_text("utf-8"))["evals"]
        rows += [Eval(name=f"{path.stem}-{number}", **row) for number, row in enumerate(evals, 1)]
    return rows


def supervised() -> list[Eval]:
    """Return the rows whose end is up to who supervises Emacs, with those beside them, which prepare and look."""
    rows = read()
    decided = [row.name.startswith(ENDS) or row.ends or row.timeout > 0 for row in rows]
    return [row for number, row in enumerate(rows) if any(decided[max(0, number - 1) : number + 2])]


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    json.dump([asdict(row) for row in supervised()], sys.stdout)
