"""Linters and schemas for the files of packaging/ that no program here can run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas_release.tool_environment import ToolEnvironment
from tests.docs.tracked import PROJECT
from tests.interop.install_source import tools_in
from tests.interop.packaging_files import PACKAGING

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]
KUBERNETES = ("1.29", "1.33", "1.37")
UNITS = ("barnabas-node.service", "barnabas-connect.service")


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> ToolEnvironment:
    return tools_in(tmp_path_factory.mktemp("tools"))


def test_the_containerfile_follows_the_rules_of_hadolint(tools: ToolEnvironment) -> None:
    tools.run("hadolint", "--failure-threshold", "style", str(PACKAGING / "container" / "Containerfile"), cwd=PROJECT)


def test_yaml_files_are_well_formed(tools: ToolEnvironment) -> None:
    config = str(PACKAGING / "yamllint.yaml")
    tools.run("yamllint", "--strict", "--config-file", config, str(PACKAGING), ".github", cwd=PROJECT)


@pytest.mark.parametrize("version", KUBERNETES)
def test_the_manifests_match_the_schema_of_kubernetes(tools: ToolEnvironment, tmp_path: Path, version: str) -> None:
    first_start = tmp_path / "first-start.yaml"
    script = ["sh", str(PACKAGING / "kubernetes" / "first-start.sh"), "kafka"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    first_start.write_text(subprocess.run(script, env=environment, capture_output=True, text=True, check=True).stdout)
    manifests = [path for path in (PACKAGING / "kubernetes").glob("*.yaml") if path.name != "kustomization.yaml"]
    names = [str(path) for path in [*sorted(manifests), first_start]]
    printed = tools.run("kubernetes-validate", "--strict", "--kubernetes-version", version, *names, cwd=PROJECT)
    assert len(re.findall(r"passed for resource", printed)) == 7


def test_the_workflow_matches_its_schema_and_has_no_known_weakness(tools: ToolEnvironment) -> None:
    workflow = str(PROJECT / ".github" / "workflows" / "ci.yml")
    tools.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", workflow, cwd=PROJECT)
    tools.run("zizmor", "--offline", "--pedantic", workflow, cwd=PROJECT)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine")
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_finds_no_mistake_in_a_unit_and_little_exposure(unit: str) -> None:
    path = str(PACKAGING / "systemd" / unit)
    verified = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
    # The program is not installed here, and systemd reports nothing else.
    assert verified.stderr.splitlines() == [
        f"{unit}: Command /opt/barnabas/bin/barnabas is not executable: No such file or directory"
    ]
    security = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", path]  # In tenths: at most 2.0.
    rated = subprocess.run(security, capture_output=True, text=True, check=False)
    assert rated.returncode == 0, rated.stdout
