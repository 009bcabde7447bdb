"""What `efrit pools`, `efrit scale` and `efrit top` show of pools."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from efrit.backend.errors import Forbidden, NotFound
from efrit.backend.interface import Backend, Instance, InstanceStatus, RequestState
from efrit.backend.pools import POOL_LABEL, Pool, PoolCondition, PoolFlow, PoolRevision, PoolScale, Scaled, Undone
from efrit.cli.commands import build
from efrit.cli.exit_codes import Exit
from efrit.cli.place import Invocation
from efrit.cli.pools import pool_text, pools_table, run_pools, run_scale
from efrit.cli.rollout import history_table, run_history, run_undo
from efrit.cli.top import _state, screen

NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
EVIL = "blue\x1b[2J"
CREW = Pool(
    "crew",
    3,
    members=2,
    ready=2,
    idle=1,
    busy=1,
    suspended=1,
    pending=4,
    flows=(PoolFlow(EVIL, 1, 4),),
    conditions=(PoolCondition("Backlogged", "True", "WaitingForMember", "4 requests wait."),),
    last_scale=PoolScale(2, 3, "4 requests\x1b[2J wait", NOW - timedelta(minutes=1)),
    created=NOW - timedelta(hours=3),
)
MEMBER = Instance("crew-a", InstanceStatus.ACTIVE, "Ready", labels={POOL_LABEL: "crew"}, pool="crew")
OTHER = Instance("single", InstanceStatus.ACTIVE, "Ready", labels={POOL_LABEL: "crew"})


@dataclass
class Crews:
    """A cluster with pools, or one whose instances or pools may not be seen."""

    found: list[Pool] = field(default_factory=lambda: [CREW])
    forbidden: tuple[str, ...] = ()

    kind, place = "cluster", "a test"

    async def pools(self) -> Sequence[Pool]:
        if "pools" in self.forbidden:
            raise Forbidden("you may not list efritpools")
        return self.found

    async def pool(self, name: str) -> Pool:
        return next(pool for pool in self.found if pool.name == name)

    async def instances(self) -> Sequence[Instance]:
        if "instances" in self.forbidden:
            raise Forbidden("you may not list efritinstances")
        return [MEMBER, OTHER]

    async def requests(self) -> Sequence[RequestState]:
        return []

    async def scale_pool(self, name: str, replicas: int) -> Scaled:
        return Scaled(f"{name} is to have {replicas} members; it has 2", name, replicas, 2)

    async def pool_history(self, name: str) -> Sequence[PoolRevision]:
        if name == "new":
            return []
        return [
            PoolRevision(1, "aaaa", members=2, created=NOW, template={"spec": {"image": "good"}}),
            PoolRevision(2, "bbbb", current=True, members=1, created=NOW, template={"spec": {"image": "broken"}}),
        ]

    async def undo_pool(self, name: str, to_revision: int | None = None) -> Undone:
        return Undone(f"{name} has the template of revision {to_revision or 1} again", name, to_revision or 1, True)


def backend(**known: object) -> Backend:
    return cast("Backend", Crews(**known))  # type: ignore[arg-type]


def read(*words: str) -> Namespace:
    parsed: Namespace = build().parse_args(words)
    parsed.invocation = Invocation()
    return parsed


async def test_the_pools_are_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run_pools(backend(), read("pools")) is Exit.DONE
    assert capsys.readouterr().out.splitlines()[1].split()[:9] == ["crew", "3", "2", "2", "1", "1", "0", "1", "4"]
    assert pools_table([CREW], NOW).splitlines()[1].endswith("3h")


async def test_no_pools_is_said_where_it_is_not_read_by_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run_pools(backend(found=[]), read("pools")) is Exit.DONE
    assert capsys.readouterr() == ("", "no pools in a test\n")


async def test_a_pool_by_name_has_conditions_flows_last_scale_and_members(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run_pools(backend(), read("pools", "crew")) is Exit.DONE
    text = capsys.readouterr().out
    assert "Backlogged   True     WaitingForMember   4 requests wait." in text
    assert "last scaled from 2 to 3" in text
    assert "crew-a" in text
    assert "single" not in text
    assert "\x1b" not in text
    assert "1m" not in pool_text(Pool("new"), [], NOW)
    assert pool_text(Pool("new"), [], NOW).endswith("\n\nno members")


async def test_a_command_in_a_condition_of_a_pool_reaches_the_same_cluster(
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = "EfritInstance crew-a does not start: see `kubectl -n team logs efrit-crew-a-0`."
    failed = Pool("crew", conditions=(PoolCondition("Progressing", "False", "RevisionFailed", message),))
    arguments = read("pools", "crew", "--context", "b")
    arguments.invocation = Invocation.of("efrit", arguments)
    await run_pools(backend(found=[failed]), arguments)
    assert "see `kubectl --context b -n team logs efrit-crew-a-0`." in capsys.readouterr().out


async def test_who_may_not_see_instances_sees_the_pool(capsys: pytest.CaptureFixture[str]) -> None:
    await run_pools(backend(forbidden=("instances",)), read("pools", "crew"))
    text = capsys.readouterr().out
    assert "Backlogged" in text
    assert "member" not in text.replace("WaitingForMember", "").lower().replace("members", "", 1)


async def test_programs_get_the_pool_as_json_and_pipes_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    await run_pools(backend(), read("pools", "crew", "-o", "json"))
    pool = json.loads(capsys.readouterr().out)
    assert (pool["name"], pool["flows"][0]["pending"], pool["last_scale"]["after"]) == ("crew", 4, 3)
    await run_pools(backend(), read("pools", "-o", "name"))
    assert capsys.readouterr().out == "crew\n"


async def test_scale_says_what_the_pool_is_to_have(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run_scale(backend(), read("scale", "crew", "5")) is Exit.DONE
    assert capsys.readouterr().out == "crew is to have 5 members; it has 2\n"
    await run_scale(backend(), read("scale", "crew", "5", "-o", "json"))
    assert json.loads(capsys.readouterr().out)["desired"] == 5


async def test_the_history_is_a_table_the_current_one_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run_history(backend(), read("rollout", "history", "crew")) is Exit.DONE
    head, first, last = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == ["REVISION", "TEMPLATE", "CURRENT", "MEMBERS", "AGE"]
    assert (first[:4], last[:4]) == (["1", "aaaa", "no", "2"], ["2", "bbbb", "yes", "1"])
    assert history_table([PoolRevision(1, "aaaa")], NOW).splitlines()[1].startswith("1 ")


async def test_a_history_of_no_templates_is_said_where_it_is_not_read_by_a_program(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert await run_history(backend(), read("rollout", "history", "new")) is Exit.DONE
    assert capsys.readouterr() == ("", "no templates of new are kept\n")
    assert await run_history(backend(), read("rollout", "history", "new", "-o", "json")) is Exit.DONE
    assert capsys.readouterr() == ("[]\n", "")


async def test_one_template_of_the_history_is_shown_and_programs_get_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run_history(backend(), read("rollout", "history", "crew", "--revision", "1")) is Exit.DONE
    assert "image: good" in capsys.readouterr().out
    with pytest.raises(NotFound, match="crew has no revision 7"):
        await run_history(backend(), read("rollout", "history", "crew", "--revision", "7"))
    await run_history(backend(), read("rollout", "history", "crew", "-o", "json"))
    assert [each["number"] for each in json.loads(capsys.readouterr().out)] == [1, 2]
    await run_history(backend(), read("rollout", "history", "crew", "-o", "name"))
    assert capsys.readouterr().out == "1\n2\n"


async def test_undo_says_what_the_pool_has_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run_undo(backend(), read("rollout", "undo", "crew", "--to-revision", "3")) is Exit.DONE
    assert capsys.readouterr().out == "crew has the template of revision 3 again\n"
    await run_undo(backend(), read("rollout", "undo", "crew", "-o", "json"))
    assert json.loads(capsys.readouterr().out)["changed"]
    await run_undo(backend(), read("rollout", "undo", "crew", "-o", "name"))
    assert capsys.readouterr().out == "crew\n"


@pytest.mark.parametrize("count", ["-1", "many", "1.5"])
def test_a_size_that_is_none_is_refused(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read("scale", "crew", count)
    assert capsys.readouterr().err


async def test_top_has_pools_and_flows_between_instances_and_requests() -> None:
    instances, requests, pools = await _state(backend())
    text = screen("cluster", "here", instances, requests, NOW, pools=pools)
    lines = [line.split()[0] for line in text.splitlines()[2:] if line]
    assert lines == ["NAME", "crew-a", "single", "NAME", "crew", "POOL", "crew", "NAME"]
    assert "\x1b" not in text


async def test_top_goes_on_without_the_pools_that_may_not_be_seen() -> None:
    assert (await _state(backend(forbidden=("pools",))))[2] == ()
