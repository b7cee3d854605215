"""A small compiler for the hot loops: a subset of Python, as text for LLVM.

The loops over records know whole numbers of 64 bits (signed, wrapping) and arrays only, so the compiler knows nothing
else: assignments, ``if``, ``while``, ``for`` over a range, ``return``, arithmetic, comparisons, calls of other such
functions, ``np.int64(x)``, ``array.shape[0]``, reading and writing of elements, and the copy of a range of bytes into
another array. Whatever else it meets is refused when it compiles. Indices are not checked against the array.

A parameter's kind is told by its annotation: ``Any`` is an array of bytes, ``Int32s`` one of 32-bit integers,
``Int64s`` one of 64-bit integers with one or two dimensions, anything else a number. Written arrays must not overlap
others.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

BYTES, HALVES, WORDS, NUMBER = "bytes", "halves", "words", "number"
_KINDS = {"Any": BYTES, "Int32s": HALVES, "Int64s": WORDS}
_ELEMENTS = {BYTES: "i8", HALVES: "i32", WORDS: "i64"}

_BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.LShift: "shl",
    ast.RShift: "ashr",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}
_COMPARISONS = {ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge", ast.Eq: "eq", ast.NotEq: "ne"}
_COPY = "declare void @llvm.memcpy.p0.p0.i64(ptr noalias, ptr noalias, i64, i1)"


class NotCompilableError(TypeError):
    """A function has something that the compiler does not know; names the function and the line within it."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes and how many numbers it returns."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    results: int

    @classmethod
    def of(cls, tree: ast.FunctionDef) -> Signature:
        """By the annotations, and the first ``return``."""
        parameters = tuple(
            (each.arg, _KINDS.get(each.annotation.id if isinstance(each.annotation, ast.Name) else "", NUMBER))
            for each in tree.args.args
        )
        value = next((node.value for node in ast.walk(tree) if isinstance(node, ast.Return)), None)
        results = len(value.elts) if isinstance(value, ast.Tuple) else int(value is not None)
        return cls(tree.name, parameters, results)

    @property
    def returned(self) -> str:
        """Type of the result in LLVM."""
        if self.results < 2:
            return "i64" if self.results else "void"
        return "{" + ", ".join(["i64"] * self.results) + "}"

    @property
    def declared(self) -> str:
        """Parameters in LLVM: an array of integers brings its two dimensions."""
        parts = []
        for name, kind in self.parameters:
            parts.append(f"i64 %{name}" if kind == NUMBER else f"ptr noalias %{name}")
            if kind == WORDS:
                parts += [f"i64 %{name}.rows", f"i64 %{name}.columns"]
        return ", ".join(parts)


def assembly(function: Callable[..., Any]) -> tuple[str, Signature]:
    """LLVM's text of a function and of all it calls, with an entry ``NAME.entry`` for C.

    The entry takes where to put the results, then the parameters. Raises NotCompilableError; OSError where there is no
    source.
    """
    done: dict[str, str] = {}
    signature = _add(function, done)
    passed = signature.declared.replace(" noalias", "")
    call = f"call {signature.returned} @{signature.name}({passed})"
    body = [f"  %r = {call}" if signature.results else f"  {call}"]
    for i in range(signature.results):
        value = "%r"
        if signature.results > 1:
            value = f"%v{i}"
            body.append(f"  {value} = extractvalue {signature.returned} %r, {i}")
        body += [f"  %p{i} = getelementptr i64, ptr %results, i64 {i}", f"  store i64 {value}, ptr %p{i}"]
    parameters = ", ".join(filter(None, ["ptr %results", signature.declared]))
    entry = [f"define void @{signature.name}.entry({parameters}) {{", *body, "  ret void", "}"]
    return "\n".join([_COPY, *done.values(), *entry]), signature


