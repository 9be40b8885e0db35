/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/options.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "compile/proto.h"

/* Field numbers of xla/pjrt/proto/compile_options.proto and of DebugOptions in xla/xla.proto. */
enum {
	OPTIONS_BUILD = 3,
	OPTIONS_OVERRIDES = 7,
	BUILD_DEBUG = 3,
	DEBUG_CUDA_DIR = 61,
	DEBUG_BACKEND_EXTRA = 500,
	ENTRY_KEY = 1,
};

/* What XLA itself puts into DEBUG_CUDA_DIR. */
#define CUDA_DIR_DEFAULT "./cuda_sdk_lib"

enum verdict {
	KEEP,
	DROP,
	ENTER, /* a message to be judged field by field */
};

enum strictness {
	LOSES_NOTHING, /* dropped */
	CHANGES_IT, /* refused */
};

struct rule {
	uint32_t number;
	enum strictness strictness;
	const char *name;
};

/* Of DebugOptions, by number. Texts count unless empty, switches unless off. */
static const struct rule rules[] = {
	{ DEBUG_CUDA_DIR, LOSES_NOTHING, "xla_gpu_cuda_data_dir" },
	{ 109, LOSES_NOTHING, "xla_dump_to" },
	{ 110, LOSES_NOTHING, "xla_dump_hlo_module_re" },
	{ 111, LOSES_NOTHING, "xla_dump_hlo_pass_re" },
	{ 112, LOSES_NOTHING, "xla_dump_hlo_as_text" },
	{ 113, LOSES_NOTHING, "xla_dump_hlo_as_proto" },
	{ 114, LOSES_NOTHING, "xla_dump_hlo_as_dot" },
	{ 115, LOSES_NOTHING, "xla_dump_hlo_as_url" },
	{ 116, LOSES_NOTHING, "xla_dump_hlo_as_html" },
	{ 118, LOSES_NOTHING, "xla_dump_hlo_snapshots" },
	{ 127, CHANGES_IT, "xla_gpu_ptx_file" },
	{ 128, CHANGES_IT, "xla_gpu_algorithm_denylist_path" },
	{ 141, CHANGES_IT, "xla_gpu_asm_extra_flags" },
	{ 149, LOSES_NOTHING, "xla_dump_fusion_visualization" },
	{ 150, CHANGES_IT, "xla_gpu_llvm_ir_file" },
	{ 154, LOSES_NOTHING, "xla_dump_hlo_pipeline_re" },
	{ 155, LOSES_NOTHING, "xla_gpu_dump_llvmir" },
	{ 182, LOSES_NOTHING, "xla_dump_latency_hiding_schedule" },
	{ 210, CHANGES_IT, "xla_gpu_pgle_profile_file_or_directory_path" },
	{ 222, LOSES_NOTHING, "xla_gpu_dump_autotune_results_to" },
	{ 223, CHANGES_IT, "xla_gpu_load_autotune_results_from" },
	{ 232, LOSES_NOTHING, "xla_gpu_dump_autotuned_gemm_fusions" },
	{ 261, CHANGES_IT, "xla_gpu_target_config_filename" },
	{ 292, LOSES_NOTHING, "xla_gpu_dump_autotune_logs_to" },
	{ 306, LOSES_NOTHING, "xla_gpu_kernel_cache_file" },
	{ 310, LOSES_NOTHING, "xla_gpu_per_fusion_autotune_cache_dir" },
	{ 338, LOSES_NOTHING, "xla_gpu_experimental_dump_fdo_profiles" },
	{ 377, CHANGES_IT, "xla_gpu_experimental_collective_perf_table_path" },
	{ 383, CHANGES_IT, "xla_gpu_experimental_matmul_perf_table_path" },
	{ 405, LOSES_NOTHING, "xla_dump_hlo_unoptimized_snapshots" },
	{ 407, LOSES_NOTHING, "xla_gpu_experimental_autotuner_cache_dir" },
	{ 427, LOSES_NOTHING, "xla_gpu_experimental_dump_gpu_executable" },
	{ 433, LOSES_NOTHING, "xla_dump_emitter_re" },
	{ 434, CHANGES_IT, "xla_gpu_gemm_autotuner_override_file" },
	{ 445, LOSES_NOTHING, "xla_gpu_dump_autotuned_instructions" },
	{ 491, CHANGES_IT, "xla_gpu_ptx_compiler_extra_flags" },
	{ 498, LOSES_NOTHING, "xla_dump_hlo_as_riegeli" },
	{ DEBUG_BACKEND_EXTRA, CHANGES_IT, "xla_backend_extra_options" },
};

