/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options: real options stay the same; which options are dropped, and which are refused, with their
 * names.
 */
#include "compile/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/flags.h"
#include "compile/proto.h"
#include "unit/compile/jax_options.h"
#include "unit/compile/message.h"

/* CompileOptionsProto.executable_build_options.debug_options, between other fields. */
static struct message wrap(const struct message *debug)
{
	struct message build = { .size = 0 };
	struct message options = { .size = 0 };

	put_number(&build, 4, 1);
	put_message(&build, 3, debug);
	put_number(&build, 5, 1);
	put_number(&options, 2, 1);
	put_message(&options, 3, &build);
	put_number(&options, 5, 7);
	return options;
}

static struct message override(const char *name, const char *value)
{
	struct message inner = { .size = 0 };
	struct message entry = { .size = 0 };
	struct message options = { .size = 0 };

	put_text(&inner, 1, value);
	put_text(&entry, 1, name);
	put_message(&entry, 2, &inner);
	put_number(&options, 2, 1);
	put_message(&options, 7, &entry);
	return options;
}

static int clean(const void *at, size_t size, struct message *out, struct sal_err *err)
{
	char *bytes = NULL;
	size_t out_size = 0;
	int rc = sal_options_clean((struct sal_text){ at, size }, &bytes, &out_size, err);

	if (rc < 0) {
		assert_null(bytes);
		assert_int_equal(out_size, 0);
		return rc;
	}
	assert_non_null(bytes);
	assert_true(out_size <= size);
	out->size = 0;
	put_raw(out, bytes, out_size);
	free(bytes);
	return rc;
}

static void becomes(const struct message *given, int dropped, const struct message *expected)
{
	struct sal_err err = { 0 };
	struct message out = { .size = 0 };
	int rc = clean(given->at, given->size, &out, &err);

	if (rc != dropped)
		fail_msg("dropped %d, not %d: %s", rc, dropped, err.text);
	assert_int_equal(out.size, expected->size);
	assert_memory_equal(out.at, expected->at, expected->size);
}

static void is_refused(const struct message *given, const char *name)
{
	struct sal_err err = { 0 };
	struct message out = { .size = 0 };

	assert_int_equal(clean(given->at, given->size, &out, &err), -SAL_INVALID_ARGUMENT);
	assert_int_equal(err.code, SAL_INVALID_ARGUMENT);
	if (!strstr(err.text, name))
		fail_msg("no %s in: %s", name, err.text);
}

static void keeps_options_of_jax(void **state)
{
	struct sal_err err = { 0 };
	struct message out = { .size = 0 };

	(void)state;
	assert_int_equal(clean(jax_plain, sizeof(jax_plain), &out, &err), 0);
	assert_int_equal(out.size, sizeof(jax_plain));
	assert_memory_equal(out.at, jax_plain, sizeof(jax_plain));
}

static int count_text(const struct message *m, const char *text)
{
	int count = 0;

	for (size_t i = 0; i + strlen(text) <= m->size; i++)
		count += memcmp(m->at + i, text, strlen(text)) == 0;
	return count;
}

/* Also: the rest is equal to the options of a plain program, and the override that is no dump. */
static void drops_dumps_of_jax(void **state)
{
	static const char kept[] = "xla_cpu_enable_fast_math";
	struct sal_err err = { 0 };
	struct message out = { .size = 0 };
	struct message again = { .size = 0 };

	(void)state;
	assert_int_equal(clean(jax_dumping, sizeof(jax_dumping), &out, &err), 4);
	assert_int_equal(count_text(&out, "dump"), 0);
	assert_int_equal(count_text(&out, kept), 1);
	assert_memory_equal(out.at, jax_plain, sizeof(jax_plain));
	assert_int_equal(clean(out.at, out.size, &again, &err), 0);
	assert_memory_equal(again.at, out.at, out.size);
}

static void keeps_the_rest(void **state)
{
	struct message debug = { .size = 0 };
	struct message options;

	(void)state;
	put_number(&debug, 31, 3);
	put_text(&debug, 109, "");
	put_number(&debug, 112, 0);
	put_text(&debug, 61, "./cuda_sdk_lib");
	put_number(&debug, 9999, 0);
	put_text(&debug, 9998, "");
	put_number(&debug, 164, 1); /* how to dump, if dumping is on */
	put_number(&debug, 392, 40); /* XLA's own default */
	put_number(&debug, 163, UINT64_MAX);
	put_text(&debug, 451, "inf");
	options = wrap(&debug);
	put_number(&options, 600, 0);
	becomes(&options, 0, &options);
	options.size = 0;
	becomes(&options, 0, &options);
}

