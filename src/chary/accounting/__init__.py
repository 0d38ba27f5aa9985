"""Pure mathematics of privacy loss: events, composition, Renyi orders, target charging. No state, no I/O."""

from chary.accounting.boundary import boundary_epsilon_up, boundary_q_down
from chary.accounting.charging import exact_tail_total, not_prior_q, published_total
from chary.accounting.composition import Composition, compose, convex_upper, optimal_delta, optimal_total
from chary.accounting.curve import exact_delta, exact_total
from chary.accounting.direct_prices import boundary_price_up, narrow_price_up, twice_price_up
from chary.accounting.events import Approximate, Event, ExPost, Joint, Pure, Repeated
from chary.accounting.gaussian import gaussian_delta, gaussian_sigma
from chary.accounting.lattice import Call, lattice_curves, target_total
from chary.accounting.noise_events import DiscreteLaplace, ZeroConcentrated
from chary.accounting.planning import Plan, plan, trade_offs
from chary.accounting.prices import hit_price_up
from chary.accounting.renyi import capacity_down, choose_order, epsilon_up
from chary.accounting.target_events import BestOf, BoundaryCall, Extendable, NarrowChoice, Targeted, TwiceCall
from chary.accounting.targets import between_q_down, twice_q_down

__all__ = [
    "Approximate",
    "BestOf",
    "BoundaryCall",
    "Call",
    "Composition",
    "DiscreteLaplace",
    "Event",
    "ExPost",
    "Extendable",
    "Joint",
    "NarrowChoice",
    "Plan",
    "Pure",
    "Repeated",
    "Targeted",
    "TwiceCall",
    "ZeroConcentrated",
    "between_q_down",
    "boundary_epsilon_up",
    "boundary_price_up",
    "boundary_q_down",
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
    "narrow_price_up",
    "not_prior_q",
    "optimal_delta",
    "optimal_total",
    "plan",
    "published_total",
    "target_total",
    "trade_offs",
    "twice_price_up",
    "twice_q_down",
]
