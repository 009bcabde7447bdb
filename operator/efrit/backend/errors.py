"""What may go wrong for a client, the same in both backends. Each says what to do, in `advice`.

Stands on `efrit.errors`; the backends turn whatever they meet into one of these.
"""

# ruff: noqa: N818 - as in efrit.errors, the names say what happened

from typing import ClassVar

from efrit.errors import EfritError


class ClientError(EfritError):
    """Something a client asked for was not done. `advice` is a sentence on what to do, or empty."""

    code: ClassVar[str] = "Client"

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


class NotFound(ClientError):
    """What was named is not there."""

    code = "NotFound"


class InstanceNotFound(NotFound):
    """No instance of this name."""

    code = "InstanceNotFound"


class RequestNotFound(NotFound):
    """No request of this name, or it is no longer kept."""

    code = "RequestNotFound"


class PlanNotFound(NotFound):
    """No plan of this name, or nothing of it on the workspace."""

    code = "PlanNotFound"


class PoolNotFound(NotFound):
    """No pool of this name, and no instance with its label."""

    code = "PoolNotFound"


class ClaimNotFound(NotFound):
    """No exclusive claim of this name."""

    code = "ClaimNotFound"


class ResultGone(NotFound):
    """The request is there, the whole of its long result no more."""

    code = "ResultGone"


class ResultTruncated(ResultGone):
    """Emacs kept only the beginning of the result, which is `kept`; the rest exists nowhere."""

    code = "ResultTruncated"

    def __init__(self, message: str, advice: str, kept: str) -> None:
        super().__init__(message, advice)
        self.kept = kept


class NotReady(ClientError):
    """It cannot be done now, and may be later: an instance that does not come up, a full queue."""

    code = "NotReady"


class RestartNeeded(NotReady):
    """The Emacs of `instance` was started before it could have what the work needs: the settings of a model."""

    code = "RestartNeeded"

    def __init__(self, message: str, advice: str, instance: str) -> None:
        super().__init__(message, advice)
        self.instance = instance


class NoInstance(NotReady):
    """No instance was named, and none that fits is ready or may be started."""

    code = "NoInstance"


class NotFinished(NotReady):
    """It has no result yet."""

    code = "NotFinished"


class WaitTimeout(NotReady):
    """It is not over after the time for which you were ready to wait. It goes on."""

    code = "WaitTimeout"


class Refused(ClientError):
    """It may not be done, or can never work as it was asked for."""

    code = "Refused"


class Conflict(Refused):
    """The key, or the name, belongs to other work already."""

    code = "Conflict"


class Forbidden(Refused):
    """You may not do this in this cluster."""

    code = "Forbidden"


class NotLoggedIn(Forbidden):
    """The cluster does not accept your credentials, whatever they may do."""


class WrongSettings(Refused):
    """The configuration file, a variable or an argument says what cannot be."""

    code = "WrongSettings"


class NoEmacs(ClientError):
    """There is no usable Emacs on this machine."""

    code = "NoEmacs"


class NoCluster(ClientError):
    """No cluster is configured, or it does not answer, or has no operator."""

    code = "NoCluster"


def content_too_long(size: str, place: str, limit: int) -> Refused:
    """Return the error for work whose content has `size`, with its unit, and may have `limit` in `place`."""
    return Refused(
        f"the content has {size}; a request {place} takes at most {limit}",
        "send less: a file that the work reads can hold the rest",
    )


def check_directory(directory: str | None, name: str = "the directory") -> None:
    """Raise `Refused` for the empty name of a directory, an unset variable say: it would be the current one."""
    if directory == "":
        raise Refused(f"{name} is empty", "name a directory, or leave it out")


def check_encoding(directory: str) -> None:
    """Raise `Refused` for a directory whose name is not UTF-8: neither a request nor Emacs could name it."""
    try:
        directory.encode()
    except UnicodeEncodeError:
        shown = directory.encode(errors="surrogateescape").decode(errors="backslashreplace")
        raise Refused(f"the name of {shown} is not valid UTF-8", "use another directory") from None


def check_options(**values: object) -> None:
    """Raise `WrongSettings` for an empty value, of an unset variable say: it would be taken for another one."""
    for name, value in values.items():
        if value == "":
            raise WrongSettings(f"{name}: the value is empty", "give one, or leave it out")


def check_name(name: str, what: str) -> str:
    """Return the `name` of a thing, `what`. Raises `WrongSettings` for an empty one."""
    if name == "":
        raise WrongSettings(f"the name of the {what} is empty", "give the name")
    return name
