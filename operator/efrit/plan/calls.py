"""Calls of the functions of efrit-plan.el: the Lisp form that is sent, and the JSON in the value that comes back.

Pure. Long values travel packed (gzip, base64). What the functions do is told in efrit-plan.el.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

from efrit.errors import InvalidPosition

LONGEST_PLAIN = 20_000
"""Characters of a JSON text beyond which it travels packed."""

_MOST_UNPACKED = 64 * 1024 * 1024
_STRING = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)
_FORM = re.compile(rf"\(efrit-plan-[a-z-]+ ({_STRING.pattern})\)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
# Emacs 28 reads neither in a JSON text.
_UNREADABLE = re.compile("[\0\ud800-\udfff]")


def form(function: str, arguments: Mapping[str, Any]) -> str:
    """The Lisp form that calls `efrit-plan-FUNCTION` with these arguments."""
    text = json.dumps(_readable(arguments), ensure_ascii=False, separators=(",", ":"))
    return f'(efrit-plan-{function} "{_escaped(text)}")'


def arguments_of(content: str) -> dict[str, Any]:
    """The arguments in a form that `form` made. Raises `InvalidPosition`."""
    found = _FORM.fullmatch(content)
    if found is None:
        raise InvalidPosition("The request is no call of efrit-plan.el.")
    return value_of(found[1])


def value_of(result: str) -> dict[str, Any]:
    """The JSON object in a result: a Lisp string as `prin1` writes it. Raises `InvalidPosition`."""
    found = _STRING.fullmatch(result.strip())
    if found is None:
        raise InvalidPosition(f"The answer is no Lisp string: {result[:80]!r}.")
    value = _parsed(_unescaped(found[1]))
    if not isinstance(value, dict):
        raise InvalidPosition("The answer is no JSON object.")
    return value


def packed(text: str) -> dict[str, Any]:
    """The JSON text as it travels: `{"value": …}` or, where it is long, `{"packed": …}`; always the same."""
    value = json.loads(text)
    if len(text) <= LONGEST_PLAIN:
        return {"value": value}
    data = json.dumps(_readable(value), ensure_ascii=False, separators=(",", ":")).encode()
    return {"packed": base64.b64encode(gzip.compress(data, mtime=0)).decode()}


def unpacked(payload: object) -> Any:
    """The JSON value in `{"value": …}` or `{"packed": …}`. Raises `InvalidPosition`."""
    match payload:
        case {"value": value}:
            return value
        case {"packed": str(data)}:
            return _parsed(_unzipped(data))
    raise InvalidPosition("A value of the answer is neither plain nor packed.")


def _unzipped(data: str) -> str:
    try:
        stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        text = stream.decompress(base64.b64decode(data, validate=True), _MOST_UNPACKED)
        if not stream.eof:
            raise InvalidPosition("A packed value is cut off, or larger than 64 MiB.")
        return text.decode()
    except (ValueError, zlib.error) as error:
        raise InvalidPosition(f"A packed value cannot be read: {error}.") from None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidPosition(f"The answer is no JSON: {error}.") from None


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _unescaped(text: str) -> str:
    # In big steps: a tree has ten thousand quotes. `print-escape-newlines` may be set by whoever prints.
    plain = (each.replace('\\"', '"').replace("\\n", "\n").replace("\\f", "\f") for each in text.split("\\\\"))
    return "\\".join(_ESCAPED.sub(r"\1", each) if "\\" in each else each for each in plain)


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return _UNREADABLE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {_readable(key): _readable(each) for key, each in value.items()}
    return [_readable(each) for each in value] if isinstance(value, list | tuple) else value
