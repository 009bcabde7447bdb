"""A bridge on a directory full of litter: it opens, tells what it sees, serves everybody else, and opens again."""

import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from efrit.bridge.app import Bridge
from efrit.bridge.settings import Settings
from efrit.protocol import request_id, response_file
from efrit.protocol.events import parse_event
from efrit.protocol.view import RequestList, RequestView, Stats
from efrit.queue.layout import Area
from tests.fuzz import documents
from tests.fuzz.litter import IDS, Litter, drop, litter, named, outside, requests, responses
from tests.support.certificates import make_secrets
from tests.support.file_modes import modes_hold
from tests.support.queue_fakes import ScriptedEmacs, a_request
from tests.support.timeout import TIMEOUT

_any_bytes = st.binary(max_size=200)
_journals = st.lists(
    st.sampled_from((b"x 1 b00t\n", b"y 999999999 b00t\n", b"x 1 \xff\n", b"mine 7 b\n", b"torn")) | _any_bytes,
    max_size=6,
).map(b"".join)


class Placed(NamedTuple):
    """Litter and the directory it goes to."""

    area: Area
    item: Litter


_places = st.one_of(
    st.builds(Placed, st.just(Area.REQUESTS), requests),
    st.builds(Placed, st.just(Area.RESPONSES), responses),
    st.builds(Placed, st.just(Area.PROCESSING), litter(documents.mangled(documents.REQUEST), named("req_*.json"))),
    st.builds(Placed, st.just(Area.ARCHIVE), requests | responses),
    st.builds(Placed, st.just(Area.CONTROL), litter(_any_bytes, named("cancel_*"))),
    st.builds(Placed, st.just(Area.TMP), litter(_any_bytes, named("withdrawn_*.json") | named("bridge_*"))),
    st.builds(Placed, st.just(Area.PROGRESS), litter(_any_bytes, named("*.ndjson"))),
    st.builds(Placed, st.just(Area.ROOT), litter(documents.mangled(documents.HEARTBEAT), st.just(b"heartbeat"))),
    st.builds(
        Placed,
        st.just(Area.ROOT),
        st.builds(Litter, st.just(b"totals"), st.just("file"), _any_bytes)
        | st.builds(Litter, st.just(b"claims.log"), st.just("file"), _journals)
        | st.builds(Litter, st.just(b"identity"), st.just("file"), _any_bytes),
    ),
)


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_secrets(tmp_path_factory.mktemp("secrets") / "secrets")


def test_a_bridge_serves_a_queue_whatever_else_lies_in_it(secrets: Path) -> None:
    @given(before=st.lists(_places, max_size=8), meanwhile=st.lists(_places, max_size=6))
    # Not shrunk: an example takes a second, and the failing one is printed.
    @settings(
        max_examples=15,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=[HealthCheck.too_slow],
    )
    def serves(before: list[Placed], meanwhile: list[Placed]) -> None:
        place = Path(tempfile.mkdtemp(prefix="litter-"))
        try:
            with modes_hold(), outside(place / "outside") as beside:
                asyncio.run(_serves(place, secrets, before, meanwhile))
                beside.untouched()
        finally:
            shutil.rmtree(place)

    serves()


async def _serves(place: Path, secrets: Path, before: list[Placed], meanwhile: list[Placed]) -> None:
    root = place / "queue"
    for area in Area:
        (root / area).mkdir(parents=True, exist_ok=True)
    for area, item in before:
        drop(root / area, item, place / "outside")
    settings = Settings(bridge_secrets=secrets, bridge_host="127.0.0.1", bridge_port=0, queue_dir=root)
    for start in range(2):
        bridge = Bridge(settings)
        task = asyncio.create_task(bridge.run())
        try:
            await _until(task, lambda: bridge.queue.is_open)  # noqa: B023 - awaited here
            await bridge.queue.submit(a_request(f"mine{start}"))
            for area, item in meanwhile:
                drop(root / area, item, place / "outside")
            ScriptedEmacs(root).do(f"mine{start}")
            await _until(task, lambda: _answered(bridge, f"mine{start}"))  # noqa: B023
            await _reports_all(bridge)
        finally:
            bridge.stop()
            await task


def _answered(bridge: Bridge, rid: str) -> bool:
    entry = bridge.queue.index.get(request_id(rid))
    return entry is not None and entry.state.final


async def _until(task: asyncio.Task[None], condition: object) -> None:
    limit = time.monotonic() + TIMEOUT
    while not condition():  # type: ignore[operator]
        assert not task.done(), "the bridge ended"
        assert time.monotonic() < limit, "the bridge sees nothing"
        await asyncio.sleep(0.005)


async def _reports_all(bridge: Bridge) -> None:
    """Check that a client understands everything the bridge has to tell, and can acknowledge what is answered."""
    RequestList.parse(RequestList(queue_id=bridge.queue.queue_id, requests=tuple(bridge.queue.views())).to_json())
    Stats.parse(bridge.stats().to_json())
    bridge.metrics()
    for view in bridge.queue.views():
        later_view = await bridge.queue.view(view.id)
        event = parse_event("request", later_view.to_json())
        assert isinstance(event, RequestView)
        assert not later_view.state.final or later_view.response is not None
        if later_view.response is not None and later_view.id in IDS and view.state.final:
            await bridge.queue.acknowledge(view.id)
            assert bridge.queue.disk.stat_any(Area.RESPONSES, response_file(view.id)) is None
