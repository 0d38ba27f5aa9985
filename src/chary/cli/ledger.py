"""`chary ledger`: look at a ledger, check it, export it."""

from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.progress import Progress

from chary.addresses import Address, place_of, without_password
from chary.amounts import Shares
from chary.answers import Spending, bytes_in_json, in_text
from chary.calls.run import titled
from chary.cli import config, output
from chary.cli.commands import AsJson, Found, Shown, plainly
from chary.core.charges import accounts_of, spent_of
from chary.errors import InvalidParameter, LedgerCorrupted
from chary.filters import Budget
from chary.ledger import Head, Ledger, Terms, Verification, ledger_exists, open_ledger
from chary.ledger.locations import back_up, role_statements
from chary.ledger.locations import move as moving
from chary.numbers import counted, percent, priced
from chary.session import opening, statement

app = typer.Typer(no_args_is_help=True, help="Show, verify, back up and move ledgers: the durable record of all calls.")
File = Annotated[str, typer.Argument(help="Ledger file, postgresql://user@host/database?schema=name, or the data.")]
Dataset = Annotated[str | None, typer.Option(help="Dataset of the ledger (default: all).")]
Seen = Annotated[str | None, typer.Option(help="HASH:COUNT of `chary ledger head`, which the ledger must contain.")]
Checkpoint = Annotated[Path | None, typer.Option(help="Write a new checkpoint of this ledger to this file.")]
Copy = Annotated[Path, typer.Argument(help="Target of the copy; an existing file is never replaced.")]
Call = Annotated[int, typer.Argument(help="The number of the call.")]
To = Annotated[str, typer.Argument(help="New place: a file, or the URL of a schema.")]
WithOpen = Annotated[bool, typer.Option("--with-open-calls", help="Calls that are not settled stay charged.")]
Url = Annotated[str, typer.Argument(help="postgresql://user@host/database?schema=name")]
Analysts = Annotated[list[str], typer.Argument(help="Names of analysts.")]
# That of bad input: a script that checks a ledger must not take a broken one for a refused budget, which is 3.
BROKEN = 2
# What a part was charged is drawn as a bar; all of the budget is so long.
_BAR, _LONG = "\u2587", 20
_COLUMNS = ("call", "time", "analyst", "kind", "state", "tests", "hits", "charged")
# Where there is little room, times are to the minute.
_MINUTE = len("2026-11-22 17:43")
# Asked once: the bar would fill a log file with its frames.
QUIET = not output.errors.is_terminal


@app.command()
@plainly
def show(file: File, dataset: Dataset = None) -> Found:
    """Show what every dataset has spent, and every call."""
    with closing(_open(file)) as ledger:
        found = [_dataset(ledger, terms) for terms in ledger.datasets() if dataset in (None, terms.name)]

    def people(_: Any) -> None:
        for each in found:
            title = f"{each.name}: {priced(each.spent.share, 1 - each.spent.share)} of {each.budget}"
            lines: list[tuple[Any, ...]] = [_row(call) for call in each.calls]
            if not output.fits(_COLUMNS, lines):
                lines = [(number, time[:_MINUTE], *told) for number, time, *told in lines]
            output.show_table(_COLUMNS, lines, title)
            if len(each.analysts) > 1 or any(who.cap is not None for who in each.analysts):
                asked = [(who.analyst, who.calls, percent(who.charged), *who.capped()) for who in each.analysts]
                columns = [name.replace("_", " ") for name in _Analyst._fields]
                output.show_table(columns, asked, f"analysts of {each.name}")
            for held in each.partitions:
                title = f"parts of {held.partition}: {percent(held.spent)}"
                rows = ((name, percent(share), _BAR * round(_LONG * share)) for name, share in held.parts.items())
                output.show_table(["part", "charged", ""], rows, title)

    yield Shown([each.summary() for each in found], people)


@app.command()
@plainly
def verify(file: File, head: Seen = None) -> Found:
    """Recompute the hash chain and every total; exit code 2 if anything is wrong, or with --head, missing."""
    verdict = _verdict(file, None if head is None else Head.parse(head))

    def people(_: Any) -> None:
        entries = counted(verdict.entries, "entry", "entries")
        told = "BROKEN" if verdict.entries else "nothing could be verified"
        output.console.print(f"{entries}, all in order" if verdict.ok else f"{entries}: {told}")
        for problem in verdict.problems:
            output.console.print(f"  {problem}", markup=False, soft_wrap=True)

    yield Shown({"ok": verdict.ok, "entries": verdict.entries, "problems": verdict.problems}, people)
    if not verdict.ok:
        raise typer.Exit(BROKEN)


@app.command()
@plainly
def head(file: File, checkpoint: Checkpoint = None) -> Found:
    """Print the hash of the last entry and the number of entries. Keep it elsewhere, for `verify --head`."""
    with closing(_open(file)) as ledger:
        yield _head(ledger.head() if checkpoint is None else ledger.checkpoint(checkpoint))


@app.command()
@plainly
def outcome(file: File, call: Call, to: Copy) -> Found:
    """Write what an algorithm returned in bytes into a new file.

    Example: chary ledger outcome visits.ledger 12 model.bin
    """
    with closing(_open(file)) as ledger:
        record = ledger.call(call)
        found = statement.bytes_of(statement.entry_of(record, accounts_of(ledger, record.dataset)))
    try:
        with to.open("xb") as target:
            target.write(found)
    except OSError as error:
        raise InvalidParameter(f"{to} cannot be written: {error.strerror}") from None
    yield Shown(
        {"file": str(to)} | {name: told for name, told in bytes_in_json(found).items() if name != "bytes"},
        lambda _: output.console.print(f"{to}: {in_text(found)}", markup=False, highlight=False),
    )


