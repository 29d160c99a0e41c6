"""The examples of proxies are valid, by the proxies' own checks."""

import shutil
import subprocess
from pathlib import Path

import pytest

_PROXIES = Path(__file__).parents[3] / "docker" / "proxies"


@pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed")
def test_nginx(tmp_path):
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    openssl = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {certificate} -days 1"
    subprocess.run([*openssl.split(), "-subj", "/CN=localhost"], check=True, capture_output=True)
    text = (_PROXIES / "nginx.conf").read_text()
    for name, path in (
        ("certs/ssl-cert-snakeoil.pem", certificate),
        ("private/ssl-cert-snakeoil.key", key),
    ):
        assert f"/etc/ssl/{name}" in text
        text = text.replace(f"/etc/ssl/{name}", str(path))
    (tmp_path / "nginx.conf").write_text(f"pid {tmp_path / 'pid'};\nerror_log stderr;\n{text}")
    command = ["nginx", "-t", "-p", tmp_path, "-c", tmp_path / "nginx.conf"]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.skipif(not shutil.which("caddy"), reason="Caddy is not installed")
def test_caddy(tmp_path):
    path = _PROXIES / "Caddyfile"
    command = ["caddy", "validate", "--adapter", "caddyfile", "--config", path]
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin:/usr/local/bin"}
    checked = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert checked.returncode == 0, checked.stderr
