"""Each field of a pool changed and taken back: its effect on members and budget, no other, and then what was before.

What a field does to requests show the tests named in pools.py. Here is what it must not do: replace a member, or
leave something behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from queue import Queue
from typing import Any, NamedTuple

import pytest

from efrit.kube.media_types import JSON_PATCH
from tests.integration.controller.fields.children import PASSING, Flat, differences, flat
from tests.integration.controller.fields.pools import CHANGES, PoolChange
from tests.support.kube import Json, until
from tests.support.site import Site
from tests.support.timeout import TIMEOUT

POOLS = 6
COUNTED = ("desiredReplicas", "replicas", "ready", "idle", "draining", "suspended", "updated")


class PoolRig:
    """Talks about one pool of a site, whose spec is replaced time and again."""

    def __init__(self, site: Site, name: str, spec: Json) -> None:
        self._site, self._name = site, name
        self.uids: set[str] = set()
        """The members that were seen last."""
        site.kube.create("efritpools", site.namespace, {"metadata": {"name": name}, "spec": spec})

    def after(self, spec: Json) -> Flat:
        """Replace the spec and return what is seen once the pool has settled."""
        kube, namespace = self._site.kube, self._site.namespace
        body = [{"op": "replace", "path": "/spec", "value": spec}]
        path = kube.path("efritpools", namespace, self._name)
        kube.call("PATCH", path, body, content_type=JSON_PATCH, fieldValidation="Strict")
        return self._observed(
            until(self._settled, lambda: f"not settled: {self._object()}\n{self._site.logs()}", TIMEOUT)
        )

    def _object(self) -> Json:
        return self._site.kube.get("efritpools", self._site.namespace, self._name)

    def _settled(self) -> Json | None:
        """Return the pool once its status speaks of the present spec and nothing is under way any more."""
        obj = self._object()
        status, generation = obj.get("status", {}), obj["metadata"]["generation"]
        spoken = {status.get("observedGeneration"), *(each["observedGeneration"] for each in _conditions(status))}
        if spoken != {generation} or status.get("draining", 0) or len(self._members()) != status["desiredReplicas"]:
            return None
        reached = {status.get(name, 0) for name in ("replicas", "ready", "updated")}
        return obj if reached == {status["desiredReplicas"]} and self._budget() else None

    def _budget(self) -> Json | None:
        return self._site.kube.find("poddisruptionbudgets", self._site.namespace, f"efrit-{self._name}")

    def _members(self) -> list[Json]:
        selector = f"efrit.dev/pool={self._name}"
        return self._site.kube.list("efritinstances", self._site.namespace, labelSelector=selector)

    def _observed(self, obj: Json) -> Flat:
        """Return counts, conditions, what members are like, and the budget."""
        status = obj["status"]
        seen: Flat = {f"status.{name}": status.get(name, 0) for name in COUNTED}
        for condition in _conditions(status):
            lasting = {key: value for key, value in condition.items() if key not in PASSING}
            seen |= flat(lasting, f"condition[{condition['type']}]")
        members = self._members()
        self.uids = {member["metadata"]["uid"] for member in members}
        for member in members:
            labels = {key: value for key, value in member["metadata"]["labels"].items() if "efrit.dev/" not in key}
            # Once all are of the present template they are alike.
            seen |= flat({"labels": labels, "spec": member["spec"]}, "member")
        budget = self._budget()
        return seen | flat(budget["spec"] if budget else None, "budget")


def _conditions(status: Mapping[str, Any]) -> list[Json]:
    return list(status.get("conditions", ()))


class Outcome(NamedTuple):
    """What a change has led to, and what is left once it is taken back."""

    effect: Flat
    left: Flat
    replaced: bool


def _try(rigs: Queue[PoolRig], case: PoolChange) -> Outcome:
    rig = rigs.get()
    try:
        before, first = rig.after(case.before), rig.uids
        after, second = rig.after(case.after), rig.uids
        left = differences(before, rig.after(case.before))
        replaced = any(not (old <= new or new <= old) for old, new in pairwise((first, second, rig.uids)))
        return Outcome(differences(before, after), left, replaced)
    finally:
        rigs.put(rig)


@pytest.fixture(scope="module")
def outcomes(shared: Site) -> Iterator[Mapping[str, Future[Outcome]]]:
    """Try all of them, side by side on some pools: the status of each is written once a second at most."""
    rigs: Queue[PoolRig] = Queue()
    for number in range(POOLS):
        rigs.put(PoolRig(shared, f"changing{number}", CHANGES[0].before))
    with ThreadPoolExecutor(POOLS) as pool:
        yield {case.title: pool.submit(_try, rigs, case) for case in CHANGES}


@pytest.mark.parametrize("case", CHANGES, ids=str)
def test_a_change_of_a_pool_has_its_effect_and_no_other_and_is_taken_back(
    outcomes: Mapping[str, Future[Outcome]], case: PoolChange
) -> None:
    assert outcomes[case.title].result() == Outcome(case.effect, {}, case.replaces)
