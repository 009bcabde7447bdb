"""Where this process is: in which PID namespace, since which boot of which host."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from efrit.protocol.process_place import ProcessPlace


@lru_cache(maxsize=1)
def here() -> ProcessPlace:
    """Return where this process is."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - the text is wanted
    except OSError:
        return ProcessPlace(host=os.uname().nodename)
    return ProcessPlace(host=os.uname().nodename, boot_id=boot, pid_namespace=namespace)
