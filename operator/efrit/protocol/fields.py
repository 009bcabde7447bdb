"""Ids as fields of models. Apart from the rule itself, which is needed where no model is."""

from typing import Annotated

from msgspec import Meta

from efrit.protocol.ids import MAX_ID_LENGTH, RequestId

ID_PATTERN = r"^(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,128}\Z"
ID_RULE = f"use 1 to {MAX_ID_LENGTH} of A-Z a-z 0-9 . _ - (not . or ..)"
"""What `ID_PATTERN` asks for, in words."""

RequestIdField = Annotated[RequestId, Meta(pattern=ID_PATTERN)]
"""`RequestId` as a model field: checked where a model is read."""

SessionId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,128}\Z")]
"""Id of a session with the model, made by Emacs; safe as the beginning of a file name."""
