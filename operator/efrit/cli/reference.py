"""docs/cli.md, written from the command line's own description: `python -m efrit.cli.reference FILE`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from efrit.cli.commands import build
from efrit.cli.examples import EXAMPLES
from efrit.cli.exit_codes import MEANINGS
from efrit.cli.parser import Version

_INTRODUCTION = """\
# The command line

<!-- Written by `make docs` from operator/efrit/cli; do not edit. -->

`efrit` gives work to resident Emacs daemons. Without anything else it works on **this machine**: it needs an Emacs
(28 or later) and starts a daemon when there is work for one. `kubectl efrit` is the same program for a **cluster**.

```console
$ efrit eval '(+ 1 2)'
3
$ echo '(emacs-version)' | efrit eval -        # a pipe
"GNU Emacs …
$ name=$(efrit submit '(+ 1 2)')               # hand over now,
$ efrit wait "$name"                           # come back later, from any process
3
```
<!-- play: cluster -->
```console
$ kubectl efrit -n team eval -i workshop '(+ 1 2)'
3
```

The result goes to standard output, everything else to standard error. While it waits at a terminal, it shows how
far the work is; Ctrl-C asks whether to cancel, leave it running or wait on, and a second one leaves it running. In a
pipe Ctrl-C leaves it running and says its name. On a laptop, Ctrl-C while Emacs starts for new work ends the command,
which has stored nothing, and that Emacs, unless another command waits for it. How the work ended is the exit code:

| code | meaning |
|---|---|
"""

_PLACES = """
## Where it works

It works on a cluster with `--context`, `--namespace`, `--kubeconfig`, `--backend cluster` or
`EFRIT_BACKEND=cluster`, as `kubectl efrit`, and in a pod (which it then says); on this machine otherwise. kubeconfig,
context and namespace are found as kubectl finds them.

On this machine the instances are those of `~/.config/efrit/config.json` (`EFRIT_CONFIG`, `--config`); without that
file there is one, called `default`. A file named with `--config` has to exist, but `efrit start`
writes it:

```json
{
  "instances": {
    "default": {
      "queue_dir": "~/.local/state/efrit/instances/default/queue",
      "workspace_dir": "~/.local/share/efrit/instances/default/workspace",
      "daemon_name": "my-efrit",
      "init": false,
      "timeout": 30,
      "auto_start": true
    }
  },
  "polling_interval_ms": 500,
  "max_concurrent_requests": 20,
  "cleanup_interval_minutes": 10
}
```

| key | default | meaning |
|---|---|---|
| `queue_dir` | `efrit/instances/NAME/queue` in `$XDG_STATE_HOME` (`~/.local/state`) | [the queue](queue.md) |
| `workspace_dir` | `efrit/instances/NAME/workspace` in `$XDG_DATA_HOME` (`~/.local/share`) | where large results go |
| `daemon_name` | `efrit-NAME-CHECKSUM`, the checksum being that of the queue's path | for `emacsclient -s` |
| `init` | false | whether Emacs loads your own init file and packages |
| `timeout` | 30 | seconds for evals that name none |
| `auto_start` | true | whether work starts the daemon |
| `polling_interval_ms` | 500 | the longest interval between two polls for an answer; the first come every 2 ms |
| `max_concurrent_requests` | 20 | requests that may wait or run on one instance |
| `cleanup_interval_minutes` | 10 | how often answers of more than a day ago are deleted |

Any other key is an error that names it and the key that was probably meant. Those of the MCP server that comes with
Efrit's Lisp (`default_instance`, `log_level`, `log_file`, `port`, `rate_limit`, `security`, `audit`; of an instance
`max_concurrent` and `environment`) may be there and have no effect: `efrit doctor` names them.

A relative directory begins at that of the file.

**Which instance.** Work that names none goes to `default`, or to the only instance there is, whether it is busy,
stopped or idle. `-i NAME` names another one, `-i '*'` the least loaded one that is ready.

**Which directory.** An eval or a command begins in the directory `efrit` is run in, or the one of `-C`. In a
cluster it begins in the instance's workspace.

**Which init file.** None: Emacs starts with `-Q` and keeps its own files in `$XDG_DATA_HOME/efrit/emacs`, so that
it neither reads nor makes `~/.emacs.d`. `efrit start NAME --init` starts it with your init file and packages, and
remembers that; `--no-init` goes back. `efrit start` and `efrit doctor` report an init file that fails.

**Which model.** The daemon takes the model from the environment it was started in: `EFRIT_MODEL_NAME`,
`EFRIT_MODEL_API_KEY_FILE` (a file; not needed for a server of your own that takes no key) and
`EFRIT_MODEL_BASE_URL` (default `https://api.anthropic.com`). Where these differ from yours, `efrit` says so; `efrit
restart NAME` takes over yours. `efrit doctor` asks the model for one token. `EFRIT_EMACS` names another Emacs.

**Empty values.** A variable `EFRIT_…` that is set and empty is as one that is not set. An option with an empty value
(`--config "$FILE"` without `FILE`) or an empty name (`efrit wait "$name"`) is a wrong command line.

