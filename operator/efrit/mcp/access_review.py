"""Authentication and authorization by the API server, asked again for every call.

A TokenReview says which user a bearer token belongs to, a SubjectAccessReview whether that user has a permission in
a namespace. No answer is kept from one call to the next, so that a revoked permission is refused at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from efrit.backend.cluster.api import Api
from efrit.resources import ACCESS_REVIEWS, REQUESTS, TOKEN_REVIEWS

LONGEST_TOKEN = 16_384
MASTERS = "system:masters"
SERVICE_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True)
class Caller:
    """The user a token belongs to, as the API server reports it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def refusal(self) -> str:
        """Return why a caller is served nothing, whatever their permissions are; empty if they are served."""
        if MASTERS in self.groups:
            return (
                f"{self.name} is in the group {MASTERS}, for which the API server refuses nothing; use another user."
            )
        if self.name.startswith("system:") and not self.name.startswith(SERVICE_ACCOUNT):
            return f"{self.name} is a part of Kubernetes; use a token of a user or of a service account."
        texts = (self.name, self.uid, *self.groups, *self.extra, *(text for v in self.extra.values() for text in v))
        if not all(text.isprintable() for text in texts):
            return "The name or a group of the caller has a character that cannot be printed; use another user."
        # A header loses them: what is sent would be another name.
        if any(text != text.strip() for text in texts):  # gate: blank-in-name
            return "The name or a group of the caller begins or ends with a blank; use another user."
        return ""


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


class Authorizer(Protocol):
    """Authorizes callers. Raises `ClientError` if the API server cannot be asked."""

    async def is_allowed(self, caller: Caller, permission: Permission) -> bool:
        """Return whether `caller` has `permission`."""


class Reviewer(Authorizer, Protocol):
    """Authenticates callers too. Raises `ClientError` if the API server cannot be asked."""

    @property
    def audiences(self) -> Sequence[str]:
        """For whom a token must have been issued; none: for the API server."""

    async def authenticate(self, token: str) -> Caller | None:
        """Return the user `token` belongs to, or None if it is invalid."""


class ApiServerReviewer:
    """Asks the API server; needs the permissions of the ClusterRole system:auth-delegator and no others."""

    def __init__(self, api: Api, audiences: Sequence[str] = ()) -> None:
        self._api = api
        self._audiences = list(audiences)

    @property
    def audiences(self) -> Sequence[str]:
        """For whom a token must have been issued; none: for the API server."""
        return self._audiences

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
