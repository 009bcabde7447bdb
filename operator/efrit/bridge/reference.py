"""`python -m efrit.bridge.reference PAGE [COPY]`: writes the table of settings into a page, or a copy of it.

With COPY the page stays as it is, and COPY is the page with the table of now, which is made from the settings.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from msgspec import Meta, Struct, structs

from efrit.bridge.settings import Settings
from efrit.environment import PREFIX

BEGIN = "<!-- `make docs` writes this table from operator/efrit/bridge/settings.py -->\n"
END = "<!-- end of the settings -->\n"


def with_settings(page: str, settings: type[Struct] = Settings) -> str:
    """Return the page with the table of now. Raises `ValueError` where it has no place for one."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no lines {BEGIN.strip()} and {END.strip()}")
    return "".join([before, begin, "\n", *_table(settings), "\n", end, after])


def _table(settings: type[Struct]) -> Iterator[str]:
    yield "| variable | default | meaning |\n|---|---|---|\n"
    for field in structs.fields(settings):
        (meaning,) = [part.description for part in get_args(field.type)[1:] if isinstance(part, Meta)]
        default = "required" if field.required else _default(field.default)
        cells = [text.replace("|", r"\|") for text in (default, str(meaning))]
        yield f"| `{PREFIX}{field.name.upper()}` | {cells[0]} | {cells[1]} |\n"


def _default(value: Any) -> str:
    """Return a default as the variable would say it."""
    if value is None or value is False or value == "":
        return "unset"
    if value is True:
        return "`1`"
    return str(value) if isinstance(value, int | float) else f"`{value}`"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    text = with_settings(path.read_text(encoding="utf-8"))
    Path(sys.argv[-1]).write_text(text, encoding="utf-8")
