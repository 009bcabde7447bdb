"""What is refused before it is parsed."""

import tracemalloc

import pytest

from efrit.errors import InvalidResponse
from efrit.protocol import Response
from efrit.protocol.json_limits import MAX_PARTS, exceeds_part_limit
from efrit.queue.observe import facts_of

MANY = 1 << 17
HEAVY = {
    "lists": b'{"x":[' + b"[]," * MANY + b"1]}",
    "objects": b'{"x":[' + b'{"a":1},' * MANY + b"1]}",
    "numbers": b'{"x":[' + b"1," * MANY + b"1]}",
    "strings": b'{"x":[' + b'"",' * MANY + b"1]}",
    "brackets": b"[" * MANY,
    "members": b"{" + b'"":1,' * MANY + b'"":1}',
}
LIGHT = {
    "one string": b'{"content":"' + b"[{,}]" * MANY + b'"}',
    "escaped quotes": b'{"content":"' + rb"\"," * MANY + b'"}',
    "a string that does not end": b'{"content":"' + rb"\"," * MANY,
    "a backslash at the end": b'{"content":"' + b"," * MANY + b"\\",
    "spaces": b" " * MANY,
}


@pytest.mark.parametrize("name", HEAVY)
def test_a_text_of_very_many_values_is_too_heavy(name: str) -> None:
    assert exceeds_part_limit(HEAVY[name])


@pytest.mark.parametrize("name", LIGHT)
def test_a_text_that_is_long_only_in_its_strings_is_not(name: str) -> None:
    assert not exceeds_part_limit(LIGHT[name])


def test_as_many_parts_as_are_allowed_may_come() -> None:
    assert not exceeds_part_limit(b"," * MAX_PARTS)
    assert exceeds_part_limit(b"," * (MAX_PARTS + 1))


@pytest.mark.parametrize("name", HEAVY)
def test_reading_a_heavy_file_costs_no_memory(name: str) -> None:
    tracemalloc.start()
    try:
        assert facts_of(HEAVY[name]).id is None
        with pytest.raises(InvalidResponse, match="parts"):
            Response.parse(HEAVY[name])
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
