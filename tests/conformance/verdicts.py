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
class RequestReason:
    """Why some scenarios do not pass on some runs, or (`included` False) are not looked at."""

    why: str
    runs: frozenset[str]
    scenarios: frozenset[str]
    included: bool = True


def reasons_of(document: Mapping[str, Any]) -> tuple[RequestReason, ...]:
    """Return the reasons in expectations.yaml."""
    return tuple(
        RequestReason(entry["why"], frozenset(entry["runs"]), _scenarios(entry), included)
        for key, included in (("fail", True), ("leave-out", False))
        for entry in document[key]
    )


def on_revision(scenario: str) -> str:
    """Return the name of a scenario that is run as a requirement of `REVISION`."""
    return f"{scenario} {REVISION}"


def _scenarios(reason: Mapping[str, Any]) -> frozenset[str]:
    both = reason.get("both", ())
    return frozenset((*reason.get("scenarios", ()), *both, *map(on_revision, both)))


def wrong_with(checks: Sequence[Mapping[str, Any]]) -> str:
    """Return what one scenario complains of, failures and warnings; empty where it passed."""
    complaints = [
        f"{check['status']} {check['id']}: {check.get('errorMessage') or check.get('details')}"
        for check in checks
        if check["status"] not in PASSED
    ]
    return "; ".join(complaints) if checks else "it checked nothing"


def surprises(outcomes: Mapping[str, Found], reasons: Sequence[RequestReason]) -> list[str]:
    """Return a sentence for each thing that is not as expected, in the order of the runs."""
    sentences = []
    for run, scenarios in outcomes.items():
        for scenario, wrong in scenarios.items():
            reason = _reason(reasons, run, scenario)
            if reason is None and wrong:
                sentences.append(f"{run}: {scenario} fails: {wrong}")
            elif reason is not None and reason.included and not wrong:
                sentences.append(f"{run}: {scenario} passes, and was expected to fail")
    for reason in reasons:
        sentences += [f"{run}: there is no such run" for run in sorted(reason.runs - outcomes.keys())]
        sentences += [
            f"{run}: {scenario} was not run"
            for run in sorted(reason.runs & outcomes.keys())
            for scenario in sorted(reason.scenarios - outcomes[run].keys())
        ]
    every = {scenario: None for scenarios in outcomes.values() for scenario in scenarios}
    sentences += [
        f"{run}: {scenario} was not run, and on another run it was"
        for run, scenarios in outcomes.items()
        for scenario in every
        if scenario not in scenarios and _reason(reasons, run, scenario) is None
    ]
    return sentences


def table(outcomes: Mapping[str, Found], reasons: Sequence[RequestReason]) -> str:
    """Scenarios by runs, in Markdown; a letter tells the reason, and the reasons follow."""
    every = {scenario: None for scenarios in outcomes.values() for scenario in scenarios}
    lines = [_row("scenario", *outcomes), _row("---", *(":-:" for _ in outcomes))]
    lines += [
        _row(f"`{scenario}`", *(_cell(reasons, run, scenario, outcomes[run]) for run in outcomes))
        for scenario in every
    ]
    lines.append(_row("**passed**", *(_total(reasons, run, scenarios) for run, scenarios in outcomes.items())))
    lines.append("")
    for letter, reason in zip(ascii_lowercase, reasons, strict=False):
        lines.append(f"- **{letter}**{'' if reason.included else ' Left out.'} {reason.why}")
    return "\n".join(lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(reasons: Sequence[RequestReason], run: str, scenario: str, outcomes: Found) -> str:
    reason = _reason(reasons, run, scenario)
    letter = f" {ascii_lowercase[reasons.index(reason)]}" if reason is not None else ""
    if scenario not in outcomes or (reason is not None and not reason.included):
        return f"-{letter}"
    return f"✗{letter}" if outcomes[scenario] else "✓"


def _total(reasons: Sequence[RequestReason], run: str, outcomes: Found) -> str:
    included = [
        wrong
        for scenario, wrong in outcomes.items()
        if (reason := _reason(reasons, run, scenario)) is None or reason.included
    ]
    return f"{sum(not wrong for wrong in included)} of {len(included)}"


def _reason(reasons: Sequence[RequestReason], run: str, scenario: str) -> RequestReason | None:
    return next((reason for reason in reasons if run in reason.runs and scenario in reason.scenarios), None)
