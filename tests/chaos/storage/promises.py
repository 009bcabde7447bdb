"""What was promised by the time of a crash, and whether what came after kept it. Pure.

`promises_at` reads the promises from a record; `violations` compares them with what recovered from a crash state.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.storage.recording import COUNTER
from tests.support.faults.file_shim.shim import Operation

Json = dict[str, object]
ARCHIVED = re.compile(r"/archive/re(?:q|sp)_(.+)\.json$")


@dataclass(frozen=True)
class Promises:
    """What had been promised, by id.

    accepted: requests confirmed. reported: answers reported. acknowledged: answers whose acknowledgement was
    confirmed.
    begun: how often each had been begun; allowed: how often it may be (once by default). swept: ids whose time in the
    archive was over. queue_id: as it was reported, or empty.
    """

    accepted: Mapping[str, Json]
    reported: Mapping[str, Json]
    acknowledged: frozenset[str]
    begun: Mapping[str, int]
    allowed: Mapping[str, int] = field(default_factory=dict)
    swept: frozenset[str] = frozenset()
    queue_id: str = ""


@dataclass(frozen=True)
class Recovered:
    """The state after bridge and Emacs have recovered and nothing is left to do.

    answers: what the bridge reports, by id. begun: runs since the crash. again: ids that the bridge took for new
    when they were submitted once more. left: files that nobody will ever read again. large: digests of results in the
    workspace by path relative to it. doubled: ids with two different answers. trouble: errors.
    """

    answers: Mapping[str, Json]
    begun: Mapping[str, int]
    again: frozenset[str] = frozenset()
    leftovers: tuple[str, ...] = ()
    large: Mapping[str, str] = field(default_factory=dict)
    doubled: frozenset[str] = frozenset()
    queue_id: str = ""
    trouble: tuple[str, ...] = ()


def promises_at(recorded: Sequence[Operation], crash: int, begun_before: Sequence[str] = ()) -> Promises:
    """Return what had been promised and begun when the first `crash` operations had happened."""
    operations = recorded[:crash]
    accepted: dict[str, Json] = {}
    reported: dict[str, Json] = {}
    acknowledged, swept = set(), set()
    begun: Counter[str] = Counter(begun_before)
    queue_id = ""
    for operation in operations:
        if operation.kind == "write" and operation.path.endswith(f"/workspace/{COUNTER}"):
            begun.update(operation.data.decode().split())
        if operation.kind == "unlink" and (deleted := ARCHIVED.search(operation.path)):
            swept.add(deleted[1])
        if operation.kind != "mark":
            continue
        word, _, rest = operation.data.decode().partition(" ")
        rid, _, text = rest.partition(" ")
        if word == "accepted":
            accepted[rid] = json.loads(text)
        elif word == "reported":
            reported[rid] = json.loads(text)
        elif word == "acknowledged":
            acknowledged.add(rid)
        elif word == "queue":
            queue_id = rid
    return Promises(
        accepted, reported, frozenset(acknowledged), dict(begun), _allowed(recorded), frozenset(swept), queue_id
    )


def _allowed(recorded: Sequence[Operation]) -> dict[str, int]:
    """Return how often requests that say so may be begun; one may run before its client gets the acceptance."""
    attempts = {}
    for operation in recorded:
        if operation.kind == "mark" and operation.data.startswith(b"accepted "):
            _, rid, text = operation.data.decode().split(" ", 2)
            options = json.loads(text).get("options", {})
            if options.get("retry") == "if-interrupted":
                attempts[rid] = int(options["max_attempts"])
    return attempts


def violations(before: Promises, after: Recovered) -> list[str]:
    """Return every promise that was not kept, as a sentence."""
    violations = [f"recovery failed: {problem}" for problem in after.trouble]
    violations += [f"left behind: {name}" for name in after.leftovers]
    violations += [f"{rid} has two different answers" for rid in sorted(after.doubled)]
    if before.queue_id and after.queue_id != before.queue_id:
        violations.append(f"the queue was {before.queue_id} and is {after.queue_id}")
    for rid in before.accepted:
        if rid not in after.answers and rid not in before.swept:
            violations.append(f"{rid} was confirmed and has no answer")
        if rid in after.again:
            violations.append(f"{rid} was confirmed and is taken for a new request")
    for rid in {*before.begun, *after.begun}:
        total, allowed = before.begun.get(rid, 0) + after.begun.get(rid, 0), before.allowed.get(rid, 1)
        if total > allowed:
            violations.append(f"{rid} was begun {total} times, {after.begun.get(rid, 0)} of them after the crash")
    for rid, answer in before.reported.items():
        recovered_answer = after.answers.get(rid)
        if recovered_answer is not None and recovered_answer != answer:
            violations.append(f"{rid} was answered {_short(answer)} and is answered {_short(recovered_answer)}")
        if after.begun.get(rid):
            violations.append(f"{rid} had been answered and was begun again")
        if rid not in before.swept:
            violations += _large(rid, answer, after)
    return violations


def _large(rid: str, answer: Json, after: Recovered) -> list[str]:
    path = answer.get("result_path")
    if not isinstance(path, str):
        return []
    name = path.partition("/workspace/")[2]
    if after.large.get(name) == answer["sha256"]:
        return []
    return [f"{rid} was answered with the result in {name}, which is {'changed' if name in after.large else 'gone'}"]


def _short(answer: Json) -> str:
    return f"{answer.get('reason')} {str(answer.get('result'))[:40]!r} (attempt {answer.get('attempt')})"
