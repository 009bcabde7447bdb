"""The command line: reads the scenarios, opens the port, prints it, serves until a signal."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

from .book import Book
from .scenario import Scenario, ScenarioError, read_folder
from .service import ModelServer

SCENARIOS = Path(__file__).parent / "scenarios"


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="model", description="Play scenarios over the Messages API.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one, which is printed")
    parser.add_argument("--scenarios", type=Path, action="append", help=f"folder of TOML files (default {SCENARIOS})")
    parser.add_argument("--key", action="append", help="an API key that is taken (default test-key)")
    parser.add_argument("--log", type=Path, help="file that gets a JSON line for each call")
    parser.add_argument("--max-request-bytes", type=int, default=32 * 1024 * 1024)
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    """Serve until SIGTERM or SIGINT; return the exit status."""
    chosen = _arguments(words)
    scenarios: dict[str, Scenario] = {}
    try:
        for folder in chosen.scenarios or [SCENARIOS]:
            scenarios |= read_folder(folder)
    except ScenarioError as problem:
        print(problem, file=sys.stderr)
        return 64
    book = Book(scenarios, chosen.key or ["test-key"], log=chosen.log)
    server = ModelServer((chosen.host, chosen.port), book, chosen.max_request_bytes)

    def stop(number: int, frame: FrameType | None) -> None:
        server.begin_stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(server.server_address[1], flush=True)
    server.serve_forever(poll_interval=0.1)
    server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
