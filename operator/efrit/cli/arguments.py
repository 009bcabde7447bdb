"""The command line as data: every command, option and sentence of help. docs/cli.md and completion are made from it.

A command names the function that runs it, as text: only that one's module is imported.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

OUTPUTS = ("json", "yaml", "name")
Parent = Callable[[], argparse.ArgumentParser]


@dataclass(frozen=True)
class Command:
    """One command. `run` is the function that runs it, as `module:function` below `efrit.cli`.

    One that has `commands` is not run itself: they are, as second words.
    """

    name: str
    run: str
    what: str
    parents: tuple[Parent, ...] = ()
    arguments: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    commands: tuple[Command, ...] = ()


class _Formatter(argparse.HelpFormatter):
    """As wide as the terminal. Left to find that out, argparse imports more than an eval does, for each argument."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


@cache
def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (OSError, ValueError):
        return 80


def build(program: str = "efrit", words: list[str] | None = None) -> argparse.ArgumentParser:
    """The parser; the namespace it makes has the command's `run`.

    With the `words` it is for, only their command is described where one is found: describing all takes longer
    than an eval.
    """
    wanted = next((each.name for each in COMMANDS if words and each.name in words[:1]), None)
    where = _where()
    parser = argparse.ArgumentParser(
        program,
        description="Give work to resident Emacs daemons: on this machine, or in a cluster.",
        epilog=f"`{program} COMMAND --help` tells more. Exit codes: see docs/cli.md.",
        parents=[where],
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    _add(parser, [each for each in COMMANDS if wanted in (None, each.name)], where, "command_name")
    return parser


def _add(
    parser: argparse.ArgumentParser, these: Iterable[Command], where: argparse.ArgumentParser, dest: str
) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest=dest, required=True)
    for each in these:
        made = commands.add_parser(
            each.name,
            help=each.what,
            description=_sentence(each.what),
            parents=[where, *(parent() for parent in each.parents)],
            formatter_class=_Formatter,
            allow_abbrev=False,
        )
        if each.commands:
            _add(made, each.commands, where, f"{each.name}_command")
        else:
            made.set_defaults(run=each.run)
            each.arguments(made)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _part(**more: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(add_help=False, formatter_class=_Formatter, **more)  # type: ignore[arg-type]


def _where() -> argparse.ArgumentParser:
    made = _part(argument_default=argparse.SUPPRESS)
    group = made.add_argument_group("where to work")
    group.add_argument("--backend", choices=("local", "cluster"), help="this machine or a cluster (EFRIT_BACKEND)")
    group.add_argument("--config", metavar="FILE", help="this machine's configuration (EFRIT_CONFIG)")
    group.add_argument("--kubeconfig", metavar="FILE", help="as kubectl's (KUBECONFIG)")
    group.add_argument("--context", metavar="NAME", help="as kubectl's: a context of the kubeconfig")
    group.add_argument("-n", "--namespace", metavar="NAME", help="as kubectl's: the context's namespace by default")
    return made


def _output() -> argparse.ArgumentParser:
    made = _part()
    made.add_argument("-o", "--output", choices=OUTPUTS, help="print for programs: all of it, or names alone")
    return made


def _work() -> argparse.ArgumentParser:
    made = _part()
    group = made.add_argument_group("the work")
    group.add_argument(
        "-i", "--instance", metavar="NAME", help="who does it (default: default); * is the least loaded"
    )
    group.add_argument(
        "-C", "--dir", metavar="DIR", help="begin in this directory, not in the current one (this machine)"
    )
    group.add_argument("--pool", metavar="NAME", help="a pool whose least loaded member does it (cluster)")
    group.add_argument("-l", "--selector", metavar="KEY=VALUE,…", help="labels of who may do it (cluster)")
    group.add_argument("-f", "--file", metavar="FILE", help="take the text from a file; - is standard input")
    group.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="how long it may run")
    group.add_argument("--queue-timeout", type=_seconds, metavar="SECONDS", help="how long it may wait (cluster)")
    group.add_argument("--priority", type=int, default=0, metavar="N", help="higher goes first")
    group.add_argument("--return-context", action="store_true", help="also tell buffers, point, mode and directory")
    group.add_argument("--key", metavar="TEXT", help="the same key is the same request, however often it is sent")
    group.add_argument("--retry", action="store_true", help="run it again if its Emacs dies: only if that is safe")
    return made


def _session() -> argparse.ArgumentParser:
    made = _part()
    made.add_argument("-s", "--session", metavar="ID", help="continue this session")
    made.add_argument("--no-input", action="store_true", help="never ask me: a question ends with exit code 4")
    return made


def _budget() -> argparse.ArgumentParser:
    made = _part()
    group = made.add_argument_group("how far it may go")
    group.add_argument("--max-tool-calls", type=_count, metavar="N", help="tool calls")
    group.add_argument("--max-iterations", type=_count, metavar="N", help="turns of the model")
    group.add_argument("--max-tokens", type=_count, metavar="N", help="tokens in and out, together")
    return made


