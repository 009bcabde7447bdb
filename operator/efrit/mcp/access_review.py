"""Authentication and authorization by the API server, asked again for every call.

A TokenReview tells which user a bearer token belongs to, a SubjectAccessReview whether that user has a permission in
a namespace. No answer is kept from one call to the next, so that a revoked permission is refused at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from efrit.client.cluster.api import Api
from efrit.kube.resources import ACCESS_REVIEWS, REQUESTS, TOKEN_REVIEWS

LONGEST_TOKEN = 16_384


@dataclass(frozen=True)
class Caller:
    """The user a token belongs to, as the API server reports it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Permission:
    """A verb on a resource, or on `resource/subresource`, in a namespace; with `name`, on that object only."""

    verb: str
    resource: str
    namespace: str
    name: str = ""
    group: str = REQUESTS.group

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}{f' {self.name}' if self.name else ''} in namespace {self.namespace}"


class Reviewer(Protocol):
    """Authenticates and authorizes callers. Both methods raise `ClientError` if the API server cannot be asked."""

    async def authenticate(self, token: str) -> Caller | None:
        """Return the user `token` belongs to, or None if it is invalid."""

    async def is_allowed(self, caller: Caller, permission: Permission) -> bool:
        """Return whether `caller` has `permission`."""


class ApiServerReviewer:
    """Asks the API server; needs the permissions of the ClusterRole system:auth-delegator and no others."""

    def __init__(self, api: Api, audiences: Sequence[str] = ()) -> None:
        self._api = api
        self._audiences = list(audiences)

    async def authenticate(self, token: str) -> Caller | None:
        """Return the user `token` belongs to, or None if it is invalid or was issued for another audience."""
        if not token or len(token) > LONGEST_TOKEN:
            return None
        spec: dict[str, Any] = {"token": token}
        if self._audiences:
            spec["audiences"] = self._audiences
        status = await self._api.review(TOKEN_REVIEWS, spec)
        user = status.get("user") or {}
        if status.get("authenticated") is not True or status.get("error") or not user.get("username"):
            return None
        # An authenticator without support for audiences returns none: the token may be meant for somebody else.
        if self._audiences and not set(self._audiences) & set(status.get("audiences") or ()):  # gate: token-audience
            return None
        extra = {key: tuple(values) for key, values in (user.get("extra") or {}).items()}
        return Caller(user["username"], user.get("uid") or "", tuple(user.get("groups") or ()), extra)

    async def is_allowed(self, caller: Caller, permission: Permission) -> bool:
        """Return whether `caller` has `permission`."""
        resource, _, subresource = permission.resource.partition("/")
        attributes = {
            "verb": permission.verb,
            "group": permission.group,
            "resource": resource,
            "namespace": permission.namespace,
        }
        optional = {"name": permission.name, "subresource": subresource}
        attributes |= {key: value for key, value in optional.items() if value}
        spec = {
            "user": caller.name,
            "uid": caller.uid,
            "groups": list(caller.groups),
            "extra": {key: list(values) for key, values in caller.extra.items()},
            "resourceAttributes": attributes,
        }
        status = await self._api.review(ACCESS_REVIEWS, spec)
        return status.get("allowed") is True and status.get("denied") is not True  # gate: review-denied
