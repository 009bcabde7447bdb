"""What can be read by URI: instances, requests, whole results and work logs; where there are plans, those too.

Listed in one fixed order, a page at a time; a page begins after the last URI of the one before, so that what comes or
goes meanwhile repeats nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, Resource, ResourceTemplate, TextResourceContents
from pydantic import BaseModel

from efrit.client.errors import Forbidden, NotFound
from efrit.client.interface import Backend, Handle
from efrit.mcp.calls import Calls
from efrit.mcp.failures import in_words
from efrit.mcp.plan_calls import PlanCalls, described
from efrit.mcp.plan_waiting import where
from efrit.mcp.waiting import sentence

INSTANCES = "efrit://instances"
PLANS = "efrit://plans"
JSON = "application/json"
HTML = "text/html"
PAGE = 100
MOST_COMPLETIONS = 100

_URI = re.compile(
    r"efrit://(?:(instances)(?:/([A-Za-z0-9_-][A-Za-z0-9._-]*))?|requests/([A-Za-z0-9_-][A-Za-z0-9._-]*)(?:/(log|result))?"
    r"|(plans)(?:/([a-z0-9][-a-z0-9]{0,62})(?:/(report))?)?)"
)

TEMPLATES = (
    ResourceTemplate(
        uri_template="efrit://instances/{instance_id}",
        name="instance",
        title="Instance",
        description="One Efrit instance: whether it runs and why, its figures.",
        mime_type=JSON,
    ),
    ResourceTemplate(
        uri_template="efrit://requests/{request_id}",
        name="request",
        title="Request",
        description="A request as it is now, and its answer once it is final.",
        mime_type=JSON,
    ),
    ResourceTemplate(
        uri_template="efrit://requests/{request_id}/result",
        name="result",
        title="Whole result",
        description="The whole result of a finished request, a large one too.",
        mime_type="text/plain",
    ),
    ResourceTemplate(
        uri_template="efrit://requests/{request_id}/log",
        name="log",
        title="Work log",
        description="What a chat or command did, turn by turn: a JSON object a line.",
        mime_type="application/x-ndjson",
    ),
)

_PLAN_TEMPLATES = (
    ResourceTemplate(
        uri_template="efrit://plans/{plan_id}",
        name="plan",
        title="Plan",
        description="A plan as it is now: its tree, the last commits, what was seen last, what it has cost.",
        mime_type=JSON,
    ),
    ResourceTemplate(
        uri_template="efrit://plans/{plan_id}/report",
        name="report",
        title="Report of a plan",
        description="One page with tree, commits, costs and times, made from the plan's repository alone.",
        mime_type=HTML,
    ),
)


def templates(plans: bool) -> tuple[ResourceTemplate, ...]:
    """Those a server tells of, always in the same order."""
    return (*TEMPLATES, *_PLAN_TEMPLATES) if plans else TEMPLATES


@dataclass(frozen=True)
class Page:
    """Some of the resources; `cursor` asks for those after them."""

    resources: Sequence[Resource]
    cursor: str | None


def request_uri(request_id: str, part: str = "") -> str:
    """The URI of a request, or of its `result` or `log`."""
    return f"efrit://requests/{request_id}" + (f"/{part}" if part else "")


def request_at(uri: str) -> Handle | None:
    """The request whose state is at `uri`; None where it is something else."""
    match = _URI.fullmatch(uri)
    return Handle(match[3]) if match is not None and match[3] is not None and match[4] is None else None


async def page(backend: Backend, cursor: str | None, *, plans: bool = False) -> Page:
    """The resources after `cursor`; with `plans`, those too."""
    listed = [
        Resource(
            uri=INSTANCES,
            name="instances",
            title="Instances",
            description="All Efrit instances and what they are doing.",
            mime_type=JSON,
        )
    ]
    for instance in await backend.instances():
        about = f"{instance.status}: {instance.message or instance.reason}"
        uri = f"{INSTANCES}/{instance.id}"
        listed.append(Resource(uri=uri, name=instance.id, title=instance.id, description=about, mime_type=JSON))
    for state in await backend.requests():
        uri = request_uri(state.handle.id)
        kind = state.type.value if state.type is not None else "request"
        listed.append(
            Resource(uri=uri, name=state.handle.id, title=kind, description=sentence(state), mime_type=JSON)
        )
    if plans:
        listed += await _plans(backend)
    listed.sort(key=lambda each: each.uri)
    if cursor is not None:
        if _URI.fullmatch(cursor) is None:
            raise MCPError(INVALID_PARAMS, "this cursor is none of ours: list from the beginning")
        listed = [each for each in listed if each.uri > cursor]
    return Page(listed[:PAGE], listed[PAGE - 1].uri if len(listed) > PAGE else None)


async def _plans(backend: Backend) -> list[Resource]:
    try:
        found = await backend.planning().plans()
    except (Forbidden, NotFound):
        # Who may see instances and requests need not see plans, and an older cluster has none.
        return []
    listed = [Resource(uri=PLANS, name="plans", title="Plans", description="All plans.", mime_type=JSON)]
    for each in found:
        uri = f"{PLANS}/{each.name}"
        listed.append(Resource(uri=uri, name=each.name, title=each.name, description=where(each), mime_type=JSON))
    return listed


async def read(backend: Backend, calls: Calls, uri: str) -> TextResourceContents:
    """What is at `uri`. Raises MCPError where there is nothing."""
    match = _URI.fullmatch(uri)
    if match is None:
        raise missing(uri, "there are efrit://instances and efrit://requests/ID")
    instances, instance, request, part, plans, plan, report = match.groups()
    try:
        if plans:
            return await _read_plan(PlanCalls(backend), uri, plan, report)
        if instances and instance is None:
            return TextResourceContents(uri=uri, mime_type=JSON, text=_json(await calls.list_instances()))
        if instance is not None:
            return TextResourceContents(uri=uri, mime_type=JSON, text=_json(await calls.describe_instance(instance)))
        handle = Handle(request)
        if part == "result":
            return TextResourceContents(uri=uri, mime_type="text/plain", text=await backend.result(handle))
        if part == "log":
            lines = [line.rstrip("\n") + "\n" async for line in backend.log(handle)]
            return TextResourceContents(uri=uri, mime_type="application/x-ndjson", text="".join(lines))
        state = await backend.get(handle)
        return TextResourceContents(uri=uri, mime_type=JSON, text=_json(await calls.described(state)))
    except NotFound as error:
        raise missing(uri, in_words(error)) from None


async def _read_plan(calls: PlanCalls, uri: str, plan: str | None, report: str | None) -> TextResourceContents:
    if plan is None:
        return TextResourceContents(uri=uri, mime_type=JSON, text=_json(await calls.list_plans()))
    if report:
        return TextResourceContents(uri=uri, mime_type=HTML, text=await calls.report(plan))
    return TextResourceContents(uri=uri, mime_type=JSON, text=_json(described(await calls.get(plan))))


async def complete(backend: Backend, argument: str, begun: str) -> list[str]:
    """Names that begin so, for an argument of a template."""
    if argument == "instance_id":
        names = [each.id for each in await backend.instances()]
    elif argument == "request_id":
        names = [each.handle.id for each in await backend.requests()]
    elif argument == "plan_id" and backend.kind == "cluster":
        names = [each.name for each in await backend.planning().plans()]
    else:
        names = []
    return sorted(name for name in names if name.startswith(begun))


def _json(answer: BaseModel) -> str:
    return answer.model_dump_json(exclude_none=True)


def missing(uri: str, why: str) -> MCPError:
    """The protocol's error where there is nothing."""
    return MCPError(INVALID_PARAMS, f"no resource {uri}: {why}", {"uri": uri})
