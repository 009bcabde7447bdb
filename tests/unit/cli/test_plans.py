"""What the commands on plans make of a command line, a file and a plan that changes."""

import io
import json
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from efrit.backend.errors import PlanNotFound, Refused, WrongSettings
from efrit.backend.plans import Change, Intent, NewPlan, Outcome, PlanPhase, PlanReason, PlanState
from efrit.cli import plan_history, plans
from efrit.cli.commands import build
from efrit.cli.exit_codes import Exit
from efrit.cli.place import Invocation
from efrit.resources import PLANS
from tests.unit.cli.test_plan_text import PLAN
from tests.unit.mcp.scripted_plans import HISTORY

DONE = replace(PLAN, phase=PlanPhase.SUCCEEDED, reason=PlanReason.SUCCEEDED, outcome=Outcome.SUCCESS, message="Done.")


@dataclass
class FewPlans:
    """Plans that become what the test says."""

    states: list[PlanState] = field(default_factory=lambda: [PLAN, replace(PLAN, step="Assess"), DONE])
    created: list[NewPlan] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    history: dict[str, Any] = field(default_factory=dict)

    place = "a test"
    kind = "cluster"

    def planning(self) -> "FewPlans":
        return self

    async def create_plan(self, new: NewPlan) -> PlanState:
        self.created.append(new)
        return self.states[0]

    async def plans(self, *, brief: bool = False) -> Sequence[PlanState]:
        return self.states[:1]

    async def plan(self, name: str) -> PlanState:
        return self.states[0]

    async def watch_plan(self, name: str) -> AsyncIterator[PlanState]:
        for state in self.states:
            yield state

    async def amend_plan(self, name: str, text: str) -> PlanState:
        self.calls.append((name, text))
        return replace(self.states[0], amendments=(text,))

    async def change_plan(self, name: str, change: Change) -> PlanState:
        if name == "nope":
            raise PlanNotFound("there is no plan nope")
        self.calls.append((name, change.value))
        return self.states[0]

    async def plan_history(self, name: str, limit: int | None = None) -> dict[str, Any]:
        self.calls.append((name, str(limit)))
        return self.history


whole_parser = cache(build)
"""It takes longer to make than to use."""


def parsed(*words: str) -> Namespace:
    arguments: Namespace = whole_parser().parse_args(["plan", *words])
    arguments.invocation = Invocation("efrit", " --namespace team")
    return arguments


async def run(backend: FewPlans, *words: str) -> Exit:
    arguments = parsed(*words)
    module, _, function = arguments.run.partition(":")
    code: Exit = await getattr({"plans": plans, "plan_history": plan_history}[module], function)(backend, arguments)
    return code


def test_the_options_say_what_the_plan_is() -> None:
    words = ["run", "Build", "a calculator", "--criterion", "It adds.", "--criterion", "It divides.", "--constraint"]
    words += ["No network.", "--build", "make test", "--integration", "make smoke", "--quality", "mypy", "-i", "one"]
    words += ["--max-steps", "9", "--max-tokens", "99", "--timeout", "7200", "--act-timeout", "60", "--name", "calc"]
    words += ["--git", "https://example.org/a.git", "--branch", "main", "--git-secret", "token", "--key", "k"]
    assert plans.new_plan(parsed(*words)) == NewPlan(
        Intent("Build a calculator", ("It adds.", "It divides."), ("No network.",)),
        name="calc",
        key="k",
        instance="one",
        git_url="https://example.org/a.git",
        git_branch="main",
        git_secret="token",
        build=("make test",),
        integration=("make smoke",),
        quality=("mypy",),
        max_steps=9,
        max_tokens=99,
        timeout=7200,
        act_timeout=60,
    )


SPEC = {"intent": {"description": "From the file.", "constraints": ["None."]}, "limits": {"maxSteps": 3}}


@pytest.mark.parametrize("whole", [True, False])
def test_a_file_holds_a_whole_plan_or_its_spec(tmp_path: Path, whole: bool) -> None:
    manifest = PLANS.manifest({"name": "calc"}, spec=SPEC)
    (tmp_path / "plan.yaml").write_text(json.dumps(manifest if whole else SPEC))
    new = plans.new_plan(parsed("run", "-f", str(tmp_path / "plan.yaml")))
    assert (new.name, new.intent, new.spec) == ("calc" if whole else None, None, SPEC)


