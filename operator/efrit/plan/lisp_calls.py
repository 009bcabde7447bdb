"""Calls of the functions of efrit-plan.el: the Lisp form that is sent, and the JSON in the value that comes back.

Pure. Long values are packed (gzip, base64). efrit-plan.el documents the functions.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

from efrit.errors import InvalidPlanRecord
from efrit.protocol.json_limits import exceeds_part_limit

LONGEST_PLAIN = 20_000
"""Characters of a JSON text beyond which it is packed."""

_MAX_UNPACKED = 8 * 1024 * 1024
"""Bytes of a value that is packed: as many tasks as a tree may have, with the longest descriptions."""
_STRING = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)
_FORM = re.compile(rf"\(efrit-plan-[a-z-]+ ({_STRING.pattern})\)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
# Emacs 28 reads neither in a JSON text.
_UNREADABLE = re.compile("[\0\ud800-\udfff]")


def form(function: str, arguments: Mapping[str, Any]) -> str:
    """Return the Lisp form that calls `efrit-plan-FUNCTION` with these arguments."""
    text = json.dumps(_require_readable(arguments), ensure_ascii=False, separators=(",", ":"))
    return f'(efrit-plan-{function} "{_escaped(text)}")'


def is_call_of(function: str, content: str) -> bool:
    """Return whether the content of a request calls `efrit-plan-FUNCTION`."""
    return content.startswith(f"(efrit-plan-{function} ")


def arguments_of(content: str) -> dict[str, Any]:
    """Return the arguments in a form that `form` made. Raises `InvalidPlanRecord`."""
    match = _FORM.fullmatch(content)
    if match is None:
        raise InvalidPlanRecord("The request is not a call of efrit-plan.el.")
    return value_of(match[1])


def value_of(result: str) -> dict[str, Any]:
    """Return the JSON object in a result: a Lisp string as `prin1` writes it. Raises `InvalidPlanRecord`."""
    match = _STRING.fullmatch(result.strip())
    if match is None:
        raise InvalidPlanRecord(f"The answer is not a Lisp string: {result[:80]!r}.")
    value = _parsed(_unescaped(match[1]))
    if not isinstance(value, dict):
        raise InvalidPlanRecord("The answer is not a JSON object.")
    return value


def packed(text: str) -> dict[str, Any]:
    """Return the JSON text as it is sent, the same each time: `{"value": …}` or, if long, `{"packed": …}`."""
    value = json.loads(text)
    if len(text) <= LONGEST_PLAIN:
        return {"value": value}
    data = json.dumps(_require_readable(value), ensure_ascii=False, separators=(",", ":")).encode()
    return {"packed": base64.b64encode(gzip.compress(data, mtime=0)).decode()}


def unpacked(payload: object) -> Any:
    """Return the JSON value in `{"value": …}` or `{"packed": …}`. Raises `InvalidPlanRecord`."""
    match payload:
        case {"value": value}:
            return value
        case {"packed": str(data)}:
            return _parsed(_unzipped(data))
    raise InvalidPlanRecord("A value of the answer is neither plain nor packed.")


def _unzipped(data: str) -> str:
    try:
        stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        text = stream.decompress(base64.b64decode(data, validate=True), _MAX_UNPACKED)
        if not stream.eof:
            raise InvalidPlanRecord("A packed value is truncated, or larger than 8 MiB.")
        if exceeds_part_limit(text):
            raise InvalidPlanRecord("A packed value has more parts than a plan.")
        return text.decode()
    except (ValueError, zlib.error) as error:
        raise InvalidPlanRecord(f"A packed value cannot be read: {error}.") from None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidPlanRecord(f"The answer is not JSON: {error}.") from None


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _unescaped(text: str) -> str:
    # In large pieces: a tree has ten thousand quotes. `print-escape-newlines` may be set by whoever prints.
    pieces = (piece.replace('\\"', '"').replace("\\n", "\n").replace("\\f", "\f") for piece in text.split("\\\\"))
    return "\\".join(_ESCAPED.sub(r"\1", piece) if "\\" in piece else piece for piece in pieces)


def _require_readable(value: Any) -> Any:
    if isinstance(value, str):
        return _UNREADABLE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {_require_readable(key): _require_readable(member) for key, member in value.items()}
    return [_require_readable(member) for member in value] if isinstance(value, list | tuple) else value
