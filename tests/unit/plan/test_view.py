from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from efrit.api.plan import MAX_TREE_NODES, PlanStatus
from efrit.plan.cursor import Cursor
from efrit.plan.engine import Decision, Wait, decide
from efrit.plan.tree import TaskTree, next_task
from efrit.plan.view import MAX_BYTES, describe, nodes
from efrit.protocol.plan_enums import CommitKind, TaskState
from efrit.protocol.plan_values import Commit
from tests.unit.plan.trees import atomic, done, ids, parent, trees
from tests.unit.plan.world import START, World, plan_json, scripted


def running(tasks: int = 1) -> World:
    here = World(plan_json(tasks=[{"name": f"t{n}", "description": "do it"} for n in range(tasks)]), scripted())
    while not here.created or not here.created[-1].endswith("2-adapt"):
        here.turn()
    return here


def size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def test_a_status_says_where_the_plan_stands() -> None:
    here = running()
    description = describe(here.snapshot(), decide(here.snapshot(), here.now))
    status = PlanStatus.model_validate(description)
    assert status.current_task == "t0"
    assert status.step == "Adapt"
    assert status.commit_count == 2
    assert [commit.kind for commit in status.commits] == ["act", "begin"]
    assert status.counts is not None
    assert (status.counts.tasks, status.counts.pending, status.counts.steps, status.counts.acts) == (2, 2, 1, 1)
    assert status.cost is not None
    assert (status.cost.input_tokens, status.cost.output_tokens) == (20, 10)
    assert set(description) <= set(status.to_wire())


def test_before_the_beginning_is_known_the_status_stays_as_it_was() -> None:
    here = running()
    here.plan["status"]["tree"] = [{"id": "root", "type": "parent", "description": "x", "state": "pending"}]
    here.requests.clear()
    description = describe(here.snapshot(), decide(here.snapshot(), here.now))
    assert description["tree"][0]["id"] == "root"
    assert description["step"] == "Begin"


def large() -> TaskTree:
    def text(n: int) -> str:
        return f"{n} " + "🌊" * 3_900

    groups = (
        parent(f"g{g}", *(atomic(f"g{g}.{n}").copy_with(description=text(n)) for n in range(39)), text=text(g))
        for g in range(49)
    )
    return parent("root", *(done(f"d{n}") for n in range(39)), *groups, text=text(0))


def test_two_thousand_long_tasks_stay_within_the_bounds() -> None:
    tree = large()
    assert len(ids(tree)) == 2_000
    current = "g30.20"
    observations = tuple(
        {"perspective": "build", "statement": "🌊" * 2_000, "evidence": "ä" * 2_000} for _ in range(40)
    )
    commits = tuple(
        Commit(hash="f" * 40, subject="🌊" * 300, kind=CommitKind.ACT, task=current, step=n, time=START)
        for n in range(20)
    )
    cursor = Cursor(900, CommitKind.ACT, current, tree, observations, 3, commits)
    here = running()
    decision = replace(decide(here.snapshot(), here.now), cursor=cursor, task=current)
    description = describe(here.snapshot(), decision)
    assert size(description) <= MAX_BYTES
    shown = [node["id"] for node in description["tree"]]
    assert {"root", "g30", "g30.19", "g30.20", "g30.21"} <= set(shown)
    left_out = sum(sum(node["hidden"].values()) for node in description["tree"] if "hidden" in node)
    assert len(shown) + left_out == 2_000
    assert size(PlanStatus.model_validate(description).to_wire()) <= MAX_BYTES


@given(trees(), st.data())
def test_nodes_are_in_order_and_name_their_parents(tree: TaskTree, data: st.DataObject) -> None:
    current = data.draw(st.sampled_from([*ids(tree), None]))
    shown_nodes = nodes(tree, current)
    assert [node["id"] for node in shown_nodes] == ids(tree)
    before: set[str] = set()
    for node in shown_nodes:
        assert node.get("parent") in before | {None}
        before.add(node["id"])
    assert PlanStatus.model_validate({"tree": shown_nodes}).tree[0].id == "root"


@given(trees(), st.text(min_size=1))
def test_a_description_of_any_characters_fits_the_status(tree: TaskTree, text: str) -> None:
    task = next_task(tree)
    assert task is not None
    cursor = Cursor(1, CommitKind.BEGIN, None, tree.copy_with(description=text), ({"perspective": text},))
    decision = Decision(Wait(), cursor, task.id, None, "")
    here = World(plan_json(), scripted())
    PlanStatus.model_validate(describe(here.snapshot(), decision))


def test_a_wide_tree_shows_no_more_nodes_than_there_may_be() -> None:
    tree = parent("root", *(atomic(f"t{n}", TaskState.DONE if n < 900 else TaskState.PENDING) for n in range(1_900)))
    shown_nodes = nodes(tree, "t900")
    assert len(shown_nodes) <= MAX_TREE_NODES
    assert "t901" in [node["id"] for node in shown_nodes]
