"""`doctor` and `version`: what is wrong here and how to fix it; what this is."""

from __future__ import annotations

import sys
from argparse import Namespace

from efrit import __version__
from efrit.backend.interface import Backend
from efrit.cli.color import color_enabled, painted_cell
from efrit.cli.exit_codes import Exit
from efrit.cli.output import write
from efrit.cli.streams import printable


async def run_doctor(backend: Backend, args: Namespace) -> Exit:
    """Run `efrit doctor`."""
    findings = list(await backend.examine())
    if args.output:
        write(args.output, findings)
    else:
        colored = color_enabled(sys.stdout)
        print(f"{backend.kind}: {backend.place}")
        for finding in findings:
            word = painted_cell("ok " if finding.ok else "BAD") if colored else "ok " if finding.ok else "BAD"
            print(f"{word}  {printable(args.invocation.in_text(f'{finding.subject}: {finding.detail}'))}")
            if finding.remedy and not finding.ok:
                print(f"     -> {printable(args.invocation.in_text(finding.remedy))}")
    return Exit.DONE if all(finding.ok for finding in findings) else Exit.FAILED


def run_version(args: Namespace) -> Exit:
    """Run `efrit version`."""
    print(f"{args.parser.program} {__version__}")
    return Exit.DONE