static void drops_where_nothing_is_lost(void **state)
{
	static const uint32_t texts[] = { 61, 109, 110, 111, 154, 222, 292, 306, 310, 407, 433 };
	static const uint32_t switches[] = { 112, 113, 114, 115, 116, 118, 149, 155,
					     182, 232, 338, 405, 427, 445, 498 };
	struct message debug = { .size = 0 };
	struct message plain = { .size = 0 };
	struct message options;
	struct message expected;

	(void)state;
	put_number(&debug, 31, 3);
	put_number(&plain, 31, 3);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		put_text(&debug, texts[i], "/etc/dir");
	for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++)
		put_number(&debug, switches[i], 1);
	put_text(&debug, 333, "AVX2");
	put_text(&plain, 333, "AVX2");
	options = wrap(&debug);
	expected = wrap(&plain);
	becomes(&options, 11 + 15, &expected);
}

/* On each of the three levels, and of each type. */
static void drops_unknown_options(void **state)
{
	struct message debug = { .size = 0 };
	struct message none = { .size = 0 };
	struct message build = { .size = 0 };
	struct message plain = { .size = 0 };
	struct message options = { .size = 0 };
	struct message expected = { .size = 0 };

	(void)state;
	put_text(&debug, 9999, "unknown");
	put_number(&debug, 9998, 1);
	put_varint(&debug, 9997 << 3 | SAL_PROTO_FIXED32);
	put_raw(&debug, "\0\0\0\1", 4);
	put_number(&debug, 500, 1);
	put_message(&build, 3, &debug);
	put_message(&plain, 3, &none);
	put_text(&build, 99, "unknown");
	put_message(&options, 3, &build);
	put_message(&expected, 3, &plain);
	put_number(&options, 99, 1);
	put_number(&options, 7, 1);
	becomes(&options, 7, &expected);
}

/* Every field of CompileOptionsProto and ExecutableBuildOptionsProto that is accepted. */
static void keeps_every_known_field(void **state)
{
	static const uint32_t top[] = { 1, 2, 4, 5, 9, 10, 12 };
	static const uint32_t inner[] = { 1,  2,  4,  5,  6,  7,  8,  9,  10, 12, 14, 15,
					  16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26 };
	struct message build = { .size = 0 };
	struct message options = { .size = 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++)
		put_number(&build, inner[i], 1);
	put_message(&options, 3, &build);
	for (size_t i = 0; i < sizeof(top) / sizeof(top[0]); i++)
		put_number(&options, top[i], 1);
	becomes(&options, 0, &options);
}

static void refuses_fields_by_name(void **state)
{
	static const struct {
		uint32_t field;
		bool is_inner;
		const char *name;
	} fields[] = {
		{ 6, false, "serialized_multi_slice_config" },
		{ 8, false, "target_config" },
		{ 11, false, "compiler_variant" },
		{ 11, true, "run_backend_only" },
		{ 13, true, "comp_envs" },
		{ 27, true, "gpu_topology" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		struct message build = { .size = 0 };
		struct message options = { .size = 0 };

		put_number(fields[i].is_inner ? &build : &options, fields[i].field, 1);
		put_message(&options, 3, &build);
		is_refused(&options, fields[i].name);
	}
}

/* Options that switch off the compiler's checks, or would end the daemon's process. */
static void refuses_options_about_the_daemon(void **state)
{
	static const struct {
		uint32_t field;
		const char *name;
	} fields[] = {
		{ 30, "xla_disable_hlo_passes" },
		{ 104, "xla_disable_all_hlo_passes" },
		{ 124, "xla_enable_hlo_passes_only" },
		{ 147, "xla_gpu_force_compilation_parallelism" },
		{ 170, "xla_gpu_shape_checks" },
		{ 301, "xla_gpu_nccl_terminate_on_error" },
		{ 328, "xla_gpu_executable_terminate_timeout_seconds" },
		{ 392, "xla_gpu_first_collective_call_terminate_timeout_seconds" },
		{ 397, "xla_early_exit_with_layouts" },
		{ 417, "xla_cpu_collective_call_terminate_timeout_seconds" },
		{ 451, "xla_gpu_execution_terminate_timeout" },
		{ 496, "xla_run_hlo_passes_starting_from" },
		{ 537, "xla_gpu_hlo_custom_call_allowlist" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		struct message debug = { .size = 0 };
		struct message options;

		put_number(&debug, fields[i].field, 3);
		options = wrap(&debug);
		is_refused(&options, fields[i].name);
		options = override(fields[i].name, "3");
		is_refused(&options, fields[i].name);
	}
}

/*
 * Names that are in no table: refused with any ending, with the sentence about files if the ending
 * suggests a file.
 */
static void refuses_every_ending(void **state)
{
	static const char *const ends[] = {
		"_path", "_dir", "_directory", "_file", "_filename", "_to", "_from", "_flags",
	};
	char name[64];

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct message options;

		(void)snprintf(name, sizeof(name), "xla_new_thing%s", ends[i]);
		options = override(name, "/etc");
		is_refused(&options, name);
		is_refused(&options, "neither files nor command lines");
	}
	for (size_t i = 0; i < 2; i++) {
		struct message options = override(i ? "xla_new_thing" : "", "1");

		is_refused(&options, "No such compile option");
	}
}

/* Each name in the table that suggests a file is refused as one, or is known to be harmless. */
static void knows_names_that_sound_like_files(void **state)
{
	static const char *const files[] = {
		"xla_gpu_algorithm_denylist_path", "xla_gpu_ptx_file",
		"xla_gpu_target_config_filename",  "xla_gpu_load_autotune_results_from",
		"xla_gpu_asm_extra_flags",	   "xla_run_hlo_passes_starting_from",
		"xla_backend_extra_options",
	};
	struct message options = override("xla_hlo_evaluator_use_fast_path", "True");
	struct message plain = { .size = 0 };

	(void)state;
	becomes(&options, 0, &options);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		options = override(files[i], "/etc");
		is_refused(&options, files[i]);
	}
	put_number(&plain, 2, 1);
	options = override("xla_gpu_dump_autotune_logs_to", "/etc");
	becomes(&options, 1, &plain);
	options = override("xla_gpu_experimental_autotuner_cache_dir", "/etc");
	becomes(&options, 1, &plain);
	options = override("xla_gpu_kernel_cache_file", "/etc");
	becomes(&options, 1, &plain);
}

