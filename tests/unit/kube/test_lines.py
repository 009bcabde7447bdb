"""kube/lines.py: lines come whole, wherever the body is cut."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from efrit.kube.lines import lines_of

BODY = b"one\n\ntwo two\nthree"


async def cut(body: bytes, size: int) -> AsyncIterator[bytes]:
    for begin in range(0, len(body), size):
        yield body[begin : begin + size]


@pytest.mark.parametrize("size", range(1, len(BODY) + 1))
@pytest.mark.parametrize("end", [b"", b"\n"], ids=["an open end", "an end"])
async def test_lines_are_the_same_wherever_the_body_is_cut(size: int, end: bytes) -> None:
    assert [line async for line in lines_of(cut(BODY + end, size))] == [b"one", b"", b"two two", b"three"]


async def test_a_line_may_be_as_long_as_it_may_and_no_longer() -> None:
    assert [line async for line in lines_of(cut(b"1234\n12", 2), 4)] == [b"1234", b"12"]
    with pytest.raises(ValueError, match="more than 4 bytes"):
        assert [line async for line in lines_of(cut(b"12345", 2), 4)]
