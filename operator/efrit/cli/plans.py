"""`plan`: begin plans, see them, add to them, end them. Drawing is in `plan_drawing`, watching in `plan_watching`."""

from __future__ import annotations

import json
import shutil
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from efrit.cli.color import wanted
from efrit.cli.exit_codes import Exit, exit_of_plan
from efrit.cli.output import ago, short, table, write
from efrit.cli.plan_drawing import whole
from efrit.cli.plan_watching import Left, printable, style_of, watch
from efrit.cli.streams import is_terminal, read_text
from efrit.cli.terminal_text import harmless
from efrit.client.errors import WrongSettings
from efrit.client.interface import Backend
from efrit.client.plans import Change, Intent, NewPlan, PlanState


async def run_run(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit plan run`."""
    plans = backend.planning()
    state = await plans.create_plan(new_plan(given))
    if not given.detach:
        if not given.output:
            print(f"efrit: {state.name} is at work for {state.instance or state.pool}", file=sys.stderr)
        return await _watched(backend, state.name, given)
    if given.output:
        write(given.output, state)
    else:
        print(state.name)
    return Exit.DONE


async def run_watch(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit plan watch`."""
    return await _watched(backend, given.name, given)


async def _watched(backend: Backend, name: str, given: Namespace) -> Exit:
    try:
        state = await watch(backend.planning(), name, shown=not given.output)
    except Left:
        again = given.invocation.command("plan", "watch", name)
        print(f"\nefrit: {name} goes on; come back with `{again}`", file=sys.stderr)
        return Exit.LEFT
    if given.output:
        write(given.output, state)
    return exit_of_plan(state)


async def run_list(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit plan list`."""
    found = list(await backend.planning().plans())
    if given.output:
        write(given.output, found)
    elif found:
        print(printable(plans_table(found, datetime.now(UTC), colored=wanted(sys.stdout))))
    else:
        print(f"no plans in {backend.place}", file=sys.stderr)
    return Exit.DONE


def plans_table(found: Sequence[PlanState], now: datetime, *, colored: bool = False) -> str:
    """Return the plans as a table for people, oldest first."""
    head = ("NAME", "INSTANCE", "PHASE", "REASON", "TASK", "STEP", "DONE", "COMMITS", "AGE", "INTENT")
    return table(
        head,
        [
            (
                each.name,
                each.instance or each.pool,
                each.phase,
                each.reason,
                each.current_task,
                each.step,
                f"{each.counts.done}/{each.counts.tasks}",
                each.commit_count,
                ago((now - each.created).total_seconds() if each.created else None),
                short(harmless(each.intent.description), 40),
            )
            for each in found
        ],
        colored=colored,
    )


async def run_show(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit plan show`."""
    state = await backend.planning().plan(given.name)
    if given.output:
        write(given.output, state)
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print(printable("\n".join(whole(state, style_of(sys.stdout), datetime.now(UTC), width))))
    return Exit.DONE


async def run_amend(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit plan amend`."""
    text = read_text().strip() if given.text == ["-"] else " ".join(given.text)
    state = await backend.planning().amend_plan(given.name, text)
    if given.output:
        write(given.output, state)
    else:
        print(f"{state.name}: its next visit of a task sees this, amendment {len(state.amendments)}")
    return Exit.DONE


async def run_suspend(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit plan suspend`."""
    return await _change(backend, given, Change.SUSPEND, "begins nothing more")


async def run_resume(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit plan resume`."""
    return await _change(backend, given, Change.RESUME, "goes on")


async def run_cancel(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit plan cancel`."""
    return await _change(backend, given, Change.CANCEL, "told to end")


async def _change(backend: Backend, given: Namespace, change: Change, told: str) -> Exit:
    plans = backend.planning()
    states = [await plans.change_plan(name, change) for name in given.name]
    if given.output:
        write(given.output, states if len(states) > 1 else states[0])
    else:
        for state in states:
            print(f"{state.name}: {state.reason if state.final else told}")
    return Exit.DONE


# What the command line says of a plan to be


def new_plan(given: Namespace) -> NewPlan:
    """Return the plan that the command line describes. Raises `WrongSettings`."""
    name = given.name
    spec: dict[str, Any] = {}
    if given.file is not None:
        if given.file == "-" and given.intent == ["-"]:
            raise WrongSettings("the plan and its intent cannot both come from standard input", "name a file")
        named, spec = from_file(given.file)
        name = name or named
    return NewPlan(
        intent=_intent(given, spec),
        name=name,
        key=given.key,
        instance=given.instance,
        pool=given.pool,
        git_url=given.git,
        git_branch=given.branch,
        git_revision=given.revision,
        git_secret=given.git_secret,
        build=tuple(given.build),
        integration=tuple(given.integration),
        quality=tuple(given.quality),
        assess_timeout=given.assess_timeout,
        act_timeout=given.act_timeout,
        max_steps=given.max_steps,
        max_tokens=given.max_tokens,
        timeout=given.timeout,
        spec=spec,
    )


def _intent(given: Namespace, spec: dict[str, Any]) -> Intent | None:
    words = given.intent
    if not words and given.file is None and is_terminal(sys.stdin):
        raise WrongSettings("there is nothing to reach", "say what, give - to read it, or a file with -f")
    piped = words == ["-"] or (not words and given.file is None)
    text = read_text().strip() if piped else " ".join(words)
    known = spec.get("intent")
    known = known if isinstance(known, dict) else {}
    if not text and not given.criterion and not given.constraint:
        return None
    return Intent(
        text or str(known.get("description") or ""),
        tuple(given.criterion or known.get("acceptanceCriteria") or ()),
        tuple(given.constraint or known.get("constraints") or ()),
    )


def from_file(path: str) -> tuple[str | None, dict[str, Any]]:
    """Return name (None without one) and spec of the plan in a YAML or JSON file: a whole EfritPlan, or its spec."""
    import yaml

    try:
        text = read_text(path)
        # A spec goes over the wire as JSON: dates and the like, which only YAML has, are not of it.
        found = json.loads(json.dumps(yaml.safe_load(text)))
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
        raise WrongSettings(f"cannot read the plan in {path}: {error}") from error
    if not isinstance(found, dict):
        raise WrongSettings(f"there is no plan in {path}", "it holds an EfritPlan, or the spec of one")
    if not {"kind", "apiVersion", "metadata"} & set(found):
        return None, found
    meta, spec = found.get("metadata") or {}, found.get("spec")
    if found.get("kind") != "EfritPlan" or not isinstance(spec, dict) or not isinstance(meta, dict):
        raise WrongSettings(f"what is in {path} is no EfritPlan", "it holds an EfritPlan, or the spec of one")
    if set(meta) - {"name"}:
        raise WrongSettings(
            f"of the metadata of a plan only its name is used here, not {', '.join(sorted(set(meta) - {'name'}))}",
            "leave them out (the namespace is an option), or use kubectl apply",
        )
    name = meta.get("name")
    return (str(name) if name else None), spec
