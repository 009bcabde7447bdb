"""The durable file queue: one directory, shared with an Emacs that runs what lies in it.

Uses `efrit.protocol` for what the files hold; knows nothing of HTTP or Kubernetes. The protocol, its
promises and who may write what: docs/queue.md.
"""

from typing import TYPE_CHECKING

from efrit.lazily import attributes_of

if TYPE_CHECKING:
    from efrit.queue.durable import Disk
    from efrit.queue.observe import LONG_ANSWER_BYTES
    from efrit.queue.queue import DurableQueue, Listener, QueueLimits

__all__ = ["LONG_ANSWER_BYTES", "Disk", "DurableQueue", "Listener", "QueueLimits"]

__getattr__ = attributes_of(
    __name__,
    {
        "durable": "Disk",
        "observe": "LONG_ANSWER_BYTES",
        "queue": "DurableQueue Listener QueueLimits",
    },
)
