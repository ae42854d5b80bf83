module @program {
  func.func public @main(%tokenIds: tensor<2x1xi32>, %positions: tensor<2x1xi32>, %blockTables: tensor<2x16xi32>, %seqLens: tensor<2xi32>, %slotMapping: tensor<2xi32>, %keyCache0: tensor<65x4x2x8xf32> {tf.aliasing_output = 1 : i32}, %valueCache0: tensor<65x4x2x8xf32> {tf.aliasing_output = 2 : i32}, %keyCache1: tensor<65x4x2x8xf32> {tf.aliasing_output = 3 : i32}, %valueCache1: tensor<65x4x2x8xf32> {tf.aliasing_output = 4 : i32}, %keyCache2: tensor<65x4x2x8xf32> {tf.aliasing_output = 5 : i32}, %valueCache2: tensor<65x4x2x8xf32> {tf.aliasing_output = 6 : i32}, %embedTokens: tensor<64x32xf32>, %inputNorm0: tensor<32xf32>, %qkvProj0: tensor<96x32xf32>, %qkvBias0: tensor<64xf32>, %oProj0: tensor<32x32xf32>, %mixerOutputNorm0: tensor<32xf32>, %postAttnNorm0: tensor<32xf32>, %gateUpProj0: tensor<96x32xf32>, %downProj0: tensor<32x48xf32>, %ffnOutputNorm0: tensor<32xf32>, %inputNorm1: tensor<32xf32>, %qkvProj1: tensor<96x32xf32>, %qkvBias1: tensor<64xf32>, %oProj1: tensor<32x32xf32>, %mixerOutputNorm1: tensor<32xf32>, %postAttnNorm1: tensor<32xf32>, %gateUpProj1: tensor<96x32xf32>, %downProj1: tensor<32x48xf32>, %ffnOutputNorm1: tensor<32xf32>, %inputNorm2: tensor<32xf32>, %qkvProj2: tensor<96x32xf32>, %qkvBias2: tensor<64xf32>, %oProj2: tensor<32x32xf32>, %mixerOutputNorm2: tensor<32xf32>, %postAttnNorm2: tensor<32xf32>, %gateUpProj2: tensor<96x32xf32>, %downProj2: tensor<32x48xf32>, %ffnOutputNorm2: tensor<32xf32>, %finalNorm: tensor<32xf32>, %lmHead: tensor<64x32xf32>) -> (tensor<2x1x64xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>) {
    %0 = stablehlo.reshape %tokenIds : (tensor<2x1xi32>) -> tensor<2xi32>
    %1 = stablehlo.reshape %0 : (tensor<2xi32>) -> tensor<2x1xi32>
    %2 = "stablehlo.gather"(%embedTokens, %1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<64x32xf32>, tensor<2x1xi32>) -> tensor<2x32xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<2x32xf32>) -> tensor<32x2xf32>
    %4 = stablehlo.dot_general %3, %3, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x2xf32>, tensor<32x2xf32>) -> tensor<2xf32>
    %5 = stablehlo.constant dense<0.03125> : tensor<2xf32>
    %6 = stablehlo.multiply %4, %5 : tensor<2xf32>
    %7 = stablehlo.constant dense<1.0e-5> : tensor<2xf32>
    %8 = stablehlo.add %6, %7 : tensor<2xf32>
    %9 = stablehlo.rsqrt %8 : tensor<2xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [1] : (tensor<2xf32>) -> tensor<32x2xf32>
    %11 = stablehlo.multiply %3, %10 : tensor<32x2xf32>
    %12 = stablehlo.reshape %positions : (tensor<2x1xi32>) -> tensor<2xi32>
    %13 = stablehlo.constant dense<4> : tensor<2xi32>
    %14 = stablehlo.divide %12, %13 : tensor<2xi32>
    %15 = stablehlo.iota dim = 1 : tensor<2x3xi32>
    %16 = stablehlo.broadcast_in_dim %14, dims = [0] : (tensor<2xi32>) -> tensor<2x3xi32>
    %17 = stablehlo.add %16, %15 : tensor<2x3xi32>
    %18 = stablehlo.constant dense<2> : tensor<2x3xi32>
    %19 = stablehlo.subtract %17, %18 : tensor<2x3xi32>
    %20 = stablehlo.constant dense<0> : tensor<2x3xi32>
    %21 = stablehlo.maximum %19, %20 : tensor<2x3xi32>
    %22 = stablehlo.iota dim = 0 : tensor<2x3xi32>
    %23 = stablehlo.constant dense<16> : tensor<2x3xi32>
    %24 = stablehlo.multiply %22, %23 : tensor<2x3xi32>
    %25 = stablehlo.add %24, %21 : tensor<2x3xi32>
    %26 = stablehlo.reshape %25 : (tensor<2x3xi32>) -> tensor<6xi32>
    %27 = stablehlo.reshape %blockTables : (tensor<2x16xi32>) -> tensor<32x1xi32>
    %28 = stablehlo.reshape %26 : (tensor<6xi32>) -> tensor<6x1xi32>
    %29 = "stablehlo.gather"(%27, %28) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<32x1xi32>, tensor<6x1xi32>) -> tensor<6x1xi32>
    %30 = stablehlo.reshape %29 : (tensor<6x1xi32>) -> tensor<2x3xi32>
    %31 = stablehlo.constant dense<4> : tensor<2x3xi32>
    %32 = stablehlo.multiply %19, %31 : tensor<2x3xi32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1] : (tensor<2x3xi32>) -> tensor<2x3x4xi32>
    %34 = stablehlo.iota dim = 2 : tensor<2x3x4xi32>
    %35 = stablehlo.add %33, %34 : tensor<2x3x4xi32>
    %36 = stablehlo.reshape %35 : (tensor<2x3x4xi32>) -> tensor<2x12xi32>
    %37 = stablehlo.constant dense<0> : tensor<2x12xi32>
    %38 = stablehlo.compare LE, %37, %36, SIGNED : (tensor<2x12xi32>, tensor<2x12xi32>) -> tensor<2x12xi1>
    %39 = stablehlo.constant dense<2147483647> : tensor<2x12xi32>
    %40 = stablehlo.select %38, %36, %39 : tensor<2x12xi1>, tensor<2x12xi32>
    %41 = stablehlo.multiply %30, %31 : tensor<2x3xi32>
    %42 = stablehlo.broadcast_in_dim %41, dims = [0, 1] : (tensor<2x3xi32>) -> tensor<2x3x4xi32>
    %43 = stablehlo.iota dim = 2 : tensor<2x3x4xi32>
    %44 = stablehlo.add %42, %43 : tensor<2x3x4xi32>
    %45 = stablehlo.reshape %44 : (tensor<2x3x4xi32>) -> tensor<2x12xi32>
    %46 = stablehlo.constant dense<1> : tensor<2xi32>
    %47 = stablehlo.subtract %seqLens, %46 : tensor<2xi32>
    %48 = stablehlo.broadcast_in_dim %47, dims = [0] : (tensor<2xi32>) -> tensor<2x12xi32>
    %49 = stablehlo.compare LE, %40, %48, SIGNED : (tensor<2x12xi32>, tensor<2x12xi32>) -> tensor<2x12xi1>
    %50 = stablehlo.constant dense<8> : tensor<2x12xi32>
    %51 = stablehlo.subtract %48, %50 : tensor<2x12xi32>
    %52 = stablehlo.compare LT, %51, %40, SIGNED : (tensor<2x12xi32>, tensor<2x12xi32>) -> tensor<2x12xi1>
    %53 = stablehlo.and %49, %52 : tensor<2x12xi1>
    %54 = stablehlo.constant dense<0.0> : tensor<2x12xf32>
    %55 = stablehlo.constant dense<-1.0e30> : tensor<2x12xf32>
    %56 = stablehlo.select %53, %54, %55 : tensor<2x12xi1>, tensor<2x12xf32>
    %57 = stablehlo.reshape %positions : (tensor<2x1xi32>) -> tensor<2xi32>
    %58 = stablehlo.convert %57 : (tensor<2xi32>) -> tensor<2xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [1] : (tensor<2xf32>) -> tensor<4x2xf32>
    %60 = stablehlo.constant dense<[1.0, 0.1, 0.01, 0.001]> : tensor<4xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0] : (tensor<4xf32>) -> tensor<4x2xf32>
    %62 = stablehlo.multiply %59, %61 : tensor<4x2xf32>
    %63 = stablehlo.cosine %62 : tensor<4x2xf32>
    %64 = stablehlo.sine %62 : tensor<4x2xf32>
    %65 = stablehlo.concatenate %63, %64, dim = 0 : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
    %66 = stablehlo.iota dim = 0 : tensor<8x8xi32>
    %67 = stablehlo.iota dim = 1 : tensor<8x8xi32>
    %68 = stablehlo.compare EQ, %66, %67, SIGNED : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi1>
    %69 = stablehlo.constant dense<1.0> : tensor<8x8xf32>
    %70 = stablehlo.constant dense<0.0> : tensor<8x8xf32>
    %71 = stablehlo.select %68, %69, %70 : tensor<8x8xi1>, tensor<8x8xf32>
    %72 = stablehlo.dot_general %71, %65, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
    %73 = stablehlo.slice %72 [0:4, 0:2] : (tensor<8x2xf32>) -> tensor<4x2xf32>
    %74 = stablehlo.slice %72 [4:8, 0:2] : (tensor<8x2xf32>) -> tensor<4x2xf32>
    %75 = stablehlo.constant dense<0.53033006> : tensor<4x2xf32>
    %76 = stablehlo.multiply %73, %75 : tensor<4x2xf32>
    %77 = stablehlo.multiply %74, %75 : tensor<4x2xf32>
    %78 = stablehlo.constant dense<2> : tensor<2xi32>
    %79 = stablehlo.shift_right_arithmetic %slotMapping, %78 : tensor<2xi32>
    %80 = stablehlo.constant dense<3> : tensor<2xi32>
    %81 = stablehlo.and %slotMapping, %80 : tensor<2xi32>
    %82 = stablehlo.reshape %79 : (tensor<2xi32>) -> tensor<2x1xi32>
    %83 = stablehlo.reshape %81 : (tensor<2xi32>) -> tensor<2x1xi32>
    %84 = stablehlo.concatenate %82, %83, dim = 1 : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x2xi32>
    %85:3 = func.call @layer0(%11, %keyCache0, %valueCache0, %73, %74, %76, %77, %84, %45, %40, %56, %inputNorm0, %qkvProj0, %qkvBias0, %oProj0, %mixerOutputNorm0, %postAttnNorm0, %gateUpProj0, %downProj0, %ffnOutputNorm0) : (tensor<32x2xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<2x2xi32>, tensor<2x12xi32>, tensor<2x12xi32>, tensor<2x12xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x2xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>)
    %86:3 = func.call @layer0(%85#0, %keyCache1, %valueCache1, %73, %74, %76, %77, %84, %45, %40, %56, %inputNorm1, %qkvProj1, %qkvBias1, %oProj1, %mixerOutputNorm1, %postAttnNorm1, %gateUpProj1, %downProj1, %ffnOutputNorm1) : (tensor<32x2xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<2x2xi32>, tensor<2x12xi32>, tensor<2x12xi32>, tensor<2x12xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x2xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>)
    %87 = stablehlo.iota dim = 1 : tensor<2x64xi32>
    %88 = stablehlo.constant dense<4> : tensor<2x16xi32>
    %89 = stablehlo.multiply %blockTables, %88 : tensor<2x16xi32>
    %90 = stablehlo.broadcast_in_dim %89, dims = [0, 1] : (tensor<2x16xi32>) -> tensor<2x16x4xi32>
    %91 = stablehlo.iota dim = 2 : tensor<2x16x4xi32>
    %92 = stablehlo.add %90, %91 : tensor<2x16x4xi32>
    %93 = stablehlo.reshape %92 : (tensor<2x16x4xi32>) -> tensor<2x64xi32>
    %94 = stablehlo.subtract %seqLens, %46 : tensor<2xi32>
    %95 = stablehlo.broadcast_in_dim %94, dims = [0] : (tensor<2xi32>) -> tensor<2x64xi32>
    %96 = stablehlo.compare LE, %87, %95, SIGNED : (tensor<2x64xi32>, tensor<2x64xi32>) -> tensor<2x64xi1>
    %97 = stablehlo.constant dense<0.0> : tensor<2x64xf32>
    %98 = stablehlo.constant dense<-1.0e30> : tensor<2x64xf32>
    %99 = stablehlo.select %96, %97, %98 : tensor<2x64xi1>, tensor<2x64xf32>
    %100 = stablehlo.shift_right_arithmetic %slotMapping, %78 : tensor<2xi32>
    %101 = stablehlo.and %slotMapping, %80 : tensor<2xi32>
    %102 = stablehlo.reshape %100 : (tensor<2xi32>) -> tensor<2x1xi32>
    %103 = stablehlo.reshape %101 : (tensor<2xi32>) -> tensor<2x1xi32>
    %104 = stablehlo.concatenate %102, %103, dim = 1 : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x2xi32>
    %105:3 = func.call @layer1(%86#0, %keyCache2, %valueCache2, %104, %93, %87, %99, %inputNorm2, %qkvProj2, %qkvBias2, %oProj2, %mixerOutputNorm2, %postAttnNorm2, %gateUpProj2, %downProj2, %ffnOutputNorm2) : (tensor<32x2xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<2x2xi32>, tensor<2x64xi32>, tensor<2x64xi32>, tensor<2x64xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x2xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>)
    %106 = stablehlo.reshape %105#0 : (tensor<32x2xf32>) -> tensor<32x2x1xf32>
    %107 = stablehlo.reshape %106 : (tensor<32x2x1xf32>) -> tensor<32x2xf32>
    %108 = stablehlo.dot_general %107, %107, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x2xf32>, tensor<32x2xf32>) -> tensor<2xf32>
    %109 = stablehlo.multiply %108, %5 : tensor<2xf32>
    %110 = stablehlo.add %109, %7 : tensor<2xf32>
    %111 = stablehlo.rsqrt %110 : tensor<2xf32>
    %112 = stablehlo.broadcast_in_dim %111, dims = [1] : (tensor<2xf32>) -> tensor<32x2xf32>
    %113 = stablehlo.multiply %107, %112 : tensor<32x2xf32>
    %114 = stablehlo.broadcast_in_dim %finalNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x2xf32>
    %115 = stablehlo.multiply %113, %114 : tensor<32x2xf32>
    %116 = stablehlo.dot_general %lmHead, %115, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x2xf32>) -> tensor<64x2xf32>
    %117 = stablehlo.optimization_barrier %116 : tensor<64x2xf32>
    %118 = stablehlo.transpose %117, dims = [1, 0] : (tensor<64x2xf32>) -> tensor<2x64xf32>
    %119 = stablehlo.constant dense<30.0> : tensor<2x64xf32>
    %120 = stablehlo.divide %118, %119 : tensor<2x64xf32>
    %121 = stablehlo.tanh %120 : tensor<2x64xf32>
    %122 = stablehlo.multiply %121, %119 : tensor<2x64xf32>
    %123 = stablehlo.reshape %122 : (tensor<2x64xf32>) -> tensor<2x1x64xf32>
    return %123, %85#1, %85#2, %86#1, %86#2, %105#1, %105#2 : tensor<2x1x64xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>
  }
  func.func private @layer0(%x: tensor<32x2xf32>, %keys: tensor<65x4x2x8xf32>, %values: tensor<65x4x2x8xf32>, %keyCos: tensor<4x2xf32>, %keySin: tensor<4x2xf32>, %queryCos: tensor<4x2xf32>, %querySin: tensor<4x2xf32>, %writeIndices: tensor<2x2xi32>, %historySlots: tensor<2x12xi32>, %historyPositions: tensor<2x12xi32>, %visibility: tensor<2x12xf32>, %inputNorm: tensor<32xf32>, %qkvProj: tensor<96x32xf32>, %qkvBias: tensor<64xf32>, %oProj: tensor<32x32xf32>, %mixerOutputNorm: tensor<32xf32>, %postAttnNorm: tensor<32xf32>, %gateUpProj: tensor<96x32xf32>, %downProj: tensor<32x48xf32>, %ffnOutputNorm: tensor<32xf32>) -> (tensor<32x2xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>) {
    %0 = stablehlo.dot_general %x, %x, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x2xf32>, tensor<32x2xf32>) -> tensor<2xf32>
    %1 = stablehlo.constant dense<0.03125> : tensor<2xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<2xf32>
    %3 = stablehlo.constant dense<1.0e-5> : tensor<2xf32>
    %4 = stablehlo.add %2, %3 : tensor<2xf32>
    %5 = stablehlo.rsqrt %4 : tensor<2xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [1] : (tensor<2xf32>) -> tensor<32x2xf32>
    %7 = stablehlo.multiply %x, %6 : tensor<32x2xf32>
    %8 = stablehlo.broadcast_in_dim %inputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x2xf32>
    %9 = stablehlo.multiply %7, %8 : tensor<32x2xf32>
    %10 = stablehlo.dot_general %qkvProj, %9, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x2xf32>) -> tensor<96x2xf32>
    %11 = stablehlo.slice %10 [0:32, 0:2] : (tensor<96x2xf32>) -> tensor<32x2xf32>
    %12 = stablehlo.slice %qkvBias [0:32] : (tensor<64xf32>) -> tensor<32xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<32xf32>) -> tensor<32x2xf32>
    %14 = stablehlo.add %11, %13 : tensor<32x2xf32>
    %15 = stablehlo.reshape %14 : (tensor<32x2xf32>) -> tensor<4x8x2xf32>
    %16 = stablehlo.slice %10 [32:48, 0:2] : (tensor<96x2xf32>) -> tensor<16x2xf32>
    %17 = stablehlo.slice %qkvBias [32:48] : (tensor<64xf32>) -> tensor<16xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0] : (tensor<16xf32>) -> tensor<16x2xf32>
    %19 = stablehlo.add %16, %18 : tensor<16x2xf32>
    %20 = stablehlo.reshape %19 : (tensor<16x2xf32>) -> tensor<2x8x2xf32>
    %21 = stablehlo.slice %10 [48:64, 0:2] : (tensor<96x2xf32>) -> tensor<16x2xf32>
    %22 = stablehlo.slice %qkvBias [48:64] : (tensor<64xf32>) -> tensor<16xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0] : (tensor<16xf32>) -> tensor<16x2xf32>
    %24 = stablehlo.add %21, %23 : tensor<16x2xf32>
    %25 = stablehlo.reshape %24 : (tensor<16x2xf32>) -> tensor<2x8x2xf32>
    %26 = stablehlo.multiply %15, %15 : tensor<4x8x2xf32>
    %27 = stablehlo.constant dense<0.0> : tensor<f32>
    %28 = stablehlo.reduce(%26 init: %27) applies stablehlo.add across dimensions = [1] : (tensor<4x8x2xf32>, tensor<f32>) -> tensor<4x2xf32>
    %29 = stablehlo.constant dense<0.125> : tensor<4x2xf32>
    %30 = stablehlo.multiply %28, %29 : tensor<4x2xf32>
    %31 = stablehlo.constant dense<1.0e-5> : tensor<4x2xf32>
    %32 = stablehlo.add %30, %31 : tensor<4x2xf32>
    %33 = stablehlo.rsqrt %32 : tensor<4x2xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 2] : (tensor<4x2xf32>) -> tensor<4x8x2xf32>
    %35 = stablehlo.multiply %15, %34 : tensor<4x8x2xf32>
    %36 = stablehlo.multiply %20, %20 : tensor<2x8x2xf32>
    %37 = stablehlo.reduce(%36 init: %27) applies stablehlo.add across dimensions = [1] : (tensor<2x8x2xf32>, tensor<f32>) -> tensor<2x2xf32>
    %38 = stablehlo.constant dense<0.125> : tensor<2x2xf32>
    %39 = stablehlo.multiply %37, %38 : tensor<2x2xf32>
    %40 = stablehlo.constant dense<1.0e-5> : tensor<2x2xf32>
    %41 = stablehlo.add %39, %40 : tensor<2x2xf32>
    %42 = stablehlo.rsqrt %41 : tensor<2x2xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 2] : (tensor<2x2xf32>) -> tensor<2x8x2xf32>
    %44 = stablehlo.multiply %20, %43 : tensor<2x8x2xf32>
    %45 = stablehlo.slice %35 [0:4, 0:4, 0:2] : (tensor<4x8x2xf32>) -> tensor<4x4x2xf32>
    %46 = stablehlo.slice %35 [0:4, 4:8, 0:2] : (tensor<4x8x2xf32>) -> tensor<4x4x2xf32>
    %47 = stablehlo.broadcast_in_dim %queryCos, dims = [1, 2] : (tensor<4x2xf32>) -> tensor<4x4x2xf32>
    %48 = stablehlo.broadcast_in_dim %querySin, dims = [1, 2] : (tensor<4x2xf32>) -> tensor<4x4x2xf32>
    %49 = stablehlo.multiply %45, %47 : tensor<4x4x2xf32>
    %50 = stablehlo.multiply %46, %48 : tensor<4x4x2xf32>
    %51 = stablehlo.multiply %46, %47 : tensor<4x4x2xf32>
    %52 = stablehlo.multiply %45, %48 : tensor<4x4x2xf32>
    %53 = stablehlo.subtract %49, %50 : tensor<4x4x2xf32>
    %54 = stablehlo.add %51, %52 : tensor<4x4x2xf32>
    %55 = stablehlo.concatenate %53, %54, dim = 1 : (tensor<4x4x2xf32>, tensor<4x4x2xf32>) -> tensor<4x8x2xf32>
    %56 = stablehlo.slice %44 [0:2, 0:4, 0:2] : (tensor<2x8x2xf32>) -> tensor<2x4x2xf32>
    %57 = stablehlo.slice %44 [0:2, 4:8, 0:2] : (tensor<2x8x2xf32>) -> tensor<2x4x2xf32>
    %58 = stablehlo.broadcast_in_dim %keyCos, dims = [1, 2] : (tensor<4x2xf32>) -> tensor<2x4x2xf32>
    %59 = stablehlo.broadcast_in_dim %keySin, dims = [1, 2] : (tensor<4x2xf32>) -> tensor<2x4x2xf32>
    %60 = stablehlo.multiply %56, %58 : tensor<2x4x2xf32>
    %61 = stablehlo.multiply %57, %59 : tensor<2x4x2xf32>
    %62 = stablehlo.multiply %57, %58 : tensor<2x4x2xf32>
    %63 = stablehlo.multiply %56, %59 : tensor<2x4x2xf32>
    %64 = stablehlo.subtract %60, %61 : tensor<2x4x2xf32>
    %65 = stablehlo.add %62, %63 : tensor<2x4x2xf32>
    %66 = stablehlo.concatenate %64, %65, dim = 1 : (tensor<2x4x2xf32>, tensor<2x4x2xf32>) -> tensor<2x8x2xf32>
    %67 = stablehlo.transpose %55, dims = [2, 0, 1] : (tensor<4x8x2xf32>) -> tensor<2x4x8xf32>
    %68 = stablehlo.transpose %66, dims = [2, 0, 1] : (tensor<2x8x2xf32>) -> tensor<2x2x8xf32>
    %69 = stablehlo.transpose %25, dims = [2, 0, 1] : (tensor<2x8x2xf32>) -> tensor<2x2x8xf32>
    %70 = "stablehlo.scatter"(%keys, %writeIndices, %68) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old70: tensor<f32>, %new70: tensor<f32>):
      stablehlo.return %new70 : tensor<f32>
    }) : (tensor<65x4x2x8xf32>, tensor<2x2xi32>, tensor<2x2x8xf32>) -> tensor<65x4x2x8xf32>
    %71 = "stablehlo.scatter"(%values, %writeIndices, %69) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old71: tensor<f32>, %new71: tensor<f32>):
      stablehlo.return %new71 : tensor<f32>
    }) : (tensor<65x4x2x8xf32>, tensor<2x2xi32>, tensor<2x2x8xf32>) -> tensor<65x4x2x8xf32>
    %72 = stablehlo.reshape %70 : (tensor<65x4x2x8xf32>) -> tensor<260x16xf32>
    %73 = stablehlo.reshape %historySlots : (tensor<2x12xi32>) -> tensor<24xi32>
    %74 = stablehlo.reshape %73 : (tensor<24xi32>) -> tensor<24x1xi32>
    %75 = "stablehlo.gather"(%72, %74) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<260x16xf32>, tensor<24x1xi32>) -> tensor<24x16xf32>
    %76 = stablehlo.reshape %75 : (tensor<24x16xf32>) -> tensor<2x12x16xf32>
    %77 = stablehlo.reshape %71 : (tensor<65x4x2x8xf32>) -> tensor<260x16xf32>
    %78 = stablehlo.reshape %historySlots : (tensor<2x12xi32>) -> tensor<24xi32>
    %79 = stablehlo.reshape %78 : (tensor<24xi32>) -> tensor<24x1xi32>
    %80 = "stablehlo.gather"(%77, %79) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<260x16xf32>, tensor<24x1xi32>) -> tensor<24x16xf32>
    %81 = stablehlo.reshape %80 : (tensor<24x16xf32>) -> tensor<2x12x16xf32>
    %82 = stablehlo.reshape %67 : (tensor<2x4x8xf32>) -> tensor<2x2x2x8xf32>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2, 4] : (tensor<2x2x2x8xf32>) -> tensor<2x2x2x2x8xf32>
    %84 = stablehlo.iota dim = 0 : tensor<2x2xi32>
    %85 = stablehlo.iota dim = 1 : tensor<2x2xi32>
    %86 = stablehlo.compare EQ, %84, %85, SIGNED : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
    %87 = stablehlo.constant dense<1.0> : tensor<2x2xf32>
    %88 = stablehlo.constant dense<0.0> : tensor<2x2xf32>
    %89 = stablehlo.select %86, %87, %88 : tensor<2x2xi1>, tensor<2x2xf32>
    %90 = stablehlo.broadcast_in_dim %89, dims = [1, 3] : (tensor<2x2xf32>) -> tensor<2x2x2x2x8xf32>
    %91 = stablehlo.multiply %83, %90 : tensor<2x2x2x2x8xf32>
    %92 = stablehlo.reshape %91 : (tensor<2x2x2x2x8xf32>) -> tensor<2x4x16xf32>
    %93 = stablehlo.transpose %92, dims = [0, 2, 1] : (tensor<2x4x16xf32>) -> tensor<2x16x4xf32>
    %94 = stablehlo.optimization_barrier %93 : tensor<2x16x4xf32>
    %95 = stablehlo.dot_general %76, %94, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x12x16xf32>, tensor<2x16x4xf32>) -> tensor<2x12x4xf32>
    %96 = stablehlo.optimization_barrier %95 : tensor<2x12x4xf32>
    %97 = stablehlo.transpose %96, dims = [0, 2, 1] : (tensor<2x12x4xf32>) -> tensor<2x4x12xf32>
    %98 = stablehlo.broadcast_in_dim %visibility, dims = [0, 2] : (tensor<2x12xf32>) -> tensor<2x4x12xf32>
    %99 = stablehlo.add %97, %98 : tensor<2x4x12xf32>
    %100 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %101 = stablehlo.reduce(%99 init: %100) applies stablehlo.maximum across dimensions = [2] : (tensor<2x4x12xf32>, tensor<f32>) -> tensor<2x4xf32>
    %102 = stablehlo.broadcast_in_dim %101, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x12xf32>
    %103 = stablehlo.subtract %99, %102 : tensor<2x4x12xf32>
    %104 = stablehlo.exponential %103 : tensor<2x4x12xf32>
    %105 = stablehlo.reshape %104 : (tensor<2x4x12xf32>) -> tensor<8x12xf32>
    %106 = stablehlo.constant dense<1.0> : tensor<12x1xf32>
    %107 = stablehlo.dot_general %105, %106, contracting_dims = [1] x [0] : (tensor<8x12xf32>, tensor<12x1xf32>) -> tensor<8x1xf32>
    %108 = stablehlo.reshape %107 : (tensor<8x1xf32>) -> tensor<2x4xf32>
    %109 = stablehlo.dot_general %104, %81, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x4x12xf32>, tensor<2x12x16xf32>) -> tensor<2x4x16xf32>
    %110 = stablehlo.slice %109 [0:2, 0:2, 0:16] : (tensor<2x4x16xf32>) -> tensor<2x2x16xf32>
    %111 = stablehlo.slice %110 [0:2, 0:2, 0:8] : (tensor<2x2x16xf32>) -> tensor<2x2x8xf32>
    %112 = stablehlo.slice %109 [0:2, 2:4, 0:16] : (tensor<2x4x16xf32>) -> tensor<2x2x16xf32>
    %113 = stablehlo.slice %112 [0:2, 0:2, 8:16] : (tensor<2x2x16xf32>) -> tensor<2x2x8xf32>
    %114 = stablehlo.concatenate %111, %113, dim = 1 : (tensor<2x2x8xf32>, tensor<2x2x8xf32>) -> tensor<2x4x8xf32>
    %115 = stablehlo.transpose %114, dims = [1, 2, 0] : (tensor<2x4x8xf32>) -> tensor<4x8x2xf32>
    %116 = stablehlo.transpose %108, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
    %117 = stablehlo.broadcast_in_dim %116, dims = [0, 2] : (tensor<4x2xf32>) -> tensor<4x8x2xf32>
    %118 = stablehlo.divide %115, %117 : tensor<4x8x2xf32>
    %119 = stablehlo.reshape %118 : (tensor<4x8x2xf32>) -> tensor<32x2xf32>
    %120 = stablehlo.slice %10 [64:96, 0:2] : (tensor<96x2xf32>) -> tensor<32x2xf32>
    %121 = stablehlo.logistic %120 : tensor<32x2xf32>
    %122 = stablehlo.multiply %119, %121 : tensor<32x2xf32>
    %123 = stablehlo.dot_general %oProj, %122, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x2xf32>) -> tensor<32x2xf32>
    %124 = stablehlo.dot_general %123, %123, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x2xf32>, tensor<32x2xf32>) -> tensor<2xf32>
    %125 = stablehlo.multiply %124, %1 : tensor<2xf32>
    %126 = stablehlo.add %125, %3 : tensor<2xf32>
    %127 = stablehlo.rsqrt %126 : tensor<2xf32>
    %128 = stablehlo.broadcast_in_dim %127, dims = [1] : (tensor<2xf32>) -> tensor<32x2xf32>
    %129 = stablehlo.multiply %123, %128 : tensor<32x2xf32>
    %130 = stablehlo.broadcast_in_dim %mixerOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x2xf32>
    %131 = stablehlo.multiply %129, %130 : tensor<32x2xf32>
    %132 = stablehlo.add %x, %131 : tensor<32x2xf32>
    %133 = stablehlo.dot_general %132, %132, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x2xf32>, tensor<32x2xf32>) -> tensor<2xf32>
    %134 = stablehlo.multiply %133, %1 : tensor<2xf32>
    %135 = stablehlo.add %134, %3 : tensor<2xf32>
    %136 = stablehlo.rsqrt %135 : tensor<2xf32>
    %137 = stablehlo.broadcast_in_dim %136, dims = [1] : (tensor<2xf32>) -> tensor<32x2xf32>
    %138 = stablehlo.multiply %132, %137 : tensor<32x2xf32>
    %139 = stablehlo.broadcast_in_dim %postAttnNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x2xf32>
    %140 = stablehlo.multiply %138, %139 : tensor<32x2xf32>
    %141 = stablehlo.dot_general %gateUpProj, %140, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x2xf32>) -> tensor<96x2xf32>
    %142 = stablehlo.slice %141 [0:48, 0:2] : (tensor<96x2xf32>) -> tensor<48x2xf32>
    %143 = stablehlo.slice %141 [48:96, 0:2] : (tensor<96x2xf32>) -> tensor<48x2xf32>
    %144 = stablehlo.logistic %142 : tensor<48x2xf32>
    %145 = stablehlo.multiply %142, %144 : tensor<48x2xf32>
    %146 = stablehlo.multiply %145, %143 : tensor<48x2xf32>
    %147 = stablehlo.dot_general %downProj, %146, contracting_dims = [1] x [0] : (tensor<32x48xf32>, tensor<48x2xf32>) -> tensor<32x2xf32>
    %148 = stablehlo.dot_general %147, %147, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x2xf32>, tensor<32x2xf32>) -> tensor<2xf32>
    %149 = stablehlo.multiply %148, %1 : tensor<2xf32>
    %150 = stablehlo.add %149, %3 : tensor<2xf32>
    %151 = stablehlo.rsqrt %150 : tensor<2xf32>
    %152 = stablehlo.broadcast_in_dim %151, dims = [1] : (tensor<2xf32>) -> tensor<32x2xf32>
    %153 = stablehlo.multiply %147, %152 : tensor<32x2xf32>
    %154 = stablehlo.broadcast_in_dim %ffnOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x2xf32>
    %155 = stablehlo.multiply %153, %154 : tensor<32x2xf32>
    %156 = stablehlo.add %132, %155 : tensor<32x2xf32>
    return %156, %70, %71 : tensor<32x2xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>
  }
  func.func private @layer1(%x: tensor<32x2xf32>, %keys: tensor<65x4x2x8xf32>, %values: tensor<65x4x2x8xf32>, %writeIndices: tensor<2x2xi32>, %historySlots: tensor<2x64xi32>, %historyPositions: tensor<2x64xi32>, %visibility: tensor<2x64xf32>, %inputNorm: tensor<32xf32>, %qkvProj: tensor<96x32xf32>, %qkvBias: tensor<64xf32>, %oProj: tensor<32x32xf32>, %mixerOutputNorm: tensor<32xf32>, %postAttnNorm: tensor<32xf32>, %gateUpProj: tensor<96x32xf32>, %downProj: tensor<32x48xf32>, %ffnOutputNorm: tensor<32xf32>) -> (tensor<32x2xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>) {
    %0 = stablehlo.dot_general %x, %x, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x2xf32>, tensor<32x2xf32>) -> tensor<2xf32>
    %1 = stablehlo.constant dense<0.03125> : tensor<2xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<2xf32>
    %3 = stablehlo.constant dense<1.0e-5> : tensor<2xf32>
    %4 = stablehlo.add %2, %3 : tensor<2xf32>
    %5 = stablehlo.rsqrt %4 : tensor<2xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [1] : (tensor<2xf32>) -> tensor<32x2xf32>
    %7 = stablehlo.multiply %x, %6 : tensor<32x2xf32>
    %8 = stablehlo.broadcast_in_dim %inputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x2xf32>
    %9 = stablehlo.multiply %7, %8 : tensor<32x2xf32>
    %10 = stablehlo.dot_general %qkvProj, %9, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x2xf32>) -> tensor<96x2xf32>
    %11 = stablehlo.slice %10 [0:32, 0:2] : (tensor<96x2xf32>) -> tensor<32x2xf32>
    %12 = stablehlo.slice %qkvBias [0:32] : (tensor<64xf32>) -> tensor<32xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<32xf32>) -> tensor<32x2xf32>
    %14 = stablehlo.add %11, %13 : tensor<32x2xf32>
    %15 = stablehlo.reshape %14 : (tensor<32x2xf32>) -> tensor<4x8x2xf32>
    %16 = stablehlo.slice %10 [32:48, 0:2] : (tensor<96x2xf32>) -> tensor<16x2xf32>
    %17 = stablehlo.slice %qkvBias [32:48] : (tensor<64xf32>) -> tensor<16xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0] : (tensor<16xf32>) -> tensor<16x2xf32>
    %19 = stablehlo.add %16, %18 : tensor<16x2xf32>
    %20 = stablehlo.reshape %19 : (tensor<16x2xf32>) -> tensor<2x8x2xf32>
    %21 = stablehlo.slice %10 [48:64, 0:2] : (tensor<96x2xf32>) -> tensor<16x2xf32>
    %22 = stablehlo.slice %qkvBias [48:64] : (tensor<64xf32>) -> tensor<16xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0] : (tensor<16xf32>) -> tensor<16x2xf32>
    %24 = stablehlo.add %21, %23 : tensor<16x2xf32>
    %25 = stablehlo.reshape %24 : (tensor<16x2xf32>) -> tensor<2x8x2xf32>
    %26 = stablehlo.multiply %15, %15 : tensor<4x8x2xf32>
    %27 = stablehlo.constant dense<0.0> : tensor<f32>
    %28 = stablehlo.reduce(%26 init: %27) applies stablehlo.add across dimensions = [1] : (tensor<4x8x2xf32>, tensor<f32>) -> tensor<4x2xf32>
    %29 = stablehlo.constant dense<0.125> : tensor<4x2xf32>
    %30 = stablehlo.multiply %28, %29 : tensor<4x2xf32>
    %31 = stablehlo.constant dense<1.0e-5> : tensor<4x2xf32>
    %32 = stablehlo.add %30, %31 : tensor<4x2xf32>
    %33 = stablehlo.rsqrt %32 : tensor<4x2xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 2] : (tensor<4x2xf32>) -> tensor<4x8x2xf32>
    %35 = stablehlo.multiply %15, %34 : tensor<4x8x2xf32>
    %36 = stablehlo.multiply %20, %20 : tensor<2x8x2xf32>
    %37 = stablehlo.reduce(%36 init: %27) applies stablehlo.add across dimensions = [1] : (tensor<2x8x2xf32>, tensor<f32>) -> tensor<2x2xf32>
    %38 = stablehlo.constant dense<0.125> : tensor<2x2xf32>
    %39 = stablehlo.multiply %37, %38 : tensor<2x2xf32>
    %40 = stablehlo.constant dense<1.0e-5> : tensor<2x2xf32>
    %41 = stablehlo.add %39, %40 : tensor<2x2xf32>
    %42 = stablehlo.rsqrt %41 : tensor<2x2xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 2] : (tensor<2x2xf32>) -> tensor<2x8x2xf32>
    %44 = stablehlo.multiply %20, %43 : tensor<2x8x2xf32>
    %45 = stablehlo.constant dense<0.53033006> : tensor<4x8x2xf32>
    %46 = stablehlo.multiply %35, %45 : tensor<4x8x2xf32>
    %47 = stablehlo.transpose %46, dims = [2, 0, 1] : (tensor<4x8x2xf32>) -> tensor<2x4x8xf32>
    %48 = stablehlo.transpose %44, dims = [2, 0, 1] : (tensor<2x8x2xf32>) -> tensor<2x2x8xf32>
    %49 = stablehlo.transpose %25, dims = [2, 0, 1] : (tensor<2x8x2xf32>) -> tensor<2x2x8xf32>
    %50 = "stablehlo.scatter"(%keys, %writeIndices, %48) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old50: tensor<f32>, %new50: tensor<f32>):
      stablehlo.return %new50 : tensor<f32>
    }) : (tensor<65x4x2x8xf32>, tensor<2x2xi32>, tensor<2x2x8xf32>) -> tensor<65x4x2x8xf32>
    %51 = "stablehlo.scatter"(%values, %writeIndices, %49) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old51: tensor<f32>, %new51: tensor<f32>):
      stablehlo.return %new51 : tensor<f32>
    }) : (tensor<65x4x2x8xf32>, tensor<2x2xi32>, tensor<2x2x8xf32>) -> tensor<65x4x2x8xf32>
    %52 = stablehlo.reshape %50 : (tensor<65x4x2x8xf32>) -> tensor<260x16xf32>
    %53 = stablehlo.reshape %historySlots : (tensor<2x64xi32>) -> tensor<128xi32>
    %54 = stablehlo.reshape %53 : (tensor<128xi32>) -> tensor<128x1xi32>
    %55 = "stablehlo.gather"(%52, %54) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<260x16xf32>, tensor<128x1xi32>) -> tensor<128x16xf32>
    %56 = stablehlo.reshape %55 : (tensor<128x16xf32>) -> tensor<2x64x16xf32>
    %57 = stablehlo.reshape %51 : (tensor<65x4x2x8xf32>) -> tensor<260x16xf32>
    %58 = stablehlo.reshape %historySlots : (tensor<2x64xi32>) -> tensor<128xi32>
    %59 = stablehlo.reshape %58 : (tensor<128xi32>) -> tensor<128x1xi32>
    %60 = "stablehlo.gather"(%57, %59) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<260x16xf32>, tensor<128x1xi32>) -> tensor<128x16xf32>
    %61 = stablehlo.reshape %60 : (tensor<128x16xf32>) -> tensor<2x64x16xf32>
    %62 = stablehlo.reshape %47 : (tensor<2x4x8xf32>) -> tensor<2x2x2x8xf32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [0, 1, 2, 4] : (tensor<2x2x2x8xf32>) -> tensor<2x2x2x2x8xf32>
    %64 = stablehlo.iota dim = 0 : tensor<2x2xi32>
    %65 = stablehlo.iota dim = 1 : tensor<2x2xi32>
    %66 = stablehlo.compare EQ, %64, %65, SIGNED : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
    %67 = stablehlo.constant dense<1.0> : tensor<2x2xf32>
    %68 = stablehlo.constant dense<0.0> : tensor<2x2xf32>
    %69 = stablehlo.select %66, %67, %68 : tensor<2x2xi1>, tensor<2x2xf32>
    %70 = stablehlo.broadcast_in_dim %69, dims = [1, 3] : (tensor<2x2xf32>) -> tensor<2x2x2x2x8xf32>
    %71 = stablehlo.multiply %63, %70 : tensor<2x2x2x2x8xf32>
    %72 = stablehlo.reshape %71 : (tensor<2x2x2x2x8xf32>) -> tensor<2x4x16xf32>
    %73 = stablehlo.transpose %72, dims = [0, 2, 1] : (tensor<2x4x16xf32>) -> tensor<2x16x4xf32>
    %74 = stablehlo.optimization_barrier %73 : tensor<2x16x4xf32>
    %75 = stablehlo.dot_general %56, %74, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x64x16xf32>, tensor<2x16x4xf32>) -> tensor<2x64x4xf32>
    %76 = stablehlo.optimization_barrier %75 : tensor<2x64x4xf32>
    %77 = stablehlo.transpose %76, dims = [0, 2, 1] : (tensor<2x64x4xf32>) -> tensor<2x4x64xf32>
    %78 = stablehlo.broadcast_in_dim %visibility, dims = [0, 2] : (tensor<2x64xf32>) -> tensor<2x4x64xf32>
    %79 = stablehlo.add %77, %78 : tensor<2x4x64xf32>
    %80 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %81 = stablehlo.reduce(%79 init: %80) applies stablehlo.maximum across dimensions = [2] : (tensor<2x4x64xf32>, tensor<f32>) -> tensor<2x4xf32>
    %82 = stablehlo.broadcast_in_dim %81, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x64xf32>
    %83 = stablehlo.subtract %79, %82 : tensor<2x4x64xf32>
    %84 = stablehlo.exponential %83 : tensor<2x4x64xf32>
    %85 = stablehlo.reshape %84 : (tensor<2x4x64xf32>) -> tensor<8x64xf32>
    %86 = stablehlo.constant dense<1.0> : tensor<64x1xf32>
    %87 = stablehlo.dot_general %85, %86, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x1xf32>) -> tensor<8x1xf32>
    %88 = stablehlo.reshape %87 : (tensor<8x1xf32>) -> tensor<2x4xf32>
    %89 = stablehlo.dot_general %84, %61, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x4x64xf32>, tensor<2x64x16xf32>) -> tensor<2x4x16xf32>
    %90 = stablehlo.slice %89 [0:2, 0:2, 0:16] : (tensor<2x4x16xf32>) -> tensor<2x2x16xf32>
    %91 = stablehlo.slice %90 [0:2, 0:2, 0:8] : (tensor<2x2x16xf32>) -> tensor<2x2x8xf32>
    %92 = stablehlo.slice %89 [0:2, 2:4, 0:16] : (tensor<2x4x16xf32>) -> tensor<2x2x16xf32>
    %93 = stablehlo.slice %92 [0:2, 0:2, 8:16] : (tensor<2x2x16xf32>) -> tensor<2x2x8xf32>
    %94 = stablehlo.concatenate %91, %93, dim = 1 : (tensor<2x2x8xf32>, tensor<2x2x8xf32>) -> tensor<2x4x8xf32>
    %95 = stablehlo.transpose %94, dims = [1, 2, 0] : (tensor<2x4x8xf32>) -> tensor<4x8x2xf32>
    %96 = stablehlo.transpose %88, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
    %97 = stablehlo.broadcast_in_dim %96, dims = [0, 2] : (tensor<4x2xf32>) -> tensor<4x8x2xf32>
    %98 = stablehlo.divide %95, %97 : tensor<4x8x2xf32>
    %99 = stablehlo.reshape %98 : (tensor<4x8x2xf32>) -> tensor<32x2xf32>
    %100 = stablehlo.slice %10 [64:96, 0:2] : (tensor<96x2xf32>) -> tensor<32x2xf32>
    %101 = stablehlo.logistic %100 : tensor<32x2xf32>
    %102 = stablehlo.multiply %99, %101 : tensor<32x2xf32>
    %103 = stablehlo.dot_general %oProj, %102, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x2xf32>) -> tensor<32x2xf32>
    %104 = stablehlo.dot_general %103, %103, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x2xf32>, tensor<32x2xf32>) -> tensor<2xf32>
    %105 = stablehlo.multiply %104, %1 : tensor<2xf32>
    %106 = stablehlo.add %105, %3 : tensor<2xf32>
    %107 = stablehlo.rsqrt %106 : tensor<2xf32>
    %108 = stablehlo.broadcast_in_dim %107, dims = [1] : (tensor<2xf32>) -> tensor<32x2xf32>
    %109 = stablehlo.multiply %103, %108 : tensor<32x2xf32>
    %110 = stablehlo.broadcast_in_dim %mixerOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x2xf32>
    %111 = stablehlo.multiply %109, %110 : tensor<32x2xf32>
    %112 = stablehlo.add %x, %111 : tensor<32x2xf32>
    %113 = stablehlo.dot_general %112, %112, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x2xf32>, tensor<32x2xf32>) -> tensor<2xf32>
    %114 = stablehlo.multiply %113, %1 : tensor<2xf32>
    %115 = stablehlo.add %114, %3 : tensor<2xf32>
    %116 = stablehlo.rsqrt %115 : tensor<2xf32>
    %117 = stablehlo.broadcast_in_dim %116, dims = [1] : (tensor<2xf32>) -> tensor<32x2xf32>
    %118 = stablehlo.multiply %112, %117 : tensor<32x2xf32>
    %119 = stablehlo.broadcast_in_dim %postAttnNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x2xf32>
    %120 = stablehlo.multiply %118, %119 : tensor<32x2xf32>
    %121 = stablehlo.dot_general %gateUpProj, %120, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x2xf32>) -> tensor<96x2xf32>
    %122 = stablehlo.slice %121 [0:48, 0:2] : (tensor<96x2xf32>) -> tensor<48x2xf32>
    %123 = stablehlo.slice %121 [48:96, 0:2] : (tensor<96x2xf32>) -> tensor<48x2xf32>
    %124 = stablehlo.logistic %122 : tensor<48x2xf32>
    %125 = stablehlo.multiply %122, %124 : tensor<48x2xf32>
    %126 = stablehlo.multiply %125, %123 : tensor<48x2xf32>
    %127 = stablehlo.dot_general %downProj, %126, contracting_dims = [1] x [0] : (tensor<32x48xf32>, tensor<48x2xf32>) -> tensor<32x2xf32>
    %128 = stablehlo.dot_general %127, %127, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x2xf32>, tensor<32x2xf32>) -> tensor<2xf32>
    %129 = stablehlo.multiply %128, %1 : tensor<2xf32>
    %130 = stablehlo.add %129, %3 : tensor<2xf32>
    %131 = stablehlo.rsqrt %130 : tensor<2xf32>
    %132 = stablehlo.broadcast_in_dim %131, dims = [1] : (tensor<2xf32>) -> tensor<32x2xf32>
    %133 = stablehlo.multiply %127, %132 : tensor<32x2xf32>
    %134 = stablehlo.broadcast_in_dim %ffnOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x2xf32>
    %135 = stablehlo.multiply %133, %134 : tensor<32x2xf32>
    %136 = stablehlo.add %112, %135 : tensor<32x2xf32>
    return %136, %50, %51 : tensor<32x2xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>
  }
}
