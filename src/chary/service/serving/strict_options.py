"""How tables of a chary.toml are read: with dashes in names, and nothing that is not known."""

from pydantic import BaseModel, ConfigDict


class StrictOptions(BaseModel):
    """Options under their names in a chary.toml; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=lambda name: name.replace("_", "-"))
