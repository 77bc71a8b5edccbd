"""A TFLite model of a single convolution, for the engine that reads TFLite."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.base import Array32
from benchmarks.problems import Problem

_SCHEMA_VERSION = 3
_FILE_IDENTIFIER = b"TFL3"
# The schema asks for this alignment of a buffer's data.
_BUFFER_ALIGNMENT = 16


@dataclass
class _Graph:
    """Collects the tables of a model; flatbuffers wants every inner table finished first."""

    builder: Any
    # Buffer 0 is the empty one that tensors without data refer to.
    buffers: list[int] = field(default_factory=list)
    tensors: list[int] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    operators: list[int] = field(default_factory=list)

    def bytes_of(self, data: bytes) -> int:
        """Write raw bytes, aligned, and give their offset."""
        builder = self.builder
        builder.StartVector(1, len(data), _BUFFER_ALIGNMENT)
        builder.head -= len(data)
        builder.Bytes[builder.head : builder.head + len(data)] = data
        return int(builder.EndVector())

    def ints(self, values: tuple[int, ...]) -> int:
        return int(self.builder.CreateNumpyVector(np.asarray(values, np.int32)))

    def offsets(self, values: list[int]) -> int:
        self.builder.StartVector(4, len(values), 4)
        for value in reversed(values):
            self.builder.PrependUOffsetTRelative(value)
        return int(self.builder.EndVector())

    def buffer(self, data: bytes = b"") -> int:
        import tflite

        content = self.bytes_of(data) if data else 0
        tflite.BufferStart(self.builder)
        if data:
            tflite.BufferAddData(self.builder, content)
        self.buffers.append(tflite.BufferEnd(self.builder))
        return len(self.buffers) - 1

    def tensor(
        self, name: str, shape: tuple[int, ...], data: NDArray[np.generic] | None = None
    ) -> int:
        import tflite

        kind = tflite.TensorType.FLOAT32
        if data is not None and data.dtype == np.int32:
            kind = tflite.TensorType.INT32
        buffer = 0 if data is None else self.buffer(data.tobytes())
        name_offset, shape_offset = self.builder.CreateString(name), self.ints(shape)
        tflite.TensorStart(self.builder)
        tflite.TensorAddShape(self.builder, shape_offset)
        tflite.TensorAddType(self.builder, kind)
        tflite.TensorAddBuffer(self.builder, buffer)
        tflite.TensorAddName(self.builder, name_offset)
        self.tensors.append(tflite.TensorEnd(self.builder))
        return len(self.tensors) - 1

    def operator(
        self, code: int, inputs: tuple[int, ...], output: int, options: tuple[int, int]
    ) -> None:
        """Add an operator; `options` are the type of its options table and its offset."""
        import tflite

        builder = self.builder
        tflite.OperatorCodeStart(builder)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, code)
        tflite.OperatorCodeAddVersion(builder, 1)
        tflite.OperatorCodeAddBuiltinCode(builder, code)
        self.codes.append(tflite.OperatorCodeEnd(builder))
        ins, outs = self.ints(inputs), self.ints((output,))
        tflite.OperatorStart(builder)
        tflite.OperatorAddOpcodeIndex(builder, len(self.codes) - 1)
        tflite.OperatorAddInputs(builder, ins)
        tflite.OperatorAddOutputs(builder, outs)
        tflite.OperatorAddBuiltinOptionsType(builder, options[0])
        tflite.OperatorAddBuiltinOptions(builder, options[1])
        self.operators.append(tflite.OperatorEnd(builder))

    def finish(self, source: int, result: int) -> bytes:
        import tflite

        builder = self.builder
        tensors, operators = self.offsets(self.tensors), self.offsets(self.operators)
        ins, outs = self.ints((source,)), self.ints((result,))
        tflite.SubGraphStart(builder)
        tflite.SubGraphAddTensors(builder, tensors)
        tflite.SubGraphAddInputs(builder, ins)
        tflite.SubGraphAddOutputs(builder, outs)
        tflite.SubGraphAddOperators(builder, operators)
        subgraphs = self.offsets([tflite.SubGraphEnd(builder)])
        codes, buffers = self.offsets(self.codes), self.offsets(self.buffers)
        tflite.ModelStart(builder)
        tflite.ModelAddVersion(builder, _SCHEMA_VERSION)
        tflite.ModelAddOperatorCodes(builder, codes)
        tflite.ModelAddSubgraphs(builder, subgraphs)
        tflite.ModelAddBuffers(builder, buffers)
        builder.Finish(tflite.ModelEnd(builder), file_identifier=_FILE_IDENTIFIER)
        return bytes(builder.Output())


def conv_model(problem: Problem, w: Array32) -> bytes:
    """Write a model of one convolution, NHWC, padded as `problem` says.

    TFLite's own padding is none or TensorFlow's "same". Where ours is neither, an operator that
    pads comes first; XNNPACK merges the two.
    """
    import flatbuffers
    import tflite

    p = problem
    graph = _Graph(flatbuffers.Builder(w.nbytes + 4096))
    graph.buffer()
    source = graph.tensor("x", (p.mb, p.ih, p.iw, p.ic))
    padded = source
    same = _is_same(p.ih, p.oh, p.kh, p.sh, p.ph, p.dh) and _is_same(
        p.iw, p.ow, p.kw, p.sw, p.pw, p.dw
    )
    if (p.ph or p.pw) and not same:
        pads = np.array([[0, 0], [p.ph, p.ph], [p.pw, p.pw], [0, 0]], np.int32)
        amount = graph.tensor("pads", pads.shape, pads)
        padded = graph.tensor("padded", (p.mb, p.ih + 2 * p.ph, p.iw + 2 * p.pw, p.ic))
        tflite.PadOptionsStart(graph.builder)
        options = (tflite.BuiltinOptions.PadOptions, tflite.PadOptionsEnd(graph.builder))
        graph.operator(tflite.BuiltinOperator.PAD, (source, amount), padded, options)
    depthwise = p.groups > 1 and p.groups == p.ic
    kernel = w.reshape(1, p.oc, p.kh, p.kw) if depthwise else w
    kernel = np.ascontiguousarray(kernel.transpose(0, 2, 3, 1))
    weight = graph.tensor("w", kernel.shape, kernel)
    bias = graph.tensor("b", (p.oc,), np.zeros(p.oc, np.float32))
    result = graph.tensor("y", (p.mb, p.oh, p.ow, p.oc))
    padding = tflite.Padding.SAME if same else tflite.Padding.VALID
    code = tflite.BuiltinOperator.DEPTHWISE_CONV_2D if depthwise else tflite.BuiltinOperator.CONV_2D
    options = _conv_options(graph.builder, p, padding, depthwise)
    graph.operator(code, (padded, weight, bias), result, options)
    return graph.finish(source, result)


def _is_same(size: int, out: int, kernel: int, stride: int, pad: int, dilation: int) -> bool:
    """Tell whether padding by `pad` on both sides is what TensorFlow calls "same"."""
    if out != -(-size // stride):
        return False
    total = max((out - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2 == pad and total - total // 2 == pad


def _conv_options(builder: Any, p: Problem, padding: int, depthwise: bool) -> tuple[int, int]:
    import tflite

    kind = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
    settings = {
        "Padding": padding,
        "StrideW": p.sw,
        "StrideH": p.sh,
        "DilationWFactor": p.dw,
        "DilationHFactor": p.dh,
    }
    if depthwise:
        settings["DepthMultiplier"] = p.oc // p.ic
    getattr(tflite, f"{kind}Start")(builder)
    for name, value in settings.items():
        getattr(tflite, f"{kind}Add{name}")(builder, value)
    return getattr(tflite.BuiltinOptions, kind), getattr(tflite, f"{kind}End")(builder)
