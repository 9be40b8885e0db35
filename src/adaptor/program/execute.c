/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/program/execute.h"

#include <stdlib.h>
#include <string.h>

#include "adaptor/buffer/buffer.h"
#include "adaptor/buffer/late.h"
#include "adaptor/buffer/loan.h"
#include "adaptor/buffer/prefetch.h"
#include "adaptor/client/client.h"
#include "adaptor/daemon/conn.h"
#include "adaptor/daemon/rings.h"
#include "adaptor/error.h"
#include "adaptor/event.h"
#include "adaptor/program/donation.h"
#include "adaptor/program/program.h"
#include "adaptor/program/timed.h"
#include "adaptor/program/views.h"
#include "adaptor/promise.h"
#include "adaptor/python/calls.h"
#include "adaptor/python/context.h"
#include "base/array.h"
#include "wire/messages.h"

static void on_executed(void *ctx, const struct adp_answer *answer)
{
	struct adp_promise *promise = ctx;

	adp_promise_fulfil(promise, answer->code, answer->text);
	adp_promise_unref(promise);
}

/* Whoever learns that the execution failed finds the donated arguments as they were before it. */
static void on_lent_executed(void *ctx, const struct adp_answer *answer)
{
	struct adp_loan *loan = ctx;

	if (answer->is_refused)
		adp_loan_return(loan);
	else
		adp_loan_consume(loan);
	adp_promise_fulfil(adp_loan_promise(loan), answer->code, answer->text);
	adp_loan_unref(loan);
}

/* The device that runs a list of arguments. */
static PJRT_Device *device_of(const PJRT_LoadedExecutable_Execute_Args *args, size_t list)
{
	struct adp_program *p = args->executable->program;

	if (!p->facts->is_portable)
		return p->devices[list];
	return args->execute_device ? args->execute_device : p->client->devices[0];
}

static PJRT_Error *check_list(const PJRT_LoadedExecutable_Execute_Args *args, size_t list)
{
	const PJRT_Device *device = device_of(args, list);
	size_t i;

	for (i = 0; i < args->num_args; i++) {
		PJRT_Buffer *b = args->argument_lists[list][i];

		if (atomic_load(&b->deleted))
			return adp_error(SAL_INVALID_ARGUMENT,
					 "Invalid buffer passed to Execute() as argument %zu: "
					 "Buffer has been deleted or donated.",
					 i);
		if (b->memory->device != device)
			return adp_error(
				SAL_INVALID_ARGUMENT,
				"Buffer passed to Execute() as argument %zu of list %zu is "
				"on device %d, but the program runs on device %d",
				i, list, b->memory->device->facts.device_id,
				device->facts.device_id);
	}
	return NULL;
}

static PJRT_Error *check_args(const PJRT_LoadedExecutable_Execute_Args *args)
{
	const struct adp_program *p = args->executable->program;
	PJRT_Error *error = NULL;
	size_t list;

	if (args->num_devices != p->device_count)
		return adp_error(SAL_INVALID_ARGUMENT,
				 "salus: %zu devices asked for, the program runs on %zu",
				 args->num_devices, p->device_count);
	if (args->num_args > SAL_ARGS_MAX / p->device_count ||
	    p->facts->output_count > SAL_ARGS_MAX / p->device_count)
		return adp_error(
			SAL_INVALID_ARGUMENT,
			"salus: %zu arguments and %zu outputs on %zu devices, the most are "
			"%d on all together",
			args->num_args, p->facts->output_count, p->device_count, SAL_ARGS_MAX);
	if (args->options->num_send_ops > 0 || args->options->num_recv_ops > 0)
		return adp_error(SAL_UNIMPLEMENTED, "salus: host callbacks by send and receive");
	if (atomic_load(&p->deleted))
		return adp_error(SAL_INVALID_ARGUMENT, "salus: the program has been deleted");
	for (list = 0; list < args->num_devices && !error; list++)
		error = check_list(args, list);
	return error;
}

/*
 * Donated arguments count as deleted from now on. The daemon needs no record for that. NULL for
 * lack of memory.
 */
static struct adp_loan *lend(const PJRT_LoadedExecutable_Execute_Args *args, struct adp_donation *d,
			     struct adp_promise *promise)
{
	struct adp_loan *loan = adp_loan_create(args->executable->program->conn, promise,
						args->num_devices * d->count);

	if (loan)
		adp_donation_lend(d, args, loan);
	return loan;
}

static void drop_outputs(PJRT_Buffer **outputs, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		(void)adp_buffer_forget(outputs[i]); /* the daemon does not know it */
		(void)adp_Buffer_Destroy(&(PJRT_Buffer_Destroy_Args){ .buffer = outputs[i] });
		outputs[i] = NULL;
	}
}

/* The outputs of one list. */
static bool make_list(struct adp_program *p, PJRT_Device *device, uint64_t first,
		      struct adp_promise *promise, PJRT_Buffer **outputs)
{
	const int64_t *order = p->minor_to_major;
	size_t i;

