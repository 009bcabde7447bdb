"""What `efrit claim`, `efrit claims` and `efrit release` print, and what they end with."""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from msgspec.structs import replace

from efrit.backend.claims import Claim, NewClaim
from efrit.backend.errors import ClaimNotFound, NotReady, WaitTimeout
from efrit.backend.interface import Backend
from efrit.cli.claims import claims_table, released_text, run_claim, run_claims, run_release
from efrit.cli.commands import build
from efrit.cli.exit_codes import Exit
from efrit.cli.place import Invocation
from efrit.protocol.enums import ClaimPhase

NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
WAITS = Claim("ada", "crew", reason="Waiting", message="No member\x1b[2J is free.")
BOUND = Claim(
    "ada", "crew", ClaimPhase.BOUND, True, "Bound", "It is.", "crew-a", "a\x1b[2Jda", expires=NOW + timedelta(hours=2)
)
ENDED = Claim(
    "old", "crew", ClaimPhase.EXPIRED, reason="Expired", instance="crew-b", created=NOW - timedelta(hours=3)
)


@dataclass
class Claims:
    """A cluster in which a claim goes through `states`, and then waits for ever."""

    states: list[Claim] = field(default_factory=list)
    made: list[NewClaim] = field(default_factory=list)
    released: list[str] = field(default_factory=list)

    kind, place = "cluster", "a test"

    async def claims(self) -> Sequence[Claim]:
        return self.states

    async def claim(self, name: str) -> Claim:
        return next(claim for claim in self.states if claim.name == name)

    async def claim_member(self, new: NewClaim) -> Claim:
        self.made.append(new)
        return self.states[0]

    async def watch_claim(self, name: str) -> AsyncIterator[Claim]:
        for claim in self.states:
            yield claim
        await asyncio.Event().wait()

    async def release_claim(self, name: str) -> Claim:
        if name == "nope":
            raise ClaimNotFound("there is no claim nope")
        self.released.append(name)
        return replace(BOUND, name=name)


def args(*words: str) -> Namespace:
    parsed: Namespace = build().parse_args(list(words))
    parsed.invocation = Invocation("efrit", " --namespace team")
    return parsed


def backend(*states: Claim) -> tuple[Claims, Backend]:
    claims = Claims(list(states))
    return claims, cast(Backend, claims)


async def test_a_claim_waits_says_why_once_and_then_how_to_attach(capsys: pytest.CaptureFixture[str]) -> None:
    claims, cluster = backend(WAITS, replace(WAITS, reason="Starting"), BOUND)
    words = ("--name", "ada", "--ttl", "2h", "--holder", "ada", "--no-recycle")
    assert await run_claim(cluster, args("claim", "crew", *words)) is Exit.DONE
    assert claims.made == [NewClaim("crew", "ada", "ada", 7200.0, False)]
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "ada has crew-a until 2026-01-31 11:30:00 UTC",
        "  efrit --namespace team attach crew-a",
        "  efrit --namespace team release ada",
    ]
    assert printed.err.count("is free.") == 1
    assert "`efrit --namespace team release ada` ends it" in printed.err
    assert "\x1b" not in printed.err + printed.out


async def test_a_member_that_is_there_at_once_needs_no_waiting(capsys: pytest.CaptureFixture[str]) -> None:
    _, cluster = backend(BOUND)
    assert await run_claim(cluster, args("claim", "crew", "-o", "name")) is Exit.DONE
    assert capsys.readouterr() == ("ada\n", "")


async def test_a_claim_that_no_member_is_free_for_in_time_goes_on_and_says_so() -> None:
    _, cluster = backend(WAITS)
    with pytest.raises(WaitTimeout, match="has no member yet: No member") as error:
        await run_claim(cluster, args("claim", "crew", "--for", "10ms"))
    assert "efrit release ada" in error.value.advice


async def test_a_claim_that_ends_before_it_has_a_member_says_why() -> None:
    _, cluster = backend(WAITS, replace(WAITS, phase=ClaimPhase.RELEASED, message="The holder released it."))
    with pytest.raises(NotReady, match=r"ended before it had a member: The holder released it\."):
        await run_claim(cluster, args("claim", "crew"))


async def test_claims_are_a_table_and_named_ones_say_more(capsys: pytest.CaptureFixture[str]) -> None:
    _, cluster = backend(BOUND, ENDED)
    assert await run_claims(cluster, args("claims", "ada")) is Exit.DONE
    out = capsys.readouterr().out
    assert "ada: It is." in out
    assert "\x1b" not in out
    await run_claims(cluster, args("claims", "-o", "json"))
    assert [claim["name"] for claim in json.loads(capsys.readouterr().out)] == ["ada", "old"]
    await run_claims(backend()[1], args("claims"))
    assert capsys.readouterr().err == "no claims in a test\n"


def test_the_table_has_how_long_a_claim_lasts_and_nothing_of_that_once_it_has_ended() -> None:
    rows = [line.split() for line in claims_table([BOUND, ENDED], NOW).splitlines()]
    assert rows[0] == ["NAME", "POOL", "PHASE", "INSTANCE", "READY", "HOLDER", "LEFT", "AGE"]
    assert rows[1][:5] == ["ada", "crew", "Bound", "crew-a", "yes"]
    assert "2h" in rows[1]
    assert rows[2] == ["old", "crew", "Expired", "crew-b", "no", "-", "-", "3h"]


async def test_some_are_released(capsys: pytest.CaptureFixture[str]) -> None:
    claims, cluster = backend()
    assert await run_release(cluster, args("release", "ada", "bob")) is Exit.DONE
    assert claims.released == ["ada", "bob"]
    assert capsys.readouterr().out.splitlines() == [
        "ada is released; crew-a is deleted",
        "bob is released; crew-a is deleted",
    ]


async def test_the_others_are_released_though_one_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    claims, cluster = backend()
    with pytest.raises(ClaimNotFound, match="there is no claim nope"):
        await run_release(cluster, args("release", "ada", "nope", "bob"))
    assert claims.released == ["ada", "bob"]
    assert capsys.readouterr().out == "ada is released; crew-a is deleted\nbob is released; crew-a is deleted\n"


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (replace(BOUND, recycle=False), "ada is released; crew-a goes back to the pool crew"),
        (WAITS, "ada is released; it had no member"),
        (ENDED, "old has ended already (Expired)"),
    ],
)
def test_what_becomes_of_the_member_is_said(claim: Claim, text: str) -> None:
    assert released_text(claim) == text
