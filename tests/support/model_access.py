"""An instance's access to the model of the tests: the Secret with its key, and what its spec says of both."""

from __future__ import annotations

import base64

from tests.model.running import KEY, Model
from tests.support.kube import Json, Kube


def secret(kube: Kube, namespace: str, name: str) -> None:
    data = {"k": base64.b64encode(KEY.encode()).decode()}
    kube.create("secrets", namespace, {"metadata": {"name": name}, "type": "Opaque", "data": data})


def with_model(model: Model, key: str = "key") -> Json:
    return {"name": "m", "baseURL": model.url, "apiKeySecretRef": {"name": key, "key": "k"}}
