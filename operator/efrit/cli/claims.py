"""Exclusive claims on members of pools: `claim`, `claims`, `release`. Only a cluster has them."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable
from datetime import UTC, datetime

from efrit.backend.claims import Claim, NewClaim, bound_claim
from efrit.backend.interface import Backend
from efrit.cli.color import color_enabled
from efrit.cli.each_name import change_each
from efrit.cli.exit_codes import Exit
from efrit.cli.output import age_text, table, write
from efrit.cli.place import notice
from efrit.cli.terminal_text import sanitized_line


async def run_claim(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit claim`: claim a member, wait until it is there, and say how to get to it."""
    new = NewClaim(args.pool, args.name, args.holder, args.ttl, recycle=not args.no_recycle)
    claim = await backend.claim_member(new)
    if not claim.settled:
        # Whoever leaves with Ctrl-C knows what to release.
        release = args.invocation.command("release", claim.name)
        notice(f"{claim.name} waits for a member of {claim.pool}; `{release}` ends it")
        claim = await bound_claim(backend, claim.name, args.at_most, _Explained())
    if args.output:
        write(args.output, claim)
    else:
        print(bound_text(claim))
        for words in (("attach", claim.instance or ""), ("release", claim.name)):
            print(f"  {args.invocation.command(*words)}")
    return Exit.DONE


class _Explained:
    """Says on standard error why a claim waits, once for each reason."""

    def __init__(self) -> None:
        self._message = ""

    def __call__(self, claim: Claim) -> None:
        if not claim.settled and claim.message not in ("", self._message):
            self._message = claim.message
            notice(sanitized_line(f"{claim.name} ({claim.reason}): {claim.message}"))


async def run_claims(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit claims`: a table of all, or of those that are named."""
    claims = [await backend.claim(name) for name in args.name] if args.name else list(await backend.claims())
    if args.output:
        write(args.output, claims[0] if len(args.name) == 1 else claims)
    elif claims:
        print(claims_table(claims, datetime.now(UTC), colored=color_enabled(sys.stdout)))
        for claim in claims if args.name else ():
            if claim.message:
                print(sanitized_line(f"{claim.name}: {claim.message}"))
    else:
        print(f"no claims in {backend.place}", file=sys.stderr)
    return Exit.DONE


async def run_release(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit release`: end one claim after another."""
    return await change_each(args, backend.release_claim, released_text)


def bound_text(claim: Claim) -> str:
    """Return the sentence about a claim that has a member."""
    until = f" until {claim.expires:%Y-%m-%d %H:%M:%S} UTC" if claim.expires is not None else ""
    return f"{claim.name} has {claim.instance}{until}"


def released_text(claim: Claim) -> str:
    """Return the sentence about a claim that was released, or had ended before."""
    if claim.final:
        return f"{claim.name} has ended already ({claim.phase})"
    if claim.instance is None:
        return f"{claim.name} is released; it had no member"
    end = "is deleted" if claim.recycle else f"goes back to the pool {claim.pool}"
    return f"{claim.name} is released; {claim.instance} {end}"


def claims_table(claims: Iterable[Claim], now: datetime, *, colored: bool = False) -> str:
    """Return the claims as a table for people."""
    head = ("NAME", "POOL", "PHASE", "INSTANCE", "READY", "HOLDER", "LEFT", "AGE")
    return table(
        head,
        [
            (
                claim.name,
                claim.pool,
                claim.phase.value,
                claim.instance,
                "yes" if claim.ready else "no",
                sanitized_line(claim.holder) if claim.holder else None,
                age_text(_seconds_left(claim, now)),
                age_text((now - claim.created).total_seconds() if claim.created else None),
            )
            for claim in claims
        ],
        colored=colored,
    )


def _seconds_left(claim: Claim, now: datetime) -> float | None:
    if claim.final or claim.expires is None:
        return None
    return max(0.0, (claim.expires - now).total_seconds())
