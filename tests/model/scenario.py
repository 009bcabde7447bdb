"""A scenario as data: what each turn expects and replies, read from TOML. Words it does not know are refused."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

Json = dict[str, Any]
Made = TypeVar("Made")
STOP_REASONS = (
    *("end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal"),
    "model_context_window_exceeded",
)
STATUSES = ("continue", "complete", "need-input")


class ScenarioError(Exception):
    """A scenario is not well formed; says where and why."""


@dataclass(frozen=True)
class Pace:
    """How a reply comes in: pieces of CHUNK characters, milliseconds before the first and between them."""

    chunk: int = 24
    delay_ms: int = 0
    first_ms: int = 0


@dataclass(frozen=True)
class ExpectedResult:
    """One result of a tool in the last message."""

    tool: str | None = None
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    failed: bool | None = None


@dataclass(frozen=True)
class Expect:
    """What a request has to say; texts are regular expressions that are searched for."""

    tools: bool | None = None
    offers: tuple[str, ...] = ()
    offers_not: tuple[str, ...] = ()
    system: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    anywhere: tuple[str, ...] = ()
    nowhere: tuple[str, ...] = ()
    results: tuple[ExpectedResult, ...] | None = None
    cached: tuple[str, ...] = ()
    stream: bool | None = None


@dataclass(frozen=True)
class Block:
    """One block of a reply: exactly one of text (so many TIMES), tool, elisp and thinking.

    A LOOSE call is made as it is, also where no model would: not on offer, or not as the schema says.
    """

    text: str | None = None
    times: int = 1
    tool: str | None = None
    input: Json = field(default_factory=dict)
    loose: bool = False
    elisp: str | None = None
    status: str = "continue"
    question: str | None = None
    thinking: str | None = None


@dataclass(frozen=True)
class Fault:
    """What goes wrong, TIMES attempts long (0: for ever). Without a name of a fault, only the pace is another."""

    times: int = 1
    status: int | None = None
    type: str = ""
    message: str = ""
    retry_after: str | None = None
    retry_after_date: float | None = None
    raw: str | None = None
    content_type: str = "text/html"
    drop: bool = False
    hang: bool = False
    cut_after_events: int | None = None
    cut_after_bytes: int | None = None
    how: str = "reset"
    stall_after_events: int | None = None
    error_event: str | None = None
    after_events: int = 0
    pace: Pace | None = None


@dataclass(frozen=True)
class Turn:
    """One answer of the model, or so many TURNS that are alike (0: all that come)."""

    expect: Expect = Expect()
    reply: tuple[Block, ...] = ()
    stop_reason: str = "end_turn"
    usage: Json = field(default_factory=dict)
    pace: Pace = Pace()
    fault: tuple[Fault, ...] = ()
    turns: int = 1

    def fault_of(self, attempt: int) -> Fault | None:
        """Return what goes wrong with the ATTEMPT, which counts from 0."""
        for fault in self.fault:
            if fault.times == 0 or attempt < fault.times:
                return fault
            attempt -= fault.times
        return None


@dataclass(frozen=True)
class Request:
    """What a user sends, and how it ends, in regular expressions. For tests: the server does not look at it."""

    content: str
    type: str = "command"
    reason: str = "Succeeded"
    result: str | None = None
    question: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Route:
    """Conversations whose first message has all of WHEN, regular expressions, are those of the scenario PLAY."""

    when: tuple[str, ...]
    play: str

    def fits(self, first: str) -> bool:
        """Whether a conversation that begins with FIRST goes there."""
        return all(re.search(pattern, first) for pattern in self.when)


@dataclass(frozen=True)
class Scenario:
    """A conversation as the model has it; for tests also what begins it and what it leaves in FILES.

    The first REQUEST begins a session, each further one continues it. FILES are put into the workspace before;
    FILES_AFTER are regular expressions for what is in them then. The first ROUTE that fits leads to another scenario:
    so one name in the intent of a plan serves every conversation about it. The answers of a GATED one wait until its
    gate is opened. One that REPEATS_INTERRUPTED takes a turn again whose one call was interrupted, as a model would
    that needs what it asked for.
    """

    name: str
    turn: tuple[Turn, ...]
    description: str = ""
    protocol: str = "tools"
    expect: Expect = Expect()
    request: tuple[Request, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    files_after: dict[str, str] = field(default_factory=dict)
    route: tuple[Route, ...] = ()
    gated: bool = False
    repeats_interrupted: bool = False

    def route_of(self, first: str) -> str | None:
        """Return the scenario that a conversation beginning with FIRST is of, if not of this one."""
        return next((route.play for route in self.route if route.fits(first)), None)

    def turn_of(self, number: int) -> Turn | None:
        """Return the turn with NUMBER, from 0."""
        for turn in self.turn:
            if turn.turns == 0 or number < turn.turns:
                return turn
            number -= turn.turns
        return None


def read_folder(folder: Path) -> dict[str, Scenario]:
    """Read every TOML file of FOLDER."""
    if not folder.is_dir():
        raise ScenarioError(f"{folder} is no folder of scenarios")
    return {path.stem: parse(path.stem, path.read_text("utf-8")) for path in sorted(folder.glob("*.toml"))}


def parse(name: str, text: str) -> Scenario:
    """Read the scenario NAME from TOML."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ScenarioError(f"{name}: {problem}") from None
    table["turn"] = tuple(
        _turn(f"{name}, turn {number}", entry) for number, entry in enumerate(_tables(name, table, "turn"), 1)
    )
    table["route"] = tuple(_route(f"{name}, route", entry) for entry in _tables(name, table, "route"))
    if not table["turn"] and not table["route"]:
        raise ScenarioError(f"{name}: has no [[turn]]")
    if any(turn.turns == 0 for turn in table["turn"][:-1]):
        raise ScenarioError(f"{name}: only the last turn may stand for all that come")
    table["request"] = tuple(_make(Request, f"{name}, request", entry) for entry in _tables(name, table, "request"))
    if "expect" in table:
        table["expect"] = _expect(f"{name}, expect", table["expect"])
    scenario = _make(Scenario, name, {**table, "name": name})
    if scenario.protocol not in ("tools", "elisp"):
        raise ScenarioError(f"{name}: protocol is tools or elisp")
    return scenario


