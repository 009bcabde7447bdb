"""The definition of a tool: everything the server says to clients about it, and the handler of its calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from mcp import types

from efrit.backend.errors import Refused
from efrit.mcp.access import Access, Effect, allows
from efrit.mcp.json_schema import json_schema_of, listed_schema
from efrit.mcp.schema_models import Arguments, Output
from efrit.mcp.tasks import Task
from efrit.mcp.tools.call import ToolCall

A = TypeVar("A", bound=Arguments)

HandlerResult = Output | types.InputRequiredResult | Task
"""Structured output, a question that the client answers by calling again, or work that it asks for later."""


@dataclass(frozen=True)
class Tool(Generic[A]):
    """One tool.

    `permissions`: what a caller over HTTP needs for a named instance, each `verb resource`; `AuthorizedBackend`
    requires them, and more for a long result. `idempotent`: another call with the same arguments changes nothing.
    `reduced` is offered in its place where its effect is not allowed. `only_in`: arguments that one kind of backend
    takes (`local` or `cluster`); the other does not offer them.
    """

    name: str
    title: str
    description: str
    arguments: type[A]
    output: type[Output]
    effect: Effect
    permissions: frozenset[str]
    handler: Callable[[ToolCall, A], Awaitable[HandlerResult]]
    idempotent: bool = False
    open_world: bool = False
    reduced: Tool[A] | None = None
    only_in: Mapping[str, str] = field(default_factory=dict)
    kind: str | None = None

    def offered(self, access: Access, kind: str | None = None) -> Tool[A] | None:
        """Return what a server with `access` offers of this tool: the tool, its reduced form, or None.

        `kind`: that of its backend.
        """
        if allows(access, self.effect):
            return replace(self, kind=kind)
        return self.reduced.offered(access, kind) if self.reduced is not None else None

    def bind(self, arguments: Mapping[str, Any]) -> Callable[[ToolCall], Awaitable[HandlerResult]]:
        """Return the handler with its arguments. Raises `ValidationError`; `Refused` for one of another backend."""
        for name in arguments:
            if name in self._absent and arguments[name] is not None:
                raise Refused(
                    f"{name} is for a {self.only_in[name]} backend, this is a {self.kind} one", "leave it out"
                )
        validated = self.arguments.model_validate(arguments)
        return lambda call: self.handler(call, validated)

    @property
    def _absent(self) -> set[str]:
        return {name for name, kind in self.only_in.items() if self.kind not in (None, kind)}

    def input_schema(self) -> dict[str, Any]:
        """Return the JSON schema of its arguments, without those that its backend would refuse."""
        schema = json_schema_of(self.arguments)
        absent = self._absent
        properties = {name: value for name, value in schema["properties"].items() if name not in absent}
        return {**schema, "properties": properties}

    def to_protocol(self) -> types.Tool:
        """Return the tool as clients see it."""
        reads = self.effect is Effect.READS
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.input_schema(),
            output_schema=listed_schema(self.output, self.output.listed),
            annotations=types.ToolAnnotations(
                read_only_hint=reads,
                destructive_hint=self.effect is Effect.DESTROYS,
                idempotent_hint=self.idempotent or reads,
                open_world_hint=self.open_world,
            ),
        )
