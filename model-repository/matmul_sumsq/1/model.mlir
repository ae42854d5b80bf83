  func.func public @matmul_sumsq_grad(%a: tensor<2x2xf32>) -> (tensor<f32>, tensor<2x2xf32>) {
    %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %1 = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [1] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
    %3 = stablehlo.reduce(%2 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
    %4 = stablehlo.constant dense<1.0> : tensor<2x2xf32>
    %5 = stablehlo.dot_general %4, %a, contracting_dims = [1] x [1] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %6 = stablehlo.dot_general %a, %4, contracting_dims = [0] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %7 = stablehlo.add %5, %6 : tensor<2x2xf32>
    return %3, %7 : tensor<f32>, tensor<2x2xf32>
  }
