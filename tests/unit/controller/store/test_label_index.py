"""store/label_index.py: the same keys as a comparison with the labels of every object gives."""

from __future__ import annotations

import pytest

from efrit.controller.store.label_index import LabelIndex

ONE, TWO, THREE = ("team", "one"), ("team", "two"), ("other", "three")


@pytest.fixture
def labels() -> LabelIndex:
    made = LabelIndex()
    made.put(ONE, {"pool": "a", "size": "big"})
    made.put(TWO, {"pool": "a"})
    made.put(THREE, {"pool": "a", "size": "big"})
    return made


def test_an_object_matches_that_has_all_the_labels(labels: LabelIndex) -> None:
    assert labels.matching("team", {"pool": "a"}) == [ONE, TWO]
    assert labels.matching("team", {"pool": "a", "size": "big"}) == [ONE]
    assert labels.matching("team", {"pool": "a", "size": "small"}) == []
    assert labels.matching("team", {}) == [ONE, TWO]
    assert labels.matching("nowhere", {"pool": "a"}) == []


def test_labels_that_change_or_go_match_no_more(labels: LabelIndex) -> None:
    labels.put(ONE, {"pool": "b"})
    labels.put(TWO, None)
    labels.put(TWO, None)

    assert labels.matching("team", {"pool": "a"}) == []
    assert labels.matching("team", {"pool": "b"}) == [ONE]


def test_nothing_is_kept_of_what_is_gone(labels: LabelIndex) -> None:
    for key in (ONE, TWO, THREE):
        labels.put(key, None)

    assert vars(labels) == vars(LabelIndex())
