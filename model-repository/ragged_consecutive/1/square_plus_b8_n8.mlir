module @program {
  func.func public @main(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %0 = stablehlo.multiply %x, %x : tensor<8x8xf32>
    %1 = stablehlo.add %0, %x : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
}
