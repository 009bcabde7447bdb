"""Which definitions the API server lacks: logged once with what to do, and once more when they are there.

Where the chart does not bring the definitions (`crds.install=false`), that of a new kind may be applied after the
controller. The kind is not served until then; all else is.
"""

from __future__ import annotations

import logging

from efrit.resources import Resource

log = logging.getLogger(__name__)


class Definitions:
    """The definitions of kinds without which everything else can be served."""

    def __init__(self) -> None:
        self._missing: set[Resource] = set()

    def missing(self, resource: Resource) -> None:
        """Take in that the API server does not know a kind."""
        if resource in self._missing:
            return
        self._missing.add(resource)
        log.error(
            "the CustomResourceDefinition %s.%s is missing: objects of kind %s are not served, everything else is. "
            "Run `helm upgrade` for this release again, which brings it; with crds.install=false, apply "
            "charts/efrit-operator/crd-files/%s_%s.yaml of this release with `kubectl apply --server-side "
            "--filename`. The controller need not be restarted",
            resource.plural,
            resource.group,
            resource.kind,
            resource.group,
            resource.plural,
        )

    def is_missing(self, resource: Resource) -> bool:
        """Return whether the API server did not know a kind when it was last asked."""
        return resource in self._missing

    def served(self, resource: Resource) -> None:
        """Take in that the API server knows a kind."""
        if resource in self._missing:
            self._missing.discard(resource)
            log.info("the CustomResourceDefinition %s.%s is there by now", resource.plural, resource.group)
