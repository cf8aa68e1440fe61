"""``StreamsApplication.java`` as a process, with the jars of Kafka Streams."""

from __future__ import annotations

import re
from pathlib import Path

from tests.peers import HERE
from tests.peers.fetched import jars_of
from tests.peers.node_process import NodeProcess

__all__ = ["StreamsApplication"]

_LINE = re.compile(r"^\S+ (WARN|ERROR|FATAL) +(\S+) - (.*)$")
_VARYING = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")


class StreamsApplication(NodeProcess):
    """One instance. ``folder`` has its state; ``settings`` are those of Streams and its clients."""

    def __init__(self, folder: Path, bootstrap_servers: str, settings: dict[str, str]) -> None:
        super().__init__(folder)
        self._jars = jars_of("streams-4.3.1", "pom-streams.xml")
        self._bootstrap_servers = bootstrap_servers
        self._settings = settings

    def command(self) -> list[str]:
        jvm = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
        log4j = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
        source = str(HERE / "java" / "StreamsApplication.java")
        settings = [f"{name}={value}" for name, value in self._settings.items()]
        return [
            "java", *jvm, log4j, "-cp", f"{self._jars}/*", source,
            self._bootstrap_servers, str(self.folder / "state"), *settings,
        ]  # fmt: skip

    def is_ready(self, printed: str) -> bool:
        return "state: RUNNING" in printed

    def restored(self) -> int:
        """Return how many records of changelogs all its starts have restored."""
        return sum(int(count) for count in re.findall(r"^restored: .* (\d+)$", self.printed(), re.MULTILINE))

    def failures(self) -> list[str]:
        """Return the exceptions that ended one of its threads."""
        return re.findall(r"^failed: .*$", self.printed(), re.MULTILINE)

    def warnings(self) -> set[str]:
        """Return the lines of its log from WARN on, without times, ids, numbers and its folder."""
        found = (_LINE.match(line) for line in self.printed().replace(str(self.folder), "").splitlines())
        return {_VARYING.sub("#", " ".join(match.groups())) for match in found if match}