	for (i = 0; i < p->facts->output_count; i++) {
		const struct sal_output_facts *o = &p->facts->outputs[i];
		struct adp_shape shape = { (PJRT_Buffer_Type)o->type, o->rank, o->dims,
					   adp_memory_of_kind(device, o->memory_kind), order };

		order += o->rank;
		outputs[i] =
			adp_buffer_create(p->client, first + i, &shape, adp_promise_ref(promise));
		if (!outputs[i]) {
			drop_outputs(outputs, i);
			return false;
		}
	}
	return true;
}

static void drop_all(const PJRT_LoadedExecutable_Execute_Args *args, size_t lists)
{
	size_t list;

	for (list = 0; list < lists; list++)
		drop_outputs(args->output_lists[list],
			     args->executable->program->facts->output_count);
}

static bool make_outputs(const PJRT_LoadedExecutable_Execute_Args *args, uint64_t first,
			 struct adp_promise *promise)
{
	struct adp_program *p = args->executable->program;
	size_t list;

	for (list = 0; list < args->num_devices; list++) {
		if (!make_list(p, device_of(args, list), first, promise,
			       args->output_lists[list])) {
			drop_all(args, list);
			return false;
		}
		first += p->facts->output_count;
	}
	return true;
}

/* How many arguments could be donated but are retained; out, if not NULL, gets which. */
static uint32_t list_retained(const PJRT_LoadedExecutable_Execute_Args *args,
			      const struct adp_donation *d, uint32_t *out)
{
	const struct sal_program_facts *facts = args->executable->program->facts;
	size_t i, next = 0;
	uint32_t n = 0;

	for (i = 0; i < facts->donated_count && facts->donated[i] < args->num_args; i++) {
		if (next < d->count && d->args[next] == facts->donated[i]) {
			next++;
			continue;
		}
		if (out)
			out[n] = facts->donated[i];
		n++;
	}
	return n;
}

static uint32_t flags_of(const PJRT_LoadedExecutable_Execute_Args *args)
{
	void *const *functions;
	uint32_t flags = 0;

	if (adp_context_functions(args->options->context, &functions) > 0 ||
	    args->executable->program->calls_old)
		flags |= SAL_EXECUTE_CALLS;
	if (adp_conn_is_serving(args->executable->program->conn))
		flags |= SAL_EXECUTE_NESTED;
	return flags;
}

/* What a record needs besides the arguments. */
struct sending {
	uint64_t first_output;
	bool more_follows; /* the daemon need not wake up for this record */
	bool is_timed;
};

static PJRT_Error *send_execute(const PJRT_LoadedExecutable_Execute_Args *args,
				const struct adp_donation *d, uint64_t request,
				const struct sending *how)
{
	struct adp_program *p = args->executable->program;
	uint32_t retained = list_retained(args, d, NULL);
	uint32_t flags = flags_of(args) | (how->is_timed ? SAL_EXECUTE_TIMED : 0);
	size_t list, i, n = args->num_devices * args->num_args;
	struct sal_msg_execute *m;
	uint64_t *ids;

	m = adp_reserve(p->conn, SAL_MSG_EXECUTE,
			sal_record_size(sizeof(*m),
					n * sizeof(*ids) + retained * sizeof(uint32_t)));
	if (!m)
		return adp_unavailable(p->conn);
	m->header.device = (uint8_t)device_of(args, 0)->number;
	m->request = request;
	m->program = p->id;
	m->first_output = how->first_output;
	m->output_count = (uint32_t)p->facts->output_count;
	m->arg_count = (uint32_t)args->num_args;
	m->header.devices = args->num_devices > 1 ? (uint8_t)args->num_devices : 0;
	m->retained_count = retained;
	m->flags = flags;
	ids = (uint64_t *)(m + 1);
	for (list = 0; list < args->num_devices; list++)
		for (i = 0; i < args->num_args; i++)
			*ids++ = args->argument_lists[list][i]->id;
	(void)list_retained(args, d, (uint32_t *)ids);
	adp_send(p->conn, !how->more_follows);
	return NULL;
}

/* Prepares the outputs that will be prefetched, of the first device; returns how many. */
static size_t plan_prefetch(const struct adp_program *p, PJRT_Buffer **outputs)
{
	size_t i, planned = 0;

	if (p->habit)
		for (i = 0; i < p->facts->output_count; i++)
			planned += adp_prefetch_plan(outputs[i], p->habit, i);
	return planned;
}

static void send_prefetch(PJRT_Buffer **outputs, size_t planned)
{
	size_t i;

	for (i = 0; planned > 0; i++)
		if (outputs[i]->prefetch)
			adp_prefetch_send(outputs[i], --planned == 0);
}

/* The functions of the program; NULL: it has none, or there is no memory. */
static struct adp_callees *add_callees(const PJRT_LoadedExecutable_Execute_Args *args,
				       const struct adp_listener *listener)
{
	void *const *functions = NULL;
	uint32_t count = adp_context_functions(args->options->context, &functions);

	if (count == 0 && !args->executable->program->calls_old)
		return NULL;
	return adp_callees_add(args->executable->program->conn, functions, count, listener);
}

