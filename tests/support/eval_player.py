"""Plays rows of the table of evals (tests/evals) through the bridge's API: each row, and after it the eval NEXT."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from efrit.protocol import RequestState, Response
from efrit.protocol.view import RequestView
from tests.evals.table import ENDS, NEXT, NEXT_MESSAGES, NEXT_OUTPUT, Eval, read
from tests.support.bridge_instance import Instance


def ending() -> list[Eval]:
    """Return the rows about the end of Emacs, which take a restart each."""
    rows = [row for row in read() if row.name.startswith(ENDS)]
    assert sum(row.ends for row in rows) >= 15
    return rows


def staying() -> list[Eval]:
    """Return the rows that one Emacs is to survive."""
    rows = [row for row in read() if not row.name.startswith(ENDS)]
    assert len(rows) >= 383
    return rows


@dataclass(frozen=True)
class Played:
    """A row, its answer and that of the eval after it; when the two were submitted and seen (seconds, monotonic)."""

    row: Eval
    answer: Response
    after: Response
    submitted: float
    answered: float
    next_answered: float

    @property
    def names(self) -> tuple[str, str]:
        """The ids of both requests."""
        return self.row.name, _next(self.row)

    @property
    def pid(self) -> str:
        """Of the Emacs that answered NEXT."""
        return (self.after.result or "").removeprefix("(40 2 ").removesuffix(")")

    def differences(self) -> list[str]:
        """Return in what the two answers are not what the table says, but for the pid."""
        wrong = self.row.differences(self.answer.to_dict())
        expected = (f"(40 2 {self.pid})", NEXT_OUTPUT, NEXT_MESSAGES)
        if not self.pid.isdecimal() or (self.after.result, self.after.output, self.after.messages) != expected:
            wrong.append("next")
        return wrong


class Player:
    """Hands rows to one instance, one event stream for all of them."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._clock = datetime.now(UTC)

    def play(self, rows: Sequence[Eval]) -> list[Played]:
        """Submit all rows at once, each followed by NEXT, and return how they were answered."""
        submitted = time.monotonic()
        names = [name for row in rows for name in (row.name, _next(row))]
        for row in rows:
            options: dict[str, Any] = {"timeout": row.timeout} if row.timeout else {}
            self._put(row.name, row.form, options)
            self._put(_next(row), NEXT, {})
        with closing(self._answers(set(names))) as answers:
            answered = {str(response.id): (response, time.monotonic()) for response in answers}
        return [
            Played(
                row,
                answered[row.name][0],
                answered[_next(row)][0],
                submitted,
                answered[row.name][1],
                answered[_next(row)][1],
            )
            for row in rows
        ]

    def _put(self, rid: str, form: str, options: dict[str, Any]) -> None:
        # Requests run in the order of their timestamps, and two may be stored in the same millisecond.
        self._clock += timedelta(milliseconds=1)
        stored = self._instance.put(rid, form, options=options, timestamp=self._clock.isoformat())
        assert stored.status_code == 201, stored.text

    def _answers(self, missing: set[str]) -> Generator[Response, None, None]:
        events = self._instance.events()
        for _, name, data in events:
            if name != "request" or data["id"] not in missing or data["state"] != RequestState.ANSWERED:
                continue
            missing.remove(data["id"])
            view = RequestView.from_dict(data)
            # A long answer is left out of the event.
            yield view.response or self._instance.answer(data["id"])
            if not missing:
                return
        raise AssertionError(f"the event stream ended without the answers to {sorted(missing)[:5]}")


def problems(instance: Instance, rows: Sequence[Eval]) -> str:
    """Play all rows and return a line for each that did not end as the table says."""
    lines = []
    pid = str(instance.emacs_pid())
    for played in Player(instance).play(rows):
        different = played.differences()
        if (played.pid == pid) is played.row.ends:
            different.append("pid")
        pid = played.pid
        if different:
            lines.append(f"{played.row.name} {played.row.form}: {different}, {played.answer}, {played.after}")
    return "\n".join(lines)


def _next(row: Eval) -> str:
    return f"{row.name}-next"
