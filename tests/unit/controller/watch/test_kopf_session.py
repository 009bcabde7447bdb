"""watch/kopf_session.py: kopf reads instances of any depth, and logs in as before."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import kopf
import pytest
from aiohttp import web
from kopf._cogs.clients import api, auth
from kopf._cogs.clients.errors import APINotFoundError
from kopf._cogs.structs.credentials import Vault

from efrit.controller.watch import handlers
from efrit.controller.watch.kopf_session import session

DEEP = b'{"metadata":{"name":"one","managedFields":' + b"[" * 9000 + b"]" * 9000 + b"}}"
SHALLOW = json.dumps({"metadata": {"name": "größer"}}, ensure_ascii=False).encode()
CONNECTION = kopf.ConnectionInfo(server="http://api", token="secret", priority=3, default_namespace="ns")


async def _list(_: web.Request) -> web.Response:
    return web.Response(body=b'{"items":[%b,%b]}' % (DEEP, SHALLOW), content_type="application/json")


async def _watch(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    body = DEEP + b"\n" + SHALLOW + b"\n" + SHALLOW
    for begin in range(0, len(body), 5000):
        await response.write(body[begin : begin + 5000])
    return response


async def _missing(_: web.Request) -> web.Response:
    return web.json_response({"kind": "Status", "message": "no"}, status=404)


@pytest.fixture
async def vault() -> AsyncIterator[Vault]:
    """Yield the vault of a kopf that is connected to a server."""
    application = web.Application()
    application.add_routes([web.get("/list", _list), web.get("/watch", _watch), web.get("/missing", _missing)])
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    made = Vault({"it": session(kopf.ConnectionInfo(server=f"http://{host}:{port}", token="secret"))})
    token = auth.vault_var.set(made)
    try:
        yield made
    finally:
        auth.vault_var.reset(token)
        await made.close()
        await runner.cleanup()


def _names(objects: list[Any]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


@pytest.mark.usefixtures("vault")
async def test_an_instance_that_is_nested_too_deeply_ends_neither_list_nor_watch() -> None:
    options: dict[str, Any] = {"settings": handlers.settings(), "logger": logging.getLogger(__name__)}

    listed = await api.get("/list", **options)
    watched = [obj async for obj in api.stream("/watch", **options)]

    assert _names(listed["items"]) == ["one", "größer"]
    assert _names(watched) == ["one", "größer", "größer"]
    with pytest.raises(APINotFoundError, match="no"):
        await api.get("/missing", **options)


def test_a_session_has_what_kopf_knows_of_its_connection_and_is_equal_to_another_of_the_same() -> None:
    made = session(CONNECTION)

    assert made is not None
    assert (made.server, made.priority, made.default_namespace) == ("http://api", 3, "ns")
    assert made.aiohttp_session.headers["Authorization"] == "Bearer secret"
    assert made == session(CONNECTION)
    assert made != session(kopf.ConnectionInfo(server="http://api", token="new", priority=3, default_namespace="ns"))
    assert session(None) is None


async def test_a_session_that_was_not_used_need_not_be_closed() -> None:
    made = session(CONNECTION)

    assert made is not None
    await made.aiohttp_session.close()
