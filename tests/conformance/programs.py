"""The conformance suite and the inspector as npm has them, and what each says of one server."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from tests.conformance.verdicts import REVISION, Found, on_revision, wrong_with

CONFORMANCE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
SECONDS = 600
SUITE_SECONDS = 3600
"""Both are long: what the suite finds is not to depend on how busy the machine is."""
EVAL = {"instance_id": "default", "type": "eval", "content": "(+ 1 2)"}
_RESULT = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[-\d]+Z")
_LISTED = re.compile(r"^  - (\S+)", re.MULTILINE)


class Programs:
    """Both, installed by npm into a directory of their own; no script of theirs runs at installation."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._node = os.environ.get("NODE", "node")
        words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(place)]
        subprocess.run([*words, CONFORMANCE, INSPECTOR], check=True, stdout=subprocess.DEVNULL, timeout=SECONDS)

    def scenarios(self) -> list[str]:
        """Return the scenarios for servers, in the suite's order."""
        completed = self._run("conformance", ["list"], dict(os.environ))
        completed.check_returncode()
        return _LISTED.findall(completed.stdout.partition("Server scenarios")[2].partition("Client scenarios")[0])

    def suite(self, url: str, name: str) -> Found:
        """All scenarios with the server at `url`, and those of `REVISION`; what was wrong with each."""
        every = self._found(url, f"{name} all", "--suite", "all")
        required = self._found(url, f"{name} {REVISION}", "--requirements", REVISION)
        return {**every, **{on_revision(scenario): wrong for scenario, wrong in required.items()}}

    def _found(self, url: str, name: str, *words: str) -> Found:
        place = self._place / "results" / name.replace(" ", "-")
        line = ["server", "--url", url, *words, "--timeout", str(SECONDS * 1000), "--output-dir", str(place)]
        completed = self._run("conformance", line, dict(os.environ), SUITE_SECONDS)
        verdicts = {
            match[1]: wrong_with(json.loads((path / "checks.json").read_text()))
            for path in place.iterdir()
            if (match := _RESULT.fullmatch(path.name)) is not None
        }
        if "=== SUMMARY ===" not in completed.stdout:
            raise RuntimeError(f"the suite has not ended: {completed.stdout[-2000:]}{completed.stderr[-2000:]}")
        return {scenario: verdicts[scenario] for scenario in self.scenarios() if scenario in verdicts}

    def inspector(self, server: list[str], env: dict[str, str]) -> tuple[bool, str]:
        """Let the inspector list the tools and run an eval; return whether all is well, and what it said."""
        listed = self._run("mcp-inspector", ["--cli", *server, "--method", "tools/list"], env)
        words = [f"--tool-arg={key}={value}" for key, value in EVAL.items()]
        call = ["--cli", *server, "--method", "tools/call", "--tool-name", "efrit_execute", *words]
        called = self._run("mcp-inspector", call, env)
        try:
            names = [tool["name"] for tool in json.loads(listed.stdout)["tools"]]
            answer = json.loads(called.stdout)["structuredContent"]
        except (ValueError, KeyError) as error:
            return False, f"{error!r}\n{listed.stderr}\n{called.stdout}{called.stderr}"
        ran = f"{answer['status']}, {answer['result']}"
        report = f"tools/list: {', '.join(names)}\n\ntools/call efrit_execute (+ 1 2): {ran}"
        return len(names) == 9 and answer["result"] == "3", report

    def _run(
        self, program: str, words: list[str], env: dict[str, str], seconds: float = SECONDS
    ) -> subprocess.CompletedProcess[str]:
        command = [self._node, str(self._place / "node_modules/.bin" / program), *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=seconds)
