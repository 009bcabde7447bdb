"""The queue's figures as a condition: one word and one sentence."""

from __future__ import annotations

from efrit.api import ConditionStatus, EfritInstance, QueueReason
from efrit.controller.decide.condition_state import ConditionState
from efrit.controller.decide.queue_volume import disk_sentence
from efrit.protocol.view import DiskProblem, Stats

DISK_REASONS = {DiskProblem.FULL: QueueReason.DISK_FULL, DiskProblem.FAILING: QueueReason.DISK_FAILING}


def health(stats: Stats | None, instance: EfritInstance) -> ConditionState:
    """Return how the queue does; Unknown without figures."""
    if stats is None:
        return ConditionState(ConditionStatus.UNKNOWN, QueueReason.UNKNOWN, "The instance is not running.")
    if stats.disk is not None and stats.disk.problem is not None:
        return ConditionState(
            ConditionStatus.FALSE, DISK_REASONS[stats.disk.problem], disk_sentence(instance, stats.disk)
        )
    queue = instance.spec.queue
    message = sentence(stats)
    stuck = stats.processing == 0 and stats.oldest_pending_seconds > queue.stalled_after_seconds
    if stats.pending > 0 and (stuck or not stats.emacs.alive):
        return ConditionState(ConditionStatus.FALSE, QueueReason.STALLED, message)
    crowded = 100 * stats.pending >= queue.backlogged_percent * queue.max_pending
    if crowded or stats.oldest_pending_seconds > queue.backlogged_after_seconds:
        return ConditionState(ConditionStatus.FALSE, QueueReason.BACKLOGGED, message)
    if stats.pending or stats.processing:
        return ConditionState(ConditionStatus.TRUE, QueueReason.WORKING, message)
    return ConditionState(ConditionStatus.TRUE, QueueReason.IDLE, message)


def sentence(stats: Stats) -> str:
    """Return the figures as a sentence for people."""
    text = (
        f"{stats.pending} pending, {stats.processing} processing, {stats.processed} processed "
        f"({stats.succeeded} succeeded, {stats.failed} failed), average {stats.average_processing_seconds:.1f} s"
    )
    if stats.pending:
        text += f", oldest waits {stats.oldest_pending_seconds:.1f} s"
    return text
