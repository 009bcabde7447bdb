"""A request as it lies in requests/ and travels to the bridge, and the digest that identifies it.

Options left out stay out of the JSON: the Emacs that runs the request fills in its own defaults.
"""

import hashlib
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import fields

from efrit.errors import InvalidRequest, ProtocolError
from efrit.protocol.enums import PROTOCOL_VERSION, RequestType, RetryPolicy
from efrit.protocol.fields import RequestIdField, SessionId
from efrit.protocol.model import PassThroughModel, canonical_json
from efrit.protocol.resource_case import IN_SECONDS

Digest = str
"""Lower-case hex sha256, 64 characters."""


_Number = Annotated[int, Meta(ge=1, le=2**31 - 1)]
_Tokens = Annotated[int, Meta(ge=1, le=2**53)]
_Seconds = Annotated[float, Meta(gt=0, le=604_800)]


class _Sparse(PassThroughModel, frozen=True, kw_only=True):
    """What is not set stays out of the JSON; unknown keys stay in it, with null too."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that this is on the wire."""
        unset = {name for name in self.__struct_fields__ if getattr(self, name) is None}
        return {name: value for name, value in super().to_dict().items() if name not in unset}


class Budget(_Sparse, frozen=True):
    """Upper bounds of one command. None: as far as it likes."""

    max_tool_calls: Annotated[_Number | None, Meta(description="Tool calls.")] = None
    max_iterations: Annotated[_Number | None, Meta(description="Turns of the model.")] = None
    max_tokens: Annotated[_Tokens | None, Meta(description="Tokens in and out, together.")] = None
    iteration_timeout: Annotated[
        _Seconds | None, Meta(description="Longest time of one turn, in seconds.", extra=IN_SECONDS)
    ] = None


class SessionOption(PassThroughModel, frozen=True, kw_only=True):
    """The session a chat or command continues; Emacs knows which there are."""

    id: SessionId


class RequestOptions(_Sparse, frozen=True, kw_only=True):
    """How to run it. Seconds and bytes; None means the instance's own default.

    `directory`: an absolute path where Emacs runs, in which the work begins instead of the workspace.
    """

    timeout: _Seconds | None = None
    return_context: bool = False
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] = 0
    retry: RetryPolicy = RetryPolicy.NEVER
    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 1
    max_result_bytes: Annotated[int, Meta(ge=1)] | None = None
    budget: Budget | None = None
    session: SessionOption | None = None
    directory: Annotated[str, Meta(max_length=4096, pattern="^/")] | None = None


class Request(_Sparse, frozen=True, kw_only=True):
    """One piece of work. `id` is chosen by the client and makes submitting it idempotent."""

    version: Annotated[str, Meta(pattern=r"^1\.")] = PROTOCOL_VERSION
    id: RequestIdField
    type: RequestType
    content: str
    options: RequestOptions = RequestOptions()
    timestamp: datetime | None = None
    instance_id: str | None = None
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        """Raise `ValueError` for what not every Emacs can read."""
        super().__post_init__()
        options = self.options
        remaining: list[Any] = [self.content, self.version, self.instance_id, self.metadata, options.directory]
        remaining += [part.extra for part in (self, options, options.budget, options.session) if part is not None]
        while remaining:
            value = remaining.pop()
            if isinstance(value, str) and "\0" in value:
                raise ValueError("a NUL character is not read by every Emacs: in a Lisp string, write \\0")
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise ValueError("an integer beyond 64 bits is not read by every Emacs")
            if isinstance(value, dict):
                remaining += [*value, *value.values()]
            elif isinstance(value, list):
                remaining += value

    def digest(self) -> Digest:
        """Return the sha256 of the canonical JSON of what would be executed; see `digest`."""
        return digest(self)

    @classmethod
    def _error(cls) -> Callable[[str], ProtocolError]:
        return InvalidRequest


def digest(request: Request) -> Digest:
    """Return the sha256 over type, content, options and instance_id.

    Options at their default are left out: `{}` and `{"priority": 0}` are the same work, and an option
    added in a later version does not change the digest of a request that was stored before it.
    """
    parts: dict[str, Any] = {"type": request.type, "content": request.content}
    if request.instance_id is not None:
        parts["instance_id"] = request.instance_id
    parts["options"] = _integral(_without_defaults(request.options))
    return hashlib.sha256(canonical_json(parts)).hexdigest()


def _without_defaults(model: PassThroughModel) -> dict[str, Any]:
    changed: dict[str, Any] = dict(model.extra)
    for name, default in _defaults(type(model)).items():
        value = getattr(model, name)
        if value != default:
            changed[name] = _without_defaults(value) if isinstance(value, PassThroughModel) else value
    return changed


@cache
def _defaults(kind: type[PassThroughModel]) -> dict[str, Any]:
    return {field.name: field.default for field in fields(kind) if field.name != "extra"}


def _integral(value: Any) -> Any:
    """Return 30.0 as 30: clients that know one kind of number only must get the same digest."""
    if isinstance(value, dict):
        return {key: _integral(member) for key, member in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value
