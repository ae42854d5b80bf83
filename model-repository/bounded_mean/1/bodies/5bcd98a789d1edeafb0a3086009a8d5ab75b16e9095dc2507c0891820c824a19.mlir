module @program {
  func.func public @main(%x0: tensor<16x4xf32>, %validMask: tensor<16xf32>, %validLength: tensor<f32>) -> (tensor<4xf32>) {
    %0 = stablehlo.broadcast_in_dim %validMask, dims = [0] : (tensor<16xf32>) -> tensor<16x4xf32>
    %1 = stablehlo.multiply %x0, %0 : tensor<16x4xf32>
    %2 = stablehlo.constant dense<0.0> : tensor<f32>
    %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [0] : (tensor<16x4xf32>, tensor<f32>) -> tensor<4xf32>
    %4 = stablehlo.broadcast_in_dim %validLength, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %5 = stablehlo.divide %3, %4 : tensor<4xf32>
    return %5 : tensor<4xf32>
  }
}
