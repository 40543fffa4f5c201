"""A real Kerberos realm on this machine: MIT's key server on a loopback port, for tests."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

from kclient.errors import KafkaError
from kclient.testing.errors import MissingTool, StartFailed
from kclient.testing.ports import HOST, HOST_NAME, lease_port
from kclient.testing.process import JavaProcess, Watchdog

REALM = "KCLIENT.TEST"
_TIMEOUT = 60.0
_POLL_SECONDS = 0.03
_SYSTEM_PROGRAMS = "/usr/sbin:/sbin:/usr/local/sbin"
_INSTALL = (
    "a Kerberos realm needs MIT's server: on Debian, "
    "apt-get install krb5-kdc krb5-admin-server krb5-user"
)

# Ports and host names are as given: nothing is asked of DNS. Java reads this file too.
_KRB5_CONF = """[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1

[realms]
{realm} = {{
  kdc = {host}:{port}
}}

[domain_realm]
{name} = {realm}
"""
_KDC_CONF = """[realms]
{realm} = {{
  database_name = {data}/principal
  key_stash_file = {data}/stash
  acl_file = {data}/kadm5.acl
  kdc_listen = {host}:{port}
  kdc_tcp_listen = {host}:{port}
}}

[logging]
kdc = STDERR
"""


class Kdc:
    """A realm of one key server, for as long as its ``with`` block. It ends with this process.

    ``krb5_conf`` is what clients need, by ``KRB5_CONFIG`` or Java's
    ``-Djava.security.krb5.conf``. Raises MissingTool where MIT's programs are not installed,
    StartFailed if the server does not come up.
    """

    def __init__(self) -> None:
        self._program = _find("krb5kdc")
        self._admin = _find("kadmin.local")
        self._lease = lease_port()
        self.folder = Path(tempfile.mkdtemp(prefix="kclient-kdc-"))
        self.krb5_conf = self.folder / "krb5.conf"
        self._data = self.folder / "data"
        self._watchdog = Watchdog(self.folder)
        self._server: JavaProcess | None = None

    def __enter__(self) -> Kdc:
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the server and remove everything."""
        if self._server is not None:
            self._server.kill()
            self._server = None
        self._watchdog.close()
        self._lease.release()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which Kerberos' programs and library find the realm."""
        return {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
        }

    def keytab(self, principal: str) -> Path:
        """Make a principal with random keys; return the file that holds them."""
        path = self.folder / f"{principal.replace('/', '-')}.keytab"
        self._run(self._admin, "-q", f"addprinc -randkey {principal}")
        self._run(self._admin, "-q", f"ktadd -k {path} {principal}")
        if not path.is_file():
            raise KafkaError(f"kadmin.local made no keytab for {principal}")
        return path

    def ticket(self, principal: str) -> Path:
        """Log in as a principal that has a keytab; return the cache with its ticket."""
        cache = self.folder / f"{principal.replace('/', '-')}.ccache"
        keytab = self.folder / f"{principal.replace('/', '-')}.keytab"
        self._run(_find("kinit"), "-k", "-t", str(keytab), "-c", str(cache), principal)
        return cache

    def _open(self) -> None:
        self._data.mkdir()
        values = {
            "realm": REALM,
            "host": HOST,
            "name": HOST_NAME,
            "port": self._lease.port,
            "data": self._data,
        }
        self.krb5_conf.write_text(_KRB5_CONF.format(**values))
        (self.folder / "kdc.conf").write_text(_KDC_CONF.format(**values))
        self._run(_find("kdb5_util"), "create", "-s", "-P", secrets.token_hex(16))
        # The folder is in the command line by the pid file, for the watchdog to know it by.
        command = [self._program, "-n", "-P", str(self.folder / "kdc.pid")]
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        self._server = JavaProcess(
            [_find("env"), *variables, *command], self.folder / "kdc.log", self._watchdog
        )
        self._await_server(self._server)

    def _await_server(self, server: JavaProcess) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while not _answers(self._lease.port):
            if server.exit_code is not None or time.monotonic() > deadline:
                raise StartFailed(f"the key server did not come up:\n{server.last_lines()}")
            time.sleep(_POLL_SECONDS)

    def _run(self, *command: str) -> None:
        done = subprocess.run(  # noqa: S603
            command,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
        if done.returncode:
            raise KafkaError(f"{Path(command[0]).name} failed:\n{done.stdout}")


def _find(program: str) -> str:
    path = os.pathsep.join((os.environ.get("PATH", ""), _SYSTEM_PROGRAMS))
    found = shutil.which(program, path=path)
    if found is None:
        raise MissingTool(f"{_INSTALL} (`{program}` was not found)")
    return found


def _answers(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=2).close()
    except OSError:
        return False
    return True
