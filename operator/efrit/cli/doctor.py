"""`doctor` and `version`: what is wrong here and how to mend it; what this is."""

from __future__ import annotations

import sys
from argparse import Namespace

from efrit import __version__
from efrit.cli.color import painted_cell, wanted
from efrit.cli.exit_codes import Exit
from efrit.cli.output import write
from efrit.client.interface import Backend


async def run_doctor(backend: Backend, given: Namespace) -> Exit:
    """Run `efrit doctor`."""
    findings = list(await backend.examine())
    if given.output:
        write(given.output, findings)
    else:
        colored = wanted(sys.stdout)
        print(f"{backend.kind}: {backend.place}")
        for each in findings:
            word = painted_cell("ok " if each.ok else "BAD") if colored else "ok " if each.ok else "BAD"
            print(f"{word}  {each.subject}: {each.detail}")
            if each.remedy and not each.ok:
                print(f"     -> {given.invocation.in_text(each.remedy)}")
    return Exit.DONE if all(each.ok for each in findings) else Exit.FAILED


def run_version(given: Namespace) -> Exit:
    """Run `efrit version`."""
    print(f"{given.parser.program} {__version__}")
    return Exit.DONE
