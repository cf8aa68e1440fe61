"""Convert arguments and results of Scala's methods, through Py4J. Only for a session whose JVM is ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["ScalaValues"]


class ScalaValues:
    """Immutable collections in Scala's own types."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._conversion = jvm.scala.jdk.javaapi.CollectionConverters
        self.none = jvm.scala.Option.empty()

    def some(self, value: Any) -> Any:
        return self._jvm.scala.Option.apply(value)

    def seq(self, items: Iterable[Any]) -> Any:
        made = self._jvm.java.util.ArrayList()
        for item in items:
            made.add(item)
        return self._conversion.asScala(made).toSeq()

    def map(self, items: Mapping[str, str]) -> Any:
        made = self._jvm.java.util.HashMap()
        for name, value in items.items():
            made.put(name, value)
        return getattr(self._jvm.scala.collection.immutable.Map, "from")(self._conversion.asScala(made))

    def items(self, sequence: Any) -> list[Any]:
        return list(self._conversion.asJava(sequence))
