"""The bridge's settings, read from `EFRIT_…` environment variables. Nothing else reads the environment."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from efrit.environment import FromEnvironment
from efrit.queue.limits import QueueLimits


class Settings(FromEnvironment, frozen=True, kw_only=True):
    """Seconds and bytes throughout; each field is the variable `EFRIT_<NAME>`."""

    queue_dir: Path = Path("/var/lib/efrit/queue")
    #: Empty: every address, IPv6 and IPv4.
    bridge_host: str = ""
    bridge_port: Annotated[int, Meta(ge=0, le=65535)] = 8443
    #: Where /healthz and /readyz are answered without TLS; None: nowhere.
    bridge_probe_port: Annotated[int, Meta(ge=0, le=65535)] | None = None
    bridge_secrets: Path = Path("/etc/efrit/bridge")
    bridge_log_level: str = "INFO"
    max_pending: Annotated[int, Meta(ge=1)] = 1000
    max_request_bytes: Annotated[int, Meta(ge=1)] = 65536
    archive_seconds: Annotated[float, Meta(gt=0)] = 86400
    #: Most requests, and most bytes of their files, that are kept in archive/ for so long.
    archive_requests: Annotated[int, Meta(ge=0)] = 10_000
    archive_bytes: Annotated[int, Meta(ge=0)] = 512 << 20
    lisp_source: Path = Path("/usr/share/efrit/lisp")
    #: Whether the queue goes with its pod: on SIGTERM the bridge gives back and delivers what is on it.
    ephemeral_queue: bool = False
    #: Where Emacs finds its Lisp and run-emacs; None: nothing is installed.
    shared_dir: Path | None = None
    #: For requests that name no timeout.
    request_timeout: Annotated[float, Meta(gt=0)] = 30
    #: For chats and commands that name no timeout.
    command_timeout: Annotated[float, Meta(gt=0)] = 600
    #: From the first interrupt to SIGKILL.
    kill_grace_seconds: Annotated[float, Meta(ge=0)] = 5
    #: From the last heartbeat of an Emacs that runs no request to SIGKILL.
    stall_seconds: Annotated[float, Meta(gt=0)] = 120

    def limits(self) -> QueueLimits:
        """Return the part that the queue needs."""
        return QueueLimits(
            self.max_pending,
            self.max_request_bytes,
            self.archive_seconds,
            self.archive_requests,
            self.archive_bytes,
        )
