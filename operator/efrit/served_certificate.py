"""A certificate that is exchanged while it is served: connections made later get the new one."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from efrit.file_stamps import FileStamps

log = logging.getLogger(__name__)


class ServedCertificate:
    """`context` serves what is in two files, of a mounted Secret say."""

    def __init__(self, context: ssl.SSLContext, certificate: Path, key: Path) -> None:
        """Serve the certificate by `context`; what it has loaded before is loaded again by the first `refresh`."""
        self.context = context
        self._files = certificate, key
        self._stamps = FileStamps(*self._files)
        self._problem: str | None = None
        """Why the files could not be loaded when they were looked at last."""

    def load(self) -> None:
        """Load the files. Raises OSError or ssl.SSLError where they are no usable certificate."""
        self._stamps.changed()
        # A pair that does not fit would leave the live context without a usable key.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files)
        self.context.load_cert_chain(*self._files)

    def refresh(self) -> None:
        """Load the files again if they changed; keep serving the old certificate while they are not usable."""
        if not self._stamps.changed():
            return
        try:
            self.load()
        except (OSError, ssl.SSLError) as error:
            # A process without descriptors cannot read them now.
            self._stamps.forget()  # gate: certificate-unread
            if str(error) != self._problem:
                log.error("the certificate in %s is unusable (%s): the old one stays", self._files[0].parent, error)
            self._problem = str(error)
        else:
            self._problem = None
            log.info("the certificate in %s is read again", self._files[0].parent)
