"""What the conformance suite found, held against what was expected of it."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests import conformance
from tests.conformance.verdicts import RequestReason, on_revision, reasons_of, surprises, table, wrong_with

NO_TOOL = RequestReason("It has no such tool.", frozenset({"ours"}), frozenset({"image"}))
LEFT = RequestReason("It is not ours.", frozenset({"ours"}), frozenset({"host"}), included=False)


def test_a_scenario_passes_when_no_check_of_it_fails_or_warns() -> None:
    assert wrong_with([{"id": "one", "status": "SUCCESS"}, {"id": "two", "status": "INFO"}]) == ""


def test_failures_and_warnings_are_both_reported() -> None:
    checks: list[dict[str, object]] = [
        {"id": "one", "status": "FAILURE", "errorMessage": "gone"},
        {"id": "two", "status": "WARNING", "details": {"message": "odd"}},
    ]
    assert wrong_with(checks) == "FAILURE one: gone; WARNING two: {'message': 'odd'}"


def test_a_scenario_without_checks_has_not_passed() -> None:
    assert wrong_with([]) == "it checked nothing"


def test_what_is_as_expected_surprises_nobody() -> None:
    assert surprises({"ours": {"ping": "", "image": "no such tool", "host": ""}}, [NO_TOOL, LEFT]) == []


def test_a_failure_nobody_expected_is_reported_with_its_words() -> None:
    assert surprises({"ours": {"ping": "no answer"}}, []) == ["ours: ping fails: no answer"]


def test_an_expected_failure_that_passes_is_reported() -> None:
    assert surprises({"ours": {"image": ""}}, [NO_TOOL]) == ["ours: image passes, and was expected to fail"]


def test_an_expectation_of_a_scenario_or_a_run_that_is_not_there_is_reported() -> None:
    assert surprises({"ours": {"ping": ""}}, [NO_TOOL]) == ["ours: image was not run"]
    assert surprises({"theirs": {"ping": ""}}, [NO_TOOL]) == ["ours: there is no such run"]


def test_a_scenario_that_one_run_lacks_is_reported() -> None:
    outcomes = {"ours": {"ping": ""}, "theirs": {"ping": "", "image": ""}}
    assert surprises(outcomes, []) == ["ours: image was not run, and on another run it was"]


def test_the_table_counts_what_was_asked_and_gives_the_reasons() -> None:
    outcomes = {
        "ours": {"ping": "", "image": "no such tool", "host": ""},
        "theirs": {"ping": "", "image": "", "host": ""},
    }
    assert table(outcomes, [NO_TOOL, LEFT]).splitlines() == [
        "| scenario | ours | theirs |",
        "| --- | :-: | :-: |",
        "| `ping` | ✓ | ✓ |",
        "| `image` | ✗ a | ✓ |",
        "| `host` | - b | ✓ |",
        "| **passed** | 1 of 2 | 3 of 3 |",
        "",
        "- **a** It has no such tool.",
        "- **b** Left out. It is not ours.",
    ]


def test_no_scenario_has_two_reasons_on_one_run() -> None:
    document = yaml.safe_load((Path(conformance.__file__).parent / "expectations.yaml").read_text())
    named = [
        (run, scenario) for reason in reasons_of(document) for run in reason.runs for scenario in reason.scenarios
    ]
    assert len(named) == len(set(named))


def test_a_reason_may_hold_for_a_scenario_and_for_the_same_as_a_requirement_of_the_revision() -> None:
    document = {"fail": [{"why": "It has none.", "runs": ["ours"], "scenarios": ["log"], "both": ["image"]}]}
    (reason,) = reasons_of({**document, "leave-out": []})
    assert reason.scenarios == {"log", "image", on_revision("image")}
