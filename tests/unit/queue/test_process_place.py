"""Where this process is, as heartbeats are compared with it."""

from __future__ import annotations

from efrit.queue import process_place
from efrit.queue.process_place import here
from tests.support.descriptors import no_descriptors


def test_where_this_process_is_can_be_read_after_it_could_not_be_once() -> None:
    process_place._exactly_here.cache_clear()
    with no_descriptors():
        assert not here().exact
    assert here().exact
    assert here() is here()
