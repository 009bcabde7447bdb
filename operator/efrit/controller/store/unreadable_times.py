"""Reads an object whose status has times that we cannot read: they count as absent.

Kubernetes takes the year 0 and a second 60, and whoever may write a status may write that. A controller that did not
see the object would neither answer nor count it.
"""

from __future__ import annotations

import copy
import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from efrit.api.meta import Resource

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Resource)
Place = tuple[str | int, ...]

MAX_REPORTED = 1000
"""Objects of which it is remembered that they were reported."""
MAX_NAMED = 5
"""Times that are named in the log, of one object."""

LONG_AGO = "0001-01-01T00:00:00Z"
"""What a condition has for its time: it has to have one."""
TIME_OF_CONDITION = "lastTransitionTime"


class ObjectReader:
    """Reads objects, and reports in the log what it reads otherwise than it is there: once for each object."""

    def __init__(self) -> None:
        self._reported: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        """By UID, those reported last at the end: which times of it."""

    def read(self, model: type[T], obj: Mapping[str, Any]) -> T:
        """Return an object. Raises ValidationError where more than times of its status cannot be read."""
        try:
            return model.model_validate(obj)
        except ValidationError as error:
            places = [_place(problem) for problem in error.errors(include_url=False, include_context=False)]
            if None in places:
                raise
            read = model.model_validate(_without(obj, list(filter(None, places))))  # gate: unreadable-times
            self._report(read, tuple(".".join(map(str, place)) for place in places if place is not None))
            return read

    def _report(self, obj: Resource, places: tuple[str, ...]) -> None:
        meta = obj.metadata
        is_new = self._reported.pop(meta.uid, None) != places
        self._reported[meta.uid] = places
        if len(self._reported) > MAX_REPORTED:
            self._reported.popitem(last=False)
        if is_new:
            log.warning(
                "%s %s/%s has times that cannot be read, which count as absent: %s",
                obj.kind,
                meta.namespace,
                meta.name,
                ", ".join(places[:MAX_NAMED]),
            )


def _place(problem: ErrorDetails) -> Place | None:
    """Return where in a status a time is that cannot be read; None for any other problem."""
    place = problem["loc"]
    is_time = problem["type"].startswith("datetime_") and place[0] == "status" and isinstance(problem["input"], str)
    return place if is_time else None


def _without(obj: Mapping[str, Any], places: Iterable[Place]) -> Mapping[str, Any]:
    """Return an object without these members of its status; the object itself is left as it is."""
    readable = {**obj, "status": copy.deepcopy(obj["status"])}
    for place in places:
        parent = _at(readable, place[:-1])
        if isinstance(parent, dict) and place[-1] == TIME_OF_CONDITION:
            parent[TIME_OF_CONDITION] = LONG_AGO
        elif isinstance(parent, dict):
            parent.pop(place[-1], None)
    return readable


def _at(obj: Any, place: Place) -> Any:
    for step in place:
        try:
            obj = obj[step]
        except (KeyError, IndexError, TypeError):
            return None
    return obj
