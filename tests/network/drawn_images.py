"""Drawn operators of images: windows, normalizations, moves."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.network.drawing_cases import Case, Rng, axis, either, floats, maybe, numbers, pick, shape


def _window(rng: Rng, average: bool, dilated: bool = True) -> Case:
    rank = int(pick(rng, 1, 1, 2, 3))
    kernel = rng.integers(1, 4, rank)
    dilations = rng.integers(1, 3, rank) if dilated else np.ones(rank, int)
    span = (kernel - 1) * dilations + 1
    sizes = [int(rng.integers(max(1, s - 1), s + 5)) for s in span]
    given: dict[str, Any] = {"kernel_shape": kernel.tolist()}
    if rng.random() < 0.7:
        given["strides"] = rng.integers(1, 4, rank).tolist()
    if dilated and rng.random() < 0.6:
        given["dilations"] = dilations.tolist()
    elif dilated:
        span = kernel
    mode = pick(rng, "NOTSET", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    if mode != "NOTSET":
        given["auto_pad"] = mode
        if mode.startswith("SAME"):
            # onnxruntime forgets the dilation there, and refuses strides beyond the window.
            given.pop("dilations", None)
            given.pop("strides", None)
    elif rng.random() < 0.7:
        given["pads"] = [int(rng.integers(0, k)) for _ in range(2) for k in kernel]
    if rng.random() < 0.5:
        given["ceil_mode"] = 1
    if average and rng.random() < 0.5:
        given["count_include_pad"] = 1
    return Case([floats(rng, int(rng.integers(1, 3)), 2, *sizes)], given, opset=19)


def max_pool(rng: Rng) -> Case:
    """Windows of one to three dimensions, sometimes with indices."""
    case = _window(rng, False)
    if rng.random() < 0.3:
        case.outputs = 2
        case.attributes |= maybe(rng, storage_order=1)
    if rng.random() < 0.2:
        case.inputs = [numbers(rng, *case.inputs[0].shape, dtypes=(np.int8, np.uint8))]
    return case


def average_pool(rng: Rng) -> Case:
    """As `max_pool`."""
    return _window(rng, True)


def lp_pool(rng: Rng) -> Case:
    """As `max_pool`."""
    case = _window(rng, False)
    case.opset = 18
    case.attributes |= maybe(rng, p=int(rng.integers(1, 4)))
    return case


def global_pool(rng: Rng) -> Case:
    """Of one to three dimensions."""
    return Case([floats(rng, 2, 3, *shape(rng, 1, 3))])


def global_lp_pool(rng: Rng) -> Case:
    """Of two dimensions."""
    return Case([floats(rng, 2, 3, 4, 5)], maybe(rng, p=int(rng.integers(1, 4))))


def lp_normalization(rng: Rng) -> Case:
    """Also where all elements are zero."""
    sizes = shape(rng)
    x = floats(rng, *sizes) * (rng.random(sizes) < 0.7).astype(np.float32)
    return Case([x], maybe(rng, p=int(rng.integers(1, 3)), axis=axis(rng, len(sizes))))


def lrn(rng: Rng) -> Case:
    """Odd sizes, for onnxruntime has no others; larger than the channels too."""
    given = maybe(rng, alpha=float(rng.random()), beta=float(rng.random()), bias=1.5)
    return Case(
        [floats(rng, 2, int(rng.integers(1, 7)), *shape(rng, 2, 2)) * 5],
        {"size": 2 * int(rng.integers(4)) + 1, **given},
    )


def group_norm(rng: Rng) -> Case:
    """One scale a channel, as opset 21 has it."""
    groups, each = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    x = floats(rng, 2, groups * each, *shape(rng, 1, 3))
    return Case(
        [x, floats(rng, groups * each), floats(rng, groups * each)],
        {"num_groups": groups, **maybe(rng, epsilon=0.01)},
        opset=21,
    )


def instance_norm(rng: Rng) -> Case:
    """Of one to three dimensions."""
    x = floats(rng, 2, 3, *shape(rng, 1, 3))
    return Case([x, floats(rng, 3), floats(rng, 3)], maybe(rng, epsilon=0.01))


def batch_norm(rng: Rng) -> Case:
    """Of inference, with known and computed numbers."""
    x = floats(rng, 2, 3, *shape(rng, 0, 3))
    known = (1, 2, 3, 4) if rng.random() < 0.5 else ()
    return Case(
        [x, floats(rng, 3), floats(rng, 3), floats(rng, 3), rng.random(3).astype(np.float32)],
        maybe(rng, epsilon=0.01),
        known,
    )


def layer_norm(rng: Rng) -> Case:
    """From any axis, without an offset too, with the means."""
    sizes = shape(rng, 2)
    first = axis(rng, len(sizes))
    inner = sizes[first:]
    inputs = [floats(rng, *sizes), floats(rng, *inner)]
    if rng.random() < 0.6:
        inputs.append(floats(rng, *inner))
    return Case(
        inputs, {"axis": first, **maybe(rng, epsilon=0.01)}, outputs=int(pick(rng, 1, 1, 3))
    )


def mean_variance(rng: Rng) -> Case:
    """Over some axes."""
    axes = [int(a) for a in rng.permutation(4)[: rng.integers(1, 4)]]
    return Case([floats(rng, 2, 3, 4, 5)], maybe(rng, axes=axes))


def rms_norm(rng: Rng) -> Case:
    """From any axis."""
    sizes = shape(rng, 2)
    first = axis(rng, len(sizes))
    return Case(
        [floats(rng, *sizes), floats(rng, *sizes[first:])],
        {"axis": first, **maybe(rng, epsilon=0.01)},
        opset=23,
    )


def conv(rng: Rng) -> Case:
    """Of one to three dimensions, weights known or not."""
    rank = int(pick(rng, 1, 2, 3))
    group = int(pick(rng, 1, 2))
    kernel = rng.integers(1, 4, rank)
    x = floats(rng, 2, 2 * group, *(int(n) for n in rng.integers(5, 8, rank)))
    w = floats(rng, 3 * group, 2, *kernel)
    inputs = [x, w, *([floats(rng, 3 * group)] if rng.random() < 0.6 else [])]
    given: dict[str, Any] = {"group": group}
    given |= maybe(
        rng,
        strides=rng.integers(1, 4, rank).tolist(),
        dilations=rng.integers(1, 3, rank).tolist(),
        kernel_shape=kernel.tolist(),
    )
    mode = pick(rng, "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    if mode == "NOTSET":
        given |= maybe(rng, pads=rng.integers(0, 3, 2 * rank).tolist())
    else:
        given["auto_pad"] = mode
        # onnxruntime refuses both at once.
        given.pop("dilations", None)
    return Case(inputs, given, pick(rng, (), (1, 2)[: len(inputs) - 1]))


def conv_transpose(rng: Rng) -> Case:
    """Of one to three dimensions, weights known or not."""
    rank, group = int(pick(rng, 1, 2, 3)), int(pick(rng, 1, 2))
    kernel, strides = rng.integers(1, 4, rank), rng.integers(1, 4, rank)
    w = floats(rng, 2 * group, 3, *kernel)
    inputs = [floats(rng, 2, 2 * group, *(int(n) for n in rng.integers(3, 6, rank))), w]
    if rng.random() < 0.6:
        inputs.append(floats(rng, 3 * group))
    given: dict[str, Any] = {"group": group, "strides": strides.tolist()}
    given |= maybe(
        rng,
        dilations=rng.integers(1, 3, rank).tolist(),
        kernel_shape=kernel.tolist(),
        output_padding=[int(rng.integers(s)) for s in strides],
    )
    mode = pick(rng, "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    if mode == "NOTSET":
        given |= maybe(rng, pads=rng.integers(0, 2, 2 * rank).tolist())
    else:
        given["auto_pad"] = mode
    return Case(inputs, given, pick(rng, (), (1, 2)[: len(inputs) - 1]))


def resize(rng: Rng) -> Case:
    """Of one to three dimensions beside images, by sizes or scales."""
    rank = int(pick(rng, 3, 4, 5))
    sizes = (1, 2, *(int(n) for n in rng.integers(1, 6, rank - 2)))
    mode = pick(rng, "nearest", "linear")
    given = {
        "mode": mode,
        "coordinate_transformation_mode": pick(
            rng, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"
        ),
    }
    given |= maybe(rng, nearest_mode=pick(rng, "floor", "ceil", "round_prefer_floor"))
    target = np.array([1, 2, *rng.integers(1, 9, rank - 2)], np.int64)
    return Case([floats(rng, *sizes), None, None, target], given, (3,))


def pads(rng: Rng) -> Case:
    """All modes, negative amounts too, of floats and integers."""
    rank = int(rng.integers(1, 5))
    # onnxruntime wants the rest of an axis to be longer than its reflected part.
    sizes = tuple(int(n) for n in rng.integers(5, 8, rank))
    mode = pick(rng, "constant", "reflect", "edge", "wrap")
    amounts = rng.integers(-1, 4, 2 * rank)
    x = either(rng, *sizes)
    inputs: list[Any] = [x, amounts]
    known = [1]
    if rng.random() < 0.5 and mode == "constant":
        inputs.append(np.array(3, x.dtype))
        known.append(2)
    if rng.random() < 0.3:
        axes = rng.permutation(rank)[: rng.integers(1, rank + 1)]
        inputs = [x, rng.integers(-1, 4, 2 * len(axes)), *inputs[2:]]
        inputs += [None] * (3 - len(inputs)) + [axes]
        known.append(3)
    return Case(inputs, {"mode": mode}, tuple(known), opset=19)


def depth_to_space(rng: Rng) -> Case:
    """Of floats, either mode."""
    block = int(rng.integers(1, 4))
    x = floats(rng, 2, block * block * 2, *shape(rng, 2, 2))
    return Case([x], {"blocksize": block, **maybe(rng, mode=pick(rng, "DCR", "CRD"))})


def space_to_depth(rng: Rng) -> Case:
    """Of floats."""
    block = int(rng.integers(1, 4))
    return Case([floats(rng, 2, 3, 2 * block, 3 * block)], {"blocksize": block})


def grid_sample(rng: Rng) -> Case:
    """All modes."""
    x = floats(rng, 2, 3, 4, 5)
    grid = rng.uniform(-1.3, 1.3, (2, 3, 2, 2)).astype(np.float32)
    given = {
        "mode": pick(rng, "linear", "nearest", "cubic"),
        "padding_mode": pick(rng, "zeros", "border", "reflection"),
    }
    return Case([x, grid], given | maybe(rng, align_corners=int(rng.integers(2))), opset=20)


def affine_grid(rng: Rng) -> Case:
    """Of images."""
    return Case(
        [floats(rng, 2, 2, 3), np.array([2, 3, 4, 5])],
        maybe(rng, align_corners=int(rng.integers(2))),
        (1,),
        opset=20,
    )


def roi_align(rng: Rng) -> Case:
    """Both modes; regions partly or wholly outside."""
    corner = rng.uniform(-4, 12, (5, 2))
    rois = np.concatenate([corner, corner + rng.uniform(0.1, 9, (5, 2))], 1).astype(np.float32)
    given = maybe(
        rng,
        mode=pick(rng, "avg", "max"),
        sampling_ratio=int(rng.integers(0, 3)),
        spatial_scale=0.7,
        output_height=2,
        output_width=3,
        coordinate_transformation_mode=pick(rng, "half_pixel", "output_half_pixel"),
    )
    sizes = pick(rng, (8, 8), (5, 9), (1, 4))
    return Case([floats(rng, 2, 3, *sizes), rois, rng.integers(0, 2, 5)], given)


def non_max_suppression(rng: Rng) -> Case:
    """Corners in any order, or centres; equal scores; all limits; all is known."""
    count = int(rng.integers(1, 30))
    boxes = np.concatenate([rng.uniform(0, 9, (2, count, 2)), rng.uniform(0, 4, (2, count, 2))], -1)
    given = maybe(rng, center_point_box=1)
    if not given:
        boxes[..., 2:] += boxes[..., :2]
        turned = rng.random((2, count)) < 0.3
        boxes[turned] = boxes[turned][:, [2, 1, 0, 3]]
    scores = rng.random((2, 3, count)).round(1).astype(np.float32)
    limits = [
        np.array([rng.integers(0, 8)]), rng.random(1, np.float32),
        np.array([pick(rng, 0.0, 0.3, 0.5)], np.float32),
    ]  # fmt: skip
    limits = limits[: rng.integers(1, 4)]
    return Case([boxes.astype(np.float32), scores, *limits], given, tuple(range(2 + len(limits))))


def unpool(rng: Rng) -> Case:
    """Windows of two."""
    x = floats(rng, 1, 2, 3, 3)
    rows, columns = np.mgrid[:3, :3] * 2
    index = (rows + rng.integers(0, 2, (1, 2, 3, 3))) * 6 + columns
    index = index + rng.integers(0, 2, index.shape)
    plane = np.arange(2).reshape(1, 2, 1, 1) * 36
    return Case([x, index + plane], {"kernel_shape": [2, 2], "strides": [2, 2]})


def center_crop(rng: Rng) -> Case:
    """Larger and smaller."""
    sizes = shape(rng, 2, 3)
    axes = [int(a) for a in rng.permutation(len(sizes))[: rng.integers(1, len(sizes) + 1)]]
    return Case([floats(rng, *sizes), rng.integers(1, 8, len(axes))], {"axes": axes}, (1,))


def col2im(rng: Rng) -> Case:
    """Blocks that overlap, and have gaps; images with borders."""
    image, block = np.array([5, 6]), np.array([2, 3])
    stride, apart, pads = rng.integers(1, 3, 2), rng.integers(1, 3, 2), rng.integers(0, 3, 4)
    full = image + pads[:2] + pads[2:]
    count = int(np.prod((full - (block - 1) * apart - 1) // stride + 1))
    given = {
        "strides": stride.tolist(), "dilations": apart.tolist(), "pads": pads.tolist(),
    }  # fmt: skip
    return Case([floats(rng, 2, 3 * 6, count), image, block], given, (1, 2))
