"""How things look: tables for people, JSON and YAML for programs, names for pipes. Writes to standard output only."""

from __future__ import annotations

import json
import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from efrit.backend.printed import unquoted as unquoted
from efrit.cli.color import painted_cell
from efrit.cli.exit_codes import Exit
from efrit.cli.streams import printable
from efrit.cli.terminal_text import display_width, sanitized_line

if TYPE_CHECKING:
    from efrit.backend.interface import Removed, Started, Stopped
    from efrit.backend.pools import Scaled, Undone


def json_value(value: Any) -> Any:
    """Return `value` in JSON types: structures as objects, times as RFC 3339."""
    if isinstance(value, Struct):
        items = {name: json_value(getattr(value, name)) for name in value.__struct_fields__}
        # Keys of a later version's answer, which the wire carries along.
        items |= items.pop("extra", {})
        # A request's handle is its name.
        handle = items.pop("handle", None)
        return {"name": handle["id"], "instance": handle["instance"], **items} if handle else items
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    return value


def name_of(value: Any) -> str:
    """Return the name of a request, a plan, an instance, or of an object that describes one."""
    handle = getattr(value, "handle", None)
    named = handle.id if handle is not None else None
    return str(
        named
        or getattr(value, "name", None)
        or getattr(value, "id", None)
        or getattr(value, "instance", None)
        or getattr(value, "subject", "")
    )


def write(kind: str, value: Any) -> None:
    """Print `value`, or each item of a list, in the format of -o."""
    if kind == "name":
        for item in value if isinstance(value, list | tuple) else [value]:
            print(printable(name_of(item)))
    elif kind == "json":
        # What the locale cannot show must stay JSON.
        unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        text = json.dumps(json_value(value), indent=2, ensure_ascii=not unicode)
        print(_UNPRINTED.sub(_escaped, text) if sys.stdout.isatty() else text)
    else:
        import yaml

        print(printable(yaml.safe_dump(json_value(value), sort_keys=False, allow_unicode=True)), end="")


def print_outcome(args: Namespace, done: Started | Stopped | Removed | Scaled | Undone) -> Exit:
    """Print what was done to the object that the command line names, in the format of -o or as its message."""
    if args.output in ("json", "yaml"):
        write(args.output, done)
    else:
        print(args.name if args.output else printable(args.invocation.in_text(done.message)))
    return Exit.DONE


# JSON escapes the other control characters itself. These move the cursor of some terminals, or turn text around.
_UNPRINTED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, colored: bool = False) -> str:
    """Return columns under their heads, like kubectl's; the last one is not padded. States may be coloured.

    Text written by others cannot move the cursor: control characters become spaces.
    """
    cells = [list(head), *([_cell(value) for value in row] for row in rows)]
    widths = [max(display_width(row[column]) for row in cells) for column in range(len(head))]
    lines = []
    for number, row in enumerate(cells):
        padded = [cell + " " * (width - display_width(cell)) for cell, width in zip(row, widths, strict=True)]
        padded[-1] = padded[-1].rstrip()
        shown = [painted_cell(cell) for cell in padded] if colored and number else padded
        lines.append("   ".join(shown).rstrip())
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    return sanitized_line(str(value))


def age_text(seconds: float | None) -> str:
    """Return a duration in one or two units, as kubectl prints ages."""
    if seconds is None:
        return "-"
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole}s"
    if whole < 7200:
        return f"{whole // 60}m{whole % 60}s" if whole < 600 else f"{whole // 60}m"
    if whole < 172_800:
        return f"{whole // 3600}h"
    return f"{whole // 86_400}d"


def duration_text(seconds: float | None) -> str | None:
    """Return a duration to about three digits."""
    if seconds is None:
        return None
    return (
        f"{seconds * 1000:.3g}ms" if seconds < 0.9995 else f"{seconds:.1f}s" if seconds < 120 else age_text(seconds)
    )


def shortened(text: str | None, limit: int = 60) -> str:
    """Return the beginning of `text` on one line, at most `limit` characters."""
    line = " ".join((text or "").split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
