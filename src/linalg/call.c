/* SPDX-License-Identifier: Apache-2.0 */
#include "linalg/call.h"

#include <string.h>

#define ALIGN 64
#define NAME_BYTES 8
/* Up to this order, LAPACK's own threads are of little use. */
#define SMALL_ORDER 128

/* Checks */

int sal_linalg_bad(const struct linalg_call *c, const char *what)
{
	char name[NAME_BYTES];

	if (!c->routine->own)
		sal_lapack_name(c->routine->name, c->type, name);
	return sal_err_set(c->err, SAL_INVALID_ARGUMENT, "a call of %s is refused: %s",
			   c->routine->own ? c->routine->own : name, what);
}

int sal_linalg_counts(const struct linalg_call *c, size_t args, size_t rets)
{
	if (c->arg_count == args && c->ret_count == rets)
		return SAL_OK;
	return sal_linalg_bad(c, "wrong number of arguments or results");
}

int32_t sal_linalg_element(enum lapack_type type)
{
	static const int32_t elements[LAPACK_TYPES] = { LINALG_F32, LINALG_F64, LINALG_C64,
							LINALG_C128 };

	return elements[type];
}

static size_t element_bytes(int32_t element)
{
	switch (element) {
	case LINALG_S32:
	case LINALG_F32:
		return 4;
	case LINALG_C128:
		return 16;
	default:
		return 8;
	}
}

int sal_linalg_sizes(struct linalg_call *c, const struct linalg_array *from)
{
	int64_t batch = 1;
	int64_t limit = c->routine->has_work ? LINALG_ORDER_MAX : INT32_MAX;

	if (from->rank < 2 || from->element != sal_linalg_element(c->type))
		return sal_linalg_bad(c, "an argument is no matrix of the right type");
	for (size_t i = 0; i + 2 < from->rank; i++)
		if (from->dims[i] < 0 || __builtin_mul_overflow(batch, from->dims[i], &batch))
			return sal_linalg_bad(c, "too many matrices");
	for (size_t i = from->rank - 2; i < from->rank; i++)
		if (from->dims[i] < 0 || from->dims[i] > limit)
			return sal_linalg_bad(c, "a matrix is too large for LAPACK's integers");
	c->batch = batch;
	c->m = (int32_t)from->dims[from->rank - 2];
	c->n = (int32_t)from->dims[from->rank - 1];
	return SAL_OK;
}

int sal_linalg_square(struct linalg_call *c, const struct linalg_array *from)
{
	int rc = sal_linalg_sizes(c, from);

	if (rc < 0 || c->m == c->n)
		return rc;
	return sal_linalg_bad(c, "its matrix is not square");
}

/* The product of the first dimensions must be that of the call. */
static bool has_batch(const struct linalg_call *c, const struct linalg_array *a, size_t inner)
{
	int64_t batch = 1;

	if (a->rank < inner)
		return false;
	for (size_t i = 0; i + inner < a->rank; i++)
		if (a->dims[i] < 0 || __builtin_mul_overflow(batch, a->dims[i], &batch))
			return false;
	return batch == c->batch;
}

static int expect(const struct linalg_call *c, struct linalg_array *a, int32_t element,
		  size_t inner, int64_t rows, int64_t cols)
{
	const int64_t *dims = a->rank >= inner ? a->dims + (a->rank - inner) : NULL;

	if (a->element != element || !has_batch(c, a, inner) ||
	    (inner > 0 && (!dims || dims[0] != rows)) ||
	    (inner > 1 && (!dims || dims[1] != cols)) ||
	    __builtin_mul_overflow((size_t)rows, (size_t)cols, &a->step) ||
	    __builtin_mul_overflow(a->step, element_bytes(element), &a->step))
		return sal_linalg_bad(c, "an array has the wrong type or shape");
	return SAL_OK;
}

int sal_linalg_matrix(const struct linalg_call *c, struct linalg_array *a, int32_t element,
		      int64_t rows, int64_t cols)
{
	return expect(c, a, element, 2, rows, cols);
}

int sal_linalg_vector(const struct linalg_call *c, struct linalg_array *a, int32_t element,
		      int64_t size)
{
	return expect(c, a, element, 1, size, 1);
}

