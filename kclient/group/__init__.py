"""Consumer groups: who is a member, who reads which partition."""
