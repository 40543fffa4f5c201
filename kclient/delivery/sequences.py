"""Producer ids, epochs and sequence numbers: how a broker tells a repeat from a new batch.

The theory. A batch keeps the number it was first sent under, whatever happens, until a broker
says that it did not take it: only then may it get another. A batch whose outcome is unknown is
sent again as it was, so a broker that has it answers "duplicate". When a broker reports a gap
before the first batch of a partition's row, something before it was given up: the epoch is
raised (KIP-360), and the row starts at 0 again, under the new epoch. Up to five batches of a
row are in flight at once, but its very first one goes alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kclient.delivery.batch import Batch, following

LAST_EPOCH = (1 << 15) - 1


class ProducerId(NamedTuple):
    """Who writes, for the broker."""

    number: int = -1
    epoch: int = -1

    @property
    def is_known(self) -> bool:
        """Whether a broker has given one out."""
        return self.number >= 0


NOBODY = ProducerId()


@dataclass
class Row:
    """The row of sequence numbers of one partition."""

    owner: ProducerId = NOBODY
    next: int = 0
    known_as: int = -1
    """The producer id under which the partition has acknowledged a batch."""

    def may_number(self, owner: ProducerId, unsettled: Iterable[Batch]) -> bool:
        """Whether a new batch may be numbered now.

        After the epoch was raised, what was sent under the old one has to be settled first.
        So has the very first batch: a broker that knows nothing of a producer takes any
        number from it, and would take the second batch if it could not take the first.
        """
        if self.owner == owner and self.known_as == owner.number:
            return True
        return not any(batch.has_sequence for batch in unsettled)

    def note_success(self, batch: Batch) -> None:
        """A broker has acknowledged a batch."""
        self.known_as = batch.producer_id

    def number(self, batch: Batch, owner: ProducerId) -> None:
        """Give a batch the next number; no record may be added to it any more."""
        batch.is_open = False
        if self.owner != owner:
            self.owner, self.next = owner, 0
        # In this order: after an interrupt in between there is a gap, which the broker tells;
        # two batches of one number would be one for it.
        start, self.next = self.next, following(self.next, batch.count)
        batch.assign(owner.number, owner.epoch, start)


class Sequences:
    """The producer's identity. The rows are kept by the partitions.

    ``current`` is NOBODY until a broker gave an id out; ``needs_id`` tells that one must be
    asked for: at the start, and when the epochs of an id are used up.
    """

    def __init__(self, *, is_on: bool) -> None:
        self.is_on = is_on
        self.current = NOBODY

    @property
    def needs_id(self) -> bool:
        """Whether an id must be had before anything is sent."""
        return self.is_on and not self.current.is_known

    def take(self, given: ProducerId) -> None:
        """Use an id that the broker gave out."""
        self.current = given

    def raise_epoch(self, seen: ProducerId) -> None:
        """Go to the next epoch, unless that happened since ``seen`` was current.

        A producer without transactions may do so by itself: its id is nobody else's.
        """
        if self.current != seen:
            return
        if self.current.epoch >= LAST_EPOCH:
            self.current = NOBODY
        else:
            self.current = ProducerId(self.current.number, self.current.epoch + 1)
