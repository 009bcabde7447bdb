"""Examples of every CEL rule of an EfritClaim, as examples.py has them for the other resources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.integration.api.examples import Example, Rule, group
from tests.support.kube import Json
from tests.support.manifest_schema import BASES

CLAIMS = "efritclaims"
CLAIM_STATUS: Json = {"phase": "Expired", "instanceName": "one", "completionTime": "2026-01-01T00:00:00Z"}
CHANGES: dict[str, tuple[Any, Any]] = {
    "poolRef": ({"name": "a"}, {"name": "b"}),
    "holder": ("ada", "bob"),
    "release": ("Recycle", "Return"),
    "ttlSecondsAfterFinished": (10, 20),
}


def claim(**spec: Any) -> Json:
    """Return a claim."""
    return {"spec": {**BASES[CLAIMS]["spec"], **spec}}


def claim_examples() -> list[Example]:
    """Return all examples."""
    return [*_name(), *_changes(), *_immutable(), *_final()]


def _name() -> Iterator[Example]:
    yield from group(
        Rule(CLAIMS, "", "metadata.name is also a label of the member"),
        {"the longest": {**claim(), "metadata": {"name": "x" * 63}}},
        {"a longer one": {**claim(), "metadata": {"name": "x" * 64}}},
    )


def _changes() -> Iterator[Example]:
    longer = Rule(CLAIMS, "spec", "spec.ttlSeconds can only grow")
    for seconds, accepted in ((60, True), (61, True), (59, False)):
        yield Example(longer, f"{seconds} s", claim(ttlSeconds=seconds), accepted, old=claim(ttlSeconds=60))
    released = Rule(CLAIMS, "spec", "spec.released cannot be taken back")
    yield Example(released, "released", claim(released=True), accepted=True, old=claim())
    yield Example(released, "taken back", claim(released=False), accepted=False, old=claim(released=True))


def _immutable() -> Iterator[Example]:
    for field, (before, after) in CHANGES.items():
        rule, old = Rule(CLAIMS, "spec", f"spec.{field} is immutable"), claim(**{field: before})
        yield Example(rule, f"{field} kept", old, accepted=True, old=old)
        yield Example(rule, f"{field} changed", claim(**{field: after}), accepted=False, old=old)


def _final() -> Iterator[Example]:
    rule = Rule(CLAIMS, "", "the status of an EfritClaim that has ended is final")
    for phase in ("Expired", "Released", "Failed"):
        done = {"status": {**CLAIM_STATUS, "phase": phase}}
        yield Example(rule, f"{phase} again", done, accepted=True, old=done, sub="status")
        bound = {"status": {**CLAIM_STATUS, "phase": "Bound"}}
        yield Example(rule, f"{phase} to Bound", bound, accepted=False, old=done, sub="status")
        yield Example(rule, f"{phase} removed", {}, accepted=False, old=done, sub="status")
        yield Example(rule, f"Bound to {phase}", done, accepted=True, old=bound, sub="status")
