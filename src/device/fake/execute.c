/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One iteration: the checks and allocations inside the call, and the work of the stream's thread.
 */
#include "device/fake/impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run_work {
	struct fake_work work;
	struct sal_stream *stream; /* borrowed */
	struct sal_stream *chip; /* borrowed; where the outputs are */
	struct fake_program program; /* a copy: the program may be unloaded meanwhile */
	struct fake_cell **args; /* owned; references */
	struct fake_cell *outputs[FAKE_OUTPUTS_MAX]; /* references */
	size_t arg_count;
};

/* The arithmetic */

#define ADD(type)                              \
	do {                                   \
		type x, y;                     \
		memcpy(&x, a + i, sizeof(x));  \
		memcpy(&y, b + i, sizeof(y));  \
		x = (type)(x + y);             \
		memcpy(to + i, &x, sizeof(x)); \
	} while (0)

/* Integers wrap. Types without arithmetic in C are added byte by byte. */
static void add(int32_t type, const unsigned char *a, const unsigned char *b, unsigned char *to,
		uint64_t size)
{
	size_t step = type == 11 || type == 4 || type == 8   ? 4
		      : type == 12 || type == 5 || type == 9 ? 8
		      : type == 3 || type == 7		     ? 2
							     : 1;

	for (uint64_t i = 0; i + step <= size; i += step) {
		switch (type) {
		case 11:
			ADD(float);
			break;
		case 12:
			ADD(double);
			break;
		case 4:
		case 8:
			ADD(uint32_t);
			break;
		case 5:
		case 9:
			ADD(uint64_t);
			break;
		case 3:
		case 7:
			ADD(uint16_t);
			break;
		default:
			ADD(uint8_t);
			break;
		}
	}
}

static void compute(const struct fake_output *o, struct fake_cell *const *args,
		    struct fake_cell *to)
{
	SAL_ASSERT(to);
	switch (o->op) {
	case FAKE_COPY:
		memcpy(to->bytes, args[o->a]->bytes, to->size);
		break;
	case FAKE_ADD:
		add(o->type, args[o->a]->bytes, args[o->b]->bytes, to->bytes, to->size);
		break;
	case FAKE_FILL:
		memset(to->bytes, (int)o->a, to->size);
		break;
	}
}

/* On the stream's thread, or inside the call */

static void set_failure(struct fake_failure *failure, int code, const char *text)
{
	failure->code = code;
	snprintf(failure->text, sizeof(failure->text), "%.*s", FAKE_TEXT - 1, text);
}

/* Runs the iteration and returns its result. */
static struct fake_failure run_program(struct run_work *r)
{
	const struct fake_program *p = &r->program;
	struct fake_failure failure = { 0 };
	struct sal_err err;
	uint64_t run_ns;

	for (size_t i = 0; i < r->arg_count && !failure.code; i++)
		failure = r->args[i]->failure;
	if (failure.code)
		return failure;
	if (sal_fake_reserve(r->stream->device, p->temp_bytes, &err) < 0) {
		set_failure(&failure, err.code, err.text);
		return failure;
	}
	run_ns = p->has_run_ns ? p->run_ns : r->stream->device->run_ns;
	if (!sal_fake_pass(r->stream, p->hangs ? FAKE_FOREVER : run_ns))
		set_failure(&failure, SAL_CANCELLED, "the stream was closed");
	else
		failure = p->fail;
	(void)atomic_fetch_add(&r->stream->busy_ns, p->hangs ? 0 : run_ns);
	for (size_t i = 0; i < p->output_count && !failure.code; i++)
		compute(&p->outputs[i], r->args, r->outputs[i]);
	sal_fake_release(r->stream->device, p->temp_bytes);
	return failure;
}

static void work_free(struct run_work *r)
{
	for (size_t i = 0; i < r->arg_count; i++)
		sal_fake_cell_unref(r->args[i]);
	for (size_t i = 0; i < r->program.output_count; i++)
		sal_fake_cell_unref(r->outputs[i]);
	free(r->args);
	free(r);
}

static void run_iteration(struct fake_work *work, bool cancelled)
{
	struct run_work *r = (struct run_work *)work;
	struct fake_work call = *work;
	struct fake_failure failure = { 0 };

	if (cancelled)
		set_failure(&failure, SAL_CANCELLED, "the stream was closed");
	else
		failure = run_program(r);
	for (size_t i = 0; i < r->program.output_count; i++) {
		SAL_ASSERT(r->outputs[i]);
		r->outputs[i]->failure = failure;
	}
	/* The done function may free everything, so drop all references first. */
	work_free(r);
	if (call.done) /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it has a copy */
		call.done(call.done_ctx, failure.code, failure.text);
}

