"""Pipelines in Python: what the decorator accepts, and how a worker finds them."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from barnabas.connect.plugins import discovery
from barnabas.connect.plugins.api import ConfigDef, ConfigKey, ConfigType
from barnabas.connect.plugins.pipeline_testing import PipelineKit
from barnabas.connect.plugins.pipelines import InstalledPipelines, Pipeline, pipeline

HERE = __name__
SPARK: Any = "s"
FRAMES: Any = {"customers": "c", "orders": "o"}


class FakeFrame:
    """What ``rows`` takes for a DataFrame."""

    isStreaming = False


@pipeline
def joined(orders: Any, customers: Any) -> Any:
    """Join them."""
    return FakeFrame() if orders == "o" and customers == "c" else None


@pipeline(version="2.0", config_def=ConfigDef([ConfigKey("limit", ConfigType.INT, 7)]))
def limited(orders: Any, *, settings: Any, spark: Any) -> Any:
    assert (orders, dict(settings), spark) == ("o", {"limit": 7}, "s")
    return FakeFrame()


def not_decorated(orders: Any) -> Any:
    return orders


def test_the_parameters_are_the_inputs() -> None:
    assert (joined.inputs, joined.version, joined.__doc__) == (("orders", "customers"), None, "Join them.")
    assert (limited.inputs, limited.version) == (("orders",), "2.0")
    assert joined.full_name == f"{HERE}:joined"


def test_a_pipeline_is_called_by_name_or_like_a_function() -> None:
    assert isinstance(joined.rows(SPARK, FRAMES, {}), FakeFrame)
    assert isinstance(limited.rows(SPARK, FRAMES, {"limit": 7}), FakeFrame)
    assert isinstance(joined("o", customers="c"), FakeFrame)


def test_a_result_that_is_no_dataframe_is_named() -> None:
    with pytest.raises(TypeError, match=r":joined returned NoneType, and not a DataFrame"):
        joined.rows(SPARK, FRAMES | {"customers": "x"}, {})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: None, "has no inputs"),
        (lambda settings: None, "has no inputs"),
        (lambda *orders: None, "orders: each parameter of a pipeline is the name of an input"),
        (lambda **inputs: None, "inputs: each parameter"),
    ],
)
def test_a_function_that_can_be_no_pipeline_is_refused(function: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        pipeline(function)


def test_settings_need_a_parameter() -> None:
    with pytest.raises(TypeError, match="needs a parameter called settings"):
        Pipeline(lambda orders: orders, config_def=ConfigDef([ConfigKey("limit", default="")]))


def test_a_kit_refuses_settings_that_its_pipeline_does_not_take() -> None:
    with pytest.raises(ValueError, match="limited has no setting least"):
        PipelineKit(limited, {"least": "1"})
    with pytest.raises(ValueError, match="a query in SQL has no settings of its own: limit"):
        PipelineKit("SELECT * FROM orders", {"limit": "1"})


def test_pipelines_are_found_by_each_of_their_names() -> None:
    installed = InstalledPipelines()
    installed.add(joined, "joined")
    installed.add(joined, "joined")
    installed.add(limited, "limited")
    for name in ("joined", f"{HERE}:joined", f"{HERE}.joined"):
        assert installed.find(name) is joined
    assert installed.names() == ["joined", "limited"]
    with pytest.raises(LookupError, match=r"other is not a pipeline of this worker, which has joined, limited\."):
        installed.find("other")
    installed.add(limited, "joined")
    with pytest.raises(LookupError, match="joined is the name of several pipelines: write one of"):
        installed.find("joined")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> InstalledPipelines:
    fresh = InstalledPipelines()
    monkeypatch.setattr(discovery, "installed_pipelines", fresh)
    return fresh


def test_a_worker_imports_those_that_entry_points_announce(installed: InstalledPipelines) -> None:
    entries = [
        EntryPoint("Joined", f"{HERE}:joined", discovery.PIPELINES),
        EntryPoint("plain", f"{HERE}:not_decorated", discovery.PIPELINES),
        EntryPoint("gone", "no_such_module:f", discovery.PIPELINES),
    ]
    registry = discovery.discover(entries, allowed=[f"{HERE}:limited"])
    assert installed.find("Joined") is joined
    assert installed.find("limited") is limited
    with pytest.raises(LookupError, match="it is an object of the class function, and not a function with @pipeline"):
        installed.find("plain")
    with pytest.raises(LookupError, match="No module named 'no_such_module'"):
        installed.find("gone")
    assert len(registry.problems) == 2