/* *out_is_dropped: there is no request, and the listener hears nothing. */
static PJRT_Error *start(const PJRT_LoadedExecutable_Execute_Args *args,
			 const struct adp_donation *d, const struct adp_listener *listener,
			 uint64_t first, bool more_follows, bool *out_is_dropped)
{
	struct adp_conn *conn = args->executable->program->conn;
	struct adp_listener outer = *listener;
	struct sending how = { first, more_follows,
			       adp_timed_begin(args->executable->program, &outer) };
	struct adp_callees *callees = add_callees(args, &outer);
	uint64_t request = callees ? adp_callees_request(callees)
				   : adp_request(conn, outer.fn, outer.ctx);
	PJRT_Error *error = request ? send_execute(args, d, request, &how) : adp_no_request(conn);

	*out_is_dropped = error && (!request || adp_request_drop(conn, request));
	if (*out_is_dropped)
		adp_timed_drop(&outer);
	if (callees)
		adp_callees_sent(callees, *out_is_dropped);
	return error;
}

/* An execution that donates nothing. */
static PJRT_Error *start_plain(const PJRT_LoadedExecutable_Execute_Args *args,
			       struct adp_donation *d, struct adp_promise *promise, uint64_t first,
			       bool more_follows)
{
	struct adp_listener listener = { on_executed, adp_promise_ref(promise) };
	bool is_dropped;
	PJRT_Error *error = start(args, d, &listener, first, more_follows, &is_dropped);

	if (is_dropped)
		adp_promise_unref(promise); /* the request's reference */
	return error;
}

/* The arguments are lent before the record is sent, because the answer may come at once. */
static PJRT_Error *start_lending(const PJRT_LoadedExecutable_Execute_Args *args,
				 struct adp_donation *d, struct adp_promise *promise,
				 uint64_t first, bool more_follows)
{
	struct adp_loan *loan = lend(args, d, promise);
	struct adp_listener listener = { on_lent_executed, loan };
	PJRT_Error *error;
	bool is_dropped;

	if (!loan)
		return adp_out_of_memory();
	error = start(args, d, &listener, first, more_follows, &is_dropped);
	if (is_dropped) {
		adp_loan_return(loan);
		adp_loan_unref(loan); /* the request's reference */
	}
	return error;
}

/* The arguments are checked. */
static PJRT_Error *execute(PJRT_LoadedExecutable_Execute_Args *args, struct adp_donation *d)
{
	struct adp_program *p = args->executable->program;
	uint32_t outputs = (uint32_t)(p->facts->output_count * args->num_devices);
	struct adp_promise *promise = adp_promise_create(p->conn);
	PJRT_Error *error;
	uint64_t first;
	size_t prefetched, list;

	if (!promise)
		return adp_out_of_memory();
	adp_promise_in_turn(promise);
	first = adp_next_id(p->conn, outputs);
	if (!make_outputs(args, first, promise)) {
		adp_promise_unref(promise);
		return adp_out_of_memory();
	}
	prefetched = plan_prefetch(p, args->output_lists[0]);
	error = (d->count > 0 ? start_lending : start_plain)(args, d, promise, first,
							     prefetched > 0);
	if (error) {
		drop_all(args, args->num_devices);
		adp_promise_unref(promise);
		return error;
	}
	send_prefetch(args->output_lists[0], prefetched);
	for (list = 0; args->device_complete_events && list < args->num_devices; list++) {
		args->device_complete_events[list] =
			adp_event_create(adp_promise_ref(promise), false);
		if (!args->device_complete_events[list])
			error = adp_out_of_memory(); /* the program runs nevertheless */
	}
	adp_promise_unref(promise);
	return error;
}

static PJRT_Error *send_late_args(const PJRT_LoadedExecutable_Execute_Args *args)
{
	PJRT_Error *error = NULL;
	size_t list, i;

	for (list = 0; list < args->num_devices; list++)
		for (i = 0; i < args->num_args && !error; i++)
			error = adp_late_send(args->argument_lists[list][i]);
	return error;
}

/* No argument is a view. */
static PJRT_Error *execute_known(PJRT_LoadedExecutable_Execute_Args *args)
{
	struct adp_donation donation;
	PJRT_Error *error;

	if (!adp_donation_init(&donation, args))
		return adp_out_of_memory();
	error = adp_donation_check(&donation, args);
	if (!error)
		error = send_late_args(args);
	if (!error)
		error = execute(args, &donation);
	adp_donation_fini(&donation);
	return error;
}

PJRT_Error *adp_LoadedExecutable_Execute(PJRT_LoadedExecutable_Execute_Args *args)
{
	struct adp_views views;
	PJRT_Error *error;

	adp_calls_await_room(args->executable->program->conn);
	error = check_args(args);
	if (!error)
		error = adp_views_replace(&views, args);
	if (error)
		return error;
	error = execute_known(args);
	adp_views_drop(&views, args);
	return error;
}
