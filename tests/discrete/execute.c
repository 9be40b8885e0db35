/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executions. The call takes the memory, marks donated arguments as gone, makes the outputs and
 * returns; the client's compute thread does the rest.
 */
#include "discrete/discrete.h"

#include <string.h>
#include <unistd.h>

struct run {
	PJRT_LoadedExecutable *program; /* owned reference */
	struct disc_store **args, **outputs; /* owned references */
	bool *donated; /* of each argument */
	size_t arg_count;
	int64_t *retained;
	size_t retained_count;
	int64_t temp_bytes;
	PJRT_Event *done; /* owned */
};

static void run_free(struct run *r)
{
	for (size_t i = 0; i < r->arg_count; i++)
		if (r->args[i])
			disc_store_unref(r->args[i]);
	for (size_t i = 0; i < r->program->output_count; i++)
		if (r->outputs[i])
			disc_store_unref(r->outputs[i]);
	disc_loaded_unref(r->program);
	if (r->done)
		disc_event_unref(r->done);
	free(r->args);
	free(r->outputs);
	free(r->donated);
	free(r->retained);
	free(r);
}

/* On the compute thread */

/* Waits until nobody reads the contents that the program overwrites. */
static void await_readers(const struct run *r)
{
	pthread_mutex_lock(&disc_lock);
	for (size_t i = 0; i < r->arg_count; i++)
		while (r->donated[i] && r->args[i]->readers > 0)
			pthread_cond_wait(&disc_changed, &disc_lock);
	pthread_mutex_unlock(&disc_lock);
}

static PJRT_Error *call_inner(const struct run *r, PJRT_Buffer **args, PJRT_Buffer **outputs)
{
	PJRT_Buffer *const *const arg_lists[1] = { args };
	PJRT_Buffer **const output_lists[1] = { outputs };
	PJRT_Event *complete[1] = { NULL };
	PJRT_ExecuteOptions options = {
		.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE,
		.non_donatable_input_indices = r->retained,
		.num_non_donatable_input_indices = r->retained_count,
	};
	PJRT_LoadedExecutable_Execute_Args execute = {
		.struct_size = PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE,
		.executable = r->program->inner,
		.options = &options,
		.argument_lists = arg_lists,
		.num_devices = 1,
		.num_args = r->arg_count,
		.output_lists = output_lists,
		.device_complete_events = complete,
		.execute_device = r->program->client->inner_device,
	};
	PJRT_Error *error = disc_wrap(disc_inner->PJRT_LoadedExecutable_Execute(&execute));

	return error ? error : disc_await_inner(complete[0]);
}

static PJRT_Error *compute(const struct run *r, PJRT_Buffer **outputs)
{
	PJRT_Buffer **args = disc_new(r->arg_count, sizeof(PJRT_Buffer *));
	PJRT_Error *error = NULL;

	for (size_t i = 0; i < r->arg_count && !error; i++) {
		error = disc_event_wait(r->args[i]->defined);
		args[i] = r->args[i]->inner;
	}
	if (!error) {
		await_readers(r);
		error = call_inner(r, args, outputs);
	}
	free(args);
	return error;
}

static void run_program(void *ctx)
{
	struct run *r = ctx;
	size_t count = r->program->output_count;
	PJRT_Buffer **outputs = disc_new(count, sizeof(PJRT_Buffer *));
	PJRT_Error *error = compute(r, outputs);

	(void)disc_memory_take(r->program->client, -r->temp_bytes);
	for (size_t i = 0; i < count; i++)
		disc_store_define(r->outputs[i], outputs[i], error);
	disc_event_fire(r->done, error ? error->code : PJRT_Error_Code_OK,
			error ? error->text : "");
	disc_error_destroy(error);
	free(outputs);
	(void)usleep((useconds_t)(r->program->client->options.late_free * 1000));
	run_free(r);
}

/* In the call */

static bool is_retained(const PJRT_ExecuteOptions *options, size_t index)
{
	for (size_t i = 0; i < options->num_non_donatable_input_indices; i++)
		if (options->non_donatable_input_indices[i] == (int64_t)index)
			return true;
	return false;
}

static PJRT_Error *check(const PJRT_LoadedExecutable_Execute_Args *args)
{
	const PJRT_LoadedExecutable *p = args->executable;

	if (args->num_devices != 1)
		return disc_error(PJRT_Error_Code_INVALID_ARGUMENT, "there is one device, not %zu",
				  args->num_devices);
	if (args->num_args != p->parameter_count)
		return disc_error(PJRT_Error_Code_INVALID_ARGUMENT,
				  "Execution supplied %zu buffers but compiled program expected "
				  "%zu buffers",
				  args->num_args, p->parameter_count);
	for (size_t i = 0; i < args->num_args; i++)
		if (args->argument_lists[0][i]->client != p->client)
			return disc_error(PJRT_Error_Code_INVALID_ARGUMENT,
					  "argument %zu belongs to another client", i);
	return NULL;
}

