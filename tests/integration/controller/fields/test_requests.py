"""What was asked for stays what was asked for: a change is refused by name and disturbs nothing."""

from __future__ import annotations

import base64
import re

import pytest

from efrit.api import RequestSpec
from tests.integration.controller.fields.requests import TOO_LATE
from tests.model.running import KEY, running
from tests.support.kube import Json, Refused, until
from tests.support.site import Site

GATE = '(progn (while (not (file-exists-p "{0}")) (sleep-for 0.02)) (delete-file "{0}") "{0}")'


def _change(site: Site, name: str, **spec: object) -> None:
    site.kube.patch("efritrequests", site.namespace, name, {"spec": spec}, fieldValidation="Strict")


def _spec(site: Site, name: str) -> Json:
    spec: Json = site.kube.get("efritrequests", site.namespace, name)["spec"]
    return spec


def test_no_change_of_running_work_is_let_in_and_none_disturbs_it(shared: Site) -> None:
    name = shared.ask(GATE.format("gate"), timeoutSeconds=600, queueTimeoutSeconds=600, ttlSecondsAfterFinished=600)
    shared.until_status(name, phase="Running")
    before = _spec(shared, name)
    for field, value in TOO_LATE.items():
        # Null takes a default back; where there is none it takes the field away, which is a change where it was set.
        for new in (value, None) if before.get(field) and field not in DEFAULTED else (value,):
            with pytest.raises(
                Refused, match=rf"spec\.{field} is immutable: create a new EfritRequest|Required value"
            ):
                _change(shared, name, **{field: new})
    assert _spec(shared, name) == before
    (shared.node.pod("one").workspace / "gate").touch()
    assert shared.answer(name)["result"] == '"gate"'
    assert shared.status(name)["attempt"] == 1


DEFAULTED = {"priority", "returnContext", "retryPolicy", "maxAttempts"}


def test_every_field_but_cancel_is_tried_too_late() -> None:
    assert TOO_LATE.keys() | {"cancel"} == {field.alias or name for name, field in RequestSpec.model_fields.items()}


def test_nothing_can_be_changed_in_answered_work_either(shared: Site) -> None:
    name = shared.ask("'done")
    status = shared.answer(name)
    for field, value in TOO_LATE.items():
        with pytest.raises(Refused, match=re.escape(f"spec.{field} is immutable")):
            _change(shared, name, **{field: value})
    _change(shared, name, cancel=True)
    assert shared.status(name) == status
    assert shared.answer(shared.ask("'after"))["result"] == "after"
    assert shared.status(name) == status


def test_a_cancel_stands(shared: Site) -> None:
    name = shared.ask(GATE.format("never"))
    shared.until_status(name, phase="Running")
    _change(shared, name, cancel=False)
    shared.cancel(name)
    for taken_back in (False, None):
        with pytest.raises(Refused, match=r"spec\.cancel cannot be taken back: create a new EfritRequest instead"):
            _change(shared, name, cancel=taken_back)
    assert shared.answer(name)["reason"] == "Cancelled"


def test_a_pool_is_the_instances_with_its_label(shared: Site) -> None:
    label = {"efrit.dev/pool": "a-pool"}
    name = shared.ask("'pooled", to=None, poolRef={"name": "a-pool"})
    shared.until_status(name, reason="InstanceNotReady")
    shared.kube.patch("efritinstances", shared.namespace, "one", {"metadata": {"labels": label}})
    status = shared.answer(name)
    assert (status["result"], status["instanceName"]) == ("pooled", "one")
    shared.kube.patch("efritinstances", shared.namespace, "one", {"metadata": {"labels": dict.fromkeys(label)}})

    def unbound() -> bool:
        name = shared.ask("'pooled", to=None, poolRef={"name": "a-pool"}, queueTimeoutSeconds=2)
        return bool(shared.answer(name)["reason"] == "TimedOut")

    # The event of the label comes by another watch than that of the request.
    until(unbound, "it is still bound by a label that is gone")


def test_each_bound_of_a_budget_ends_a_command(shared: Site) -> None:
    with running() as model:
        data = {"k": base64.b64encode(KEY.encode()).decode()}
        shared.kube.create("secrets", shared.namespace, {"metadata": {"name": "s"}, "type": "Opaque", "data": data})
        spec = {"name": "m", "baseURL": model.url, "apiKeySecretRef": {"name": "s", "key": "k"}}
        shared.instance("modelled", model=spec)

        def bounded(scenario: str, **budget: int) -> str:
            content = f"Work, with {budget}. (scenario={scenario})"
            return shared.ask(content, to="modelled", type="command", budget=budget)

        names = [
            bounded("many-calls", maxIterations=2),
            bounded("many-calls", maxTokens=1),
            bounded("slow-command", iterationTimeoutSeconds=1),
            bounded("twelve-steps", maxIterations=20, maxTokens=10_000_000, iterationTimeoutSeconds=60),
        ]
        ends = [shared.answer(name) for name in names]
    assert [end["reason"] for end in ends] == ["BudgetExhausted"] * 3 + ["Succeeded"]
    assert ends[0]["usage"]["modelCalls"] == 2
