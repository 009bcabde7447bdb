"""The Emacs of this pod as a process: found by its heartbeat, held by a pidfd, stopped by signals."""

import contextlib
import os
import select
import signal
from pathlib import Path

from efrit.queue.process_sample import Sample, sample


class EmacsProcess:
    """One start of Emacs. The pidfd refers to that process only, whatever becomes of its number."""

    def __init__(self, pid: int, boot: str, pidfd: int) -> None:
        self.pid = pid
        self.boot = boot
        #: Readable once the process has ended; -1 where the kernel has no pidfds.
        self.pidfd = pidfd

    @classmethod
    def find(cls, pid: int, boot: str) -> "EmacsProcess | None":
        """Return process `pid` if it is an Emacs of somebody we may signal, else None."""
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        except OSError:
            # Some sandboxes (gVisor) have no pidfds: then the number is checked before each signal.
            pidfd = -1
        emacs = cls(pid, boot, pidfd)
        # Another user's we could not end: what it is called may be all that it has of an Emacs.
        if not is_emacs(pid) or not emacs.send(0):  # gate: is-emacs
            emacs.close()
            return None
        return emacs

    def close(self) -> None:
        """Let go of the process; it runs on."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    def alive(self) -> bool:
        """Return whether it still runs; a zombie does not."""
        if self.pidfd < 0:
            return is_emacs(self.pid) and self.send(0)
        # A twentieth of what reading /proc takes, and it is made with every change of a request.
        ended = select.poll()
        ended.register(self.pidfd, select.POLLIN)
        return not ended.poll(0)  # gate: pidfd-ended

    def sample(self) -> Sample | None:
        """Return its state and the CPU time it has used; None if it is gone."""
        return sample(self.pid)

    def send(self, number: int) -> bool:
        """Send a signal (0 only asks); return False if the process is gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.pidfd >= 0:
                signal.pidfd_send_signal(self.pidfd, number)
                return True
            if is_emacs(self.pid):
                os.kill(self.pid, number)
                return True
        return False


def is_emacs(pid: int) -> bool:
    """Return whether process `pid` runs a program called emacs, by its executable or by the name it was given."""
    proc = Path("/proc") / str(pid)
    try:
        # Empty for a zombie, which is as good as gone.
        argv = (proc / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    if not argv[0]:
        return False
    names = [os.fsdecode(argv[0])]
    with contextlib.suppress(OSError):
        names.append(str((proc / "exe").readlink()))
    return any("emacs" in Path(name).name for name in names)
