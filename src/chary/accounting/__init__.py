"""Pure mathematics of privacy loss: events, composition, Renyi orders, target charging. No state, no I/O."""

from chary.accounting.calibration import (
    PlainNoise,
    charging_size,
    four_digits_down,
    four_digits_up,
    largest_size,
    plain_noise,
)
from chary.accounting.charging.boundary_sizes import boundary_epsilon_up, boundary_q_down
from chary.accounting.charging.charging_curve import exact_delta, exact_total
from chary.accounting.charging.direct_prices import boundary_price_up, narrow_price_up, twice_price_up
from chary.accounting.charging.hit_prices import hit_price_up
from chary.accounting.charging.lattice import MenuCall, lattice_curves, target_total
from chary.accounting.charging.lattice_laws import LatticeLaw, on_lattice
from chary.accounting.charging.planner import Plan, plan, trade_offs
from chary.accounting.charging.published_charging import exact_tail_total, not_prior_q, published_total
from chary.accounting.charging.target_rates import between_q_down, twice_q_down
from chary.accounting.charging.unanimous_runs import (
    best_runs,
    boundary_chance,
    unanimous_price_up,
    unanimous_q_down,
)
from chary.accounting.composition import Composition, compose, convex_upper
from chary.accounting.events import Approximate, Asymmetric, Concentrated, Event, ExPost, Joint, Pure, Repeated
from chary.accounting.gaussian.discrete_gaussian import (
    discrete_gaussian_delta_up,
    discrete_gaussian_variance,
    zero_concentrated_rho_down,
)
from chary.accounting.gaussian.gaussian_curve import gaussian_delta, gaussian_sigma
from chary.accounting.gaussian.run_losses import runs_epsilon_up, runs_noise
from chary.accounting.gaussian.selection_losses import (
    above_threshold_epsilons_up,
    above_threshold_noise,
    halted_epsilon_up,
    noisy_max_epsilon_up,
    noisy_max_noise,
    running_epsilon_up,
)
from chary.accounting.group_privacy import group_privacy_up, sampler_delta_up
from chary.accounting.inference.findings import Alarms, Finding, Findings, Procedure, Told
from chary.accounting.inference.gaussian_law import GaussianLaw
from chary.accounting.inference.largest import LargestOf, Reach, chosen_reach_up
from chary.accounting.inference.lists import (
    benjamini_hochberg_list,
    e_value_list,
    fdr,
    online_list,
    spending_list,
)
from chary.accounting.inference.noise_laws import LaplaceLaw, NoiseLaw
from chary.accounting.inference.publications import Interval, Publication
from chary.accounting.inference.ratios import mean_between, mean_interval
from chary.accounting.inference.silences import Silence
from chary.accounting.inference.supports import Support
from chary.accounting.inference.together import (
    confidence_at,
    confidence_of_each,
    error_of_all_up,
    false_alarms_up,
    least_bar,
    margin_up,
)
from chary.accounting.log_moments import capacity_down, choose_order, epsilon_up
from chary.accounting.noise_events import DiscreteLaplace, ZeroConcentrated
from chary.accounting.optimal_composition import optimal_delta, optimal_total
from chary.accounting.sharp.half_widths import sharp_width
from chary.accounting.sharp.next_chance import next_miss_up, tail_down
from chary.accounting.sharp.sharp_event import SharpTest
from chary.accounting.sharp.sharp_table import SharpTable, sharp_table
from chary.accounting.sparse.noise_split import SparseNoise, sparse_noise, tuned_shares
from chary.accounting.sparse.one_sided import OneSidedNoise, one_sided_noise
from chary.accounting.sparse.one_sided_errors import one_sided_error_up, sparse_half_width_up
from chary.accounting.sparse.repeated_sparse import (
    SparseRounds,
    joint_delta,
    sparse_rounds,
    unit_deviation,
    usual_rounds,
)
from chary.accounting.sparse.sparse_errors import error_up, published_error
from chary.accounting.stated_laws import StatedLaws
from chary.accounting.synthesis.hard_answers import hard_answers_up, weights_alpha, weights_epsilon
from chary.accounting.target_events import (
    BestOf,
    BoundaryCall,
    Extendable,
    NarrowChoice,
    Targeted,
    TwiceCall,
    UnanimousCall,
)
from chary.accounting.unequal_composition import compose_unequal
from chary.accounting.utility.choice_errors import (
    exponential_loss_up,
    flip_loss_up,
    laplace_loss_up,
    share_error_up,
    share_interval,
    utility_loss_up,
    vote_lead_up,
)
from chary.accounting.utility.joint_errors import (
    crossing_error_up,
    gaussian_error_up,
    laplace_deviation,
    laplace_error_up,
)
from chary.accounting.utility.lower_bounds import (
    discrete_chance_up,
    linear_loss_down,
    loss_down,
    published_loss_down,
    variance_down,
)
from chary.accounting.utility.rank_errors import rank_error_up, rank_errors_up

