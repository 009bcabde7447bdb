"""One instance whose spec is replaced time and again: write, wait until the controller has settled, look."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from efrit.kube.media_types import JSON_PATCH
from tests.integration.controller.fields.children import Flat, children, conditions, renamed
from tests.support.kube import Json, until
from tests.support.site import Site


class Rig:
    """Talks about one instance of a site."""

    def __init__(self, site: Site, name: str, *, made: bool = True, **spec: Any) -> None:
        self.site = site
        self.name = name
        self._given: Json | None = None
        self._generation = self._seen_generation = 0
        self._seen: Flat = {}
        if made:
            site.instance(name, ready=False, **spec)
        self.settled()

    @classmethod
    def of(cls, site: Site, name: str) -> Rig:
        """Return one about an instance that exists."""
        return cls(site, name, made=False)

    @property
    def object(self) -> Json:
        return self.site.kube.get("efritinstances", self.site.namespace, self.name)

    def becomes(self, spec: Json) -> None:
        """Replace the whole spec, as `kubectl replace` does, whatever was written to the status meanwhile."""
        kube = self.site.kube
        path = kube.path("efritinstances", self.site.namespace, self.name)
        body = [{"op": "replace", "path": "/spec", "value": spec}]
        kube.call("PATCH", path, body, content_type=JSON_PATCH, fieldValidation="Strict")

    def settled(self) -> Json:
        """Wait until the status speaks of the present spec, and return the instance."""

        def reached() -> Json | None:
            obj = self.object
            status, generation = obj.get("status", {}), obj["metadata"]["generation"]
            generations = [condition["observedGeneration"] for condition in status.get("conditions", ())]
            return (
                obj if status.get("observedGeneration") == generation and set(generations) == {generation} else None
            )

        return until(reached, lambda: f"not settled: {self.object}\n{self.site.logs()}")

    def observed(self) -> Flat:
        """Return the children and the conditions."""
        leaves = children(self.site.kube, self.site.namespace, self.name)
        return leaves | {f"condition{path}": leaf for path, leaf in conditions(self.object).items()}

    def takes(self, spec: Json) -> None:
        """Replace the spec and wait until it has settled."""
        if spec != self._given:
            self.becomes(spec)
            self._given, self._generation = spec, self.settled()["metadata"]["generation"]

    def after(self, spec: Json) -> Flat:
        """Replace the spec and return what is seen once it has settled; what was seen before, if it was the same.

        What has changed since is taken for an effect of the next spec, and found there.
        """
        self.takes(spec)
        if self._seen_generation != self._generation:
            self._seen, self._seen_generation = self.observed(), self._generation
        return self._seen

    def observed_as_new(self) -> Flat:
        """Return the children as those of an instance with a name that says nothing."""
        leaves = children(self.site.kube, self.site.namespace, self.name)
        return renamed(leaves, self.name, self.object["metadata"]["uid"])


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> Json:
    """Return `base` with `change` in it, object by object; a list is replaced."""
    result = copy.deepcopy(dict(base))
    for key, value in change.items():
        current = result.get(key)
        both = isinstance(value, Mapping) and isinstance(current, dict) and value
        result[key] = merged(current, value) if both and isinstance(current, dict) else copy.deepcopy(value)
    return result
