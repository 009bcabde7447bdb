"""The bridge's certificate, exchanged while it serves: connections made later get the new one."""

import logging
import ssl
from pathlib import Path

from efrit.bridge.file_stamps import FileStamps
from efrit.errors import ConfigurationError

log = logging.getLogger(__name__)


class Certificate:
    """`context` serves tls.crt and tls.key of one directory."""

    def __init__(self, directory: Path) -> None:
        self._cert, self._key = directory / "tls.crt", directory / "tls.key"
        self._stamps = FileStamps(self._cert, self._key)
        self._stamps.changed()
        self.context = _context()
        try:
            self.context.load_cert_chain(self._cert, self._key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"{self._cert} and tls.key are not a usable certificate ({error}): mount the instance's Secret"
            ) from error

    def refresh(self) -> None:
        """Load the files again if they changed; keep serving the old certificate if they do not fit."""
        if not self._stamps.changed():
            return
        try:
            # A pair that does not fit would leave the live context without a usable key.
            _context().load_cert_chain(self._cert, self._key)
            self.context.load_cert_chain(self._cert, self._key)
        except (OSError, ssl.SSLError) as error:
            log.error("the new certificate is unusable (%s): the old one stays", error)
        else:
            log.info("certificate changed")


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
