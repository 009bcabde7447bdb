"""Which templates of a pool are kept to go back to, and which are removed: never one in use."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from efrit.api import EfritPool
from efrit.api_group import LARGEST_REVISION
from efrit.controller.decide.pool_history import REMOVED_AT_ONCE, pool_history
from efrit.controller.decide.pools import decide_pool
from efrit.controller.manifests.pool_history import build_revision, revision_of
from efrit.controller.model.actions import (
    CreateMember,
    KeepRevision,
    ReadHistory,
    Record,
    RemoveRevision,
    RequeueAfter,
)
from efrit.controller.model.pools import MemberView, PoolRevision, PoolSnapshot
from efrit.controller.model.snapshots import Refusal
from efrit.resources import POOLS
from tests.unit.controller.decide.test_pools import NEW, NOW, OLD, member, of, pool, snapshot

CREW = ("ns", "crew")
TEMPLATE: dict[str, Any] = {"spec": {}}


def kept(digest: str, number: int) -> PoolRevision:
    return PoolRevision(digest, number, f"uid-{digest}", "9")


def with_history(*history: PoolRevision, limit: int = 10, members: tuple[MemberView, ...] = (), **facts: Any) -> Any:
    picture = snapshot(len(members), *members, history=history, **facts)
    spec = picture.pool.spec.model_copy(update={"revision_history_limit": limit})
    return replace(picture, pool=picture.pool.model_copy(update={"spec": spec}))


def removed(picture: PoolSnapshot) -> list[str]:
    return [action.revision.digest for action in of(pool_history(picture, NOW), RemoveRevision)]


def test_the_first_template_is_kept_and_is_the_pools() -> None:
    (keep,) = pool_history(with_history(), NOW)
    assert keep == KeepRevision(CREW, "u", NEW, build_revision(pool(), TEMPLATE, NEW, 1))
    assert keep.manifest["data"] == {"spec": {"template": TEMPLATE}}
    assert (keep.manifest["metadata"]["name"], keep.manifest["revision"]) == ("crew-new", 1)


@pytest.mark.parametrize(
    ("history", "number", "former"),
    [
        ((kept("a", 1), kept("b", 4)), 5, None),
        # It comes back, and is the last one again.
        ((kept(NEW, 1), kept("b", 4)), 5, kept(NEW, 1)),
        # Two that led at a time have given one number twice.
        ((kept(NEW, 4), kept("b", 4)), 5, kept(NEW, 4)),
        # Somebody has given one the largest number that there may be.
        ((kept("a", 3), kept("b", LARGEST_REVISION)), 4, None),
        ((kept("b", LARGEST_REVISION - 1),), LARGEST_REVISION, None),
    ],
)
def test_a_template_gets_the_highest_number(
    history: tuple[PoolRevision, ...], number: int, former: PoolRevision | None
) -> None:
    (keep,) = of(pool_history(with_history(*history), NOW), KeepRevision)
    assert (keep.manifest["revision"], keep.former) == (number, former)


def test_nothing_is_written_while_the_last_template_is_the_current_one() -> None:
    assert pool_history(with_history(kept("a", 1), kept(NEW, 2)), NOW) == []


def test_a_template_that_nothing_is_made_of_is_not_kept() -> None:
    assert pool_history(with_history(kept("a", 1), template=None), NOW) == []


@pytest.mark.parametrize(("limit", "gone"), [(10, []), (3, []), (2, ["a"]), (1, ["a", "b"]), (0, ["a", "b", "c"])])
def test_the_oldest_former_templates_are_removed_beyond_the_limit(limit: int, gone: list[str]) -> None:
    assert removed(with_history(kept("c", 3), kept(NEW, 4), kept("a", 1), kept("b", 2), limit=limit)) == gone


def test_a_template_in_use_is_never_removed() -> None:
    history = (kept("a", 1), kept("b", 2), kept("c", 3), kept(OLD, 4), kept(NEW, 5))
    members = (member("m", OLD), member("n", "a", deleting=True))
    held = frozenset({"b"})
    assert removed(with_history(*history, limit=0, members=members, claimed_revisions=held)) == ["c"]


def test_many_are_removed_in_steps() -> None:
    history = (kept(NEW, 99), *(kept(f"r{number}", number) for number in range(1, REMOVED_AT_ONCE + 3)))
    actions = pool_history(with_history(*history, limit=0), NOW)
    assert len(of(actions, RemoveRevision)) == REMOVED_AT_ONCE
    assert actions[-1] == RequeueAfter(timedelta(0))


def test_what_is_kept_is_read_first() -> None:
    assert pool_history(snapshot(0, history=None), NOW) == [ReadHistory(CREW, "u")]


def test_nothing_is_read_before_all_open_requests_and_instances_are_known() -> None:
    assert of(decide_pool(snapshot(0, history=None, listed=False), NOW), ReadHistory) == []


def test_members_budget_and_status_do_not_wait_until_the_templates_are_read() -> None:
    members = (member("m", OLD), member("n", NEW))
    actions = decide_pool(snapshot(1, *members, history=None, budget=None), NOW)
    assert {"RemoveInstance", "PatchStatus", "ApplyDisruptionBudget"} <= {type(action).__name__ for action in actions}
    assert actions[-1] == ReadHistory(CREW, "u")
    actions = decide_pool(snapshot(2, history=None), NOW)
    assert len(of(actions, CreateMember)) == 2
    assert actions[-1] == ReadHistory(CREW, "u")


def test_what_is_likely_to_pass_is_not_reported() -> None:
    refusal = Refusal("of a former pool", NOW - timedelta(seconds=10), is_reported=False)
    assert pool_history(snapshot(0, history=None, history_refusal=refusal), NOW) == [ReadHistory(CREW, "u")]


def test_after_a_refusal_nothing_is_tried_for_a_while_and_an_event_says_why() -> None:
    refused = snapshot(0, history=None, history_refusal=Refusal("exceeded quota: few", NOW - timedelta(seconds=4)))
    assert pool_history(refused, NOW) == [RequeueAfter(timedelta(seconds=6))]
    read, record = pool_history(refused, NOW + timedelta(seconds=6))
    assert read == ReadHistory(CREW, "u")
    assert isinstance(record, Record)
    assert (record.type, record.reason) == ("Warning", "HistoryRefused")
    assert "exceeded quota: few" in record.message


def test_a_clock_that_was_set_back_does_not_delay_the_next_try() -> None:
    refused = Refusal("exceeded quota: few", NOW + timedelta(hours=1))
    assert ReadHistory(CREW, "u") in pool_history(snapshot(0, history=None, history_refusal=refused), NOW)


def _object(**changes: Any) -> dict[str, Any]:
    body = build_revision(pool(), TEMPLATE, NEW, 3)
    body["metadata"] |= {"uid": "uid-new", "resourceVersion": "9"}
    for path, value in changes.items():
        if path == "number":
            body["revision"] = value
        else:
            body["metadata"][path] = value
    return body


def test_what_was_made_for_a_pool_is_read_as_its_template() -> None:
    assert revision_of(_object(), CREW, "u") == kept(NEW, 3)


OWNER = POOLS.reference("crew", "u", controller=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"ownerReferences": []},
        {"ownerReferences": [{**OWNER, "uid": "of an earlier pool of the name"}]},
        {"ownerReferences": [{**OWNER, "kind": "StatefulSet"}]},
        {"ownerReferences": [{**OWNER, "controller": False}]},
        {"ownerReferences": [{**OWNER, "apiVersion": "x.example/v1"}]},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        {"name": "crew-other"},
        {"labels": {}},
        {"number": 0},
        {"number": LARGEST_REVISION + 1},
    ],
)
def test_what_somebody_else_has_made_is_none_of_the_pools_templates(changes: dict[str, Any]) -> None:
    assert revision_of(_object(**changes), CREW, "u") is None


def test_an_owner_of_another_version_of_the_api_is_the_pool() -> None:
    owner = {**OWNER, "apiVersion": "efrit.dev/v2"}
    assert revision_of(_object(ownerReferences=[owner]), CREW, "u") == kept(NEW, 3)


@pytest.mark.parametrize("number", [1, LARGEST_REVISION])
def test_what_the_operator_writes_next_to_any_other_is_taken_for_the_pools(number: int) -> None:
    (keep,) = of(pool_history(with_history(kept("a", number)), NOW), KeepRevision)
    written = {**keep.manifest, "metadata": {**keep.manifest["metadata"], "uid": "u", "resourceVersion": "9"}}
    assert revision_of(written, CREW, "u") is not None


def test_a_template_is_written_with_its_keys_in_order() -> None:
    template = {"spec": {"b": {"z": 1, "a": [{"d": 1, "c": 2}]}, "a": 1}, "metadata": {}}
    written = build_revision(pool(), template, NEW, 1)["data"]
    assert json.dumps(written) == json.dumps({"spec": {"template": template}}, sort_keys=True)


def test_the_limit_is_ten_as_for_a_stateful_set() -> None:
    crew = EfritPool.model_validate({"metadata": {"name": "crew"}, "spec": {"replicas": 1}})
    assert crew.spec.revision_history_limit == 10
