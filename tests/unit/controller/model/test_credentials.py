"""model/credentials.py: the same bytes for the same instance and period, a certificate clients accept."""

from __future__ import annotations

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from efrit.controller.act.identity import new_identity
from efrit.controller.model import credentials as model
from efrit.controller.model.credentials import (
    EPOCH,
    GENERATION,
    PERIOD,
    TOKEN_PERIOD,
    Credentials,
    Identity,
    credentials,
    period_of,
    server_name,
    token,
    trusted_certificates,
)
from tests.support.factory import NOW

UID = "0b5a7f4e-1111-2222-3333-444455556666"
STEP = timedelta(microseconds=1)


def authorities(identity: Identity, now: datetime) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(trusted_certificates(identity, now))


def certificate(credentials: Credentials) -> x509.Certificate:
    return x509.load_pem_x509_certificate(credentials.certificate)


def test_a_controller_that_read_the_identity_anew_gives_the_same_bytes_within_a_week(identity: Identity) -> None:
    other, start = Identity(identity.hmac_key), EPOCH + 3 * TOKEN_PERIOD
    before = credentials(other, UID, start), trusted_certificates(other, NOW)
    # As a process that has derived nothing yet.
    model._certificate.cache_clear()
    model._authority.cache_clear()

    assert (credentials(identity, UID, start + TOKEN_PERIOD - STEP), trusted_certificates(identity, NOW)) == before


def test_certificate_and_key_change_at_the_start_of_a_period(identity: Identity) -> None:
    boundary = EPOCH + 3 * PERIOD

    before, after = credentials(identity, UID, boundary - STEP), credentials(identity, UID, boundary)

    assert before.certificate != after.certificate
    assert before.private_key != after.private_key


def test_a_bridge_knows_the_token_of_a_week_before_it_begins_and_forgets_it_when_it_is_over(
    identity: Identity,
) -> None:
    weeks = [credentials(identity, UID, EPOCH + week * TOKEN_PERIOD) for week in range(4)]

    for before, after in pairwise(weeks):
        assert before.next_token == after.token
    assert len({issued.token for issued in weeks}) == 4


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


@pytest.mark.parametrize(
    "moment", [NOW, EPOCH + 2 * PERIOD, EPOCH + 3 * PERIOD - STEP, EPOCH + GENERATION, EPOCH + 7 * GENERATION - STEP]
)
def test_a_certificate_is_valid_and_signed_by_a_ca_that_is_trusted_as_long_as_it_may_be_served(
    identity: Identity, moment: datetime
) -> None:
    made = certificate(credentials(identity, UID, moment))

    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [server_name(UID)]
    # From a controller whose clock is behind, to the end of the certificate.
    for now in (moment - timedelta(days=1), moment, made.not_valid_after_utc - STEP):
        assert made.not_valid_before_utc <= now < made.not_valid_after_utc
        (ca,) = [authority for authority in authorities(identity, now) if authority.subject == made.issuer]
        made.verify_directly_issued_by(ca)
        assert ca.not_valid_before_utc <= now < ca.not_valid_after_utc


def test_the_ca_of_another_key_is_not_trusted(identity: Identity) -> None:
    made = certificate(credentials(identity, UID, NOW))

    for ca in authorities(new_identity(), NOW):
        assert ca.subject != made.issuer
        with pytest.raises(InvalidSignature):
            cast(Ed25519PublicKey, ca.public_key()).verify(made.signature, made.tbs_certificate_bytes)


def test_a_ca_lives_two_years_and_signs_certificates_of_servers_alone(identity: Identity) -> None:
    for ca in authorities(identity, NOW):
        assert ca.not_valid_after_utc - ca.not_valid_before_utc == 2 * GENERATION + timedelta(days=1)
        constraints = ca.extensions.get_extension_for_class(x509.BasicConstraints)
        assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)


def test_openssl_in_strict_mode_accepts_the_certificate(tmp_path: Path) -> None:
    identity = new_identity()
    made = credentials(identity, UID, datetime.now(UTC))
    pair = tmp_path / "pair.pem"
    pair.write_bytes(made.private_key + made.certificate)
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(pair)
    client_side = ssl.create_default_context(cadata=trusted_certificates(identity, datetime.now(UTC)).decode())
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


def test_no_two_instances_share_anything(identity: Identity) -> None:
    one, other = credentials(identity, "a", NOW), credentials(identity, "b", NOW)

    assert one.token != other.token
    assert one.private_key != other.private_key
    assert certificate(one).serial_number != certificate(other).serial_number
    assert server_name(UID) == f"{UID}.instances.efrit.dev"


def test_the_token_depends_on_key_instance_and_week_alone() -> None:
    different = [(b"key", "a", NOW), (b"key", "b", NOW), (b"other", "a", NOW), (b"key", "a", NOW + TOKEN_PERIOD)]

    assert len({token(*arguments) for arguments in different}) == 4
    assert token(b"key", "a", NOW) == token(b"key", "a", NOW + STEP)


def test_only_during_a_rotation_the_former_token_comes_along(identity: Identity) -> None:
    rotated = replace(identity, hmac_key=b"n" * 32, previous_hmac_key=identity.hmac_key)

    made = credentials(rotated, UID, NOW)

    before = credentials(identity, UID, NOW)
    assert (before.previous_token, made.previous_token) == (None, before.token)
    assert made.token != made.previous_token
    assert set(authorities(rotated, NOW)) > set(authorities(identity, NOW))