@app.command()
@plainly
def backup(file: File, to: Copy) -> Found:
    """Copy a ledger, in a file or on a server, into a new file while sessions go on, and print the head of the copy."""
    yield _head(back_up(config.ledger_at(file), to))


@app.command()
@plainly
def move(source: File, to: To, with_open_calls: WithOpen = False) -> Found:
    """Move a ledger between a file and a server; the old one is marked, and nothing is charged there any more.

    Example: chary ledger move visits.ledger postgresql://owner@db.example/privacy?schema=visits
    """
    yield _head(moving(config.ledger_at(source), place_of(to), with_open_calls=with_open_calls))


@app.command()
@plainly
def roles(url: Url, analysts: Analysts) -> Found:
    """Print the SQL that lets analysts use a ledger in PostgreSQL, each under a role of the same name. For its owner.

    Example: chary ledger roles postgresql://owner@db.example/privacy?schema=visits ann bob | psql privacy
    """
    text = role_statements(Address.parse(url).schema, analysts)
    yield Shown({"sql": text}, lambda _: output.console.print(text, soft_wrap=True, markup=False, highlight=False))


@app.command()
def export(file: File, dataset: Dataset = None, as_json: AsJson = False) -> None:
    """Print the public part of the hash chain, one JSON object a line (with --json: one array)."""
    with closing(_open(file)) as ledger:
        names = [terms.name for terms in ledger.datasets() if dataset in (None, terms.name)]
        lines = (entry for name in names for entry in ledger.export(name))
        for shown in [list(lines)] if as_json else lines:
            output.show_json(shown)


def _open(file: str) -> Ledger:
    place = config.ledger_at(file)
    if not ledger_exists(place):
        raise InvalidParameter(f"there is no ledger {without_password(place)}")
    return open_ledger(place)


def _verdict(file: str, seen: Head | None) -> Verification:
    """What a verification finds; a ledger that is too damaged to be opened has its problem too."""
    try:
        with closing(_open(file)) as ledger, Progress(console=output.errors, transient=True, disable=QUIET) as progress:
            task = progress.add_task("checking entries", total=None)
            verdict = ledger.verify(lambda done, total: progress.update(task, completed=done, total=total))
            if seen is not None and not ledger.holds(seen):
                told = f"it does not hold entry {seen.entries} with that hash: it is an older copy, or another ledger"
                verdict = Verification(verdict.entries, [told, *verdict.problems])
            return verdict
    except LedgerCorrupted as error:
        return Verification(0, [str(error)])


def _head(found: Head) -> Shown:
    figures = {"head": str(found), "hash": found.hash, "entries": found.entries}
    return Shown(figures, lambda _: output.console.print(str(found), soft_wrap=True))


class _Partition(NamedTuple):
    """A partition and its parts, by the fraction of the budget that each holds."""

    partition: str
    most: int
    spent: float
    parts: dict[str, float]


class _Analyst(NamedTuple):
    """An analyst, by the fraction of the budget that was charged, that of their cap, and how much of that is used.

    A cap counts the account of free misses alone, so both may be None, and the last need not follow from the others.
    """

    analyst: str
    calls: int
    charged: float
    cap: float | None
    of_the_cap: float | None

    def capped(self) -> list[str | None]:
        """Both figures of the cap in words."""
        return [None if each is None else percent(each) for each in (self.cap, self.of_the_cap)]


@dataclass(frozen=True)
class _Held:
    """A dataset of a ledger."""

    name: str
    budget: Budget
    spent: Spending
    calls: list[statement.Entry]
    analysts: list[_Analyst]
    partitions: list[_Partition]

    def summary(self) -> dict[str, Any]:
        """As JSON."""
        epsilon, delta = (float(part) for part in self.budget.exact)
        # Most datasets have none.
        held = {"partitions": [each._asdict() for each in self.partitions]} if self.partitions else {}
        return held | {
            "dataset": self.name,
            "epsilon": epsilon,
            "delta": delta,
            "spent": self.spent.as_dict(),
            "analysts": [each._asdict() for each in self.analysts],
            "calls": [vars(call) for call in self.calls],
        }


def _dataset(ledger: Ledger, terms: Terms) -> _Held:
    filter_ = opening.held_filter(terms)
    spent, share = spent_of(ledger, terms.name, filter_), filter_.shares.taken
    accounts, calls = accounts_of(ledger, terms.name), list(ledger.calls(terms.name))
    partitions = [
        _Partition(
            held.partition, held.most, share(held.spent), {name: share(part) for name, part in held.parts.items()}
        )
        for held in ledger.partitions(terms.name)
    ]
    asked, basic = Counter(call.analyst for call in calls), Counter[str]()
    for call in calls:
        basic[call.analyst] += call.basic
    analysts = []
    for name in ledger.analysts(terms.name):
        balance = ledger.analyst_balance(terms.name, name)
        caps: tuple[float | None, float | None] = (None, None)
        if balance.capacity is not None:
            caps = share(balance.capacity), Shares(balance.capacity).taken(balance.spent)
        analysts.append(_Analyst(name, asked[name], accounts.taken(balance.spent, basic[name]), *caps))
    told = [statement.entry_of(call, accounts) for call in calls]
    return _Held(terms.name, filter_.budget, spent, told, analysts, partitions)


def _row(entry: statement.Entry) -> tuple[Any, ...]:
    told = (
        entry.call,
        output.moment(entry.time),
        entry.analyst,
        titled(entry.kind),
        "damaged" if entry.damage else entry.state,
    )
    return *told, entry.tests, entry.hits, percent(entry.share)
