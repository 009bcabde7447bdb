"""decide/children/credentials.py: the same bytes for the same instance and period, a certificate clients accept."""

from __future__ import annotations

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from efrit.controller.act.identity import new_identity
from efrit.controller.model.credentials import (
    EPOCH,
    PERIOD,
    Credentials,
    Identity,
    credentials,
    period_of,
    server_name,
    token,
)
from tests.unit.controller.factory import NOW

UID = "0b5a7f4e-1111-2222-3333-444455556666"
STEP = timedelta(microseconds=1)


def certificate(given: Credentials) -> x509.Certificate:
    return x509.load_pem_x509_certificate(given.certificate)


def test_the_same_arguments_give_the_same_bytes(identity: Identity) -> None:
    assert credentials(identity, UID, NOW) == credentials(identity, UID, NOW)


def test_a_controller_that_read_the_identity_anew_gives_the_same_bytes(identity: Identity) -> None:
    other = Identity(identity.hmac_key, identity.ca_certificate, identity.ca_key)

    assert credentials(other, UID, NOW) == credentials(identity, UID, NOW)


def test_nothing_changes_within_a_period(identity: Identity) -> None:
    start = EPOCH + 3 * PERIOD

    assert credentials(identity, UID, start) == credentials(identity, UID, start + PERIOD - STEP)


def test_certificate_and_key_change_at_the_start_of_a_period_and_the_token_stays(identity: Identity) -> None:
    boundary = EPOCH + 3 * PERIOD

    before, after = credentials(identity, UID, boundary - STEP), credentials(identity, UID, boundary)

    assert before.certificate != after.certificate
    assert before.private_key != after.private_key
    assert before.token == after.token


@pytest.mark.parametrize(
    ("moment", "period"), [(EPOCH, 0), (EPOCH + PERIOD - STEP, 0), (EPOCH + PERIOD, 1), (EPOCH - STEP, -1)]
)
def test_periods_are_counted_from_the_epoch(moment: datetime, period: int) -> None:
    assert period_of(moment) == period


def test_a_certificate_outlives_its_period_by_one_so_that_it_can_be_replaced_in_time(identity: Identity) -> None:
    start = EPOCH + period_of(NOW) * PERIOD

    made = certificate(credentials(identity, UID, NOW))

    assert made.not_valid_before_utc == start - timedelta(days=1)
    assert made.not_valid_after_utc == start + 2 * PERIOD


@pytest.mark.parametrize("moment", [NOW, EPOCH + 2 * PERIOD, EPOCH + 3 * PERIOD - STEP])
def test_the_certificate_is_the_cas_for_the_server_name_at_its_moment(identity: Identity, moment: datetime) -> None:
    made = certificate(credentials(identity, UID, moment))

    made.verify_directly_issued_by(x509.load_pem_x509_certificate(identity.ca_certificate))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [server_name(UID)]
    assert made.not_valid_before_utc <= moment < made.not_valid_after_utc


def test_the_certificate_does_not_verify_against_another_ca(identity: Identity) -> None:
    made = certificate(credentials(identity, UID, NOW))

    with pytest.raises(InvalidSignature):
        made.verify_directly_issued_by(x509.load_pem_x509_certificate(new_identity(NOW).ca_certificate))


def test_openssl_in_strict_mode_accepts_the_certificate(tmp_path: Path) -> None:
    identity = new_identity(datetime.now(UTC))
    made = credentials(identity, UID, datetime.now(UTC))
    pair = tmp_path / "pair.pem"
    pair.write_bytes(made.private_key + made.certificate)
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(pair)
    client_side = ssl.create_default_context(cadata=identity.ca_certificate.decode())
    client_side.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = (ssl.MemoryBIO() for _ in range(2))
    client = client_side.wrap_bio(to_client, to_server, server_hostname=server_name(UID))
    server = server_side.wrap_bio(to_server, to_client, server_side=True)

    ended: set[ssl.SSLObject] = set()
    while len(ended) < 2:
        for side in {client, server} - ended:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ended.add(side)

    assert client.getpeercert() is not None


def test_the_server_name_is_a_host_name() -> None:
    assert server_name(UID) == f"{UID}.instances.efrit.dev"


def test_no_two_instances_share_anything(identity: Identity) -> None:
    one, other = credentials(identity, "a", NOW), credentials(identity, "b", NOW)

    assert one.token != other.token
    assert one.private_key != other.private_key
    assert certificate(one).serial_number != certificate(other).serial_number


def test_the_token_depends_on_key_and_instance_alone() -> None:
    assert token(b"key", "a") == token(b"key", "a")
    assert len({token(b"key", "a"), token(b"key", "b"), token(b"other", "a")}) == 3


def test_without_a_rotation_there_is_no_previous_token(identity: Identity) -> None:
    assert credentials(identity, UID, NOW).previous_token is None


def test_during_a_rotation_the_former_token_comes_along(identity: Identity) -> None:
    rotated = replace(identity, hmac_key=b"n" * 32, previous_hmac_key=identity.hmac_key)

    made = credentials(rotated, UID, NOW)

    assert made.previous_token == credentials(identity, UID, NOW).token
    assert made.token != made.previous_token


def test_a_ca_key_of_another_kind_is_refused_with_what_to_do(identity: Identity) -> None:
    foreign = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    with pytest.raises(TypeError, match="Ed25519 key: delete the identity Secret"):
        credentials(replace(identity, ca_key=foreign), UID, NOW)
