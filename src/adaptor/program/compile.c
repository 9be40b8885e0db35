/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/program/compile.h"

#include <string.h>

#include "adaptor/client/client.h"
#include "adaptor/daemon/range.h"
#include "adaptor/daemon/rings.h"
#include "adaptor/error.h"
#include "adaptor/program/dump.h"
#include "adaptor/program/program.h"
#include "adaptor/program/question.h"
#include "adaptor/python/old.h"

/* Copies bytes into the arena, where the daemon can read them. */
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

/* The options, and the flags of the job if the framework sent none. */
static int put_options(const PJRT_Client_Compile_Args *args, struct adp_range *out,
		       struct sal_err *err)
{
	const struct adp_flags *flags = &args->client->flags;
	size_t size = args->compile_options_size;
	int rc;

	if (flags->size == 0 || adp_options_have_debug(args->compile_options, size))
		return put(args->client->conn, args->compile_options, size, out, err);
	rc = adp_range_alloc(args->client->conn, size + flags->size, out, err);
	if (rc < 0)
		return rc;
	if (size > 0)
		memcpy(out->at, args->compile_options, size);
	memcpy((char *)out->at + size, flags->bytes, flags->size);
	return rc;
}

static PJRT_Error *refuse_raw(void)
{
	return adp_error(SAL_UNIMPLEMENTED,
			 "salus: Python callbacks of JAX before 0.6.0 work only if Python finds "
			 "our module jax_plugins.salus, and this one did not: run it without -E "
			 "and -I, or use JAX 0.6.0 or newer");
}

PJRT_Error *adp_Client_Compile(PJRT_Client_Compile_Args *args)
{
	struct adp_conn *conn = args->client->conn;
	struct adp_range program = { .at = NULL }, options = { .at = NULL };
	struct sal_err err = { 0 };
	uint64_t id = adp_next_id(conn, 1), fact_size = 0;
	struct sal_msg_compile *m = NULL;
	struct adp_question *q;
	PJRT_Error *error = NULL;

	if (args->program->format_size >= sizeof(m->format))
		return adp_error(SAL_INVALID_ARGUMENT, "salus: unknown program format");
	if (adp_old_is_raw(args->program->code, args->program->code_size))
		return refuse_raw();
	if (put(conn, args->program->code, args->program->code_size, &program, &err) < 0 ||
	    put_options(args, &options, &err) < 0) {
		error = adp_error_from(&err);
		goto out;
	}
	m = adp_question_begin(conn, SAL_MSG_COMPILE, sizeof(*m), &q, &error);
	if (!m)
		goto out;
	m->request = adp_question_request(q);
	m->id = id;
	m->program = program.place;
	m->options = options.place;
	memcpy(m->format, args->program->format, args->program->format_size);
	error = adp_question_ask(q, &fact_size);
	if (!error)
		error = adp_program_create(args->client, id, fact_size, &args->executable);
	if (!error) {
		args->executable->program->calls_old =
			adp_old_may_call(args->program->code, args->program->code_size);
		adp_dump(args->executable->program, args->program);
	}
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
	uint64_t id = adp_next_id(conn, 1), fact_size = 0;
	struct sal_msg_load *m;
	struct adp_question *q;
	PJRT_Error *error = NULL;

	if (put(conn, args->serialized_executable, args->serialized_executable_size, &blob, &err) <
	    0)
		return adp_error_from(&err);
	m = adp_question_begin(conn, SAL_MSG_LOAD, sizeof(*m), &q, &error);
	if (!m) {
		adp_range_free(conn, &blob);
		return error;
	}
	m->request = adp_question_request(q);
	m->id = id;
	m->blob = blob.place;
	error = adp_question_ask(q, &fact_size);
	if (!error)
		error = adp_program_create(args->client, id, fact_size, &args->loaded_executable);
	if (!error) /* a sealed program cannot be searched */
		args->loaded_executable->program->calls_old = adp_old_is_here();
	adp_range_free(conn, &blob);
	return error;
}
