"""local/limits.py: a limit that Emacs would not understand is refused, not left out."""

from pathlib import Path

import pytest

from efrit.backend.errors import Refused
from efrit.backend.local.emacs_process import start
from efrit.backend.local.limits import PROTOCOL, check_limits, limit_in
from efrit.backend.local.queues import LocalQueues
from efrit.backend.local.settings import LocalInstance, LocalSettings

NUMBERS = ("EFRIT_MAX_TOOL_CALLS", "EFRIT_MAX_TIMEOUT", "EFRIT_ITERATION_TIMEOUT", "EFRIT_MAX_OF_A_LATER_VERSION")


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["0", "-5", "abc", "10s", "0.5", "1,000", "²", " 3"])
def test_what_is_no_whole_number_is_refused(name: str, value: str) -> None:
    with pytest.raises(Refused, match=f"{name} is .*which is not a valid limit") as refused:
        check_limits({name: value})
    assert "whole number" in str(refused.value.advice)


def test_numbers_and_what_is_not_set_are_taken() -> None:
    check_limits(dict.fromkeys(NUMBERS, "7") | {PROTOCOL: "elisp"})
    check_limits({NUMBERS[0]: "", PROTOCOL: ""})
    assert (limit_in({"EFRIT_MAX_TOKENS": "7"}, "EFRIT_MAX_TOKENS"), limit_in({}, "EFRIT_MAX_TOKENS")) == (7, None)
    with pytest.raises(Refused, match="EFRIT_MODEL_PROTOCOL is 'lisp'"):
        check_limits({PROTOCOL: "lisp"})


def test_no_daemon_is_started_with_such_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFRIT_MAX_TIMEOUT", "10s")
    one = LocalInstance("one", tmp_path / "queue", "efrit-one", tmp_path / "workspace")
    daemon = LocalQueues(LocalSettings(tmp_path / "config.json", {"one": one})).daemon("one")
    with pytest.raises(Refused, match="EFRIT_MAX_TIMEOUT"):
        start(daemon)
