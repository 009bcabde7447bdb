"""What the bridge keeps in memory of requests and of the archive fits the memory limit that the chart gives it."""

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from efrit.api.instance_volumes import Queue
from efrit.errors import QueueFull
from efrit.protocol import RequestId, RequestState, canonical_json, request_file
from efrit.queue.durable import Disk
from efrit.queue.layout import Area
from efrit.queue.limits import QueueLimits
from efrit.queue.observe import MAX_METADATA_BYTES, scan
from efrit.queue.queue import DurableQueue
from efrit.queue.retention import ArchiveIndex, _Item
from efrit.queue.state import Entry, Index, kept_bytes_of, packed_metadata
from tests.cluster.paths import REPOSITORY
from tests.support import yaml_documents
from tests.support.queue_fakes import a_request
from tests.unit.queue.conftest import Running, Start

SAMPLE = 200
BASE_BYTES = 48 << 20
"""Memory of a bridge without requests: 43 MiB measured, Python 3.11 and its libraries nearly all of it."""
ARCHIVED_BYTES = 640
"""Bound of the memory for one archived request."""


def maximum(name: str) -> int:
    bounds = Queue.model_json_schema()["properties"][name]
    return int(bounds["maximum"])


def largest_metadata() -> dict[str, Any]:
    """As many small objects as the limit allows: parsed they take 28 times their text."""
    return {"a": [{"b": {}} for _ in range((MAX_METADATA_BYTES - len('{"a":[]}')) // len('{"b":{}},'))]}


class NamesOnly(Disk):
    """A disk of which only the names in requests/ are asked for."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(Path("/nowhere"))
        self._names = names

    def names(self, area: Area) -> list[str]:
        # Read from the disk each time: new strings.
        return [f"{name[:-1]}n" for name in self._names] if area is Area.REQUESTS else []


@pytest.fixture
def traced() -> Iterator[Callable[[], tuple[int, int]]]:
    """Return the bytes allocated since the start, now and at most."""
    # What is made once and kept is none of an entry's.
    waiting(0, packed_metadata({}))
    tracemalloc.start()
    yield tracemalloc.get_traced_memory
    tracemalloc.stop()


def longest_id(number: int) -> RequestId:
    return RequestId(f"{number:0128}")


def waiting(number: int, metadata: bytes | None) -> Entry:
    rid = longest_id(number)
    digest = a_request(rid).digest()
    return Entry(rid, RequestState.QUEUED, 1e9 + number, request_file(rid), digest=digest, metadata=metadata)


def test_as_many_requests_as_an_instance_may_allow_with_the_largest_metadata_take_what_they_are_counted_as(
    traced: Callable[[], tuple[int, int]],
) -> None:
    index = Index()
    for number in range(SAMPLE):
        index.add(waiting(number, packed_metadata(largest_metadata())))
    assert traced()[0] <= index.kept_bytes
    scan(NamesOnly([request_file(longest_id(number)) for number in range(SAMPLE)]), index.indexed())
    assert traced()[1] <= index.kept_bytes
    assert maximum("maxPending") * index.kept_bytes / SAMPLE <= QueueLimits().max_kept_bytes


def test_the_largest_archive_takes_what_it_is_counted_as(traced: Callable[[], tuple[int, int]]) -> None:
    index = ArchiveIndex()
    for number in range(20 * SAMPLE):
        index.put(str(longest_id(number)), _Item(1e9 + number, 100_000 + number, 7))
    assert traced()[0] <= 20 * SAMPLE * ARCHIVED_BYTES


def test_all_of_it_fits_the_limit_of_the_chart_with_a_margin_of_a_tenth() -> None:
    values = yaml_documents.load((REPOSITORY / "charts/efrit-operator/values.yaml").read_text())
    limit = values["bridge"]["resources"]["limits"]["memory"]
    assert limit.endswith("Mi")
    archive = maximum("archiveRequests") * ARCHIVED_BYTES
    assert BASE_BYTES + QueueLimits().max_kept_bytes + archive <= 0.9 * (int(limit[:-2]) << 20)


async def test_a_request_that_would_take_more_memory_than_there_is_is_refused_with_what_to_do(start: Start) -> None:
    metadata = {"text": "x" * 1000}
    size = kept_bytes_of(canonical_json(metadata))
    running = await start(QueueLimits(max_kept_bytes=3 * size - 1))
    queue: DurableQueue = running.queue
    for name in ("a", "b"):
        await queue.submit(a_request(name, metadata=metadata))
    running.emacs.do("a")
    await running.until_state("a", RequestState.ANSWERED)
    with pytest.raises(QueueFull, match=r"2 requests are not acknowledged.*acknowledge answers, send less metadata"):
        await queue.submit(a_request("c", metadata=metadata))
    await queue.acknowledge(RequestId("a"))
    assert (await queue.submit(a_request("c", metadata=metadata)))[1]
    for name in ("b", "c"):
        running.emacs.do(name)
        await running.until_state(name, RequestState.ANSWERED)
        await queue.acknowledge(RequestId(name))
    assert queue.index.kept_bytes == 0


async def test_beyond_the_bound_a_foreign_request_is_followed_without_its_metadata(start: Start) -> None:
    running = await start(QueueLimits(max_kept_bytes=2 * kept_bytes_of(None) + 100))
    assert isinstance(running, Running)
    for name in ("a", "b"):
        request = a_request(name, metadata={"text": "x" * 90})
        part = running.root / f"tmp/{name}"
        part.write_text(request.to_json())
        part.rename(running.root / f"requests/req_{name}.json")
        await running.until_state(name, RequestState.QUEUED)
    by_id = {view.id: view.metadata for view in running.views}
    assert by_id == {"a": {"text": "x" * 90}, "b": None}
