"""`chary attack`: attacks as demonstrations, with what no attacker can do better."""

from chary.cli.attacks import attack_commands, counted_attacks, model_attacks
from chary.cli.attacks.attack_options import app

__all__ = ["app", "attack_commands", "counted_attacks", "model_attacks"]
