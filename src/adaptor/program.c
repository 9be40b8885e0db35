/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program - compiled programs. Compiling and loading wait for the daemon; what is known about a program
 * comes with the answer, so that all questions about it are answered in this process (facts.c).
 */
#include "adaptor/prefetch.h"

#include <stdlib.h>
#include <string.h>

#include "wire/facts.h"

/* More than any program has. */
#define FACTS_MAX (UINT64_C(64) << 20)
/* An optimised program up to this size is fetched at once and kept: JAX asks for each several times. */
#define OPTIMIZED_KEPT UINT64_C(65536)

/* --- asking and waiting ------------------------------------------------------------------------------- */

struct question {
	struct adp_promise *promise; /* owned reference */
	_Atomic int refs; /* who asks, and the request */
	int code;
	char *text; /* owned */
	uint64_t value;
};

static void question_unref(struct question *q)
{
	if (atomic_fetch_sub(&q->refs, 1) > 1)
		return;
	adp_promise_unref(q->promise);
	free(q->text);
	free(q);
}

static void on_answer(void *ctx, const struct adp_answer *answer)
{
	struct question *q = ctx;

	q->code = answer->code;
	q->value = answer->value;
	q->text = answer->code ? strdup(answer->text) : NULL;
	adp_promise_keep(q->promise, 0, NULL);
	question_unref(q);
}

static struct question *question_create(struct adp_conn *conn, uint64_t *out_request)
{
	struct question *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	atomic_init(&q->refs, 2);
	q->promise = adp_promise_create(conn);
	*out_request = q->promise ? adp_request(conn, on_answer, q) : 0;
	if (*out_request)
		return q;
	adp_promise_unref(q->promise);
	free(q);
	return NULL;
}

/* Nothing was sent. */
static void question_drop(struct adp_conn *conn, struct question *q, uint64_t request)
{
	int refs = adp_request_drop(conn, request) ? 2 : 1; /* the request's, and ours */

	if (atomic_fetch_sub(&q->refs, refs - 1) > 0)
		question_unref(q);
}

/* What a vendor's words mean for the user, if we know. */
static const char *hint_for(const char *text)
{
	if (!text || !strstr(text, "No FFI handler registered"))
		return "";
	if (strstr(text, "lapack_"))
		return " [salus: linear algebra that JAX leaves to LAPACK on the CPU (cholesky, svd, eigh, "
		       "solve, ...) is not supported through Salus yet]";
	if (strstr(text, "python"))
		return " [salus: Python callbacks (jax.debug.print, pure_callback, io_callback) are not "
		       "supported through Salus yet]";
	return " [salus: custom calls of your own (jax.ffi) are not supported through Salus yet]";
}

/* Waits, and lets go of the question. */
static PJRT_Error *wait_for_answer(struct question *q, uint64_t *out_value)
{
	PJRT_Error *error;

	(void)adp_promise_wait(q->promise);
	error = adp_error(q->code, "%s%s", q->text ? q->text : "", hint_for(q->text));
	if (out_value)
		*out_value = q->value;
	question_unref(q);
	return error;
}

/* --- programs ------------------------------------------------------------------------------------------ */

static struct adp_program *program_ref(struct adp_program *p)
{
	(void)atomic_fetch_add(&p->refs, 1);
	return p;
}

static void unload(struct adp_program *p)
{
	struct sal_msg_unload *m;

	if (atomic_exchange(&p->deleted, true))
		return;
	m = adp_reserve(p->conn, SAL_MSG_UNLOAD, sizeof(*m));
	if (!m)
		return;
	m->id = p->id;
	adp_send(p->conn, false);
}

static void optimized_free(struct adp_optimized *o)
{
	if (o)
		free(o->bytes);
	free(o);
}

static void program_unref(struct adp_program *p)
{
	size_t i;

	if (!p || atomic_fetch_sub(&p->refs, 1) > 1)
		return;
	unload(p);
	adp_conn_unref(p->conn);
	adp_client_unref(p->client);
	for (i = 0; p->layouts && p->layouts[i]; i++)
		free(p->layouts[i]);
	free(p->layouts);
	(void)pthread_mutex_destroy(&p->layout_lock);
	free(p->facts);
	free(p->fact_bytes);
	free(p->costs);
	free(p->types);
	free(p->dims);
	free(p->minor_to_major);
	free(p->ranks);
	free(p->kinds);
	free(p->kind_sizes);
	adp_habit_unref(p->habit);
	optimized_free(atomic_load(&p->optimized));
	free(p);
}

