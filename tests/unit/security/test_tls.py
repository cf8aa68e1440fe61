"""Stores and settings of TLS: which work, which are refused by name, and that no secret is shown."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from barnabas.security.key_store import expiry_notes, load_key_material, load_trusted
from barnabas.security.tls import ServerTls, TlsError, TlsSettings, client_context, server_context
from tests.peers.certificates import PASSWORD, Authority

AUTHORITY = Authority()
BELOW = AUTHORITY.intermediate()
NODE = BELOW.issue("node")
OTHER = BELOW.issue("other")


def pem_file(folder: Path, **more: Any) -> TlsSettings:
    path = NODE.write_pem(folder / "node.pem")
    return TlsSettings(**{"key_store_type": "PEM", "key_store_location": str(path), **more})


def refusal(settings: TlsSettings, *, client: bool = False) -> TlsError:
    with pytest.raises(TlsError) as caught:
        client_context(settings) if client else server_context(settings)
    assert PASSWORD not in str(caught.value)
    assert NODE.key_pem().splitlines()[1] not in str(caught.value)
    return caught.value


# --- accepted stores


def test_a_pem_file_has_key_and_chain(tmp_path: Path) -> None:
    server_context(pem_file(tmp_path))
    material = load_key_material(pem_file(tmp_path))
    assert material is not None
    assert [cert.subject for cert in material.certificates] == [NODE.certificate.subject, BELOW.certificate.subject]


def test_an_encrypted_pem_key_is_opened_with_its_password(tmp_path: Path) -> None:
    path = NODE.write_pem(tmp_path / "node.pem", password=PASSWORD)
    server_context(TlsSettings(key_store_type="PEM", key_store_location=str(path), key_password=PASSWORD))


@pytest.mark.parametrize("one_line", [False, True])
def test_settings_may_contain_pem_texts(one_line: bool) -> None:
    key, chain = NODE.key_pem(), NODE.certificates_pem()
    if one_line:
        key, chain = key.replace("\n", " "), chain.replace("\n", " ")
    server_context(TlsSettings(key_store_type="PEM", key=key, certificate_chain=chain))


@pytest.mark.parametrize("store_type", ["PKCS12", "pkcs12", "JKS"])
def test_a_pkcs12_file_has_key_and_chain_also_under_the_type_jks(tmp_path: Path, store_type: str) -> None:
    path = NODE.write_pkcs12(tmp_path / "node.p12")
    settings = TlsSettings(key_store_type=store_type, key_store_location=str(path), key_store_password=PASSWORD)
    server_context(settings)
    material = load_key_material(settings)
    assert material is not None
    assert [certificate.subject for certificate in material.certificates][:2] == [
        NODE.certificate.subject,
        BELOW.certificate.subject,
    ]


def test_trust_stores_are_pem_or_pkcs12(tmp_path: Path) -> None:
    pem = AUTHORITY.write_pem(tmp_path / "ca.pem")
    p12 = AUTHORITY.write_trust_store(tmp_path / "ca.p12")
    for settings in (
        TlsSettings(trust_store_type="PEM", trust_store_location=str(pem)),
        TlsSettings(trust_store_location=str(p12), trust_store_password=PASSWORD),
        TlsSettings(trust_store_type="PEM", trust_certificates=AUTHORITY.pem()),
    ):
        assert load_trusted(settings) == [AUTHORITY.certificate]
        assert client_context(settings).verify_mode is ssl.CERT_REQUIRED


def test_a_key_in_a_trust_store_does_not_make_its_issuers_trusted(tmp_path: Path) -> None:
    path = NODE.write_pkcs12(tmp_path / "node.p12")
    assert load_trusted(TlsSettings(trust_store_location=str(path), trust_store_password=PASSWORD)) == [
        NODE.certificate
    ]


def test_clients_may_omit_a_key_and_the_check_of_the_host(tmp_path: Path) -> None:
    settings = TlsSettings(trust_store_type="PEM", trust_certificates=AUTHORITY.pem(), verifies_host=False)
    assert client_context(settings).check_hostname is False


# --- refusals, by name


def test_a_jks_file_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "old.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed" + bytes(100))
    error = refusal(TlsSettings(key_store_location=str(path), key_store_password=PASSWORD))
    assert error.name == "ssl.keystore.location"
    assert f"keytool -importkeystore -srckeystore {path}" in str(error)


@pytest.mark.parametrize(
    ("changes", "name", "reason"),
    [
        ({"key_store_location": None}, "ssl.keystore.location", "is required for a TLS listener"),
        ({"key_store_location": "/no/such/file"}, "ssl.keystore.location", "/no/such/file can't be read: No such file"),
        ({"key_store_type": "BKS"}, "ssl.keystore.type", "stores of type BKS can't be read"),
        ({"key_store_type": "PKCS12"}, "ssl.keystore.location", "is PEM -> set ssl.keystore.type=PEM"),
        ({"key_store_password": PASSWORD}, "ssl.keystore.password", "PEM has no store password"),
        ({"key_password": PASSWORD}, "ssl.key.password", "is not encrypted -> remove it"),
        ({"key": NODE.key_pem(), "certificate_chain": "x"}, "ssl.keystore.location", "ssl.keystore.key is set too"),
        ({"key_store_location": None, "key": "x"}, "ssl.keystore.certificate.chain", "is set without it"),
        ({"key_store_location": None, "certificate_chain": "x"}, "ssl.keystore.key", "is set without it"),
        ({"client_auth": "required"}, "ssl.truststore.location", "is required with ssl.client.auth=required"),
        ({"trust_store_location": "/nowhere"}, "ssl.truststore.location", "/nowhere can't be read"),
        (
            {"trust_store_type": "PEM", "trust_certificates": "nothing"},
            "ssl.truststore.certificates",
            "it contains no certificate",
        ),
        ({"trust_certificates": AUTHORITY.pem()}, "ssl.truststore.type", "is PEM text and this is JKS"),
        ({"enabled_protocols": ("TLSv1.1", "TLSv1.2")}, "ssl.enabled.protocols", "TLSv1.1,TLSv1.2 can't be served"),
        ({"enabled_protocols": ("SSLv3",)}, "ssl.enabled.protocols", "use TLSv1.2, TLSv1.3 or both"),
        ({"enabled_protocols": ()}, "ssl.enabled.protocols", "nothing can't be served"),
        ({"cipher_suites": ("TLS_RSA_WITH_RC4_128_MD5",)}, "ssl.cipher.suites", "RC4_128_MD5 is not supported"),
        ({"cipher_suites": ("TLS_RSA_WITH_NULL_SHA256",)}, "ssl.cipher.suites", "NULL_SHA256 is not supported"),
        ({"cipher_suites": ("TLS_AES_128_GCM_SHA256",)}, "ssl.cipher.suites", "can't be chosen one by one"),
        (
            {
                "cipher_suites": ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",),
                "enabled_protocols": ("TLSv1.3",),
            },
            "ssl.cipher.suites",
            "none of them fits",
        ),
    ],
)
def test_an_invalid_setting_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], name: str, reason: str) -> None:
    error = refusal(pem_file(tmp_path, **changes))
    assert error.name == name
    assert reason in str(error)


def test_wrong_passwords_are_reported_and_not_shown(tmp_path: Path) -> None:
    p12 = NODE.write_pkcs12(tmp_path / "node.p12")
    pem = NODE.write_pem(tmp_path / "node.pem", password=PASSWORD)
    error = refusal(TlsSettings(key_store_location=str(p12), key_store_password="guess"))
    assert (error.name, "guess" in str(error)) == ("ssl.keystore.password", False)
    error = refusal(TlsSettings(key_store_location=str(p12)))
    assert error.name == "ssl.keystore.password"
    error = refusal(TlsSettings(key_store_type="PEM", key_store_location=str(pem), key_password="guess"))
    assert (error.name, "guess" in str(error)) == ("ssl.key.password", False)
    error = refusal(TlsSettings(key_store_type="PEM", key_store_location=str(pem)))
    assert (error.name, error.what) == ("ssl.key.password", "is required: the private key is encrypted")


def test_a_key_must_belong_to_the_first_certificate() -> None:
    settings = TlsSettings(key_store_type="PEM", key=OTHER.key_pem(), certificate_chain=NODE.certificates_pem())
    assert "does not belong" in refusal(settings).what
    upside_down = BELOW.pem() + NODE.certificates_pem()
    settings = TlsSettings(key_store_type="PEM", key=NODE.key_pem(), certificate_chain=upside_down)
    assert "is not the first one" in refusal(settings).what


def test_a_trust_store_is_refused_as_key_store(tmp_path: Path) -> None:
    path = AUTHORITY.write_trust_store(tmp_path / "ca.p12")
    error = refusal(TlsSettings(key_store_location=str(path), key_store_password=PASSWORD))
    assert "has no private key" in error.what


def test_a_short_key_is_refused(tmp_path: Path) -> None:
    weak = AUTHORITY.issue("weak", key=rsa.generate_private_key(65537, 1024))
    path = weak.write_pem(tmp_path / "weak.pem")
    error = refusal(TlsSettings(key_store_type="PEM", key_store_location=str(path)))
    assert "EE_KEY_TOO_SMALL" in error.what


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-----BEGIN PRIVATE KEY-----\n!!!!\n-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
        "-----BEGIN DSA PRIVATE KEY-----\nAAAA\n-----END DSA PRIVATE KEY-----",
        NODE.key_pem() + NODE.key_pem(),
    ],
)
def test_a_damaged_key_is_refused(text: str) -> None:
    settings = TlsSettings(key_store_type="PEM", key=text or "x", certificate_chain=NODE.certificates_pem())
    assert refusal(settings).name == "ssl.keystore.key"


def test_older_key_formats_are_read() -> None:
    text = NODE.key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
    server_context(TlsSettings(key_store_type="PEM", key=text, certificate_chain=NODE.certificates_pem()))


# --- choices


def test_cipher_suites_also_determine_the_version(tmp_path: Path) -> None:
    only_old = server_context(pem_file(tmp_path, cipher_suites=("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",)))
    assert only_old.maximum_version is ssl.TLSVersion.TLSv1_2
    names = {cipher["name"] for cipher in only_old.get_ciphers() if cipher["protocol"] != "TLSv1.3"}
    assert names == {"ECDHE-ECDSA-AES128-GCM-SHA256"}
    suites = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
    only_new = server_context(pem_file(tmp_path, cipher_suites=suites))
    assert only_new.minimum_version is ssl.TLSVersion.TLSv1_3


def test_by_default_tls_1_2_and_1_3_are_served(tmp_path: Path) -> None:
    context = server_context(pem_file(tmp_path))
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert context.verify_mode is ssl.CERT_NONE


def test_expiring_certificates_are_reported() -> None:
    late, soon, fine = AUTHORITY.issue("late", days=-1), AUTHORITY.issue("soon", days=5), AUTHORITY.issue("fine")
    notes = expiry_notes([leaf.certificate for leaf in (late, soon, fine)], "ssl.keystore")
    assert len(notes) == 2
    assert "CN=late expired on" in notes[0]
    assert "CN=soon ends on" in notes[1]


def test_no_secret_is_shown(tmp_path: Path) -> None:
    settings = pem_file(tmp_path, key_password=PASSWORD, trust_store_password=PASSWORD, key=NODE.key_pem())
    shown = repr(settings) + repr(load_key_material(pem_file(tmp_path)))
    assert PASSWORD not in shown
    assert "KEY" not in shown


def test_the_key_is_not_written_to_a_file(tmp_path: Path) -> None:
    settings = pem_file(tmp_path)
    before = set(tmp_path.iterdir())
    server_context(settings)
    assert set(tmp_path.iterdir()) == before


# --- reload


def test_a_changed_key_store_is_read_again(tmp_path: Path) -> None:
    tls = ServerTls("SSL", pem_file(tmp_path))
    before = tls.context
    assert not tls.reload_if_changed()
    assert tls.context is before
    BELOW.issue("node").write_pem(tmp_path / "node.pem")
    assert tls.reload_if_changed()
    assert tls.context is not before
    assert not tls.reload_if_changed()


def test_a_broken_store_is_reported_once_and_the_old_one_stays_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    tls = ServerTls("SSL", pem_file(tmp_path))
    before = tls.context
    (tmp_path / "node.pem").write_text(NODE.certificates_pem())
    assert not tls.reload_if_changed()
    assert not tls.reload_if_changed()
    assert tls.context is before
    assert len(caplog.messages) == 1
    assert "it contains no private key" in caplog.messages[0]
    (tmp_path / "node.pem").unlink()
    assert not tls.reload_if_changed()
    NODE.write_pem(tmp_path / "node.pem")
    assert tls.reload_if_changed()


def test_a_certificate_for_another_name_is_refused_unless_allowed(tmp_path: Path) -> None:
    settings = pem_file(tmp_path)
    strict, lenient = ServerTls("SSL", settings), ServerTls("SSL", settings, name_may_change=True)
    OTHER.write_pem(tmp_path / "node.pem")
    with pytest.raises(TlsError, match=r"is for CN=other, the old one is for CN=node.*ssl\.allow\.dn\.changes"):
        strict.reload()
    lenient.reload()


def test_alternative_names_may_be_added_but_not_removed_unless_allowed(tmp_path: Path) -> None:
    settings = pem_file(tmp_path)
    tls = ServerTls("SSL", settings)
    lenient = ServerTls("SSL", settings, alternative_names_may_change=True)
    BELOW.issue("node", hosts=("localhost", "127.0.0.1", "more.example")).write_pem(tmp_path / "node.pem")
    tls.reload()
    BELOW.issue("node", hosts=("localhost",)).write_pem(tmp_path / "node.pem")
    with pytest.raises(TlsError, match="alternative names"):
        tls.reload()
    lenient.reload()
