"""The Secret of a large result, owned by its request."""

from __future__ import annotations

import base64
from typing import Any

from efrit.api import EfritRequest
from efrit.api_group import GROUP
from efrit.controller.model import names
from efrit.resources import REQUESTS, SECRETS


def result_secret(request: EfritRequest, text: str) -> dict[str, Any]:
    """Return the Secret that holds a large result; it goes when the request goes."""
    meta = request.metadata
    return SECRETS.manifest(
        {
            "name": names.result_secret_name(meta.uid),
            "namespace": meta.namespace,
            "labels": {names.MANAGED_BY_LABEL: names.MANAGED_BY, names.REQUEST_LABEL: _label(meta.name)},
            "ownerReferences": [
                REQUESTS.reference(meta.name, meta.uid, controller=True),
            ],
        },
        type=f"{GROUP}/result",
        immutable=True,
        data={names.RESULT_KEY: base64.b64encode(text.encode()).decode()},
    )


def _label(name: str) -> str:
    """Return the longest beginning of an object's name that may be a label's value."""
    return name[:63].rstrip("-.")
