/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One iteration. Allocates only its outputs, unless the program has very many arguments or runs on
 * several chips.
 */
#include "device/pjrt/vendor.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys/clock.h"
#include "device/pjrt/ffi/python.h"
#include "heap/meter.h"

/* Lists up to this length are on the stack: models have some hundreds of parameters. */
#define ON_STACK 512
#define CHIPS_MAX 64

/* Arrays for the vendor's handles, and for the indices of all arguments if none may be donated. */
struct lists {
	PJRT_Buffer **args; /* owned if not on_stack */
	PJRT_Buffer **outputs; /* behind args */
	int64_t *retained; /* owned; NULL: the caller's list applies */
	PJRT_Buffer *on_stack[ON_STACK];
};

static void lists_fini(struct lists *l)
{
	if (l->args != l->on_stack)
		free(l->args);
	free(l->retained);
}

static int lists_init(struct lists *l, const struct sal_loaded *p, const struct sal_execution *x)
{
	size_t args = p->chip_count * x->arg_count, outputs = p->chip_count * x->output_count;
	size_t count = args + outputs;

	l->retained = NULL;
	l->args = count <= ON_STACK ? l->on_stack : calloc(count, sizeof(PJRT_Buffer *));
	if (!l->args)
		return -SAL_RESOURCE_EXHAUSTED;
	l->outputs = l->args + args;
	for (size_t i = 0; i < args; i++)
		l->args[i] = x->args[i]->buffer;
	for (size_t i = 0; i < outputs; i++)
		l->outputs[i] = NULL;
	if (!p->retains_all)
		return SAL_OK;
	l->retained = calloc(x->arg_count + 1, sizeof(*l->retained));
	if (!l->retained) {
		lists_fini(l);
		return -SAL_RESOURCE_EXHAUSTED;
	}
	for (size_t i = 0; i < x->arg_count; i++)
		l->retained[i] = (int64_t)i;
	return SAL_OK;
}

/* The chip of a list of arguments or outputs. */
static struct sal_stream *chip_of(const struct sal_loaded *p, const struct sal_execution *x,
				  size_t list)
{
	if (p->is_portable)
		return sal_pjrt_chip(p->stream, x->chip);
	return p->chips ? sal_pjrt_chip(p->stream, p->chips[list]) : p->stream;
}

static struct sal_buffer *make_output(struct sal_stream *chip, uint64_t host_bytes)
{
	struct sal_buffer *b = calloc(1, sizeof(*b));

	if (b) {
		b->stream = chip;
		b->host_bytes = host_bytes;
	}
	return b;
}

/* Runs before the vendor's call, so that nothing can fail after that call. */
static int make_outputs(const struct sal_loaded *p, const struct sal_execution *x)
{
	size_t next = 0;

	for (size_t list = 0; list < p->chip_count; list++) {
		struct sal_stream *chip = chip_of(p, x, list);

		for (size_t i = 0; i < x->output_count; i++, next++) {
			x->outputs[next] = make_output(chip, p->output_bytes[i]);
			if (!x->outputs[next])
				return -SAL_RESOURCE_EXHAUSTED;
		}
	}
	return SAL_OK;
}

static void drop_outputs(const struct sal_loaded *p, const struct sal_execution *x)
{
	for (size_t i = 0; i < p->chip_count * x->output_count; i++) {
		sal_pjrt_free_buffer(x->outputs[i]);
		x->outputs[i] = NULL;
	}
}

static int check(const struct sal_loaded *p, const struct sal_execution *x, struct sal_err *err)
{
	if (x->output_count != p->output_count)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "the program has %zu outputs, but the caller expects %zu",
				   p->output_count, x->output_count);
	if (p->chip_count != (x->chip_count ? x->chip_count : 1) || p->chip_count > CHIPS_MAX ||
	    x->chip >= p->stream->chip_count)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "the program runs on %zu devices, but the caller expects %zu",
				   p->chip_count, x->chip_count);
	for (size_t list = 0; list < p->chip_count; list++) {
		const struct sal_stream *chip = chip_of(p, x, list);

		for (size_t i = 0; i < x->arg_count; i++)
			if (x->args[list * x->arg_count + i]->stream != chip)
				return sal_err_set(err, SAL_INVALID_ARGUMENT,
						   "argument %zu is a buffer of another stream", i);
	}
	return SAL_OK;
}

/* A thread of the crew is not a guest: its time counts anyway. */
static PJRT_Error *execute_measured(struct sal_stream *s, PJRT_LoadedExecutable_Execute_Args *args,
				    bool is_guest)
{
	PJRT_Error *error;
	uint64_t before_ns;

	sal_crew_muster(&s->crew);
	before_ns = sal_thread_ns();
	error = s->device->api->PJRT_LoadedExecutable_Execute(args);
	if (is_guest)
		(void)atomic_fetch_add_explicit(&s->crew.guest_ns, sal_thread_ns() - before_ns,
						memory_order_relaxed);
	return error;
}

/* The end of an iteration on several chips. The last chip's report frees it. */
struct gathering {
	_Atomic size_t left; /* chips that have not reported */
	_Atomic int code; /* of the first failure; 0: none */
	char *text; /* owned; of the first failure */
	sal_done_fn *done;
	void *ctx;
};

