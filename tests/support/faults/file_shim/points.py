"""What is loaded into the processes of a run, so that their disk can fail and their clock can jump.

One shim for each pod, which its bridge and its Emacs share, and one for each controller. Of the files only the queue
and the results in the workspace are seen: the counter files are the proof, and must not fail.
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
    """A fault of files that waits for its moment on one shim."""

    instance: str
    fault: FileFault
    armed_at: float
    recorder: FileShim
    slot: int
    hits: int = 0
    reported: int = 0
    armed: bool = True

    def new_hits(self) -> int:
        """Return how often it has struck since this was asked last."""
        if self.armed:
            self.hits = self.recorder.hits(self.slot)
        before, self.reported = self.reported, self.hits
        return self.hits - before

    def clear(self) -> None:
        """Take it away; the shim forgets how often it has struck."""
        if self.armed:
            self.hits, self.armed = self.recorder.hits(self.slot), False
            self.recorder.clear(self.slot)


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
        """Return the environment of a pod's processes. A pod made anew runs on the same node: its clock stays."""
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
        """Set the clock of an instance or a controller off by `seconds`; whether there was one to set."""
        self._offsets[target] = seconds
        if target not in self._newest:
            return False
        self._newest[target].set_clock(seconds)
        return True

    def arm(self, instance: str, fault: FileFault, now: float) -> ArmedFileFault | None:
        """Arm a fault of files; None where the instance has had no pod yet."""
        recorder = self._newest.get(instance)
        if recorder is None:
            return None
        point = ArmedFileFault(instance, fault, now, recorder, next(self._slots))
        action, number = ACTIONS[fault.effect]
        recorder.arm(
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
        """Take every point away, and set every clock right."""
        for point in self.armed_faults:
            point.clear()
        for target in list(self._offsets):
            self.set_clock(target, 0)
