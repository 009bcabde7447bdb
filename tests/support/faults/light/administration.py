"""What administrators and clusters do to a run of the light tier: upgrades, refusals, full volumes, another tenant.

Called from the main loop, which never waits: calls to the API server run in a thread, one after the other.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.faults.file_shim.points import ArmedFileFault
from tests.support.faults.job_thread import JobThread
from tests.support.faults.large_results import FullVolume
from tests.support.faults.light.refusals import Quota, Refusal
from tests.support.faults.light.tenant import OtherTenant
from tests.support.faults.pool_workload import BROKEN_IMAGE
from tests.support.faults.schedule import Op, Step, Theme
from tests.support.timeout import TIMEOUT

if TYPE_CHECKING:
    from tests.support.faults.light.nemesis import LightNemesis
    from tests.support.faults.light.run import LightRun

VOLUME_OPTIONS = "size=6m,nr_inodes=300,mode=777"
FILLING = "filling-"
RESULTS = "/.efrit/results/"
TENANT_FAULTS = frozenset({Op.DELETE_TENANT, Op.FORBID_TENANT, Op.REFUSE_TENANT, Op.STOP_TENANT, Op.FLOOD_TENANT})
ADMINISTRATIVE_OPS = TENANT_FAULTS | {Op.UPGRADE, Op.REFUSE, Op.QUOTA, Op.FILL, Op.KEEP_POD}


class Administration:
    """The administrative faults of one run. Close it before the directory of the run is removed."""

    def __init__(self, run: LightRun, nemesis: LightNemesis) -> None:
        self._run = run
        self._nemesis = nemesis
        self._jobs = JobThread()
        self._undo: dict[Step, Callable[[], None]] = {}
        self._volumes: list[Path] = []
        self._upgrades = 0
        self._full: dict[Path, tuple[str, str, float]] = {}
        self._emptied: list[FullVolume] = []
        self.tenant: OtherTenant | None = None

    def open(self, other: str | None) -> None:
        """Prepare the node, and the other tenant in the namespace `other`."""
        node, theme = self._run.site.node, self._run.schedule.theme
        node.collects = theme in (Theme.IDLE, Theme.POOLS)
        if theme in (Theme.IDLE, Theme.ROLLOUT, Theme.POOLS):
            # Short requests may end in a pod that terminates, as in a cluster; the long ones of the schedule may not.
            node.grace_seconds = 5.0
        if theme is Theme.POOLS:
            node.broken_images.add(BROKEN_IMAGE)
        if any(step.op is Op.EVICT_POD for step in self._run.schedule.steps):
            # What was begun may end, as long as a request may take.
            node.grace_seconds = 30.0
            node.reports_ready = True
            self._run.cluster.guard_disruptions()
        if theme is Theme.VOLUMES:
            node.provision = self._provision
        if other is not None:
            self.tenant = OtherTenant(self._run.cluster, other, self._run.site.directory / "other")

    @property
    def idle(self) -> bool:
        """Whether every job is done."""
        return self._jobs.idle

    # Volumes

    def _provision(self, path: Path) -> None:
        """Mount a small file system of its own at the place of a volume; evals count outside of it."""
        if path in self._volumes:
            return
        path.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", VOLUME_OPTIONS, "efrit-test", str(path)]
        subprocess.run(command, check=True, timeout=TIMEOUT)
        self._volumes.append(path)
        proof = path.with_name(f"{path.name}-proof")
        proof.mkdir()
        (path / "proof").symlink_to(proof)

    @property
    def full_volumes(self) -> tuple[FullVolume, ...]:
        """Return which volumes were full or failed, and when."""
        still = (FullVolume(*entry, self._run.clock()) for entry in self._full.values())
        return (*self._emptied, *still)

    def observe_file_fault(self, point: ArmedFileFault) -> None:
        """Record a volume as failed where a fault has hit the files of results."""
        if RESULTS in point.fault.path:
            self._emptied.append(FullVolume(point.instance, "workspace", point.armed_at, self._run.clock()))

    def _fill(self, volume: Path, what: str) -> None:
        numbers = itertools.count()
        with contextlib.suppress(OSError):
            if what == "bytes":
                with (volume / f"{FILLING}bytes").open("wb", buffering=0) as file:
                    while True:
                        file.write(bytes(4096))
            while True:
                (volume / f"{FILLING}{next(numbers)}").touch()

    def _empty(self, volume: Path) -> None:
        for path in volume.glob(f"{FILLING}*"):
            path.unlink()
        if (full := self._full.pop(volume, None)) is not None:
            self._emptied.append(FullVolume(*full, self._run.clock()))

    # Faults

    def inject(self, step: Step) -> None:
        """Begin the fault of a step."""
        run = self._run
        kube, namespace = run.cluster.kube, run.namespace
        match step.op:
            case Op.UPGRADE:
                self._upgrade(step)
            case Op.REFUSE | Op.QUOTA:
                kind = Refusal if step.op is Op.REFUSE else Quota
                refusal = kind(kube, namespace, step.detail)
                self._undo[step] = partial(self._jobs.submit, refusal.end)
                self._jobs.submit(refusal.begin)
            case Op.FILL:
                name, what = step.detail.split()
                if (pod := run.running_pod(step.target)) is None:
                    self._nemesis.note_no_target(step)
                    return
                volume = pod.volume(name)
                # A volume that is full already keeps its first moment.
                self._full.setdefault(volume, (step.target, name, run.clock()))
                self._fill(volume, what)
                self._undo[step] = partial(self._empty, volume)
            case Op.KEEP_POD:
                node = run.site.node
                if (pod := run.running_pod(step.target)) is None or not pod.started:
                    self._nemesis.note_no_target(step)
                    return
                node.kept.add(step.target)
                self._undo[step] = partial(node.kept.discard, step.target)
                self._nemesis.delete_pod(step, pod)
            case _:
                self._inject_tenant_fault(step)

    def _upgrade(self, step: Step) -> None:
        """Stop the controllers and have them start with another image for the bridges, as `helm upgrade` does."""
        run, self._upgrades = self._run, self._upgrades + 1
        for controller in run.controllers:
            image = controller.operator.image.rpartition("-upgrade")[0] or controller.operator.image
            controller.operator.configure(EFRIT_OPERATOR_IMAGE=f"{image}-upgrade{self._upgrades}")
            controller.relaunch_at = run.clock() + step.seconds
            controller.operator.terminate()
        for instance in run.schedule.instances:
            self._nemesis.note_held_replacement(instance.name, "the bridge's image was changed")

    def _inject_tenant_fault(self, step: Step) -> None:
        tenant = self.tenant
        assert tenant is not None
        faults = {
            Op.DELETE_TENANT: tenant.delete,
            Op.FORBID_TENANT: tenant.forbid,
            Op.REFUSE_TENANT: tenant.refuse,
            Op.STOP_TENANT: tenant.stop_bridge,
            Op.FLOOD_TENANT: tenant.flood,
        }
        self._jobs.submit(faults[step.op])

    def recover(self, step: Step) -> None:
        """End the fault of a step that lasts."""
        if (undo := self._undo.pop(step, None)) is not None:
            undo()

    def heal(self) -> None:
        """End every fault that is not over yet."""
        for step in list(self._undo):
            self.recover(step)
        if self.tenant is not None:
            self._jobs.submit(self.tenant.recover)

    def close(self) -> None:
        """End the other tenant, and unmount the volumes."""
        self._jobs.close()
        if self.tenant is not None:
            self.tenant.close()
        for path in self._volumes:
            # Processes may still have files open there.
            subprocess.run(["umount", "--lazy", path], check=False, timeout=TIMEOUT)
