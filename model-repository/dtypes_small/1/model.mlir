module @program {
  func.func public @main(%xF16: tensor<4xf16>, %xI8: tensor<4xi8>, %xU8: tensor<4xui8>) -> (tensor<4xf16>, tensor<4xi8>, tensor<4xui8>) {
    %0 = stablehlo.multiply %xF16, %xF16 : tensor<4xf16>
    %1 = stablehlo.add %0, %xF16 : tensor<4xf16>
    %2 = stablehlo.multiply %xI8, %xI8 : tensor<4xi8>
    %3 = stablehlo.add %2, %xI8 : tensor<4xi8>
    %4 = stablehlo.multiply %xU8, %xU8 : tensor<4xui8>
    %5 = stablehlo.add %4, %xU8 : tensor<4xui8>
    return %1, %3, %5 : tensor<4xf16>, tensor<4xi8>, tensor<4xui8>
  }
}
