"""Results longer than a status, an answer, or Emacs itself keeps: all of it is delivered, or every client says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.client.conftest import laptop
from tests.support.efrit_program import Done, Program
from tests.support.kube import Kube

LONG = 3_000_000
"""Characters: more than an answer holds and than Emacs once kept."""

KEPT = 900_000
"""Bytes the Emacs of `short_of_room` keeps: enough for a file of its own."""


@pytest.fixture(params=[KEPT, 50_000], ids=["in a file", "in the answer"])
def limited(request: pytest.FixtureRequest) -> Iterator[tuple[Program, int]]:
    with laptop({"one": {}}, EFRIT_MAX_RESULT_BYTES=str(request.param)) as made:
        yield made, request.param


def says_truncated(done: Done) -> bool:
    return done.code == 11 and "is truncated" in done.err


def test_a_result_of_several_mebibytes_is_printed_whole(fresh: Program) -> None:
    assert fresh.ok("eval", "--raw", f"(make-string {LONG} ?x)") == "x" * LONG + "\n"
    state = fresh.run("eval", "-o", "json", f"(make-string {LONG} ?y)")
    assert (state.code, state.json["truncated"]) == (0, False)
    assert state.json["result"] == '"' + "y" * LONG + '"'
    assert fresh.ok("result", "--raw", state.json["name"]) == "y" * LONG + "\n"


def test_json_holds_the_whole_of_a_result_that_a_status_cuts(efrit: Program) -> None:
    done = efrit.run("eval", "-o", "json", "(make-string 100000 ?x)")
    assert (done.code, done.json["truncated"]) == (0, False)
    assert done.json["result"] == '"' + "x" * 100_000 + '"'
    named = efrit.run("requests", done.json["name"], "-o", "json")
    assert (named.code, named.json["result"]) == (0, done.json["result"])


def test_what_emacs_cut_is_printed_with_a_warning_and_exit_code_11(limited: tuple[Program, int]) -> None:
    program, limit = limited
    beginning = ('"' + "x" * LONG)[:limit]
    done = program.run("eval", f"(make-string {LONG} ?x)")
    assert says_truncated(done), done.err
    assert done.out == beginning + "\n"
    done = program.run("eval", "-o", "json", f"(make-string {LONG} ?x)")
    assert says_truncated(done), done.err
    assert (done.json["truncated"], done.json["result"]) == (True, beginning)
    name = done.json["name"]
    for again in (program.run("result", name), program.run("wait", name)):
        assert says_truncated(again), again.err
        assert again.out == beginning + "\n"
    assert says_truncated(program.run("requests", name, "-o", "json"))


def test_in_a_cluster_what_emacs_cut_is_printed_with_a_warning_and_exit_code_11(
    in_a_cluster: Program, kube: Kube
) -> None:
    (namespace,) = in_a_cluster.where[1:]
    limits = {"maxResultBytes": 50_000}
    kube.create("efritinstances", namespace, {"metadata": {"name": "small"}, "spec": {"limits": limits}})
    try:
        in_a_cluster.ok("start", "small")
        for content in ("100000", "60000"):
            done = in_a_cluster.run("eval", "-i", "small", "-o", "json", f"(make-string {content} ?x)")
            assert says_truncated(done), done.err
            assert (done.json["truncated"], done.json["result"]) == (True, ('"' + "x" * LONG)[:50_000])
            assert says_truncated(in_a_cluster.run("result", done.json["name"]))
    finally:
        kube.delete("efritinstances", namespace, "small")
