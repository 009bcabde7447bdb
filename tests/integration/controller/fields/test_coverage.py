"""No field is without a case: what there is comes from the definitions, what is tried from the cases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.cluster.paths import REPOSITORY
from tests.integration.controller.fields.changes import Change, changes
from tests.integration.controller.fields.fixed import BEHAVIOUR, NO_CHOICE, choices
from tests.integration.controller.fields.pools import CHANGES, CLAIM_FIELDS, POOL_FIELDS, PoolChange
from tests.integration.controller.fields.requests import TRIED
from tests.support.manifest_schema import ITEM, VALUE, ours

HERE = Path(__file__).parent


def fields(plural: str) -> set[str]:
    """Return every place below spec: objects, lists, maps, what is in them, leaves.

    Each of Kubernetes' own objects counts as one field.
    """
    return {_written(node.path) for node in ours("spec") if node.plural == plural} - {"spec"}


def _written(path: tuple[str, ...]) -> str:
    return ".".join(path).replace(f".{ITEM}", ITEM).replace(f".{VALUE}", VALUE)


def touched(case: Change | PoolChange) -> set[str]:
    """Return the fields whose value a case changes, and all that contain them."""
    return set(_touched(case.before, case.after, "spec")) - {"spec"}


def _touched(before: Any, after: Any, at: str) -> Iterator[str]:
    if before == after:
        return
    yield at
    if isinstance(after, Mapping):
        for key, value in after.items():
            previous = before.get(key) if isinstance(before, Mapping) else None
            yield from _touched(previous, value, f"{at}.{key}")
            # Below a map the keys are the user's.
            yield from _touched(previous, value, f"{at}{VALUE}")
    if isinstance(after, list):
        for number, item in enumerate(after):
            previous = before[number] if isinstance(before, list) and number < len(before) else None
            yield from _touched(previous, item, f"{at}{ITEM}")


def test_every_field_of_an_instance_is_changed_and_taken_back() -> None:
    tried = {path for case in [*changes(), *choices()] for path in touched(case)}
    covered = {path for field in (*NO_CHOICE, *BEHAVIOUR) for path in _and_its_parents(field)}
    lists = {f"{field}{ITEM}" for field, value in NO_CHOICE.items() if isinstance(value, list)}
    assert fields("efritinstances") - tried - covered - lists == set(), f"next is {HERE / 'changes.py'}"


def _and_its_parents(field: str) -> Iterator[str]:
    steps = field.split(".")
    return (".".join(steps[:count]) for count in range(2, len(steps) + 1))


def test_no_field_is_said_to_do_nothing_that_a_case_shows_to_do_something() -> None:
    shown = {path for case in changes() for path in touched(case)}
    assert shown & (NO_CHOICE.keys() | BEHAVIOUR.keys()) == set()


def test_every_field_of_a_request_has_a_test_that_shows_what_it_does() -> None:
    assert fields("efritrequests") == TRIED.keys(), f"next is {HERE / 'requests.py'}"


def test_every_field_of_a_pool_and_of_a_claim_has_a_test_that_shows_what_it_does() -> None:
    of_instances = "spec.template.spec."
    of_pools = {field for field in fields("efritpools") if not field.startswith(of_instances)}
    assert of_pools == POOL_FIELDS.keys(), f"next is {HERE / 'pools.py'}"
    assert fields("efritclaims") == CLAIM_FIELDS.keys(), f"next is {HERE / 'pools.py'}"


def test_every_field_of_a_pool_is_changed_and_taken_back() -> None:
    tried = {path for case in CHANGES for path in touched(case)}
    assert POOL_FIELDS.keys() - tried == set(), f"next is CHANGES in {HERE / 'pools.py'}"


def test_every_field_of_a_pool_and_of_a_claim_is_in_its_page() -> None:
    page = (REPOSITORY / "docs/pools.md").read_text()
    names = {
        field.removesuffix(VALUE).removesuffix(ITEM).rpartition(".")[2] for field in (*POOL_FIELDS, *CLAIM_FIELDS)
    }
    assert {name for name in names if not re.search(rf"\b{name}\b", page)} == set(), "next is docs/pools.md"


def test_the_template_of_a_pool_has_every_field_of_an_instance() -> None:
    below = "spec.template."
    template = {field.removeprefix(below) for field in fields("efritpools") if field.startswith(f"{below}spec.")}
    assert template == fields("efritinstances")


def test_the_tests_that_are_named_exist() -> None:
    shown = (*TRIED.values(), *POOL_FIELDS.values(), *CLAIM_FIELDS.values())
    named = {*BEHAVIOUR.values(), *(test for tests in shown for test in tests)}
    missing = [test_id for test_id in sorted(named) if not _defined(*test_id.split("::"))]
    assert missing == []


def _defined(file: str, name: str) -> bool:
    text = (HERE / file).resolve().read_text()
    return f"\ndef {name}(" in text or f"\nasync def {name}(" in text
