"""What the model says in each cycle of a plan, as scenarios of the scripted model (tests/model)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Json = dict[str, Any]

HEADS = {
    "act": "You carry out one task of a plan",
    "assess": "You assess the state of a plan's work",
    "adapt": "You navigate a plan",
}
FACT = {"perspective": "requirements", "statement": "What was asked for is there.", "evidence": "greeting.txt"}
DONE: Json = {"verdict": "done", "reason": "It is there."}
COMMAND_SECONDS = 600
"""How long a command of a plan may run: on no machine is it the time that ends it."""


class Player(Protocol):
    """A server that plays scenarios."""

    def play(self, name: str, toml: str) -> None:
        """Take the scenario NAME, or another one in its place."""


class Script:
    """What the model says about one plan. The first entry that fits a conversation is played."""

    def __init__(self, model: Player, name: str, *, gated: bool = False) -> None:
        self._model = model
        self._gated = gated
        self.name = name
        self._numbers = itertools.count(1)
        self._routes: list[Json] = []

    @property
    def conversations(self) -> list[str]:
        """The names of the scenarios of the parts, in the order in which they were written."""
        return [route["play"] for route in self._routes]

    @property
    def intent(self) -> Json:
        """An intent whose conversations this script answers."""
        return {"description": f"A friendly greeting. (scenario={self.name})", "acceptanceCriteria": ["It is kind."]}

    def act(
        self,
        task: str,
        files: Mapping[str, str],
        *,
        when: Sequence[str] = (),
        first_ms: int = 0,
        gated: bool = False,
        shell: str = "",
        message: str = "I wrote it.",
    ) -> None:
        """Write these files, by path in the workspace, and say so; the first answer comes after `first_ms`.

        A call that is interrupted is made again: without a todo no file may be written, without one the task fails.

        gated: no answer comes before its gate is opened, that of the conversation.
        """
        calls: list[tuple[str, Json]] = [("todo_add", {"content": "Do it"})]
        calls += [("file_write", {"path": path, "content": content}) for path, content in files.items()]
        calls += [("shell_exec", {"command": shell, "timeout": COMMAND_SECONDS})] if shell else []
        turns = [_call(tool, arguments) for tool, arguments in calls]
        turns[0] = f"pace = {{first_ms = {first_ms}}}\n{turns[0]}"
        turns.append(_call("todo_update", {"id": 1, "status": "completed"}))
        turns.append(_call("session_complete", {"message": message}))
        self._add("act", task, when, turns, gated=gated, repeats_interrupted=True)

    def assess(self, task: str, *answers: Any, when: Sequence[str] = ()) -> None:
        """Say these texts or objects, one after the other; by default one fact."""
        self._add("assess", task, when, [_say(answer) for answer in answers or ({"observations": [FACT]},)])

    def adapt(self, task: str, *answers: Any, when: Sequence[str] = ()) -> None:
        """Say these texts or objects, one after the other; by default that it is done."""
        self._add("adapt", task, when, [_say(answer) for answer in answers or (DONE,)])

    def done(self, *tasks: str) -> None:
        """Find each of these tasks in order."""
        for task in tasks:
            self.assess(task)
            self.adapt(task)

    def _add(
        self,
        part: str,
        task: str,
        when: Sequence[str],
        turns: Sequence[str],
        *,
        gated: bool = False,
        repeats_interrupted: bool = False,
    ) -> None:
        name = f"{self.name}-{next(self._numbers)}"
        top = "gated = true\n" if gated or self._gated else ""
        top += "repeats_interrupted = true\n" if repeats_interrupted else ""
        self._model.play(name, top + "\n".join(f"[[turn]]\n{turn}" for turn in turns))
        self._routes.append({"when": [f"^{HEADS[part]}", rf"# The task {task} \(", *when], "play": name})
        routes = "\n".join(
            f"[[route]]\nwhen = {json.dumps(route['when'])}\nplay = {json.dumps(route['play'])}"
            for route in self._routes
        )
        self._model.play(self.name, routes)


def _say(answer: Any) -> str:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return f"[[turn.reply]]\ntext = {json.dumps(text)}"


def _call(tool: str, arguments: Json) -> str:
    fields = ", ".join(f"{name} = {json.dumps(value)}" for name, value in arguments.items())
    return f"[[turn.reply]]\ntool = {json.dumps(tool)}\ninput = {{{fields}}}"
