"""Attacks on trained classifiers that show their confidences, with and without differential privacy.

Needs the extra `learning`: `pip install 'chary[learning]'`. What an attack finds in secret data is secret.
"""

from chary.audit.models.cases import Cases, built_in_cases
from chary.audit.models.inversion import Inversion, inversion
from chary.audit.models.model_plots import draw_inversion, draw_shadows
from chary.audit.models.shadows import Shadows, shadows

__all__ = [
    "Cases",
    "Inversion",
    "Shadows",
    "built_in_cases",
    "draw_inversion",
    "draw_shadows",
    "inversion",
    "shadows",
]