def test_criteria_beside_a_file_leave_what_it_says_else(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(json.dumps(SPEC))
    new = plans.new_plan(parsed("run", "-f", str(tmp_path / "plan.yaml"), "--criterion", "It runs."))
    assert new.intent == Intent("From the file.", ("It runs.",), ("None.",))


@pytest.mark.parametrize(
    "text",
    [
        "- a\n- list",
        "just words",
        "{",
        "kind: EfritRequest\nmetadata: {name: a}\nspec: {}",
        "kind: EfritPlan\nmetadata: {name: a}",
        "kind: EfritPlan\nmetadata: {name: a, labels: {b: c}}\nspec: {}",
        "intent: {description: 2026-01-01}",
        "a: 1\n---\nb: 2",
        "&a [*a]",
        "",
    ],
)
def test_what_is_no_plan_in_a_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.yaml").write_text(text)
    with pytest.raises(WrongSettings):
        plans.new_plan(parsed("run", "-f", str(tmp_path / "plan.yaml")))


def test_the_intent_may_come_from_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (["run", "-"], ["run"]):
        monkeypatch.setattr(sys, "stdin", io.StringIO("Build it.\n"))
        assert plans.new_plan(parsed(*words)).intent == Intent("Build it.")


async def test_a_plan_that_is_run_is_watched_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run(FewPlans(), "run", "Build it") is Exit.DONE
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "Running",
        "4 of 26 tasks done, 1 failed",
        "Act 3.2: Multiply and divide",
        "Assess 3.2: Multiply and divide",
        "Succeeded: Done.",
    ]
    assert captured.err == "efrit: calc is at work for one\n"


async def test_detached_it_is_named_and_left(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run(FewPlans(), "run", "Build it", "--detach") is Exit.DONE
    assert capsys.readouterr() == ("calc\n", "")


async def test_for_programs_it_is_reported_once_it_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    failed = replace(DONE, phase=PlanPhase.FAILED, reason=PlanReason.BUDGET_EXHAUSTED, outcome=Outcome.PARTIAL)
    assert await run(FewPlans([PLAN, failed]), "run", "Build it", "-o", "json") is Exit.PARTIAL
    captured = capsys.readouterr()
    assert json.loads(captured.out)["reason"] == "BudgetExhausted"
    assert captured.err == ""


async def test_plans_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run(FewPlans(), "list") is Exit.DONE
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAME", "INSTANCE", "PHASE", "REASON", "TASK", "STEP", "DONE", "COMMITS", "AGE", "INTENT"]
    assert row.split()[:8] == ["calc", "one", "Running", "Running", "3.2", "Act", "4/26", "5"]
    assert await run(FewPlans(), "list", "-o", "name") is Exit.DONE
    assert capsys.readouterr().out == "calc\n"


async def test_a_plan_is_shown_in_ascii_where_the_locale_has_no_more(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    await run(FewPlans(), "show", "calc")
    assert "`- [>] 3.2  Multiply and divide" in capsys.readouterr().out
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    await run(FewPlans(), "show", "calc")
    assert "└─ ▶ 3.2  Multiply and divide" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["show", "watch"])
async def test_a_command_in_the_message_of_a_plan_reaches_the_same_place(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    message = "The plan is suspended: `efrit plan resume calc` lets it continue."
    await run(FewPlans([replace(DONE, message=message)]), command, "calc")
    assert "`efrit --namespace team plan resume calc` lets" in capsys.readouterr().out


async def test_amending_and_ending_name_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    backend = FewPlans()
    await run(backend, "amend", "calc", "It", "also divides.")
    await run(backend, "suspend", "calc", "other")
    await run(backend, "resume", "calc")
    await run(backend, "cancel", "calc")
    assert backend.calls == [
        ("calc", "It also divides."),
        ("calc", "suspend"),
        ("other", "suspend"),
        ("calc", "resume"),
        ("calc", "cancel"),
    ]
    assert "amendment 1" in capsys.readouterr().out


@pytest.mark.parametrize("change", list(Change))
async def test_the_others_are_changed_though_one_plan_is_not_there(
    change: Change, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = FewPlans()
    with pytest.raises(PlanNotFound, match="there is no plan nope"):
        await run(backend, change.value, "calc", "nope", "other")
    assert backend.calls == [("calc", change.value), ("other", change.value)]
    assert len(capsys.readouterr().out.splitlines()) == 2


async def test_the_log_is_reported_line_by_line_or_whole(capsys: pytest.CaptureFixture[str]) -> None:
    commit = {"hash": "a" * 40, "time": "2026-01-31T09:01:00Z", "subject": "[begin] PLAN: \x1b[2J", "step": 0}
    backend = FewPlans(history={"commits": [commit]})
    await run(backend, "log", "calc", "--last", "5")
    assert capsys.readouterr().out == "aaaaaaaaaa  2026-01-31T09:01:00Z  [begin] PLAN: [2J\n"
    await run(backend, "log", "calc", "-o", "json")
    assert json.loads(capsys.readouterr().out) == [commit]
    await run(backend, "log", "calc", "-o", "name")
    assert capsys.readouterr().out == "a" * 40 + "\n"
    assert backend.calls == [("calc", "5"), ("calc", "None"), ("calc", "None")]


async def test_a_report_is_a_page_a_picture_or_lines(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    backend = FewPlans(history=HISTORY)
    for option, begins in (("--html", b"<!doctype html>"), ("--svg", b"<svg ")):
        assert await run(backend, "report", "calc", option) is Exit.DONE
        assert capsysbinary.readouterr().out.startswith(begins)
    await run(backend, "report", "calc")
    assert b"[a] ACT: Add" in capsysbinary.readouterr().out


async def test_a_history_that_is_none_is_refused_in_words() -> None:
    with pytest.raises(Refused, match="cannot be read"):
        await run(FewPlans(history={"plan": 1}), "report", "calc")