__all__ = [
    "Alarms",
    "Approximate",
    "Asymmetric",
    "BestOf",
    "BoundaryCall",
    "Composition",
    "Concentrated",
    "DiscreteLaplace",
    "Event",
    "ExPost",
    "Extendable",
    "Finding",
    "Findings",
    "GaussianLaw",
    "Interval",
    "Joint",
    "LaplaceLaw",
    "LargestOf",
    "LatticeLaw",
    "MenuCall",
    "NarrowChoice",
    "NoiseLaw",
    "OneSidedNoise",
    "PlainNoise",
    "Plan",
    "Procedure",
    "Publication",
    "Pure",
    "Reach",
    "Repeated",
    "SharpTable",
    "SharpTest",
    "Silence",
    "SparseNoise",
    "SparseRounds",
    "StatedLaws",
    "Support",
    "Targeted",
    "Told",
    "TwiceCall",
    "UnanimousCall",
    "ZeroConcentrated",
    "above_threshold_epsilons_up",
    "above_threshold_noise",
    "benjamini_hochberg_list",
    "best_runs",
    "between_q_down",
    "boundary_chance",
    "boundary_epsilon_up",
    "boundary_price_up",
    "boundary_q_down",
    "capacity_down",
    "charging_size",
    "choose_order",
    "chosen_reach_up",
    "compose",
    "compose_unequal",
    "confidence_at",
    "confidence_of_each",
    "convex_upper",
    "crossing_error_up",
    "discrete_chance_up",
    "discrete_gaussian_delta_up",
    "discrete_gaussian_variance",
    "e_value_list",
    "epsilon_up",
    "error_of_all_up",
    "error_up",
    "exact_delta",
    "exact_tail_total",
    "exact_total",
    "exponential_loss_up",
    "false_alarms_up",
    "fdr",
    "flip_loss_up",
    "four_digits_down",
    "four_digits_up",
    "gaussian_delta",
    "gaussian_error_up",
    "gaussian_sigma",
    "group_privacy_up",
    "halted_epsilon_up",
    "hard_answers_up",
    "hit_price_up",
    "joint_delta",
    "laplace_deviation",
    "laplace_error_up",
    "laplace_loss_up",
    "largest_size",
    "lattice_curves",
    "least_bar",
    "linear_loss_down",
    "loss_down",
    "margin_up",
    "mean_between",
    "mean_interval",
    "narrow_price_up",
    "next_miss_up",
    "noisy_max_epsilon_up",
    "noisy_max_noise",
    "not_prior_q",
    "on_lattice",
    "one_sided_error_up",
    "one_sided_noise",
    "online_list",
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
    "sampler_delta_up",
    "share_error_up",
    "share_interval",
    "sharp_table",
    "sharp_width",
    "sparse_half_width_up",
    "sparse_noise",
    "sparse_rounds",
    "spending_list",
    "tail_down",
    "target_total",
    "trade_offs",
    "tuned_shares",
    "twice_price_up",
    "twice_q_down",
    "unanimous_price_up",
    "unanimous_q_down",
    "unit_deviation",
    "usual_rounds",
    "utility_loss_up",
    "variance_down",
    "vote_lead_up",
    "weights_alpha",
    "weights_epsilon",
    "zero_concentrated_rho_down",
]
