"""The nemesis of a run: who injects the faults of its schedule and ends them. Each tier has one of its own.

Its methods are called from the main loop, so that none of them may wait for the API server.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from tests.support.faults.schedule import Step


class Nemesis(ABC):
    """Injects faults, one step of the schedule at a time."""

    @abstractmethod
    def inject(self, step: Step) -> None:
        """Begin the fault of a step, and note whom it hit."""

    @abstractmethod
    def recover(self, step: Step) -> None:
        """End the fault of a step that lasts."""

    @abstractmethod
    def heal(self) -> None:
        """End every fault that is not over yet."""
