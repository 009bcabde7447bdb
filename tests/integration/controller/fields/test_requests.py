"""What fields of a request do that no other file shows."""

from __future__ import annotations

import base64

from tests.model.running import KEY, running
from tests.support.kube import until
from tests.support.site import Site


def test_a_cancel_of_answered_work_changes_nothing(shared: Site) -> None:
    name = shared.ask("'done")
    status = shared.answer(name)
    shared.cancel(name)
    assert shared.status(name) == status
    assert shared.answer(shared.ask("'after"))["result"] == "after"
    assert shared.status(name) == status


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