**Long results.** Emacs keeps 8 MiB of a result (`EFRIT_MAX_RESULT_BYTES`). Of a longer one the beginning is
printed, with a warning on standard error, `truncated` in `-o json`, and exit code 11.

**Files.** Queues and workspaces in `~/.emacs.d/.efrit` are moved once, when no Emacs serves them, and `efrit` says
where to. `efrit rm NAME` removes a stopped instance and its queue, with `--files` its workspace.

There is no bridge: a client that waits also starts a daemon that died, resumes one that was stopped by a signal,
and ends one that does not respond.

In a cluster `logs`, `attach` and results above 768 KiB take the right to exec into the pod (get and create of
`pods/exec`), results above 32 KiB the right to read Secrets; `attach` runs kubectl. `chat` shows the model's words as
they are said; without the right to exec, how far the work is, and the answer when it is whole.

## At a terminal

Durations are written `30s`, `5m`, `1h30m`, or as a number of seconds. `efrit help COMMAND` and `--help` show
examples. Tables have colours at a terminal; `NO_COLOR=1` turns them off.

`eval "$(efrit completion bash)"` completes commands, options and values: instances, requests, plans, sessions,
labels, contexts and namespaces. Values that take more than `EFRIT_COMPLETION_SECONDS` (default 3) are left out.
There are scripts for zsh and fish, too. kubectl 1.26 and later completes `kubectl efrit` if
`kubectl_complete-efrit`, which is installed with `efrit`, is on the PATH.

A Lisp error names the form in which it happened, by line and column. `efrit logs NAME` prints the backtrace, and what
the code printed and said.

`efrit top` (`kubectl efrit top` looks the same). Keys: `q` quits, space updates, `p` pauses, `f` hides finished work,
the arrows scroll, `+` and `-` change the delay. `--once`, and a pipe, print the state once, with 50 requests: first
those that run, then those that wait, then the latest; `--all` prints all.

```text
efrit top  08:46:22  local: ~/.config/efrit/config.json
2 of 2 instances active, 1 running, 1 waiting

NAME      STATUS   REASON   PENDING   PROCESSING   PROCESSED   UPTIME   LAST ACTIVITY   EMACS
build     active   Ready    1         1            1           5s       3s ago          28.2
default   active   Ready    0         0            2           5s       3s ago          28.2

NAME                        INSTANCE   TYPE   REASON      TIME      WHAT
efrit_1795337178_2b9f34a8   build      eval   Running     4s        (progn (sleep-for 45) (quote built))
efrit_1795337179_6083cb9d   build      eval   Queued      3s        (byte-recompile-directory ".")
efrit_1795337179_07c31bf5   default    eval   EvalError   0.106ms   (error "No such host")
efrit_1795337179_5aa49131   default    eval   Succeeded   4.11ms    (+ 1 2)
efrit_1795337178_8cdaa7df   build      eval   Succeeded   4.18ms    (emacs-version)
```

## Commands
"""


def reference() -> str:
    """Return the whole reference in Markdown."""
    codes = "".join(f"| {int(code)} | {meaning} |\n" for code, meaning in MEANINGS.items())
    return _INTRODUCTION + codes + _PLACES + "\n".join(_sections())


def _sections() -> Iterator[str]:
    parser = build()
    yield "Every command takes these, before or after its name:\n"
    yield _table(_options(parser))
    everywhere = {text for action in parser._actions for text in action.option_strings}
    yield from _commands(parser, "efrit", everywhere)


def _commands(parser: argparse.ArgumentParser, above: str, everywhere: set[str]) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield f"### {above} {name}\n\n{command.description}\n"
                own_options = [option for option in _options(command) if not everywhere & set(option.option_strings)]
                yield _table(own_options)
                yield _examples(command.command)
                yield from _commands(command, f"{above} {name}", everywhere)


def _examples(command: str) -> str:
    examples = "".join(f"$ {line}\n" for line in EXAMPLES.get(command, ()))
    # Most name what a reader has: the tests put what they have in its place.
    test = "test_plans.py" if command.split()[0] == "plan" else "test_examples.py"
    return f"<!-- tested: tests/integration/docs/{test} -->\n```console\n{examples}```\n"


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    hidden = (argparse._SubParsersAction, argparse._HelpAction, Version)
    return [action for action in parser._actions if not isinstance(action, hidden)]


def _table(actions: list[argparse.Action]) -> str:
    rows = "".join(f"| {_spelled(action)} | {_cell(action.help or '')} |\n" for action in actions)
    return f"| argument | meaning |\n|---|---|\n{rows}" if rows else ""


def _spelled(action: argparse.Action) -> str:
    if not action.option_strings:
        word = _choices(action)
        word = f"{word} …" if action.nargs in ("*", "+") else word
        return f"`{_cell(f'[{word}]' if action.nargs == '*' else word)}`"
    value = "" if action.nargs == 0 else f" {action.metavar or _choices(action)}"
    return ", ".join(f"`{text}{value}`" for text in action.option_strings)


def _choices(action: argparse.Action) -> str:
    return "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
