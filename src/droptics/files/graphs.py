"""The graph of an exported program, judged text by text: what is listed passes, everything else is refused by name."""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Mapping
from typing import Any

import torch

_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
_WORDS = re.compile(r"[A-Za-z0-9_ ,.>+-]*")  # texts that operators take: "floor", "ij,jk->ik"
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBERS = ("Infinity", "-Infinity", "NaN")  # JSON has no other way to write them
_SYMBOL = re.compile(r"[a-z]{1,3}\d{1,6}")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FIELDS = _words(
    """
    arg as_bool as_bools as_complex as_device as_expr as_float as_float_lists as_floats as_graph as_int
    as_int_lists as_ints as_layout as_memory_format as_name as_nested_tensors as_none as_optional_tensor
    as_optional_tensors as_scalar_type as_string as_strings as_sym_bool as_sym_bools as_sym_float as_sym_floats
    as_sym_int as_sym_ints as_tensor as_tensors buffer buffer_mutation buffer_name constant_input
    custom_obj_values device dtype expr_str forward_arg_names fqn graph graph_module guards_code hint imag
    in_spec index input_specs inputs is_hop_single_tensor_return is_single_tensor_return kind layout major
    max_val metadata min_val minor module_call_graph name node nodes opset_version out_spec output_specs outputs
    parameter parameter_mutation parameter_name persistent range_constraints real requires_grad schema_version
    signature sizes storage_offset strides sym_bool_values sym_float_values sym_int_values target
    tensor_constant tensor_constant_name tensor_values torch_version treespec_namedtuple_fields type user_input
    user_input_mutation user_input_name user_output value verifiers
    """
)
"""Fields of a program that are read; a custom object, an operator as a value or a token is none of them."""

TABLES = _words(
    """
    tensor_values sym_int_values sym_float_values sym_bool_values range_constraints opset_version
    """
)
"""Fields whose value is a table by name."""

DROPPED: Mapping[str, Any] = {"metadata": {}, "guards_code": [], "treespec_namedtuple_fields": {}}
"""Fields that torch may turn into code or that say where a node came from; nothing here needs them."""

TREES = frozenset(["builtins.list", "builtins.tuple", "builtins.dict", "collections.OrderedDict"])
"""Containers that inputs and outputs may come in."""

SHAPES = _words(
    """
    Symbol Integer Float Rational Add Mul Pow FloorDiv ModularIndexing Where PythonMod Mod CleanDiv CeilToInt
    FloorToInt CeilDiv FloatTrueDiv IntTrueDiv TruncToFloat TruncToInt RoundToInt ToFloat Identity Max Min And
    Or Not Equality Unequality StrictLessThan LessThan StrictGreaterThan GreaterThan Eq Ne Lt Le Gt Ge
    """
)
"""Functions that a shape expression may call."""

WORDS = frozenset(["true", "false", "oo", "int_oo"])
"""Constants of a shape expression."""

SCALARS = _words(
    """
    _operator.add _operator.sub _operator.mul _operator.floordiv _operator.truediv _operator.mod _operator.pow
    _operator.neg _operator.pos _operator.eq _operator.ne _operator.lt _operator.le _operator.gt _operator.ge
    _operator.and_ _operator.or_ _operator.not_ _operator.getitem math.ceil math.floor math.trunc math.sqrt math.log2
    torch.sym_int torch.sym_float torch.sym_ite torch.sym_max torch.sym_min torch.sym_not torch.sym_sum
    """
)
"""Functions of plain numbers that a graph may call."""

STRUCTURES = _words(
    """
    torch.ops.higher_order.cond torch.ops.higher_order.while_loop torch.ops.higher_order.wrap_with_set_grad_enabled
    torch.ops.higher_order.wrap_with_autocast
    """
)
"""Operators that call graphs of the same file."""

OPERATORS = frozenset(["aten", "prims", "prim"])
"""Sets of operators that a graph may call."""

TOUCH_FILES = frozenset(["from_file", "save"])
"""The operators of torch that name a file."""


def plain_graph(value: Any, where: str) -> Any:
    """A copy of a part of a program in which every field is listed and every text is plain; else a ValueError."""
    if isinstance(value, dict):
        return {key: _field(key, entry, where) for key, entry in value.items()}
    if isinstance(value, list):
        return [plain_graph(entry, where) for entry in value]
    if isinstance(value, str):
        return _matching(_NAME, value, "a name", where)
    return value


