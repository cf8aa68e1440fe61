"""Google's Protobuf compiler (``grpcio-tools``), in a process of its own with a time limit: its input is untrusted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from barnabas.registry.decide.formats.parsed_schema import UnreadableSchema
from barnabas.registry.decide.formats.protobuf_format import MAIN_FILE

__all__ = ["compile_protobuf"]

_TIMEOUT_S = 20.0
_REPORT_LENGTH_MAX = 2000


def compile_protobuf(files: Mapping[str, str]) -> bytes:
    """A CompileProtobuf. Blocks for a tenth of a second."""
    with TemporaryDirectory(prefix="barnabas-protoc-") as folder:
        root = Path(folder, "in")
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return _compiled(root, Path(folder, "out"))


def _compiled(root: Path, out: Path) -> bytes:
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{root}", "--include_imports"]
    try:
        done = subprocess.run(
            [*command, f"--descriptor_set_out={out}", MAIN_FILE],
            capture_output=True,
            timeout=_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnreadableSchema(f"the Protobuf compiler did not end within {_TIMEOUT_S:g} s") from None
    report = done.stderr.decode("utf-8", "replace").replace(f"{root}/", "").strip()[:_REPORT_LENGTH_MAX]
    if done.returncode:
        if "No module named" in report:
            raise UnreadableSchema("this registry has no Protobuf compiler: pip install 'barnabas[registry]'")
        raise UnreadableSchema(f"the Protobuf file is not valid: {report}")
    return out.read_bytes()
