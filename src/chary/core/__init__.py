"""Reserve - run - settle: where data, noise, filter and ledger meet."""
