"""Every scenario played through: real bridge, real Emacs, real HTTP; what the model says is written beforehand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from efrit.protocol import Response
from tests.integration.bridge.rig import Instance, until
from tests.integration.chat.conftest import Make
from tests.model.running import Model
from tests.model.scenario import Request, Scenario, read_folder

SCENARIOS = read_folder(Path(__file__).parents[2] / "model" / "scenarios")
TO_BE_CANCELLED = ("slow", "slow-command")
"""They take half a minute, for tests that do something in the middle of them."""
PLAYED = {name: each for name, each in SCENARIOS.items() if each.request and name not in TO_BE_CANCELLED}
SETTINGS = {"stall": {"EFRIT_MODEL_IDLE_SECONDS": "3"}}
TIMEOUTS = {"hang": 6}
SECONDS = 90.0


@pytest.mark.parametrize("name", sorted(PLAYED))
def test_the_scenario_ends_as_it_says(name: str, make: Make, model: Model) -> None:
    scenario = PLAYED[name]
    instance = make(**_environment(scenario), **SETTINGS.get(name, {}))
    for path, text in scenario.files.items():
        (instance.workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (instance.workspace / path).write_text(text)
    session = None
    for number, request in enumerate(scenario.request):
        answer = _play(instance, f"r{number}", request, session, TIMEOUTS.get(name, 60))
        told = f"{answer.reason}: {answer.error}\n{answer.result}"
        assert answer.reason == request.reason, told
        _matches(request.result, answer.result, told)
        _matches(request.error, answer.error, told)
        _matches(request.question, _session(answer).get("question"), told)
        session = _session(answer)["id"]
    for path, pattern in scenario.files_after.items():
        _matches(pattern, (instance.workspace / path).read_text(), path)


def _play(instance: Instance, rid: str, request: Request, session: str | None, timeout: int) -> Response:
    options: dict[str, Any] = {"timeout": timeout}
    if session is not None:
        options["session"] = {"id": session}
    stored = instance.put(rid, request.content, type=request.type, options=options)
    assert stored.status_code == 201, stored.text
    if request.reason == "Cancelled":
        until(lambda: _speaks(instance, rid), 30)
        instance.client.post(f"/v1/requests/{rid}/cancel").raise_for_status()
    return instance.answer(rid, SECONDS)


def _speaks(instance: Instance, rid: str) -> bool:
    """Whether the request is in the middle of something: of a call, or of an answer."""
    log = instance.queue / "progress" / f"{rid}.ndjson"
    text = log.read_text() if log.exists() else ""
    return '"type":"text"' in text or "shell_exec" in text or "sleep" in text


def _environment(scenario: Scenario) -> dict[str, str]:
    return {"EFRIT_MODEL_PROTOCOL": "elisp"} if scenario.protocol == "elisp" else {}


def _session(answer: Response) -> dict[str, Any]:
    found = answer.model_dump(mode="json").get("session") or {}
    assert isinstance(found, dict)
    return found


def _matches(pattern: str | None, text: str | None, told: str) -> None:
    if pattern is not None:
        assert re.search(pattern, text or "", re.DOTALL), f"{pattern!r} does not match {text!r}\n{told}"
