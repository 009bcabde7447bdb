"""The changelog names what is new since the last release, or gone: released_names.txt has what that had."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.cluster.paths import REPOSITORY
from tests.unit.repository.public_names import RELEASED, commands, fields, metrics, names, values


def unreleased() -> str:
    text = (REPOSITORY / "CHANGELOG.md").read_text()
    return text.partition("## Unreleased\n")[2].partition("\n## ")[0]


def parents(name: str) -> Iterator[str]:
    """Yield what a name belongs to, the nearest first: the object of a field, its kind, the command of an option."""
    kind, _, rest = name.partition(" ")
    if kind == "option":
        yield f"command {rest.rpartition(' ')[0]}"
    while kind in ("field", "value") and "." in rest:
        rest = rest.rpartition(".")[0]
        yield f"{kind} {rest}"


def spelled(name: str) -> str:
    """Return how a changelog spells a name."""
    kind, _, rest = name.partition(" ")
    return rest if kind == "command" else re.split(r"[ .]", rest)[-1].removesuffix("[]")


def unnamed(released: set[str], present: set[str], text: str) -> list[str]:
    """Return what is in one of the sets alone, and named neither itself nor by what it belongs to and came with."""
    changed = released ^ present
    # A kind, or a part of one, that has no row of its own is new where all that it has is.
    changed |= {
        parent
        for name in changed
        for parent in parents(name)
        if not any(old.startswith(f"{parent}.") or old == parent for old in released & present)
    }

    def is_named(name: str) -> bool:
        return re.search(rf"(?<![\w-]){re.escape(spelled(name))}(?![\w-])", text) is not None

    return sorted(
        name
        for name in released ^ present
        if not is_named(name) and not any(parent in changed and is_named(parent) for parent in parents(name))
    )


def test_the_changelog_names_what_is_new_or_gone() -> None:
    missing = unnamed(set(RELEASED.read_text().splitlines()), names(), unreleased())
    assert not missing, (
        f"CHANGELOG.md, section Unreleased, does not name: {'; '.join(missing)}. "
        "At a release, `python -m tests.unit.repository.public_names` writes what it has"
    )


OLD = {"field EfritPool.spec.replicas", "command efrit top", "option efrit top --output", "value mcp.access"}


@pytest.mark.parametrize(
    ("new", "text", "missing"),
    [
        ({"field EfritPool.spec.warm"}, "- More.", ["field EfritPool.spec.warm"]),
        ({"field EfritPool.spec.warm"}, "- `warmth` of a pool.", ["field EfritPool.spec.warm"]),
        ({"field EfritPool.spec.warm", "field EfritPool.spec.warm.spares"}, "- `spec.warm` of a pool.", []),
        ({"field EfritClaim.spec.holder", "field EfritClaim.status.phase"}, "- `EfritClaim` (`efc`).", []),
        ({"field EfritPool.spec.limit"}, "- An `EfritPool` is faster.", ["field EfritPool.spec.limit"]),
        ({"option efrit top --all"}, "- `efrit top` is faster.", ["option efrit top --all"]),
        ({"command efrit rest", "option efrit rest --for"}, "- `efrit rest NAME` rests.", []),
        ({"tool efrit_rest", "metric efrit_rests_total"}, "- MCP: `efrit_rest`.", ["metric efrit_rests_total"]),
        ({"value mcp.rest"}, "- Value `mcp.rest`.", []),
    ],
)
def test_a_new_name_is_to_be_named_itself_or_by_what_it_came_with(
    new: set[str], text: str, missing: list[str]
) -> None:
    assert unnamed(OLD, OLD | new, text) == missing
    # The same where it goes.
    assert unnamed(OLD | new, OLD, text) == missing


def test_the_names_are_read_where_they_are_written() -> None:
    page = "### spec of EfritPool\n| `a.b[].c` | object |\n| `template.spec.x` |\n### Rules of EfritPool\n| `d` |"
    assert list(fields(page)) == ["field EfritPool.spec.a.b[].c"]
    page = "### efrit top\n| `-o {json}`, `--output {json}` | as `--json` |\n# Exit codes\n| `--no` |"
    assert list(commands(page)) == ["command efrit top", "option efrit top --output"]
    assert list(values({"a": {"b": 1, "c": {}}})) == ["a.b", "a.c"]
    assert list(metrics('Counter(\n    "efrit_a", "A.")\nother("efrit_b")')) == ["efrit_a"]
    assert {name.split()[0] for name in names()} == {"field", "option", "value", "command", "metric", "tool"}
