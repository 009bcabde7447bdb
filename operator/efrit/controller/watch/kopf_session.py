"""The HTTP session that kopf reads instances by: what its decoder could not read for its depth is left out.

An instance that whoever may create one makes as deep would end kopf's watch of all namespaces, at each start again.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import aiohttp
import kopf

from efrit.kube.lines import lines_of
from efrit.kube.nested_json import flattened


class _Lines:
    """The body of an answer, of which kopf reads lines; all else is left to the body."""

    def __init__(self, body: aiohttp.StreamReader) -> None:
        self._body = body

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """Yield whole lines."""
        async with contextlib.aclosing(lines_of(self._body.iter_chunked(size))) as lines:
            async for line in lines:
                yield await flattened(line) + b"\n"  # gate: kopf-depth


class _Answer(aiohttp.ClientResponse):
    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        """Begin to read the answer."""
        await super().start(connection)
        self.content = cast("aiohttp.StreamReader", _Lines(self.content))
        return self

    async def read(self) -> bytes:
        """Return the body."""
        if self._body is None:
            await super().read()
            self._body = await flattened(self._body or b"")
        return self._body


class _Session:
    """What kopf uses of a session. It is made by the first call: one that is not used need not be closed."""

    def __init__(self, info: kopf.ConnectionInfo) -> None:
        self._info = info
        self._session: aiohttp.ClientSession | None = None
        self.headers = dict(info.as_http_headers())

    def __eq__(self, other: object) -> bool:
        """Return whether it is of the same connection: kopf gives up where it gets again what was refused."""
        return isinstance(other, _Session) and other._info == self._info

    def __hash__(self) -> int:
        return hash(self._info)

    async def request(self, **options: Any) -> aiohttp.ClientResponse:
        """Make a call."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=self._info.as_ssl_context()),
                headers=self.headers,
                proxy=self._info.proxy_url,
                trust_env=self._info.trust_env,
                response_class=_Answer,
            )
        return await self._session.request(**options)

    async def close(self) -> None:
        """End its connections."""
        if self._session is not None:
            await self._session.close()


def session(info: kopf.ConnectionInfo | None) -> kopf.AiohttpSession | None:
    """Return the session of a connection, None for none."""
    if info is None:
        return None
    return kopf.AiohttpSession(
        server=info.server,
        priority=info.priority,
        default_namespace=info.default_namespace,
        expiration=info.expiration,
        aiohttp_session=cast("aiohttp.ClientSession", _Session(info)),
    )
