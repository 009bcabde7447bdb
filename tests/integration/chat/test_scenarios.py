"""Every scenario played through: real bridge, real Emacs, real HTTP; what the model says is written beforehand."""

from __future__ import annotations

import json
import re

import pytest

from efrit.protocol import Response
from tests.integration.chat.conftest import begin, clear
from tests.model.__main__ import SCENARIOS
from tests.model.running import Model
from tests.model.scenario import Request, Scenario, read_folder
from tests.support.bridge_instance import Instance

# These take minutes if nobody stops them: test_stops.py.
TO_BE_STOPPED = ("slow", "slow-command", "sleeping-eval", "sleeping-shell")
# What `efrit doctor` asks is not a request: tests/integration/client/test_model.py.
NOT_PLAYED = (*TO_BE_STOPPED, "probe")
PLAYED = {name: scenario for name, scenario in read_folder(SCENARIOS).items() if name not in NOT_PLAYED}
TIMEOUTS = {"hang": 3}


@pytest.mark.parametrize("scenario", PLAYED.values(), ids=PLAYED.keys())
def test_a_scenario_ends_as_it_says(scenario: Scenario, instances: dict[str, Instance], model: Model) -> None:
    instance = instances[scenario.protocol]
    clear(instance.workspace)
    for name, text in scenario.files.items():
        path = instance.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    session = None
    for number, request in enumerate(scenario.request):
        response = played(instance, f"{scenario.name}-{number}", request, scenario, session)
        check(request, response, describe_turns(model, scenario))
        assert response.session is not None
        session = response.session.id
    for name, pattern in scenario.files_after.items():
        text = (instance.workspace / name).read_text()
        assert re.search(pattern, text), f"{name} is {text!r}"


def played(instance: Instance, rid: str, request: Request, scenario: Scenario, session: str | None) -> Response:
    options: dict[str, object] = {"session": {"id": session}} if session is not None else {}
    begin(instance, rid, request.type, request.content, timeout=TIMEOUTS.get(scenario.name, 60), **options)
    return instance.answer(rid)


def describe_turns(model: Model, scenario: Scenario) -> str:
    """Return what the model has said to the calls it got, for a test that fails."""
    log = model.log(scenario.name)
    keys = ("turn", "attempt", "status", "ended", "fault", "unmet")
    return "\n".join(json.dumps({key: entry.get(key) for key in keys}) for entry in log)


def check(request: Request, response: Response, calls: str) -> None:
    diagnostics = f"{response.to_json()}\n{calls}"
    assert response.reason == request.reason, diagnostics
    if request.result is not None:
        assert re.search(request.result, response.result or ""), diagnostics
    if request.error is not None:
        assert re.search(request.error, response.error or ""), diagnostics
    if request.question is not None:
        assert response.session is not None
        assert re.search(request.question, response.session.question or ""), diagnostics