/* How names end that are not in the table, of options that XLA may get, and that hold paths or flags. */
static const char *const suspicious_ends[] = {
	"_path", "_dir", "_directory", "_file", "_filename", "_to", "_from", "_flags",
};

struct cleaner {
	char *out; /* owned */
	size_t size;
	int dropped;
	struct sal_err *err;
};

/* Says what to do with one field of a message; *out_judge is for ENTER. */
struct judge;
typedef int judge_fn(const struct sal_proto_field *f, const struct judge **out_judge,
		     struct sal_err *err);
struct judge {
	judge_fn *field;
};

static bool text_is(struct sal_text text, const char *name)
{
	return text.size == strlen(name) && memcmp(text.at, name, text.size) == 0;
}

static bool text_starts(struct sal_text text, const char *start)
{
	return text.size >= strlen(start) && memcmp(text.at, start, strlen(start)) == 0;
}

static bool text_ends(struct sal_text text, const char *end)
{
	size_t size = strlen(end);

	return text.size >= size && memcmp(text.at + text.size - size, end, size) == 0;
}

static int malformed(struct sal_err *err)
{
	return sal_err_set(err, SAL_INVALID_ARGUMENT,
			   "the compile options are not a well-formed CompileOptionsProto");
}

static int refuse(struct sal_err *err, struct sal_text name)
{
	return sal_err_set(err, SAL_INVALID_ARGUMENT,
			   "compile option %.*s is refused: programs are compiled by the daemon, "
			   "which takes neither files nor command lines from its clients",
			   name.size < 100 ? (int)name.size : 100, name.at);
}

static int apply(const struct rule *rule, struct sal_err *err)
{
	if (rule->strictness == LOSES_NOTHING)
		return DROP;
	return refuse(err, (struct sal_text){ rule->name, strlen(rule->name) });
}

/* Every key of a map entry; readers take the last, but there should be one. */
static int judge_keys(struct sal_text entry, int (*judge_key)(struct sal_text, struct sal_err *),
		      struct sal_err *err)
{
	struct sal_proto_field f;
	int verdict = KEEP;
	int rc;

	while ((rc = sal_proto_next(&entry, &f)) > 0) {
		if (f.number != ENTRY_KEY || f.type != SAL_PROTO_BYTES)
			continue;
		rc = judge_key(f.bytes, err);
		if (rc < 0)
			return rc;
		if (rc == DROP)
			verdict = DROP;
	}
	return rc < 0 ? malformed(err) : verdict;
}

/* What does not start with xla_ goes to LLVM's command line, which can load libraries and write files. */
static int judge_extra_key(struct sal_text key, struct sal_err *err)
{
	if (text_starts(key, "xla_"))
		return KEEP;
	return sal_err_set(err, SAL_INVALID_ARGUMENT,
			   "compile option xla_backend_extra_options is refused for \"%.*s\": the "
			   "daemon takes no LLVM flags from its clients",
			   key.size < 60 ? (int)key.size : 60, key.at);
}

static int judge_override_key(struct sal_text key, struct sal_err *err)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (text_is(key, rules[i].name))
			return apply(&rules[i], err);
	if (text_starts(key, "xla_dump_"))
		return DROP;
	for (size_t i = 0; i < sizeof(suspicious_ends) / sizeof(suspicious_ends[0]); i++)
		if (text_ends(key, suspicious_ends[i]))
			return refuse(err, key);
	return KEEP;
}

