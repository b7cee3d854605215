"""A Kerberos realm of a test's own: MIT's `krb5kdc` on 127.0.0.1, keytabs, and ticket caches.

`kdb5_util`, `krb5kdc`, `kadmin.local` and `kinit` are Debian's packages krb5-kdc, krb5-admin-server and krb5-user.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from tests.support.cluster import CLOCK, HOST

REALM = "ODRADEK.TEST"
_PROGRAMS = ("kdb5_util", "krb5kdc", "kadmin.local", "kinit")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"

_CLIENT = """
[libdefaults]
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
"""
_SERVER = """
[kdcdefaults]
  kdc_listen = {host}:{port}
  kdc_tcp_listen = {host}:{port}
[realms]
  {realm} = {{
    database_name = {directory}/principal
    key_stash_file = {directory}/stash
    supported_enctypes = aes256-cts-hmac-sha1-96:normal
    max_life = 10h
  }}
[logging]
  kdc = FILE:{directory}/kdc.log
"""


class Kdc:
    """A running realm. `krb5_conf` is what `KRB5_CONFIG` and `-Djava.security.krb5.conf` are given."""

    def __init__(self, directory: Path) -> None:
        missing = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
        if importlib.util.find_spec("gssapi") is None:
            missing.append("the module gssapi")
        if missing:
            text = f"{', '.join(missing)} not found: .ci/run says which packages have them"
            if os.environ.get("ODRADEK_REQUIRE_REFERENCE"):
                raise RuntimeError(text)
            pytest.skip(text)
        self.directory = directory
        self.krb5_conf = directory / "krb5.conf"
        (self.port,) = free_ports(1)
        values = {"realm": REALM, "host": HOST, "port": self.port, "directory": directory}
        self.krb5_conf.write_text(_CLIENT.format(**values))
        (directory / "kdc.conf").write_text(_SERVER.format(**values))
        self.environment = {
            **os.environ,
            "PATH": _PATH,
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
        }
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "a master key")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def java_option(self) -> str:
        return f"-Djava.security.krb5.conf={self.krb5_conf}"

    def start(self) -> None:
        self._process = subprocess.Popen(
            ["krb5kdc", "-n"], env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert wait_until(self._answers, CLOCK, 20_000), (self.directory / "kdc.log").read_text()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait()

    def keytab(self, *principals: str) -> Path:
        """Made anew, with new principals of these names and random keys."""
        path = self.directory / f"{principals[0].replace('/', '-')}.keytab"
        lines = [f"addprinc -randkey {name}\nktadd -k {path} {name}" for name in principals]
        self._run("kadmin.local", "-r", REALM, text="\n".join(lines) + "\n")
        assert path.exists()
        return path

    def ticket(self, principal: str, keytab: Path, *options: str) -> Path:
        """A ticket cache with a ticket of this principal."""
        path = self.directory / f"{principal.replace('/', '-')}.ccache"
        self._run("kinit", *options, "-c", str(path), "-k", "-t", str(keytab), principal)
        return path

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), 1):
            return True
        return False

    def _run(self, *command: str, text: str | None = None) -> str:
        done = subprocess.run(command, env=self.environment, input=text, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


@contextlib.contextmanager
def running_kdc(directory: Path) -> Iterator[Kdc]:
    """Stopped at the end. Processes of this one use it too while it runs, by `KRB5_CONFIG`."""
    kdc = Kdc(directory)
    before = os.environ.get("KRB5_CONFIG")
    os.environ["KRB5_CONFIG"] = str(kdc.krb5_conf)
    try:
        kdc.start()
        yield kdc
    finally:
        kdc.stop()
        if before is None:
            del os.environ["KRB5_CONFIG"]
        else:
            os.environ["KRB5_CONFIG"] = before
