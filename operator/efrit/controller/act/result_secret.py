"""Creates the Secret of a large result, once; a Secret of its name counts only if it is the same one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from efrit.controller.act.kube import Kube
from efrit.errors import ApiExists, ApiRefused
from efrit.resources import SECRETS


async def create_result(kube: Kube, manifest: Mapping[str, Any]) -> None:
    """Create a result's Secret, or return where an earlier attempt has created it.

    Anybody in the namespace may create a Secret of that name: one that differs in owner or content, or that can
    still be changed, is refused. Raises ApiRefused, and any other ApiError where it should be tried again, such as
    ApiNotFound for one that was deleted meanwhile.
    """
    meta = manifest["metadata"]
    try:
        await kube.create(manifest)
    except ApiExists:
        expected = {
            "/metadata/ownerReferences/0/uid": meta["ownerReferences"][0]["uid"],
            "/immutable": True,
            **{f"/data/{key}": value for key, value in manifest["data"].items()},
        }
        try:
            await kube.test(SECRETS, meta["namespace"], meta["name"], expected)  # gate: compare-secret
        except ApiRefused as error:
            name = meta["name"]
            sentence = f"Secret {name} already exists and is not the result of this request: delete it."
            raise ApiRefused(str(error), sentence=sentence) from error
