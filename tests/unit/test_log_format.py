"""What others wrote forges no line of a log."""

from __future__ import annotations

import io
import logging

import pytest

from efrit.log_format import LAYOUT, OneLineFormatter

EVIL = "sorry\n2025-01-03 18:30:00 ERROR   efrit.controller: the cluster is lost\r\x1b[2J\u2028\x85x"


def logged(record: logging.LogRecord) -> list[str]:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(OneLineFormatter(LAYOUT))
    handler.emit(record)
    return out.getvalue().splitlines()


def record(message: str, *, error: Exception | None = None) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error is not None else None
    return logging.LogRecord("efrit", logging.INFO, __file__, 1, "the bridge says %s", (message,), info)


def test_a_message_is_one_line() -> None:
    (line,) = logged(record(EVIL))
    assert line.isprintable()
    assert r"sorry\n2025-01-03" in line


def test_a_traceback_has_no_line_that_looks_like_a_record() -> None:
    with pytest.raises(ValueError, match="sorry") as raised:
        raise ValueError(EVIL)
    first, *rest = logged(record("?", error=raised.value))
    assert rest
    assert all(line.startswith("    ") and line.isprintable() for line in rest), rest
    assert first.endswith("?")


def test_text_of_any_language_stays_readable() -> None:
    (line,) = logged(record("Grüße, 世界"))
    assert line.endswith("the bridge says Grüße, 世界")
