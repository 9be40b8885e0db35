/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/program/question.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "adaptor/daemon/conn.h"
#include "adaptor/daemon/rings.h"
#include "adaptor/error.h"
#include "adaptor/promise.h"

struct adp_question {
	struct adp_conn *conn; /* borrowed: the asker's */
	struct adp_promise *promise; /* owned reference */
	_Atomic int refs; /* the asker's and the request's */
	uint64_t request;
	int code;
	char *text; /* owned */
	uint64_t value;
};

static void question_unref(struct adp_question *q, int refs)
{
	if (atomic_fetch_sub(&q->refs, refs) > refs)
		return;
	adp_promise_unref(q->promise);
	free(q->text);
	free(q);
}

static void on_answer(void *ctx, const struct adp_answer *answer)
{
	struct adp_question *q = ctx;

	q->code = answer->code;
	q->value = answer->value;
	q->text = answer->code ? strdup(answer->text) : NULL;
	adp_promise_fulfil(q->promise, 0, NULL);
	question_unref(q, 1);
}

static struct adp_question *question_create(struct adp_conn *conn)
{
	struct adp_question *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	atomic_init(&q->refs, 2);
	q->conn = conn;
	q->promise = adp_promise_create(conn);
	q->request = q->promise ? adp_request(conn, on_answer, q) : 0;
	if (q->request)
		return q;
	adp_promise_unref(q->promise);
	free(q);
	return NULL;
}

/* Nothing was sent. */
static void question_drop(struct adp_question *q)
{
	bool is_ours = adp_request_drop(q->conn, q->request); /* the request's reference, too */

	question_unref(q, is_ours ? 2 : 1);
}

void *adp_question_begin(struct adp_conn *conn, uint16_t type, uint32_t size,
			 struct adp_question **out_question, PJRT_Error **out_error)
{
	struct adp_question *q = question_create(conn);
	void *record = q ? adp_reserve(conn, type, size) : NULL;

	*out_question = record ? q : NULL;
	if (record)
		return record;
	*out_error = q ? adp_unavailable(conn) : adp_no_request(conn);
	if (q)
		question_drop(q);
	return NULL;
}

uint64_t adp_question_request(const struct adp_question *q)
{
	return q->request;
}

/* What an error of the vendor means for the user, if we know. */
static const char *hint_for(const char *text)
{
	if (!text || !strstr(text, "No FFI handler registered"))
		return "";
	if (strstr(text, " CUDA") || strstr(text, " ROCM"))
		return " [salus: JAX's Python extension modules for GPUs have this function (linear "
		       "algebra and some others); functions of such modules are not supported through "
		       "Salus yet]";
	if (strstr(text, "lapack_"))
		return " [salus: salusd could not give linear algebra to the plugin of its device; its log "
		       "says why]";
	if (strstr(text, "python"))
		return " [salus: Python callbacks need JAX 0.6.0 or newer, and a plugin that takes handlers "
		       "for custom calls]";
	return " [salus: custom calls of your own (jax.ffi) are not supported through Salus yet]";
}

PJRT_Error *adp_question_ask(struct adp_question *q, uint64_t *out_value)
{
	PJRT_Error *error;

	adp_send(q->conn, true);
	(void)adp_promise_wait(q->promise);
	error = adp_error(q->code, "%s%s", q->text ? q->text : "", hint_for(q->text));
	if (out_value)
		*out_value = q->value;
	question_unref(q, 1);
	return error;
}
