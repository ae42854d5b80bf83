"""Public complaints about servers, plugins and exporters, promises, and the tests that hold them.

A complaint is named as `repository#issue`. `LIMITS` are those without a test, which
`docs/known-limits.md` explains.
"""

COMPLAINTS = {
    # Sequences and correlation ids.
    "server#3577": ["tests/test_complaints.py::test_server_3577_slots_are_used_over_and_over"],
    "server#6846": [
        "tests/test_batching.py::test_l10_abandoned_sequences_are_reclaimed_oldest_first",
        "tests/test_linear_state.py::test_an_idle_sequence_gives_its_slot_back",
    ],
    "server#3652": [
        "engine/tests/rules/reclaim.rs::clients_that_idle_too_long_never_find_their_state_gone"
    ],
    "server#3492": ["tests/test_endurance.py::test_nothing_is_lost"],
    "server#4178": ["tests/test_batching.py::test_l15_queued_sequences_are_dropped_by_triton_only"],
    "server#8449": ["tests/test_complaints.py::test_server_8449_idle_sequences_are_told_of_once"],
    "server#7117": ["engine/tests/simulate/main.rs::schedules"],
    "core#341": ["engine/tests/simulate/main.rs::schedules"],
    "server#7571": ["tests/test_endurance.py::test_nothing_is_lost"],
    "server#4841": ["tests/test_endurance.py::test_many_at_once"],
    "server#3406": ["tests/test_refusals.py::test_a_step_or_end_of_an_unknown_sequence"],
    "server#3770": ["tests/test_refusals.py::test_id_0_is_no_sequence"],
    "server#5188": ["tests/test_refusals.py::test_id_0_is_no_sequence"],
    # Memory.
    "server#8969": ["tests/test_lifecycle.py::test_twenty_failed_loads"],
    "onnxruntime_backend#268": ["tests/test_fault_suite.py::test_fault"],
    "server#3320": ["tests/test_lifecycle.py::test_thirty_loads_and_unloads"],
    "server#5841": ["tests/test_lifecycle.py::test_thirty_loads_and_unloads"],
    "server#2023": ["tests/test_lifecycle.py::test_thirty_loads_and_unloads"],
    "server#4764": ["tests/test_lifecycle.py::test_thirty_loads_and_unloads"],
    "server#4528": ["tests/test_complaints.py::test_server_4528_loading_again_without_unloading"],
    "server#6836": [
        "pjrt/safe/tests/client.rs::a_client_is_shared_logged_and_destroyed_with_its_last_use"
    ],
    "server#8457": ["tests/test_complaints.py::test_server_8457_memory_after_many_requests"],
    "server#6781": ["tests/test_complaints.py::test_server_8457_memory_after_many_requests"],
    "server#7727": ["tests/test_complaints.py::test_server_8457_memory_after_many_requests"],
    "server#8663": ["tests/test_metrics.py::test_server_8663_a_reload_takes_no_metric_from_others"],
    # Bad input.
    "sglang#3910": [
        "tests/test_reference_sequence.py::test_q4_q9_more_tokens_than_the_largest_context"
    ],
    "vllm#13067": [
        "tests/test_reference_sequence.py::test_q4_q9_more_tokens_than_the_largest_context"
    ],
    "tensorrtllm_backend#381": ["tests/test_refusals.py::test_the_whole_context_can_be_used"],
    "dynamo#3780": [
        "engine/tests/rules/refusals.rs::a_million_tokens_are_refused_at_the_cost_of_looking_at_them"
    ],
    "vllm#42381": ["tests/test_refusals.py::test_a_refused_step_changes_nothing"],
    "tensorrtllm_backend#249": ["tests/test_endurance.py::test_nothing_is_lost"],
    "server#5972": ["triton/safe/tests/reading.rs::an_empty_input_has_no_buffer_and_no_bytes"],
    "pytorch_backend#120": ["tests/test_refusals.py::test_tokens_of_another_shape_or_type"],
    "server#3613": ["tests/test_bounded.py::test_nothing_at_all_is_refused"],
    "server#4865": ["tests/test_tensor_mode.py::test_t4_another_shape"],
    "server#3119": ["tests/test_complaints.py::test_server_3119_bodies_that_are_no_requests"],
    "onnxruntime_backend#69": ["tests/test_fault_suite.py::test_fault"],
    "server#3728": [
        "tests/test_fault_suite.py::test_fault",
        "triton/safe/tests/lifecycle.rs::whatever_fails_leaves_nothing_behind_and_the_next_load_works",
    ],
    "server#3207": ["tests/test_tensor_mode.py::test_t13_shared_memory"],
    "server#7688": ["tests/test_tensor_mode.py::test_t13_shared_memory"],
    "server#8936": ["tests/test_tensor_mode.py::test_t13_shared_memory"],
    "xtuc/triton-rs": [
        "triton/safe/tests/exactly_once.rs::every_request_is_answered_reported_and_released_once"
    ],
    # Plugins.
    "jax#22416": ["pjrt/fault/tests/faults.rs::a_plugin_says_what_it_is_told_to"],
    "pytorch-xla#6949": ["tests/test_fault_suite.py::test_fault"],
    "intel-extension-for-openxla#27": ["tests/test_fault_suite.py::test_fault"],
    "jax#21383": ["tests/test_fault_suite.py::test_fault"],
    "tpu-inference#1109": ["tests/test_fault_suite.py::test_fault"],
    "iree#19223": ["tests/test_fault_suite.py::test_fault"],
    "iree#19241": ["pjrt/fault/tests/faults.rs::hidden_functions_are_done_without"],
    "aws-neuron-sdk#1094": ["tests/test_fault_suite.py::test_fault"],
    "spidr#441": ["pjrt/fault/tests/faults.rs::a_plugin_says_what_it_is_told_to"],
    "zml#756": ["pjrt/fault/tests/faults.rs::zml_756_ready_events_that_failed_are_failures"],
    "zml#748": [
        "pjrt/fault/tests/faults.rs::zml_748_a_donated_buffer_is_dead",
        "tests/test_fault_suite.py::test_no_handle_was_misused",
    ],
    "xla#45912": ["tests/test_in_place.py::test_donated_pools_keep_their_address"],
    "jax#25399": ["tests/test_in_place.py::test_no_program_needs_memory_for_a_pool"],
    "stablehlo#740": ["artifact/tests/prepare.rs::arguments_are_aliased_to_their_results"],
    "marin#1882": ["tests/test_memory.py::test_a_program_that_copies_a_pool_is_told_of"],
    "tt-xla#4208": ["artifact/tests/bodies.rs::missing_aliases_are_added"],
    "xla#47391": ["pjrt/safe/tests/compile.rs::bad_bodies_are_refused_with_the_compilers_words"],
    "jax#4310": [
        "pjrt/safe/tests/client.rs::a_client_is_shared_logged_and_destroyed_with_its_last_use"
    ],
    "xla#18286": ["pjrt/safe/tests/cache.rs::a_kept_program_is_the_compiled_one"],
    "xla#27371": ["pjrt/safe/tests/cache.rs::a_kept_program_is_the_compiled_one"],
    "xla#44565": ["tests/test_load.py::test_an_unusable_program_is_told_of_once_and_written_anew"],
    "jax#38445": ["tests/test_metrics.py::test_programs_are_counted_by_where_they_came_from"],
    "zorch#328": [
        "pjrt/safe/tests/replaced_plugin.rs::a_plugin_replaced_before_its_digest_is_known_keeps_and_finds_no_programs"
    ],
    "pytorch-xla#9669": [
        "pjrt/fault/tests/faults.rs::pytorch_xla_9669_whatever_is_made_is_destroyed"
    ],
    "xla-rs#14": ["pjrt/fault/tests/faults.rs::pytorch_xla_9669_whatever_is_made_is_destroyed"],
    # Generation mode.
    "server#6017": [
        "tests/test_generation_scheduling.py::test_without_decoupled_responses_infer_works_and_stream_is_refused",
        "tests/test_generation.py::test_tensorrtllm_backend_552_the_finish_reason_comes_with_the_final_flag",
    ],
    "tensorrtllm_backend#233": [
        "tests/test_generation.py::test_tensorrtllm_backend_233_without_stream_there_is_one_response"
    ],
    "tensorrtllm_backend#552": [
        "tests/test_generation.py::test_tensorrtllm_backend_552_the_finish_reason_comes_with_the_final_flag"
    ],
    "server#6463": [
        "tests/test_generation.py::test_tensorrtllm_backend_552_the_finish_reason_comes_with_the_final_flag"
    ],
    "tensorrtllm_backend#383": [
        "tests/test_generation.py::test_tensorrtllm_backend_383_the_last_event_has_a_finish_reason"
    ],
    "server#8192": [
        "triton/safe/tests/streams.rs::server_8192_nothing_asks_about_a_request_after_its_final_flag"
    ],
    "server#7077": [
        "tests/test_generation_scheduling.py::test_server_7077_a_closed_connection_frees_the_pages_within_two_steps"
    ],
    "tensorrtllm_backend#176": [
        "tests/test_generation_scheduling.py::test_tensorrtllm_backend_176_a_hundred_closed_connections"
    ],
    "server#6920": [
        "tests/test_generation_scheduling.py::test_server_6920_a_timeout_ends_a_request_wherever_it_is",
        "tests/test_generation_scheduling.py::test_server_6920_a_timeout_while_waiting",
    ],
    "TensorRT-LLM#6329": [
        "tests/test_generation.py::test_tensorrt_llm_6329_values_out_of_range_are_refused_by_name"
    ],
    "sendnn-inference#542": [
        "tests/test_generation.py::test_sendnn_inference_542_top_k_above_the_vocabulary"
    ],
    "tensorrtllm_backend#332": [
        "tests/test_generation.py::test_tensorrtllm_backend_332_pieces_keep_their_spaces"
    ],
    "mlx-vlm#1778": ["tests/test_generation.py::test_mlx_vlm_1778_every_piece_is_whole_characters"],
    "tensorrtllm_backend#128": [
        "tests/test_generation.py::test_tensorrtllm_backend_128_stop_strings_cut_exactly"
    ],
    "tensorrtllm_backend#221": [
        "tests/test_generation.py::test_tensorrtllm_backend_221_temperature_and_seed_matter"
    ],
    "tensorrtllm_backend#237": [
        "generation/tests/sampler.rs::tensorrtllm_backend_237_seeds_differ_and_the_same_seed_repeats"
    ],
    "TensorRT-Edge-LLM#211": [
        "generation/tests/sampler_distribution.rs::tensorrt_edge_llm_211_a_flat_distribution_is_drawn_flat_step_by_step"
    ],
    "TensorRT-LLM#879": [
        "tests/test_generation.py::test_tensorrt_llm_879_log_probabilities_do_not_depend_on_the_sampling"
    ],
    "tensorrtllm_backend#472": [
        "tests/test_generation.py::test_log_probabilities_are_those_of_the_fixture"
    ],
    "TensorRT-LLM#1336": [
        "tests/test_generation.py::test_tensorrt_llm_1336_a_request_does_not_depend_on_its_neighbours"
    ],
    "server#7682": ["tests/test_generation.py::test_server_7682_lists_come_as_json"],
    "vllm#39734": [
        "tests/test_generation_scheduling.py::test_vllm_39734_what_never_fits_is_refused_and_the_next_is_served"
    ],
    "vllm#45388": ["engine/tests/simulate_generation/main.rs::schedules"],
    "tensorrtllm_backend#412": [
        "tests/test_generation_scheduling.py::test_tensorrtllm_backend_412_the_queue_is_bounded"
    ],
    "sglang#33187": [
        "tests/test_generation_scheduling.py::test_sglang_33187_a_row_that_is_not_finite_ends_its_request_alone"
    ],
    "vllm#50749": [
        "tests/test_generation_scheduling.py::test_vllm_50749_every_length_of_a_prompt_around_its_pages"
    ],
    "TensorRT-LLM#2335": [
        "tests/test_generation.py::test_tensorrt_llm_2335_one_token_with_every_output"
    ],
    "TensorRT-LLM#5509": [
        "tests/test_generation_scheduling.py::test_tensorrt_llm_5509_memory_after_requests_with_every_option"
    ],
    # Configuration, instances, types.
    "server#2635": ["tests/test_tensor_autocomplete.py::test_inputs_and_outputs"],
    "onnxruntime_backend#148": [
        "tests/test_tensor_refusals.py::test_the_largest_batch_must_be_there"
    ],
    "server#6928": ["tests/test_window_sequence.py::test_two_instances_share_weights_and_programs"],
    "server#1153": ["tests/test_window_sequence.py::test_two_instances_share_weights_and_programs"],
    "server#4138": ["tests/test_window_sequence.py::test_two_instances_share_weights_and_programs"],
    "server#6405": ["tests/test_metrics.py::test_memory_is_shown_and_reported"],
    "server#3851": ["tests/test_tensor_batching.py::test_t11_rows_of_two_widths"],
    "server#3951": ["tests/test_tensor_batching.py::test_t11_rows_of_two_widths"],
    "server#7206": ["tests/test_tensor_batching.py::test_t11_rows_of_two_widths"],
    "client#897": ["tests/test_tensor_mode.py::test_t5_bfloat16_is_rounded_after_each_operation"],
    "client#135": ["tests/test_tensor_mode.py::test_t5_element_types"],
    "server#6658": ["tests/test_metrics.py::test_server_6658_a_dead_instance_is_not_ready"],
    "server#6660": ["tests/test_metrics.py::test_server_6658_a_dead_instance_is_not_ready"],
}

