"""The product of this checkout, or of another one, as real processes for a benchmark; no cluster."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tests.bench import cluster, processors
from tests.bench.load import Target
from tests.cluster.paths import REPOSITORY

PROGRAM = Path(__file__).with_name("side.py")
SETTLE_SECONDS = 0.5
"""What follows the last answer: it is acknowledged to the bridge."""


class Side(NamedTuple):
    """One set of processes. `target` is served by the controller; `unserved` is not, for a floor."""

    target: Target
    unserved: Target
    leaders: dict[str, int]

    async def seconds(self) -> processors.Seconds:
        """Return what each part has taken of the processors so far."""
        await asyncio.sleep(SETTLE_SECONDS)
        return processors.of_sessions(self.leaders)


@asynccontextmanager
async def side(checkout: Path = REPOSITORY) -> AsyncIterator[Side]:
    """Run the product of a checkout, whose .venv is ready, for the length of the block."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # -P: the directory of this file is not a place of modules.
    process = await asyncio.create_subprocess_exec(
        str(checkout / ".venv" / "bin" / "python"),
        "-P",
        str(PROGRAM),
        cwd=checkout,
        env={**env, "PYTHONPATH": str(checkout)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    if process.stdin is None or process.stdout is None:
        raise AssertionError
    try:
        line = await process.stdout.readline()
        if not line:
            raise RuntimeError(f"the processes of {checkout} did not start; what they printed says why")
        site = json.loads(line)
        async with cluster.client(Path(site["kubeconfig"])) as api:
            target = Target(api, site["namespace"], (site["instance"],))
            yield Side(target, Target(api, site["unserved"], (site["instance"],)), site["leaders"])
    finally:
        process.stdin.close()
        await process.wait()
