module @program {
  func.func public @main(%xI16: tensor<4xi16>, %xU16: tensor<4xui16>, %xU32: tensor<4xui32>, %xU64: tensor<4xui64>) -> (tensor<4xi16>, tensor<4xui16>, tensor<4xui32>, tensor<4xui64>) {
    %0 = stablehlo.multiply %xI16, %xI16 : tensor<4xi16>
    %1 = stablehlo.add %0, %xI16 : tensor<4xi16>
    %2 = stablehlo.multiply %xU16, %xU16 : tensor<4xui16>
    %3 = stablehlo.add %2, %xU16 : tensor<4xui16>
    %4 = stablehlo.multiply %xU32, %xU32 : tensor<4xui32>
    %5 = stablehlo.add %4, %xU32 : tensor<4xui32>
    %6 = stablehlo.multiply %xU64, %xU64 : tensor<4xui64>
    %7 = stablehlo.add %6, %xU64 : tensor<4xui64>
    return %1, %3, %5, %7 : tensor<4xi16>, tensor<4xui16>, tensor<4xui32>, tensor<4xui64>
  }
}
