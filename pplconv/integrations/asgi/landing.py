"""The page at ``/``: what is served, and a form that tries it. It loads nothing from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Sequence
from string import Template
from urllib.parse import quote

from .http_tensors import Tensor

__all__ = ["HEADERS", "page"]

# A browser asks this server only.
HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'"
}


def page(name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> str:
    """Write the page of a model."""
    rows = [
        f"<tr><td>{kind}<td>{html.escape(tensor.name)}<td>{tensor.datatype}<td>"
        + "x".join("?" if n < 0 else str(n) for n in tensor.shape)
        for kind, tensors in (("input", inputs), ("output", outputs))
        for tensor in tensors
    ]
    path = f"v2/models/{quote(name, safe='')}"
    return _PAGE.substitute(name=html.escape(name), model=path, rows="\n".join(rows))


_PAGE = Template("""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>$name - pplconv</title>
<link rel="icon" href="data:,">
<style>
:root { color-scheme: light dark; }
body { margin: auto; padding: 1em; max-width: 50em; font: 16px/1.5 system-ui, sans-serif;
  overflow-wrap: anywhere; }
table { width: 100%; border-collapse: collapse; }
td { padding: .3em .5em .3em 0; border-top: 1px solid gray; }
fieldset { margin: 1em 0; min-width: 0; display: flex; flex-wrap: wrap; gap: 1em; }
label { max-width: 100%; }
input, select, textarea, button { font: inherit; display: block; max-width: 100%; }
canvas { width: 20em; max-width: 100%; image-rendering: pixelated; }
</style>
<h1>$name</h1>
<p><a href="$model">Model</a> · <a href="$model/config">Configuration</a> ·
<a href="metrics">Metrics</a> · <a href="v2">Server</a></p>
<table>
$rows
</table>
<h2>Try it</h2>
<form></form>
<div id="answer" aria-live="polite"></div>
<noscript>The form needs JavaScript.</noscript>
<script>
"use strict";
const model = "$model", [form, answer] = document.querySelectorAll("form, #answer");
const types = { BOOL: Uint8Array, UINT8: Uint8Array, UINT16: Uint16Array, UINT32: Uint32Array,
  UINT64: BigUint64Array, INT8: Int8Array, INT16: Int16Array, INT32: Int32Array,
  INT64: BigInt64Array, FP16: globalThis.Float16Array, FP32: Float32Array, FP64: Float64Array };
const scales = { "0 to 1": v => v / 255, "0 to 255": v => v, "ImageNet's": (v, k) =>
  (v / 255 - [.485, .456, .406][k]) / [.229, .224, .225][k] };
const add = (to, tag, values) =>
  to.appendChild(Object.assign(document.createElement(tag), values));
const say = textContent => add(answer, "p", { textContent });
const field = (to, textContent, tag, values) => add(add(to, "label", { textContent }), tag, values);

function fields({ name, datatype, shape }) {
  const set = add(form, "fieldset"), deep = n => n == 1 || n == 3;
  add(set, "legend", { textContent: name });
  const last = deep(shape[3]) && !deep(shape[1]), depth = last ? 3 : 1;
  const sizes = field(set, "Shape", "input", {
    value: shape.map((n, i) => n > 0 ? n : i ? i == depth ? 3 : 64 : 1) });
  const list = field(set, "Numbers as JSON", "textarea", { placeholder: "random" });
  let file, scale;
  if (shape.length == 4) {
    file = field(set, "Or an image", "input", { type: "file", accept: "image/*" });
    scale = field(set, "Its values", "select");
    for (const textContent in scales) add(scale, "option", { textContent });
  }

  return async () => {
    const size = sizes.value.match(/[0-9]+/g)?.map(Number) ?? [];
    const length = size.reduce((a, b) => a * b, 1);
    let value = Math.random;
    if (file?.files[0]) {
      const c = size[depth], [height, width] = last ? size.slice(1) : size.slice(2);
      const context = new OffscreenCanvas(width, height).getContext("2d");
      context.drawImage(await createImageBitmap(file.files[0]), 0, 0, width, height);
      const rgba = context.getImageData(0, 0, width, height).data, area = width * height;
      value = (_, i) => {
        const k = last ? i % c : Math.floor(i / area), at = last ? (i - k) / c : i % area;
        return scales[scale.value](rgba[4 * at + k], k);
      };
    }
    const numbers = list.value ? JSON.parse("[" + list.value + "]").flat(Infinity)
      : Array.from({ length }, value);
    const whole = /INT64/.test(datatype) ? v => BigInt(Math.round(v)) : v => v;
    const data = types[datatype].from(numbers, whole);
    const parameters = { binary_data_size: data.byteLength };
    return [{ name, datatype, shape: size, parameters }, data];
  };
}

function tell({ name, datatype, shape, data: given }) {
  const data = given.map(Number);
  const order = [...data.keys()].sort((a, b) => data[b] - data[a]);
  say(name + " " + datatype + " " + shape.join("x") + ", largest (index: value) " +
    order.slice(0, 5).map(i => i + ": " + Number(data[i].toPrecision(4))).join(", "));
  const [height, width] = shape.slice(-2);
  if (shape.length < 3 || height < 8 || width < 8) return;  // others are drawn: the first plane
  const plane = order.filter(i => i < width * height), low = data[plane.at(-1)];
  const range = data[plane[0]] - low || 1;
  const image = new ImageData(width, height);
  image.data.forEach((_, i, all) => {
    all[i] = i % 4 == 3 ? 255 : 255 * (data[i >> 2] - low) / range;
  });
  add(answer, "canvas", { width, height }).getContext("2d").putImageData(image, 0, 0);
}

async function ask(all) {
  const made = await Promise.all(all.map(one => one()));
  const head = new TextEncoder().encode(JSON.stringify({ inputs: made.map(([item]) => item) }));
  const begin = performance.now();
  const got = await fetch(model + "/infer", { method: "POST",
    headers: { "Inference-Header-Content-Length": head.length },
    body: new Blob([head, ...made.map(([, data]) => data)]) });
  const told = await got.json();
  if (!got.ok) throw Error(told.error);
  say("Answered in " + (performance.now() - begin).toFixed(1) + " ms");
  told.outputs.forEach(tell);
}

fetch(model).then(got => got.json()).then(({ inputs }) => {
  const all = inputs.map(fields), button = add(form, "button", { textContent: "Run" });
  form.onsubmit = async event => {
    event.preventDefault();
    answer.replaceChildren();
    button.disabled = true;
    await ask(all).catch(error => say(error.message));
    button.disabled = false;
  };
});
</script>
</html>
""")
