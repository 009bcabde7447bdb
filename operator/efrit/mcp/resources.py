"""The resources: instances, requests, whole results, work logs and, in a cluster, plans and pools.

They are listed in the order of their URIs, one page at a time. A page begins after the last URI of the page before,
so that nothing is repeated if resources come or go meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, Resource, ResourceTemplate, TextResourceContents
from msgspec import json
from msgspec.structs import asdict
from pydantic import BaseModel

from efrit.backend.errors import Forbidden, NotFound
from efrit.backend.interface import Backend, Handle
from efrit.backend.plans import Plans
from efrit.mcp.error_text import error_text
from efrit.mcp.outputs.instances import instance_list
from efrit.mcp.outputs.plans import plan_list, plan_output
from efrit.mcp.outputs.pools import pool_list, pool_output
from efrit.mcp.outputs.requests import request_output
from efrit.mcp.plan_progress import plan_position
from efrit.mcp.progress import request_position
from efrit.plan import report as plan_report

INSTANCES = "efrit://instances"
PLANS = "efrit://plans"
POOLS = "efrit://pools"
JSON = "application/json"
HTML = "text/html"
TEXT = "text/plain"
JSON_LINES = "application/x-ndjson"
PAGE = 100
MAX_COMPLETIONS = 100

_URI = re.compile(
    r"efrit://(?:(instances)(?:/([A-Za-z0-9_-][A-Za-z0-9._-]*))?|requests/([A-Za-z0-9_-][A-Za-z0-9._-]*)(?:/(log|result))?"
    r"|(plans)(?:/([a-z0-9][-a-z0-9]{0,62})(?:/(report))?)?"
    r"|(pools)(?:/([A-Za-z0-9_-][A-Za-z0-9._-]*))?)"
)

_TEMPLATES = (
    ResourceTemplate(
        uri_template="efrit://instances/{instance_id}",
        name="instance",
        title="Instance",
        description="One Efrit instance: its status, reason and statistics.",
        mime_type=JSON,
    ),
    ResourceTemplate(
        uri_template="efrit://requests/{request_id}",
        name="request",
        title="Request",
        description="Current state of a request, with its answer once it is final.",
        mime_type=JSON,
    ),
    ResourceTemplate(
        uri_template="efrit://requests/{request_id}/result",
        name="result",
        title="Whole result",
        description="Whole result of a finished request, however large.",
        mime_type=TEXT,
    ),
    ResourceTemplate(
        uri_template="efrit://requests/{request_id}/log",
        name="log",
        title="Work log",
        description="Work log of a chat or command, turn by turn: one JSON object per line.",
        mime_type=JSON_LINES,
    ),
)

_CLUSTER_TEMPLATES = (
    ResourceTemplate(
        uri_template="efrit://plans/{plan_id}",
        name="plan",
        title="Plan",
        description="Current state of a plan: its tree, last commits, last observations and cost.",
        mime_type=JSON,
    ),
    ResourceTemplate(
        uri_template="efrit://plans/{plan_id}/report",
        name="report",
        title="Report of a plan",
        description="HTML page with tree, commits, costs and times, made from the plan's repository.",
        mime_type=HTML,
    ),
    ResourceTemplate(
        uri_template="efrit://pools/{pool_id}",
        name="pool",
        title="Pool",
        description="One pool of instances: its members, conditions, flows of requests and last change of size.",
        mime_type=JSON,
    ),
)


def templates(plans: bool) -> tuple[ResourceTemplate, ...]:
    """Return the templates a server lists, always in the same order."""
    return (*_TEMPLATES, *_CLUSTER_TEMPLATES) if plans else _TEMPLATES


@dataclass(frozen=True)
class Page:
    """Some of the resources; `cursor` asks for those after them."""

    resources: Sequence[Resource]
    cursor: str | None


def request_uri(request_id: str, part: str = "") -> str:
    """Return the URI of a request, or of its `result` or `log`."""
    return f"efrit://requests/{request_id}" + (f"/{part}" if part else "")


def request_at(uri: str) -> Handle | None:
    """Return the request whose state is at `uri`, or None if it is another resource."""
    match = _URI.fullmatch(uri)
    return Handle(match[3]) if match is not None and match[3] is not None and match[4] is None else None


async def page(backend: Backend, cursor: str | None, *, plans: bool = False) -> Page:
    """Return the resources after `cursor`; with `plans`, those of plans and pools.

    Raises MCPError for a wrong cursor.
    """
    resources = [
        Resource(
            uri=INSTANCES,
            name="instances",
            title="Instances",
            description="All Efrit instances and their status.",
            mime_type=JSON,
        )
    ]
    for instance in await backend.instances():
        position = f"{instance.status}: {instance.message or instance.reason}"
        resources.append(_resource(f"{INSTANCES}/{instance.id}", instance.id, instance.id, position))
    for state in await backend.requests(brief=True):
        title = state.type.value if state.type is not None else "request"
        resources.append(_resource(request_uri(state.handle.id), state.handle.id, title, request_position(state)))
    if plans:
        resources += [*await _plan_resources(backend), *await _pool_resources(backend)]
    resources.sort(key=lambda resource: resource.uri)
    if cursor is not None:
        if _URI.fullmatch(cursor) is None:
            raise MCPError(INVALID_PARAMS, "unknown cursor: list again from the beginning")
        resources = [resource for resource in resources if resource.uri > cursor]
    return Page(resources[:PAGE], resources[PAGE - 1].uri if len(resources) > PAGE else None)


async def _plan_resources(backend: Backend) -> list[Resource]:
    try:
        states = await backend.planning().plans(brief=True)
    except (Forbidden, NotFound):
        # Who may see instances and requests need not see plans, and an older cluster has none.
        return []
    return [
        _resource(PLANS, "plans", "Plans", "All plans."),
        *(_resource(f"{PLANS}/{state.name}", state.name, state.name, plan_position(state)) for state in states),
    ]


async def _pool_resources(backend: Backend) -> list[Resource]:
    try:
        pools = await backend.pools()
    except (Forbidden, NotFound):
        return []
    return [
        _resource(POOLS, "pools", "Pools", "All pools."),
        *(
            _resource(
                f"{POOLS}/{pool.name}",
                pool.name,
                pool.name,
                f"{pool.ready} of {pool.members} members ready, {pool.busy} busy, {pool.pending} requests pending",
            )
            for pool in pools
        ),
    ]


def _resource(uri: str, name: str, title: str, description: str) -> Resource:
    return Resource(uri=uri, name=name, title=title, description=description, mime_type=JSON)


async def read(backend: Backend, uri: str) -> TextResourceContents:
    """Return the contents at `uri`. Raises MCPError if there are none."""
    match = _URI.fullmatch(uri)
    if match is None:
        raise missing(uri, "URIs begin with efrit://instances or efrit://requests/ID")
    instances, instance, request, part, plans, plan, report, pools, pool = match.groups()
    try:
        if plans:
            text, mime_type = await _plan_text(backend.planning(), plan, report is not None)
        elif pools:
            text, mime_type = await _pool_text(backend, pool)
        elif instances:
            text, mime_type = await _instance_text(backend, instance)
        else:
            text, mime_type = await _request_text(backend, Handle(request), part)
    except NotFound as error:
        raise missing(uri, error_text(error)) from None
    return TextResourceContents(uri=uri, mime_type=mime_type, text=text)


async def _instance_text(backend: Backend, name: str | None) -> tuple[str, str]:
    if name is None:
        return _json(instance_list(await backend.instances())), JSON
    fields = asdict(await backend.instance(name))
    return json.encode({name: value for name, value in fields.items() if value is not None}).decode(), JSON


async def _pool_text(backend: Backend, name: str | None) -> tuple[str, str]:
    if name is None:
        return _json(pool_list(await backend.pools())), JSON
    return _json(pool_output(await backend.pool(name))), JSON


async def _request_text(backend: Backend, handle: Handle, part: str | None) -> tuple[str, str]:
    if part == "result":
        return await backend.result(handle), TEXT
    if part == "log":
        lines = [line.rstrip("\n") + "\n" async for line in backend.log(handle)]
        return "".join(lines), JSON_LINES
    return _json(await request_output(backend, await backend.get(handle))), JSON


async def _plan_text(plans: Plans, name: str | None, report: bool) -> tuple[str, str]:
    if name is None:
        return _json(plan_list(await plans.plans(brief=True))), JSON
    if report:
        return plan_report.html(await plans.plan_history(name)), HTML
    return _json(plan_output(await plans.plan(name))), JSON


async def complete(backend: Backend, argument: str, prefix: str) -> list[str]:
    """Return the names that begin with `prefix`, for an argument of a template."""
    if argument == "instance_id":
        names = [instance.id for instance in await backend.instances()]
    elif argument == "request_id":
        names = [state.handle.id for state in await backend.requests(brief=True)]
    elif argument == "plan_id" and backend.kind == "cluster":
        names = [state.name for state in await backend.planning().plans(brief=True)]
    elif argument == "pool_id" and backend.kind == "cluster":
        names = [pool.name for pool in await backend.pools()]
    else:
        names = []
    return sorted(name for name in names if name.startswith(prefix))


def _json(output: BaseModel) -> str:
    return output.model_dump_json(exclude_none=True)


def missing(uri: str, reason: str) -> MCPError:
    """Return the protocol's error for a URI without a resource."""
    return MCPError(INVALID_PARAMS, f"no resource {uri}: {reason}", {"uri": uri})