def _patience() -> argparse.ArgumentParser:
    made = _part()
    made.add_argument("-q", "--quiet", action="store_true", help="show no progress, print the result only")
    made.add_argument("-r", "--raw", action="store_true", help="print a Lisp string without its quotes")
    return made


def _eval(made: argparse.ArgumentParser) -> None:
    made.add_argument("form", nargs="*", help="the forms; - (or nothing, in a pipe) reads standard input")


def _text(made: argparse.ArgumentParser) -> None:
    made.add_argument("text", nargs="*", help="what to say or to do; - reads standard input")


def _submit(made: argparse.ArgumentParser) -> None:
    made.add_argument("--type", choices=("eval", "command", "chat"), default="eval", help="default: eval")
    _text(made)


def _wait(made: argparse.ArgumentParser) -> None:
    _names(made)
    made.add_argument("--for", type=_seconds, dest="at_most", metavar="SECONDS", help="wait no longer than this")


def _logs(made: argparse.ArgumentParser) -> None:
    _name(made)
    made.add_argument("-f", "--follow", action="store_true", help="go on until it is over")


def _result(made: argparse.ArgumentParser) -> None:
    _name(made)
    made.add_argument("-r", "--raw", action="store_true", help="print a Lisp string without its quotes")


def _requests(made: argparse.ArgumentParser) -> None:
    made.add_argument("name", nargs="*", help="names of requests")
    made.add_argument("-i", "--instance", metavar="NAME", help="those of this instance")


def _some_instances(made: argparse.ArgumentParser) -> None:
    made.add_argument("name", nargs="*", help="names of instances; default: all")


def _start(made: argparse.ArgumentParser) -> None:
    _instance(made)
    made.add_argument("--queue-dir", metavar="DIR", help="where its queue lies (this machine)")
    made.add_argument("--daemon-name", metavar="NAME", help="the name of its Emacs daemon")
    made.add_argument("--workspace-dir", metavar="DIR", help="where it keeps large results (this machine)")
    made.add_argument(
        "--init",
        action=argparse.BooleanOptionalAction,
        help="load your own init file and packages, or do not; kept in the configuration (this machine)",
    )
    made.add_argument("--image", metavar="IMAGE", help="the image of its Emacs (cluster)")


def _top(made: argparse.ArgumentParser) -> None:
    made.add_argument("-d", "--delay", type=_seconds, default=1.0, metavar="SECONDS", help="between two looks")
    made.add_argument("--once", action="store_true", help="print one look and end")


def _shell(made: argparse.ArgumentParser) -> None:
    made.add_argument("shell", choices=("bash", "zsh", "fish"), help="which shell")


def _plan_run(made: argparse.ArgumentParser) -> None:
    made.add_argument("intent", nargs="*", help="what is to be reached, in your own words; - reads standard input")
    what = made.add_argument_group("the plan")
    _several(what, "--criterion", "TEXT", "how one sees that it is reached")
    _several(what, "--constraint", "TEXT", "what must hold on the way")
    what.add_argument("-f", "--file", metavar="FILE", help="an EfritPlan or its spec as YAML; options go over it")
    what.add_argument("--name", metavar="NAME", help="its name; the same name with the same plan is the same plan")
    what.add_argument("--key", metavar="TEXT", help="the same key is the same plan, however often it is sent")
    where = made.add_argument_group("where it works")
    where.add_argument(
        "-i", "--instance", metavar="NAME", help="whose workspace; * is the least loaded one; default: default"
    )
    where.add_argument("--pool", metavar="NAME", help="a pool of which one member takes it")
    where.add_argument("--git", metavar="URL", help="work on a clone of this repository")
    where.add_argument("--branch", metavar="NAME", help="the branch to begin from")
    where.add_argument("--revision", metavar="NAME", help="the commit or tag to begin from")
    where.add_argument("--git-secret", metavar="NAME", help="a Secret for the repository, which the instance mounts")
    facts = made.add_argument_group("facts after each task, from shell commands")
    _several(facts, "--build", "COMMAND", "does it build, do its tests pass?")
    _several(facts, "--integration", "COMMAND", "does it fit what is around it?")
    _several(facts, "--quality", "COMMAND", "is it well made?")
    facts.add_argument("--assess-timeout", type=_seconds, metavar="SECONDS", help="how long one of them may run")
    bounds = made.add_argument_group("how far it may go")
    bounds.add_argument("--max-steps", type=_count, metavar="N", help="visits of tasks")
    bounds.add_argument("--max-tokens", type=_count, metavar="N", help="tokens in and out, together")
    bounds.add_argument("--timeout", type=_long, metavar="SECONDS", help="how long the whole plan may take")
    bounds.add_argument(
        "--act-timeout", type=_seconds, metavar="SECONDS", help="how long the work on one task may take"
    )
    made.add_argument("-d", "--detach", action="store_true", help="do not watch it: print its name and end")


def _several(group: argparse._ArgumentGroup, option: str, metavar: str, what: str) -> None:
    group.add_argument(option, action="append", default=[], metavar=metavar, help=f"{what} (may be repeated)")


