"""kubectl and helm as a person has them, on the cluster of KUBECONFIG."""

from __future__ import annotations

import subprocess
from collections.abc import Callable


def run(*command: str, stdin: str | None = None, check: bool = True) -> str:
    """Run a program of the cluster's and return what it printed; its complaints become the test's."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def kubectl(*arguments: str, stdin: str | None = None, check: bool = True) -> str:
    return run("kubectl", *arguments, stdin=stdin, check=check)


def worked(act: Callable[[], object]) -> bool:
    """Do it and return whether it worked, for `until`: a container may not be there yet, or not any more."""
    try:
        act()
    except AssertionError:
        return False
    return True
