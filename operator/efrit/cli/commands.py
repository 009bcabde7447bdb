"""The command line as data: every command, and the parser made of them. docs/cli.md and completion are made from it.

A command names the function that runs it, as text: only that one's module is imported.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable

from msgspec import Struct

from efrit.cli import options
from efrit.cli.parser import Parser, Version

Parent = Callable[[], Parser]


class Command(Struct, frozen=True):
    """One command. `run` is the function that runs it, as `module:function` below `efrit.cli`.

    One that has `commands` is not run itself: they are, as second words."""

    name: str
    run: str
    what: str
    parents: tuple[Parent, ...] = ()
    arguments: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    commands: tuple[Command, ...] = ()


def build(program: str = "efrit", words: list[str] | None = None) -> Parser:
    """Return the parser; the namespace it makes has the command's `run`, and `parser`, the command's own.

    With the `words` it is for, only their command is described where one is found: describing all takes longer
    than an eval.
    """
    chosen = next((command.name for command in COMMANDS if words and command.name in words[:1]), None)
    place_options = options.where()
    parser = Parser(
        program,
        description="Give work to resident Emacs daemons: on this machine, or in a cluster.",
        epilog=f"Run '{program} COMMAND --help' for its options and examples.\n"
        "Exit codes and configuration: docs/cli.md",
        parents=[place_options],
    )
    parser.add_argument("--version", action=Version, help="print the version and exit")
    parser.set_defaults(run=_HELP, parser=parser)
    _add(
        parser,
        [command for command in COMMANDS if chosen in (None, command.name)],
        place_options,
        "command_name",
        program,
    )
    return parser


def _add(parser: Parser, commands: Iterable[Command], place_options: Parser, dest: str, above: str) -> None:
    from_name = parser.add_subparsers(title="commands", metavar="COMMAND", dest=dest, parser_class=Parser)
    for command in commands:
        full_name = f"{above} {command.name}"
        subparser = from_name.add_parser(
            command.name,
            prog=full_name,
            help=command.what,
            description=_sentence(command.what),
            parents=[place_options, *(parent() for parent in command.parents)],
        )
        subparser.set_defaults(run=command.run or _HELP, parser=subparser)
        subparser.command = full_name.removeprefix(f"{parser.program} ")
        subparser.program = parser.program
        if command.commands:
            _add(subparser, command.commands, place_options, f"{command.name}_command", full_name)
        else:
            command.arguments(subparser)


_HELP = "help:run_help"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


_output, _work, _session, _budget, _display = (
    options.output,
    options.work,
    options.session,
    options.budget,
    options.display,
)

PLAN_COMMANDS = (
    Command("run", "plans:run_run", "start a plan and watch it", (_output,), options.plan_run),
    Command("list", "plans:run_list", "list the plans", (_output,)),
    Command(
        "show", "plans:run_show", "show a plan: its tree, last observations and commits", (_output,), options.plan
    ),
    Command(
        "watch",
        "plans:run_watch",
        "watch a plan until it ends; on this machine it runs only while watched",
        (_output,),
        options.plan,
    ),
    Command("log", "plan_history:run_log", "print the commits of a plan, oldest first", (_output,), options.plan_log),
    Command("amend", "plans:run_amend", "add to the intent of a plan", (_output,), options.plan_amend),
    Command(
        "suspend",
        "plans:run_suspend",
        "start no new work; running work finishes and is kept",
        (_output,),
        options.some_plans,
    ),
    Command("resume", "plans:run_resume", "resume suspended plans", (_output,), options.some_plans),
    Command("cancel", "plans:run_cancel", "cancel plans; completed work is kept", (_output,), options.some_plans),
    Command("report", "plan_history:run_report", "print the whole history of a plan", (), options.plan_report),
)

ROLLOUT_COMMANDS = (
    Command(
        "history",
        "rollout:run_history",
        "list the templates that a pool has and had, or show one",
        (_output,),
        options.rollout_history,
    ),
    Command("undo", "rollout:run_undo", "give a pool a former template again", (_output,), options.rollout_undo),
)

COMMANDS = (
    Command(
        "eval",
        "run:run_eval",
        "run Lisp and print the value of the last form",
        (_work, _display, _output),
        options.eval_,
    ),
    Command(
        "command",
        "run:run_command",
        "let the model work in Emacs until it is done",
        (_work, _session, _budget, _display, _output),
        options.text,
    ),
    Command(
        "chat",
        "chat:run_chat",
        "talk with the model; without a text, interactively",
        (_work, _session, _display, _output),
        options.text,
    ),
    Command(
        "submit",
        "requests:run_submit",
        "submit work and print its name",
        (_work, _session, _budget, _output),
        options.submit,
    ),
    Command("wait", "requests:run_wait", "wait until requests finish", (_display, _output), options.wait),
    Command(
        "cancel",
        "requests:run_cancel",
        "stop requests; what they have done is not undone",
        (_output,),
        options.names,
    ),
    Command(
        "logs",
        "requests:run_logs",
        "print what a request has done and printed, as lines of JSON",
        (),
        options.logs,
    ),
    Command("result", "requests:run_result", "print the whole result, however large", (), options.result),
    Command(
        "requests", "requests:run_requests", "list requests, newest first, or show some", (_output,), options.requests
    ),
    Command("plan", "", "work towards an intent with a living task tree", commands=PLAN_COMMANDS),
    Command("instances", "instances:run_instances", "list the instances", (_output,), options.some_instances),
    Command(
        "start", "instances:run_start", "start an instance; create it if it does not exist", (_output,), options.start
    ),
    Command(
        "stop",
        "instances:run_stop",
        "stop an instance once its running work ends; its files are kept",
        (_output,),
        options.stop,
    ),
    Command("restart", "instances:run_restart", "stop an instance and start it again", (_output,), options.instance),
    Command("rm", "instances:run_rm", "remove a stopped instance and its queue", (_output,), options.remove),
    Command("attach", "instances:run_attach", "show the Emacs of an instance in this terminal", (), options.instance),
    Command("stats", "instances:run_stats", "print statistics of queues", (_output,), options.some_instances),
    Command("pools", "pools:run_pools", "list the pools, or show some (cluster)", (_output,), options.some_pools),
    Command("scale", "pools:run_scale", "set how many members a pool has (cluster)", (_output,), options.scale),
    Command("rollout", "", "go back to a former template of a pool (cluster)", commands=ROLLOUT_COMMANDS),
    Command(
        "claim",
        "claims:run_claim",
        "claim a member of a pool for yourself alone (cluster)",
        (_output,),
        options.claim,
    ),
    Command(
        "claims", "claims:run_claims", "list the claims, or show some (cluster)", (_output,), options.some_claims
    ),
    Command("release", "claims:run_release", "end claims before their time (cluster)", (_output,), options.release),
    Command("top", "top:run_top", "watch instances, pools, queues and running work", (), options.top),
    Command("doctor", "doctor:run_doctor", "report problems and how to fix them", (_output,)),
    Command("completion", "completion:run_completion", "print a completion script for a shell", (), options.shell),
    Command("version", "doctor:run_version", "print the version"),
    Command("help", "help:run_words", "print the help of a command", (), options.help_),
)