int sal_linalg_number(const struct linalg_call *c, struct linalg_array *a, int32_t element)
{
	return expect(c, a, element, 0, 1, 1);
}

int sal_linalg_carry(struct linalg_call *c, size_t arg, size_t ret)
{
	const struct linalg_array *from = &c->args[arg];
	struct linalg_array *to = &c->rets[ret];

	if (to->element != from->element || to->rank != from->rank ||
	    memcmp(to->dims, from->dims, from->rank * sizeof(*from->dims)) != 0)
		return sal_linalg_bad(c, "a result differs in type or shape from its argument");
	to->step = from->step;
	to->source = from;
	return SAL_OK;
}

int sal_linalg_info(struct linalg_call *c, struct linalg_array *a)
{
	c->info = a;
	return sal_linalg_number(c, a, LINALG_S32);
}

static const struct linalg_attr *find(const struct linalg_call *c, const char *name)
{
	for (size_t i = 0; i < c->attr_count; i++)
		if (c->attrs[i].name_size == strlen(name) &&
		    memcmp(c->attrs[i].name, name, c->attrs[i].name_size) == 0)
			return &c->attrs[i];
	return NULL;
}

int sal_linalg_letter(const struct linalg_call *c, const char *name, const char *letters,
		      char *out_letter)
{
	const struct linalg_attr *a = find(c, name);

	*out_letter = letters[0];
	if (c->is_plan)
		return SAL_OK;
	if (!a || a->value <= 0 || a->value > 127 || !strchr(letters, (int)a->value))
		return sal_linalg_bad(c, "an attribute is missing or has an unknown value");
	*out_letter = (char)a->value;
	return SAL_OK;
}

int sal_linalg_integer(const struct linalg_call *c, const char *name, int32_t *value)
{
	const struct linalg_attr *a = find(c, name);

	if (c->is_plan)
		return SAL_OK;
	if (!a || a->value < INT32_MIN || a->value > INT32_MAX)
		return sal_linalg_bad(c, "an attribute is missing or is no 32-bit integer");
	*value = (int32_t)a->value;
	return SAL_OK;
}

/* Scratch */

/* The count that LAPACK wrote as a floating-point number. A float may have lost its last digits. */
static double read_count(const struct linalg_call *c, const void *work)
{
	float single;
	double number;

	if (lapack_real(c->type) == LAPACK_S) {
		memcpy(&single, work, sizeof(single));
		return (double)single * (1 + 1e-6);
	}
	memcpy(&number, work, sizeof(number));
	return number;
}

static int ask_work(struct linalg_call *c)
{
	double work[2] = { 0 }, real[2] = { 0 };
	int32_t ints[2] = { 0 };
	struct linalg_space space = { .work = work, .real = real, .ints = ints, .work_count = -1 };
	double count;

	c->routine->solve(c, 0, &space);
	count = read_count(c, work);
	if (space.info != 0 || !(count >= 0) || count > INT32_MAX - 1)
		return sal_linalg_bad(c, "LAPACK accepts no such shapes or attributes");
	if (c->work_count < (int64_t)count + 1)
		c->work_count = (int64_t)count + 1;
	return SAL_OK;
}

