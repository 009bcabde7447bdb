"""kube/listing.py: pages within a bound of bytes, whatever the size of the objects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from efrit.kube.listing import FIRST_PAGE, LONGEST_PAGE, MAX_PAGE_BYTES, PAGE_BYTES, Listing


class Collection:
    """Objects of these sizes, served as the API server does; remembers each page that was asked for."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.pages: list[tuple[int, int | None]] = []
        """(limit, bytes that were read, None where the page was given up)"""

    async def fetch(self, limit: int, token: str | None, max_bytes: int | None) -> bytes | None:
        first = int(token or 0)
        items = [{"n": first + number, "pad": "x" * size} for number, size in enumerate(self.sizes[first:][:limit])]
        last = first + len(items)
        meta = {"resourceVersion": "7", **({"continue": str(last)} if last < len(self.sizes) else {})}
        data = json.dumps({"metadata": meta, "items": items}).encode()
        read = None if max_bytes is not None and len(data) > max_bytes else data
        self.pages.append((limit, len(read) if read is not None else None))
        return read


async def numbers(listing: Listing) -> list[int]:
    return [obj["n"] async for obj in listing]


@pytest.mark.parametrize(
    ("sizes", "pages"),
    [
        ([10] * 30, 1),
        ([10] * 2000, 6),
        ([70_000] * 200, 15),
        ([10] * 60 + [1_500_000] * 5, 9),
        ([3_000_000] * 3, 6),
        ([6_000_000], 4),
    ],
    ids=["few", "many", "large", "small, then large", "huge", "larger than a page"],
)
async def test_every_object_comes_once_and_no_page_of_several_is_longer_than_its_bound(
    sizes: list[int], pages: int
) -> None:
    collection = Collection(sizes)
    listing = Listing(collection.fetch)

    assert await numbers(listing) == list(range(len(sizes)))
    assert listing.version == "7"
    assert all(size is None or limit == 1 or size <= MAX_PAGE_BYTES for limit, size in collection.pages)
    assert max(limit for limit, _ in collection.pages) <= LONGEST_PAGE
    assert len(collection.pages) <= pages


async def test_pages_of_objects_of_one_size_keep_to_a_quarter_of_the_bound() -> None:
    collection = Collection([70_000] * 100)
    await numbers(Listing(collection.fetch))

    assert collection.pages[0][0] == FIRST_PAGE
    assert all(size is not None and size <= PAGE_BYTES for _, size in collection.pages[1:])


async def test_a_limit_that_is_asked_for_is_kept() -> None:
    collection = Collection([10] * 5)
    await numbers(Listing(collection.fetch, 2))

    assert [limit for limit, _ in collection.pages] == [2, 2, 2]


@pytest.mark.parametrize("items", [None, []])
async def test_a_collection_without_objects_is_empty(items: Any) -> None:
    async def fetch(*_: object) -> bytes:
        return json.dumps({"metadata": {}, "items": items}).encode()

    assert await numbers(Listing(fetch)) == []
