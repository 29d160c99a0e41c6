"""Work for clients: shared out fairly, and none without an end."""
