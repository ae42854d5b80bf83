module @program {
  func.func public @main(%tokenIds: tensor<1x16xi32>, %positions: tensor<1x16xi32>, %blockTables: tensor<1x4xi32>, %seqLens: tensor<1xi32>, %slotMapping: tensor<16xi32>, %windowBlockTables: tensor<1x4xi32>, %windowSlotMapping: tensor<16xi32>, %keyCache0: tensor<13x4x2x8xf32> {tf.aliasing_output = 1 : i32}, %valueCache0: tensor<13x4x2x8xf32> {tf.aliasing_output = 2 : i32}, %keyCache1: tensor<13x4x2x8xf32> {tf.aliasing_output = 3 : i32}, %valueCache1: tensor<13x4x2x8xf32> {tf.aliasing_output = 4 : i32}, %keyCache2: tensor<65x4x2x8xf32> {tf.aliasing_output = 5 : i32}, %valueCache2: tensor<65x4x2x8xf32> {tf.aliasing_output = 6 : i32}, %embedTokens: tensor<64x32xf32>, %inputNorm0: tensor<32xf32>, %qkvProj0: tensor<96x32xf32>, %qkvBias0: tensor<64xf32>, %oProj0: tensor<32x32xf32>, %mixerOutputNorm0: tensor<32xf32>, %postAttnNorm0: tensor<32xf32>, %gateUpProj0: tensor<96x32xf32>, %downProj0: tensor<32x48xf32>, %ffnOutputNorm0: tensor<32xf32>, %inputNorm1: tensor<32xf32>, %qkvProj1: tensor<96x32xf32>, %qkvBias1: tensor<64xf32>, %oProj1: tensor<32x32xf32>, %mixerOutputNorm1: tensor<32xf32>, %postAttnNorm1: tensor<32xf32>, %gateUpProj1: tensor<96x32xf32>, %downProj1: tensor<32x48xf32>, %ffnOutputNorm1: tensor<32xf32>, %inputNorm2: tensor<32xf32>, %qkvProj2: tensor<96x32xf32>, %qkvBias2: tensor<64xf32>, %oProj2: tensor<32x32xf32>, %mixerOutputNorm2: tensor<32xf32>, %postAttnNorm2: tensor<32xf32>, %gateUpProj2: tensor<96x32xf32>, %downProj2: tensor<32x48xf32>, %ffnOutputNorm2: tensor<32xf32>, %finalNorm: tensor<32xf32>, %lmHead: tensor<64x32xf32>) -> (tensor<1x1x64xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>) {
    %0 = stablehlo.reshape %tokenIds : (tensor<1x16xi32>) -> tensor<16xi32>
    %1 = stablehlo.reshape %0 : (tensor<16xi32>) -> tensor<16x1xi32>
    %2 = "stablehlo.gather"(%embedTokens, %1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<64x32xf32>, tensor<16x1xi32>) -> tensor<16x32xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<16x32xf32>) -> tensor<32x16xf32>
    %4 = stablehlo.dot_general %3, %3, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16xf32>
    %5 = stablehlo.constant dense<0.03125> : tensor<16xf32>
    %6 = stablehlo.multiply %4, %5 : tensor<16xf32>
    %7 = stablehlo.constant dense<1.0e-5> : tensor<16xf32>
    %8 = stablehlo.add %6, %7 : tensor<16xf32>
    %9 = stablehlo.rsqrt %8 : tensor<16xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [1] : (tensor<16xf32>) -> tensor<32x16xf32>
    %11 = stablehlo.multiply %3, %10 : tensor<32x16xf32>
    %12 = stablehlo.slice %positions [0:1, 15:16] : (tensor<1x16xi32>) -> tensor<1x1xi32>
    %13 = stablehlo.reshape %12 : (tensor<1x1xi32>) -> tensor<1xi32>
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
    %26 = stablehlo.constant dense<4> : tensor<1x3xi32>
    %27 = stablehlo.multiply %25, %26 : tensor<1x3xi32>
    %28 = stablehlo.add %27, %24 : tensor<1x3xi32>
    %29 = stablehlo.reshape %28 : (tensor<1x3xi32>) -> tensor<3xi32>
    %30 = stablehlo.reshape %windowBlockTables : (tensor<1x4xi32>) -> tensor<4x1xi32>
    %31 = stablehlo.reshape %29 : (tensor<3xi32>) -> tensor<3x1xi32>
    %32 = "stablehlo.gather"(%30, %31) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<4x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi32>
    %33 = stablehlo.reshape %32 : (tensor<3x1xi32>) -> tensor<1x3xi32>
    %34 = stablehlo.multiply %20, %26 : tensor<1x3xi32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1] : (tensor<1x3xi32>) -> tensor<1x3x4xi32>
    %36 = stablehlo.iota dim = 2 : tensor<1x3x4xi32>
    %37 = stablehlo.add %35, %36 : tensor<1x3x4xi32>
    %38 = stablehlo.reshape %37 : (tensor<1x3x4xi32>) -> tensor<1x12xi32>
    %39 = stablehlo.broadcast_in_dim %13, dims = [0] : (tensor<1xi32>) -> tensor<1x12xi32>
    %40 = stablehlo.compare LE, %38, %39, SIGNED : (tensor<1x12xi32>, tensor<1x12xi32>) -> tensor<1x12xi1>
    %41 = stablehlo.constant dense<12> : tensor<1x12xi32>
    %42 = stablehlo.subtract %38, %41 : tensor<1x12xi32>
    %43 = stablehlo.select %40, %38, %42 : tensor<1x12xi1>, tensor<1x12xi32>
    %44 = stablehlo.constant dense<0> : tensor<1x12xi32>
    %45 = stablehlo.compare LE, %44, %43, SIGNED : (tensor<1x12xi32>, tensor<1x12xi32>) -> tensor<1x12xi1>
    %46 = stablehlo.constant dense<2147483647> : tensor<1x12xi32>
    %47 = stablehlo.select %45, %43, %46 : tensor<1x12xi1>, tensor<1x12xi32>
    %48 = stablehlo.multiply %33, %26 : tensor<1x3xi32>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0, 1] : (tensor<1x3xi32>) -> tensor<1x3x4xi32>
    %50 = stablehlo.iota dim = 2 : tensor<1x3x4xi32>
    %51 = stablehlo.add %49, %50 : tensor<1x3x4xi32>
    %52 = stablehlo.reshape %51 : (tensor<1x3x4xi32>) -> tensor<1x12xi32>
    %53 = stablehlo.reshape %positions : (tensor<1x16xi32>) -> tensor<16xi32>
    %54 = stablehlo.convert %53 : (tensor<16xi32>) -> tensor<16xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [1] : (tensor<16xf32>) -> tensor<4x16xf32>
    %56 = stablehlo.constant dense<[1.0, 0.1, 0.01, 0.001]> : tensor<4xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0] : (tensor<4xf32>) -> tensor<4x16xf32>
    %58 = stablehlo.multiply %55, %57 : tensor<4x16xf32>
    %59 = stablehlo.cosine %58 : tensor<4x16xf32>
    %60 = stablehlo.sine %58 : tensor<4x16xf32>
    %61 = stablehlo.concatenate %59, %60, dim = 0 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
    %62 = stablehlo.iota dim = 0 : tensor<8x8xi32>
    %63 = stablehlo.iota dim = 1 : tensor<8x8xi32>
    %64 = stablehlo.compare EQ, %62, %63, SIGNED : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi1>
    %65 = stablehlo.constant dense<1.0> : tensor<8x8xf32>
    %66 = stablehlo.constant dense<0.0> : tensor<8x8xf32>
    %67 = stablehlo.select %64, %65, %66 : tensor<8x8xi1>, tensor<8x8xf32>
    %68 = stablehlo.dot_general %67, %61, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %69 = stablehlo.slice %68 [0:4, 0:16] : (tensor<8x16xf32>) -> tensor<4x16xf32>
    %70 = stablehlo.slice %68 [4:8, 0:16] : (tensor<8x16xf32>) -> tensor<4x16xf32>
    %71 = stablehlo.constant dense<0.53033006> : tensor<4x16xf32>
    %72 = stablehlo.multiply %69, %71 : tensor<4x16xf32>
    %73 = stablehlo.multiply %70, %71 : tensor<4x16xf32>
    %74 = stablehlo.constant dense<2> : tensor<16xi32>
    %75 = stablehlo.shift_right_arithmetic %windowSlotMapping, %74 : tensor<16xi32>
    %76 = stablehlo.constant dense<3> : tensor<16xi32>
    %77 = stablehlo.and %windowSlotMapping, %76 : tensor<16xi32>
    %78 = stablehlo.reshape %75 : (tensor<16xi32>) -> tensor<16x1xi32>
    %79 = stablehlo.reshape %77 : (tensor<16xi32>) -> tensor<16x1xi32>
    %80 = stablehlo.concatenate %78, %79, dim = 1 : (tensor<16x1xi32>, tensor<16x1xi32>) -> tensor<16x2xi32>
    %81:3 = func.call @layer0(%11, %keyCache0, %valueCache0, %69, %70, %72, %73, %80, %52, %47, %positions, %inputNorm0, %qkvProj0, %qkvBias0, %oProj0, %mixerOutputNorm0, %postAttnNorm0, %gateUpProj0, %downProj0, %ffnOutputNorm0) : (tensor<32x16xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<16x2xi32>, tensor<1x12xi32>, tensor<1x12xi32>, tensor<1x16xi32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x16xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>)
    %82:3 = func.call @layer0(%81#0, %keyCache1, %valueCache1, %69, %70, %72, %73, %80, %52, %47, %positions, %inputNorm1, %qkvProj1, %qkvBias1, %oProj1, %mixerOutputNorm1, %postAttnNorm1, %gateUpProj1, %downProj1, %ffnOutputNorm1) : (tensor<32x16xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>, tensor<16x2xi32>, tensor<1x12xi32>, tensor<1x12xi32>, tensor<1x16xi32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x16xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>)
    %83 = stablehlo.iota dim = 1 : tensor<1x16xi32>
    %84 = stablehlo.constant dense<4> : tensor<1x4xi32>
    %85 = stablehlo.multiply %blockTables, %84 : tensor<1x4xi32>
    %86 = stablehlo.broadcast_in_dim %85, dims = [0, 1] : (tensor<1x4xi32>) -> tensor<1x4x4xi32>
    %87 = stablehlo.iota dim = 2 : tensor<1x4x4xi32>
    %88 = stablehlo.add %86, %87 : tensor<1x4x4xi32>
    %89 = stablehlo.reshape %88 : (tensor<1x4x4xi32>) -> tensor<1x16xi32>
    %90 = stablehlo.shift_right_arithmetic %slotMapping, %74 : tensor<16xi32>
    %91 = stablehlo.and %slotMapping, %76 : tensor<16xi32>
    %92 = stablehlo.reshape %90 : (tensor<16xi32>) -> tensor<16x1xi32>
    %93 = stablehlo.reshape %91 : (tensor<16xi32>) -> tensor<16x1xi32>
    %94 = stablehlo.concatenate %92, %93, dim = 1 : (tensor<16x1xi32>, tensor<16x1xi32>) -> tensor<16x2xi32>
    %95:3 = func.call @layer1(%82#0, %keyCache2, %valueCache2, %94, %89, %83, %positions, %inputNorm2, %qkvProj2, %qkvBias2, %oProj2, %mixerOutputNorm2, %postAttnNorm2, %gateUpProj2, %downProj2, %ffnOutputNorm2) : (tensor<32x16xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<16x2xi32>, tensor<1x16xi32>, tensor<1x16xi32>, tensor<1x16xi32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x16xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>)
    %96 = stablehlo.reshape %95#0 : (tensor<32x16xf32>) -> tensor<32x1x16xf32>
    %97 = stablehlo.slice %96 [0:32, 0:1, 15:16] : (tensor<32x1x16xf32>) -> tensor<32x1x1xf32>
    %98 = stablehlo.reshape %97 : (tensor<32x1x1xf32>) -> tensor<32x1xf32>
    %99 = stablehlo.dot_general %98, %98, contracting_dims = [0] x [0] : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<1x1xf32>
    %100 = stablehlo.reshape %99 : (tensor<1x1xf32>) -> tensor<1xf32>
    %101 = stablehlo.constant dense<0.03125> : tensor<1xf32>
    %102 = stablehlo.multiply %100, %101 : tensor<1xf32>
    %103 = stablehlo.constant dense<1.0e-5> : tensor<1xf32>
    %104 = stablehlo.add %102, %103 : tensor<1xf32>
    %105 = stablehlo.rsqrt %104 : tensor<1xf32>
    %106 = stablehlo.broadcast_in_dim %105, dims = [1] : (tensor<1xf32>) -> tensor<32x1xf32>
    %107 = stablehlo.multiply %98, %106 : tensor<32x1xf32>
    %108 = stablehlo.broadcast_in_dim %finalNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x1xf32>
    %109 = stablehlo.multiply %107, %108 : tensor<32x1xf32>
    %110 = stablehlo.dot_general %lmHead, %109, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x1xf32>) -> tensor<64x1xf32>
    %111 = stablehlo.optimization_barrier %110 : tensor<64x1xf32>
    %112 = stablehlo.transpose %111, dims = [1, 0] : (tensor<64x1xf32>) -> tensor<1x64xf32>
    %113 = stablehlo.constant dense<30.0> : tensor<1x64xf32>
    %114 = stablehlo.divide %112, %113 : tensor<1x64xf32>
    %115 = stablehlo.tanh %114 : tensor<1x64xf32>
    %116 = stablehlo.multiply %115, %113 : tensor<1x64xf32>
    %117 = stablehlo.reshape %116 : (tensor<1x64xf32>) -> tensor<1x1x64xf32>
    return %117, %81#1, %81#2, %82#1, %82#2, %95#1, %95#2 : tensor<1x1x64xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>
  }
  func.func private @layer0(%x: tensor<32x16xf32>, %keys: tensor<13x4x2x8xf32>, %values: tensor<13x4x2x8xf32>, %keyCos: tensor<4x16xf32>, %keySin: tensor<4x16xf32>, %queryCos: tensor<4x16xf32>, %querySin: tensor<4x16xf32>, %writeIndices: tensor<16x2xi32>, %historySlots: tensor<1x12xi32>, %historyPositions: tensor<1x12xi32>, %visibility: tensor<1x16xi32>, %inputNorm: tensor<32xf32>, %qkvProj: tensor<96x32xf32>, %qkvBias: tensor<64xf32>, %oProj: tensor<32x32xf32>, %mixerOutputNorm: tensor<32xf32>, %postAttnNorm: tensor<32xf32>, %gateUpProj: tensor<96x32xf32>, %downProj: tensor<32x48xf32>, %ffnOutputNorm: tensor<32xf32>) -> (tensor<32x16xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>) {
    %0 = stablehlo.dot_general %x, %x, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16xf32>
    %1 = stablehlo.constant dense<0.03125> : tensor<16xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<16xf32>
    %3 = stablehlo.constant dense<1.0e-5> : tensor<16xf32>
    %4 = stablehlo.add %2, %3 : tensor<16xf32>
    %5 = stablehlo.rsqrt %4 : tensor<16xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [1] : (tensor<16xf32>) -> tensor<32x16xf32>
    %7 = stablehlo.multiply %x, %6 : tensor<32x16xf32>
    %8 = stablehlo.broadcast_in_dim %inputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x16xf32>
    %9 = stablehlo.multiply %7, %8 : tensor<32x16xf32>
    %10 = stablehlo.dot_general %qkvProj, %9, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x16xf32>) -> tensor<96x16xf32>
    %11 = stablehlo.slice %10 [0:32, 0:16] : (tensor<96x16xf32>) -> tensor<32x16xf32>
    %12 = stablehlo.slice %qkvBias [0:32] : (tensor<64xf32>) -> tensor<32xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<32xf32>) -> tensor<32x16xf32>
    %14 = stablehlo.add %11, %13 : tensor<32x16xf32>
    %15 = stablehlo.reshape %14 : (tensor<32x16xf32>) -> tensor<4x8x16xf32>
    %16 = stablehlo.slice %10 [32:48, 0:16] : (tensor<96x16xf32>) -> tensor<16x16xf32>
    %17 = stablehlo.slice %qkvBias [32:48] : (tensor<64xf32>) -> tensor<16xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0] : (tensor<16xf32>) -> tensor<16x16xf32>
    %19 = stablehlo.add %16, %18 : tensor<16x16xf32>
    %20 = stablehlo.reshape %19 : (tensor<16x16xf32>) -> tensor<2x8x16xf32>
    %21 = stablehlo.slice %10 [48:64, 0:16] : (tensor<96x16xf32>) -> tensor<16x16xf32>
    %22 = stablehlo.slice %qkvBias [48:64] : (tensor<64xf32>) -> tensor<16xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0] : (tensor<16xf32>) -> tensor<16x16xf32>
    %24 = stablehlo.add %21, %23 : tensor<16x16xf32>
    %25 = stablehlo.reshape %24 : (tensor<16x16xf32>) -> tensor<2x8x16xf32>
    %26 = stablehlo.multiply %15, %15 : tensor<4x8x16xf32>
    %27 = stablehlo.constant dense<0.0> : tensor<f32>
    %28 = stablehlo.reduce(%26 init: %27) applies stablehlo.add across dimensions = [1] : (tensor<4x8x16xf32>, tensor<f32>) -> tensor<4x16xf32>
    %29 = stablehlo.constant dense<0.125> : tensor<4x16xf32>
    %30 = stablehlo.multiply %28, %29 : tensor<4x16xf32>
    %31 = stablehlo.constant dense<1.0e-5> : tensor<4x16xf32>
    %32 = stablehlo.add %30, %31 : tensor<4x16xf32>
    %33 = stablehlo.rsqrt %32 : tensor<4x16xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 2] : (tensor<4x16xf32>) -> tensor<4x8x16xf32>
    %35 = stablehlo.multiply %15, %34 : tensor<4x8x16xf32>
    %36 = stablehlo.multiply %20, %20 : tensor<2x8x16xf32>
    %37 = stablehlo.reduce(%36 init: %27) applies stablehlo.add across dimensions = [1] : (tensor<2x8x16xf32>, tensor<f32>) -> tensor<2x16xf32>
    %38 = stablehlo.constant dense<0.125> : tensor<2x16xf32>
    %39 = stablehlo.multiply %37, %38 : tensor<2x16xf32>
    %40 = stablehlo.constant dense<1.0e-5> : tensor<2x16xf32>
    %41 = stablehlo.add %39, %40 : tensor<2x16xf32>
    %42 = stablehlo.rsqrt %41 : tensor<2x16xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 2] : (tensor<2x16xf32>) -> tensor<2x8x16xf32>
    %44 = stablehlo.multiply %20, %43 : tensor<2x8x16xf32>
    %45 = stablehlo.slice %35 [0:4, 0:4, 0:16] : (tensor<4x8x16xf32>) -> tensor<4x4x16xf32>
    %46 = stablehlo.slice %35 [0:4, 4:8, 0:16] : (tensor<4x8x16xf32>) -> tensor<4x4x16xf32>
    %47 = stablehlo.broadcast_in_dim %queryCos, dims = [1, 2] : (tensor<4x16xf32>) -> tensor<4x4x16xf32>
    %48 = stablehlo.broadcast_in_dim %querySin, dims = [1, 2] : (tensor<4x16xf32>) -> tensor<4x4x16xf32>
    %49 = stablehlo.multiply %45, %47 : tensor<4x4x16xf32>
    %50 = stablehlo.multiply %46, %48 : tensor<4x4x16xf32>
    %51 = stablehlo.multiply %46, %47 : tensor<4x4x16xf32>
    %52 = stablehlo.multiply %45, %48 : tensor<4x4x16xf32>
    %53 = stablehlo.subtract %49, %50 : tensor<4x4x16xf32>
    %54 = stablehlo.add %51, %52 : tensor<4x4x16xf32>
    %55 = stablehlo.concatenate %53, %54, dim = 1 : (tensor<4x4x16xf32>, tensor<4x4x16xf32>) -> tensor<4x8x16xf32>
    %56 = stablehlo.slice %44 [0:2, 0:4, 0:16] : (tensor<2x8x16xf32>) -> tensor<2x4x16xf32>
    %57 = stablehlo.slice %44 [0:2, 4:8, 0:16] : (tensor<2x8x16xf32>) -> tensor<2x4x16xf32>
    %58 = stablehlo.broadcast_in_dim %keyCos, dims = [1, 2] : (tensor<4x16xf32>) -> tensor<2x4x16xf32>
    %59 = stablehlo.broadcast_in_dim %keySin, dims = [1, 2] : (tensor<4x16xf32>) -> tensor<2x4x16xf32>
    %60 = stablehlo.multiply %56, %58 : tensor<2x4x16xf32>
    %61 = stablehlo.multiply %57, %59 : tensor<2x4x16xf32>
    %62 = stablehlo.multiply %57, %58 : tensor<2x4x16xf32>
    %63 = stablehlo.multiply %56, %59 : tensor<2x4x16xf32>
    %64 = stablehlo.subtract %60, %61 : tensor<2x4x16xf32>
    %65 = stablehlo.add %62, %63 : tensor<2x4x16xf32>
    %66 = stablehlo.concatenate %64, %65, dim = 1 : (tensor<2x4x16xf32>, tensor<2x4x16xf32>) -> tensor<2x8x16xf32>
    %67 = stablehlo.transpose %55, dims = [2, 0, 1] : (tensor<4x8x16xf32>) -> tensor<16x4x8xf32>
    %68 = stablehlo.transpose %66, dims = [2, 0, 1] : (tensor<2x8x16xf32>) -> tensor<16x2x8xf32>
    %69 = stablehlo.transpose %25, dims = [2, 0, 1] : (tensor<2x8x16xf32>) -> tensor<16x2x8xf32>
    %70 = "stablehlo.scatter"(%keys, %writeIndices, %68) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old70: tensor<f32>, %new70: tensor<f32>):
      stablehlo.return %new70 : tensor<f32>
    }) : (tensor<13x4x2x8xf32>, tensor<16x2xi32>, tensor<16x2x8xf32>) -> tensor<13x4x2x8xf32>
    %71 = "stablehlo.scatter"(%values, %writeIndices, %69) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old71: tensor<f32>, %new71: tensor<f32>):
      stablehlo.return %new71 : tensor<f32>
    }) : (tensor<13x4x2x8xf32>, tensor<16x2xi32>, tensor<16x2x8xf32>) -> tensor<13x4x2x8xf32>
    %72 = stablehlo.reshape %67 : (tensor<16x4x8xf32>) -> tensor<1x16x2x2x8xf32>
    %73 = stablehlo.transpose %72, dims = [0, 2, 3, 1, 4] : (tensor<1x16x2x2x8xf32>) -> tensor<1x2x2x16x8xf32>
    %74 = stablehlo.reshape %73 : (tensor<1x2x2x16x8xf32>) -> tensor<1x2x32x8xf32>
    %75 = stablehlo.reshape %70 : (tensor<13x4x2x8xf32>) -> tensor<52x16xf32>
    %76 = stablehlo.reshape %historySlots : (tensor<1x12xi32>) -> tensor<12xi32>
    %77 = stablehlo.reshape %76 : (tensor<12xi32>) -> tensor<12x1xi32>
    %78 = "stablehlo.gather"(%75, %77) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<52x16xf32>, tensor<12x1xi32>) -> tensor<12x16xf32>
    %79 = stablehlo.reshape %78 : (tensor<12x16xf32>) -> tensor<1x12x16xf32>
    %80 = stablehlo.reshape %79 : (tensor<1x12x16xf32>) -> tensor<1x12x2x8xf32>
    %81 = stablehlo.transpose %80, dims = [0, 2, 1, 3] : (tensor<1x12x2x8xf32>) -> tensor<1x2x12x8xf32>
    %82 = stablehlo.reshape %71 : (tensor<13x4x2x8xf32>) -> tensor<52x16xf32>
    %83 = stablehlo.reshape %historySlots : (tensor<1x12xi32>) -> tensor<12xi32>
    %84 = stablehlo.reshape %83 : (tensor<12xi32>) -> tensor<12x1xi32>
    %85 = "stablehlo.gather"(%82, %84) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<52x16xf32>, tensor<12x1xi32>) -> tensor<12x16xf32>
    %86 = stablehlo.reshape %85 : (tensor<12x16xf32>) -> tensor<1x12x16xf32>
    %87 = stablehlo.reshape %86 : (tensor<1x12x16xf32>) -> tensor<1x12x2x8xf32>
    %88 = stablehlo.transpose %87, dims = [0, 2, 1, 3] : (tensor<1x12x2x8xf32>) -> tensor<1x2x12x8xf32>
    %89 = stablehlo.reshape %74 : (tensor<1x2x32x8xf32>) -> tensor<2x32x8xf32>
    %90 = stablehlo.reshape %81 : (tensor<1x2x12x8xf32>) -> tensor<2x12x8xf32>
    %91 = stablehlo.reshape %88 : (tensor<1x2x12x8xf32>) -> tensor<2x12x8xf32>
    %92 = stablehlo.slice %89 [0:2, 0:32, 0:1] : (tensor<2x32x8xf32>) -> tensor<2x32x1xf32>
    %93 = stablehlo.reshape %92 : (tensor<2x32x1xf32>) -> tensor<2x32xf32>
    %94 = stablehlo.constant dense<2> : tensor<i32>
    %95 = stablehlo.constant dense<0> : tensor<i32>
    %145:8 = stablehlo.while(%96 = %95, %97 = %94, %98 = %89, %99 = %93, %100 = %90, %101 = %91, %102 = %historyPositions, %103 = %visibility) : tensor<i32>, tensor<i32>, tensor<2x32x8xf32>, tensor<2x32xf32>, tensor<2x12x8xf32>, tensor<2x12x8xf32>, tensor<1x12xi32>, tensor<1x16xi32>
    cond {
      %104 = stablehlo.compare LT, %96, %97, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %104 : tensor<i1>
    } do {
      %105 = stablehlo.constant dense<0> : tensor<i32>
      %106 = stablehlo.dynamic_slice %98, %96, %105, %105, sizes = [1, 32, 8] : (tensor<2x32x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x32x8xf32>
      %107 = stablehlo.reshape %106 : (tensor<1x32x8xf32>) -> tensor<32x8xf32>
      %108 = stablehlo.dynamic_slice %100, %96, %105, %105, sizes = [1, 12, 8] : (tensor<2x12x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x12x8xf32>
      %109 = stablehlo.reshape %108 : (tensor<1x12x8xf32>) -> tensor<12x8xf32>
      %110 = stablehlo.dynamic_slice %101, %96, %105, %105, sizes = [1, 12, 8] : (tensor<2x12x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x12x8xf32>
      %111 = stablehlo.reshape %110 : (tensor<1x12x8xf32>) -> tensor<12x8xf32>
      %112 = stablehlo.constant dense<2> : tensor<i32>
      %113 = stablehlo.divide %96, %112 : tensor<i32>
      %114 = stablehlo.dynamic_slice %102, %113, %105, sizes = [1, 12] : (tensor<1x12xi32>, tensor<i32>, tensor<i32>) -> tensor<1x12xi32>
      %115 = stablehlo.reshape %114 : (tensor<1x12xi32>) -> tensor<12xi32>
      %116 = stablehlo.dynamic_slice %103, %113, %105, sizes = [1, 16] : (tensor<1x16xi32>, tensor<i32>, tensor<i32>) -> tensor<1x16xi32>
      %117 = stablehlo.reshape %116 : (tensor<1x16xi32>) -> tensor<16xi32>
      %118 = stablehlo.dot_general %107, %109, contracting_dims = [1] x [1] : (tensor<32x8xf32>, tensor<12x8xf32>) -> tensor<32x12xf32>
      %119 = stablehlo.reshape %118 : (tensor<32x12xf32>) -> tensor<2x16x12xf32>
      %120 = stablehlo.broadcast_in_dim %115, dims = [1] : (tensor<12xi32>) -> tensor<16x12xi32>
      %121 = stablehlo.broadcast_in_dim %117, dims = [0] : (tensor<16xi32>) -> tensor<16x12xi32>
      %122 = stablehlo.compare LE, %120, %121, SIGNED : (tensor<16x12xi32>, tensor<16x12xi32>) -> tensor<16x12xi1>
      %123 = stablehlo.constant dense<8> : tensor<16x12xi32>
      %124 = stablehlo.subtract %121, %123 : tensor<16x12xi32>
      %125 = stablehlo.compare LT, %124, %120, SIGNED : (tensor<16x12xi32>, tensor<16x12xi32>) -> tensor<16x12xi1>
      %126 = stablehlo.and %122, %125 : tensor<16x12xi1>
      %127 = stablehlo.broadcast_in_dim %126, dims = [1, 2] : (tensor<16x12xi1>) -> tensor<2x16x12xi1>
      %128 = stablehlo.constant dense<-1.0e30> : tensor<2x16x12xf32>
      %129 = stablehlo.select %127, %119, %128 : tensor<2x16x12xi1>, tensor<2x16x12xf32>
      %130 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %131 = stablehlo.reduce(%129 init: %130) applies stablehlo.maximum across dimensions = [2] : (tensor<2x16x12xf32>, tensor<f32>) -> tensor<2x16xf32>
      %132 = stablehlo.broadcast_in_dim %131, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x12xf32>
      %133 = stablehlo.subtract %129, %132 : tensor<2x16x12xf32>
      %134 = stablehlo.exponential %133 : tensor<2x16x12xf32>
      %135 = stablehlo.constant dense<0.0> : tensor<f32>
      %136 = stablehlo.reduce(%134 init: %135) applies stablehlo.add across dimensions = [2] : (tensor<2x16x12xf32>, tensor<f32>) -> tensor<2x16xf32>
      %137 = stablehlo.reshape %136 : (tensor<2x16xf32>) -> tensor<1x32xf32>
      %138 = stablehlo.reshape %134 : (tensor<2x16x12xf32>) -> tensor<32x12xf32>
      %139 = stablehlo.dot_general %138, %111, contracting_dims = [1] x [0] : (tensor<32x12xf32>, tensor<12x8xf32>) -> tensor<32x8xf32>
      %140 = stablehlo.reshape %139 : (tensor<32x8xf32>) -> tensor<1x32x8xf32>
      %141 = stablehlo.dynamic_update_slice %98, %140, %96, %105, %105 : (tensor<2x32x8xf32>, tensor<1x32x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x32x8xf32>
      %142 = stablehlo.dynamic_update_slice %99, %137, %96, %105 : (tensor<2x32xf32>, tensor<1x32xf32>, tensor<i32>, tensor<i32>) -> tensor<2x32xf32>
      %143 = stablehlo.constant dense<1> : tensor<i32>
      %144 = stablehlo.add %96, %143 : tensor<i32>
      stablehlo.return %144, %97, %141, %142, %100, %101, %102, %103 : tensor<i32>, tensor<i32>, tensor<2x32x8xf32>, tensor<2x32xf32>, tensor<2x12x8xf32>, tensor<2x12x8xf32>, tensor<1x12xi32>, tensor<1x16xi32>
    }
    %146 = stablehlo.reshape %145#2 : (tensor<2x32x8xf32>) -> tensor<1x2x2x16x8xf32>
    %147 = stablehlo.reshape %145#3 : (tensor<2x32xf32>) -> tensor<1x2x2x16xf32>
    %148 = stablehlo.transpose %146, dims = [1, 2, 4, 0, 3] : (tensor<1x2x2x16x8xf32>) -> tensor<2x2x8x1x16xf32>
    %149 = stablehlo.transpose %147, dims = [1, 2, 0, 3] : (tensor<1x2x2x16xf32>) -> tensor<2x2x1x16xf32>
    %150 = stablehlo.broadcast_in_dim %149, dims = [0, 1, 3, 4] : (tensor<2x2x1x16xf32>) -> tensor<2x2x8x1x16xf32>
    %151 = stablehlo.divide %148, %150 : tensor<2x2x8x1x16xf32>
    %152 = stablehlo.reshape %151 : (tensor<2x2x8x1x16xf32>) -> tensor<32x16xf32>
    %153 = stablehlo.slice %10 [64:96, 0:16] : (tensor<96x16xf32>) -> tensor<32x16xf32>
    %154 = stablehlo.logistic %153 : tensor<32x16xf32>
    %155 = stablehlo.multiply %152, %154 : tensor<32x16xf32>
    %156 = stablehlo.dot_general %oProj, %155, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %157 = stablehlo.dot_general %156, %156, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16xf32>
    %158 = stablehlo.multiply %157, %1 : tensor<16xf32>
    %159 = stablehlo.add %158, %3 : tensor<16xf32>
    %160 = stablehlo.rsqrt %159 : tensor<16xf32>
    %161 = stablehlo.broadcast_in_dim %160, dims = [1] : (tensor<16xf32>) -> tensor<32x16xf32>
    %162 = stablehlo.multiply %156, %161 : tensor<32x16xf32>
    %163 = stablehlo.broadcast_in_dim %mixerOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x16xf32>
    %164 = stablehlo.multiply %162, %163 : tensor<32x16xf32>
    %165 = stablehlo.add %x, %164 : tensor<32x16xf32>
    %166 = stablehlo.dot_general %165, %165, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16xf32>
    %167 = stablehlo.multiply %166, %1 : tensor<16xf32>
    %168 = stablehlo.add %167, %3 : tensor<16xf32>
    %169 = stablehlo.rsqrt %168 : tensor<16xf32>
    %170 = stablehlo.broadcast_in_dim %169, dims = [1] : (tensor<16xf32>) -> tensor<32x16xf32>
    %171 = stablehlo.multiply %165, %170 : tensor<32x16xf32>
    %172 = stablehlo.broadcast_in_dim %postAttnNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x16xf32>
    %173 = stablehlo.multiply %171, %172 : tensor<32x16xf32>
    %174 = stablehlo.dot_general %gateUpProj, %173, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x16xf32>) -> tensor<96x16xf32>
    %175 = stablehlo.slice %174 [0:48, 0:16] : (tensor<96x16xf32>) -> tensor<48x16xf32>
    %176 = stablehlo.slice %174 [48:96, 0:16] : (tensor<96x16xf32>) -> tensor<48x16xf32>
    %177 = stablehlo.logistic %175 : tensor<48x16xf32>
    %178 = stablehlo.multiply %175, %177 : tensor<48x16xf32>
    %179 = stablehlo.multiply %178, %176 : tensor<48x16xf32>
    %180 = stablehlo.dot_general %downProj, %179, contracting_dims = [1] x [0] : (tensor<32x48xf32>, tensor<48x16xf32>) -> tensor<32x16xf32>
    %181 = stablehlo.dot_general %180, %180, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16xf32>
    %182 = stablehlo.multiply %181, %1 : tensor<16xf32>
    %183 = stablehlo.add %182, %3 : tensor<16xf32>
    %184 = stablehlo.rsqrt %183 : tensor<16xf32>
    %185 = stablehlo.broadcast_in_dim %184, dims = [1] : (tensor<16xf32>) -> tensor<32x16xf32>
    %186 = stablehlo.multiply %180, %185 : tensor<32x16xf32>
    %187 = stablehlo.broadcast_in_dim %ffnOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x16xf32>
    %188 = stablehlo.multiply %186, %187 : tensor<32x16xf32>
    %189 = stablehlo.add %165, %188 : tensor<32x16xf32>
    return %189, %70, %71 : tensor<32x16xf32>, tensor<13x4x2x8xf32>, tensor<13x4x2x8xf32>
  }
  func.func private @layer1(%x: tensor<32x16xf32>, %keys: tensor<65x4x2x8xf32>, %values: tensor<65x4x2x8xf32>, %writeIndices: tensor<16x2xi32>, %historySlots: tensor<1x16xi32>, %historyPositions: tensor<1x16xi32>, %visibility: tensor<1x16xi32>, %inputNorm: tensor<32xf32>, %qkvProj: tensor<96x32xf32>, %qkvBias: tensor<64xf32>, %oProj: tensor<32x32xf32>, %mixerOutputNorm: tensor<32xf32>, %postAttnNorm: tensor<32xf32>, %gateUpProj: tensor<96x32xf32>, %downProj: tensor<32x48xf32>, %ffnOutputNorm: tensor<32xf32>) -> (tensor<32x16xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>) {
    %0 = stablehlo.dot_general %x, %x, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16xf32>
    %1 = stablehlo.constant dense<0.03125> : tensor<16xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<16xf32>
    %3 = stablehlo.constant dense<1.0e-5> : tensor<16xf32>
    %4 = stablehlo.add %2, %3 : tensor<16xf32>
    %5 = stablehlo.rsqrt %4 : tensor<16xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [1] : (tensor<16xf32>) -> tensor<32x16xf32>
    %7 = stablehlo.multiply %x, %6 : tensor<32x16xf32>
    %8 = stablehlo.broadcast_in_dim %inputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x16xf32>
    %9 = stablehlo.multiply %7, %8 : tensor<32x16xf32>
    %10 = stablehlo.dot_general %qkvProj, %9, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x16xf32>) -> tensor<96x16xf32>
    %11 = stablehlo.slice %10 [0:32, 0:16] : (tensor<96x16xf32>) -> tensor<32x16xf32>
    %12 = stablehlo.slice %qkvBias [0:32] : (tensor<64xf32>) -> tensor<32xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<32xf32>) -> tensor<32x16xf32>
    %14 = stablehlo.add %11, %13 : tensor<32x16xf32>
    %15 = stablehlo.reshape %14 : (tensor<32x16xf32>) -> tensor<4x8x16xf32>
    %16 = stablehlo.slice %10 [32:48, 0:16] : (tensor<96x16xf32>) -> tensor<16x16xf32>
    %17 = stablehlo.slice %qkvBias [32:48] : (tensor<64xf32>) -> tensor<16xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0] : (tensor<16xf32>) -> tensor<16x16xf32>
    %19 = stablehlo.add %16, %18 : tensor<16x16xf32>
    %20 = stablehlo.reshape %19 : (tensor<16x16xf32>) -> tensor<2x8x16xf32>
    %21 = stablehlo.slice %10 [48:64, 0:16] : (tensor<96x16xf32>) -> tensor<16x16xf32>
    %22 = stablehlo.slice %qkvBias [48:64] : (tensor<64xf32>) -> tensor<16xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0] : (tensor<16xf32>) -> tensor<16x16xf32>
    %24 = stablehlo.add %21, %23 : tensor<16x16xf32>
    %25 = stablehlo.reshape %24 : (tensor<16x16xf32>) -> tensor<2x8x16xf32>
    %26 = stablehlo.multiply %15, %15 : tensor<4x8x16xf32>
    %27 = stablehlo.constant dense<0.0> : tensor<f32>
    %28 = stablehlo.reduce(%26 init: %27) applies stablehlo.add across dimensions = [1] : (tensor<4x8x16xf32>, tensor<f32>) -> tensor<4x16xf32>
    %29 = stablehlo.constant dense<0.125> : tensor<4x16xf32>
    %30 = stablehlo.multiply %28, %29 : tensor<4x16xf32>
    %31 = stablehlo.constant dense<1.0e-5> : tensor<4x16xf32>
    %32 = stablehlo.add %30, %31 : tensor<4x16xf32>
    %33 = stablehlo.rsqrt %32 : tensor<4x16xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 2] : (tensor<4x16xf32>) -> tensor<4x8x16xf32>
    %35 = stablehlo.multiply %15, %34 : tensor<4x8x16xf32>
    %36 = stablehlo.multiply %20, %20 : tensor<2x8x16xf32>
    %37 = stablehlo.reduce(%36 init: %27) applies stablehlo.add across dimensions = [1] : (tensor<2x8x16xf32>, tensor<f32>) -> tensor<2x16xf32>
    %38 = stablehlo.constant dense<0.125> : tensor<2x16xf32>
    %39 = stablehlo.multiply %37, %38 : tensor<2x16xf32>
    %40 = stablehlo.constant dense<1.0e-5> : tensor<2x16xf32>
    %41 = stablehlo.add %39, %40 : tensor<2x16xf32>
    %42 = stablehlo.rsqrt %41 : tensor<2x16xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 2] : (tensor<2x16xf32>) -> tensor<2x8x16xf32>
    %44 = stablehlo.multiply %20, %43 : tensor<2x8x16xf32>
    %45 = stablehlo.constant dense<0.53033006> : tensor<4x8x16xf32>
    %46 = stablehlo.multiply %35, %45 : tensor<4x8x16xf32>
    %47 = stablehlo.transpose %46, dims = [2, 0, 1] : (tensor<4x8x16xf32>) -> tensor<16x4x8xf32>
    %48 = stablehlo.transpose %44, dims = [2, 0, 1] : (tensor<2x8x16xf32>) -> tensor<16x2x8xf32>
    %49 = stablehlo.transpose %25, dims = [2, 0, 1] : (tensor<2x8x16xf32>) -> tensor<16x2x8xf32>
    %50 = "stablehlo.scatter"(%keys, %writeIndices, %48) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old50: tensor<f32>, %new50: tensor<f32>):
      stablehlo.return %new50 : tensor<f32>
    }) : (tensor<65x4x2x8xf32>, tensor<16x2xi32>, tensor<16x2x8xf32>) -> tensor<65x4x2x8xf32>
    %51 = "stablehlo.scatter"(%values, %writeIndices, %49) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old51: tensor<f32>, %new51: tensor<f32>):
      stablehlo.return %new51 : tensor<f32>
    }) : (tensor<65x4x2x8xf32>, tensor<16x2xi32>, tensor<16x2x8xf32>) -> tensor<65x4x2x8xf32>
    %52 = stablehlo.reshape %47 : (tensor<16x4x8xf32>) -> tensor<1x16x2x2x8xf32>
    %53 = stablehlo.transpose %52, dims = [0, 2, 3, 1, 4] : (tensor<1x16x2x2x8xf32>) -> tensor<1x2x2x16x8xf32>
    %54 = stablehlo.reshape %53 : (tensor<1x2x2x16x8xf32>) -> tensor<1x2x32x8xf32>
    %55 = stablehlo.reshape %50 : (tensor<65x4x2x8xf32>) -> tensor<260x16xf32>
    %56 = stablehlo.reshape %historySlots : (tensor<1x16xi32>) -> tensor<16xi32>
    %57 = stablehlo.reshape %56 : (tensor<16xi32>) -> tensor<16x1xi32>
    %58 = "stablehlo.gather"(%55, %57) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<260x16xf32>, tensor<16x1xi32>) -> tensor<16x16xf32>
    %59 = stablehlo.reshape %58 : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %60 = stablehlo.reshape %59 : (tensor<1x16x16xf32>) -> tensor<1x16x2x8xf32>
    %61 = stablehlo.transpose %60, dims = [0, 2, 1, 3] : (tensor<1x16x2x8xf32>) -> tensor<1x2x16x8xf32>
    %62 = stablehlo.reshape %51 : (tensor<65x4x2x8xf32>) -> tensor<260x16xf32>
    %63 = stablehlo.reshape %historySlots : (tensor<1x16xi32>) -> tensor<16xi32>
    %64 = stablehlo.reshape %63 : (tensor<16xi32>) -> tensor<16x1xi32>
    %65 = "stablehlo.gather"(%62, %64) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<260x16xf32>, tensor<16x1xi32>) -> tensor<16x16xf32>
    %66 = stablehlo.reshape %65 : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %67 = stablehlo.reshape %66 : (tensor<1x16x16xf32>) -> tensor<1x16x2x8xf32>
    %68 = stablehlo.transpose %67, dims = [0, 2, 1, 3] : (tensor<1x16x2x8xf32>) -> tensor<1x2x16x8xf32>
    %69 = stablehlo.reshape %54 : (tensor<1x2x32x8xf32>) -> tensor<2x32x8xf32>
    %70 = stablehlo.reshape %61 : (tensor<1x2x16x8xf32>) -> tensor<2x16x8xf32>
    %71 = stablehlo.reshape %68 : (tensor<1x2x16x8xf32>) -> tensor<2x16x8xf32>
    %72 = stablehlo.slice %69 [0:2, 0:32, 0:1] : (tensor<2x32x8xf32>) -> tensor<2x32x1xf32>
    %73 = stablehlo.reshape %72 : (tensor<2x32x1xf32>) -> tensor<2x32xf32>
    %74 = stablehlo.constant dense<2> : tensor<i32>
    %75 = stablehlo.constant dense<0> : tensor<i32>
    %121:8 = stablehlo.while(%76 = %75, %77 = %74, %78 = %69, %79 = %73, %80 = %70, %81 = %71, %82 = %historyPositions, %83 = %visibility) : tensor<i32>, tensor<i32>, tensor<2x32x8xf32>, tensor<2x32xf32>, tensor<2x16x8xf32>, tensor<2x16x8xf32>, tensor<1x16xi32>, tensor<1x16xi32>
    cond {
      %84 = stablehlo.compare LT, %76, %77, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %84 : tensor<i1>
    } do {
      %85 = stablehlo.constant dense<0> : tensor<i32>
      %86 = stablehlo.dynamic_slice %78, %76, %85, %85, sizes = [1, 32, 8] : (tensor<2x32x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x32x8xf32>
      %87 = stablehlo.reshape %86 : (tensor<1x32x8xf32>) -> tensor<32x8xf32>
      %88 = stablehlo.dynamic_slice %80, %76, %85, %85, sizes = [1, 16, 8] : (tensor<2x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
      %89 = stablehlo.reshape %88 : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
      %90 = stablehlo.dynamic_slice %81, %76, %85, %85, sizes = [1, 16, 8] : (tensor<2x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
      %91 = stablehlo.reshape %90 : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
      %92 = stablehlo.constant dense<2> : tensor<i32>
      %93 = stablehlo.divide %76, %92 : tensor<i32>
      %94 = stablehlo.dynamic_slice %82, %93, %85, sizes = [1, 16] : (tensor<1x16xi32>, tensor<i32>, tensor<i32>) -> tensor<1x16xi32>
      %95 = stablehlo.reshape %94 : (tensor<1x16xi32>) -> tensor<16xi32>
      %96 = stablehlo.dynamic_slice %83, %93, %85, sizes = [1, 16] : (tensor<1x16xi32>, tensor<i32>, tensor<i32>) -> tensor<1x16xi32>
      %97 = stablehlo.reshape %96 : (tensor<1x16xi32>) -> tensor<16xi32>
      %98 = stablehlo.dot_general %87, %89, contracting_dims = [1] x [1] : (tensor<32x8xf32>, tensor<16x8xf32>) -> tensor<32x16xf32>
      %99 = stablehlo.reshape %98 : (tensor<32x16xf32>) -> tensor<2x16x16xf32>
      %100 = stablehlo.broadcast_in_dim %95, dims = [1] : (tensor<16xi32>) -> tensor<16x16xi32>
      %101 = stablehlo.broadcast_in_dim %97, dims = [0] : (tensor<16xi32>) -> tensor<16x16xi32>
      %102 = stablehlo.compare LE, %100, %101, SIGNED : (tensor<16x16xi32>, tensor<16x16xi32>) -> tensor<16x16xi1>
      %103 = stablehlo.broadcast_in_dim %102, dims = [1, 2] : (tensor<16x16xi1>) -> tensor<2x16x16xi1>
      %104 = stablehlo.constant dense<-1.0e30> : tensor<2x16x16xf32>
      %105 = stablehlo.select %103, %99, %104 : tensor<2x16x16xi1>, tensor<2x16x16xf32>
      %106 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %107 = stablehlo.reduce(%105 init: %106) applies stablehlo.maximum across dimensions = [2] : (tensor<2x16x16xf32>, tensor<f32>) -> tensor<2x16xf32>
      %108 = stablehlo.broadcast_in_dim %107, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x16xf32>
      %109 = stablehlo.subtract %105, %108 : tensor<2x16x16xf32>
      %110 = stablehlo.exponential %109 : tensor<2x16x16xf32>
      %111 = stablehlo.constant dense<0.0> : tensor<f32>
      %112 = stablehlo.reduce(%110 init: %111) applies stablehlo.add across dimensions = [2] : (tensor<2x16x16xf32>, tensor<f32>) -> tensor<2x16xf32>
      %113 = stablehlo.reshape %112 : (tensor<2x16xf32>) -> tensor<1x32xf32>
      %114 = stablehlo.reshape %110 : (tensor<2x16x16xf32>) -> tensor<32x16xf32>
      %115 = stablehlo.dot_general %114, %91, contracting_dims = [1] x [0] : (tensor<32x16xf32>, tensor<16x8xf32>) -> tensor<32x8xf32>
      %116 = stablehlo.reshape %115 : (tensor<32x8xf32>) -> tensor<1x32x8xf32>
      %117 = stablehlo.dynamic_update_slice %78, %116, %76, %85, %85 : (tensor<2x32x8xf32>, tensor<1x32x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x32x8xf32>
      %118 = stablehlo.dynamic_update_slice %79, %113, %76, %85 : (tensor<2x32xf32>, tensor<1x32xf32>, tensor<i32>, tensor<i32>) -> tensor<2x32xf32>
      %119 = stablehlo.constant dense<1> : tensor<i32>
      %120 = stablehlo.add %76, %119 : tensor<i32>
      stablehlo.return %120, %77, %117, %118, %80, %81, %82, %83 : tensor<i32>, tensor<i32>, tensor<2x32x8xf32>, tensor<2x32xf32>, tensor<2x16x8xf32>, tensor<2x16x8xf32>, tensor<1x16xi32>, tensor<1x16xi32>
    }
    %122 = stablehlo.reshape %121#2 : (tensor<2x32x8xf32>) -> tensor<1x2x2x16x8xf32>
    %123 = stablehlo.reshape %121#3 : (tensor<2x32xf32>) -> tensor<1x2x2x16xf32>
    %124 = stablehlo.transpose %122, dims = [1, 2, 4, 0, 3] : (tensor<1x2x2x16x8xf32>) -> tensor<2x2x8x1x16xf32>
    %125 = stablehlo.transpose %123, dims = [1, 2, 0, 3] : (tensor<1x2x2x16xf32>) -> tensor<2x2x1x16xf32>
    %126 = stablehlo.broadcast_in_dim %125, dims = [0, 1, 3, 4] : (tensor<2x2x1x16xf32>) -> tensor<2x2x8x1x16xf32>
    %127 = stablehlo.divide %124, %126 : tensor<2x2x8x1x16xf32>
    %128 = stablehlo.reshape %127 : (tensor<2x2x8x1x16xf32>) -> tensor<32x16xf32>
    %129 = stablehlo.slice %10 [64:96, 0:16] : (tensor<96x16xf32>) -> tensor<32x16xf32>
    %130 = stablehlo.logistic %129 : tensor<32x16xf32>
    %131 = stablehlo.multiply %128, %130 : tensor<32x16xf32>
    %132 = stablehlo.dot_general %oProj, %131, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
    %133 = stablehlo.dot_general %132, %132, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16xf32>
    %134 = stablehlo.multiply %133, %1 : tensor<16xf32>
    %135 = stablehlo.add %134, %3 : tensor<16xf32>
    %136 = stablehlo.rsqrt %135 : tensor<16xf32>
    %137 = stablehlo.broadcast_in_dim %136, dims = [1] : (tensor<16xf32>) -> tensor<32x16xf32>
    %138 = stablehlo.multiply %132, %137 : tensor<32x16xf32>
    %139 = stablehlo.broadcast_in_dim %mixerOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x16xf32>
    %140 = stablehlo.multiply %138, %139 : tensor<32x16xf32>
    %141 = stablehlo.add %x, %140 : tensor<32x16xf32>
    %142 = stablehlo.dot_general %141, %141, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16xf32>
    %143 = stablehlo.multiply %142, %1 : tensor<16xf32>
    %144 = stablehlo.add %143, %3 : tensor<16xf32>
    %145 = stablehlo.rsqrt %144 : tensor<16xf32>
    %146 = stablehlo.broadcast_in_dim %145, dims = [1] : (tensor<16xf32>) -> tensor<32x16xf32>
    %147 = stablehlo.multiply %141, %146 : tensor<32x16xf32>
    %148 = stablehlo.broadcast_in_dim %postAttnNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x16xf32>
    %149 = stablehlo.multiply %147, %148 : tensor<32x16xf32>
    %150 = stablehlo.dot_general %gateUpProj, %149, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x16xf32>) -> tensor<96x16xf32>
    %151 = stablehlo.slice %150 [0:48, 0:16] : (tensor<96x16xf32>) -> tensor<48x16xf32>
    %152 = stablehlo.slice %150 [48:96, 0:16] : (tensor<96x16xf32>) -> tensor<48x16xf32>
    %153 = stablehlo.logistic %151 : tensor<48x16xf32>
    %154 = stablehlo.multiply %151, %153 : tensor<48x16xf32>
    %155 = stablehlo.multiply %154, %152 : tensor<48x16xf32>
    %156 = stablehlo.dot_general %downProj, %155, contracting_dims = [1] x [0] : (tensor<32x48xf32>, tensor<48x16xf32>) -> tensor<32x16xf32>
    %157 = stablehlo.dot_general %156, %156, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<16xf32>
    %158 = stablehlo.multiply %157, %1 : tensor<16xf32>
    %159 = stablehlo.add %158, %3 : tensor<16xf32>
    %160 = stablehlo.rsqrt %159 : tensor<16xf32>
    %161 = stablehlo.broadcast_in_dim %160, dims = [1] : (tensor<16xf32>) -> tensor<32x16xf32>
    %162 = stablehlo.multiply %156, %161 : tensor<32x16xf32>
    %163 = stablehlo.broadcast_in_dim %ffnOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x16xf32>
    %164 = stablehlo.multiply %162, %163 : tensor<32x16xf32>
    %165 = stablehlo.add %141, %164 : tensor<32x16xf32>
    return %165, %50, %51 : tensor<32x16xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>
  }
}
