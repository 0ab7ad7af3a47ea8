"""XGBoost (Chen and Guestrin, KDD 2016): the cost model of AutoTVM, Ansor and MetaSchedule, the one to beat."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfvec.tensor.contract import Floats, library
from perfvec.tensor.models.boosted import Boosted, Matrix, Objective
from support.errors import InputError


@dataclass(frozen=True)
class XGBoostParameters:
    """As Ansor's and MetaSchedule's own cost model: depth 10, rate 0.2, gamma 0.001, no smallest weight of a leaf."""

    features: str = "statements"
    rows: str = "pooled"
    rounds: int = 300
    depth: int = 10
    learning_rate: float = 0.2
    gamma: float = 0.001  # smallest gain of a split
    min_child_weight: float = 0.0
    subsample: float = 1.0
    columns: float = 1.0  # share of the features that a tree may read

    def check(self) -> None:
        """Raise InputError for shares that are none."""
        if not 0 < self.subsample <= 1 or not 0 < self.columns <= 1:
            raise InputError("subsample and columns are shares above 0, at most 1")
        if not 0 < self.learning_rate <= 1:
            raise InputError(f"learning_rate is above 0 and at most 1, not {self.learning_rate}")


class XGBoost(Boosted):
    NAME = "xgboost"
    Parameters = XGBoostParameters

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
        xgboost = library("xgboost")

        def is_late(self: Any, model: Any, epoch: int, log: Any) -> bool:
            late = deadline is not None and time.process_time() > deadline
            return late or (watch is not None and watch.ends(model, epoch + 1))

        # A class made at run time, as the library is optional.
        until = type("Until", (xgboost.callback.TrainingCallback,), {"after_iteration": is_late})
        settings = {
            "max_depth": self.parameters.depth,
            "eta": self.parameters.learning_rate,
            "seed": seed,
            "nthread": 1,
            "gamma": self.parameters.gamma,
            "min_child_weight": self.parameters.min_child_weight,
            "subsample": self.parameters.subsample,
            "colsample_bytree": self.parameters.columns,
            "tree_method": "hist",
            "verbosity": 0,
        }
        data = xgboost.DMatrix(matrix, target if objective is None else None, nthread=1)
        if objective is not None:
            settings.update(base_score=0.0, subsample=1.0)  # a candidate's rows are drawn all or none

        def gradient(output: Any, _: Any) -> tuple[Any, Any]:
            assert objective is not None
            return objective(np.asarray(output, np.float64))

        self.booster = xgboost.train(
            settings,
            data,
            rounds,
            obj=None if objective is None else gradient,
            xgb_model=self.booster,
            callbacks=[until()],
        )

    def _cut(self, rounds: int) -> None:
        self.booster = self.booster[:rounds]

    def _evaluate(self, matrix: Matrix) -> Floats:
        return self.booster.inplace_predict(matrix).astype(np.float64)

    def _text(self) -> bytes:
        return bytes(self.booster.save_raw("json"))

    def _read(self, text: bytes) -> Any:
        xgboost = library("xgboost")

        return xgboost.Booster({"nthread": 1}, model_file=bytearray(text))
