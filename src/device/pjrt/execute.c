/* SPDX-License-Identifier: Apache-2.0 */
/* One iteration. Allocates only its outputs, unless the program has very many arguments. */
#include "device/pjrt/vendor.h"

#include <stdlib.h>
#include <string.h>

#include "base/sys/clock.h"
#include "device/pjrt/ffi/python.h"

/* Lists up to this length are on the stack: models have some hundreds of parameters. */
#define ON_STACK 512

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
	size_t count = x->arg_count + x->output_count;

	l->retained = NULL;
	l->args = count <= ON_STACK ? l->on_stack : calloc(count, sizeof(PJRT_Buffer *));
	if (!l->args)
		return -SAL_RESOURCE_EXHAUSTED;
	l->outputs = l->args + x->arg_count;
	for (size_t i = 0; i < x->arg_count; i++)
		l->args[i] = x->args[i]->buffer;
	for (size_t i = 0; i < x->output_count; i++)
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

/* Runs before the vendor's call, so that nothing can fail after that call. */
static int make_outputs(const struct sal_loaded *p, const struct sal_execution *x)
{
	for (size_t i = 0; i < x->output_count; i++) {
		struct sal_buffer *b = calloc(1, sizeof(*b));

		if (!b)
			return -SAL_RESOURCE_EXHAUSTED;
		b->stream = p->stream;
		b->host_bytes = p->output_bytes[i];
		x->outputs[i] = b;
	}
	return SAL_OK;
}

static void drop_outputs(const struct sal_execution *x)
{
	for (size_t i = 0; i < x->output_count; i++) {
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
	for (size_t i = 0; i < x->arg_count; i++) {
		if (x->args[i]->stream != p->stream)
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

/* python is NULL, or the context of an execution that may call; run takes it. */
static int run(struct sal_loaded *p, const struct sal_execution *x, struct lists *l,
	       struct vendor_python *take_python, struct sal_err *err)
{
	const struct sal_device *d = p->stream->device;
	PJRT_Buffer *const *const arg_lists[1] = { l->args };
	PJRT_Buffer **const output_lists[1] = { l->outputs };
	PJRT_Event *complete[1] = { NULL };
	bool is_guest = x->is_quick || !p->stream->crew.has_own;
	PJRT_Error *error;
	int rc;

	VENDOR_ARGS(d, PJRT_ExecuteOptions, options,
		    .non_donatable_input_indices = l->retained ? l->retained : x->retained,
		    .num_non_donatable_input_indices = l->retained ? x->arg_count
								   : x->retained_count,
		    .context = take_python ? take_python->context : NULL);
	VENDOR_ARGS(d, PJRT_LoadedExecutable_Execute_Args, execute, .executable = p->executable,
		    .options = &options.args, .argument_lists = arg_lists, .num_devices = 1,
		    .num_args = x->arg_count, .output_lists = output_lists,
		    .device_complete_events = complete, .execute_device = p->stream->chip);

	error = x->is_measured ? execute_measured(p->stream, &execute.args, is_guest)
			       : d->api->PJRT_LoadedExecutable_Execute(&execute.args);
	rc = sal_vendor_check(d, error, err);
	if (rc < 0) {
		sal_python_end(take_python);
		return rc;
	}
	for (size_t i = 0; i < x->output_count; i++)
		x->outputs[i]->buffer = l->outputs[i];
	sal_vendor_when(d, complete[0], take_python ? sal_python_done : x->done,
			take_python ? take_python : x->done_ctx);
	return SAL_OK;
}

static int launch(struct sal_loaded *p, const struct sal_execution *x, struct sal_err *err)
{
	struct vendor_python *python = NULL;
	struct lists lists;
	int rc;

	for (size_t i = 0; i < x->output_count; i++)
		x->outputs[i] = NULL;
	rc = check(p, x, err);
	if (rc < 0)
		return rc;
	if (lists_init(&lists, p, x) < 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for an iteration");
	if (make_outputs(p, x) < 0)
		rc = sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for an iteration");
	else if (x->call || p->may_call)
		rc = sal_python_begin(p->stream->device, x, &python, err);
	if (rc >= 0)
		rc = run(p, x, &lists, python, err);
	if (rc < 0)
		drop_outputs(x);
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
