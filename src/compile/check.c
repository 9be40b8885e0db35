/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/check.h"

#include <string.h>

#include "base/array.h"
#include "compile/hlo.h"
#include "compile/order.h"
#include "linalg/targets.h"

#define NAME_CHARS_MAX 100

/* The position of an instruction, and where to report an error. */
struct place {
	const struct sal_hlo_module *module;
	const struct sal_hlo_computation *computation;
	bool is_cpu;
	struct sal_check *check; /* for the results */
	struct sal_err *err;
};

static int chars(struct sal_text name)
{
	return name.size < NAME_CHARS_MAX ? (int)name.size : NAME_CHARS_MAX;
}

static int damaged(struct sal_err *err)
{
	return sal_err_set(err, SAL_DATA_LOSS, "the compiled program is damaged");
}

/* TopK */

static int refuse_topk(const struct place *at, const struct sal_hlo_instruction *in)
{
	return sal_err_set(at->err, SAL_INVALID_ARGUMENT,
			   "custom call %.*s to TopK is refused: TopK takes f32[n] or f32[m,n] "
			   "and returns as many f32 as s32 values, at most n for each row",
			   chars(in->name), in->name.at);
}

/* The operand's shape; -SAL_DATA_LOSS if the computation has no such instruction. */
static int find_shape(const struct place *at, int64_t id, struct sal_hlo_shape *out_shape)
{
	struct sal_text rest = at->computation->body;
	struct sal_hlo_instruction in;

	while (sal_hlo_next(&rest, &in) > 0)
		if (in.id == id)
			return sal_hlo_shape(in.shape, out_shape);
	return -SAL_DATA_LOSS;
}

/* The same number of rows as the operand; the last dimension is not longer than the operand's. */
static bool is_top_of(const struct sal_hlo_shape *part, const struct sal_hlo_shape *whole,
		      uint64_t type)
{
	size_t last = whole->rank - 1;

	return part->type == type && !part->is_dynamic && part->rank == whole->rank &&
	       (last == 0 || part->dims[0] == whole->dims[0]) && part->dims[last] >= 0 &&
	       part->dims[last] <= whole->dims[last];
}

static int check_topk(const struct place *at, const struct sal_hlo_instruction *in)
{
	struct sal_hlo_shape operand;
	struct sal_hlo_shape values;
	struct sal_hlo_shape indices;
	struct sal_hlo_shape none;
	struct sal_text rest;
	struct sal_hlo_shape tuple;

	if (in->operand_count != 1 || find_shape(at, in->operands[0], &operand) < 0 ||
	    sal_hlo_shape(in->shape, &tuple) < 0)
		return damaged(at->err);
	rest = tuple.whole;
	if (tuple.type != SAL_HLO_TUPLE || sal_hlo_next_part(&rest, &values) <= 0 ||
	    sal_hlo_next_part(&rest, &indices) <= 0 || sal_hlo_next_part(&rest, &none) != 0)
		return refuse_topk(at, in);
	if (operand.type != SAL_HLO_F32 || operand.is_dynamic || operand.rank < 1 ||
	    operand.rank > 2 || !is_top_of(&values, &operand, SAL_HLO_F32) ||
	    !is_top_of(&indices, &operand, SAL_HLO_S32) ||
	    values.dims[operand.rank - 1] != indices.dims[operand.rank - 1])
		return refuse_topk(at, in);
	return SAL_OK;
}

/* Linear algebra */

/* The shapes of a call's arguments and results, which its arrays point to. */
struct call_shapes {
	struct sal_hlo_shape args[LINALG_ARGS_MAX], rets[LINALG_RETS_MAX];
};

static bool read_array(const struct sal_hlo_shape *shape, struct linalg_array *out)
{
	*out = (struct linalg_array){
		.element = (int32_t)shape->type,
		.rank = shape->rank,
		.dims = shape->dims,
	};
	return !shape->is_dynamic && shape->rank <= SAL_HLO_DIMS_MAX && shape->type <= INT32_MAX;
}

