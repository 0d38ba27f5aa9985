"""How far answers may be off, and what nobody can beat."""
