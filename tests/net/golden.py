"""Things that are kept for ever: written by the code of one day, opened by every later one.

Ledgers of every recipe in files and on a server, a file and a folder whose rows grew, what commands find again by the
keys of their requests, a service's own database, and answers as they go over the wire. Beside them lies what must be
found in them again. `python -m tests.net.record golden` writes them anew, which is done before a release and never for
a test that fails.
"""

import gzip
import json
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import chdir, closing, contextmanager, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import chary
from chary import Budget, count
from chary.answers import Answer
from chary.calls import GrowingTests, Release, SparseVector, ThresholdTest
from chary.cli import run
from chary.client.wire import in_typed
from chary.errors import CharyError
from chary.noise import Seeded
from chary.report import report
from tests.conformance.sample import PATIENTS, REPLACED, ROWS, VOTES
from tests.conformance.samples import EVERY, LATER, names_of
from tests.golden.make import told as told_of
from tests.net import kept
from tests.net.kept import RECORDED, told
from tests.servers.postgres import programs, running
from tests.service.kit import client_of, listening, serve_dataset, service_at, token_of
from tests.session.interruption_kit import Interruption, Stop
from tests.session.kit import PUBLIC, open_teachers, visits

HERE = RECORDED / "golden"
ROOM = Budget(epsilon=20, delta=1e-6)
# Beyond all clocks: tokens that do not end, and jobs that are not forgotten.
NEVER = 32_503_680_000
SCHEMA = "kept"


def of_votes(**options):
    """Votes of teachers."""
    return open_teachers(**({"budget": ROOM, "dataset": "votes"} | options))


def of_visits(**said):
    """Opens the visits in one way."""
    return lambda **options: chary.open(visits(), **({"budget": ROOM, "privacy_unit": "patient"} | said | options))


PLAIN = tuple(name for name in names_of(PATIENTS) if name not in LATER)
# How each ledger is opened, and what is asked of it; of pure and exact filters what they sell.
LEDGERS = {
    "table": (of_visits(dataset="table"), PLAIN),
    "replaced": (of_visits(dataset="replaced", neighbors="replace"), names_of(REPLACED)),
    "rows": (of_visits(dataset="rows", **PUBLIC), names_of(ROWS)),
    "votes": (of_votes, names_of(VOTES)),
    "pure": (of_visits(dataset="pure", budget=Budget(epsilon=20)), PLAIN),
    "exact": (of_visits(dataset="exact", filter="exact", grain="0.01", budget=Budget(epsilon=4, delta=1e-6)), PLAIN),
}
# What lies on a server, in one ledger.
ON_SERVER = ("table", "replaced", "rows", "votes")


def asked(session, recipes, day):
    """Ask each recipe that is sold; which were."""
    sold = []
    for recipe in recipes:
        with suppress(CharyError):
            EVERY[recipe](session, recipe)(f"{day}, {recipe}")
            sold.append(recipe)
    return sold


def found(session):
    """What must be found again."""
    ledger, dataset = session.spine.ledger, session.spine.dataset
    return told_of(session) | {"left": told(session.remaining), "version": ledger.version(dataset)}


def write_ledger(name, ledger, seed, *, left_open=True):
    """Ask everything, and leave a call open as a crash does."""
    opening, recipes = LEDGERS[name]
    stop = Interruption("evaluated", armed=False)
    with opening(ledger=ledger, unsafe_noise=Seeded(seed), on_step=stop) as session:
        sold = asked(session, recipes, "monday")
        if left_open:
            ask = EVERY[sold[0]](session, "lost")
            stop.armed = True
            with suppress(Stop):
                ask("lost")
        return found(session) | {"sold": sold}


def ledgers(folder):
    """In files."""
    known = {name: write_ledger(name, folder / f"{name}.ledger", seed) for seed, name in enumerate(LEDGERS)}
    pack(folder, [folder / f"{name}.ledger" for name in LEDGERS])
    return known


