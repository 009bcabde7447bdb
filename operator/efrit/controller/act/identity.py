"""The controller's own secret: read at start, made at the very first start.

The controller makes it rather than the chart, so that rendering the chart anew never invalidates it. Keys of the
Secret: hmac.key, and hmac-previous.key while a rotation is under way.
"""

from __future__ import annotations

import base64
import logging
import secrets
from typing import Any

from efrit.controller.act.kube import Kube
from efrit.controller.model import names
from efrit.controller.model.credentials import Identity
from efrit.errors import ApiExists, ApiNotFound, ConfigurationError
from efrit.resources import SECRETS

log = logging.getLogger(__name__)

KEY_BYTES = 32


async def load_identity(kube: Kube, namespace: str, name: str) -> Identity:
    """Return the identity in Secret `name`, made first where it does not exist.

    Raises ConfigurationError where a key is missing or too short.
    """
    try:
        secret = await kube.get(SECRETS, namespace, name)
    except ApiNotFound:
        try:
            secret = await kube.create(_manifest(namespace, name))
            log.info("made the identity Secret %s/%s", namespace, name)
        except ApiExists:
            secret = await kube.get(SECRETS, namespace, name)
    return _identity(secret)


def _identity(secret: dict[str, Any]) -> Identity:
    data = {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}
    previous = data.get("hmac-previous.key")
    for name, key in (("hmac.key", data.get("hmac.key", b"")), ("hmac-previous.key", previous)):
        if key is not None and len(key) < KEY_BYTES:
            meta = secret["metadata"]
            raise ConfigurationError(
                f"Secret {meta['namespace']}/{meta['name']}: {name} has {len(key)} bytes instead of {KEY_BYTES} "
                "or more: give it as many random ones, or delete the Secret and restart the operator to have one made"
            )
    return Identity(hmac_key=data["hmac.key"], previous_hmac_key=previous)


def new_identity() -> Identity:
    """Return a fresh key."""
    return Identity(hmac_key=secrets.token_bytes(KEY_BYTES))


def _manifest(namespace: str, name: str) -> dict[str, Any]:
    return SECRETS.manifest(
        {
            "name": name,
            "namespace": namespace,
            "labels": {names.MANAGED_BY_LABEL: names.MANAGED_BY},
        },
        type="Opaque",
        data={"hmac.key": base64.b64encode(new_identity().hmac_key).decode()},
    )
