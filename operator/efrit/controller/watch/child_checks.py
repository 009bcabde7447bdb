"""The store's part for children that nobody watches: which should be there, and which are not."""

from __future__ import annotations

from collections.abc import Iterable

from efrit.api import EfritInstance
from efrit.controller.decide.views import Key
from efrit.controller.watch.handovers import Handovers
from efrit.controller.watch.records import in_scope


class ChildChecks(Handovers):
    """What checks of children tell, and what they go by."""

    def applied_instances(self, scope: str | None = None) -> list[EfritInstance]:
        """Return the instances of a namespace whose children have all been applied: the StatefulSet comes last."""
        return [
            entry.instance
            for key, entry in self._instances.items()
            if in_scope(key, scope)
            and entry.instance is not None
            and entry.instance.metadata.deletion_timestamp is None
            and entry.own_statefulset is not None
        ]

    def children_missing(self, instances: Iterable[Key]) -> None:
        """Take in that a child of each of these instances is not there any more."""
        for key in instances:
            if key in self._instances:
                self._instances[key].child_missing = True
                self._look_instance(key)

    def check_secret(self, instance: Key) -> None:
        """Have the Secret of an instance applied again."""
        if instance in self._instances:
            self._instances[instance].secret_check = True
            self._look_instance(instance)

    def claim_gone(self, instance: Key, name: str) -> None:
        """Take in that the API server does not know a claim of an instance."""
        self._instances[instance].claims.pop(name, None)
        self._look_instance(instance)

    def secret_applied(self, instance: Key) -> None:
        """Take in that the Secret of an instance is there."""
        entry = self._instances[instance]
        entry.secret_check, entry.secret_applied_time = False, self._clock()
