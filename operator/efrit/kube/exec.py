"""Runs a command in a container by the exec subresource, a WebSocket with one channel for each stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence

import aiohttp
from kubernetes.aio.client import Configuration
from kubernetes.aio.stream import WsApiClient
from multidict import CIMultiDict

from efrit.errors import ApiCommandFailed, ApiUnavailable
from efrit.kube.errors import api_error
from efrit.resources import PODS

MAX_STDERR_BYTES = 65_536
_STDOUT, _STDERR, _ERROR = b"\1", b"\2", b"\3"


def with_headers(headers: Mapping[str, str], more: Sequence[tuple[str, str]]) -> CIMultiDict[str]:
    """Return `headers` and `more`, which may have several of one name."""
    merged = CIMultiDict(headers)
    for name, value in more:
        merged.add(name, value)
    return merged


async def exec_stream(
    configuration: Configuration,
    namespace: str,
    pod: str,
    container: str,
    command: Sequence[str],
    headers: Sequence[tuple[str, str]] = (),
) -> AsyncGenerator[bytes, None]:
    """Yield what `command` writes to standard output, as it comes.

    Its standard input stays open until this is closed. Raises ApiCommandFailed where it ends with an error,
    ApiUnavailable where the connection breaks, and the ApiError of a refusal.
    """
    query = [("container", container), ("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
    query += [("command", word) for word in command]
    path = PODS.path(namespace, pod, "exec")
    stderr, outcome = b"", b""
    async with WsApiClient(configuration) as client:
        method, url, serialized, *rest = await client.param_serialize(
            method="GET",
            resource_path=path,
            query_params=query,
            header_params={"Accept": "*/*"},
            auth_settings=["BearerToken"],
        )
        response = await client.call_api(
            method, url, with_headers(serialized, headers), *rest, _preload_content=False
        )
        try:
            async with response.response as socket:
                async for message in socket:
                    channel, data = message.data[:1], message.data[1:]
                    if channel == _STDOUT:
                        yield data
                    elif channel == _STDERR:
                        stderr = (stderr + data)[:MAX_STDERR_BYTES]
                    elif channel == _ERROR:
                        outcome = (outcome + data)[:MAX_STDERR_BYTES]
        except aiohttp.WSServerHandshakeError as error:
            text = f"exec in the pod {pod}: {error.message}"
            raise api_error("GET", path, error.status, text.encode(), error.headers) from error
        except (aiohttp.ClientError, OSError) as error:
            text = f"cannot run a command in the pod {pod}: {error}"
            raise ApiUnavailable(text, text) from error
    if outcome and b'"Success"' not in outcome:
        text = stderr.decode(errors="replace").strip() or f"{command[0]} failed in {pod}"
        raise ApiCommandFailed(text)
