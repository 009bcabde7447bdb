"""Settings from the environment: what is read, what is ignored, what is said about a wrong one."""

from __future__ import annotations

from typing import Annotated

import pytest
from msgspec import Meta

from efrit.environment import FromEnvironment
from efrit.errors import ConfigurationError


class Sample(FromEnvironment, frozen=True, kw_only=True):
    needed: str
    port: Annotated[int, Meta(ge=1)] = 1


def test_a_field_is_read_from_its_variable() -> None:
    assert Sample.load({"EFRIT_NEEDED": "x", "EFRIT_PORT": "8"}) == Sample(needed="x", port=8)


def test_an_empty_variable_is_an_unset_one() -> None:
    assert Sample.load({"EFRIT_NEEDED": "x", "EFRIT_PORT": ""}).port == 1


def test_other_variables_are_ignored() -> None:
    assert Sample.load({"EFRIT_NEEDED": "x", "EFRIT_OTHER": "y", "PORT": "9"}).port == 1


def test_what_is_wrong_is_said_of_every_variable_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Sample.load({"EFRIT_PORT": "0"})
    assert "EFRIT_NEEDED: it must be set" in str(caught.value)
    assert "EFRIT_PORT: Expected int >= 1" in str(caught.value)


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFRIT_NEEDED", "from the process")
    assert Sample.load().needed == "from the process"
