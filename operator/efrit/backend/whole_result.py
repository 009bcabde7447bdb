"""The whole result of a request that is over: a state holds the beginning of a long one. Asks the backend for it."""

from __future__ import annotations

from msgspec.structs import replace

from efrit.backend.errors import ClientError, ResultTruncated
from efrit.backend.interface import Backend, RequestState


async def completed(backend: Backend, state: RequestState) -> tuple[RequestState, ClientError | None]:
    """Return `state` with its whole result, or with what there is of it and the reason why there is not more."""
    if not is_partial(state):
        return state, None
    try:
        result = await backend.result(state.handle)
    except ClientError as error:
        return replace(state, result=error.kept) if isinstance(error, ResultTruncated) else state, error
    return replace(state, result=result, truncated=False), None


def without_texts(state: RequestState) -> RequestState:
    """Return `state` without what may be long: what was asked, and what came of it."""
    return replace(
        state, content=None, result=None, output="", messages="", error=None, context=None, session=None, usage=None
    )


def is_partial(state: RequestState) -> bool:
    """Return whether `state` holds only the beginning of its result."""
    return state.final and state.truncated and state.result is not None
