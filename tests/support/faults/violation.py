"""One broken promise, as every checker returns it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Invariant = Literal[
    "I1",
    "I2",
    "I3",
    "I4",
    "I5",
    "I6",
    "I7",
    "I8",
    "I9",
    "I10",
    "I11",
    "I12",
    "I13",
    "I14",
    "I15",
    "I16",
    "I17",
    "I18",
    "I19",
    "I20",
    "I21",
    "I22",
]


@dataclass(frozen=True)
class Violation:
    """A broken promise: which, of which request (by name, or empty), in a sentence, with the evidence."""

    invariant: Invariant
    request: str
    sentence: str
    evidence: str = ""

    def __str__(self) -> str:
        about = f" {self.request}" if self.request else ""
        return f"{self.invariant}{about}: {self.sentence}" + (f" [{self.evidence}]" if self.evidence else "")
