"""Since which Kafka a broker has an API, by API key: what to tell a user whose broker has not."""

from __future__ import annotations

FIRST_KAFKA: dict[int, str] = {
    **dict.fromkeys(range(8), "0.8.0"),
    **dict.fromkeys((8, 9), "0.8.1"),
    10: "0.8.2",
    **dict.fromkeys(range(11, 17), "0.9.0"),
    **dict.fromkeys((17, 18), "0.10.0"),
    **dict.fromkeys((19, 20), "0.10.1"),
    **dict.fromkeys(range(21, 34), "0.11.0"),
    **dict.fromkeys(range(34, 38), "1.0.0"),
    **dict.fromkeys(range(38, 43), "1.1.0"),
    43: "2.2.0",
    44: "2.3.0",
    **dict.fromkeys((45, 46, 47), "2.4.0"),
    **dict.fromkeys((48, 49), "2.6.0"),
    **dict.fromkeys((50, 51, 57), "2.7.0"),
    **dict.fromkeys((60, 61), "2.8.0"),
    **dict.fromkeys((65, 66), "3.0.0"),
    **dict.fromkeys((55, 64), "3.3.0"),  # of KRaft, which was ready for use then
    **dict.fromkeys((68, 69, 71, 72, 74), "3.7.0"),
    75: "3.8.0",
    **dict.fromkeys((80, 81), "3.9.0"),
    **dict.fromkeys((76, 77, 78, 79, *range(83, 93)), "4.1.0"),
}
"""Those that only brokers use among themselves are left out."""
