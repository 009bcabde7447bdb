"""Every step of the protocol on the volume, and each of: killed before, killed after, an I/O error, no space.

On a real bridge and a real Emacs, which are restarted as in a pod. Whatever the fault: each request gets one answer,
runs no more often than it may, and nothing is left behind; and the service goes on by itself.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from efrit.protocol import RequestReason
from tests.chaos.storage.phases import PHASES, SECONDS, Harness
from tests.chaos.storage.recording import WatchedInstance
from tests.chaos.storage.replay import leftovers
from tests.chaos.storage.steps import StepFault, faults_at, known_steps, steps
from tests.support.bridge_instance import until
from tests.support.faults.file_shim.shim import Action, FileShim

STEP_FAULTS = faults_at(known_steps())
KILLS = (Action.KILL_BEFORE, Action.KILL_AFTER)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def harness(scratch: Path, lisp: Path) -> Iterator[Harness]:
    place = scratch / "faults/instance"
    shim = FileShim(scratch / "faults/chaos", place / "volume", place / "workspace")
    # Heartbeats are steps too: with few of them, what comes next is known.
    env = {"EFRIT_HEARTBEAT_SECONDS": "60"}
    instance = WatchedInstance(place, lisp, {**shim.environment, **env})
    instance.volume.mkdir()
    try:
        instance.start_bridge()
        instance.start_emacs()
        yield Harness(instance, shim)
    finally:
        instance.stop()


@pytest.fixture(autouse=True)
def nothing_left_running(harness: Harness) -> Iterator[None]:
    """Clear what a failed test has left, so that it does not fail the next."""
    yield
    harness.shim.clear()
    harness.finish_all()


@pytest.mark.parametrize("phase", PHASES)
def test_every_recorded_step_has_its_faults(harness: Harness, phase: str) -> None:
    harness.exact = True
    act = PHASES[phase](harness)
    since = harness.shim.size
    act()
    recorded = steps(phase, harness.shim.operations(since), harness.instance.place)
    settle(harness, killed=False)
    assert recorded
    assert set(recorded) <= set(known_steps()), "add to known_steps.txt: " + ", ".join(
        str(step) for step in recorded if step not in known_steps()
    )


@pytest.mark.parametrize("step_fault", STEP_FAULTS, ids=str)
def test_a_fault_at_a_step_of_the_protocol(harness: Harness, step_fault: StepFault) -> None:
    step = step_fault.step
    harness.exact = step.path.endswith("tmp/bridge_*") and step.kind in ("create", "write")
    act = PHASES[step.phase](harness)
    harness.shim.arm(
        step_fault.action,
        step.operation,
        f"{harness.instance.place}/{step.path}",
        program=step.programs,
        number=step_fault.number,
        skip=step.nth,
    )
    try:
        act()
        if not step.mark:
            # What is done for tidiness comes after the answer that was waited for.
            until(harness.shim.hits, SECONDS)
    finally:
        harness.shim.clear()
    settle(harness, killed=step_fault.action in KILLS and step.program == "emacs")


def settle(harness: Harness, *, killed: bool) -> None:
    """End what runs, and judge every request since the last time."""
    for rid, reason in list(harness.expected.items()):
        response = harness.finish(rid)
        begun, allowed = harness.begun(rid), harness.allowed.pop(rid)
        if response.reason is not reason:
            assert killed, f"{rid}: {response.reason}: {response.error}"
            assert response.reason is RequestReason.INTERRUPTED
        if response.reason is RequestReason.SUCCEEDED:
            assert begun >= 1
        assert begun <= allowed
        harness.acknowledge(rid)
        del harness.expected[rid]
        answers = list(harness.instance.queue.rglob(f"resp_{rid}.json"))
        assert len(answers) <= 1
    until(lambda: not orphans(harness), SECONDS)


def orphans(harness: Harness) -> list[str]:
    """Return files without a place, but for temporary ones, which the next start of their owner removes."""
    names = [name for name in leftovers(harness.instance.queue) if not name.startswith(("tmp/bridge_", "tmp/emacs_"))]
    return names + [path.name for path in (harness.instance.workspace / ".efrit").rglob("*.part")]


def test_a_restart_sweeps_what_the_faults_have_left(harness: Harness) -> None:
    one = harness.instance
    one.kill_bridge()
    one.start_bridge()
    harness.put(rid := harness.name(RequestReason.INTERRUPTED), "(kill-emacs)")
    harness.answer(rid)
    harness.allowed[rid] = 1
    settle(harness, killed=False)
    until(lambda: not leftovers(one.queue), SECONDS)
