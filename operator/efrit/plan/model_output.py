"""The output of a model, parsed strictly: observations or the navigator's answer, or sentences about what is wrong.

Any text gives one or the other, never an exception. `operations` applies an answer to a tree. The docstrings of the
models are part of the JSON schema, and so of the prompt.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from efrit.api.plan import MAX_OBSERVATIONS
from efrit.plan.operations import Answer
from efrit.protocol.json_limits import MAX_PARTS, exceeds_part_limit
from efrit.protocol.model import error_line
from efrit.protocol.plan_enums import Perspective
from efrit.protocol.plan_values import Observation

LONGEST_TEXT = 2_000

_Model = TypeVar("_Model", bound=BaseModel)
# The fence begins and ends a line, so that one inside a JSON string is none.
_FENCE = re.compile(r"^[ \t]*```[A-Za-z]*[ \t]*\n(.*?)\n[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE)


class AnsweredObservation(BaseModel):
    """One fact: what was seen, and where. There is no place for what follows from it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    perspective: Perspective
    statement: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
    evidence: Annotated[str, Field(max_length=LONGEST_TEXT)] = ""

    def observation(self) -> Observation:
        """Return the observation of the plan that it is from now on."""
        return Observation(self.perspective, self.statement, self.evidence)


class Observations(BaseModel):
    """What an assessor answers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    observations: Annotated[tuple[AnsweredObservation, ...], Field(max_length=MAX_OBSERVATIONS)]


@dataclass(frozen=True, slots=True)
class Malformed:
    """What is wrong with a text, in sentences for the model that wrote it."""

    sentences: tuple[str, ...]


def parse_observations(text: str) -> Observations | Malformed:
    """Return the observations in `text`: a JSON object, bare or in one code fence."""
    return _parsed(Observations, text)


def parse_answer(text: str) -> Answer | Malformed:
    """Return the navigator's answer in `text`: a JSON object, bare or in one code fence."""
    return _parsed(Answer, text)


@cache  # Of the two models of answers.
def schema_text(model: type[BaseModel]) -> str:
    """Return the JSON schema of a model as text for a prompt."""
    text = json.dumps(model.model_json_schema(), separators=(",", ":"))
    # The model is told the name of what its answer becomes.
    return text.replace(AnsweredObservation.__name__, Observation.__name__)


def _parsed(model: type[_Model], text: str) -> _Model | Malformed:
    bare = _without_fence(text)
    if isinstance(bare, Malformed):
        return bare
    data = bare.encode("utf-8", "replace")
    if exceeds_part_limit(data):
        return Malformed((f"It has more than {MAX_PARTS} parts.",))
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        return Malformed((f"It is not what the schema says: {error_line(error)}.",))


def _without_fence(text: str) -> str | Malformed:
    """Return the text without the code fence around its JSON, if there is one."""
    text = text.strip()
    if not text:
        return Malformed(("The answer is empty.",))
    if text.startswith("{"):
        return text
    match _FENCE.findall(text):
        case []:
            return Malformed(("There is no JSON object in it: answer with the object alone, without words around.",))
        case [inner]:
            return str(inner)
        case several:
            return Malformed((f"There are {len(several)} code blocks in it: answer with one JSON object.",))
