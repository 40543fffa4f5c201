"""How records come from brokers: positions, sessions, fetches, and what is in them."""
