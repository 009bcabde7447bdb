"""The table of settings in the bridge's page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from efrit.bridge.reference import BEGIN, END, with_settings


class Settings(Struct):
    """One setting for each kind of default."""

    needed: Annotated[int, Meta(description="a or `b|c`")]
    host: Annotated[str, Meta(description="m")] = ""
    port: Annotated[int | None, Meta(description="m")] = None
    rests: Annotated[bool, Meta(description="m")] = False
    speaks: Annotated[bool, Meta(description="m")] = True
    pause: Annotated[float, Meta(description="m")] = 0.0
    most: Annotated[int, Meta(description="m")] = 0
    place: Annotated[Path, Meta(description="m")] = Path("/a|b")


def test_each_default_is_what_the_variable_would_be_set_to() -> None:
    table = with_settings(f"{BEGIN}{END}", Settings)
    rows = [line.removeprefix("| `EFRIT_").removesuffix(" |") for line in table.splitlines() if "`EFRIT_" in line]
    assert rows == [
        r"NEEDED` | required | a or `b\|c`",
        "HOST` | unset | m",
        "PORT` | unset | m",
        "RESTS` | unset | m",
        "SPEAKS` | `1` | m",
        "PAUSE` | 0.0 | m",
        "MOST` | 0 | m",
        r"PLACE` | `/a\|b` | m",
    ]
