"""Stands between Emacs and the real API and writes what passes as scenarios, for people who have a key.

    python -m tests.model.record --name NAME [--upstream URL] [--port 8100] [--folder tests/model/scenarios]

Emacs gets EFRIT_MODEL_BASE_URL=http://127.0.0.1:8100 and has the real key as ever; the key goes on to the API and
nowhere else. Each conversation gets a file, NAME.toml, NAME-2.toml, ..., written anew after each of its turns.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from .__main__ import SCENARIOS
from .conversation import Conversation
from .recording import Exchange, scenario
from .stream import put_together, read_events

Json = dict[str, Any]
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "host", "te"}
MINUTES_10 = 600


class Recorder(ThreadingHTTPServer):
    """Passes calls on to UPSTREAM and keeps them, a file in FOLDER for each conversation."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], upstream: str, name: str, folder: Path) -> None:
        self.upstream = httpx.Client(base_url=upstream, timeout=MINUTES_10)
        self._name = name
        self._folder = folder
        self._lock = threading.Lock()
        self._kept: dict[str, list[Exchange]] = {}
        self._keys: set[str] = set()
        super().__init__(address, Passage)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has gone; anything else is a defect here."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def keep(self, exchange: Exchange, key: str) -> Path:
        """Keep EXCHANGE and write its conversation; KEY appears in no file."""
        with self._lock:
            if key:
                self._keys.add(key)
            conversation = Conversation(exchange.body).key
            exchanges = self._kept.setdefault(conversation, [])
            exchanges.append(exchange)
            number = list(self._kept).index(conversation) + 1
            name = self._name if number == 1 else f"{self._name}-{number}"
            path = self._folder / f"{name}.toml"
            part = path.with_suffix(".part")
            part.write_text(scenario(name, exchanges, frozenset(self._keys)), "utf-8")
            part.replace(path)
            return path


class Passage(BaseHTTPRequestHandler):
    """One connection of Emacs."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Recorder

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: a line of it could have a key in it."""

    def do_POST(self) -> None:
        """Pass a call on, and what comes back, piece by piece."""
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
        # The answer is read on its way.
        headers["accept-encoding"] = "identity"
        received = bytearray()
        with self.server.upstream.stream("POST", self.path, content=raw, headers=headers) as answer:
            self.send_response(answer.status_code)
            for name, value in answer.headers.items():
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            try:
                for piece in answer.iter_raw():
                    received += piece
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                self.wfile.write(b"0\r\n\r\n")
            except httpx.TransportError:
                self.close_connection = True
        key = self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")
        exchange = _exchange(json.loads(raw), answer, bytes(received))
        print(f"{answer.status_code} {self.server.keep(exchange, key)}", file=sys.stderr)


def _exchange(body: Json, answer: httpx.Response, received: bytes) -> Exchange:
    text = received.decode(errors="replace")
    if answer.status_code != 200:
        try:
            error = json.loads(text)["error"]
        except (ValueError, KeyError, TypeError):
            error = {"message": text[:200]}
        return Exchange(body, None, answer.status_code, error, answer.headers.get("retry-after"))
    if not answer.headers.get("content-type", "").startswith("text/event-stream"):
        return Exchange(body, json.loads(text))
    parts = read_events(text)
    errors = [part["error"] for part in parts if part["type"] == "error"]
    whole = bool(parts) and parts[-1]["type"] == "message_stop"
    return Exchange(
        body,
        put_together(parts) if whole else None,
        error=errors[0] if errors else None,
        events=len(parts) - len(errors),
    )


def main(words: list[str]) -> int:
    """Serve until it is interrupted."""
    parser = argparse.ArgumentParser(prog="record", description="Record real traffic as scenarios.")
    parser.add_argument("--name", required=True, help="name of the scenario")
    parser.add_argument("--upstream", default="https://api.anthropic.com")
    parser.add_argument("--port", type=int, default=8100)
    parser.add_argument("--folder", type=Path, default=SCENARIOS)
    chosen = parser.parse_args(words)
    with Recorder(("127.0.0.1", chosen.port), chosen.upstream, chosen.name, chosen.folder) as recorder:
        print(
            f"Recording to {chosen.folder}/{chosen.name}.toml. Give Emacs EFRIT_MODEL_BASE_URL="
            f"http://127.0.0.1:{recorder.server_address[1]} and ask it something; Ctrl-C ends this.",
            flush=True,
        )
        try:
            recorder.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
