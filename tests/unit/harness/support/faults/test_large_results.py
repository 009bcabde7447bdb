"""A large result may be cut where its Secret was refused or its workspace was full, and nowhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.faults.history import Execution
from tests.support.faults.large_results import FullVolume, allowances, refused_secrets
from tests.unit.harness.support.faults.histories import UID, answer, final, submitted_request

CUT = final(at=5.0, truncated=True)
FULL = FullVolume("one", "workspace", 2.0, 6.0)
REFUSED = (f"efrit-result-{UID}",)


def cut_with(sha256: str) -> Any:
    reference = {"secretName": f"efrit-result-{UID}", "bytes": 9, "sha256": sha256}
    return final(at=5.0, truncated=True, resultRef=reference)


def allowed(status: Any = CUT, *, by_emacs: bool = False, refused: tuple[str, ...] = (), full: Any = ()) -> bool:
    stored_answer = answer(truncated=by_emacs)
    begun = [Execution("ns", "one", "alpha", written=3.0)]
    return bool(
        list(
            allowances(
                [submitted_request()], {UID: status}, [stored_answer], begun, refused=refused, full_volumes=full
            )
        )
    )


def test_a_result_may_be_cut_whose_own_secret_was_refused_or_that_emacs_had_no_space_for() -> None:
    assert allowed(refused=REFUSED)
    assert allowed(by_emacs=True, full=(FULL,))
    assert allowed(cut_with(""), by_emacs=True, full=(FULL,))


@pytest.mark.parametrize(
    ("status", "case"),
    {
        "nothing happened": (CUT, {}),
        "nothing happened to Emacs": (CUT, {"by_emacs": True}),
        "another's Secret was refused": (CUT, {"refused": ("efrit-result-uid-b",)}),
        "the volume of another instance": (CUT, {"by_emacs": True, "full": (replace(FULL, instance="two"),)}),
        "the volume of the queue": (CUT, {"by_emacs": True, "full": (replace(FULL, volume="queue"),)}),
        "full before it ran": (CUT, {"by_emacs": True, "full": (replace(FULL, end=2.9),)}),
        "full after it had ended": (CUT, {"by_emacs": True, "full": (replace(FULL, begin=5.1),)}),
        "a full workspace, and no Secret": (CUT, {"full": (FULL,)}),
        "a refused Secret, and cut by Emacs": (CUT, {"by_emacs": True, "refused": REFUSED}),
        "it is whole": (final(), {"refused": REFUSED, "full": (FULL,)}),
        "it is whole in its Secret": (cut_with("a"), {"refused": REFUSED, "full": (FULL,)}),
        "the Secret has the beginning that Emacs kept": (cut_with(""), {"by_emacs": True}),
    }.values(),
)
def test_nothing_else_excuses_that_a_result_is_cut(status: Any, case: dict[str, Any]) -> None:
    assert not allowed(status, **case)


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
