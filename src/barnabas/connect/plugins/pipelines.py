"""Pipelines in Python: a function from DataFrames to a DataFrame, which the connector PythonPipeline runs.

    @pipeline
    def large_orders(orders, customers):
        return orders.where("amount > 100").join(customers, "customer_id", "left")

The parameters are the names of the inputs, which the connector's settings declare as for SqlPipeline. A parameter
called ``settings`` receives the pipeline's own settings, those of ``config_def``; one called ``spark`` the session.

    @pipeline(version="1.0", config_def=ConfigDef([ConfigKey("limit", ConfigType.LONG, 100, "The smallest amount.")]))
    def large_orders(orders, *, settings):
        return orders.where(orders.amount >= settings["limit"])

Topics are streams, so the function may do what Spark's Structured Streaming can; it starts no query and reads nothing
else. An entry point of the group ``barnabas.pipelines`` announces it to workers, which import it when they start.

The decorated function is still called like any function. Nothing here imports PySpark.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, overload

from barnabas.connect.settings.plugin_config_def import ConfigDef, ConfigValue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["InstalledPipelines", "Pipeline", "installed_pipelines", "pipeline"]

_SETTINGS, _SPARK = "settings", "spark"
_NO_INPUTS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)


class Pipeline:
    """A decorated function."""

    def __init__(
        self, function: Callable[..., DataFrame], *, version: str | None = None, config_def: ConfigDef | None = None
    ) -> None:
        """Raise TypeError for a function without inputs, or whose parameters are not names of inputs."""
        update_wrapper(self, function)
        self.function = function
        self.version = version
        self.config_def = config_def or ConfigDef()
        self.full_name = f"{function.__module__}:{function.__qualname__}"
        parameters = inspect.signature(function).parameters
        self._needs = frozenset(parameters) & {_SETTINGS, _SPARK}
        self.inputs = tuple(name for name in parameters if name not in self._needs)
        """The names of the inputs."""
        unusable = [name for name in self.inputs if parameters[name].kind in _NO_INPUTS]
        if unusable:
            raise TypeError(f"{self.full_name}: {unusable[0]}: each parameter of a pipeline is the name of an input")
        if not self.inputs:
            raise TypeError(f"{self.full_name} has no inputs: its parameters are their names")
        if self.config_def and _SETTINGS not in self._needs:
            raise TypeError(f"{self.full_name} has a config_def, and needs a parameter called settings")

    def __call__(self, *arguments: Any, **named: Any) -> DataFrame:
        return self.function(*arguments, **named)

    def rows(
        self, spark: SparkSession, inputs: Mapping[str, DataFrame], settings: Mapping[str, ConfigValue]
    ) -> DataFrame:
        """Call the function with its inputs, and return its rows. Raise TypeError if it returns no DataFrame."""
        given: dict[str, Any] = {_SETTINGS: settings, _SPARK: spark}
        arguments = {name: inputs[name] for name in self.inputs} | {name: given[name] for name in self._needs}
        found = self.function(**arguments)
        if not hasattr(type(found), "isStreaming"):
            raise TypeError(f"{self.full_name} returned {type(found).__name__}, and not a DataFrame")
        return found


@overload
def pipeline(function: Callable[..., Any], /) -> Pipeline: ...
@overload
def pipeline(
    *, version: str | None = None, config_def: ConfigDef | None = None
) -> Callable[[Callable[..., Any]], Pipeline]: ...
def pipeline(
    function: Callable[..., Any] | None = None, /, *, version: str | None = None, config_def: ConfigDef | None = None
) -> Pipeline | Callable[[Callable[..., Any]], Pipeline]:
    """Make a function a pipeline."""
    if function is not None:
        return Pipeline(function)
    return lambda decorated: Pipeline(decorated, version=version, config_def=config_def)


@dataclass(slots=True)
class InstalledPipelines:
    """The pipelines that a worker has imported, by the names that settings may have."""

    _by_name: dict[str, list[Pipeline]] = field(default_factory=dict)
    _refused: dict[str, str] = field(default_factory=dict)

    def add(self, found: Pipeline, *names: str) -> None:
        """Add a pipeline by its full name, in both spellings, and by further names."""
        for name in dict.fromkeys((found.full_name, found.full_name.replace(":", "."), *names)):
            known = self._by_name.setdefault(name, [])
            if found.full_name not in [other.full_name for other in known]:
                known.append(found)

    def refuse(self, name: str, reason: str) -> None:
        """Note why a pipeline could not be imported."""
        self._refused[name] = reason

    def names(self) -> list[str]:
        """Return the shortest name of each pipeline."""
        shortest: dict[str, str] = {}
        for name, (found, *others) in self._by_name.items():
            known = shortest.get(found.full_name, found.full_name)
            if not others and len(name) < len(known):
                known = name
            shortest[found.full_name] = known
        return sorted(shortest.values())

    def find(self, name: str) -> Pipeline:
        """Raise LookupError, which says what is wrong, and which names there are."""
        found = self._by_name.get(name, [])
        if len(found) == 1:
            return found[0]
        if found:
            full = ", ".join(other.full_name for other in found)
            raise LookupError(f"{name} is the name of several pipelines: write one of {full}.")
        if name in self._refused:
            raise LookupError(self._refused[name])
        known = ", ".join(self.names()) or "none"
        raise LookupError(
            f"{name} is not a pipeline of this worker, which has {known}. An entry point of barnabas.pipelines "
            "announces one, and a worker imports it when it starts."
        )


installed_pipelines = InstalledPipelines()
"""Those of this process. ``discovery`` fills it when a worker starts, because a request never causes an import."""