LIMITS = {
    "server#4628",
    "server#8167",
    "server#8110",
    "server#5467",
    "server#6368",
    "server#4330",
    "server#7567",
    "aws-neuron-sdk#1095",
    "jax#1539",
    "jax#27028",
    "jax#16895",
    "jax#39494",
    "jax#19267",
    "pytorch-xla#4662",
    "xla#16457",
    "server#7368",
    "server#8034",
    "TensorRT-LLM#16827",
    "vllm#44701",
    "openvino.genai#3722",
    "openvino.genai#4047",
}

# What the backend promises in sequence, tensor and bounded mode.
PROMISES = {
    "1 no panic crosses the C boundary": [
        "triton/safe/tests/exactly_once.rs::every_request_is_answered_reported_and_released_once"
    ],
    "2 every request ends once and is released once": [
        "triton/safe/tests/exactly_once.rs::every_request_is_answered_reported_and_released_once",
    ],
    "3 a bad request is refused by name and changes nothing for others": [
        "tests/test_refusals.py::test_a_refused_step_changes_nothing",
        "tests/test_tensor_batching.py::test_a_bad_request_in_a_batch_hurts_no_other",
    ],
    "4 unsupported options are refused": [
        "tests/test_refusals.py::test_a_bad_configuration_is_refused",
        "tests/test_refusals.py::test_generation_parameters_need_a_model_that_generates",
    ],
    "5 pages are conserved": [
        "engine/tests/simulate/main.rs::schedules",
        "tests/test_metrics.py::test_pages_and_requests_are_shown",
    ],
    "6 what is cancelled is freed": ["tests/test_endurance.py::test_nothing_is_lost"],
    "7 what can never fit is refused, nothing waits for ever": [
        "engine/tests/simulate/main.rs::schedules"
    ],
    "8 overload is UNAVAILABLE by name": [
        "tests/test_batching.py::test_l8_a_full_pool_refuses_a_start",
        "tests/test_linear_state.py::test_a_start_without_a_slot_is_refused_and_slots_are_used_again",
    ],
    "9 tokens do not depend on the batch": [
        "tests/test_batching.py::test_l6_four_sequences_at_once",
        "tests/test_endurance.py::test_many_at_once",
    ],
    "10 a row that is not finite fails alone": [
        "tests/test_poison.py::test_the_neighbour_of_a_poisoned_sequence_is_right"
    ],
    "11 a donated buffer is never touched again": [
        "tests/test_fault_suite.py::test_no_handle_was_misused",
        "tests/test_in_place.py::test_donated_pools_keep_their_address",
    ],
    "12 unload, reload and failed load return memory": [
        "tests/test_lifecycle.py::test_thirty_loads_and_unloads",
        "tests/test_lifecycle.py::test_twenty_failed_loads",
        "tests/test_fault_suite.py::test_fault",
    ],
    "13 plugin trouble names path, versions and remedy": ["tests/test_fault_suite.py::test_fault"],
    "14 sequences are reaped without END": [
        "tests/test_linear_state.py::test_an_idle_sequence_gives_its_slot_back",
        "engine/tests/rules/reclaim.rs::abandoned_sequences_give_way_only_when_short_and_oldest_first",
    ],
    "15 health tells the truth": [
        "tests/test_metrics.py::test_server_6658_a_dead_instance_is_not_ready"
    ],
}
