"""`plan log` and `plan report`: what the repository of a plan records, from its history alone."""

from __future__ import annotations

import sys
from argparse import Namespace

from efrit.backend.errors import Refused
from efrit.backend.interface import Backend
from efrit.cli.exit_codes import Exit
from efrit.cli.output import write
from efrit.cli.plan_watch import replace_unencodable
from efrit.cli.streams import printable
from efrit.cli.terminal_text import sanitized_line, without_controls
from efrit.errors import InvalidPlanRecord
from efrit.plan import report


async def run_log(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit plan log`."""
    history = await backend.planning().plan_history(args.name, args.last)
    commits = history.get("commits") or []
    if args.output == "name":
        print(printable("\n".join(str(commit.get("hash")) for commit in commits)))
    elif args.output:
        write(args.output, commits)
    else:
        for commit in commits:
            parts = (str(commit.get("hash"))[:10], str(commit.get("time")), str(commit.get("subject")))
            print(replace_unencodable("  ".join(map(sanitized_line, parts))))
    return Exit.DONE


async def run_report(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit plan report`."""
    history = await backend.planning().plan_history(args.name)
    try:
        if args.html or args.svg:
            page = (report.html if args.html else report.svg)(history).encode()
            # A page is UTF-8 whatever the locale is.
            sys.stdout.flush()
            sys.stdout.buffer.write(page)
        else:
            for line in report.lines(history):
                print(replace_unencodable(without_controls(line)))
    except InvalidPlanRecord as error:
        raise Refused(f"the history of {args.name} cannot be read: {error.message}") from error
    return Exit.DONE
