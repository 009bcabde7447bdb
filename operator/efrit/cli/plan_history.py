"""`plan log` and `plan report`: what the repository of a plan tells, from its history alone."""

from __future__ import annotations

import importlib
import sys
from argparse import Namespace

from efrit.cli.columns import harmless
from efrit.cli.exits import Exit
from efrit.cli.output import write
from efrit.cli.plan_watching import printable
from efrit.client.interface import Backend


async def run_log(backend: Backend, given: Namespace) -> Exit:
    """`efrit plan log`."""
    history = await backend.planning().plan_history(given.name, given.last)
    commits = history.get("commits") or []
    if given.output == "name":
        print("\n".join(str(each.get("hash")) for each in commits))
    elif given.output:
        write(given.output, commits)
    else:
        for each in commits:
            parts = (str(each.get("hash"))[:10], str(each.get("time")), str(each.get("subject")))
            print(printable("  ".join(map(harmless, parts))))
    return Exit.DONE


async def run_report(backend: Backend, given: Namespace) -> Exit:
    """`efrit plan report`."""
    report = importlib.import_module("efrit.plan.report")
    history = await backend.planning().plan_history(given.name)
    if given.html or given.svg:
        # A page is UTF-8 whatever the locale is.
        sys.stdout.flush()
        sys.stdout.buffer.write((report.html if given.html else report.svg)(history).encode())
        sys.stdout.buffer.flush()
    else:
        for line in report.lines(history):
            print(printable(line))
    return Exit.DONE