def _add(function: Callable[..., Any], done: dict[str, str]) -> Signature:
    tree = ast.parse(inspect.getsource(function)).body[0]
    assert isinstance(tree, ast.FunctionDef)
    signature = Signature.of(tree)
    if signature.name not in done:
        done[signature.name] = ""  # it may not call itself
        done[signature.name] = _Body(signature, function.__globals__, done).text(tree)
    return signature


@dataclass(slots=True)
class _Body:
    """One function on its way to text. Variables are memory here; LLVM makes registers of them."""

    signature: Signature
    names: dict[str, Any]
    done: dict[str, str]
    lines: list[str] = field(default_factory=list)
    variables: set[str] = field(default_factory=set)
    loops: list[tuple[str, str]] = field(default_factory=list)
    count: int = 0

    def text(self, tree: ast.FunctionDef) -> str:
        for name, kind in self.signature.parameters:
            if kind == NUMBER:
                self.set(name, f"%{name}")
        self.block(tree.body)
        if not self.signature.results:
            self.lines.append("  ret void")
        else:
            self.lines.append("  unreachable")
        head = f"define internal {self.signature.returned} @{self.signature.name}({self.signature.declared}) {{"
        memory = [f"  %{name}.v = alloca i64" for name in sorted(self.variables)]
        return "\n".join([head, *memory, *self.lines, "}"])

    def refuse(self, node: ast.AST) -> NotCompilableError:
        line = getattr(node, "lineno", 0)
        return NotCompilableError(f"{self.signature.name}, line {line}: {type(node).__name__} is not compiled")

    def new(self, what: str) -> str:
        """The result of an instruction."""
        self.count += 1
        self.lines.append(f"  %t{self.count} = {what}")
        return f"%t{self.count}"

    def labels(self, *names: str) -> list[str]:
        self.count += 1
        return [f"{name}{self.count}" for name in names]

    def go(self, label: str) -> None:
        self.lines.append(f"  br label %{label}")

    def at(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def set(self, name: str, value: str) -> None:
        self.variables.add(name)
        self.lines.append(f"  store i64 {value}, ptr %{name}.v")

    # Statements.

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(ast.Constant(str())) | ast.Pass():
                pass
            case ast.Assign([ast.Tuple(targets)], ast.Call() as call):
                found, signature = self.call(call)
                for i, target in enumerate(targets):
                    self.assign(target, self.new(f"extractvalue {signature.returned} {found}, {i}"))
            case ast.Assign([ast.Subscript(ast.Name(to), ast.Slice(start, stop))], value):
                self.copy(node, to, start, stop, value)
            case ast.Assign([target], value):
                self.assign(target, self.value(value))
            case ast.AugAssign(ast.Name() as target, operator, value):
                read = ast.Name(target.id, ast.Load())
                self.assign(target, self.value(ast.copy_location(ast.BinOp(read, operator, value), node)))
            case ast.Return(value):
                self.leave(value)
            case ast.If(test, body, orelse):
                self.either(test, body, orelse)
            case ast.While(test, body, []):
                begin, inside, end = self.labels("while", "do", "done")
                self.go(begin)
                self.at(begin)
                self.branch(test, inside, end)
                self.loop(inside, body, begin, end)
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), bounds), body, []):
                self.count_up(name, [self.value(bound) for bound in bounds], body)
            case ast.Break() | ast.Continue() if self.loops:
                self.go(self.loops[-1][isinstance(node, ast.Break)])
                self.at(self.labels("after")[0])
            case _:
                raise self.refuse(node)

    def assign(self, target: ast.expr, value: str) -> None:
        match target:
            case ast.Name(name):
                self.set(name, value)
            case ast.Subscript(ast.Name(array), index):
                kind, place = self.element(target, array, index)
                if kind != WORDS:
                    value = self.new(f"trunc i64 {value} to {_ELEMENTS[kind]}")
                self.lines.append(f"  store {_ELEMENTS[kind]} {value}, ptr {place}")
            case _:
                raise self.refuse(target)

    def copy(self, node: ast.AST, to: str, start: ast.expr | None, stop: ast.expr | None, value: ast.expr) -> None:
        match value:
            case ast.Subscript(ast.Name(source), ast.Slice(ast.expr() as first, ast.expr() as last)) if start and stop:
                begin = self.value(first)
                length = self.new(f"sub i64 {self.value(last)}, {begin}")
                out = self.new(f"getelementptr i8, ptr {self.bytes(node, to)}, i64 {self.value(start)}")
                data = self.new(f"getelementptr i8, ptr {self.bytes(node, source)}, i64 {begin}")
                self.lines.append(f"  call void @llvm.memcpy.p0.p0.i64(ptr {out}, ptr {data}, i64 {length}, i1 false)")
            case _:
                raise self.refuse(node)

    def leave(self, value: ast.expr | None) -> None:
        returned = self.signature.returned
        if value is None:
            self.lines.append("  ret void")
        elif isinstance(value, ast.Tuple):
            whole = "undef"
            for i, part in enumerate([self.value(each) for each in value.elts]):
                whole = self.new(f"insertvalue {returned} {whole}, i64 {part}, {i}")
            self.lines.append(f"  ret {returned} {whole}")
        else:
            self.lines.append(f"  ret i64 {self.value(value)}")
        self.at(self.labels("after")[0])

    def either(self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        yes, no, end = self.labels("yes", "no", "end")
        self.branch(test, yes, no)
        for label, statements in ((yes, body), (no, orelse)):
            self.at(label)
            self.block(statements)
            self.go(end)
        self.at(end)

    def loop(self, inside: str, body: list[ast.stmt], again: str, end: str) -> None:
        self.at(inside)
        self.loops.append((again, end))
        self.block(body)
        self.loops.pop()
        self.go(again)
        self.at(end)

    def count_up(self, name: str, bounds: list[str], body: list[ast.stmt]) -> None:
        """A range of one or two bounds; what the body does to the variable changes nothing, as in Python."""
        begin, inside, following, end = self.labels("for", "do", "next", "done")
        counter = f"{name}.{self.count}"
        self.set(counter, bounds[0] if len(bounds) == 2 else "0")
        self.go(begin)
        self.at(begin)
        value = self.new(f"load i64, ptr %{counter}.v")
        test = self.new(f"icmp slt i64 {value}, {bounds[-1]}")
        self.lines.append(f"  br i1 {test}, label %{inside}, label %{end}")
        self.at(following)
        self.set(counter, self.new(f"add i64 {self.new(f'load i64, ptr %{counter}.v')}, 1"))
        self.go(begin)
        self.at(inside)
        self.set(name, value)
        self.loops.append((following, end))
        self.block(body)
        self.loops.pop()
        self.go(following)
        self.at(end)

    def branch(self, test: ast.expr, yes: str, no: str) -> None:
        """To one of two labels; ``and`` and ``or`` ask no more than Python would."""
        match test:
            case ast.BoolOp(operator, values):
                for value in values[:-1]:
                    (further,) = self.labels("further")
                    if isinstance(operator, ast.And):
                        self.branch(value, further, no)
                    else:
                        self.branch(value, yes, further)
                    self.at(further)
                self.branch(values[-1], yes, no)
            case ast.UnaryOp(ast.Not(), value):
                self.branch(value, no, yes)
            case ast.Compare(left, [operator], [right]) if type(operator) in _COMPARISONS:
                sides = f"{self.value(left)}, {self.value(right)}"
                found = self.new(f"icmp {_COMPARISONS[type(operator)]} i64 {sides}")
                self.lines.append(f"  br i1 {found}, label %{yes}, label %{no}")
            case _:
                found = self.new(f"icmp ne i64 {self.value(test)}, 0")
                self.lines.append(f"  br i1 {found}, label %{yes}, label %{no}")

    # Expressions: what is given back is a number of 64 bits.

    def value(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(int() as number):
                return _wrapped(number)
            case ast.Name(name):
                return self.named(node, name)
            case ast.UnaryOp(ast.USub(), operand):
                return self.new(f"sub i64 0, {self.value(operand)}")
            case ast.BinOp(left, ast.FloorDiv(), ast.Constant(int() as by)) if by > 0 and not by & (by - 1):
                return self.new(f"ashr i64 {self.value(left)}, {by.bit_length() - 1}")
            case ast.BinOp(left, operator, right) if type(operator) in _BINARY:
                return self.new(f"{_BINARY[type(operator)]} i64 {self.value(left)}, {self.value(right)}")
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(ast.Not()):
                return self.chosen(node, lambda: "1", lambda: "0")
            case ast.IfExp(test, body, orelse):
                return self.chosen(test, lambda: self.value(body), lambda: self.value(orelse))
            case ast.Call(ast.Attribute(ast.Name("np"), "int64"), [inner]):
                return self.value(inner)
            case ast.Call():
                return self.call(node)[0]
            case ast.Subscript(ast.Attribute(ast.Name(name), "shape"), ast.Constant(0)):
                return f"%{name}.rows"
            case ast.Subscript(ast.Name(array), index):
                kind, place = self.element(node, array, index)
                if kind == WORDS:
                    return self.new(f"load i64, ptr {place}")
                loaded = self.new(f"load {_ELEMENTS[kind]}, ptr {place}")
                return self.new(f"{'zext' if kind == BYTES else 'sext'} {_ELEMENTS[kind]} {loaded} to i64")
            case _:
                raise self.refuse(node)

    def named(self, node: ast.AST, name: str) -> str:
        if name in self.variables:
            return self.new(f"load i64, ptr %{name}.v")
        constant = self.names.get(name)
        if not isinstance(constant, int):
            raise self.refuse(node)
        return _wrapped(constant)

    def chosen(self, test: ast.expr, yes: Callable[[], str], no: Callable[[], str]) -> str:
        first, second, end = self.labels("yes", "no", "end")
        name = f"choice.{self.count}"
        self.branch(test, first, second)
        for label, value in ((first, yes), (second, no)):
            self.at(label)
            self.set(name, value())
            self.go(end)
        self.at(end)
        return self.new(f"load i64, ptr %{name}.v")

    def call(self, node: ast.Call) -> tuple[str, Signature]:
        function = self.names.get(node.func.id) if isinstance(node.func, ast.Name) else None
        function = getattr(function, "__wrapped__", function)
        if not inspect.isfunction(function):
            raise self.refuse(node)
        signature = _add(function, self.done)
        passed = []
        for argument, (_, kind) in zip(node.args, signature.parameters, strict=True):
            if kind == NUMBER:
                passed.append(f"i64 {self.value(argument)}")
            elif kind == BYTES and isinstance(argument, ast.Name):
                passed.append(f"ptr {self.bytes(node, argument.id)}")
            else:
                raise self.refuse(node)
        return self.new(f"call {signature.returned} @{signature.name}({', '.join(passed)})"), signature

    def bytes(self, node: ast.AST, name: str) -> str:
        if (name, BYTES) not in self.signature.parameters:
            raise self.refuse(node)
        return f"%{name}"

    def element(self, node: ast.AST, array: str, index: ast.expr) -> tuple[str, str]:
        """Kind of an array, and where an element lies."""
        kind = dict(self.signature.parameters).get(array, NUMBER)
        match kind, index:
            case "words", ast.Tuple([row, column]):
                first = self.new(f"mul i64 {self.value(row)}, %{array}.columns")
                at = self.new(f"add i64 {first}, {self.value(column)}")
            case "words" | "halves" | "bytes", _:
                at = self.value(index)
            case _:
                raise self.refuse(node)
        return kind, self.new(f"getelementptr {_ELEMENTS[kind]}, ptr %{array}, i64 {at}")


def _wrapped(number: int) -> str:
    """Modulo 2**64, signed."""
    return str((number + (1 << 63)) % (1 << 64) - (1 << 63))
