"""What a user starts with compose: no container runs here, so its words are held against what they name."""

import re
from pathlib import Path

import yaml

from chary.service.config import service_config

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KNOWN = {"image", "build", "environment", "volumes", "ports", "depends_on", "healthcheck", "profiles", "command"}
KNOWN |= {"stop_grace_period"}


def test_services_have_what_they_name():
    services = COMPOSE["services"]
    for name, service in services.items():
        assert set(service) <= KNOWN, name
        assert ("image" in service) != ("build" in service)
        assert set(service.get("depends_on", [])) <= set(services)
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            assert (DEPLOY / source).is_file() if source.startswith(".") else source in COMPOSE["volumes"]
    build = services["chary"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"


def test_nothing_listens_for_other_machines():
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_its_chary_toml_is_one_of_the_service():
    config = service_config(DEPLOY / "chary.toml")
    assert config.service.port == int(COMPOSE["services"]["chary"]["ports"][0].rpartition(":")[2])
    assert "postgresql" in str(config.service.ledger).partition("@")[2]
    assert config.dataset["visits"].file.startswith("postgresql://")


def test_spark_is_the_version_that_is_pinned():
    pinned = re.search(r"^pyspark==(\S+)$", (DEPLOY.parent / "constraints.txt").read_text(), re.MULTILINE)
    assert {COMPOSE["services"][name]["image"] for name in ("spark", "spark-worker")} == {f"apache/spark:{pinned[1]}"}


def test_the_image_is_made_from_the_pinned_libraries_with_known_extras():
    made = (DEPLOY / "Dockerfile").read_text()
    extras = re.search(r"^ARG EXTRAS=(\S+)$", made, re.MULTILINE)[1].split(",")
    project = (DEPLOY.parent / "pyproject.toml").read_text()
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras)
    assert "--constraint /source/constraints.txt" in made
