"""The clock of a pod is set wrong by an hour, and right again: work is answered, and Emacs stays the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from efrit.protocol import Reason
from tests.chaos.storage.shim import Recorder
from tests.integration.bridge.rig import Instance, compiled_lisp, until

HOUR = 3600


@pytest.fixture(scope="module")
def lisp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_lisp(tmp_path_factory.mktemp("compiled") / "lisp")


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "shim", tmp_path / "pod" / "queue")


@pytest.fixture
def instance(tmp_path: Path, lisp: Path, recorder: Recorder) -> Iterator[Instance]:
    made = Instance(tmp_path / "pod", lisp, env=recorder.environment)
    try:
        made.start_bridge()
        made.start_emacs()
        yield made
    finally:
        made.stop()


def heartbeat(instance: Instance) -> bytes:
    return (instance.queue / "heartbeat").read_bytes()


def until_it_beats(instance: Instance) -> None:
    before = heartbeat(instance)
    until(lambda: heartbeat(instance) != before, 30)


@pytest.mark.parametrize("hours", [-1, 1])
def test_an_idle_emacs_gives_signs_of_life_when_its_clock_is_set(
    instance: Instance, recorder: Recorder, hours: int
) -> None:
    pid = instance.emacs_pid()
    for offset in (hours * HOUR, 0):
        recorder.set_clock(offset)
        for _ in range(3):
            until_it_beats(instance)
    assert instance.ready()
    assert instance.emacs_pid() == pid


@pytest.mark.parametrize("hours", [-1, 1])
def test_work_is_answered_when_the_clock_is_set(instance: Instance, recorder: Recorder, hours: int) -> None:
    recorder.set_clock(hours * HOUR)
    assert instance.eval("while-wrong", "1").result == "1"
    recorder.set_clock(0)
    assert instance.eval("right-again", "2").result == "2"


@pytest.mark.parametrize("hours", [-1, 1])
def test_the_time_of_running_work_does_not_depend_on_the_clock(
    instance: Instance, recorder: Recorder, hours: int
) -> None:
    instance.put("endless", "(while t)", options={"timeout": 2})
    instance.until_running("endless")
    recorder.set_clock(hours * HOUR)
    response = instance.answer("endless", 30)
    assert response.reason is Reason.TIMED_OUT
    assert response.execution_time >= 0
