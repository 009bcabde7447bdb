"""`python -m efrit.bridge.reference PAGE`: writes the table of settings into a page, from the settings themselves."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from msgspec import Meta, structs

from efrit.bridge.settings import Settings
from efrit.environment import PREFIX

BEGIN = "<!-- `make docs` writes this table from operator/efrit/bridge/settings.py -->\n"
END = "<!-- end of the settings -->\n"


def with_settings(page: str) -> str:
    """Return the page with the table of now. Raises `ValueError` where it has no place for one."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no lines {BEGIN.strip()} and {END.strip()}")
    return "".join([before, begin, "\n", *_table(), "\n", end, after])


def _table() -> Iterator[str]:
    yield "| variable | default | meaning |\n|---|---|---|\n"
    for field in structs.fields(Settings):
        (meaning,) = [part.description for part in get_args(field.type)[1:] if isinstance(part, Meta)]
        yield f"| `{PREFIX}{field.name.upper()}` | {_default(field.default)} | {meaning} |\n"


def _default(value: Any) -> str:
    if value in (None, False, ""):
        return "unset"
    return str(value) if isinstance(value, int | float) else f"`{value}`"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    text = with_settings(path.read_text(encoding="utf-8"))
    Path(sys.argv[-1]).write_text(text, encoding="utf-8")
