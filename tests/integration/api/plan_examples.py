"""Examples of every CEL rule of an EfritPlan, as examples.py has them for the other resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from efrit.api import PlanStatus
from efrit.api.plan import MAX_AMENDMENTS
from tests.integration.api.examples import Example, Rule, group
from tests.support.kube import Json
from tests.support.manifest_schema import BASES

PLANS = "efritplans"


def plan(**spec: Any) -> Json:
    """Return a plan; a field set to None is left out."""
    whole = {**BASES[PLANS]["spec"], **spec}
    return {"spec": {key: value for key, value in whole.items() if value is not None}}


def plan_examples() -> list[Example]:
    """Return all examples."""
    return [
        *_targets(),
        *_intent(),
        *_amendments(),
        *_tasks(),
        *_git(),
        *_cancel(),
        *_immutable(),
        *_names(),
        *_final(),
    ]


def _targets() -> Iterator[Example]:
    to, pool = {"name": "one"}, {"name": "many"}
    yield from group(
        Rule(PLANS, "spec", "name exactly one target"),
        {"an instance": plan(instanceRef=to), "a pool": plan(instanceRef=None, poolRef=pool)},
        {"no target": plan(instanceRef=None), "an instance and a pool": plan(instanceRef=to, poolRef=pool)},
    )


def _intent() -> Iterator[Example]:
    whole = {"description": "Build it.", "acceptanceCriteria": ["It runs."], "constraints": ["No network."]}
    yield from group(
        Rule(PLANS, "spec", "spec.intent is immutable"),
        {
            "kept": plan(intent=whole),
            "kept beside an amendment": plan(intent=whole, amendments=["And test it."]),
            "kept beside what may change": plan(
                intent=whole, suspend=True, limits={"maxSteps": 3}, assess={"build": ["make"]}, act={}
            ),
        },
        {
            "another description": plan(intent={**whole, "description": "Build that."}),
            "a criterion more": plan(intent={**whole, "acceptanceCriteria": ["It runs.", "It is fast."]}),
            "no criteria": plan(intent={key: whole[key] for key in ("description", "constraints")}),
            "another constraint": plan(intent={**whole, "constraints": ["No cost."]}),
        },
        plan(intent=whole),
    )


def _amendments() -> Iterator[Example]:
    rule = Rule(PLANS, "spec", "spec.amendments only grows at its end")
    amendments = ["First.", "Second."]
    yield from group(
        rule,
        {"kept": plan(amendments=amendments), "added": plan(amendments=[*amendments, "Third.", "Fourth."])},
        {
            "changed": plan(amendments=["First.", "Other."]),
            "the first changed": plan(amendments=["Other.", "Second.", "Third."]),
            "the last taken back": plan(amendments=amendments[:1]),
            "the first taken back": plan(amendments=amendments[1:]),
            "another order": plan(amendments=amendments[::-1]),
            "put in front": plan(amendments=["Third.", *amendments]),
            "emptied": plan(amendments=[]),
            "removed": plan(),
        },
        plan(amendments=amendments),
    )
    yield from group(rule, {"the first": plan(amendments=amendments), "still none": plan()}, {}, plan())
    many = [f"Amendment {number}." for number in range(MAX_AMENDMENTS)]
    yield from group(
        rule,
        {"the last that fits": plan(amendments=many)},
        {"the last but one changed": plan(amendments=[*many[:-2], "Other.", many[-1]])},
        plan(amendments=many[:-1]),
    )
    yield from group(
        rule, {}, {"the very last changed": plan(amendments=[*many[:-1], "Other."])}, plan(amendments=many)
    )


def _task(name: str, **more: str) -> Json:
    return {"name": name, "description": "Do it.", **more}


def _tasks() -> Iterator[Example]:
    def of(*tasks: Json) -> Json:
        return plan(tasks=list(tasks))

    parts, part = _task("parts", type="parent"), _task("part", parent="parts")
    yield from group(
        Rule(PLANS, "spec", "every task of spec.tasks has a name of its own"),
        {"two names": of(_task("a"), _task("b")), "none": plan()},
        {"one name twice": of(_task("a"), _task("a")), "far apart": of(_task("a"), _task("b"), _task("a"))},
    )
    yield from group(
        Rule(PLANS, "spec", "the parent of a task is a task of spec.tasks"),
        {"a parent": of(parts, part), "a later parent": of(part, parts), "the root": of(_task("a"))},
        {"nobody": of(part), "an atomic one": of(_task("parts", type="atomic"), part)},
    )
    yield from group(
        Rule(PLANS, "spec.tasks[]", "the root is there already"),
        {"roots": of(_task("roots"))},
        {"root": of(_task("root"))},
    )
    yield from group(
        Rule(PLANS, "spec.tasks[]", "a task cannot be a part of itself"),
        {"of another": of(parts, part)},
        {"of itself": of(_task("a", type="parent", parent="a"))},
    )


def _git() -> Iterator[Example]:
    def of(url: str = "https://git.example.org/team/app.git", **more: str) -> Json:
        return plan(environment={"git": {"url": url, **more}})

    yield from group(
        Rule(PLANS, "spec.environment.git", "a password in the URL"),
        {
            url: of(url)
            for url in (
                "https://git.example.org/a.git",
                "https://git.example.org:8443/a.git",
                "https://me@git.example.org/a",
                "https://git.example.org/a:b@c",
                "ssh://git@git.example.org:22/a.git",
                "git@git.example.org:team/a.git",
                "file:///workspace/a.git",
            )
        },
        {url: of(url) for url in ("https://me:secret@git.example.org/a", "https://:token@git.example.org:1/a")},
    )
    for field in ("branch", "revision"):
        yield from group(
            Rule(PLANS, "spec.environment.git", f"{field} names a range"),
            {value: of(**{field: value}) for value in ("main", "release/1.2", "0123abcd")},
            {value: of(**{field: value}) for value in ("main..next", "a...b")},
        )


def _cancel() -> Iterator[Example]:
    rule = Rule(PLANS, "spec", "spec.cancel cannot be taken back")
    yield Example(rule, "cancelled", plan(cancel=True), accepted=True, old=plan(cancel=False))
    yield Example(rule, "still cancelled", plan(cancel=True), accepted=True, old=plan(cancel=True))
    yield Example(rule, "taken back", plan(cancel=False), accepted=False, old=plan(cancel=True))
    yield Example(rule, "left out again", plan(), accepted=False, old=plan(cancel=True))


CHANGES: Mapping[str, tuple[Any, Any, Json]] = {
    "tasks": ([_task("a")], [_task("a"), _task("b")], {}),
    "instanceRef": ({"name": "a"}, {"name": "b"}, {}),
    "poolRef": ({"name": "a"}, {"name": "b"}, {"instanceRef": None}),
    "environment": ({"git": {"url": "https://a/b"}}, {"git": {"url": "https://a/c"}}, {}),
}
"""Field -> two values and what the rest of the spec needs beside them."""


def _immutable() -> Iterator[Example]:
    for field, (before, after, beside) in CHANGES.items():
        rule = Rule(PLANS, "spec", f"spec.{field} is immutable")
        old, new = plan(**{**beside, field: before}), plan(**{**beside, field: after})
        yield Example(rule, f"{field} kept", old, accepted=True, old=old)
        yield Example(rule, f"{field} changed", new, accepted=False, old=old)
        if not field.endswith("Ref"):
            yield Example(rule, f"{field} added", new, accepted=False, old=plan())
            yield Example(rule, f"{field} removed", plan(), accepted=False, old=old)


def _names() -> Iterator[Example]:
    def named(name: str) -> Json:
        return {"metadata": {"name": name}, **plan()}

    yield from group(
        Rule(PLANS, "", "metadata.name names a directory and a branch"),
        {name[:10]: named(name) for name in ("a", "a" * 63, "1-team")},
        {name[:10]: named(name) for name in ("b" * 64, "a.lock", "a.b")},
    )


TIME = "2026-01-01T00:00:00Z"
PLAN_STATUS: Mapping[str, tuple[Any, Any]] = {
    "phase": ("Succeeded", "Failed"),
    "observedGeneration": (1, 2),
    "conditions": (
        [
            {
                "type": "Complete",
                "status": "True",
                "reason": "Succeeded",
                "message": "Done.",
                "lastTransitionTime": TIME,
            }
        ],
        [],
    ),
    "reason": ("Succeeded", "TaskFailed"),
    "outcome": ("Success", "Failure"),
    "instanceName": ("one", "two"),
    "currentTask": ("root", "other"),
    "step": ("Adapt", "Act"),
    "currentRequest": ("a-1-act", "a-2-act"),
    "commitCount": (3, 4),
    "tree": ([{"id": "root", "type": "parent", "description": "All.", "failureThreshold": 0.2, "state": "done"}], []),
    "commits": ([{"hash": "0" * 40, "subject": "[begin] PLAN: All.", "kind": "begin", "step": 0, "time": TIME}], []),
    "observations": (
        [{"perspective": "build", "statement": "It builds."}],
        [{"perspective": "quality", "statement": "It is long."}],
    ),
    "counts": ({"tasks": 1, "done": 1}, {"tasks": 2, "done": 1}),
    "cost": ({"inputTokens": 1}, {"inputTokens": 2}),
    "startTime": (TIME, "2026-01-02T00:00:00Z"),
    "completionTime": (TIME, "2026-01-02T00:00:00Z"),
}
"""Each field of a final status -> its value and another one."""

FINAL_PLAN: Json = {field: value for field, (value, _) in PLAN_STATUS.items()}


def plan_status_fields() -> set[str]:
    """Return the names of all fields of a plan's status, as written."""
    return {field.alias or name for name, field in PlanStatus.model_fields.items()}


