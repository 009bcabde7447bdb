"""The store's part for what became of applying the children of an instance."""

from __future__ import annotations

from efrit.controller.decide.views import Key
from efrit.controller.watch.child_objects import ChildObjects

FAILURES_TOLD = 6
"""How many failures in a row to apply children are told: with the work queue's pauses, about two seconds of them."""


class ApplyResults(ChildObjects):
    """The memory with which children were accepted and which were refused, and why an instance does not start."""

    def apply_unanswered(self, instance: Key) -> None:
        """Take in that the API server did not say whether it took the children: have them applied again."""
        self._instances[instance].resync = True

    def applied(self, instance: Key, generation: int, digest: str = "") -> bool:
        """Remember that the children of this generation were accepted; False where they were refused before.

        `digest` is that of all children but the StatefulSet, which may be held back.
        """
        entry = self._instances[instance]
        entry.applied_digest = digest
        entry.resync, entry.applied_generation, entry.failures = False, generation, 0
        entry.child_missing = False
        if entry.refused is None:
            return True
        entry.refused = None
        self._look_instance(instance)
        return False

    def refused(self, instance: Key, generation: int, sentence: str) -> None:
        """Remember that a child was refused, and why."""
        entry = self._instances[instance]
        entry.refused, entry.refused_generation, entry.resync = sentence, generation, False
        entry.refused_time, entry.applied_generation, entry.applied_digest = self._clock(), 0, None
        self._look_instance(instance)

    def failed(self, instance: Key, generation: int, sentence: str) -> bool:
        """Remember that the API server failed over a child; once that lasts, take it for a refusal and say so.

        A hiccup passes. An admission webhook that is down answers so for hours, and nobody would be told why.
        """
        entry = self._instances[instance]
        entry.failures += 1
        if entry.failures < FAILURES_TOLD:
            return False
        entry.failures = 0
        self.refused(instance, generation, sentence)
        return True

    def explained(self, instance: Key, problem: str | None) -> None:
        """Remember Kubernetes' own sentence on why an instance does not start."""
        entry = self._instances[instance]
        entry.explained_time = self._clock()
        if entry.problem != problem:
            entry.problem = problem
            self._look_instance(instance)
