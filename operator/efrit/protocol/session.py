"""What a chat or a command reports of itself: how far it has come, where its session stands, what the model cost.

In answers and in the lines of a work log; `Progress` and `Usage` in the status of a request too. Texts have no bounds
here: whoever shows them to people cuts them.
"""

from typing import Annotated

from msgspec import Meta, field

from efrit.protocol.enums import SessionStatus
from efrit.protocol.fields import SessionId
from efrit.protocol.model import Count, PassThroughModel, WireModel

ErrorKind = Annotated[str, Meta(max_length=64)]
"""Why a call to the model failed: an HTTP status, or a word of efrit-model.el."""


_WORDS = {"connect", "tls", "timeout", "cut", "authentication", "refused", "protocol", "no-curl", "no-key"}


def kind_label(kind: str) -> str:
    """Return `kind` as the label of a metric: an HTTP status or a known word, else `other`."""
    status = len(kind) == 3 and kind.isascii() and kind.isdigit() and kind[0] in "45"
    return kind if status or kind in _WORDS else "other"


class Session(PassThroughModel, frozen=True):
    """Where a session stands; `question` is there with `need-input`."""

    id: SessionId
    status: SessionStatus | None = None
    question: str | None = None


class Progress(WireModel, frozen=True):
    """How far a chat or command has come; once it is final, how far it came."""

    step: Annotated[Count | None, Meta(description="Number of the current step.")] = None
    message: Annotated[str | None, Meta(description="What it is doing.")] = None
    tool_calls: Annotated[Count | None, Meta(description="Tool calls so far.")] = None
    tokens: Annotated[Count | None, Meta(description="Tokens so far, in and out.")] = None
    session: Annotated[SessionId | None, Meta(description="Id to continue the session with.")] = None


class Usage(PassThroughModel, frozen=True):
    """What a chat or command used of the model."""

    input_tokens: Annotated[Count, Meta(description="Tokens sent, those from the cache not included.")] = 0
    output_tokens: Annotated[Count, Meta(description="Tokens received.")] = 0
    cache_read_tokens: Annotated[Count, Meta(description="Tokens sent that the model had in its cache.")] = 0
    cache_write_tokens: Annotated[Count, Meta(description="Tokens the model wrote into its cache.")] = 0
    model_calls: Annotated[Count, Meta(description="Turns of the model.")] = 0
    model_errors: Annotated[
        dict[ErrorKind, Count],
        Meta(max_length=64, description="Calls to the model that failed, by HTTP status or kind."),
    ] = field(default_factory=dict)
