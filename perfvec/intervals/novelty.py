"""Distance of a program or a machine from what trained the model.

The distance to the nearest of the training set is held against the distances at which its members themselves have their
nearest neighbours (nearest-neighbour novelty detection: Tax & Duin, ICPR 2000; Pimentel et al., Signal Processing 99,
2014). Programs are told apart by the angle between their vectors, as `perfvec compare` does, machines by the encoder's
normalised features (root mean square over the features).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfvec.machines.encoder import MachineEncoder
from perfvec.machines.features import features_of_machines
from perfvec.model import Model
from uarch.configuration import Machine


@dataclass(frozen=True)
class Neighbours:
    """Nearest neighbours in the training set, of n programs or machines."""

    names: tuple[str, ...]  # [n]
    distance: NDArray[np.float64]  # [n]
    usual: float  # the largest distance of one of the training set to its nearest other; infinite where it has no other

    def relative(self) -> NDArray[np.float64]:
        """[n] distances as multiples of the usual one: above 1 lies outside."""
        return np.divide(self.distance, self.usual, out=np.zeros_like(self.distance), where=self.distance > 0)


def program_neighbours(model: Model, vectors: NDArray[np.float64]) -> Neighbours | None:
    """Return the neighbours of program vectors [n, d] of any length; None where the model does not hold its training
    programs' vectors.
    """
    if model.program_vectors is None:
        return None
    there = np.flatnonzero(model.program_vectors.any(axis=1))
    if not there.size:
        return None
    known = _directions(model.program_vectors[there])
    names = [model.programs[row].name for row in there]
    return _neighbours(names, _cosine(_directions(vectors), known), _cosine(known, known))


def program_isolation(model: Model, vectors: NDArray[np.float64], neighbours: int) -> NDArray[np.float64] | None:
    """[n] distances of program vectors [n, d] to the `neighbours`-th nearest training program; None as above.

    One near program says little: a loop may resemble one other loop and be missed by half. Applications have many.
    """
    if model.program_vectors is None:
        return None
    known = model.program_vectors[model.program_vectors.any(axis=1)]
    if not len(known):
        return None
    place = min(neighbours, len(known)) - 1
    return np.partition(_cosine(_directions(vectors), _directions(known)), place, axis=1)[:, place]


def machine_neighbours(model: Model, machines: Sequence[Machine]) -> Neighbours | None:
    """Return the neighbours of machines by their configurations; None where the model has no encoder."""
    if model.encoder is None or not machines:
        return None
    return feature_neighbours(model, features_of_machines(machines))


def feature_neighbours(model: Model, features: NDArray[np.float32]) -> Neighbours | None:
    """Return the neighbours of machines by their features [n, F] (perfvec.machines.features); None where the model has
    no encoder.
    """
    if model.encoder is None:
        return None
    known = (*model.machines, *model.fitted_machines)
    asked, trained = (_normalised(model.encoder, rows) for rows in (features, features_of_machines(known)))
    names = [machine.name for machine in known]
    return _neighbours(names, _root_mean_square(asked, trained), _root_mean_square(trained, trained))


def _neighbours(names: Sequence[str], distances: NDArray[np.float64], within: NDArray[np.float64]) -> Neighbours:
    """Find neighbours from the distances [n, known] of those asked, and [known, known] within the training set."""
    nearest = distances.argmin(axis=1)
    usual = float("inf")
    if len(within) > 1:
        usual = float((within + np.diag(np.full(len(within), np.inf))).min(axis=1).max())
    return Neighbours(tuple(names[index] for index in nearest), distances.min(axis=1), usual)


def _directions(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _cosine(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(1.0 - one @ other.T, 0.0)


def _root_mean_square(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([np.sqrt(((row - other) ** 2).mean(axis=1)) for row in one])


def _normalised(encoder: MachineEncoder, features: NDArray[np.float32]) -> NDArray[np.float64]:
    mean, scale = encoder.mean.double().numpy(), encoder.scale.double().numpy()
    return (features[:, : len(mean)] - mean) * scale
