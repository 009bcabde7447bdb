"""A plan is its seed: the same on every machine, and it can be read."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cluster.paths import REPOSITORY
from tests.support.faults.generators import node as cluster_plan
from tests.support.faults.generators.light import RARE, make
from tests.support.faults.schedule import Do, Plan, Theme
from tests.support.faults.workload import NOWHERE, Kind

SEEDS = range(300)
PLANS = [make(seed) for seed in SEEDS]
EVERY = PLANS + [cluster_plan.make(seed) for seed in SEEDS]


def test_the_same_seed_is_the_same_plan_in_another_process() -> None:
    code = (
        "from tests.support.faults.generators.light import make; [print(make(seed).describe()) for seed in range(60)]"
    )
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    told = subprocess.run([sys.executable, "-c", code], env=env, cwd=REPOSITORY, capture_output=True, check=True)
    assert told.stdout.decode() == "".join(f"{plan.describe()}\n" for plan in PLANS[:60])


def test_different_seeds_are_different_plans() -> None:
    bodies = {plan.describe().partition("\n")[2] for plan in PLANS}
    assert len(bodies) == len(PLANS)


@pytest.mark.parametrize("theme", Theme)
def test_every_theme_comes_up(theme: Theme) -> None:
    assert any(plan.theme is theme for plan in EVERY)


@pytest.mark.parametrize("do", Do)
def test_everything_that_can_be_done_comes_up(do: Do) -> None:
    assert any(step.do is do for plan in EVERY for step in plan.steps)


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_work_comes_up(kind: Kind) -> None:
    assert any(work.kind is kind for plan in PLANS for work in plan.work)


@pytest.mark.parametrize("plan", [*EVERY, make(400_082)], ids=lambda plan: f"{plan.theme}-{plan.seed}")
def test_what_a_user_suspends_a_user_resumes(plan: Plan) -> None:
    wishes = [(step.target, step.do) for step in plan.steps if step.do in (Do.SUSPEND, Do.RESUME)]
    for target in {target for target, _ in wishes}:
        assert [do for name, do in wishes if name == target] == [Do.SUSPEND, Do.RESUME]


def test_seeds_that_take_minutes_are_rare_and_known() -> None:
    long = [plan.seed for plan in PLANS if any(step.seconds > 60 for step in plan.steps)]
    assert long == [seed for seed in SEEDS if seed % 100 in RARE]


def words(plan: Plan) -> list[str]:
    return [work.word for work in plan.work]


def test_no_two_requests_share_a_word() -> None:
    every = [word for plan in PLANS for word in words(plan)]
    assert len(every) == len(set(every))


def test_steps_name_what_there_is() -> None:
    for plan in PLANS:
        names = {each.name for each in plan.instances} | {each.name for each in plan.work}
        names |= {"", "operator-0", "leader", "standby"}
        assert {step.target for step in plan.steps} <= names, plan.describe()
        assert {step.when.running for step in plan.steps} <= names


def test_work_is_for_instances_there_are_or_for_nowhere_on_purpose() -> None:
    for plan in PLANS:
        made = {each.name for each in plan.instances}
        for work in plan.work:
            assert set(work.instances(plan.instances)) <= (made if work.kind is not Kind.LOST else {NOWHERE})


def test_a_plan_tells_all_of_itself() -> None:
    text = PLANS[0].describe()
    made = [(each.name, each.at) for each in PLANS[0].work] + [(each.name, each.at) for each in PLANS[0].instances]
    for name, at in made:
        assert f"{name} at {at:.2f} s" in text
    assert text.count("!!") == len(PLANS[0].faults)


def test_every_request_may_end_somehow_and_what_is_cancelled_also_so() -> None:
    for plan in PLANS:
        for work in plan.work:
            reasons = {end.reason for end in work.ends()}
            assert reasons
            assert not work.cancelled or "Cancelled" in reasons
