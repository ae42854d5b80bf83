//! Texts made ready for the compiler.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use tlaloc_artifact::stablehlo::{Module, prepare};

/// U3.
#[test]
fn a_bare_function_becomes_main_of_a_module() {
    let text = r#"// @f in a comment
func.func @f(%0: tensor<2xf32>) -> tensor<2xf32> {
  %1 = stablehlo.custom_call @g(%0) {info = "@f and @main"} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
"#;
    let prepared = prepare(text, "f");
    assert!(prepared.starts_with("module @tlaloc_triton {"));
    assert!(prepared.contains("func.func @main(") && !prepared.contains("@f("));
    assert!(prepared.contains("// @f in a comment") && prepared.contains("\"@f and @main\""));
    assert!(prepared.contains("custom_call @g(%0)"));
    assert_eq!(Module::parse(&prepared).unwrap().names(), "@main");
}

/// U5.
#[test]
fn a_private_function_takes_mains_place() {
    let text = r#"#loc = loc("module of nothing")
module @jit attributes {x = 1 : i32} {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = func.call @serve(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = call @"serve"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func private @serve(%a: tensor<4xf32>) -> tensor<4xf32> {
    return %a : tensor<4xf32>
  }
  func.func private @other(%a: tensor<4xf32>) {
    %0 = call @main(%a) : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}
"#;
    let prepared = prepare(text, "serve");
    assert!(prepared.starts_with("#loc = loc("), "it has a module");
    assert_eq!(prepared.matches("@main(").count(), 3, "one definition and two calls");
    assert_eq!(prepared.matches("@tlaloc_renamed_main(").count(), 2);
    assert!(prepared.contains("private @other(") && !prepared.contains("serve"));
    let module = Module::parse(&prepared).unwrap();
    assert!(module.function("main").unwrap().public);
    assert!(module.function("tlaloc_renamed_main").unwrap().public);
    assert_eq!(prepare(text, "main"), text);
}

/// U6.
#[test]
fn only_whole_names_are_renamed() {
    let text = "func.func @f() { call @main2() : () -> () \n call @f.g() : () -> () \n return }\n\
                func.func private @main2()\nfunc.func private @f.g()";
    let prepared = prepare(text, "f");
    assert_eq!(prepared.matches("@main2(").count(), 2);
    assert_eq!(prepared.matches("@f.g(").count(), 2);
    assert_eq!(prepared.matches("@main(").count(), 1);
}

#[test]
fn arguments_are_aliased_to_their_results() {
    let text = "func.func @f(%a: tensor<2xf32>, %s: tensor<2xf32>, %t: tensor<2xf32> {x = 1}, \
                %u: tensor<2xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<2xf32>) {}";
    let function = &Module::parse(text).unwrap().functions[0];
    let aliased = function.with_aliases(text, &[(2, 0), (1, 2), (3, 1)]).unwrap().unwrap();
    let expected = "%a: tensor<2xf32>, %s: tensor<2xf32> {tf.aliasing_output = 2 : i32}, \
                    %t: tensor<2xf32> {tf.aliasing_output = 0 : i32, x = 1}, %u";
    assert!(aliased.contains(expected), "{aliased}");
    assert_eq!(function.with_aliases(text, &[(3, 1)]), Ok(None));
    assert_eq!(function.with_aliases(text, &[(3, 2)]), Err((3, "1".to_owned())));
}

#[test]
fn results_get_arguments_that_place_them() {
    let places = |text: &str, results: &[usize]| {
        Module::parse(text).unwrap().functions[0].with_places(text, results)
    };
    let text = "func.func @f(%a: tensor<2xf32>) -> (tensor<2xf32>, tensor<i32>) { // @f\n}";
    let expected = "(%a: tensor<2xf32>, %tlaloc_place_1: tensor<i32> {tf.aliasing_output = 1 : i32}, \
                    %tlaloc_place_0: tensor<2xf32> {tf.aliasing_output = 0 : i32}) ->";
    assert!(places(text, &[1, 0]).unwrap().contains(expected));
    let none = places("func.func @f() -> tensor<i32> {}", &[0]).unwrap();
    assert!(none.contains("@f(%tlaloc_place_0: tensor<i32> {tf"), "{none}");
    for refused in [
        "func.func @f(%a: tensor<i32> {tf.aliasing_output = 0 : i32}) -> tensor<i32> {}",
        "func.func @f(%a: tensor<i32>) -> tensor<i32> {} func.func @g() { call @f(%x) }",
    ] {
        assert_eq!(places(refused, &[0]), None);
    }
}

/// Whatever the text, preparing ends and keeps what it does not rename.
#[test]
fn any_text_is_survived() {
    for text in
        ["", "@", "@\"", "func.func", "func.func private", "%@#", "\"", "// ", "@main", "é@"]
    {
        let prepared = prepare(text, "f");
        assert!(prepared.starts_with("module"), "{prepared}");
    }
}
