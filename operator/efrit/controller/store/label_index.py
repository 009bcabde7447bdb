"""Which instances of a namespace have the labels that a request asks for, without a scan of all of them."""

from __future__ import annotations

from collections.abc import Mapping

from efrit.controller.model.keys import Key


class LabelIndex:
    """Keys by namespace and label; a query costs the time of the label that the fewest have."""

    def __init__(self) -> None:
        self._labels: dict[Key, Mapping[str, str]] = {}
        self._keys: dict[tuple[str, str, str], set[Key]] = {}

    def put(self, key: Key, labels: Mapping[str, str] | None) -> None:
        """Record the labels of an object, None for one that is gone."""
        for label, value in self._labels.pop(key, {}).items():
            place = key[0], label, value
            self._keys[place].discard(key)
            if not self._keys[place]:
                del self._keys[place]
        if labels is None:
            return
        self._labels[key] = labels
        for label, value in labels.items():
            self._keys.setdefault((key[0], label, value), set()).add(key)

    def matching(self, namespace: str, labels: Mapping[str, str]) -> list[Key]:
        """Return the sorted keys of a namespace whose objects have all these labels, every key without any."""
        if not labels:
            return sorted(key for key in self._labels if key[0] == namespace)
        keys_by_label = [self._keys.get((namespace, *label), set()) for label in labels.items()]
        return sorted(set.intersection(*sorted(keys_by_label, key=len)))
