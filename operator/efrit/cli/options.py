"""The arguments and options of the commands, with their help. Which command has which is in `commands`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from efrit.cli.durations import MONTH, WEEK, YEAR, up_to
from efrit.cli.parser import Parser, argument_type

OUTPUTS = ("json", "yaml", "name")
SHELLS = ("bash", "zsh", "fish")

_seconds = argument_type(up_to(WEEK))
_long = argument_type(up_to(YEAR))


def _integer_at_least(least: int) -> Callable[[str], Any]:
    def read(text: str) -> int:
        if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 12 or int(text) < least:
            raise ValueError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return argument_type(read)


_count = _integer_at_least(1)
_any_number = _integer_at_least(-(10**9))
_count_or_all = _integer_at_least(0)


def part(**more: Any) -> Parser:
    """Return a parser to be used as a parent of others."""
    return Parser(add_help=False, **more)


def where() -> Parser:
    """Return the options every command takes: where to work."""
    parser = part(argument_default=argparse.SUPPRESS)
    group = parser.add_argument_group("where to work")
    group.add_argument(
        "--backend",
        choices=("local", "cluster"),
        help="this machine or a cluster (default: $EFRIT_BACKEND; else the cluster if one is named, or in a pod)",
    )
    group.add_argument(
        "--config",
        metavar="FILE",
        help="configuration of this machine (default: $EFRIT_CONFIG or ~/.config/efrit/config.json)",
    )
    group.add_argument("--kubeconfig", metavar="FILE", help="as for kubectl (default: $KUBECONFIG or ~/.kube/config)")
    group.add_argument("--context", metavar="NAME", help="as for kubectl (default: the current context)")
    group.add_argument("-n", "--namespace", metavar="NAME", help="as for kubectl (default: the context's namespace)")
    return parser


def output() -> Parser:
    """Return `-o`."""
    parser = part()
    parser.add_argument("-o", "--output", choices=OUTPUTS, help="print for programs (default: text for people)")
    return parser


def work() -> Parser:
    """Return the options of a request."""
    parser = part()
    group = parser.add_argument_group("the work")
    group.add_argument(
        "-i", "--instance", metavar="NAME", help="instance that does it; * is the least loaded one (default: default)"
    )
    group.add_argument(
        "-C",
        "--dir",
        metavar="DIR",
        help="directory to start in, on this machine (default: the current one)",
    )
    group.add_argument("--pool", metavar="NAME", help="pool of which a member with room does it (cluster)")
    group.add_argument(
        "-l", "--selector", metavar="KEY=VALUE,…", help="labels of the instances that may do it (cluster)"
    )
    group.add_argument("-f", "--file", metavar="FILE", help="read the text from a file; - is standard input")
    group.add_argument(
        "--timeout",
        type=_seconds,
        metavar="DURATION",
        help="how long it may run: 30s, 5m (default: the instance's; 30s for an eval, 10m for a chat or command)",
    )
    group.add_argument(
        "--queue-timeout",
        type=_seconds,
        metavar="DURATION",
        help="how long it may wait before it runs (cluster; default: no limit)",
    )
    group.add_argument("--priority", type=_any_number, default=0, metavar="N", help="higher goes first (default: 0)")
    group.add_argument("--return-context", action="store_true", help="also return buffers, point, mode, directory")
    group.add_argument("--key", metavar="TEXT", help="the same key is the same request, however often it is sent")
    group.add_argument("--retry", action="store_true", help="run it again if its Emacs dies; only where that is safe")
    return parser


def session() -> Parser:
    """Return the options of a chat or command that goes on."""
    parser = part()
    parser.add_argument("-s", "--session", metavar="ID", help="continue this session (default: a new one)")
    parser.add_argument("--no-input", action="store_true", help="never ask; a question ends with exit code 4")
    return parser


def budget() -> Parser:
    """Return the bounds of a command."""
    parser = part()
    group = parser.add_argument_group("how far it may go")
    of_instance = "(at most, and by default, the instance's limit)"
    group.add_argument("--max-tool-calls", type=_count, metavar="N", help=f"tool calls {of_instance}")
    group.add_argument("--max-iterations", type=_count, metavar="N", help=f"turns of the model {of_instance}")
    group.add_argument("--max-tokens", type=_count, metavar="N", help=f"tokens in and out {of_instance}")
    return parser


def display() -> Parser:
    """Return how an end is shown."""
    parser = part()
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress, print the result only")
    _raw(parser)
    return parser


def _raw(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-r", "--raw", action="store_true", help="print a Lisp string without its quotes")


def eval_(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `eval`."""
    parser.add_argument("form", nargs="*", help="the forms; - (or nothing, in a pipe) reads standard input")


