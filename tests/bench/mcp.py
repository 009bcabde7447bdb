"""What the MCP server adds to an eval on this machine: the same work through `efrit_execute` over stdio and without.

`python -m tests.bench.mcp` alone; needs Emacs and no cluster.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from mcp import Client, StdioServerParameters

from efrit.backend.interface import Backend, RequestType, Work
from efrit.backend.local.backend import LocalBackend
from tests.bench.quantile import quantile
from tests.support.command_line import parser

CALLS = int(os.environ.get("MCP_CALLS", "200"))
WARM = 10
FORM = "(+ 1 2)"

Row = tuple[str, str, str]


async def measure() -> list[Row]:
    """Run the same evals both ways."""
    with TemporaryDirectory(prefix="efrit-bench-mcp-") as name:
        place = Path(name)
        (place / "t").mkdir()
        instance = {
            "queue_dir": str(place / "queues"),
            "workspace_dir": str(place / "workspace"),
            "daemon_name": "efrit-bench-mcp",
        }
        config = place / "config.json"
        config.write_text(json.dumps({"instances": {"default": instance}}))
        own = {"EFRIT_BACKEND": "local", "EFRIT_CONFIG": str(config), "TMPDIR": str(place / "t")}
        before = dict(os.environ)
        os.environ.update(own)
        backend = LocalBackend.configured(config)
        try:
            await backend.start("default")
            without, through = await _side_by_side(backend, {**os.environ, **own})
        finally:
            await backend.stop("default")
            await backend.close()
            os.environ.clear()
            os.environ.update(before)
    added = quantile(through, 0.5) - quantile(without, 0.5)
    return [
        (f"efrit_execute over stdio, {CALLS} serial evals, p50", "", f"{quantile(through, 0.5) * 1000:.1f} ms"),
        ("of which the MCP server", "<= 15 ms", f"{added * 1000:.1f} ms"),
    ]


async def _side_by_side(backend: Backend, env: dict[str, str]) -> tuple[list[float], list[float]]:
    """Both ways by turns, so that whatever else the machine does falls on both alike."""
    without: list[float] = []
    through: list[float] = []
    program = StdioServerParameters(command=sys.executable, args=["-m", "efrit.mcp.app"], env=env)
    async with Client(program) as client:
        arguments = {"instance_id": "default", "type": "eval", "content": FORM}
        for _ in range(WARM + CALLS):
            began = time.perf_counter()
            async for update in backend.watch(await backend.submit(Work(RequestType.EVAL, FORM, instance="default"))):
                last = update.state
            middle = time.perf_counter()
            answer = (await client.call_tool("efrit_execute", arguments)).structured_content
            ended = time.perf_counter()
            if answer is None or answer["result"] != "3" or last is None or last.result != "3":
                raise RuntimeError(f"a wrong answer: {answer}, {last}")
            without.append(middle - began)
            through.append(ended - middle)
    return without[WARM:], through[WARM:]


if __name__ == "__main__":
    parser(__doc__).parse_args()
    for figure, aim, measured in asyncio.run(measure()):
        print(f"{figure:60} {aim:10} {measured}")
