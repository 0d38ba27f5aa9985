"""What the service keeps beside the ledgers: its own small database."""
