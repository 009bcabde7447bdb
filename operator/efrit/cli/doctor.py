"""`doctor` and `version`: what is wrong here and how to mend it; what this is."""

from __future__ import annotations

from argparse import Namespace
from importlib import metadata

from efrit.cli.exits import Exit
from efrit.cli.output import write
from efrit.client.interface import Backend


async def run_doctor(backend: Backend, given: Namespace) -> Exit:
    """`efrit doctor`."""
    findings = list(await backend.examine())
    if given.output:
        write(given.output, findings)
    else:
        print(f"{backend.kind}: {backend.place}")
        for each in findings:
            print(f"{'ok ' if each.ok else 'BAD'}  {each.subject}: {each.detail}")
            if each.remedy and not each.ok:
                print(f"     -> {each.remedy}")
    return Exit.DONE if all(each.ok for each in findings) else Exit.FAILED


def run_version(given: Namespace) -> Exit:
    """`efrit version`."""
    print(metadata.version("efrit-operator"))
    return Exit.DONE
