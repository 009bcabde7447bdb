"""When a controller led, by the renewals of its Lease, and when the API server answered lists.

The harness knows what it kills and stops. It does not know that a controller starts late on a busy machine, or that
an API server whose etcd was away hangs for another minute on lists of some kinds: that is observed here.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from efrit.errors import ApiError
from tests.support.faults.recorder import Watcher
from tests.support.kube import Kube

LONGEST_SECONDS = 10.0
"""Between two renewals of a leader that is not kept from its work; it renews every few seconds."""

PROBE_SECONDS = 2.0
LISTED = ("efritinstances", "efritrequests", "efritplans", "statefulsets", "pods", "persistentvolumeclaims")
"""What a controller lists before it leads, and in every sweep."""

Span = tuple[float, float]


class LeaseRecorder(Watcher):
    """Records the renewals of the Lease in a namespace."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._renewals: list[float] = []

    @property
    def renewals(self) -> Sequence[float]:
        """Return when the Lease was taken or renewed, in seconds since the start of the run."""
        with self._lock:
            return tuple(self._renewals)

    def _note_missing(self, listed: set[str]) -> None:
        """Do nothing: a Lease that is gone is not renewed."""

    def _note(self, event: str, obj: dict[str, Any]) -> None:
        if event != "DELETED" and obj["spec"].get("holderIdentity"):
            with self._lock:
                self._renewals.append(self._clock())


class ListProbe:
    """Lists one object of each kind again and again, in a thread of its own, and notes when all were answered."""

    def __init__(self, kube: Kube, namespace: str, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._namespace = namespace
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: list[float] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="list probe", daemon=True)

    @property
    def answers(self) -> Sequence[float]:
        """Return when all kinds were listed, in seconds since the start of the run."""
        with self._lock:
            return tuple(self._answers)

    def start(self) -> None:
        """Begin to list, in a thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop listing, without waiting for a list that hangs."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                for plural in LISTED:
                    self._kube.list(plural, self._namespace, limit="1")
            except (ApiError, RuntimeError):
                # RuntimeError: the connection was closed with the run.
                pass
            else:
                with self._lock:
                    self._answers.append(self._clock())
            self._stopping.wait(PROBE_SECONDS)


def silent_spans(moments: Sequence[float], until: float) -> tuple[Span, ...]:
    """Return the spans between 0 and `until` without a moment for longer than LONGEST_SECONDS."""
    all_moments = [0.0, *sorted(moment for moment in moments if 0 <= moment <= until), until]
    return tuple(span for span in itertools.pairwise(all_moments) if span[1] - span[0] > LONGEST_SECONDS)


def merge_spans(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return the spans in order, overlapping ones merged."""
    result: list[Span] = []
    for begin, end in sorted(spans):
        if result and begin <= result[-1][1]:
            result[-1] = result[-1][0], max(end, result[-1][1])
        else:
            result.append((begin, end))
    return tuple(result)


def total_seconds(spans: Sequence[Span]) -> float:
    """Return the total length of spans that do not overlap."""
    return sum(end - begin for begin, end in spans)