def server(folder):
    """On a server, as the statements that make it again."""
    with running() as postgres:
        place = postgres.url(schema=SCHEMA)
        known = {name: write_ledger(name, place, seed) for seed, name in enumerate(ON_SERVER)}
        dump = [programs() / "pg_dump", f"--schema={SCHEMA}", "--no-owner", "--inserts", "--rows-per-insert=100"]
        done = subprocess.run([*dump, postgres.url()], check=True, capture_output=True, text=True)
    # What begins with a backslash is for psql alone.
    lines = [line for line in done.stdout.splitlines() if not line.startswith(("\\", "--")) and line.strip()]
    place = folder / "server.sql"
    place.write_text("\n".join(lines) + "\n")
    pack(folder, [place])
    return known


GROWN = {"a file": "grown.duckdb", "a folder": "days"}


def open_grown(name, folder, **options):
    """The file or the folder whose rows grew."""
    table = {"table": "visits"} if name == "a file" else {}
    given = {"ledger": folder / f"{GROWN[name]}.ledger", "budget": ROOM, **PUBLIC} | options
    return chary.open(str(folder / GROWN[name]), **table, **given)


def batch(day):
    """Rows of one day."""
    return pa.Table.from_pandas(visits().iloc[day * 3 : day * 3 + 30], preserve_index=False)


def one_day(folder, day):
    """The file of one day, which is the same every time."""
    place = folder / "days" / f"{day}.parquet"
    pq.write_table(batch(day), place)
    return place


def growing_asked(session):
    """What is asked between batches: the answers."""
    answers = [session.release(count(), epsilon="0.1", request=f"count {session.spine.ledger.version('grown')}")]
    run_ = session.start(GrowingTests(above="0.1", epsilon="0.01", values=True), request="rounds")
    with suppress(CharyError):
        answers.append(run_.ask(request=f"round {session.spine.ledger.version('grown')}"))
    return answers


def grown(folder):
    """Rows that came in batches, each noted in the ledger."""
    with duckdb.connect(str(folder / "grown.duckdb")) as connection:
        rows = batch(0)  # noqa: F841 - the engine finds it by its name
        connection.execute("CREATE TABLE visits AS SELECT * FROM rows")
    (folder / "days").mkdir()
    one_day(folder, 0)
    known = {}
    for seed, name in enumerate(GROWN):
        with open_grown(name, folder, dataset="grown", unsafe_noise=Seeded(seed)) as session:
            growing_asked(session)
            for day in (1, 2):
                arriving = batch(day) if name == "a file" else one_day(folder, day)
                session.append(arriving, request=f"day {day}")
                growing_asked(session)
            known[name] = found(session)
    pack(folder, [folder / "grown.duckdb", *(folder / f"{place}.ledger" for place in GROWN.values())])
    return known


RULES = "--row-level --neighbors replace --infer-types --budget-epsilon 5 --budget-delta 1e-6"
GROW = f"rerun wards.csv {RULES} --ledger wards.ledger --count --by ward --keys 0,1,2 --rho 0.05 --json"
GROW_FILE = f"rerun wards.duckdb --table wards {RULES.replace('--infer-types ', '')} --ledger file.ledger --count"
WEIGHTS = f"pmw people.csv {RULES} --alpha 0.1 --bins age=0,20,40,60,80,100 --values sex=f,m --ledger people.ledger"
# Each finds again, by the key of its request, what it opened before.
COMMANDS = {
    "grow": GROW.split(),
    "grow a file": [*GROW_FILE.split(), "--epsilon", "1", "--json"],
    "weights": [*WEIGHTS.split(), "--epsilon", "0.02", "--where", "sex = 'f'", "--json"],
    "weights of hits": [*WEIGHTS.split(), "--hits", "3", "--where", "sex = 'f'", "--json"],
    "weights of sharp tests": [*WEIGHTS.split(), "--price", "0.05", "--where", "sex = 'f'", "--json"],
}
# What tells what was opened: names that figures had when they were recorded, and have now.
OPENED = {name: name for name in ("call", "schedule", "latest", "spent")} | {"epsilon_per_call": "epsilon"}


