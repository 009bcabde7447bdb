"""What may be large of an instance's spec, as the store keeps it: compressed JSON beside an object without it.

As objects of Python a hundred kilobytes of an affinity take more than a megabyte, and thousands of instances may have
as much. Only decisions about an instance itself, and about its plans, read it.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from efrit.api import EfritInstance
from efrit.api.instance import InstanceSpec, Network
from efrit.api.pod_template import PodTemplate

SMALL_BYTES = 1024
"""What has no more as JSON is kept as it is, as in nearly all instances."""
MOST_BYTES = 128 * 1024
"""As JSON. What has more is not kept, and nothing is made of such a spec."""
TOO_LARGE = (
    "spec.podTemplate and spec.network of this EfritInstance have {} KiB of JSON together, of which "
    f"{MOST_BYTES >> 10} KiB are the most: shorten them."
)


class Packed(NamedTuple):
    """An instance without what may be large, and that."""

    small: EfritInstance
    rest: bytes | None
    """Compressed; None where nothing is left out, or too much."""
    refusal: str | None = None
    """Why nothing is made of it."""


def pack(instance: EfritInstance) -> Packed:
    """Return what is kept of an instance; kubectl keeps a copy of the whole object in an annotation."""
    spec, metadata = instance.spec, instance.metadata.model_copy(update={"annotations": {}})
    text = spec.model_dump_json(include={"pod_template", "network"}, by_alias=True, exclude_defaults=True).encode()
    if len(text) <= SMALL_BYTES:
        return Packed(instance.model_copy(update={"metadata": metadata}), None)
    account = PodTemplate(service_account_name=spec.pod_template.service_account_name)
    spec = spec.model_copy(update={"pod_template": account, "network": Network()})
    small = instance.model_copy(update={"metadata": metadata, "spec": spec})
    if len(text) > MOST_BYTES:  # gate: template-size
        return Packed(small, None, TOO_LARGE.format(-(-len(text) // 1024)))
    return Packed(small, zlib.compress(text, 1))


def unpack(small: EfritInstance, rest: bytes | None) -> EfritInstance:
    """Return the instance with all of its spec."""
    if rest is None:
        return small
    left_out = InstanceSpec.model_validate_json(zlib.decompress(rest))
    update = {"pod_template": left_out.pod_template, "network": left_out.network}
    return small.model_copy(update={"spec": small.spec.model_copy(update=update)})
