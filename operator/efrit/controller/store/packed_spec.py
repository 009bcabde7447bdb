"""What may be large of an instance, as the store keeps it: compressed JSON of its spec beside an object without it.

As objects of Python a hundred kilobytes of an affinity take more than a megabyte, and thousands of instances may have
as much. Only decisions about an instance itself, and about its plans, read it.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from efrit.api import EfritInstance
from efrit.api.instance import InstanceSpec, Network
from efrit.api.pod_template import PodTemplate
from efrit.controller.model.names import POOL_LABEL

SMALL_BYTES = 1024
"""What has no more as JSON is kept as it is, as in nearly all instances."""
MAX_LABELS = 64
"""The API server takes any number, and each is kept for those that select by it."""
MAX_BYTES = 128 * 1024
"""As JSON. No pod is made of a spec that has more, nor is it kept, but for spec.network if that has no more."""
TOO_LARGE = (
    "spec.podTemplate, spec.network and spec.emacs of this EfritInstance have {} KiB of JSON together; at most "
    f"{MAX_BYTES >> 10} KiB are allowed: shorten them."
)
_LARGE = {"pod_template", "network", "emacs"}
TOO_MANY_LABELS = f"This EfritInstance has {{}} labels; at most {MAX_LABELS} are allowed: remove some."


class Packed(NamedTuple):
    """An instance without what may be large, and that."""

    small: EfritInstance
    rest: bytes | None
    """Compressed; None where nothing is left out, or too much to keep any of it."""
    refusal: str | None = None
    """Why nothing is made of it."""


def pack(instance: EfritInstance) -> Packed:
    """Return what is kept of an instance; kubectl keeps a copy of the whole object in an annotation.

    Its owners, of which there may be thousands, are not kept either.
    """
    labels, refusal = instance.metadata.labels, None
    if len(labels) > MAX_LABELS:  # gate: label-count
        refusal = TOO_MANY_LABELS.format(len(labels))
        labels = {POOL_LABEL: labels[POOL_LABEL]} if POOL_LABEL in labels else {}
    small_metadata: dict[str, object] = {"annotations": {}, "owner_references": (), "labels": labels}
    spec, metadata = instance.spec, instance.metadata.model_copy(update=small_metadata)
    text = _json(spec, _LARGE)
    if len(text) <= SMALL_BYTES:
        return Packed(instance.model_copy(update={"metadata": metadata}), None, refusal)
    account = PodTemplate(service_account_name=spec.pod_template.service_account_name)
    emacs = spec.emacs.model_copy(update={"resources": None})
    spec = spec.model_copy(update={"pod_template": account, "network": Network(), "emacs": emacs})
    small = instance.model_copy(update={"metadata": metadata, "spec": spec})
    if len(text) > MAX_BYTES:  # gate: template-size
        network = _json(instance.spec, {"network"})
        rest = zlib.compress(network, 1) if len(network) <= MAX_BYTES else None
        return Packed(small, rest, refusal or TOO_LARGE.format(-(-len(text) // 1024)))
    return Packed(small, zlib.compress(text, 1), refusal)


def _json(spec: InstanceSpec, parts: set[str]) -> bytes:
    return spec.model_dump_json(include=parts, by_alias=True, exclude_defaults=True).encode()


def unpack(small: EfritInstance, rest: bytes | None) -> EfritInstance:
    """Return the instance with all of its spec that is kept."""
    if rest is None:
        return small
    left_out = InstanceSpec.model_validate_json(zlib.decompress(rest))
    update = {part: getattr(left_out, part) for part in _LARGE & left_out.model_fields_set}
    return small.model_copy(update={"spec": small.spec.model_copy(update=update)})
