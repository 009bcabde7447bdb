"""The cluster's own certificate authority and the kubeconfigs made from it, by the openssl command.

Certificates carry the extensions that strict verifiers (Python 3.13's default) insist on.
"""

from __future__ import annotations

import base64
import json
import secrets
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster.progress import run

BY_TOKEN = "efrit-by-token"
"""Context, and user, of a kubeconfig."""
DAYS = "365"
_EC_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class Authority:
    """A CA in a directory: `ca.crt`, `ca.key`, `sa.key` and one pair of files per name issued."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def ca(self) -> Path:
        """Certificate of the authority."""
        return self.directory / "ca.crt"

    def certificate(self, name: str) -> Path:
        """Certificate issued under this name."""
        return self.directory / f"{name}.crt"

    def key(self, name: str) -> Path:
        """Private key under this name (`ca` and `sa` included)."""
        return self.directory / f"{name}.key"

    def client_context(self, name: str) -> ssl.SSLContext:
        """Return what a client needs that trusts the authority and shows the certificate of this name."""
        context = ssl.create_default_context(cafile=str(self.ca))
        context.load_cert_chain(self.certificate(name), self.key(name))
        return context

    @property
    def tokens(self) -> Path:
        """Tokens for `--token-auth-file`, one a line, where any was issued."""
        return self.directory / "tokens.csv"

    def issue_token(self, name: str, group: str) -> None:
        """Make the one token there is: of a user of this name and group."""
        self.tokens.touch(mode=0o600)
        self.tokens.write_text(f'{secrets.token_hex(16)},{name},{name},"{group}"\n')

    def token(self) -> str:
        """Return the token there is."""
        return self.tokens.read_text().partition(",")[0]

    def create(self) -> None:
        """Make the authority and the key that signs service account tokens."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.key("sa")])
        run(
            [
                *("openssl", "req", "-x509", *_EC_KEY, "-keyout", self.key("ca"), "-out", self.ca),
                *("-days", DAYS, "-subj", "/CN=efrit-test-cluster"),
                *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
            ]
        )

    def issue(self, name: str, subject: str, alternatives: Sequence[str]) -> None:
        """Issue a certificate for both client and server use; alternatives look like `DNS:a` or `IP:b`."""
        request, extensions = self.directory / f"{name}.csr", self.directory / f"{name}.ext"
        run(["openssl", "req", *_EC_KEY, "-keyout", self.key(name), "-out", request, "-subj", subject])
        extensions.write_text(
            "basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\n"
            "extendedKeyUsage=serverAuth,clientAuth\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
            f"subjectAltName={','.join(alternatives)}\n"
        )
        run(
            [
                *("openssl", "x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.key("ca")),
                *("-CAcreateserial", "-out", self.certificate(name), "-days", DAYS, "-extfile", extensions),
            ]
        )
        request.unlink()
        extensions.unlink()

    def write_kubeconfig(self, path: Path, name: str, server: str) -> None:
        """Write a self-contained kubeconfig (JSON is YAML) for the holder of the certificate `name`.

        Where a token was issued, its context BY_TOKEN logs in with that.
        """
        document: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "efrit", "cluster": {"server": server, "certificate-authority-data": _encoded(self.ca)}}
            ],
            "users": [
                {
                    "name": name,
                    "user": {
                        "client-certificate-data": _encoded(self.certificate(name)),
                        "client-key-data": _encoded(self.key(name)),
                    },
                }
            ],
            "contexts": [{"name": "efrit", "context": {"cluster": "efrit", "user": name}}],
            "current-context": "efrit",
        }
        if self.tokens.exists():
            document["users"].append({"name": BY_TOKEN, "user": {"token": self.token()}})
            document["contexts"].append({"name": BY_TOKEN, "context": {"cluster": "efrit", "user": BY_TOKEN}})
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.chmod(0o600)
        path.write_text(json.dumps(document, indent=1) + "\n")


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