def rows_of_commands(folder):
    """The files that the commands read, which are the same every time."""
    wards = "".join(f"{number % 3},{number}\n" for number in range(4000))
    people = "".join(f"{number * 37 % 100},{'f' if number % 10 < 7 else 'm'}\n" for number in range(4000))
    (folder / "wards.csv").write_text(f"ward,number\n{wards}")
    (folder / "more.csv").write_text(f"ward,number\n{wards}")
    (folder / "people.csv").write_text(f"age,sex\n{people}")


def commanded(line):
    """What a command prints, as JSON. What it asks anew is answered with the same noise every time."""
    source = Seeded(5)
    with redirect_stdout(StringIO()) as printed, patch.object(chary.noise, "OperatingSystem", lambda: source):
        code = run(line)
    assert code == 0, line
    return json.loads(printed.getvalue())


def commands(folder):
    """Ledgers in which commands find again what they opened."""
    rows_of_commands(folder)
    with duckdb.connect(str(folder / "wards.duckdb")) as connection:
        connection.execute("CREATE TABLE wards AS SELECT range % 3 AS ward, range AS number FROM range(4000)")
    known = {}
    with chdir(folder):
        # Batches are known by where their files are, which is another folder when all this is read again.
        commanded([*COMMANDS["grow a file"], "--append", "more.csv"])
        for _ in range(2):
            known = {name: commanded(line) for name, line in COMMANDS.items()}
    pack(folder, [folder / name for name in ("wards.duckdb", "wards.ledger", "file.ledger", "people.ledger")])
    return {
        name: told({then: figures[now] for then, now in OPENED.items() if now in figures})
        for name, figures in known.items()
    }


ALWAYS, NEVER_HIT = (
    ThresholdTest(count(), above=-(10**9), epsilon="0.01"),
    ThresholdTest(count(), above=10**9, epsilon="0.01"),
)
ASKED = [
    ("calls", Release(count(), epsilon="0.1"), "one"),
    ("calls", ALWAYS, "two"),
    ("runs", SparseVector(above=-(10**9), hits=3, epsilon="0.1"), "three"),
]
STANDING = {"every": "append", "tell": "all", "share": "0.5"}
LOOKED_AT = (
    *(f"/v1/datasets{each}" for each in ("", "/visits")),
    *(
        f"/v1/datasets/visits/{each}"
        for each in ("schema", "statement", "versions", "budget", "calls", "runs", "standing", "feed", "report")
    ),
    *(f"/v1/{each}" for each in ("tokens", "trail", "trail/checked")),
)


@contextmanager
def serving(folder, **options):
    """A service with one dataset whose rows lie in a file, and a client of a custodian or of whose token it is."""
    service = service_at(folder, rate=10_000)
    given = {"ledger": folder / "service.ledger", "dataset": "visits", "table": "visits", "budget": ROOM, **PUBLIC}
    serve_dataset(service, "visits", chary.open(str(folder / "served.duckdb"), **given, **options), shared=True)
    with listening(service) as address:
        yield service, address