static void finds_flags(void **state)
{
	static const char *const names[] = { "xla_cpu_enable_fast_math", "xla_dump_to",
					     "xla_backend_optimization_level" };
	static const char *const twins[] = { "xla_cpu_use_mkl_dnn", "xla_cpu_use_onednn",
					     "xla_ignore_channel_id",
					     "xla_experimental_ignore_channel_id" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct sal_text name = { names[i], strlen(names[i]) };
		const struct sal_flag *flag = sal_flag_by_name(name);

		assert_non_null(flag);
		assert_ptr_equal(sal_flag_by_number(flag->number), flag);
	}
	assert_null(sal_flag_by_number(0));
	assert_null(sal_flag_by_number(500));
	assert_null(sal_flag_by_number(UINT32_MAX));
	/* Two names of the same number are treated alike. */
	for (size_t i = 0; i < sizeof(twins) / sizeof(twins[0]); i++) {
		struct sal_text name = { twins[i], strlen(twins[i]) };
		const struct sal_flag *flag = sal_flag_by_name(name);

		assert_non_null(flag);
		assert_int_equal(flag->kind, sal_flag_by_number(flag->number)->kind);
	}
}

/* A message may come in several pieces, which other readers merge. */
static void checks_every_piece(void **state)
{
	struct message debug = { .size = 0 };
	struct message none = { .size = 0 };
	struct message options;
	struct message second;
	struct message expected;

	(void)state;
	options = wrap(&none);
	put_text(&debug, 109, "/tmp");
	second = wrap(&debug);
	put_raw(&options, second.at, second.size);
	expected = wrap(&none);
	second = wrap(&none);
	put_raw(&expected, second.at, second.size);
	becomes(&options, 1, &expected);
}

