"""What a ledger in SQL does alike in every engine: tables, statements, rules, verification."""
