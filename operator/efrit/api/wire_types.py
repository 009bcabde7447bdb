"""Types of the wire as fields of a resource: defined in `efrit.protocol`, spelled as Kubernetes spells them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta
from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from efrit.api.meta import Time
from efrit.protocol.enums import RetryPolicy
from efrit.protocol.plan_enums import CommitKind
from efrit.protocol.plan_values import Commit, Cost, Counts, Observation, Task
from efrit.protocol.request import Budget
from efrit.protocol.resource_case import resource_names, resource_word
from efrit.protocol.session import Progress, Usage
from efrit.struct_field import StructField

MAX_TIMEOUT_SECONDS = 86_400
MAX_PROGRESS_CHARS = 1024


def _word(kind: type[StrEnum]) -> list[Any]:
    """Return the annotations of a field that has a word of `kind` in the case of a resource."""
    words = {resource_word(word): word for word in kind}

    def read(value: object) -> object:
        if isinstance(value, kind):
            return value
        if value not in words:
            raise ValueError(f"Input should be {' or '.join(words)}")
        return words[str(value)]

    return [
        BeforeValidator(read),
        PlainSerializer(resource_word, return_type=str),
        WithJsonSchema({"enum": list(words), "type": "string"}),
    ]


RetryPolicyField = Annotated[RetryPolicy, *_word(RetryPolicy)]


def _at_most(limit: int, description: str) -> Any:
    return Annotated[int | None, Meta(ge=1, le=limit, description=description)]


BudgetField = Annotated[
    Budget,
    StructField(
        resource_names,
        # A resource asks for less than the wire carries, and for whole seconds.
        overrides={
            "max_tool_calls": _at_most(10_000, "Tool calls; at most the instance's limits.maxToolCalls."),
            "max_iterations": _at_most(10_000, "Turns of the model; at most limits.maxIterations."),
            "max_tokens": _at_most(100_000_000, "Tokens in and out, together; at most limits.maxTokens."),
            "iteration_timeout": _at_most(
                MAX_TIMEOUT_SECONDS, "Longest time of one turn, in seconds; at most limits.iterationTimeoutSeconds."
            ),
        },
    ),
]
ProgressField = Annotated[
    Progress,
    StructField(
        # A status has the session beside the progress.
        lambda kind: {name: key for name, key in resource_names(kind).items() if name != "session"},
        # The published bounds: of the text, which is shown here, and none from above of the numbers.
        overrides={
            "message": Annotated[str | None, Meta(max_length=MAX_PROGRESS_CHARS)],
            **dict.fromkeys(("step", "tool_calls", "tokens"), Annotated[int | None, Meta(ge=0)]),
        },
    ),
]
UsageField = Annotated[Usage, StructField(resource_names)]

TaskField = Annotated[Task, StructField(resource_names)]
CommitField = Annotated[
    Commit,
    StructField(
        resource_names,
        # Only commits of the plan itself are in a status, and they are bounded there.
        overrides={
            "hash": Annotated[str, Meta(max_length=64)],
            "subject": Annotated[str, Meta(max_length=256)],
            "kind": CommitKind,
            "task": Annotated[str | None, Meta(max_length=128)],
            "step": Annotated[int, Meta(ge=0)],
            "time": Time | None,
        },
        required=("hash", "subject", "kind", "step"),
    ),
]
ObservationField = Annotated[Observation, StructField(resource_names)]
CountsField = Annotated[Counts, StructField(resource_names)]
CostField = Annotated[Cost, StructField(resource_names)]
