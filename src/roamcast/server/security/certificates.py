"""The name in a client's certificate, as `ssl` tells it once TLS has verified the certificate."""

from collections.abc import Mapping


def common_name(certificate: Mapping[str, object] | None) -> str | None:
    """The common name of the subject; None without a certificate, and for one that has none or several.

    `certificate` is what `getpeercert()` gives, empty for a certificate that was not verified.
    """
    subject = (certificate or {}).get("subject", ())
    names = [
        value
        for part in (subject if isinstance(subject, tuple) else ())
        for key, value in part
        if key == "commonName" and value
    ]
    return str(names[0]) if len(names) == 1 else None