/* At once */

static bool is_kept(const struct sal_execution *x, int64_t arg)
{
	for (size_t i = 0; i < x->retained_count; i++) {
		if (x->retained[i] == arg)
			return true;
	}
	return false;
}

static bool fits(const struct fake_cell *arg, const struct fake_output *o)
{
	return arg->size == o->bytes && (o->op == FAKE_COPY || arg->type == o->type);
}

/* The part of an execution that one chip runs. */
struct share {
	struct sal_execution x; /* its lists only */
	struct sal_stream *chip; /* borrowed */
};

static struct share share_of(const struct sal_loaded *l, const struct sal_execution *x, size_t list)
{
	struct share share = { *x, NULL };

	if (x->args)
		share.x.args = x->args + list * x->arg_count;
	if (x->outputs)
		share.x.outputs = x->outputs + list * x->output_count;
	share.chip = sal_fake_chip(l->stream, (uint32_t)(l->program.first_chip + list));
	return share;
}

static int check_share(const struct sal_loaded *l, const struct share *share, struct sal_err *err)
{
	const struct fake_program *p = &l->program;
	const struct sal_execution *x = &share->x;

	for (size_t i = 0; i < x->arg_count; i++) {
		if (!x->args[i]->cell)
			return sal_err_set(err, SAL_INVALID_ARGUMENT,
					   "argument %zu was donated to an iteration", i);
		if (x->args[i]->cell->stream != share->chip)
			return sal_err_set(err, SAL_INVALID_ARGUMENT,
					   "argument %zu is a buffer of another stream", i);
	}
	for (size_t i = 0; i < p->output_count; i++) {
		const struct fake_output *o = &p->outputs[i];

		if ((o->op != FAKE_FILL && !fits(x->args[o->a]->cell, o)) ||
		    (o->op == FAKE_ADD && !fits(x->args[o->b]->cell, o)) ||
		    (o->takes >= 0 && x->args[o->takes]->cell->size != o->bytes))
			return sal_err_set(
				err, SAL_INVALID_ARGUMENT,
				"output %zu and its arguments must have the same size and type", i);
	}
	return SAL_OK;
}

static int check(const struct sal_loaded *l, const struct sal_execution *x, struct sal_err *err)
{
	const struct fake_program *p = &l->program;
	int rc = SAL_OK;

	if (p->refuse.code)
		return sal_err_set(err, (enum sal_code)p->refuse.code, "%s", p->refuse.text);
	if (x->arg_count != p->arg_count || x->output_count != p->output_count ||
	    (x->chip_count ? x->chip_count : 1) != p->chip_count)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "the program has %zu arguments and %zu outputs, not %zu and %zu",
				   p->arg_count, p->output_count, x->arg_count, x->output_count);
	for (size_t list = 0; list < p->chip_count && rc >= 0; list++) {
		struct share share = share_of(l, x, list);

		rc = check_share(l, &share, err);
	}
	return rc;
}

static struct run_work *work_create(const struct sal_loaded *l, const struct share *share)
{
	const struct sal_execution *x = &share->x;
	struct run_work *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->args = calloc(x->arg_count + 1, sizeof(struct fake_cell *));
	if (!r->args) {
		free(r);
		return NULL;
	}
	r->work.run = run_iteration;
	r->work.done = x->done;
	r->work.done_ctx = x->done_ctx;
	r->stream = l->stream;
	r->chip = share->chip;
	r->program = l->program;
	for (size_t i = 0; i < x->arg_count; i++)
		r->args[i] = sal_fake_cell_ref(x->args[i]->cell);
	r->arg_count = x->arg_count;
	return r;
}

/*
 * Makes a handle and a cell for each output. An output that takes over a donated argument needs no
 * memory of its own.
 */
