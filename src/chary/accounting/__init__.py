"""Pure mathematics of privacy loss: events, composition, Renyi orders, target charging. No state, no I/O."""

from chary.accounting.charging import exact_tail_total, not_prior_q, published_total
from chary.accounting.composition import Composition, compose, convex_upper, optimal_delta, optimal_total
from chary.accounting.curve import exact_delta, exact_total
from chary.accounting.events import Approximate, Event, ExPost, Joint, Pure, Repeated, Targeted
from chary.accounting.gaussian import gaussian_delta, gaussian_sigma
from chary.accounting.lattice import Call, lattice_curves, target_total
from chary.accounting.noise_events import DiscreteLaplace, ZeroConcentrated
from chary.accounting.planning import Plan, plan, trade_offs
from chary.accounting.prices import hit_price_up
from chary.accounting.renyi import capacity_down, choose_order, epsilon_up

__all__ = [
    "Approximate",
    "Call",
    "Composition",
    "DiscreteLaplace",
    "Event",
    "ExPost",
    "Joint",
    "Plan",
    "Pure",
    "Repeated",
    "Targeted",
    "ZeroConcentrated",
    "capacity_down",
    "choose_order",
    "compose",
    "convex_upper",
    "epsilon_up",
    "exact_delta",
    "exact_tail_total",
    "exact_total",
    "gaussian_delta",
    "gaussian_sigma",
    "hit_price_up",
    "lattice_curves",
    "not_prior_q",
    "optimal_delta",
    "optimal_total",
    "plan",
    "published_total",
    "target_total",
    "trade_offs",
]
