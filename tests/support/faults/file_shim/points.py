"""The shims of a run: how the disks of its processes fail and their clocks jump.

One shim for each pod, which its bridge and its Emacs share, and one for each controller. Of the files only the queue
and the results in the workspace are observed: the counter files are the evidence, and must not fail.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.faults.file_shim.shim import Action, FileShim
from tests.support.faults.schedule import FileEffect, FileFault
from tests.support.pod import Pod

PROGRAMS = {"bridge": "python*", "emacs": "emacs*", "any": "*"}
ACTIONS = {
    FileEffect.KILL_BEFORE: (Action.KILL_BEFORE, 0),
    FileEffect.KILL_AFTER: (Action.KILL_AFTER, 0),
    FileEffect.EIO: (Action.FAIL, errno.EIO),
    FileEffect.ENOSPC: (Action.FAIL, errno.ENOSPC),
    FileEffect.SHORT: (Action.SHORT, errno.ENOSPC),
    FileEffect.HANG: (Action.HANG, 0),
}
SLOTS = 16


@dataclass
class ArmedFileFault:
    """A fault of files that is armed in a slot of one shim."""

    instance: str
    fault: FileFault
    armed_at: float
    shim: FileShim
    slot: int
    hits: int = 0
    reported: int = 0
    armed: bool = True

    def new_hits(self) -> int:
        """Return how many calls it has hit since this was called last."""
        if self.armed:
            self.hits = self.shim.hits(self.slot)
        before, self.reported = self.reported, self.hits
        return self.hits - before

    def clear(self) -> None:
        """Disarm it, and keep its number of hits, which the shim forgets."""
        if self.armed:
            self.hits, self.armed = self.shim.hits(self.slot), False
            self.shim.clear(self.slot)


class FileShims:
    """The shims of one run."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count(1)
        self._slots = itertools.cycle(range(SLOTS))
        self._pods: dict[Path, FileShim] = {}
        self._newest: dict[str, FileShim] = {}
        self._offsets: dict[str, int] = {}
        self.armed_faults: list[ArmedFileFault] = []

    def for_pod(self, pod: Pod) -> Mapping[str, str]:
        """Return the environment of a pod's processes. Later pods of an instance, on one node, keep its clock."""
        key = pod.queue / pod.uid
        if key not in self._pods:
            made = self._pods[key] = self._newest[pod.instance] = self._make(pod.queue, pod.workspace / ".efrit")
            made.set_clock(self._offsets.get(pod.instance, 0))
        return self._pods[key].environment

    def for_controller(self, name: str) -> Mapping[str, str]:
        """Return the environment of a controller."""
        if name not in self._newest:
            self._newest[name] = self._make(self._directory / "nothing")
        return self._newest[name].environment

    def _make(self, *roots: Path) -> FileShim:
        return FileShim(self._directory / f"shim-{next(self._numbers)}", *roots)

    def set_clock(self, target: str, seconds: int) -> bool:
        """Set the clock of an instance or a controller off by `seconds`. Return whether there was one to set."""
        self._offsets[target] = seconds
        if target not in self._newest:
            return False
        self._newest[target].set_clock(seconds)
        return True

    def arm(self, instance: str, fault: FileFault, now: float) -> ArmedFileFault | None:
        """Arm a fault of files. Return None where the instance has had no pod yet."""
        shim = self._newest.get(instance)
        if shim is None:
            return None
        point = ArmedFileFault(instance, fault, now, shim, next(self._slots))
        action, number = ACTIONS[fault.effect]
        shim.arm(
            action,
            fault.operation,
            fault.path,
            program=PROGRAMS[fault.program],
            number=number,
            skip=fault.skip,
            lasting=fault.lasting,
            slot=point.slot,
        )
        self.armed_faults.append(point)
        return point

    def heal(self) -> None:
        """Disarm every fault, and set every clock right."""
        for point in self.armed_faults:
            point.clear()
        for target in list(self._offsets):
            self.set_clock(target, 0)
