"""The Secret with the bridge's certificate and token. Written often, read only by the pod."""

from __future__ import annotations

import base64
from typing import Any

from efrit.api import EfritInstance
from efrit.controller.model.credentials import Credentials
from efrit.controller.model.names import child_metadata, secret_name
from efrit.resources import SECRETS


def build_secret(instance: EfritInstance, credentials: Credentials) -> dict[str, Any]:
    """Return the Secret; `token-previous` is there while a rotation of the controller's key is under way."""
    files = {
        "tls.crt": credentials.certificate,
        "tls.key": credentials.private_key,
        "token": credentials.token.encode(),
        "token-next": credentials.next_token.encode(),
    }
    if credentials.previous_token is not None:
        files["token-previous"] = credentials.previous_token.encode()
    return SECRETS.manifest(
        child_metadata(instance, secret_name(instance)),
        type="Opaque",
        data={name: base64.b64encode(content).decode() for name, content in files.items()},
    )
