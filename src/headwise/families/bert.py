"""BERT (Devlin et al. 2019), RoBERTa (Liu et al. 2019) and DistilBERT (Sanh et al. 2019)."""

from __future__ import annotations

from typing import Any

from headwise.families.fields import Fields
from headwise.families.names import Names, Rule, Same, same
from headwise.families.shared import ACTIVATION_NAMES, ACTIVATIONS, About
from headwise.transformer.config import ModelConfig, Positions, StackConfig

STACKS = {"encoder"}
CLASSES = {
    "bert": {"BertModel": "none", "BertForMaskedLM": "masked", "BertForPreTraining": "masked"},
    "roberta": {"RobertaModel": "none", "RobertaForMaskedLM": "masked"},
    "distilbert": {"DistilBertModel": "none", "DistilBertForMaskedLM": "masked"},
}


def read(fields: Fields, about: About) -> ModelConfig:
    """The configuration of a file."""
    small = about.architecture == "distilbert"
    for name in ("is_decoder", "add_cross_attention"):
        fields.must_be(name, False)
    # DistilBERT's positions are read from the file however they began; its embeddings are tied as elsewhere.
    fields.flag("sinusoidal_pos_embds", False)
    fields.must_be("tie_weights_", True)
    fields.must_be("position_embedding_type", "absolute")
    vocabulary = fields.size("vocab_size")
    pad = fields.token("pad_token_id", vocabulary)
    # RoBERTa counts positions from the one after its padding id; those rows of the table are never looked up.
    offset = (1 if pad is None else pad) + 1 if about.architecture == "roberta" else 0
    table = fields.size("max_position_embeddings", 512)
    if table <= offset:
        raise fields.error("max_position_embeddings", f"got {table}, wanted more than the {offset} reserved ones")
    stack = StackConfig(
        layers=fields.layers("n_layers" if small else "num_hidden_layers"),
        dim=fields.size("dim" if small else "hidden_size"),
        heads=fields.size("n_heads" if small else "num_attention_heads"),
        hidden=fields.size("hidden_dim" if small else "intermediate_size"),
        positions=Positions(kind="learned", count=table - offset, offset=offset),
        epsilon=1e-12 if small else fields.number("layer_norm_eps", 1e-12),
        norm_place="post",
        embedding_norm=True,
        final_norm=False,
        activation=fields.choice("activation" if small else "hidden_act", ACTIVATIONS, "gelu"),
        dropout=fields.number("dropout" if small else "hidden_dropout_prob", 0.1, high=0.99),
        attention_dropout=fields.number(
            "attention_dropout" if small else "attention_probs_dropout_prob", 0.1, high=0.99
        ),
    )
    return ModelConfig(
        vocabulary=vocabulary,
        encoder=stack,
        head="masked" if about.head == "masked" else "none",
        head_bias=about.head == "masked",
        tied=fields.flag("tie_word_embeddings", True),
        token_types=0 if small else fields.size("type_vocab_size", 2),
        pooler=any(name.endswith("pooler.dense.weight") for name in about.names),
        deviation=fields.number("initializer_range", 0.02),
        context=table - offset,
        pad_id=pad,
        begin_id=fields.token("bos_token_id", vocabulary),
        end_ids=fields.tokens("eos_token_id", vocabulary),
    )


def write(config: ModelConfig) -> dict[str, Any]:
    """The fields of the reference library."""
    stack = config.stacks["encoder"]
    table = stack.positions.count + stack.positions.offset
    if config.architecture == "distilbert":
        return {
            "n_layers": stack.layers,
            "dim": stack.dim,
            "n_heads": stack.heads,
            "hidden_dim": stack.hidden,
            "max_position_embeddings": table,
            "activation": ACTIVATION_NAMES[stack.activation],
            "dropout": stack.dropout,
            "attention_dropout": stack.attention_dropout,
            "initializer_range": config.deviation,
        }
    return {
        "num_hidden_layers": stack.layers,
        "hidden_size": stack.dim,
        "num_attention_heads": stack.heads,
        "intermediate_size": stack.hidden,
        "max_position_embeddings": table,
        "type_vocab_size": config.token_types,
        "hidden_act": ACTIVATION_NAMES[stack.activation],
        "layer_norm_eps": stack.epsilon,
        "hidden_dropout_prob": stack.dropout,
        "attention_probs_dropout_prob": stack.attention_dropout,
        "initializer_range": config.deviation,
    }


