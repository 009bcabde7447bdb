"""`plan`: begin plans, see them, add to them, end them. Drawing is in `plan_text`, watching in `plan_watch`."""

from __future__ import annotations

import json
import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import yaml

from efrit.backend.errors import WrongSettings
from efrit.backend.interface import Backend
from efrit.backend.plans import Change, Intent, NewPlan, PlanState
from efrit.cli.color import color_enabled
from efrit.cli.each_name import change_each
from efrit.cli.exit_codes import Exit, exit_of_plan
from efrit.cli.output import age_text, shortened, table, write
from efrit.cli.plan_text import full_view
from efrit.cli.plan_watch import Detached, replace_unencodable, style_of, watch, with_whole_commands
from efrit.cli.streams import is_terminal, read_text
from efrit.cli.terminal_text import sanitized_line
from efrit.errors import InvalidTree
from efrit.plan.tree_file import is_tree, spec_of_tree
from efrit.resources import PLANS


async def run_run(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit plan run`."""
    plans = backend.planning()
    state = await plans.create_plan(new_plan(args))
    if not args.detach:
        if not args.output:
            print(f"efrit: {state.name} is at work for {state.instance or state.pool}", file=sys.stderr)
        return await _watch_plan(backend, state.name, args)
    if args.output:
        write(args.output, state)
    else:
        print(state.name)
    if backend.kind == "local":
        command = args.invocation.command("plan", "watch", state.name)
        print(f"efrit: {state.name} goes on while it is watched: `{command}`", file=sys.stderr)
    return Exit.DONE


async def run_watch(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit plan watch`."""
    return await _watch_plan(backend, args.name, args)


async def _watch_plan(backend: Backend, name: str, args: Namespace) -> Exit:
    try:
        state = await watch(backend.planning(), name, args.invocation, shown=not args.output)
    except Detached:
        command = args.invocation.command("plan", "watch", name)
        notice = f"{name} stops here; go on with `{command}`"
        if backend.kind != "local":
            notice = f"{name} goes on; come back with `{command}`"
        print(f"\nefrit: {notice}", file=sys.stderr)
        return Exit.DETACHED
    if args.output:
        write(args.output, state)
    return exit_of_plan(state)


async def run_list(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit plan list`."""
    plans = list(await backend.planning().plans())
    if args.output:
        write(args.output, plans)
    elif plans:
        print(replace_unencodable(plans_table(plans, datetime.now(UTC), colored=color_enabled(sys.stdout))))
    else:
        print(f"no plans in {backend.place}", file=sys.stderr)
    return Exit.DONE


def plans_table(plans: Sequence[PlanState], now: datetime, *, colored: bool = False) -> str:
    """Return the plans as a table for people, oldest first."""
    head = ("NAME", "INSTANCE", "PHASE", "REASON", "TASK", "STEP", "DONE", "COMMITS", "AGE", "INTENT")
    return table(
        head,
        [
            (
                plan.name,
                plan.instance or plan.pool,
                plan.phase,
                plan.reason,
                plan.current_task,
                plan.step,
                f"{plan.counts.done}/{plan.counts.tasks}",
                plan.commit_count,
                age_text((now - plan.created).total_seconds() if plan.created else None),
                shortened(sanitized_line(plan.intent.description), 40),
            )
            for plan in plans
        ],
        colored=colored,
    )


async def run_show(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit plan show`."""
    state = await backend.planning().plan(args.name)
    if args.output:
        write(args.output, state)
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        state = with_whole_commands(state, args.invocation)
        print(replace_unencodable("\n".join(full_view(state, style_of(sys.stdout), datetime.now(UTC), width))))
    return Exit.DONE


async def run_amend(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit plan amend`."""
    text = read_text().strip() if args.text == ["-"] else " ".join(args.text)
    state = await backend.planning().amend_plan(args.name, text)
    if args.output:
        write(args.output, state)
    else:
        print(f"{state.name}: its next step sees this, amendment {len(state.amendments)}")
    return Exit.DONE


async def run_suspend(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit plan suspend`."""
    return await _change(backend, args, Change.SUSPEND, "suspend requested")


async def run_resume(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit plan resume`."""
    return await _change(backend, args, Change.RESUME, "resumed")


async def run_cancel(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit plan cancel`."""
    return await _change(backend, args, Change.CANCEL, "cancel requested")


async def _change(backend: Backend, args: Namespace, change: Change, message: str) -> Exit:
    plans = backend.planning()

    def text(state: PlanState) -> str:
        return f"{state.name}: {state.reason if state.final else message}"

    return await change_each(args, lambda name: plans.change_plan(name, change), text)


# What the command line says of a plan to be


def new_plan(args: Namespace) -> NewPlan:
    """Return the plan that the command line describes. Raises `WrongSettings`."""
    name = args.name
    spec: dict[str, Any] = {}
    if args.file is not None:
        if args.file == "-" and args.intent == ["-"]:
            raise WrongSettings("the plan and its intent cannot both come from standard input", "name a file")
        named, spec = from_file(args.file)
        name = name or named
    return NewPlan(
        intent=_intent(args, spec),
        name=name,
        key=args.key,
        instance=args.instance,
        pool=args.pool,
        directory=os.path.abspath(os.path.expanduser(args.dir)) if args.dir else None,  # noqa: PTH100, PTH111
        git_url=args.git,
        git_branch=args.branch,
        git_revision=args.revision,
        git_secret=args.git_secret,
        build=tuple(args.build),
        integration=tuple(args.integration),
        quality=tuple(args.quality),
        assess_timeout=args.assess_timeout,
        act_timeout=args.act_timeout,
        max_steps=args.max_steps,
        max_tokens=args.max_tokens,
        timeout=args.timeout,
        spec=spec,
    )


def _intent(args: Namespace, spec: dict[str, Any]) -> Intent | None:
    words = args.intent
    if not words and args.file is None and is_terminal(sys.stdin):
        raise WrongSettings("the plan has no intent", "give it as text, - to read standard input, or a file with -f")
    piped = words == ["-"] or (not words and args.file is None)
    text = read_text().strip() if piped else " ".join(words)
    intent = spec.get("intent")
    intent = intent if isinstance(intent, dict) else {}
    if not text and not args.criterion and not args.constraint:
        return None
    return Intent(
        text or str(intent.get("description") or ""),
        tuple(args.criterion or intent.get("acceptanceCriteria") or ()),
        tuple(args.constraint or intent.get("constraints") or ()),
    )


def from_file(path: str) -> tuple[str | None, dict[str, Any]]:
    """Return name (None without one) and spec of the plan in a YAML or JSON file.

    It holds a whole EfritPlan, its spec, or a tree of tasks (`efrit.plan.tree_file`).
    """
    try:
        text = read_text(path)
        # A spec goes over the wire as JSON: dates and the like, which only YAML has, are not of it.
        document = json.loads(json.dumps(yaml.safe_load(text)))
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
        raise WrongSettings(f"cannot read the plan in {path}: {error}") from error
    if not isinstance(document, dict):
        raise WrongSettings(f"there is no plan in {path}", "it must hold an EfritPlan, or the spec of one")
    if is_tree(document):
        try:
            return None, spec_of_tree(document)
        except InvalidTree as error:
            raise WrongSettings(f"the tree in {path}: {error.message}", "correct it") from error
    if not {"kind", "apiVersion", "metadata"} & set(document):
        return None, document
    meta, spec = document.get("metadata") or {}, document.get("spec")
    if document.get("kind") != PLANS.kind or not isinstance(spec, dict) or not isinstance(meta, dict):
        raise WrongSettings(f"{path} does not hold an EfritPlan", "it must hold an EfritPlan, or the spec of one")
    if set(meta) - {"name"}:
        raise WrongSettings(
            f"of the metadata of a plan only its name is used here, not {', '.join(sorted(set(meta) - {'name'}))}",
            "leave them out (the namespace is an option), or use kubectl apply",
        )
    name = meta.get("name")
    return (str(name) if name else None), spec
