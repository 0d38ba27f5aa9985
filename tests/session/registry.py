"""One line for each kind of call: what every kind must do is tested in test_every_kind.py."""

from chary import Algorithm, count
from chary.growing import CountsBox

CLINICS = ["north", "south", "east"]
EXTREME = 10**9
RUN = {"threshold": 50, "threshold_noise": 500, "low": 0, "high": 100}
SMALL = {"universe": {"clinic": CLINICS}, "queries": ["clinic = 'north'", "clinic = 'south'"], "epsilon": "0.01"}
AGES = {"bounds": (0, 120), "rows_per_unit": 1, "epsilon": "0.01"}


def fixed(value, epsilon="0.01"):
    """An algorithm whose outcome is known."""
    return Algorithm("fixed", lambda rows, source: value, epsilon=epsilon)


def revise(session, name):
    """Needs a held outcome."""
    held = session.release_if(count(), above=EXTREME, epsilon="0.01", request=f"held {name}")
    return lambda key: session.revise(held.call, above=-EXTREME, request=key)


def best_of_call(session, name):
    """Needs two targets side by side."""
    race = session.best_of(["a", "b"], request=f"race {name}")
    return lambda key: race.call(fixed(1), priors={"a": 1, "b": 2}, request=key)


def individual_ask(session, name):
    """Needs an open stream."""
    stream = session.individual(epsilon="0.02", hits=2, request=f"stream {name}")
    return lambda key: stream.release_if(count(), above=-EXTREME, request=key)


def sparse(ask):
    """Needs an open sparse vector."""

    def prepared(session, name):
        opened = session.sparse_vector(above=-EXTREME, hits=3, epsilon="0.01", values=True, request=f"sparse {name}")
        return lambda key: ask(opened, key)

    return prepared


def gaussian_run(ask):
    """Needs an open run of threshold tests."""

    def prepared(session, name):
        run = session.above_threshold(**RUN, request=f"run {name}")
        return lambda key: ask(run, key)

    return prepared


def sketch_release_if(session, name):
    """Needs a sketch."""
    sketch = session.sketch(epsilon="0.01", registers=64, request=f"sketch {name}")
    return lambda key: sketch.release_if(above=0, request=key)


def growing_sparse(session, name):
    """A sparse vector on a growing table."""
    return session.growing_sparse_vector(above="0.5", epsilon="0.01", values=True, request=f"growing {name}")


def growing_sparse_round(session, name):
    """Needs a growing sparse vector without an open round."""
    opened = growing_sparse(session, name)
    return lambda key: opened.begin(request=key)


def growing_sparse_test(session, name):
    """Needs a growing sparse vector with an open round."""
    opened = growing_sparse(session, name)
    opened.begin(request=f"round {name}")
    return lambda key: opened.test(count(), above=0, request=key)


SIXTIES = CountsBox(count("age >= 60"))


def scheduled_run(session, name):
    """Needs an open schedule."""
    schedule = session.schedule(SIXTIES, epsilon="0.01", beta="0.05", request=f"schedule {name}")
    return lambda key: schedule.run(request=key)


def continual_step(session, name):
    """Needs an open continual count."""
    counting = session.continual_count(steps=100, epsilon="0.01", request=f"continual {name}")
    return lambda key: counting.step(request=key)


def multiplicative_weights(session, request):
    """A public histogram over the clinics."""
    return session.multiplicative_weights(universe={"clinic": CLINICS}, alpha="0.1", epsilon="0.01", request=request)


def multiplicative_weights_ask(session, name):
    """Needs an open histogram."""
    weights = multiplicative_weights(session, f"weights {name}")
    return lambda key: weights.ask("clinic = 'north'", must_verify=True, request=key)


def sparse_weights(session, request):
    """The same with rounds that are paid for once."""
    universe = {"clinic": CLINICS}
    return session.sparse_multiplicative_weights(universe=universe, alpha="0.1", epsilon="0.01", request=request)