static bool read_results(struct sal_text shape, struct call_shapes *shapes, struct linalg_call *c)
{
	struct sal_hlo_shape whole, *next = shapes->rets;
	struct sal_text rest;

	if (sal_hlo_shape(shape, &whole) < 0)
		return false;
	if (whole.type != SAL_HLO_TUPLE) {
		*next = whole;
		c->ret_count = 1;
		return read_array(next, &c->rets[0]);
	}
	rest = whole.whole;
	while (c->ret_count < LINALG_RETS_MAX && sal_hlo_next_part(&rest, next) > 0) {
		if (!read_array(next++, &c->rets[c->ret_count++]))
			return false;
	}
	return sal_hlo_next_part(&rest, &whole) == 0; /* no result is left */
}

static bool read_arguments(const struct place *at, const struct sal_hlo_instruction *in,
			   struct call_shapes *shapes, struct linalg_call *c)
{
	int64_t ids[LINALG_ARGS_MAX];

	if (in->operand_count > LINALG_ARGS_MAX || sal_hlo_operands(in, ids) < 0)
		return false;
	for (size_t i = 0; i < in->operand_count; i++)
		if (find_shape(at, ids[i], &shapes->args[i]) < 0 ||
		    !read_array(&shapes->args[i], &c->args[i]))
			return false;
	c->arg_count = in->operand_count;
	return true;
}

/* The handler checks shapes again, and the attributes: see linalg/call.h. */
static int check_linalg(const struct place *at, const struct sal_hlo_instruction *in,
			const struct linalg_target *target)
{
	struct linalg_call c = {
		.routine = target->routine, .type = target->type, .is_plan = true, .err = at->err
	};
	struct call_shapes shapes;
	uint64_t bytes;
	int rc;

	if (!read_arguments(at, in, &shapes, &c) || !read_results(in->shape, &shapes, &c))
		return sal_linalg_bad(&c, "its arguments or results are no arrays");
	rc = sal_linalg_prepare(&c, &bytes);
	if (rc < 0)
		return rc;
	at->check->scratch_bytes += bytes;
	if (at->check->scratch_most < bytes)
		at->check->scratch_most = bytes;
	return SAL_OK;
}

/* Instructions */

/* Names that XLA for GPUs gives to its own library calls. */
static bool is_library_call(struct sal_text target)
{
	static const char *const starts[] = { "__cublas$", "__cudnn$", "__cusolver$", "__cub$",
					      "__gpu$" };

	for (size_t i = 0; i < SAL_COUNT(starts); i++)
		if (target.size > strlen(starts[i]) &&
		    memcmp(target.at, starts[i], strlen(starts[i])) == 0)
			return true;
	return false;
}

/* Calls of the client's Python. Operands and results may have any shape: the handler reads it. */
static bool is_python_call(struct sal_text target)
{
	return sal_text_is(target, "xla_ffi_python_cpu_callback") ||
	       sal_text_is(target, "xla_ffi_partitioned_python_cpu_callback");
}

static int check_call(const struct place *at, const struct sal_hlo_instruction *in)
{
	struct linalg_target target;

	if (sal_text_is(in->target, "TopK"))
		return check_topk(at, in);
	if (at->is_cpu && is_python_call(in->target))
		return SAL_OK;
	if (at->is_cpu && sal_linalg_find(in->target, &target))
		return check_linalg(at, in, &target);
	if (!at->is_cpu && is_library_call(in->target))
		return SAL_OK;
	if (sal_text_is(in->target, "SliceToDynamic") || sal_text_is(in->target, "PadToStatic"))
		return sal_err_set(at->err, SAL_UNIMPLEMENTED,
				   "arrays whose size is known only when the program runs are not "
				   "supported through Salus (custom call to %.*s)",
				   chars(in->target), in->target.at);
	return sal_err_set(at->err, SAL_UNIMPLEMENTED,
			   "the custom call to %.*s is refused: custom calls are not supported "
			   "through Salus yet, except those that the compiler adds itself",
			   chars(in->target), in->target.at);
}

