"""local/plan_driver.py: killed at whatever point, a plan makes the same commits, and no request runs twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from efrit.api import EfritPlan, EfritRequest, PlanStatus
from efrit.backend.errors import NotReady, RequestNotFound
from efrit.backend.interface import (
    Error,
    Handle,
    Outcome,
    Phase,
    RequestReason,
    RequestState,
    Session,
    Update,
    Usage,
    Work,
)
from efrit.backend.local.plan_driver import POLL_SECONDS, RESENT_WITHIN, PlanDriver
from efrit.backend.local.plan_record import PlanRecord
from efrit.backend.local.request_file import id_of
from efrit.protocol.plan_enums import TaskState
from tests.unit.plan.world import START, UID, Crash, Json, World, done, facts, navigator_answer, plan_json, scripted

TASKS = [
    {"name": "model", "description": "the model"},
    {"name": "api", "type": "parent", "description": "the interface"},
    {"name": "read", "parent": "api", "description": "reading"},
]
NEW = {"type": "atomic", "description": "a half"}
AMENDED_AT = 3

Effect = Callable[[str, Callable[[], None]], None]


class Record(PlanRecord):
    """A record in which each write may be the last thing its driver does."""

    effect: Effect
    after_look: Callable[[], None]

    def store(self, request: EfritRequest, result: str | None = None) -> None:
        # What a write that was cut short leaves is nobody's file.
        self._path(f"{request.metadata.name}").with_suffix(".json.new").write_text("{")
        sent = bool(request.metadata.annotations)
        what = f"store {request.metadata.name} {request.final} {request.spec.cancel} {sent}"
        self.effect(what, lambda: super(Record, self).store(request, result))

    def write_status(self, status: PlanStatus) -> None:
        self.effect(
            f"tell {status.step} {status.current_task} {status.phase}",
            lambda: super(Record, self).write_status(status),
        )

    def plan(self) -> EfritPlan:
        plan = super().plan()
        self.after_look()
        return plan

    def forget(self, name: str) -> None:
        self.effect(f"forget {name}", lambda: super(Record, self).forget(name))


class Machine:
    """A queue with an Emacs that outlives every driver, a record of a plan, and a clock."""

    def __init__(self, directory: Path, world: World, crash: Callable[[str, str], bool] = lambda what, when: False):
        self.world = world
        self.record = Record(directory / "words")
        self.record.effect = self.effect
        self.record.after_look = lambda: None
        self.crash = crash
        self.effects: list[str] = []
        self.now = START
        self.works: dict[str, Work] = {}
        self.answers: dict[str, RequestState] = {}
        self.runs: list[str] = []
        self.refusals: list[NotReady] = []
        self.after_run: Callable[[Machine], None] = lambda machine: None
        self.talks: Callable[[int], bool] = lambda count: False
        plan = plan_json(**{key: value for key, value in world.plan["spec"].items() if key != "instanceRef"})
        self.record.create({"metadata": plan["metadata"], "spec": plan["spec"]})

    def effect(self, what: str, do: Callable[[], None]) -> None:
        self.effects.append(what)
        if self.crash(what, "before"):
            raise Crash
        do()
        if self.crash(what, "after"):
            raise Crash

    # The queue

    async def submit(self, work: Work) -> Handle:
        if self.refusals:
            raise self.refusals.pop()
        rid = id_of(work)

        def store() -> None:
            assert self.works.setdefault(rid, work) == work

        self.effect(f"submit {work.key}", store)
        return Handle(rid)

    async def get(self, handle: Handle) -> RequestState:
        if handle.id not in self.works:
            raise RequestNotFound(handle.id)
        return self.answers.get(handle.id) or RequestState(handle, Phase.QUEUED, RequestReason.QUEUED)

    async def watch(self, handle: Handle) -> AsyncIterator[Update]:
        def run() -> None:
            if handle.id not in self.answers:
                self.runs.append(handle.id)
                self.answers[handle.id] = self._run(handle)
                self.after_run(self)

        count = 0
        while self.talks(count):
            count += 1
            yield Update(await self.get(handle))
        self.effect(f"run {handle.id}", run)
        if handle.id not in self.answers:
            raise RequestNotFound(handle.id)
        yield Update(self.answers[handle.id])

    async def cancel(self, handle: Handle) -> RequestState:
        self.answers.setdefault(
            handle.id,
            RequestState(handle, Phase.FAILED, RequestReason.CANCELLED, "Cancelled.", outcome=Outcome.FAILURE),
        )
        return self.answers[handle.id]

    async def result(self, handle: Handle) -> str:
        return self.answers[handle.id].result or ""

    def _run(self, handle: Handle) -> RequestState:
        work = self.works[handle.id]
        name = str(work.key).removeprefix(f"plan/{UID}/")
        spec = {"type": str(work.type), "content": work.content, "session": {"id": work.session}}
        part = name.removeprefix("words-").split("-", 2)[2]
        answer: Json = self.world._answer({"metadata": {"name": name}, "spec": spec, "what": part})
        error, usage = answer.get("error"), answer.get("usage")
        return RequestState(
            handle,
            Phase(answer["phase"]),
            RequestReason(answer["reason"]),
            outcome=Outcome(answer["outcome"]),
            result=answer.get("result"),
            error=Error(**error) if error else None,
            session=Session(id=answer["session"]["id"]) if "session" in answer else None,
            usage=Usage(input_tokens=usage["inputTokens"], output_tokens=usage["outputTokens"]) if usage else None,
            attempt=1,
            execution_seconds=answer["executionSeconds"],
        )

    # Driving

    async def pause(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def clock(self) -> datetime:
        return self.now

    async def drive(self, **options: Any) -> int:
        """Drive it to its end, by one driver after the other; return how many were killed."""
        crashes = 0
        while not self.record.plan().final:
            try:
                driver = PlanDriver(self.record, self, "alpha", "/w", self.clock, self.pause, **options)
                async for _ in driver.run():
                    pass
            except Crash:
                crashes += 1
        return crashes


def machine(directory: Path, crash: Callable[[str, str], bool] = lambda what, when: False) -> Machine:
    """Return a machine: a task fails until it is decomposed, words cannot be read, an answer is refused."""
    parts = {"operation": "decompose", "task": "model", "tasks": [NEW, NEW]}
    model = scripted(
        adapt_model=[navigator_answer("failed", "still", parts), done()],
        assess_model=["I would say it is fine.", facts()],
        adapt_read=[navigator_answer("done", "fine", {"operation": "remove", "task": "nobody"})],
        adapt_refused=[done("fine now")],
    )
    made = Machine(directory, World(plan_json(tasks=TASKS, assess={"build": ["make"]}), model), crash)

    def amend(here: Machine) -> None:
        if len(here.world.repository.commits) >= AMENDED_AT and not here.record.plan().spec.amendments:
            here.record.change(lambda spec: spec.update(amendments=["Lines, too."]))

    made.after_run = amend
    return made


async def test_killed_before_and_after_each_effect_it_ends_the_same_and_nothing_runs_twice(tmp_path: Path) -> None:
    undisturbed = machine(tmp_path / "whole")
    assert await undisturbed.drive() == 0
    assert undisturbed.record.plan().status.reason == "Succeeded"
    assert undisturbed.world.repository.tree.state is TaskState.DONE

    killed_at: set[tuple[str, str]] = set()

    def once(what: str, when: str) -> bool:
        first = (what, when) not in killed_at
        killed_at.add((what, when))
        return first

    killed = machine(tmp_path / "killed", once)
    assert await killed.drive() == 2 * len(set(undisturbed.effects))
    assert killed.world.repository.commit_lines() == undisturbed.world.repository.commit_lines()
    assert killed.world.repository.tree == undisturbed.world.repository.tree
    assert killed.runs == undisturbed.runs
    assert len(killed.runs) == len(set(killed.runs))
    status, same = killed.record.plan().status, undisturbed.record.plan().status
    assert (status.outcome, status.tree, status.counts) == (same.outcome, same.tree, same.counts)
    assert status.cost is not None
    assert status.cost == same.cost
    assert status.cost.input_tokens > 0


async def test_an_act_whose_answer_is_no_longer_kept_is_not_run_again(tmp_path: Path) -> None:
    """Its driver was killed while it ran, and came back when the queue had swept the answer."""
    swept = machine(
        tmp_path, lambda what, when: what.startswith("submit") and what.endswith("-act") and when == "after"
    )
    await anext_crash(swept)
    (act,) = [rid for rid, work in swept.works.items() if str(work.key).endswith("-act")]
    del swept.works[act]
    swept.crash = lambda what, when: False
    swept.now += RESENT_WITHIN + timedelta(seconds=1)
    assert await swept.drive() == 0
    assert act not in swept.works
    subjects = [commit["subject"] for commit in swept.world.repository.commits if commit["kind"] == "adapt"]
    assert "no longer kept" in subjects[0]


async def test_an_act_that_was_removed_before_its_answer_was_read_is_not_run_again(tmp_path: Path) -> None:
    """By hand: while its driver was away, or before its eyes."""
    away = machine(tmp_path / "away", lambda what, when: what.startswith("run") and "-act" in acts(away))
    await anext_crash(away)
    away.works.clear()
    away.crash = lambda what, when: False
    present = machine(tmp_path / "present")

    def remove(here: Machine) -> None:
        if str(here.works[here.runs[-1]].key).endswith("-act"):
            here.answers.pop(here.runs[-1])
            here.works.pop(here.runs[-1])
            here.after_run = lambda here: None

    present.after_run = remove
    for removed in (away, present):
        assert await removed.drive() == 0
        assert len(removed.runs) == len(set(removed.runs))
        subjects = [commit["subject"] for commit in removed.world.repository.commits if commit["kind"] == "adapt"]
        assert "removed before its answer was read" in subjects[0]


async def test_a_cancel_is_seen_though_the_work_never_stops_reporting(tmp_path: Path) -> None:
    driven = machine(tmp_path)

    def talks(count: int) -> bool:
        if count == 3:
            driven.record.change(lambda spec: spec.update(cancel=True))
        return count < 100 and not driven.answers

    driven.talks = talks
    await driven.drive()
    assert driven.runs == []
    assert driven.record.plan().status.reason == "Cancelled"


def acts(driven: Machine) -> str:
    """Keys of what the queue has."""
    return " ".join(str(work.key) for work in driven.works.values())


async def anext_crash(driven: Machine) -> None:
    driver = PlanDriver(driven.record, driven, "alpha", "/w", driven.clock, driven.pause)
    with pytest.raises(Crash):
        async for _ in driver.run():
            pass


async def test_the_record_of_a_long_plan_keeps_only_what_may_still_be_needed(tmp_path: Path) -> None:
    tasks = [{"name": f"t{number}", "description": "a part"} for number in range(24)]
    long = Machine(tmp_path, World(plan_json(tasks=tasks), scripted()))
    counts: list[int] = []
    directory = long.record.directory / "requests"
    long.after_run = lambda here: counts.append(sum(path.suffix == ".json" for path in directory.iterdir()))
    assert await long.drive() == 0
    assert long.record.plan().status.reason == "Succeeded"
    # Those since the last read of the repository, of which there is one every 20 steps, and of ten steps before it.
    assert max(counts) < len(long.runs) * 0.75


async def test_a_queue_that_takes_nothing_blocks_the_plan_until_it_does(tmp_path: Path) -> None:
    full = machine(tmp_path)
    full.refusals = [NotReady("20 requests wait", "wait for one")]
    states = []
    driver = PlanDriver(full.record, full, "alpha", "/w", full.clock, full.pause)
    async for _ in driver.run():
        status = full.record.plan().status
        states.append(
            (
                status.reason,
                next(condition.message for condition in status.conditions if condition.type == "Complete"),
            )
        )
    assert ("Blocked", "20 requests wait: wait for one") in states
    assert states[-1][0] == "Succeeded"
    assert full.now - START >= timedelta(seconds=POLL_SECONDS)


async def test_a_caller_that_does_not_keep_trying_gets_the_error(tmp_path: Path) -> None:
    full = machine(tmp_path)
    full.refusals = [NotReady("20 requests wait", "wait for one")]
    with pytest.raises(NotReady, match="20 requests wait"):
        await full.drive(keep_trying=False)


async def test_a_cancel_stops_what_runs_and_sends_nothing_more(tmp_path: Path) -> None:
    running = machine(tmp_path, lambda what, when: what.startswith("run") and when == "before")
    await anext_crash(running)
    running.crash = lambda what, when: False
    running.record.change(lambda spec: spec.update(cancel=True))
    assert await running.drive() == 0
    status = running.record.plan().status
    assert (status.reason, running.runs, len(running.works)) == ("Cancelled", [], 1)


async def test_suspended_it_begins_nothing_more_until_it_is_resumed(tmp_path: Path) -> None:
    suspended = machine(tmp_path)
    suspended.record.change(lambda spec: spec.update(suspend=True))
    looks = []

    async def pause(seconds: float) -> None:
        looks.append((suspended.record.plan().status.reason, list(suspended.works)))
        if len(looks) == 3:
            suspended.record.change(lambda spec: spec.update(suspend=False))

    driver = PlanDriver(suspended.record, suspended, "alpha", "/w", suspended.clock, pause)
    async for _ in driver.run():
        pass
    assert looks[:3] == [("Suspended", [])] * 3
    assert suspended.record.plan().status.reason == "Succeeded"


async def test_a_change_right_after_the_plan_was_read_is_not_missed(tmp_path: Path) -> None:
    suspended = machine(tmp_path)
    suspended.record.change(lambda spec: spec.update(suspend=True))
    record = suspended.record

    def resume() -> None:
        record.after_look = lambda: None
        record.change(lambda spec: spec.update(suspend=False))

    async def pause(seconds: float) -> None:
        raise AssertionError("it waits for a change that was made")

    record.after_look = resume
    driver = PlanDriver(record, suspended, "alpha", "/w", suspended.clock, pause)
    async for _ in driver.run():
        pass
    assert record.plan().status.reason == "Succeeded"
