module @program {
  func.func public @main(%a: tensor<1x2x2xf32>) -> (tensor<1x2x2xf32>) {
    %0 = stablehlo.constant dense<1.0> : tensor<1x2x2xf32>
    %1 = stablehlo.dot_general %0, %a, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
    %2 = stablehlo.dot_general %a, %0, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
    %3 = stablehlo.add %1, %2 : tensor<1x2x2xf32>
    return %3 : tensor<1x2x2xf32>
  }
}
