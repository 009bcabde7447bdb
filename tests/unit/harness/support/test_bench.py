"""What the pieces of `make bench` make of what they measured."""

from __future__ import annotations

import pytest

from tests.support.bench import growth, jobs, loads, rates
from tests.support.bench.growth import Cost, Measured
from tests.support.bench.rates import Rate
from tests.support.figures import Figure

SMALL = Measured(Cost({"API server": 6.0, "controller": 2.0}, 10.0, 20.0), Cost({"API server": 4.0}, 5.0, 8.0))
LARGE = Measured(Cost({"API server": 12.0, "controller": 4.0}, 15.0, 30.0), Cost({"API server": 8.0}, 10.0, 8.0))


def by_name(found: list[Figure]) -> dict[str, Figure]:
    assert len({figure.name for figure in found}) == len(found)
    return {figure.name: figure for figure in found}


def test_growth_of_an_eval_and_of_its_floor_are_told_apart() -> None:
    found = by_name(list(growth.figures_of("open", {100: SMALL, 50_000: LARGE})))
    assert found["an eval beside 50,000 open requests to one beside 100"].value == 2.0
    assert found["its floor beside 50,000 open requests to one beside 100"].value == 2.0
    assert found["an eval beside 50,000 open requests to one beside 100, p50"].value == 1.5
    assert found["50,000 open requests: controller"][1:] == (4.0, "processor ms", "", "", 8.0)
    assert found["100 open requests: an eval, p99"].floor == 8.0
    assert list(growth.figures_of("open", {})) == []


def test_what_the_api_server_writes_for_an_eval_is_told_by_resource() -> None:
    written = SMALL._replace(cost=SMALL.cost._replace(writes={"efritrequests": 2.0, "efritinstances": 0.5}))
    figure = by_name(list(growth.figures_of("instances", {1: written})))[
        "1 instances (simulated): writes for each eval"
    ]
    assert (figure.value, figure.detail) == (2.5, "(efritrequests 2.00, efritinstances 0.50)")


def test_what_is_taken_at_rest_does_not_count_for_an_eval() -> None:
    rest = jobs.share_of({"a": 1.0}, {"a": 2.0, "b": 0.5}, 10.0)
    assert rest == {"a": 0.1, "b": 0.05}
    assert jobs.above_rest({"a": 30.0, "b": 1.0}, rest, 100.0) == {"a": 20.0, "b": 0.0}


def test_a_job_is_set_beside_an_eval_part_by_part() -> None:
    comparison = jobs.Comparison({"API server": 10.0, "others": 0.0}, {"API server": 60.0, "others": 440.0}, [3.0])
    found = by_name(list(jobs.figures_of(comparison)))
    assert found["a Job per eval: others"].value == 440.0
    assert found["processor time of a Job per eval beside an eval"].value == 50.0


@pytest.mark.parametrize(
    ("p99s", "expected"),
    [([0.1], False), ([0.3], False), ([0.3, 0.2], False), ([0.1, 0.3], False), ([0.3, 0.2, 0.3, 0.3], True)],
)
def test_rates_end_when_two_in_succession_are_too_fast(p99s: list[float], expected: bool) -> None:
    tried = [Rate(10.0 * number, 0.01, p99, 400) for number, p99 in enumerate(p99s)]
    assert rates.are_too_fast(tried) == expected


def test_the_p99_of_a_sustained_rate_is_a_figure_and_that_of_each_is_a_point() -> None:
    tried = [Rate(10.0, 0.01, 0.1, 400), Rate(20.0, 0.02, 0.2, 400), Rate(30.0, 0.1, 0.3, 400)]
    highest, *p99s = rates.figures_of(tried, 0.05)
    assert highest.value == 20.0
    assert highest.detail == "(30/s: p99 300 ms)"
    assert [(round(figure.value), figure.floor) for figure in p99s] == [(100, 50.0), (200, 50.0), (300, 50.0)]


ROW = {"API server": 10.0, "etcd": 2.0, "controller": 3.0}
LOADS = {
    "floor": {"API server": 9.0, "etcd": 1.0, "others": 1.0},
    "floor of burst of 500": {"API server": 8.0, "etcd": 1.0},
    "floor of burst of 2,000": {"API server": 5.0, "etcd": 1.0},
    "one after the other": ROW,
    **{f"burst of {size}": ROW for size in ("500", "2,000", "10,000")},
    "polled": ROW,
}


@pytest.mark.parametrize(
    ("name", "floor"),
    [
        ("burst of 500: controller", 9.0),
        ("burst of 2,000: controller", 6.0),
        ("burst of 10,000: controller", 6.0),
        ("one after the other: etcd", 10.0),
        ("polled: together", 10.0),
        ("floor: together", 11.0),
        ("floor of burst of 500: etcd", 1.0),
        ("burst of 500: API server and etcd beyond the floor", 9.0),
    ],
)
def test_the_figures_of_a_load_have_the_floor_of_that_load(name: str, floor: float) -> None:
    assert by_name(list(loads.figures_of(LOADS, (500, 2000, 10_000), (500, 2000))))[name].floor == floor
