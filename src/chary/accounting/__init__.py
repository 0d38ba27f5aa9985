"""Pure mathematics of privacy loss: events, composition, Renyi orders, target charging. No state, no I/O."""

from chary.accounting.accuracy import (
    exponential_loss_up,
    flip_loss_up,
    laplace_loss_up,
    share_error_up,
    share_interval,
    utility_loss_up,
    vote_lead_up,
)
from chary.accounting.boundary import boundary_epsilon_up, boundary_q_down
from chary.accounting.calibration import (
    PlainNoise,
    charging_size,
    four_digits_down,
    four_digits_up,
    largest_size,
    plain_noise,
)
from chary.accounting.charging import exact_tail_total, not_prior_q, published_total
from chary.accounting.composition import Composition, compose, convex_upper, optimal_delta, optimal_total
from chary.accounting.curve import exact_delta, exact_total
from chary.accounting.direct_prices import boundary_price_up, narrow_price_up, twice_price_up
from chary.accounting.discrete_gaussian import (
    discrete_gaussian_delta_up,
    discrete_gaussian_variance,
    zero_concentrated_rho_down,
)
from chary.accounting.events import Approximate, Event, ExPost, Joint, Pure, Repeated
from chary.accounting.gaussian import gaussian_delta, gaussian_sigma
from chary.accounting.gaussian_runs import runs_epsilon_up, runs_noise
from chary.accounting.gaussian_selection import (
    above_threshold_epsilons_up,
    above_threshold_noise,
    halted_epsilon_up,
    noisy_max_epsilon_up,
    noisy_max_noise,
    running_epsilon_up,
)
from chary.accounting.lattice import Call, lattice_curves, target_total
from chary.accounting.lower_bounds import (
    discrete_chance_up,
    linear_loss_down,
    loss_down,
    published_loss_down,
    variance_down,
)
from chary.accounting.multiplicative_weights import hard_answers_up, weights_alpha, weights_epsilon
from chary.accounting.noise_accuracy import (
    crossing_error_up,
    gaussian_error_up,
    laplace_deviation,
    laplace_error_up,
)
from chary.accounting.noise_events import DiscreteLaplace, ZeroConcentrated
from chary.accounting.planning import Plan, plan, trade_offs
from chary.accounting.prices import hit_price_up
from chary.accounting.quantile_accuracy import rank_error_up, rank_errors_up
from chary.accounting.renyi import capacity_down, choose_order, epsilon_up
from chary.accounting.sparse_accuracy import error_up, published_error
from chary.accounting.sparse_rounds import SparseRounds, joint_delta, sparse_rounds, unit_deviation, usual_rounds
from chary.accounting.sparse_vector import SparseNoise, sparse_noise, tuned_shares
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
    "PlainNoise",
    "Plan",
    "Pure",
    "Repeated",
    "SparseNoise",
    "SparseRounds",
    "Targeted",
    "TwiceCall",
    "ZeroConcentrated",
    "above_threshold_epsilons_up",
    "above_threshold_noise",
    "between_q_down",
    "boundary_epsilon_up",
    "boundary_price_up",
    "boundary_q_down",
    "capacity_down",
    "charging_size",
    "choose_order",
    "compose",
    "convex_upper",
    "crossing_error_up",
    "discrete_chance_up",
    "discrete_gaussian_delta_up",
    "discrete_gaussian_variance",
    "epsilon_up",
    "error_up",
    "exact_delta",
    "exact_tail_total",
    "exact_total",
    "exponential_loss_up",
    "flip_loss_up",
    "four_digits_down",
    "four_digits_up",
    "gaussian_delta",
    "gaussian_error_up",
    "gaussian_sigma",
    "halted_epsilon_up",
    "hard_answers_up",
    "hit_price_up",
    "joint_delta",
    "laplace_deviation",
    "laplace_error_up",
    "laplace_loss_up",
    "largest_size",
    "lattice_curves",
    "linear_loss_down",
    "loss_down",
    "narrow_price_up",
    "noisy_max_epsilon_up",
    "noisy_max_noise",
    "not_prior_q",
    "optimal_delta",
    "optimal_total",
    "plain_noise",
    "plan",
    "published_error",
    "published_loss_down",
    "published_total",
    "rank_error_up",
    "rank_errors_up",
    "running_epsilon_up",
    "runs_epsilon_up",
    "runs_noise",
    "share_error_up",
    "share_interval",
    "sparse_noise",
    "sparse_rounds",
    "target_total",
    "trade_offs",
    "tuned_shares",
    "twice_price_up",
    "twice_q_down",
    "unit_deviation",
    "usual_rounds",
    "utility_loss_up",
    "variance_down",
    "vote_lead_up",
    "weights_alpha",
    "weights_epsilon",
    "zero_concentrated_rho_down",
]