static int check_sort(const struct place *at, const struct sal_hlo_instruction *in)
{
	const struct sal_hlo_computation *comparator = sal_hlo_find(at->module, in->called);
	struct sal_err why = { 0 };
	int rc;

	if (in->called_count != 1 || !comparator)
		return damaged(at->err);
	rc = sal_order_check(at->module, comparator, in->is_stable, &why);
	if (rc >= 0)
		return SAL_OK;
	return sal_err_set(at->err, (enum sal_code) - rc, "sort %.*s is refused: its comparator %s",
			   chars(in->name), in->name.at, why.text);
}

static int check_instruction(const struct place *at, const struct sal_hlo_instruction *in)
{
	static const char *const feeds[] = { "infeed", "outfeed",   "send",
					     "recv",   "send-done", "recv-done" };

	if (sal_text_is(in->opcode, "custom-call"))
		return check_call(at, in);
	if (sal_text_is(in->opcode, "sort"))
		return check_sort(at, in);
	for (size_t i = 0; i < SAL_COUNT(feeds); i++)
		if (sal_text_is(in->opcode, feeds[i]))
			return sal_err_set(
				at->err, SAL_UNIMPLEMENTED,
				"%s is refused: through Salus, a program cannot talk to its "
				"host while it runs",
				feeds[i]);
	return SAL_OK;
}

/*
 * Refuses instructions that only the compiler adds. The compiler trusts such instructions, and a
 * client can put anything into them.
 */
static int check_sent(const struct place *at, const struct sal_hlo_instruction *in)
{
	static const char *const own[] = { "fusion",	   "bitcast",	 "async-start",
					   "async-update", "async-done", "copy-start",
					   "copy-done" };

	for (size_t i = 0; i < SAL_COUNT(own); i++)
		if (sal_text_is(in->opcode, own[i]))
			return sal_err_set(at->err, SAL_INVALID_ARGUMENT,
					   "%s %.*s is refused: send the program before it is "
					   "optimised, not after that",
					   own[i], chars(in->name), in->name.at);
	return SAL_OK;
}

/* Programs */

typedef int check_fn(const struct place *at, const struct sal_hlo_instruction *in);

static int check_module(const struct sal_hlo_module *module, struct sal_check *check, check_fn *fn,
			struct sal_err *err)
{
	struct place at = { .module = module,
			    .is_cpu = sal_text_is(check->platform, "cpu"),
			    .check = check,
			    .err = err };
	struct sal_hlo_instruction in;
	int rc = SAL_OK;

	for (size_t i = 0; i < module->count; i++) {
		struct sal_text rest = module->computations[i].body;

		at.computation = &module->computations[i];
		while ((rc = sal_hlo_next(&rest, &in)) > 0) {
			rc = fn(&at, &in);
			if (rc < 0)
				return rc;
		}
		if (rc < 0)
			return damaged(err);
	}
	return rc;
}

static int check_text(struct sal_text text, bool has_config, struct sal_check *check, check_fn *fn,
		      struct sal_err *err)
{
	struct sal_hlo_module module;
	int rc = sal_hlo_open(text, has_config, &module, err);

	if (rc < 0)
		return rc;
	rc = check_module(&module, check, fn, err);
	sal_hlo_close(&module);
	return rc;
}

int sal_check_program(struct sal_check *check, struct sal_err *err)
{
	bool is_cpu = sal_text_is(check->platform, "cpu");
	bool is_hlo = sal_text_is(check->format, "hlo");
	int rc;

	check->scratch_bytes = 0;
	check->scratch_most = 0;

	if (is_hlo) {
		rc = check_text(check->program, false, check, check_sent, err);
		if (rc < 0)
			return rc;
	}
	if (check->optimized.size > 0)
		return check_text(check->optimized, true, check, check_instruction, err);
	if (!is_hlo)
		return is_cpu ? sal_err_set(
					err, SAL_UNIMPLEMENTED,
					"the plugin does not show the optimised program, so Salus "
					"cannot check it and does not run it next to other jobs")
			      : SAL_OK;
	return check_text(check->program, false, check, check_instruction, err);
}
