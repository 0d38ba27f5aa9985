"""One line for each kind of call: what every kind must do is tested in test_every_kind.py."""

from chary import Algorithm, count

CLINICS = ["north", "south", "east"]
EXTREME = 10**9


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


def sketch_release_if(session, name):
    """Needs a sketch."""
    sketch = session.sketch(epsilon="0.01", registers=64, request=f"sketch {name}")
    return lambda key: sketch.release_if(above=0, request=key)


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
    "test": asked(lambda s, key: s.test(count(), above=51, epsilon="0.01", request=key)),
    "release_if": asked(lambda s, key: s.release_if(count(), above=-EXTREME, epsilon="0.01", request=key)),
    "revise": revise,
    "watch": asked(lambda s, key: s.watch(count().by("clinic", CLINICS), above=-EXTREME, epsilon="0.01", request=key)),
    "call": asked(lambda s, key: s.call(fixed([1, "a"]), prior=2, request=key)),
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
    "sketch": asked(lambda s, key: s.sketch(epsilon="0.01", registers=64, request=key)),
    "sketch_release_if": sketch_release_if,
    "label": asked(lambda s, key: s.label(0, epsilon="0.01", request=key)),
    "label of a guess": asked(lambda s, key: s.label(0, guess="yes", epsilon="0.01", request=key)),
    "label_clear": asked(lambda s, key: s.label_clear(0, epsilon="0.01", request=key)),
    "agreement": asked(lambda s, key: s.agreement(0, above=90, expect="low", epsilon="0.01", request=key)),
}
# What never costs anything itself, and what is asked of votes instead of a table.
FREE = {"individual_ask", "sketch"}
OF_VOTES = {"label", "label of a guess", "label_clear", "agreement"}
