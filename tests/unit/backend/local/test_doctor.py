"""What `efrit doctor` says of the key of the model's API, and of an Emacs that runs and does nothing."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from efrit.backend.interface import Finding
from efrit.backend.local import doctor
from efrit.backend.local.doctor import examine
from efrit.backend.local.settings import LocalInstance, LocalSettings, load, load_named
from efrit.protocol import from_epoch, rfc3339
from tests.support.file_modes import modes_hold
from tests.support.timeout import TIMEOUT


def model_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: bytes) -> Finding:
    """Return what is said of a model whose key file holds `key`."""
    file = tmp_path / "key"
    file.write_bytes(key)
    monkeypatch.setenv("EFRIT_MODEL_NAME", "some-model")
    monkeypatch.setenv("EFRIT_MODEL_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("EFRIT_MODEL_API_KEY_FILE", str(file))
    settings = LocalSettings(tmp_path / "none.toml")
    return next(finding for finding in examine(settings) if finding.subject == "model")


@pytest.mark.parametrize("key", [b"", b"x", b"test\n", b"sk-1234\r\n"])
def test_a_key_that_emacs_refuses_for_its_length_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: bytes
) -> None:
    finding = model_finding(tmp_path, monkeypatch, key)
    assert not finding.ok
    assert finding.detail == f"the key in {tmp_path / 'key'} has fewer than 8 characters"


def test_a_key_of_eight_characters_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # With it the model is asked, which nobody answers for here.
    assert "does not answer" in model_finding(tmp_path, monkeypatch, b"sk-12345\n").detail


def make_queue(queue: Path) -> None:
    for name in ("tmp", "requests", "processing", "responses", "archive", "control", "progress", "sessions"):
        (queue / name).mkdir(parents=True)


def instance_finding(tmp_path: Path, pid: int, silent: float = 0.0, **fields: object) -> Finding:
    """Return the finding for an instance whose heartbeat, `silent` seconds old, has `fields`."""
    queue = tmp_path / "queue"
    make_queue(queue)
    beat = {"boot": "b", "pid": pid, "time": rfc3339(from_epoch(time.time() - silent)), "emacs_version": "30.1"}
    (queue / "heartbeat").write_text(json.dumps({**beat, **fields}))
    return finding_of(tmp_path)


def finding_of(tmp_path: Path) -> Finding:
    one = LocalInstance("one", tmp_path / "queue", "efrit-one", tmp_path)
    settings = LocalSettings(tmp_path / "none.json", {"one": one})
    return next(finding for finding in examine(settings) if finding.subject == "instance one")


def test_a_queue_that_cannot_be_made_is_found_before_the_first_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(queue: Path) -> Finding:
        one = LocalInstance("one", queue, "efrit-one", tmp_path)
        return next(f for f in examine(LocalSettings(tmp_path / "none.json", {"one": one})) if "one" in f.subject)

    file = tmp_path / "file"
    file.touch()
    assert of(tmp_path / "a/queue").ok
    for queue in (file, file / "queue"):
        finding = of(queue)
        assert (finding.ok, finding.detail) == (False, f"{queue} cannot be made: {file} is not a directory")
    # Root may write everywhere but to a file system that is mounted read-only.
    monkeypatch.setattr(os, "access", lambda place, mode: place != tmp_path)
    finding = of(tmp_path / "a/queue")
    assert (finding.ok, finding.detail) == (
        False,
        f"{tmp_path / 'a/queue'} cannot be made: {tmp_path} may not be written",
    )


def test_an_emacs_in_good_order_is_called_so(
    tmp_path: Path, look_alike: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_SILENT_SECONDS", TIMEOUT)
    finding = instance_finding(tmp_path, look_alike)
    assert (finding.ok, finding.detail) == (True, f"Emacs 30.1 runs as {look_alike}: 0 wait, 0 run")


@pytest.mark.parametrize(
    ("make", "problem", "remedy"),
    [
        (lambda path: path.touch(mode=0), "cannot be read: Permission denied", "chmod u+r /"),
        (lambda path: path.mkdir(), "is not an ordinary file", "an Emacs that runs replaces it"),
        (lambda path: path.symlink_to("elsewhere"), "is not an ordinary file", "an Emacs that runs replaces it"),
    ],
    ids=["mode", "directory", "link"],
)
def test_of_a_heartbeat_that_cannot_be_read_doctor_says_that_it_does_not_know(
    tmp_path: Path, make: Callable[[Path], None], problem: str, remedy: str
) -> None:
    heartbeat = tmp_path / "queue/heartbeat"
    make_queue(heartbeat.parent)
    make(heartbeat)
    with modes_hold():
        finding = finding_of(tmp_path)
    assert (finding.ok, finding.detail) == (
        False,
        f"it is not known whether an Emacs serves the queue: {heartbeat} {problem}",
    )
    assert finding.remedy.startswith(remedy)


def test_an_emacs_that_is_silent_while_nothing_runs_is_not_called_good(
    tmp_path: Path, look_alike: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A heartbeat from before its Emacs began, but for a little, is that of another.
    monkeypatch.setattr(doctor, "_SILENT_SECONDS", 1.0)
    finding = instance_finding(tmp_path, look_alike, silent=1.5)
    assert not finding.ok
    assert re.fullmatch(rf"Emacs {look_alike} has been silent for \d+ s", finding.detail)
    assert finding.remedy == "efrit stop one"


def test_a_form_past_its_time_that_does_not_stop_is_named(tmp_path: Path, look_alike: int) -> None:
    began = rfc3339(from_epoch(time.time() - 60))
    finding = instance_finding(tmp_path, look_alike, current="deaf", timeout=30, started=began)
    assert not finding.ok
    assert re.fullmatch(r"the request deaf is \d+ s past its time limit and does not stop", finding.detail)
    assert finding.remedy == "efrit cancel deaf"


def test_a_missing_configuration_file_that_was_named_is_found(tmp_path: Path) -> None:
    (finding,) = (
        finding for finding in examine(load_named(tmp_path / "x.json")) if finding.subject == "configuration"
    )
    assert not finding.ok
    assert finding.detail == f"there is no {tmp_path / 'x.json'}"


def test_keys_that_another_program_reads_are_found_to_have_no_effect(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    queue = str(tmp_path / "queue")
    path.write_text(json.dumps({"instances": {"a": {"queue_dir": queue, "max_concurrent": 5}}, "log_level": "info"}))
    findings = [finding for finding in examine(load(path)) if finding.subject == "configuration" and not finding.ok]
    assert [(finding.detail, finding.remedy) for finding in findings] == [
        (f"{path}: the key 'log_level' has no effect", "remove it"),
        (f"{path}: the key 'instances.a.max_concurrent' has no effect", "remove it"),
    ]


def test_of_very_many_keys_without_effect_the_first_are_found_and_the_rest_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    entries = {f"i{number}": {"max_concurrent": 5} for number in range(100)}
    path.write_text(json.dumps({"instances": entries}))
    findings = [finding for finding in examine(load(path)) if finding.subject == "configuration" and not finding.ok]
    assert len(findings) == 21
    assert findings[-1].detail == f"{path}: 80 more keys have no effect"


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        (b"#!/bin/sh\nexit 0\n", "{0} does not say which Emacs it is"),
        (b"#!/bin/sh\nprintf 'an editor of \\351\\n'\n", "{0} does not say which Emacs it is"),
        (b"no program\n", "{0} cannot be run: Exec format error"),
        (b"#!/no/such/shell\n", "{0} cannot be run: No such file or directory"),
    ],
    ids=["silent", "not UTF-8", "a text", "without its interpreter"],
)
def test_a_program_that_is_not_emacs_is_one_finding_of_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: bytes, problem: str
) -> None:
    file = tmp_path / "emacs"
    file.write_bytes(program)
    file.chmod(0o700)
    monkeypatch.setenv("EFRIT_EMACS", str(file))
    findings = {finding.subject: finding for finding in examine(LocalSettings(tmp_path / "none.json"))}
    assert (findings["Emacs"].ok, findings["Emacs"].detail) == (False, problem.format(file))
    assert findings["Emacs Lisp"].ok
