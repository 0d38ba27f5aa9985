"""`chary report`: what a ledger says, as a page for everybody."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from chary.cli.asking.options import AsJson
from chary.cli.output import console, errors, show_json
from chary.cli.places import ledger_at
from chary.errors import InvalidParameter
from chary.ledger.postgresql.connection import Address
from chary.numbers import percent
from chary.report import PublicReport
from chary.report import report as public_report
from chary.report.content import Tell

File = Annotated[str, typer.Argument(help="Ledger, a file or a URL, or the rows it is of, which are not read.")]
Out = Annotated[Path | None, typer.Option(help="Where it goes (default: LEDGER.html beside the ledger, and so on).")]
Confidence = Annotated[str, typer.Option(help="Of each interval by itself, and of all hits together.")]
Dataset = Annotated[str | None, typer.Option(help="One dataset of the ledger (default: all).")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")]
Html = Annotated[bool, typer.Option("--html", help="A page that needs nothing else (the default).")]
Pdf = Annotated[bool, typer.Option("--pdf", help="A4 pages.")]
Md = Annotated[bool, typer.Option("--md", help="Markdown, without pictures.")]
Csv = Annotated[bool, typer.Option("--csv", help="A line for each published value.")]


def report(
    file: File,
    html: Html = False,
    pdf: Pdf = False,
    md: Md = False,
    csv: Csv = False,
    out: Out = None,
    confidence: Confidence = "0.95",
    dataset: Dataset = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """What was revealed, for everybody: each question with its answer and interval, when, by whom, at what price.

    It needs the ledger alone. A ledger that does not verify is refused. Nothing secret is looked at.

    Example: chary report visits.ledger --html --out visits.html
    """
    asked = [name for name, wanted in (("html", html), ("pdf", pdf), ("md", md), ("csv", csv)) if wanted]
    ledger = ledger_at(file)
    targets = _targets(ledger, asked, out, as_json=as_json)
    for target in targets:
        _free(target, ledger, force=force)
    with _progress() as tell:
        found = public_report(ledger, confidence=confidence, dataset=dataset, tell=tell)
        for target in targets:
            found.save(target)
    if as_json:
        show_json(found.to_dict() | {"files": [str(target) for target in targets]})
    else:
        _told(found, targets)


def _targets(ledger: str | Path, asked: list[str], out: Path | None, *, as_json: bool) -> list[Path]:
    """The files to write: of each form that is asked for, or the one that is named."""
    if out is None:
        file = ledger if isinstance(ledger, Path) else Path(Address.parse(ledger).schema)
        return [file.with_name(f"{file.name}.{form}") for form in asked or ([] if as_json else ["html"])]
    if len(asked) > 1:
        raise InvalidParameter("--out names one file: ask for one of --html, --pdf, --md and --csv, or leave --out out")
    if out.suffix.lower() not in (".html", ".pdf", ".md", ".csv") or asked not in ([], [out.suffix.lower()[1:]]):
        raise InvalidParameter(
            f"--out ends in .html, .pdf, .md or .csv, as in chary report {ledger} --{(asked or ['html'])[0]} "
            f"--out report.{(asked or ['html'])[0]}"
        )
    return [out]


def _free(target: Path, ledger: str | Path, *, force: bool) -> None:
    if isinstance(ledger, Path) and target.resolve() == ledger.resolve():
        raise InvalidParameter("a report does not take the place of its ledger: name another file with --out")
    if target.exists() and not force:
        raise InvalidParameter(f"{target} is there already: name another file with --out, or add --force")


@contextmanager
def _progress() -> Iterator[Tell]:
    """A bar on the terminal; nothing where there is none."""
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as shown:
        tasks: dict[str, Any] = {}

        def tell(doing: str, done: int, total: int) -> None:
            if doing not in tasks:
                tasks[doing] = shown.add_task(doing, total=total)
            shown.update(tasks[doing], completed=done, total=total)

        yield tell


def _told(found: PublicReport, targets: list[Path]) -> None:
    for each in found.datasets:
        hits = f"{len(each.hits)} of them hits with a value"
        values = sum(len(call.values) for call in each.calls)
        console.print(
            f"{each.name}: {len(each.calls)} answers with {values} published values, {hits}; "
            f"{percent(each.spent.share)} of the budget is charged",
            markup=False,
            soft_wrap=True,
        )
    for target in targets:
        console.print(f"written: {target}", markup=False, soft_wrap=True)
