"""What a new user does in the first half hour, in order: docs/first-half-hour.md and its picture are made of it.

Each part is a heading, a sentence and commands; mistakes belong to it. Pure; test_half_hour.py plays it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape

HOME = "/home/you"


@dataclass(frozen=True)
class Part:
    """A part of the half hour."""

    title: str
    text: str
    commands: tuple[str, ...]


PARTS = (
    Part(
        "The first answer",
        "The first eval starts an Emacs daemon. The next one finds it, and what was defined.",
        (
            "efrit eval '(+ 1 2)'",
            "efrit eval '(defun double (n) (* 2 n))'",
            "efrit eval '(double 21)'",
            "efrit instances",
        ),
    ),
    Part(
        "Files",
        "Work begins in the directory you are in, or in that of `-C`. It reads standard input, as most programs do.",
        (
            "mkdir notes; echo 'buy milk' > notes/today.txt",
            "efrit eval -C notes '(with-temp-buffer (insert-file-contents \"today.txt\") (buffer-string))'",
            "efrit eval -C notes --raw '(with-temp-buffer (insert-file-contents \"today.txt\") (buffer-string))'",
            'echo \'(length (directory-files "notes" nil "txt"))\' | efrit eval -',
        ),
    ),
    Part(
        "Mistakes",
        "What went wrong is on standard error, and in the exit code. The daemon goes on.",
        (
            "efrit eval '(car 1)'; echo \"exit code $?\"",
            "efrit eval '(+ 1 2'; echo \"exit code $?\"",
            "efrit eval --timeout 1 '(while t)'; echo \"exit code $?\"",
            'efrit wait nothing-like-it; echo "exit code $?"',
            "efrit eval '(double 4)'",
        ),
    ),
    Part(
        "Work that takes its time",
        "Hand it over now, wait for it later, from any terminal.",
        (
            "name=$(efrit submit '(progn (sleep-for 1) \"built\")')",
            'efrit wait "$name"',
            "name=$(efrit submit --timeout 600 '(while t)')",
            'efrit cancel "$name"',
            'efrit wait "$name"; echo "exit code $?"',
        ),
    ),
    Part(
        "A second Emacs",
        "Instances are separate daemons. One that is removed leaves nothing behind.",
        (
            "efrit start build",
            "efrit eval -i build '(fboundp (quote double))'",
            "efrit stop build",
            "efrit rm build --files",
        ),
    ),
    Part(
        "A model",
        "A chat needs a model. The daemon takes its settings from the environment it was started in. (The model of\n"
        "this transcript reads from a script.)",
        (
            "efrit chat 'Good day, who are you?'; echo \"exit code $?\"",
            "export EFRIT_MODEL_NAME=NAME-OF-THE-MODEL EFRIT_MODEL_BASE_URL=http://localhost:8080",
            "efrit chat 'Good day, who are you?'; echo \"exit code $?\"",
            "efrit restart default",
            "efrit chat 'Good day, who are you?'",
            "efrit command 'Tell me my favourite colour.'; echo \"exit code $?\"",
        ),
    ),
    Part(
        "From Python",
        "The same package is a library.",
        (
            "python3 -c 'from efrit.client import connect; print(connect().eval(\"(/ 1 0)\", check=False).reason)'",
            "python3 -c 'from efrit.client import connect; print(connect().eval(\"(+ 40 2)\").text)'",
        ),
    ),
    Part(
        "All is well",
        "`efrit doctor` checks everything, the model included.",
        ("efrit doctor", "efrit stop default"),
    ),
)

_HEAD = """\
# A new user's first half hour

<!-- Written by `make half-hour` from tests/integration/docs/half_hour.py; do not edit. -->

A machine on which nothing of Efrit was ever started: Efrit is installed as the [README](../README.md#on-your-machine)
says, and Emacs is there. Below are the commands and everything they print, in order. When something goes wrong on
yours, see [laptop.md](laptop.md).
"""


def page(printed: dict[str, list[str]]) -> str:
    """Return the page; `printed` has what each command of each part printed, by the part's title."""
    parts = (
        f"## {part.title}\n\n{part.text}\n\n```console\n{transcript(part, printed[part.title])}```\n"
        for part in PARTS
    )
    return "\n".join([_HEAD, *parts])


def transcript(part: Part, printed: list[str]) -> str:
    """Return a part as a terminal shows it."""
    lines = []
    for command, output in zip(part.commands, printed, strict=True):
        lines.append(f"$ {command}\n{output}{'' if not output or output.endswith(chr(10)) else chr(10)}")
    return "".join(lines)


_VOLATILE = (
    (re.compile(r"efrit_\d+_[0-9a-f]+"), "REQUEST"),
    # What has another number of digits has other blanks beside it, in a table.
    (re.compile(r"\d+(\.\d+)*(?:[mµn]?s|m|h)?\b"), "N"),
    (re.compile(r"[ \t]+"), " "),
    # Whether it ran yet when it was cancelled is chance.
    (re.compile(r": (Cancelled|cancel requested)$|(while it ran|before it ran)$", re.M), ": cancelled"),
)


def comparable(text: str) -> str:
    """Return a text without what differs from run to run: numbers, times, names made by chance, widths of columns."""
    for pattern, replacement in _VOLATILE:
        text = pattern.sub(replacement, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


_WIDTH, _LINE, _PADDING, _COLUMNS = 860, 19, 18, 96


def picture(text: str) -> str:
    """Return a transcript as an SVG picture of a terminal; longer lines are cut at its edge."""
    lines = text.splitlines()
    height = 2 * _PADDING + _LINE * len(lines)
    rows = []
    for number, line in enumerate(lines):
        y = _PADDING + _LINE * (number + 1) - 5
        shown = line if len(line) <= _COLUMNS else line[: _COLUMNS - 1] + "…"
        prompt = shown.startswith("$ ")
        fill = "#f0f0f0" if prompt else "#9fd49f"
        rows.append(f'  <text x="{_PADDING}" y="{y}" fill="{fill}" xml:space="preserve">{escape(shown)}</text>\n')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" role="img">\n'
        "  <title>The first commands of a new user, with their answers</title>\n"
        f'  <rect width="{_WIDTH}" height="{height}" rx="8" fill="#1e2227"/>\n'
        '  <g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">\n'
        f"{''.join(rows)}  </g>\n</svg>\n"
    )
