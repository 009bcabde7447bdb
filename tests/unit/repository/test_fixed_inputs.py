"""`make test` gives the same verdict twice: no test chooses its input by chance."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.cluster.paths import REPOSITORY
from tests.support.faults.generators.light import FIXED, RARE, theme_of
from tests.support.faults.schedule import Theme

EXPLORING = {"tests/chaos/soak.py", "tests/fuzz/guided.py"}
"""Programs that choose a first seed and print it; the test run gives them one."""
CHOICES = {"choice", "randbelow", "randbits", "SystemRandom"}
"""What of `secrets` decides something; a token only makes a name that nobody else has."""
PROFILE = {"register_profile", "load_profile"}


def sources(*words: str) -> dict[str, ast.AST]:
    """Return the tests' sources that have one of these words in their text, which is faster found than parsed."""
    texts = {path: path.read_text() for path in sorted((REPOSITORY / "tests").rglob("*.py"))}
    chosen = {path: text for path, text in texts.items() if any(word in text for word in words)}
    return {path.relative_to(REPOSITORY).as_posix(): ast.parse(text) for path, text in chosen.items()}


def by_chance(tree: ast.AST) -> Iterator[str]:
    """Return each call whose value differs from run to run."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if not isinstance(node.func.value, ast.Name):
            continue
        module, name = node.func.value.id, node.func.attr
        seeded = name == "Random" and node.args
        if (module == "random" and not seeded) or (module == "secrets" and name in CHOICES):
            yield f"line {node.lineno}: {module}.{name}"


def of_profile(tree: ast.AST) -> Iterator[str]:
    """Return each place that decides anew whether properties explore."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            keywords = {keyword.arg for keyword in node.keywords} & {"derandomize", "database"}
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in PROFILE or (name == "settings" and keywords) or name == "seed":
                yield f"line {node.lineno}: {name}"


@pytest.mark.skipif("EFRIT_FUZZ_EXAMPLES" in os.environ, reason="make fuzz explores")
def test_every_property_has_the_same_examples_each_time() -> None:
    profile = settings()
    assert profile.derandomize
    assert profile.database is None
    assert profile.deadline is None


def test_only_one_place_decides_whether_properties_explore() -> None:
    trees = sources("profile", "settings(", "seed(")
    places = {name: uses for name, tree in trees.items() if (uses := list(of_profile(tree)))}
    assert set(places) == {"tests/conftest.py"}, places


def test_nothing_in_the_tests_is_chosen_by_chance() -> None:
    trees = sources("random.", "secrets.")
    places = {
        name: calls for name, tree in trees.items() if name not in EXPLORING and (calls := list(by_chance(tree)))
    }
    assert places == {}


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("random.choice(x)", 1),
        ("random.Random()", 1),
        ("random.Random(f'{seed}')", 0),
        ("secrets.randbelow(3)", 1),
        ("secrets.token_hex(3)", 0),
        ("rng.choice(x)", 0),
    ],
)
def test_what_counts_as_chance(code: str, count: int) -> None:
    assert len(list(by_chance(ast.parse(code)))) == count


def test_the_seeds_of_the_test_run_are_a_list_and_have_every_theme_of_the_light_tier() -> None:
    themes = {theme_of(seed) for seed in FIXED}
    rare = set(RARE.values())
    assert themes >= {theme_of(seed) for seed in range(1000)} - rare
    assert themes.isdisjoint(rare)
    assert Theme.NODE not in themes


def test_the_makefile_plays_that_list_and_gives_sets_one_order() -> None:
    plan = subprocess.run(
        ["make", "--dry-run", "test-chaos-seeds"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    assert "tests.chaos soak --fixed " in plan
    assert "--minutes" not in plan
    output = subprocess.run(
        ["make", "--eval", "test-hash-seed: ; @echo seed $$PYTHONHASHSEED", "test-hash-seed"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
        env={key: value for key, value in os.environ.items() if key != "PYTHONHASHSEED"},
    ).stdout
    assert "seed 0" in output


def test_the_examples_of_a_property_are_the_same_in_two_processes(tmp_path: Path) -> None:
    # Of the project's own profile: the root conftest.py is what decides.
    test = tmp_path / "test_property.py"
    test.write_text(
        "from hypothesis import given, strategies as st\n"
        "@given(st.lists(st.integers()))\n"
        "def test_said(numbers):\n"
        "    print(numbers)\n"
        "test_said()\n"
    )
    env = {key: value for key, value in os.environ.items() if key != "EFRIT_FUZZ_EXAMPLES"}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", "import tests.conftest, test_property"],
            cwd=tmp_path,
            env=env | {"PYTHONPATH": f"{REPOSITORY}:{tmp_path}", "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].count(b"\n") > 20
