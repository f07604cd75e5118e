"""L7: TLS for clients and links, and errors that name the file."""

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from roamcast.server.security import common_name
from roamcast.server.transport.tls import BadTls, link_context, renew, server_context
from tests.server.transport.sockets import PATIENCE_S, Echo, listening


class Files:
    """Certificates of two authorities, in files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ours, self.theirs = trustme.CA(), trustme.CA()
        self.ca = self.write("ca.pem", self.ours.cert_pem)
        self.certificate, self.key = self.issue("server", self.ours, "localhost")

    def write(self, name: str, content: trustme.Blob) -> Path:
        content.write_to_path(self.folder / name)
        return self.folder / name

    def issue(self, name: str, authority: trustme.CA, *hosts: str) -> tuple[Path, Path]:
        made = authority.issue_cert(*(hosts or ("client.example",)), common_name=name)
        certificate = self.write(f"{name}.pem", made.cert_chain_pems[0])
        return certificate, self.write(f"{name}.key", made.private_key_pem)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


def client_context(files: Files, own: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(files.ca))
    if own is not None:
        context.load_cert_chain(*own)
    return context


def name_seen(server: ssl.SSLContext, client: ssl.SSLContext) -> str | None:
    """The client's common name as the server sees it, after an echo; raises what the client meets."""

    async def run() -> str | None:
        seen: list[str | None] = []

        class Looking(Echo):
            def data_received(self, data: bytes) -> None:
                seen.append(common_name(self.transport.get_extra_info("peercert")))
                super().data_received(data)

        async with listening(Looking, server) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="localhost")
            writer.write(b"x")
            try:
                if await asyncio.wait_for(reader.read(1), PATIENCE_S) != b"x":
                    raise ConnectionError("closed")
            finally:
                writer.close()
        return seen[0]

    return asyncio.run(run())


def test_l7_a_client_without_a_certificate_is_served_where_none_is_asked(files: Files) -> None:
    server = server_context(files.certificate, files.key)
    assert name_seen(server, client_context(files)) is None
    assert name_seen(server, client_context(files, files.issue("ann", files.ours))) is None


def test_l7_the_name_of_a_client_certificate_arrives(files: Files) -> None:
    own = files.issue("ann", files.ours)
    for asked in ("optional", "required"):
        server = server_context(files.certificate, files.key, files.ca, asked)
        assert name_seen(server, client_context(files, own)) == "ann"
    optional = server_context(files.certificate, files.key, files.ca, "optional")
    assert name_seen(optional, client_context(files)) is None


def test_l7_a_missing_or_foreign_client_certificate_is_refused(files: Files) -> None:
    server = server_context(files.certificate, files.key, files.ca)
    for own in (None, files.issue("eve", files.theirs)):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            name_seen(server, client_context(files, own))


def test_l7_links_are_mutual(files: Files) -> None:
    north, south = files.issue("north", files.ours, "localhost"), files.issue("south", files.ours, "localhost")
    server = link_context(files.ca, *north, server_side=True)
    assert name_seen(server, link_context(files.ca, *south, server_side=False)) == "south"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        name_seen(server, client_context(files))
    foreign = files.issue("foreign", files.theirs, "localhost")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        name_seen(server, link_context(files.ca, *foreign, server_side=False))
    with pytest.raises(ssl.SSLCertVerificationError):
        name_seen(
            link_context(files.ca, *foreign, server_side=True), link_context(files.ca, *south, server_side=False)
        )


def test_l7_nothing_older_than_tls_1_2_is_spoken(files: Files) -> None:
    assert server_context(files.certificate, files.key).minimum_version is ssl.TLSVersion.TLSv1_2
    assert link_context(files.ca, files.certificate, files.key, True).minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_key_of_another_certificate_is_named(files: Files) -> None:
    _, other = files.issue("other", files.ours)
    with pytest.raises(BadTls, match=r"other\.key: this key does not belong to the certificate in .*server\.pem"):
        server_context(files.certificate, other)


def test_files_that_are_missing_or_something_else_are_named(files: Files) -> None:
    gone = files.folder / "gone.pem"
    with pytest.raises(BadTls, match=r"gone\.pem: the certificate cannot be read: No such file"):
        server_context(gone, files.key)
    with pytest.raises(BadTls, match=r"server\.pem: there is no key in PEM form"):
        server_context(files.certificate, files.certificate)
    with pytest.raises(BadTls, match=r"server\.key: there is no certificate of an authority in PEM form"):
        server_context(files.certificate, files.key, files.key)
    broken = files.folder / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(BadTls, match=r"broken\.pem"):
        server_context(broken, files.key)
    with pytest.raises(BadTls, match=r"broken\.pem: not a certificate of an authority"):
        link_context(broken, files.certificate, files.key, True)


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked(files: Files) -> None:
    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    locked = files.folder / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(BadTls, match=r"locked\.key: this key is locked with a passphrase"):
        server_context(files.certificate, locked)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_another_authority_holds_from_when_files_are_read_again(files: Files, version: ssl.TLSVersion) -> None:
    ann, eve = files.issue("ann", files.ours), files.issue("eve", files.theirs)
    server = server_context(files.certificate, files.key, files.ca)
    other = files.write("other-ca.pem", files.theirs.cert_pem)

    def seen(own: tuple[Path, Path]) -> str | None:
        client = client_context(files, own)
        client.maximum_version = version
        return name_seen(server, client)

    assert seen(ann) == "ann"
    renew(server, server_context(files.certificate, files.key, other))
    assert seen(eve) == "eve"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        seen(ann)


def test_another_certificate_is_shown_from_when_files_are_read_again(files: Files) -> None:
    server = server_context(files.certificate, files.key)
    renew(server, server_context(*files.issue("renewed", files.theirs, "localhost")))
    with pytest.raises(ssl.SSLCertVerificationError):
        name_seen(server, client_context(files))
