"""XGBoost (Chen and Guestrin, KDD 2016): the cost model of AutoTVM, Ansor and MetaSchedule, the one to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from perfvec.tensor.contract import Floats, library
from perfvec.tensor.models.boosted import Boosted, BoostedParameters, Boosting, Matrix


@dataclass(frozen=True)
class XGBoostParameters(BoostedParameters):
    """Parameters of Ansor's and MetaSchedule's own cost model: depth 10, rate 0.2, gamma 0.001, no smallest weight of a
    leaf.
    """

    depth: int = 10
    gamma: float = 0.001  # smallest gain of a split
    min_child_weight: float = 0.0


class XGBoost(Boosted):
    NAME = "xgboost"
    Parameters = XGBoostParameters

    def _boost(self, wanted: Boosting) -> None:
        xgboost, objective = library("xgboost"), wanted.objective

        def ends(self: Any, model: Any, epoch: int, log: Any) -> bool:
            return wanted.ends(model, epoch + 1)

        # A class made at run time, as the library is optional.
        until = type("Until", (xgboost.callback.TrainingCallback,), {"after_iteration": ends})
        settings = {
            "max_depth": self.parameters.depth,
            "eta": self.parameters.learning_rate,
            "seed": wanted.seed,
            "nthread": 1,
            "gamma": self.parameters.gamma,
            "min_child_weight": self.parameters.min_child_weight,
            "subsample": self.parameters.subsample,
            "colsample_bytree": self.parameters.columns,
            "tree_method": "hist",
            "verbosity": 0,
        }
        data = xgboost.DMatrix(wanted.matrix, wanted.target if objective is None else None, nthread=1)
        if objective is not None:
            settings.update(base_score=0.0, subsample=1.0)  # a candidate's rows are drawn all or none

        self.booster = xgboost.train(
            settings, data, wanted.rounds, obj=wanted.gradient, xgb_model=self.booster, callbacks=[until()]
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