def _plan(made: argparse.ArgumentParser) -> None:
    made.add_argument("name", help="name of the plan")


def _some_plans(made: argparse.ArgumentParser) -> None:
    made.add_argument("name", nargs="+", help="names of plans")


def _plan_amend(made: argparse.ArgumentParser) -> None:
    _plan(made)
    made.add_argument("text", nargs="+", help="what was forgotten; - reads standard input")


def _plan_log(made: argparse.ArgumentParser) -> None:
    _plan(made)
    made.add_argument("--last", type=_count, metavar="N", help="only the last commits")


def _plan_report(made: argparse.ArgumentParser) -> None:
    _plan(made)
    kinds = made.add_mutually_exclusive_group()
    kinds.add_argument("--html", action="store_true", help="one page with tree, commits, costs and times")
    kinds.add_argument("--svg", action="store_true", help="the tree as a picture")


def _instance(made: argparse.ArgumentParser) -> None:
    made.add_argument("name", help="name of the instance")


def _remove(made: argparse.ArgumentParser) -> None:
    _instance(made)
    made.add_argument("--files", action="store_true", help="delete its workspace as well (this machine)")


def _name(made: argparse.ArgumentParser) -> None:
    made.add_argument("name", help="name of the request")


def _names(made: argparse.ArgumentParser) -> None:
    made.add_argument("name", nargs="+", help="names of requests")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 604_800:
        raise ValueError(text)
    return value


def _long(text: str) -> float:
    value = float(text)
    if not 0 < value <= 31_536_000:
        raise ValueError(text)
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


_seconds.__name__ = _long.__name__ = "number of seconds"
_count.__name__ = "number above 0"

PLAN_COMMANDS = (
    Command("run", "plans:run_run", "begin a plan and watch it", (_output,), _plan_run),
    Command("list", "plans:run_list", "list the plans", (_output,)),
    Command("show", "plans:run_show", "show a plan: its tree, what was seen last, its commits", (_output,), _plan),
    Command("watch", "plans:run_watch", "watch a plan until it is over; leaving does not stop it", (_output,), _plan),
    Command("log", "plan_history:run_log", "print the commits of a plan, oldest first", (_output,), _plan_log),
    Command("amend", "plans:run_amend", "add to the intent of a plan what was forgotten", (_output,), _plan_amend),
    Command(
        "suspend",
        "plans:run_suspend",
        "begin nothing more; what runs ends, what it did is kept",
        (_output,),
        _some_plans,
    ),
    Command("resume", "plans:run_resume", "let suspended plans go on", (_output,), _some_plans),
    Command("cancel", "plans:run_cancel", "end plans; what was done stays done", (_output,), _some_plans),
    Command("report", "plan_history:run_report", "tell the whole history of a plan", (), _plan_report),
)

COMMANDS = (
    Command(
        "eval", "asking:run_eval", "run Lisp and print the value of the last form", (_work, _patience, _output), _eval
    ),
    Command(
        "command",
        "asking:run_command",
        "let the model work in Emacs until it is done",
        (_work, _session, _budget, _patience, _output),
        _text,
    ),
    Command(
        "chat",
        "chatting:run_chat",
        "talk with the model; without a text, for as long as you like",
        (_work, _session, _patience, _output),
        _text,
    ),
    Command(
        "submit",
        "requests:run_submit",
        "hand work over and print its name",
        (_work, _session, _budget, _output),
        _submit,
    ),
    Command("wait", "requests:run_wait", "wait until requests are over", (_patience, _output), _wait),
    Command(
        "cancel", "requests:run_cancel", "ask requests to stop; what they have done stays done", (_output,), _names
    ),
    Command("logs", "requests:run_logs", "print what a chat or command has done, as lines of JSON", (), _logs),
    Command("result", "requests:run_result", "print the whole result, however large", (), _result),
    Command("requests", "requests:run_requests", "list requests, or tell all of some", (_output,), _requests),
    Command("plan", "", "work towards an intent with a living task tree (cluster)", commands=PLAN_COMMANDS),
    Command("instances", "instances:run_instances", "list the instances", (_output,), _some_instances),
    Command("start", "instances:run_start", "start an instance; make it if there is none", (_output,), _start),
    Command(
        "stop",
        "instances:run_stop",
        "let what runs end, then stop an instance; its files stay",
        (_output,),
        _instance,
    ),
    Command("restart", "instances:run_restart", "stop an instance and start it again", (_output,), _instance),
    Command("rm", "instances:run_rm", "remove a stopped instance and its queue", (_output,), _remove),
    Command("attach", "instances:run_attach", "show the Emacs of an instance in this terminal", (), _instance),
    Command("stats", "instances:run_stats", "figures of queues", (_output,), _some_instances),
    Command("top", "top:run_top", "watch instances, queues and running work", (), _top),
    Command("doctor", "doctor:run_doctor", "say what is wrong here, and how to mend it", (_output,)),
    Command("completion", "completion:run_completion", "print a completion script for a shell", (), _shell),
    Command("version", "doctor:run_version", "print the version"),
)
