"""What the API server takes on, the models read and the decisions handle: the two never differ on what is valid.

More examples, new ones each time: `EFRIT_FUZZ_EXAMPLES=5000 pytest tests/integration/api/test_differential.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pydantic import ValidationError

from efrit.api import EfritClaim, EfritInstance, EfritPlan, EfritPool, EfritRequest
from efrit.api.pool import PoolTemplate
from efrit.controller.act.identity import new_identity
from efrit.controller.decide.claims import decide_claim
from efrit.controller.decide.instances import decide_instance
from efrit.controller.decide.plans import decide_plan
from efrit.controller.decide.pools import decide_pool
from efrit.controller.decide.requests import decide_request
from efrit.controller.manifests import build
from efrit.controller.model.actions import Action, ApplyChildren, CreateRequest, PatchStatus, StoreResult, Submit
from efrit.controller.model.claims import ClaimSnapshot
from efrit.controller.model.pools import PoolSnapshot
from efrit.controller.model.snapshots import PlanSnapshot
from efrit.errors import ApiError
from efrit.kube.errors import UNREADABLE
from efrit.kube.media_types import APPLY_PATCH
from efrit.protocol import Request, RequestState
from efrit.resources import resource_of
from tests.support import factory
from tests.support.custom_resources import new_namespace
from tests.support.factory import CONFIG, NOW, seconds
from tests.support.kube import Json, Kube
from tests.support.manifest_schema import BASES, holding, judged
from tests.support.manifest_strategies import manifests, odd_values

EXAMPLES = int(os.environ.get("EFRIT_FUZZ_EXAMPLES", "0"))
IDENTITY = new_identity()
REPORTED = (400, 403, 409, 413, 422)
"""Status codes that the controller reports as a condition."""

MODELS: dict[str, type[EfritInstance | EfritRequest | EfritPlan | EfritPool | EfritClaim]] = {
    "efritinstances": EfritInstance,
    "efritrequests": EfritRequest,
    "efritplans": EfritPlan,
    "efritpools": EfritPool,
    "efritclaims": EfritClaim,
}

fuzzed = settings(
    max_examples=EXAMPLES or 120,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def room(kube: Kube) -> str:
    return new_namespace(kube)


class Tally:
    """How many of the objects the API server took on: a test that it refuses everything would show nothing."""

    def __init__(self) -> None:
        self.tried = self.taken = 0

    def take(self, write: Callable[[], Json]) -> Json | None:
        self.tried += 1
        try:
            stored = write()
        except ApiError as refusal:
            if refusal.status not in (400, 422):
                raise
            return None
        self.taken += 1
        return stored

    def enough(self) -> bool:
        return self.taken >= self.tried / 5


def test_a_pool_reads_the_spec_of_its_members_by_the_model_of_an_instance() -> None:
    """Which is why no value is tried at both places."""
    assert PoolTemplate.model_fields["spec"].annotation is EfritInstance.model_fields["spec"].annotation


@pytest.mark.parametrize("plural", BASES)
def test_an_odd_value_is_judged_alike(kube: Kube, room: str, plural: str) -> None:
    tally = Tally()
    for node in judged("spec"):
        for value in odd_values(node.schema) if node.plural == plural else ():
            manifest = holding(node, value)
            stored = tally.take(lambda: kube.create(plural, room, manifest, dryRun="All"))  # noqa: B023 - called at once
            if stored is not None:
                try:
                    MODELS[plural].model_validate(stored)
                    _agrees(MODELS[plural], manifest)
                except ValidationError as error:
                    raise AssertionError(
                        f"{node.dotted} = {value!r}: only the API server takes it: {error}"
                    ) from error
    assert 0 < tally.taken < tally.tried


def _every_spec_that_is_taken_on(kube: Kube, room: str, plural: str, checks: Callable[[Any], None]) -> None:
    """Have specs of a resource written; those that the API server takes the models read, and `checks` looks at."""
    tally = Tally()

    @fuzzed
    @given(manifests(plural, "spec"))
    def holds(manifest: Json) -> None:
        stored = tally.take(lambda: kube.create(plural, room, manifest, dryRun="All"))
        if stored is not None:
            read = MODELS[plural].model_validate(stored)
            assert type(read.spec).model_validate(read.spec.to_wire()) == read.spec
            _agrees(MODELS[plural], manifest)
            checks(read)

    holds()
    assert tally.enough(), vars(tally)


def test_every_instance_that_is_taken_on_is_read_decided_about_and_built(kube: Kube, room: str) -> None:
    def checks(instance: EfritInstance) -> None:
        _instance_is_decided_about(instance)
        _children_are_made_or_refused(kube, instance)

    _every_spec_that_is_taken_on(kube, room, "efritinstances", checks)


def test_every_request_that_is_taken_on_is_read_decided_about_and_sent(kube: Kube, room: str) -> None:
    _every_spec_that_is_taken_on(kube, room, "efritrequests", _request_is_decided_about)


def test_every_plan_that_is_taken_on_is_read_and_begun(kube: Kube, room: str) -> None:
    existing = kube.create("efritplans", room, {**BASES["efritplans"], "metadata": {"name": "begun"}})

    def checks(plan: EfritPlan) -> None:
        for action in _plan_is_decided_about(plan):
            match action:
                case CreateRequest(manifest=made):
                    # As the controller would, but that a dry run has no plan of this UID.
                    kube.create("efritrequests", room, dict(made), dryRun="All", fieldValidation="Strict")
                case PatchStatus(status=status):
                    whole = {**existing, "status": status}
                    kube.replace("efritplans", room, whole, "status", dryRun="All", fieldValidation="Strict")

    _every_spec_that_is_taken_on(kube, room, "efritplans", checks)


@pytest.mark.parametrize("plural", BASES)
def test_every_status_that_is_taken_on_is_read(kube: Kube, room: str, plural: str) -> None:
    """Only the controller writes it, and it may be another version of it."""
    tally = Tally()
    base = BASES[plural]
    existing = kube.create(plural, room, {**base, "metadata": {"name": "fuzzed"}})

    @fuzzed
    @given(manifests(plural, "status"))
    def holds(manifest: Json) -> None:
        whole = {**existing, "status": manifest.get("status")}
        stored = tally.take(lambda: kube.replace(plural, room, whole, "status", dryRun="All"))
        if stored is not None:
            read = MODELS[plural].model_validate(stored)
            if isinstance(read, EfritInstance):
                _instance_is_decided_about(read)
            elif isinstance(read, EfritRequest):
                _request_is_decided_about(read)
            elif isinstance(read, EfritPlan):
                list(_plan_is_decided_about(read))
            elif isinstance(read, EfritPool):
                _pool_is_decided_about(read)
            else:
                list(_is_json(decide_claim(ClaimSnapshot(read, listed=True), NOW)))

    holds()
    assert tally.enough(), vars(tally)


def _agrees(model: type[EfritInstance | EfritRequest | EfritPlan | EfritPool | EfritClaim], manifest: Json) -> None:
    """Check that the models read what is taken on as it was sent, but for the differences that are known."""
    model.model_validate(_without_nulls(manifest))


def _without_nulls(value: Any) -> Any:
    """Drop nulls as the API server does, which puts the default in their place: the models never see one."""
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _instance_is_decided_about(instance: EfritInstance) -> None:
    busy = factory.connected(bridge_stats=factory.stats(processing=1, pending=3))
    refused = {"refused": "no", "refused_generation": 1, "refused_time": NOW - seconds(9)}
    for snapshot in (
        factory.away(instance),
        factory.away(instance, **refused),
        factory.ready(instance),
        factory.ready(instance, bridge=busy, open_requests=4),
        factory.ready(instance, problem="non-existent", pod=factory.pod(deleting=True)),
    ):
        _is_json(decide_instance(snapshot, IDENTITY, NOW))


def _children_are_made_or_refused(kube: Kube, instance: EfritInstance) -> None:
    for manifest in build(instance, CONFIG, IDENTITY, 1, NOW).manifests:
        if manifest["kind"] in ("Secret", "ServiceAccount"):
            continue
        meta = manifest["metadata"]
        path = resource_of(manifest).path(meta["namespace"], meta["name"])
        query = {"fieldManager": "efrit-operator", "force": "true", "dryRun": "All"}
        try:
            kube.call("PATCH", path, manifest, content_type=APPLY_PATCH, **query)
        except ApiError as refusal:
            if refusal.status not in REPORTED and not refusal.sentence.startswith(UNREADABLE):
                raise AssertionError("the controller would try this for ever") from refusal


def _request_is_decided_about(request: EfritRequest) -> None:
    modelled = factory.instance(spec={"model": {"name": "m", "apiKeySecretRef": {"name": "s", "key": "k"}}})
    plain = factory.instance()
    uid = request.metadata.uid
    answer = factory.answered(uid, result="x" * 40_000, sha256="0" * 64, result_bytes=40_000)
    queued, running = (factory.view(uid, state) for state in (RequestState.QUEUED, RequestState.RUNNING))
    for target in (None, factory.away(plain), factory.ready(plain), factory.ready(modelled)):
        base = factory.snapshot(request, target, candidates=(factory.ready(plain),))
        for snapshot in (
            base,
            replace(base, gone=True),
            *(replace(base, bridge_view=view) for view in (queued, running, answer)),
            replace(base, bridge_view=answer, reduced_status=True),
        ):
            for action in _is_json(decide_request(snapshot, NOW)):
                if isinstance(action, Submit):
                    assert Request.parse(action.request.to_json().encode()).digest() == action.request.digest()


def _plan_is_decided_about(plan: EfritPlan) -> Iterator[Action]:
    roomy = factory.instance(spec={"limits": {"maxRequestBytes": 1_000_000}})
    for target in (None, roomy):
        actions = decide_plan(PlanSnapshot(plan, {}, {}, target), NOW)
        assert actions or plan.final
        yield from actions


def _pool_is_decided_about(pool: EfritPool) -> None:
    for template in (None, pool.spec.template.to_wire()):
        for pending in (0, 3):
            snapshot = PoolSnapshot(pool, template, "r", pending=pending, listed=True)
            assert list(_is_json(decide_pool(snapshot, NOW))) or pool.metadata.deletion_timestamp


def test_every_pool_that_is_taken_on_is_read_and_decided_about(kube: Kube, room: str) -> None:
    _every_spec_that_is_taken_on(kube, room, "efritpools", _pool_is_decided_about)


def _is_json(actions: list[Action]) -> Iterator[Action]:
    """Return whether this can go over the wire."""
    for action in actions:
        match action:
            case ApplyChildren(manifests=manifests):
                json.dumps(manifests, allow_nan=False).encode()
            case StoreResult(manifest=one):
                json.dumps(one, allow_nan=False).encode()
            case _:
                pass
    return iter(actions)