static bool is_set(const struct sal_proto_field *f)
{
	switch (f->type) {
	case SAL_PROTO_VARINT:
		return f->value != 0;
	case SAL_PROTO_BYTES:
		return f->bytes.size != 0;
	default:
		return false; /* not a text or a switch: readers take it for an unknown field */
	}
}

static int judge_debug(const struct sal_proto_field *f, const struct judge **out_judge,
		       struct sal_err *err)
{
	(void)out_judge;
	if (!is_set(f))
		return KEEP;
	if (f->number == DEBUG_CUDA_DIR && text_is(f->bytes, CUDA_DIR_DEFAULT))
		return KEEP;
	if (f->number == DEBUG_BACKEND_EXTRA)
		return judge_keys(f->bytes, judge_extra_key, err);
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (f->number == rules[i].number)
			return apply(&rules[i], err);
	return KEEP;
}

static int judge_build(const struct sal_proto_field *f, const struct judge **out_judge,
		       struct sal_err *err)
{
	static const struct judge debug = { judge_debug };

	(void)err;
	if (f->number != BUILD_DEBUG || f->type != SAL_PROTO_BYTES)
		return KEEP;
	*out_judge = &debug;
	return ENTER;
}

static int judge_options(const struct sal_proto_field *f, const struct judge **out_judge,
			 struct sal_err *err)
{
	static const struct judge build = { judge_build };

	if (f->type != SAL_PROTO_BYTES)
		return KEEP;
	if (f->number == OPTIONS_OVERRIDES)
		return judge_keys(f->bytes, judge_override_key, err);
	if (f->number != OPTIONS_BUILD)
		return KEEP;
	*out_judge = &build;
	return ENTER;
}

static void append(struct cleaner *c, const char *at, size_t size)
{
	memcpy(c->out + c->size, at, size);
	c->size += size;
}

/* Puts tag and new length before the content that was written from `start` on, which holds their old room. */
static void close_message(struct cleaner *c, const struct sal_proto_field *f, size_t start)
{
	size_t room = f->whole.size - f->bytes.size;
	size_t content = c->size - start - room;
	char head[20];
	size_t size = sal_proto_varint((uint64_t)f->number << 3 | SAL_PROTO_BYTES, head);

	size += sal_proto_varint(content, head + size);
	memmove(c->out + start + size, c->out + start + room, content);
	memcpy(c->out + start, head, size);
	c->size = start + size + content;
}

/* Three levels deep at most: the judges see to that. */
// NOLINTNEXTLINE(misc-no-recursion)
static int clean_message(struct cleaner *c, const struct judge *judge, struct sal_text rest)
{
	struct sal_proto_field f;
	int rc;

	while ((rc = sal_proto_next(&rest, &f)) > 0) {
		const struct judge *inner = NULL;
		size_t start = c->size;
		int verdict = judge->field(&f, &inner, c->err);

		if (verdict < 0)
			return verdict;
		if (verdict == DROP)
			c->dropped++;
		if (verdict == KEEP)
			append(c, f.whole.at, f.whole.size);
		if (verdict != ENTER || !inner)
			continue;
		c->size += f.whole.size - f.bytes.size;
		rc = clean_message(c, inner, f.bytes);
		if (rc < 0)
			return rc;
		close_message(c, &f, start);
	}
	return rc < 0 ? malformed(c->err) : SAL_OK;
}

int sal_options_clean(struct sal_text options, char **out_bytes, size_t *out_size,
		      struct sal_err *err)
{
	static const struct judge top = { judge_options };
	struct cleaner c = { .err = err };
	int rc;

	*out_bytes = NULL;
	*out_size = 0;
	c.out = malloc(options.size + 1);
	if (!c.out)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED,
				   "no memory for compile options of %zu bytes", options.size);
	rc = clean_message(&c, &top, options);
	if (rc < 0) {
		free(c.out);
		return rc;
	}
	if (c.dropped == 0) { /* also byte for byte where lengths are written in unusual ways */
		if (options.size > 0)
			memcpy(c.out, options.at, options.size);
		c.size = options.size;
	}
	*out_bytes = c.out;
	*out_size = c.size;
	return c.dropped;
}
