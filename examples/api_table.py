"""Starts a real Kafka, asks what it speaks, and prints the negotiated API table."""

from __future__ import annotations

import socket
import struct

from kclient.protocol import APIS, request_header_version
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.headers import RequestHeader, ResponseHeader
from kclient.testing import LocalKafka

KEY, VERSION = 18, 3


def ask(address: str) -> ApiVersionsResponse:
    """One ApiVersions round trip over a plain socket."""
    header = RequestHeader(
        request_api_key=KEY, request_api_version=VERSION, correlation_id=1, client_id="demo"
    )
    body = ApiVersionsRequest(client_software_name="kclient", client_software_version="0.1.0")
    frame = header.encode(request_header_version(KEY, VERSION)) + body.encode(VERSION)
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.sendall(struct.pack(">i", len(frame)) + frame)
        with sock.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            answer = stream.read(size)
    _, pos = ResponseHeader.decode_at(answer, 0, 0)
    return ApiVersionsResponse.decode(answer[pos:], VERSION)


def main() -> None:
    """Print a row for each API that both sides speak."""
    with LocalKafka() as kafka:
        answer = ask(kafka.bootstrap_servers)
    print(f"{'key':>4} {'api':<32} {'broker':>8} {'kclient':>8} {'use':>4}")
    for row in sorted(answer.api_keys, key=lambda row: row.api_key):
        api = APIS.get(row.api_key)
        if api is None:
            print(f"{row.api_key:>4} (unknown to kclient)")
            continue
        use = min(row.max_version, api.stable)
        broker, ours = f"{row.min_version}-{row.max_version}", "{}-{}".format(*api.versions)
        print(f"{api.key:>4} {api.name:<32} {broker:>8} {ours:>8} {use:>4}")
    print(f"{len(answer.api_keys)} APIs negotiated")


if __name__ == "__main__":
    main()
