"""The cost models by name, and named settings of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfvec.tensor.contract import CostModel, from_mapping
from perfvec.tensor.models.additive import Additive
from perfvec.tensor.models.atformer import ATFormer, MaskedATFormer
from perfvec.tensor.models.attention import Attention
from perfvec.tensor.models.attention_tuner import AttentionTuner
from perfvec.tensor.models.blend import Blend
from perfvec.tensor.models.cdmpp import CDMPP
from perfvec.tensor.models.lightgbm import LightGBM
from perfvec.tensor.models.lstm import LSTM
from perfvec.tensor.models.mean import Mean
from perfvec.tensor.models.mlp import MLP
from perfvec.tensor.models.tabnet import TabNet
from perfvec.tensor.models.xgboost import XGBoost
from perfvec.tensor.records import KINDS
from support.errors import InputError

MODELS: dict[str, type[CostModel]] = {
    model.NAME: model
    for model in (
        ATFormer,
        MaskedATFormer,
        CDMPP,
        AttentionTuner,
        Blend,
        Additive,
        XGBoost,
        LightGBM,
        MLP,
        LSTM,
        Attention,
        TabNet,
        Mean,
    )
}


def make(name: str, parameters: Mapping[str, Any] | None = None, *, where: str = "") -> CostModel:
    """An untrained model; `parameters` override its defaults. Raises InputError for names that there are not."""
    if name not in MODELS:
        raise InputError(f"{where + ': ' if where else ''}no model {name!r}; there are {', '.join(MODELS)}")
    kind = MODELS[name]
    where = where or name
    model = kind(from_mapping(kind.Parameters, parameters or {}, where))
    if model.kind not in KINDS:
        raise InputError(f"{where}: no features {model.kind!r}; there are {', '.join(KINDS)}")
    try:
        model.check_parameters()
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    return model
