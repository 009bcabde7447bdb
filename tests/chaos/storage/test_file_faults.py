"""Every step of the protocol on the volume, and each of: killed before, killed after, an I/O error, no room.

On a real bridge and a real Emacs, which are started again as the pod would. Whatever the fault: each request gets one
answer, runs no more often than it may, and nothing is left behind; and the service goes on by itself.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from efrit.protocol import Reason
from tests.chaos.storage.phases import PHASES, SECONDS, Bench
from tests.chaos.storage.recording import WatchedInstance
from tests.chaos.storage.replay import leftovers
from tests.chaos.storage.steps import Plan, known, plans, steps
from tests.support.bridge_instance import until
from tests.support.faults.file_shim.shim import Action, FileShim

PLANS = plans(known())
KILLS = (Action.KILL_BEFORE, Action.KILL_AFTER)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def bench(scratch: Path, lisp: Path) -> Iterator[Bench]:
    place = scratch / "faults/instance"
    recorder = FileShim(scratch / "faults/chaos", place / "volume", place / "workspace")
    # Heartbeats are steps too: with few of them, what comes next is known.
    env = {"EFRIT_HEARTBEAT_SECONDS": "60"}
    instance = WatchedInstance(place, lisp, {**recorder.environment, **env})
    instance.volume.mkdir()
    try:
        instance.start_bridge()
        instance.start_emacs()
        yield Bench(instance, recorder)
    finally:
        instance.stop()


@pytest.fixture(autouse=True)
def nothing_left_running(bench: Bench) -> Iterator[None]:
    """A test that fails must not fail the next."""
    yield
    bench.recorder.clear()
    bench.abandon()


@pytest.mark.parametrize("phase", PHASES)
def test_every_recorded_step_has_a_plan(bench: Bench, phase: str) -> None:
    bench.exact = True
    act = PHASES[phase](bench)
    since = bench.recorder.size
    act()
    recorded = steps(phase, bench.recorder.operations(since), bench.instance.place)
    settle(bench, killed=False)
    assert recorded
    assert set(recorded) <= set(known()), "add to known_steps.txt: " + ", ".join(
        str(step) for step in recorded if step not in known()
    )


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_a_fault_at_a_step_of_the_protocol(bench: Bench, plan: Plan) -> None:
    step = plan.step
    bench.exact = step.path.endswith("tmp/bridge_*") and step.kind in ("create", "write")
    act = PHASES[step.phase](bench)
    bench.recorder.arm(
        plan.action,
        step.operation,
        f"{bench.instance.place}/{step.path}",
        program=step.programs,
        number=plan.number,
        skip=step.nth,
    )
    try:
        act()
        struck = bench.recorder.hits()
    finally:
        bench.recorder.clear()
    settle(bench, killed=plan.action in KILLS and step.program == "emacs")
    assert struck or step.mark, "the step did not happen"


def settle(bench: Bench, *, killed: bool) -> None:
    """Ends what runs, and judges what became of every request since the last time."""
    for rid, reason in list(bench.expected.items()):
        response = bench.finish(rid)
        begun, allowed = bench.begun(rid), bench.allowed.pop(rid)
        if response.reason is not reason:
            assert killed, f"{rid}: {response.reason}: {response.error}"
            assert response.reason is Reason.INTERRUPTED
        if response.reason is Reason.SUCCEEDED:
            assert begun >= 1
        assert begun <= allowed
        bench.acknowledge(rid)
        del bench.expected[rid]
        answers = list(bench.instance.queue.rglob(f"resp_{rid}.json"))
        assert len(answers) <= 1
    until(lambda: not orphans(bench), SECONDS)


def orphans(bench: Bench) -> list[str]:
    """Files without a place, but for temporary ones: the next start of their owner sweeps those."""
    left = [name for name in leftovers(bench.instance.queue) if not name.startswith(("tmp/bridge_", "tmp/emacs_"))]
    return left + [path.name for path in (bench.instance.workspace / ".efrit").rglob("*.part")]


def test_a_restart_sweeps_what_the_faults_have_left(bench: Bench) -> None:
    one = bench.instance
    one.kill_bridge()
    one.start_bridge()
    bench.put(rid := bench.name(Reason.INTERRUPTED), "(kill-emacs)")
    bench.answer(rid)
    bench.allowed[rid] = 1
    settle(bench, killed=False)
    until(lambda: not leftovers(one.queue), SECONDS)
