"""Every error kclient raises.

KafkaError                  retriable? stale_metadata? picklable
├── ConfigError             an option is unknown, malformed or contradicts another
├── ClientClosedError       a call after close()
│   └── ForkedClientError   a call in a child that os.fork made
├── SerializationError      a (de)serializer failed; names topic, partition, offset
│   └── MissingCodec        a compression package is not installed; names the pip line
├── KafkaTimeout            also a TimeoutError; `.cause` is the last thing that went wrong
├── TransportError          DNS, TCP, TLS: the connection itself
├── AuthenticationError     SASL or TLS said no
├── ProtocolError           bytes that are not what the protocol says
│   ├── CorruptRecord       a batch whose checksum, magic or length is wrong
│   └── UnsupportedVersion  also a BrokerError: no common version, or a field it lacks
├── BrokerError             a broker answered with an error code: `.code`, `.name`
│   └── TopicNotFound, NotAuthorized, ... one class for each code users catch
├── TransactionFailed       the transaction can only be aborted: `.cause`
│   └── TransactionLost     so is the producer: close it and make another
├── DeliveryError           some records were not delivered: `.failures`
└── PartialFailure          some items of an admin call failed: `.results`, `.failures`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from kclient._generated_codes import ERROR_CODES


def _restore(cls: type[KafkaError], args: tuple[Any, ...], state: dict[str, Any]) -> KafkaError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class KafkaError(Exception):
    """The root of everything kclient raises.

    ``retriable`` says that the same call may succeed later; ``stale_metadata`` that the
    client's picture of the cluster should be refreshed first. Context given as keywords
    (``topic=...``, ``node=...``) becomes attributes.
    """

    retriable: bool = False
    stale_metadata: bool = False

    def __init__(self, message: str, **context: Any) -> None:
        super().__init__(message)
        self.__dict__.update(context)

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses have signatures of their own; state travels without calling __init__.
        return _restore, (type(self), self.args, self.__dict__.copy())


class ConfigError(KafkaError):
    """An option is unknown, has a wrong type or value, or contradicts another option."""


class ClientClosedError(KafkaError):
    """The client was used after ``close()``."""


class ForkedClientError(ClientClosedError):
    """The client was made before ``os.fork`` and used in the child: make one in the child."""


class SerializationError(KafkaError):
    """A key, value or batch could not be turned into bytes or back."""


class MissingCodec(SerializationError):
    """A batch is compressed with a codec whose package is not installed."""


class KafkaTimeout(KafkaError, TimeoutError):
    """A deadline passed. ``cause`` is the last error seen before it did, if any."""

    retriable = True

    def __init__(self, message: str, *, cause: BaseException | None = None, **context: Any) -> None:
        super().__init__(message, **context)
        self.cause = cause


class TransportError(KafkaError):
    """The connection could not be made, or broke."""

    retriable = True
    stale_metadata = True


class AuthenticationError(KafkaError):
    """The broker, or we, refused the other side's credentials."""


class ProtocolError(KafkaError):
    """Bytes do not mean what the protocol says they must, or a value has no encoding."""


class CorruptRecord(ProtocolError):
    """A record batch is damaged: checksum, length, magic or content."""


class BrokerError(KafkaError):
    """A broker answered with an error code. Codes newer than this client keep their number."""

    codes: ClassVar[tuple[int, ...]] = ()

    def __init__(self, message: str, code: int | None = None, **context: Any) -> None:
        super().__init__(message, **context)
        self.code: int = self.codes[0] if code is None else code
        self.name, self.retriable, self.stale_metadata = ERROR_CODES.get(
            self.code, (f"UNKNOWN_CODE_{self.code}", False, False)
        )


class UnsupportedVersion(BrokerError, ProtocolError):
    """The broker lacks an API or version, or the version in use lacks a field that was set."""

    codes = (35,)


class OffsetOutOfRange(BrokerError):
    """The offset asked for is before the log's start or beyond its end."""

    codes = (1,)


class TopicNotFound(BrokerError):
    """No such topic, partition or topic id (or no right to know of it)."""

    codes = (3, 100)


class RecordTooLarge(BrokerError):
    """A record or batch is larger than the topic or broker allows."""

    codes = (10, 18)


class NotAuthorized(BrokerError):
    """The user may not do this: topic, group, cluster, transactional id or token."""

    codes = (29, 30, 31, 53, 65)


class TopicExists(BrokerError):
    """A topic of that name exists already."""

    codes = (36,)


class InvalidRequest(BrokerError):
    """The broker understood the request and refused its content."""

    codes = (42, 17, 37, 38, 39, 40, 44)


class ProducerFenced(BrokerError):
    """A newer producer took over this transactional id; this one is finished."""

    codes = (90, 47)


class CommitFailed(BrokerError):
    """Offsets were not committed: the group moved on without this member."""

    codes = (22, 25, 27, 82, 113)


class TransactionFailed(KafkaError):
    """The transaction in progress can only be aborted; then the next one may begin."""

    def __init__(self, message: str, *, cause: BaseException | None = None) -> None:
        super().__init__(message)
        self.cause = cause


class TransactionLost(TransactionFailed):
    """The producer can do no more transactions: close it, and make a new one."""


class DeliveryError(KafkaError):
    """Some records were not delivered. ``failures`` pairs each with its error."""

    def __init__(self, message: str, failures: Sequence[Any] = (), **context: Any) -> None:
        super().__init__(message, **context)
        self.failures = failures


class PartialFailure(KafkaError):
    """Some items of a many-item call failed: the rest is in ``results``."""

    def __init__(
        self, message: str, results: Mapping[Any, Any], failures: Mapping[Any, KafkaError]
    ) -> None:
        super().__init__(message)
        self.results = results
        self.failures = failures


_CLASS_BY_CODE = {code: cls for cls in BrokerError.__subclasses__() for code in cls.codes}


def broker_error(code: int, what: str, **context: Any) -> BrokerError:
    """The error for a broker's ``code``; ``what`` says what was tried, where, and what to do."""
    cls = _CLASS_BY_CODE.get(code, BrokerError)
    error = cls(what, code, **context)
    error.args = (f"{what}: {error.name} (error {code})",)
    return error
