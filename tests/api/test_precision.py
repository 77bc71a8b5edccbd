"""``precision=``: what each word permits for arrays of each type."""

from __future__ import annotations

import pytest

from pplconv.arguments.checks import check_precision
from pplconv.numerics import BRAIN_KINDS as BF16

PERMITTED = {
    "f32": {
        None: ("f32",), "auto": ("f32",), "fp32": ("f32",), "fp16": ("f16", "f32"),
        "bf16": (*BF16, "f32"), "low": ("f16", *BF16, "f32"), "low_bf16": BF16,
    },
    "f16": {
        None: ("f16", "f32"), "auto": ("f16", "f32"), "fp32": ("f32",), "fp16": ("f16", "f32"),
        "low": ("f16", "f32"),
    },
    "bf16": {
        None: (*BF16, "f32"), "auto": (*BF16, "f32"), "fp32": ("f32",), "bf16": (*BF16, "f32"),
        "low": (*BF16, "f32"), "low_bf16": BF16,
    },
    "f64": {None: ("f64",), "auto": ("f64",)},
}  # fmt: skip
WORDS = list(PERMITTED["f32"])
LONG = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64"}


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("dtype", PERMITTED)
def test_words(word, dtype):
    if word in PERMITTED[dtype]:
        assert check_precision(word, dtype) == PERMITTED[dtype][word]
    else:
        with pytest.raises(ValueError, match=f"precision must be .* for {LONG[dtype]} arrays") as e:
            check_precision(word, dtype)
        assert repr(word) in str(e.value)


@pytest.mark.parametrize("dtype", PERMITTED)
@pytest.mark.parametrize(
    ("precision", "error"), [("half", ValueError), ("BF16", ValueError), (16, TypeError)]
)
def test_what_is_no_precision(precision, error, dtype):
    with pytest.raises(error, match=f"precision must be .*got {precision!r}"):
        check_precision(precision, dtype)
