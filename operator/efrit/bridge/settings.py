"""The bridge's settings, read from `EFRIT_…` environment variables. Nothing else reads the environment."""

from pathlib import Path

from pydantic import Field

from efrit.environment import FromEnvironment
from efrit.queue import QueueLimits


class Settings(FromEnvironment):
    """Seconds and bytes throughout; each field is the variable `EFRIT_<NAME>`."""

    queue_dir: Path = Path("/var/lib/efrit/queue")
    #: Empty: every address, IPv6 and IPv4.
    bridge_host: str = ""
    bridge_port: int = Field(default=8443, ge=0, le=65535)
    bridge_secrets: Path = Path("/etc/efrit/bridge")
    bridge_log_level: str = "INFO"
    max_pending: int = Field(default=1000, ge=1)
    max_request_bytes: int = Field(default=65536, ge=1)
    archive_seconds: float = Field(default=86400, gt=0)
    #: Most requests, and most bytes of their files, that are kept in archive/ for so long.
    archive_requests: int = Field(default=10_000, ge=0)
    archive_bytes: int = Field(default=512 << 20, ge=0)
    lisp_source: Path = Path("/usr/share/efrit/lisp")
    #: Where Emacs finds its Lisp and run-emacs; None: nothing is installed.
    shared_dir: Path | None = None
    #: For requests that name no timeout.
    request_timeout: float = Field(default=30, gt=0)
    #: For chats and commands that name no timeout.
    command_timeout: float = Field(default=600, gt=0)
    #: From the first interrupt to SIGKILL.
    kill_grace_seconds: float = Field(default=5, ge=0)
    #: From the last heartbeat of an Emacs that runs no request to SIGKILL.
    stall_seconds: float = Field(default=120, gt=0)

    def limits(self) -> QueueLimits:
        """The part the queue needs."""
        return QueueLimits(
            self.max_pending,
            self.max_request_bytes,
            self.archive_seconds,
            self.archive_requests,
            self.archive_bytes,
        )
