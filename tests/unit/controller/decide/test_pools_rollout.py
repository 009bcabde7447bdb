"""How members of a former template are replaced: within surge and absence, idle ones first, not by what fails."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from efrit.api import EfritPool, condition_of
from efrit.controller.decide.pool_revision import stands_in
from efrit.controller.decide.pools import decide_pool, size
from efrit.controller.model.actions import (
    Action,
    CreateMember,
    Drain,
    PatchStatus,
    RemoveInstance,
    RequeueAfter,
)
from efrit.controller.model.pools import MemberView, PoolRevision, PoolSnapshot
from tests.unit.controller.decide.test_pools import NEW, NOW, OLD, member, of, pool, snapshot

ROLLING, REPLENISH, ON_DELETE = "RollingUpdate", "OnReplenish", "OnDelete"


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


A, B, C = member("a", OLD), member("b", OLD), member("c")
BUSY = member("a", OLD, load=1)
STARTING = member("c", ready=False)


@pytest.mark.parametrize(
    ("strategy", "wanted", "members", "create", "drain"),
    [
        # More at once, and fewer meanwhile.
        ({"maxSurge": 2}, 2, [A, B], 2, []),
        ({"maxSurge": 9}, 2, [A, B], 2, []),
        ({"maxSurge": 0, "maxUnavailable": 1}, 2, [A, B], 0, ["b"]),
        ({"maxSurge": 0, "maxUnavailable": 1}, 2, [BUSY, B], 0, ["b"]),
        ({"maxSurge": 0, "maxUnavailable": 1}, 2, [A], 1, []),
        ({"maxSurge": 0, "maxUnavailable": 1}, 2, [A, STARTING], 0, []),
        ({"maxSurge": 0, "maxUnavailable": 1}, 2, [A, C], 0, ["a"]),
        ({"maxSurge": 1, "maxUnavailable": 1}, 2, [A, B], 1, ["b"]),
        # One that is Ready stands in for another when it has been so for long enough.
        ({"minReadySeconds": 10}, 1, [A, member("c", ready_changed=after(-9))], 0, []),
        ({"minReadySeconds": 10}, 1, [A, member("c", ready_changed=after(-10))], 0, ["a"]),
        # Where the clock was set back since, nobody waits for it.
        ({"minReadySeconds": 10}, 1, [A, member("c", ready_changed=after(3600))], 0, ["a"]),
        # Only what is made anyway.
        ({"type": REPLENISH}, 2, [A, B], 0, []),
        ({"type": REPLENISH}, 3, [A, B], 1, []),
        ({"type": REPLENISH}, 1, [A, C], 0, ["a"]),
        ({"type": REPLENISH}, 1, [BUSY, C], 0, ["c"]),
        ({"type": REPLENISH}, 1, [A, replace(C, created=after(-9))], 0, ["a"]),
        ({"type": ON_DELETE}, 2, [A, B], 0, []),
        ({"type": ON_DELETE}, 2, [A], 1, []),
        ({"type": ON_DELETE}, 1, [A, replace(C, created=after(9))], 0, ["c"]),
        ({"type": ON_DELETE}, 1, [replace(A, created=after(9)), C], 0, ["a"]),
        ({"type": ON_DELETE}, 0, [A, C], 0, ["a", "c"]),
    ],
)
def test_how_many_are_made_and_which_drain(
    strategy: Any, wanted: int, members: list[MemberView], create: int, drain: list[str]
) -> None:
    sizing = size(snapshot(wanted, *members, strategy=strategy), wanted, NOW)
    assert (sizing.create, sorted(each.name for each in sizing.drain)) == (create, drain)


def test_a_member_that_is_not_ready_goes_before_one_that_drains() -> None:
    members = [member("a"), member("b", ready=False)]
    sizing = size(snapshot(1, *members, draining=frozenset({"a"})), 1, NOW)
    assert [each.name for each in sizing.drain] == ["b"]


def test_a_member_that_has_been_ready_for_a_while_is_reconciled_again_when_that_is_over() -> None:
    new = member("c", ready_changed=after(-4))
    actions = decide_pool(snapshot(1, A, new, strategy={"minReadySeconds": 10}), NOW)
    assert RequeueAfter(timedelta(seconds=6)) in actions


DRAINS: dict[str, Any] = {"draining": frozenset({"a"}), "drain_began": {"a": NOW}}


def test_a_member_with_work_is_deleted_once_it_has_drained_for_as_long_as_it_may() -> None:
    picture = snapshot(0, member("a", load=1), strategy={"drainSeconds": 60}, **DRAINS)
    early = decide_pool(picture, after(59))
    assert not of(early, RemoveInstance)
    assert RequeueAfter(timedelta(seconds=1)) in early
    late = decide_pool(picture, after(60))
    assert late[-1] == RemoveInstance(("ns", "a"), "uid-a", "3", only_idle=False)


def test_without_a_limit_a_member_with_work_drains_for_as_long_as_it_takes() -> None:
    assert not of(decide_pool(snapshot(0, member("a", load=1), **DRAINS), after(10**6)), RemoveInstance)


def progressing(actions: list[Action]) -> tuple[str, str, str]:
    (patch,) = of(actions, PatchStatus)
    pool_said = EfritPool.model_validate({"metadata": {"name": "x"}, "spec": {}, "status": patch.status})
    condition = condition_of(pool_said.status.conditions, "Progressing")
    assert condition is not None
    return condition.status.value, condition.reason, condition.message


FORMER, CURRENT = (PoolRevision(digest, number, f"uid-{digest}", "1") for number, digest in enumerate((OLD, NEW)))
SLOW = {"progressDeadlineSeconds": 100}


def test_a_new_member_that_is_not_ready_in_time_stops_the_roll_out_and_says_why() -> None:
    new = member("c", ready=False, ready_message="The image x cannot be pulled.")
    picture = snapshot(2, A, B, new, strategy={**SLOW, "maxSurge": 2, "maxUnavailable": 1}, **DRAINS)
    early = decide_pool(picture, after(99))
    assert RequeueAfter(timedelta(seconds=1)) in early
    assert progressing(early)[:2] == ("True", "UpdatingMembers")
    assert len(of(early, CreateMember)) == 1
    late = decide_pool(picture, after(100))
    status, reason, message = progressing(late)
    assert (status, reason) == ("False", "RevisionFailed")
    assert "EfritInstance c" in message
    assert "The image x cannot be pulled." in message
    assert not of(late, CreateMember)
    # Those that drained only because some may be missing stay as well.
    assert of(late, Drain) == [Drain(("ns", "crew"), "u", frozenset())]
    assert not of(late, RemoveInstance)


@pytest.mark.parametrize(
    ("history", "way_back"),
    [
        (None, "or apply the former one."),
        ((CURRENT,), "or apply the former one."),
        ((FORMER, CURRENT), "or restore the template before it: `efrit rollout undo -n ns crew`."),
    ],
)
def test_a_roll_out_that_has_stopped_says_how_to_take_it_back(
    history: tuple[PoolRevision, ...] | None, way_back: str
) -> None:
    picture = replace(snapshot(2, A, member("c", ready=False), strategy=SLOW), history=history)
    _, reason, message = progressing(decide_pool(picture, after(100)))
    assert reason == "RevisionFailed"
    assert message.endswith(f" Correct spec.template, {way_back}")


def test_a_member_that_is_ready_after_all_goes_on_with_the_roll_out() -> None:
    late = decide_pool(snapshot(1, A, member("c", ready_changed=after(200)), strategy=SLOW), after(201))
    assert progressing(late)[:2] == ("True", "UpdatingMembers")
    assert [drain.members for drain in of(late, Drain)] == [{"a"}]


def test_the_former_template_takes_a_roll_out_back() -> None:
    failed = member("c", OLD, ready=False)
    actions = decide_pool(snapshot(2, member("a"), member("b"), failed, strategy=SLOW), after(500))
    assert [action.instance[1] for action in of(actions, RemoveInstance)] == ["c"]
    assert not of(actions, CreateMember)


def test_a_member_that_was_ready_and_is_no_more_is_no_failure_of_the_template() -> None:
    lost = member("b", ready=False, ready_changed=after(-900))
    assert progressing(decide_pool(snapshot(2, member("a"), lost, strategy=SLOW), after(1000)))[1] != "RevisionFailed"
    first = decide_pool(snapshot(1, lost, strategy=SLOW), after(1000))
    assert progressing(first)[1] == "RevisionFailed"


@pytest.mark.parametrize("kind", [REPLENISH, ON_DELETE])
def test_members_that_keep_a_former_template_are_as_wanted(kind: str) -> None:
    status, reason, message = progressing(decide_pool(snapshot(1, A, strategy={"type": kind}), NOW))
    assert (status, reason) == ("True", "MembersUnchanged")
    assert kind in message


@dataclass
class Rig:
    """A pool whose decisions are carried out at once, and which checks each of them."""

    wanted: int
    strategy: dict[str, Any]
    now: datetime = NOW
    revision: int = 0
    members: dict[str, MemberView] = field(default_factory=dict)
    drain_began: dict[str, datetime] = field(default_factory=dict)
    made: int = 0

    def picture(self) -> PoolSnapshot:
        return PoolSnapshot(
            pool(self.wanted, self.strategy),
            template={"spec": {}},
            revision=str(self.revision),
            members=tuple(self.members[name] for name in sorted(self.members)),
            draining=frozenset(self.drain_began),
            drain_began=dict(self.drain_began),
            listed=True,
        )

    def serving(self, picture: PoolSnapshot, *, new: bool) -> int:
        """Return how many members count that take requests: those of a former template, and `new` ones too."""
        return sum(
            stands_in(picture, each, self.now) and each.name not in self.drain_began
            for each in self.members.values()
            if new or each.revision != picture.revision
        )

    def decide(self) -> None:
        """Carry out one decision. Members, those that count and those with work are checked."""
        picture = self.picture()
        before, serving = len(self.members), self.serving(picture, new=True)
        for action in decide_pool(picture, self.now):
            match action:
                case Drain(members=names):
                    self.drain_began = {name: self.drain_began.get(name, self.now) for name in names}
                case CreateMember():
                    name = f"m{self.made:03}"
                    self.made += 1
                    self.members[name] = MemberView(name, f"uid-{name}", "1", str(self.revision), self.now)
                case RemoveInstance(instance=(_, name)):
                    self.check_deleted(self.members.pop(name))
        surge = self.strategy["maxSurge"] if self.strategy["type"] == ROLLING else 0
        assert len(self.members) <= max(before, self.wanted + surge)
        absent = self.strategy["maxUnavailable"] if self.strategy["type"] == ROLLING else 0
        assert self.serving(picture, new=True) >= min(serving, self.wanted - absent)

    def check_deleted(self, deleted: MemberView) -> None:
        if deleted.has_work:
            limit = self.strategy.get("drainSeconds")
            assert limit is not None
            assert self.now - self.drain_began[deleted.name] >= timedelta(seconds=limit)

    def change(self, event: str, number: int) -> None:
        """Let something happen; `number` chooses the member, or says how much."""
        names = sorted(self.members)
        name = names[number % len(names)] if names else None
        if event == "time":
            self.now += timedelta(seconds=number * 7)
        elif event == "scale":
            self.wanted = number % 5
        elif event == "template":
            self.revision = number % 3
        elif name is None:
            return
        elif event == "deleted":
            del self.members[name]
        elif event == "ready":
            ready = not self.members[name].ready
            self.members[name] = replace(self.members[name], ready=ready, ready_changed=self.now)
        elif event == "work" and name not in self.drain_began and self.members[name].ready:
            self.members[name] = replace(self.members[name], load=self.members[name].load + 1)
        elif event == "answer":
            self.members[name] = replace(self.members[name], load=max(0, self.members[name].load - 1))

    def settle(self) -> None:
        """Let all members become Ready, and end their work, until nothing changes any more."""
        for _ in range(24):
            self.members = {
                name: replace(each, load=0, ready=True, ready_changed=each.ready_changed if each.ready else self.now)
                for name, each in self.members.items()
            }
            self.now += timedelta(seconds=30)
            self.decide()


events = st.sampled_from(["time", "scale", "template", "deleted", "ready", "ready", "work", "answer"])
parts: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from([ROLLING, ROLLING, ROLLING, REPLENISH, ON_DELETE]),
    "maxSurge": st.integers(0, 2),
    "maxUnavailable": st.integers(0, 1),
    "minReadySeconds": st.sampled_from([0, 20]),
    "progressDeadlineSeconds": st.sampled_from([50, 600]),
}
sometimes: dict[str, st.SearchStrategy[Any]] = {"drainSeconds": st.sampled_from([5, 60])}


def _replaces(strategy: dict[str, Any]) -> bool:
    return bool(strategy["maxSurge"] + strategy["maxUnavailable"])


strategies = st.fixed_dictionaries(parts, optional=sometimes).filter(_replaces)


@settings(max_examples=40)
@given(strategies, st.integers(0, 4), st.lists(st.tuples(events, st.integers(0, 9)), min_size=25, max_size=60))
def test_whatever_happens_bounds_are_kept_work_is_not_cut_short_and_it_converges(
    strategy: dict[str, Any], wanted: int, happenings: list[tuple[str, int]]
) -> None:
    rig = Rig(wanted, strategy)
    for event, number in happenings:
        rig.change(event, number)
        rig.drain_began = {name: began for name, began in rig.drain_began.items() if name in rig.members}
        rig.decide()
    rig.settle()
    assert len(rig.members) == rig.wanted
    assert not {name for name in rig.drain_began if name in rig.members}
    if strategy["type"] == ROLLING:
        assert {each.revision for each in rig.members.values()} <= {str(rig.revision)}