def names(config: ModelConfig) -> Names:
    """The table for this configuration."""
    base = [
        *same("embeddings.word_embeddings", "embedding"),
        Same("embeddings.position_embeddings.weight", "encoder.positions.weight"),
        *same("embeddings.LayerNorm", "encoder.embedding_norm", bias=True),
    ]
    if config.token_types:
        base += same("embeddings.token_type_embeddings", "encoder.token_types")
    if config.pooler:
        base += same("pooler.dense", "pooler.dense", bias=True)
    theirs = _LAYERS["distilbert" if config.architecture == "distilbert" else "bert"]
    for i in range(config.layers):
        for ours, their in theirs.items():
            base += same(their.format(i=i), f"encoder.blocks.{i}.{ours}", bias=True)
    return Names(
        base=base,
        head=_head(config) if config.head == "masked" else (),
        prefix=f"{config.architecture}.",
        ties=_TIES[config.architecture] if config.head == "masked" else {},
        older={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
        ignored=[*_IGNORED, *([] if config.tied or config.head != "masked" else [_HEADS[config.architecture][2]])],
    )


def _head(config: ModelConfig) -> list[Rule]:
    dense, norm, bias = _HEADS[config.architecture]
    rules = [*same(dense, "head.dense", bias=True), *same(norm, "head.norm", bias=True)]
    if config.tied:
        return [*rules, Same(bias, "head.words.bias")]
    # A head of its own has a bias of its own too; the one beside it is then not computed with.
    own = {ours: theirs for theirs, ours in _TIES[config.architecture].items()}
    words = Same(own["embedding.weight"], "head.words.weight")
    return [*rules, words, Same(own.get("head.words.bias", bias), "head.words.bias")]


_IGNORED = ("*embeddings.position_ids", "*embeddings.token_type_ids", "cls.seq_relationship.*")
_HEADS = {
    "bert": ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"),
    "roberta": ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    "distilbert": ("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
}
_TIES = {
    "bert": {"cls.predictions.decoder.weight": "embedding.weight", "cls.predictions.decoder.bias": "head.words.bias"},
    "roberta": {"lm_head.decoder.weight": "embedding.weight", "lm_head.decoder.bias": "head.words.bias"},
    "distilbert": {"vocab_projector.weight": "embedding.weight"},
}
_LAYERS = {
    "bert": {
        "attention.query": "encoder.layer.{i}.attention.self.query",
        "attention.key": "encoder.layer.{i}.attention.self.key",
        "attention.value": "encoder.layer.{i}.attention.self.value",
        "attention.output": "encoder.layer.{i}.attention.output.dense",
        "attention_norm": "encoder.layer.{i}.attention.output.LayerNorm",
        "feedforward.up": "encoder.layer.{i}.intermediate.dense",
        "feedforward.down": "encoder.layer.{i}.output.dense",
        "feedforward_norm": "encoder.layer.{i}.output.LayerNorm",
    },
    "distilbert": {
        "attention.query": "transformer.layer.{i}.attention.q_lin",
        "attention.key": "transformer.layer.{i}.attention.k_lin",
        "attention.value": "transformer.layer.{i}.attention.v_lin",
        "attention.output": "transformer.layer.{i}.attention.out_lin",
        "attention_norm": "transformer.layer.{i}.sa_layer_norm",
        "feedforward.up": "transformer.layer.{i}.ffn.lin1",
        "feedforward.down": "transformer.layer.{i}.ffn.lin2",
        "feedforward_norm": "transformer.layer.{i}.output_layer_norm",
    },
}
