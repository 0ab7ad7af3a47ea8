"""Feature schemas: what the model reads of each executed instruction. `SCHEMAS` lists them by name."""

from __future__ import annotations

from support.errors import InputError
from tracegen.features.default import DEFAULT
from tracegen.features.perfvec51 import PERFVEC_51
from tracegen.features.schema import Column, Extractor, Schema
from tracegen.features.timed import TIMED

SCHEMAS: dict[str, Schema] = {schema.name: schema for schema in (DEFAULT, TIMED, PERFVEC_51)}

__all__ = ["SCHEMAS", "Column", "Extractor", "Schema", "get_schema"]


def get_schema(identity: str) -> Schema:
    """The schema of this name, or of this name/version; InputError where this release has no such one.

    `default~load~store` is `default` with two of its columns hidden from the model (`Schema.without`), for ablations.
    """
    name, _, version = identity.partition("/")
    whole, *hidden = name.split("~")
    schema = SCHEMAS.get(whole)
    if schema is None:
        raise InputError(f"unknown feature schema {identity!r}; this release has {', '.join(SCHEMAS)}")
    if version and version != str(schema.version):
        raise InputError(f"feature schema {identity!r} is of another release; this one has {schema.identity!r}")
    return schema.without(hidden)
