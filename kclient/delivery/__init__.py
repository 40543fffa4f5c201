"""How records get from a producer's call to a broker: partitions, batches, sequences."""
