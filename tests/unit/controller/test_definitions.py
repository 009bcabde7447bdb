"""definitions.py: a missing definition is one line of the log, with what brings it back."""

from __future__ import annotations

import logging

import pytest

from efrit.controller.definitions import Definitions
from efrit.resources import POOLS


def test_a_missing_definition_is_logged_once_with_what_brings_it_and_once_more_when_it_is_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    definitions = Definitions()
    with caplog.at_level(logging.INFO, "efrit"):
        for _ in range(2):
            definitions.missing(POOLS)
        for _ in range(2):
            definitions.served(POOLS)

    missing, there = caplog.messages
    # What kubectl has applied over a release is a conflict for its next upgrade.
    assert missing.index("`helm upgrade`") < missing.index("crds.install=false") < missing.index("kubectl apply")
    assert "crd-files/efrit.dev_efritpools.yaml" in missing
    assert there == "the CustomResourceDefinition efritpools.efrit.dev is there by now"
