"""The cluster as one caller sees it: the API server is called in their name, by impersonation.

So their permissions, admission and the audit log are theirs, and no permission is decided on here. The server's
account needs the right to do so, which the chart limits to what is served (constrained impersonation, from Kubernetes
1.36 on).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from efrit.backend.cluster.api import Api, Json
from efrit.backend.cluster.backend import ClusterBackend
from efrit.backend.errors import Forbidden
from efrit.backend.interface import Backend
from efrit.mcp.access_review import SERVICE_ACCOUNT, Caller

audit = logging.getLogger("efrit.mcp.audit")
"""One line, with the caller's name, for each change and each refusal."""


def impersonation_headers(caller: Caller) -> tuple[tuple[str, str], ...]:
    """Return the headers that call in a caller's name.

    A service account has its name alone: the API server adds its groups, and takes nothing else of one.
    """
    user = ("Impersonate-User", caller.name)
    if caller.name.startswith(SERVICE_ACCOUNT):
        return (user,)
    uid = [("Impersonate-Uid", caller.uid)] if caller.uid else []
    groups = [("Impersonate-Group", group) for group in caller.groups]
    extra = [
        (f"Impersonate-Extra-{quote(key, safe='')}", text) for key, texts in caller.extra.items() for text in texts
    ]
    return (user, *uid, *groups, *extra)


class CallerApi(Api):
    """A connection that calls in a caller's name, on the transport of another."""

    caller: Caller

    @classmethod
    def over(cls, api: Api, caller: Caller) -> CallerApi:
        """Return one that uses the connections of `api`, which stays open when it is closed."""
        made = cls.__new__(cls)
        made.__dict__.update(
            api.__dict__, caller=caller, headers=impersonation_headers(caller), output_reader=caller.name
        )
        return made

    async def close(self) -> None:
        """Do nothing: the connections belong to another."""

    async def call(self, method: str, path: str, **options: Any) -> Json:
        """Make one call; a change and a refusal are written down with the caller's name."""
        try:
            answer = await super().call(method, path, **options)
        except Forbidden:
            audit.info("%s may not %s %s", self.caller.name, method, path)
            raise
        if method != "GET":
            audit.info("%s did %s %s", self.caller.name, method, path)
        return answer


def backend_as(api: Api) -> Callable[[Caller, str], Backend]:
    """Return what makes the backend of a caller in a namespace; all of them use the connections of `api`."""

    def backend(caller: Caller, namespace: str) -> Backend:
        return ClusterBackend(CallerApi.over(api, caller), namespace, f"namespace {namespace}")

    return backend
