"""What each part takes of a processor for an eval of each load, beside the floor of that load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.support.figures import Figure


def burst(size: int) -> str:
    """Return the title of a burst."""
    return f"burst of {size:,}"


def floor_size(size: int, floors: Sequence[int]) -> int:
    """Return the burst whose floor a burst is compared with."""
    return max((one for one in floors if one <= size), default=floors[0])


def floor(size: int, floors: Sequence[int]) -> str:
    """Return the title of that floor."""
    return f"floor of {burst(floor_size(size, floors))}"


def figures_of(
    parts: Mapping[str, Mapping[str, float]], bursts: Sequence[int], floors: Sequence[int]
) -> Iterator[Figure]:
    """Yield what each part took for an eval of each load, its floor beside it, and what is aimed at.

    parts: load -> part -> ms of a processor for each eval; bursts: the sizes of all, floors: those that have a floor.
    """
    titles = {burst(size): floor(size, floors) for size in bursts}
    for title, row in parts.items():
        own = title if title.startswith("floor") else titles.get(title, "floor")
        least = _of_api_server(parts[own])
        for name, value in row.items():
            yield Figure(f"{title}: {name}", value, "processor ms", floor=least if own != title else value)
        whole = sum(row.values())
        yield Figure(f"{title}: together", whole, "processor ms", floor=least if own != title else whole)
    first, last = burst(bursts[0]), burst(bursts[-1])
    yield from _beside_floor(parts, first)
    # Of a cluster elsewhere no part's time is known.
    if first != last and any(parts[first].values()):
        whole = sum(parts[last].values()) / sum(parts[first].values())
        names = [name for name in parts[last] if parts[first].get(name, 0.0) > 0.05]
        detail = ", ".join(f"{name} {parts[last][name] / parts[first][name]:.2f}" for name in names)
        yield Figure(f"an eval of the {last} beside one of the {first}", whole, "times", "<= 1.1", f"({detail})")


def _of_api_server(row: Mapping[str, float]) -> float:
    """Return what counts of a floor: API server and etcd."""
    return sum(row.get(name, 0.0) for name in ("API server", "etcd"))


def _beside_floor(parts: Mapping[str, Mapping[str, float]], title: str) -> Iterator[Figure]:
    """Yield what is aimed at: what an eval takes beside the floor of the burst."""
    least = _of_api_server(parts[f"floor of {title}"])
    if not least:
        return
    for one, aim in ((title, 0.4), ("one after the other", 0.71)):
        ours = sum(parts[one].get(name, 0.0) for name in ("controller", "bridge"))
        yield Figure(f"{one}: controller and bridge", ours, "processor ms", floor=least)
        yield Figure(f"{one}: controller and bridge beside the floor of a burst", ours / least, "times", f"<= {aim}")
    whole = sum(parts[title].values())
    yield Figure(f"{title}: together, beside its floor", whole / least, "times", "<= 1.55")
    beyond = _of_api_server(parts[title]) - least
    yield Figure(f"{title}: API server and etcd beyond the floor", max(0.0, beyond), "processor ms", floor=least)
