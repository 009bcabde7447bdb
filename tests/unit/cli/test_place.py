"""cli/place.py: what is suggested reaches the same place, and a cluster that nobody named is."""

from __future__ import annotations

from argparse import Namespace
from typing import cast

import pytest

from efrit.backend.interface import (
    Backend,
)
from efrit.cli.commands import COMMANDS
from efrit.cli.place import Invocation
from tests.unit.cli.listed import Listed


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("run `efrit doctor`", "run `kubectl efrit --namespace a doctor`"),
        ("stop it first: efrit stop one", "stop it first: kubectl efrit --namespace a stop one"),
        ("see `efrit plan list`", "see `kubectl efrit --namespace a plan list`"),
        (
            "efrit requests, then efrit cancel",
            "kubectl efrit --namespace a requests, then kubectl efrit --namespace a cancel",
        ),
        ("install efrit-operator again", "install efrit-operator again"),
        ("efrit is a word", "efrit is a word"),
    ],
)
def test_what_is_suggested_reaches_the_same_place(text: str, suggestion: str) -> None:
    assert Invocation("kubectl efrit", " --namespace a").in_text(text) == suggestion


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("see `kubectl -n team logs efrit-a-0`", "see `kubectl --kubeconfig k --context b -n team logs efrit-a-0`"),
        ("check (`kubectl cluster-info`)", "check (`kubectl --kubeconfig k --context b cluster-info`)"),
        ("run `kubectl taint nodes one x`", "run `kubectl --kubeconfig k --context b taint nodes one x`"),
        ("change its spec with kubectl", "change its spec with kubectl"),
        ("run `efrit doctor`", "run `kubectl efrit --kubeconfig k --context b --namespace a doctor`"),
    ],
)
def test_a_suggested_command_of_kubectl_reaches_the_same_cluster(text: str, suggestion: str) -> None:
    arguments = Namespace(namespace="a", context="b", kubeconfig="k", config=None)
    assert Invocation.of("kubectl efrit", arguments).in_text(text) == suggestion


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_each_command_is_suggested_for_the_same_place(command: str) -> None:
    assert (
        Invocation("efrit", " --context b").in_text(f"see `efrit {command}`") == f"see `efrit --context b {command}`"
    )


def test_an_invocation_repeats_what_was_given_and_quotes_it() -> None:
    arguments = Namespace(namespace="a", context="it's", config=None)
    assert Invocation.of("efrit", arguments).command("wait", "a b") == (
        "efrit --context 'it'\"'\"'s' --namespace a wait 'a b'"
    )


@pytest.mark.parametrize(
    ("kind", "options", "variable", "noted"),
    [
        ("cluster", {}, None, True),
        ("cluster", {"namespace": "a"}, None, False),
        ("cluster", {"backend": "cluster"}, None, False),
        ("cluster", {}, "cluster", False),
        ("local", {}, None, False),
    ],
)
def test_a_cluster_chosen_because_this_is_a_pod_is_named(
    kind: str,
    options: dict[str, str],
    variable: str | None,
    noted: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("EFRIT_BACKEND", raising=False)
    if variable:
        monkeypatch.setenv("EFRIT_BACKEND", variable)
    backend = Listed()
    backend.kind, backend.place = kind, "this cluster, namespace team"
    Invocation().report_chosen_cluster(Namespace(**options), cast("Backend", backend))
    expected = "running in a pod, so this works in this cluster, namespace team; --backend"
    assert (expected in capsys.readouterr().err) is noted
