"""The README's code blocks run, one after the other, against a real broker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kclient.testing import LocalKafka
from kclient.testing.certificates import CertificateAuthority

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


def test_python_blocks_run(
    local_kafka: LocalKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(BLOCKS) >= 5
    authority = CertificateAuthority(tmp_path)
    names = {"ca_file": str(authority.certificate), "password": "hunter2"}
    for block in BLOCKS:
        code = block.replace("localhost:9092", local_kafka.bootstrap_servers)
        exec(compile(code, str(README), "exec"), dict(names))
    assert "hunter2" not in capsys.readouterr().out
