"""Asking the model of this environment for one token: whether its URL, key and name are right, in the model's words.

With curl, as Emacs does it: the same certificates, and the key in no argument. Blocking.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from efrit.backend.interface import Finding
from efrit.backend.local.model import BASE_URL, DEFAULT_BASE_URL, KEY_FILE, NAME, PROXY
from efrit.clear_text import sent_in_the_clear
from efrit.protocol.enums import FEWEST_KEY_CHARACTERS

SECONDS = 30
"""How long the model may take for one token: a local server may have to load it first."""

PROBE = "Reply with OK."
"""All that the model is asked."""

_SUBJECT = "model"
_LONGEST_ANSWER = 1 << 20
_KEY_BYTES = 8192


def probe(environment: Mapping[str, str]) -> Finding:
    """Return whether the model that `environment` names answers; without one, that there is none."""
    name = environment.get(NAME)
    if not name:
        return Finding(_SUBJECT, True, f"none: evals only ({NAME} names one)")
    if shutil.which("curl") is None:
        return Finding(_SUBJECT, False, "there is no curl, by which Emacs asks it", "install curl")
    url = environment.get(BASE_URL) or DEFAULT_BASE_URL
    key, problem = _key(environment.get(KEY_FILE), url)
    if problem is not None:
        return problem
    if key is not None and sent_in_the_clear(url):
        detail = f"the key is not sent to {url}: over http anybody on the way reads it"
        return Finding(_SUBJECT, False, detail, f"use https in {BASE_URL}, or unset {KEY_FILE}")
    body = {"model": name, "max_tokens": 1, "messages": [{"role": "user", "content": PROBE}]}
    completed = subprocess.run(
        ["curl", "-q", "--config", "-"],
        input=_config(url, key, environment.get(PROXY), json.dumps(body)).encode(),
        capture_output=True,
        check=False,
        timeout=SECONDS + 10,
    )
    if completed.returncode:
        cause = completed.stderr[:500].decode(errors="replace").strip() or f"curl ended with {completed.returncode}"
        return Finding(_SUBJECT, False, f"{url} does not answer: {cause}", f"check {BASE_URL} and the network")
    answer, _, status = completed.stdout[-_LONGEST_ANSWER:].decode(errors="replace").rpartition("\n")
    return probe_finding(name, url, int(status), answer)


def key_problem(environment: Mapping[str, str]) -> str | None:
    """Return what is wrong with the key file that `environment` names and how to mend it; None if nothing is."""
    path = environment.get(KEY_FILE)
    # To read a pipe may wait for ever.
    special = path and os.path.exists(path) and not os.path.isfile(path)  # noqa: PTH110, PTH113 - pathlib raises errors
    problem = _key(path, "")[1] if path and not special else None
    return None if problem is None else f"{problem.detail}; {problem.remedy}"


def probe_finding(name: str, url: str, status: int, answer: str) -> Finding:
    """Return what the HTTP `status` and the body `answer` of a call say. Pure."""
    if status == 200:
        return Finding(_SUBJECT, True, f"{name} at {url} answers")
    detail = f"{url} answers {status}: {_message(answer)}"
    remedies = {
        400: f"check {NAME}",
        401: f"set {KEY_FILE} to a file that holds the right key",
        403: f"set {KEY_FILE} to a file that holds the right key",
        404: f"check {NAME} and {BASE_URL}, which is the part of the URL before /v1/messages",
    }
    return Finding(_SUBJECT, False, detail, remedies.get(status, "try again later"))


def _key(path: str | None, url: str) -> tuple[str | None, Finding | None]:
    if path is None or not path:
        if url.rstrip("/") == DEFAULT_BASE_URL:
            remedy = f"set {KEY_FILE} to a file that holds it, or {BASE_URL} to a server that takes none"
            return None, Finding(_SUBJECT, False, f"{url} takes a key, and none is set", remedy)
        return None, None
    try:
        key = Path(path).read_bytes()[:_KEY_BYTES].decode("ascii").strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it has characters other than ASCII"
        return None, Finding(_SUBJECT, False, f"the key in {path} cannot be read: {reason}", f"correct {KEY_FILE}")
    if len(key) < FEWEST_KEY_CHARACTERS:
        detail = f"the key in {path} has fewer than {FEWEST_KEY_CHARACTERS} characters"
        return None, Finding(_SUBJECT, False, detail, "put the key of the model's API there")
    if not key.isprintable() or " " in key:
        return None, Finding(_SUBJECT, False, f"{path} holds no key", f"correct {KEY_FILE}")
    return key, None


def _config(url: str, key: str | None, proxy: str | None, body: str) -> str:
    options = [
        ("url", url.rstrip("/") + "/v1/messages"),
        ("header", "content-type: application/json"),
        ("header", "anthropic-version: 2023-06-01"),
        *([("header", f"x-api-key: {key}")] if key is not None else []),
        *([("proxy", proxy)] if proxy else []),
        ("proto", "=http,https"),
        ("connect-timeout", "10"),
        ("max-time", str(SECONDS)),
        ("write-out", "\\n%{http_code}"),
        ("data-binary", body),
    ]
    return "silent\nshow-error\ngloboff\n" + "".join(f"{name} = {_quoted(value)}\n" for name, value in options)


def _quoted(value: str) -> str:
    # The backslash of write-out is curl's own.
    escaped = value if value.startswith("\\n%") else value.replace("\\", "\\\\")
    return '"' + escaped.replace('"', '\\"').replace("\r", " ").replace("\n", " ") + '"'


def _message(answer: str) -> str:
    try:
        return str(json.loads(answer)["error"]["message"])[:500]
    except (ValueError, KeyError, TypeError):
        return " ".join(answer.split())[:200] or "nothing"


def probe_here() -> Finding:
    """Return what `probe` finds in the environment of this process."""
    return probe(os.environ)
