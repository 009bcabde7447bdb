"""warm_objects.py: a list over what was kept yields what a list of whole objects would, whatever is kept."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from efrit.controller import warm_objects
from efrit.controller.act.kube import Kube
from efrit.controller.warm_objects import MAX_READ_ALONE, Place, VerifiedPages, WarmObjects
from efrit.kube.media_types import JSON, METADATA_LIST
from efrit.resources import INSTANCES, PODS
from tests.unit.controller.fake_api import FakeApi

Json = dict[str, Any]
EVERYWHERE = Place(PODS, None)
PODS_OF_TEAM = PODS.path("team")
BUDGET = 1 << 20


def pod(name: str, **more: Any) -> Json:
    return {"metadata": {"name": name, "namespace": "team", "labels": {"a": "b"}, **more}, "spec": {"of": name}}


class Server:
    """Objects with versions, of which lists are made; notes which lists were of whole objects."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.version = 0
        self.whole_lists = 0
        self.read: list[str] = []

    def change(self, name: str, uid: str) -> None:
        """Write an object; another UID is another object."""
        self.version += 1
        self.objects[name] = pod(name, uid=f"{name}-{uid}", resourceVersion=str(self.version))

    def named(self, _resource: object, _namespace: str, name: str, **_selectors: str) -> Pages:
        self.read.append(name)
        return Pages([self.objects[name]] if name in self.objects else [], str(self.version))

    def pages(self, _resource: object, _scope: object, *, accept: str = JSON, **_selectors: str) -> Pages:
        objects = [obj for _, obj in sorted(self.objects.items())]
        if accept == JSON:
            self.whole_lists += 1
        else:
            objects = [{"metadata": obj["metadata"]} for obj in objects]
        return Pages(objects, str(self.version))


class BusyServer(Server):
    """As soon as the metadata were listed, one object is deleted and another one written."""

    def pages(self, _resource: object, _scope: object, *, accept: str = JSON, **selectors: str) -> Pages:
        found = super().pages(_resource, _scope, accept=accept, **selectors)
        if accept == METADATA_LIST:
            del self.objects["deleted"]
            self.change("later", "1")
        return found


class Pages:
    def __init__(self, objects: list[Json], version: str) -> None:
        self._objects = objects
        self.version = version

    async def __aiter__(self) -> AsyncIterator[Json]:
        for obj in self._objects:
            yield obj


def listed(server: Server, warm: WarmObjects) -> tuple[list[Json], str]:
    async def read() -> tuple[list[Json], str]:
        pages = VerifiedPages(cast("Kube", server), warm, EVERYWHERE, {})
        return [obj async for obj in pages], pages.version

    return asyncio.run(read())


def by_name(objects: list[Json]) -> list[Json]:
    return sorted(objects, key=lambda obj: str(obj["metadata"]["name"]))


NAMES = st.sampled_from("abcd")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, st.sampled_from(("1", "2"))),
        st.tuples(st.just("delete"), NAMES, st.just("")),
        # What the watch of the one that stands by has shown by then is chance.
        st.tuples(st.just("see"), NAMES, st.just("")),
        st.tuples(st.just("see gone"), NAMES, st.just("")),
    ),
    max_size=30,
)


@given(STEPS, st.sampled_from((0, 1200, BUDGET)))
def test_whatever_was_seen_a_list_yields_each_object_as_the_api_server_has_it(
    steps: list[tuple[str, str, str]], budget: int
) -> None:
    server, warm = Server(), WarmObjects(budget)
    for step, name, uid in steps:
        if step == "write":
            server.change(name, uid)
        elif step == "delete":
            server.objects.pop(name, None)
            server.version += 1
        elif step == "see" and name in server.objects:
            warm.put(EVERYWHERE, server.objects[name])
        elif step == "see gone":
            warm.discard(EVERYWHERE, ("team", name))

    objects, version = listed(server, warm)

    assert by_name(objects) == by_name(list(server.objects.values()))
    assert version == str(server.version)
    assert warm.held_bytes <= budget


def test_what_is_unchanged_is_not_read_and_what_has_changed_is() -> None:
    server, warm = Server(), WarmObjects(BUDGET)
    for name in ("gone", "kept", "changed", "replaced"):
        server.change(name, "1")
        warm.put(EVERYWHERE, server.objects[name])
    server.change("changed", "1")
    server.change("replaced", "2")
    server.change("new", "1")
    del server.objects["gone"]

    objects, _ = listed(server, warm)

    assert by_name(objects) == by_name(list(server.objects.values()))
    assert (sorted(server.read), server.whole_lists) == (["changed", "new", "replaced"], 0)


