"""The declarations of messages.

A message is a class whose fields are one line each::

    class HeartbeatRequest(Request["HeartbeatResponse"], api_key=12, versions="0-4", flexible="4+"):
        group_id: str = string()
        generation_id: int = int32()
        group_instance_id: str | None = string("3+", nullable="3+", default=None)

    class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
        error_code: int = int16()

* A request names its response, which follows in the same module, so that sending a ``Request[R]`` returns an ``R``.
  The name is a type argument and not a keyword (``response=``) because type checkers infer nothing from keywords.
* The first argument is the range of versions that carry the field (default: all).
* ``nullable``: versions in which the value may be None. ``default``: the value in a new object, and for a
  reader of a version without the field.
* ``tag`` with ``tagged``: the versions in which the field is in the tagged section (default: all of its versions).
  A tagged struct that is absent is None.
* ``secret``: the value is hidden where a message is printed (``repr``, and so logs and errors).
* ``ignorable``: a value other than the default may be dropped by a version that lacks the field; otherwise
  encoding it is refused.

``barnabas.protocol.compiler`` compiles each (message, version) to straight-line code on first use, so an
unused declaration costs next to nothing.
"""

from __future__ import annotations

import sys
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar, dataclass_transform

from barnabas.common.uuid import Uuid
from barnabas.protocol.decode_limits import UNLIMITED, DecodeLimits

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Field",
    "Message",
    "Request",
    "Struct",
    "VersionRange",
    "array",
    "bool_",
    "bytes_",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "records",
    "string",
    "struct",
    "uint16",
    "uint32",
    "uuid",
]

VersionRange = tuple[int, int]
_NO_VERSION: VersionRange = (1, 0)
_LAST_VERSION = 32767
_ranges: dict[str, VersionRange] = {"none": _NO_VERSION, "": _NO_VERSION}


def parse_versions(text: str) -> VersionRange:
    """``"3+"``, ``"0-12"``, ``"2"`` or ``"none"`` as an inclusive pair."""
    known = _ranges.get(text)
    if known is None:
        if text.endswith("+"):
            known = (int(text[:-1]), _LAST_VERSION)
        elif "-" in text:
            low, high = text.split("-")
            known = (int(low), int(high))
        else:
            known = (int(text), int(text))
        _ranges[text] = known
    return known


