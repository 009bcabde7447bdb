"""What a decision about a plan rests on: the plan, and its requests by step and part. Pure.

A request is found by its name, and the name follows from plan, step, part and attempt alone: whoever decides again,
in whatever process, finds the requests that were made before.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from efrit.api import EfritPlan, EfritRequest, RequestReason
from efrit.protocol import RequestType
from efrit.protocol.plan_enums import PlanStep

MAX_ATTEMPTS = 3
"""How often one call of efrit-plan.el is made."""


class Part(StrEnum):
    """One question of a step; an eval calls the function `efrit-plan-PART`."""

    BEGIN = "begin"
    LOOK = "look"
    AMEND = "amend"
    ACT = "act"
    COMMIT_ACT = "commit-act"
    FACTS = "facts"
    ASSESS = "assess"
    ASSESS_REPAIR = "assess-repair"
    ADAPT = "adapt"
    ADAPT_REPAIR = "adapt-repair"
    ADAPT_REFUSED = "adapt-refused"
    COMMIT_ADAPT = "commit-adapt"

    @property
    def request_type(self) -> RequestType:
        """Return the type of the request that answers it."""
        return _TYPES.get(self, RequestType.EVAL)

    @property
    def phase(self) -> PlanStep:
        """Return what the status names meanwhile."""
        return _PHASES[self]


COMMITS = frozenset({Part.COMMIT_ACT, Part.COMMIT_ADAPT, Part.AMEND})
# A tuple: seconds are summed up in this order, and float sums depend on it.
SESSIONS = (Part.ACT, Part.ASSESS, Part.ASSESS_REPAIR, Part.ADAPT, Part.ADAPT_REPAIR, Part.ADAPT_REFUSED)

_TYPES = {**dict.fromkeys(SESSIONS, RequestType.CHAT), Part.ACT: RequestType.COMMAND}
_PHASES = {
    **dict.fromkeys((Part.BEGIN, Part.LOOK), PlanStep.BEGIN),
    **dict.fromkeys((Part.ACT, Part.COMMIT_ACT), PlanStep.ACT),
    **dict.fromkeys((Part.FACTS, Part.ASSESS, Part.ASSESS_REPAIR), PlanStep.ASSESS),
    **dict.fromkeys((Part.ADAPT, Part.ADAPT_REPAIR, Part.ADAPT_REFUSED, Part.COMMIT_ADAPT), PlanStep.ADAPT),
    Part.AMEND: PlanStep.AMEND,
}


_STEP_AND_PART = re.compile(r"(?P<step>[0-9]+)-(?P<part>.+?)(-[0-9]+)?", re.DOTALL)


@dataclass(frozen=True)
class Snapshot:
    """A plan and everything that is recorded about it."""

    plan: EfritPlan
    requests: Mapping[str, EfritRequest]
    """The plan's own requests by name."""
    results: Mapping[str, str]
    """Their results by name, whole."""
    credentials: str | None = None
    """Directory where the instance has mounted the Secret of the repository."""
    max_content_bytes: int = 65_536
    """The longest content the instance takes."""
    max_session_tokens: int | None = None
    """The most tokens the instance allows one session."""
    max_timeout_seconds: int | None = None
    """The longest time the instance allows one request."""
    workspace: str = "/workspace"
    """Directory below which the instance has the plan's repository."""

    @cached_property
    def _prefix(self) -> str:
        meta = self.plan.metadata
        digest = hashlib.sha256(meta.uid.encode()).hexdigest()[:8]
        return f"{meta.name[:30].rstrip('-.')}-{digest}-"

    def name(self, step: int, part: str) -> str:
        """Return the name of a request: short enough for a label, and never that of another plan's request."""
        return f"{self._prefix}{step}-{part}"

    def allowed_seconds(self, seconds: int) -> int:
        """Return the time for a request that is best given `seconds`."""
        return min(seconds, self.max_timeout_seconds or seconds)

    def request(self, step: int, part: str) -> EfritRequest | None:
        """Return the request of this part if it was created."""
        return self.requests.get(self.name(step, part))

    def succeeded(self, step: int, part: Part) -> EfritRequest | None:
        """Return the attempt at this part that succeeded."""
        if (step, part) not in self._succeeded:
            return None
        attempts = (self.request(step, attempt) for attempt in attempts_at(part))
        return next((request for request in attempts if request is not None and _has_succeeded(request)), None)

    def text(self, request: EfritRequest) -> str:
        """Return the whole result of a final request."""
        return self.results.get(request.metadata.name, request.status.result or "")

    @cached_property
    def recorded(self) -> tuple[tuple[EfritRequest, int, str], ...]:
        """Every request with its step and its part, which is the same for all attempts."""
        return tuple(
            (request, int(match["step"]), match["part"])
            for name, request in self.requests.items()
            if name.startswith(self._prefix) and (match := _STEP_AND_PART.fullmatch(name, len(self._prefix)))
        )

    @cached_property
    def _succeeded(self) -> frozenset[tuple[int, str]]:
        """Steps and parts with an attempt that succeeded: most that is asked for has none."""
        return frozenset((step, part) for request, step, part in self.recorded if _has_succeeded(request))

    def recorded_results(self, *parts: Part) -> Iterator[EfritRequest]:
        """Yield the requests of these parts that succeeded, of any step."""
        return (request for request, _, part in self.recorded if part in parts and _has_succeeded(request))


def attempts_at(part: Part) -> Iterator[str]:
    """Yield the names of the attempts at one part, in order."""
    yield part.value
    for number in range(2, MAX_ATTEMPTS + 1):
        yield f"{part}-{number}"


def problem(request: EfritRequest) -> str:
    """Return how a request ended, as a sentence without its subject."""
    error = request.status.error
    return f"ended {request.status.reason}: {error.message if error else 'without a message'}"


def _has_succeeded(request: EfritRequest) -> bool:
    return request.final and request.status.reason == RequestReason.SUCCEEDED