def test_where_many_have_changed_all_are_listed_once() -> None:
    server, warm = Server(), WarmObjects(BUDGET)
    server.change("kept", "1")
    warm.put(EVERYWHERE, server.objects["kept"])
    for number in range(MAX_READ_ALONE + 1):
        server.change(f"new{number}", "1")

    objects, _ = listed(server, warm)

    assert by_name(objects) == by_name(list(server.objects.values()))
    assert (server.read, server.whole_lists) == ([], 1)


def test_one_that_is_written_or_deleted_while_the_others_are_read_is_left_to_the_watch() -> None:
    """The list is of an earlier version: the events of both come from there."""
    server, warm = BusyServer(), WarmObjects(BUDGET)
    for name in ("deleted", "later"):
        server.change(name, "1")
    before = str(server.version)

    objects, version = listed(server, warm)

    assert objects == [server.objects["later"]]
    assert version == before


def test_what_is_beyond_the_budget_is_not_kept_and_what_is_discarded_makes_room() -> None:
    one = pod("one", uid="1", resourceVersion="1")
    alone = WarmObjects(BUDGET)
    alone.put(EVERYWHERE, one)
    warm = WarmObjects(alone.held_bytes)
    warm.put(EVERYWHERE, one)
    warm.put(EVERYWHERE, pod("two", uid="2", resourceVersion="2"))
    assert (warm.count(EVERYWHERE), warm.held_bytes) == (1, alone.held_bytes)

    warm.discard(EVERYWHERE, ("team", "one"))
    assert (len(warm), warm.held_bytes) == (0, 0)
    warm.put(EVERYWHERE, one)
    assert len(warm) == 1


def test_what_is_kept_of_small_objects_is_counted_with_all_that_it_costs() -> None:
    warm, count = WarmObjects(1 << 30), 2000
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(count):
        # Each with strings of its own, as they come from the API server.
        meta = {"name": f"efrit-alpha-{number}", "namespace": "team", "uid": f"{number:036}"}
        warm.put(EVERYWHERE, {"metadata": {**meta, "resourceVersion": str(10**6 + number)}})
    cost = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()

    assert warm.held_bytes >= 0.8 * cost


def test_of_an_object_that_is_kept_only_who_wrote_which_field_is_left_out() -> None:
    server, warm = Server(), WarmObjects(BUDGET)
    server.change("one", "1")
    about = [{"manager": "efrit-operator", "fieldsV1": {"f:spec": {}}}]
    seen = msgspec.convert(server.objects["one"], dict[str, Any])
    warm.put(EVERYWHERE, {**seen, "metadata": {**seen["metadata"], "managedFields": about}})

    assert listed(server, warm)[0] == [server.objects["one"]]
    assert server.read == []


def test_places_are_apart_and_are_released_by_namespace() -> None:
    warm, team = WarmObjects(BUDGET), Place(PODS, "team")
    other = Place(INSTANCES, "other")
    for place in (team, other):
        warm.put(place, pod("one", uid="1", resourceVersion="1"))
        warm.listed(place, {("team", "one")})
    assert not warm.is_listed(EVERYWHERE)

    warm.release_scope("team")

    assert (warm.count(team), warm.is_listed(team)) == (0, False)
    assert (warm.count(other), warm.is_listed(other)) == (1, True)
    warm.listed(other, set())
    assert warm.held_bytes == 0


async def test_pods_are_read_by_a_list_of_one_within_their_namespace(api: FakeApi, kube: Kube) -> None:
    """The controller may get no pod."""
    stored = api.put(f"{PODS_OF_TEAM}/one", pod("one"))
    api.put(f"{PODS_OF_TEAM}/two", pod("two"))
    warm = WarmObjects(BUDGET)
    warm.put(EVERYWHERE, stored)
    selectors = {"labelSelector": "app=efrit"}

    pages = VerifiedPages(kube, warm, EVERYWHERE, selectors)
    names = [obj["metadata"]["name"] async for obj in pages]

    assert names == ["one", "two"]
    heads, read = api.calls
    assert (heads.path, heads.accept) == (PODS.path(), METADATA_LIST)
    assert (read.path, read.query["fieldSelector"]) == (PODS_OF_TEAM, "metadata.name=two")
    assert all(call.query["labelSelector"] == "app=efrit" for call in api.calls)
    assert warm_objects.READS_AT_A_TIME < MAX_READ_ALONE
