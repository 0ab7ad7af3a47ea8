"""Small programs made by hand: static instructions and executed chunks."""

import numpy as np

from uarch.instructions import (
    LAST,
    MAX_DESTINATIONS,
    MAX_SOURCES,
    NO_REGISTER,
    Chunk,
    Flag,
    Operation,
    StaticInstructions,
)


def program(*rows):
    """Rows are dicts with any of operation, flags, sources, destinations, length; four bytes each by default."""
    n = len(rows)
    length = np.array([row.get("length", 4) for row in rows], np.uint8)
    sources = np.full((n, MAX_SOURCES), NO_REGISTER, np.uint8)
    destinations = np.full((n, MAX_DESTINATIONS), NO_REGISTER, np.uint8)
    for index, row in enumerate(rows):
        sources[index, : len(row.get("sources", ()))] = row.get("sources", ())
        destinations[index, : len(row.get("destinations", ()))] = row.get("destinations", ())
    return StaticInstructions(
        address=(0x1000 + np.concatenate([[0], np.cumsum(length[:-1], dtype=np.int64)])).astype(np.uint64),
        length=length,
        operation=np.array([row.get("operation", Operation.INT_ALU) for row in rows], np.uint8),
        flags=np.array([int(row.get("flags", Flag(0))) for row in rows], np.uint16),
        sources=sources,
        address_sources=np.zeros(n, np.uint8),
        destinations=destinations,
        micro_operations=np.ones(n, np.uint8),
    )


def execution(static_ids, accesses=(), start=0, following=LAST):
    """Executed ids; accesses are (instruction, address, size, is_store), ascending."""
    n = len(static_ids)
    counts = np.bincount([access[0] for access in accesses], minlength=n) if accesses else np.zeros(n, int)
    ids = np.array(static_ids, np.uint32)
    return Chunk(
        start=start,
        static_id=ids,
        next_static_id=np.append(ids[1:], following).astype(np.uint32),
        access_offset=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        address=np.array([access[1] for access in accesses], np.uint64),
        size=np.array([access[2] for access in accesses], np.uint8),
        is_store=np.array([access[3] for access in accesses], np.uint8),
    )
