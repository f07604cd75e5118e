"""TLS contexts, with errors that name the file.

Clients are served with TLS 1.2 or later, and may, or must, bring a certificate of a given authority. Between brokers
both sides bring one, always.
"""

import ssl
from pathlib import Path
from typing import Literal, NoReturn


class BadTls(ValueError):
    """A certificate, key or authority that cannot be used; the message names the file and what is wrong with it."""


def server_context(
    certificate: Path,
    key: Path,
    client_ca: Path | None = None,
    client_certificates: Literal["optional", "required"] = "required",
) -> ssl.SSLContext:
    """For clients. Without `client_ca` no certificate is asked of them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    harden(context)
    load_own(context, certificate, key)
    if client_ca is not None:
        load_authority(context, client_ca)
        context.verify_mode = ssl.CERT_REQUIRED if client_certificates == "required" else ssl.CERT_OPTIONAL
        # A session that is resumed would be believed though its authority is not any more.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    return context


def renew(context: ssl.SSLContext, newer: ssl.SSLContext) -> None:
    """Handshakes of a listener that has `context` go by the certificate and the authority of `newer` from now on."""

    def use(handshake: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext) -> None:
        handshake.context = newer

    context.sni_callback = use


def link_context(ca: Path, certificate: Path, key: Path, server_side: bool) -> ssl.SSLContext:
    """For links between brokers: both sides show a certificate of the authority, and the called one its host name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    harden(context)
    load_own(context, certificate, key)
    load_authority(context, ca)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def trusting(ca: Path) -> ssl.SSLContext:
    """For who calls: servers of this authority are trusted, beside those that the system trusts."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    load_authority(context, ca)
    return context


def harden(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client could make the server renegotiate again and again; compression tells lengths of secrets.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION


def load_own(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    for file, what in ((certificate, "certificate"), (key, "key")):
        check_pem(file, what)
    try:
        context.load_cert_chain(certificate, key, password=lambda: refuse_passphrase(key))
    except ssl.SSLError as problem:
        if problem.reason == "KEY_VALUES_MISMATCH":
            raise BadTls(f"{key}: this key does not belong to the certificate in {certificate}") from problem
        raise BadTls(f"{certificate} with {key}: cannot be used ({problem.reason or problem})") from problem


def load_authority(context: ssl.SSLContext, file: Path) -> None:
    check_pem(file, "certificate of an authority")
    try:
        context.load_verify_locations(file)
    except ssl.SSLError as problem:
        raise BadTls(f"{file}: not a certificate of an authority ({problem.reason or problem})") from problem


def check_pem(file: Path, what: str) -> None:
    try:
        content = file.read_bytes()
    except OSError as problem:
        raise BadTls(f"{file}: the {what} cannot be read: {problem.strerror}") from problem
    wanted = b"PRIVATE KEY-----" if what == "key" else b"BEGIN CERTIFICATE-----"
    if wanted not in content:
        raise BadTls(f"{file}: there is no {what} in PEM form in it")


def refuse_passphrase(key: Path) -> NoReturn:
    """OpenSSL would ask at the terminal, and a broker that starts with its machine has none."""
    raise BadTls(f"{key}: this key is locked with a passphrase; give one without, readable for the broker alone")
