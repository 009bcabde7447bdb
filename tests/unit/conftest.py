"""For all unit tests: one public certificate authority. All of them take each TLS context 30 ms to read."""

import atexit
import os
from tempfile import NamedTemporaryFile

import certifi

END = "-----END CERTIFICATE-----\n"

AUTHORITY = NamedTemporaryFile("w", suffix=".pem")  # noqa: SIM115 - as long as the tests run
AUTHORITY.write(certifi.contents().partition(END)[0] + END)
AUTHORITY.flush()
atexit.register(AUTHORITY.close)
os.environ["SSL_CERT_FILE"] = AUTHORITY.name
