"""`python -m tests.conformance [REPORT]`: the official MCP conformance suite and inspector, on both transports.

Needs Node 22 or newer (NODE names one) and npm. Writes what they said to REPORT, and fails where it is not what
expectations.yaml says. A real Emacs is behind `efrit-mcp`; what the fixtures are is in `fixtures`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import URLError
from urllib.request import urlopen

import yaml

from tests.cluster.ports import free_port
from tests.conformance.programs import CONFORMANCE, INSPECTOR, Programs
from tests.conformance.verdicts import reasons_of, surprises, table
from tests.support.command_line import parser
from tests.support.local_daemons import end_daemons

EXPECTATIONS = Path(__file__).parent / "expectations.yaml"
SERVERS = {"efrit-mcp": "efrit.mcp.app", "fixtures": "tests.conformance.fixtures"}
INTRODUCTION = """\
Written by `make conformance`: the scenarios of the official suite with two servers on two transports.

*efrit-mcp* is the server as it is. Most scenarios want a server made for the suite, with tools, resources and prompts
of fixed names. The *fixtures* (`tests/conformance/fixtures.py`) are such a server behind the same HTTP application,
Host and Origin checks, listener and stdio, with the same handling of tasks and of the state of questions. The
suite speaks HTTP alone: a relay (`tests/conformance/relay.py`) passes its messages to and from stdin and stdout as
they are.

Each scenario is run on the wire for which the suite has it; with `2026-07-28` behind its name it is run on that of
this revision, as one of the revision's requirements or, not scored, as one of an extension.

✗ is expected, and the letter tells why; another ✗ than these, or a ✓ in its place, fails the run.\
"""


def main() -> int:
    """Run everything; 0 when all of it is as expected."""
    arguments = parser(__doc__)
    arguments.add_argument("report", type=Path, nargs="?", help="the file to write")
    report: Path | None = arguments.parse_args().report
    reasons = reasons_of(yaml.safe_load(EXPECTATIONS.read_text()))
    with TemporaryDirectory(prefix="efrit-conformance-") as name:
        place = Path(name)
        programs = Programs(place)
        outcomes = {}
        with laptop(place) as env:
            for server, module in SERVERS.items():
                with over_http(module, env) as url:
                    outcomes[f"{server} HTTP"] = programs.suite(url, f"{server} HTTP")
                    if server == "efrit-mcp":
                        inspected = {"HTTP": programs.inspector([url, "--transport", "http"], env)}
                with over_stdio(module, env) as url:
                    outcomes[f"{server} stdio"] = programs.suite(url, f"{server} stdio")
            words = [sys.executable, "-m", SERVERS["efrit-mcp"], *passed_on(env)]
            inspected["stdio"] = programs.inspector(words, env)
    wrong = surprises(outcomes, reasons)
    wrong += [f"inspector over {transport}: {output}" for transport, (good, output) in inspected.items() if not good]
    parts = [f"## {CONFORMANCE}\n\n{table(outcomes, reasons)}"]
    parts += [f"## {INSPECTOR} over {transport}\n\n{output}" for transport, (_, output) in inspected.items()]
    text = "\n\n".join(parts)
    print(text)
    if report is not None:
        report.write_text(f"# MCP conformance\n\n{INTRODUCTION}\n\n{text}\n")
    print("\n".join(["\nconformance: FAILED", *wrong]) if wrong else "\nconformance: all as expected")
    return 1 if wrong else 0


@contextmanager
def laptop(place: Path) -> Iterator[dict[str, str]]:
    """Yield the environment of a home directory with one instance; its Emacs is stopped at the end."""
    (place / "t").mkdir()
    names = {"queue_dir": "queues", "workspace_dir": "workspace"}
    instance = {key: str(place / name) for key, name in names.items()} | {"daemon_name": "efrit-conformance"}
    (place / "config.json").write_text(json.dumps({"instances": {"default": instance}}))
    own = {
        "MCP_CATALOG_PATH": str(place / "catalog.json"),
        "EFRIT_BACKEND": "local",
        "EFRIT_CONFIG": str(place / "config.json"),
        "TMPDIR": str(place / "t"),
    }
    env = {**os.environ, **own}
    try:
        yield env
    finally:
        end_daemons(place)


def passed_on(env: dict[str, str]) -> list[str]:
    """Return the words for what the inspector is to hand to the server, which otherwise gets no environment."""
    return [
        word
        for key, value in env.items()
        if key.startswith(("EFRIT_", "TMPDIR"))
        for word in ("-e", f"{key}={value}")
    ]


@contextmanager
def over_http(module: str, env: dict[str, str]) -> Iterator[str]:
    """Serve over HTTP on a free port; yield the URL."""
    port = free_port()
    words = ["-m", module, "--transport", "http", "--auth", "none", "--port", str(port)]
    with serving(words, port, env) as url:
        yield url


@contextmanager
def over_stdio(module: str, env: dict[str, str]) -> Iterator[str]:
    """Serve over stdio behind the relay; yield the relay's URL."""
    port = free_port()
    with serving(["-m", "tests.conformance.relay", str(port), sys.executable, "-m", module], port, env) as url:
        yield url


@contextmanager
def serving(words: list[str], port: int, env: dict[str, str]) -> Iterator[str]:
    """Run a Python program that serves on `port`; yield the URL of its endpoint, and wait for its end."""
    with subprocess.Popen([sys.executable, *words], env=env) as server:
        try:
            limit = time.monotonic() + 60
            while not answers(f"http://127.0.0.1:{port}/healthz"):
                if server.poll() is not None or time.monotonic() > limit:
                    raise RuntimeError(f"{words} does not serve")
                time.sleep(0.1)
            yield f"http://localhost:{port}/mcp"
        finally:
            server.terminate()


def answers(url: str) -> bool:
    """Whether somebody serves there."""
    try:
        with urlopen(url, timeout=5) as answer:  # noqa: S310 - our own, on loopback
            return bool(answer.status == 200)
    except URLError:
        return False


if __name__ == "__main__":
    sys.exit(main())
