"""local/plans.py and local/plan_record.py: which plans there are, what is refused, who drives one."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from efrit.api import PlanPhase, PlanStatus
from efrit.backend.errors import Conflict, NotReady, PlanNotFound, Refused
from efrit.backend.local.backend import LocalBackend
from efrit.backend.local.plan_record import PlanRecord
from efrit.backend.local.plans import MAX_PLANS, LocalPlans
from efrit.backend.local.queues import LocalQueues
from efrit.backend.local.settings import LocalInstance, LocalSettings
from efrit.backend.plans import Change, Intent, NewPlan

GREET = NewPlan(Intent("Greet."), name="greet")


@pytest.fixture
def plans(tmp_path: Path) -> LocalPlans:
    one = LocalInstance("one", tmp_path / "queue", "efrit-one", tmp_path / "workspace")
    settings = LocalSettings(tmp_path / "config.json", {"one": one})
    return LocalPlans(LocalBackend(LocalQueues(settings)), settings, tmp_path / "plans")


async def test_the_same_name_is_the_same_plan_and_another_of_it_is_refused(plans: LocalPlans) -> None:
    first = await plans.create_plan(GREET)
    assert (first.name, first.instance, first.reason) == ("greet", "one", "Pending")
    assert first.message == "It begins once it is watched: efrit plan watch greet"
    assert (await plans.create_plan(GREET)).uid == first.uid
    for other in (NewPlan(Intent("Shout."), name="greet"), NewPlan(Intent("Greet."), name="greet", directory="/tmp")):
        with pytest.raises(Conflict, match="already, with something else in it"):
            await plans.create_plan(other)
    keyed = [await plans.create_plan(NewPlan(Intent("Greet."), key="nightly")) for _ in range(2)]
    assert [state.name for state in await plans.plans()] == ["greet", keyed[0].name]
    assert keyed[0].uid == keyed[1].uid


async def test_a_plan_for_whose_record_there_is_no_room_leaves_nothing(plans: LocalPlans, tmp_path: Path) -> None:
    (tmp_path / "plans").mkdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(NotReady, match="cannot be used"):
            await plans.create_plan(GREET)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "plans").iterdir()) == []


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (NewPlan(Intent("t"), pool="many"), "only a cluster has pools"),
        (NewPlan(Intent("t"), git_url="https://example.org/x", git_secret="s"), "only a cluster has Secrets"),
        (NewPlan(Intent("t"), git_url="nowhere"), "there is no directory .*nowhere"),
        (NewPlan(Intent("t"), directory="/nowhere"), "there is no directory /nowhere"),
        (NewPlan(Intent("t"), directory=""), "the directory is empty"),
        (NewPlan(Intent("t"), spec={"ttlSecondsAfterFinished": 5}), "not deleted by their age"),
        (NewPlan(Intent("t"), max_steps=-1), "max_?steps"),
        (NewPlan(Intent("t"), spec={"tasks": [{"name": "a", "parent": "b", "description": "c"}]}), "its parent"),
    ],
)
async def test_what_cannot_be_is_refused_before_anything_is_stored(
    plans: LocalPlans, new: NewPlan, message: str
) -> None:
    with pytest.raises(Refused, match=f"(?i){message}"):
        await plans.create_plan(new)
    assert await plans.plans() == []


async def test_a_directory_will_do_as_the_repository_to_clone(plans: LocalPlans, tmp_path: Path) -> None:
    await plans.create_plan(NewPlan(Intent("t"), name="t", git_url=str(tmp_path)))
    environment = PlanRecord(tmp_path / "plans/t").plan().spec.environment
    assert environment is not None
    assert environment.git is not None
    assert environment.git.url == tmp_path.as_uri()


async def test_no_more_plans_are_kept_than_the_bound(plans: LocalPlans, tmp_path: Path) -> None:
    for number in range(MAX_PLANS):
        (tmp_path / f"plans/p{number}").mkdir(parents=True)
        (tmp_path / f"plans/p{number}/plan.json").touch()
    with pytest.raises(Refused, match=f"there are {MAX_PLANS} plans"):
        await plans.create_plan(GREET)


async def test_a_name_that_is_a_path_is_no_plan(plans: LocalPlans) -> None:
    await plans.create_plan(GREET)
    for name in ("../plans/greet", ".", "greet/", "other"):
        with pytest.raises(PlanNotFound):
            await plans.plan(name)


async def test_changes_are_kept_and_an_amendment_says_something(plans: LocalPlans) -> None:
    await plans.create_plan(GREET)
    assert (await plans.change_plan("greet", Change.SUSPEND)).suspended
    assert not (await plans.change_plan("greet", Change.RESUME)).suspended
    await plans.amend_plan("greet", "Kindly.")
    assert (await plans.amend_plan("greet", "And soon.")).amendments == ("Kindly.", "And soon.")
    with pytest.raises(Refused, match="nothing to add"):
        await plans.amend_plan("greet", " ")
    for number in range(62):
        await plans.amend_plan("greet", f"Amendment {number}.")
    with pytest.raises(Refused, match="amendments"):
        await plans.amend_plan("greet", "One more.")
    assert len((await plans.plan("greet")).amendments) == 64


async def test_of_two_only_one_drives_a_plan(plans: LocalPlans, tmp_path: Path) -> None:
    await plans.create_plan(GREET)
    record, again = PlanRecord(tmp_path / "plans/greet"), PlanRecord(tmp_path / "plans/greet")
    with record.driver_lock() as first, again.driver_lock() as second:
        assert (first, second) == (True, False)
    with again.driver_lock() as later:
        assert later


async def test_who_does_not_drive_a_plan_sees_how_it_goes(plans: LocalPlans, tmp_path: Path) -> None:
    await plans.create_plan(GREET)
    record = PlanRecord(tmp_path / "plans/greet")
    with record.driver_lock():
        states = plans.watch_plan("greet")
        assert (await anext(states)).reason == "Pending"
        record.write_status(PlanStatus(phase=PlanPhase.FAILED, reason="Cancelled"))
        assert [state.reason async for state in states] == ["Cancelled"]


async def test_what_a_kill_left_of_a_plan_that_was_being_begun_is_no_plan(plans: LocalPlans, tmp_path: Path) -> None:
    await plans.create_plan(GREET)
    (tmp_path / "plans/greet").rename(tmp_path / "plans/.greet-1234")
    assert await plans.plans() == []
    assert (await plans.create_plan(GREET)).name == "greet"


async def test_a_file_that_was_changed_by_hand_is_named(plans: LocalPlans, tmp_path: Path) -> None:
    await plans.create_plan(GREET)
    for text in ('{"metadata": {}, "spec"', '{"metadata": {"name": "greet"}, "spec": {"intent": 3}}'):
        (tmp_path / "plans/greet/plan.json").write_text(text)
        with pytest.raises(Refused, match=r"plans/greet/plan\.json cannot be read .*[^\n]$"):
            PlanRecord(tmp_path / "plans/greet").plan()


async def test_a_record_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    one = LocalInstance("one", tmp_path / "queue", "efrit-one", tmp_path / "workspace")
    settings = LocalSettings(tmp_path / "config.json", {"one": one})
    messages: list[str] = []
    plans = LocalPlans(LocalBackend(LocalQueues(settings)), settings, tmp_path / "plans", messages.append)
    files = {
        "a": ("plan.json", "{"),
        "b": ("plan.json", '{"metadata": [], "spec": {}}'),
        "c": ("status.json", '{"phase": "Odd"}'),
        "d": ("status.json", '{"tree": [{}]}'),
        "e": ("plan.json", '{"metadata": {"name": "greet"}, "spec": {"intent": {"description": "Greet."}}}'),
    }
    await plans.create_plan(GREET)
    for name, (file, text) in files.items():
        await plans.create_plan(NewPlan(Intent("Greet."), name=name))
        (tmp_path / f"plans/{name}/{file}").write_text(text)
    assert [state.name for state in await plans.plans()] == ["greet"]
    for message, (name, (file, _)) in zip(messages, files.items(), strict=True):
        assert f"plans/{name}/{file} cannot be read as part of a plan: " in message
    (tmp_path / "plans/e/plan.json").write_text(files["e"][1].replace("greet", "e"))
    with pytest.raises(Refused, match="annotations' is missing"):
        [state async for state in plans.watch_plan("e")]


async def test_a_plan_of_another_configuration_is_not_driven(plans: LocalPlans, tmp_path: Path) -> None:
    await plans.create_plan(GREET)
    moved = LocalInstance("one", tmp_path / "elsewhere", "efrit-two", tmp_path / "workspace")
    settings = LocalSettings(tmp_path / "config.json", {"one": moved})
    others = LocalPlans(LocalBackend(LocalQueues(settings)), settings, tmp_path / "plans")
    with pytest.raises(Refused, match="has another queue"):
        async for _ in others.watch_plan("greet"):
            pass
