"""The container, the units and the manifests agree with barnabas and with each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from barnabas.connect.settings.worker_config import load_worker_config
from barnabas.server.settings.node_config import load_node_config
from tests.docs.tracked import PROJECT
from tests.interop.packaging_files import PACKAGING, read_pod, read_stages, read_unit

NODE_FILES = sorted(PACKAGING.rglob("server.properties"))
WORKER_FILES = sorted(PACKAGING.rglob("connect-distributed.properties"))
MAPS = {"barnabas-cluster": {"cluster-id": "an id"}}
HARDENING = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "PrivateUsers": "yes",
    "RestrictNamespaces": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "SystemCallArchitectures": "native",
    "UMask": "0027",
    "User": "barnabas",
}


@pytest.fixture(autouse=True)
def of_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in read_pod("barnabas-1", "kafka", MAPS).environment.items():
        monkeypatch.setenv(name, value)


def kubernetes(name: str) -> list[dict[str, Any]]:
    """Return the documents of a manifest; YAML has no types."""
    return list(yaml.safe_load_all((PACKAGING / "kubernetes" / name).read_text()))


@pytest.mark.parametrize("path", NODE_FILES, ids=lambda path: path.parent.name)
def test_a_node_accepts_each_settings_file(path: Path) -> None:
    config = load_node_config(str(path))
    assert config.log_dirs == ["/var/lib/barnabas/data"]
    assert config.metrics_endpoint is not None
    assert config.metrics_endpoint[1] == 9404


@pytest.mark.parametrize("path", WORKER_FILES, ids=lambda path: path.parent.name)
def test_a_worker_accepts_each_settings_file(path: Path) -> None:
    config = load_worker_config(str(path))
    assert config.group_id == "connect"


def test_a_pod_has_the_name_that_the_other_pods_use() -> None:
    config = load_node_config(str(PACKAGING / "kubernetes" / "server.properties"))
    assert config.node_id == 1
    text = (PACKAGING / "kubernetes" / "server.properties").read_text()
    assert "barnabas-2.${env:NODES}:9093" in text
    services = {str(service["metadata"]["name"]): service["spec"] for service in kubernetes("services.yaml")}
    assert services["barnabas-nodes"]["clusterIP"] == "None"
    assert services["barnabas-nodes"]["publishNotReadyAddresses"] is True
    (stateful,) = kubernetes("statefulset.yaml")
    assert stateful["spec"]["serviceName"] == "barnabas-nodes"
    assert stateful["spec"]["replicas"] == 3
    environment = read_pod("barnabas-1", "kafka", MAPS).environment
    assert environment["NODES"] == "barnabas-nodes.kafka.svc"


def test_a_pod_without_the_map_of_its_cluster_does_not_start() -> None:
    with pytest.raises(LookupError, match="barnabas-cluster"):
        read_pod("barnabas-1", "kafka", {})


def test_pods_have_no_privilege_and_are_probed() -> None:
    pod = read_pod("barnabas-0", "kafka", MAPS)
    security = pod.spec["securityContext"]
    assert security["runAsNonRoot"] is True
    assert f"{security['runAsUser']}:{security['runAsGroup']}" == read_stages()["node"].user
    assert pod.spec["automountServiceAccountToken"] is False
    for container in [*pod.spec["initContainers"], *pod.spec["containers"]]:
        allowed = container["securityContext"]
        assert allowed["readOnlyRootFilesystem"] is True
        assert allowed["allowPrivilegeEscalation"] is False
        assert allowed["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
    (node,) = pod.spec["containers"]
    ports = {port["name"]: port["containerPort"] for port in node["ports"]}
    probes = {name: node[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    assert {ports[probe["port"]] for probe in probes.values()} == {9404}


def test_one_node_at_a_time_may_leave() -> None:
    (budget,) = kubernetes("disruption-budget.yaml")
    assert budget["spec"]["maxUnavailable"] == 1
    (stateful,) = kubernetes("statefulset.yaml")
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    assert budget["spec"]["selector"]["matchLabels"] == labels


def test_the_kustomization_names_every_manifest() -> None:
    (named,) = kubernetes("kustomization.yaml")
    files = {path.name for path in (PACKAGING / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
    assert set(named["resources"]) == files
    assert named["configMapGenerator"] == [{"name": "barnabas-settings", "files": ["server.properties"]}]


@pytest.mark.parametrize("name", ["barnabas-node.service", "barnabas-connect.service"])
def test_units_are_hardened(name: str) -> None:
    unit = read_unit(name)
    assert {key: unit[key][0] for key in HARDENING} == HARDENING
    assert unit["SystemCallFilter"][0] == "@system-service"
    (command,) = unit["ExecStart"]
    settings = Path(command.split()[-1])
    assert settings.parent == Path("/etc/barnabas")
    assert (PACKAGING / "systemd" / settings.name).exists()
    assert unit["WorkingDirectory"] == [f"/var/lib/{unit['StateDirectory'][0]}"]


def test_only_the_worker_may_compile_at_run_time() -> None:
    assert read_unit("barnabas-node.service")["MemoryDenyWriteExecute"] == ["yes"]
    assert "MemoryDenyWriteExecute" not in read_unit("barnabas-connect.service")  # Java needs it.


def test_images_run_without_root_and_report_their_health() -> None:
    stages = read_stages()
    assert list(stages)[-1] == "node"  # What a build without --target makes.
    for name in ("node", "worker"):
        assert stages[name].user == "10001:10001"
        assert stages[name].command[0] == "barnabas"
        assert stages[name].health_check[0] == "python"
    text = (PACKAGING / "container" / "Containerfile").read_text()
    for path in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        assert all((PROJECT / source).exists() for source in path.split())


def test_the_workflow_runs_what_every_machine_runs() -> None:
    workflow = yaml.safe_load((PROJECT / ".github" / "workflows" / "ci.yml").read_text())
    (job,) = workflow["jobs"].values()
    assert job["steps"][-1]["run"] == "bash .ci/run"
    assert workflow["permissions"] == {"contents": "read"}
    for step in job["steps"]:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step.get("uses", "a/b@" + "0" * 40))


def test_the_image_has_the_versions_that_the_tests_use() -> None:
    pins = {
        name: set(re.findall(r"^[a-z0-9._-]+==[^ \n]+", (PROJECT / "requirements" / name).read_text(), re.MULTILINE))
        for name in ("node.lock.txt", "run.lock.txt")
    }
    assert pins["node.lock.txt"] < pins["run.lock.txt"]
    assert "pyspark" not in {pin.partition("==")[0] for pin in pins["node.lock.txt"]}
