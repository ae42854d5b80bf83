//! StableHLO signatures in every style that artifacts use.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use proptest::prelude::*;
use tlaloc_artifact::stablehlo::{Module, Type, calls_kernels, is_bytecode};
use tlaloc_artifact::{DType, Tensor};

/// A function with no module, a comment that holds another one, a scalar result (U1, U2).
const BARE: &str = r#"// func.func @commented(%0: tensor<9xf32>) -> tensor<9xf32> {
func.func @matmul_sumsq_grad(%0: tensor<2x2xf32>) -> (tensor<f32>, tensor<2x2xf32>) {
  // func.func @inside(%a: tensor<f32>)
  %1 = stablehlo.custom_call @x() {info = "func.func @quoted("} : () -> tensor<f32>
  return %1, %0 : tensor<f32>, tensor<2x2xf32>
}
"#;

#[test]
fn a_bare_function_with_commented_ones() {
    let module = Module::parse(BARE).unwrap();
    assert_eq!(module.names(), "@matmul_sumsq_grad");
    let function = &module.functions[0];
    assert!(function.public);
    assert_eq!(function.arguments.len(), 1);
    assert_eq!(function.arguments[0].ty.tensor(), Tensor::new(DType::F32, [2, 2]));
    assert_eq!(function.results.len(), 2);
    assert_eq!(function.results[0].ty.tensor(), Tensor::new(DType::F32, []));
    assert_eq!(function.results[1].ty.tensor(), Tensor::new(DType::F32, [2, 2]));
}

/// A module with a public and a private function, attributes with commas in strings, dynamic dims
/// (U4).
const MODULE: &str = r#"module @jit attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<4xbf16> {jax.arg_info = "x, y", a = {b = [1, 2]}} loc("f")) -> (tensor<4xbf16> {jax.result_info = "r"}) attributes {x = "func.func @no("} {
    %0 = func.call @serve(%arg0) : (tensor<4xbf16>) -> tensor<3xui8>
    return %arg0 : tensor<4xbf16>
  }
  func.func private @serve(tensor<3x?xi32> {attr "x, y"}, tensor<i1>) -> (tensor<3xui8> {q = 1})
  func.func private @"odd name"() attributes {no_inline}
}
"#;

#[test]
fn a_module_of_public_and_private_functions() {
    let module = Module::parse(MODULE).unwrap();
    assert_eq!(module.names(), "@main, @serve, @odd name");
    let main = module.function("main").unwrap();
    assert!(main.public);
    assert_eq!(main.arguments[0].ty.tensor(), Tensor::new(DType::Bf16, [4]));
    assert_eq!(main.arguments[0].attribute("jax.arg_info"), Some("\"x, y\""));
    assert_eq!(main.arguments[0].attribute("a"), Some("{b = [1, 2]}"));
    assert_eq!(main.results[0].attribute("jax.result_info"), Some("\"r\""));
    let serve = module.function("serve").unwrap();
    assert!(!serve.public);
    assert_eq!(serve.arguments[0].ty.dims, [Some(3), None]);
    assert_eq!(serve.arguments[0].ty.dtype, Some(DType::I32));
    assert_eq!(serve.arguments[0].ty.tensor(), None, "dynamic");
    assert_eq!(serve.arguments[1].ty.dtype, Some(DType::Bool));
    assert_eq!(serve.results[0].ty.tensor(), Tensor::new(DType::U8, [3]));
    let odd = module.function("odd name").unwrap();
    assert!(odd.arguments.is_empty() && odd.results.is_empty());
}

/// U7, and the other types that may stand in a signature.
#[test]
fn types() {
    for (text, dims, dtype) in [
        ("tensor<2x3xf64>", vec![Some(2), Some(3)], Some(DType::F64)),
        ("tensor<f32>", vec![], Some(DType::F32)),
        ("tensor<0xi8>", vec![Some(0)], Some(DType::I8)),
        ("tensor<?x4xf16>", vec![None, Some(4)], Some(DType::F16)),
        ("tensor<4xf8E4M3FN>", vec![Some(4)], Some(DType::F8E4M3Fn)),
        ("tensor<4xsi32>", vec![Some(4)], Some(DType::I32)),
        ("tensor<2x3xf32, #stablehlo.bounds<?, 3>>", vec![Some(2), Some(3)], Some(DType::F32)),
        ("tensor< 2 x 3 x f32 >", vec![Some(2), Some(3)], Some(DType::F32)),
        ("tensor<8xcomplex<f32>>", vec![Some(8)], None),
        ("tensor<8x!quant.uniform<i8:f32, 0.5>>", vec![Some(8)], None),
        ("tensor<*xf32>", vec![], None),
        ("tensor<99999999999999999999xf32>", vec![], None),
        ("tensor<4>", vec![], None),
        ("tensor<>", vec![], None),
        ("tensor", vec![], None),
        ("memref<4xf32>", vec![], None),
        ("!stablehlo.token", vec![], None),
        ("f32", vec![], None),
    ] {
        let ty = Type::parse(text);
        assert_eq!((ty.dims, ty.dtype, ty.text), (dims, dtype, text.to_owned()), "{text}");
    }
    let huge = Type::parse("tensor<4611686018427387904x4xf32>");
    assert_eq!(huge.tensor(), None, "its bytes do not fit");
}

