"""What `efrit doctor` prints."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import cast

import pytest

from efrit.backend.interface import Backend, Finding
from efrit.cli.doctor import run_doctor
from efrit.cli.exit_codes import Exit
from efrit.cli.place import Invocation


class Examined:
    """A cluster with an instance that does not start."""

    kind = "cluster"
    place = "the cluster b"

    async def examine(self) -> Sequence[Finding]:
        detail = "CrashLooping: see `kubectl -n team logs efrit-a-0`."
        return [Finding("instance a", False, detail, "kubectl describe efi/a --namespace team")]


async def test_what_it_suggests_reaches_the_cluster_that_was_examined(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = Namespace(output=None, invocation=Invocation.of("efrit", Namespace(context="b")))
    assert await run_doctor(cast("Backend", Examined()), arguments) is Exit.FAILED
    assert capsys.readouterr().out.splitlines()[1:] == [
        "BAD  instance a: CrashLooping: see `kubectl --context b -n team logs efrit-a-0`.",
        "     -> kubectl --context b describe efi/a --namespace team",
    ]