def _field(key: str, value: Any, where: str) -> Any:
    if key not in FIELDS:
        raise ValueError(f"{where} has the field {key[:80]!r}, which is not one that is read; it is refused")
    if key in DROPPED:
        return DROPPED[key]
    if key == "custom_obj_values" and value:
        raise ValueError(f"{where} holds the custom object {next(iter(value))[:80]!r}; it is refused")
    if key in TABLES and isinstance(value, dict):
        return {plain_graph(name, where): plain_graph(entry, where) for name, entry in value.items()}
    if not isinstance(value, (str, list)):
        return plain_graph(value, where)
    if isinstance(value, list):
        return [_text(key, entry, where) if isinstance(entry, str) else plain_graph(entry, where) for entry in value]
    return _text(key, value, where)


def _text(key: str, value: str, where: str) -> str:
    special = {"target": check_operator, "expr_str": _expression, "in_spec": _tree, "out_spec": _tree}
    if key in special:
        return special[key](value, where)
    if key in ("as_string", "as_strings", "torch_version"):
        return _matching(_WORDS, value, "a text for an operator", where)
    if (key == "as_float" and value in _NUMBERS) or (key in ("fqn", "name") and not value):
        return value  # the whole module is the one without a name
    if key in ("name", "as_name", "forward_arg_names"):
        return _matching(_IDENTIFIER, value, "an identifier", where)
    return _matching(_NAME, value, "a name", where)


def _matching(pattern: re.Pattern[str], value: str, kind: str, where: str) -> str:
    if len(value) > 1000 or not pattern.fullmatch(value):
        raise ValueError(f"{where} has {value[:80]!r} where {kind} is expected; it is refused")
    return value


def check_operator(target: str, where: str) -> str:
    """The name of an operator that computes with tensors and numbers, touching no file; else a ValueError."""
    parts = _matching(_NAME, target, "an operator", where).split(".")
    if parts[:2] == ["torch", "ops"] and tuple(parts[2:]) in _tensor_operators() and parts[3] not in TOUCH_FILES:
        return target
    if target in SCALARS or target in STRUCTURES:
        return target
    raise ValueError(f"{where} calls {target}, which is not an operator on tensors and numbers; it is refused")


@functools.cache
def _tensor_operators() -> frozenset[tuple[str, ...]]:
    """Every operator that torch itself registers, by set and name, and each form of it."""
    found: set[tuple[str, ...]] = set()
    for schema in torch._C._jit_get_all_schemas():
        family, _, name = schema.name.partition("::")
        if family in OPERATORS:
            found |= {(family, name), (family, name, schema.overload_name or "default")}
    return frozenset(found)


def _expression(text: str, where: str) -> str:
    """A shape expression: calls of listed functions on symbols and numbers; torch would evaluate it as Python."""
    try:
        if len(text) > 2000 or not _is_shape(ast.parse(text, mode="eval").body):
            raise ValueError("a call that is not listed")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{where} has the shape expression {text[:80]!r}; it is refused") from error
    return text


def _is_shape(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str(name)):
            return bool(_SYMBOL.fullmatch(name) or re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", name))
        case ast.Constant(value=bool() | int() | float()):
            return True
        case ast.Name(id=name):
            return name in WORDS or bool(_SYMBOL.fullmatch(name))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _is_shape(inner)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in SHAPES:
            flags = all(
                isinstance(word.value, ast.Constant) and not isinstance(word.value.value, str) for word in keywords
            )
            small = name != "Pow" or _is_small(args[-1:])  # a tower of powers would never end
            return flags and small and all(map(_is_shape, args))
    return False


def _is_small(exponent: list[ast.expr]) -> bool:
    match exponent:
        case [ast.Call(func=ast.Name(id="Integer"), args=[inner])]:
            return ast.unparse(inner) in ("-1", "2", "3", "4")
    return False


def _tree(text: str, where: str) -> str:
    """How inputs or outputs nest: lists, tuples and dicts with plain keys."""
    try:
        version, tree = json.loads(text)
        kept = _branch(tree, where)
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError) as error:
        raise ValueError(
            f"{where} has inputs or outputs that are not plain lists, tuples and dicts: {error}"
        ) from error
    return json.dumps([int(version), kept])


def _branch(tree: Any, where: str) -> dict[str, Any]:
    kind, context = tree["type"], tree["context"]
    if kind is not None and kind not in TREES:
        raise ValueError(f"the container {str(kind)[:80]!r} is not read")
    if context is not None:
        inner = json.loads(context)
        keys = inner if isinstance(inner, list) else [inner]
        if not all(key is None or type(key) is int or (type(key) is str and _NAME.fullmatch(key)) for key in keys):
            raise ValueError(f"the keys {context[:80]!r} are not plain")
        context = json.dumps(inner)
    return {"type": kind, "context": context, "children_spec": [_branch(item, where) for item in tree["children_spec"]]}
