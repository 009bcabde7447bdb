"""What the suite found against what was expected of it, and both as a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

Found = Mapping[str, str]
"""By scenario: what was wrong with it; empty where it passed."""

REVISION = "2026-07-28"
"""Its requirements are run on its own wire, beside every scenario on the wire for which the suite has it."""

PASSED = ("SUCCESS", "INFO", "SKIPPED")


@dataclass(frozen=True)
class Reason:
    """Why some scenarios do not pass on some runs, or (`asked` False) are not looked at."""

    why: str
    runs: frozenset[str]
    scenarios: frozenset[str]
    asked: bool = True


def reasons_of(document: Mapping[str, Any]) -> tuple[Reason, ...]:
    """The reasons in expectations.yaml."""
    return tuple(
        Reason(each["why"], frozenset(each["runs"]), _scenarios(each), asked)
        for key, asked in (("fail", True), ("leave-out", False))
        for each in document[key]
    )


def on_revision(scenario: str) -> str:
    """The name of a scenario that is run as a requirement of `REVISION`."""
    return f"{scenario} {REVISION}"


def _scenarios(reason: Mapping[str, Any]) -> frozenset[str]:
    both = reason.get("both", ())
    return frozenset((*reason.get("scenarios", ()), *both, *map(on_revision, both)))


def wrong_with(checks: Sequence[Mapping[str, Any]]) -> str:
    """What one scenario complains of, failures and warnings; empty where it passed."""
    complaints = [
        f"{check['status']} {check['id']}: {check.get('errorMessage') or check.get('details')}"
        for check in checks
        if check["status"] not in PASSED
    ]
    return "; ".join(complaints) if checks else "it checked nothing"


def surprises(found: Mapping[str, Found], reasons: Sequence[Reason]) -> list[str]:
    """A sentence for each thing that is not as expected, in the order of the runs."""
    told = []
    for run, scenarios in found.items():
        for scenario, wrong in scenarios.items():
            reason = _reason(reasons, run, scenario)
            if reason is None and wrong:
                told.append(f"{run}: {scenario} fails: {wrong}")
            elif reason is not None and reason.asked and not wrong:
                told.append(f"{run}: {scenario} passes, and was expected to fail")
    for reason in reasons:
        told += [f"{run}: there is no such run" for run in sorted(reason.runs - found.keys())]
        told += [
            f"{run}: {scenario} was not run"
            for run in sorted(reason.runs & found.keys())
            for scenario in sorted(reason.scenarios - found[run].keys())
        ]
    every = {scenario: None for scenarios in found.values() for scenario in scenarios}
    told += [
        f"{run}: {scenario} was not run, and on another run it was"
        for run, scenarios in found.items()
        for scenario in every
        if scenario not in scenarios and _reason(reasons, run, scenario) is None
    ]
    return told


def table(found: Mapping[str, Found], reasons: Sequence[Reason]) -> str:
    """Scenarios by runs, in Markdown; a letter tells the reason, and the reasons follow."""
    every = {scenario: None for scenarios in found.values() for scenario in scenarios}
    lines = [_row("scenario", *found), _row("---", *(":-:" for _ in found))]
    lines += [_row(f"`{each}`", *(_cell(reasons, run, each, found[run]) for run in found)) for each in every]
    lines.append(_row("**passed**", *(_total(reasons, run, scenarios) for run, scenarios in found.items())))
    lines.append("")
    for letter, reason in zip(ascii_lowercase, reasons, strict=False):
        lines.append(f"- **{letter}**{'' if reason.asked else ' Left out.'} {reason.why}")
    return "\n".join(lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(reasons: Sequence[Reason], run: str, scenario: str, found: Found) -> str:
    reason = _reason(reasons, run, scenario)
    letter = f" {ascii_lowercase[reasons.index(reason)]}" if reason is not None else ""
    if scenario not in found or (reason is not None and not reason.asked):
        return f"-{letter}"
    return f"✗{letter}" if found[scenario] else "✓"


def _total(reasons: Sequence[Reason], run: str, found: Found) -> str:
    asked = [
        wrong
        for scenario, wrong in found.items()
        if (reason := _reason(reasons, run, scenario)) is None or reason.asked
    ]
    return f"{sum(not wrong for wrong in asked)} of {len(asked)}"


def _reason(reasons: Sequence[Reason], run: str, scenario: str) -> Reason | None:
    return next((each for each in reasons if run in each.runs and scenario in each.scenarios), None)
