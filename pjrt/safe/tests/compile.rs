//! Compiling: what an executable tells, and bad bodies.

#![allow(clippy::unwrap_used)] // helpers of tests

mod support;

use tlaloc_pjrt::{ElementType, Error};

#[test]
fn an_executable_tells_its_outputs_and_memory() {
    let Some(client) = support::client() else { return };
    let executable = client
        .compile(
            "module { func.func public @main(%x: tensor<2x3xf32>, %i: tensor<i32>)
                 -> (tensor<2x3xf32>, tensor<i32>, tensor<3x2xbf16>, tensor<2x3xi1>) {
               %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
               %b = stablehlo.convert %t : (tensor<3x2xf32>) -> tensor<3x2xbf16>
               %p = stablehlo.compare GT, %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
               return %x, %i, %b, %p
                 : tensor<2x3xf32>, tensor<i32>, tensor<3x2xbf16>, tensor<2x3xi1> } }",
        )
        .unwrap();
    assert_eq!(executable.num_outputs(), 4);
    let outputs: Vec<_> = executable.outputs().map(ToString::to_string).collect();
    assert_eq!(outputs, ["2x3xf32", "i32", "3x2xbf16", "2x3xi1"]);
    let stats = executable.memory_stats().unwrap();
    assert_eq!(stats.argument, 24 + 4);
    assert_eq!(stats.alias, 0);
}

#[test]
fn a_body_without_outputs_compiles() {
    let Some(client) = support::client() else { return };
    let text = "module { func.func public @main(%x: tensor<f32>) { return } }";
    let executable = client.compile(text).unwrap();
    assert_eq!(executable.num_outputs(), 0);
    let argument = client.zeros(ElementType::F32, &[]).unwrap();
    executable.execute([tlaloc_pjrt::Argument::Keep(&argument)]).unwrap().wait().unwrap();
}

#[test]
fn bad_bodies_are_refused_with_the_compilers_words() {
    let Some(client) = support::client() else { return };
    let good = support::square_plus_text(4);
    let cases = [
        ("empty", String::new()),
        ("text", "not a module".to_owned()),
        ("cut short", good[..good.len() / 2].to_owned()),
        ("a NUL inside", good.replacen("stablehlo", "\0", 1)),
        ("no main", good.replace("@main", "@other")),
        ("types", good.replacen(": tensor<4xf32>", ": tensor<5xf32>", 1)),
        ("unknown operation", good.replace("stablehlo.multiply", "stablehlo.frobnicate")),
        ("unknown dialect", good.replace("stablehlo.multiply", "nowhere.multiply")),
        (
            "unknown custom call",
            "module { func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
               %y = stablehlo.custom_call @nobody_has_this(%x) : (tensor<4xf32>) -> tensor<4xf32>
               return %y : tensor<4xf32> } }"
                .to_owned(),
        ),
    ];
    for (case, text) in cases {
        let error = match client.compile(&text) {
            Err(error) => error,
            Ok(_) => panic!("{case} compiled"),
        };
        assert!(matches!(&error, Error::Call { function: "PJRT_Client_Compile", .. }), "{case}");
        assert!(error.to_string().starts_with("PJRT_Client_Compile failed: "), "{case}: {error}");
    }
    // The control: the body that the cases are made from.
    client.compile(&good).unwrap();
}

/// For modules whose text does not tell.
#[test]
fn the_plugin_tells_a_programs_parameters() {
    let Some(client) = support::client() else { return };
    let text =
        "module { func.func @main(%a: tensor<2x3xbf16>, %b: tensor<i1>, %c: tensor<4xui16>, \
                %d: tensor<0xf64>) -> (tensor<2x3xbf16>, tensor<i1>) {
                  %0 = stablehlo.add %a, %a : tensor<2x3xbf16>
                  return %0, %b : tensor<2x3xbf16>, tensor<i1> } }";
    let program = client.compile(text).unwrap();
    let shapes: Vec<String> =
        program.parameters().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(shapes, ["2x3xbf16", "i1", "4xui16", "0xf64"]);
    let square: Vec<_> = support::square_plus(&client, 5).parameters().unwrap();
    assert_eq!(square[0].to_string(), "5xf32");
}