/// Odd but legal signatures, each with the number of arguments and results it has.
#[test]
fn odd_signatures() {
    for (text, arguments, results) in [
        ("func.func @f()", 0, 0),
        ("func.func @f() -> ()", 0, 0),
        ("func.func @f() -> !stablehlo.token {", 0, 1),
        ("func.func nested @f(%a-b: f32, %c: tuple<tensor<f32>, i1>) -> i32 {", 2, 1),
        ("func.func @f(%a: (i32, tensor<f32>) -> (i32)) -> (f32, !a.b<\">\">)", 1, 2),
        (
            "func.func // comment (\n @f( // another )\n %a // x\n : // y\n tensor<f32> // z\n )",
            1,
            0,
        ),
        ("func.func @f(%a: tensor<4xf32, affine_map<(d0) -> (d0)>>) -> tensor<f32>", 1, 1),
        ("#func.func\n@func.func %func.func\nfunc.func @f(%0: i1)", 1, 0),
        ("func.func @f(%0: tensor<f32> {a = \"\\\")\"})", 1, 0),
    ] {
        let module = Module::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(module.functions.len(), 1, "{text}");
        let f = &module.functions[0];
        assert_eq!((f.arguments.len(), f.results.len()), (arguments, results), "{text}");
    }
    assert_eq!(Module::parse("module {}").unwrap().functions, []);
    assert_eq!(Module::parse("my.func.func @f(").unwrap().functions, []);
}

#[test]
fn malformed_signatures_name_their_line() {
    for text in [
        "func.func",
        "func.func main()",
        "func.func @()",
        "func.func @f",
        "func.func @f(",
        "func.func @f(%0: tensor<f32>",
        "func.func @f(%0: tensor<f32)>)",
        "func.func @f(%0)",
        "func.func @f(%0: )",
        "func.func @f(,)",
        "func.func @f() ->",
        "func.func @f() -> (tensor<f32>",
        "func.func @\"f()",
    ] {
        let error = Module::parse(&format!("module {{\n\n{text}")).unwrap_err();
        assert_eq!(error.line, 3, "{text}");
    }
}

#[test]
fn bytecode_and_kernels_are_told_apart() {
    assert!(is_bytecode(b"ML\xefR\x06"));
    assert!(!is_bytecode(b"module {}"));
    assert!(!is_bytecode(b"ML"));
    assert!(calls_kernels("%0 = stablehlo.custom_call @tlaloc_fp4_gemm(%1)"));
    assert!(!calls_kernels("%0 = stablehlo.custom_call @Sharding(%1)"));
}

/// Every body of the original exporter parses; the numbers of functions, arguments and results are
/// those that a count of its first signature line gives.
#[test]
fn upstream_texts_parse() {
    let Some(upstream) = common::upstream("upstream_texts_parse") else { return };
    let texts = common::files(&upstream, ".mlir");
    assert!(texts.len() > 40, "{}", texts.len());
    for path in texts {
        let text = std::fs::read_to_string(&path).unwrap();
        let module = Module::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(module.functions.len(), 1, "{}", path.display());
        let function = &module.functions[0];
        let line = text.lines().find(|l| l.trim_start().starts_with("func.func")).unwrap();
        let (arguments, results) = line.split_once("->").unwrap();
        let count = |part: &str| part.matches("tensor<").count();
        assert_eq!(function.arguments.len(), count(arguments), "{}", path.display());
        assert_eq!(function.results.len(), count(results), "{}", path.display());
        for value in function.arguments.iter().chain(&function.results) {
            let tensor = value.ty.tensor().unwrap();
            assert_eq!(tensor.to_string(), value.ty.text, "{}", path.display());
        }
    }
}

/// Texts near to real ones: pieces of the grammar in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "func.func",
        "@",
        "@main",
        "private",
        "(",
        ")",
        "{",
        "}",
        "<",
        ">",
        "[",
        "]",
        "->",
        "-",
        ",",
        ":",
        "=",
        "\"",
        "\\",
        "//",
        "\n",
        " ",
        "tensor<",
        "tensor<4x",
        "xf32>",
        "2x",
        "?x",
        "*x",
        "f32",
        "!a.b",
        "%0",
        "#",
        "tf.aliasing_output = 1 : i32",
        "loc(",
        "attributes",
        "é",
        "\0",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = Module::parse(&text);
        let _ = Type::parse(&text);
    }

    #[test]
    fn no_grammatical_text_panics(text in pieces()) {
        let _ = Module::parse(&text);
        let _ = Module::parse(&format!("func.func @main({text}"));
        let _ = Type::parse(&text);
        let _ = Type::parse(&format!("tensor<{text}>"));
    }

    /// Real texts with a piece cut out and another put in.
    #[test]
    fn no_mutated_text_panics(
        whole in prop::sample::select(vec![BARE, MODULE]),
        at in any::<prop::sample::Index>(),
        length in 0usize..20,
        inserted in pieces(),
    ) {
        let characters: Vec<char> = whole.chars().collect();
        let start = at.index(characters.len());
        let end = (start + length).min(characters.len());
        let mutated: String = characters[..start]
            .iter()
            .copied()
            .chain(inserted.chars())
            .chain(characters[end..].iter().copied())
            .collect();
        let _ = Module::parse(&mutated);
    }
}
