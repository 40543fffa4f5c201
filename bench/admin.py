"""1,000 topics made, described and deleted: seconds and requests, beside two other clients.

    python -m bench.admin [--topics 1000] [--rounds 3]

All go through the same counting proxy to one real broker, in turn; shown are medians.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from bench.counting_proxy import CountingProxy
from kclient import Admin, NewTopic
from kclient.testing import LocalKafka

STEPS = ("create", "describe", "delete")
_PROBES = ("ApiVersions",)


class Client(NamedTuple):
    """What one client does with names of topics, and how it is closed."""

    create: Callable[[Sequence[str]], object]
    describe: Callable[[Sequence[str]], object]
    delete: Callable[[Sequence[str]], object]
    close: Callable[[], object] = lambda: None


class Cost(NamedTuple):
    """Of one step: wall and CPU seconds of this process, and requests sent."""

    seconds: float
    cpu: float
    requests: int


def ours(servers: str) -> Client:
    admin = Admin(servers)
    return Client(
        lambda names: admin.create_topics([NewTopic(name, 1, 1) for name in names]),
        admin.describe_topics,
        admin.delete_topics,
        admin.close,
    )


def confluent(servers: str) -> Client:
    from confluent_kafka import TopicCollection
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic as TheirTopic

    client = AdminClient({"bootstrap.servers": servers})

    def wait(futures: dict[str, Any]) -> None:
        for future in futures.values():
            future.result(60)

    return Client(
        lambda names: wait(client.create_topics([TheirTopic(name, 1, 1) for name in names])),
        lambda names: wait(client.describe_topics(TopicCollection(list(names)))),
        lambda names: wait(client.delete_topics(list(names))),
    )


def kafka_python(servers: str) -> Client:
    from kafka.admin import KafkaAdminClient
    from kafka.admin import NewTopic as TheirTopic

    client = KafkaAdminClient(bootstrap_servers=servers)
    return Client(
        lambda names: client.create_topics([TheirTopic(name, 1, 1) for name in names]),
        lambda names: client.describe_topics(list(names)),
        lambda names: client.delete_topics(list(names)),
        client.close,
    )


CLIENTS = {"kclient": ours, "confluent-kafka": confluent, "kafka-python": kafka_python}


@contextmanager
def broker() -> Iterator[tuple[str, CountingProxy]]:
    """A broker that advertises the proxy in front of it."""
    proxy = CountingProxy()
    address = f"127.0.0.1:{proxy.port}"
    try:
        with LocalKafka(properties={"advertised.listeners": f"PLAINTEXT://{address}"}) as kafka:
            host, port = kafka.address(1).split(":")
            proxy.target = (host, int(port))
            yield address, proxy
    finally:
        proxy.close()


def measure(
    client: Client,
    proxy: CountingProxy,
    names: Sequence[str],
    listed: Callable[[], Collection[str]],
) -> dict[str, Cost]:
    costs = {}
    for step in STEPS:
        proxy.requests.clear()
        begin, cpu = time.perf_counter(), time.process_time()
        getattr(client, step)(names)
        seconds, used = time.perf_counter() - begin, time.process_time() - cpu
        requests = sum(n for api, n in proxy.requests.items() if api not in _PROBES)
        costs[step] = Cost(seconds, used, requests)
        # The broker has said yes, and does the work after that.
        while (names[-1] in listed()) != (step != "delete"):
            time.sleep(0.1)
        time.sleep(1)
    return costs


def run(topics: int, rounds: int) -> dict[str, dict[str, Cost]]:
    seen: dict[str, list[dict[str, Cost]]] = {name: [] for name in CLIENTS}
    with broker() as (address, proxy), Admin(address) as watcher:
        for number in range(-1, rounds):  # the first round warms the broker up
            for name, make in CLIENTS.items():
                client = make(address)
                names = [f"bench-{name}-{number}-{each}" for each in range(topics)]
                costs = measure(client, proxy, names, watcher.list_topics)
                client.close()
                if number >= 0:
                    seen[name].append(costs)
    return {
        name: {step: _median([costs[step] for costs in each]) for step in STEPS}
        for name, each in seen.items()
    }


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.seconds for cost in costs),
        statistics.median(cost.cpu for cost in costs),
        round(statistics.median(cost.requests for cost in costs)),
    )


def table(results: dict[str, dict[str, Cost]], topics: int) -> str:
    lines = [
        f"{topics} topics: seconds (CPU seconds of the client), requests without ApiVersions",
        f"{'':16}" + "".join(f"{step:>26}" for step in STEPS),
    ]
    for name, costs in results.items():
        cells = (
            f"{cost.seconds:8.2f} s ({cost.cpu:.2f}) {cost.requests:5d}" for cost in costs.values()
        )
        lines.append(f"{name:16}" + "".join(f"{cell:>26}" for cell in cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    logging.getLogger("kafka").setLevel(logging.ERROR)
    print(table(run(options.topics, options.rounds), options.topics))


if __name__ == "__main__":
    main()
