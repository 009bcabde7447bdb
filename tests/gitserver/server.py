"""Serves git repositories on loopback; prints its port, and ends by SIGTERM.

`/public/code.git` is for anybody, `/private/code.git` for whoever knows the token, `/empty/code.git` has no commit,
and `/moved/…` redirects to `/private/…` under another name of this host. `/asked` tells, one line a request, under
which name of the host somebody came and whether a credential was brought along. Nothing but the standard library:
it is started by path where no package is installed.
"""

from __future__ import annotations

import argparse
import base64
import os
import signal
import subprocess
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TOKEN = "test-token-5up3r"


def make_repositories(root: Path) -> None:
    """Make the three repositories; those with code have a branch `side`, a tag `v1` and two commits on `main`."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    def git(where: Path, *arguments: str) -> None:
        identity = ("-c", "user.name=Upstream", "-c", "user.email=upstream@localhost")
        subprocess.run(["git", *identity, *arguments], cwd=where, env=environment, check=True, capture_output=True)

    source = root / "source"
    source.mkdir()
    git(source, "init", "-q", "-b", "main")
    (source / "old.txt").write_text("one\n")
    git(source, "add", "--all")
    git(source, "commit", "-q", "-m", "First")
    git(source, "tag", "v1")
    git(source, "branch", "side")
    (source / "old.txt").write_text("two\n")
    git(source, "commit", "-q", "-a", "-m", "Second")
    for folder in ("public", "private"):
        git(root, "clone", "-q", "--bare", str(source), f"{folder}/code.git")
    git(root, "init", "-q", "--bare", "-b", "main", "empty/code.git")


class Handler(BaseHTTPRequestHandler):
    """One request: refused, redirected, or handed to `git http-backend` as CGI."""

    protocol_version = "HTTP/1.1"
    root: Path
    served: list[str]

    def do_GET(self) -> None:
        """Answers a GET."""
        self._serve()

    def do_POST(self) -> None:
        """Answers a POST."""
        self._serve()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 (the name it has there)
        """Says nothing: the tests read `/asked`."""

    def _serve(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/asked":
            self._answer(200, {}, "".join(self.served).encode())
            return
        header = self.headers.get("Authorization")
        host = str(self.headers["Host"])
        self.served.append(f"{host.partition(':')[0]} {path} {'credential' if header else 'nothing'}\n")
        if path.startswith("/moved/"):
            port = host.partition(":")[2]
            there = self.path.replace("/moved/", "/private/", 1)
            self._answer(302, {"Location": f"http://localhost:{port}{there}"}, b"")
        elif path.startswith("/private/") and not self._knows_token(header):
            self._answer(401, {"WWW-Authenticate": 'Basic realm="code"'}, b"who are you?\n")
        else:
            self._run_backend(path, query)

    def _knows_token(self, header: str | None) -> bool:
        kind, _, text = (header or "").partition(" ")
        return kind == "Basic" and base64.b64decode(text).decode().partition(":")[2] == TOKEN

    def _run_backend(self, path: str, query: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            capture_output=True,
            check=False,
            env={
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(self.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_GLOBAL": os.devnull,
                "GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type") or "",
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "",
                "REMOTE_ADDR": "127.0.0.1",
            },
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        status = int(headers.pop("Status", "200").split()[0])
        self._answer(status, headers, content)

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    """Serve until a signal ends it; the repositories go with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="efrit-git-server-") as folder:
        Handler.root, Handler.served = Path(folder), []
        make_repositories(Handler.root)
        with ThreadingHTTPServer(("127.0.0.1", arguments.port), Handler) as server:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit())
            print(server.server_address[1], flush=True)
            server.serve_forever()


if __name__ == "__main__":
    main()
