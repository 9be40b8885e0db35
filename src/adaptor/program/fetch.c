/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/program/fetch.h"

#include <stdlib.h>
#include <string.h>

#include "adaptor/daemon/range.h"
#include "adaptor/error.h"
#include "adaptor/program/program.h"
#include "adaptor/program/question.h"
#include "adaptor/python/old.h"

/*
 * An optimised program up to this size is fetched once and cached: JAX asks for each several times.
 */
#define OPTIMIZED_MAX UINT64_C(65536)

/* The optimised program. It does not change once it is known. */
struct adp_optimized {
	uint64_t size;
	void *bytes; /* owned; NULL: too many to cache */
};

void adp_optimized_free(struct adp_optimized *o)
{
	if (o)
		free(o->bytes);
	free(o);
}

PJRT_Error *adp_fetch_nonsense(void)
{
	return adp_error(SAL_DATA_LOSS, "salus: salusd sent nonsense about a program");
}

/* Fetches a part of a program: its size; and its bytes, to be freed, if they are at most `room`. */
static PJRT_Error *fetch(struct adp_program *p, enum sal_fetch what, uint64_t room,
			 uint64_t *out_size, void **out_bytes)
{
	struct adp_range range = { .at = NULL };
	struct sal_err err = { 0 };
	struct sal_msg_fetch *m;
	struct adp_question *q;
	PJRT_Error *error = NULL;

	*out_size = 0;
	if (room > 0 && adp_range_alloc(p->conn, room, &range, &err) < 0)
		return adp_error_from(&err);
	m = adp_question_begin(p->conn, SAL_MSG_FETCH, sizeof(*m), &q, &error);
	if (!m) {
		adp_range_free(p->conn, &range);
		return error;
	}
	m->request = adp_question_request(q);
	m->id = p->id;
	m->what = what;
	if (range.at)
		m->into = range.place;
	error = adp_question_ask(q, out_size);
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

PJRT_Error *adp_fetch_bytes(struct adp_program *p, enum sal_fetch what, uint64_t size,
			    void **out_bytes)
{
	uint64_t told;
	PJRT_Error *error = fetch(p, what, size, &told, out_bytes);

	if (error || told == size)
		return error;
	free(*out_bytes);
	*out_bytes = NULL;
	return adp_fetch_nonsense();
}

/* Asks the daemon the first time only. */
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
	error = fetch(p, SAL_FETCH_OPTIMIZED, OPTIMIZED_MAX, &o->size, &o->bytes);
	if (error) {
		adp_optimized_free(o);
		return error;
	}
	if (!atomic_compare_exchange_strong(&p->optimized, &known, o)) {
		adp_optimized_free(o); /* another thread was faster */
		o = known;
	}
	*out = o;
	return NULL;
}

PJRT_Error *adp_Executable_OptimizedProgram(PJRT_Executable_OptimizedProgram_Args *args)
{
	if (adp_old_is_here())
		return adp_error(SAL_UNIMPLEMENTED,
				 "salus: JAX before 0.6.0 cannot read programs of this XLA");
	return adp_fetch_optimized(args);
}

PJRT_Error *adp_fetch_optimized(PJRT_Executable_OptimizedProgram_Args *args)
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
		error = adp_fetch_bytes(args->executable->program, SAL_FETCH_OPTIMIZED, o->size,
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
		error = adp_fetch_bytes(p, SAL_FETCH_SEALED, size, &bytes);
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
