"""Program vectors for the shipped model: each behaves like what one or two directions of the encoder's basis say."""

from functools import cache

import numpy as np

from perfvec.model import Model, load_model
from perfvec.representation.vector import ProgramVector


@cache
def shipped() -> Model:
    return load_model()


def program(name: str = "p", seed: int = 0, instructions: int = 1000) -> ProgramVector:
    """A made-up program with a CPI between about 0.5 and 2 on the table's machines: least squares on the table."""
    model = shipped()
    generator = np.random.default_rng(seed)
    frequency = np.array([machine.frequency_ghz for machine in model.machines])
    wanted = instructions * (0.5 + 0.1 * generator.random() * frequency + 0.5 * generator.random())
    vector = np.linalg.lstsq(model.table(), wanted, rcond=1e-2)[0]
    return ProgramVector(
        name, "x86-64", model.digest, name, instructions, vector, np.array([instructions]), vector[None]
    )
