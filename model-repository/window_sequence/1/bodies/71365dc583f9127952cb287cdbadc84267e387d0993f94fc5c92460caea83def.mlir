module @program {
  func.func public @main(%tokenIds: tensor<1x1xi32>, %positions: tensor<1x1xi32>, %blockTables: tensor<1x8xi32>, %seqLens: tensor<1xi32>, %slotMapping: tensor<1xi32>, %windowBlockTables: tensor<1x8xi32>, %windowSlotMapping: tensor<1xi32>, %keyCache0: tensor<13x4x2x8xf32> {tf.aliasing_output = 1 : i32}, %valueCache0: tensor<13x4x2x8xf32> {tf.aliasing_output = 2 : i32}, %keyCache1: tensor<13x4x2x8xf32> {tf.aliasing_output = 3 : i32}, %valueCache1: tensor<13x4x2x8xf32> {tf.aliasing_output = 4 : i32}, %keyCache2: tensor<65x4x2x8xf32> {tf.aliasing_output = 5 : i32}, %valueCache2: tensor<65x4x2x8xf32> {tf.aliasing_output = 6 : i32}, %embedTokens: tensor<64x32xf32>, %inputNorm0: tensor<32xf32>, %qkvProj0: tensor<96x32xf32>, %qkvBias0: tensor<64xf32>, %oProj0: tensor<32x32xf32>, %mixerOutputNorm0: tensor<32xf32>, %postAttnNorm0: tensor<32xf32>, %gateUpProj0: tensor<96x32xf32>, %downProj0: tensor<32x48xf32>, %ffnOutputNorm0: tensor<32xf32>, %inputNorm1: tensor<32xf32>, %qkvProj1: tensor<96x32xf32>, %qkvBias1: tensor<64xf32>, %oProj1: tensor<32x32xf32>, %mixerOutputNorm1: tensor<32xf32>, %postAttnNorm1: tensor<32xf32>, %gateUpProj1: tensor<96x32xf32>, %downProj1: tensor<32x48xf32>, %ffnOutputNorm1: tensor<32xf32>, %inputNorm2: tensor<32xf32>, %qkvProj2: tensor<96x32xf32>, %qkvBias2: tensor<64xf32>, %oProj2: tensor<32x32xf32>, %mixerOutputNorm2: tensor<32xf32>, %postAttnNorm2: tensor<32xf32>, %gateUpProj2: tensor<96x32xf32>, %downProj2: tensor<32x48xf32>, %ffnOutputNorm2: tensor<32xf32>, %finalNorm: tensor<32xf32>, %lmHead: tensor<64x32xf32>) -> (tensor<1x1x64xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>) {
    %0 = stablehlo.reshape %tokenIds : (tensor<1x1xi32>) -> tensor<1xi32>
    %1 = stablehlo.reshape %0 : (tensor<1xi32>) -> tensor<1x1xi32>
    %2 = "stablehlo.gather"(%embedTokens, %1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<64x32xf32>, tensor<1x1xi32>) -> tensor<1x32xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<1x32xf32>) -> tensor<32x1xf32>
    %4 = stablehlo.dot_general %3, %3, contracting_dims = [0] x [0] : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<1x1xf32>
    %5 = stablehlo.reshape %4 : (tensor<1x1xf32>) -> tensor<1xf32>
    %6 = stablehlo.constant dense<0.03125> : tensor<1xf32>
    %7 = stablehlo.multiply %5, %6 : tensor<1xf32>
    %8 = stablehlo.constant dense<1.0e-5> : tensor<1xf32>
    %9 = stablehlo.add %7, %8 : tensor<1xf32>
    %10 = stablehlo.rsqrt %9 : tensor<1xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [1] : (tensor<1xf32>) -> tensor<32x1xf32>
    %12 = stablehlo.multiply %3, %11 : tensor<32x1xf32>
    %13 = stablehlo.reshape %positions : (tensor<1x1xi32>) -> tensor<1xi32>
    %14 = stablehlo.constant dense<4> : tensor<1xi32>
    %15 = stablehlo.divide %13, %14 : tensor<1xi32>
    %16 = stablehlo.iota dim = 1 : tensor<1x3xi32>
    %17 = stablehlo.broadcast_in_dim %15, dims = [0] : (tensor<1xi32>) -> tensor<1x3xi32>
    %18 = stablehlo.add %17, %16 : tensor<1x3xi32>
    %19 = stablehlo.constant dense<2> : tensor<1x3xi32>
    %20 = stablehlo.subtract %18, %19 : tensor<1x3xi32>
    %21 = stablehlo.constant dense<0> : tensor<1x3xi32>
    %22 = stablehlo.maximum %20, %21 : tensor<1x3xi32>
    %23 = stablehlo.constant dense<3> : tensor<1x3xi32>
    %24 = stablehlo.remainder %22, %23 : tensor<1x3xi32>
    %25 = stablehlo.iota dim = 0 : tensor<1x3xi32>
    %26 = stablehlo.constant dense<8> : tensor<1x3xi32>
    %27 = stablehlo.multiply %25, %26 : tensor<1x3xi32>
    %28 = stablehlo.add %27, %24 : tensor<1x3xi32>
    %29 = stablehlo.reshape %28 : (tensor<1x3xi32>) -> tensor<3xi32>
    %30 = stablehlo.reshape %windowBlockTables : (tensor<1x8xi32>) -> tensor<8x1xi32>
    %31 = stablehlo.reshape %29 : (tensor<3xi32>) -> tensor<3x1xi32>
    %32 = "stablehlo.gather"(%30, %31) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<8x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi32>
    %33 = stablehlo.reshape %32 : (tensor<3x1xi32>) -> tensor<1x3xi32>
    %34 = stablehlo.constant dense<4> : tensor<1x3xi32>
    %35 = stablehlo.multiply %20, %34 : tensor<1x3xi32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1] : (tensor<1x3xi32>) -> tensor<1x3x4xi32>
    %37 = stablehlo.iota dim = 2 : tensor<1x3x4xi32>
    %38 = stablehlo.add %36, %37 : tensor<1x3x4xi32>
    %39 = stablehlo.reshape %38 : (tensor<1x3x4xi32>) -> tensor<1x12xi32>
    %40 = stablehlo.broadcast_in_dim %13, dims = [0] : (tensor<1xi32>) -> tensor<1x12xi32>
    %41 = stablehlo.compare LE, %39, %40, SIGNED : (tensor<1x12xi32>, tensor<1x12xi32>) -> tensor<1x12xi1>
    %42 = stablehlo.constant dense<12> : tensor<1x12xi32>
    %43 = stablehlo.subtract %39, %42 : tensor<1x12xi32>
    %44 = stablehlo.select %41, %39, %43 : tensor<1x12xi1>, tensor<1x12xi32>
    %45 = stablehlo.constant dense<0> : tensor<1x12xi32>
    %46 = stablehlo.compare LE, %45, %44, SIGNED : (tensor<1x12xi32>, tensor<1x12xi32>) -> tensor<1x12xi1>
    %47 = stablehlo.constant dense<2147483647> : tensor<1x12xi32>
    %48 = stablehlo.select %46, %44, %47 : tensor<1x12xi1>, tensor<1x12xi32>
    %49 = stablehlo.multiply %33, %34 : tensor<1x3xi32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1] : (tensor<1x3xi32>) -> tensor<1x3x4xi32>
    %51 = stablehlo.iota dim = 2 : tensor<1x3x4xi32>
    %52 = stablehlo.add %50, %51 : tensor<1x3x4xi32>
    %53 = stablehlo.reshape %52 : (tensor<1x3x4xi32>) -> tensor<1x12xi32>
    %54 = stablehlo.constant dense<1> : tensor<1xi32>
    %55 = stablehlo.subtract %seqLens, %54 : tensor<1xi32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0] : (tensor<1xi32>) -> tensor<1x12xi32>
    %57 = stablehlo.compare LE, %48, %56, SIGNED : (tensor<1x12xi32>, tensor<1x12xi32>) -> tensor<1x12xi1>
    %58 = stablehlo.constant dense<8> : tensor<1x12xi32>
    %59 = stablehlo.subtract %56, %58 : tensor<1x12xi32>
    %60 = stablehlo.compare LT, %59, %48, SIGNED : (tensor<1x12xi32>, tensor<1x12xi32>) -> tensor<1x12xi1>
    %61 = stablehlo.and %57, %60 : tensor<1x12xi1>
    %62 = stablehlo.constant dense<0.0> : tensor<1x12xf32>
    %63 = stablehlo.constant dense<-1.0e30> : tensor<1x12xf32>
    %64 = stablehlo.select %61, %62, %63 : tensor<1x12xi1>, tensor<1x12xf32>
    %65 = stablehlo.reshape %positions : (tensor<1x1xi32>) -> tensor<1xi32>
    %66 = stablehlo.convert %65 : (tensor<1xi32>) -> tensor<1xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [1] : (tensor<1xf32>) -> tensor<4x1xf32>
    %68 = stablehlo.constant dense<[1.0, 0.1, 0.01, 0.001]> : tensor<4xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
    %70 = stablehlo.multiply %67, %69 : tensor<4x1xf32>
    %71 = stablehlo.cosine %70 : tensor<4x1xf32>
    %72 = stablehlo.sine %70 : tensor<4x1xf32>
    %73 = stablehlo.concatenate %71, %72, dim = 0 : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<8x1xf32>
    %74 = stablehlo.iota dim = 0 : tensor<8x8xi32>
    %75 = stablehlo.iota dim = 1 : tensor<8x8xi32>
    %76 = stablehlo.compare EQ, %74, %75, SIGNED : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi1>
    %77 = stablehlo.constant dense<1.0> : tensor<8x8xf32>
    %78 = stablehlo.constant dense<0.0> : tensor<8x8xf32>
    %79 = stablehlo.select %76, %77, %78 : tensor<8x8xi1>, tensor<8x8xf32>
    %80 = stablehlo.dot_general %79, %73, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
    %81 = stablehlo.slice %80 [0:4, 0:1] : (tensor<8x1xf32>) -> tensor<4x1xf32>
    %82 = stablehlo.slice %80 [4:8, 0:1] : (tensor<8x1xf32>) -> tensor<4x1xf32>
    %83 = stablehlo.constant dense<0.53033006> : tensor<4x1xf32>
    %84 = stablehlo.multiply %81, %83 : tensor<4x1xf32>
    %85 = stablehlo.multiply %82, %83 : tensor<4x1xf32>
    %86 = stablehlo.constant dense<2> : tensor<1xi32>
    %87 = stablehlo.shift_right_arithmetic %windowSlotMapping, %86 : tensor<1xi32>
    %88 = stablehlo.constant dense<3> : tensor<1xi32>
    %89 = stablehlo.and %windowSlotMapping, %88 : tensor<1xi32>
    %90 = stablehlo.reshape %87 : (tensor<1xi32>) -> tensor<1x1xi32>
    %91 = stablehlo.reshape %89 : (tensor<1xi32>) -> tensor<1x1xi32>
    %92 = stablehlo.concatenate %90, %91, dim = 1 : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x2xi32>
    %93 = stablehlo.constant dense<-1> : tensor<1x2xi32>
    %94 = stablehlo.concatenate %92, %93, dim = 0 : (tensor<1x2xi32>, tensor<1x2xi32>) -> tensor<2x2xi32>
    %95:3 = func.call @layer0(%12, %keyCache0, %valueCache0, %81, %82, %84, %85, %94, %53, %48, %64, %inputNorm0, %qkvProj0, %qkvBias0, %oProj0, %mixerOutputNorm0, %postAttnNorm0, %gateUpProj0, %downProj0, %ffnOutputNorm0) : (tensor<32x1xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<2x2xi32>, tensor<1x12xi32>, tensor<1x12xi32>, tensor<1x12xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x1xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>)
    %96:3 = func.call @layer0(%95#0, %keyCache1, %valueCache1, %81, %82, %84, %85, %94, %53, %48, %64, %inputNorm1, %qkvProj1, %qkvBias1, %oProj1, %mixerOutputNorm1, %postAttnNorm1, %gateUpProj1, %downProj1, %ffnOutputNorm1) : (tensor<32x1xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<2x2xi32>, tensor<1x12xi32>, tensor<1x12xi32>, tensor<1x12xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x1xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>)
    %97 = stablehlo.iota dim = 1 : tensor<1x32xi32>
    %98 = stablehlo.constant dense<4> : tensor<1x8xi32>
    %99 = stablehlo.multiply %blockTables, %98 : tensor<1x8xi32>
    %100 = stablehlo.broadcast_in_dim %99, dims = [0, 1] : (tensor<1x8xi32>) -> tensor<1x8x4xi32>
    %101 = stablehlo.iota dim = 2 : tensor<1x8x4xi32>
    %102 = stablehlo.add %100, %101 : tensor<1x8x4xi32>
    %103 = stablehlo.reshape %102 : (tensor<1x8x4xi32>) -> tensor<1x32xi32>
    %104 = stablehlo.subtract %seqLens, %54 : tensor<1xi32>
    %105 = stablehlo.broadcast_in_dim %104, dims = [0] : (tensor<1xi32>) -> tensor<1x32xi32>
    %106 = stablehlo.compare LE, %97, %105, SIGNED : (tensor<1x32xi32>, tensor<1x32xi32>) -> tensor<1x32xi1>
    %107 = stablehlo.constant dense<0.0> : tensor<1x32xf32>
    %108 = stablehlo.constant dense<-1.0e30> : tensor<1x32xf32>
    %109 = stablehlo.select %106, %107, %108 : tensor<1x32xi1>, tensor<1x32xf32>
    %110 = stablehlo.shift_right_arithmetic %slotMapping, %86 : tensor<1xi32>
    %111 = stablehlo.and %slotMapping, %88 : tensor<1xi32>
    %112 = stablehlo.reshape %110 : (tensor<1xi32>) -> tensor<1x1xi32>
    %113 = stablehlo.reshape %111 : (tensor<1xi32>) -> tensor<1x1xi32>
    %114 = stablehlo.concatenate %112, %113, dim = 1 : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x2xi32>
    %115 = stablehlo.concatenate %114, %93, dim = 0 : (tensor<1x2xi32>, tensor<1x2xi32>) -> tensor<2x2xi32>
    %116:3 = func.call @layer1(%96#0, %keyCache2, %valueCache2, %115, %103, %97, %109, %inputNorm2, %qkvProj2, %qkvBias2, %oProj2, %mixerOutputNorm2, %postAttnNorm2, %gateUpProj2, %downProj2, %ffnOutputNorm2) : (tensor<32x1xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<2x2xi32>, tensor<1x32xi32>, tensor<1x32xi32>, tensor<1x32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x1xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>)
    %117 = stablehlo.reshape %116#0 : (tensor<32x1xf32>) -> tensor<32x1x1xf32>
    %118 = stablehlo.reshape %117 : (tensor<32x1x1xf32>) -> tensor<32x1xf32>
    %119 = stablehlo.dot_general %118, %118, contracting_dims = [0] x [0] : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<1x1xf32>
    %120 = stablehlo.reshape %119 : (tensor<1x1xf32>) -> tensor<1xf32>
    %121 = stablehlo.multiply %120, %6 : tensor<1xf32>
    %122 = stablehlo.add %121, %8 : tensor<1xf32>
    %123 = stablehlo.rsqrt %122 : tensor<1xf32>
    %124 = stablehlo.broadcast_in_dim %123, dims = [1] : (tensor<1xf32>) -> tensor<32x1xf32>
    %125 = stablehlo.multiply %118, %124 : tensor<32x1xf32>
    %126 = stablehlo.broadcast_in_dim %finalNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %127 = stablehlo.multiply %125, %126 : tensor<32x1xf32>
    %128 = stablehlo.dot_general %lmHead, %127, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x1xf32>) -> tensor<64x1xf32>
    %129 = stablehlo.optimization_barrier %128 : tensor<64x1xf32>
    %130 = stablehlo.transpose %129, dims = [1, 0] : (tensor<64x1xf32>) -> tensor<1x64xf32>
    %131 = stablehlo.constant dense<30.0> : tensor<1x64xf32>
    %132 = stablehlo.divide %130, %131 : tensor<1x64xf32>
    %133 = stablehlo.tanh %132 : tensor<1x64xf32>
    %134 = stablehlo.multiply %133, %131 : tensor<1x64xf32>
    %135 = stablehlo.reshape %134 : (tensor<1x64xf32>) -> tensor<1x1x64xf32>
    return %135, %95#1, %95#2, %96#1, %96#2, %116#1, %116#2 : tensor<1x1x64xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>
  }
  func.func private @layer0(%x: tensor<32x1xf32>, %keys: tensor<13x4x2x8xf32>, %values: tensor<13x4x2x8xf32>, %keyCos: tensor<4x1xf32>, %keySin: tensor<4x1xf32>, %queryCos: tensor<4x1xf32>, %querySin: tensor<4x1xf32>, %writeIndices: tensor<2x2xi32>, %historySlots: tensor<1x12xi32>, %historyPositions: tensor<1x12xi32>, %visibility: tensor<1x12xf32>, %inputNorm: tensor<32xf32>, %qkvProj: tensor<96x32xf32>, %qkvBias: tensor<64xf32>, %oProj: tensor<32x32xf32>, %mixerOutputNorm: tensor<32xf32>, %postAttnNorm: tensor<32xf32>, %gateUpProj: tensor<96x32xf32>, %downProj: tensor<32x48xf32>, %ffnOutputNorm: tensor<32xf32>) -> (tensor<32x1xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>) {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<1x1xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x1xf32>) -> tensor<1xf32>
    %2 = stablehlo.constant dense<0.03125> : tensor<1xf32>
    %3 = stablehlo.multiply %1, %2 : tensor<1xf32>
    %4 = stablehlo.constant dense<1.0e-5> : tensor<1xf32>
    %5 = stablehlo.add %3, %4 : tensor<1xf32>
    %6 = stablehlo.rsqrt %5 : tensor<1xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [1] : (tensor<1xf32>) -> tensor<32x1xf32>
    %8 = stablehlo.multiply %x, %7 : tensor<32x1xf32>
    %9 = stablehlo.broadcast_in_dim %inputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %10 = stablehlo.multiply %8, %9 : tensor<32x1xf32>
    %11 = stablehlo.dot_general %qkvProj, %10, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x1xf32>) -> tensor<96x1xf32>
    %12 = stablehlo.slice %11 [0:32, 0:1] : (tensor<96x1xf32>) -> tensor<32x1xf32>
    %13 = stablehlo.slice %qkvBias [0:32] : (tensor<64xf32>) -> tensor<32xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %15 = stablehlo.add %12, %14 : tensor<32x1xf32>
    %16 = stablehlo.reshape %15 : (tensor<32x1xf32>) -> tensor<4x8x1xf32>
    %17 = stablehlo.slice %11 [32:48, 0:1] : (tensor<96x1xf32>) -> tensor<16x1xf32>
    %18 = stablehlo.slice %qkvBias [32:48] : (tensor<64xf32>) -> tensor<16xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %20 = stablehlo.add %17, %19 : tensor<16x1xf32>
    %21 = stablehlo.reshape %20 : (tensor<16x1xf32>) -> tensor<2x8x1xf32>
    %22 = stablehlo.slice %11 [48:64, 0:1] : (tensor<96x1xf32>) -> tensor<16x1xf32>
    %23 = stablehlo.slice %qkvBias [48:64] : (tensor<64xf32>) -> tensor<16xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %25 = stablehlo.add %22, %24 : tensor<16x1xf32>
    %26 = stablehlo.reshape %25 : (tensor<16x1xf32>) -> tensor<2x8x1xf32>
    %27 = stablehlo.multiply %16, %16 : tensor<4x8x1xf32>
    %28 = stablehlo.constant dense<0.0> : tensor<f32>
    %29 = stablehlo.reduce(%27 init: %28) applies stablehlo.add across dimensions = [1] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x1xf32>
    %30 = stablehlo.constant dense<0.125> : tensor<4x1xf32>
    %31 = stablehlo.multiply %29, %30 : tensor<4x1xf32>
    %32 = stablehlo.constant dense<1.0e-5> : tensor<4x1xf32>
    %33 = stablehlo.add %31, %32 : tensor<4x1xf32>
    %34 = stablehlo.rsqrt %33 : tensor<4x1xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 2] : (tensor<4x1xf32>) -> tensor<4x8x1xf32>
    %36 = stablehlo.multiply %16, %35 : tensor<4x8x1xf32>
    %37 = stablehlo.multiply %21, %21 : tensor<2x8x1xf32>
    %38 = stablehlo.reduce(%37 init: %28) applies stablehlo.add across dimensions = [1] : (tensor<2x8x1xf32>, tensor<f32>) -> tensor<2x1xf32>
    %39 = stablehlo.constant dense<0.125> : tensor<2x1xf32>
    %40 = stablehlo.multiply %38, %39 : tensor<2x1xf32>
    %41 = stablehlo.constant dense<1.0e-5> : tensor<2x1xf32>
    %42 = stablehlo.add %40, %41 : tensor<2x1xf32>
    %43 = stablehlo.rsqrt %42 : tensor<2x1xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 2] : (tensor<2x1xf32>) -> tensor<2x8x1xf32>
    %45 = stablehlo.multiply %21, %44 : tensor<2x8x1xf32>
    %46 = stablehlo.slice %36 [0:4, 0:4, 0:1] : (tensor<4x8x1xf32>) -> tensor<4x4x1xf32>
    %47 = stablehlo.slice %36 [0:4, 4:8, 0:1] : (tensor<4x8x1xf32>) -> tensor<4x4x1xf32>
    %48 = stablehlo.broadcast_in_dim %queryCos, dims = [1, 2] : (tensor<4x1xf32>) -> tensor<4x4x1xf32>
    %49 = stablehlo.broadcast_in_dim %querySin, dims = [1, 2] : (tensor<4x1xf32>) -> tensor<4x4x1xf32>
    %50 = stablehlo.multiply %46, %48 : tensor<4x4x1xf32>
    %51 = stablehlo.multiply %47, %49 : tensor<4x4x1xf32>
    %52 = stablehlo.multiply %47, %48 : tensor<4x4x1xf32>
    %53 = stablehlo.multiply %46, %49 : tensor<4x4x1xf32>
    %54 = stablehlo.subtract %50, %51 : tensor<4x4x1xf32>
    %55 = stablehlo.add %52, %53 : tensor<4x4x1xf32>
    %56 = stablehlo.concatenate %54, %55, dim = 1 : (tensor<4x4x1xf32>, tensor<4x4x1xf32>) -> tensor<4x8x1xf32>
    %57 = stablehlo.slice %45 [0:2, 0:4, 0:1] : (tensor<2x8x1xf32>) -> tensor<2x4x1xf32>
    %58 = stablehlo.slice %45 [0:2, 4:8, 0:1] : (tensor<2x8x1xf32>) -> tensor<2x4x1xf32>
    %59 = stablehlo.broadcast_in_dim %keyCos, dims = [1, 2] : (tensor<4x1xf32>) -> tensor<2x4x1xf32>
    %60 = stablehlo.broadcast_in_dim %keySin, dims = [1, 2] : (tensor<4x1xf32>) -> tensor<2x4x1xf32>
    %61 = stablehlo.multiply %57, %59 : tensor<2x4x1xf32>
    %62 = stablehlo.multiply %58, %60 : tensor<2x4x1xf32>
    %63 = stablehlo.multiply %58, %59 : tensor<2x4x1xf32>
    %64 = stablehlo.multiply %57, %60 : tensor<2x4x1xf32>
    %65 = stablehlo.subtract %61, %62 : tensor<2x4x1xf32>
    %66 = stablehlo.add %63, %64 : tensor<2x4x1xf32>
    %67 = stablehlo.concatenate %65, %66, dim = 1 : (tensor<2x4x1xf32>, tensor<2x4x1xf32>) -> tensor<2x8x1xf32>
    %68 = stablehlo.transpose %56, dims = [2, 0, 1] : (tensor<4x8x1xf32>) -> tensor<1x4x8xf32>
    %69 = stablehlo.transpose %67, dims = [2, 0, 1] : (tensor<2x8x1xf32>) -> tensor<1x2x8xf32>
    %70 = stablehlo.transpose %26, dims = [2, 0, 1] : (tensor<2x8x1xf32>) -> tensor<1x2x8xf32>
    %71 = stablehlo.constant dense<0.0> : tensor<1x2x8xf32>
    %72 = stablehlo.concatenate %69, %71, dim = 0 : (tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> tensor<2x2x8xf32>
    %73 = "stablehlo.scatter"(%keys, %writeIndices, %72) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old73: tensor<f32>, %new73: tensor<f32>):
      stablehlo.return %new73 : tensor<f32>
    }) : (tensor<13x4x2x8xf32>, tensor<2x2xi32>, tensor<2x2x8xf32>) -> tensor<13x4x2x8xf32>
    %74 = stablehlo.concatenate %70, %71, dim = 0 : (tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> tensor<2x2x8xf32>
    %75 = "stablehlo.scatter"(%values, %writeIndices, %74) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old75: tensor<f32>, %new75: tensor<f32>):
      stablehlo.return %new75 : tensor<f32>
    }) : (tensor<13x4x2x8xf32>, tensor<2x2xi32>, tensor<2x2x8xf32>) -> tensor<13x4x2x8xf32>
    %76 = stablehlo.reshape %73 : (tensor<13x4x2x8xf32>) -> tensor<52x16xf32>
    %77 = stablehlo.reshape %historySlots : (tensor<1x12xi32>) -> tensor<12xi32>
    %78 = stablehlo.reshape %77 : (tensor<12xi32>) -> tensor<12x1xi32>
    %79 = "stablehlo.gather"(%76, %78) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<52x16xf32>, tensor<12x1xi32>) -> tensor<12x16xf32>
    %80 = stablehlo.reshape %79 : (tensor<12x16xf32>) -> tensor<1x12x16xf32>
    %81 = stablehlo.reshape %75 : (tensor<13x4x2x8xf32>) -> tensor<52x16xf32>
    %82 = stablehlo.reshape %historySlots : (tensor<1x12xi32>) -> tensor<12xi32>
    %83 = stablehlo.reshape %82 : (tensor<12xi32>) -> tensor<12x1xi32>
    %84 = "stablehlo.gather"(%81, %83) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<52x16xf32>, tensor<12x1xi32>) -> tensor<12x16xf32>
    %85 = stablehlo.reshape %84 : (tensor<12x16xf32>) -> tensor<1x12x16xf32>
    %86 = stablehlo.reshape %68 : (tensor<1x4x8xf32>) -> tensor<1x2x2x8xf32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1, 2, 4] : (tensor<1x2x2x8xf32>) -> tensor<1x2x2x2x8xf32>
    %88 = stablehlo.iota dim = 0 : tensor<2x2xi32>
    %89 = stablehlo.iota dim = 1 : tensor<2x2xi32>
    %90 = stablehlo.compare EQ, %88, %89, SIGNED : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
    %91 = stablehlo.constant dense<1.0> : tensor<2x2xf32>
    %92 = stablehlo.constant dense<0.0> : tensor<2x2xf32>
    %93 = stablehlo.select %90, %91, %92 : tensor<2x2xi1>, tensor<2x2xf32>
    %94 = stablehlo.broadcast_in_dim %93, dims = [1, 3] : (tensor<2x2xf32>) -> tensor<1x2x2x2x8xf32>
    %95 = stablehlo.multiply %87, %94 : tensor<1x2x2x2x8xf32>
    %96 = stablehlo.reshape %95 : (tensor<1x2x2x2x8xf32>) -> tensor<1x4x16xf32>
    %97 = stablehlo.transpose %96, dims = [0, 2, 1] : (tensor<1x4x16xf32>) -> tensor<1x16x4xf32>
    %98 = stablehlo.optimization_barrier %97 : tensor<1x16x4xf32>
    %99 = stablehlo.dot_general %80, %98, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<1x12x16xf32>, tensor<1x16x4xf32>) -> tensor<1x12x4xf32>
    %100 = stablehlo.optimization_barrier %99 : tensor<1x12x4xf32>
    %101 = stablehlo.transpose %100, dims = [0, 2, 1] : (tensor<1x12x4xf32>) -> tensor<1x4x12xf32>
    %102 = stablehlo.broadcast_in_dim %visibility, dims = [0, 2] : (tensor<1x12xf32>) -> tensor<1x4x12xf32>
    %103 = stablehlo.add %101, %102 : tensor<1x4x12xf32>
    %104 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %105 = stablehlo.reduce(%103 init: %104) applies stablehlo.maximum across dimensions = [2] : (tensor<1x4x12xf32>, tensor<f32>) -> tensor<1x4xf32>
    %106 = stablehlo.broadcast_in_dim %105, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<1x4x12xf32>
    %107 = stablehlo.subtract %103, %106 : tensor<1x4x12xf32>
    %108 = stablehlo.exponential %107 : tensor<1x4x12xf32>
    %109 = stablehlo.reshape %108 : (tensor<1x4x12xf32>) -> tensor<4x12xf32>
    %110 = stablehlo.constant dense<1.0> : tensor<12x1xf32>
    %111 = stablehlo.dot_general %109, %110, contracting_dims = [1] x [0] : (tensor<4x12xf32>, tensor<12x1xf32>) -> tensor<4x1xf32>
    %112 = stablehlo.reshape %111 : (tensor<4x1xf32>) -> tensor<1x4xf32>
    %113 = stablehlo.dot_general %108, %85, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<1x4x12xf32>, tensor<1x12x16xf32>) -> tensor<1x4x16xf32>
    %114 = stablehlo.slice %113 [0:1, 0:2, 0:16] : (tensor<1x4x16xf32>) -> tensor<1x2x16xf32>
    %115 = stablehlo.slice %114 [0:1, 0:2, 0:8] : (tensor<1x2x16xf32>) -> tensor<1x2x8xf32>
    %116 = stablehlo.slice %113 [0:1, 2:4, 0:16] : (tensor<1x4x16xf32>) -> tensor<1x2x16xf32>
    %117 = stablehlo.slice %116 [0:1, 0:2, 8:16] : (tensor<1x2x16xf32>) -> tensor<1x2x8xf32>
    %118 = stablehlo.concatenate %115, %117, dim = 1 : (tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> tensor<1x4x8xf32>
    %119 = stablehlo.transpose %118, dims = [1, 2, 0] : (tensor<1x4x8xf32>) -> tensor<4x8x1xf32>
    %120 = stablehlo.transpose %112, dims = [1, 0] : (tensor<1x4xf32>) -> tensor<4x1xf32>
    %121 = stablehlo.broadcast_in_dim %120, dims = [0, 2] : (tensor<4x1xf32>) -> tensor<4x8x1xf32>
    %122 = stablehlo.divide %119, %121 : tensor<4x8x1xf32>
    %123 = stablehlo.reshape %122 : (tensor<4x8x1xf32>) -> tensor<32x1xf32>
    %124 = stablehlo.slice %11 [64:96, 0:1] : (tensor<96x1xf32>) -> tensor<32x1xf32>
    %125 = stablehlo.logistic %124 : tensor<32x1xf32>
    %126 = stablehlo.multiply %123, %125 : tensor<32x1xf32>
    %127 = stablehlo.dot_general %oProj, %126, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x1xf32>
    %128 = stablehlo.dot_general %127, %127, contracting_dims = [0] x [0] : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<1x1xf32>
    %129 = stablehlo.reshape %128 : (tensor<1x1xf32>) -> tensor<1xf32>
    %130 = stablehlo.multiply %129, %2 : tensor<1xf32>
    %131 = stablehlo.add %130, %4 : tensor<1xf32>
    %132 = stablehlo.rsqrt %131 : tensor<1xf32>
    %133 = stablehlo.broadcast_in_dim %132, dims = [1] : (tensor<1xf32>) -> tensor<32x1xf32>
    %134 = stablehlo.multiply %127, %133 : tensor<32x1xf32>
    %135 = stablehlo.broadcast_in_dim %mixerOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %136 = stablehlo.multiply %134, %135 : tensor<32x1xf32>
    %137 = stablehlo.add %x, %136 : tensor<32x1xf32>
    %138 = stablehlo.dot_general %137, %137, contracting_dims = [0] x [0] : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<1x1xf32>
    %139 = stablehlo.reshape %138 : (tensor<1x1xf32>) -> tensor<1xf32>
    %140 = stablehlo.multiply %139, %2 : tensor<1xf32>
    %141 = stablehlo.add %140, %4 : tensor<1xf32>
    %142 = stablehlo.rsqrt %141 : tensor<1xf32>
    %143 = stablehlo.broadcast_in_dim %142, dims = [1] : (tensor<1xf32>) -> tensor<32x1xf32>
    %144 = stablehlo.multiply %137, %143 : tensor<32x1xf32>
    %145 = stablehlo.broadcast_in_dim %postAttnNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %146 = stablehlo.multiply %144, %145 : tensor<32x1xf32>
    %147 = stablehlo.dot_general %gateUpProj, %146, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x1xf32>) -> tensor<96x1xf32>
    %148 = stablehlo.slice %147 [0:48, 0:1] : (tensor<96x1xf32>) -> tensor<48x1xf32>
    %149 = stablehlo.slice %147 [48:96, 0:1] : (tensor<96x1xf32>) -> tensor<48x1xf32>
    %150 = stablehlo.logistic %148 : tensor<48x1xf32>
    %151 = stablehlo.multiply %148, %150 : tensor<48x1xf32>
    %152 = stablehlo.multiply %151, %149 : tensor<48x1xf32>
    %153 = stablehlo.dot_general %downProj, %152, contracting_dims = [1] x [0] : (tensor<32x48xf32>, tensor<48x1xf32>) -> tensor<32x1xf32>
    %154 = stablehlo.dot_general %153, %153, contracting_dims = [0] x [0] : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<1x1xf32>
    %155 = stablehlo.reshape %154 : (tensor<1x1xf32>) -> tensor<1xf32>
    %156 = stablehlo.multiply %155, %2 : tensor<1xf32>
    %157 = stablehlo.add %156, %4 : tensor<1xf32>
    %158 = stablehlo.rsqrt %157 : tensor<1xf32>
    %159 = stablehlo.broadcast_in_dim %158, dims = [1] : (tensor<1xf32>) -> tensor<32x1xf32>
    %160 = stablehlo.multiply %153, %159 : tensor<32x1xf32>
    %161 = stablehlo.broadcast_in_dim %ffnOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %162 = stablehlo.multiply %160, %161 : tensor<32x1xf32>
    %163 = stablehlo.add %137, %162 : tensor<32x1xf32>
    return %163, %73, %75 : tensor<32x1xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>
  }
  func.func private @layer1(%x: tensor<32x1xf32>, %keys: tensor<65x4x2x8xf32>, %values: tensor<65x4x2x8xf32>, %writeIndices: tensor<2x2xi32>, %historySlots: tensor<1x32xi32>, %historyPositions: tensor<1x32xi32>, %visibility: tensor<1x32xf32>, %inputNorm: tensor<32xf32>, %qkvProj: tensor<96x32xf32>, %qkvBias: tensor<64xf32>, %oProj: tensor<32x32xf32>, %mixerOutputNorm: tensor<32xf32>, %postAttnNorm: tensor<32xf32>, %gateUpProj: tensor<96x32xf32>, %downProj: tensor<32x48xf32>, %ffnOutputNorm: tensor<32xf32>) -> (tensor<32x1xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>) {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<1x1xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x1xf32>) -> tensor<1xf32>
    %2 = stablehlo.constant dense<0.03125> : tensor<1xf32>
    %3 = stablehlo.multiply %1, %2 : tensor<1xf32>
    %4 = stablehlo.constant dense<1.0e-5> : tensor<1xf32>
    %5 = stablehlo.add %3, %4 : tensor<1xf32>
    %6 = stablehlo.rsqrt %5 : tensor<1xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [1] : (tensor<1xf32>) -> tensor<32x1xf32>
    %8 = stablehlo.multiply %x, %7 : tensor<32x1xf32>
    %9 = stablehlo.broadcast_in_dim %inputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %10 = stablehlo.multiply %8, %9 : tensor<32x1xf32>
    %11 = stablehlo.dot_general %qkvProj, %10, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x1xf32>) -> tensor<96x1xf32>
    %12 = stablehlo.slice %11 [0:32, 0:1] : (tensor<96x1xf32>) -> tensor<32x1xf32>
    %13 = stablehlo.slice %qkvBias [0:32] : (tensor<64xf32>) -> tensor<32xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %15 = stablehlo.add %12, %14 : tensor<32x1xf32>
    %16 = stablehlo.reshape %15 : (tensor<32x1xf32>) -> tensor<4x8x1xf32>
    %17 = stablehlo.slice %11 [32:48, 0:1] : (tensor<96x1xf32>) -> tensor<16x1xf32>
    %18 = stablehlo.slice %qkvBias [32:48] : (tensor<64xf32>) -> tensor<16xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %20 = stablehlo.add %17, %19 : tensor<16x1xf32>
    %21 = stablehlo.reshape %20 : (tensor<16x1xf32>) -> tensor<2x8x1xf32>
    %22 = stablehlo.slice %11 [48:64, 0:1] : (tensor<96x1xf32>) -> tensor<16x1xf32>
    %23 = stablehlo.slice %qkvBias [48:64] : (tensor<64xf32>) -> tensor<16xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %25 = stablehlo.add %22, %24 : tensor<16x1xf32>
    %26 = stablehlo.reshape %25 : (tensor<16x1xf32>) -> tensor<2x8x1xf32>
    %27 = stablehlo.multiply %16, %16 : tensor<4x8x1xf32>
    %28 = stablehlo.constant dense<0.0> : tensor<f32>
    %29 = stablehlo.reduce(%27 init: %28) applies stablehlo.add across dimensions = [1] : (tensor<4x8x1xf32>, tensor<f32>) -> tensor<4x1xf32>
    %30 = stablehlo.constant dense<0.125> : tensor<4x1xf32>
    %31 = stablehlo.multiply %29, %30 : tensor<4x1xf32>
    %32 = stablehlo.constant dense<1.0e-5> : tensor<4x1xf32>
    %33 = stablehlo.add %31, %32 : tensor<4x1xf32>
    %34 = stablehlo.rsqrt %33 : tensor<4x1xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 2] : (tensor<4x1xf32>) -> tensor<4x8x1xf32>
    %36 = stablehlo.multiply %16, %35 : tensor<4x8x1xf32>
    %37 = stablehlo.multiply %21, %21 : tensor<2x8x1xf32>
    %38 = stablehlo.reduce(%37 init: %28) applies stablehlo.add across dimensions = [1] : (tensor<2x8x1xf32>, tensor<f32>) -> tensor<2x1xf32>
    %39 = stablehlo.constant dense<0.125> : tensor<2x1xf32>
    %40 = stablehlo.multiply %38, %39 : tensor<2x1xf32>
    %41 = stablehlo.constant dense<1.0e-5> : tensor<2x1xf32>
    %42 = stablehlo.add %40, %41 : tensor<2x1xf32>
    %43 = stablehlo.rsqrt %42 : tensor<2x1xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 2] : (tensor<2x1xf32>) -> tensor<2x8x1xf32>
    %45 = stablehlo.multiply %21, %44 : tensor<2x8x1xf32>
    %46 = stablehlo.constant dense<0.53033006> : tensor<4x8x1xf32>
    %47 = stablehlo.multiply %36, %46 : tensor<4x8x1xf32>
    %48 = stablehlo.transpose %47, dims = [2, 0, 1] : (tensor<4x8x1xf32>) -> tensor<1x4x8xf32>
    %49 = stablehlo.transpose %45, dims = [2, 0, 1] : (tensor<2x8x1xf32>) -> tensor<1x2x8xf32>
    %50 = stablehlo.transpose %26, dims = [2, 0, 1] : (tensor<2x8x1xf32>) -> tensor<1x2x8xf32>
    %51 = stablehlo.constant dense<0.0> : tensor<1x2x8xf32>
    %52 = stablehlo.concatenate %49, %51, dim = 0 : (tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> tensor<2x2x8xf32>
    %53 = "stablehlo.scatter"(%keys, %writeIndices, %52) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old53: tensor<f32>, %new53: tensor<f32>):
      stablehlo.return %new53 : tensor<f32>
    }) : (tensor<65x4x2x8xf32>, tensor<2x2xi32>, tensor<2x2x8xf32>) -> tensor<65x4x2x8xf32>
    %54 = stablehlo.concatenate %50, %51, dim = 0 : (tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> tensor<2x2x8xf32>
    %55 = "stablehlo.scatter"(%values, %writeIndices, %54) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old55: tensor<f32>, %new55: tensor<f32>):
      stablehlo.return %new55 : tensor<f32>
    }) : (tensor<65x4x2x8xf32>, tensor<2x2xi32>, tensor<2x2x8xf32>) -> tensor<65x4x2x8xf32>
    %56 = stablehlo.reshape %53 : (tensor<65x4x2x8xf32>) -> tensor<260x16xf32>
    %57 = stablehlo.reshape %historySlots : (tensor<1x32xi32>) -> tensor<32xi32>
    %58 = stablehlo.reshape %57 : (tensor<32xi32>) -> tensor<32x1xi32>
    %59 = "stablehlo.gather"(%56, %58) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<260x16xf32>, tensor<32x1xi32>) -> tensor<32x16xf32>
    %60 = stablehlo.reshape %59 : (tensor<32x16xf32>) -> tensor<1x32x16xf32>
    %61 = stablehlo.reshape %55 : (tensor<65x4x2x8xf32>) -> tensor<260x16xf32>
    %62 = stablehlo.reshape %historySlots : (tensor<1x32xi32>) -> tensor<32xi32>
    %63 = stablehlo.reshape %62 : (tensor<32xi32>) -> tensor<32x1xi32>
    %64 = "stablehlo.gather"(%61, %63) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<260x16xf32>, tensor<32x1xi32>) -> tensor<32x16xf32>
    %65 = stablehlo.reshape %64 : (tensor<32x16xf32>) -> tensor<1x32x16xf32>
    %66 = stablehlo.reshape %48 : (tensor<1x4x8xf32>) -> tensor<1x2x2x8xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2, 4] : (tensor<1x2x2x8xf32>) -> tensor<1x2x2x2x8xf32>
    %68 = stablehlo.iota dim = 0 : tensor<2x2xi32>
    %69 = stablehlo.iota dim = 1 : tensor<2x2xi32>
    %70 = stablehlo.compare EQ, %68, %69, SIGNED : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
    %71 = stablehlo.constant dense<1.0> : tensor<2x2xf32>
    %72 = stablehlo.constant dense<0.0> : tensor<2x2xf32>
    %73 = stablehlo.select %70, %71, %72 : tensor<2x2xi1>, tensor<2x2xf32>
    %74 = stablehlo.broadcast_in_dim %73, dims = [1, 3] : (tensor<2x2xf32>) -> tensor<1x2x2x2x8xf32>
    %75 = stablehlo.multiply %67, %74 : tensor<1x2x2x2x8xf32>
    %76 = stablehlo.reshape %75 : (tensor<1x2x2x2x8xf32>) -> tensor<1x4x16xf32>
    %77 = stablehlo.transpose %76, dims = [0, 2, 1] : (tensor<1x4x16xf32>) -> tensor<1x16x4xf32>
    %78 = stablehlo.optimization_barrier %77 : tensor<1x16x4xf32>
    %79 = stablehlo.dot_general %60, %78, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<1x32x16xf32>, tensor<1x16x4xf32>) -> tensor<1x32x4xf32>
    %80 = stablehlo.optimization_barrier %79 : tensor<1x32x4xf32>
    %81 = stablehlo.transpose %80, dims = [0, 2, 1] : (tensor<1x32x4xf32>) -> tensor<1x4x32xf32>
    %82 = stablehlo.broadcast_in_dim %visibility, dims = [0, 2] : (tensor<1x32xf32>) -> tensor<1x4x32xf32>
    %83 = stablehlo.add %81, %82 : tensor<1x4x32xf32>
    %84 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %85 = stablehlo.reduce(%83 init: %84) applies stablehlo.maximum across dimensions = [2] : (tensor<1x4x32xf32>, tensor<f32>) -> tensor<1x4xf32>
    %86 = stablehlo.broadcast_in_dim %85, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<1x4x32xf32>
    %87 = stablehlo.subtract %83, %86 : tensor<1x4x32xf32>
    %88 = stablehlo.exponential %87 : tensor<1x4x32xf32>
    %89 = stablehlo.reshape %88 : (tensor<1x4x32xf32>) -> tensor<4x32xf32>
    %90 = stablehlo.constant dense<1.0> : tensor<32x1xf32>
    %91 = stablehlo.dot_general %89, %90, contracting_dims = [1] x [0] : (tensor<4x32xf32>, tensor<32x1xf32>) -> tensor<4x1xf32>
    %92 = stablehlo.reshape %91 : (tensor<4x1xf32>) -> tensor<1x4xf32>
    %93 = stablehlo.dot_general %88, %65, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<1x4x32xf32>, tensor<1x32x16xf32>) -> tensor<1x4x16xf32>
    %94 = stablehlo.slice %93 [0:1, 0:2, 0:16] : (tensor<1x4x16xf32>) -> tensor<1x2x16xf32>
    %95 = stablehlo.slice %94 [0:1, 0:2, 0:8] : (tensor<1x2x16xf32>) -> tensor<1x2x8xf32>
    %96 = stablehlo.slice %93 [0:1, 2:4, 0:16] : (tensor<1x4x16xf32>) -> tensor<1x2x16xf32>
    %97 = stablehlo.slice %96 [0:1, 0:2, 8:16] : (tensor<1x2x16xf32>) -> tensor<1x2x8xf32>
    %98 = stablehlo.concatenate %95, %97, dim = 1 : (tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> tensor<1x4x8xf32>
    %99 = stablehlo.transpose %98, dims = [1, 2, 0] : (tensor<1x4x8xf32>) -> tensor<4x8x1xf32>
    %100 = stablehlo.transpose %92, dims = [1, 0] : (tensor<1x4xf32>) -> tensor<4x1xf32>
    %101 = stablehlo.broadcast_in_dim %100, dims = [0, 2] : (tensor<4x1xf32>) -> tensor<4x8x1xf32>
    %102 = stablehlo.divide %99, %101 : tensor<4x8x1xf32>
    %103 = stablehlo.reshape %102 : (tensor<4x8x1xf32>) -> tensor<32x1xf32>
    %104 = stablehlo.slice %11 [64:96, 0:1] : (tensor<96x1xf32>) -> tensor<32x1xf32>
    %105 = stablehlo.logistic %104 : tensor<32x1xf32>
    %106 = stablehlo.multiply %103, %105 : tensor<32x1xf32>
    %107 = stablehlo.dot_general %oProj, %106, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x1xf32>
    %108 = stablehlo.dot_general %107, %107, contracting_dims = [0] x [0] : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<1x1xf32>
    %109 = stablehlo.reshape %108 : (tensor<1x1xf32>) -> tensor<1xf32>
    %110 = stablehlo.multiply %109, %2 : tensor<1xf32>
    %111 = stablehlo.add %110, %4 : tensor<1xf32>
    %112 = stablehlo.rsqrt %111 : tensor<1xf32>
    %113 = stablehlo.broadcast_in_dim %112, dims = [1] : (tensor<1xf32>) -> tensor<32x1xf32>
    %114 = stablehlo.multiply %107, %113 : tensor<32x1xf32>
    %115 = stablehlo.broadcast_in_dim %mixerOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %116 = stablehlo.multiply %114, %115 : tensor<32x1xf32>
    %117 = stablehlo.add %x, %116 : tensor<32x1xf32>
    %118 = stablehlo.dot_general %117, %117, contracting_dims = [0] x [0] : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<1x1xf32>
    %119 = stablehlo.reshape %118 : (tensor<1x1xf32>) -> tensor<1xf32>
    %120 = stablehlo.multiply %119, %2 : tensor<1xf32>
    %121 = stablehlo.add %120, %4 : tensor<1xf32>
    %122 = stablehlo.rsqrt %121 : tensor<1xf32>
    %123 = stablehlo.broadcast_in_dim %122, dims = [1] : (tensor<1xf32>) -> tensor<32x1xf32>
    %124 = stablehlo.multiply %117, %123 : tensor<32x1xf32>
    %125 = stablehlo.broadcast_in_dim %postAttnNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %126 = stablehlo.multiply %124, %125 : tensor<32x1xf32>
    %127 = stablehlo.dot_general %gateUpProj, %126, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x1xf32>) -> tensor<96x1xf32>
    %128 = stablehlo.slice %127 [0:48, 0:1] : (tensor<96x1xf32>) -> tensor<48x1xf32>
    %129 = stablehlo.slice %127 [48:96, 0:1] : (tensor<96x1xf32>) -> tensor<48x1xf32>
    %130 = stablehlo.logistic %128 : tensor<48x1xf32>
    %131 = stablehlo.multiply %128, %130 : tensor<48x1xf32>
    %132 = stablehlo.multiply %131, %129 : tensor<48x1xf32>
    %133 = stablehlo.dot_general %downProj, %132, contracting_dims = [1] x [0] : (tensor<32x48xf32>, tensor<48x1xf32>) -> tensor<32x1xf32>
    %134 = stablehlo.dot_general %133, %133, contracting_dims = [0] x [0] : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<1x1xf32>
    %135 = stablehlo.reshape %134 : (tensor<1x1xf32>) -> tensor<1xf32>
    %136 = stablehlo.multiply %135, %2 : tensor<1xf32>
    %137 = stablehlo.add %136, %4 : tensor<1xf32>
    %138 = stablehlo.rsqrt %137 : tensor<1xf32>
    %139 = stablehlo.broadcast_in_dim %138, dims = [1] : (tensor<1xf32>) -> tensor<32x1xf32>
    %140 = stablehlo.multiply %133, %139 : tensor<32x1xf32>
    %141 = stablehlo.broadcast_in_dim %ffnOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %142 = stablehlo.multiply %140, %141 : tensor<32x1xf32>
    %143 = stablehlo.add %117, %142 : tensor<32x1xf32>
    return %143, %53, %55 : tensor<32x1xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>
  }
}
