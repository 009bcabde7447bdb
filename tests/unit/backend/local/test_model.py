"""The settings of a model on this machine, and what an answer to a probe means."""

import asyncio
import os
from pathlib import Path

import pytest

from efrit.backend.errors import NoEmacs
from efrit.backend.local.backend import LocalBackend
from efrit.backend.local.model import differences, settings_in
from efrit.backend.local.model_probe import key_problem, probe, probe_finding


def test_only_the_variables_of_the_model_that_are_set_count() -> None:
    environment = {"EFRIT_MODEL_NAME": "m", "EFRIT_MODEL_PROXY": "", "EFRIT_CONFIG": "c", "PATH": "p"}
    assert settings_in(environment) == {"EFRIT_MODEL_NAME": "m"}


@pytest.mark.parametrize(
    ("theirs", "mine", "expected"),
    [
        ({}, {}, ""),
        ({"EFRIT_MODEL_NAME": "m"}, {}, ""),
        ({"EFRIT_MODEL_NAME": "m"}, {"EFRIT_MODEL_NAME": "m"}, ""),
        ({}, {"EFRIT_MODEL_NAME": "m"}, "EFRIT_MODEL_NAME is m here and unset there"),
        ({"EFRIT_MODEL_NAME": "a"}, {"EFRIT_MODEL_NAME": "b"}, "EFRIT_MODEL_NAME is b here and a there"),
    ],
)
def test_a_difference_is_what_the_caller_has_set_otherwise(
    theirs: dict[str, str], mine: dict[str, str], expected: str
) -> None:
    assert differences(theirs, mine) == expected


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(401, "EFRIT_MODEL_API_KEY_FILE"), (404, "EFRIT_MODEL_BASE_URL"), (400, "EFRIT_MODEL_NAME"), (529, "later")],
)
def test_a_refusal_of_the_model_says_what_to_change(status: int, remedy: str) -> None:
    finding = probe_finding("m", "http://x", status, '{"error": {"message": "No such thing"}}')
    assert (finding.ok, finding.detail) == (False, f"http://x answers {status}: No such thing")
    assert remedy in finding.remedy


def test_an_answer_that_is_no_json_is_shown_as_it_is() -> None:
    assert (
        probe_finding("m", "http://x", 502, "<html>\nBad  gateway").detail
        == "http://x answers 502: <html> Bad gateway"
    )


def test_a_key_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    environment = {"EFRIT_MODEL_NAME": "m", "EFRIT_MODEL_API_KEY_FILE": str(tmp_path / "key")}
    assert probe(environment).detail == f"the key in {tmp_path / 'key'} cannot be read: No such file or directory"
    (tmp_path / "key").write_text("\n")
    assert "has fewer than 8 characters" in probe(environment).detail
    (tmp_path / "key").write_text("a text of words")
    assert "holds no key" in probe(environment).detail
    (tmp_path / "key").write_text("sk-test-key")
    finding = probe(environment | {"EFRIT_MODEL_BASE_URL": "http://model.example.invalid"})
    assert "the key is not sent" in finding.detail
    assert "https" in finding.remedy


def test_a_key_file_that_is_missing_is_reported_by_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("EFRIT_CONFIG", raising=False)
    monkeypatch.setenv("EFRIT_EMACS", str(tmp_path / "no-emacs"))
    monkeypatch.setenv("EFRIT_MODEL_API_KEY_FILE", str(tmp_path / "key"))
    notices: list[str] = []
    with pytest.raises(NoEmacs):
        asyncio.run(LocalBackend.configured(None, notices.append).start("default"))
    assert notices == [
        f"default cannot ask a model: the key in {tmp_path / 'key'} cannot be read: No such file or directory; "
        "correct EFRIT_MODEL_API_KEY_FILE"
    ]


def test_a_start_reports_nothing_of_a_key_that_is_usable_or_not_set_and_reads_no_pipe(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("sk-12345\n")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert key_problem({}) is None
    assert key_problem({"EFRIT_MODEL_API_KEY_FILE": str(key)}) is None
    assert key_problem({"EFRIT_MODEL_API_KEY_FILE": str(pipe)}) is None
