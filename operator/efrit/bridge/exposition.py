"""Metrics as Prometheus reads them: its text format 0.0.4, and no more. A library for it takes 1.5 MB of a bridge."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metric:
    """One metric and its series. `labels`: the names of the labels that each series of it has."""

    kind = "gauge"

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        self.name, self.text, self.labels = name, text, tuple(labels)
        self.values: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}

    def lines(self) -> Iterator[str]:
        """Yield the lines that tell of it."""
        yield f"# HELP {self.name} {self.text}"
        yield f"# TYPE {self.name} {self.kind}"
        for values, number in self.values.items():
            yield sample(self.name, zip(self.labels, values, strict=True), number)


class Gauge(Metric):
    """What goes up and down."""

    def set(self, value: float, *labels: str) -> None:
        """Set the series with these labels."""
        self.values[labels] = float(value)


class Counter(Metric):
    """What only goes up; its name ends with `_total`."""

    kind = "counter"

    def add(self, amount: float, *labels: str) -> None:
        """Add to the series with these labels, which begins at 0."""
        self.values[labels] = self.values.get(labels, 0.0) + amount


class Histogram(Metric):
    """How often a value was in each bucket: at most as large as one bound and above the one before."""

    kind = "histogram"

    def __init__(self, name: str, text: str, bounds: Sequence[float]) -> None:
        super().__init__(name, text)
        self._bounds = (*map(float, bounds), math.inf)
        self._counts = [0] * len(self._bounds)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self) -> Iterator[str]:
        """Yield the lines that tell of it: each bucket counts all values up to its bound."""
        yield f"# HELP {self.name} {self.text}"
        yield f"# TYPE {self.name} histogram"
        total = 0
        for bound, count in zip(self._bounds, self._counts, strict=True):
            total += count
            yield sample(f"{self.name}_bucket", [("le", number(bound))], total)
        yield sample(f"{self.name}_count", (), total)
        yield sample(f"{self.name}_sum", (), self._sum)


def sample(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    """Return the line of one series."""
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    return f"{name}{{{inside}}} {number(value)}" if inside else f"{name} {number(value)}"


def number(value: float) -> str:
    """Return a number as Prometheus reads it."""
    return "+Inf" if value == math.inf else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
