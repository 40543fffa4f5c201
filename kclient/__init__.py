"""kclient: a synchronous Apache Kafka client that speaks the wire protocol itself."""

from kclient.types import ProducerRecord, Record, RecordMetadata, TimestampType, TopicPartition

__all__ = ["ProducerRecord", "Record", "RecordMetadata", "TimestampType", "TopicPartition"]
