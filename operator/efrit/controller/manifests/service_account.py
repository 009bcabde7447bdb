"""A ServiceAccount without rights and without a token: code in the instance is nobody to the API server."""

from __future__ import annotations

from typing import Any

from efrit.api import EfritInstance
from efrit.controller.model.names import child_metadata, child_name
from efrit.resources import SERVICE_ACCOUNTS


def build_service_account(instance: EfritInstance) -> dict[str, Any]:
    """Return the ServiceAccount of an instance that names none."""
    return SERVICE_ACCOUNTS.manifest(
        child_metadata(instance, child_name(instance)),
        automountServiceAccountToken=False,
    )
