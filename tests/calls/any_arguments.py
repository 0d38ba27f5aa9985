"""Calls with arguments of any size, made, quoted and asked in child processes whose processor time is limited.

Of arguments that nobody chose with care the worst are found by chance: each case takes a sample of a kind and replaces
some of its fields by numbers, lists and texts as large, small and long as their types allow. A child that does not end
a case is killed by the system (`RLIMIT_CPU`), whatever it computes, and its case is told.
`python -m tests.calls.any_arguments --cases 20000 --seconds 5` runs many, and tells the slowest.
"""

import argparse
import dataclasses
import faulthandler
import importlib
import json
import math
import multiprocessing
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from fractions import Fraction
from multiprocessing.connection import wait
from pathlib import Path
from random import Random

from chary import Algorithm, Budget
from chary.calls import kinds
from chary.calls.call import adapter
from chary.calls.run import Opening
from chary.errors import CharyError
from chary.noise import Seeded
from chary.service.core.requests import told_quote, words_of
from tests.conformance.samples import AFTER, ALL, BROUGHT, KINDS, answering

OF_KIND = list(KINDS)
BUDGETS = [
    {"budget": Budget(epsilon=1, delta=1e-6)},
    {"budget": Budget(epsilon=2)},
    {"budget": Budget(epsilon=10**6, delta=1e-6)},
    {"budget": Budget(epsilon=2, delta=1e-6), "grain": "0.02"},
    {"budget": Budget(epsilon=3, delta=1e-5), "delta_reserve": 1e-6},
]
USUAL = {"ledger": ":memory:", "dataset": "data"}
MEMORY = 8 * 2**30
USES = 150
# As many bytes as a body of a service has at most.
BODY = 1_000_000
# What is imported when it is first needed costs no case anything.
LATE = ["scipy.special", "scipy.optimize", "scipy.integrate", "scipy.stats", "scipy.sparse", "scipy.linalg", "duckdb"]
EDGES = [0, -1, 1, 2, 3, 10, 51, 10**3, 10**6, 10**9, 10**12, 10**18, 2**53, 2**63, 10**30, 10**100, 10**300, 10**307]
SMALL = ["1e-3", "1e-6", "1e-9", "1e-12", "1e-15", "1e-18", "1e-30", "1e-100", "1e-300", "1e-307", "5e-324"]
FRACTIONS = ["1/2", "1/3", "1/100", "0.99", "0.999999999999", "1e9", "1/1e9", "999999999999999999/1000000000000000000"]
LONG = ["0." + "3" * 300, "1/" + "7" * 300, "9" * 300, f"{'7' * 290}/{'9' * 293}", "0." + "3" * 4000,
        "0." + "1" * 90_000, f"{'7' * 4000}/{'9' * 4000}", "1e-99999999", "1e99999999"]  # fmt: skip


def number(random):
    """A number of any size, written in any way."""
    form = random.random()
    if form < 0.3:
        value = random.choice(EDGES)
        return random.choice([value, -value, str(value), f"{value}/7"])
    if form < 0.5:
        return random.choice([*SMALL, *FRACTIONS])
    if form < 0.6:
        return random.choice(LONG)
    if form < 0.7:
        return Fraction(random.getrandbits(random.choice([8, 64, 900])), 1 + random.getrandbits(random.choice([8, 64])))
    exponent = random.uniform(-12, 12) if random.random() < 0.6 else random.uniform(-307, 307)
    return random.choice([float, str])(10.0**exponent)


def whole(random):
    """A whole number of any size."""
    if random.random() < 0.6:
        return random.choice(EDGES)
    return int(10 ** random.uniform(0, 18 if random.random() < 0.8 else 300))


def many(random):
    """How many things a list has: as many as a body of the service holds, now and then."""
    return random.choice([0, 1, 2, 5, 40]) if random.random() < 0.85 else random.choice([1_000, 20_000, 90_000])


