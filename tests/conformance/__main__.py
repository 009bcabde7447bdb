"""`python -m tests.conformance [REPORT]`: the official MCP conformance suite and inspector against `efrit-mcp`.

Needs Node 22 or newer (NODE names one) and npm. The suite speaks HTTP alone; the inspector tries both transports,
with a real Emacs behind them. Writes what both said to REPORT and fails where either did.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import URLError
from urllib.request import urlopen

CONFORMANCE = "@modelcontextprotocol/conformance@0.1.16"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
BASELINE = Path(__file__).parent / "expected-failures.yaml"
SECONDS = 600
INTRODUCTION = (
    "Written by `make conformance`. The suite asks servers over HTTP alone; the inspector tries both transports. "
    "Most scenarios want a server made for the suite, with tools, resources and prompts of fixed names: why each one "
    "marked ✗ cannot pass here is told in `tests/conformance/expected-failures.yaml`."
)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
EVAL = {"instance_id": "default", "type": "eval", "content": "(+ 1 2)"}


def main() -> int:
    """Run both; 0 when both are content."""
    report = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with TemporaryDirectory(prefix="efrit-conformance-") as name:
        place = Path(name)
        tools = Tools(place)
        with laptop(place) as env, serving(env) as url:
            parts = [tools.suite(url), tools.inspector("HTTP", [url, "--transport", "http"], env)]
            parts.append(tools.inspector("stdio", [sys.executable, "-m", "efrit.mcp.app", *passed_on(env)], env))
    text = "\n\n".join(f"## {title}\n\n{said}" for title, _, said in parts)
    print(text)
    if report is not None:
        report.write_text(f"# MCP conformance\n\n{INTRODUCTION}\n\n{text}\n")
    failed = [title for title, good, _ in parts if not good]
    print(f"\nconformance: {'all well' if not failed else 'FAILED: ' + ', '.join(failed)}")
    return 1 if failed else 0


Part = tuple[str, bool, str]


class Tools:
    """Both programs, installed by npm into a directory of their own; no script of theirs runs at installation."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._node = os.environ.get("NODE", "node")
        words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(place)]
        subprocess.run([*words, CONFORMANCE, INSPECTOR], check=True, stdout=subprocess.DEVNULL, timeout=SECONDS)

    def suite(self, url: str) -> Part:
        """The conformance suite, all of it, against the list of what cannot pass."""
        words = ["server", "--url", url, "--suite", "all", "--expected-failures", str(BASELINE)]
        done = self._run("conformance", [*words, "--output-dir", str(self._place / "results")], dict(os.environ))
        summary = COLOURS.sub("", done.stdout.partition("=== SUMMARY ===")[2]).strip()
        return f"{CONFORMANCE} over HTTP", done.returncode == 0, f"```\n{summary}\n```"

    def inspector(self, transport: str, server: list[str], env: dict[str, str]) -> Part:
        """The inspector lists the tools and runs an eval."""
        listed = self._run("mcp-inspector", ["--cli", *server, "--method", "tools/list"], env)
        words = [f"--tool-arg={key}={value}" for key, value in EVAL.items()]
        call = ["--cli", *server, "--method", "tools/call", "--tool-name", "efrit_execute", *words]
        called = self._run("mcp-inspector", call, env)
        try:
            names = [tool["name"] for tool in json.loads(listed.stdout)["tools"]]
            answer = json.loads(called.stdout)["structuredContent"]
        except (ValueError, KeyError) as error:
            return (
                f"{INSPECTOR} over {transport}",
                False,
                f"{error!r}\n{listed.stderr}\n{called.stdout}{called.stderr}",
            )
        said = f"tools/list: {', '.join(names)}\n\ntools/call efrit_execute (+ 1 2): {json.dumps(answer)}"
        return f"{INSPECTOR} over {transport}", len(names) == 9 and answer["result"] == "3", said

    def _run(self, program: str, words: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        command = [self._node, str(self._place / "node_modules/.bin" / program), *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=SECONDS)


@contextmanager
def laptop(place: Path) -> Iterator[dict[str, str]]:
    """The environment of a home directory with one instance; its Emacs is stopped at the end."""
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
        stop = [sys.executable, "-c", "from efrit.cli.app import main; main()", "stop", "default"]
        subprocess.run(stop, env=env, check=False, stdout=subprocess.DEVNULL, timeout=SECONDS)


def passed_on(env: dict[str, str]) -> list[str]:
    """The inspector's words for what it is to hand to the server, which gets none of its environment otherwise."""
    return [
        word
        for key, value in env.items()
        if key.startswith(("EFRIT_", "TMPDIR"))
        for word in ("-e", f"{key}={value}")
    ]


@contextmanager
def serving(env: dict[str, str]) -> Iterator[str]:
    """`efrit-mcp` over HTTP on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--transport", "http", "--auth", "none", "--port", str(port)]
    with subprocess.Popen([sys.executable, "-m", "efrit.mcp.app", *words], env=env) as server:
        try:
            limit = time.monotonic() + 60
            while not answers(f"http://127.0.0.1:{port}/healthz"):
                if server.poll() is not None or time.monotonic() > limit:
                    raise RuntimeError("efrit-mcp does not serve")
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
