"""A large result may be cut where its Secret was refused or its workspace was full, and nowhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.faults.history import Execution
from tests.support.faults.large_results import FullVolume, allowances, refused_secrets
from tests.unit.chaos.histories import UID, answer, final, submitted_request

CUT = final(at=5.0, truncated=True)
FULL = FullVolume("one", "workspace", 2.0, 6.0)


def allowed(status: Any = CUT, *, by_emacs: bool = False, refused: tuple[str, ...] = (), full: Any = ()) -> bool:
    given = answer(truncated=by_emacs)
    begun = [Execution("ns", "one", "alpha", written=3.0)]
    return bool(
        list(allowances([submitted_request()], {UID: status}, [given], begun, refused=refused, full_volumes=full))
    )


def test_a_result_is_not_cut_for_nothing() -> None:
    assert not allowed()
    assert not allowed(by_emacs=True)


def test_a_result_may_be_cut_whose_own_secret_was_refused() -> None:
    assert allowed(refused=(f"efrit-result-{UID}",))
    assert not allowed(refused=("efrit-result-uid-b",))


def test_a_result_may_be_cut_that_emacs_had_no_space_for() -> None:
    assert allowed(by_emacs=True, full=(FULL,))


@pytest.mark.parametrize(
    "full",
    [
        replace(FULL, instance="two"),
        replace(FULL, volume="queue"),
        replace(FULL, end=2.9),
        replace(FULL, begin=5.1),
    ],
    ids=["of another instance", "of the queue", "full before it ran", "full after it had ended"],
)
def test_another_volume_or_another_time_allows_nothing(full: FullVolume) -> None:
    assert not allowed(by_emacs=True, full=(full,))


def test_a_full_workspace_does_not_excuse_a_secret_that_is_not_there() -> None:
    assert not allowed(by_emacs=False, full=(FULL,))


def test_a_refused_secret_does_not_excuse_what_emacs_cut() -> None:
    assert not allowed(by_emacs=True, refused=(f"efrit-result-{UID}",))


def test_a_whole_result_needs_no_allowance() -> None:
    assert not allowed(final(), refused=(f"efrit-result-{UID}",), full=(FULL,))


def test_refused_secrets_are_read_from_the_audit_log(tmp_path: Path) -> None:
    def event(name: str, code: int, namespace: str = "ns") -> str:
        about = {"resource": "secrets", "namespace": namespace, "name": name}
        return json.dumps({"verb": "create", "objectRef": about, "responseStatus": {"code": code}})

    log = tmp_path / "audit.log"
    lines = [event("made", 201), event("refused", 403), event("invalid", 422), event("theirs", 403, "other")]
    log.write_text("\n".join([*lines, event("there-already", 409), ""]))
    assert refused_secrets(log, "ns") == {"refused", "invalid"}


def test_no_audit_log_is_no_refusal(tmp_path: Path) -> None:
    assert refused_secrets(tmp_path / "audit.log", "ns") == frozenset()


def test_the_secret_of_the_beginning_that_emacs_kept_does_not_make_the_result_whole() -> None:
    cut = final(at=5.0, truncated=True, resultRef={"secretName": f"efrit-result-{UID}", "bytes": 9, "sha256": ""})
    assert not allowed(cut, by_emacs=True)
    assert allowed(cut, by_emacs=True, full=(FULL,))


def test_a_result_that_lies_in_its_secret_whole_needs_no_allowance() -> None:
    whole = final(at=5.0, truncated=True, resultRef={"secretName": f"efrit-result-{UID}", "bytes": 9, "sha256": "a"})
    assert not allowed(whole, refused=(f"efrit-result-{UID}",), full=(FULL,))
