"""The command that opens a service, and the data of its demonstration."""

import json
import logging
import sys
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pyarrow import parquet

from chary.demo.panel import first_year
from chary.errors import InvalidParameter
from chary.service.auth.tokens import BearerTokens
from chary.service.config import ServiceConfig, configured, service_config
from chary.service.server import listen, listen_together
from chary.service.state import opened_service
from chary.service.store.store import ServiceStore

# `chary serve` and `chary token`: what an operator types.

Config = Annotated[Path, typer.Option("--toml", help="The chary.toml that names the datasets.")]
Demo = Annotated[bool, typer.Option("--demo", help="Serve built-in data of 5,638 people, with a token for a day.")]
Port = Annotated[int | None, typer.Option(min=0, max=65_535, help="Another port than the chary.toml names.")]
Workers = Annotated[int | None, typer.Option(min=1, max=64, help="How many processes.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what is told as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No line in the log for each request.")]
app = typer.Typer(no_args_is_help=True, help="Tokens of the service: made, listed, revoked.")


def serve(
    config: Config = Path("chary.toml"),
    demo: Demo = False,
    port: Port = None,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Let analysts ask the datasets of a chary.toml over HTTP, under their budgets.

    Example: chary serve --demo
    """
    _log(quiet)
    if demo:
        with tempfile.TemporaryDirectory(prefix="chary-demo-", ignore_cleanup_errors=True) as folder:
            _serve(demo_config(Path(folder), port=8321 if port is None else port), as_json, demo=True)
        return
    said = service_config(config)
    changed = {name: value for name, value in (("port", port), ("workers", workers)) if value is not None}
    said = said.model_copy(update={"service": said.service.model_copy(update=changed)})
    if said.service.workers == 1:
        _serve(said, as_json, demo=False)
        return
    _tell(_served(said) | {"processes": said.service.workers}, as_json)
    listen_together(config, said)


def _serve(config: ServiceConfig, as_json: bool, *, demo: bool) -> None:
    service = opened_service(config)
    told = _served(config)
    if demo:
        token = service.tokens.make("demo", roles=["analyst", "custodian"], datasets=[NAME], days=DAYS)
        told |= {"token": token}
    _tell(told, as_json)
    listen(service)


@app.command()
def new(
    analyst: Annotated[str, typer.Option(help="Whose: the name that the ledger keeps beside each call.")],
    role: Annotated[list[str], typer.Option(help="custodian, analyst or reader; may be repeated.")],
    dataset: Annotated[list[str], typer.Option(help="For which dataset, * for all; may be repeated.")],
    days: Annotated[int, typer.Option(help="For how many days.")] = 30,
    config: Config = Path("chary.toml"),
    as_json: AsJson = False,
) -> None:
    """Make a token and show it: this is the only time.

    Example: chary token new --analyst alice --role analyst --dataset visits
    """
    said = service_config(config)
    if unknown := [name for name in dataset if name != "*" and name not in said.dataset]:
        raise InvalidParameter(f"{config} has no dataset {unknown[0]!r}")
    _tell({"token": _tokens(said).make(analyst, roles=role, datasets=dataset, days=days)}, as_json)


@app.command("list")
def listed(config: Config = Path("chary.toml"), as_json: AsJson = False) -> None:
    """The tokens, without their secrets."""
    found = _tokens(service_config(config)).all()
    if as_json:
        _tell({"tokens": [asdict(each) for each in found]}, as_json)
        return
    for each in found:
        until = datetime.fromtimestamp(each.expires, UTC).date() if each.revoked is None else "revoked"
        typer.echo(f"{each.token}  {each.analyst}  {','.join(each.roles)}  {','.join(each.datasets)}  {until}")


@app.command()
def revoke(
    token: Annotated[str, typer.Argument(help="The name of the token: its middle part.")],
    config: Config = Path("chary.toml"),
    as_json: AsJson = False,
) -> None:
    """End a token now, also in a service that runs."""
    if not _tokens(service_config(config)).revoke(token):
        raise InvalidParameter("there is no valid token of that name")
    _tell({"revoked": token}, as_json)


def _tell(told: dict[str, Any], as_json: bool) -> None:
    typer.echo(json.dumps(told) if as_json else "\n".join(f"{name}: {_plain(value)}" for name, value in told.items()))


def _plain(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def _served(config: ServiceConfig) -> dict[str, Any]:
    return {"address": f"http://{config.service.host}:{config.service.port}", "datasets": list(config.dataset)}


def _tokens(config: ServiceConfig) -> BearerTokens:
    return BearerTokens(ServiceStore(config.place(config.service.store)))


def _log(quiet: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("chary.service")
    log.addHandler(handler)
    log.setLevel(logging.WARNING if quiet else logging.INFO)


# The built-in data as a service serves them: the first year of a public panel, in a folder of its own.

NAME: Final = "people"
DAYS: Final = 1


def demo_config(folder: Path, **service: object) -> ServiceConfig:
    """A configuration that serves 5,638 people, each row one, with a budget of epsilon 1 and delta 1e-6."""
    parquet.write_table(first_year(), folder / "people.parquet")
    dataset = {"file": "people.parquet", "each-row": True, "relation": "replace", "epsilon": "1", "delta": "1e-6"}
    said = {"folder": folder, "service": service, "dataset": {NAME: dataset}}
    return configured(said, "the demonstration")
