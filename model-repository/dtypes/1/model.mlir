module @program {
  func.func public @main(%xF64: tensor<4xf64>, %xBF16: tensor<4xbf16>, %xI32: tensor<4xi32>) -> (tensor<4xf64>, tensor<4xbf16>, tensor<4xi32>) {
    %0 = stablehlo.multiply %xF64, %xF64 : tensor<4xf64>
    %1 = stablehlo.add %0, %xF64 : tensor<4xf64>
    %2 = stablehlo.multiply %xBF16, %xBF16 : tensor<4xbf16>
    %3 = stablehlo.add %2, %xBF16 : tensor<4xbf16>
    %4 = stablehlo.multiply %xI32, %xI32 : tensor<4xi32>
    %5 = stablehlo.add %4, %xI32 : tensor<4xi32>
    return %1, %3, %5 : tensor<4xf64>, tensor<4xbf16>, tensor<4xi32>
  }
}
