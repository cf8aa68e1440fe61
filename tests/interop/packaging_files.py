"""Reads command lines out of the Containerfile, the systemd units and the Kubernetes manifests."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.docs.tracked import PROJECT

__all__ = ["PACKAGING", "Pod", "Stage", "Unit", "read_pod", "read_stages", "read_unit"]

PACKAGING = PROJECT / "packaging"
Unit = dict[str, list[str]]


@dataclass
class Stage:
    """One stage of a Containerfile with those it is based on: the last value of each instruction counts."""

    user: str
    directory: str
    command: list[str]
    health_check: list[str]
    volumes: list[str]


def read_stages(path: Path = PACKAGING / "container" / "Containerfile") -> dict[str, Stage]:
    """Return the stages by name, in the order of the file."""
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    stages: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.strip().partition(" ")
        if name == "FROM":
            base, _, label = value.partition(" AS ")
            current = stages[label] = dict(stages.get(base, {}))
        elif name:
            current[name] = value.strip()
    return {
        name: Stage(
            user=found.get("USER", "root"),
            directory=found.get("WORKDIR", "/"),
            command=[*_words(found.get("ENTRYPOINT", "[]")), *_words(found.get("CMD", "[]"))],
            health_check=_words(found.get("HEALTHCHECK", "CMD []").partition("CMD ")[2]),
            volumes=_words(found.get("VOLUME", "[]")),
        )
        for name, found in stages.items()
    }


def _words(text: str) -> list[str]:
    return [str(word) for word in json.loads(text)]


def read_unit(name: str) -> Unit:
    """Return the settings of a unit, each with its values in order."""
    found: Unit = {}
    for line in (PACKAGING / "systemd" / name).read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


@dataclass
class Pod:
    """The containers of a StatefulSet's pod by name, with the environment that the kubelet gives them."""

    spec: dict[str, Any]
    commands: dict[str, list[str]]
    environment: dict[str, str]


def read_pod(name: str, namespace: str, maps: Mapping[str, Mapping[str, str]]) -> Pod:
    """Return the pod ``name`` (``barnabas-0``) of ``statefulset.yaml``; ``maps`` are the ConfigMaps of the cluster."""
    (document,) = yaml.safe_load_all((PACKAGING / "kubernetes" / "statefulset.yaml").read_text())
    spec = document["spec"]["template"]["spec"]
    fields = {
        "metadata.labels['apps.kubernetes.io/pod-index']": name.rpartition("-")[2],
        "metadata.name": name,
        "metadata.namespace": namespace,
    }
    environment: dict[str, str] = {}
    for entry in spec["containers"][0]["env"]:
        source = entry.get("valueFrom", {})
        if "fieldRef" in source:
            environment[entry["name"]] = fields[source["fieldRef"]["fieldPath"]]
        elif "configMapKeyRef" in source:
            reference = source["configMapKeyRef"]
            value = maps.get(reference["name"], {}).get(reference["key"])
            if value is None and not reference.get("optional"):
                raise LookupError(f"the pod needs the ConfigMap {reference['name']}")
            if value is not None:
                environment[entry["name"]] = value
        else:
            environment[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda match: environment[match[1]], entry["value"])
    containers = [*spec["initContainers"], *spec["containers"]]
    commands = {container["name"]: [*container["command"], *container["args"]] for container in containers}
    return Pod(spec, commands, environment)
