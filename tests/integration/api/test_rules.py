"""Every CEL rule lets pass what it should and refuses the rest, with its own sentence."""

from __future__ import annotations

from collections import defaultdict

import pytest

from efrit.api import RequestSpec
from efrit.errors import ApiError
from tests.integration.api.claim_examples import claim_examples
from tests.integration.api.examples import (
    CHANGES,
    FINAL_STATUS,
    Example,
    Rule,
    examples,
    rules,
    status_fields,
)
from tests.integration.api.plan_examples import FINAL_PLAN, plan_examples, plan_status_fields
from tests.integration.api.pool_examples import pool_examples
from tests.support.custom_resources import new_namespace
from tests.support.kube import Json, Kube
from tests.support.manifest_schema import BASES

EXAMPLES = [*examples(), *plan_examples(), *claim_examples(), *pool_examples()]
RULES = list(dict.fromkeys(example.rule for example in EXAMPLES))


@pytest.fixture(scope="module")
def room(kube: Kube) -> str:
    """One namespace: each example names its own object."""
    return new_namespace(kube)


def _identifier(rule: Rule) -> str:
    """Return the name of a rule's test: `requests-spec.cancel-cannot-be-taken-back`."""
    where = [rule.where] if rule.where and not rule.message.startswith(rule.where) else []
    words = [rule.plural.removeprefix("efrit"), *where, *rule.message.split()]
    return "-".join(word.strip("[],:…") for word in words)


@pytest.mark.parametrize("rule", RULES, ids=_identifier)
def test_a_rule_accepts_and_refuses(kube: Kube, room: str, rule: Rule) -> None:
    tried = [example for example in EXAMPLES if example.rule == rule]
    wrong = {str(example): message for example in tried if (message := _wrong(kube, room, example))}
    assert wrong == {}


def _wrong(kube: Kube, room: str, example: Example) -> str:
    """Return what the API server did where it should have done otherwise."""
    plural = example.rule.plural
    name = f"e{EXAMPLES.index(example)}"
    if example.old is not None:
        obj = kube.create(plural, room, _named(plural, example.old, name))
        if example.sub:
            obj = kube.replace(plural, room, {**obj, **example.old}, "status")

    def write() -> None:
        if example.old is None:
            kube.create(plural, room, _named(plural, example.new, name), dryRun="All", fieldValidation="Strict")
        else:
            head = {key: obj[key] for key in ("apiVersion", "kind", "metadata", "spec")}
            kube.replace(plural, room, {**head, **example.new}, example.sub, dryRun="All", fieldValidation="Strict")

    try:
        write()
    except ApiError as refusal:
        expected = not example.accepted and refusal.status == 422 and example.rule.message in refusal.sentence
        return "" if expected else f"{refusal.status}: {refusal.sentence}"
    return "" if example.accepted else "accepted"


def _named(plural: str, part: Json, name: str) -> Json:
    return {**BASES[plural], "metadata": {"name": name}, **part}


def test_every_rule_has_an_accepted_and_a_refused_example() -> None:
    outcomes: dict[Rule, set[bool]] = defaultdict(set)
    for example in EXAMPLES:
        matching = [
            rule
            for rule in rules()
            if (rule.plural, rule.where) == (example.rule.plural, example.rule.where)
            and rule.message.startswith(example.rule.message)
        ]
        assert len(matching) == 1, example
        outcomes[matching[0]].add(example.accepted)
    assert {rule: outcomes[rule] for rule in rules()} == {rule: {True, False} for rule in rules()}


def test_every_field_of_a_request_but_cancel_is_tried_for_immutability() -> None:
    assert CHANGES.keys() | {"cancel"} == RequestSpec.model_fields.keys()


def test_every_field_of_a_final_status_is_tried() -> None:
    assert FINAL_STATUS.keys() == status_fields()
    assert FINAL_PLAN.keys() == plan_status_fields()


def test_a_finished_request_can_still_be_labelled_and_deleted(kube: Kube, namespace: str) -> None:
    kube.create("efritrequests", namespace, _named("efritrequests", {}, "done"))
    kube.patch("efritrequests", namespace, "done", {"status": FINAL_STATUS}, "status")
    kube.patch("efritrequests", namespace, "done", {"metadata": {"labels": {"kept": "yes"}}})
    assert kube.get("efritrequests", namespace, "done")["status"] == FINAL_STATUS
    kube.delete("efritrequests", namespace, "done")
    assert kube.find("efritrequests", namespace, "done") is None


def test_a_final_status_stands_against_a_merge_patch_that_removes_it(kube: Kube, namespace: str) -> None:
    kube.create("efritrequests", namespace, _named("efritrequests", {}, "done"))
    kube.patch("efritrequests", namespace, "done", {"status": FINAL_STATUS}, "status")
    with pytest.raises(ApiError, match="is final"):
        kube.patch("efritrequests", namespace, "done", {"status": None}, "status")
    assert kube.get("efritrequests", namespace, "done")["status"] == FINAL_STATUS
