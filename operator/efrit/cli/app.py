"""Where the programs begin. Short: until `program` is loaded, Ctrl-C must end this process without a traceback."""

from __future__ import annotations

# What Python has loaded by now: whatever else is imported here is imported before Ctrl-C is taken care of.
import gc
import os
import signal
import sys


def main() -> None:
    """Run `efrit`: on this machine, unless a cluster is named."""
    _begin("efrit", sys.argv[1:])


def plugin() -> None:
    """Run `kubectl efrit`: in the cluster, unless this machine is named."""
    os.environ.setdefault("EFRIT_BACKEND", "cluster")
    _begin("kubectl efrit", sys.argv[1:])


def complete_plugin() -> None:
    """Run `kubectl_complete-efrit`, by which kubectl completes the words after `kubectl efrit`."""
    os.environ.setdefault("EFRIT_BACKEND", "cluster")
    _begin("kubectl efrit", ["__complete", *sys.argv[1:]])


def _begin(program: str, arguments: list[str]) -> None:
    heeds = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeds:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Nothing that importing makes is garbage: collecting meanwhile takes a twentieth of an eval.
    gc.disable()
    from efrit.cli.program import run

    sys.exit(run(program, arguments, heeds_ctrl_c=heeds))
