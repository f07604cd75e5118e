"""L7: links with mutual TLS: a peer is who its certificate says, or it is refused."""

import asyncio
import ssl

import pytest
import trustme

from tests.server.links.ends import End, bounded

pytestmark = pytest.mark.timeout(60)
OURS = trustme.CA()
OTHERS = trustme.CA()


def contexts(name: str, by: trustme.CA = OURS, trusts: trustme.CA = OURS) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For the server's and the client's side."""
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    certificate = by.issue_cert(name)
    for context in made:
        certificate.configure_cert(context)
        trusts.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return made


@pytest.mark.parametrize("checks_hostname", [True, False])
def test_l7_peers_with_the_right_certificates_have_a_link(checks_hostname: bool) -> None:
    async def work() -> None:
        (serving, _), (_, calling) = contexts("a.example"), contexts("b.example")
        calling.check_hostname = checks_hostname
        a, b = await End("a.example").listen(serving), End("b.example")
        b.dial(a, calling)
        await asyncio.gather(a.until_up(b), b.until_up(a))
        for number in range(500):
            b.links.send("a.example", 1, bytes(1_000) + b"%d" % number)
        await a.ear.until(lambda: len(a.ear.frames) == 500)
        assert [data[1_000:] for _, _, data in a.ear.frames] == [b"%d" % number for number in range(500)]
        await asyncio.gather(a.links.close(), b.links.close())

    bounded(work())


@pytest.mark.parametrize("side", ["server", "client"])
def test_l7_a_certificate_of_another_authority_is_refused(side: str) -> None:
    async def work() -> None:
        serving, _ = contexts("a", by=OTHERS if side == "server" else OURS)
        _, calling = contexts("b", by=OTHERS if side == "client" else OURS)
        calling.check_hostname = False
        a, b = await End("a").listen(serving), End("b")
        b.dial(a, calling)
        await b.ear.until(lambda: len(b.ear.remarks) >= 2 or (side == "client" and b.links._diallers["a"].attempting))
        await asyncio.sleep(0.2)
        assert a.ear.heard == b.ear.heard == []
        await asyncio.gather(a.links.close(), b.links.close())

    bounded(work())


@pytest.mark.parametrize(("says", "carries"), [("b", "c"), ("a", "c")])
def test_l7_a_peer_that_says_another_name_than_its_certificate_is_refused(says: str, carries: str) -> None:
    """Whichever of the two the liar is: the one who dials, or the one who is dialled."""

    async def work() -> None:
        serving, _ = contexts(carries if says == "a" else "a")
        _, calling = contexts(carries if says == "b" else "b")
        calling.check_hostname = False
        a, b = await End("a").listen(serving), End("b")
        b.dial(a, calling)
        honest = b if says == "a" else a
        await honest.ear.until(lambda: honest.ear.remarked("link_refused"))
        assert f"the certificate does not carry the name {says}" in dict(honest.ear.remarks)["link_refused"]
        assert a.ear.heard == b.ear.heard == []
        await asyncio.gather(a.links.close(), b.links.close())

    bounded(work())


def test_l7_who_speaks_plainly_to_a_listener_with_tls_gets_no_link() -> None:
    async def work() -> None:
        serving, _ = contexts("a")
        a, b = await End("a").listen(serving), End("b")
        b.dial(a)
        await b.ear.until(lambda: b.ear.remarked("link_dial_failed"))
        assert a.ear.heard == b.ear.heard == []
        await asyncio.gather(a.links.close(), b.links.close())

    bounded(work())


def test_l7_a_context_that_does_not_check_certificates_is_refused() -> None:
    async def work() -> None:
        careless = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with pytest.raises(ValueError, match="CERT_REQUIRED"):
            await End("a").listen(careless)

    bounded(work())
