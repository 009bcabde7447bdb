"""All tools, in the order clients see them. A new tool goes into the `TOOLS` of its subject's module."""

from __future__ import annotations

from typing import Any

from efrit.mcp.access import Access
from efrit.mcp.tools import claims, execute, instances, plans, pools, requests
from efrit.mcp.tools.tool import Tool

TOOLS: tuple[Tool[Any], ...] = (*execute.TOOLS, *instances.TOOLS, *requests.TOOLS)
CLUSTER_TOOLS: tuple[Tool[Any], ...] = (*plans.TOOLS, *pools.TOOLS, *claims.TOOLS)
"""Of what only a cluster has."""


def offered_tools(access: Access, *, plans: bool = False) -> tuple[Tool[Any], ...]:
    """Return the tools a server with `access` offers, always in the same order.

    `plans`: its backend is a cluster, which has plans, pools and claims.
    """
    every = (*TOOLS, *CLUSTER_TOOLS) if plans else TOOLS
    offered = (tool.offered(access, "cluster" if plans else "local") for tool in every)
    return tuple(tool for tool in offered if tool is not None)