static int make_outputs(struct run_work *r, const struct sal_execution *x, struct sal_err *err)
{
	for (size_t i = 0; i < x->output_count; i++) {
		const struct fake_output *o = &r->program.outputs[i];
		bool takes = o->takes >= 0 && !is_kept(x, o->takes);
		uint64_t charged = takes || o->is_host ? 0 : o->bytes;
		struct sal_buffer *b = calloc(1, sizeof(*b));
		int rc;

		if (!b)
			return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for an output");
		x->outputs[i] = b;
		rc = sal_fake_reserve(r->stream->device, charged, err);
		if (rc < 0)
			return rc;
		b->cell = sal_fake_cell_create(r->chip, o->type, o->bytes, charged);
		if (!b->cell) {
			sal_fake_release(r->stream->device, charged);
			return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for an output");
		}
		b->cell->memory = o->is_host ? FAKE_HOST : FAKE_DEVICE;
		r->outputs[i] = sal_fake_cell_ref(b->cell);
	}
	return SAL_OK;
}

/* Runs when nothing can fail any more: consumes the donated arguments. */
static void take_over(struct run_work *r, const struct sal_execution *x)
{
	for (size_t i = 0; i < x->output_count; i++) {
		int64_t arg = r->program.outputs[i].takes;
		struct fake_cell *cell;

		if (arg < 0 || is_kept(x, arg))
			continue;
		cell = x->args[arg]->cell;
		SAL_ASSERT(r->outputs[i]);
		r->outputs[i]->charged = cell->charged;
		cell->charged = 0;
		x->args[arg]->cell = NULL;
		sal_fake_cell_unref(cell);
	}
}

/*
 * Runs inside the call only if all earlier work is done, so that the order stays the same. In tier
 * 1 only the stream's thread computes.
 */
static void start(struct run_work *r)
{
	struct sal_stream *s = r->stream;

	if (!s->device->runs_inline || s->tier > 0 || !sal_fake_is_idle(s)) {
		sal_fake_push(s, &r->work);
		return;
	}
	sal_fake_enter(s);
	r->work.run(&r->work, false);
	sal_fake_leave(s);
}

/* The iteration ends when its last chip has ended. */
struct gathering {
	size_t left; /* the stream's thread, or the calls that run inline one by one */
	struct fake_failure failure; /* the first one */
	sal_done_fn *done;
	void *ctx;
};

static void on_chip_done(void *ctx, int code, const char *message)
{
	struct gathering *g = ctx;

	if (code && !g->failure.code)
		set_failure(&g->failure, code, message);
	if (--g->left > 0)
		return;
	if (g->done)
		g->done(g->ctx, g->failure.code, g->failure.text);
	free(g);
}

static void drop(struct run_work **works, const struct sal_execution *x, size_t chips)
{
	for (size_t list = 0; list < chips; list++)
		if (works[list])
			work_free(works[list]);
	for (size_t i = 0; i < chips * x->output_count; i++) {
		sal_fake_free_buffer(x->outputs[i]);
		x->outputs[i] = NULL;
	}
}

/* The work of all chips: if one chip has no memory, none starts. */
static int prepare(const struct sal_loaded *p, const struct sal_execution *x,
		   struct run_work **works, struct sal_err *err)
{
	int rc = SAL_OK;

	for (size_t list = 0; list < p->program.chip_count && rc >= 0; list++) {
		struct share share = share_of(p, x, list);

		works[list] = work_create(p, &share);
		rc = works[list] ? make_outputs(works[list], &share.x, err)
				 : sal_err_set(err, SAL_RESOURCE_EXHAUSTED,
					       "no memory for an iteration");
	}
	return rc;
}

static void start_all(const struct sal_loaded *p, const struct sal_execution *x,
		      struct run_work **works, struct gathering *g)
{
	size_t chips = p->program.chip_count;

	for (size_t list = 0; list < chips; list++) {
		struct share share = share_of(p, x, list);

		take_over(works[list], &share.x);
		if (chips > 1) {
			works[list]->work.done = on_chip_done;
			works[list]->work.done_ctx = g;
		}
	}
	for (size_t list = 0; list < chips; list++)
		start(works[list]);
}

int sal_fake_execute(struct sal_loaded *p, const struct sal_execution *x, struct sal_err *err)
{
	struct run_work *works[FAKE_CHIPS_MAX] = { NULL };
	size_t chips = p->program.chip_count;
	struct gathering *g;
	int rc;

	rc = check(p, x, err);
	if (rc < 0)
		return rc;
	g = calloc(1, sizeof(*g));
	if (!g)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for an iteration");
	*g = (struct gathering){ .left = chips, .done = x->done, .ctx = x->done_ctx };
	rc = prepare(p, x, works, err);
	if (rc < 0) {
		drop(works, x, chips);
		free(g);
		return rc;
	}
	start_all(p, x, works, g);
	if (chips == 1)
		free(g); /* the work reports by itself */
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the works have it */
	return SAL_OK;
}
