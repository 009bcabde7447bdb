"""What an answer means, as rules over its JSON object: the same for every reader. Pure, without models.

A laptop's command line reads one answer and ends: it uses these alone. The model `Response` applies them too.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from efrit.protocol.enums import Outcome, Reason, ResponseStatus

_PLAIN: dict[str, Reason] = {ResponseStatus.SUCCESS: Reason.SUCCEEDED, ResponseStatus.TIMEOUT: Reason.TIMED_OUT}


def concluded(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return `answer` with the reason and outcome that a 1.0.0 writer says with `status`; null stands for absent."""
    filled = {key: value for key, value in answer.items() if value is not None}
    reason = filled.setdefault("reason", _PLAIN.get(str(filled.get("status")), Reason.EVAL_ERROR))
    filled.setdefault("outcome", Outcome.SUCCESS if reason == Reason.SUCCEEDED else Outcome.FAILURE)
    return filled


def contradicts_itself(status: str, reason: Reason, outcome: Outcome) -> bool:
    """Return whether the three cannot belong to one answer. Partial work may end with any reason but success."""
    succeeded = reason is Reason.SUCCEEDED
    unlikely = Outcome.FAILURE if succeeded else Outcome.SUCCESS
    return (status == ResponseStatus.SUCCESS) is not succeeded or outcome is unlikely


def is_another_result(result: str | None, sha256: str | None, *, whole: bool) -> bool:
    """Return whether `result`, where it is `whole`, is not the one that `sha256` speaks of."""
    if result is None or sha256 is None or not whole:
        return False
    return hashlib.sha256(result.encode(errors="surrogatepass")).hexdigest() != sha256