static PJRT_Error *nonsense(void)
{
	return adp_error(SAL_DATA_LOSS, "salus: salusd sent nonsense about a program");
}

/* Ask for something about a program: how large it is, and its bytes, to be freed, if there is room for them. */
static PJRT_Error *fetch(struct adp_program *p, enum sal_fetch what, uint64_t room,
			 uint64_t *out_size, void **out_bytes)
{
	struct adp_range range = { .at = NULL };
	struct sal_err err = { 0 };
	struct sal_msg_fetch *m;
	struct question *q;
	uint64_t request;
	PJRT_Error *error;

	*out_size = 0;
	if (room > 0 && adp_range_alloc(p->conn, room, &range, &err) < 0)
		return adp_error_from(&err);
	q = question_create(p->conn, &request);
	m = q ? adp_reserve(p->conn, SAL_MSG_FETCH, sizeof(*m)) : NULL;
	if (!m) {
		if (q)
			question_drop(p->conn, q, request);
		adp_range_free(p->conn, &range);
		return q ? adp_unavailable(p->conn) : adp_no_request(p->conn);
	}
	m->request = request;
	m->id = p->id;
	m->what = what;
	if (range.at)
		m->into = range.place;
	adp_send(p->conn, true);
	error = wait_for_answer(q, out_size);
	if (!error && *out_size > 0 && *out_size <= room) {
		*out_bytes = malloc((size_t)*out_size);
		if (*out_bytes && range.at)
			memcpy(*out_bytes, range.at, (size_t)*out_size);
		else
			error = adp_out_of_memory();
	}
	adp_range_free(p->conn, &range);
	return error;
}

/* The bytes of something that has this size. */
static PJRT_Error *fetch_bytes(struct adp_program *p, enum sal_fetch what, uint64_t size,
			       void **out_bytes)
{
	uint64_t told;
	PJRT_Error *error = fetch(p, what, size, &told, out_bytes);

	if (error || told == size)
		return error;
	free(*out_bytes);
	*out_bytes = NULL;
	return nonsense();
}

/* Shapes that everybody can reckon with from here on. */
static PJRT_Error *check_outputs(const struct sal_program_facts *f)
{
	size_t i, k;

	for (i = 0; i < f->output_count; i++) {
		const struct sal_output_facts *o = &f->outputs[i];

		if (o->rank > SAL_RANK_MAX)
			return adp_error(
				SAL_UNIMPLEMENTED,
				"salus: an output of %u dimensions; arrays here have %d at most",
				o->rank, SAL_RANK_MAX);
		for (k = 0; k < o->rank; k++)
			if (o->dims[k] < 0)
				return nonsense();
		if (adp_host_bytes((PJRT_Buffer_Type)o->type, o->dims, o->rank) > INT64_MAX)
			return nonsense();
	}
	return NULL;
}

/* Flat lists as PJRT hands them out. */
static bool fill_lists(struct adp_program *p)
{
	const struct sal_program_facts *f = p->facts;
	size_t i, k, n = f->output_count, dims = 0;

	for (i = 0; i < n; i++)
		dims += f->outputs[i].rank;
	p->types = calloc(n + 1, sizeof(*p->types));
	p->ranks = calloc(n + 1, sizeof(*p->ranks));
	p->kinds = calloc(n + 1, sizeof(*p->kinds));
	p->kind_sizes = calloc(n + 1, sizeof(*p->kind_sizes));
	p->dims = calloc(dims + 1, sizeof(*p->dims));
	p->minor_to_major = calloc(dims + 1, sizeof(*p->minor_to_major));
	p->costs = adp_named_values(f->costs);
	if (!p->types || !p->ranks || !p->kinds || !p->kind_sizes || !p->dims ||
	    !p->minor_to_major || !p->costs)
		return false;
	for (i = 0, dims = 0; i < n; i++) {
		const struct sal_output_facts *o = &f->outputs[i];

		p->types[i] = (PJRT_Buffer_Type)o->type;
		p->ranks[i] = o->rank;
		p->kinds[i] = o->memory_kind.at;
		p->kind_sizes[i] = o->memory_kind.size;
		if (!adp_layout_parse(o->layout, o->rank, p->minor_to_major + dims))
			for (k = 0; k < o->rank; k++)
				p->minor_to_major[dims + k] = (int64_t)(o->rank - 1 - k);
		for (k = 0; k < o->rank; k++)
			p->dims[dims++] = o->dims[k];
	}
	p->habit = adp_habit_create(f);
	return true;
}