def condition(random):
    """A predicate of any length."""
    part = random.choice(["age >= 44", "NOT clinic = 'north'", "age IN (1, 2, 3)", "cost < 1e300"])
    size = many(random) // 2
    form = random.choice(["AND", "OR", "NOT", "(", "IN"])
    if form == "NOT":
        return "NOT " * size + part
    if form == "(":
        return "(" * size + part + ")" * size
    if form == "IN":
        return f"age IN ({', '.join(map(str, range(size)))})"
    return f" {form} ".join([part] * max(1, size))


def question(random):
    """The body of a query."""
    by = {} if random.random() < 0.5 else {"by": {"columns": ["clinic"], "keys": keys(random)}}
    if random.random() < 0.5:
        found = {"kind": "count", "where": condition(random)}
    else:
        kind = random.choice(["sum", "mean"])
        found = {
            "kind": kind,
            "column": "cost",
            "bounds": [number(random), number(random)],
            "max_rows_per_unit": whole(random),
        }
        if kind == "sum" and random.random() < 0.7:
            found["grid"] = number(random)
    return found | by


def keys(random):
    """Keys of a column."""
    return [f"k{at}" for at in range(many(random))]


def text(random, field):
    """A text for a field that takes one."""
    if field in ("where", "condition"):
        return condition(random)
    return random.choice(["laplace", "gaussian", "exponential", "age", "cost", "clinic", "identity", "ranges", "best",
                          "published", "tight", "hits", "first", "random", "x" * 90_000])  # fmt: skip


def replaced(random, field, schema, value):
    """What stands in a field instead of the value."""
    if isinstance(value, Algorithm):
        return dataclasses.replace(value, epsilon=number(random)) if value.probabilities is None else value
    if field in ("universe", "columns", "ranges"):
        return {random.choice(["clinic", "age"]): keys(random) if random.random() < 0.5 else list(range(many(random)))}
    if field == "queries":
        return [condition(random)] * many(random)
    types = types_of(schema)
    kind = random.choice(sorted(types)) if types else "null"
    if kind == "string":
        return number(random) if "number" in types else text(random, field)
    makers = {"integer": whole, "number": number, "boolean": flag, "array": listed, "object": question}
    return makers[kind](random) if kind in makers else None


def types_of(schema):
    """The types that a field may have in JSON."""
    said = [each.get("type", []) for each in [schema, *schema.get("anyOf", [])]]
    return {name for each in said for name in ([each] if isinstance(each, str) else each)}


def flag(random):
    """True or False."""
    return random.random() < 0.5


def listed(random):
    """A list of anything."""
    if random.random() < 0.3:
        return [number(random), number(random)]
    return random.choice([keys(random), [number(random)] * many(random), list(range(many(random)))])


def made(random, kind):
    """The fields of a call of this kind, some of them replaced."""
    sample = KINDS[kind]()
    own = {field.name: getattr(sample, field.name) for field in dataclasses.fields(sample) if field.init}
    said = own if kind in BROUGHT else {name: value for name, value in sample.body().items() if name != "kind"}
    schema = adapter(kinds()[kind]).json_schema()["properties"]
    chosen = random.sample(sorted(schema), min(len(schema), random.choice([1, 1, 2, 2, 3, 4, 6])))
    said |= {name: replaced(random, name, schema[name], own.get(name)) for name in chosen}
    return {name: value for name, value in said.items() if value is not None}


def terms(random):
    """The terms of a quote."""
    found = {"distance": number(random), "truth": number(random), "confidence": number(random)}
    found |= {"tests": whole(random), "hits": whole(random)}
    return {name: value for name, value in found.items() if random.random() < 0.15}


