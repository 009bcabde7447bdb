"""The command `efrit-operator`: the controller, or with `mcp` as its first word the MCP server.

A package runner (uvx, pipx run) that starts a package starts the command of its name: `uvx efrit-operator mcp`.
"""

import sys


def main() -> None:
    """Run the controller or the MCP server; neither is imported for the other."""
    if sys.argv[1:2] == ["mcp"]:
        from efrit.mcp.app import main as serve

        serve(sys.argv[2:])
        return
    from efrit.controller.app import main as control

    control()
