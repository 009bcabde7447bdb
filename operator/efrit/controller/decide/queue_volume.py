"""The volume of an instance's queue: whether it takes work, and the sentence for people where it does not."""

from __future__ import annotations

from efrit.api import EfritInstance
from efrit.controller.model import names
from efrit.controller.model.snapshots import InstanceSnapshot
from efrit.protocol.view import DiskProblem, DiskStats


def disk_problem(snapshot: InstanceSnapshot) -> DiskStats | None:
    """Return what the bridge says of the queue volume while that takes no work, else None."""
    disk = snapshot.bridge.stats.disk if snapshot.bridge.stats is not None and snapshot.available else None
    return disk if disk is not None and disk.problem is not None else None


def disk_sentence(instance: EfritInstance, disk: DiskStats) -> str:
    """Return what is wrong with the queue volume and what to do. `disk` has a problem."""
    volume = _volume(instance)
    if disk.problem == DiskProblem.FAILING:
        return f"{volume} fails: {disk.message}. Requests wait until it works again: check the volume and its node."
    return (
        f"{volume} is full, no {_scarcity(disk)} left. Requests wait until there is room: {_remedy(instance)}. "
        "The archive of finished requests was already pruned."
    )


def _volume(instance: EfritInstance) -> str:
    queue = instance.spec.queue
    if queue.ephemeral:
        return "The ephemeral queue volume of the pod"
    return f"The queue volume (PersistentVolumeClaim {queue.existing_claim or names.claim_name(instance, 'queue')})"


def _scarcity(disk: DiskStats) -> str:
    """Return what there is less of, as far as the figures say."""
    if disk.total_inodes == 0 or disk.total_bytes == 0:
        return "space is"
    scarce = disk.free_inodes / disk.total_inodes < disk.free_bytes / disk.total_bytes
    return "inodes are" if scarce else "space is"


def _remedy(instance: EfritInstance) -> str:
    queue = instance.spec.queue
    if queue.ephemeral:
        return "free space on its node"
    if queue.existing_claim:
        return "enlarge the claim, or delete files from the volume"
    return "increase spec.queue.storage.size"