def _turn(where: str, table: Json) -> Turn:
    values = dict(table)
    values["reply"] = tuple(_block(where, entry) for entry in _tables(where, table, "reply"))
    values["fault"] = tuple(_fault(where, entry) for entry in _tables(where, table, "fault"))
    if "expect" in table:
        values["expect"] = _expect(f"{where}, expect", table["expect"])
    if "pace" in table:
        values["pace"] = _make(Pace, f"{where}, pace", table["pace"])
    if "stop_reason" not in table and any(block.tool for block in values["reply"]):
        values["stop_reason"] = "tool_use"
    turn = _make(Turn, where, values)
    if turn.stop_reason not in STOP_REASONS:
        raise ScenarioError(f"{where}: stop_reason is one of {', '.join(STOP_REASONS)}")
    if not turn.reply and not any(fault.times == 0 for fault in turn.fault) and "stop_reason" not in table:
        raise ScenarioError(f"{where}: has no [[turn.reply]]")
    return turn


def _route(where: str, table: Json) -> Route:
    route = _make(Route, where, table)
    _check_patterns(where, route.when)
    return route


def _block(where: str, table: Json) -> Block:
    block = _make(Block, f"{where}, reply", table)
    if sum(field is not None for field in (block.text, block.tool, block.elisp, block.thinking)) != 1:
        raise ScenarioError(f"{where}: a reply is one of text, tool, elisp, thinking")
    if block.status not in STATUSES:
        raise ScenarioError(f"{where}: status is one of {', '.join(STATUSES)}")
    return block


def _fault(where: str, table: Json) -> Fault:
    values = dict(table)
    if "pace" in table:
        values["pace"] = _make(Pace, f"{where}, fault, pace", table["pace"])
    if "retry_after" in table:
        values["retry_after"] = str(table["retry_after"])
    fault = _make(Fault, f"{where}, fault", values)
    if fault.how not in ("reset", "close", "end"):
        raise ScenarioError(f"{where}: how a stream is cut is reset, close or end")
    return fault


def _expect(where: str, table: Json) -> Expect:
    values = dict(table)
    if "results" in table:
        values["results"] = tuple(
            _make(ExpectedResult, f"{where}, results", entry) for entry in _tables(where, table, "results")
        )
    expect = _make(Expect, where, values)
    patterns = [*expect.system, *expect.user, *expect.anywhere, *expect.nowhere]
    for result in expect.results or ():
        patterns += [*result.contains, *result.lacks]
    _check_patterns(where, patterns)
    for place in expect.cached:
        if place not in ("system", "tools", "messages"):
            raise ScenarioError(f"{where}: cached names system, tools or messages")
    return expect


def _check_patterns(where: str, patterns: Iterable[str]) -> None:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as problem:
            raise ScenarioError(f"{where}: {pattern!r} is no regular expression: {problem}") from None


def _tables(where: str, table: Json, name: str) -> list[Json]:
    value = table.get(name, [])
    if not isinstance(value, list) or not all(isinstance(table, dict) for table in value):
        raise ScenarioError(f"{where}: {name} is a list of tables")
    return value


def _make(kind: type[Made], where: str, table: Json) -> Made:
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    unknown = sorted(table.keys() - set(names))
    if unknown:
        raise ScenarioError(f"{where}: unknown {', '.join(unknown)}; there is {', '.join(names)}")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in table.items()})
