"""What a user does to another one of the same pool by giving all that they ask for the highest priority."""

from __future__ import annotations

from functools import partial

import pytest

from tests.support.kube import Json, until
from tests.support.simulated_bridge import Mode
from tests.support.tenants import POOL, Tenants

SPEC: Json = {
    "preemption": "LowerPriority",
    "placement": {"maxLoadPerInstance": 1},
    "fairness": {"flowLabel": "user"},
}
URGENT = 20


def ask(tenants: Tenants, name: str, user: str, priority: int = 0) -> None:
    """Create an eval of a user that may run twice and runs until it is stopped."""
    spec = {"type": "eval", "content": "(+ 1 2)", "poolRef": {"name": POOL}, "retryPolicy": "IfInterrupted"}
    manifest = {"metadata": {"name": name, "labels": {"user": user}}, "spec": {**spec, "priority": priority}}
    tenants.kube.create("efritrequests", tenants.quiet.namespace, manifest, fieldValidation="Strict")


def until_running(tenants: Tenants, *names: str) -> None:
    for name in names:
        until(
            lambda name=name: tenants.quiet.status(name).get("phase") == "Running" or None,  # type: ignore[misc]
            lambda name=name: f"{name} does not run: {tenants.quiet.status(name)}\n{tenants.operator.diagnostics()}",  # type: ignore[misc]
        )


def until_reported(tenants: Tenants, *names: str) -> None:
    """Wait until each says where it stands."""
    for name in names:
        until(
            lambda name=name: tenants.quiet.status(name).get("reason"),  # type: ignore[misc]
            lambda name=name: f"{name} says nothing\n{tenants.operator.diagnostics()}",  # type: ignore[misc]
        )


@pytest.mark.parametrize(("mine", "taken"), [(1, 0), (2, 1)])
def test_priority_takes_from_another_user_only_what_they_have_beyond_their_share(
    tenants: Tenants, mine: int, taken: int
) -> None:
    for bridge in tenants.pool(tenants.quiet, 2, **SPEC):
        tenants.node.do(partial(bridge.set, Mode.WORKS))
    owners = ["quiet"] * mine + ["loud"] * (2 - mine)
    first = [f"{owner}-{number}" for number, owner in enumerate(owners)]
    for name, owner in zip(first, owners, strict=True):
        ask(tenants, name, owner)
    until_running(tenants, *first)

    urgent = [f"urgent-{number}" for number in range(URGENT)]
    for name in urgent:
        ask(tenants, name, "loud", priority=1000)
    until_reported(tenants, *urgent)

    def interrupted() -> list[str]:
        preemptions = {name: tenants.quiet.status(name).get("preemption", {}) for name in first}
        return [name for name, preemption in preemptions.items() if preemption.get("count")]

    # In its own flow the priority decides alone, and each user has one of the two places in the end.
    until(
        lambda: sum(tenants.quiet.status(name).get("phase") == "Running" for name in urgent) == 1 or None,
        lambda: f"{interrupted()} are interrupted\n{tenants.operator.diagnostics()}",
    )
    until(lambda: len(interrupted()) == 1 or None, lambda: f"{interrupted()}\n{tenants.operator.diagnostics()}")
    assert sum(name.startswith("quiet") for name in interrupted()) == taken
    left = [name for name in first if name.startswith("quiet") and name not in interrupted()]
    assert [tenants.quiet.status(name)["phase"] for name in left] == ["Running"]