def service(folder):
    """The service's own database after a day of work."""
    with duckdb.connect(str(folder / "served.duckdb")) as connection:
        rows = batch(0)  # noqa: F841 - the engine finds it by its name
        connection.execute("CREATE TABLE visits AS SELECT * FROM rows")
    known = {}
    with serving(folder, unsafe_noise=Seeded(5)) as (made, address):
        known["alice"] = token_of(made, "alice", ["analyst"], days=300)
        known["carol"] = token_of(made, "carol", ["custodian", "analyst"], days=300)
        gone = token_of(made, "bob", ["analyst"], days=300)
        with client_of(address, known["alice"]) as alice, client_of(address, known["carol"]) as carol:
            carol.delete(f"/v1/tokens/{gone.split('_')[1]}")
            known["bob"] = gone
            for place, call, key in ASKED:
                alice.post(f"/v1/datasets/visits/{place}", json=call.body(), headers={"Idempotency-Key": f'"{key}"'})
            key = {"Idempotency-Key": '"four"', "Prefer": "wait=0"}
            job = alice.post("/v1/datasets/visits/calls", json=Release(count(), epsilon="0.2").body(), headers=key)
            known["jobs"] = [job.headers.get("Location", "")]
            for call, key in ((ALWAYS, "five"), (NEVER_HIT, "six"), (NEVER_HIT, "seven")):
                body = {"call": call.body()} | STANDING
                stood = alice.post("/v1/datasets/visits/standing", json=body, headers={"Idempotency-Key": f'"{key}"'})
            alice.delete(f"/v1/datasets/visits/standing/{stood.json()['standing']}")
            made.datasets["visits"].session.append(batch(1))
            made.standing.tick()
            carol.post("/v1/datasets/visits/report")
            known["again"] = asked_again(alice)
            known["looked at"] = looked_at(alice, carol, known["jobs"])
    with closing(sqlite3.connect(folder / "service.db")) as store:
        store.execute("UPDATE chary_tokens SET expires = ?", (NEVER,))
        store.execute("UPDATE chary_jobs SET touched = ?", (NEVER,))
        store.commit()
    for each in known["looked at"]["carol /v1/tokens"]["items"]:
        each["expires"] = NEVER
    pack(folder, [folder / name for name in ("served.duckdb", "service.ledger", "service.db")])
    return known


def looked_at(alice, carol, jobs):
    """What both are shown."""
    return {
        f"{name} {place}": client.get(place).json()
        for name, client in (("alice", alice), ("carol", carol))
        for place in (*LOOKED_AT, *(jobs if name == "alice" else ()))
    }


def asked_again(alice):
    """What is answered under the keys that came before."""
    answers = []
    for place, call, key in ASKED:
        headers = {"Idempotency-Key": f'"{key}"'}
        answers.append(alice.post(f"/v1/datasets/visits/{place}?typed=true", json=call.body(), headers=headers).json())
    return answers


def wire(folder):
    """Answers, quotes, spending and a report as they go over the wire, and how they read."""
    lines = []
    for name, (opening, recipes) in LEDGERS.items():
        if name in ("pure", "exact"):
            continue
        with opening(ledger=":memory:", unsafe_noise=Seeded(7)) as session:
            for recipe in recipes:
                with suppress(CharyError):
                    answer = EVERY[recipe](session, recipe)(recipe)
                    if isinstance(answer, Answer):
                        lines.append({"what": recipe, "typed": in_typed(answer), "reads": reads(answer)})
            made = report(session)
            lines.append({"what": f"report of {name}", "typed": in_typed(made), "reads": told(made.to_dict())})
            lines.append({"what": f"spent of {name}", "typed": in_typed(session.spent), "reads": str(session.spent)})
            if name != "votes":
                quoted = session.quote(ThresholdTest(count(), above=5, epsilon="0.01"))
                lines.append({"what": f"quote of {name}", "typed": in_typed(quoted), "reads": quoted.lines()})
    kept.write(folder / "wire.jsonl", lines)
    pack(folder, [folder / "wire.jsonl"])
    return len(lines)


def reads(answer):
    """An answer as JSON, without its price."""
    return told({name: value for name, value in answer.to_dict().items() if name not in ("charged", "left")})


PARTS = {"ledgers": ledgers, "server": server, "grown": grown, "commands": commands, "service": service, "wire": wire}


def read_told():
    """What must be found in all of it."""
    return json.loads((HERE / "told.json").read_text())


def make():
    """Write all of it anew."""
    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir(parents=True)
    known = {}
    for name, part in PARTS.items():
        with tempfile.TemporaryDirectory() as folder:
            known[name] = part(Path(folder))
    (HERE / "told.json").write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def pack(folder, files):
    """Keep files, compressed alike on every day."""
    HERE.mkdir(parents=True, exist_ok=True)
    for file in files:
        with file.open("rb") as plain, gzip.GzipFile(HERE / f"{file.name}.gz", "wb", mtime=0) as packed:
            shutil.copyfileobj(plain, packed)


def unpack(folder, *names):
    """Put files that were kept into a folder."""
    for name in names:
        (folder / name).write_bytes(gzip.decompress((HERE / f"{name}.gz").read_bytes()))