static struct run *make_run(const PJRT_LoadedExecutable_Execute_Args *args)
{
	const PJRT_ExecuteOptions *options = args->options;
	PJRT_LoadedExecutable *p = args->executable;
	struct run *r = disc_new(1, sizeof(*r));

	r->program = p;
	pthread_mutex_lock(&disc_lock);
	p->refs++;
	pthread_mutex_unlock(&disc_lock);
	r->arg_count = args->num_args;
	r->args = disc_new(r->arg_count, sizeof(struct disc_store *));
	r->outputs = disc_new(p->output_count, sizeof(struct disc_store *));
	r->donated = disc_new(r->arg_count, sizeof(*r->donated));
	r->retained_count = options->num_non_donatable_input_indices;
	r->retained = disc_copy(options->non_donatable_input_indices,
				r->retained_count * sizeof(*r->retained));
	for (size_t i = 0; i < p->donated_count; i++)
		if (p->donated[i] < r->arg_count && !is_retained(options, p->donated[i]))
			r->donated[p->donated[i]] = true;
	return r;
}

/* Takes references to all arguments. Donated handles lose theirs later, when nothing can fail. */
static PJRT_Error *take_args(struct run *r, PJRT_Buffer *const *args)
{
	PJRT_Error *error = NULL;

	for (size_t i = 0; i < r->arg_count && !error; i++)
		r->args[i] = disc_buffer_use(args[i], false, &error);
	return error;
}

static int64_t output_bytes(const PJRT_LoadedExecutable *p, size_t i)
{
	return disc_memory_round(disc_shape_bytes(&p->outputs[i]));
}

/* The memory of donated arguments becomes that of outputs. */
static int64_t needed_bytes(const struct run *r)
{
	int64_t bytes = r->program->temp_bytes;

	for (size_t i = 0; i < r->program->output_count; i++)
		if (__builtin_add_overflow(bytes, output_bytes(r->program, i), &bytes))
			return INT64_MAX;
	for (size_t i = 0; i < r->arg_count; i++)
		if (r->donated[i])
			bytes -= r->args[i]->bytes;
	return bytes;
}

static void donate(struct run *r, PJRT_Buffer *const *args)
{
	for (size_t i = 0; i < r->arg_count; i++) {
		struct disc_store *s;
		PJRT_Error *error;

		if (!r->donated[i])
			continue;
		pthread_mutex_lock(&disc_lock);
		r->args[i]->bytes = 0;
		pthread_mutex_unlock(&disc_lock);
		s = disc_buffer_use(args[i], true, &error);
		disc_error_destroy(error); /* given twice */
		if (s)
			disc_store_unref(s);
	}
}

/* Makes the outputs, as handles of the caller and as places for the compute thread. */
static void make_outputs(struct run *r, PJRT_Buffer **outputs, bool has_memory)
{
	const PJRT_LoadedExecutable *p = r->program;

	for (size_t i = 0; i < p->output_count; i++) {
		r->outputs[i] = disc_store(p->client, &p->client->memories[0],
					   has_memory ? output_bytes(p, i) : 0);
		outputs[i] = disc_buffer(disc_store_ref(r->outputs[i]), &p->outputs[i]);
	}
}

/* Reports a lack of memory by the events of the outputs, as some plugins do. */
static void fail_late(struct run *take_run, const PJRT_Error *error)
{
	for (size_t i = 0; i < take_run->program->output_count; i++)
		disc_store_define(take_run->outputs[i], NULL, error);
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there is one */
	disc_event_fire(take_run->done, error->code, error->text);
	run_free(take_run);
}

static PJRT_Error *start(struct run *r, PJRT_LoadedExecutable_Execute_Args *args)
{
	PJRT_Client *c = r->program->client;
	PJRT_Error *error = take_args(r, args->argument_lists[0]);
	int64_t bytes = error ? 0 : needed_bytes(r);
	bool fits = !error && disc_memory_take(c, bytes);

	if (!error && !fits)
		error = disc_memory_full(c, bytes);
	if (error && (fits || !c->options.late_errors ||
		      error->code != PJRT_Error_Code_RESOURCE_EXHAUSTED)) {
		run_free(r);
		return error;
	}
	make_outputs(r, args->output_lists[0], fits);
	r->done = disc_event();
	if (args->device_complete_events)
		args->device_complete_events[0] = disc_event_ref(r->done);
	if (fits) {
		r->temp_bytes = r->program->temp_bytes;
		donate(r, args->argument_lists[0]);
		disc_queue_add(&c->compute, run_program, r);
	} else {
		fail_late(r, error);
		disc_error_destroy(error);
	}
	return NULL;
}

static PJRT_Error *execute(PJRT_LoadedExecutable_Execute_Args *args)
{
	PJRT_Error *error;

	DISC_ENTER(PJRT_LoadedExecutable_Execute_Args, args);
	DISC_ENTER(PJRT_ExecuteOptions, args->options);
	error = check(args);
	return error ? error : start(make_run(args), args);
}

void disc_execute_entries(PJRT_Api *api)
{
	api->PJRT_LoadedExecutable_Execute = execute;
}
