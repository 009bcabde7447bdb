"""The bridge's certificate: that of its instance's Secret."""

import ssl
from pathlib import Path

from efrit.errors import ConfigurationError
from efrit.served_certificate import ServedCertificate


class Certificate(ServedCertificate):
    """`context` serves tls.crt and tls.key of one directory."""

    def __init__(self, directory: Path) -> None:
        """Load both files. Raises `ConfigurationError` where they are not usable."""
        certificate = directory / "tls.crt"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        super().__init__(context, certificate, directory / "tls.key")
        try:
            self.load()
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"{certificate} and tls.key are not a usable certificate ({error}): mount the instance's Secret"
            ) from error
