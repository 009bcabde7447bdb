"""Types of the wire as fields of a resource: narrower there, or left out."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from efrit.api.plan import PlanStatus
from efrit.api.request import RequestSpec, RequestStatus
from efrit.protocol import Budget, Progress
from efrit.protocol.plan_values import HiddenTasks


def test_a_budget_of_a_resource_is_narrower_and_in_whole_seconds() -> None:
    spec = {"type": "command", "content": "x", "instanceRef": {"name": "i"}}
    read = RequestSpec.model_validate({**spec, "budget": {"maxTokens": 9, "iterationTimeoutSeconds": 60}})
    assert read.budget == Budget(max_tokens=9, iteration_timeout=60)
    assert isinstance(read.budget.iteration_timeout, int)
    assert read.to_wire()["budget"] == {"maxTokens": 9, "iterationTimeoutSeconds": 60}
    for wrong in ({"maxTokens": 10**9}, {"maxToolCalls": 0}, {"iterationTimeoutSeconds": 2.5}):
        with pytest.raises(ValidationError):
            RequestSpec.model_validate({**spec, "budget": wrong})


def test_a_status_has_the_session_beside_the_progress_and_the_whole_tree() -> None:
    progress = RequestStatus(progress=Progress(step=1, session="s")).to_wire()["progress"]
    assert progress == {"step": 1}
    task = {"id": "a", "type": "atomic", "description": "x", "state": "done", "hidden": {"done": 2}}
    status = PlanStatus.model_validate({"tree": [task], "observations": [{"perspective": "build", "statement": "s"}]})
    assert status == PlanStatus.model_validate(status.to_wire())
    assert status.tree[0].hidden == HiddenTasks(done=2)