class Cases:
    """Sessions of each kind, made once, and cases by their number."""

    def __init__(self):
        self._sessions = {}

    def described(self, number_):
        """What a case is."""
        random = Random(number_)
        kind = OF_KIND[number_ % len(OF_KIND)]
        return kind, made(random, kind), terms(random), random

    def run(self, number_):
        """Do one; whether it was refused."""
        try:
            kind, fields, asked, random = self.described(number_)
        except CharyError:
            return True
        session = self._session(kind, random.randrange(len(BUDGETS)))
        try:
            call = kinds()[kind](**fields)
            if len(json.dumps(call.body())) > BODY:
                return True  # no service takes it
            told_quote(session.quote(call, **asked), alternatives=random.random() < 0.3, typed=True)
            if isinstance(call, Opening):
                self._run_of(random, session, call)
            elif random.random() < 0.5:
                session.ask(call)
        except CharyError:
            return True
        return False

    def _run_of(self, random, session, call):
        run = session.start(call)
        said = {"query": question(random), "above": number(random), "where": condition(random), "only_new": True}
        said = {name: value for name, value in said.items() if name in run.words}
        run.quote(**words_of(run, said))
        run.ask(**words_of(run, said))

    def _session(self, kind, budget):
        """One that can answer a kind; a new one when it has been asked for a while, and little is left of it."""
        family = kind if kind in AFTER else ALL[kind].rows, budget
        session, uses = self._sessions.get(family, (None, USES))
        if uses >= USES:
            if session is not None:
                session.close()
            session, uses = answering(kind, unsafe_noise=Seeded(7), **USUAL, **BUDGETS[budget]), 0
        self._sessions[family] = session, uses + 1
        return session


def work(told, seconds):
    """A child: does the cases that it is sent."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    cases = Cases()
    faulthandler.register(signal.SIGXCPU, chain=True)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    told.send(None)
    while (case := told.recv()) is not None:
        before = time.process_time()
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(before) + seconds, resource.RLIM_INFINITY))
        try:
            refused, error = cases.run(case), None
        except BaseException as raised:  # what was refused in no words
            refused, error = None, "".join(traceback.format_exception(raised, limit=-6))
        told.send((case, time.process_time() - before, refused, error))


class Children:
    """Processes that do cases; one that is killed is replaced by another."""

    def __init__(self, seconds):
        self._context, self._seconds = multiprocessing.get_context("fork"), seconds
        self.lines = {}
        for name in LATE:
            importlib.import_module(name)

    def begin(self):
        """One more."""
        here, there = self._context.Pipe()
        child = self._context.Process(target=work, args=(there, self._seconds), daemon=True)
        child.start()
        there.close()
        self.lines[here] = [child, None]

    def heard(self, line):
        """What a child has told; of one that is gone, that it was killed."""
        try:
            return line.recv()
        except (EOFError, OSError):
            child, case = self.lines.pop(line)
            child.join()
        self.begin()
        return case, math.inf, None, f"killed: exit code {child.exitcode}"

    def send(self, line, case):
        """The next case; none is the end."""
        line.send(case)
        self.lines[line][1] = case
        if case is None:
            self.lines.pop(line)[0].join()


def fuzz(numbers, children=2, seconds=20, told=lambda done: None):
    """Do them all; (case, seconds, refused, error) of each, seconds being infinite for what was killed."""
    pool, waiting, found = Children(seconds), iter(numbers), []
    for _ in range(children):
        pool.begin()
    while pool.lines:
        for line in wait(list(pool.lines)):
            done = pool.heard(line)
            if done is not None:
                found.append(done)
                told(done)
            if line in pool.lines:
                pool.send(line, next(waiting, None))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--children", type=int, default=2)
    parser.add_argument("--show", type=float, default=1.0)
    said = parser.parse_args()
    cases = Cases()

    def told(done):
        case, seconds, _, error = done
        if error is not None or seconds > said.show:
            kind, fields, terms_, _ = cases.described(case)
            short = {name: str(value)[:90] for name, value in (fields | terms_).items()}
            sys.stdout.write(f"--- {case} {kind} {seconds:.2f} s {short}\n{error or ''}\n")
            sys.stdout.flush()

    found = fuzz(range(said.first, said.first + said.cases), said.children, said.seconds, told)
    slowest = sorted((each for each in found if each[3] is None), key=lambda each: -each[1])[:5]
    refusals = Counter(each[2] for each in found)
    sys.stdout.write(f"{len(found)} cases {refusals} slowest {[(at, round(took, 2)) for at, took, *_ in slowest]}\n")


if __name__ == "__main__":
    main()
