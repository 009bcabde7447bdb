"""Which instance does the work when none is named."""

import pytest

from efrit.backend.errors import NoInstance
from efrit.backend.interface import Instance, InstanceStatus
from efrit.backend.placement import default_instance, least_loaded


def instance(
    name: str,
    *,
    active: bool = True,
    load: tuple[int, int] = (0, 0),
    done: int = 0,
    can_start: bool = False,
    **labels: str,
) -> Instance:
    status = InstanceStatus.ACTIVE if active else InstanceStatus.INACTIVE
    return Instance(
        name,
        status,
        "Ready" if active else "Stopped",
        can_start=can_start,
        labels=labels,
        pending=load[0],
        processing=load[1],
        processed=done,
    )


@pytest.mark.parametrize(
    ("instances", "chosen"),
    [
        ([instance("a", load=(2, 1)), instance("b", load=(0, 1)), instance("c", load=(1, 1))], "b"),
        ([instance("a", load=(3, 0)), instance("b", active=False, can_start=True)], "a"),
        ([instance("a", active=False), instance("b", active=False, can_start=True)], "b"),
        ([instance("b"), instance("a")], "a"),
        ([instance("a", done=5), instance("b", done=2)], "b"),
    ],
)
def test_the_ready_one_with_the_least_work_is_chosen(instances: list[Instance], chosen: str) -> None:
    assert least_loaded(instances).id == chosen


def test_a_selector_takes_only_those_with_all_its_labels() -> None:
    instances = [instance("a", team="x"), instance("b", team="x", tier="slow"), instance("c", tier="slow")]
    assert least_loaded(instances, {"team": "x", "tier": "slow"}).id == "b"


@pytest.mark.parametrize(
    ("instances", "selector", "message"),
    [
        ([], None, "there is no instance"),
        ([instance("a", active=False)], None, "a is Stopped"),
        ([instance("a")], {"team": "x"}, "no instance has the labels team=x"),
    ],
)
def test_where_there_is_none_the_error_says_why(
    instances: list[Instance], selector: dict[str, str] | None, message: str
) -> None:
    with pytest.raises(NoInstance, match=message):
        least_loaded(instances, selector)


@pytest.mark.parametrize(
    ("names", "chosen"), [(["a", "default", "z"], "default"), (["default"], "default"), (["only"], "only")]
)
def test_work_that_names_no_instance_goes_to_default_or_to_the_only_one(names: list[str], chosen: str) -> None:
    assert default_instance(names) == chosen


def test_where_there_is_none_the_command_that_makes_one_is_named() -> None:
    with pytest.raises(NoInstance) as raised:
        default_instance([])
    assert raised.value.advice == "start one with `efrit start default`"


@pytest.mark.parametrize(
    ("names", "message"), [([], "there is no instance"), (["b", "a"], "none of a, b is called default")]
)
def test_where_no_instance_is_meant_none_is_guessed(names: list[str], message: str) -> None:
    with pytest.raises(NoInstance, match=message):
        default_instance(names)
