module @program {
  func.func public @main(%tokenIds: tensor<1x1xi32>, %positions: tensor<1x1xi32>, %blockTables: tensor<1x2xi32>, %seqLens: tensor<1xi32>, %slotMapping: tensor<1xi32>, %keyCache0: tensor<6x2x2x2xf32> {tf.aliasing_output = 1 : i32}, %valueCache0: tensor<6x2x2x2xf32> {tf.aliasing_output = 2 : i32}) -> (tensor<1x1x11xf32>, tensor<6x2x2x2xf32>, tensor<6x2x2x2xf32>) {
    %0 = stablehlo.constant dense<[[-0.15358174, 0.018814802, 0.29671872, -0.23427331, 0.5908954, 0.0010224581, 0.1078707, -0.8691615], [0.6794522, -0.60311997, 0.49153173, 0.0715152, 0.56736684, -0.36590123, -0.5128373, 0.4998436], [-0.1509273, 0.14428854, 0.24526513, -0.5935435, 0.7317641, 0.9592432, 0.099505305, 0.24321628], [-0.22561216, 0.57655895, 0.1793859, -0.89015996, 0.9295132, 0.7758235, -0.43356907, 0.28055692], [-0.35846806, 0.09441006, 0.07881844, -0.50347376, 0.60038817, -0.63261676, -0.96518695, -0.38866258], [-0.55041397, 0.27552736, 0.97362006, -0.28249323, 0.16345918, -0.4243915, -0.6278776, 0.11918235], [-0.97354484, -0.6354288, -0.08273995, -0.42444503, 0.2706821, -0.9928533, 0.1938982, 0.9475901], [-0.28815138, 0.874756, 0.6723807, -0.8536577, -0.43678856, 0.27199054, -0.52700675, 0.68247175], [0.31872487, -0.8223027, 0.06322396, -0.5521412, 0.827314, -0.75168943, 0.00195539, -0.5793278], [-0.31033647, 0.9607917, 0.57395375, 0.9248668, -0.9257382, -0.2692163, 0.22432959, 0.14275694], [-0.04990256, -0.80272734, -0.12179434, -0.84958124, -0.7215321, -0.48328757, 0.3329134, -0.9626521]]> : tensor<11x8xf32>
    %1 = stablehlo.reshape %tokenIds : (tensor<1x1xi32>) -> tensor<1xi32>
    %2 = stablehlo.reshape %1 : (tensor<1xi32>) -> tensor<1x1xi32>
    %3 = "stablehlo.gather"(%0, %2) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<11x8xf32>, tensor<1x1xi32>) -> tensor<1x8xf32>
    %4 = stablehlo.constant dense<[[-0.82637596, 0.087721825, 0.35748088, -0.9148514, 0.8042177, 0.7116864, 0.38718343, 0.04028046], [-0.27254224, 0.7192712, 0.40667844, -0.08785987, 0.12983894, -0.6034883, 0.4375919, 0.9857173], [-0.5592978, 0.29890728, -0.18534732, -0.4097587, -0.36613548, -0.41956306, -0.59803295, 0.71402884], [0.4935181, 0.8032054, -0.43872142, -0.1431489, -0.25958896, 0.83285844, 0.7473248, 0.23493946], [0.20342827, -0.7131777, 0.3960302, -0.18542981, 0.3414352, 0.14820373, -0.5385791, 0.8239176], [-0.68281126, -0.2888559, 0.7095041, 0.17490602, 0.15000308, 0.5002973, 0.12496531, 0.713586], [-0.47035885, 0.8454107, 0.53495824, -0.17387867, 0.24304974, -0.45957994, -0.2533641, -0.9013562], [0.07325673, -0.76263523, 0.13766336, -0.80836475, 0.4060713, -0.06059313, 0.54061854, -0.4077059]]> : tensor<8x8xf32>
    %5 = stablehlo.dot_general %3, %4, contracting_dims = [1] x [0] : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
    %6 = stablehlo.reshape %5 : (tensor<1x8xf32>) -> tensor<1x2x2x2xf32>
    %7 = stablehlo.constant dense<1> : tensor<1xi32>
    %8 = stablehlo.shift_right_arithmetic %slotMapping, %7 : tensor<1xi32>
    %9 = stablehlo.and %slotMapping, %7 : tensor<1xi32>
    %10 = stablehlo.reshape %8 : (tensor<1xi32>) -> tensor<1x1xi32>
    %11 = stablehlo.reshape %9 : (tensor<1xi32>) -> tensor<1x1xi32>
    %12 = stablehlo.concatenate %10, %11, dim = 1 : (tensor<1x1xi32>, tensor<1x1xi32>) -> tensor<1x2xi32>
    %13 = stablehlo.constant dense<-1> : tensor<1x2xi32>
    %14 = stablehlo.concatenate %12, %13, dim = 0 : (tensor<1x2xi32>, tensor<1x2xi32>) -> tensor<2x2xi32>
    %15 = stablehlo.constant dense<[[-0.60978174, -0.25876713, 0.89737105, -0.1376313], [-0.5863328, -0.20358002, 0.3210783, -0.50313616], [-0.2363472, -0.68845725, -0.23273921, -0.2735299], [-0.57092714, 0.32059515, 0.795609, -0.39258814], [-0.48267722, 0.5786072, -0.2665825, 0.31277132], [-0.008291483, -0.9397712, 0.37766838, -0.5041388], [0.5917491, -0.0737015, 0.31887317, -0.10439086], [-0.9519187, -0.5491247, -0.03868687, 0.012111783]]> : tensor<8x4xf32>
    %16 = stablehlo.dot_general %3, %15, contracting_dims = [1] x [0] : (tensor<1x8xf32>, tensor<8x4xf32>) -> tensor<1x4xf32>
    %17 = stablehlo.reshape %16 : (tensor<1x4xf32>) -> tensor<1x2x2xf32>
    %18 = stablehlo.constant dense<0.0> : tensor<1x2x2xf32>
    %19 = stablehlo.concatenate %17, %18, dim = 0 : (tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<2x2x2xf32>
    %20 = "stablehlo.scatter"(%keyCache0, %14, %19) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old20: tensor<f32>, %new20: tensor<f32>):
      stablehlo.return %new20 : tensor<f32>
    }) : (tensor<6x2x2x2xf32>, tensor<2x2xi32>, tensor<2x2x2xf32>) -> tensor<6x2x2x2xf32>
    %21 = stablehlo.constant dense<[[0.9004495, -0.058836937, -0.9670025, -0.74933195], [0.793025, -0.47701335, -0.040815115, -0.74724674], [0.03303957, 0.25676262, 0.5150864, -0.4051597], [0.91754186, 0.6780871, -0.20415592, 0.66126096], [-0.08180773, 0.33900213, -0.13175917, -0.3722849], [0.3723365, 0.49995816, -0.9211885, 0.9498247], [-0.64353156, 0.086836815, -0.4564978, 0.83884156], [0.49832785, 0.44866288, -0.29260314, 0.9574084]]> : tensor<8x4xf32>
    %22 = stablehlo.dot_general %3, %21, contracting_dims = [1] x [0] : (tensor<1x8xf32>, tensor<8x4xf32>) -> tensor<1x4xf32>
    %23 = stablehlo.reshape %22 : (tensor<1x4xf32>) -> tensor<1x2x2xf32>
    %24 = stablehlo.concatenate %23, %18, dim = 0 : (tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<2x2x2xf32>
    %25 = "stablehlo.scatter"(%valueCache0, %14, %24) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
    ^bb0(%old25: tensor<f32>, %new25: tensor<f32>):
      stablehlo.return %new25 : tensor<f32>
    }) : (tensor<6x2x2x2xf32>, tensor<2x2xi32>, tensor<2x2x2xf32>) -> tensor<6x2x2x2xf32>
    %26 = stablehlo.constant dense<2> : tensor<1x2xi32>
    %27 = stablehlo.multiply %blockTables, %26 : tensor<1x2xi32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1] : (tensor<1x2xi32>) -> tensor<1x2x2xi32>
    %29 = stablehlo.iota dim = 2 : tensor<1x2x2xi32>
    %30 = stablehlo.add %28, %29 : tensor<1x2x2xi32>
    %31 = stablehlo.reshape %30 : (tensor<1x2x2xi32>) -> tensor<1x4xi32>
    %32 = stablehlo.reshape %20 : (tensor<6x2x2x2xf32>) -> tensor<12x4xf32>
    %33 = stablehlo.reshape %31 : (tensor<1x4xi32>) -> tensor<4xi32>
    %34 = stablehlo.reshape %33 : (tensor<4xi32>) -> tensor<4x1xi32>
    %35 = "stablehlo.gather"(%32, %34) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<12x4xf32>, tensor<4x1xi32>) -> tensor<4x4xf32>
    %36 = stablehlo.reshape %35 : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
    %37 = stablehlo.reshape %36 : (tensor<1x4x4xf32>) -> tensor<1x4x2x2xf32>
    %38 = stablehlo.transpose %37, dims = [0, 2, 1, 3] : (tensor<1x4x2x2xf32>) -> tensor<1x2x4x2xf32>
    %39 = stablehlo.reshape %25 : (tensor<6x2x2x2xf32>) -> tensor<12x4xf32>
    %40 = stablehlo.reshape %31 : (tensor<1x4xi32>) -> tensor<4xi32>
    %41 = stablehlo.reshape %40 : (tensor<4xi32>) -> tensor<4x1xi32>
    %42 = "stablehlo.gather"(%39, %41) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<12x4xf32>, tensor<4x1xi32>) -> tensor<4x4xf32>
    %43 = stablehlo.reshape %42 : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
    %44 = stablehlo.reshape %43 : (tensor<1x4x4xf32>) -> tensor<1x4x2x2xf32>
    %45 = stablehlo.transpose %44, dims = [0, 2, 1, 3] : (tensor<1x4x2x2xf32>) -> tensor<1x2x4x2xf32>
    %46 = stablehlo.dot_general %6, %38, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<1x2x2x2xf32>, tensor<1x2x4x2xf32>) -> tensor<1x2x2x4xf32>
    %47 = stablehlo.constant dense<0.70710677> : tensor<1x2x2x4xf32>
    %48 = stablehlo.multiply %46, %47 : tensor<1x2x2x4xf32>
    %49 = stablehlo.iota dim = 3 : tensor<1x2x2x4xi32>
    %50 = stablehlo.broadcast_in_dim %seqLens, dims = [0] : (tensor<1xi32>) -> tensor<1x2x2x4xi32>
    %51 = stablehlo.compare LT, %49, %50, SIGNED : (tensor<1x2x2x4xi32>, tensor<1x2x2x4xi32>) -> tensor<1x2x2x4xi1>
    %52 = stablehlo.constant dense<-1.0e30> : tensor<1x2x2x4xf32>
    %53 = stablehlo.select %51, %48, %52 : tensor<1x2x2x4xi1>, tensor<1x2x2x4xf32>
    %54 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %55 = stablehlo.reduce(%53 init: %54) applies stablehlo.maximum across dimensions = [3] : (tensor<1x2x2x4xf32>, tensor<f32>) -> tensor<1x2x2xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2] : (tensor<1x2x2xf32>) -> tensor<1x2x2x4xf32>
    %57 = stablehlo.subtract %53, %56 : tensor<1x2x2x4xf32>
    %58 = stablehlo.exponential %57 : tensor<1x2x2x4xf32>
    %59 = stablehlo.constant dense<0.0> : tensor<f32>
    %60 = stablehlo.reduce(%58 init: %59) applies stablehlo.add across dimensions = [3] : (tensor<1x2x2x4xf32>, tensor<f32>) -> tensor<1x2x2xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2] : (tensor<1x2x2xf32>) -> tensor<1x2x2x4xf32>
    %62 = stablehlo.divide %58, %61 : tensor<1x2x2x4xf32>
    %63 = stablehlo.dot_general %62, %45, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<1x2x2x4xf32>, tensor<1x2x4x2xf32>) -> tensor<1x2x2x2xf32>
    %64 = stablehlo.reshape %63 : (tensor<1x2x2x2xf32>) -> tensor<1x8xf32>
    %65 = stablehlo.constant dense<[[-0.7935939, -0.4417652, 0.79794836, -0.8140882, -0.3210913, 0.9511795, 0.51180685, 0.7690065, 0.64684105, -0.38472998, 0.5194111], [0.46018922, -0.9421642, -0.7790942, 0.004609227, 0.93885016, 0.30458558, 0.17928231, -0.83172107, 0.48699737, -0.5356765, -0.8342507], [-0.43272686, 0.67209256, 0.7664261, -0.33421016, -0.2482655, 0.91667736, 0.621012, -0.9928963, -0.6321838, 0.70809686, 0.30804253], [-0.41673553, 0.22676444, -0.2621845, 0.5199759, -0.99315894, -0.96289515, -0.47574353, -0.72071934, 0.5505712, -0.118498445, -0.34937572], [0.89316785, -0.20409775, 0.8468137, -0.28854513, 0.5901151, 0.9832617, -0.17067087, 0.834393, -0.44335604, 0.8389491, -0.58636], [-0.879954, -0.44873738, -0.38345504, 0.08569729, 0.119876266, -0.7175249, 0.27244055, -0.6030345, 0.11908662, 0.5524193, -0.8194742], [-0.18139517, 0.7882087, 0.9943961, -0.18807435, 0.52458763, 0.3845389, -0.5616213, 0.120696664, -0.8229439, 0.80845845, -0.81862247], [-0.6109221, -0.8375759, -0.24890924, -0.28169703, -0.8639679, -0.4572549, -0.033309698, 0.014441967, -0.6607194, 0.109692454, 0.4589995]]> : tensor<8x11xf32>
    %66 = stablehlo.dot_general %64, %65, contracting_dims = [1] x [0] : (tensor<1x8xf32>, tensor<8x11xf32>) -> tensor<1x11xf32>
    %67 = stablehlo.reshape %66 : (tensor<1x11xf32>) -> tensor<1x1x11xf32>
    return %67, %20, %25 : tensor<1x1x11xf32>, tensor<6x2x2x2xf32>, tensor<6x2x2x2xf32>
  }
}
