"""The recipes of CONTRIBUTING.md: each check fails while a file of a recipe is forgotten, and names that file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from efrit.api import instance
from efrit.api.request import RequestSpec
from efrit.bridge.settings import Settings as BridgeSettings
from efrit.controller.settings import Settings as ControllerSettings
from efrit.environment import FromEnvironment
from efrit.protocol import RequestOptions
from tests.support.faults.schedule import Op

REPOSITORY = Path(__file__).parents[3]
CONTROLLER = REPOSITORY / "operator/efrit/controller"
INSTANCE = "operator/efrit/api/instance.py"

CONDITIONS = {
    name: value
    for name, value in vars(instance).items()
    if name.isupper() and isinstance(value, str) and re.fullmatch(r"[A-Z][A-Za-z]+", value)
}
OPTIONS_OF_A_LAPTOP = {"directory"}
UNREAD = {"provider": "there is one provider; the field keeps a place for others"}


def text_of(*folders: Path) -> str:
    return "\n".join(path.read_text() for folder in folders for path in sorted(folder.rglob("*.py")))


def fields_of(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Yield each field of the spec that is ours, not Kubernetes', with the model that has it."""
    for name, field in model.model_fields.items():
        yield model.__name__, name
        parts = [field.annotation, *getattr(field.annotation, "__args__", ())]
        for part in parts:
            if (
                isinstance(part, type)
                and issubclass(part, BaseModel)
                and part.__module__.startswith(instance.__name__)
            ):
                yield from fields_of(part)


@pytest.mark.parametrize(("model", "name"), sorted(set(fields_of(instance.InstanceSpec))))
def test_a_field_of_the_spec_is_read(model: str, name: str) -> None:
    readers = text_of(CONTROLLER)
    own = "\n".join(path.read_text() for path in sorted((REPOSITORY / INSTANCE).parent.glob("instance*.py")))
    read = re.search(rf"\.{name}\b", readers) or re.search(rf"self\.{name}\b", own)
    assert read or name in UNREAD, f"nothing reads {model}.{name}: next is statefulset.py below {CONTROLLER}"


@pytest.mark.parametrize(
    ("settings", "folder"),
    [(BridgeSettings, "bridge"), (ControllerSettings, "controller")],
    ids=["bridge", "controller"],
)
def test_every_setting_is_read(settings: type[FromEnvironment], folder: str) -> None:
    readers = text_of(REPOSITORY / "operator/efrit" / folder)
    unread = [name for name in settings.__struct_fields__ if not re.search(rf"(settings|self)\.{name}\b", readers)]
    assert unread == []


@pytest.mark.parametrize("name", sorted(RequestSpec.model_fields))
def test_a_field_of_a_request_is_read(name: str) -> None:
    assert re.search(rf"spec\.{name}\b", text_of(CONTROLLER)), f"next is {CONTROLLER / 'decide/queue_request.py'}"


@pytest.mark.parametrize("name", sorted(set(RequestOptions.__struct_fields__) - {"extra"}))
def test_an_option_of_the_queue_is_set_and_read(name: str) -> None:
    sets = CONTROLLER / "decide/queue_request.py"
    assert name in OPTIONS_OF_A_LAPTOP or re.search(rf"\b{name}=", sets.read_text()), f"next is {sets}"
    reads = REPOSITORY / "images/emacs/lisp/efrit-queue-request.el"
    assert f'(option "{name}"' in reads.read_text(), f"next is {reads}"


def test_the_conditions_are_those_of_an_instance() -> None:
    assert {"Ready", "QueueHealthy", "Updated"} <= set(CONDITIONS.values())


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_is_described_decided_tested_and_in_the_users_page(name: str) -> None:
    condition = CONDITIONS[name]
    description = instance.InstanceStatus.model_fields["conditions"].description or ""
    assert re.search(rf"\b{condition}\b", description), f"next is the description of `conditions` in {INSTANCE}"
    decided = text_of(CONTROLLER / "decide")
    assert re.search(rf"\b{name}\b", decided), "next is instances.py in operator/efrit/controller/decide"
    tests = text_of(REPOSITORY / "tests/unit/controller")
    assert f'"{condition}"' in tests, "next is tests/unit/controller/decide/test_instances.py"
    page = (REPOSITORY / "docs/using.md").read_text()
    assert f"| `{condition}` |" in page, "next is the table of conditions in docs/using.md"


@pytest.mark.parametrize("op", [op for op in Op if op.fault], ids=lambda op: op.name)
def test_a_fault_is_chosen_and_carried_out(op: Op) -> None:
    faults = REPOSITORY / "tests/support/faults"
    generated = text_of(faults / "generators")
    assert re.search(rf"\bOp\.{op.name}\b", generated), f"next is generators/parts.py in {faults}"
    carried_out = text_of(faults / "light") + text_of(faults / "node")
    assert re.search(rf"\bOp\.{op.name}\b", carried_out), f"next is light/nemesis.py in {faults}"
