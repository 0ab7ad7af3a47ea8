"""LightGBM (Ke et al., NeurIPS 2017), over the same rows as XGBoost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from perfvec.tensor.contract import Floats, library
from perfvec.tensor.models.boosted import Boosted, BoostedParameters, Boosting, Matrix
from support.errors import InputError


@dataclass(frozen=True)
class LightGBMParameters(BoostedParameters):
    rounds: int = 400
    learning_rate: float = 0.1
    subsample: float = 0.8
    columns: float = 0.5
    leaves: int = 63
    smallest_leaf: int = 10

    def check(self) -> None:
        """Raise InputError for shares that are none, and for trees of one leaf."""
        super().check()
        if self.leaves < 2:
            raise InputError(f"leaves is at least 2, not {self.leaves}")


class LightGBM(Boosted):
    NAME = "lightgbm"
    Parameters = LightGBMParameters

    def _boost(self, wanted: Boosting) -> None:
        lightgbm, matrix, objective = library("lightgbm"), wanted.matrix, wanted.objective
        if len(matrix) < 2 * self.parameters.smallest_leaf or not np.ptp(matrix, axis=0).any():
            if self.booster is not None:
                return  # no tree could divide them, and the library fails
            raise InputError(
                f"{self.NAME}: {len(matrix)} rows of features, or all alike, make no tree; train on at least "
                f"{2 * self.parameters.smallest_leaf} that differ"
            )

        def stop(environment: Any) -> None:
            if wanted.ends(environment.model, environment.iteration + 1):
                raise lightgbm.callback.EarlyStopException(environment.iteration, [])

        settings = {
            "objective": wanted.gradient or "regression",
            "num_leaves": self.parameters.leaves,
            "learning_rate": self.parameters.learning_rate,
            "min_data_in_leaf": self.parameters.smallest_leaf,
            "feature_fraction": self.parameters.columns,
            "num_threads": 1,
            "seed": wanted.seed,
            "verbosity": -1,
            "deterministic": True,
            "force_row_wise": True,
            "feature_pre_filter": self.booster is None,  # few records may leave none, where the library fails
            # a candidate's rows must be drawn all or none
            "bagging_fraction": self.parameters.subsample if objective is None else 1.0,
            "bagging_freq": int(objective is None),
        }
        label = wanted.target if objective is None else np.zeros(len(matrix))
        self.booster = lightgbm.train(
            settings,
            lightgbm.Dataset(matrix, label, free_raw_data=False),
            wanted.rounds,
            init_model=self.booster,
            callbacks=[stop],
        )

    def _cut(self, rounds: int) -> None:
        self.booster = self._read(self.booster.model_to_string(num_iteration=rounds).encode())

    def _evaluate(self, matrix: Matrix) -> Floats:
        return np.asarray(self.booster.predict(matrix, num_threads=1), np.float64)

    def _text(self) -> bytes:
        return self.booster.model_to_string(num_iteration=-1).encode()

    def _read(self, text: bytes) -> Any:
        lightgbm = library("lightgbm")

        return lightgbm.Booster(model_str=text.decode())
