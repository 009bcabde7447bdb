"""The command `efrit-operator`: the controller, or with `mcp` as its first word the MCP server.

A package runner (uvx, pipx run) that starts a package starts the command of its name: `uvx efrit-operator mcp`.
"""

import sys

from efrit.entry_point import load_entry_point


def main() -> None:
    """Run the controller or the MCP server; neither is imported for the other."""
    if sys.argv[1:2] == ["mcp"]:
        load_entry_point("efrit.mcp.app:main")(sys.argv[2:])
    else:
        load_entry_point("efrit.controller.app:main")()