static void on_chip_done(void *ctx, int code, const char *message)
{
	struct gathering *g = ctx;
	int none = 0;

	if (code && atomic_compare_exchange_strong(&g->code, &none, code))
		g->text = strdup(message ? message : "");
	if (atomic_fetch_sub(&g->left, 1) > 1)
		return;
	g->done(g->ctx, g->code, g->text ? g->text : "");
	free(g->text);
	free(g);
}

/* done and ctx: what is called when all chips have reported. */
static struct gathering *gather(size_t chips, sal_done_fn *done, void *ctx)
{
	struct gathering *g = calloc(1, sizeof(*g));

	if (g) {
		atomic_init(&g->left, chips);
		g->done = done;
		g->ctx = ctx;
	}
	return g;
}

/*
 * XLA:CPU's devices meet at places that are the process's, not the client's. Their name contains the
 * id of the launch. So no two launches that run at the same time may have the same id: iterations
 * of two jobs would exchange their data, or end the process.
 */
static int next_launch(struct sal_device *d)
{
	return (int)atomic_fetch_add_explicit(&d->launches, 1, memory_order_relaxed);
}

static PJRT_Error *call(struct sal_loaded *p, const struct sal_execution *x, const struct lists *l,
			struct vendor_python *python, PJRT_Event **complete)
{
	const struct sal_device *d = p->stream->device;
	PJRT_Buffer *const *arg_lists[CHIPS_MAX];
	PJRT_Buffer **output_lists[CHIPS_MAX];
	bool is_guest = x->is_quick || !sal_crew_calls_own(&p->stream->crew);
	struct sal_payer before;
	PJRT_Error *error;

	VENDOR_ARGS(d, PJRT_ExecuteOptions, options, .launch_id = next_launch(p->stream->device),
		    .non_donatable_input_indices = l->retained ? l->retained : x->retained,
		    .num_non_donatable_input_indices = l->retained ? x->arg_count
								   : x->retained_count,
		    .context = python ? python->context : NULL);
	VENDOR_ARGS(d, PJRT_LoadedExecutable_Execute_Args, execute, .executable = p->executable,
		    .options = &options.args, .argument_lists = arg_lists,
		    .num_devices = p->chip_count, .num_args = x->arg_count,
		    .output_lists = output_lists, .device_complete_events = complete,
		    .execute_device = p->chip_count == 1 ? chip_of(p, x, 0)->chip : NULL);

	for (size_t list = 0; list < p->chip_count; list++) {
		arg_lists[list] = l->args + list * x->arg_count;
		output_lists[list] = l->outputs + list * x->output_count;
		complete[list] = NULL;
	}
	sal_payer_of_stream(p->stream->crew.mark, x->meter);
	before = sal_payer_set(sal_payer_for(x->meter, true));
	error = x->is_measured ? execute_measured(p->stream, &execute.args, is_guest)
			       : d->api->PJRT_LoadedExecutable_Execute(&execute.args);
	(void)sal_payer_set(before);
	return error;
}

/* python is NULL, or the context of an execution that may call; run takes it. */
static int run(struct sal_loaded *p, const struct sal_execution *x, struct lists *l,
	       struct vendor_python *take_python, struct sal_err *err)
{
	const struct sal_device *d = p->stream->device;
	sal_done_fn *done = take_python ? sal_python_done : x->done;
	void *ctx = take_python ? take_python : x->done_ctx;
	size_t chips = p->chip_count;
	struct gathering *g = chips > 1 ? gather(chips, done, ctx) : NULL;
	PJRT_Event *complete[CHIPS_MAX];
	int rc;

	if (chips > 1 && !g) {
		sal_python_end(take_python);
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for an iteration");
	}
	rc = sal_vendor_check(d, call(p, x, l, take_python, complete), err);
	if (rc < 0) {
		sal_python_end(take_python);
		free(g);
		return rc;
	}
	for (size_t i = 0; i < chips * x->output_count; i++)
		x->outputs[i]->buffer = l->outputs[i];
	for (size_t list = 0; list < chips; list++)
		sal_vendor_when(d, complete[list], g ? on_chip_done : done, g ? g : ctx);
	return SAL_OK;
}

static int launch(struct sal_loaded *p, const struct sal_execution *x, struct sal_err *err)
{
	struct vendor_python *python = NULL;
	struct lists lists;
	int rc;

	for (size_t i = 0; i < (x->chip_count ? x->chip_count : 1) * x->output_count; i++)
		x->outputs[i] = NULL;
	rc = check(p, x, err);
	if (rc < 0)
		return rc;
	if (lists_init(&lists, p, x) < 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for an iteration");
	if (make_outputs(p, x) < 0)
		rc = sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for an iteration");
	else if (x->call || p->may_call)
		rc = sal_python_begin(p->stream, x, &python, err);
	if (rc >= 0)
		rc = run(p, x, &lists, python, err);
	if (rc < 0)
		drop_outputs(p, x);
	lists_fini(&lists);
	return rc;
}

struct request {
	struct sal_loaded *program;
	const struct sal_execution *execution;
	struct sal_err *err;
	int rc;
};

static void serve(void *ctx)
{
	struct request *r = ctx;

	r->rc = launch(r->program, r->execution, r->err);
}

int sal_pjrt_execute(struct sal_loaded *p, const struct sal_execution *x, struct sal_err *err)
{
	struct request request = { .program = p, .execution = x, .err = err };

	sal_crew_set_even(&p->stream->crew, x->is_even);
	if (x->is_quick)
		return launch(p, x, err);
	sal_crew_call(&p->stream->crew, serve, &request);
	return request.rc;
}
