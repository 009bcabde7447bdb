"""Who is calling, and whether they may: the API server's own answer, asked anew for every call.

TokenReview says whose a bearer token is, SubjectAccessReview whether that one may do a thing in a namespace. Nothing
is remembered from one call to the next: a right that is taken away is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kubernetes.aio import client
from kubernetes.aio.client import ApiClient, AuthenticationV1Api, AuthorizationV1Api
from kubernetes.aio.client.exceptions import ApiException

from efrit.client.errors import NoCluster

GROUP = "efrit.dev"
SECONDS = 10
LONGEST_TOKEN = 16_384


@dataclass(frozen=True)
class Caller:
    """Whom a token stands for, in the API server's words."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Act:
    """What somebody wants to do: a verb on a resource of a namespace, on one object of it if `name` is there."""

    verb: str
    resource: str
    namespace: str
    name: str = ""
    group: str = GROUP

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}{f'/{self.name}' if self.name else ''} in namespace {self.namespace}"


class Reviewer(Protocol):
    """Answers the two questions. Both raise `NoCluster` where nobody can be asked: nothing is allowed then."""

    async def who(self, token: str) -> Caller | None:
        """Whose it is; None where it is nobody's."""

    async def may(self, caller: Caller, act: Act) -> bool:
        """Whether they may do it."""


class ApiServerReviewer:
    """Asks the API server. Needs the rights of the ClusterRole system:auth-delegator and no others."""

    def __init__(self, api: ApiClient, audiences: Sequence[str] = ()) -> None:
        self._authentication = AuthenticationV1Api(api)
        self._authorization = AuthorizationV1Api(api)
        self._audiences = list(audiences)

    async def who(self, token: str) -> Caller | None:
        """Whose it is; None where it is nobody's, or was not made for us."""
        if not token or len(token) > LONGEST_TOKEN:
            return None
        spec: dict[str, Any] = {"token": token}
        if self._audiences:
            spec["audiences"] = self._audiences
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        status = (await _asked(self._authentication.create_token_review(body, _request_timeout=SECONDS))).status
        if status is None or not status.authenticated or status.user is None or not status.user.username:
            return None
        # An authenticator that knows no audiences answers with none: its word is then not about us.
        if self._audiences and not set(self._audiences) & set(status.audiences or ()):
            return None
        user = status.user
        extra = {key: tuple(values) for key, values in (user.extra or {}).items()}
        return Caller(user.username, user.uid or "", tuple(user.groups or ()), extra)

    async def may(self, caller: Caller, act: Act) -> bool:
        """Whether they may do it."""
        attributes = {"verb": act.verb, "group": act.group, "resource": act.resource, "namespace": act.namespace}
        if act.name:
            attributes["name"] = act.name
        spec = {
            "user": caller.name,
            "uid": caller.uid,
            "groups": list(caller.groups),
            "extra": {key: list(values) for key, values in caller.extra.items()},
            "resourceAttributes": attributes,
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        review = await _asked(self._authorization.create_subject_access_review(body, _request_timeout=SECONDS))
        status = review.status
        return status is not None and bool(status.allowed) and not status.denied


async def _asked(call: Any) -> Any:
    try:
        return await call
    except (ApiException, OSError, TimeoutError) as error:
        reason = getattr(error, "reason", None) or error
        raise NoCluster(f"the API server did not say who may call ({reason})", "Try again later.") from error


async def connect_reviewer(
    kubeconfig: Path | None, context: str | None, audiences: Sequence[str]
) -> tuple[ApiServerReviewer, ApiClient]:
    """A reviewer by the pod's service account, or by kubeconfig outside a cluster; close its client at the end."""
    from kubernetes.aio import config

    configuration = client.Configuration()
    try:
        if kubeconfig is None and context is None and _in_a_cluster():
            config.load_incluster_config(client_configuration=configuration)
        else:
            path = str(kubeconfig) if kubeconfig is not None else None
            await config.load_kube_config(path, context=context, client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        raise NoCluster(f"no cluster is configured: {error}", "Give --kubeconfig, or run in a pod.") from error
    api = ApiClient(configuration)
    return ApiServerReviewer(api, audiences), api


def _in_a_cluster() -> bool:
    return Path("/var/run/secrets/kubernetes.io/serviceaccount/token").exists()
