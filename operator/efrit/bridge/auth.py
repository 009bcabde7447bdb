"""Who may talk to the bridge: bearer tokens from the Secret, re-read when it changes.

The token of this week and of the next are accepted, and during a rotation the one of the former key.
"""

import hmac
import logging
from pathlib import Path

from efrit.errors import ConfigurationError
from efrit.file_stamps import FileStamps

log = logging.getLogger(__name__)

_SCHEME = "bearer "


class Tokens:
    """The accepted tokens of one directory with the files `token` and, perhaps, `token-next` and `token-previous`."""

    def __init__(self, directory: Path) -> None:
        self._files = tuple(directory / name for name in ("token", "token-next", "token-previous"))
        self._stamps = FileStamps(*self._files)
        self._tokens: tuple[bytes, ...] = ()
        self._problem: str | None = None
        """Why the files could not be read when they were looked at last."""
        self.refresh()
        if not self._tokens:
            raise ConfigurationError(f"{self._files[0]} holds no token: mount the instance's Secret there")

    def refresh(self) -> None:
        """Read the files again if they changed; keep the old tokens while they cannot be read, or there is none."""
        if not self._stamps.changed():
            return
        try:
            tokens = tuple(filter(None, map(_read, self._files)))
        except OSError as error:
            self._stamps.forget()  # gate: tokens-unread
            if str(error) != self._problem:
                log.error("the tokens cannot be read (%s): the ones known stay valid", error)
            self._problem = str(error)
            return
        self._problem = None
        if not tokens:
            log.error("no token in %s: the ones known stay valid", self._files[0].parent)
            return
        if self._tokens and tokens != self._tokens:
            log.info("tokens changed: %d accepted", len(tokens))
        self._tokens = tokens

    def accepts(self, authorization: str | None) -> bool:
        """Return whether this `Authorization` header carries one of the tokens."""
        if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
            return False
        token = authorization[len(_SCHEME) :].strip().encode("utf-8", "surrogateescape")
        if self._matches(token):
            return True
        # A token newer than our copy must not be refused for a second.
        self.refresh()
        return self._matches(token)

    def _matches(self, presented: bytes) -> bool:
        # Every token is compared, so that the time taken does not tell which one is near.
        matches = [hmac.compare_digest(presented, token) for token in self._tokens]
        return any(matches)


def _read(path: Path) -> bytes | None:
    """Return the token in a file, None where there is none. Raises `OSError` for a file that cannot be read."""
    try:
        return path.read_bytes().strip() or None
    except FileNotFoundError:
        return None
