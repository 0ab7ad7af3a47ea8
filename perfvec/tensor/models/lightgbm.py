"""LightGBM (Ke et al., NeurIPS 2017), over the same rows as XGBoost."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfvec.tensor.contract import Floats, library
from perfvec.tensor.models.boosted import Boosted, Matrix, Objective
from support.errors import InputError


@dataclass(frozen=True)
class LightGBMParameters:
    features: str = "statements"
    rows: str = "pooled"
    rounds: int = 400
    leaves: int = 63
    learning_rate: float = 0.1
    smallest_leaf: int = 10
    subsample: float = 0.8
    columns: float = 0.5  # share of the features that a tree may read

    def check(self) -> None:
        """Raise InputError for shares that are none, and for trees of one leaf."""
        if not 0 < self.subsample <= 1 or not 0 < self.columns <= 1:
            raise InputError("subsample and columns are shares above 0, at most 1")
        if not 0 < self.learning_rate <= 1:
            raise InputError(f"learning_rate is above 0 and at most 1, not {self.learning_rate}")
        if self.leaves < 2:
            raise InputError(f"leaves is at least 2, not {self.leaves}")


class LightGBM(Boosted):
    NAME = "lightgbm"
    Parameters = LightGBMParameters

    def _boost(
        self,
        matrix: Matrix,
        target: Floats,
        objective: Objective | None,
        rounds: int,
        seed: int,
        deadline: float | None,
        watch: Any,
    ) -> None:
        lightgbm = library("lightgbm")
        if len(matrix) < 2 * self.parameters.smallest_leaf or not np.ptp(matrix, axis=0).any():
            if self.booster is not None:
                return  # no tree could divide them, and the library fails
            raise InputError(
                f"{self.NAME}: {len(matrix)} rows of features, or all alike, make no tree; train on at least "
                f"{2 * self.parameters.smallest_leaf} that differ"
            )

        def gradient(output: Any, _: Any) -> tuple[Any, Any]:
            assert objective is not None
            return objective(np.asarray(output, np.float64))

        def stop(environment: Any) -> None:
            if deadline is not None and time.process_time() > deadline:
                raise lightgbm.callback.EarlyStopException(environment.iteration, [])
            if watch is not None and watch.ends(environment.model, environment.iteration + 1):
                raise lightgbm.callback.EarlyStopException(environment.iteration, [])

        settings = {
            "objective": "regression" if objective is None else gradient,
            "num_leaves": self.parameters.leaves,
            "learning_rate": self.parameters.learning_rate,
            "min_data_in_leaf": self.parameters.smallest_leaf,
            "feature_fraction": self.parameters.columns,
            "num_threads": 1,
            "seed": seed,
            "verbosity": -1,
            "deterministic": True,
            "force_row_wise": True,
            "feature_pre_filter": self.booster is None,  # few records may leave none, where the library fails
            # a candidate's rows must be drawn all or none
            "bagging_fraction": self.parameters.subsample if objective is None else 1.0,
            "bagging_freq": int(objective is None),
        }
        label = target if objective is None else np.zeros(len(matrix))
        self.booster = lightgbm.train(
            settings,
            lightgbm.Dataset(matrix, label, free_raw_data=False),
            rounds,
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
