"""The clock of a pod is set wrong by an hour, and right again: work is answered, and Emacs stays the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from efrit.protocol import RequestReason, RequestState
from tests.support.bridge_instance import Instance, until
from tests.support.faults.file_shim.shim import FileShim

HOUR = 3600


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clocks")


@pytest.fixture(scope="module")
def loaded_shim(place: Path) -> FileShim:
    return FileShim(place / "shim", place / "pod" / "queue")


@pytest.fixture
def shim(loaded_shim: FileShim) -> Iterator[FileShim]:
    """Return the shim of the instance, whose clock is right before and after each test."""
    yield loaded_shim
    loaded_shim.set_clock(0)


@pytest.fixture(scope="module")
def instance(place: Path, lisp: Path, loaded_shim: FileShim) -> Iterator[Instance]:
    with Instance(place / "pod", lisp, env=loaded_shim.environment) as made:
        yield made


def heartbeat(instance: Instance) -> bytes:
    return (instance.queue / "heartbeat").read_bytes()


def until_it_beats(instance: Instance) -> None:
    before = heartbeat(instance)
    until(lambda: heartbeat(instance) != before)


@pytest.mark.parametrize("hours", [-1, 1])
def test_an_idle_emacs_gives_signs_of_life_when_its_clock_is_set(
    instance: Instance, shim: FileShim, hours: int
) -> None:
    pid = instance.emacs_pid()
    for offset in (hours * HOUR, 0):
        shim.set_clock(offset)
        for _ in range(3):
            until_it_beats(instance)
    until(instance.ready)
    assert instance.emacs_pid() == pid


@pytest.mark.parametrize("hours", [-1, 1])
def test_work_is_answered_when_the_clock_is_set(instance: Instance, shim: FileShim, hours: int) -> None:
    shim.set_clock(hours * HOUR)
    assert instance.eval(f"while-wrong-by-{hours}", "1").result == "1"
    shim.set_clock(0)
    assert instance.eval(f"right-again-by-{hours}", "2").result == "2"


@pytest.mark.parametrize("hours", [-1, 1])
def test_the_time_of_running_work_does_not_depend_on_the_clock(
    instance: Instance, shim: FileShim, hours: int
) -> None:
    name = f"endless-by-{hours}"
    instance.put(name, "(while t)", options={"timeout": 2})
    # On a slow machine it is over before anybody has seen it run.
    until(lambda: instance.view(name).state is not RequestState.QUEUED)
    shim.set_clock(hours * HOUR)
    response = instance.answer(name)
    assert response.reason is RequestReason.TIMED_OUT
    assert response.execution_time >= 0
