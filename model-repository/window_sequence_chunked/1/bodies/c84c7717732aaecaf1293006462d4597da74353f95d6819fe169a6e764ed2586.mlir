module @program {
  func.func public @main(%tokenIds: tensor<2x6xi32>, %positions: tensor<2x6xi32>, %blockTables: tensor<2x16xi32>, %seqLens: tensor<2xi32>, %slotMapping: tensor<12xi32>, %windowBlockTables: tensor<2x16xi32>, %windowSlotMapping: tensor<12xi32>, %keyCache0: tensor<17x4x2x8xf32> {tf.aliasing_output = 1 : i32}, %valueCache0: tensor<17x4x2x8xf32> {tf.aliasing_output = 2 : i32}, %keyCache1: tensor<17x4x2x8xf32> {tf.aliasing_output = 3 : i32}, %valueCache1: tensor<17x4x2x8xf32> {tf.aliasing_output = 4 : i32}, %keyCache2: tensor<65x4x2x8xf32> {tf.aliasing_output = 5 : i32}, %valueCache2: tensor<65x4x2x8xf32> {tf.aliasing_output = 6 : i32}, %embedTokens: tensor<64x32xf32>, %inputNorm0: tensor<32xf32>, %qkvProj0: tensor<96x32xf32>, %qkvBias0: tensor<64xf32>, %oProj0: tensor<32x32xf32>, %mixerOutputNorm0: tensor<32xf32>, %postAttnNorm0: tensor<32xf32>, %gateUpProj0: tensor<96x32xf32>, %downProj0: tensor<32x48xf32>, %ffnOutputNorm0: tensor<32xf32>, %inputNorm1: tensor<32xf32>, %qkvProj1: tensor<96x32xf32>, %qkvBias1: tensor<64xf32>, %oProj1: tensor<32x32xf32>, %mixerOutputNorm1: tensor<32xf32>, %postAttnNorm1: tensor<32xf32>, %gateUpProj1: tensor<96x32xf32>, %downProj1: tensor<32x48xf32>, %ffnOutputNorm1: tensor<32xf32>, %inputNorm2: tensor<32xf32>, %qkvProj2: tensor<96x32xf32>, %qkvBias2: tensor<64xf32>, %oProj2: tensor<32x32xf32>, %mixerOutputNorm2: tensor<32xf32>, %postAttnNorm2: tensor<32xf32>, %gateUpProj2: tensor<96x32xf32>, %downProj2: tensor<32x48xf32>, %ffnOutputNorm2: tensor<32xf32>, %finalNorm: tensor<32xf32>, %lmHead: tensor<64x32xf32>) -> (tensor<2x1x64xf32>, tensor<17x4x2x8xf32>, tensor<17x4x2x8xf32>, tensor<17x4x2x8xf32>, tensor<17x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>) {
    %0 = stablehlo.reshape %tokenIds : (tensor<2x6xi32>) -> tensor<12xi32>
    %1 = stablehlo.reshape %0 : (tensor<12xi32>) -> tensor<12x1xi32>
    %2 = "stablehlo.gather"(%embedTokens, %1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<64x32xf32>, tensor<12x1xi32>) -> tensor<12x32xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<12x32xf32>) -> tensor<32x12xf32>
    %4 = stablehlo.dot_general %3, %3, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x12xf32>, tensor<32x12xf32>) -> tensor<12xf32>
    %5 = stablehlo.constant dense<0.03125> : tensor<12xf32>
    %6 = stablehlo.multiply %4, %5 : tensor<12xf32>
    %7 = stablehlo.constant dense<1.0e-5> : tensor<12xf32>
    %8 = stablehlo.add %6, %7 : tensor<12xf32>
    %9 = stablehlo.rsqrt %8 : tensor<12xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [1] : (tensor<12xf32>) -> tensor<32x12xf32>
    %11 = stablehlo.multiply %3, %10 : tensor<32x12xf32>
    %12 = stablehlo.slice %positions [0:2, 5:6] : (tensor<2x6xi32>) -> tensor<2x1xi32>
    %13 = stablehlo.reshape %12 : (tensor<2x1xi32>) -> tensor<2xi32>
    %14 = stablehlo.constant dense<4> : tensor<2xi32>
    %15 = stablehlo.divide %13, %14 : tensor<2xi32>
    %16 = stablehlo.iota dim = 1 : tensor<2x4xi32>
    %17 = stablehlo.broadcast_in_dim %15, dims = [0] : (tensor<2xi32>) -> tensor<2x4xi32>
    %18 = stablehlo.add %17, %16 : tensor<2x4xi32>
    %19 = stablehlo.constant dense<3> : tensor<2x4xi32>
    %20 = stablehlo.subtract %18, %19 : tensor<2x4xi32>
    %21 = stablehlo.constant dense<0> : tensor<2x4xi32>
    %22 = stablehlo.maximum %20, %21 : tensor<2x4xi32>
    %23 = stablehlo.constant dense<4> : tensor<2x4xi32>
    %24 = stablehlo.remainder %22, %23 : tensor<2x4xi32>
    %25 = stablehlo.iota dim = 0 : tensor<2x4xi32>
    %26 = stablehlo.constant dense<16> : tensor<2x4xi32>
    %27 = stablehlo.multiply %25, %26 : tensor<2x4xi32>
    %28 = stablehlo.add %27, %24 : tensor<2x4xi32>
    %29 = stablehlo.reshape %28 : (tensor<2x4xi32>) -> tensor<8xi32>
    %30 = stablehlo.reshape %windowBlockTables : (tensor<2x16xi32>) -> tensor<32x1xi32>
    %31 = stablehlo.reshape %29 : (tensor<8xi32>) -> tensor<8x1xi32>
    %32 = "stablehlo.gather"(%30, %31) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<32x1xi32>, tensor<8x1xi32>) -> tensor<8x1xi32>
    %33 = stablehlo.reshape %32 : (tensor<8x1xi32>) -> tensor<2x4xi32>
    %34 = stablehlo.multiply %20, %23 : tensor<2x4xi32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1] : (tensor<2x4xi32>) -> tensor<2x4x4xi32>
    %36 = stablehlo.iota dim = 2 : tensor<2x4x4xi32>
    %37 = stablehlo.add %35, %36 : tensor<2x4x4xi32>
    %38 = stablehlo.reshape %37 : (tensor<2x4x4xi32>) -> tensor<2x16xi32>
    %39 = stablehlo.broadcast_in_dim %13, dims = [0] : (tensor<2xi32>) -> tensor<2x16xi32>
    %40 = stablehlo.compare LE, %38, %39, SIGNED : (tensor<2x16xi32>, tensor<2x16xi32>) -> tensor<2x16xi1>
    %41 = stablehlo.constant dense<16> : tensor<2x16xi32>
    %42 = stablehlo.subtract %38, %41 : tensor<2x16xi32>
    %43 = stablehlo.select %40, %38, %42 : tensor<2x16xi1>, tensor<2x16xi32>
    %44 = stablehlo.constant dense<0> : tensor<2x16xi32>
    %45 = stablehlo.compare LE, %44, %43, SIGNED : (tensor<2x16xi32>, tensor<2x16xi32>) -> tensor<2x16xi1>
    %46 = stablehlo.constant dense<2147483647> : tensor<2x16xi32>
    %47 = stablehlo.select %45, %43, %46 : tensor<2x16xi1>, tensor<2x16xi32>
    %48 = stablehlo.multiply %33, %23 : tensor<2x4xi32>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0, 1] : (tensor<2x4xi32>) -> tensor<2x4x4xi32>
    %50 = stablehlo.iota dim = 2 : tensor<2x4x4xi32>
    %51 = stablehlo.add %49, %50 : tensor<2x4x4xi32>
    %52 = stablehlo.reshape %51 : (tensor<2x4x4xi32>) -> tensor<2x16xi32>
    %53 = stablehlo.reshape %positions : (tensor<2x6xi32>) -> tensor<12xi32>
    %54 = stablehlo.convert %53 : (tensor<12xi32>) -> tensor<12xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [1] : (tensor<12xf32>) -> tensor<4x12xf32>
    %56 = stablehlo.constant dense<[1.0, 0.1, 0.01, 0.001]> : tensor<4xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0] : (tensor<4xf32>) -> tensor<4x12xf32>
    %58 = stablehlo.multiply %55, %57 : tensor<4x12xf32>
    %59 = stablehlo.cosine %58 : tensor<4x12xf32>
    %60 = stablehlo.sine %58 : tensor<4x12xf32>
    %61 = stablehlo.concatenate %59, %60, dim = 0 : (tensor<4x12xf32>, tensor<4x12xf32>) -> tensor<8x12xf32>
    %62 = stablehlo.iota dim = 0 : tensor<8x8xi32>
    %63 = stablehlo.iota dim = 1 : tensor<8x8xi32>
    %64 = stablehlo.compare EQ, %62, %63, SIGNED : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi1>
    %65 = stablehlo.constant dense<1.0> : tensor<8x8xf32>
    %66 = stablehlo.constant dense<0.0> : tensor<8x8xf32>
    %67 = stablehlo.select %64, %65, %66 : tensor<8x8xi1>, tensor<8x8xf32>
    %68 = stablehlo.dot_general %67, %61, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
    %69 = stablehlo.slice %68 [0:4, 0:12] : (tensor<8x12xf32>) -> tensor<4x12xf32>
    %70 = stablehlo.slice %68 [4:8, 0:12] : (tensor<8x12xf32>) -> tensor<4x12xf32>
    %71 = stablehlo.constant dense<0.53033006> : tensor<4x12xf32>
    %72 = stablehlo.multiply %69, %71 : tensor<4x12xf32>
    %73 = stablehlo.multiply %70, %71 : tensor<4x12xf32>
    %74 = stablehlo.constant dense<2> : tensor<12xi32>
    %75 = stablehlo.shift_right_arithmetic %windowSlotMapping, %74 : tensor<12xi32>
    %76 = stablehlo.constant dense<3> : tensor<12xi32>
    %77 = stablehlo.and %windowSlotMapping, %76 : tensor<12xi32>
    %78 = stablehlo.reshape %75 : (tensor<12xi32>) -> tensor<12x1xi32>
    %79 = stablehlo.reshape %77 : (tensor<12xi32>) -> tensor<12x1xi32>
    %80 = stablehlo.concatenate %78, %79, dim = 1 : (tensor<12x1xi32>, tensor<12x1xi32>) -> tensor<12x2xi32>
    %81:3 = func.call @layer0(%11, %keyCache0, %valueCache0, %69, %70, %72, %73, %80, %52, %47, %positions, %inputNorm0, %qkvProj0, %qkvBias0, %oProj0, %mixerOutputNorm0, %postAttnNorm0, %gateUpProj0, %downProj0, %ffnOutputNorm0) : (tensor<32x12xf32>, tensor<17x4x2x8xf32>, tensor<17x4x2x8xf32>, tensor<4x12xf32>, tensor<4x12xf32>, tensor<4x12xf32>, tensor<4x12xf32>, tensor<12x2xi32>, tensor<2x16xi32>, tensor<2x16xi32>, tensor<2x6xi32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x12xf32>, tensor<17x4x2x8xf32>, tensor<17x4x2x8xf32>)
    %82:3 = func.call @layer0(%81#0, %keyCache1, %valueCache1, %69, %70, %72, %73, %80, %52, %47, %positions, %inputNorm1, %qkvProj1, %qkvBias1, %oProj1, %mixerOutputNorm1, %postAttnNorm1, %gateUpProj1, %downProj1, %ffnOutputNorm1) : (tensor<32x12xf32>, tensor<17x4x2x8xf32>, tensor<17x4x2x8xf32>, tensor<4x12xf32>, tensor<4x12xf32>, tensor<4x12xf32>, tensor<4x12xf32>, tensor<12x2xi32>, tensor<2x16xi32>, tensor<2x16xi32>, tensor<2x6xi32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x12xf32>, tensor<17x4x2x8xf32>, tensor<17x4x2x8xf32>)
    %83 = stablehlo.iota dim = 1 : tensor<2x64xi32>
    %84 = stablehlo.constant dense<4> : tensor<2x16xi32>
    %85 = stablehlo.multiply %blockTables, %84 : tensor<2x16xi32>
    %86 = stablehlo.broadcast_in_dim %85, dims = [0, 1] : (tensor<2x16xi32>) -> tensor<2x16x4xi32>
    %87 = stablehlo.iota dim = 2 : tensor<2x16x4xi32>
    %88 = stablehlo.add %86, %87 : tensor<2x16x4xi32>
    %89 = stablehlo.reshape %88 : (tensor<2x16x4xi32>) -> tensor<2x64xi32>
    %90 = stablehlo.shift_right_arithmetic %slotMapping, %74 : tensor<12xi32>
    %91 = stablehlo.and %slotMapping, %76 : tensor<12xi32>
    %92 = stablehlo.reshape %90 : (tensor<12xi32>) -> tensor<12x1xi32>
    %93 = stablehlo.reshape %91 : (tensor<12xi32>) -> tensor<12x1xi32>
    %94 = stablehlo.concatenate %92, %93, dim = 1 : (tensor<12x1xi32>, tensor<12x1xi32>) -> tensor<12x2xi32>
    %95:3 = func.call @layer1(%82#0, %keyCache2, %valueCache2, %94, %89, %83, %positions, %inputNorm2, %qkvProj2, %qkvBias2, %oProj2, %mixerOutputNorm2, %postAttnNorm2, %gateUpProj2, %downProj2, %ffnOutputNorm2) : (tensor<32x12xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<12x2xi32>, tensor<2x64xi32>, tensor<2x64xi32>, tensor<2x6xi32>, tensor<32xf32>, tensor<96x32xf32>, tensor<64xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<96x32xf32>, tensor<32x48xf32>, tensor<32xf32>) -> (tensor<32x12xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>)
    %96 = stablehlo.reshape %95#0 : (tensor<32x12xf32>) -> tensor<32x2x6xf32>
    %97 = stablehlo.slice %96 [0:32, 0:2, 5:6] : (tensor<32x2x6xf32>) -> tensor<32x2x1xf32>
    %98 = stablehlo.reshape %97 : (tensor<32x2x1xf32>) -> tensor<32x2xf32>
    %99 = stablehlo.dot_general %98, %98, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x2xf32>, tensor<32x2xf32>) -> tensor<2xf32>
    %100 = stablehlo.constant dense<0.03125> : tensor<2xf32>
    %101 = stablehlo.multiply %99, %100 : tensor<2xf32>
    %102 = stablehlo.constant dense<1.0e-5> : tensor<2xf32>
    %103 = stablehlo.add %101, %102 : tensor<2xf32>
    %104 = stablehlo.rsqrt %103 : tensor<2xf32>
    %105 = stablehlo.broadcast_in_dim %104, dims = [1] : (tensor<2xf32>) -> tensor<32x2xf32>
    %106 = stablehlo.multiply %98, %105 : tensor<32x2xf32>
    %107 = stablehlo.broadcast_in_dim %finalNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x2xf32>
    %108 = stablehlo.multiply %106, %107 : tensor<32x2xf32>
    %109 = stablehlo.dot_general %lmHead, %108, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x2xf32>) -> tensor<64x2xf32>
    %110 = stablehlo.optimization_barrier %109 : tensor<64x2xf32>
    %111 = stablehlo.transpose %110, dims = [1, 0] : (tensor<64x2xf32>) -> tensor<2x64xf32>
    %112 = stablehlo.constant dense<30.0> : tensor<2x64xf32>
    %113 = stablehlo.divide %111, %112 : tensor<2x64xf32>
    %114 = stablehlo.tanh %113 : tensor<2x64xf32>
    %115 = stablehlo.multiply %114, %112 : tensor<2x64xf32>
    %116 = stablehlo.reshape %115 : (tensor<2x64xf32>) -> tensor<2x1x64xf32>
    return %116, %81#1, %81#2, %82#1, %82#2, %95#1, %95#2 : tensor<2x1x64xf32>, tensor<17x4x2x8xf32>, tensor<17x4x2x8xf32>, tensor<17x4x2x8xf32>, tensor<17x4x2x8xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>
  }
  func.func private @layer0(%x: tensor<32x12xf32>, %keys: tensor<17x4x2x8xf32>, %values: tensor<17x4x2x8xf32>, %keyCos: tensor<4x12xf32>, %keySin: tensor<4x12xf32>, %queryCos: tensor<4x12xf32>, %querySin: tensor<4x12xf32>, %writeIndices: tensor<12x2xi32>, %historySlots: tensor<2x16xi32>, %historyPositions: tensor<2x16xi32>, %visibility: tensor<2x6xi32>, %inputNorm: tensor<32xf32>, %qkvProj: tensor<96x32xf32>, %qkvBias: tensor<64xf32>, %oProj: tensor<32x32xf32>, %mixerOutputNorm: tensor<32xf32>, %postAttnNorm: tensor<32xf32>, %gateUpProj: tensor<96x32xf32>, %downProj: tensor<32x48xf32>, %ffnOutputNorm: tensor<32xf32>) -> (tensor<32x12xf32>, tensor<17x4x2x8xf32>, tensor<17x4x2x8xf32>) {
    %0 = stablehlo.dot_general %x, %x, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x12xf32>, tensor<32x12xf32>) -> tensor<12xf32>
    %1 = stablehlo.constant dense<0.03125> : tensor<12xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<12xf32>
    %3 = stablehlo.constant dense<1.0e-5> : tensor<12xf32>
    %4 = stablehlo.add %2, %3 : tensor<12xf32>
    %5 = stablehlo.rsqrt %4 : tensor<12xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [1] : (tensor<12xf32>) -> tensor<32x12xf32>
    %7 = stablehlo.multiply %x, %6 : tensor<32x12xf32>
    %8 = stablehlo.broadcast_in_dim %inputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x12xf32>
    %9 = stablehlo.multiply %7, %8 : tensor<32x12xf32>
    %10 = stablehlo.dot_general %qkvProj, %9, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x12xf32>) -> tensor<96x12xf32>
    %11 = stablehlo.slice %10 [0:32, 0:12] : (tensor<96x12xf32>) -> tensor<32x12xf32>
    %12 = stablehlo.slice %qkvBias [0:32] : (tensor<64xf32>) -> tensor<32xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<32xf32>) -> tensor<32x12xf32>
    %14 = stablehlo.add %11, %13 : tensor<32x12xf32>
    %15 = stablehlo.reshape %14 : (tensor<32x12xf32>) -> tensor<4x8x12xf32>
    %16 = stablehlo.slice %10 [32:48, 0:12] : (tensor<96x12xf32>) -> tensor<16x12xf32>
    %17 = stablehlo.slice %qkvBias [32:48] : (tensor<64xf32>) -> tensor<16xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0] : (tensor<16xf32>) -> tensor<16x12xf32>
    %19 = stablehlo.add %16, %18 : tensor<16x12xf32>
    %20 = stablehlo.reshape %19 : (tensor<16x12xf32>) -> tensor<2x8x12xf32>
    %21 = stablehlo.slice %10 [48:64, 0:12] : (tensor<96x12xf32>) -> tensor<16x12xf32>
    %22 = stablehlo.slice %qkvBias [48:64] : (tensor<64xf32>) -> tensor<16xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0] : (tensor<16xf32>) -> tensor<16x12xf32>
    %24 = stablehlo.add %21, %23 : tensor<16x12xf32>
    %25 = stablehlo.reshape %24 : (tensor<16x12xf32>) -> tensor<2x8x12xf32>
    %26 = stablehlo.multiply %15, %15 : tensor<4x8x12xf32>
    %27 = stablehlo.constant dense<0.0> : tensor<f32>
    %28 = stablehlo.reduce(%26 init: %27) applies stablehlo.add across dimensions = [1] : (tensor<4x8x12xf32>, tensor<f32>) -> tensor<4x12xf32>
    %29 = stablehlo.constant dense<0.125> : tensor<4x12xf32>
    %30 = stablehlo.multiply %28, %29 : tensor<4x12xf32>
    %31 = stablehlo.constant dense<1.0e-5> : tensor<4x12xf32>
    %32 = stablehlo.add %30, %31 : tensor<4x12xf32>
    %33 = stablehlo.rsqrt %32 : tensor<4x12xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 2] : (tensor<4x12xf32>) -> tensor<4x8x12xf32>
    %35 = stablehlo.multiply %15, %34 : tensor<4x8x12xf32>
    %36 = stablehlo.multiply %20, %20 : tensor<2x8x12xf32>
    %37 = stablehlo.reduce(%36 init: %27) applies stablehlo.add across dimensions = [1] : (tensor<2x8x12xf32>, tensor<f32>) -> tensor<2x12xf32>
    %38 = stablehlo.constant dense<0.125> : tensor<2x12xf32>
    %39 = stablehlo.multiply %37, %38 : tensor<2x12xf32>
    %40 = stablehlo.constant dense<1.0e-5> : tensor<2x12xf32>
    %41 = stablehlo.add %39, %40 : tensor<2x12xf32>
    %42 = stablehlo.rsqrt %41 : tensor<2x12xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 2] : (tensor<2x12xf32>) -> tensor<2x8x12xf32>
    %44 = stablehlo.multiply %20, %43 : tensor<2x8x12xf32>
    %45 = stablehlo.slice %35 [0:4, 0:4, 0:12] : (tensor<4x8x12xf32>) -> tensor<4x4x12xf32>
    %46 = stablehlo.slice %35 [0:4, 4:8, 0:12] : (tensor<4x8x12xf32>) -> tensor<4x4x12xf32>
    %47 = stablehlo.broadcast_in_dim %queryCos, dims = [1, 2] : (tensor<4x12xf32>) -> tensor<4x4x12xf32>
    %48 = stablehlo.broadcast_in_dim %querySin, dims = [1, 2] : (tensor<4x12xf32>) -> tensor<4x4x12xf32>
    %49 = stablehlo.multiply %45, %47 : tensor<4x4x12xf32>
    %50 = stablehlo.multiply %46, %48 : tensor<4x4x12xf32>
    %51 = stablehlo.multiply %46, %47 : tensor<4x4x12xf32>
    %52 = stablehlo.multiply %45, %48 : tensor<4x4x12xf32>
    %53 = stablehlo.subtract %49, %50 : tensor<4x4x12xf32>
    %54 = stablehlo.add %51, %52 : tensor<4x4x12xf32>
    %55 = stablehlo.concatenate %53, %54, dim = 1 : (tensor<4x4x12xf32>, tensor<4x4x12xf32>) -> tensor<4x8x12xf32>
    %56 = stablehlo.slice %44 [0:2, 0:4, 0:12] : (tensor<2x8x12xf32>) -> tensor<2x4x12xf32>
    %57 = stablehlo.slice %44 [0:2, 4:8, 0:12] : (tensor<2x8x12xf32>) -> tensor<2x4x12xf32>
    %58 = stablehlo.broadcast_in_dim %keyCos, dims = [1, 2] : (tensor<4x12xf32>) -> tensor<2x4x12xf32>
    %59 = stablehlo.broadcast_in_dim %keySin, dims = [1, 2] : (tensor<4x12xf32>) -> tensor<2x4x12xf32>
    %60 = stablehlo.multiply %56, %58 : tensor<2x4x12xf32>
    %61 = stablehlo.multiply %57, %59 : tensor<2x4x12xf32>
    %62 = stablehlo.multiply %57, %58 : tensor<2x4x12xf32>
    %63 = stablehlo.multiply %56, %59 : tensor<2x4x12xf32>
    %64 = stablehlo.subtract %60, %61 : tensor<2x4x12xf32>
    %65 = stablehlo.add %62, %63 : tensor<2x4x12xf32>
    %66 = stablehlo.concatenate %64, %65, dim = 1 : (tensor<2x4x12xf32>, tensor<2x4x12xf32>) -> tensor<2x8x12xf32>
    %67 = stablehlo.transpose %55, dims = [2, 0, 1] : (tensor<4x8x12xf32>) -> tensor<12x4x8xf32>
    %68 = stablehlo.transpose %66, dims = [2, 0, 1] : (tensor<2x8x12xf32>) -> tensor<12x2x8xf32>
    %69 = stablehlo.transpose %25, dims = [2, 0, 1] : (tensor<2x8x12xf32>) -> tensor<12x2x8xf32>
    %70 = "stablehlo.scatter"(%keys, %writeIndices, %68) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old70: tensor<f32>, %new70: tensor<f32>):
      stablehlo.return %new70 : tensor<f32>
    }) : (tensor<17x4x2x8xf32>, tensor<12x2xi32>, tensor<12x2x8xf32>) -> tensor<17x4x2x8xf32>
    %71 = "stablehlo.scatter"(%values, %writeIndices, %69) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old71: tensor<f32>, %new71: tensor<f32>):
      stablehlo.return %new71 : tensor<f32>
    }) : (tensor<17x4x2x8xf32>, tensor<12x2xi32>, tensor<12x2x8xf32>) -> tensor<17x4x2x8xf32>
    %72 = stablehlo.reshape %67 : (tensor<12x4x8xf32>) -> tensor<2x6x2x2x8xf32>
    %73 = stablehlo.transpose %72, dims = [0, 2, 3, 1, 4] : (tensor<2x6x2x2x8xf32>) -> tensor<2x2x2x6x8xf32>
    %74 = stablehlo.reshape %73 : (tensor<2x2x2x6x8xf32>) -> tensor<2x2x12x8xf32>
    %75 = stablehlo.reshape %70 : (tensor<17x4x2x8xf32>) -> tensor<68x16xf32>
    %76 = stablehlo.reshape %historySlots : (tensor<2x16xi32>) -> tensor<32xi32>
    %77 = stablehlo.reshape %76 : (tensor<32xi32>) -> tensor<32x1xi32>
    %78 = "stablehlo.gather"(%75, %77) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<68x16xf32>, tensor<32x1xi32>) -> tensor<32x16xf32>
    %79 = stablehlo.reshape %78 : (tensor<32x16xf32>) -> tensor<2x16x16xf32>
    %80 = stablehlo.reshape %79 : (tensor<2x16x16xf32>) -> tensor<2x16x2x8xf32>
    %81 = stablehlo.transpose %80, dims = [0, 2, 1, 3] : (tensor<2x16x2x8xf32>) -> tensor<2x2x16x8xf32>
    %82 = stablehlo.reshape %71 : (tensor<17x4x2x8xf32>) -> tensor<68x16xf32>
    %83 = stablehlo.reshape %historySlots : (tensor<2x16xi32>) -> tensor<32xi32>
    %84 = stablehlo.reshape %83 : (tensor<32xi32>) -> tensor<32x1xi32>
    %85 = "stablehlo.gather"(%82, %84) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<68x16xf32>, tensor<32x1xi32>) -> tensor<32x16xf32>
    %86 = stablehlo.reshape %85 : (tensor<32x16xf32>) -> tensor<2x16x16xf32>
    %87 = stablehlo.reshape %86 : (tensor<2x16x16xf32>) -> tensor<2x16x2x8xf32>
    %88 = stablehlo.transpose %87, dims = [0, 2, 1, 3] : (tensor<2x16x2x8xf32>) -> tensor<2x2x16x8xf32>
    %89 = stablehlo.slice %historyPositions [0:1, 0:16] : (tensor<2x16xi32>) -> tensor<1x16xi32>
    %90 = stablehlo.reshape %89 : (tensor<1x16xi32>) -> tensor<16xi32>
    %91 = stablehlo.broadcast_in_dim %90, dims = [1] : (tensor<16xi32>) -> tensor<6x16xi32>
    %92 = stablehlo.slice %visibility [0:1, 0:6] : (tensor<2x6xi32>) -> tensor<1x6xi32>
    %93 = stablehlo.reshape %92 : (tensor<1x6xi32>) -> tensor<6xi32>
    %94 = stablehlo.broadcast_in_dim %93, dims = [0] : (tensor<6xi32>) -> tensor<6x16xi32>
    %95 = stablehlo.compare LE, %91, %94, SIGNED : (tensor<6x16xi32>, tensor<6x16xi32>) -> tensor<6x16xi1>
    %96 = stablehlo.constant dense<8> : tensor<6x16xi32>
    %97 = stablehlo.subtract %94, %96 : tensor<6x16xi32>
    %98 = stablehlo.compare LT, %97, %91, SIGNED : (tensor<6x16xi32>, tensor<6x16xi32>) -> tensor<6x16xi1>
    %99 = stablehlo.and %95, %98 : tensor<6x16xi1>
    %100 = stablehlo.broadcast_in_dim %99, dims = [1, 2] : (tensor<6x16xi1>) -> tensor<2x6x16xi1>
    %101 = stablehlo.slice %74 [0:1, 0:2, 0:12, 0:8] : (tensor<2x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %102 = stablehlo.slice %101 [0:1, 0:1, 0:12, 0:8] : (tensor<1x2x12x8xf32>) -> tensor<1x1x12x8xf32>
    %103 = stablehlo.reshape %102 : (tensor<1x1x12x8xf32>) -> tensor<12x8xf32>
    %104 = stablehlo.slice %81 [0:1, 0:2, 0:16, 0:8] : (tensor<2x2x16x8xf32>) -> tensor<1x2x16x8xf32>
    %105 = stablehlo.slice %104 [0:1, 0:1, 0:16, 0:8] : (tensor<1x2x16x8xf32>) -> tensor<1x1x16x8xf32>
    %106 = stablehlo.reshape %105 : (tensor<1x1x16x8xf32>) -> tensor<16x8xf32>
    %107 = stablehlo.slice %88 [0:1, 0:2, 0:16, 0:8] : (tensor<2x2x16x8xf32>) -> tensor<1x2x16x8xf32>
    %108 = stablehlo.slice %107 [0:1, 0:1, 0:16, 0:8] : (tensor<1x2x16x8xf32>) -> tensor<1x1x16x8xf32>
    %109 = stablehlo.reshape %108 : (tensor<1x1x16x8xf32>) -> tensor<16x8xf32>
    %110 = stablehlo.dot_general %103, %106, contracting_dims = [1] x [1] : (tensor<12x8xf32>, tensor<16x8xf32>) -> tensor<12x16xf32>
    %111 = stablehlo.reshape %110 : (tensor<12x16xf32>) -> tensor<2x6x16xf32>
    %112 = stablehlo.constant dense<-1.0e30> : tensor<2x6x16xf32>
    %113 = stablehlo.select %100, %111, %112 : tensor<2x6x16xi1>, tensor<2x6x16xf32>
    %114 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %115 = stablehlo.reduce(%113 init: %114) applies stablehlo.maximum across dimensions = [2] : (tensor<2x6x16xf32>, tensor<f32>) -> tensor<2x6xf32>
    %116 = stablehlo.broadcast_in_dim %115, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x16xf32>
    %117 = stablehlo.subtract %113, %116 : tensor<2x6x16xf32>
    %118 = stablehlo.exponential %117 : tensor<2x6x16xf32>
    %119 = stablehlo.reduce(%118 init: %27) applies stablehlo.add across dimensions = [2] : (tensor<2x6x16xf32>, tensor<f32>) -> tensor<2x6xf32>
    %120 = stablehlo.reshape %119 : (tensor<2x6xf32>) -> tensor<1x1x2x6xf32>
    %121 = stablehlo.reshape %118 : (tensor<2x6x16xf32>) -> tensor<12x16xf32>
    %122 = stablehlo.dot_general %121, %109, contracting_dims = [1] x [0] : (tensor<12x16xf32>, tensor<16x8xf32>) -> tensor<12x8xf32>
    %123 = stablehlo.reshape %122 : (tensor<12x8xf32>) -> tensor<1x1x2x6x8xf32>
    %124 = stablehlo.slice %74 [0:1, 0:2, 0:12, 0:8] : (tensor<2x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %125 = stablehlo.slice %124 [0:1, 1:2, 0:12, 0:8] : (tensor<1x2x12x8xf32>) -> tensor<1x1x12x8xf32>
    %126 = stablehlo.reshape %125 : (tensor<1x1x12x8xf32>) -> tensor<12x8xf32>
    %127 = stablehlo.slice %81 [0:1, 0:2, 0:16, 0:8] : (tensor<2x2x16x8xf32>) -> tensor<1x2x16x8xf32>
    %128 = stablehlo.slice %127 [0:1, 1:2, 0:16, 0:8] : (tensor<1x2x16x8xf32>) -> tensor<1x1x16x8xf32>
    %129 = stablehlo.reshape %128 : (tensor<1x1x16x8xf32>) -> tensor<16x8xf32>
    %130 = stablehlo.slice %88 [0:1, 0:2, 0:16, 0:8] : (tensor<2x2x16x8xf32>) -> tensor<1x2x16x8xf32>
    %131 = stablehlo.slice %130 [0:1, 1:2, 0:16, 0:8] : (tensor<1x2x16x8xf32>) -> tensor<1x1x16x8xf32>
    %132 = stablehlo.reshape %131 : (tensor<1x1x16x8xf32>) -> tensor<16x8xf32>
    %133 = stablehlo.dot_general %126, %129, contracting_dims = [1] x [1] : (tensor<12x8xf32>, tensor<16x8xf32>) -> tensor<12x16xf32>
    %134 = stablehlo.reshape %133 : (tensor<12x16xf32>) -> tensor<2x6x16xf32>
    %135 = stablehlo.select %100, %134, %112 : tensor<2x6x16xi1>, tensor<2x6x16xf32>
    %136 = stablehlo.reduce(%135 init: %114) applies stablehlo.maximum across dimensions = [2] : (tensor<2x6x16xf32>, tensor<f32>) -> tensor<2x6xf32>
    %137 = stablehlo.broadcast_in_dim %136, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x16xf32>
    %138 = stablehlo.subtract %135, %137 : tensor<2x6x16xf32>
    %139 = stablehlo.exponential %138 : tensor<2x6x16xf32>
    %140 = stablehlo.reduce(%139 init: %27) applies stablehlo.add across dimensions = [2] : (tensor<2x6x16xf32>, tensor<f32>) -> tensor<2x6xf32>
    %141 = stablehlo.reshape %140 : (tensor<2x6xf32>) -> tensor<1x1x2x6xf32>
    %142 = stablehlo.reshape %139 : (tensor<2x6x16xf32>) -> tensor<12x16xf32>
    %143 = stablehlo.dot_general %142, %132, contracting_dims = [1] x [0] : (tensor<12x16xf32>, tensor<16x8xf32>) -> tensor<12x8xf32>
    %144 = stablehlo.reshape %143 : (tensor<12x8xf32>) -> tensor<1x1x2x6x8xf32>
    %145 = stablehlo.concatenate %123, %144, dim = 1 : (tensor<1x1x2x6x8xf32>, tensor<1x1x2x6x8xf32>) -> tensor<1x2x2x6x8xf32>
    %146 = stablehlo.concatenate %120, %141, dim = 1 : (tensor<1x1x2x6xf32>, tensor<1x1x2x6xf32>) -> tensor<1x2x2x6xf32>
    %147 = stablehlo.slice %historyPositions [1:2, 0:16] : (tensor<2x16xi32>) -> tensor<1x16xi32>
    %148 = stablehlo.reshape %147 : (tensor<1x16xi32>) -> tensor<16xi32>
    %149 = stablehlo.broadcast_in_dim %148, dims = [1] : (tensor<16xi32>) -> tensor<6x16xi32>
    %150 = stablehlo.slice %visibility [1:2, 0:6] : (tensor<2x6xi32>) -> tensor<1x6xi32>
    %151 = stablehlo.reshape %150 : (tensor<1x6xi32>) -> tensor<6xi32>
    %152 = stablehlo.broadcast_in_dim %151, dims = [0] : (tensor<6xi32>) -> tensor<6x16xi32>
    %153 = stablehlo.compare LE, %149, %152, SIGNED : (tensor<6x16xi32>, tensor<6x16xi32>) -> tensor<6x16xi1>
    %154 = stablehlo.subtract %152, %96 : tensor<6x16xi32>
    %155 = stablehlo.compare LT, %154, %149, SIGNED : (tensor<6x16xi32>, tensor<6x16xi32>) -> tensor<6x16xi1>
    %156 = stablehlo.and %153, %155 : tensor<6x16xi1>
    %157 = stablehlo.broadcast_in_dim %156, dims = [1, 2] : (tensor<6x16xi1>) -> tensor<2x6x16xi1>
    %158 = stablehlo.slice %74 [1:2, 0:2, 0:12, 0:8] : (tensor<2x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %159 = stablehlo.slice %158 [0:1, 0:1, 0:12, 0:8] : (tensor<1x2x12x8xf32>) -> tensor<1x1x12x8xf32>
    %160 = stablehlo.reshape %159 : (tensor<1x1x12x8xf32>) -> tensor<12x8xf32>
    %161 = stablehlo.slice %81 [1:2, 0:2, 0:16, 0:8] : (tensor<2x2x16x8xf32>) -> tensor<1x2x16x8xf32>
    %162 = stablehlo.slice %161 [0:1, 0:1, 0:16, 0:8] : (tensor<1x2x16x8xf32>) -> tensor<1x1x16x8xf32>
    %163 = stablehlo.reshape %162 : (tensor<1x1x16x8xf32>) -> tensor<16x8xf32>
    %164 = stablehlo.slice %88 [1:2, 0:2, 0:16, 0:8] : (tensor<2x2x16x8xf32>) -> tensor<1x2x16x8xf32>
    %165 = stablehlo.slice %164 [0:1, 0:1, 0:16, 0:8] : (tensor<1x2x16x8xf32>) -> tensor<1x1x16x8xf32>
    %166 = stablehlo.reshape %165 : (tensor<1x1x16x8xf32>) -> tensor<16x8xf32>
    %167 = stablehlo.dot_general %160, %163, contracting_dims = [1] x [1] : (tensor<12x8xf32>, tensor<16x8xf32>) -> tensor<12x16xf32>
    %168 = stablehlo.reshape %167 : (tensor<12x16xf32>) -> tensor<2x6x16xf32>
    %169 = stablehlo.select %157, %168, %112 : tensor<2x6x16xi1>, tensor<2x6x16xf32>
    %170 = stablehlo.reduce(%169 init: %114) applies stablehlo.maximum across dimensions = [2] : (tensor<2x6x16xf32>, tensor<f32>) -> tensor<2x6xf32>
    %171 = stablehlo.broadcast_in_dim %170, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x16xf32>
    %172 = stablehlo.subtract %169, %171 : tensor<2x6x16xf32>
    %173 = stablehlo.exponential %172 : tensor<2x6x16xf32>
    %174 = stablehlo.reduce(%173 init: %27) applies stablehlo.add across dimensions = [2] : (tensor<2x6x16xf32>, tensor<f32>) -> tensor<2x6xf32>
    %175 = stablehlo.reshape %174 : (tensor<2x6xf32>) -> tensor<1x1x2x6xf32>
    %176 = stablehlo.reshape %173 : (tensor<2x6x16xf32>) -> tensor<12x16xf32>
    %177 = stablehlo.dot_general %176, %166, contracting_dims = [1] x [0] : (tensor<12x16xf32>, tensor<16x8xf32>) -> tensor<12x8xf32>
    %178 = stablehlo.reshape %177 : (tensor<12x8xf32>) -> tensor<1x1x2x6x8xf32>
    %179 = stablehlo.slice %74 [1:2, 0:2, 0:12, 0:8] : (tensor<2x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %180 = stablehlo.slice %179 [0:1, 1:2, 0:12, 0:8] : (tensor<1x2x12x8xf32>) -> tensor<1x1x12x8xf32>
    %181 = stablehlo.reshape %180 : (tensor<1x1x12x8xf32>) -> tensor<12x8xf32>
    %182 = stablehlo.slice %81 [1:2, 0:2, 0:16, 0:8] : (tensor<2x2x16x8xf32>) -> tensor<1x2x16x8xf32>
    %183 = stablehlo.slice %182 [0:1, 1:2, 0:16, 0:8] : (tensor<1x2x16x8xf32>) -> tensor<1x1x16x8xf32>
    %184 = stablehlo.reshape %183 : (tensor<1x1x16x8xf32>) -> tensor<16x8xf32>
    %185 = stablehlo.slice %88 [1:2, 0:2, 0:16, 0:8] : (tensor<2x2x16x8xf32>) -> tensor<1x2x16x8xf32>
    %186 = stablehlo.slice %185 [0:1, 1:2, 0:16, 0:8] : (tensor<1x2x16x8xf32>) -> tensor<1x1x16x8xf32>
    %187 = stablehlo.reshape %186 : (tensor<1x1x16x8xf32>) -> tensor<16x8xf32>
    %188 = stablehlo.dot_general %181, %184, contracting_dims = [1] x [1] : (tensor<12x8xf32>, tensor<16x8xf32>) -> tensor<12x16xf32>
    %189 = stablehlo.reshape %188 : (tensor<12x16xf32>) -> tensor<2x6x16xf32>
    %190 = stablehlo.select %157, %189, %112 : tensor<2x6x16xi1>, tensor<2x6x16xf32>
    %191 = stablehlo.reduce(%190 init: %114) applies stablehlo.maximum across dimensions = [2] : (tensor<2x6x16xf32>, tensor<f32>) -> tensor<2x6xf32>
    %192 = stablehlo.broadcast_in_dim %191, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x16xf32>
    %193 = stablehlo.subtract %190, %192 : tensor<2x6x16xf32>
    %194 = stablehlo.exponential %193 : tensor<2x6x16xf32>
    %195 = stablehlo.reduce(%194 init: %27) applies stablehlo.add across dimensions = [2] : (tensor<2x6x16xf32>, tensor<f32>) -> tensor<2x6xf32>
    %196 = stablehlo.reshape %195 : (tensor<2x6xf32>) -> tensor<1x1x2x6xf32>
    %197 = stablehlo.reshape %194 : (tensor<2x6x16xf32>) -> tensor<12x16xf32>
    %198 = stablehlo.dot_general %197, %187, contracting_dims = [1] x [0] : (tensor<12x16xf32>, tensor<16x8xf32>) -> tensor<12x8xf32>
    %199 = stablehlo.reshape %198 : (tensor<12x8xf32>) -> tensor<1x1x2x6x8xf32>
    %200 = stablehlo.concatenate %178, %199, dim = 1 : (tensor<1x1x2x6x8xf32>, tensor<1x1x2x6x8xf32>) -> tensor<1x2x2x6x8xf32>
    %201 = stablehlo.concatenate %175, %196, dim = 1 : (tensor<1x1x2x6xf32>, tensor<1x1x2x6xf32>) -> tensor<1x2x2x6xf32>
    %202 = stablehlo.concatenate %145, %200, dim = 0 : (tensor<1x2x2x6x8xf32>, tensor<1x2x2x6x8xf32>) -> tensor<2x2x2x6x8xf32>
    %203 = stablehlo.concatenate %146, %201, dim = 0 : (tensor<1x2x2x6xf32>, tensor<1x2x2x6xf32>) -> tensor<2x2x2x6xf32>
    %204 = stablehlo.transpose %202, dims = [1, 2, 4, 0, 3] : (tensor<2x2x2x6x8xf32>) -> tensor<2x2x8x2x6xf32>
    %205 = stablehlo.transpose %203, dims = [1, 2, 0, 3] : (tensor<2x2x2x6xf32>) -> tensor<2x2x2x6xf32>
    %206 = stablehlo.broadcast_in_dim %205, dims = [0, 1, 3, 4] : (tensor<2x2x2x6xf32>) -> tensor<2x2x8x2x6xf32>
    %207 = stablehlo.divide %204, %206 : tensor<2x2x8x2x6xf32>
    %208 = stablehlo.reshape %207 : (tensor<2x2x8x2x6xf32>) -> tensor<32x12xf32>
    %209 = stablehlo.slice %10 [64:96, 0:12] : (tensor<96x12xf32>) -> tensor<32x12xf32>
    %210 = stablehlo.logistic %209 : tensor<32x12xf32>
    %211 = stablehlo.multiply %208, %210 : tensor<32x12xf32>
    %212 = stablehlo.dot_general %oProj, %211, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x12xf32>) -> tensor<32x12xf32>
    %213 = stablehlo.dot_general %212, %212, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x12xf32>, tensor<32x12xf32>) -> tensor<12xf32>
    %214 = stablehlo.multiply %213, %1 : tensor<12xf32>
    %215 = stablehlo.add %214, %3 : tensor<12xf32>
    %216 = stablehlo.rsqrt %215 : tensor<12xf32>
    %217 = stablehlo.broadcast_in_dim %216, dims = [1] : (tensor<12xf32>) -> tensor<32x12xf32>
    %218 = stablehlo.multiply %212, %217 : tensor<32x12xf32>
    %219 = stablehlo.broadcast_in_dim %mixerOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x12xf32>
    %220 = stablehlo.multiply %218, %219 : tensor<32x12xf32>
    %221 = stablehlo.add %x, %220 : tensor<32x12xf32>
    %222 = stablehlo.dot_general %221, %221, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x12xf32>, tensor<32x12xf32>) -> tensor<12xf32>
    %223 = stablehlo.multiply %222, %1 : tensor<12xf32>
    %224 = stablehlo.add %223, %3 : tensor<12xf32>
    %225 = stablehlo.rsqrt %224 : tensor<12xf32>
    %226 = stablehlo.broadcast_in_dim %225, dims = [1] : (tensor<12xf32>) -> tensor<32x12xf32>
    %227 = stablehlo.multiply %221, %226 : tensor<32x12xf32>
    %228 = stablehlo.broadcast_in_dim %postAttnNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x12xf32>
    %229 = stablehlo.multiply %227, %228 : tensor<32x12xf32>
    %230 = stablehlo.dot_general %gateUpProj, %229, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x12xf32>) -> tensor<96x12xf32>
    %231 = stablehlo.slice %230 [0:48, 0:12] : (tensor<96x12xf32>) -> tensor<48x12xf32>
    %232 = stablehlo.slice %230 [48:96, 0:12] : (tensor<96x12xf32>) -> tensor<48x12xf32>
    %233 = stablehlo.logistic %231 : tensor<48x12xf32>
    %234 = stablehlo.multiply %231, %233 : tensor<48x12xf32>
    %235 = stablehlo.multiply %234, %232 : tensor<48x12xf32>
    %236 = stablehlo.dot_general %downProj, %235, contracting_dims = [1] x [0] : (tensor<32x48xf32>, tensor<48x12xf32>) -> tensor<32x12xf32>
    %237 = stablehlo.dot_general %236, %236, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x12xf32>, tensor<32x12xf32>) -> tensor<12xf32>
    %238 = stablehlo.multiply %237, %1 : tensor<12xf32>
    %239 = stablehlo.add %238, %3 : tensor<12xf32>
    %240 = stablehlo.rsqrt %239 : tensor<12xf32>
    %241 = stablehlo.broadcast_in_dim %240, dims = [1] : (tensor<12xf32>) -> tensor<32x12xf32>
    %242 = stablehlo.multiply %236, %241 : tensor<32x12xf32>
    %243 = stablehlo.broadcast_in_dim %ffnOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x12xf32>
    %244 = stablehlo.multiply %242, %243 : tensor<32x12xf32>
    %245 = stablehlo.add %221, %244 : tensor<32x12xf32>
    return %245, %70, %71 : tensor<32x12xf32>, tensor<17x4x2x8xf32>, tensor<17x4x2x8xf32>
  }
  func.func private @layer1(%x: tensor<32x12xf32>, %keys: tensor<65x4x2x8xf32>, %values: tensor<65x4x2x8xf32>, %writeIndices: tensor<12x2xi32>, %historySlots: tensor<2x64xi32>, %historyPositions: tensor<2x64xi32>, %visibility: tensor<2x6xi32>, %inputNorm: tensor<32xf32>, %qkvProj: tensor<96x32xf32>, %qkvBias: tensor<64xf32>, %oProj: tensor<32x32xf32>, %mixerOutputNorm: tensor<32xf32>, %postAttnNorm: tensor<32xf32>, %gateUpProj: tensor<96x32xf32>, %downProj: tensor<32x48xf32>, %ffnOutputNorm: tensor<32xf32>) -> (tensor<32x12xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>) {
    %0 = stablehlo.dot_general %x, %x, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x12xf32>, tensor<32x12xf32>) -> tensor<12xf32>
    %1 = stablehlo.constant dense<0.03125> : tensor<12xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<12xf32>
    %3 = stablehlo.constant dense<1.0e-5> : tensor<12xf32>
    %4 = stablehlo.add %2, %3 : tensor<12xf32>
    %5 = stablehlo.rsqrt %4 : tensor<12xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [1] : (tensor<12xf32>) -> tensor<32x12xf32>
    %7 = stablehlo.multiply %x, %6 : tensor<32x12xf32>
    %8 = stablehlo.broadcast_in_dim %inputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x12xf32>
    %9 = stablehlo.multiply %7, %8 : tensor<32x12xf32>
    %10 = stablehlo.dot_general %qkvProj, %9, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x12xf32>) -> tensor<96x12xf32>
    %11 = stablehlo.slice %10 [0:32, 0:12] : (tensor<96x12xf32>) -> tensor<32x12xf32>
    %12 = stablehlo.slice %qkvBias [0:32] : (tensor<64xf32>) -> tensor<32xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<32xf32>) -> tensor<32x12xf32>
    %14 = stablehlo.add %11, %13 : tensor<32x12xf32>
    %15 = stablehlo.reshape %14 : (tensor<32x12xf32>) -> tensor<4x8x12xf32>
    %16 = stablehlo.slice %10 [32:48, 0:12] : (tensor<96x12xf32>) -> tensor<16x12xf32>
    %17 = stablehlo.slice %qkvBias [32:48] : (tensor<64xf32>) -> tensor<16xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0] : (tensor<16xf32>) -> tensor<16x12xf32>
    %19 = stablehlo.add %16, %18 : tensor<16x12xf32>
    %20 = stablehlo.reshape %19 : (tensor<16x12xf32>) -> tensor<2x8x12xf32>
    %21 = stablehlo.slice %10 [48:64, 0:12] : (tensor<96x12xf32>) -> tensor<16x12xf32>
    %22 = stablehlo.slice %qkvBias [48:64] : (tensor<64xf32>) -> tensor<16xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0] : (tensor<16xf32>) -> tensor<16x12xf32>
    %24 = stablehlo.add %21, %23 : tensor<16x12xf32>
    %25 = stablehlo.reshape %24 : (tensor<16x12xf32>) -> tensor<2x8x12xf32>
    %26 = stablehlo.multiply %15, %15 : tensor<4x8x12xf32>
    %27 = stablehlo.constant dense<0.0> : tensor<f32>
    %28 = stablehlo.reduce(%26 init: %27) applies stablehlo.add across dimensions = [1] : (tensor<4x8x12xf32>, tensor<f32>) -> tensor<4x12xf32>
    %29 = stablehlo.constant dense<0.125> : tensor<4x12xf32>
    %30 = stablehlo.multiply %28, %29 : tensor<4x12xf32>
    %31 = stablehlo.constant dense<1.0e-5> : tensor<4x12xf32>
    %32 = stablehlo.add %30, %31 : tensor<4x12xf32>
    %33 = stablehlo.rsqrt %32 : tensor<4x12xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 2] : (tensor<4x12xf32>) -> tensor<4x8x12xf32>
    %35 = stablehlo.multiply %15, %34 : tensor<4x8x12xf32>
    %36 = stablehlo.multiply %20, %20 : tensor<2x8x12xf32>
    %37 = stablehlo.reduce(%36 init: %27) applies stablehlo.add across dimensions = [1] : (tensor<2x8x12xf32>, tensor<f32>) -> tensor<2x12xf32>
    %38 = stablehlo.constant dense<0.125> : tensor<2x12xf32>
    %39 = stablehlo.multiply %37, %38 : tensor<2x12xf32>
    %40 = stablehlo.constant dense<1.0e-5> : tensor<2x12xf32>
    %41 = stablehlo.add %39, %40 : tensor<2x12xf32>
    %42 = stablehlo.rsqrt %41 : tensor<2x12xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 2] : (tensor<2x12xf32>) -> tensor<2x8x12xf32>
    %44 = stablehlo.multiply %20, %43 : tensor<2x8x12xf32>
    %45 = stablehlo.constant dense<0.53033006> : tensor<4x8x12xf32>
    %46 = stablehlo.multiply %35, %45 : tensor<4x8x12xf32>
    %47 = stablehlo.transpose %46, dims = [2, 0, 1] : (tensor<4x8x12xf32>) -> tensor<12x4x8xf32>
    %48 = stablehlo.transpose %44, dims = [2, 0, 1] : (tensor<2x8x12xf32>) -> tensor<12x2x8xf32>
    %49 = stablehlo.transpose %25, dims = [2, 0, 1] : (tensor<2x8x12xf32>) -> tensor<12x2x8xf32>
    %50 = "stablehlo.scatter"(%keys, %writeIndices, %48) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old50: tensor<f32>, %new50: tensor<f32>):
      stablehlo.return %new50 : tensor<f32>
    }) : (tensor<65x4x2x8xf32>, tensor<12x2xi32>, tensor<12x2x8xf32>) -> tensor<65x4x2x8xf32>
    %51 = "stablehlo.scatter"(%values, %writeIndices, %49) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old51: tensor<f32>, %new51: tensor<f32>):
      stablehlo.return %new51 : tensor<f32>
    }) : (tensor<65x4x2x8xf32>, tensor<12x2xi32>, tensor<12x2x8xf32>) -> tensor<65x4x2x8xf32>
    %52 = stablehlo.reshape %47 : (tensor<12x4x8xf32>) -> tensor<2x6x2x2x8xf32>
    %53 = stablehlo.transpose %52, dims = [0, 2, 3, 1, 4] : (tensor<2x6x2x2x8xf32>) -> tensor<2x2x2x6x8xf32>
    %54 = stablehlo.reshape %53 : (tensor<2x2x2x6x8xf32>) -> tensor<2x2x12x8xf32>
    %55 = stablehlo.reshape %50 : (tensor<65x4x2x8xf32>) -> tensor<260x16xf32>
    %56 = stablehlo.reshape %historySlots : (tensor<2x64xi32>) -> tensor<128xi32>
    %57 = stablehlo.reshape %56 : (tensor<128xi32>) -> tensor<128x1xi32>
    %58 = "stablehlo.gather"(%55, %57) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<260x16xf32>, tensor<128x1xi32>) -> tensor<128x16xf32>
    %59 = stablehlo.reshape %58 : (tensor<128x16xf32>) -> tensor<2x64x16xf32>
    %60 = stablehlo.reshape %59 : (tensor<2x64x16xf32>) -> tensor<2x64x2x8xf32>
    %61 = stablehlo.transpose %60, dims = [0, 2, 1, 3] : (tensor<2x64x2x8xf32>) -> tensor<2x2x64x8xf32>
    %62 = stablehlo.reshape %51 : (tensor<65x4x2x8xf32>) -> tensor<260x16xf32>
    %63 = stablehlo.reshape %historySlots : (tensor<2x64xi32>) -> tensor<128xi32>
    %64 = stablehlo.reshape %63 : (tensor<128xi32>) -> tensor<128x1xi32>
    %65 = "stablehlo.gather"(%62, %64) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<260x16xf32>, tensor<128x1xi32>) -> tensor<128x16xf32>
    %66 = stablehlo.reshape %65 : (tensor<128x16xf32>) -> tensor<2x64x16xf32>
    %67 = stablehlo.reshape %66 : (tensor<2x64x16xf32>) -> tensor<2x64x2x8xf32>
    %68 = stablehlo.transpose %67, dims = [0, 2, 1, 3] : (tensor<2x64x2x8xf32>) -> tensor<2x2x64x8xf32>
    %69 = stablehlo.slice %historyPositions [0:1, 0:64] : (tensor<2x64xi32>) -> tensor<1x64xi32>
    %70 = stablehlo.reshape %69 : (tensor<1x64xi32>) -> tensor<64xi32>
    %71 = stablehlo.broadcast_in_dim %70, dims = [1] : (tensor<64xi32>) -> tensor<6x64xi32>
    %72 = stablehlo.slice %visibility [0:1, 0:6] : (tensor<2x6xi32>) -> tensor<1x6xi32>
    %73 = stablehlo.reshape %72 : (tensor<1x6xi32>) -> tensor<6xi32>
    %74 = stablehlo.broadcast_in_dim %73, dims = [0] : (tensor<6xi32>) -> tensor<6x64xi32>
    %75 = stablehlo.compare LE, %71, %74, SIGNED : (tensor<6x64xi32>, tensor<6x64xi32>) -> tensor<6x64xi1>
    %76 = stablehlo.broadcast_in_dim %75, dims = [1, 2] : (tensor<6x64xi1>) -> tensor<2x6x64xi1>
    %77 = stablehlo.slice %54 [0:1, 0:2, 0:12, 0:8] : (tensor<2x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %78 = stablehlo.slice %77 [0:1, 0:1, 0:12, 0:8] : (tensor<1x2x12x8xf32>) -> tensor<1x1x12x8xf32>
    %79 = stablehlo.reshape %78 : (tensor<1x1x12x8xf32>) -> tensor<12x8xf32>
    %80 = stablehlo.slice %61 [0:1, 0:2, 0:64, 0:8] : (tensor<2x2x64x8xf32>) -> tensor<1x2x64x8xf32>
    %81 = stablehlo.slice %80 [0:1, 0:1, 0:64, 0:8] : (tensor<1x2x64x8xf32>) -> tensor<1x1x64x8xf32>
    %82 = stablehlo.reshape %81 : (tensor<1x1x64x8xf32>) -> tensor<64x8xf32>
    %83 = stablehlo.slice %68 [0:1, 0:2, 0:64, 0:8] : (tensor<2x2x64x8xf32>) -> tensor<1x2x64x8xf32>
    %84 = stablehlo.slice %83 [0:1, 0:1, 0:64, 0:8] : (tensor<1x2x64x8xf32>) -> tensor<1x1x64x8xf32>
    %85 = stablehlo.reshape %84 : (tensor<1x1x64x8xf32>) -> tensor<64x8xf32>
    %86 = stablehlo.dot_general %79, %82, contracting_dims = [1] x [1] : (tensor<12x8xf32>, tensor<64x8xf32>) -> tensor<12x64xf32>
    %87 = stablehlo.reshape %86 : (tensor<12x64xf32>) -> tensor<2x6x64xf32>
    %88 = stablehlo.constant dense<-1.0e30> : tensor<2x6x64xf32>
    %89 = stablehlo.select %76, %87, %88 : tensor<2x6x64xi1>, tensor<2x6x64xf32>
    %90 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %91 = stablehlo.reduce(%89 init: %90) applies stablehlo.maximum across dimensions = [2] : (tensor<2x6x64xf32>, tensor<f32>) -> tensor<2x6xf32>
    %92 = stablehlo.broadcast_in_dim %91, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x64xf32>
    %93 = stablehlo.subtract %89, %92 : tensor<2x6x64xf32>
    %94 = stablehlo.exponential %93 : tensor<2x6x64xf32>
    %95 = stablehlo.reduce(%94 init: %27) applies stablehlo.add across dimensions = [2] : (tensor<2x6x64xf32>, tensor<f32>) -> tensor<2x6xf32>
    %96 = stablehlo.reshape %95 : (tensor<2x6xf32>) -> tensor<1x1x2x6xf32>
    %97 = stablehlo.reshape %94 : (tensor<2x6x64xf32>) -> tensor<12x64xf32>
    %98 = stablehlo.dot_general %97, %85, contracting_dims = [1] x [0] : (tensor<12x64xf32>, tensor<64x8xf32>) -> tensor<12x8xf32>
    %99 = stablehlo.reshape %98 : (tensor<12x8xf32>) -> tensor<1x1x2x6x8xf32>
    %100 = stablehlo.slice %54 [0:1, 0:2, 0:12, 0:8] : (tensor<2x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %101 = stablehlo.slice %100 [0:1, 1:2, 0:12, 0:8] : (tensor<1x2x12x8xf32>) -> tensor<1x1x12x8xf32>
    %102 = stablehlo.reshape %101 : (tensor<1x1x12x8xf32>) -> tensor<12x8xf32>
    %103 = stablehlo.slice %61 [0:1, 0:2, 0:64, 0:8] : (tensor<2x2x64x8xf32>) -> tensor<1x2x64x8xf32>
    %104 = stablehlo.slice %103 [0:1, 1:2, 0:64, 0:8] : (tensor<1x2x64x8xf32>) -> tensor<1x1x64x8xf32>
    %105 = stablehlo.reshape %104 : (tensor<1x1x64x8xf32>) -> tensor<64x8xf32>
    %106 = stablehlo.slice %68 [0:1, 0:2, 0:64, 0:8] : (tensor<2x2x64x8xf32>) -> tensor<1x2x64x8xf32>
    %107 = stablehlo.slice %106 [0:1, 1:2, 0:64, 0:8] : (tensor<1x2x64x8xf32>) -> tensor<1x1x64x8xf32>
    %108 = stablehlo.reshape %107 : (tensor<1x1x64x8xf32>) -> tensor<64x8xf32>
    %109 = stablehlo.dot_general %102, %105, contracting_dims = [1] x [1] : (tensor<12x8xf32>, tensor<64x8xf32>) -> tensor<12x64xf32>
    %110 = stablehlo.reshape %109 : (tensor<12x64xf32>) -> tensor<2x6x64xf32>
    %111 = stablehlo.select %76, %110, %88 : tensor<2x6x64xi1>, tensor<2x6x64xf32>
    %112 = stablehlo.reduce(%111 init: %90) applies stablehlo.maximum across dimensions = [2] : (tensor<2x6x64xf32>, tensor<f32>) -> tensor<2x6xf32>
    %113 = stablehlo.broadcast_in_dim %112, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x64xf32>
    %114 = stablehlo.subtract %111, %113 : tensor<2x6x64xf32>
    %115 = stablehlo.exponential %114 : tensor<2x6x64xf32>
    %116 = stablehlo.reduce(%115 init: %27) applies stablehlo.add across dimensions = [2] : (tensor<2x6x64xf32>, tensor<f32>) -> tensor<2x6xf32>
    %117 = stablehlo.reshape %116 : (tensor<2x6xf32>) -> tensor<1x1x2x6xf32>
    %118 = stablehlo.reshape %115 : (tensor<2x6x64xf32>) -> tensor<12x64xf32>
    %119 = stablehlo.dot_general %118, %108, contracting_dims = [1] x [0] : (tensor<12x64xf32>, tensor<64x8xf32>) -> tensor<12x8xf32>
    %120 = stablehlo.reshape %119 : (tensor<12x8xf32>) -> tensor<1x1x2x6x8xf32>
    %121 = stablehlo.concatenate %99, %120, dim = 1 : (tensor<1x1x2x6x8xf32>, tensor<1x1x2x6x8xf32>) -> tensor<1x2x2x6x8xf32>
    %122 = stablehlo.concatenate %96, %117, dim = 1 : (tensor<1x1x2x6xf32>, tensor<1x1x2x6xf32>) -> tensor<1x2x2x6xf32>
    %123 = stablehlo.slice %historyPositions [1:2, 0:64] : (tensor<2x64xi32>) -> tensor<1x64xi32>
    %124 = stablehlo.reshape %123 : (tensor<1x64xi32>) -> tensor<64xi32>
    %125 = stablehlo.broadcast_in_dim %124, dims = [1] : (tensor<64xi32>) -> tensor<6x64xi32>
    %126 = stablehlo.slice %visibility [1:2, 0:6] : (tensor<2x6xi32>) -> tensor<1x6xi32>
    %127 = stablehlo.reshape %126 : (tensor<1x6xi32>) -> tensor<6xi32>
    %128 = stablehlo.broadcast_in_dim %127, dims = [0] : (tensor<6xi32>) -> tensor<6x64xi32>
    %129 = stablehlo.compare LE, %125, %128, SIGNED : (tensor<6x64xi32>, tensor<6x64xi32>) -> tensor<6x64xi1>
    %130 = stablehlo.broadcast_in_dim %129, dims = [1, 2] : (tensor<6x64xi1>) -> tensor<2x6x64xi1>
    %131 = stablehlo.slice %54 [1:2, 0:2, 0:12, 0:8] : (tensor<2x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %132 = stablehlo.slice %131 [0:1, 0:1, 0:12, 0:8] : (tensor<1x2x12x8xf32>) -> tensor<1x1x12x8xf32>
    %133 = stablehlo.reshape %132 : (tensor<1x1x12x8xf32>) -> tensor<12x8xf32>
    %134 = stablehlo.slice %61 [1:2, 0:2, 0:64, 0:8] : (tensor<2x2x64x8xf32>) -> tensor<1x2x64x8xf32>
    %135 = stablehlo.slice %134 [0:1, 0:1, 0:64, 0:8] : (tensor<1x2x64x8xf32>) -> tensor<1x1x64x8xf32>
    %136 = stablehlo.reshape %135 : (tensor<1x1x64x8xf32>) -> tensor<64x8xf32>
    %137 = stablehlo.slice %68 [1:2, 0:2, 0:64, 0:8] : (tensor<2x2x64x8xf32>) -> tensor<1x2x64x8xf32>
    %138 = stablehlo.slice %137 [0:1, 0:1, 0:64, 0:8] : (tensor<1x2x64x8xf32>) -> tensor<1x1x64x8xf32>
    %139 = stablehlo.reshape %138 : (tensor<1x1x64x8xf32>) -> tensor<64x8xf32>
    %140 = stablehlo.dot_general %133, %136, contracting_dims = [1] x [1] : (tensor<12x8xf32>, tensor<64x8xf32>) -> tensor<12x64xf32>
    %141 = stablehlo.reshape %140 : (tensor<12x64xf32>) -> tensor<2x6x64xf32>
    %142 = stablehlo.select %130, %141, %88 : tensor<2x6x64xi1>, tensor<2x6x64xf32>
    %143 = stablehlo.reduce(%142 init: %90) applies stablehlo.maximum across dimensions = [2] : (tensor<2x6x64xf32>, tensor<f32>) -> tensor<2x6xf32>
    %144 = stablehlo.broadcast_in_dim %143, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x64xf32>
    %145 = stablehlo.subtract %142, %144 : tensor<2x6x64xf32>
    %146 = stablehlo.exponential %145 : tensor<2x6x64xf32>
    %147 = stablehlo.reduce(%146 init: %27) applies stablehlo.add across dimensions = [2] : (tensor<2x6x64xf32>, tensor<f32>) -> tensor<2x6xf32>
    %148 = stablehlo.reshape %147 : (tensor<2x6xf32>) -> tensor<1x1x2x6xf32>
    %149 = stablehlo.reshape %146 : (tensor<2x6x64xf32>) -> tensor<12x64xf32>
    %150 = stablehlo.dot_general %149, %139, contracting_dims = [1] x [0] : (tensor<12x64xf32>, tensor<64x8xf32>) -> tensor<12x8xf32>
    %151 = stablehlo.reshape %150 : (tensor<12x8xf32>) -> tensor<1x1x2x6x8xf32>
    %152 = stablehlo.slice %54 [1:2, 0:2, 0:12, 0:8] : (tensor<2x2x12x8xf32>) -> tensor<1x2x12x8xf32>
    %153 = stablehlo.slice %152 [0:1, 1:2, 0:12, 0:8] : (tensor<1x2x12x8xf32>) -> tensor<1x1x12x8xf32>
    %154 = stablehlo.reshape %153 : (tensor<1x1x12x8xf32>) -> tensor<12x8xf32>
    %155 = stablehlo.slice %61 [1:2, 0:2, 0:64, 0:8] : (tensor<2x2x64x8xf32>) -> tensor<1x2x64x8xf32>
    %156 = stablehlo.slice %155 [0:1, 1:2, 0:64, 0:8] : (tensor<1x2x64x8xf32>) -> tensor<1x1x64x8xf32>
    %157 = stablehlo.reshape %156 : (tensor<1x1x64x8xf32>) -> tensor<64x8xf32>
    %158 = stablehlo.slice %68 [1:2, 0:2, 0:64, 0:8] : (tensor<2x2x64x8xf32>) -> tensor<1x2x64x8xf32>
    %159 = stablehlo.slice %158 [0:1, 1:2, 0:64, 0:8] : (tensor<1x2x64x8xf32>) -> tensor<1x1x64x8xf32>
    %160 = stablehlo.reshape %159 : (tensor<1x1x64x8xf32>) -> tensor<64x8xf32>
    %161 = stablehlo.dot_general %154, %157, contracting_dims = [1] x [1] : (tensor<12x8xf32>, tensor<64x8xf32>) -> tensor<12x64xf32>
    %162 = stablehlo.reshape %161 : (tensor<12x64xf32>) -> tensor<2x6x64xf32>
    %163 = stablehlo.select %130, %162, %88 : tensor<2x6x64xi1>, tensor<2x6x64xf32>
    %164 = stablehlo.reduce(%163 init: %90) applies stablehlo.maximum across dimensions = [2] : (tensor<2x6x64xf32>, tensor<f32>) -> tensor<2x6xf32>
    %165 = stablehlo.broadcast_in_dim %164, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x64xf32>
    %166 = stablehlo.subtract %163, %165 : tensor<2x6x64xf32>
    %167 = stablehlo.exponential %166 : tensor<2x6x64xf32>
    %168 = stablehlo.reduce(%167 init: %27) applies stablehlo.add across dimensions = [2] : (tensor<2x6x64xf32>, tensor<f32>) -> tensor<2x6xf32>
    %169 = stablehlo.reshape %168 : (tensor<2x6xf32>) -> tensor<1x1x2x6xf32>
    %170 = stablehlo.reshape %167 : (tensor<2x6x64xf32>) -> tensor<12x64xf32>
    %171 = stablehlo.dot_general %170, %160, contracting_dims = [1] x [0] : (tensor<12x64xf32>, tensor<64x8xf32>) -> tensor<12x8xf32>
    %172 = stablehlo.reshape %171 : (tensor<12x8xf32>) -> tensor<1x1x2x6x8xf32>
    %173 = stablehlo.concatenate %151, %172, dim = 1 : (tensor<1x1x2x6x8xf32>, tensor<1x1x2x6x8xf32>) -> tensor<1x2x2x6x8xf32>
    %174 = stablehlo.concatenate %148, %169, dim = 1 : (tensor<1x1x2x6xf32>, tensor<1x1x2x6xf32>) -> tensor<1x2x2x6xf32>
    %175 = stablehlo.concatenate %121, %173, dim = 0 : (tensor<1x2x2x6x8xf32>, tensor<1x2x2x6x8xf32>) -> tensor<2x2x2x6x8xf32>
    %176 = stablehlo.concatenate %122, %174, dim = 0 : (tensor<1x2x2x6xf32>, tensor<1x2x2x6xf32>) -> tensor<2x2x2x6xf32>
    %177 = stablehlo.transpose %175, dims = [1, 2, 4, 0, 3] : (tensor<2x2x2x6x8xf32>) -> tensor<2x2x8x2x6xf32>
    %178 = stablehlo.transpose %176, dims = [1, 2, 0, 3] : (tensor<2x2x2x6xf32>) -> tensor<2x2x2x6xf32>
    %179 = stablehlo.broadcast_in_dim %178, dims = [0, 1, 3, 4] : (tensor<2x2x2x6xf32>) -> tensor<2x2x8x2x6xf32>
    %180 = stablehlo.divide %177, %179 : tensor<2x2x8x2x6xf32>
    %181 = stablehlo.reshape %180 : (tensor<2x2x8x2x6xf32>) -> tensor<32x12xf32>
    %182 = stablehlo.slice %10 [64:96, 0:12] : (tensor<96x12xf32>) -> tensor<32x12xf32>
    %183 = stablehlo.logistic %182 : tensor<32x12xf32>
    %184 = stablehlo.multiply %181, %183 : tensor<32x12xf32>
    %185 = stablehlo.dot_general %oProj, %184, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x12xf32>) -> tensor<32x12xf32>
    %186 = stablehlo.dot_general %185, %185, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x12xf32>, tensor<32x12xf32>) -> tensor<12xf32>
    %187 = stablehlo.multiply %186, %1 : tensor<12xf32>
    %188 = stablehlo.add %187, %3 : tensor<12xf32>
    %189 = stablehlo.rsqrt %188 : tensor<12xf32>
    %190 = stablehlo.broadcast_in_dim %189, dims = [1] : (tensor<12xf32>) -> tensor<32x12xf32>
    %191 = stablehlo.multiply %185, %190 : tensor<32x12xf32>
    %192 = stablehlo.broadcast_in_dim %mixerOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x12xf32>
    %193 = stablehlo.multiply %191, %192 : tensor<32x12xf32>
    %194 = stablehlo.add %x, %193 : tensor<32x12xf32>
    %195 = stablehlo.dot_general %194, %194, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x12xf32>, tensor<32x12xf32>) -> tensor<12xf32>
    %196 = stablehlo.multiply %195, %1 : tensor<12xf32>
    %197 = stablehlo.add %196, %3 : tensor<12xf32>
    %198 = stablehlo.rsqrt %197 : tensor<12xf32>
    %199 = stablehlo.broadcast_in_dim %198, dims = [1] : (tensor<12xf32>) -> tensor<32x12xf32>
    %200 = stablehlo.multiply %194, %199 : tensor<32x12xf32>
    %201 = stablehlo.broadcast_in_dim %postAttnNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x12xf32>
    %202 = stablehlo.multiply %200, %201 : tensor<32x12xf32>
    %203 = stablehlo.dot_general %gateUpProj, %202, contracting_dims = [1] x [0] : (tensor<96x32xf32>, tensor<32x12xf32>) -> tensor<96x12xf32>
    %204 = stablehlo.slice %203 [0:48, 0:12] : (tensor<96x12xf32>) -> tensor<48x12xf32>
    %205 = stablehlo.slice %203 [48:96, 0:12] : (tensor<96x12xf32>) -> tensor<48x12xf32>
    %206 = stablehlo.logistic %204 : tensor<48x12xf32>
    %207 = stablehlo.multiply %204, %206 : tensor<48x12xf32>
    %208 = stablehlo.multiply %207, %205 : tensor<48x12xf32>
    %209 = stablehlo.dot_general %downProj, %208, contracting_dims = [1] x [0] : (tensor<32x48xf32>, tensor<48x12xf32>) -> tensor<32x12xf32>
    %210 = stablehlo.dot_general %209, %209, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<32x12xf32>, tensor<32x12xf32>) -> tensor<12xf32>
    %211 = stablehlo.multiply %210, %1 : tensor<12xf32>
    %212 = stablehlo.add %211, %3 : tensor<12xf32>
    %213 = stablehlo.rsqrt %212 : tensor<12xf32>
    %214 = stablehlo.broadcast_in_dim %213, dims = [1] : (tensor<12xf32>) -> tensor<32x12xf32>
    %215 = stablehlo.multiply %209, %214 : tensor<32x12xf32>
    %216 = stablehlo.broadcast_in_dim %ffnOutputNorm, dims = [0] : (tensor<32xf32>) -> tensor<32x12xf32>
    %217 = stablehlo.multiply %215, %216 : tensor<32x12xf32>
    %218 = stablehlo.add %194, %217 : tensor<32x12xf32>
    return %218, %50, %51 : tensor<32x12xf32>, tensor<65x4x2x8xf32>, tensor<65x4x2x8xf32>
  }
}
