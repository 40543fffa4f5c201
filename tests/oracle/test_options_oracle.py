"""Properties against Java's: every name its clients have, every file as it reads them."""

from __future__ import annotations

import random
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from kclient.config import AdminOptions, ConsumerOptions, ProducerOptions, from_properties
from kclient.config.foreign import refusal
from kclient.config.properties import read_file
from kclient.errors import ConfigError

from .java import run_java

SOURCE = Path(__file__).with_name("OptionsOracle.java")
KINDS = {"producer": ProducerOptions, "consumer": ConsumerOptions, "admin": AdminOptions}
PIECES = (
    *("a", "b.c", " ", "  ", "\t", "\f", "=", ":", "#", "!", "\n", "\n", "\r\n", "\r", "\\\n"),
    *("\\", "\\\\", "\\t", "\\n", "\\=", "\\:", "\\ ", "\\u00e9", "\\ud83d\\ude00", "é", '"'),
    *("\\\r\n  ", "\\\r", "\\#", "\\q", "x=y", "key = value"),
)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    rng = random.Random(11)
    made = ("".join(rng.choices(PIECES, k=rng.randrange(1, 14))) for _ in range(3000))
    # Java makes an empty name of a backslash at the very end, which nobody means.
    return [f"{text}\nlast = 1" for text in made]


@pytest.fixture(scope="module")
def answers(texts: list[str]) -> list[str]:
    return run_java("4.3.1", SOURCE, "\n".join(b64encode(t.encode()).decode() for t in texts))


def test_every_name_of_javas_clients_is_known_refused_or_without_meaning(
    answers: list[str],
) -> None:
    names = [line.split() for line in answers if line[0].isalpha()]
    assert len(names) > 250
    for kind, name in names:
        try:
            from_properties(KINDS[kind], {name: "PEM" if name.endswith(".type") else "1"})
        except ConfigError as error:
            # Of the known ones, "1" may be no value; what counts is that none is unknown.
            assert refusal(name) or "is not what" in str(error), (kind, str(error))


def test_files_are_read_as_java_reads_them(
    texts: list[str], answers: list[str], tmp_path: Path
) -> None:
    read: dict[int, dict[str, str]] = {number: {} for number in range(len(texts))}
    for line in answers:
        if line[0].isdigit():
            where, name, value = line.split()
            read[int(where)][b64decode(name[1:]).decode()] = b64decode(value[1:]).decode()
    file = tmp_path / "file"
    for number, text in enumerate(texts):
        file.write_bytes(text.encode())
        # Half a character cannot be told: each side has its own mark for that.
        found = {shown(name): shown(value) for name, value in read_file(file).items()}
        assert found == read[number], repr(text)


def shown(text: str) -> str:
    return text.replace("\ufffd", "?")
