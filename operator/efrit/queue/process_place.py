"""Where this process is: in which PID namespace, since which boot of which host."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from efrit.protocol.process_place import ProcessPlace


def here() -> ProcessPlace:
    """Return where this process is: by the name of its host alone while the system does not say more."""
    try:
        return _exactly_here()
    except OSError:
        return ProcessPlace(host=os.uname().nodename)


@lru_cache(maxsize=1)
def _exactly_here() -> ProcessPlace:
    """Return where this process is. Raises `OSError`, which is not remembered."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - the text is wanted
    return ProcessPlace(host=os.uname().nodename, boot_id=boot, pid_namespace=namespace)