class Field:
    """One declared field; ``kind`` is a primitive's name, or "struct", or "array" of ``element``."""

    __slots__ = (
        "default",
        "element",
        "flexible",
        "ignorable",
        "json_name",
        "kind",
        "name",
        "nullable",
        "secret",
        "tag",
        "tagged",
        "type",
        "versions",
    )

    def __init__(
        self,
        kind: str,
        versions: str,
        default: object,
        nullable: str,
        tag: int | None,
        tagged: str | None,
        ignorable: bool,
        element: str | None = None,
        type_: type[Struct] | None = None,
        json: str | None = None,
        flexible: bool = True,
        secret: bool = False,
    ) -> None:
        self.kind = kind
        self.versions = parse_versions(versions)
        self.default = default
        self.nullable = parse_versions(nullable)
        self.tag = tag
        self.tagged = _NO_VERSION if tag is None else parse_versions(tagged or versions)
        self.ignorable = ignorable
        self.element = element
        self.type = type_
        self.name = ""
        self.json_name = json or ""
        self.flexible = flexible
        self.secret = secret

    def in_version(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    def is_tagged(self, version: int) -> bool:
        return self.tagged[0] <= version <= self.tagged[1]

    def is_nullable(self, version: int) -> bool:
        return self.nullable[0] <= version <= self.nullable[1]


def _camel_case(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in tail)


def _scalar(kind: str, zero: object) -> Callable[..., Any]:
    def declare(
        versions: str = "0+",
        *,
        default: object = zero,
        nullable: str = "none",
        tag: int | None = None,
        tagged: str | None = None,
        ignorable: bool = False,
        json: str | None = None,
        flexible: bool = True,
        secret: bool = False,
    ) -> Any:
        return Field(
            kind, versions, default, nullable, tag, tagged, ignorable, json=json, flexible=flexible, secret=secret
        )

    return declare


bool_ = _scalar("bool", False)
int8 = _scalar("int8", 0)
int16 = _scalar("int16", 0)
uint16 = _scalar("uint16", 0)
int32 = _scalar("int32", 0)
uint32 = _scalar("uint32", 0)
int64 = _scalar("int64", 0)
float64 = _scalar("float64", 0.0)
uuid = _scalar("uuid", Uuid.ZERO)
string = _scalar("string", "")
bytes_ = _scalar("bytes", b"")
records = _scalar("records", None)

_EMPTY: list[object] = []


def array(
    element: type[Struct] | str,
    versions: str = "0+",
    *,
    default: object = _EMPTY,
    nullable: str = "none",
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
    json: str | None = None,
) -> Any:
    """A list of structs, or of the primitive named (``array("int32")``)."""
    if isinstance(element, str):
        return Field("array", versions, default, nullable, tag, tagged, ignorable, element=element, json=json)
    return Field(
        "array", versions, default, nullable, tag, tagged, ignorable, element="struct", type_=element, json=json
    )


_FRESH = object()


def struct(
    type_: type[Struct],
    versions: str = "0+",
    *,
    default: object = _FRESH,
    nullable: str = "none",
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
    json: str | None = None,
) -> Any:
    """A nested struct, by default a new one; for a tagged one that is not nullable None means absent."""
    if default is _FRESH and tag is not None and nullable == "none":
        default = None
    return Field("struct", versions, default, nullable, tag, tagged, ignorable, type_=type_, json=json)


@dataclass_transform(kw_only_default=True, eq_default=True)
class StructMeta(type):
    """Collects the declared fields into slots; code is compiled by the first use of each version."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> StructMeta:
        fields = tuple(value for value in namespace.values() if isinstance(value, Field))
        for key in [key for key, value in namespace.items() if isinstance(value, Field)]:
            field: Field = namespace.pop(key)
            field.name = key
            field.json_name = field.json_name or _camel_case(key)
        if "__slots__" not in namespace:
            namespace["__slots__"] = tuple(field.name for field in fields)
        namespace["FIELDS"] = fields
        namespace["_values"] = attrgetter("unknown_tags", *(field.name for field in fields))
        namespace["_readers"] = {}
        namespace["_writers"] = {}
        if fields or "__init__" not in namespace:
            namespace["__init__"] = _initialize_first_time
        cls = super().__new__(mcs, name, bases, namespace)
        cls._declare(**options)  # type: ignore[attr-defined]
        return cls


def _initialize_first_time(self: Struct, **values: object) -> None:
    cls = type(self)
    cls.__init__ = _compile_init(cls)  # type: ignore[method-assign]
    cls.__init__(self, **values)


def _compile_init(cls: type[Struct]) -> Callable[..., None]:
    scope: dict[str, Any] = {"_fresh": _FRESH}
    parameters, body = ["self", "*", "unknown_tags=None"], ["self.unknown_tags = unknown_tags"]
    for index, field in enumerate(cls.FIELDS):
        scope[f"d{index}"] = field.default
        scope[f"t{index}"] = field.type
        parameters.append(f"{field.name}=d{index}")
        if field.default is _EMPTY:
            body.append(f"self.{field.name} = {field.name} if {field.name} is not d{index} else []")
        elif field.default is _FRESH:
            body.append(f"self.{field.name} = {field.name} if {field.name} is not _fresh else t{index}()")
        else:
            body.append(f"self.{field.name} = {field.name}")
    source = f"def __init__({', '.join(parameters)}):\n    " + "\n    ".join(body)
    exec(compile(source, f"<{cls.__name__}.__init__>", "exec"), scope)
    initialize: Callable[..., None] = scope["__init__"]
    return initialize


class Struct(metaclass=StructMeta):
    """A part of a message. Equality compares every field and the unknown tags."""

    __slots__ = ("unknown_tags",)

    FIELDS: ClassVar[tuple[Field, ...]]
    _values: ClassVar[Callable[[Struct], object]]
    _readers: ClassVar[dict[int, Any]]
    _writers: ClassVar[dict[int, Any]]

    if TYPE_CHECKING:
        unknown_tags: list[tuple[int, bytes]] | None = None

    @classmethod
    def _declare(cls) -> None:
        """Structs have no options of their own; messages override this."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        values = type(self)._values
        return values(self) == values(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{field.name}={_shown(field, getattr(self, field.name))}" for field in self.FIELDS)
        return f"{type(self).__name__}({shown})"


def _shown(field: Field, value: object) -> str:
    return "[hidden]" if field.secret and value else repr(value)


class Message(Struct):
    """A request, response, header or record: a struct with its own versions.

    ``read`` and ``decode`` raise only DecodeError; ``encode`` raises EncodeError for a value that the version
    cannot carry.
    """

    __slots__ = ()

    API_KEY: ClassVar[int]
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    FLEXIBLE_SINCE: ClassVar[int]

    @classmethod
    def _declare(cls, *, api_key: int = -1, versions: str = "0", flexible: str = "none") -> None:
        cls.API_KEY = api_key
        cls.MIN_VERSION, cls.MAX_VERSION = parse_versions(versions)
        low, high = parse_versions(flexible)
        cls.FLEXIBLE_SINCE = low if low <= high else _LAST_VERSION

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return version >= cls.FLEXIBLE_SINCE

    @classmethod
    def read(
        cls, buffer: bytes | bytearray | memoryview, offset: int, version: int, limits: DecodeLimits = UNLIMITED
    ) -> tuple[Self, int]:
        """Return the message that starts at ``offset`` and the offset after it. Raises DecodeLimitExceeded, too."""
        reader = cls._readers.get(version)
        if reader is None:
            from barnabas.protocol.compiler import compile_reader

            reader = compile_reader(cls, version)
        return reader(buffer, offset, limits)  # type: ignore[no-any-return]

    @classmethod
    def decode(cls, buffer: bytes | bytearray | memoryview, version: int, offset: int = 0) -> Self:
        """Return the message at ``offset``; bytes after it are tolerated, as in Kafka."""
        reader = cls._readers.get(version)
        if reader is None:
            from barnabas.protocol.compiler import compile_reader

            reader = compile_reader(cls, version)
        return reader(buffer, offset)[0]  # type: ignore[no-any-return]

    def write(self, version: int, chunks: list[bytes]) -> None:
        """Append the encoded message to ``chunks``."""
        writer = self._writers.get(version)
        if writer is None:
            from barnabas.protocol.compiler import compile_writer

            writer = compile_writer(type(self), version)
        writer(self, chunks.append)

    def encode(self, version: int) -> bytes:
        chunks: list[bytes] = []
        self.write(version, chunks)
        return b"".join(chunks)

    def to_json(self, version: int) -> dict[str, Any]:
        """Return Kafka's JSON form: camelCase names, base64 bytes, tagged defaults omitted."""
        from barnabas.protocol.message_json import message_to_json

        return message_to_json(self, version)

    @classmethod
    def from_json(cls, json: object, version: int) -> Self:
        from barnabas.protocol.message_json import message_from_json

        return message_from_json(cls, json, version)


R_co = TypeVar("R_co", bound=Message, covariant=True)


if TYPE_CHECKING:

    class _AnsweredBy(Generic[R_co]):
        """Carries the type of the response for type checkers."""

else:
    # With ``typing.Generic`` each declaration would take twice as long, on a node's path to "ready".
    _AnsweredBy = {R_co: object}


class _Declaration(NamedTuple):
    """With ``Request["XResponse"]`` as a base class, the declared class becomes a ``Request``."""

    response_name: str

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return (Request,)


class Request(Message, _AnsweredBy[R_co]):
    """A message whose response is an ``R_co``."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __class_getitem__(cls, response_name: str) -> _Declaration:
            return _Declaration(response_name)

    @classmethod
    def response_type(cls) -> type[R_co]:
        """The class that the declaration names, from the request's own module."""
        declaration: _Declaration = cls.__orig_bases__[0]  # type: ignore[attr-defined]
        response: type[R_co] = getattr(sys.modules[cls.__module__], declaration.response_name)
        return response
