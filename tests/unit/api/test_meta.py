"""api: the models on the wire, conditions, reasons."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from efrit.api import (
    Condition,
    ConditionStatus,
    EfritClaim,
    EfritInstance,
    EfritRequest,
    InstanceReason,
    ModelReason,
    QueueReason,
    RequestPhase,
    RequestReason,
    RetryPolicy,
    SelfCheckReason,
    condition_of,
    with_condition,
)
from efrit.api.meta import ApiModel, Rule, rfc3339, rfc3339_micro
from efrit.protocol import Usage

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
LATER = NOW + timedelta(seconds=60)
TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE

REQUEST: dict[str, Any] = {
    "metadata": {"name": "work", "namespace": "team", "uid": "u", "resourceVersion": "7"},
    "spec": {
        "instanceRef": {"name": "alpha"},
        "type": "command",
        "content": "tidy up",
        "returnContext": True,
        "timeoutSeconds": 5,
        "queueTimeoutSeconds": 6,
        "budget": {"maxToolCalls": 3},
        "session": {"id": "s-1"},
        "priority": -3,
        "retryPolicy": "IfInterrupted",
        "maxAttempts": 2,
        "cancel": True,
        "ttlSecondsAfterFinished": 0,
    },
    "status": {
        "phase": "Failed",
        "conditions": [
            {
                "type": "Complete",
                "status": "True",
                "reason": "TimedOut",
                "message": "Too long.",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-03-01T12:00:00Z",
            }
        ],
        "reason": "TimedOut",
        "outcome": "Failure",
        "truncated": True,
        "resultRef": {"secretName": "s", "key": "result", "bytes": 9, "sha256": "0"},
        "error": {"code": "TimedOut", "message": "Too long."},
        "podUID": "p",
        "queueID": "q",
        "queuedTime": "2026-03-01T12:00:00.000001Z",
        "executionSeconds": 0.5,
    },
}
INSTANCE: dict[str, Any] = {
    "metadata": {"name": "alpha", "namespace": "team"},
    "spec": {
        "model": {"name": "m", "baseURL": "https://x", "apiKeySecretRef": {"name": "s", "key": "k"}},
        "queue": {"ephemeral": True},
    },
    "status": {"queue": {"pending": 1}, "startTime": "2026-03-01T12:00:00Z", "suspendedIdle": True},
}


def contains(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and contains(whole[key], part[key]) for key in part)
    return bool(whole == part)


@pytest.mark.parametrize(
    ("model", "wire"), [(EfritRequest, REQUEST), (EfritInstance, INSTANCE)], ids=["request", "instance"]
)
def test_what_came_over_the_wire_goes_back_over_it(model: type[EfritRequest | EfritInstance], wire: Any) -> None:
    read = model.model_validate(wire)

    written = read.to_wire()

    assert contains({part: written[part] for part in ("spec", "status")}, {p: wire[p] for p in ("spec", "status")})
    assert model.model_validate(written) == read


def test_a_status_is_written_exactly_as_it_came() -> None:
    assert EfritRequest.model_validate(REQUEST).status.to_wire() == REQUEST["status"]


def test_an_absent_spec_takes_every_default() -> None:
    instance = EfritInstance.model_validate({"metadata": {"name": "alpha"}})

    assert instance.spec.operating_mode == "Running"
    assert instance.spec.queue.storage is not None
    assert (instance.spec.queue.max_pending, instance.spec.limits.request_timeout_seconds) == (1000, 30)


def test_fields_of_a_later_version_are_ignored() -> None:
    wire = {**REQUEST, "spec": {**REQUEST["spec"], "novelty": 1}, "novelty": {}}

    assert EfritRequest.model_validate(wire) == EfritRequest.model_validate(REQUEST)


def test_models_cannot_be_changed() -> None:
    request = EfritRequest.model_validate(REQUEST)

    with pytest.raises(ValidationError, match="frozen"):
        request.spec.content = "other"  # type: ignore[misc]


@pytest.mark.parametrize("update", [None, {}, {"content": "other", "cancel": True}], ids=["all", "none", "some"])
def test_a_copy_is_the_one_that_pydantic_makes(update: dict[str, Any] | None) -> None:
    spec = EfritRequest.model_validate(REQUEST).spec
    before = spec.model_dump()

    copied, expected = spec.model_copy(update=update), BaseModel.model_copy(spec, update=update)

    assert copied == expected
    assert copied.__pydantic_fields_set__ == expected.__pydantic_fields_set__
    assert copied.model_dump(exclude_unset=True) == expected.model_dump(exclude_unset=True)
    assert (type(copied), spec.model_dump()) == (type(spec), before)


def test_no_model_has_what_a_copy_leaves_out() -> None:
    models = list(_models(ApiModel))

    assert EfritRequest in models
    assert [model for model in models if model.model_config.get("extra") == "allow"] == []
    assert [model for model in models if model.__private_attributes__] == []


def _models(kind: type[ApiModel]) -> Iterator[type[ApiModel]]:
    for model in kind.__subclasses__():
        yield model
        yield from _models(model)


def test_a_deep_copy_shares_nothing() -> None:
    request = EfritRequest.model_validate(REQUEST)

    copied = request.model_copy(deep=True)

    assert copied == request
    assert copied.spec is not request.spec


def test_a_resource_is_known_by_namespace_and_name() -> None:
    assert EfritRequest.model_validate(REQUEST).key == ("team", "work")


@pytest.mark.parametrize(("quantity", "text"), [(1, "1"), ("500m", "500m"), ("1Gi", "1Gi")])
def test_quantities_may_be_numbers(quantity: Any, text: str) -> None:
    spec = {"emacs": {"resources": {"requests": {"cpu": quantity}}}}
    instance = EfritInstance.model_validate({"metadata": {"name": "a"}, "spec": spec})

    assert instance.spec.emacs.resources is not None
    assert instance.spec.emacs.resources.requests == {"cpu": text}


# Times.


def test_times_are_whole_seconds_in_utc() -> None:
    assert rfc3339(NOW) == "2026-03-01T12:00:00Z"
    assert rfc3339_micro(NOW) == "2026-03-01T12:00:00.123456Z"


def test_times_of_other_zones_and_of_the_first_year_are_written_in_utc() -> None:
    assert rfc3339_micro(NOW.astimezone(timezone(timedelta(hours=5)))) == rfc3339_micro(NOW)
    assert rfc3339(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01T00:00:00Z"


# Conditions.


def condition(now: datetime = NOW, status: ConditionStatus = TRUE, reason: str = "Ready") -> tuple[Condition, ...]:
    return with_condition((), "Ready", status, reason, "Yes.", generation=1, now=now)


def test_a_new_condition_has_its_transition_now() -> None:
    (made,) = condition()

    assert (made.type, made.status, made.last_transition_time, made.observed_generation) == ("Ready", TRUE, NOW, 1)


def test_a_condition_whose_status_stays_keeps_its_transition_time() -> None:
    (made,) = with_condition(condition(), "Ready", TRUE, "Other", "Still.", generation=2, now=LATER)

    assert (made.last_transition_time, made.reason, made.message) == (NOW, "Other", "Still.")
    assert made.observed_generation == 2


def test_a_condition_whose_status_changes_has_a_new_transition_time() -> None:
    (made,) = with_condition(condition(), "Ready", FALSE, "Gone", "No.", generation=1, now=LATER)

    assert made.last_transition_time == LATER


def test_other_conditions_stay_in_place() -> None:
    both = with_condition(condition(), "Suspended", FALSE, "Running", "No.", generation=1, now=NOW)

    changed = with_condition(both, "Ready", FALSE, "Gone", "No.", generation=1, now=LATER)

    assert [condition.type for condition in changed] == ["Ready", "Suspended"]
    assert changed[1] == both[1]


def test_a_message_is_cut_where_the_api_server_would_refuse_it() -> None:
    (made,) = with_condition((), "Ready", TRUE, "Ready", "x" * 5000, generation=1, now=NOW)

    assert len(made.message) == 4096


def test_a_condition_is_found_by_its_type() -> None:
    assert condition_of(condition(), "Ready") == condition()[0]
    assert condition_of(condition(), "Other") is None


def test_writing_a_condition_twice_changes_nothing() -> None:
    once = EfritRequest.model_validate(REQUEST).status.conditions

    again = with_condition(once, "Complete", TRUE, "TimedOut", "Too long.", generation=1, now=LATER)

    assert again == once


# Reasons, phases, rules.


def test_a_request_is_of_no_type_that_the_queue_alone_has() -> None:
    with pytest.raises(ValidationError, match=r"spec\.type"):
        EfritRequest.model_validate({**REQUEST, "spec": {**REQUEST["spec"], "type": "status"}})


@pytest.mark.parametrize(("word", "policy"), [("Never", RetryPolicy.NEVER), ("IfInterrupted", "if-interrupted")])
def test_a_retry_policy_is_that_of_the_wire_in_the_case_of_a_resource(word: str, policy: str) -> None:
    request = EfritRequest.model_validate({**REQUEST, "spec": {**REQUEST["spec"], "retryPolicy": word}})

    assert request.spec.retry_policy == policy
    assert request.spec.to_wire()["retryPolicy"] == word


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("spec", {"retryPolicy": "if-interrupted"}),
        ("status", {"usage": 3}),
        ("status", {"usage": {"modelCalls": -1}}),
    ],
)
def test_what_a_type_of_the_wire_refuses_is_named_in_the_resource(part: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=f"{part}.{next(iter(wrong))}"):
        EfritRequest.model_validate({**REQUEST, part: {**REQUEST.get(part, {}), **wrong}})


def test_the_usage_of_a_resource_is_that_of_the_wire_without_what_a_later_version_adds() -> None:
    usage = {"inputTokens": 3, "modelErrors": {"529": 1}, "later": 1}
    status = EfritRequest.model_validate({**REQUEST, "status": {"usage": usage}}).status

    assert status.usage == Usage(input_tokens=3, model_errors={"529": 1})
    assert {key: value for key, value in status.to_wire()["usage"].items() if value} == {
        "inputTokens": 3,
        "modelErrors": {"529": 1},
    }


@pytest.mark.parametrize("reasons", [RequestReason, InstanceReason, QueueReason, ModelReason, SelfCheckReason])
def test_reasons_are_camel_case_words(reasons: Any) -> None:
    assert all(reason.value.isalpha() and reason.value[0].isupper() for reason in reasons)
    assert all(reason.value.lower() == reason.name.replace("_", "").lower() for reason in reasons)


def test_open_reasons_are_those_of_work_that_goes_on() -> None:
    assert {reason for reason in RequestReason if not reason.final} == {
        RequestReason.PENDING,
        RequestReason.INSTANCE_NOT_READY,
        RequestReason.INSTANCE_SUSPENDED,
        RequestReason.INSTANCE_UPDATING,
        RequestReason.BACKPRESSURE,
        RequestReason.PREEMPTING,
        RequestReason.PREEMPTED,
        RequestReason.QUEUED,
        RequestReason.RUNNING,
    }


def test_final_phases_are_those_that_never_change() -> None:
    assert {phase for phase in RequestPhase if phase.final} == {RequestPhase.SUCCEEDED, RequestPhase.FAILED}


def test_a_rule_is_spelled_as_the_schema_wants_it() -> None:
    assert Rule("a", "b").as_schema() == {"rule": "a", "message": "b"}
    assert Rule("a", "b", ".c", "FieldValueInvalid").as_schema() == {
        "rule": "a",
        "message": "b",
        "fieldPath": ".c",
        "reason": "FieldValueInvalid",
    }


@pytest.mark.parametrize(
    "text",
    ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+12:00"],
)
def test_a_time_of_a_status_can_be_written_and_added_to_whoever_wrote_it(text: str) -> None:
    of_claim = {"metadata": {"name": "c"}, "spec": {"poolRef": {"name": "p"}}, "status": {"boundTime": text}}

    claim = EfritClaim.model_validate(of_claim)

    assert claim.status.bound_time is not None
    assert (claim.status.bound_time + timedelta(days=3650)).year in (10, 9009)
    written = EfritClaim.model_validate({**of_claim, "status": claim.status.to_wire()})
    assert written.status == claim.status
