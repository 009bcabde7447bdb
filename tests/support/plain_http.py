"""HTTP without TLS, to servers of the tests."""

from __future__ import annotations

import ssl

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""`verify` of a client that opens plain connections: httpx reads the certificates of the system for each client."""
