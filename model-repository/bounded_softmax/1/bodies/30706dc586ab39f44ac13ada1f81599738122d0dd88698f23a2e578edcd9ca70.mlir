module @program {
  func.func public @main(%x0: tensor<8xf32>, %validMask: tensor<8xf32>) -> (tensor<8xf32>) {
    %0 = stablehlo.constant dense<1.0> : tensor<8xf32>
    %1 = stablehlo.subtract %validMask, %0 : tensor<8xf32>
    %2 = stablehlo.constant dense<1000000000.0> : tensor<8xf32>
    %3 = stablehlo.multiply %1, %2 : tensor<8xf32>
    %4 = stablehlo.add %x0, %3 : tensor<8xf32>
    %5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %6 = stablehlo.reduce(%4 init: %5) applies stablehlo.maximum across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %8 = stablehlo.subtract %4, %7 : tensor<8xf32>
    %9 = stablehlo.exponential %8 : tensor<8xf32>
    %10 = stablehlo.constant dense<0.0> : tensor<f32>
    %11 = stablehlo.reduce(%9 init: %10) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %13 = stablehlo.divide %9, %12 : tensor<8xf32>
    return %13 : tensor<8xf32>
  }
}
