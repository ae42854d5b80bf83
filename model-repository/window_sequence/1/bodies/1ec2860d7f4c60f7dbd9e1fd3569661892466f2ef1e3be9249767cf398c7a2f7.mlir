module @program {
  func.func public @main(%tokenIds: tensor<2x32xi32>, %positions: tensor<2x32xi32>, %blockTables: tensor<2x8xi32>, %seqLens: tensor<2xi32>, %slotMapping: tensor<64xi32>, %windowBlockTables: tensor<2x8xi32>, %windowSlotMapping: tensor<64xi32>, %keyCache0: tensor<13x4x2x8xf32> {tf.aliasing_output = 1 : i32}, %valueCache0: tensor<13x4x2x8xf32> {tf.aliasing_output = 2 : i32}, %keyCache1: tensor<13x4x2x8xf32> {tf.aliasing_output = 3 : i32}, %valueCache1: tensor<13x4x2x8xf32> {tf.aliasing_output = 4 : i32}, %keyCache2: tensor<65x4x2x8xf32> {tf.aliasing_output = 5 : i32}, %valueCache2: tensor<65x4x2x8xf32> {tf.aliasing_output = 6 : i32}, %embedTokens: tensor<64x32xf32>, %inputNorm0: tensor<32xf32>, %qkvProj0: tensor<96x32xf32>, %qkvBias0: tensor<64xf32>, %oProj0: tensor<32x32xf32>, %mixerOutputNorm0: tensor<32xf32>, %postAttnNorm0: tensor<32xf32>, %gateUpProj0: tensor<96x32xf32>, %downProj0: tensor<32x48xf32>, %ffnOutputNorm0: tensor<32xf32>, %inputNorm1: tensor<32xf32>, %qkvProj1: tensor<96x32xf32>, %qkvBias1: tensor<64xf32>, %oProj1: tensor<32x32xf32>, %mixerOutputNorm1: tensor<32xf32>, %postAttnNorm1: tensor<32xf32>, %gateUpProj1: tensor<96x32xf32>, %downProj1: tensor<32x48xf32>, %ffnOutputNorm1: tensor<32xf32>, %inputNorm2: tensor<32xf32>, %qkvProj2: tensor<96x32xf32>, %qkvBias2: tensor<64xf32>, %oProj2: tensor<32x32xf32>, %mixerOutputNorm2: tensor<32xf32>, %postAttnNorm2: tensor<32xf32>, %gateUpProj2: tensor<96x32xf32>, %downProj2: tensor<32x48xf32>, %ffnOutputNorm2: tensor<32xf32>, %finalNorm: tensor<32xf32>, %lmHead: tensor<64x32xf32>) -> (tensor<2x1x64xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>) {
    %0 = stablehlo.reshape %tokenIds : (tensor<2x32xi32>) -> tensor<64xi32>
    %1 = stablehlo.reshape %0 : (tensor<64xi32>) -> tensor<64x1xi32>
    %2 = "stablehlo.gather"(%embedTokens, %1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<64x32xf32>, tensor<64x1xi32>) -> tensor<64x32xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<64x32xf32>) -> tensor<32x64xf32>
    %4 = stablehlo.multiply %3, %3 : tensor<32x64xf32>
    %5 = stablehlo.constant dense<0.0> : tensor<f32>
    %6 = stablehlo.reduce(%4 init: %5) applies stablehlo.add across dimensions = [0] : (tensor<32x64xf32>, tensor<f32>) -> tensor<64xf32>
    %7 = stablehlo.constant dense<0.03125> : tensor<64xf32>
    %8 = stablehlo.multiply %6, %7 : tensor<64xf32>
    %9 = stablehlo.constant dense<1.0e-5> : tensor<64xf32>
    %10 = stablehlo.add %8, %9 : tensor<64xf32>
    %11 = stablehlo.rsqrt %10 : tensor<64xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [1] : (tensor<64xf32>) -> tensor<32x64xf32>
    %13 = stablehlo.multiply %3, %12 : tensor<32x64xf32>
    %14 = stablehlo.slice %positions [0:2, 31:32] : (tensor<2x32xi32>) -> tensor<2x1xi32>
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
    %28 = stablehlo.constant dense<8> : tensor<2x3xi32>
    %29 = stablehlo.multiply %27, %28 : tensor<2x3xi32>
    %30 = stablehlo.add %29, %26 : tensor<2x3xi32>
    %31 = stablehlo.reshape %30 : (tensor<2x3xi32>) -> tensor<6xi32>
    %32 = stablehlo.reshape %windowBlockTables : (tensor<2x8xi32>) -> tensor<16x1xi32>
    %33 = stablehlo.reshape %31 : (tensor<6xi32>) -> tensor<6x1xi32>
    %34 = "stablehlo.gather"(%32, %33) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<16x1xi32>, tensor<6x1xi32>) -> tensor<6x1xi32>
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
    %56 = stablehlo.reshape %positions : (tensor<2x32xi32>) -> tensor<64xi32>
    %57 = stablehlo.convert %56 : (tensor<64xi32>) -> tensor<64xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [1] : (tensor<64xf32>) -> tensor<4x64xf32>
    %59 = stablehlo.constant dense<[1.0, 0.1, 0.01, 0.001]> : tensor<4xf32>
    %60 = stablehlo.broadcast_in_dim %59, dims = [0] : (tensor<4xf32>) -> tensor<4x64xf32>
    %61 = stablehlo.multiply %58, %60 : tensor<4x64xf32>
    %62 = stablehlo.cosine %61 : tensor<4x64xf32>
    %63 = stablehlo.sine %61 : tensor<4x64xf32>
    %64 = stablehlo.concatenate %62, %63, dim = 0 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<8x64xf32>
    %65 = stablehlo.iota dim = 0 : tensor<8x8xi32>
    %66 = stablehlo.iota dim = 1 : tensor<8x8xi32>
    %67 = stablehlo.compare EQ, %65, %66, SIGNED : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi1>
    %68 = stablehlo.constant dense<1.0> : tensor<8x8xf32>
    %69 = stablehlo.constant dense<0.0> : tensor<8x8xf32>
    %70 = stablehlo.select %67, %68, %69 : tensor<8x8xi1>, tensor<8x8xf32>
    %71 = stablehlo.dot_general %70, %64, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    %72 = stablehlo.slice %71 [0:4, 0:64] : (tensor<8x64xf32>) -> tensor<4x64xf32>
    %73 = stablehlo.slice %71 [4:8, 0:64] : (tensor<8x64xf32>) -> tensor<4x64xf32>
    %74 = stablehlo.constant dense<0.53033006> : tensor<4x64xf32>
    %75 = stablehlo.multiply %72, %74 : tensor<4x64xf32>
    %76 = stablehlo.multiply %73, %74 : tensor<4x64xf32>
    %77 = stablehlo.constant dense<2> : tensor<64xi32>
    %78 = stablehlo.shift_right_arithmetic %windowSlotMapping, %77 : tensor<64xi32>
    %79 = stablehlo.constant dense<3> : tensor<64xi32>
    %80 = stablehlo.and %windowSlotMapping, %79 : tensor<64xi32>
    %81 = stablehlo.reshape %78 : (tensor<64xi32>) -> tensor<64x1xi32>
    %82 = stablehlo.reshape %80 : (tensor<64xi32>) -> tensor<64x1xi32>
    %83 = stablehlo.concatenate %81, %82, dim = 1 : (tensor<64x1xi32>, tensor<64x1xi32>) -> tensor<64x2xi32>
    %84:3 = func.call @layer0(%13, %keyCache0, %valueCache0, %72, %73, %75, %76, %83, %55, %50, %positions, %inputNorm0, %qkvProj0, %qkvBias0, %oProj0, %mixerOutputNorm0, %postAttnNorm0, %gateUpProj0, %downProj0, %ffnOutputNorm0) : (tensor<32x64xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<4x64xf32>, tensor<4x64xf32>, tensor<4x64xf32>, tensor<4x64xf32>, tensor<64x2xi32>, tensor<2x12xi32>, tensor<2x12xi32>, tensor<2x32xi32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x64xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>)
    %85:3 = func.call @layer0(%84#0, %keyCache1, %valueCache1, %72, %73, %75, %76, %83, %55, %50, %positions, %inputNorm1, %qkvProj1, %qkvBias1, %oProj1, %mixerOutputNorm1, %postAttnNorm1, %gateUpProj1, %downProj1, %ffnOutputNorm1) : (tensor<32x64xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<4x64xf32>, tensor<4x64xf32>, tensor<4x64xf32>, tensor<4x64xf32>, tensor<64x2xi32>, tensor<2x12xi32>, tensor<2x12xi32>, tensor<2x32xi32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x64xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>)
    %86 = stablehlo.iota dim = 1 : tensor<2x32xi32>
    %87 = stablehlo.constant dense<4> : tensor<2x8xi32>
    %88 = stablehlo.multiply %blockTables, %87 : tensor<2x8xi32>
    %89 = stablehlo.broadcast_in_dim %88, dims = [0, 1] : (tensor<2x8xi32>) -> tensor<2x8x4xi32>
    %90 = stablehlo.iota dim = 2 : tensor<2x8x4xi32>
    %91 = stablehlo.add %89, %90 : tensor<2x8x4xi32>
    %92 = stablehlo.reshape %91 : (tensor<2x8x4xi32>) -> tensor<2x32xi32>
    %93 = stablehlo.shift_right_arithmetic %slotMapping, %77 : tensor<64xi32>
    %94 = stablehlo.and %slotMapping, %79 : tensor<64xi32>
    %95 = stablehlo.reshape %93 : (tensor<64xi32>) -> tensor<64x1xi32>
    %96 = stablehlo.reshape %94 : (tensor<64xi32>) -> tensor<64x1xi32>
    %97 = stablehlo.concatenate %95, %96, dim = 1 : (tensor<64x1xi32>, tensor<64x1xi32>) -> tensor<64x2xi32>
    %98:3 = func.call @layer1(%85#0, %keyCache2, %valueCache2, %97, %92, %86, %positions, %inputNorm2, %qkvProj2, %qkvBias2, %oProj2, %mixerOutputNorm2, %postAttnNorm2, %gateUpProj2, %downProj2, %ffnOutputNorm2) : (tensor<32x64xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<64x2xi32>, tensor<2x32xi32>, tensor<2x32xi32>, tensor<2x32xi32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x64xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>)
    %99 = stablehlo.reshape %98#0 : (tensor<32x64xf32>) -> tensor<32x2x32xf32>
    %100 = stablehlo.slice %99 [0:32, 0:2, 31:32] : (tensor<32x2x32xf32>) -> tensor<32x2x1xf32>
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
  func.func private @layer0(%x: tensor<32x64xf32>, %keys: tensor<13x4x2x8xf32>, %values: tensor<13x4x2x8xf32>, %keyCos: tensor<4x64xf32>, %keySin: tensor<4x64xf32>, %queryCos: tensor<4x64xf32>, %querySin: tensor<4x64xf32>, %writeIndices: tensor<64x2xi32>, %historySlots: tensor<2x12xi32>, %historyPositions: tensor<2x12xi32>, %visibility: tensor<2x32xi32>, %inputNorm: tensor<32xf32>, %qkvProj: tensor<96x32xf32>, %qkvBias: tensor<64xf32>, %oProj: tensor<32x32xf32>, %mixerOutputNorm: tensor<32xf32>, %postAttnNorm: tensor<32xf32>, %gateUpProj: tensor<96x32xf32>, %downProj: tensor<32x48xf32>, %ffnOutputNorm: tensor<32xf32>) -> (tensor<32x64xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>) {
    %0 = stablehlo.multiply %x, %x : tensor<32x64xf32>
    %1 = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<32x64xf32>, tensor<f32>) -> tensor<64xf32>
    %3 = stablehlo.constant dense<0.03125> : tensor<64xf32>
    %4 = stablehlo.multiply %2, %3 : tensor<64xf32>
    %5 = stablehlo.constant dense<1.0e-5> : tensor<64xf32>
    %6 = stablehlo.add %4, %5 : tensor<64xf32>
    %7 = stablehlo.rsqrt %6 : tensor<64xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [1] : (tensor<64xf32>) -> tensor<32x64xf32>
    %9 = stablehlo.multiply %x, %8 : tensor<32x64xf32>
    %10 = stablehlo.broadcast_in_dim %inputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x64xf32>
    %11 = stablehlo.multiply %9, %10 : tensor<32x64xf32>
    %12 = stablehlo.dot_general %qkvProj, %11, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x64xf32>) -> tensor<96x64xf32>
    %13 = stablehlo.slice %12 [0:32, 0:64] : (tensor<96x64xf32>) -> tensor<32x64xf32>
    %14 = stablehlo.slice %qkvBias [0:32] : (tensor<64xf32>) -> tensor<32xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0] : (tensor<32xf32>) -> tensor<32x64xf32>
    %16 = stablehlo.add %13, %15 : tensor<32x64xf32>
    %17 = stablehlo.reshape %16 : (tensor<32x64xf32>) -> tensor<4x8x64xf32>
    %18 = stablehlo.slice %12 [32:48, 0:64] : (tensor<96x64xf32>) -> tensor<16x64xf32>
    %19 = stablehlo.slice %qkvBias [32:48] : (tensor<64xf32>) -> tensor<16xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0] : (tensor<16xf32>) -> tensor<16x64xf32>
    %21 = stablehlo.add %18, %20 : tensor<16x64xf32>
    %22 = stablehlo.reshape %21 : (tensor<16x64xf32>) -> tensor<2x8x64xf32>
    %23 = stablehlo.slice %12 [48:64, 0:64] : (tensor<96x64xf32>) -> tensor<16x64xf32>
    %24 = stablehlo.slice %qkvBias [48:64] : (tensor<64xf32>) -> tensor<16xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0] : (tensor<16xf32>) -> tensor<16x64xf32>
    %26 = stablehlo.add %23, %25 : tensor<16x64xf32>
    %27 = stablehlo.reshape %26 : (tensor<16x64xf32>) -> tensor<2x8x64xf32>
    %28 = stablehlo.multiply %17, %17 : tensor<4x8x64xf32>
    %29 = stablehlo.reduce(%28 init: %1) applies stablehlo.add across dimensions = [1] : (tensor<4x8x64xf32>, tensor<f32>) -> tensor<4x64xf32>
    %30 = stablehlo.constant dense<0.125> : tensor<4x64xf32>
    %31 = stablehlo.multiply %29, %30 : tensor<4x64xf32>
    %32 = stablehlo.constant dense<1.0e-5> : tensor<4x64xf32>
    %33 = stablehlo.add %31, %32 : tensor<4x64xf32>
    %34 = stablehlo.rsqrt %33 : tensor<4x64xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 2] : (tensor<4x64xf32>) -> tensor<4x8x64xf32>
    %36 = stablehlo.multiply %17, %35 : tensor<4x8x64xf32>
    %37 = stablehlo.multiply %22, %22 : tensor<2x8x64xf32>
    %38 = stablehlo.reduce(%37 init: %1) applies stablehlo.add across dimensions = [1] : (tensor<2x8x64xf32>, tensor<f32>) -> tensor<2x64xf32>
    %39 = stablehlo.constant dense<0.125> : tensor<2x64xf32>
    %40 = stablehlo.multiply %38, %39 : tensor<2x64xf32>
    %41 = stablehlo.constant dense<1.0e-5> : tensor<2x64xf32>
    %42 = stablehlo.add %40, %41 : tensor<2x64xf32>
    %43 = stablehlo.rsqrt %42 : tensor<2x64xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 2] : (tensor<2x64xf32>) -> tensor<2x8x64xf32>
    %45 = stablehlo.multiply %22, %44 : tensor<2x8x64xf32>
    %46 = stablehlo.slice %36 [0:4, 0:4, 0:64] : (tensor<4x8x64xf32>) -> tensor<4x4x64xf32>
    %47 = stablehlo.slice %36 [0:4, 4:8, 0:64] : (tensor<4x8x64xf32>) -> tensor<4x4x64xf32>
    %48 = stablehlo.broadcast_in_dim %queryCos, dims = [1, 2] : (tensor<4x64xf32>) -> tensor<4x4x64xf32>
    %49 = stablehlo.broadcast_in_dim %querySin, dims = [1, 2] : (tensor<4x64xf32>) -> tensor<4x4x64xf32>
    %50 = stablehlo.multiply %46, %48 : tensor<4x4x64xf32>
    %51 = stablehlo.multiply %47, %49 : tensor<4x4x64xf32>
    %52 = stablehlo.multiply %47, %48 : tensor<4x4x64xf32>
    %53 = stablehlo.multiply %46, %49 : tensor<4x4x64xf32>
    %54 = stablehlo.subtract %50, %51 : tensor<4x4x64xf32>
    %55 = stablehlo.add %52, %53 : tensor<4x4x64xf32>
    %56 = stablehlo.concatenate %54, %55, dim = 1 : (tensor<4x4x64xf32>, tensor<4x4x64xf32>) -> tensor<4x8x64xf32>
    %57 = stablehlo.slice %45 [0:2, 0:4, 0:64] : (tensor<2x8x64xf32>) -> tensor<2x4x64xf32>
    %58 = stablehlo.slice %45 [0:2, 4:8, 0:64] : (tensor<2x8x64xf32>) -> tensor<2x4x64xf32>
    %59 = stablehlo.broadcast_in_dim %keyCos, dims = [1, 2] : (tensor<4x64xf32>) -> tensor<2x4x64xf32>
    %60 = stablehlo.broadcast_in_dim %keySin, dims = [1, 2] : (tensor<4x64xf32>) -> tensor<2x4x64xf32>
    %61 = stablehlo.multiply %57, %59 : tensor<2x4x64xf32>
    %62 = stablehlo.multiply %58, %60 : tensor<2x4x64xf32>
    %63 = stablehlo.multiply %58, %59 : tensor<2x4x64xf32>
    %64 = stablehlo.multiply %57, %60 : tensor<2x4x64xf32>
    %65 = stablehlo.subtract %61, %62 : tensor<2x4x64xf32>
    %66 = stablehlo.add %63, %64 : tensor<2x4x64xf32>
    %67 = stablehlo.concatenate %65, %66, dim = 1 : (tensor<2x4x64xf32>, tensor<2x4x64xf32>) -> tensor<2x8x64xf32>
    %68 = stablehlo.transpose %56, dims = [2, 0, 1] : (tensor<4x8x64xf32>) -> tensor<64x4x8xf32>
    %69 = stablehlo.transpose %67, dims = [2, 0, 1] : (tensor<2x8x64xf32>) -> tensor<64x2x8xf32>
    %70 = stablehlo.transpose %27, dims = [2, 0, 1] : (tensor<2x8x64xf32>) -> tensor<64x2x8xf32>
    %71 = "stablehlo.scatter"(%keys, %writeIndices, %69) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old71: tensor<f32>, %new71: tensor<f32>):
      stablehlo.return %new71 : tensor<f32>
    }) : (tensor<13x4x2x8xf32>, tensor<64x2xi32>, tensor<64x2x8xf32>) -> tensor<13x4x2x8xf32>
    %72 = "stablehlo.scatter"(%values, %writeIndices, %70) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old72: tensor<f32>, %new72: tensor<f32>):
      stablehlo.return %new72 : tensor<f32>
    }) : (tensor<13x4x2x8xf32>, tensor<64x2xi32>, tensor<64x2x8xf32>) -> tensor<13x4x2x8xf32>
    %73 = stablehlo.reshape %68 : (tensor<64x4x8xf32>) -> tensor<2x32x2x2x8xf32>
    %74 = stablehlo.transpose %73, dims = [0, 2, 3, 1, 4] : (tensor<2x32x2x2x8xf32>) -> tensor<2x2x2x32x8xf32>
    %75 = stablehlo.reshape %74 : (tensor<2x2x2x32x8xf32>) -> tensor<2x2x64x8xf32>
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
    %90 = stablehlo.slice %historyPositions [0:1, 0:12] : (tensor<2x12xi32>) -> tensor<1x12xi32>
    %91 = stablehlo.reshape %90 : (tensor<1x12xi32>) -> tensor<12xi32>
    %92 = stablehlo.broadcast_in_dim %91, dims = [1] : (tensor<12xi32>) -> tensor<32x12xi32>
    %93 = stablehlo.slice %visibility [0:1, 0:32] : (tensor<2x32xi32>) -> tensor<1x32xi32>
    %94 = stablehlo.reshape %93 : (tensor<1x32xi32>) -> tensor<32xi32>
    %95 = stablehlo.broadcast_in_dim %94, dims = [0] : (tensor<32xi32>) -> tensor<32x12xi32>
    %96 = stablehlo.compare LE, %92, %95, SIGNED : (tensor<32x12xi32>, tensor<32x12xi32>) -> tensor<32x12xi1>
    %97 = stablehlo.constant dense<8> : tensor<32x12xi32>
    %98 = stablehlo.subtract %95, %97 : tensor<32x12xi32>
    %99 = stablehlo.compare LT, %98, %92, SIGNED : (tensor<32x12xi32>, tensor<32x12xi32>) -> tensor<32x12xi1>
    %100 = stablehlo.and %96, %99 : tensor<32x12xi1>
    %101 = stablehlo.broadcast_in_dim %100, dims = [1, 2] : (tensor<32x12xi1>) -> tensor<2x32x12xi1>
    %102 = stablehlo.slice %75 [0:1, 0:2, 0:64, 0:8] : (tensor<2x2x64x8xf32>) -> tensor<1x2x64x8xf32>
    %103 = stablehlo.slice %102 [0:1, 0:1, 0:64, 0:8] : (tensor<1x2x64x8xf32>) -> tensor<1x1x64x8xf32>
    %104 = stablehlo.reshape %103 : (tensor<1x1x64x8xf32>) -> tensor<64x8xf32>
    %105 = stablehlo.slice %82 [0:1, 0:2, 0:12, 0:8] : (tensor<2x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %106 = stablehlo.slice %105 [0:1, 0:1, 0:12, 0:8] : (tensor<1x2x12x8xf32>) -> tensor<1x1x12x8xf32>
    %107 = stablehlo.reshape %106 : (tensor<1x1x12x8xf32>) -> tensor<12x8xf32>
    %108 = stablehlo.slice %89 [0:1, 0:2, 0:12, 0:8] : (tensor<2x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %109 = stablehlo.slice %108 [0:1, 0:1, 0:12, 0:8] : (tensor<1x2x12x8xf32>) -> tensor<1x1x12x8xf32>
    %110 = stablehlo.reshape %109 : (tensor<1x1x12x8xf32>) -> tensor<12x8xf32>
    %111 = stablehlo.dot_general %104, %107, contracting_dims = [1] x [1] : (tensor<64x8xf32>, tensor<12x8xf32>) -> tensor<64x12xf32>
    %112 = stablehlo.reshape %111 : (tensor<64x12xf32>) -> tensor<2x32x12xf32>
    %113 = stablehlo.constant dense<-1.0e30> : tensor<2x32x12xf32>
    %114 = stablehlo.select %101, %112, %113 : tensor<2x32x12xi1>, tensor<2x32x12xf32>
    %115 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %116 = stablehlo.reduce(%114 init: %115) applies stablehlo.maximum across dimensions = [2] : (tensor<2x32x12xf32>, tensor<f32>) -> tensor<2x32xf32>
    %117 = stablehlo.broadcast_in_dim %116, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x12xf32>
    %118 = stablehlo.subtract %114, %117 : tensor<2x32x12xf32>
    %119 = stablehlo.exponential %118 : tensor<2x32x12xf32>
    %120 = stablehlo.reduce(%119 init: %1) applies stablehlo.add across dimensions = [2] : (tensor<2x32x12xf32>, tensor<f32>) -> tensor<2x32xf32>
    %121 = stablehlo.reshape %120 : (tensor<2x32xf32>) -> tensor<1x1x2x32xf32>
    %122 = stablehlo.reshape %119 : (tensor<2x32x12xf32>) -> tensor<64x12xf32>
    %123 = stablehlo.dot_general %122, %110, contracting_dims = [1] x [0] : (tensor<64x12xf32>, tensor<12x8xf32>) -> tensor<64x8xf32>
    %124 = stablehlo.reshape %123 : (tensor<64x8xf32>) -> tensor<1x1x2x32x8xf32>
    %125 = stablehlo.slice %75 [0:1, 0:2, 0:64, 0:8] : (tensor<2x2x64x8xf32>) -> tensor<1x2x64x8xf32>
    %126 = stablehlo.slice %125 [0:1, 1:2, 0:64, 0:8] : (tensor<1x2x64x8xf32>) -> tensor<1x1x64x8xf32>
    %127 = stablehlo.reshape %126 : (tensor<1x1x64x8xf32>) -> tensor<64x8xf32>
    %128 = stablehlo.slice %82 [0:1, 0:2, 0:12, 0:8] : (tensor<2x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %129 = stablehlo.slice %128 [0:1, 1:2, 0:12, 0:8] : (tensor<1x2x12x8xf32>) -> tensor<1x1x12x8xf32>
    %130 = stablehlo.reshape %129 : (tensor<1x1x12x8xf32>) -> tensor<12x8xf32>
    %131 = stablehlo.slice %89 [0:1, 0:2, 0:12, 0:8] : (tensor<2x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %132 = stablehlo.slice %131 [0:1, 1:2, 0:12, 0:8] : (tensor<1x2x12x8xf32>) -> tensor<1x1x12x8xf32>
    %133 = stablehlo.reshape %132 : (tensor<1x1x12x8xf32>) -> tensor<12x8xf32>
    %134 = stablehlo.dot_general %127, %130, contracting_dims = [1] x [1] : (tensor<64x8xf32>, tensor<12x8xf32>) -> tensor<64x12xf32>
    %135 = stablehlo.reshape %134 : (tensor<64x12xf32>) -> tensor<2x32x12xf32>
    %136 = stablehlo.select %101, %135, %113 : tensor<2x32x12xi1>, tensor<2x32x12xf32>
    %137 = stablehlo.reduce(%136 init: %115) applies stablehlo.maximum across dimensions = [2] : (tensor<2x32x12xf32>, tensor<f32>) -> tensor<2x32xf32>
    %138 = stablehlo.broadcast_in_dim %137, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x12xf32>
    %139 = stablehlo.subtract %136, %138 : tensor<2x32x12xf32>
    %140 = stablehlo.exponential %139 : tensor<2x32x12xf32>
    %141 = stablehlo.reduce(%140 init: %1) applies stablehlo.add across dimensions = [2] : (tensor<2x32x12xf32>, tensor<f32>) -> tensor<2x32xf32>
    %142 = stablehlo.reshape %141 : (tensor<2x32xf32>) -> tensor<1x1x2x32xf32>
    %143 = stablehlo.reshape %140 : (tensor<2x32x12xf32>) -> tensor<64x12xf32>
    %144 = stablehlo.dot_general %143, %133, contracting_dims = [1] x [0] : (tensor<64x12xf32>, tensor<12x8xf32>) -> tensor<64x8xf32>
    %145 = stablehlo.reshape %144 : (tensor<64x8xf32>) -> tensor<1x1x2x32x8xf32>
    %146 = stablehlo.concatenate %124, %145, dim = 1 : (tensor<1x1x2x32x8xf32>, tensor<1x1x2x32x8xf32>) -> tensor<1x2x2x32x8xf32>
    %147 = stablehlo.concatenate %121, %142, dim = 1 : (tensor<1x1x2x32xf32>, tensor<1x1x2x32xf32>) -> tensor<1x2x2x32xf32>
    %148 = stablehlo.slice %historyPositions [1:2, 0:12] : (tensor<2x12xi32>) -> tensor<1x12xi32>
    %149 = stablehlo.reshape %148 : (tensor<1x12xi32>) -> tensor<12xi32>
    %150 = stablehlo.broadcast_in_dim %149, dims = [1] : (tensor<12xi32>) -> tensor<32x12xi32>
    %151 = stablehlo.slice %visibility [1:2, 0:32] : (tensor<2x32xi32>) -> tensor<1x32xi32>
    %152 = stablehlo.reshape %151 : (tensor<1x32xi32>) -> tensor<32xi32>
    %153 = stablehlo.broadcast_in_dim %152, dims = [0] : (tensor<32xi32>) -> tensor<32x12xi32>
    %154 = stablehlo.compare LE, %150, %153, SIGNED : (tensor<32x12xi32>, tensor<32x12xi32>) -> tensor<32x12xi1>
    %155 = stablehlo.subtract %153, %97 : tensor<32x12xi32>
    %156 = stablehlo.compare LT, %155, %150, SIGNED : (tensor<32x12xi32>, tensor<32x12xi32>) -> tensor<32x12xi1>
    %157 = stablehlo.and %154, %156 : tensor<32x12xi1>
    %158 = stablehlo.broadcast_in_dim %157, dims = [1, 2] : (tensor<32x12xi1>) -> tensor<2x32x12xi1>
    %159 = stablehlo.slice %75 [1:2, 0:2, 0:64, 0:8] : (tensor<2x2x64x8xf32>) -> tensor<1x2x64x8xf32>
    %160 = stablehlo.slice %159 [0:1, 0:1, 0:64, 0:8] : (tensor<1x2x64x8xf32>) -> tensor<1x1x64x8xf32>
    %161 = stablehlo.reshape %160 : (tensor<1x1x64x8xf32>) -> tensor<64x8xf32>
    %162 = stablehlo.slice %82 [1:2, 0:2, 0:12, 0:8] : (tensor<2x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %163 = stablehlo.slice %162 [0:1, 0:1, 0:12, 0:8] : (tensor<1x2x12x8xf32>) -> tensor<1x1x12x8xf32>
    %164 = stablehlo.reshape %163 : (tensor<1x1x12x8xf32>) -> tensor<12x8xf32>
    %165 = stablehlo.slice %89 [1:2, 0:2, 0:12, 0:8] : (tensor<2x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %166 = stablehlo.slice %165 [0:1, 0:1, 0:12, 0:8] : (tensor<1x2x12x8xf32>) -> tensor<1x1x12x8xf32>
    %167 = stablehlo.reshape %166 : (tensor<1x1x12x8xf32>) -> tensor<12x8xf32>
    %168 = stablehlo.dot_general %161, %164, contracting_dims = [1] x [1] : (tensor<64x8xf32>, tensor<12x8xf32>) -> tensor<64x12xf32>
    %169 = stablehlo.reshape %168 : (tensor<64x12xf32>) -> tensor<2x32x12xf32>
    %170 = stablehlo.select %158, %169, %113 : tensor<2x32x12xi1>, tensor<2x32x12xf32>
    %171 = stablehlo.reduce(%170 init: %115) applies stablehlo.maximum across dimensions = [2] : (tensor<2x32x12xf32>, tensor<f32>) -> tensor<2x32xf32>
    %172 = stablehlo.broadcast_in_dim %171, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x12xf32>
    %173 = stablehlo.subtract %170, %172 : tensor<2x32x12xf32>
    %174 = stablehlo.exponential %173 : tensor<2x32x12xf32>
    %175 = stablehlo.reduce(%174 init: %1) applies stablehlo.add across dimensions = [2] : (tensor<2x32x12xf32>, tensor<f32>) -> tensor<2x32xf32>
    %176 = stablehlo.reshape %175 : (tensor<2x32xf32>) -> tensor<1x1x2x32xf32>
    %177 = stablehlo.reshape %174 : (tensor<2x32x12xf32>) -> tensor<64x12xf32>
    %178 = stablehlo.dot_general %177, %167, contracting_dims = [1] x [0] : (tensor<64x12xf32>, tensor<12x8xf32>) -> tensor<64x8xf32>
    %179 = stablehlo.reshape %178 : (tensor<64x8xf32>) -> tensor<1x1x2x32x8xf32>
    %180 = stablehlo.slice %75 [1:2, 0:2, 0:64, 0:8] : (tensor<2x2x64x8xf32>) -> tensor<1x2x64x8xf32>
    %181 = stablehlo.slice %180 [0:1, 1:2, 0:64, 0:8] : (tensor<1x2x64x8xf32>) -> tensor<1x1x64x8xf32>
    %182 = stablehlo.reshape %181 : (tensor<1x1x64x8xf32>) -> tensor<64x8xf32>
    %183 = stablehlo.slice %82 [1:2, 0:2, 0:12, 0:8] : (tensor<2x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %184 = stablehlo.slice %183 [0:1, 1:2, 0:12, 0:8] : (tensor<1x2x12x8xf32>) -> tensor<1x1x12x8xf32>
    %185 = stablehlo.reshape %184 : (tensor<1x1x12x8xf32>) -> tensor<12x8xf32>
    %186 = stablehlo.slice %89 [1:2, 0:2, 0:12, 0:8] : (tensor<2x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %187 = stablehlo.slice %186 [0:1, 1:2, 0:12, 0:8] : (tensor<1x2x12x8xf32>) -> tensor<1x1x12x8xf32>
    %188 = stablehlo.reshape %187 : (tensor<1x1x12x8xf32>) -> tensor<12x8xf32>
    %189 = stablehlo.dot_general %182, %185, contracting_dims = [1] x [1] : (tensor<64x8xf32>, tensor<12x8xf32>) -> tensor<64x12xf32>
    %190 = stablehlo.reshape %189 : (tensor<64x12xf32>) -> tensor<2x32x12xf32>
    %191 = stablehlo.select %158, %190, %113 : tensor<2x32x12xi1>, tensor<2x32x12xf32>
    %192 = stablehlo.reduce(%191 init: %115) applies stablehlo.maximum across dimensions = [2] : (tensor<2x32x12xf32>, tensor<f32>) -> tensor<2x32xf32>
    %193 = stablehlo.broadcast_in_dim %192, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x12xf32>
    %194 = stablehlo.subtract %191, %193 : tensor<2x32x12xf32>
    %195 = stablehlo.exponential %194 : tensor<2x32x12xf32>
    %196 = stablehlo.reduce(%195 init: %1) applies stablehlo.add across dimensions = [2] : (tensor<2x32x12xf32>, tensor<f32>) -> tensor<2x32xf32>
    %197 = stablehlo.reshape %196 : (tensor<2x32xf32>) -> tensor<1x1x2x32xf32>
    %198 = stablehlo.reshape %195 : (tensor<2x32x12xf32>) -> tensor<64x12xf32>
    %199 = stablehlo.dot_general %198, %188, contracting_dims = [1] x [0] : (tensor<64x12xf32>, tensor<12x8xf32>) -> tensor<64x8xf32>
    %200 = stablehlo.reshape %199 : (tensor<64x8xf32>) -> tensor<1x1x2x32x8xf32>
    %201 = stablehlo.concatenate %179, %200, dim = 1 : (tensor<1x1x2x32x8xf32>, tensor<1x1x2x32x8xf32>) -> tensor<1x2x2x32x8xf32>
    %202 = stablehlo.concatenate %176, %197, dim = 1 : (tensor<1x1x2x32xf32>, tensor<1x1x2x32xf32>) -> tensor<1x2x2x32xf32>
    %203 = stablehlo.concatenate %146, %201, dim = 0 : (tensor<1x2x2x32x8xf32>, tensor<1x2x2x32x8xf32>) -> tensor<2x2x2x32x8xf32>
    %204 = stablehlo.concatenate %147, %202, dim = 0 : (tensor<1x2x2x32xf32>, tensor<1x2x2x32xf32>) -> tensor<2x2x2x32xf32>
    %205 = stablehlo.transpose %203, dims = [1, 2, 4, 0, 3] : (tensor<2x2x2x32x8xf32>) -> tensor<2x2x8x2x32xf32>
    %206 = stablehlo.transpose %204, dims = [1, 2, 0, 3] : (tensor<2x2x2x32xf32>) -> tensor<2x2x2x32xf32>
    %207 = stablehlo.broadcast_in_dim %206, dims = [0, 1, 3, 4] : (tensor<2x2x2x32xf32>) -> tensor<2x2x8x2x32xf32>
    %208 = stablehlo.divide %205, %207 : tensor<2x2x8x2x32xf32>
    %209 = stablehlo.reshape %208 : (tensor<2x2x8x2x32xf32>) -> tensor<32x64xf32>
    %210 = stablehlo.slice %12 [64:96, 0:64] : (tensor<96x64xf32>) -> tensor<32x64xf32>
    %211 = stablehlo.logistic %210 : tensor<32x64xf32>
    %212 = stablehlo.multiply %209, %211 : tensor<32x64xf32>
    %213 = stablehlo.dot_general %oProj, %212, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
    %214 = stablehlo.multiply %213, %213 : tensor<32x64xf32>
    %215 = stablehlo.reduce(%214 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<32x64xf32>, tensor<f32>) -> tensor<64xf32>
    %216 = stablehlo.multiply %215, %3 : tensor<64xf32>
    %217 = stablehlo.add %216, %5 : tensor<64xf32>
    %218 = stablehlo.rsqrt %217 : tensor<64xf32>
    %219 = stablehlo.broadcast_in_dim %218, dims = [1] : (tensor<64xf32>) -> tensor<32x64xf32>
    %220 = stablehlo.multiply %213, %219 : tensor<32x64xf32>
    %221 = stablehlo.broadcast_in_dim %mixerOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x64xf32>
    %222 = stablehlo.multiply %220, %221 : tensor<32x64xf32>
    %223 = stablehlo.add %x, %222 : tensor<32x64xf32>
    %224 = stablehlo.multiply %223, %223 : tensor<32x64xf32>
    %225 = stablehlo.reduce(%224 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<32x64xf32>, tensor<f32>) -> tensor<64xf32>
    %226 = stablehlo.multiply %225, %3 : tensor<64xf32>
    %227 = stablehlo.add %226, %5 : tensor<64xf32>
    %228 = stablehlo.rsqrt %227 : tensor<64xf32>
    %229 = stablehlo.broadcast_in_dim %228, dims = [1] : (tensor<64xf32>) -> tensor<32x64xf32>
    %230 = stablehlo.multiply %223, %229 : tensor<32x64xf32>
    %231 = stablehlo.broadcast_in_dim %postAttnNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x64xf32>
    %232 = stablehlo.multiply %230, %231 : tensor<32x64xf32>
    %233 = stablehlo.dot_general %gateUpProj, %232, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x64xf32>) -> tensor<96x64xf32>
    %234 = stablehlo.slice %233 [0:48, 0:64] : (tensor<96x64xf32>) -> tensor<48x64xf32>
    %235 = stablehlo.slice %233 [48:96, 0:64] : (tensor<96x64xf32>) -> tensor<48x64xf32>
    %236 = stablehlo.logistic %234 : tensor<48x64xf32>
    %237 = stablehlo.multiply %234, %236 : tensor<48x64xf32>
    %238 = stablehlo.multiply %237, %235 : tensor<48x64xf32>
    %239 = stablehlo.dot_general %downProj, %238, contracting_dims = [1] x [0] : (tensor<32x48xf32>, tensor<48x64xf32>) -> tensor<32x64xf32>
    %240 = stablehlo.multiply %239, %239 : tensor<32x64xf32>
    %241 = stablehlo.reduce(%240 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<32x64xf32>, tensor<f32>) -> tensor<64xf32>
    %242 = stablehlo.multiply %241, %3 : tensor<64xf32>
    %243 = stablehlo.add %242, %5 : tensor<64xf32>
    %244 = stablehlo.rsqrt %243 : tensor<64xf32>
    %245 = stablehlo.broadcast_in_dim %244, dims = [1] : (tensor<64xf32>) -> tensor<32x64xf32>
    %246 = stablehlo.multiply %239, %245 : tensor<32x64xf32>
    %247 = stablehlo.broadcast_in_dim %ffnOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x64xf32>
    %248 = stablehlo.multiply %246, %247 : tensor<32x64xf32>
    %249 = stablehlo.add %223, %248 : tensor<32x64xf32>
    return %249, %71, %72 : tensor<32x64xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>
  }
  func.func private @layer1(%x: tensor<32x64xf32>, %keys: tensor<65x4x2x8xf32>, %values: tensor<65x4x2x8xf32>, %writeIndices: tensor<64x2xi32>, %historySlots: tensor<2x32xi32>, %historyPositions: tensor<2x32xi32>, %visibility: tensor<2x32xi32>, %inputNorm: tensor<32xf32>, %qkvProj: tensor<96x32xf32>, %qkvBias: tensor<64xf32>, %oProj: tensor<32x32xf32>, %mixerOutputNorm: tensor<32xf32>, %postAttnNorm: tensor<32xf32>, %gateUpProj: tensor<96x32xf32>, %downProj: tensor<32x48xf32>, %ffnOutputNorm: tensor<32xf32>) -> (tensor<32x64xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>) {
    %0 = stablehlo.multiply %x, %x : tensor<32x64xf32>
    %1 = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<32x64xf32>, tensor<f32>) -> tensor<64xf32>
    %3 = stablehlo.constant dense<0.03125> : tensor<64xf32>
    %4 = stablehlo.multiply %2, %3 : tensor<64xf32>
    %5 = stablehlo.constant dense<1.0e-5> : tensor<64xf32>
    %6 = stablehlo.add %4, %5 : tensor<64xf32>
    %7 = stablehlo.rsqrt %6 : tensor<64xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [1] : (tensor<64xf32>) -> tensor<32x64xf32>
    %9 = stablehlo.multiply %x, %8 : tensor<32x64xf32>
    %10 = stablehlo.broadcast_in_dim %inputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x64xf32>
    %11 = stablehlo.multiply %9, %10 : tensor<32x64xf32>
    %12 = stablehlo.dot_general %qkvProj, %11, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x64xf32>) -> tensor<96x64xf32>
    %13 = stablehlo.slice %12 [0:32, 0:64] : (tensor<96x64xf32>) -> tensor<32x64xf32>
    %14 = stablehlo.slice %qkvBias [0:32] : (tensor<64xf32>) -> tensor<32xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0] : (tensor<32xf32>) -> tensor<32x64xf32>
    %16 = stablehlo.add %13, %15 : tensor<32x64xf32>
    %17 = stablehlo.reshape %16 : (tensor<32x64xf32>) -> tensor<4x8x64xf32>
    %18 = stablehlo.slice %12 [32:48, 0:64] : (tensor<96x64xf32>) -> tensor<16x64xf32>
    %19 = stablehlo.slice %qkvBias [32:48] : (tensor<64xf32>) -> tensor<16xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0] : (tensor<16xf32>) -> tensor<16x64xf32>
    %21 = stablehlo.add %18, %20 : tensor<16x64xf32>
    %22 = stablehlo.reshape %21 : (tensor<16x64xf32>) -> tensor<2x8x64xf32>
    %23 = stablehlo.slice %12 [48:64, 0:64] : (tensor<96x64xf32>) -> tensor<16x64xf32>
    %24 = stablehlo.slice %qkvBias [48:64] : (tensor<64xf32>) -> tensor<16xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0] : (tensor<16xf32>) -> tensor<16x64xf32>
    %26 = stablehlo.add %23, %25 : tensor<16x64xf32>
    %27 = stablehlo.reshape %26 : (tensor<16x64xf32>) -> tensor<2x8x64xf32>
    %28 = stablehlo.multiply %17, %17 : tensor<4x8x64xf32>
    %29 = stablehlo.reduce(%28 init: %1) applies stablehlo.add across dimensions = [1] : (tensor<4x8x64xf32>, tensor<f32>) -> tensor<4x64xf32>
    %30 = stablehlo.constant dense<0.125> : tensor<4x64xf32>
    %31 = stablehlo.multiply %29, %30 : tensor<4x64xf32>
    %32 = stablehlo.constant dense<1.0e-5> : tensor<4x64xf32>
    %33 = stablehlo.add %31, %32 : tensor<4x64xf32>
    %34 = stablehlo.rsqrt %33 : tensor<4x64xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 2] : (tensor<4x64xf32>) -> tensor<4x8x64xf32>
    %36 = stablehlo.multiply %17, %35 : tensor<4x8x64xf32>
    %37 = stablehlo.multiply %22, %22 : tensor<2x8x64xf32>
    %38 = stablehlo.reduce(%37 init: %1) applies stablehlo.add across dimensions = [1] : (tensor<2x8x64xf32>, tensor<f32>) -> tensor<2x64xf32>
    %39 = stablehlo.constant dense<0.125> : tensor<2x64xf32>
    %40 = stablehlo.multiply %38, %39 : tensor<2x64xf32>
    %41 = stablehlo.constant dense<1.0e-5> : tensor<2x64xf32>
    %42 = stablehlo.add %40, %41 : tensor<2x64xf32>
    %43 = stablehlo.rsqrt %42 : tensor<2x64xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 2] : (tensor<2x64xf32>) -> tensor<2x8x64xf32>
    %45 = stablehlo.multiply %22, %44 : tensor<2x8x64xf32>
    %46 = stablehlo.constant dense<0.53033006> : tensor<4x8x64xf32>
    %47 = stablehlo.multiply %36, %46 : tensor<4x8x64xf32>
    %48 = stablehlo.transpose %47, dims = [2, 0, 1] : (tensor<4x8x64xf32>) -> tensor<64x4x8xf32>
    %49 = stablehlo.transpose %45, dims = [2, 0, 1] : (tensor<2x8x64xf32>) -> tensor<64x2x8xf32>
    %50 = stablehlo.transpose %27, dims = [2, 0, 1] : (tensor<2x8x64xf32>) -> tensor<64x2x8xf32>
    %51 = "stablehlo.scatter"(%keys, %writeIndices, %49) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old51: tensor<f32>, %new51: tensor<f32>):
      stablehlo.return %new51 : tensor<f32>
    }) : (tensor<65x4x2x8xf32>, tensor<64x2xi32>, tensor<64x2x8xf32>) -> tensor<65x4x2x8xf32>
    %52 = "stablehlo.scatter"(%values, %writeIndices, %50) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old52: tensor<f32>, %new52: tensor<f32>):
      stablehlo.return %new52 : tensor<f32>
    }) : (tensor<65x4x2x8xf32>, tensor<64x2xi32>, tensor<64x2x8xf32>) -> tensor<65x4x2x8xf32>
    %53 = stablehlo.reshape %48 : (tensor<64x4x8xf32>) -> tensor<2x32x2x2x8xf32>
    %54 = stablehlo.transpose %53, dims = [0, 2, 3, 1, 4] : (tensor<2x32x2x2x8xf32>) -> tensor<2x2x2x32x8xf32>
    %55 = stablehlo.reshape %54 : (tensor<2x2x2x32x8xf32>) -> tensor<2x2x64x8xf32>
    %56 = stablehlo.reshape %51 : (tensor<65x4x2x8xf32>) -> tensor<260x16xf32>
    %57 = stablehlo.reshape %historySlots : (tensor<2x32xi32>) -> tensor<64xi32>
    %58 = stablehlo.reshape %57 : (tensor<64xi32>) -> tensor<64x1xi32>
    %59 = "stablehlo.gather"(%56, %58) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<260x16xf32>, tensor<64x1xi32>) -> tensor<64x16xf32>
    %60 = stablehlo.reshape %59 : (tensor<64x16xf32>) -> tensor<2x32x16xf32>
    %61 = stablehlo.reshape %60 : (tensor<2x32x16xf32>) -> tensor<2x32x2x8xf32>
    %62 = stablehlo.transpose %61, dims = [0, 2, 1, 3] : (tensor<2x32x2x8xf32>) -> tensor<2x2x32x8xf32>
    %63 = stablehlo.reshape %52 : (tensor<65x4x2x8xf32>) -> tensor<260x16xf32>
    %64 = stablehlo.reshape %historySlots : (tensor<2x32xi32>) -> tensor<64xi32>
    %65 = stablehlo.reshape %64 : (tensor<64xi32>) -> tensor<64x1xi32>
    %66 = "stablehlo.gather"(%63, %65) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<260x16xf32>, tensor<64x1xi32>) -> tensor<64x16xf32>
    %67 = stablehlo.reshape %66 : (tensor<64x16xf32>) -> tensor<2x32x16xf32>
    %68 = stablehlo.reshape %67 : (tensor<2x32x16xf32>) -> tensor<2x32x2x8xf32>
    %69 = stablehlo.transpose %68, dims = [0, 2, 1, 3] : (tensor<2x32x2x8xf32>) -> tensor<2x2x32x8xf32>
    %70 = stablehlo.slice %historyPositions [0:1, 0:32] : (tensor<2x32xi32>) -> tensor<1x32xi32>
    %71 = stablehlo.reshape %70 : (tensor<1x32xi32>) -> tensor<32xi32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [1] : (tensor<32xi32>) -> tensor<32x32xi32>
    %73 = stablehlo.slice %visibility [0:1, 0:32] : (tensor<2x32xi32>) -> tensor<1x32xi32>
    %74 = stablehlo.reshape %73 : (tensor<1x32xi32>) -> tensor<32xi32>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0] : (tensor<32xi32>) -> tensor<32x32xi32>
    %76 = stablehlo.compare LE, %72, %75, SIGNED : (tensor<32x32xi32>, tensor<32x32xi32>) -> tensor<32x32xi1>
    %77 = stablehlo.broadcast_in_dim %76, dims = [1, 2] : (tensor<32x32xi1>) -> tensor<2x32x32xi1>
    %78 = stablehlo.slice %55 [0:1, 0:2, 0:64, 0:8] : (tensor<2x2x64x8xf32>) -> tensor<1x2x64x8xf32>
    %79 = stablehlo.slice %78 [0:1, 0:1, 0:64, 0:8] : (tensor<1x2x64x8xf32>) -> tensor<1x1x64x8xf32>
    %80 = stablehlo.reshape %79 : (tensor<1x1x64x8xf32>) -> tensor<64x8xf32>
    %81 = stablehlo.slice %62 [0:1, 0:2, 0:32, 0:8] : (tensor<2x2x32x8xf32>) -> tensor<1x2x32x8xf32>
    %82 = stablehlo.slice %81 [0:1, 0:1, 0:32, 0:8] : (tensor<1x2x32x8xf32>) -> tensor<1x1x32x8xf32>
    %83 = stablehlo.reshape %82 : (tensor<1x1x32x8xf32>) -> tensor<32x8xf32>
    %84 = stablehlo.slice %69 [0:1, 0:2, 0:32, 0:8] : (tensor<2x2x32x8xf32>) -> tensor<1x2x32x8xf32>
    %85 = stablehlo.slice %84 [0:1, 0:1, 0:32, 0:8] : (tensor<1x2x32x8xf32>) -> tensor<1x1x32x8xf32>
    %86 = stablehlo.reshape %85 : (tensor<1x1x32x8xf32>) -> tensor<32x8xf32>
    %87 = stablehlo.dot_general %80, %83, contracting_dims = [1] x [1] : (tensor<64x8xf32>, tensor<32x8xf32>) -> tensor<64x32xf32>
    %88 = stablehlo.reshape %87 : (tensor<64x32xf32>) -> tensor<2x32x32xf32>
    %89 = stablehlo.constant dense<-1.0e30> : tensor<2x32x32xf32>
    %90 = stablehlo.select %77, %88, %89 : tensor<2x32x32xi1>, tensor<2x32x32xf32>
    %91 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %92 = stablehlo.reduce(%90 init: %91) applies stablehlo.maximum across dimensions = [2] : (tensor<2x32x32xf32>, tensor<f32>) -> tensor<2x32xf32>
    %93 = stablehlo.broadcast_in_dim %92, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x32xf32>
    %94 = stablehlo.subtract %90, %93 : tensor<2x32x32xf32>
    %95 = stablehlo.exponential %94 : tensor<2x32x32xf32>
    %96 = stablehlo.reduce(%95 init: %1) applies stablehlo.add across dimensions = [2] : (tensor<2x32x32xf32>, tensor<f32>) -> tensor<2x32xf32>
    %97 = stablehlo.reshape %96 : (tensor<2x32xf32>) -> tensor<1x1x2x32xf32>
    %98 = stablehlo.reshape %95 : (tensor<2x32x32xf32>) -> tensor<64x32xf32>
    %99 = stablehlo.dot_general %98, %86, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x8xf32>) -> tensor<64x8xf32>
    %100 = stablehlo.reshape %99 : (tensor<64x8xf32>) -> tensor<1x1x2x32x8xf32>
    %101 = stablehlo.slice %55 [0:1, 0:2, 0:64, 0:8] : (tensor<2x2x64x8xf32>) -> tensor<1x2x64x8xf32>
    %102 = stablehlo.slice %101 [0:1, 1:2, 0:64, 0:8] : (tensor<1x2x64x8xf32>) -> tensor<1x1x64x8xf32>
    %103 = stablehlo.reshape %102 : (tensor<1x1x64x8xf32>) -> tensor<64x8xf32>
    %104 = stablehlo.slice %62 [0:1, 0:2, 0:32, 0:8] : (tensor<2x2x32x8xf32>) -> tensor<1x2x32x8xf32>
    %105 = stablehlo.slice %104 [0:1, 1:2, 0:32, 0:8] : (tensor<1x2x32x8xf32>) -> tensor<1x1x32x8xf32>
    %106 = stablehlo.reshape %105 : (tensor<1x1x32x8xf32>) -> tensor<32x8xf32>
    %107 = stablehlo.slice %69 [0:1, 0:2, 0:32, 0:8] : (tensor<2x2x32x8xf32>) -> tensor<1x2x32x8xf32>
    %108 = stablehlo.slice %107 [0:1, 1:2, 0:32, 0:8] : (tensor<1x2x32x8xf32>) -> tensor<1x1x32x8xf32>
    %109 = stablehlo.reshape %108 : (tensor<1x1x32x8xf32>) -> tensor<32x8xf32>
    %110 = stablehlo.dot_general %103, %106, contracting_dims = [1] x [1] : (tensor<64x8xf32>, tensor<32x8xf32>) -> tensor<64x32xf32>
    %111 = stablehlo.reshape %110 : (tensor<64x32xf32>) -> tensor<2x32x32xf32>
    %112 = stablehlo.select %77, %111, %89 : tensor<2x32x32xi1>, tensor<2x32x32xf32>
    %113 = stablehlo.reduce(%112 init: %91) applies stablehlo.maximum across dimensions = [2] : (tensor<2x32x32xf32>, tensor<f32>) -> tensor<2x32xf32>
    %114 = stablehlo.broadcast_in_dim %113, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x32xf32>
    %115 = stablehlo.subtract %112, %114 : tensor<2x32x32xf32>
    %116 = stablehlo.exponential %115 : tensor<2x32x32xf32>
    %117 = stablehlo.reduce(%116 init: %1) applies stablehlo.add across dimensions = [2] : (tensor<2x32x32xf32>, tensor<f32>) -> tensor<2x32xf32>
    %118 = stablehlo.reshape %117 : (tensor<2x32xf32>) -> tensor<1x1x2x32xf32>
    %119 = stablehlo.reshape %116 : (tensor<2x32x32xf32>) -> tensor<64x32xf32>
    %120 = stablehlo.dot_general %119, %109, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x8xf32>) -> tensor<64x8xf32>
    %121 = stablehlo.reshape %120 : (tensor<64x8xf32>) -> tensor<1x1x2x32x8xf32>
    %122 = stablehlo.concatenate %100, %121, dim = 1 : (tensor<1x1x2x32x8xf32>, tensor<1x1x2x32x8xf32>) -> tensor<1x2x2x32x8xf32>
    %123 = stablehlo.concatenate %97, %118, dim = 1 : (tensor<1x1x2x32xf32>, tensor<1x1x2x32xf32>) -> tensor<1x2x2x32xf32>
    %124 = stablehlo.slice %historyPositions [1:2, 0:32] : (tensor<2x32xi32>) -> tensor<1x32xi32>
    %125 = stablehlo.reshape %124 : (tensor<1x32xi32>) -> tensor<32xi32>
    %126 = stablehlo.broadcast_in_dim %125, dims = [1] : (tensor<32xi32>) -> tensor<32x32xi32>
    %127 = stablehlo.slice %visibility [1:2, 0:32] : (tensor<2x32xi32>) -> tensor<1x32xi32>
    %128 = stablehlo.reshape %127 : (tensor<1x32xi32>) -> tensor<32xi32>
    %129 = stablehlo.broadcast_in_dim %128, dims = [0] : (tensor<32xi32>) -> tensor<32x32xi32>
    %130 = stablehlo.compare LE, %126, %129, SIGNED : (tensor<32x32xi32>, tensor<32x32xi32>) -> tensor<32x32xi1>
    %131 = stablehlo.broadcast_in_dim %130, dims = [1, 2] : (tensor<32x32xi1>) -> tensor<2x32x32xi1>
    %132 = stablehlo.slice %55 [1:2, 0:2, 0:64, 0:8] : (tensor<2x2x64x8xf32>) -> tensor<1x2x64x8xf32>
    %133 = stablehlo.slice %132 [0:1, 0:1, 0:64, 0:8] : (tensor<1x2x64x8xf32>) -> tensor<1x1x64x8xf32>
    %134 = stablehlo.reshape %133 : (tensor<1x1x64x8xf32>) -> tensor<64x8xf32>
    %135 = stablehlo.slice %62 [1:2, 0:2, 0:32, 0:8] : (tensor<2x2x32x8xf32>) -> tensor<1x2x32x8xf32>
    %136 = stablehlo.slice %135 [0:1, 0:1, 0:32, 0:8] : (tensor<1x2x32x8xf32>) -> tensor<1x1x32x8xf32>
    %137 = stablehlo.reshape %136 : (tensor<1x1x32x8xf32>) -> tensor<32x8xf32>
    %138 = stablehlo.slice %69 [1:2, 0:2, 0:32, 0:8] : (tensor<2x2x32x8xf32>) -> tensor<1x2x32x8xf32>
    %139 = stablehlo.slice %138 [0:1, 0:1, 0:32, 0:8] : (tensor<1x2x32x8xf32>) -> tensor<1x1x32x8xf32>
    %140 = stablehlo.reshape %139 : (tensor<1x1x32x8xf32>) -> tensor<32x8xf32>
    %141 = stablehlo.dot_general %134, %137, contracting_dims = [1] x [1] : (tensor<64x8xf32>, tensor<32x8xf32>) -> tensor<64x32xf32>
    %142 = stablehlo.reshape %141 : (tensor<64x32xf32>) -> tensor<2x32x32xf32>
    %143 = stablehlo.select %131, %142, %89 : tensor<2x32x32xi1>, tensor<2x32x32xf32>
    %144 = stablehlo.reduce(%143 init: %91) applies stablehlo.maximum across dimensions = [2] : (tensor<2x32x32xf32>, tensor<f32>) -> tensor<2x32xf32>
    %145 = stablehlo.broadcast_in_dim %144, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x32xf32>
    %146 = stablehlo.subtract %143, %145 : tensor<2x32x32xf32>
    %147 = stablehlo.exponential %146 : tensor<2x32x32xf32>
    %148 = stablehlo.reduce(%147 init: %1) applies stablehlo.add across dimensions = [2] : (tensor<2x32x32xf32>, tensor<f32>) -> tensor<2x32xf32>
    %149 = stablehlo.reshape %148 : (tensor<2x32xf32>) -> tensor<1x1x2x32xf32>
    %150 = stablehlo.reshape %147 : (tensor<2x32x32xf32>) -> tensor<64x32xf32>
    %151 = stablehlo.dot_general %150, %140, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x8xf32>) -> tensor<64x8xf32>
    %152 = stablehlo.reshape %151 : (tensor<64x8xf32>) -> tensor<1x1x2x32x8xf32>
    %153 = stablehlo.slice %55 [1:2, 0:2, 0:64, 0:8] : (tensor<2x2x64x8xf32>) -> tensor<1x2x64x8xf32>
    %154 = stablehlo.slice %153 [0:1, 1:2, 0:64, 0:8] : (tensor<1x2x64x8xf32>) -> tensor<1x1x64x8xf32>
    %155 = stablehlo.reshape %154 : (tensor<1x1x64x8xf32>) -> tensor<64x8xf32>
    %156 = stablehlo.slice %62 [1:2, 0:2, 0:32, 0:8] : (tensor<2x2x32x8xf32>) -> tensor<1x2x32x8xf32>
    %157 = stablehlo.slice %156 [0:1, 1:2, 0:32, 0:8] : (tensor<1x2x32x8xf32>) -> tensor<1x1x32x8xf32>
    %158 = stablehlo.reshape %157 : (tensor<1x1x32x8xf32>) -> tensor<32x8xf32>
    %159 = stablehlo.slice %69 [1:2, 0:2, 0:32, 0:8] : (tensor<2x2x32x8xf32>) -> tensor<1x2x32x8xf32>
    %160 = stablehlo.slice %159 [0:1, 1:2, 0:32, 0:8] : (tensor<1x2x32x8xf32>) -> tensor<1x1x32x8xf32>
    %161 = stablehlo.reshape %160 : (tensor<1x1x32x8xf32>) -> tensor<32x8xf32>
    %162 = stablehlo.dot_general %155, %158, contracting_dims = [1] x [1] : (tensor<64x8xf32>, tensor<32x8xf32>) -> tensor<64x32xf32>
    %163 = stablehlo.reshape %162 : (tensor<64x32xf32>) -> tensor<2x32x32xf32>
    %164 = stablehlo.select %131, %163, %89 : tensor<2x32x32xi1>, tensor<2x32x32xf32>
    %165 = stablehlo.reduce(%164 init: %91) applies stablehlo.maximum across dimensions = [2] : (tensor<2x32x32xf32>, tensor<f32>) -> tensor<2x32xf32>
    %166 = stablehlo.broadcast_in_dim %165, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x32xf32>
    %167 = stablehlo.subtract %164, %166 : tensor<2x32x32xf32>
    %168 = stablehlo.exponential %167 : tensor<2x32x32xf32>
    %169 = stablehlo.reduce(%168 init: %1) applies stablehlo.add across dimensions = [2] : (tensor<2x32x32xf32>, tensor<f32>) -> tensor<2x32xf32>
    %170 = stablehlo.reshape %169 : (tensor<2x32xf32>) -> tensor<1x1x2x32xf32>
    %171 = stablehlo.reshape %168 : (tensor<2x32x32xf32>) -> tensor<64x32xf32>
    %172 = stablehlo.dot_general %171, %161, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x8xf32>) -> tensor<64x8xf32>
    %173 = stablehlo.reshape %172 : (tensor<64x8xf32>) -> tensor<1x1x2x32x8xf32>
    %174 = stablehlo.concatenate %152, %173, dim = 1 : (tensor<1x1x2x32x8xf32>, tensor<1x1x2x32x8xf32>) -> tensor<1x2x2x32x8xf32>
    %175 = stablehlo.concatenate %149, %170, dim = 1 : (tensor<1x1x2x32xf32>, tensor<1x1x2x32xf32>) -> tensor<1x2x2x32xf32>
    %176 = stablehlo.concatenate %122, %174, dim = 0 : (tensor<1x2x2x32x8xf32>, tensor<1x2x2x32x8xf32>) -> tensor<2x2x2x32x8xf32>
    %177 = stablehlo.concatenate %123, %175, dim = 0 : (tensor<1x2x2x32xf32>, tensor<1x2x2x32xf32>) -> tensor<2x2x2x32xf32>
    %178 = stablehlo.transpose %176, dims = [1, 2, 4, 0, 3] : (tensor<2x2x2x32x8xf32>) -> tensor<2x2x8x2x32xf32>
    %179 = stablehlo.transpose %177, dims = [1, 2, 0, 3] : (tensor<2x2x2x32xf32>) -> tensor<2x2x2x32xf32>
    %180 = stablehlo.broadcast_in_dim %179, dims = [0, 1, 3, 4] : (tensor<2x2x2x32xf32>) -> tensor<2x2x8x2x32xf32>
    %181 = stablehlo.divide %178, %180 : tensor<2x2x8x2x32xf32>
    %182 = stablehlo.reshape %181 : (tensor<2x2x8x2x32xf32>) -> tensor<32x64xf32>
    %183 = stablehlo.slice %12 [64:96, 0:64] : (tensor<96x64xf32>) -> tensor<32x64xf32>
    %184 = stablehlo.logistic %183 : tensor<32x64xf32>
    %185 = stablehlo.multiply %182, %184 : tensor<32x64xf32>
    %186 = stablehlo.dot_general %oProj, %185, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
    %187 = stablehlo.multiply %186, %186 : tensor<32x64xf32>
    %188 = stablehlo.reduce(%187 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<32x64xf32>, tensor<f32>) -> tensor<64xf32>
    %189 = stablehlo.multiply %188, %3 : tensor<64xf32>
    %190 = stablehlo.add %189, %5 : tensor<64xf32>
    %191 = stablehlo.rsqrt %190 : tensor<64xf32>
    %192 = stablehlo.broadcast_in_dim %191, dims = [1] : (tensor<64xf32>) -> tensor<32x64xf32>
    %193 = stablehlo.multiply %186, %192 : tensor<32x64xf32>
    %194 = stablehlo.broadcast_in_dim %mixerOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x64xf32>
    %195 = stablehlo.multiply %193, %194 : tensor<32x64xf32>
    %196 = stablehlo.add %x, %195 : tensor<32x64xf32>
    %197 = stablehlo.multiply %196, %196 : tensor<32x64xf32>
    %198 = stablehlo.reduce(%197 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<32x64xf32>, tensor<f32>) -> tensor<64xf32>
    %199 = stablehlo.multiply %198, %3 : tensor<64xf32>
    %200 = stablehlo.add %199, %5 : tensor<64xf32>
    %201 = stablehlo.rsqrt %200 : tensor<64xf32>
    %202 = stablehlo.broadcast_in_dim %201, dims = [1] : (tensor<64xf32>) -> tensor<32x64xf32>
    %203 = stablehlo.multiply %196, %202 : tensor<32x64xf32>
    %204 = stablehlo.broadcast_in_dim %postAttnNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x64xf32>
    %205 = stablehlo.multiply %203, %204 : tensor<32x64xf32>
    %206 = stablehlo.dot_general %gateUpProj, %205, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x64xf32>) -> tensor<96x64xf32>
    %207 = stablehlo.slice %206 [0:48, 0:64] : (tensor<96x64xf32>) -> tensor<48x64xf32>
    %208 = stablehlo.slice %206 [48:96, 0:64] : (tensor<96x64xf32>) -> tensor<48x64xf32>
    %209 = stablehlo.logistic %207 : tensor<48x64xf32>
    %210 = stablehlo.multiply %207, %209 : tensor<48x64xf32>
    %211 = stablehlo.multiply %210, %208 : tensor<48x64xf32>
    %212 = stablehlo.dot_general %downProj, %211, contracting_dims = [1] x [0] : (tensor<32x48xf32>, tensor<48x64xf32>) -> tensor<32x64xf32>
    %213 = stablehlo.multiply %212, %212 : tensor<32x64xf32>
    %214 = stablehlo.reduce(%213 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<32x64xf32>, tensor<f32>) -> tensor<64xf32>
    %215 = stablehlo.multiply %214, %3 : tensor<64xf32>
    %216 = stablehlo.add %215, %5 : tensor<64xf32>
    %217 = stablehlo.rsqrt %216 : tensor<64xf32>
    %218 = stablehlo.broadcast_in_dim %217, dims = [1] : (tensor<64xf32>) -> tensor<32x64xf32>
    %219 = stablehlo.multiply %212, %218 : tensor<32x64xf32>
    %220 = stablehlo.broadcast_in_dim %ffnOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x64xf32>
    %221 = stablehlo.multiply %219, %220 : tensor<32x64xf32>
    %222 = stablehlo.add %196, %221 : tensor<32x64xf32>
    return %222, %51, %52 : tensor<32x64xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>
  }
}
