"""Protobuf payloads: parsed by the reader's message, which is how Protobuf evolves (by the numbers of fields), and
turned into columns field by field.

The text of a schema is compiled by protoc as grpcio-tools brings it, or is a compiled file in base64. Enums come as
names (as numbers where the reader does not know them), google.protobuf.Timestamp as a timestamp, wrappers as what they
wrap; uint64 as decimal(20,0).
"""

from __future__ import annotations

import base64
import datetime
import importlib
import re
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.schemas.decoders import RecordError, UnsupportedSchemaError, missing, remembered
from spark_jobs.schemas.framing import FrameError, message_path
from spark_jobs.schemas.registry import Schema

_MAIN = "odradek_main.proto"
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_UINT64 = pa.decimal128(20, 0)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_WRAPPED = "BoolValue BytesValue DoubleValue FloatValue Int32Value Int64Value StringValue UInt32Value UInt64Value"
_WRAPPERS = {f"google.protobuf.{name}" for name in _WRAPPED.split()}
_TIMESTAMP = "google.protobuf.Timestamp"


class ProtobufDecoder:
    """For one message of the reader schema: the one with that full name, or the first of the file."""

    def __init__(self, reader: Schema, message: str | None = None) -> None:
        found = _compile(reader)
        names = list(_names(found))
        if message is None:
            message = names[0] if names else ""
        if message not in names:
            raise UnsupportedSchemaError(f"schema {reader.id} has no message {message}; it has {', '.join(names)}")
        from google.protobuf import message_factory

        self._name = message
        self._class = message_factory.GetMessageClass(found.pool.FindMessageTypeByName(message))
        self.arrow_type = _message_type(self._class.DESCRIPTOR, ())
        self._writers: dict[int, dict[tuple[int, ...], str]] = {}

    def read(self, writer: Schema, payload: bytes) -> Any:
        """The message."""
        paths = remembered(self._writers, writer, _paths)
        try:
            path, at = message_path(payload)
        except FrameError as error:
            raise RecordError(f"schema {writer.id}: {error}") from None
        name = paths.get(path)
        if name != self._name:
            raise RecordError(f"schema {writer.id}: the record is a {name or f'message {path}'}, not a {self._name}")
        try:
            return self._class.FromString(payload[at:])
        except Exception as error:  # DecodeError, of whichever implementation is there
            raise RecordError(f"schema {writer.id}: {error}") from None

    def to_arrow(self, values: Sequence[Any]) -> pa.Array:
        """One array of the reader's type."""
        return _messages(self._class.DESCRIPTOR, list(values), self.arrow_type)


def _compile(schema: Schema) -> Any:
    """The descriptor of a schema's file, in a pool of its own. Raises UnsupportedSchemaError."""
    try:
        from google.protobuf import descriptor_pool
    except ImportError:
        raise missing("protobuf") from None
    files = _given(schema) if _is_descriptor(schema.text) else _by_protoc(schema)
    pool = descriptor_pool.DescriptorPool()
    try:
        for each in files:
            pool.Add(each)
        return pool.FindFileByName(_MAIN)
    except (KeyError, TypeError) as error:
        raise UnsupportedSchemaError(f"schema {schema.id} is not whole: {error}") from None


def _is_descriptor(text: str) -> bool:
    """Whether it is a FileDescriptorProto in base64, which Confluent's serializers for Python and Go register."""
    return _BASE64.fullmatch(text) is not None


def _given(schema: Schema) -> list[Any]:
    """The files of a schema whose text is a descriptor, each after those that it imports."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    referred = dict(schema.references)
    found: dict[str, Any] = {}

    def add(name: str, text: str | None) -> None:
        if name in found:
            return
        file = descriptor_pb2.FileDescriptorProto()
        if text is not None:
            file.ParseFromString(base64.b64decode(text))
        else:
            importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
            descriptor_pool.Default().FindFileByName(name).CopyToProto(file)
        file.name = name
        for each in file.dependency:
            if each not in referred and not each.startswith("google/protobuf/"):
                raise UnsupportedSchemaError(f"schema {schema.id} imports {each}, which it has no reference for")
            add(each, referred.get(each))
        found[name] = file

    try:
        add(_MAIN, schema.text)
    except (ImportError, KeyError, ValueError) as error:
        raise UnsupportedSchemaError(f"schema {schema.id} is no Protobuf file: {error}") from None
    return list(found.values())


def _by_protoc(schema: Schema) -> Iterable[Any]:
    """The files of a schema in Protobuf's language, compiled."""
    try:
        from google.protobuf import descriptor_pb2
        from grpc_tools import protoc
    except ImportError:
        raise missing("grpcio-tools") from None
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for name, text in ((_MAIN, schema.text), *schema.references):
            place = (root / name).resolve()
            if not place.is_relative_to(root):
                raise UnsupportedSchemaError(f"schema {schema.id} refers to {name}, which leads out of its folder")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        target = root / "set.bin"
        known = Path(protoc.__file__).parent / "_proto"
        arguments = ["protoc", f"-I{root}", f"-I{known}", "--include_imports", f"--descriptor_set_out={target}", _MAIN]
        if protoc.main(arguments) != 0:
            raise UnsupportedSchemaError(
                f"schema {schema.id} is no Protobuf file: protoc's words are on standard error"
            )
        files: Iterable[Any] = descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes()).file
        return files