/* The daemon knows program `id`; learn all about it. */
static PJRT_Error *program_create(PJRT_Client *client, uint64_t id, uint64_t fact_size,
				  struct adp_program **out)
{
	struct adp_program *p = calloc(1, sizeof(*p));
	struct sal_err err = { 0 };
	PJRT_Error *error;

	if (!p)
		return adp_out_of_memory();
	atomic_init(&p->refs, 1);
	(void)pthread_mutex_init(&p->layout_lock, NULL);
	p->conn = adp_conn_ref(client->conn);
	p->client = adp_client_ref(client);
	p->id = id;
	if (fact_size == 0 || fact_size > FACTS_MAX)
		error = nonsense();
	else
		error = fetch_bytes(p, SAL_FETCH_FACTS, fact_size, &p->fact_bytes);
	if (!error &&
	    sal_program_facts_unpack(p->fact_bytes, (size_t)fact_size, &p->facts, &err) < 0)
		error = nonsense();
	if (!error)
		error = check_outputs(p->facts);
	if (!error && !fill_lists(p))
		error = adp_out_of_memory();
	if (error) {
		program_unref(p);
		return error;
	}
	*out = p;
	return NULL;
}

static PJRT_Error *loaded_create(struct adp_program *take_program, PJRT_LoadedExecutable **out)
{
	PJRT_LoadedExecutable *loaded = malloc(sizeof(*loaded));

	if (!loaded) {
		program_unref(take_program);
		return adp_out_of_memory();
	}
	loaded->program = take_program;
	*out = loaded;
	return NULL;
}

/* Put bytes where the daemon can read them. */
static int put(struct adp_conn *conn, const char *bytes, size_t size, struct adp_range *out,
	       struct sal_err *err)
{
	int rc;

	*out = (struct adp_range){ .at = NULL };
	if (size == 0)
		return SAL_OK;
	rc = adp_range_alloc(conn, size, out, err);
	if (rc >= 0)
		memcpy(out->at, bytes, size);
	return rc;
}

PJRT_Error *adp_Client_Compile(PJRT_Client_Compile_Args *args)
{
	struct adp_conn *conn = args->client->conn;
	struct adp_range program = { .at = NULL }, options = { .at = NULL };
	struct sal_err err = { 0 };
	uint64_t id = adp_next_id(conn, 1), request, fact_size = 0;
	struct sal_msg_compile *m = NULL;
	struct adp_program *p = NULL;
	struct question *q = NULL;
	PJRT_Error *error = NULL;

	if (args->program->format_size >= sizeof(m->format))
		return adp_error(SAL_INVALID_ARGUMENT, "salus: unknown program format");
	if (put(conn, args->program->code, args->program->code_size, &program, &err) < 0 ||
	    put(conn, args->compile_options, args->compile_options_size, &options, &err) < 0) {
		error = adp_error_from(&err);
		goto out;
	}
	q = question_create(conn, &request);
	m = q ? adp_reserve(conn, SAL_MSG_COMPILE, sizeof(*m)) : NULL;
	if (!m) {
		error = q ? adp_unavailable(conn) : adp_no_request(conn);
		if (q)
			question_drop(conn, q, request);
		goto out;
	}
	m->request = request;
	m->id = id;
	m->program = program.place;
	m->options = options.place;
	memcpy(m->format, args->program->format, args->program->format_size);
	adp_send(conn, true);
	error = wait_for_answer(q, &fact_size);
	if (!error)
		error = program_create(args->client, id, fact_size, &p);
	if (!error)
		error = loaded_create(p, &args->executable);
out:
	adp_range_free(conn, &program);
	adp_range_free(conn, &options);
	return error;
}

PJRT_Error *adp_Executable_DeserializeAndLoad(PJRT_Executable_DeserializeAndLoad_Args *args)
{
	struct adp_conn *conn = args->client->conn;
	struct adp_range blob = { .at = NULL };
	struct sal_err err = { 0 };
	uint64_t id = adp_next_id(conn, 1), request, fact_size = 0;
	struct sal_msg_load *m;
	struct adp_program *p = NULL;
	struct question *q;
	PJRT_Error *error;

	if (put(conn, args->serialized_executable, args->serialized_executable_size, &blob, &err) <
	    0)
		return adp_error_from(&err);
	q = question_create(conn, &request);
	m = q ? adp_reserve(conn, SAL_MSG_LOAD, sizeof(*m)) : NULL;
	if (!m) {
		error = q ? adp_unavailable(conn) : adp_no_request(conn);
		if (q)
			question_drop(conn, q, request);
		adp_range_free(conn, &blob);
		return error;
	}
	m->request = request;
	m->id = id;
	m->blob = blob.place;
	adp_send(conn, true);
	error = wait_for_answer(q, &fact_size);
	if (!error)
		error = program_create(args->client, id, fact_size, &p);
	if (!error)
		error = loaded_create(p, &args->loaded_executable);
	adp_range_free(conn, &blob);
	return error;
}

