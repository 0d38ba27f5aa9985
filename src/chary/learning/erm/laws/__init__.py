"""What private training promises: laws of its excess risk, with the constants of their proofs (docs/ermg.md)."""
