"""Kubernetes' own objects inside a spec (affinity, volume sources, network rules) as structural schemas.

For the generator of the CRDs alone. Derived from the official client's models, so that they name every field and none
of them is of any depth: an object that nests deeper than Python's JSON reader goes would end every controller that
reads it, whoever's it is. What a field may hold is left to the API server, which checks the object made of it.
"""

from __future__ import annotations

import re
from typing import Any

from kubernetes import client

QUANTITY_FIELDS = {"sizeLimit", "divisor"}
QUANTITY_MAPS = {"requests", "limits"}
KEPT_OF_METADATA = ("labels", "annotations")
MAX_TEXT = 4096
MAX_ITEMS = 64
MAX_EXCEPTIONS = 60
"""Of a range of addresses; bounds the cost of the rules about them."""
CIDR: dict[str, Any] = {"type": "string", "maxLength": len("2001:0db8:0000:0000:0000:0000:0000:0001/128")}

INT_OR_STRING: dict[str, Any] = {"x-kubernetes-int-or-string": True, "maxLength": 64}
SCALARS: dict[str, dict[str, Any]] = {
    "str": {"type": "string", "maxLength": MAX_TEXT},
    "int": {"type": "integer"},
    "bool": {"type": "boolean"},
    # The client's word for what is a number or a name: a port.
    "object": INT_OR_STRING,
}
MAP = re.compile(r"Dict\[str, (\w+)\]")
LIST = re.compile(r"List\[(\w+)\]")


def kubernetes_schema(name: str) -> dict[str, Any]:
    """Return the structural schema of one of the client's models, such as V1Affinity."""
    model = getattr(client, name)
    fields = {json: model.openapi_types[python] for python, json in model.attribute_map.items()}
    if name == "V1ObjectMeta":
        fields = {key: fields[key] for key in KEPT_OF_METADATA}
    return {"type": "object", "properties": {key: _typed(key, kind) for key, kind in sorted(fields.items())}}


def _typed(key: str, kind: str) -> dict[str, Any]:
    if match := MAP.fullmatch(kind):
        inner = INT_OR_STRING if key in QUANTITY_MAPS else _typed("", match[1])
        return {"type": "object", "additionalProperties": dict(inner), "maxProperties": MAX_ITEMS}
    if match := LIST.fullmatch(kind):
        if key == "except":
            return {"type": "array", "items": dict(CIDR), "maxItems": MAX_EXCEPTIONS}
        return {"type": "array", "items": _typed("", match[1]), "maxItems": MAX_ITEMS}
    if key == "cidr":
        return dict(CIDR)
    if key in QUANTITY_FIELDS:
        return dict(INT_OR_STRING)
    return dict(SCALARS[kind]) if kind in SCALARS else kubernetes_schema(kind)