/* --- objects -------------------------------------------------------------------------------------------- */

PJRT_Error *adp_Executable_Destroy(PJRT_Executable_Destroy_Args *args)
{
	if (args->executable) {
		program_unref(args->executable->program);
		free(args->executable);
	}
	return NULL;
}

PJRT_Error *adp_LoadedExecutable_Destroy(PJRT_LoadedExecutable_Destroy_Args *args)
{
	if (args->executable) {
		program_unref(args->executable->program);
		free(args->executable);
	}
	return NULL;
}

PJRT_Error *adp_LoadedExecutable_GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args *args)
{
	args->executable = malloc(sizeof(*args->executable));
	if (!args->executable)
		return adp_out_of_memory();
	args->executable->program = program_ref(args->loaded_executable->program);
	return NULL;
}

PJRT_Error *
adp_LoadedExecutable_AddressableDevices(PJRT_LoadedExecutable_AddressableDevices_Args *args)
{
	args->addressable_devices = args->executable->program->client->devices;
	args->num_addressable_devices = 1;
	return NULL;
}

PJRT_Error *adp_LoadedExecutable_Delete(PJRT_LoadedExecutable_Delete_Args *args)
{
	unload(args->executable->program);
	return NULL;
}

PJRT_Error *adp_LoadedExecutable_IsDeleted(PJRT_LoadedExecutable_IsDeleted_Args *args)
{
	args->is_deleted = atomic_load(&args->executable->program->deleted);
	return NULL;
}

/* --- what has to be fetched ------------------------------------------------------------------------------ */

/* Asks the daemon once. */
static PJRT_Error *know_optimized(struct adp_program *p, const struct adp_optimized **out)
{
	struct adp_optimized *o = atomic_load(&p->optimized), *known = NULL;
	PJRT_Error *error;

	*out = o;
	if (o)
		return NULL;
	o = calloc(1, sizeof(*o));
	if (!o)
		return adp_out_of_memory();
	error = fetch(p, SAL_FETCH_OPTIMIZED, OPTIMIZED_KEPT, &o->size, &o->bytes);
	if (error) {
		optimized_free(o);
		return error;
	}
	if (!atomic_compare_exchange_strong(&p->optimized, &known, o)) {
		optimized_free(o); /* another thread was faster */
		o = known;
	}
	*out = o;
	return NULL;
}

/* Two calls: the first gives the size, the second the bytes. */
PJRT_Error *adp_Executable_OptimizedProgram(PJRT_Executable_OptimizedProgram_Args *args)
{
	static const char format[] = "hlo_with_config";
	PJRT_Program *program = args->program;
	const struct adp_optimized *o;
	void *bytes = NULL;
	PJRT_Error *error = know_optimized(args->executable->program, &o);

	if (error)
		return error;
	program->format = format;
	program->format_size = sizeof(format) - 1;
	if (!program->code) {
		program->code_size = (size_t)o->size;
		return NULL;
	}
	if (program->code_size < o->size)
		return adp_error(SAL_INVALID_ARGUMENT, "salus: the program has %llu bytes",
				 (unsigned long long)o->size);
	if (o->bytes)
		memcpy(program->code, o->bytes, (size_t)o->size);
	else if (o->size > 0)
		error = fetch_bytes(args->executable->program, SAL_FETCH_OPTIMIZED, o->size,
				    &bytes);
	if (bytes)
		memcpy(program->code, bytes, (size_t)o->size);
	free(bytes);
	return error;
}

static void free_serialized(PJRT_SerializedExecutable *serialized)
{
	free(serialized);
}

PJRT_Error *adp_Executable_Serialize(PJRT_Executable_Serialize_Args *args)
{
	struct adp_program *p = args->executable->program;
	uint64_t size;
	void *bytes = NULL;
	PJRT_Error *error = fetch(p, SAL_FETCH_SEALED, 0, &size, NULL);

	if (!error && size == 0)
		error = adp_error(SAL_UNIMPLEMENTED, "salus: this program cannot be serialised");
	if (!error)
		error = fetch_bytes(p, SAL_FETCH_SEALED, size, &bytes);
	if (error) {
		free(bytes);
		return error;
	}
	args->serialized_bytes = bytes;
	args->serialized_bytes_size = (size_t)size;
	args->serialized_executable = bytes;
	args->serialized_executable_deleter = free_serialized;
	return NULL;
}
