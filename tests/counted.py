"""What modules do, counted instead of timed: every step, and the size of all that a built-in operation reads or makes.

Inside one built-in call, such as the matching of a pattern, nothing is seen.
"""

import ast
import inspect
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import TypeVar

import pytest

T = TypeVar("T")

_NAME = "_work"
_UNREAD = ("len", "isinstance")
"""Built-in functions that do not look at all of what they are given."""
_AT_THE_END = ("append", "extend", "pop", "clear")
"""Methods of a list that leave most of it alone."""
_SIZED = (str, bytes, list, tuple, deque)
_COPIES = (str, list, tuple, dict, set, frozenset, deque, sorted)


class Work:
    """What was done so far, in units of one step or one character or item."""

    def __init__(self) -> None:
        self.units = 0

    def called(self, function: object, *args: object, **kwargs: object) -> object:
        assert callable(function)
        result = function(*args, **kwargs)
        self.units += 1
        if function in _COPIES:
            self.units += sum(len(arg) for arg in args if isinstance(arg, (*_SIZED, dict, set, frozenset)))
        elif isinstance(function, BuiltinFunctionType) and function.__name__ not in _UNREAD:
            self.units += sum(map(_size, (*args, result)))
            self.units += 0 if function.__name__ in _AT_THE_END else _size(function.__self__)
        return result

    def seen(self, value: T) -> T:
        self.units += _size(value)
        return value

    def grown(self, value: object) -> None:
        """A list that is added to in place is not copied; whatever else is added to may be."""
        self.units += 0 if isinstance(value, list | deque) else _size(value)

    def steps(self, items: Iterable[T]) -> Iterator[T]:
        for item in items:
            self.units += 1
            yield item


def _size(value: object) -> int:
    return len(value) if isinstance(value, _SIZED) else 1


class _Counting(ast.NodeTransformer):
    """Puts every operation of a module through its `Work`."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        bare = isinstance(node.func, ast.Name) and node.func.id == "super"
        return node if bare else _through("called", node.func, *node.args, keywords=node.keywords)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return _through("seen", node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        return _through("seen", node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        return _through("seen", node) if isinstance(node.ctx, ast.Load) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.ops[0], ast.Is | ast.IsNot):
            return node
        read = [_through("seen", each) for each in (node.left, *node.comparators)]
        return ast.Compare(read[0], node.ops, read[1:])

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        self.generic_visit(node)
        node.value = _through("seen", node.value)
        made = ast.parse(ast.unparse(node.target), mode="eval").body
        return [node, ast.Expr(_through("grown", made))]

    def visit_List(self, node: ast.List) -> ast.expr:
        return self._display(node)

    def visit_Tuple(self, node: ast.Tuple) -> ast.expr:
        return self._display(node)

    def _display(self, node: ast.List | ast.Tuple) -> ast.expr:
        self.generic_visit(node)
        read = isinstance(node.ctx, ast.Load) and any(isinstance(item, ast.Starred) for item in node.elts)
        return _through("seen", node) if read else node

    def visit_For(self, node: ast.For) -> ast.stmt:
        self.generic_visit(node)
        node.iter = _through("steps", node.iter)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        self.generic_visit(node)
        node.iter = _through("steps", node.iter)
        return node


def _through(way: str, *args: ast.expr, keywords: list[ast.keyword] | None = None) -> ast.expr:
    method = ast.Attribute(ast.Name(_NAME, ast.Load()), way, ast.Load())
    return ast.Call(method, list(args), keywords or [])


@contextmanager
def counted(*modules: ModuleType) -> Generator[Work]:
    """The functions of these modules count what they do, until the block is left."""
    work = Work()
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            tree = ast.fix_missing_locations(_Counting().visit(ast.parse(inspect.getsource(module))))
            codes = {code.co_qualname: code for code in _codes(compile(tree, str(module.__file__), "exec"))}
            patch.setattr(module, _NAME, work, raising=False)
            for function in _functions(vars(module).values(), module.__name__):
                if function.__code__.co_qualname in codes:
                    patch.setattr(function, "__code__", codes[function.__code__.co_qualname])
        yield work


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _functions(values: Iterable[object], module: str) -> Iterator[FunctionType]:
    for value in values:
        match value:
            case FunctionType() if value.__module__ == module:
                yield value
            case property(fget=FunctionType() as function):
                yield function
            case type() if value.__module__ == module:
                yield from _functions(vars(value).values(), module)
