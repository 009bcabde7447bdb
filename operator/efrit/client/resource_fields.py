"""Fields that custom resources have in common, as JSON: those of a cluster, and the plans of a laptop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from efrit.api_group import GROUP

Json = Mapping[str, Any]

DIGEST = f"{GROUP}/content-digest"
"""Annotation of a request or plan with a key or name: what that stands for."""


def condition(obj: Json, kind: str) -> Json:
    """Return the condition of this type of an object; empty if it has none."""
    conditions = obj.get("status", {}).get("conditions", ())
    return next((entry for entry in conditions if entry.get("type") == kind), {})
