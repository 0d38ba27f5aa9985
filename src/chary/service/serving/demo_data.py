"""The built-in data as a service serves them: the first year of a public panel, in a folder of its own."""

from pathlib import Path
from typing import Final

from pyarrow import parquet

from chary.demo.panel import first_year
from chary.service.serving.service_config import ServiceConfig, configured

NAME: Final = "people"
DAYS: Final = 1


def demo_config(folder: Path, **service: object) -> ServiceConfig:
    """A configuration that serves 5,638 people, each row one, with a budget of epsilon 1 and delta 1e-6."""
    parquet.write_table(first_year(), folder / "people.parquet")
    dataset = {"file": "people.parquet", "each-row": True, "relation": "replace", "epsilon": "1", "delta": "1e-6"}
    said = {"folder": folder, "service": service, "dataset": {NAME: dataset}}
    return configured(said, "the demonstration")
