"""What the person sees while the rig works: elapsed seconds, and external commands with a heartbeat.

Everything here goes to standard error: standard output belongs to `env`, `kubectl` and `status`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

HEARTBEAT_SECONDS = 10.0
WAIT_SECONDS = 180.0
"""How long anything is waited for: a busy machine is slow."""
_STARTED = time.monotonic()


class ClusterError(Exception):
    """Something the rig cannot do here; the message says what happened and what to do."""


def say(text: str) -> None:
    """Print one line, prefixed by the seconds since the command began."""
    print(f"[{time.monotonic() - _STARTED:6.1f}s] {text}", file=sys.stderr, flush=True)


def run(
    command: Sequence[str | Path],
    *,
    doing: str | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    text: str | None = None,
) -> str:
    """Run a command to its end and return its standard output.

    With `doing`, say so at the start, every ten seconds and at the end. A failure raises ClusterError with the
    end of what the command wrote.
    """
    words = [str(word) for word in command]
    if doing:
        say(doing)
    began = time.monotonic()
    process = subprocess.Popen(
        words,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.PIPE if text is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    pending: str | None = text
    while True:
        try:
            output, errors = process.communicate(pending, timeout=HEARTBEAT_SECONDS)
            break
        except subprocess.TimeoutExpired:
            pending = None
            if doing:
                say(f"  … {doing}: {time.monotonic() - began:.0f} s so far")
        except BaseException:
            process.kill()
            process.wait()
            raise
    if process.returncode != 0:
        tail = "\n".join((errors or output).strip().splitlines()[-25:])
        raise ClusterError(f"`{' '.join(words)[:300]}` exited with {process.returncode}:\n{tail}")
    if doing and time.monotonic() - began > 1:
        say(f"  done in {time.monotonic() - began:.1f} s")
    return output


def wait_until(
    condition: Callable[[], bool], what: str, *, timeout: float = WAIT_SECONDS, pause: float = 0.1, hint: str = ""
) -> None:
    """Return as soon as `condition()` holds; raise ClusterError naming `what` after `timeout` seconds."""
    began = time.monotonic()
    reported_at = began
    while not condition():
        now = time.monotonic()
        if now - began > timeout:
            raise ClusterError(f"{what} did not come about within {timeout:.0f} s. {hint}".strip())
        if now - reported_at > HEARTBEAT_SECONDS:
            reported_at = now
            say(f"  … waiting for {what}: {now - began:.0f} s so far")
        time.sleep(pause)
