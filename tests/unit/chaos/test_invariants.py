"""Each invariant is broken by a history that breaks nothing else, and kept by what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.faults.checker import check
from tests.support.faults.history import Allowance, Digest, ExpectedEnd, History
from tests.support.faults.violation import Violation
from tests.unit.chaos.histories import (
    RESULT,
    SUCCEEDED,
    UID,
    answer,
    archived,
    failed,
    final,
    history,
    left,
    loss,
    ran,
    submitted_request,
    version,
)

LARGE = "x" * 40_000
OPEN = version(1.1, 5, event="ADDED")
CANCELLABLE = submitted_request(ends=(SUCCEEDED, ExpectedEnd("Cancelled", runs=(0, 1))))
RETRIED = submitted_request(attempts=2)
GONE: dict[str, Any] = {"results": {}, "answers": (), "files": ()}


def broken(found: History) -> set[str]:
    return {each.invariant for each in check(found)}


def only(found: History) -> Violation:
    (violation,) = check(found)
    return violation


def test_a_request_that_ran_once_and_was_answered_breaks_nothing() -> None:
    assert check(history()) == []


def test_i1_a_final_status_that_changes() -> None:
    found = only(history(versions=(OPEN, final(), final(3.0, 11, attempt=2))))
    assert (found.invariant, found.request) == ("I1", "a")
    assert "attempt" in found.sentence


def test_i1_is_judged_in_order_of_resource_versions_whatever_the_order_of_arrival() -> None:
    assert check(history(versions=(final(2.0, 10), version(2.1, 9, phase="Running", reason="Running")))) == []


def test_i1_a_deletion_after_the_end_is_no_change() -> None:
    gone = final(3.0, 12)
    assert broken(history(versions=(OPEN, final(), type(gone)(**{**vars(gone), "event": "DELETED"})))) == {"I2"}
    assert (
        check(
            history(
                submitted=(submitted_request(deleted=True),),
                versions=(OPEN, final(), type(gone)(**{**vars(gone), "event": "DELETED"})),
            )
        )
        == []
    )


def test_i1_answers_on_two_queues() -> None:
    two = (answer(), answer(queue="q2"))
    assert broken(history(answers=two)) == {"I1"}
    assert check(history(answers=two, losses=(loss(queue=True),))) == []


def test_i2_a_request_that_is_never_final() -> None:
    found = only(history(versions=(OPEN,)))
    assert found.invariant == "I2"
    assert "not final" in found.sentence


def test_i2_a_request_that_was_never_seen_again() -> None:
    assert only(history(versions=())).sentence == "it was accepted and never seen again"


def test_i2_a_request_that_vanishes() -> None:
    found = only(history(versions=(OPEN, version(1.5, 6, event="DELETED"))))
    assert found.invariant == "I2"


def test_i2_a_request_that_goes_after_its_end_and_one_that_does_not() -> None:
    mortal = submitted_request(expires=True)
    assert broken(history(submitted=(mortal,))) == {"I2"}
    gone = (OPEN, final(), final(3.0, 12, event="DELETED"))
    assert check(history(submitted=(mortal,), versions=gone)) == []
    assert broken(history(submitted=(mortal,), versions=(OPEN, version(3.0, 12, event="DELETED")))) == {"I2"}


def test_i2_of_a_request_that_went_while_nobody_could_look_only_that_it_may_go_is_judged() -> None:
    unseen = (OPEN, version(3.0, 12, event="UNSEEN"))
    assert check(history(submitted=(submitted_request(expires=True),), versions=unseen)) == []
    ended = (OPEN, final(), final(3.0, 12, event="UNSEEN"))
    assert check(history(submitted=(submitted_request(expires=True),), versions=ended)) == []
    assert broken(history(versions=unseen)) == {"I2"}


def test_i2_a_request_that_ends_too_late_after_the_faults() -> None:
    assert broken(history(versions=(OPEN, final(62.0)), ended_at=70.0)) == {"I2"}
    assert check(history(versions=(OPEN, final(62.0)), healed_at=5.0, ended_at=70.0)) == []


def test_i2_an_instance_that_is_not_ready_again() -> None:
    assert broken(history(instances_ready={("ns", "one"): False})) == {"I2"}


def test_i2_a_deleted_namespace_that_stays() -> None:
    assert broken(history(namespaces_left=("ns",))) == {"I2"}


def test_i3_a_second_run_without_a_policy() -> None:
    # The result is right and the status is final once: only the counter shows it.
    found = check(history(ran=(ran(), ran())))
    assert [each.invariant for each in found] == ["I3", "I8"]


def test_i3_more_runs_than_attempts() -> None:
    twice = history(submitted=(RETRIED,), versions=(OPEN, final(attempt=2)), ran=(ran(), ran()), losses=(loss(),))
    assert check(twice) == []
    assert "I3" in broken(history(submitted=(RETRIED,), ran=(ran(), ran(), ran()), losses=(loss(), loss(1.7, 1.8))))


def test_i3_a_status_that_tells_of_fewer_attempts_than_there_were() -> None:
    assert broken(history(submitted=(RETRIED,), ran=(ran(), ran()), losses=(loss(),))) == {"I3"}


def test_i4_success_without_a_run() -> None:
    assert broken(history(ran=())) == {"I4", "I8"}


def test_i4_a_result_that_is_not_the_responses() -> None:
    assert broken(history(answers=(answer(result='"other"'),))) == {"I4"}


def test_i4_a_large_result_that_is_not_what_its_reference_says() -> None:
    whole = Digest.of(LARGE)
    reference = {"secretName": "efrit-result-uid-a", "bytes": whole.size, "sha256": whole.sha256}
    good = history(
        submitted=(submitted_request(ends=(ExpectedEnd("Succeeded", whole),)),),
        versions=(OPEN, final(result=LARGE[:32_768], truncated=True, resultRef=reference)),
        answers=(answer(result=LARGE, sha256=whole.sha256),),
        results={UID: whole},
        secrets=(("ns", "efrit-result-uid-a"),),
    )
    assert check(good) == []
    torn = history(**{**vars_of(good), "results": {UID: Digest.of(LARGE[:-1])}})
    assert broken(torn) >= {"I4", "I8"}


def cut_by_emacs(**reference: object) -> History:
    whole, beginning = Digest.of(LARGE + "and more"), Digest.of(LARGE)
    pointer = {"secretName": "efrit-result-uid-a", "bytes": whole.size, "sha256": "", **reference}
    return history(
        submitted=(submitted_request(ends=(ExpectedEnd("Succeeded", whole),)),),
        versions=(OPEN, final(result=LARGE[:32_768], truncated=True, resultRef=pointer)),
        answers=(answer(result=LARGE, truncated=True, sha256=whole.sha256),),
        results={UID: beginning},
        secrets=(("ns", "efrit-result-uid-a"),),
        allowances=(Allowance("Succeeded", "its workspace was full while it ran", request="a"),),
    )


def test_i4_a_result_that_emacs_cut_is_not_said_to_be_whole() -> None:
    assert check(cut_by_emacs()) == []
    assert broken(cut_by_emacs(sha256=Digest.of(LARGE + "and more").sha256)) == {"I4"}


def test_i4_the_beginning_that_is_stored_is_the_one_that_was_answered() -> None:
    found = cut_by_emacs()
    torn = {UID: Digest.of(LARGE[:-1])}
    assert broken(history(**{**vars_of(found), "allowances": found.allowances, "results": torn})) == {"I4"}


def vars_of(found: History) -> dict[str, object]:
    return {name: getattr(found, name) for name in ("submitted", "versions", "answers", "results", "secrets")}


def test_i4_success_without_any_response() -> None:
    assert broken(history(answers=(), files=())) == {"I4"}


def test_i4_success_that_was_not_answered_so() -> None:
    assert broken(history(answers=(answer(reason="Interrupted", result=None),))) == {"I4"}


@pytest.mark.parametrize(
    "status",
    [
        failed("Cancelled", attempt=None, startTime=None),
        failed("Rejected", attempt=None, startTime=None),
        failed("Cancelled", error={"code": "Cancelled", "message": "It waited too long and never ran."}),
    ],
)
def test_i5_what_was_not_begun_ran(status: object) -> None:
    ends = (ExpectedEnd("Cancelled", runs=(0, 1)), ExpectedEnd("Rejected", runs=(0, 1)))
    assert broken(history(submitted=(submitted_request(ends=ends),), versions=(OPEN, status), results={})) == {"I5"}


def test_i5_what_was_cancelled_while_it_ran_may_have_run() -> None:
    kept = history(submitted=(CANCELLABLE,), versions=(OPEN, failed("Cancelled")), results={})
    assert check(kept) == []


@pytest.mark.parametrize("area", ["requests", "processing", "responses", "tmp", "control", "progress"])
def test_i6_a_file_that_is_left_on_a_queue(area: str) -> None:
    found = only(history(files=(*archived(), left(area))))
    assert (found.invariant, found.request) == ("I6", "a")


def test_i6_the_room_that_a_queue_keeps_for_answers_is_not_left_behind() -> None:
    assert check(history(files=(*archived(), left("tmp", "reserve_31")))) == []
    assert broken(history(files=(*archived(), left("tmp", "reserve_me")))) == {"I6"}
    assert broken(history(files=(*archived(), left("tmp", "reserve_32")))) == {"I6"}
    assert broken(history(files=(*archived(), left("requests", "reserve_1")))) == {"I6"}


def test_i6_nobody_tidies_a_queue_that_went_with_its_pod() -> None:
    assert check(history(files=(*archived(), left("processing", live=False)))) == []


def test_i6_an_archived_file_of_nobody() -> None:
    assert broken(history(files=(*archived(), *archived("uid-x")))) == {"I6"}


def test_i6_half_a_pair_in_the_archive() -> None:
    assert broken(history(files=archived()[:1])) == {"I6"}


def test_i6_on_a_full_volume_what_never_ran_may_have_its_cancelled_answer_alone() -> None:
    alone = {
        "submitted": (submitted_request(ends=(ExpectedEnd("Cancelled", runs=(0,)),)),),
        "versions": (OPEN, failed("Cancelled", attempt=None, startTime=None)),
        "answers": (answer(reason="Cancelled", result=None),),
        "files": archived()[1:],
        "ran": (),
        "results": {},
    }
    assert broken(history(**alone)) == {"I6"}
    assert check(history(**alone, hits={"fill a volume of": 1})) == []


def test_i6_a_result_secret_of_nobody() -> None:
    assert broken(history(secrets=(("ns", "efrit-result-uid-x"),))) == {"I6"}


def test_i7_a_run_on_another_instance() -> None:
    assert "I7" in broken(history(ran=(ran(instance="two"),)))


def test_i7_a_run_that_nobody_asked_for() -> None:
    assert broken(history(ran=(ran(), ran("stranger")))) == {"I7"}


def test_i7_one_request_on_two_instances_of_a_selector() -> None:
    both = submitted_request(instances=("one", "two"), attempts=2)
    found = history(
        submitted=(both,), versions=(OPEN, final(attempt=2)), ran=(ran(), ran(instance="two")), losses=(loss(),)
    )
    assert broken(found) == {"I7"}


def test_i7_a_response_on_an_instance_that_was_not_asked() -> None:
    assert "I7" in broken(history(answers=(answer(instance="two"),)))


def test_i7_a_response_that_answers_another() -> None:
    assert broken(history(answers=(answer(id="uid-b"),))) == {"I7"}


def test_i7_a_status_with_the_words_of_another_request() -> None:
    other = submitted_request("b", "uid-b", "beta")
    found = history(
        submitted=(submitted_request(), other),
        versions=(OPEN, final(output="beta"), final(uid="uid-b", name="b", result='"beta"')),
        ran=(ran(), ran("beta")),
        files=(*archived(), *archived("uid-b")),
        answers=(answer(), answer("uid-b", result='"beta"', sha256=Digest.of('"beta"').sha256)),
        results={UID: Digest.of(RESULT), "uid-b": Digest.of('"beta"')},
    )
    assert broken(found) == {"I7"}


def test_i8_another_result_than_without_faults() -> None:
    wrong = '"gamma"'
    found = history(
        versions=(OPEN, final(result=wrong)),
        answers=(answer(result=wrong, sha256=Digest.of(wrong).sha256),),
        results={UID: Digest.of(wrong)},
    )
    assert broken(found) == {"I8"}


def test_i8_interrupted_only_where_an_emacs_was_lost_while_the_request_was_open() -> None:
    interrupted = {"versions": (OPEN, failed("Interrupted")), "results": {}}
    assert broken(history(**interrupted)) == {"I8"}
    assert broken(history(**interrupted, losses=(loss(5.0, 6.0),))) == {"I8"}
    assert broken(history(**interrupted, losses=(loss(0.1, 0.9),))) == {"I8"}
    assert check(history(**interrupted, losses=(loss(),))) == []


def test_i8_one_lost_emacs_interrupts_one_request() -> None:
    second = submitted_request("b", "uid-b", "beta")
    found = history(
        submitted=(submitted_request(), second),
        versions=(OPEN, failed("Interrupted"), failed("Interrupted", uid="uid-b", name="b")),
        ran=(ran(), ran("beta")),
        losses=(loss(),),
        **GONE,
    )
    assert broken(found) == {"I8"}
    assert check(history(**{**shape(found), "losses": (loss(), loss(1.7, 1.8))})) == []
    assert check(history(**{**shape(found), "losses": (loss(queue=True),)})) == []


def shape(found: History) -> dict[str, object]:
    return {name: getattr(found, name) for name in ("submitted", "versions", "ran", "results", "answers", "files")}


def test_i8_a_fault_may_allow_another_end_and_says_which() -> None:
    late = {"versions": (OPEN, failed("TimedOut")), "results": {}}
    assert broken(history(**late)) == {"I8"}
    assert check(history(**late, allowances=(Allowance("TimedOut", "Emacs stood still", instance="one"),))) == []
    assert broken(history(**late, allowances=(Allowance("TimedOut", "Emacs stood still", instance="two"),))) == {"I8"}
    assert broken(history(**late, allowances=(Allowance("TimedOut", "Emacs stood still", request="b"),))) == {"I8"}


def test_requests_of_a_deleted_namespace_need_not_end_but_must_not_run_twice() -> None:
    gone = {"versions": (OPEN,), "namespaces_deleted": ("ns",), "instances_ready": {("ns", "one"): False}, **GONE}
    assert check(history(**gone)) == []
    assert broken(history(**gone, ran=(ran(), ran()))) == {"I3"}
