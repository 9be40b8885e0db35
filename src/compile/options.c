/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/options.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "compile/flags.h"
#include "compile/proto.h"

/* Field numbers of xla/pjrt/proto/compile_options.proto. */
enum {
	OPTIONS_BUILD = 3,
	OPTIONS_OVERRIDES = 7,
	BUILD_DEBUG = 3,
	DEBUG_BACKEND_EXTRA = 500, /* of DebugOptions in xla/xla.proto */
	ENTRY_KEY = 1,
};

enum verdict {
	KEEP,
	DROP,
	ENTER, /* a message: judge each of its fields */
};

/* A known field outside DebugOptions: kept, or refused with its name. */
struct known {
	uint32_t number;
	const char *refused; /* NULL: kept */
};

static const struct known known_options[] = {
	{ 1, NULL }, /* argument_layouts */
	{ 2, NULL }, /* parameter_is_tupled_arguments */
	{ 4, NULL }, /* compile_portable_executable */
	{ 5, NULL }, /* profile_version */
	{ 6, "serialized_multi_slice_config" },
	{ 8, "target_config" },
	{ 9, NULL }, /* allow_in_place_mlir_modification */
	{ 10, NULL }, /* matrix_unit_operand_precision */
	{ 11, "compiler_variant" },
	{ 12, NULL }, /* individually_defined_output_indices */
};

static const struct known known_build[] = {
	{ 1, NULL }, /* device_ordinal */
	{ 2, NULL }, /* result_layout */
	{ 4, NULL }, /* num_replicas */
	{ 5, NULL }, /* num_partitions */
	{ 6, NULL }, /* use_spmd_partitioning */
	{ 7, NULL }, /* use_auto_spmd_partitioning */
	{ 8, NULL }, /* deduplicate_hlo */
	{ 9, NULL }, /* device_assignment */
	{ 10, NULL }, /* alias_passthrough_params */
	{ 11, "run_backend_only" }, /* skips the passes that check and rewrite the program */
	{ 12, NULL }, /* allow_spmd_sharding_propagation_to_output */
	{ 13, "comp_envs" },
	{ 14, NULL }, /* fdo_profile: the bytes of the profile */
	{ 15, NULL }, /* device_memory_size */
	{ 16, NULL }, /* auto_spmd_partitioning_mesh_shape */
	{ 17, NULL }, /* auto_spmd_partitioning_mesh_ids */
	{ 18, NULL }, /* allow_spmd_sharding_propagation_to_parameters */
	{ 19, NULL }, /* use_shardy_partitioner */
	{ 20, NULL }, /* exec_time_optimization_effort */
	{ 21, NULL }, /* memory_fitting_effort */
	{ 22, NULL }, /* process_index */
	{ 23, NULL }, /* process_count */
	{ 24, NULL }, /* optimization_level */
	{ 25, NULL }, /* memory_fitting_level */
	{ 26, NULL }, /* slice_size */
	{ 27, "gpu_topology" },
};

/* Unknown options whose names end like this may hold paths or command lines. */
static const char *const suspicious_ends[] = {
	"_path", "_dir", "_directory", "_file", "_filename", "_to", "_from", "_flags",
};

struct cleaner {
	char *out; /* owned */
	size_t size;
	int dropped;
	struct sal_err *err;
};

/* Decides what to do with one field of a message. ENTER sets *out_judge. */
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

static int name_chars(struct sal_text name)
{
	return name.size < 100 ? (int)name.size : 100;
}

static struct sal_text text_of(const char *name)
{
	return (struct sal_text){ name, strlen(name) };
}

static int refuse_file(struct sal_err *err, struct sal_text name)
{
	return sal_err_set(err, SAL_INVALID_ARGUMENT,
			   "compile option %.*s is refused: the daemon compiles the programs, and "
			   "it accepts neither files nor command lines from clients",
			   name_chars(name), name.at);
}

static int refuse_internal(struct sal_err *err, struct sal_text name)
{
	return sal_err_set(
		err, SAL_INVALID_ARGUMENT,
		"compile option %.*s is refused: this option changes how the compiler checks "
		"programs, or how the daemon runs, for all clients",
		name_chars(name), name.at);
}

static int refuse_unknown(struct sal_err *err, struct sal_text name)
{
	return sal_err_set(err, SAL_INVALID_ARGUMENT,
			   "No such compile option: '%.*s': it is not among the options that the "
			   "daemon accepts from clients",
			   name_chars(name), name.at);
}

static int apply(const struct sal_flag *flag, struct sal_err *err)
{
	switch (flag->kind) {
	case SAL_FLAG_KEPT:
		return KEEP;
	case SAL_FLAG_DROPPED:
		return DROP;
	case SAL_FLAG_FILE:
		return refuse_file(err, text_of(flag->name));
	default:
		return refuse_internal(err, text_of(flag->name));
	}
}

