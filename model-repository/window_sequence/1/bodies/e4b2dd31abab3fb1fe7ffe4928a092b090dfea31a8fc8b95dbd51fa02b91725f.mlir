module @program {
  func.func public @main(%tokenIds: tensor<2x64xi32>, %positions: tensor<2x64xi32>, %blockTables: tensor<2x16xi32>, %seqLens: tensor<2xi32>, %slotMapping: tensor<128xi32>, %windowBlockTables: tensor<2x16xi32>, %windowSlotMapping: tensor<128xi32>, %keyCache0: tensor<13x4x2x8xf32> {tf.aliasing_output = 1 : i32}, %valueCache0: tensor<13x4x2x8xf32> {tf.aliasing_output = 2 : i32}, %keyCache1: tensor<13x4x2x8xf32> {tf.aliasing_output = 3 : i32}, %valueCache1: tensor<13x4x2x8xf32> {tf.aliasing_output = 4 : i32}, %keyCache2: tensor<65x4x2x8xf32> {tf.aliasing_output = 5 : i32}, %valueCache2: tensor<65x4x2x8xf32> {tf.aliasing_output = 6 : i32}, %embedTokens: tensor<64x32xf32>, %inputNorm0: tensor<32xf32>, %qkvProj0: tensor<96x32xf32>, %qkvBias0: tensor<64xf32>, %oProj0: tensor<32x32xf32>, %mixerOutputNorm0: tensor<32xf32>, %postAttnNorm0: tensor<32xf32>, %gateUpProj0: tensor<96x32xf32>, %downProj0: tensor<32x48xf32>, %ffnOutputNorm0: tensor<32xf32>, %inputNorm1: tensor<32xf32>, %qkvProj1: tensor<96x32xf32>, %qkvBias1: tensor<64xf32>, %oProj1: tensor<32x32xf32>, %mixerOutputNorm1: tensor<32xf32>, %postAttnNorm1: tensor<32xf32>, %gateUpProj1: tensor<96x32xf32>, %downProj1: tensor<32x48xf32>, %ffnOutputNorm1: tensor<32xf32>, %inputNorm2: tensor<32xf32>, %qkvProj2: tensor<96x32xf32>, %qkvBias2: tensor<64xf32>, %oProj2: tensor<32x32xf32>, %mixerOutputNorm2: tensor<32xf32>, %postAttnNorm2: tensor<32xf32>, %gateUpProj2: tensor<96x32xf32>, %downProj2: tensor<32x48xf32>, %ffnOutputNorm2: tensor<32xf32>, %finalNorm: tensor<32xf32>, %lmHead: tensor<64x32xf32>) -> (tensor<2x1x64xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>) {
    %0 = stablehlo.reshape %tokenIds : (tensor<2x64xi32>) -> tensor<128xi32>
    %1 = stablehlo.reshape %0 : (tensor<128xi32>) -> tensor<128x1xi32>
    %2 = "stablehlo.gather"(%embedTokens, %1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<64x32xf32>, tensor<128x1xi32>) -> tensor<128x32xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<128x32xf32>) -> tensor<32x128xf32>
    %4 = stablehlo.multiply %3, %3 : tensor<32x128xf32>
    %5 = stablehlo.constant dense<0.0> : tensor<f32>
    %6 = stablehlo.reduce(%4 init: %5) applies stablehlo.add across dimensions = [0] : (tensor<32x128xf32>, tensor<f32>) -> tensor<128xf32>
    %7 = stablehlo.constant dense<0.03125> : tensor<128xf32>
    %8 = stablehlo.multiply %6, %7 : tensor<128xf32>
    %9 = stablehlo.constant dense<1.0e-5> : tensor<128xf32>
    %10 = stablehlo.add %8, %9 : tensor<128xf32>
    %11 = stablehlo.rsqrt %10 : tensor<128xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [1] : (tensor<128xf32>) -> tensor<32x128xf32>
    %13 = stablehlo.multiply %3, %12 : tensor<32x128xf32>
    %14 = stablehlo.slice %positions [0:2, 63:64] : (tensor<2x64xi32>) -> tensor<2x1xi32>
    %15 = stablehlo.reshape %14 : (tensor<2x1xi32>) -> tensor<2xi32>
    %16 = stablehlo.constant dense<4> : tensor<2xi32>
    %17 = stablehlo.divide %15, %16 : tensor<2xi32>
    %18 = stablehlo.iota dim = 1 : tensor<2x3xi32>
    %19 = stablehlo.broadcast_in_dim %17, dims = [0] : (tensor<2xi32>) -> tensor<2x3xi32>
    %20 = stablehlo.add %19, %18 : tensor<2x3xi32>
    %21 = stablehlo.constant dense<2> : tensor<2x3xi32>
    %22 = stablehlo.subtract %20, %21 : tensor<2x3xi32>
    %23 = stablehlo.constant dense<0> : tensor<2x3xi32>
    %24 = stablehlo.maximum %22, %23 : tensor<2x3xi32>
    %25 = stablehlo.constant dense<3> : tensor<2x3xi32>
    %26 = stablehlo.remainder %24, %25 : tensor<2x3xi32>
    %27 = stablehlo.iota dim = 0 : tensor<2x3xi32>
    %28 = stablehlo.constant dense<16> : tensor<2x3xi32>
    %29 = stablehlo.multiply %27, %28 : tensor<2x3xi32>
    %30 = stablehlo.add %29, %26 : tensor<2x3xi32>
    %31 = stablehlo.reshape %30 : (tensor<2x3xi32>) -> tensor<6xi32>
    %32 = stablehlo.reshape %windowBlockTables : (tensor<2x16xi32>) -> tensor<32x1xi32>
    %33 = stablehlo.reshape %31 : (tensor<6xi32>) -> tensor<6x1xi32>
    %34 = "stablehlo.gather"(%32, %33) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<32x1xi32>, tensor<6x1xi32>) -> tensor<6x1xi32>
    %35 = stablehlo.reshape %34 : (tensor<6x1xi32>) -> tensor<2x3xi32>
    %36 = stablehlo.constant dense<4> : tensor<2x3xi32>
    %37 = stablehlo.multiply %22, %36 : tensor<2x3xi32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1] : (tensor<2x3xi32>) -> tensor<2x3x4xi32>
    %39 = stablehlo.iota dim = 2 : tensor<2x3x4xi32>
    %40 = stablehlo.add %38, %39 : tensor<2x3x4xi32>
    %41 = stablehlo.reshape %40 : (tensor<2x3x4xi32>) -> tensor<2x12xi32>
    %42 = stablehlo.broadcast_in_dim %15, dims = [0] : (tensor<2xi32>) -> tensor<2x12xi32>
    %43 = stablehlo.compare LE, %41, %42, SIGNED : (tensor<2x12xi32>, tensor<2x12xi32>) -> tensor<2x12xi1>
    %44 = stablehlo.constant dense<12> : tensor<2x12xi32>
    %45 = stablehlo.subtract %41, %44 : tensor<2x12xi32>
    %46 = stablehlo.select %43, %41, %45 : tensor<2x12xi1>, tensor<2x12xi32>
    %47 = stablehlo.constant dense<0> : tensor<2x12xi32>
    %48 = stablehlo.compare LE, %47, %46, SIGNED : (tensor<2x12xi32>, tensor<2x12xi32>) -> tensor<2x12xi1>
    %49 = stablehlo.constant dense<2147483647> : tensor<2x12xi32>
    %50 = stablehlo.select %48, %46, %49 : tensor<2x12xi1>, tensor<2x12xi32>
    %51 = stablehlo.multiply %35, %36 : tensor<2x3xi32>
    %52 = stablehlo.broadcast_in_dim %51, dims = [0, 1] : (tensor<2x3xi32>) -> tensor<2x3x4xi32>
    %53 = stablehlo.iota dim = 2 : tensor<2x3x4xi32>
    %54 = stablehlo.add %52, %53 : tensor<2x3x4xi32>
    %55 = stablehlo.reshape %54 : (tensor<2x3x4xi32>) -> tensor<2x12xi32>
    %56 = stablehlo.reshape %positions : (tensor<2x64xi32>) -> tensor<128xi32>
    %57 = stablehlo.convert %56 : (tensor<128xi32>) -> tensor<128xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [1] : (tensor<128xf32>) -> tensor<4x128xf32>
    %59 = stablehlo.constant dense<[1.0, 0.1, 0.01, 0.001]> : tensor<4xf32>
    %60 = stablehlo.broadcast_in_dim %59, dims = [0] : (tensor<4xf32>) -> tensor<4x128xf32>
    %61 = stablehlo.multiply %58, %60 : tensor<4x128xf32>
    %62 = stablehlo.cosine %61 : tensor<4x128xf32>
    %63 = stablehlo.sine %61 : tensor<4x128xf32>
    %64 = stablehlo.concatenate %62, %63, dim = 0 : (tensor<4x128xf32>, tensor<4x128xf32>) -> tensor<8x128xf32>
    %65 = stablehlo.iota dim = 0 : tensor<8x8xi32>
    %66 = stablehlo.iota dim = 1 : tensor<8x8xi32>
    %67 = stablehlo.compare EQ, %65, %66, SIGNED : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi1>
    %68 = stablehlo.constant dense<1.0> : tensor<8x8xf32>
    %69 = stablehlo.constant dense<0.0> : tensor<8x8xf32>
    %70 = stablehlo.select %67, %68, %69 : tensor<8x8xi1>, tensor<8x8xf32>
    %71 = stablehlo.dot_general %70, %64, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x128xf32>) -> tensor<8x128xf32>
    %72 = stablehlo.slice %71 [0:4, 0:128] : (tensor<8x128xf32>) -> tensor<4x128xf32>
    %73 = stablehlo.slice %71 [4:8, 0:128] : (tensor<8x128xf32>) -> tensor<4x128xf32>
    %74 = stablehlo.constant dense<0.53033006> : tensor<4x128xf32>
    %75 = stablehlo.multiply %72, %74 : tensor<4x128xf32>
    %76 = stablehlo.multiply %73, %74 : tensor<4x128xf32>
    %77 = stablehlo.constant dense<2> : tensor<128xi32>
    %78 = stablehlo.shift_right_arithmetic %windowSlotMapping, %77 : tensor<128xi32>
    %79 = stablehlo.constant dense<3> : tensor<128xi32>
    %80 = stablehlo.and %windowSlotMapping, %79 : tensor<128xi32>
    %81 = stablehlo.reshape %78 : (tensor<128xi32>) -> tensor<128x1xi32>
    %82 = stablehlo.reshape %80 : (tensor<128xi32>) -> tensor<128x1xi32>
    %83 = stablehlo.concatenate %81, %82, dim = 1 : (tensor<128x1xi32>, tensor<128x1xi32>) -> tensor<128x2xi32>
    %84:3 = func.call @layer0(%13, %keyCache0, %valueCache0, %72, %73, %75, %76, %83, %55, %50, %positions, %inputNorm0, %qkvProj0, %qkvBias0, %oProj0, %mixerOutputNorm0, %postAttnNorm0, %gateUpProj0, %downProj0, %ffnOutputNorm0) : (tensor<32x128xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<4x128xf32>, tensor<4x128xf32>, tensor<4x128xf32>, tensor<4x128xf32>, tensor<128x2xi32>, tensor<2x12xi32>, tensor<2x12xi32>, tensor<2x64xi32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x128xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>)
    %85:3 = func.call @layer0(%84#0, %keyCache1, %valueCache1, %72, %73, %75, %76, %83, %55, %50, %positions, %inputNorm1, %qkvProj1, %qkvBias1, %oProj1, %mixerOutputNorm1, %postAttnNorm1, %gateUpProj1, %downProj1, %ffnOutputNorm1) : (tensor<32x128xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<4x128xf32>, tensor<4x128xf32>, tensor<4x128xf32>, tensor<4x128xf32>, tensor<128x2xi32>, tensor<2x12xi32>, tensor<2x12xi32>, tensor<2x64xi32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x128xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>)
    %86 = stablehlo.iota dim = 1 : tensor<2x64xi32>
    %87 = stablehlo.constant dense<4> : tensor<2x16xi32>
    %88 = stablehlo.multiply %blockTables, %87 : tensor<2x16xi32>
    %89 = stablehlo.broadcast_in_dim %88, dims = [0, 1] : (tensor<2x16xi32>) -> tensor<2x16x4xi32>
    %90 = stablehlo.iota dim = 2 : tensor<2x16x4xi32>
    %91 = stablehlo.add %89, %90 : tensor<2x16x4xi32>
    %92 = stablehlo.reshape %91 : (tensor<2x16x4xi32>) -> tensor<2x64xi32>
    %93 = stablehlo.shift_right_arithmetic %slotMapping, %77 : tensor<128xi32>
    %94 = stablehlo.and %slotMapping, %79 : tensor<128xi32>
    %95 = stablehlo.reshape %93 : (tensor<128xi32>) -> tensor<128x1xi32>
    %96 = stablehlo.reshape %94 : (tensor<128xi32>) -> tensor<128x1xi32>
    %97 = stablehlo.concatenate %95, %96, dim = 1 : (tensor<128x1xi32>, tensor<128x1xi32>) -> tensor<128x2xi32>
    %98:3 = func.call @layer1(%85#0, %keyCache2, %valueCache2, %97, %92, %86, %positions, %inputNorm2, %qkvProj2, %qkvBias2, %oProj2, %mixerOutputNorm2, %postAttnNorm2, %gateUpProj2, %downProj2, %ffnOutputNorm2) : (tensor<32x128xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<128x2xi32>, tensor<2x64xi32>, tensor<2x64xi32>, tensor<2x64xi32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x128xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>)
    %99 = stablehlo.reshape %98#0 : (tensor<32x128xf32>) -> tensor<32x2x64xf32>
    %100 = stablehlo.slice %99 [0:32, 0:2, 63:64] : (tensor<32x2x64xf32>) -> tensor<32x2x1xf32>
    %101 = stablehlo.reshape %100 : (tensor<32x2x1xf32>) -> tensor<32x2xf32>
    %102 = stablehlo.dot_general %101, %101, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x2xf32>, tensor<32x2xf32>) -> tensor<2xf32>
    %103 = stablehlo.constant dense<0.03125> : tensor<2xf32>
    %104 = stablehlo.multiply %102, %103 : tensor<2xf32>
    %105 = stablehlo.constant dense<1.0e-5> : tensor<2xf32>
    %106 = stablehlo.add %104, %105 : tensor<2xf32>
    %107 = stablehlo.rsqrt %106 : tensor<2xf32>
    %108 = stablehlo.broadcast_in_dim %107, dims = [1] : (tensor<2xf32>) -> tensor<32x2xf32>
    %109 = stablehlo.multiply %101, %108 : tensor<32x2xf32>
    %110 = stablehlo.broadcast_in_dim %finalNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x2xf32>
    %111 = stablehlo.multiply %109, %110 : tensor<32x2xf32>
    %112 = stablehlo.dot_general %lmHead, %111, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x2xf32>) -> tensor<64x2xf32>
    %113 = stablehlo.optimization_barrier %112 : tensor<64x2xf32>
    %114 = stablehlo.transpose %113, dims = [1, 0] : (tensor<64x2xf32>) -> tensor<2x64xf32>
    %115 = stablehlo.constant dense<30.0> : tensor<2x64xf32>
    %116 = stablehlo.divide %114, %115 : tensor<2x64xf32>
    %117 = stablehlo.tanh %116 : tensor<2x64xf32>
    %118 = stablehlo.multiply %117, %115 : tensor<2x64xf32>
    %119 = stablehlo.reshape %118 : (tensor<2x64xf32>) -> tensor<2x1x64xf32>
    return %119, %84#1, %84#2, %85#1, %85#2, %98#1, %98#2 : tensor<2x1x64xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>
  }
  func.func private @layer0(%x: tensor<32x128xf32>, %keys: tensor<13x4x2x8xf32>, %values: tensor<13x4x2x8xf32>, %keyCos: tensor<4x128xf32>, %keySin: tensor<4x128xf32>, %queryCos: tensor<4x128xf32>, %querySin: tensor<4x128xf32>, %writeIndices: tensor<128x2xi32>, %historySlots: tensor<2x12xi32>, %historyPositions: tensor<2x12xi32>, %visibility: tensor<2x64xi32>, %inputNorm: tensor<32xf32>, %qkvProj: tensor<96x32xf32>, %qkvBias: tensor<64xf32>, %oProj: tensor<32x32xf32>, %mixerOutputNorm: tensor<32xf32>, %postAttnNorm: tensor<32xf32>, %gateUpProj: tensor<96x32xf32>, %downProj: tensor<32x48xf32>, %ffnOutputNorm: tensor<32xf32>) -> (tensor<32x128xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>) {
    %0 = stablehlo.multiply %x, %x : tensor<32x128xf32>
    %1 = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<32x128xf32>, tensor<f32>) -> tensor<128xf32>
    %3 = stablehlo.constant dense<0.03125> : tensor<128xf32>
    %4 = stablehlo.multiply %2, %3 : tensor<128xf32>
    %5 = stablehlo.constant dense<1.0e-5> : tensor<128xf32>
    %6 = stablehlo.add %4, %5 : tensor<128xf32>
    %7 = stablehlo.rsqrt %6 : tensor<128xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [1] : (tensor<128xf32>) -> tensor<32x128xf32>
    %9 = stablehlo.multiply %x, %8 : tensor<32x128xf32>
    %10 = stablehlo.broadcast_in_dim %inputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x128xf32>
    %11 = stablehlo.multiply %9, %10 : tensor<32x128xf32>
    %12 = stablehlo.dot_general %qkvProj, %11, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x128xf32>) -> tensor<96x128xf32>
    %13 = stablehlo.slice %12 [0:32, 0:128] : (tensor<96x128xf32>) -> tensor<32x128xf32>
    %14 = stablehlo.slice %qkvBias [0:32] : (tensor<64xf32>) -> tensor<32xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0] : (tensor<32xf32>) -> tensor<32x128xf32>
    %16 = stablehlo.add %13, %15 : tensor<32x128xf32>
    %17 = stablehlo.reshape %16 : (tensor<32x128xf32>) -> tensor<4x8x128xf32>
    %18 = stablehlo.slice %12 [32:48, 0:128] : (tensor<96x128xf32>) -> tensor<16x128xf32>
    %19 = stablehlo.slice %qkvBias [32:48] : (tensor<64xf32>) -> tensor<16xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0] : (tensor<16xf32>) -> tensor<16x128xf32>
    %21 = stablehlo.add %18, %20 : tensor<16x128xf32>
    %22 = stablehlo.reshape %21 : (tensor<16x128xf32>) -> tensor<2x8x128xf32>
    %23 = stablehlo.slice %12 [48:64, 0:128] : (tensor<96x128xf32>) -> tensor<16x128xf32>
    %24 = stablehlo.slice %qkvBias [48:64] : (tensor<64xf32>) -> tensor<16xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0] : (tensor<16xf32>) -> tensor<16x128xf32>
    %26 = stablehlo.add %23, %25 : tensor<16x128xf32>
    %27 = stablehlo.reshape %26 : (tensor<16x128xf32>) -> tensor<2x8x128xf32>
    %28 = stablehlo.multiply %17, %17 : tensor<4x8x128xf32>
    %29 = stablehlo.reduce(%28 init: %1) applies stablehlo.add across dimensions = [1] : (tensor<4x8x128xf32>, tensor<f32>) -> tensor<4x128xf32>
    %30 = stablehlo.constant dense<0.125> : tensor<4x128xf32>
    %31 = stablehlo.multiply %29, %30 : tensor<4x128xf32>
    %32 = stablehlo.constant dense<1.0e-5> : tensor<4x128xf32>
    %33 = stablehlo.add %31, %32 : tensor<4x128xf32>
    %34 = stablehlo.rsqrt %33 : tensor<4x128xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 2] : (tensor<4x128xf32>) -> tensor<4x8x128xf32>
    %36 = stablehlo.multiply %17, %35 : tensor<4x8x128xf32>
    %37 = stablehlo.multiply %22, %22 : tensor<2x8x128xf32>
    %38 = stablehlo.reduce(%37 init: %1) applies stablehlo.add across dimensions = [1] : (tensor<2x8x128xf32>, tensor<f32>) -> tensor<2x128xf32>
    %39 = stablehlo.constant dense<0.125> : tensor<2x128xf32>
    %40 = stablehlo.multiply %38, %39 : tensor<2x128xf32>
    %41 = stablehlo.constant dense<1.0e-5> : tensor<2x128xf32>
    %42 = stablehlo.add %40, %41 : tensor<2x128xf32>
    %43 = stablehlo.rsqrt %42 : tensor<2x128xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 2] : (tensor<2x128xf32>) -> tensor<2x8x128xf32>
    %45 = stablehlo.multiply %22, %44 : tensor<2x8x128xf32>
    %46 = stablehlo.slice %36 [0:4, 0:4, 0:128] : (tensor<4x8x128xf32>) -> tensor<4x4x128xf32>
    %47 = stablehlo.slice %36 [0:4, 4:8, 0:128] : (tensor<4x8x128xf32>) -> tensor<4x4x128xf32>
    %48 = stablehlo.broadcast_in_dim %queryCos, dims = [1, 2] : (tensor<4x128xf32>) -> tensor<4x4x128xf32>
    %49 = stablehlo.broadcast_in_dim %querySin, dims = [1, 2] : (tensor<4x128xf32>) -> tensor<4x4x128xf32>
    %50 = stablehlo.multiply %46, %48 : tensor<4x4x128xf32>
    %51 = stablehlo.multiply %47, %49 : tensor<4x4x128xf32>
    %52 = stablehlo.multiply %47, %48 : tensor<4x4x128xf32>
    %53 = stablehlo.multiply %46, %49 : tensor<4x4x128xf32>
    %54 = stablehlo.subtract %50, %51 : tensor<4x4x128xf32>
    %55 = stablehlo.add %52, %53 : tensor<4x4x128xf32>
    %56 = stablehlo.concatenate %54, %55, dim = 1 : (tensor<4x4x128xf32>, tensor<4x4x128xf32>) -> tensor<4x8x128xf32>
    %57 = stablehlo.slice %45 [0:2, 0:4, 0:128] : (tensor<2x8x128xf32>) -> tensor<2x4x128xf32>
    %58 = stablehlo.slice %45 [0:2, 4:8, 0:128] : (tensor<2x8x128xf32>) -> tensor<2x4x128xf32>
    %59 = stablehlo.broadcast_in_dim %keyCos, dims = [1, 2] : (tensor<4x128xf32>) -> tensor<2x4x128xf32>
    %60 = stablehlo.broadcast_in_dim %keySin, dims = [1, 2] : (tensor<4x128xf32>) -> tensor<2x4x128xf32>
    %61 = stablehlo.multiply %57, %59 : tensor<2x4x128xf32>
    %62 = stablehlo.multiply %58, %60 : tensor<2x4x128xf32>
    %63 = stablehlo.multiply %58, %59 : tensor<2x4x128xf32>
    %64 = stablehlo.multiply %57, %60 : tensor<2x4x128xf32>
    %65 = stablehlo.subtract %61, %62 : tensor<2x4x128xf32>
    %66 = stablehlo.add %63, %64 : tensor<2x4x128xf32>
    %67 = stablehlo.concatenate %65, %66, dim = 1 : (tensor<2x4x128xf32>, tensor<2x4x128xf32>) -> tensor<2x8x128xf32>
    %68 = stablehlo.transpose %56, dims = [2, 0, 1] : (tensor<4x8x128xf32>) -> tensor<128x4x8xf32>
    %69 = stablehlo.transpose %67, dims = [2, 0, 1] : (tensor<2x8x128xf32>) -> tensor<128x2x8xf32>
    %70 = stablehlo.transpose %27, dims = [2, 0, 1] : (tensor<2x8x128xf32>) -> tensor<128x2x8xf32>
    %71 = "stablehlo.scatter"(%keys, %writeIndices, %69) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old71: tensor<f32>, %new71: tensor<f32>):
      stablehlo.return %new71 : tensor<f32>
    }) : (tensor<13x4x2x8xf32>, tensor<128x2xi32>, tensor<128x2x8xf32>) -> tensor<13x4x2x8xf32>
    %72 = "stablehlo.scatter"(%values, %writeIndices, %70) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old72: tensor<f32>, %new72: tensor<f32>):
      stablehlo.return %new72 : tensor<f32>
    }) : (tensor<13x4x2x8xf32>, tensor<128x2xi32>, tensor<128x2x8xf32>) -> tensor<13x4x2x8xf32>
    %73 = stablehlo.reshape %68 : (tensor<128x4x8xf32>) -> tensor<2x64x2x2x8xf32>
    %74 = stablehlo.transpose %73, dims = [0, 2, 3, 1, 4] : (tensor<2x64x2x2x8xf32>) -> tensor<2x2x2x64x8xf32>
    %75 = stablehlo.reshape %74 : (tensor<2x2x2x64x8xf32>) -> tensor<2x2x128x8xf32>
    %76 = stablehlo.reshape %71 : (tensor<13x4x2x8xf32>) -> tensor<52x16xf32>
    %77 = stablehlo.reshape %historySlots : (tensor<2x12xi32>) -> tensor<24xi32>
    %78 = stablehlo.reshape %77 : (tensor<24xi32>) -> tensor<24x1xi32>
    %79 = "stablehlo.gather"(%76, %78) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<52x16xf32>, tensor<24x1xi32>) -> tensor<24x16xf32>
    %80 = stablehlo.reshape %79 : (tensor<24x16xf32>) -> tensor<2x12x16xf32>
    %81 = stablehlo.reshape %80 : (tensor<2x12x16xf32>) -> tensor<2x12x2x8xf32>
    %82 = stablehlo.transpose %81, dims = [0, 2, 1, 3] : (tensor<2x12x2x8xf32>) -> tensor<2x2x12x8xf32>
    %83 = stablehlo.reshape %72 : (tensor<13x4x2x8xf32>) -> tensor<52x16xf32>
    %84 = stablehlo.reshape %historySlots : (tensor<2x12xi32>) -> tensor<24xi32>
    %85 = stablehlo.reshape %84 : (tensor<24xi32>) -> tensor<24x1xi32>
    %86 = "stablehlo.gather"(%83, %85) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<52x16xf32>, tensor<24x1xi32>) -> tensor<24x16xf32>
    %87 = stablehlo.reshape %86 : (tensor<24x16xf32>) -> tensor<2x12x16xf32>
    %88 = stablehlo.reshape %87 : (tensor<2x12x16xf32>) -> tensor<2x12x2x8xf32>
    %89 = stablehlo.transpose %88, dims = [0, 2, 1, 3] : (tensor<2x12x2x8xf32>) -> tensor<2x2x12x8xf32>
    %90 = stablehlo.reshape %75 : (tensor<2x2x128x8xf32>) -> tensor<4x128x8xf32>
    %91 = stablehlo.reshape %82 : (tensor<2x2x12x8xf32>) -> tensor<4x12x8xf32>
    %92 = stablehlo.reshape %89 : (tensor<2x2x12x8xf32>) -> tensor<4x12x8xf32>
    %93 = stablehlo.slice %90 [0:4, 0:128, 0:1] : (tensor<4x128x8xf32>) -> tensor<4x128x1xf32>
    %94 = stablehlo.reshape %93 : (tensor<4x128x1xf32>) -> tensor<4x128xf32>
    %95 = stablehlo.constant dense<4> : tensor<i32>
    %96 = stablehlo.constant dense<0> : tensor<i32>
    %146:8 = stablehlo.while(%97 = %96, %98 = %95, %99 = %90, %100 = %94, %101 = %91, %102 = %92, %103 = %historyPositions, %104 = %visibility) : tensor<i32>, tensor<i32>, tensor<4x128x8xf32>, tensor<4x128xf32>, tensor<4x12x8xf32>, tensor<4x12x8xf32>, tensor<2x12xi32>, tensor<2x64xi32>
    cond {
      %105 = stablehlo.compare LT, %97, %98, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %105 : tensor<i1>
    } do {
      %106 = stablehlo.constant dense<0> : tensor<i32>
      %107 = stablehlo.dynamic_slice %99, %97, %106, %106, sizes = [1, 128, 8] : (tensor<4x128x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x128x8xf32>
      %108 = stablehlo.reshape %107 : (tensor<1x128x8xf32>) -> tensor<128x8xf32>
      %109 = stablehlo.dynamic_slice %101, %97, %106, %106, sizes = [1, 12, 8] : (tensor<4x12x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x12x8xf32>
      %110 = stablehlo.reshape %109 : (tensor<1x12x8xf32>) -> tensor<12x8xf32>
      %111 = stablehlo.dynamic_slice %102, %97, %106, %106, sizes = [1, 12, 8] : (tensor<4x12x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x12x8xf32>
      %112 = stablehlo.reshape %111 : (tensor<1x12x8xf32>) -> tensor<12x8xf32>
      %113 = stablehlo.constant dense<2> : tensor<i32>
      %114 = stablehlo.divide %97, %113 : tensor<i32>
      %115 = stablehlo.dynamic_slice %103, %114, %106, sizes = [1, 12] : (tensor<2x12xi32>, tensor<i32>, tensor<i32>) -> tensor<1x12xi32>
      %116 = stablehlo.reshape %115 : (tensor<1x12xi32>) -> tensor<12xi32>
      %117 = stablehlo.dynamic_slice %104, %114, %106, sizes = [1, 64] : (tensor<2x64xi32>, tensor<i32>, tensor<i32>) -> tensor<1x64xi32>
      %118 = stablehlo.reshape %117 : (tensor<1x64xi32>) -> tensor<64xi32>
      %119 = stablehlo.dot_general %108, %110, contracting_dims = [1] x [1] : (tensor<128x8xf32>, tensor<12x8xf32>) -> tensor<128x12xf32>
      %120 = stablehlo.reshape %119 : (tensor<128x12xf32>) -> tensor<2x64x12xf32>
      %121 = stablehlo.broadcast_in_dim %116, dims = [1] : (tensor<12xi32>) -> tensor<64x12xi32>
      %122 = stablehlo.broadcast_in_dim %118, dims = [0] : (tensor<64xi32>) -> tensor<64x12xi32>
      %123 = stablehlo.compare LE, %121, %122, SIGNED : (tensor<64x12xi32>, tensor<64x12xi32>) -> tensor<64x12xi1>
      %124 = stablehlo.constant dense<8> : tensor<64x12xi32>
      %125 = stablehlo.subtract %122, %124 : tensor<64x12xi32>
      %126 = stablehlo.compare LT, %125, %121, SIGNED : (tensor<64x12xi32>, tensor<64x12xi32>) -> tensor<64x12xi1>
      %127 = stablehlo.and %123, %126 : tensor<64x12xi1>
      %128 = stablehlo.broadcast_in_dim %127, dims = [1, 2] : (tensor<64x12xi1>) -> tensor<2x64x12xi1>
      %129 = stablehlo.constant dense<-1.0e30> : tensor<2x64x12xf32>
      %130 = stablehlo.select %128, %120, %129 : tensor<2x64x12xi1>, tensor<2x64x12xf32>
      %131 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %132 = stablehlo.reduce(%130 init: %131) applies stablehlo.maximum across dimensions = [2] : (tensor<2x64x12xf32>, tensor<f32>) -> tensor<2x64xf32>
      %133 = stablehlo.broadcast_in_dim %132, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x12xf32>
      %134 = stablehlo.subtract %130, %133 : tensor<2x64x12xf32>
      %135 = stablehlo.exponential %134 : tensor<2x64x12xf32>
      %136 = stablehlo.constant dense<0.0> : tensor<f32>
      %137 = stablehlo.reduce(%135 init: %136) applies stablehlo.add across dimensions = [2] : (tensor<2x64x12xf32>, tensor<f32>) -> tensor<2x64xf32>
      %138 = stablehlo.reshape %137 : (tensor<2x64xf32>) -> tensor<1x128xf32>
      %139 = stablehlo.reshape %135 : (tensor<2x64x12xf32>) -> tensor<128x12xf32>
      %140 = stablehlo.dot_general %139, %112, contracting_dims = [1] x [0] : (tensor<128x12xf32>, tensor<12x8xf32>) -> tensor<128x8xf32>
      %141 = stablehlo.reshape %140 : (tensor<128x8xf32>) -> tensor<1x128x8xf32>
      %142 = stablehlo.dynamic_update_slice %99, %141, %97, %106, %106 : (tensor<4x128x8xf32>, tensor<1x128x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x128x8xf32>
      %143 = stablehlo.dynamic_update_slice %100, %138, %97, %106 : (tensor<4x128xf32>, tensor<1x128xf32>, tensor<i32>, tensor<i32>) -> tensor<4x128xf32>
      %144 = stablehlo.constant dense<1> : tensor<i32>
      %145 = stablehlo.add %97, %144 : tensor<i32>
      stablehlo.return %145, %98, %142, %143, %101, %102, %103, %104 : tensor<i32>, tensor<i32>, tensor<4x128x8xf32>, tensor<4x128xf32>, tensor<4x12x8xf32>, tensor<4x12x8xf32>, tensor<2x12xi32>, tensor<2x64xi32>
    }
    %147 = stablehlo.reshape %146#2 : (tensor<4x128x8xf32>) -> tensor<2x2x2x64x8xf32>
    %148 = stablehlo.reshape %146#3 : (tensor<4x128xf32>) -> tensor<2x2x2x64xf32>
    %149 = stablehlo.transpose %147, dims = [1, 2, 4, 0, 3] : (tensor<2x2x2x64x8xf32>) -> tensor<2x2x8x2x64xf32>
    %150 = stablehlo.transpose %148, dims = [1, 2, 0, 3] : (tensor<2x2x2x64xf32>) -> tensor<2x2x2x64xf32>
    %151 = stablehlo.broadcast_in_dim %150, dims = [0, 1, 3, 4] : (tensor<2x2x2x64xf32>) -> tensor<2x2x8x2x64xf32>
    %152 = stablehlo.divide %149, %151 : tensor<2x2x8x2x64xf32>
    %153 = stablehlo.reshape %152 : (tensor<2x2x8x2x64xf32>) -> tensor<32x128xf32>
    %154 = stablehlo.slice %12 [64:96, 0:128] : (tensor<96x128xf32>) -> tensor<32x128xf32>
    %155 = stablehlo.logistic %154 : tensor<32x128xf32>
    %156 = stablehlo.multiply %153, %155 : tensor<32x128xf32>
    %157 = stablehlo.dot_general %oProj, %156, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x128xf32>) -> tensor<32x128xf32>
    %158 = stablehlo.multiply %157, %157 : tensor<32x128xf32>
    %159 = stablehlo.reduce(%158 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<32x128xf32>, tensor<f32>) -> tensor<128xf32>
    %160 = stablehlo.multiply %159, %3 : tensor<128xf32>
    %161 = stablehlo.add %160, %5 : tensor<128xf32>
    %162 = stablehlo.rsqrt %161 : tensor<128xf32>
    %163 = stablehlo.broadcast_in_dim %162, dims = [1] : (tensor<128xf32>) -> tensor<32x128xf32>
    %164 = stablehlo.multiply %157, %163 : tensor<32x128xf32>
    %165 = stablehlo.broadcast_in_dim %mixerOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x128xf32>
    %166 = stablehlo.multiply %164, %165 : tensor<32x128xf32>
    %167 = stablehlo.add %x, %166 : tensor<32x128xf32>
    %168 = stablehlo.multiply %167, %167 : tensor<32x128xf32>
    %169 = stablehlo.reduce(%168 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<32x128xf32>, tensor<f32>) -> tensor<128xf32>
    %170 = stablehlo.multiply %169, %3 : tensor<128xf32>
    %171 = stablehlo.add %170, %5 : tensor<128xf32>
    %172 = stablehlo.rsqrt %171 : tensor<128xf32>
    %173 = stablehlo.broadcast_in_dim %172, dims = [1] : (tensor<128xf32>) -> tensor<32x128xf32>
    %174 = stablehlo.multiply %167, %173 : tensor<32x128xf32>
    %175 = stablehlo.broadcast_in_dim %postAttnNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x128xf32>
    %176 = stablehlo.multiply %174, %175 : tensor<32x128xf32>
    %177 = stablehlo.dot_general %gateUpProj, %176, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x128xf32>) -> tensor<96x128xf32>
    %178 = stablehlo.slice %177 [0:48, 0:128] : (tensor<96x128xf32>) -> tensor<48x128xf32>
    %179 = stablehlo.slice %177 [48:96, 0:128] : (tensor<96x128xf32>) -> tensor<48x128xf32>
    %180 = stablehlo.logistic %178 : tensor<48x128xf32>
    %181 = stablehlo.multiply %178, %180 : tensor<48x128xf32>
    %182 = stablehlo.multiply %181, %179 : tensor<48x128xf32>
    %183 = stablehlo.dot_general %downProj, %182, contracting_dims = [1] x [0] : (tensor<32x48xf32>, tensor<48x128xf32>) -> tensor<32x128xf32>
    %184 = stablehlo.multiply %183, %183 : tensor<32x128xf32>
    %185 = stablehlo.reduce(%184 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<32x128xf32>, tensor<f32>) -> tensor<128xf32>
    %186 = stablehlo.multiply %185, %3 : tensor<128xf32>
    %187 = stablehlo.add %186, %5 : tensor<128xf32>
    %188 = stablehlo.rsqrt %187 : tensor<128xf32>
    %189 = stablehlo.broadcast_in_dim %188, dims = [1] : (tensor<128xf32>) -> tensor<32x128xf32>
    %190 = stablehlo.multiply %183, %189 : tensor<32x128xf32>
    %191 = stablehlo.broadcast_in_dim %ffnOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x128xf32>
    %192 = stablehlo.multiply %190, %191 : tensor<32x128xf32>
    %193 = stablehlo.add %167, %192 : tensor<32x128xf32>
    return %193, %71, %72 : tensor<32x128xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>
  }
  func.func private @layer1(%x: tensor<32x128xf32>, %keys: tensor<65x4x2x8xf32>, %values: tensor<65x4x2x8xf32>, %writeIndices: tensor<128x2xi32>, %historySlots: tensor<2x64xi32>, %historyPositions: tensor<2x64xi32>, %visibility: tensor<2x64xi32>, %inputNorm: tensor<32xf32>, %qkvProj: tensor<96x32xf32>, %qkvBias: tensor<64xf32>, %oProj: tensor<32x32xf32>, %mixerOutputNorm: tensor<32xf32>, %postAttnNorm: tensor<32xf32>, %gateUpProj: tensor<96x32xf32>, %downProj: tensor<32x48xf32>, %ffnOutputNorm: tensor<32xf32>) -> (tensor<32x128xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>) {
    %0 = stablehlo.multiply %x, %x : tensor<32x128xf32>
    %1 = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<32x128xf32>, tensor<f32>) -> tensor<128xf32>
    %3 = stablehlo.constant dense<0.03125> : tensor<128xf32>
    %4 = stablehlo.multiply %2, %3 : tensor<128xf32>
    %5 = stablehlo.constant dense<1.0e-5> : tensor<128xf32>
    %6 = stablehlo.add %4, %5 : tensor<128xf32>
    %7 = stablehlo.rsqrt %6 : tensor<128xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [1] : (tensor<128xf32>) -> tensor<32x128xf32>
    %9 = stablehlo.multiply %x, %8 : tensor<32x128xf32>
    %10 = stablehlo.broadcast_in_dim %inputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x128xf32>
    %11 = stablehlo.multiply %9, %10 : tensor<32x128xf32>
    %12 = stablehlo.dot_general %qkvProj, %11, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x128xf32>) -> tensor<96x128xf32>
    %13 = stablehlo.slice %12 [0:32, 0:128] : (tensor<96x128xf32>) -> tensor<32x128xf32>
    %14 = stablehlo.slice %qkvBias [0:32] : (tensor<64xf32>) -> tensor<32xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0] : (tensor<32xf32>) -> tensor<32x128xf32>
    %16 = stablehlo.add %13, %15 : tensor<32x128xf32>
    %17 = stablehlo.reshape %16 : (tensor<32x128xf32>) -> tensor<4x8x128xf32>
    %18 = stablehlo.slice %12 [32:48, 0:128] : (tensor<96x128xf32>) -> tensor<16x128xf32>
    %19 = stablehlo.slice %qkvBias [32:48] : (tensor<64xf32>) -> tensor<16xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0] : (tensor<16xf32>) -> tensor<16x128xf32>
    %21 = stablehlo.add %18, %20 : tensor<16x128xf32>
    %22 = stablehlo.reshape %21 : (tensor<16x128xf32>) -> tensor<2x8x128xf32>
    %23 = stablehlo.slice %12 [48:64, 0:128] : (tensor<96x128xf32>) -> tensor<16x128xf32>
    %24 = stablehlo.slice %qkvBias [48:64] : (tensor<64xf32>) -> tensor<16xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0] : (tensor<16xf32>) -> tensor<16x128xf32>
    %26 = stablehlo.add %23, %25 : tensor<16x128xf32>
    %27 = stablehlo.reshape %26 : (tensor<16x128xf32>) -> tensor<2x8x128xf32>
    %28 = stablehlo.multiply %17, %17 : tensor<4x8x128xf32>
    %29 = stablehlo.reduce(%28 init: %1) applies stablehlo.add across dimensions = [1] : (tensor<4x8x128xf32>, tensor<f32>) -> tensor<4x128xf32>
    %30 = stablehlo.constant dense<0.125> : tensor<4x128xf32>
    %31 = stablehlo.multiply %29, %30 : tensor<4x128xf32>
    %32 = stablehlo.constant dense<1.0e-5> : tensor<4x128xf32>
    %33 = stablehlo.add %31, %32 : tensor<4x128xf32>
    %34 = stablehlo.rsqrt %33 : tensor<4x128xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 2] : (tensor<4x128xf32>) -> tensor<4x8x128xf32>
    %36 = stablehlo.multiply %17, %35 : tensor<4x8x128xf32>
    %37 = stablehlo.multiply %22, %22 : tensor<2x8x128xf32>
    %38 = stablehlo.reduce(%37 init: %1) applies stablehlo.add across dimensions = [1] : (tensor<2x8x128xf32>, tensor<f32>) -> tensor<2x128xf32>
    %39 = stablehlo.constant dense<0.125> : tensor<2x128xf32>
    %40 = stablehlo.multiply %38, %39 : tensor<2x128xf32>
    %41 = stablehlo.constant dense<1.0e-5> : tensor<2x128xf32>
    %42 = stablehlo.add %40, %41 : tensor<2x128xf32>
    %43 = stablehlo.rsqrt %42 : tensor<2x128xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 2] : (tensor<2x128xf32>) -> tensor<2x8x128xf32>
    %45 = stablehlo.multiply %22, %44 : tensor<2x8x128xf32>
    %46 = stablehlo.constant dense<0.53033006> : tensor<4x8x128xf32>
    %47 = stablehlo.multiply %36, %46 : tensor<4x8x128xf32>
    %48 = stablehlo.transpose %47, dims = [2, 0, 1] : (tensor<4x8x128xf32>) -> tensor<128x4x8xf32>
    %49 = stablehlo.transpose %45, dims = [2, 0, 1] : (tensor<2x8x128xf32>) -> tensor<128x2x8xf32>
    %50 = stablehlo.transpose %27, dims = [2, 0, 1] : (tensor<2x8x128xf32>) -> tensor<128x2x8xf32>
    %51 = "stablehlo.scatter"(%keys, %writeIndices, %49) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old51: tensor<f32>, %new51: tensor<f32>):
      stablehlo.return %new51 : tensor<f32>
    }) : (tensor<65x4x2x8xf32>, tensor<128x2xi32>, tensor<128x2x8xf32>) -> tensor<65x4x2x8xf32>
    %52 = "stablehlo.scatter"(%values, %writeIndices, %50) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old52: tensor<f32>, %new52: tensor<f32>):
      stablehlo.return %new52 : tensor<f32>
    }) : (tensor<65x4x2x8xf32>, tensor<128x2xi32>, tensor<128x2x8xf32>) -> tensor<65x4x2x8xf32>
    %53 = stablehlo.reshape %48 : (tensor<128x4x8xf32>) -> tensor<2x64x2x2x8xf32>
    %54 = stablehlo.transpose %53, dims = [0, 2, 3, 1, 4] : (tensor<2x64x2x2x8xf32>) -> tensor<2x2x2x64x8xf32>
    %55 = stablehlo.reshape %54 : (tensor<2x2x2x64x8xf32>) -> tensor<2x2x128x8xf32>
    %56 = stablehlo.reshape %51 : (tensor<65x4x2x8xf32>) -> tensor<260x16xf32>
    %57 = stablehlo.reshape %historySlots : (tensor<2x64xi32>) -> tensor<128xi32>
    %58 = stablehlo.reshape %57 : (tensor<128xi32>) -> tensor<128x1xi32>
    %59 = "stablehlo.gather"(%56, %58) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<260x16xf32>, tensor<128x1xi32>) -> tensor<128x16xf32>
    %60 = stablehlo.reshape %59 : (tensor<128x16xf32>) -> tensor<2x64x16xf32>
    %61 = stablehlo.reshape %60 : (tensor<2x64x16xf32>) -> tensor<2x64x2x8xf32>
    %62 = stablehlo.transpose %61, dims = [0, 2, 1, 3] : (tensor<2x64x2x8xf32>) -> tensor<2x2x64x8xf32>
    %63 = stablehlo.reshape %52 : (tensor<65x4x2x8xf32>) -> tensor<260x16xf32>
    %64 = stablehlo.reshape %historySlots : (tensor<2x64xi32>) -> tensor<128xi32>
    %65 = stablehlo.reshape %64 : (tensor<128xi32>) -> tensor<128x1xi32>
    %66 = "stablehlo.gather"(%63, %65) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<260x16xf32>, tensor<128x1xi32>) -> tensor<128x16xf32>
    %67 = stablehlo.reshape %66 : (tensor<128x16xf32>) -> tensor<2x64x16xf32>
    %68 = stablehlo.reshape %67 : (tensor<2x64x16xf32>) -> tensor<2x64x2x8xf32>
    %69 = stablehlo.transpose %68, dims = [0, 2, 1, 3] : (tensor<2x64x2x8xf32>) -> tensor<2x2x64x8xf32>
    %70 = stablehlo.reshape %55 : (tensor<2x2x128x8xf32>) -> tensor<4x128x8xf32>
    %71 = stablehlo.reshape %62 : (tensor<2x2x64x8xf32>) -> tensor<4x64x8xf32>
    %72 = stablehlo.reshape %69 : (tensor<2x2x64x8xf32>) -> tensor<4x64x8xf32>
    %73 = stablehlo.slice %70 [0:4, 0:128, 0:1] : (tensor<4x128x8xf32>) -> tensor<4x128x1xf32>
    %74 = stablehlo.reshape %73 : (tensor<4x128x1xf32>) -> tensor<4x128xf32>
    %75 = stablehlo.constant dense<4> : tensor<i32>
    %76 = stablehlo.constant dense<0> : tensor<i32>
    %122:8 = stablehlo.while(%77 = %76, %78 = %75, %79 = %70, %80 = %74, %81 = %71, %82 = %72, %83 = %historyPositions, %84 = %visibility) : tensor<i32>, tensor<i32>, tensor<4x128x8xf32>, tensor<4x128xf32>, tensor<4x64x8xf32>, tensor<4x64x8xf32>, tensor<2x64xi32>, tensor<2x64xi32>
    cond {
      %85 = stablehlo.compare LT, %77, %78, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %85 : tensor<i1>
    } do {
      %86 = stablehlo.constant dense<0> : tensor<i32>
      %87 = stablehlo.dynamic_slice %79, %77, %86, %86, sizes = [1, 128, 8] : (tensor<4x128x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x128x8xf32>
      %88 = stablehlo.reshape %87 : (tensor<1x128x8xf32>) -> tensor<128x8xf32>
      %89 = stablehlo.dynamic_slice %81, %77, %86, %86, sizes = [1, 64, 8] : (tensor<4x64x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x8xf32>
      %90 = stablehlo.reshape %89 : (tensor<1x64x8xf32>) -> tensor<64x8xf32>
      %91 = stablehlo.dynamic_slice %82, %77, %86, %86, sizes = [1, 64, 8] : (tensor<4x64x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x8xf32>
      %92 = stablehlo.reshape %91 : (tensor<1x64x8xf32>) -> tensor<64x8xf32>
      %93 = stablehlo.constant dense<2> : tensor<i32>
      %94 = stablehlo.divide %77, %93 : tensor<i32>
      %95 = stablehlo.dynamic_slice %83, %94, %86, sizes = [1, 64] : (tensor<2x64xi32>, tensor<i32>, tensor<i32>) -> tensor<1x64xi32>
      %96 = stablehlo.reshape %95 : (tensor<1x64xi32>) -> tensor<64xi32>
      %97 = stablehlo.dynamic_slice %84, %94, %86, sizes = [1, 64] : (tensor<2x64xi32>, tensor<i32>, tensor<i32>) -> tensor<1x64xi32>
      %98 = stablehlo.reshape %97 : (tensor<1x64xi32>) -> tensor<64xi32>
      %99 = stablehlo.dot_general %88, %90, contracting_dims = [1] x [1] : (tensor<128x8xf32>, tensor<64x8xf32>) -> tensor<128x64xf32>
      %100 = stablehlo.reshape %99 : (tensor<128x64xf32>) -> tensor<2x64x64xf32>
      %101 = stablehlo.broadcast_in_dim %96, dims = [1] : (tensor<64xi32>) -> tensor<64x64xi32>
      %102 = stablehlo.broadcast_in_dim %98, dims = [0] : (tensor<64xi32>) -> tensor<64x64xi32>
      %103 = stablehlo.compare LE, %101, %102, SIGNED : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi1>
      %104 = stablehlo.broadcast_in_dim %103, dims = [1, 2] : (tensor<64x64xi1>) -> tensor<2x64x64xi1>
      %105 = stablehlo.constant dense<-1.0e30> : tensor<2x64x64xf32>
      %106 = stablehlo.select %104, %100, %105 : tensor<2x64x64xi1>, tensor<2x64x64xf32>
      %107 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %108 = stablehlo.reduce(%106 init: %107) applies stablehlo.maximum across dimensions = [2] : (tensor<2x64x64xf32>, tensor<f32>) -> tensor<2x64xf32>
      %109 = stablehlo.broadcast_in_dim %108, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x64xf32>
      %110 = stablehlo.subtract %106, %109 : tensor<2x64x64xf32>
      %111 = stablehlo.exponential %110 : tensor<2x64x64xf32>
      %112 = stablehlo.constant dense<0.0> : tensor<f32>
      %113 = stablehlo.reduce(%111 init: %112) applies stablehlo.add across dimensions = [2] : (tensor<2x64x64xf32>, tensor<f32>) -> tensor<2x64xf32>
      %114 = stablehlo.reshape %113 : (tensor<2x64xf32>) -> tensor<1x128xf32>
      %115 = stablehlo.reshape %111 : (tensor<2x64x64xf32>) -> tensor<128x64xf32>
      %116 = stablehlo.dot_general %115, %92, contracting_dims = [1] x [0] : (tensor<128x64xf32>, tensor<64x8xf32>) -> tensor<128x8xf32>
      %117 = stablehlo.reshape %116 : (tensor<128x8xf32>) -> tensor<1x128x8xf32>
      %118 = stablehlo.dynamic_update_slice %79, %117, %77, %86, %86 : (tensor<4x128x8xf32>, tensor<1x128x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x128x8xf32>
      %119 = stablehlo.dynamic_update_slice %80, %114, %77, %86 : (tensor<4x128xf32>, tensor<1x128xf32>, tensor<i32>, tensor<i32>) -> tensor<4x128xf32>
      %120 = stablehlo.constant dense<1> : tensor<i32>
      %121 = stablehlo.add %77, %120 : tensor<i32>
      stablehlo.return %121, %78, %118, %119, %81, %82, %83, %84 : tensor<i32>, tensor<i32>, tensor<4x128x8xf32>, tensor<4x128xf32>, tensor<4x64x8xf32>, tensor<4x64x8xf32>, tensor<2x64xi32>, tensor<2x64xi32>
    }
    %123 = stablehlo.reshape %122#2 : (tensor<4x128x8xf32>) -> tensor<2x2x2x64x8xf32>
    %124 = stablehlo.reshape %122#3 : (tensor<4x128xf32>) -> tensor<2x2x2x64xf32>
    %125 = stablehlo.transpose %123, dims = [1, 2, 4, 0, 3] : (tensor<2x2x2x64x8xf32>) -> tensor<2x2x8x2x64xf32>
    %126 = stablehlo.transpose %124, dims = [1, 2, 0, 3] : (tensor<2x2x2x64xf32>) -> tensor<2x2x2x64xf32>
    %127 = stablehlo.broadcast_in_dim %126, dims = [0, 1, 3, 4] : (tensor<2x2x2x64xf32>) -> tensor<2x2x8x2x64xf32>
    %128 = stablehlo.divide %125, %127 : tensor<2x2x8x2x64xf32>
    %129 = stablehlo.reshape %128 : (tensor<2x2x8x2x64xf32>) -> tensor<32x128xf32>
    %130 = stablehlo.slice %12 [64:96, 0:128] : (tensor<96x128xf32>) -> tensor<32x128xf32>
    %131 = stablehlo.logistic %130 : tensor<32x128xf32>
    %132 = stablehlo.multiply %129, %131 : tensor<32x128xf32>
    %133 = stablehlo.dot_general %oProj, %132, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x128xf32>) -> tensor<32x128xf32>
    %134 = stablehlo.multiply %133, %133 : tensor<32x128xf32>
    %135 = stablehlo.reduce(%134 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<32x128xf32>, tensor<f32>) -> tensor<128xf32>
    %136 = stablehlo.multiply %135, %3 : tensor<128xf32>
    %137 = stablehlo.add %136, %5 : tensor<128xf32>
    %138 = stablehlo.rsqrt %137 : tensor<128xf32>
    %139 = stablehlo.broadcast_in_dim %138, dims = [1] : (tensor<128xf32>) -> tensor<32x128xf32>
    %140 = stablehlo.multiply %133, %139 : tensor<32x128xf32>
    %141 = stablehlo.broadcast_in_dim %mixerOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x128xf32>
    %142 = stablehlo.multiply %140, %141 : tensor<32x128xf32>
    %143 = stablehlo.add %x, %142 : tensor<32x128xf32>
    %144 = stablehlo.multiply %143, %143 : tensor<32x128xf32>
    %145 = stablehlo.reduce(%144 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<32x128xf32>, tensor<f32>) -> tensor<128xf32>
    %146 = stablehlo.multiply %145, %3 : tensor<128xf32>
    %147 = stablehlo.add %146, %5 : tensor<128xf32>
    %148 = stablehlo.rsqrt %147 : tensor<128xf32>
    %149 = stablehlo.broadcast_in_dim %148, dims = [1] : (tensor<128xf32>) -> tensor<32x128xf32>
    %150 = stablehlo.multiply %143, %149 : tensor<32x128xf32>
    %151 = stablehlo.broadcast_in_dim %postAttnNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x128xf32>
    %152 = stablehlo.multiply %150, %151 : tensor<32x128xf32>
    %153 = stablehlo.dot_general %gateUpProj, %152, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x128xf32>) -> tensor<96x128xf32>
    %154 = stablehlo.slice %153 [0:48, 0:128] : (tensor<96x128xf32>) -> tensor<48x128xf32>
    %155 = stablehlo.slice %153 [48:96, 0:128] : (tensor<96x128xf32>) -> tensor<48x128xf32>
    %156 = stablehlo.logistic %154 : tensor<48x128xf32>
    %157 = stablehlo.multiply %154, %156 : tensor<48x128xf32>
    %158 = stablehlo.multiply %157, %155 : tensor<48x128xf32>
    %159 = stablehlo.dot_general %downProj, %158, contracting_dims = [1] x [0] : (tensor<32x48xf32>, tensor<48x128xf32>) -> tensor<32x128xf32>
    %160 = stablehlo.multiply %159, %159 : tensor<32x128xf32>
    %161 = stablehlo.reduce(%160 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<32x128xf32>, tensor<f32>) -> tensor<128xf32>
    %162 = stablehlo.multiply %161, %3 : tensor<128xf32>
    %163 = stablehlo.add %162, %5 : tensor<128xf32>
    %164 = stablehlo.rsqrt %163 : tensor<128xf32>
    %165 = stablehlo.broadcast_in_dim %164, dims = [1] : (tensor<128xf32>) -> tensor<32x128xf32>
    %166 = stablehlo.multiply %159, %165 : tensor<32x128xf32>
    %167 = stablehlo.broadcast_in_dim %ffnOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x128xf32>
    %168 = stablehlo.multiply %166, %167 : tensor<32x128xf32>
    %169 = stablehlo.add %143, %168 : tensor<32x128xf32>
    return %169, %51, %52 : tensor<32x128xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>
  }
}
