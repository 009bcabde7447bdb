"""kube/json_pointer.py: a key may have the characters that pointers are made of."""

from __future__ import annotations

import pytest

from efrit.kube.json_pointer import json_pointer


@pytest.mark.parametrize(
    ("keys", "pointer"),
    [
        ((), ""),
        (("metadata", "uid"), "/metadata/uid"),
        (("metadata", "labels", "efrit.dev/pool"), "/metadata/labels/efrit.dev~1pool"),
        (("a~b", "~1", 0), "/a~0b/~01/0"),
    ],
)
def test_a_pointer_leads_to_each_key_whatever_is_in_it(keys: tuple[str | int, ...], pointer: str) -> None:
    assert json_pointer(*keys) == pointer
