"""The parser of problem strings: strings that it reads, and strings that it refuses."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.problems import Problem, ProblemError, batched, load, load_nets, parse, select

STEM = 'mb1g1ic3ih224iw224oc32oh112ow112kh3kw3sh2sw2ph1pw1dh0dw0n"mobilenet:conv1*3"'


def test_every_field_of_a_layer():
    assert parse(STEM) == Problem(
        mb=1, groups=1, ic=3, ih=224, iw=224, oc=32, kh=3, kw=3, sh=2, sw=2, ph=1, pw=1,
        dh=1, dw=1, net="mobilenet", layer="conv1", count=3,
    )  # fmt: skip
    assert str(parse(STEM)) == STEM
    assert parse(STEM).output_shape == (1, 32, 112, 112)


def test_missing_fields_follow_benchdnn():
    short = parse("mb1ic64ih56oc64oh56kh3ph1")
    assert short == Problem(mb=1, groups=1, ic=64, ih=56, iw=56, oc=64, kh=3, kw=3, ph=1, pw=1)
    # An output size need not be given, and dh1 means that every second pixel is skipped.
    assert parse("mb1ic1ih9oc1kh3dh1").output_shape == (1, 1, 5, 5)


@given(
    sizes=st.tuples(*[st.integers(1, 40)] * 4),
    kernel=st.tuples(*[st.integers(1, 5)] * 2),
    stride=st.tuples(*[st.integers(1, 3)] * 2),
    pad=st.tuples(*[st.integers(0, 3)] * 2),
    dilation=st.tuples(*[st.integers(1, 3)] * 2),
    groups=st.integers(1, 4),
    count=st.integers(1, 20),
)
def test_the_string_of_a_problem_reads_back(sizes, kernel, stride, pad, dilation, groups, count):
    problem = Problem(
        1, groups, sizes[0] * groups, sizes[1], sizes[2], sizes[3] * groups, *kernel, *stride, *pad,
        *dilation, net="net", layer="a/b", count=count,
    )  # fmt: skip
    assume(problem.oh > 0 and problem.ow > 0)
    assert parse(str(problem)) == problem
    assert parse(problem.sizes).sizes == problem.sizes


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("mb1ic3ih8oc4oh7kh3ph1", "oh is 7, but the other sizes give 8"),
        ("mb1ic3ih8oc4oh8ow9kh3ph1", "ow is 9, but the other sizes give 8"),
        ("mb1ic3ih8iw9oc4oh8kh3ph1", "ow is 8, but the other sizes give 9"),
        ("mb1ic3ih8oc4", "kh missing"),
        ("ih8kh1", "mb, ic, oc missing"),
        ("mb1ic3ih8oc4kh3zz1", "'zz1' starts with no known field"),
        ("mb1ic3ih8oc4kh3kh3", "kh given twice"),
        ("mb1g2ic3ih8oc4kh3", "ic3 is no multiple of g2"),
        ("mb1g2ic4ih8oc3kh3", "oc3 is no multiple of g2"),
        ("mb0ic3ih8oc4kh3", "mb is 0, expected at least 1"),
        ("mb1ic3ih8oc4kh3sh0", "sh is 0, expected at least 1"),
        ("mb1ic3ih2oc4kh3", "kernel is larger"),
        ('mb1ic3ih8oc4kh3n"a:b*c"', "is no name"),
        ('mb1ic3ih8oc4kh3n"a:b', "is no name"),
        ("", "missing"),
    ],
)
def test_a_wrong_problem_says_what_is_wrong(text, complaint):
    with pytest.raises(ProblemError) as caught:
        parse(text)
    assert complaint in str(caught.value)


def test_a_wrong_line_is_named(tmp_path):
    path = tmp_path / "shapes.txt"
    path.write_text(f'# comment\n\n{STEM}\nmb1ic3ih8oc4oh7kh3ph1n"net:bad"\n')
    with pytest.raises(ProblemError, match=r"shapes\.txt, line 4: oh is 7"):
        load(path)


def test_a_layer_may_occur_once(tmp_path):
    path = tmp_path / "shapes.txt"
    path.write_text(f"{STEM}\n{STEM}\n")
    with pytest.raises(ProblemError, match="line 2: mobilenet:conv1 already stands in line 1"):
        load(path)


def test_the_shipped_networks():
    nets = load_nets()
    assert {net: len(problems) for net, problems in nets.items()} == {
        "large_kernels": 28,
        "mobilenet": 20,
        "mobilenet_v2": 31,
        "resnet_50": 20,
        "super_resolution": 6,
        "vgg_19": 9,
        "yolov3_tiny": 12,
    }
    megaflops = {p.name: round(p.flops / 1e6, 1) for problems in nets.values() for p in problems}
    assert megaflops["resnet_50:conv1"] == 236.0
    assert megaflops["resnet_50:res2a_branch2b"] == 231.2
    assert megaflops["vgg_19:conv1_2"] == 3699.4
    assert megaflops["mobilenet:conv2_1/dw"] == 7.2
    kinds = {p.name: p.kind for problems in nets.values() for p in problems}
    assert kinds["resnet_50:conv1"] == "stem"
    assert kinds["vgg_19:conv1_1"] == "stem"
    assert kinds["resnet_50:res5a_branch1"] == "1x1"
    assert kinds["vgg_19:conv5_1"] == "3x3"
    assert kinds["mobilenet:conv6/dw"] == "depthwise"


def test_whole_networks_have_the_work_that_is_known_of_them():
    """Multiply-adds from the papers' and the frameworks' own tables."""
    nets = load_nets()
    work = {net: sum(p.flops * p.count for p in nets[net]) / 2 for net in nets}
    # MobileNetV2's paper says 300 M; counted by hand, with the classifier: 300 774 272.
    assert work["mobilenet_v2"] == 300_774_272
    # Darknet prints 5.56 BFLOP for YOLOv3-tiny.
    assert round(2 * work["yolov3_tiny"] / 1e9, 2) == 5.56
    body = next(p for p in nets["super_resolution"] if p.layer == "body")
    assert (body.count, body.flops / 2) == (16, 64 * 64 * 9 * 180 * 320)


def test_the_layers_of_each_network_fit_together():
    nets = load_nets()
    mobile = {p.layer: p for p in nets["mobilenet_v2"]}
    assert sum(p.count for p in mobile.values()) == 1 + 17 * 3 - 1 + 2
    for name, p in mobile.items():
        if name.endswith("/dw"):
            assert p.kind == "depthwise"
            assert p.oc == p.ic
        if name.endswith("/project"):
            # Its depthwise layer may be an earlier block's, of the same size.
            sizes = {(d.oc, d.oh) for d in mobile.values() if d.kind == "depthwise"}
            assert (p.ic, p.ih) in sizes
    yolo = {p.layer: p for p in nets["yolov3_tiny"]}
    chain = ["conv0", "conv2", "conv4", "conv6", "conv8", "conv10"]
    for first, second in itertools.pairwise(chain):
        # A 2x2 pooling lies between.
        assert (yolo[second].ic, yolo[second].ih) == (yolo[first].oc, yolo[first].oh // 2)
    assert yolo["conv21"].ic == yolo["conv18"].oc + yolo["conv8"].oc
    assert yolo["conv15"].oc == yolo["conv22"].oc == 3 * (80 + 5)
    kinds = {p.layer: p.kind for p in nets["super_resolution"]}
    assert (kinds["luma_head"], kinds["body"], kinds["tail_x2"]) == ("stem", "3x3", "3x3")


def test_a_batch_changes_the_size_and_nothing_else():
    nets = load_nets()
    eight = batched(nets, 8)
    for net in nets:
        for one, many in zip(nets[net], eight[net], strict=True):
            assert many.mb == 8
            assert many.flops == 8 * one.flops
            assert (many.name, many.count, many.kind) == (one.name, one.count, one.kind)
            assert parse(str(many)) == many


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("mb1ic8ih8oc8kh3ph1", "3x3"),
        ("mb1ic8ih8oc8kh3sh2ph1", "other"),
        ("mb1ic8ih8oc8kh3dh1ph2", "other"),
        ("mb1g2ic8ih8oc8kh3ph1", "3x3"),
        ("mb1ic8ih8oc8kh5ph2", "other"),
        ("mb1ic8ih8oc8kh1sh2", "1x1"),
    ],
)
def test_classes(text, kind):
    assert parse(text).kind == kind


def test_compulsory_bytes():
    # 2 x 8 x 8 in, 4 x 2 weights, 4 x 8 x 8 out.
    assert parse("mb1ic2ih8oc4kh1").compulsory_bytes == 4 * (128 + 8 + 256)
    # A strided 1x1 looks at a quarter of its input.
    assert parse("mb1ic2ih8oc4kh1sh2").compulsory_bytes == 4 * (32 + 8 + 64)
    # Padding is not read; a stride of 2 with 3 taps and padding 1 sees all of 8 pixels.
    assert parse("mb1ic1ih8oc1kh3sh2ph1").compulsory_bytes == 4 * (64 + 9 + 16)
    assert parse("mb3ic2ih8oc4kh1").compulsory_bytes == 4 * (3 * 128 + 8 + 3 * 256)


def test_selection_by_net_name_and_class():
    nets = load_nets()
    assert list(select(nets, ["vgg_19"])) == ["vgg_19"]
    picked = select(nets, ["resnet_50", "mobilenet"], "branch2b|depthwise")
    assert {p.kind for p in picked["resnet_50"]} == {"3x3"}
    assert {p.kind for p in picked["mobilenet"]} == {"depthwise"}


@pytest.mark.parametrize(
    ("names", "layers", "complaint"),
    [
        (["resnet"], "", "unknown net resnet: expected some of large_kernels, mobilenet"),
        ([], "(", "is no regular expression"),
        (["vgg_19"], "dw", "matches no layer of vgg_19"),
    ],
)
def test_a_selection_of_nothing_is_refused(names, layers, complaint):
    with pytest.raises(ProblemError) as caught:
        select(load_nets(), names, layers)
    assert complaint in str(caught.value)
