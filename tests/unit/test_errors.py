"""Errors over the wire and back."""

import pytest

from efrit import errors


@pytest.mark.parametrize(
    "kind",
    [
        errors.InvalidRequest,
        errors.RequestTooLarge,
        errors.QueueFull,
        errors.RequestConflict,
        errors.RequestNotFound,
        errors.NotAnswered,
        errors.QueueNotReady,
        errors.StorageError,
        errors.NoSpace,
        errors.Unauthorized,
    ],
)
def test_a_code_becomes_the_exception_it_came_from(kind: type[errors.EfritError]) -> None:
    error = errors.error_for_code(kind.code, "what happened")
    assert isinstance(error, kind)
    assert error.message == "what happened"


def test_an_unknown_code_is_a_bridge_error() -> None:
    assert type(errors.error_for_code("Weather", "rain")) is errors.BridgeError
