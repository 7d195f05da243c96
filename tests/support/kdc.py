"""A key distribution centre of Kerberos (MIT's krb5kdc) for tests: a realm in a temporary directory, on 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

REALM = "BARNABAS.TEST"
START_LIMIT_S = 30.0
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")


def available() -> str | None:
    """None where a centre can be started and python-gssapi is installed, else the reason why not."""
    missing = [name for name in PROGRAMS if _program(name) is None]
    if missing:
        return f"{', '.join(missing)} cannot be found (Debian: krb5-kdc, krb5-admin-server, krb5-user)"
    try:
        import gssapi  # noqa: F401
    except (ImportError, OSError):
        return "python-gssapi is not installed (pip install barnabas[kerberos])"
    return None


class Kdc:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.configuration = directory / "krb5.conf"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        port = _free_port()
        self.configuration.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            f" dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
            f"[domain_realm]\n localhost = {REALM}\n"
        )
        (self.directory / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {self.directory}/principal\n"
            f"  key_stash_file = {self.directory}/stash\n  acl_file = {self.directory}/kadm5.acl\n"
            f"  max_life = 1h\n  supported_enctypes = aes256-cts-hmac-sha1-96:normal\n }}\n"
            f"[logging]\n kdc = FILE:{self.directory}/kdc.log\n"
        )
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        with (self.directory / "output").open("wb") as output:
            self._process = subprocess.Popen(
                [str(_program("krb5kdc")), "-n", "-P", str(self.directory / "kdc.pid")],
                env=self.variables,
                stdout=output,
                stderr=output,
            )
        self._wait_for(port)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def variables(self) -> dict[str, str]:
        """The environment of those who use the realm."""
        return {
            **os.environ,
            "KRB5_CONFIG": str(self.configuration),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            "KRB5RCACHEDIR": str(self.directory),
        }

    def key_table(self, principal: str) -> Path:
        """Adds the principal, with a random key that is written into a file of its own."""
        path = self.directory / f"{principal.replace('/', '-')}.keytab"
        self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}@{REALM}")
        self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {path} {principal}@{REALM}")
        return path

    def ticket_cache(self, principal: str, key_table: Path) -> Path:
        """As kinit leaves it behind."""
        path = self.directory / f"{principal}.cache"
        self._run("kinit", "-c", f"FILE:{path}", "-k", "-t", str(key_table), f"{principal}@{REALM}")
        return path

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(_program(name)), *arguments], env=self.variables, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"

    def _wait_for(self, port: int) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            assert self._process is not None
            assert self._process.poll() is None, (self.directory / "output").read_text()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("the key distribution centre did not start")


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
