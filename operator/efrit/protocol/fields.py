"""Ids as fields of models. Apart from the rule itself, which is needed where no model is."""

from typing import Annotated

from pydantic import AfterValidator, Field

from efrit.protocol.ids import MAX_ID_LENGTH, RequestId, is_request_id


def _check(text: str) -> str:
    # pydantic turns a ValueError into a field error and lets everything else through.
    if not is_request_id(text):
        raise ValueError(f"use 1 to {MAX_ID_LENGTH} of A-Z a-z 0-9 . _ - (not . or ..)")
    return text


RequestIdField = Annotated[RequestId, AfterValidator(_check)]
"""`RequestId` as a model field: checked at the border of every model."""

SessionId = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,128}$")]
"""Id of a session with the model, made by Emacs; safe as the beginning of a file name."""
