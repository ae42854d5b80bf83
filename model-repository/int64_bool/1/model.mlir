module @program {
  func.func public @main(%x: tensor<4xi64>, %b: tensor<4xi1>) -> (tensor<4xi64>, tensor<4xi1>, tensor<4xi1>) {
    %0 = stablehlo.multiply %x, %x : tensor<4xi64>
    %1 = stablehlo.compare GT, %0, %x, SIGNED : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>
    %2 = stablehlo.add %0, %x : tensor<4xi64>
    %3 = stablehlo.and %1, %b : tensor<4xi1>
    %4 = stablehlo.not %b : tensor<4xi1>
    return %2, %3, %4 : tensor<4xi64>, tensor<4xi1>, tensor<4xi1>
  }
}
