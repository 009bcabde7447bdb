"""The package's Kubernetes client with the errors of `efrit.backend.errors`.

Every ApiError becomes here, and nowhere else, the ClientError that says what to do. The only module of the client
that loads the official Kubernetes library: that is heavy.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import Any

from efrit.backend.errors import ClientError, Conflict, Forbidden, NoCluster, NotFound, NotLoggedIn, NotReady, Refused
from efrit.errors import (
    ApiCommandFailed,
    ApiConflict,
    ApiError,
    ApiForbidden,
    ApiNamespaceTerminating,
    ApiNotFound,
    ApiRefused,
    ApiUnauthorized,
    ApiUnreachable,
    ConfigurationError,
)
from efrit.kube import connection
from efrit.kube.client import Json, KubeClient
from efrit.kube.connection import Configuration, Connection
from efrit.resources import Resource

__all__ = ["Api", "Connection", "Json", "decoded", "load_connection"]

FIELD_MANAGER = "efrit-client"


class Api(KubeClient):
    """A user's connection to an API server. Raises `ClientError` wherever KubeClient raises ApiError."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration, field_manager=FIELD_MANAGER, field_validation="Strict")

    async def read(self, method: str, path: str, **options: Any) -> bytes | None:
        """Make one call and return the body of its answer."""
        with _client_errors():
            return await super().read(method, path, **options)

    async def watch(
        self, resource: Resource, namespace: str, version: str, **selectors: str
    ) -> AsyncGenerator[tuple[str, Json], None]:
        """Yield (ADDED | MODIFIED | DELETED, object) from `version` on until the watch ends; list again to go on."""
        with _client_errors():
            async with contextlib.aclosing(super().watch(resource, namespace, version, **selectors)) as events:
                async for event in events:
                    yield event

    async def exec_output(
        self, namespace: str, pod: str, container: str, command: Sequence[str], *, max_bytes: int | None = None
    ) -> bytes:
        """Return what `command` writes to standard output in a container.

        Raises `NotFound` where it fails, `Refused` where it writes more than `max_bytes`, or than is read here.
        """
        with _client_errors():
            return await super().exec_output(namespace, pod, container, command, max_bytes=max_bytes)

    async def exec_stream(
        self, namespace: str, pod: str, container: str, command: Sequence[str]
    ) -> AsyncGenerator[bytes, None]:
        """Yield what `command` writes to standard output in a container. Raises `NotFound` where it fails."""
        with _client_errors():
            async with contextlib.aclosing(super().exec_stream(namespace, pod, container, command)) as output:
                async for data in output:
                    yield data


@contextlib.contextmanager
def _client_errors() -> Iterator[None]:
    """Raise the ClientError that an ApiError means to a user."""
    try:
        yield
    except ApiError as error:
        raise client_error(error) from error


def client_error(error: ApiError) -> ClientError:
    """Return what an error of the API server means to a user, and what to do about it."""
    sentence = error.sentence
    match error:
        case ApiNotFound() | ApiCommandFailed() | ApiNamespaceTerminating(status=404):
            return NotFound(sentence)
        case ApiNamespaceTerminating():
            return Forbidden(sentence, "choose a namespace that is not being deleted")
        case ApiConflict():
            return Conflict(sentence)
        case ApiUnauthorized():
            return NotLoggedIn(
                f"the cluster does not accept your credentials: {sentence}", "log in again, or choose another context"
            )
        case ApiForbidden():
            return Forbidden(sentence, "ask for a role that allows it: the chart adds them to view, edit and admin")
        case ApiRefused():
            return Refused(sentence)
        case ApiUnreachable():
            return NoCluster(sentence, "check the context (`kubectl cluster-info`)")
        case ApiError(status=None):
            return NotReady(sentence, "try again")
        case _:
            return NotReady(f"the API server answers {error.status}: {sentence}", "try again")


async def load_connection(kubeconfig: Path | None, context: str | None, namespace: str | None) -> Connection:
    """Return how to connect, as kubectl finds it. Raises `NoCluster`."""
    try:
        return await connection.load_connection(kubeconfig, context, namespace)
    except ConfigurationError as error:
        raise NoCluster(error.message, "set KUBECONFIG, or name one with --kubeconfig and --context") from error


def decoded(secret: Json, key: str) -> bytes | None:
    """Return the value of `key` in a Secret; None if it has none."""
    value = (secret.get("data") or {}).get(key)
    return None if value is None else base64.b64decode(value)