def _paths(schema: Schema) -> dict[tuple[int, ...], str]:
    return {path: name for name, path in _names(_compile(schema), entries=_is_descriptor(schema.text)).items()}


def _names(file: Any, *, entries: bool = False) -> dict[str, tuple[int, ...]]:
    """All messages of a file by full name, with their paths.

    Confluent's serializer for Java, which registers the text, counts the messages that the text declares; with
    ``entries`` those are counted too that protoc makes of maps, as the serializers do which register a descriptor.
    """
    from google.protobuf import descriptor_pb2

    found: dict[str, tuple[int, ...]] = {}

    def add(messages: Iterable[Any], outer: str, within: tuple[int, ...]) -> None:
        counted = (each for each in messages if entries or not each.options.map_entry)
        for number, each in enumerate(counted):
            name = f"{outer}{each.name}"
            found[name] = (*within, number)
            add(each.nested_type, f"{name}.", found[name])

    text = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(text)
    add(text.message_type, f"{text.package}." if text.package else "", ())
    return found


def _message_type(message: Any, within: tuple[str, ...]) -> pa.DataType:
    if message.full_name in within:
        raise UnsupportedSchemaError(f"{message.full_name} contains itself, which no type of Spark can")
    inner = (*within, message.full_name)
    return pa.struct([pa.field(each.name, _field_type(each, inner)) for each in message.fields])


def _field_type(field: Any, within: tuple[str, ...]) -> pa.DataType:
    if _is_map(field):
        key, value = field.message_type.fields
        return pa.map_(_single_type(key, within), _single_type(value, within))
    single = _single_type(field, within)
    return pa.list_(single) if field.is_repeated else single


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _single_type(field: Any, within: tuple[str, ...]) -> pa.DataType:
    kinds = {
        field.CPPTYPE_INT32: pa.int32(),
        field.CPPTYPE_INT64: pa.int64(),
        field.CPPTYPE_UINT32: pa.int64(),
        field.CPPTYPE_UINT64: _UINT64,
        field.CPPTYPE_DOUBLE: pa.float64(),
        field.CPPTYPE_FLOAT: pa.float32(),
        field.CPPTYPE_BOOL: pa.bool_(),
        field.CPPTYPE_ENUM: pa.string(),
        field.CPPTYPE_STRING: pa.binary() if field.type == field.TYPE_BYTES else pa.string(),
    }
    if field.cpp_type in kinds:
        return kinds[field.cpp_type]
    name = field.message_type.full_name
    if name == _TIMESTAMP:
        return pa.timestamp("us", tz="UTC")
    if name in _WRAPPERS:
        return _single_type(field.message_type.fields[0], within)
    return _message_type(field.message_type, within)


def _messages(message: Any, values: list[Any], type_: pa.DataType) -> pa.Array:
    """Messages, None among them, as an array of structs."""
    columns = []
    for number, field in enumerate(message.fields):
        columns.append(_column(field, values, type_.field(number).type))
    nulls = pa.array([each is None for each in values], pa.bool_())
    if not columns:
        return pa.array([None if each is None else {} for each in values], type_)
    return pa.StructArray.from_arrays(columns, fields=list(type_), mask=nulls)


def _column(field: Any, values: list[Any], type_: pa.DataType) -> pa.Array:
    name = field.name
    if _is_map(field):
        key, value = field.message_type.fields
        one = _converter(key), _converter(value)
        return pa.array(
            [None if m is None else [(one[0](k), one[1](v)) for k, v in getattr(m, name).items()] for m in values],
            type_,
        )
    convert = _converter(field)
    if field.is_repeated:
        return pa.array([None if m is None else [convert(each) for each in getattr(m, name)] for m in values], type_)
    if not field.has_presence:
        return pa.array([None if m is None else convert(getattr(m, name)) for m in values], type_)
    present = [None if m is None or not m.HasField(name) else getattr(m, name) for m in values]
    if field.message_type is not None and pa.types.is_struct(type_):
        return _messages(field.message_type, present, type_)
    return pa.array([None if each is None else convert(each) for each in present], type_)


def _converter(field: Any) -> Callable[[Any], Any]:
    """From a value of this field to what pyarrow takes."""
    if field.cpp_type == field.CPPTYPE_ENUM:
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        return lambda value: names.get(value, str(value))
    if field.message_type is None:
        return lambda value: value
    if field.message_type.full_name == _TIMESTAMP:
        return lambda value: _EPOCH + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if field.message_type.full_name in _WRAPPERS:
        return lambda value: value.value
    fields = [(each, _plain(each)) for each in field.message_type.fields]
    return lambda message: {each.name: read(message) for each, read in fields}


def _plain(field: Any) -> Callable[[Any], Any]:
    """From a message to the value of one of its fields, as pyarrow takes it."""
    if _is_map(field):
        key, value = (_converter(each) for each in field.message_type.fields)
        return lambda message: [(key(k), value(v)) for k, v in getattr(message, field.name).items()]
    convert = _converter(field)
    if field.is_repeated:
        return lambda message: [convert(each) for each in getattr(message, field.name)]
    if field.has_presence:
        return lambda message: convert(getattr(message, field.name)) if message.HasField(field.name) else None
    return lambda message: convert(getattr(message, field.name))
