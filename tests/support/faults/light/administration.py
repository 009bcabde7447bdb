"""What administrators and clusters do to a run of the light tier: upgrades, refusals, full volumes, another tenant.

Called from the main loop, which never waits: whatever asks the API server is done in a thread, one after the other.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.faults.file_shim.points import Point
from tests.support.faults.job_thread import Users
from tests.support.faults.large_results import Filled
from tests.support.faults.light.refusals import Quota, Refusal
from tests.support.faults.light.tenant import Tenant
from tests.support.faults.schedule import Do, Step, Theme

if TYPE_CHECKING:
    from tests.support.faults.light.run import Stage

VOLUME_OPTIONS = "size=6m,nr_inodes=300,mode=777"
FILLING = "filling-"
RESULTS = "/.efrit/results/"
TENANT_FAULTS = frozenset({Do.DELETE_TENANT, Do.FORBID_TENANT, Do.REFUSE_TENANT, Do.STOP_TENANT, Do.FLOOD_TENANT})
OPERATIONS = TENANT_FAULTS | {Do.UPGRADE, Do.REFUSE, Do.QUOTA, Do.FILL, Do.KEEP_POD}


class Operations:
    """Those of one run. Close it before the directory of the run is removed."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._jobs = Users()
        self._undo: dict[Step, Callable[[], None]] = {}
        self._volumes: list[Path] = []
        self._upgrades = 0
        self._full: dict[Path, tuple[str, str, float]] = {}
        self._relieved: list[Filled] = []
        self.tenant: Tenant | None = None

    def open(self, other: str | None) -> None:
        """Prepare the node, and the other tenant in the namespace `other`."""
        node, theme = self._stage.site.node, self._stage.plan.theme
        node.collects = theme is Theme.IDLE
        if theme in (Theme.IDLE, Theme.ROLLOUT):
            # Short work may end in a pod that goes, as in a cluster; the plans' long work may not.
            node.grace_seconds = 5.0
        if theme is Theme.VOLUMES:
            node.provision = self._provision
        if other is not None:
            self.tenant = Tenant(self._stage.ground, other, self._stage.site.directory / "other")

    @property
    def idle(self) -> bool:
        return self._jobs.idle

    # Volumes

    def _provision(self, path: Path) -> None:
        """Put a small file system of its own at the place of a volume; evals count outside of it."""
        if path in self._volumes:
            return
        path.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", VOLUME_OPTIONS, "efrit-test", str(path)]
        subprocess.run(command, check=True, timeout=20)
        self._volumes.append(path)
        proof = path.with_name(f"{path.name}-proof")
        proof.mkdir()
        (path / "proof").symlink_to(proof)

    @property
    def filled(self) -> tuple[Filled, ...]:
        """Return which volumes were full or failed, and when."""
        still = (Filled(*each, self._stage.clock()) for each in self._full.values())
        return (*self._relieved, *still)

    def observe_file_fault(self, point: Point) -> None:
        """Take in that a fault of files has struck."""
        if RESULTS in point.fault.path:
            self._relieved.append(Filled(point.instance, "workspace", point.armed_at, self._stage.clock()))

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
            self._relieved.append(Filled(*full, self._stage.clock()))

    # Faults

    def strike(self, step: Step) -> None:
        """Begin one."""
        stage = self._stage
        kube, namespace = stage.ground.kube, stage.namespace
        match step.do:
            case Do.UPGRADE:
                self._upgrade(step)
            case Do.REFUSE | Do.QUOTA:
                kind = Refusal if step.do is Do.REFUSE else Quota
                refusal = kind(kube, namespace, step.detail)
                self._undo[step] = partial(self._jobs.do, refusal.end)
                self._jobs.do(refusal.begin)
            case Do.FILL:
                name, what = step.detail.split()
                if (pod := stage.find(step.target)) is None:
                    stage.missed(step)
                    return
                volume = pod.volume(name)
                # One that is full already is so since then.
                self._full.setdefault(volume, (step.target, name, stage.clock()))
                self._fill(volume, what)
                self._undo[step] = partial(self._empty, volume)
            case Do.KEEP_POD:
                node = stage.site.node
                if (pod := stage.find(step.target)) is None or not pod.started:
                    stage.missed(step)
                    return
                node.kept.add(step.target)
                self._undo[step] = partial(node.kept.discard, step.target)
                stage.lose_pod(step, pod)
            case _:
                self._strike_tenant(step)

    def _upgrade(self, step: Step) -> None:
        """Have the controller end and come back with another image for the bridges, as `helm upgrade` does."""
        stage, self._upgrades = self._stage, self._upgrades + 1
        for each in stage.controllers:
            image = each.operator.image.rpartition("-upgrade")[0] or each.operator.image
            each.operator.configure(EFRIT_OPERATOR_IMAGE=f"{image}-upgrade{self._upgrades}")
            each.relaunch_at = stage.clock() + step.seconds
            each.operator.terminate()
        for instance in stage.plan.instances:
            stage.hold(instance.name, "the bridge's image was changed")

    def _strike_tenant(self, step: Step) -> None:
        tenant = self.tenant
        assert tenant is not None
        faults = {
            Do.DELETE_TENANT: tenant.delete,
            Do.FORBID_TENANT: tenant.forbid,
            Do.REFUSE_TENANT: tenant.refuse,
            Do.STOP_TENANT: tenant.stop_bridge,
            Do.FLOOD_TENANT: tenant.flood,
        }
        self._jobs.do(faults[step.do])

    def relieve(self, step: Step) -> None:
        """End one that lasts."""
        if (undo := self._undo.pop(step, None)) is not None:
            undo()

    def heal(self) -> None:
        """End all of them."""
        for step in list(self._undo):
            self.relieve(step)
        if self.tenant is not None:
            self._jobs.do(self.tenant.relieve)

    def close(self) -> None:
        """Put away what the directory of the run holds."""
        self._jobs.close()
        if self.tenant is not None:
            self.tenant.close()
        for path in self._volumes:
            # Whoever still has a file open there keeps it, not its place.
            subprocess.run(["umount", "--lazy", path], check=False, timeout=20)
