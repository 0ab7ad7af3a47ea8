"""State that compiled functions take by reference.

numba passes a named tuple of arrays by value: seven or nine words for each array, hundreds for a core and its caches,
copied at every call that is not inlined. A class marked `by_reference` is passed as the address of its fields instead.

The fields are arrays, or others of these classes, and never change while compiled code runs; what the arrays hold does.
"""

from __future__ import annotations

from typing import Any, TypeVar

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.extending import NativeValue, models, register_model, typeof_impl, unbox
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr

Class = TypeVar("Class", bound=type)


class Reference(types.Type):
    """The type of an instance of a marked class; `fields` has the name and the type of each field."""

    def __init__(self, name: str, fields: tuple[tuple[str, types.Type], ...]) -> None:
        self.fields = fields
        super().__init__(f"Reference({name}, {', '.join(f'{field}: {kind}' for field, kind in fields)})")

    def place(self, field: str) -> int:
        return [name for name, _ in self.fields].index(field)


def by_reference(marked: Class) -> Class:
    """Marks a NamedTuple."""

    @typeof_impl.register(marked)
    def _(value: Any, context: Any) -> Reference:
        fields = zip(value._fields, value, strict=True)
        return Reference(marked.__name__, tuple((name, typeof_impl(field, context)) for name, field in fields))

    return marked


@register_model(Reference)
class _Address(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Reference) -> None:
        super().__init__(manager, kind, ir.IntType(8).as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):
    key = Reference

    def generic_resolve(self, kind: Reference, field: str) -> Any:  # type: ignore[override]  # numba has a value there
        return dict(kind.fields).get(field)


def _layout(context: Any, kind: Reference) -> ir.LiteralStructType:
    return ir.LiteralStructType([context.get_value_type(field) for _, field in kind.fields])


@unbox(Reference)
def _from_python(kind: Reference, value: Any, c: Any) -> NativeValue:
    """The fields in the frame of the wrapper that Python calls; the instance keeps them alive."""
    layout = _layout(c.context, kind)
    fields = cgutils.alloca_once(c.builder, layout)
    failed = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    for place, (name, field) in enumerate(kind.fields):
        member = c.pyapi.object_getattr_string(value, name)
        native = c.unbox(field, member)
        c.pyapi.decref(member)
        c.builder.store(native.value, cgutils.gep_inbounds(c.builder, fields, 0, place))
        c.builder.store(c.builder.or_(c.builder.load(failed), native.is_error), failed)
    address = c.builder.bitcast(fields, ir.IntType(8).as_pointer())
    return NativeValue(address, is_error=c.builder.load(failed))


@lower_getattr_generic(Reference)
def _field(context: Any, builder: Any, kind: Reference, address: Any, name: str) -> Any:
    fields = builder.bitcast(address, _layout(context, kind).as_pointer())
    place = kind.place(name)
    pointer = cgutils.gep_inbounds(builder, fields, 0, place)
    field = kind.fields[place][1]
    return _array(context, builder, field, pointer) if isinstance(field, types.Array) else _word(builder, pointer)


def _array(context: Any, builder: Any, kind: types.Array, pointer: Any) -> Any:
    """An array's value; of its words only those are read that its type does not tell. All are contiguous."""
    model, layout = context.data_model_manager[kind], pointer.type.pointee
    size = ir.Constant(ir.IntType(64), context.get_abi_sizeof(context.get_data_type(kind.dtype)))

    def read(*places: int) -> Any:
        return _word(builder, cgutils.gep_inbounds(builder, pointer, 0, *places))

    shape, strides = model.get_field_position("shape"), model.get_field_position("strides")
    lengths = [read(shape, axis) for axis in range(kind.ndim)]
    steps = [read(strides, axis) for axis in range(kind.ndim - 1)] + [size]
    nitems = model.get_field_position("nitems")
    value = ir.Constant(layout, None)
    for place, word in (
        (nitems, lengths[0] if kind.ndim == 1 else read(nitems)),
        (model.get_field_position("itemsize"), size),
        (model.get_field_position("data"), read(model.get_field_position("data"))),
    ):
        value = builder.insert_value(value, word, place)
    for axis in range(kind.ndim):
        value = builder.insert_value(value, lengths[axis], (shape, axis))
        value = builder.insert_value(value, steps[axis], (strides, axis))
    return value


def _word(builder: Any, pointer: Any) -> Any:
    """A word of a field. It never changes, which LLVM is told."""
    word = builder.load(pointer)
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word
