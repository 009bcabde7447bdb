"""Who is calling, and whether they may: the API server's own answer, asked anew for every call.

TokenReview says whose a bearer token is, SubjectAccessReview whether that one may do a thing in a namespace. Nothing
is remembered from one call to the next: a right that is taken away is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from efrit.client.cluster.api import Api

GROUP = "efrit.dev"
LONGEST_TOKEN = 16_384

_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True)
class Caller:
    """Whom a token stands for, in the API server's words."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Act:
    """What somebody wants to do: a verb on a resource (or `resource/subresource`) of a namespace.

    On one object of it if `name` is there.
    """

    verb: str
    resource: str
    namespace: str
    name: str = ""
    group: str = GROUP

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}{f' {self.name}' if self.name else ''} in namespace {self.namespace}"


class Reviewer(Protocol):
    """Answers the two questions. Both raise a `ClientError` where nobody can be asked: nothing is allowed then."""

    async def who(self, token: str) -> Caller | None:
        """Whose it is; None where it is nobody's."""

    async def may(self, caller: Caller, act: Act) -> bool:
        """Whether they may do it."""


class ApiServerReviewer:
    """Asks the API server. Needs the rights of the ClusterRole system:auth-delegator and no others."""

    def __init__(self, api: Api, audiences: Sequence[str] = ()) -> None:
        self._api = api
        self._audiences = list(audiences)

    async def who(self, token: str) -> Caller | None:
        """Whose it is; None where it is nobody's, or was not made for us."""
        if not token or len(token) > LONGEST_TOKEN:
            return None
        spec: dict[str, Any] = {"token": token}
        if self._audiences:
            spec["audiences"] = self._audiences
        status = await self._asked(_TOKENS, "authentication.k8s.io/v1", "TokenReview", spec)
        user = status.get("user") or {}
        if status.get("authenticated") is not True or status.get("error") or not user.get("username"):
            return None
        # An authenticator that knows no audiences answers with none: its word is then not about us.
        if self._audiences and not set(self._audiences) & set(status.get("audiences") or ()):
            return None
        extra = {key: tuple(values) for key, values in (user.get("extra") or {}).items()}
        return Caller(user["username"], user.get("uid") or "", tuple(user.get("groups") or ()), extra)

    async def may(self, caller: Caller, act: Act) -> bool:
        """Whether they may do it."""
        resource, _, sub = act.resource.partition("/")
        attributes = {"verb": act.verb, "group": act.group, "resource": resource, "namespace": act.namespace}
        attributes |= {key: value for key, value in (("name", act.name), ("subresource", sub)) if value}
        spec = {
            "user": caller.name,
            "uid": caller.uid,
            "groups": list(caller.groups),
            "extra": {key: list(values) for key, values in caller.extra.items()},
            "resourceAttributes": attributes,
        }
        status = await self._asked(_ACCESS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        return status.get("allowed") is True and status.get("denied") is not True

    async def _asked(self, where: str, version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        review = await self._api.call("POST", where, body={"apiVersion": version, "kind": kind, "spec": spec})
        status = review.get("status")
        return status if isinstance(status, dict) else {}