def sparse_weights_ask(session, name):
    """Needs such a histogram."""
    weights = sparse_weights(session, f"weights {name}")
    return lambda key: weights.ask("clinic = 'north'", must_verify=True, request=key)


def scoring(score):
    """An algorithm whose score is known."""
    return Algorithm(f"scores {score}", lambda rows, source: [score, "solution"], epsilon="0.01")


def asked(ask):
    """A question that needs no earlier call."""
    return lambda session, name: lambda key: ask(session, key)


# Given a session and a name, each prepares what it needs and returns how to ask under a request key.
KINDS = {
    "release": asked(lambda s, key: s.release(count(), epsilon="0.01", request=key)),
    "release of keys": asked(lambda s, key: s.release(count().by("clinic", CLINICS), rho="0.0001", request=key)),
    "release by delta": asked(lambda s, key: s.release(count(), epsilon="0.1", delta="1e-7", request=key)),
    "histogram": asked(lambda s, key: s.histogram("age", bins=[0, 18, 65, 120], epsilon="0.01", request=key)),
    "marginal": asked(lambda s, key: s.marginal({"clinic": CLINICS, "age": [20, 44]}, epsilon="0.01", request=key)),
    "quantiles": asked(lambda s, key: s.quantiles("age", [0.25, 0.5], **AGES, request=key)),
    "quantile": asked(lambda s, key: s.quantile("age", 0.5, **AGES, request=key)),
    "mode": asked(lambda s, key: s.mode(count().by("clinic", CLINICS), epsilon="0.01", request=key)),
    "fraction": asked(lambda s, key: s.fraction("age >= 44", epsilon="0.01", request=key)),
    "test": asked(lambda s, key: s.test(count(), above=51, epsilon="0.01", request=key)),
    "release_if": asked(lambda s, key: s.release_if(count(), above=-EXTREME, epsilon="0.01", request=key)),
    "revise": revise,
    "watch": asked(lambda s, key: s.watch(count().by("clinic", CLINICS), above=-EXTREME, epsilon="0.01", request=key)),
    "call": asked(lambda s, key: s.call(fixed([1, "a"]), prior=2, request=key)),
    "call of a rho": asked(lambda s, key: s.call(Algorithm("zcdp", lambda rows, source: 1, rho="0.0001"), request=key)),
    "track": asked(lambda s, key: s.track(count(), step=100, epsilon="0.01").ask(request=key)),
    "call_twice": asked(lambda s, key: s.call_twice(fixed(1), request=key)),
    "between": asked(lambda s, key: s.between(count(), low=-EXTREME, high=EXTREME, epsilon="0.01", request=key)),
    "decide": asked(lambda s, key: s.decide(count(), above=51, epsilon="0.01", request=key)),
    "classify": asked(lambda s, key: s.classify(count().by("clinic", CLINICS), epsilon="0.01", request=key)),
    "best_of": asked(lambda s, key: s.best_of(["a", "b", "c"], request=key)),
    "best_of_call": best_of_call,
    "top": asked(lambda s, key: s.top(count().by("clinic", CLINICS), k=2, epsilon="0.01", request=key)),
    "top of algorithms": asked(lambda s, key: s.top([scoring(1), scoring(2)], k=1, request=key)),
    "select": asked(lambda s, key: s.select([scoring(1), scoring(2)], above=2, request=key)),
    "individual_stream": asked(lambda s, key: s.individual(epsilon="0.02", hits=2, request=key)),
    "individual_ask": individual_ask,
    "sparse_vector": asked(lambda s, key: s.sparse_vector(above=51, hits=2, epsilon="0.01", request=key).call),
    "sparse_test": sparse(lambda opened, key: opened.test(count(), request=key)),
    "sparse_watch": sparse(lambda opened, key: opened.watch(count().by("clinic", CLINICS[:1]), request=key)),
    "growing_sparse_vector": asked(
        lambda s, key: s.growing_sparse_vector(above="0.5", epsilon="0.01", request=key).call
    ),
    "growing_sparse_round": growing_sparse_round,
    "growing_sparse_test": growing_sparse_test,
    "noisy_max_gaussian": asked(
        lambda s, key: s.noisy_max_gaussian(count().by("clinic", CLINICS), low=0, high=100, epsilon="0.01", request=key)
    ),
    "above_threshold": asked(lambda s, key: s.above_threshold(**RUN, request=key).call),
    "above_threshold_test": gaussian_run(lambda run, key: run.test(count(), request=key)),
    "above_threshold_test of keys": gaussian_run(
        lambda run, key: run.watch(count().by("clinic", CLINICS), request=key)
    ),
    "multiplicative_weights": asked(lambda s, key: multiplicative_weights(s, key).call),
    "multiplicative_weights_ask": multiplicative_weights_ask,
    "sparse_weights": asked(lambda s, key: sparse_weights(s, key).call),
    "sparse_weights_ask": sparse_weights_ask,
    "small_database": asked(lambda s, key: s.small_database(**SMALL, rows=4, request=key)),
    "small_database of the best size": asked(lambda s, key: s.small_database(**SMALL, request=key)),
    "mwem": asked(
        lambda s, key: s.mwem(
            universe={"clinic": CLINICS}, queries=["clinic = 'north'"], rounds=2, epsilon="0.01", request=key
        )
    ),
    "sketch": asked(lambda s, key: s.sketch(epsilon="0.01", registers=64, request=key)),
    "sketch_release_if": sketch_release_if,
    "choose": asked(lambda s, key: s.choose(count().by("clinic", CLINICS), epsilon="0.01", request=key)),
    "most_common": asked(lambda s, key: s.most_common("clinic", among=CLINICS, epsilon="0.01", request=key)),
    "majority": asked(lambda s, key: s.majority("age >= 44", epsilon="0.01", request=key)),
    "randomized": asked(lambda s, key: s.randomized("age >= 44", epsilon="0.01", request=key)),
    "schedule": asked(lambda s, key: s.schedule(SIXTIES, epsilon="0.01", beta="0.05", request=key).call),
    "scheduled_run": scheduled_run,
    "continual_count": asked(lambda s, key: s.continual_count(steps=100, epsilon="0.01", request=key).call),
    "continual_count by the root": asked(lambda s, key: s.continual_count(steps=9, rho="0.0001", request=key).call),
    "continual_step": continual_step,
    "label": asked(lambda s, key: s.label(0, epsilon="0.01", request=key)),
    "label of a guess": asked(lambda s, key: s.label(0, guess="yes", epsilon="0.01", request=key)),
    "label_clear": asked(lambda s, key: s.label_clear(0, epsilon="0.01", request=key)),
    "agreement": asked(lambda s, key: s.agreement(0, above=90, expect="low", epsilon="0.01", request=key)),
}
# What never costs anything itself, what is asked of votes instead of a table, and what needs a public number of units.
FREE = {
    "continual_step",
    "multiplicative_weights",
    "sparse_test",
    "sparse_watch",
    "growing_sparse_vector",
    "growing_sparse_test",
    "individual_ask",
    "sketch",
    "above_threshold",
    "scheduled_run",
    "sparse_weights_ask",
}
OF_VOTES = {"label", "label of a guess", "label_clear", "agreement"}
OF_REPLACED = {"fraction", "randomized"}
# What needs a public number of rows.
OF_ROWS = {
    "continual_count",
    "continual_count by the root",
    "continual_step",
    "small_database",
    "small_database of the best size",
    "multiplicative_weights",
    "multiplicative_weights_ask",
    "mwem",
    "schedule",
    "scheduled_run",
    "growing_sparse_vector",
    "growing_sparse_round",
    "growing_sparse_test",
    "sparse_weights",
    "sparse_weights_ask",
}
