"""Which jars and JVM flags each Kafka version needs to run on Java 17."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kclient.errors import ConfigError

DEFAULT_VERSION = "4.3.1"
"""The Kafka that ``LocalKafka`` starts when no version is named."""

# The logging back end of Kafka's own distribution, which is not a dependency of its jars. The
# broker also answers questions about its loggers through it.
RELOAD4J = "org.slf4j:slf4j-reload4j:1.7.36"
LOG4J2 = "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"
# log4j 1.2.15, which 0.8.0 and 0.8.1 ask for, depends on jars that were never published.
LOG4J = "log4j:log4j:1.2.17"
# On Java 17, ZooKeeper 3.4.13 (which 2.0 asks for) cannot resolve its server's address.
ZOOKEEPER = "org.apache.zookeeper:zookeeper:3.4.10"
JAXB = "javax.xml.bind:jaxb-api:2.3.1"
# The snappy of Kafka 0.8.0 and 0.8.1 loads its native library by reflection into java.lang.
OPEN_JAVA_LANG = ("--add-opens", "java.base/java.lang=ALL-UNNAMED")


@dataclass(frozen=True)
class Release:
    """One Kafka version: what to fetch and how to start it.

    ``extra`` jars come besides the broker's own dependencies; ``pins`` replace the
    version of a dependency. Both are Maven coordinates ``group:artifact:version``, where
    ``{version}`` stands for Kafka's own.
    """

    version: str
    scala: str
    extra: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    jvm_flags: tuple[str, ...] = ()
    kraft: bool = False
    heap_mb: int = 300

    @property
    def artifact(self) -> str:
        """Maven coordinate of the broker."""
        return f"org.apache.kafka:kafka_{self.scala}:{self.version}"

    @property
    def number(self) -> tuple[int, ...]:
        """The version as integers, for comparing."""
        return parse_version(self.version)


def parse_version(version: str) -> tuple[int, ...]:
    """``"0.10.2.2"`` as ``(0, 10, 2, 2)``. Raises ConfigError if it is not dotted numbers."""
    try:
        return tuple(int(part) for part in version.split("."))
    except ValueError:
        raise ConfigError(f"not a Kafka version: {version!r} (expected e.g. '4.3.1')") from None


RELEASES = (
    Release("0.8.0", "2.10", pins=(LOG4J,), jvm_flags=OPEN_JAVA_LANG),
    Release("0.8.1.1", "2.10", pins=(LOG4J,), jvm_flags=OPEN_JAVA_LANG),
    Release("0.8.2.2", "2.11"),
    Release("0.9.0.1", "2.11"),
    Release("0.10.0.1", "2.11"),
    Release("0.10.2.2", "2.11", extra=(JAXB,)),
    Release("0.11.0.3", "2.11", extra=(JAXB,)),
    Release("1.1.1", "2.11", extra=(JAXB, RELOAD4J)),
    Release("2.0.1", "2.12", extra=(JAXB, RELOAD4J), pins=(ZOOKEEPER,)),
    Release("2.4.1", "2.12", extra=(RELOAD4J,)),
    Release("2.8.2", "2.13", extra=(RELOAD4J,)),
    Release("3.0.2", "2.13", extra=(RELOAD4J,)),
    Release("3.9.1", "2.13", extra=(RELOAD4J,), kraft=True),
    Release(
        "4.3.1",
        "2.13",
        extra=(LOG4J2, "org.apache.kafka:kafka-tools:{version}"),
        pins=(
            "org.apache.logging.log4j:log4j-api:2.25.4",
            "org.apache.logging.log4j:log4j-core:2.25.4",
        ),
        kraft=True,
        heap_mb=512,
    ),
)
"""The versions that are tested, oldest first."""


def find_release(version: str) -> Release:
    """How to run ``version``; one that is not listed runs like the nearest older one that is.

    Raises ConfigError for a version older than the oldest: Kafka 0.7 is not published.
    """
    number = parse_version(version)
    known = [release for release in RELEASES if release.number <= number]
    if not known:
        listed = ", ".join(release.version for release in RELEASES)
        raise ConfigError(f"no jars are published for Kafka {version}; tested are: {listed}")
    return replace(known[-1], version=version)
