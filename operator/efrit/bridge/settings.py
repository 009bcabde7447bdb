"""The bridge's settings, read from `EFRIT_…` environment variables. Nothing else reads the environment."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from efrit.environment import FromEnvironment
from efrit.queue.limits import QueueLimits

_LIMITS = QueueLimits()
"""Of the queue, unless a variable says otherwise."""


class Settings(FromEnvironment, frozen=True, kw_only=True):
    """Seconds and bytes throughout; each field is the variable `EFRIT_<NAME>`, and a row of docs/bridge.md."""

    queue_dir: Annotated[Path, Meta(description="the queue")] = Path("/var/lib/efrit/queue")
    bridge_host: Annotated[str, Meta(description="where to listen; unset: every address, IPv6 and IPv4")] = ""
    bridge_port: Annotated[int, Meta(ge=0, le=65535, description="port to listen on")] = 8443
    bridge_probe_port: Annotated[
        Annotated[int, Meta(ge=0, le=65535)] | None,
        Meta(description="port where `/healthz` and `/readyz` are answered without TLS; in a pod 8444"),
    ] = None
    bridge_secrets: Annotated[
        Path,
        Meta(
            description="directory with `tls.crt`, `tls.key`, `token` and perhaps `token-next` and `token-previous`"
        ),
    ] = Path("/etc/efrit/bridge")
    bridge_log_level: Annotated[str, Meta(description="to stderr")] = "INFO"
    shared_dir: Annotated[
        Path | None, Meta(description="where to put the Lisp files and `run-emacs`; unset: they are not written")
    ] = None
    lisp_source: Annotated[Path, Meta(description="the Lisp files to put there")] = Path("/usr/share/efrit/lisp")
    max_pending: Annotated[int, Meta(ge=1, description="requests without an answer, at most")] = _LIMITS.max_pending
    max_request_bytes: Annotated[int, Meta(ge=1, description="bytes of content, at most")] = _LIMITS.max_request_bytes
    archive_seconds: Annotated[float, Meta(gt=0, description="how long finished requests are kept")] = (
        _LIMITS.archive_seconds
    )
    archive_requests: Annotated[int, Meta(ge=0, description="finished requests kept, at most")] = (
        _LIMITS.archive_requests
    )
    archive_bytes: Annotated[int, Meta(ge=0, description="bytes of finished requests kept, at most")] = (
        _LIMITS.archive_bytes
    )
    request_timeout: Annotated[float, Meta(gt=0, description="seconds for evals that name no timeout")] = 30
    command_timeout: Annotated[float, Meta(gt=0, description="seconds for chats and commands that name none")] = 600
    kill_grace_seconds: Annotated[float, Meta(ge=0, description="from the first interrupt to SIGKILL")] = 5
    ephemeral_queue: Annotated[
        bool,
        Meta(description="`1`: the queue goes with its pod, see [above](#the-end-of-an-ephemeral-queue)"),
    ] = False
    stall_seconds: Annotated[
        float, Meta(gt=0, description="silence of an Emacs that nothing occupies, until SIGKILL")
    ] = 120

    def limits(self) -> QueueLimits:
        """Return the part that the queue needs."""
        return QueueLimits(
            max_pending=self.max_pending,
            max_request_bytes=self.max_request_bytes,
            archive_seconds=self.archive_seconds,
            archive_requests=self.archive_requests,
            archive_bytes=self.archive_bytes,
        )
