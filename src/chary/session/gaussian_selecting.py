"""Questions answered by selection with Gaussian noise."""

from chary.data import Query
from chary.errors import InvalidParameter
from chary.numbers import Number
from chary.session.door import Door
from chary.session.gaussian_max import MaxGaussian, Winner
from chary.session.gaussian_runs import ThresholdRun
from chary.session.gaussian_steps import OpenRun
from chary.session.run_state import RunTerms


class GaussianSelecting(Door):
    """Selection with Gaussian noise ([GAUSS]; theory section 5)."""

    def noisy_max_gaussian(
        self,
        query: Query,
        *,
        low: Number,
        high: Number,
        noise: Number | None = None,
        epsilon: Number | None = None,
        request: str | None = None,
    ) -> Winner:
        """The key with the largest value, values clipped to [low, high] and made noisy by Gaussian noise.

        Guarantee: `Pure(epsilon)`; give `epsilon`, or the standard deviation `noise` (in the query's units), of which
        epsilon follows. The noise is exactly normal. Errors: `InvalidQuery` for fewer than two keys; `InvalidParameter`
        for bounds less than a step of the query's grid apart.
        """
        made = MaxGaussian(query, self.spine.rows.neighbouring, low, high, noise, epsilon)
        answer: Winner = self.spine.perform(made, request)
        return answer

    def above_threshold(
        self,
        *,
        threshold: Number | None = None,
        threshold_noise: Number | None = None,
        query_noise: Number | None = None,
        low: Number | None = None,
        high: Number | None = None,
        sensitivity: Number | None = None,
        call: int | None = None,
        request: str | None = None,
    ) -> ThresholdRun:
        """A run of tests, `run.test(query)`, up to the first True; any number of them, adaptively chosen.

        All numbers are in the units of the queries, whose values are clipped to [low, high]; the threshold may lie
        outside. It gets Gaussian noise once, each value anew: `query_noise` is sqrt(3) times `threshold_noise` unless
        given. `sensitivity` is the most that a query may have; without it, the largest one that was asked counts.

        Guarantee: before each step the loss of either outcome is known; the larger is reserved, less what the run was
        charged, and the loss of what came out is charged (`ExPost`). A step that does not fit is refused untouched. So
        under the pure filter every transcript has at most the budget's loss: pure DP, and delta 0. Opening is free, and
        so is leaving: `call=` goes on with an earlier run, also after a restart.

        Errors: `InvalidParameter` for missing terms or bounds in the wrong order; `NoPrice` under the exact filter,
        which has no tokens for ex-post losses; `UnknownHeld` for a call that opened no run.
        """
        given = (threshold, threshold_noise, query_noise, low, high, sensitivity)
        if call is not None:
            if any(part is not None for part in given) or request is not None:
                raise InvalidParameter("give call= alone: a run keeps the terms it was opened with")
            body = self.earlier(call, OpenRun.kind, "an opening of a run")
            return ThresholdRun(self.spine, call, RunTerms.from_body(body))
        if threshold is None or threshold_noise is None or low is None or high is None:
            raise InvalidParameter(
                "open a run with its terms, such as above_threshold(threshold=50, threshold_noise=10, low=0, high=100)"
            )
        terms = RunTerms(threshold, threshold_noise, query_noise, low, high, sensitivity)
        return ThresholdRun(self.spine, self.spine.perform(OpenRun(terms), request), terms)
