"""The certificate of the model's API is always checked, and an authority of one's own can be named."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.chat.conftest import begin
from tests.model.running import KEY, Model
from tests.support.bridge_instance import Instance
from tests.support.certificates import write_certificate

HELLO = "Good day, who are you? (scenario=chat)"


class Front:
    """Ends TLS on a port of loopback and hands on to the model's server."""

    def __init__(self, certificates: Path, behind: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificates / "tls.crt", certificates / "tls.key")
        self._behind = behind
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                plain, _ = self._listener.accept()
                threading.Thread(target=self._carry, args=(plain,), daemon=True).start()

    def _carry(self, plain: socket.socket) -> None:
        # Who does not believe the certificate ends the handshake.
        with contextlib.suppress(OSError), self._context.wrap_socket(plain, server_side=True) as client:
            with socket.create_connection(("127.0.0.1", self._behind)) as model:
                threading.Thread(target=_pump, args=(client, model), daemon=True).start()
                _pump(model, client)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("certificates")
    write_certificate(place, "model")
    return place


@pytest.fixture(scope="module")
def front(certificates: Path, model: Model) -> Iterator[Front]:
    made = Front(certificates, int(model.url.rpartition(":")[2]))
    yield made
    made.close()


@contextlib.contextmanager
def instance(place: Path, lisp: Path, url: str, **env: str) -> Iterator[Instance]:
    """Run an instance whose model is at URL."""
    (place / "key").write_text(KEY)
    ours = {
        "EFRIT_MODEL_NAME": "claude-test",
        "EFRIT_MODEL_BASE_URL": url,
        "EFRIT_MODEL_API_KEY_FILE": str(place / "key"),
    }
    with Instance(place / "instance", lisp, ours | env) as made:
        yield made


def test_a_certificate_of_nobody_known_is_refused_and_nothing_is_asked(
    tmp_path: Path, lisp: Path, front: Front, model: Model
) -> None:
    model.reset()
    with instance(tmp_path, lisp, f"https://127.0.0.1:{front.port}") as one:
        begin(one, "a", "chat", HELLO)
        answer = one.answer("a")
    assert (answer.reason, answer.error_code) == ("ModelError", "tls"), answer
    assert model.log() == []


def test_an_authority_of_ones_own_is_believed_for_the_names_it_vouches_for(
    tmp_path: Path, lisp: Path, front: Front, certificates: Path, model: Model
) -> None:
    model.reset()
    authority = str(certificates / "tls.crt")
    (tmp_path / "right").mkdir()
    with instance(tmp_path / "right", lisp, f"https://127.0.0.1:{front.port}", CURL_CA_BUNDLE=authority) as one:
        begin(one, "a", "chat", HELLO)
        assert one.answer("a").reason == "Succeeded"
    model.reset()
    (tmp_path / "wrong").mkdir()
    with instance(tmp_path / "wrong", lisp, f"https://localhost:{front.port}", CURL_CA_BUNDLE=authority) as one:
        begin(one, "a", "chat", HELLO)
        assert one.answer("a").error_code == "tls"
    assert model.log() == []