def text(parser: argparse.ArgumentParser) -> None:
    """Add the text of a chat or command."""
    parser.add_argument("text", nargs="*", help="what to say or to do; - reads standard input")


def submit(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `submit`."""
    parser.add_argument(
        "--type", choices=("eval", "command", "chat"), default="eval", help="kind of work (default: eval)"
    )
    text(parser)


def wait(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `wait`."""
    names(parser)
    parser.add_argument(
        "--for",
        type=_seconds,
        dest="at_most",
        metavar="DURATION",
        help="wait no longer than this for all of them: 30s, 5m (default: no limit)",
    )


def logs(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `logs`."""
    name(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="follow the log until the work ends")


def result(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `result`."""
    name(parser)
    _raw(parser)


def requests(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `requests`."""
    parser.add_argument("name", nargs="*", help="names of requests (default: list them, newest first)")
    parser.add_argument("-i", "--instance", metavar="NAME", help="those of this instance (default: of all)")
    parser.add_argument(
        "-L",
        "--limit",
        type=_count_or_all,
        metavar="N",
        help="list the newest N; 0 lists all (default: 30 in a table, all with -o)",
    )


def some_instances(parser: argparse.ArgumentParser) -> None:
    """Add names of instances."""
    parser.add_argument("name", nargs="*", help="names of instances (default: all)")


def some_pools(parser: argparse.ArgumentParser) -> None:
    """Add names of pools."""
    parser.add_argument("name", nargs="*", help="names of pools: conditions, flows and members (default: list them)")


def scale(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `scale`."""
    parser.add_argument("name", help="name of the pool")
    parser.add_argument("replicas", type=_count_or_all, metavar="N", help="desired number of members")


def rollout_history(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rollout history`."""
    parser.add_argument("name", help="name of the pool")
    parser.add_argument("--revision", type=_count, metavar="N", help="show the template of this one (default: all)")


def rollout_undo(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rollout undo`."""
    parser.add_argument("name", help="name of the pool")
    parser.add_argument(
        "--to-revision", type=_count, metavar="N", help="go back to this one (default: the one before the current)"
    )


def claim(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `claim`."""
    parser.add_argument("pool", help="name of the pool")
    parser.add_argument(
        "--name", metavar="NAME", help="name of the claim; one that is open goes on (default: made from POOL)"
    )
    parser.add_argument(
        "--ttl",
        type=argument_type(up_to(MONTH)),
        metavar="DURATION",
        help="how long it lasts from when it has a member: 30m, 8h (default: 1h)",
    )
    parser.add_argument("--holder", metavar="TEXT", help="name of the holder, for display (default: none)")
    parser.add_argument(
        "--no-recycle",
        action="store_true",
        help="in the end the member goes back to its pool as it is, with files and sessions (default: it is deleted)",
    )
    parser.add_argument(
        "--for",
        type=_seconds,
        dest="at_most",
        metavar="DURATION",
        help="wait no longer than this for a member: 30s, 5m (default: no limit)",
    )


def some_claims(parser: argparse.ArgumentParser) -> None:
    """Add names of claims."""
    parser.add_argument("name", nargs="*", help="names of claims (default: list them)")


def release(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `release`."""
    parser.add_argument("name", nargs="+", help="names of claims")


def start(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `start`."""
    instance(parser)
    parser.add_argument(
        "--queue-dir",
        metavar="DIR",
        help="directory of its queue, on this machine (default: ~/.local/state/efrit/instances/NAME/queue)",
    )
    parser.add_argument("--daemon-name", metavar="NAME", help="name of its Emacs daemon (default: made from NAME)")
    parser.add_argument(
        "--workspace-dir",
        metavar="DIR",
        help="directory of its large results, on this machine (default: "
        "~/.local/share/efrit/instances/NAME/workspace)",
    )
    parser.add_argument(
        "--init",
        action=argparse.BooleanOptionalAction,
        help="load your init file and packages, on this machine; kept in the configuration (default: as configured; "
        "a new instance loads none)",
    )
    parser.add_argument("--image", metavar="IMAGE", help="image of its Emacs (cluster; default: the chart's)")


def stop(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `stop`."""
    instance(parser)
    parser.add_argument(
        "--now",
        action="store_true",
        help="cancel what runs, instead of letting it end (on this machine it may take 30s)",
    )


def top(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `top`."""
    parser.add_argument(
        "-d",
        "--delay",
        type=_seconds,
        default=1.0,
        metavar="DURATION",
        help="time between two updates (default: 1s)",
    )
    parser.add_argument("--once", action="store_true", help="print the state once and exit")
    parser.add_argument(
        "--all",
        action="store_true",
        help="print all requests with --once or into a pipe (default: the first 50)",
    )


def shell(parser: argparse.ArgumentParser) -> None:
    """Add the shell of `completion`."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"which shell: {', '.join(SHELLS)}")


def help_(parser: argparse.ArgumentParser) -> None:
    """Add the words of `help`."""
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="which command (default: all of them)")


def plan_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `plan run`."""
    parser.add_argument("intent", nargs="*", help="goal of the plan, in your own words; - reads standard input")
    group = parser.add_argument_group("the plan")
    _several(group, "--criterion", "TEXT", "how to tell that the goal is reached")
    _several(group, "--constraint", "TEXT", "what must hold throughout")
    group.add_argument(
        "-f", "--file", metavar="FILE", help="an EfritPlan, its spec, or a tree of tasks; options go over it"
    )
    group.add_argument(
        "--name",
        metavar="NAME",
        help="its name; the same name with the same plan is the same plan (default: generated)",
    )
    group.add_argument("--key", metavar="TEXT", help="the same key is the same plan, however often it is sent")
    place = parser.add_argument_group("where it works")
    place.add_argument(
        "-i",
        "--instance",
        metavar="NAME",
        help="instance whose workspace it is; * is the least loaded one (default: default)",
    )
    place.add_argument("--pool", metavar="NAME", help="a pool of which one member takes it (cluster)")
    place.add_argument(
        "-C",
        "--dir",
        metavar="DIR",
        help="make its repository in DIR/plans, on this machine (default: in the instance's workspace)",
    )
    place.add_argument(
        "--git",
        metavar="URL",
        help="work on a clone of this repository; on this machine its directory will do (default: a new one)",
    )
    place.add_argument("--branch", metavar="NAME", help="branch to start from (default: the repository's)")
    place.add_argument("--revision", metavar="NAME", help="commit or tag to start from (default: the branch's last)")
    place.add_argument("--git-secret", metavar="NAME", help="a Secret for it, which the instance mounts (cluster)")
    facts = parser.add_argument_group("facts after each task, from shell commands")
    _several(facts, "--build", "COMMAND", "does it build, do its tests pass?")
    _several(facts, "--integration", "COMMAND", "does it fit what is around it?")
    _several(facts, "--quality", "COMMAND", "is it well made?")
    facts.add_argument(
        "--assess-timeout", type=_seconds, metavar="DURATION", help="how long one of them may run (default: 5m)"
    )
    bounds = parser.add_argument_group("how far it may go")
    bounds.add_argument("--max-steps", type=_count, metavar="N", help="steps of all tasks together (default: 200)")
    bounds.add_argument("--max-tokens", type=_count, metavar="N", help="tokens in and out (default: no limit)")
    bounds.add_argument(
        "--timeout", type=_long, metavar="DURATION", help="how long the whole plan may take: 12h (default: no limit)"
    )
    bounds.add_argument(
        "--act-timeout",
        type=_seconds,
        metavar="DURATION",
        help="how long the work on one task may take (default: the instance's limit for commands)",
    )
    parser.add_argument("-d", "--detach", action="store_true", help="do not watch it: print its name and exit")


def _several(group: argparse._ArgumentGroup, option: str, metavar: str, help_text: str) -> None:
    group.add_argument(option, action="append", default=[], metavar=metavar, help=f"{help_text} (may be repeated)")


def plan(parser: argparse.ArgumentParser) -> None:
    """Add the name of a plan."""
    parser.add_argument("name", help="name of the plan")


def some_plans(parser: argparse.ArgumentParser) -> None:
    """Add names of plans."""
    parser.add_argument("name", nargs="+", help="names of plans")


def plan_amend(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `plan amend`."""
    plan(parser)
    parser.add_argument("text", nargs="+", help="what was forgotten; - reads standard input")


def plan_log(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `plan log`."""
    plan(parser)
    parser.add_argument("--last", type=_count, metavar="N", help="only the last N commits (default: all)")


def plan_report(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `plan report`."""
    plan(parser)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--html", action="store_true", help="one page with tree, commits, costs and times")
    kinds.add_argument("--svg", action="store_true", help="the tree as a picture")


def instance(parser: argparse.ArgumentParser) -> None:
    """Add the name of an instance."""
    parser.add_argument("name", help="name of the instance")


def remove(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rm`."""
    instance(parser)
    parser.add_argument("--files", action="store_true", help="delete its workspace as well (this machine)")


def name(parser: argparse.ArgumentParser) -> None:
    """Add the name of a request."""
    parser.add_argument("name", help="name of the request")


def names(parser: argparse.ArgumentParser) -> None:
    """Add names of requests."""
    parser.add_argument("name", nargs="+", help="names of requests")