def _final() -> Iterator[Example]:
    rule = Rule(PLANS, "", "the status of a finished EfritPlan is final")
    for phase in ("Succeeded", "Failed"):
        done = {"status": {**FINAL_PLAN, "phase": phase}}
        yield Example(rule, f"{phase} written again", done, accepted=True, old=done, sub="status")
        for back in ("Pending", "Running", "Suspended"):
            new = {"status": {**FINAL_PLAN, "phase": back}}
            yield Example(rule, f"{phase} to {back}", new, accepted=False, old=done, sub="status")
    done, opened = {"status": FINAL_PLAN}, {"status": {"phase": "Running"}}
    yield Example(rule, "finished", done, accepted=True, old=opened, sub="status")
    yield Example(rule, "opened", opened, accepted=True, old={"status": {}}, sub="status")
    yield Example(rule, "removed", {}, accepted=False, old=done, sub="status")
    for name, (_, other) in PLAN_STATUS.items():
        changed = {"status": {**FINAL_PLAN, name: other}}
        missing = {"status": {key: value for key, value in FINAL_PLAN.items() if key != name}}
        yield Example(rule, f"{name} changed", changed, accepted=False, old=done, sub="status")
        yield Example(rule, f"{name} removed", missing, accepted=False, old=done, sub="status")