static uint64_t aligned(uint64_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* No overflow: the counts fit into 32 bits, except extra_bytes, which is a few matrices. */
static void lay_out(const struct linalg_call *c, uint64_t offsets[5])
{
	offsets[0] = 0;
	offsets[1] = aligned((uint64_t)c->work_count * lapack_bytes(c->type));
	offsets[2] =
		offsets[1] + aligned((uint64_t)c->real_count * lapack_bytes(lapack_real(c->type)));
	offsets[3] = offsets[2] + aligned((uint64_t)c->int_count * sizeof(int32_t));
	offsets[4] = offsets[3] + aligned(c->extra_bytes);
}

static bool is_empty(const struct linalg_call *c)
{
	return c->batch == 0 || c->m == 0 || c->n == 0;
}

int sal_linalg_prepare(struct linalg_call *c, uint64_t *out_scratch_bytes)
{
	uint64_t offsets[5];
	int rc;

	*out_scratch_bytes = 0;
	if (!c->lapack && !c->routine->own) {
		c->lapack = sal_lapack_get(c->err);
		if (!c->lapack)
			return -SAL_FAILED_PRECONDITION;
	}
	rc = c->routine->prepare(c);
	if (rc < 0 || is_empty(c))
		return rc;
	if (c->work_count > INT32_MAX || c->real_count > INT32_MAX || c->int_count > INT32_MAX)
		return sal_linalg_bad(c, "its workspace is too large for LAPACK's integers");
	if (c->routine->has_work)
		rc = ask_work(c);
	if (rc < 0)
		return rc;
	lay_out(c, offsets);
	*out_scratch_bytes = offsets[4];
	return SAL_OK;
}

/* Running */

static void set_info(const struct linalg_call *c, int64_t i, int32_t info)
{
	if (c->info)
		memcpy(linalg_at(c->info, i), &info, sizeof(info));
}

/*
 * LAPACK does not write all results: none of those that the caller does not want, and few of those
 * of a matrix that it refuses. What it does not write must not show the memory of other jobs.
 */
static void start(const struct linalg_call *c, int64_t i)
{
	for (size_t r = 0; r < c->ret_count; r++) {
		const struct linalg_array *to = &c->rets[r];

		if (to->step == 0)
			continue;
		if (!to->source)
			memset(linalg_at(to, i), 0, to->step);
		else if (to->source->data != to->data)
			memmove(linalg_at(to, i), linalg_at(to->source, i), to->step);
	}
}

/* Returns how many problems are solved. */
static int64_t solve_next(const struct linalg_call *c, int64_t i, int64_t end,
			  struct linalg_space *space)
{
	int32_t infos[LINALG_BLOCK] = { 0 };
	int64_t count = end - i < LINALG_BLOCK ? end - i : LINALG_BLOCK;

	for (int64_t k = 0; k < count; k++)
		start(c, i + k);
	if (!c->routine->solve_block || !c->routine->solve_block(c, i, count, space, infos)) {
		for (int64_t k = 0; k < count; k++) {
			space->info = 0;
			c->routine->solve(c, i + k, space);
			infos[k] = space->info;
		}
	}
	for (int64_t k = 0; k < count; k++)
		set_info(c, i + k, infos[k]);
	return count;
}

/* For struct linalg_batch. */
static void solve_some(const void *ctx, void *scratch, int64_t first, int64_t end)
{
	const struct linalg_call *c = ctx;
	uint64_t offsets[5];
	struct linalg_space space = { .work_count = (int32_t)c->work_count };

	lay_out(c, offsets);
	space.work = scratch;
	space.real = (char *)scratch + offsets[1];
	space.ints = (int32_t *)(void *)((char *)scratch + offsets[2]);
	space.extra = (char *)scratch + offsets[3];
	while (first < end)
		first += solve_next(c, first, end, &space);
}

/*
 * A large problem is better solved by LAPACK's own threads, unless there are problems enough for
 * all helpers.
 */
static uint32_t workers_of(const struct linalg_call *c, const struct linalg_batch *b)
{
	if (!c->lapack || !c->helpers ||
	    (linalg_min(c->m, c->n) > SMALL_ORDER && c->batch <= c->helpers->count))
		return 1;
	return sal_linalg_workers(b, c->helpers);
}

static int solve_all(const struct linalg_call *c, uint64_t scratch_bytes)
{
	const struct linalg_batch b = {
		.count = c->batch,
		.cost = (double)c->m * c->n * linalg_min(c->m, c->n),
		.scratch_bytes = scratch_bytes,
		.solve = solve_some,
		.ctx = c,
	};
	uint32_t workers = workers_of(c, &b);
	int rc;

	if (c->lapack && !sal_lapack_enter(c->lapack, workers > 1))
		workers = 1;
	rc = sal_linalg_solve(&b, c->helpers, workers, c->err);
	if (c->lapack)
		sal_lapack_leave();
	return rc;
}

int sal_linalg_run(struct linalg_call *c)
{
	uint64_t bytes;
	int rc = sal_linalg_prepare(c, &bytes);

	if (rc < 0)
		return rc;
	if (!is_empty(c))
		return solve_all(c, bytes);
	for (int64_t i = 0; i < c->batch; i++)
		start(c, i);
	return SAL_OK;
}
