"""The example package of docs/connect/plugins.md, installed into a new environment, is found and validated."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from barnabas_release.tool_environment import find_uv
from tests.docs.tracked import PROJECT

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

EXAMPLE = PROJECT / "docs" / "connect" / "own-plugins"

SCRIPT = """
import json
from barnabas.connect.decide.validation.connector_validation import ConnectorValidation, ValidationDefaults
from barnabas.connect.plugins.discovery import discover
from barnabas.connect.plugins.pipelines import installed_pipelines

registry = discover()
config = {
    "connector.class": "FileStreamSink", "name": "s", "topics": "t", "file": "/tmp/f",
    "value.converter": "LineConverter", "value.converter.separator": ",",
    "transforms": "hide", "transforms.hide.type": "Pseudonym", "transforms.hide.field": "id",
    "transforms.hide.predicate": "large",
    "predicates": "large", "predicates.large.type": "IsLarge", "predicates.large.limit": "many",
}
defaults = ValidationDefaults("g", {kind: "StringConverter" for kind in ("key", "value", "header")})
infos = ConnectorValidation(registry, defaults).validate(config).configs
listed = [[info.class_name, info.type, info.version] for info in registry.listing(connectors_only=False)]
print(json.dumps({
    "problems": registry.problems,
    "pipelines": installed_pipelines.names(),
    "listed": [row for row in listed if "shop" in row[0]],
    "errors": {info.value.name: info.value.errors for info in infos if info.value.errors},
}))
"""


def test_an_installed_package_brings_transforms_predicates_converters_and_pipelines(tmp_path: Path) -> None:
    source = shutil.copytree(EXAMPLE, tmp_path / "source")
    constraints = PROJECT / "requirements" / "build.lock.txt"
    build = [find_uv(), "build", "--quiet", "--wheel", "--build-constraints", str(constraints), str(source)]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    [wheel] = (source / "dist").glob("*.whl")
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout.strip()  # fmt: skip
    # barnabas itself and what it needs come from the environment of the tests.
    Path(site, "tests.pth").write_text(f"{PROJECT / 'src'}\n{sysconfig.get_path('purelib')}\n")
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel],
        check=True, timeout=120, capture_output=True,
    )  # fmt: skip
    answer = subprocess.run([python, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=120)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["problems"] == []
    assert found["pipelines"] == ["large_orders"]
    assert found["listed"] == [
        ["shop_plugins.records.Pseudonym", "transformation", "1.0"],
        ["shop_plugins.records.TitleCase", "transformation", "1.0"],
        ["shop_plugins.records.IsLarge", "predicate", "1.0"],
        ["shop_plugins.lines.LineConverter", "converter", "1.0"],
    ]
    assert sorted(found["errors"]) == [
        "predicates.large.limit",
        "transforms.hide.secret",
        "value.converter.separator",
    ]
