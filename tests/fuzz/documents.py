"""Bytes that look like the wire's JSON and are not quite: what hypothesis feeds to every reader.

Written as text, not dumped from values: what a serializer never writes (twice the same key, 1e999, NaN, half a
surrogate pair, a byte-order mark) is what is wanted. Strategies only, no reader is called here.
"""

import json

from hypothesis import strategies as st

WILD_NUMBERS = (
    "0", "-0", "-0.0", "-1", "1.5", "1e308", "-1e308", "1e999", "-1e999", "1e-999", "NaN", "Infinity", "-Infinity",
    "9007199254740993", "9223372036854775808", "-9223372036854775809", "4194305", "1" * 400, "1" * 4300,
    "1" * 4301, "1" * 20_000, "253402300800", "-62135596801", "1e11",
)  # fmt: skip

WILD_STRINGS = (
    '""', '"."', '".."', '"../x"', '"a/b"', '"a\\u0000b"', '"\\ud800"', '"\\udc00\\ud800"', '"\\ud83d\\ude00"',
    '"a\\nb"', '"\x01"', '"\x7f"', '"\ufeff"', '"\u202e"', json.dumps("x" * 129), json.dumps("y" * 5000),
    '"9999-12-31T23:59:59.999999-23:59"', '"0001-01-01T00:00:00+23:59"', '"9999-12-31T23:59:59.999999Z"',
    '"0001-01-01T00:00:00Z"', '"2026-02-30T00:00:00Z"', '"2026-01-01T00:00:60Z"', '"2026-01-01"',
    '"2026-01-03T18:30:00.000Z"',
)  # fmt: skip


def _deep(depth: int) -> str:
    return "[" * depth + "]" * depth


numbers = st.sampled_from(WILD_NUMBERS) | st.integers(-(10**20), 10**20).map(str) | st.floats().map(repr)
strings = st.sampled_from(WILD_STRINGS) | st.text(max_size=30).map(json.dumps)
plain = st.sampled_from(("null", "true", "false", "{}", "[]")) | numbers | strings
nested = st.sampled_from((50, 199, 201, 1000, 20_000)).map(_deep) | st.integers(1, 300).map(
    lambda depth: '{"a":' * depth + "1" + "}" * depth
)


def _members(pairs: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{key}:{value}" for key, value in pairs) + "}"


values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: "[" + ",".join(parts) + "]")
        | st.lists(st.tuples(strings, inner), max_size=3).map(_members)
    ),
    max_leaves=6,
)

# Most of what is nested deep is refused at once: a little of it is enough.
wild = st.sampled_from([values] * 9 + [nested]).flatmap(lambda chosen: chosen)


def objects(usual: dict[str, str]) -> st.SearchStrategy[bytes]:
    """Objects with the members `usual` (name to JSON text), of which some are wild, missing, doubled or joined."""
    keys = st.sampled_from(sorted(usual)).map(json.dumps) | strings
    changes = st.lists(st.tuples(keys, wild), max_size=4)
    dropped = st.sets(st.sampled_from(sorted(usual)), max_size=2)

    def build(parts: tuple[list[tuple[str, str]], set[str]]) -> bytes:
        extra, missing = parts
        members = [(json.dumps(key), value) for key, value in usual.items() if key not in missing]
        return _members(members + extra).encode("utf-8", "surrogatepass")

    return st.tuples(changes, dropped).map(build)


@st.composite
def mangled(draw: st.DrawFn, usual: dict[str, str]) -> bytes:
    """`objects(usual)` as a broken writer leaves them: cut, joined, re-encoded, with bytes that are not UTF-8."""
    data = draw(objects(usual))
    match draw(
        st.sampled_from(("as is", "as is", "cut", "flip", "bom", "utf-16", "latin", "twice", "padded", "junk"))
    ):
        case "cut":
            return data[: draw(st.integers(0, len(data)))]
        case "flip":
            at = draw(st.integers(0, max(len(data) - 1, 0)))
            return data[:at] + draw(st.binary(min_size=1, max_size=3)) + data[at + 1 :]
        case "bom":
            return b"\xef\xbb\xbf" + data
        case "utf-16":
            return data.decode("utf-8", "replace").encode("utf-16")
        case "latin":
            return data.replace(b"}", b'\xe9"}', 1)
        case "twice":
            return data + data
        case "padded":
            return b" \n\t" + data + b"\n\0\n"
        case "junk":
            return draw(st.binary(max_size=200))
    return data


REQUEST = {
    "version": '"1.0.0"',
    "id": '"a-1"',
    "type": '"eval"',
    "content": '"(+ 1 1)"',
    "options": '{"timeout":30,"return_context":true,"priority":1,"retry":"if-interrupted","max_attempts":3}',
    "timestamp": '"2026-01-03T18:30:00Z"',
    "instance_id": '"team/alpha"',
    "metadata": '{"name":"work","namespace":"team"}',
}

RESPONSE = {
    "id": '"a-1"',
    "version": '"1.0.0"',
    "timestamp": '"2026-01-03T18:30:00.250Z"',
    "status": '"success"',
    "result": '"2"',
    "error": "null",
    "execution_time": "0.25",
    "context": '{"buffers":["*scratch*"],"buffer_count":1,"point":1,"major_mode":"lisp-interaction-mode"}',
    "reason": '"Succeeded"',
    "outcome": '"Success"',
    "attempt": "1",
    "sha256": '"d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35"',
    "output": '""',
    "messages": '""',
    "truncated": "false",
    "result_bytes": "1",
    "result_path": "null",
    "error_code": "null",
    "started": '"2026-01-03T18:30:00.000Z"',
}

HEARTBEAT = {
    "boot": '"0123456789abcdef"',
    "pid": "4242",
    "time": '"2026-01-03T18:30:00.000Z"',
    "emacs_version": '"30.1"',
    "state": '"idle"',
    "problem": "null",
    "current": "null",
    "attempt": "null",
    "started": "null",
    "timeout": "null",
    "processed": "3",
    "succeeded": "2",
    "failed": "1",
    "interrupted": "0",
    "total_processing_seconds": "0.5",
}

STATS = {
    "queue_id": '"0123456789abcdef"',
    "pending": "1",
    "processing": "1",
    "unacknowledged": "0",
    "processed": "42",
    "succeeded": "38",
    "failed": "4",
    "interrupted": "1",
    "average_processing_seconds": "1.8",
    "oldest_pending_seconds": "0.4",
    "uptime_seconds": "60",
    "emacs": '{"alive":true,"responsive":true,"pid":17,"version":"30.1","boot":"0123456789abcdef"}',
}

VIEW = {
    "id": '"a-1"',
    "state": '"answered"',
    "attempt": "1",
    "queued_time": '"2026-01-03T18:30:00.000Z"',
    "started_time": '"2026-01-03T18:30:00.000Z"',
    "response": '{"id":"a-1","status":"success","result":"2"}',
    "response_bytes": "44",
    "metadata": '{"name":"work","namespace":"team"}',
}

RESET = {"queue_id": '"0123456789abcdef"', "epoch": '"0123456789ab"'}
