"""cli/results.py: where a failure is reported."""

from __future__ import annotations

import json
from argparse import Namespace

import pytest

from efrit.backend.interface import (
    Handle,
    Outcome,
    Phase,
    RequestReason,
    RequestState,
)
from efrit.cli.exit_codes import Exit
from efrit.cli.results import print_result


@pytest.mark.parametrize("output", ["name", None, "json"])
def test_a_failure_is_reported_on_standard_error_or_in_the_json(
    output: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    state = RequestState(
        Handle("r1", "one"), Phase.FAILED, RequestReason.EVAL_ERROR, message="error: x", outcome=Outcome.FAILURE
    )
    assert print_result(state, None, Namespace(output=output, raw=False)) is Exit.FAILED
    printed = capsys.readouterr()
    if output == "json":
        assert (json.loads(printed.out)["message"], printed.err) == ("error: x", "")
    else:
        assert printed.out == ("r1\n" if output else "")
        assert printed.err == "efrit: r1 ended EvalError: error: x\n"


@pytest.mark.parametrize(("reason", "printed"), [(RequestReason.MODEL_ERROR, ""), (RequestReason.SUCCEEDED, "\n")])
def test_what_failed_without_a_result_prints_no_empty_line(
    reason: RequestReason, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    state = RequestState(Handle("r1", "one"), Phase.FAILED, reason, message="x", result="")
    print_result(state, None, Namespace(output=None, raw=False))
    assert capsys.readouterr().out == printed
