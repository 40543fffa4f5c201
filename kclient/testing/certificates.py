"""Certificates for tests, made by the openssl program: an authority and what it signs."""

from __future__ import annotations

import ipaddress
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kclient.errors import KafkaError
from kclient.testing.errors import MissingTool
from kclient.testing.ports import HOST, HOST_NAME

_TIMEOUT = 60.0
_EC_KEY = ("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
# The key identifiers are what Python 3.13 and later insist on.
_CA_SECTION = """basicConstraints=critical,CA:TRUE
keyUsage=critical,keyCertSign,cRLSign
subjectKeyIdentifier=hash
"""
_LEAF_SECTION = """basicConstraints=CA:FALSE
keyUsage=digitalSignature
subjectKeyIdentifier=hash
authorityKeyIdentifier=keyid
"""
_PASSWORD_VARIABLE = "KCLIENT_KEY_PASSWORD"  # noqa: S105


class KeyPair(NamedTuple):
    """PEM files: a certificate, its key, and both in one as Kafka's PEM stores want them."""

    certificate: Path
    key: Path
    store: Path


class CertificateAuthority:
    """An authority whose files are in ``folder``, which must exist.

    ``certificate`` is what those who trust it need. Raises MissingTool without openssl.
    """

    def __init__(self, folder: Path, name: str = "kclient test CA") -> None:
        self.folder = folder
        self._count = 0
        self._key = self._new_key("ca")
        self.certificate = folder / "ca.crt"
        request = self._request("ca", self._key, name)
        self._sign(request, self.certificate, _CA_SECTION, ["-signkey", str(self._key)])

    def issue(
        self,
        name: str = HOST_NAME,
        *,
        hosts: Sequence[str] = (HOST_NAME, HOST),
        expired: bool = False,
        password: str | None = None,
    ) -> KeyPair:
        """Sign a certificate for a server or client called ``name``, good for ``hosts``.

        With ``password`` the key's file is encrypted; an ``expired`` one ended yesterday.
        """
        self._count += 1
        stem = f"{self._count}-{name.replace('/', '-')}"
        key = self._new_key(stem)
        request = self._request(stem, key, name)
        names = ",".join(f"{_kind(host)}:{host}" for host in hosts)
        section = _LEAF_SECTION + (f"subjectAltName={names}\n" if names else "")
        signer = ["-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial"]
        certificate = self.folder / f"{stem}.crt"
        self._sign(request, certificate, section, signer, days=-1 if expired else 7)
        if password is not None:
            key = self._encrypted(key, password)
        store = self.folder / f"{stem}.pem"
        store.write_bytes(key.read_bytes() + certificate.read_bytes())
        return KeyPair(certificate, key, store)

    def _new_key(self, stem: str) -> Path:
        key = self.folder / f"{stem}.key"
        openssl(*_EC_KEY, "-out", str(key))
        return key

    def _request(self, stem: str, key: Path, name: str) -> Path:
        request = self.folder / f"{stem}.csr"
        openssl("req", "-new", "-key", str(key), "-subj", f"/CN={name}", "-out", str(request))
        return request

    def _sign(
        self, request: Path, certificate: Path, section: str, signer: Sequence[str], days: int = 7
    ) -> None:
        extensions = certificate.with_suffix(".ext")
        extensions.write_text(section)
        chosen = ["-days", str(days), "-sha256", "-extfile", str(extensions), *signer]
        openssl("x509", "-req", "-in", str(request), "-out", str(certificate), *chosen)

    def _encrypted(self, key: Path, password: str) -> Path:
        hidden = key.with_suffix(".enc.key")
        secret = f"env:{_PASSWORD_VARIABLE}"
        options = ["-topk8", "-v2", "aes-256-cbc", "-passout", secret]
        openssl("pkcs8", "-in", str(key), "-out", str(hidden), *options, password=password)
        return hidden


def openssl(*arguments: str, password: str | None = None, stdin: bytes = b"") -> bytes:
    """Run openssl and return its output; a ``password`` travels by the environment.

    Raises MissingTool if it is not installed, KafkaError with what it says if it fails.
    """
    program = shutil.which("openssl")
    if program is None:
        raise MissingTool("certificates are made by openssl: on Debian, apt-get install openssl")
    variables = {} if password is None else {_PASSWORD_VARIABLE: password}
    done = subprocess.run(  # noqa: S603
        [program, *arguments],
        env={**os.environ, **variables},
        input=stdin,
        capture_output=True,
        timeout=_TIMEOUT,
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise KafkaError(f"openssl {arguments[0]} failed: {said}")
    return done.stdout


def _kind(host: str) -> str:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "DNS"
    return "IP"