static void refuses_options_that_change_the_program(void **state)
{
	static const struct {
		uint32_t field;
		const char *name;
	} fields[] = {
		{ 127, "xla_gpu_ptx_file" },
		{ 128, "xla_gpu_algorithm_denylist_path" },
		{ 141, "xla_gpu_asm_extra_flags" },
		{ 150, "xla_gpu_llvm_ir_file" },
		{ 210, "xla_gpu_pgle_profile_file_or_directory_path" },
		{ 223, "xla_gpu_load_autotune_results_from" },
		{ 261, "xla_gpu_target_config_filename" },
		{ 377, "xla_gpu_experimental_collective_perf_table_path" },
		{ 383, "xla_gpu_experimental_matmul_perf_table_path" },
		{ 434, "xla_gpu_gemm_autotuner_override_file" },
		{ 491, "xla_gpu_ptx_compiler_extra_flags" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		struct message debug = { .size = 0 };
		struct message options;

		put_text(&debug, fields[i].field, "/etc/shadow");
		options = wrap(&debug);
		is_refused(&options, fields[i].name);
		options = override(fields[i].name, "/etc/shadow");
		is_refused(&options, fields[i].name);
	}
}

static void refuses_flags_for_llvm(void **state)
{
	struct message entry = { .size = 0 };
	struct message debug = { .size = 0 };
	struct message options;

	(void)state;
	put_text(&entry, 1, "xla_cpu_disable_tiled_emitter");
	put_text(&entry, 2, "");
	put_message(&debug, 500, &entry);
	options = wrap(&debug);
	becomes(&options, 0, &options);

	entry.size = 0;
	put_text(&entry, 1, "xla_not_known");
	debug.size = 0;
	put_message(&debug, 500, &entry);
	options = wrap(&debug);
	is_refused(&options, "xla_not_known");

	entry.size = 0;
	put_text(&entry, 1, "xla_cpu_disable_tiled_emitter");

	put_text(&entry, 1, "load"); /* a second key: other readers take the last one */
	put_text(&entry, 2, "/tmp/evil.so");
	debug.size = 0;
	put_message(&debug, 500, &entry);
	options = wrap(&debug);
	is_refused(&options, "xla_backend_extra_options");
}

static void judges_overrides_by_name(void **state)
{
	struct message options = override("xla_cpu_enable_fast_math", "True");
	struct message plain = { .size = 0 };

	(void)state;
	becomes(&options, 0, &options);
	put_number(&plain, 2, 1);
	options = override("xla_dump_to", "/etc");
	becomes(&options, 1, &plain);
	options = override("xla_dump_of_a_later_year", "/etc");
	becomes(&options, 1, &plain);
	options = override("xla_gpu_cuda_data_dir", "/etc");
	becomes(&options, 1, &plain);
}

static void refuses_malformed_options(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
	} bad[] = {
		{ "\x1a\x05\x08", 3 }, /* shorter than its length */
		{ "\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 }, /* length of 2^64 - 1 */
		{ "\x1a", 1 }, /* missing length */
		{ "\x80", 1 }, /* half a tag */
		{ "\x02\x00", 2 }, /* field number 0 */
		{ "\x1b\x1c", 2 }, /* a group */
		{ "\x0f", 1 }, /* unknown wire type */
		{ "\x9a\x80\x80\x80\x80\x00\x00", 7 }, /* a tag of six bytes */
		{ "\x9a\x80\x80\x80\x10\x00", 6 }, /* a tag above 32 bits */
		{ "\x1a\x02\x1a\x05", 4 }, /* malformed inside a message */
		{ "\x3a\x02\x0a\x05", 4 }, /* malformed inside an override */
		{ "\x09\x00", 2 }, /* 64 bits that are missing */
		{ "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11 }, /* above 64 bits */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct message m = { .size = 0 };

		put_raw(&m, bad[i].bytes, bad[i].size);
		is_refused(&m, "well-formed");
	}
}

/* Real options, cut at any place or with any byte changed, are handled without a crash. */
static void survives_damage(void **state)
{
	unsigned char copy[sizeof(jax_dumping)];
	struct message out = { .size = 0 };

	(void)state;
	for (size_t size = 0; size < sizeof(jax_dumping); size++)
		(void)clean(jax_dumping, size, &out, NULL);
	for (size_t i = 0; i < sizeof(jax_dumping); i++) {
		for (int bit = 0; bit < 8; bit++) {
			memcpy(copy, jax_dumping, sizeof(copy));
			copy[i] ^= (unsigned char)(1u << bit);
			(void)clean(copy, sizeof(copy), &out, NULL);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeps_options_of_jax),
		cmocka_unit_test(drops_dumps_of_jax),
		cmocka_unit_test(keeps_the_rest),
		cmocka_unit_test(drops_where_nothing_is_lost),
		cmocka_unit_test(drops_unknown_options),
		cmocka_unit_test(keeps_every_known_field),
		cmocka_unit_test(refuses_fields_by_name),
		cmocka_unit_test(refuses_options_about_the_daemon),
		cmocka_unit_test(refuses_every_ending),
		cmocka_unit_test(knows_names_that_sound_like_files),
		cmocka_unit_test(finds_flags),
		cmocka_unit_test(checks_every_piece),
		cmocka_unit_test(refuses_options_that_change_the_program),
		cmocka_unit_test(refuses_flags_for_llvm),
		cmocka_unit_test(judges_overrides_by_name),
		cmocka_unit_test(refuses_malformed_options),
		cmocka_unit_test(survives_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
