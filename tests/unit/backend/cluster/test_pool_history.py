"""The templates that a pool had, in the client's words, and what becomes the current one again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest

from efrit.api_group import LARGEST_REVISION
from efrit.backend.cluster import pool_history as module
from efrit.backend.cluster.api import Api
from efrit.backend.cluster.pool_history import changed_fields, pool_history, undo_pool
from efrit.backend.errors import Conflict, Forbidden, NotFound, NotLoggedIn, NotReady, PoolNotFound, Refused
from efrit.resources import CONTROLLER_REVISIONS, INSTANCES, POOLS, Resource

RESTORED = "efrit.dev/restored-template"
GOOD, BROKEN, SLOW = "aaaa", "bbbb", "cccc"
OWNER = POOLS.reference("crew", "u", controller=True)


def revision(number: int, digest: str, owner: Any = OWNER, **template: Any) -> dict[str, Any]:
    labels = {"efrit.dev/pool": "crew", "efrit.dev/pool-revision": digest}
    metadata = {"name": f"crew-{digest}", "labels": labels, "ownerReferences": [owner]}
    return {"metadata": metadata, "revision": number, "data": {"spec": {"template": template}}}


def member(digest: str, owner: Any = OWNER) -> dict[str, Any]:
    labels = {"efrit.dev/pool": "crew", "efrit.dev/pool-revision": digest}
    return {"metadata": {"labels": labels, "ownerReferences": [owner]}}


class Server:
    """An API server with one pool, what keeps its templates, and members."""

    def __init__(self, *revisions: dict[str, Any], current: str = BROKEN, observed: int = 4) -> None:
        self.pool: dict[str, Any] = {
            "metadata": {"name": "crew", "uid": "u", "generation": 4},
            "spec": {"replicas": 2, "template": {"spec": {"image": "broken"}}},
            "status": {"revision": current, "observedGeneration": observed},
        }
        self.objects = {
            CONTROLLER_REVISIONS: list(revisions),
            INSTANCES: [member(GOOD), member(GOOD), member(BROKEN)],
        }
        self.refused: tuple[Resource, ...] = ()
        self.patches: list[Sequence[dict[str, Any]]] = []
        self.faster: dict[str, Any] = {}
        self.reads = 0
        self.keeps_after: int | None = None
        self.keeps: dict[str, Any] = {}
        self.error: Exception | None = None
        self.refusal = Forbidden("forbidden")

    async def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        if name != "crew":
            raise NotFound("not found")
        return self.pool

    async def pages(self, resource: Resource, namespace: str, labelSelector: str) -> AsyncIterator[Any]:  # noqa: N803
        kept = ",efrit.dev/pool-revision" if resource == CONTROLLER_REVISIONS else ""
        assert labelSelector == f"efrit.dev/pool=crew{kept}"
        if resource in self.refused:
            raise self.refusal
        for obj in self.objects[resource]:
            yield obj
        self.reads += 1
        if resource == CONTROLLER_REVISIONS and self.reads == self.keeps_after:
            self.objects[resource].append(self.keeps)

    async def json_patch(self, resource: Resource, namespace: str, name: str, operations: Any) -> dict[str, Any]:
        self.patches.append(operations)
        self.pool = {**self.pool, "metadata": {**self.pool["metadata"], **self.faster}}
        if self.error is not None:
            raise self.error
        return self.pool


def api(server: Server) -> Api:
    return cast("Api", server)


def crew(**facts: Any) -> Server:
    return Server(
        revision(3, BROKEN, spec={"image": "broken", "limits": {"a": 1}}),
        revision(1, GOOD, spec={"limits": {"a": 1}}),
        revision(2, SLOW, spec={"limits": {"a": 9}}),
        **facts,
    )


async def test_the_history_has_number_members_and_template_of_each_the_oldest_first() -> None:
    history = await pool_history(api(crew()), "team", "crew")
    shown = [(each.number, each.digest, each.current, each.members) for each in history]
    assert shown == [(1, GOOD, False, 2), (2, SLOW, False, 0), (3, BROKEN, True, 1)]
    assert history[0].template == {"spec": {"limits": {"a": 1}}}


async def test_what_another_owns_is_no_template_of_the_pool_and_no_member() -> None:
    other = {**OWNER, "uid": "of an earlier one"}
    server = Server(revision(1, GOOD, other, spec={}), revision(2, BROKEN, {**OWNER, "controller": False}, spec={}))
    server.objects[CONTROLLER_REVISIONS] += [
        {**revision(3, SLOW), "data": {"spec": {}}},
        revision(4, "../x", spec={}),
        revision(5, "dddd", {**OWNER, "apiVersion": "x.example/v1"}, spec={}),
        revision(0, "eeee", spec={}),
        revision(LARGEST_REVISION + 1, "eeee", spec={}),
    ]
    for change in ({"name": "crew-other"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}):
        obj = revision(6, "ffff", spec={})
        server.objects[CONTROLLER_REVISIONS].append({**obj, "metadata": {**obj["metadata"], **change}})
    assert await pool_history(api(server), "team", "crew") == []
    server = crew()
    server.objects[INSTANCES] = [member(GOOD, other)]
    assert [each.members for each in await pool_history(api(server), "team", "crew")] == [0, 0, 0]


async def test_who_may_not_see_instances_sees_the_history() -> None:
    server = crew()
    server.refused = (INSTANCES,)
    assert [each.members for each in await pool_history(api(server), "team", "crew")] == [None, None, None]


async def test_who_may_not_list_what_keeps_templates_is_told_what_to_ask_for() -> None:
    server = crew()
    server.refused = (CONTROLLER_REVISIONS,)
    for call in (pool_history(api(server), "team", "crew"), undo_pool(api(server), "team", "crew", None)):
        with pytest.raises(Forbidden, match="forbidden") as caught:
            await call
        assert caught.value.advice.startswith("ask for `list` of controllerrevisions (apps)")
    assert server.patches == []


async def test_who_is_not_logged_in_any_more_is_not_told_to_ask_for_rights() -> None:
    server = crew()
    server.refused, server.refusal = (CONTROLLER_REVISIONS,), NotLoggedIn("expired", "log in again")
    with pytest.raises(NotLoggedIn) as caught:
        await pool_history(api(server), "team", "crew")
    assert caught.value.advice == "log in again"


@pytest.mark.parametrize(
    ("number", "target", "digest", "template"), [(None, 2, SLOW, {"a": 9}), (1, 1, GOOD, {"a": 1})]
)
async def test_a_former_template_is_set_if_the_spec_is_still_the_one_read(
    number: int | None, target: int, digest: str, template: dict[str, int]
) -> None:
    server = crew()
    undone = await undo_pool(api(server), "team", "crew", number)
    assert (undone.revision, undone.changed) == (target, True)
    assert undone.message.startswith(f"crew has the template of revision {target} again; changed: spec.image")
    assert server.patches == [
        [
            {"op": "test", "path": "/metadata/uid", "value": "u"},
            {"op": "test", "path": "/metadata/generation", "value": 4},
            {"op": "add", "path": "/spec/template", "value": {"spec": {"limits": template}}},
            {"op": "test", "path": "/metadata/annotations", "value": None},
            {"op": "add", "path": "/metadata/annotations", "value": {RESTORED: f"{target} {digest} 4"}},
        ]
    ]


def restored(server: Server) -> Server:
    """Return the server once the operator has seen that revision 2 was restored: it is revision 4 then."""
    server.pool["metadata"]["annotations"] = {RESTORED: f"2 {SLOW} 4"}
    server.pool["status"]["revision"] = SLOW
    server.objects[CONTROLLER_REVISIONS][2]["revision"] = 4
    return server


@pytest.mark.parametrize("number", [None, 2])
async def test_an_undo_that_is_repeated_changes_nothing_and_says_what_the_pool_has(number: int | None) -> None:
    server = crew()
    await undo_pool(api(server), "team", "crew", number)
    restored(server)
    again = await undo_pool(api(server), "team", "crew", number)
    assert (again.revision, again.changed, again.message) == (
        4,
        False,
        "crew has the template of revision 2 again already, as revision 4; nothing was changed: "
        "to go to another template, name its revision",
    )
    assert len(server.patches) == 1


@pytest.mark.parametrize("number", [None, 2])
async def test_an_undo_that_is_repeated_changes_nothing_where_the_restored_template_is_not_kept(
    number: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    server = restored(crew())
    del server.objects[CONTROLLER_REVISIONS][2]
    again = await undo_pool(api(server), "team", "crew", number)
    assert (again.revision, again.changed) == (2, False)
    assert again.message.startswith("crew has the template of revision 2 again already; nothing was changed")
    assert server.patches == []


async def test_the_template_that_was_undone_comes_back_by_its_number_alone() -> None:
    server = restored(crew())
    undone = await undo_pool(api(server), "team", "crew", 3)
    assert (undone.revision, undone.changed) == (3, True)
    assert server.patches[0][-1] == {
        "op": "add",
        "path": "/metadata/annotations/efrit.dev~1restored-template",
        "value": f"3 {BROKEN} 5",
    }


async def test_an_undo_that_is_repeated_replaces_no_template_that_was_applied_since() -> None:
    server = restored(crew())
    server.objects[CONTROLLER_REVISIONS].append(revision(5, "dddd", spec={}))
    server.pool["status"]["revision"] = "dddd"
    with pytest.raises(NotFound, match=r"crew has no revision 2 any more: .* as revision 4, and") as caught:
        await undo_pool(api(server), "team", "crew", 2)
    assert (caught.value.advice, server.patches) == ("to restore it once more, name 4", [])
    assert (await undo_pool(api(server), "team", "crew", None)).revision == 4


async def test_a_template_that_was_applied_again_by_hand_since_its_undo_is_undone_as_any_other() -> None:
    server = restored(crew())
    broken, _, slow = server.objects[CONTROLLER_REVISIONS]
    broken["revision"], slow["revision"] = 5, 6
    undone = await undo_pool(api(server), "team", "crew", None)
    assert (undone.revision, undone.changed) == (5, True)


@pytest.mark.parametrize("annotation", [f"2 {SLOW} 4", f"2 {SLOW}"], ids=["numbered", "of an unknown number"])
async def test_an_undo_that_is_repeated_before_the_operator_has_numbered_the_template_anew_changes_nothing(
    annotation: str,
) -> None:
    server = restored(crew())
    server.pool["metadata"]["annotations"] = {RESTORED: annotation}
    server.objects[CONTROLLER_REVISIONS][2]["revision"] = 2
    again = await undo_pool(api(server), "team", "crew", None)
    assert (again.revision, again.changed, server.patches) == (2, False, [])


async def test_a_number_that_somebody_else_gave_a_template_lets_no_undo_undo_itself() -> None:
    server = crew()
    server.objects[CONTROLLER_REVISIONS] += [revision(70, "dddd", spec={}), revision(LARGEST_REVISION, "ee", spec={})]
    await undo_pool(api(server), "team", "crew", 2)
    assert server.patches[0][-1]["value"] == {RESTORED: f"2 {SLOW} 71"}


@pytest.mark.parametrize("text", ["", "2", f"0 {SLOW}", f"2 {SLOW} x", "2 ../x", "x" * 300_000])
async def test_an_annotation_that_somebody_else_wrote_restores_and_prevents_nothing(text: str) -> None:
    server = restored(crew())
    server.pool["metadata"]["annotations"] = {RESTORED: text}
    assert (await undo_pool(api(server), "team", "crew", None)).revision == 3


async def test_the_current_template_is_waited_for_until_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    server = crew(current="dddd")
    server.keeps_after, server.keeps = 2, revision(4, "dddd", spec={"image": "last"})
    undone = await undo_pool(api(server), "team", "crew", None)
    assert (undone.revision, undone.fields) == (3, ("spec.image", "spec.limits"))


async def test_the_one_before_is_the_last_of_the_others_where_the_current_one_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    undone = await undo_pool(api(crew(current="dddd")), "team", "crew", None)
    assert (undone.revision, undone.fields) == (3, ())


async def test_the_current_template_is_not_written_again() -> None:
    server = crew()
    undone = await undo_pool(api(server), "team", "crew", 3)
    assert (undone.message, undone.changed) == ("crew has the template of revision 3 already", False)
    assert server.patches == []


async def test_where_there_is_nothing_to_go_back_to_nothing_is_written() -> None:
    server = Server(revision(1, BROKEN, spec={}))
    for number, message in ((None, "crew has no former template to go back to"), (7, "crew has no revision 7")):
        with pytest.raises(NotFound, match=message) as caught:
            await undo_pool(api(server), "team", "crew", number)
        assert caught.value.advice == (
            "apply a corrected template; where templates could not be kept, "
            "`kubectl describe efp -n team crew` shows the Event HistoryRefused"
        )
    with pytest.raises(NotFound, match="crew has no revision 7") as caught:
        await undo_pool(api(crew()), "team", "crew", 7)
    assert caught.value.advice == "name one of those there are: 1, 2, 3"
    assert server.patches == []


async def test_before_the_operator_has_seen_the_last_change_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    server = crew(observed=3)
    with pytest.raises(NotReady, match="has not seen the last change of crew yet") as caught:
        await undo_pool(api(server), "team", "crew", None)
    assert caught.value.advice.startswith("is it running, and does it serve this namespace?")
    assert server.patches == []


@pytest.mark.parametrize("change", [{"generation": 5}, {"annotations": {"a": "b"}}])
async def test_a_pool_that_somebody_changes_meanwhile_is_left_alone(change: dict[str, Any]) -> None:
    server = crew()
    server.faster, server.error = change, Refused("the test failed")
    with pytest.raises(Conflict, match="crew has changed meanwhile; nothing was done"):
        await undo_pool(api(server), "team", "crew", None)


async def test_what_the_api_server_refuses_is_said_in_its_words() -> None:
    server = crew()
    server.error = Refused("Secret key: ada needs the verb use on it")
    with pytest.raises(Refused, match="ada needs the verb use on it"):
        await undo_pool(api(server), "team", "crew", None)


@pytest.mark.parametrize("name", ["crwe", "../secrets", ""])
async def test_a_pool_that_is_not_there_has_no_history(name: str) -> None:
    with pytest.raises(PoolNotFound):
        await pool_history(api(crew()), "team", name)
    with pytest.raises(PoolNotFound):
        await undo_pool(api(crew()), "team", name, None)


async def test_of_many_changed_fields_some_are_named() -> None:
    many = {f"k{number:02}": number for number in range(14)}
    server = Server(revision(1, GOOD, spec=many), revision(2, BROKEN, spec={}))
    undone = await undo_pool(api(server), "team", "crew", None)
    assert undone.message.endswith("spec.k09 and 4 more")
    assert len(undone.fields) == 14


def test_changed_fields_are_paths_and_a_list_is_one_value() -> None:
    before, after = {"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"b": 1, "c": [2]}, "e": 1}
    assert sorted(changed_fields(before, after)) == ["a.c", "d", "e"]
