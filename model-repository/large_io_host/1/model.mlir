module @program {
  func.func public @main(%x: tensor<4194304xf32>) -> (tensor<4194304xf32>) {
    %0 = stablehlo.multiply %x, %x : tensor<4194304xf32>
    %1 = stablehlo.add %0, %x : tensor<4194304xf32>
    return %1 : tensor<4194304xf32>
  }
}
