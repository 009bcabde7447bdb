"""A request as it lies in requests/ and travels to the bridge, and the digest that identifies it.

Options left out stay out of the JSON: the Emacs that runs the request fills in its own defaults.
"""

import hashlib
from collections.abc import Callable
from typing import Any, Self

from pydantic import Field, model_validator

from efrit.errors import InvalidRequest, ProtocolError
from efrit.protocol.fields import RequestIdField, SessionId
from efrit.protocol.model import PassThroughModel, PlainJson, canonical_json
from efrit.protocol.states import PROTOCOL_VERSION, RequestType, RetryPolicy
from efrit.protocol.times import Timestamp

Digest = str
"""Lower-case hex sha256, 64 characters."""


class Budget(PassThroughModel):
    """How far a command may go: counts, tokens in and out together, seconds of one turn. None: as far as it likes."""

    max_tool_calls: int | None = Field(default=None, ge=1, le=2**31 - 1)
    max_iterations: int | None = Field(default=None, ge=1, le=2**31 - 1)
    max_tokens: int | None = Field(default=None, ge=1, le=2**53)
    iteration_timeout: float | None = Field(default=None, gt=0, le=604_800)


class SessionOption(PassThroughModel):
    """The session a chat or command continues; Emacs knows which there are."""

    id: SessionId


class RequestOptions(PassThroughModel):
    """How to run it. Seconds and bytes; None means the instance's own default.

    `directory`: an absolute path where Emacs runs, in which the work begins instead of the workspace.
    """

    timeout: float | None = Field(default=None, gt=0, le=604_800)
    return_context: bool = False
    priority: int = Field(default=0, ge=-1_000_000, le=1_000_000)
    retry: RetryPolicy = RetryPolicy.NEVER
    max_attempts: int = Field(default=1, ge=1, le=100)
    max_result_bytes: int | None = Field(default=None, ge=1)
    budget: Budget | None = None
    session: SessionOption | None = None
    directory: str | None = Field(default=None, max_length=4096, pattern=r"^/")


class Request(PassThroughModel):
    """One piece of work. `id` is chosen by the client and makes submitting it idempotent."""

    version: str = Field(default=PROTOCOL_VERSION, pattern=r"^1\.")
    id: RequestIdField
    type: RequestType
    content: str
    options: RequestOptions = RequestOptions()
    timestamp: Timestamp | None = None
    instance_id: str | None = None
    metadata: dict[str, PlainJson] | None = None

    def to_json(self) -> str:
        """Compact JSON without those of our keys that are not set; unknown keys stay, with null too."""
        options: dict[str, Any] = _unset(self.options)
        if self.options.budget is not None:
            options["budget"] = _unset(self.options.budget)
        return self.model_dump_json(exclude={**_unset(self), "options": options})

    def digest(self) -> Digest:
        """sha256 of the canonical JSON of what would be executed; see `digest`."""
        return digest(self)

    @model_validator(mode="after")
    def _every_emacs_can_read_it(self) -> Self:
        waiting: list[Any] = [self.content, self.version, self.instance_id, self.metadata, self.options.directory]
        waiting += [self.model_extra, self.options.model_extra]
        waiting += [part.model_extra for part in (self.options.budget, self.options.session) if part is not None]
        while waiting:
            each = waiting.pop()
            if isinstance(each, str) and "\0" in each:
                raise ValueError("a NUL character is not read by every Emacs: in a Lisp string, write \\0")
            if isinstance(each, int) and not -(2**63) <= each < 2**63:
                raise ValueError("an integer beyond 64 bits is not read by every Emacs")
            if isinstance(each, dict):
                waiting += [*each, *each.values()]
            elif isinstance(each, list):
                waiting += each
        return self

    @classmethod
    def _error(cls) -> Callable[[str], ProtocolError]:
        return InvalidRequest


def _unset(model: PassThroughModel) -> dict[str, bool]:
    return {name: True for name in type(model).model_fields if getattr(model, name) is None}


def digest(request: Request) -> Digest:
    """sha256 over type, content, options and instance_id.

    Options at their default are left out: `{}` and `{"priority": 0}` are the same work, and an option
    added in a later version does not change the digest of a request that was stored before it.
    """
    parts: dict[str, Any] = request.model_dump(
        mode="json", include={"type", "content", "instance_id"}, exclude_none=True
    )
    options = request.options.model_dump(mode="json", exclude_defaults=True)
    parts["options"] = {key: _whole(value) for key, value in options.items()}
    return hashlib.sha256(canonical_json(parts)).hexdigest()


def _whole(value: Any) -> Any:
    """30.0 as 30: clients that know one kind of number only must get the same digest."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value
