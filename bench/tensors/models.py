"""The models that are measured."""

from pathlib import Path

import numpy as np

LARGE = 4_194_304
BATCHES = (1, 2, 4, 8, 16, 32)
VARIABLES = 128


def write(repository, name, config, files):
    version = Path(repository) / name / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(f'name: "{name}"\nbackend: "tlaloc"\n{config}')
    for file, content in files.items():
        (version / file).write_bytes(content if isinstance(content, bytes) else content.encode())


def large(repository, name="large", **parameters):
    """x x + x of 4 Mi values."""
    ty = f"tensor<{LARGE}xf32>"
    body = f"""func.func @main(%x: {ty}) -> {ty} {{
  %square = stablehlo.multiply %x, %x : {ty}
  %y = stablehlo.add %square, %x : {ty}
  return %y : {ty}
}}
"""
    config = f"""input [ {{ name: "X" data_type: TYPE_FP32 dims: [ {LARGE} ] }} ]
output [ {{ name: "Y" data_type: TYPE_FP32 dims: [ {LARGE} ] }} ]
"""
    write(
        repository, name, config + lines(artifact="model.mlir", **parameters), {"model.mlir": body}
    )
    return Path(repository) / name / "1" / "model.mlir"


def lines(**parameters):
    line = 'parameters: {{ key: "{}" value: {{ string_value: "{}" }} }}\n'
    return "".join(line.format(key, value) for key, value in parameters.items())


def covariance():
    factor = np.random.default_rng(0).normal(size=(VARIABLES, VARIABLES)) / VARIABLES**0.5
    return (factor @ factor.T + np.eye(VARIABLES)).astype(np.float32)


def likelihood(repository, name, batching):
    """The gradient of the Gaussian log-likelihood of each row a, which is -K^-1 a.

    The program factorises K, a weight: most of its work does not depend on the rows.
    """
    files = {"covariance.bin": covariance().tobytes()}
    matrix = f"tensor<{VARIABLES}x{VARIABLES}xf32>"
    solve = '"stablehlo.triangular_solve"'
    for batch in BATCHES:
        rows, columns = f"tensor<{batch}x{VARIABLES}xf32>", f"tensor<{VARIABLES}x{batch}xf32>"

        def how(transposed, ty=f"({matrix}, {columns}) -> {columns}"):
            return (
                "<{left_side = true, lower = true, unit_diagonal = false, "
                f"transpose_a = #stablehlo<transpose {transposed}>}}> : {ty}"
            )

        files[f"batch{batch}.mlir"] = f"""func.func @main(%k: {matrix}, %a: {rows}) -> {rows} {{
  %l = stablehlo.cholesky %k, lower = true : {matrix}
  %c = stablehlo.transpose %a, dims = [1, 0] : ({rows}) -> {columns}
  %y = {solve}(%l, %c) {how("NO_TRANSPOSE")}
  %z = {solve}(%l, %y) {how("TRANSPOSE")}
  %t = stablehlo.transpose %z, dims = [1, 0] : ({columns}) -> {rows}
  %gradient = stablehlo.negate %t : {rows}
  return %gradient : {rows}
}}
"""
    model(repository, name, batching, files, [VARIABLES], "weight:covariance.bin, input:A")


def model(repository, name, batching, files, dims, arguments="input:A"):
    """A model with one row shape in and out."""
    config = f"""max_batch_size: {max(BATCHES)}
input [ {{ name: "A" data_type: TYPE_FP32 dims: {dims} }} ]
output [ {{ name: "GRAD" data_type: TYPE_FP32 dims: {dims} }} ]
"""
    if batching:
        config += "dynamic_batching { max_queue_delay_microseconds: 200 }\n"
    bodies = ", ".join(file for file in files if file.endswith(".mlir"))
    write(repository, name, config + lines(artifact=bodies, arguments=arguments), files)


def gradient(repository, name, batching):
    """The gradient of the sum of all elements of A A, for each 2 x 2 row A."""
    files = {}
    for batch in BATCHES:
        ty = f"tensor<{batch}x2x2xf32>"
        dims = "batching_dims = [0] x [0], contracting_dims ="
        files[f"batch{batch}.mlir"] = f"""func.func @main(%a: {ty}) -> {ty} {{
  %ones = stablehlo.constant dense<1.0> : {ty}
  %left = stablehlo.dot_general %ones, %a, {dims} [2] x [2] : ({ty}, {ty}) -> {ty}
  %right = stablehlo.dot_general %a, %ones, {dims} [1] x [1] : ({ty}, {ty}) -> {ty}
  %gradient = stablehlo.add %left, %right : {ty}
  return %gradient : {ty}
}}
"""
    model(repository, name, batching, files, [2, 2])