/* Judges every key of a map entry. Other readers take the last key; an entry should have one. */
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

/*
 * XLA passes keys that it does not read itself to LLVM's command line. That can load libraries and
 * write files.
 */
static int judge_extra_key(struct sal_text key, struct sal_err *err)
{
	if (sal_flag_is_extra(key))
		return KEEP;
	return sal_err_set(err, SAL_INVALID_ARGUMENT,
			   "compile option xla_backend_extra_options is refused for \"%.*s\": the "
			   "daemon accepts no LLVM flags from clients",
			   key.size < 60 ? (int)key.size : 60, key.at);
}

static int judge_override_key(struct sal_text key, struct sal_err *err)
{
	const struct sal_flag *flag = sal_flag_by_name(key);

	if (flag && flag->kind != SAL_FLAG_KEPT)
		return apply(flag, err);
	if (text_starts(key, "xla_dump_"))
		return DROP;
	if (flag)
		return KEEP;
	if (text_is(key, "xla_backend_extra_options"))
		return refuse_file(err, key);
	for (size_t i = 0; i < SAL_COUNT(suspicious_ends); i++)
		if (text_ends(key, suspicious_ends[i]))
			return refuse_file(err, key);
	return refuse_unknown(err, key);
}

static bool is_set(const struct sal_proto_field *f)
{
	if (f->type == SAL_PROTO_VARINT)
		return f->value != 0;
	if (f->type == SAL_PROTO_BYTES)
		return f->bytes.size != 0;
	for (size_t i = 0; i < f->bytes.size; i++)
		if (f->bytes.at[i] != 0)
			return true;
	return false;
}

static bool is_usual(const struct sal_flag *flag, const struct sal_proto_field *f)
{
	if (f->type == SAL_PROTO_VARINT)
		return flag->usual != 0 && f->value == flag->usual;
	return flag->usual_text && f->type == SAL_PROTO_BYTES &&
	       text_is(f->bytes, flag->usual_text);
}

/*
 * Drops unknown options: frameworks send all options that they know, also those that are not set.
 */
static int judge_debug(const struct sal_proto_field *f, const struct judge **out_judge,
		       struct sal_err *err)
{
	const struct sal_flag *flag = sal_flag_by_number(f->number);

	(void)out_judge;
	if (!is_set(f))
		return KEEP;
	if (f->number == DEBUG_BACKEND_EXTRA)
		return f->type == SAL_PROTO_BYTES ? judge_keys(f->bytes, judge_extra_key, err)
						  : DROP;
	if (!flag)
		return DROP;
	return is_usual(flag, f) ? KEEP : apply(flag, err);
}

static int judge_known(const struct known *at, size_t count, const struct sal_proto_field *f,
		       struct sal_err *err)
{
	if (!is_set(f))
		return KEEP;
	for (size_t i = 0; i < count; i++) {
		if (at[i].number != f->number)
			continue;
		return at[i].refused ? refuse_internal(err, text_of(at[i].refused)) : KEEP;
	}
	return DROP;
}

static int judge_build(const struct sal_proto_field *f, const struct judge **out_judge,
		       struct sal_err *err)
{
	static const struct judge debug = { judge_debug };

	if (f->number != BUILD_DEBUG || f->type != SAL_PROTO_BYTES)
		return judge_known(known_build, SAL_COUNT(known_build), f, err);
	*out_judge = &debug;
	return ENTER;
}

static int judge_options(const struct sal_proto_field *f, const struct judge **out_judge,
			 struct sal_err *err)
{
	static const struct judge build = { judge_build };

	if (f->number == OPTIONS_OVERRIDES && f->type == SAL_PROTO_BYTES)
		return judge_keys(f->bytes, judge_override_key, err);
	if (f->number != OPTIONS_BUILD || f->type != SAL_PROTO_BYTES)
		return judge_known(known_options, SAL_COUNT(known_options), f, err);
	*out_judge = &build;
	return ENTER;
}

static void append(struct cleaner *c, const char *at, size_t size)
{
	memcpy(c->out + c->size, at, size);
	c->size += size;
}

/*
 * Writes the tag and the new length in front of the content, which begins at `start` and has room
 * for the old tag and length before it.
 */
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

/* At most three levels deep: the judges enter no deeper message. */
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
	if (c.dropped == 0) { /* keeps lengths in unusual encodings */
		if (options.size > 0)
			memcpy(c.out, options.at, options.size);
		c.size = options.size;
	}
	*out_bytes = c.out;
	*out_size = c.size;
	return c.dropped;
}
