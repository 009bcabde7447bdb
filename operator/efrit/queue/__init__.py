"""The durable file queue: one directory, shared with an Emacs that runs what lies in it.

Uses `efrit.protocol` for what the files hold; knows nothing of HTTP or Kubernetes. The protocol, its
promises and who may write what: docs/queue.md.
"""

from efrit.queue.durable import Disk
from efrit.queue.observe import LONG_ANSWER_BYTES
from efrit.queue.queue import DurableQueue, Listener, QueueLimits

__all__ = ["LONG_ANSWER_BYTES", "Disk", "DurableQueue", "Listener", "QueueLimits"]
