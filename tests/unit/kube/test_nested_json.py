"""kube/nested_json.py: JSON of any depth is read, without what is within more than a hundred others."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from efrit.kube import nested_json
from efrit.kube.client import json_of
from efrit.kube.listing import Listing
from efrit.kube.nested_json import BRACKETS_PER_TURN, MAX_DEPTH, decoded, flattened
from efrit.kube.watch import follow_events
from tests.unit.kube.test_watch import Response

TOO_DEEP = 9000
"""The API server takes ten thousand levels."""


def nested(depth: int, kind: str = "object", inner: str = '"}]\\""') -> str:
    """Return JSON of this depth whose text has brackets, too."""
    begin, end = ('{"f:a":', "}") if kind == "object" else ("[", "]")
    return begin * depth + inner + end * depth


def document(depth: int, kind: str = "object") -> bytes:
    fields = f'{{"fieldsV1":{nested(depth, kind)}}}'
    return f'{{"metadata":{{"name":"one","managedFields":[{fields}]}},"after":[1,{{"b":"\\\\"}}]}}'.encode()


def depth_of(value: Any) -> int:
    deepest, level = 0, [value]
    while level:
        deepest += 1
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
        ]
    return deepest


@pytest.mark.parametrize("kind", ["object", "list"])
@pytest.mark.parametrize("depth", [1000, TOO_DEEP])
async def test_an_object_that_is_nested_too_deeply_is_read_without_what_is_too_deep(kind: str, depth: int) -> None:
    with pytest.raises(RecursionError):
        msgspec.json.decode(document(depth, kind))

    obj = await decoded(document(depth, kind))

    assert obj["metadata"]["name"] == "one"
    assert obj["after"] == [1, {"b": "\\"}]
    assert depth_of(obj) == MAX_DEPTH + 1


async def test_an_object_of_usual_depth_stays_as_it_is() -> None:
    assert await decoded(document(MAX_DEPTH * 2)) == json.loads(document(MAX_DEPTH * 2))
    assert await flattened(document(MAX_DEPTH * 2)) == document(MAX_DEPTH * 2)


@pytest.mark.parametrize("data", [b"[" * TOO_DEEP, b"]" * TOO_DEEP, b'{"a":' + b"[" * TOO_DEEP + b"]}"])
async def test_what_is_no_json_is_no_json_at_any_depth(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|truncated"):
        await decoded(data)


_VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='[]{}"\\,:a\n', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='[]{}"\\', max_size=4), inner),
)


@given(_VALUES)
def test_brackets_in_texts_are_none(value: Any) -> None:
    many: list[list[int]] = [[]] * nested_json.READABLE_DEPTH

    assert json.loads(asyncio.run(flattened(json.dumps([value, many]).encode()))) == [value, many]


async def test_others_have_their_turn_while_many_brackets_are_read() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await flattened(b"[" + b"[]," * (5 * BRACKETS_PER_TURN) + b"[]]")
    task.cancel()

    assert turns == 10


async def test_one_object_that_is_nested_too_deeply_hides_no_other_of_a_list() -> None:
    page = b'{"metadata":{"resourceVersion":"7"},"items":[%b,{"metadata":{"name":"two"}}]}' % document(TOO_DEEP)

    async def fetch(*_: object) -> bytes:
        return page

    assert [obj["metadata"]["name"] async for obj in Listing(fetch)] == ["one", "two"]


async def test_one_object_that_is_nested_too_deeply_ends_no_watch() -> None:
    line = b'{"type":"ADDED","object":%b}\n'
    response = Response(line % document(TOO_DEEP) + line % b'{"metadata":{"name":"two"}}')

    events = follow_events(cast("aiohttp.ClientResponse", response))

    assert [obj["metadata"]["name"] async for _, obj in events] == ["one", "two"]


async def test_the_answer_to_a_call_may_be_nested_deeply() -> None:
    assert (await json_of(document(TOO_DEEP)))["metadata"]["name"] == "one"
