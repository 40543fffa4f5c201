"""Instructions per record of the codec, counted by valgrind: a gate that does not time.

    python -m bench.instructions            count, and compare with the bounds
    python -m bench.instructions --write    take what was counted, and a tenth more, as bounds

The same program on the same inputs executes the same instructions, however busy the machine is.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

BOUNDS = Path(__file__).with_name("instructions.json")
RECORDS, ROUNDS = 1000, 20
SLACK = 1.1
CASES = (
    "c append_values",
    "c append_pairs",
    "c append",
    "c decode",
    "python append",
    "python decode",
)


def work(case: str, rounds: int) -> None:
    """Encode or decode batches of 1,000 records of 100 bytes: what is counted."""
    from kclient.compression import Codec, Compression
    from kclient.records import decode
    from kclient.records.interface import active

    plain = Compression(Codec.NONE)
    values: list[bytes | None] = [b"x" * 100] * RECORDS
    pairs: list[tuple[bytes | None, bytes | None]] = [(b"12345678", b"x" * 100)] * RECORDS

    def append_values() -> bytes:
        writer = active.open_batch(plain)
        writer.append_values(values, 0, 1, 1 << 30)
        return writer.seal()

    def append_pairs() -> bytes:
        writer = active.open_batch(plain)
        writer.append_pairs(pairs, 0, 1, 1 << 30)
        return writer.seal()

    def append() -> bytes:
        writer = active.open_batch(plain)
        for key, value in pairs:
            writer.append(key, value, (), 1)
        return writer.seal()

    batch = append_pairs()
    steps: dict[str, Callable[[], object]] = {
        "append_values": append_values,
        "append_pairs": append_pairs,
        "append": append,
        "decode": lambda: decode(batch),
    }
    step = steps[case.split()[1]]
    for _ in range(rounds):
        step()


def count(case: str, rounds: int) -> int:
    """Instructions of a whole run. Raises OSError without valgrind."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable]
    command += ["-m", "bench.instructions", "--work", case, "--rounds", str(rounds)]
    twin = case.split()[0]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "KCLIENT_IMPL": twin}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=True, env=environment
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if found is None:
        raise OSError(f"valgrind counted nothing: {done.stderr[-500:]}")
    return int(found[1])


def per_record(case: str) -> int:
    """Instructions per record: what more rounds cost more."""
    more = count(case, 1 + ROUNDS) - count(case, 1)
    return round(more / (ROUNDS * RECORDS))


def main() -> int:
    parser = argparse.ArgumentParser(description="Instructions per record.")
    parser.add_argument("--write", action="store_true", help="write new bounds")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.rounds)
        return 0
    counted = {case: per_record(case) for case in CASES}
    if options.write:
        bounds = {case: round(number * SLACK) for case, number in counted.items()}
        BOUNDS.write_text(json.dumps(bounds, indent=2) + "\n")
    bounds = json.loads(BOUNDS.read_text())
    print(f"{'instructions per record':28}{'counted':>9}{'bound':>9}")
    for case, number in counted.items():
        print(f"{case:28}{number:>9}{bounds[case]:>9}")
    return sum(number > bounds[case] for case, number in counted.items())


if __name__ == "__main__":
    sys.exit(main())
