/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/buffer/download.h"

#include <stdlib.h>
#include <string.h>

#include "adaptor/buffer/buffer.h"
#include "adaptor/buffer/late.h"
#include "adaptor/buffer/prefetch.h"
#include "adaptor/buffer/strided.h"
#include "adaptor/buffer/upload.h"
#include "adaptor/client/client.h"
#include "adaptor/daemon/conn.h"
#include "adaptor/daemon/range.h"
#include "adaptor/daemon/rings.h"
#include "adaptor/error.h"
#include "adaptor/event.h"
#include "adaptor/promise.h"
#include "wire/messages.h"

struct download {
	struct adp_conn *conn; /* owned reference */
	struct adp_promise *promise; /* owned reference */
	struct adp_range range;
	char *dst; /* the caller's, valid until the promise is fulfilled */
	uint64_t skip, size;
	bool in_place; /* range and dst are the caller's: nothing to copy or free */
	struct scatter *scatter; /* owned; NULL: dst is dense and row-major */
};

/* Copies from the device's order of dimensions to the host's. Strides are in bytes. */
struct scatter {
	size_t rank, element;
	int64_t dims[SAL_RANK_MAX], from[SAL_RANK_MAX], to[SAL_RANK_MAX];
};

static void download_free(struct download *d)
{
	if (!d->in_place)
		adp_range_free(d->conn, &d->range);
	adp_promise_unref(d->promise);
	adp_conn_unref(d->conn);
	free(d->scatter);
	free(d);
}

static void on_downloaded(void *ctx, const struct adp_answer *answer)
{
	struct download *d = ctx;
	const char *from = d->range.at ? d->range.at : answer->tail;
	int code = answer->code;
	const char *text = answer->text;

	if (code == 0 && !d->range.at && answer->tail_size < d->skip + d->size) {
		code = SAL_DATA_LOSS;
		text = "salus: salusd sent too few bytes";
	}
	if (code == 0 && from && d->size > 0 && !d->in_place) {
		if (d->scatter)
			adp_copy_strided(&(struct adp_strided){ .rank = d->scatter->rank,
								.element = d->scatter->element,
								.dims = d->scatter->dims,
								.from = d->scatter->from,
								.to = d->scatter->to },
					 from, d->dst);
		else
			memcpy(d->dst, from + d->skip, (size_t)d->size);
	}
	adp_promise_fulfil(d->promise, code, text);
	download_free(d);
}

/* A download for which this process has no room. */
struct no_room {
	struct download *download; /* owned */
	struct sal_err err;
};

/* The buffer has contents, or `failed` says why not: then that is the reason. Takes `failed`. */
static void on_no_room(PJRT_Error *failed, void *arg)
{
	struct no_room *n = arg;
	struct adp_answer answer = { .code = n->err.code, .text = n->err.text };

	if (failed)
		adp_error_read(failed, &answer.code, &answer.text);
	on_downloaded(n->download, &answer);
	adp_Error_Destroy(&(PJRT_Error_Destroy_Args){ .error = failed });
	free(n);
}

/* The download fails as soon as it is known whether the buffer failed before it. Takes d. */
static PJRT_Error *fail_later(PJRT_Buffer *b, struct download *d, const struct sal_err *err)
{
	struct no_room *n = malloc(sizeof(*n));
	struct adp_promise *ready = n ? adp_buffer_ready(b) : NULL;
	bool is_told = false;

	if (ready) {
		*n = (struct no_room){ d, *err };
		is_told = adp_promise_then(ready, on_no_room, n);
	}
	adp_promise_unref(ready);
	if (is_told)
		return NULL;
	free(n);
	download_free(d);
	return adp_error_from(err);
}

/* Requests `whole` bytes of b, of which d wants a part. Takes d. */
static PJRT_Error *send_download(PJRT_Buffer *b, struct download *d, uint64_t whole)
{
	struct adp_conn *conn = d->conn;
	PJRT_Error *error = adp_late_send(b);
	struct sal_err err = { 0 };
	struct sal_place_in_arena place;
	struct sal_msg_download *m;
	uint64_t request;

	if (error) {
		download_free(d);
		return error;
	}
	if (whole > SAL_INLINE_MAX && !d->in_place &&
	    adp_range_alloc(conn, whole, &d->range, &err) < 0)
		return fail_later(b, d, &err);
	place = d->range.at ? d->range.place : (struct sal_place_in_arena){ 0 };
	request = adp_request(conn, on_downloaded,
			      d); /* from here on an answer may free d at any time */
	m = request ? adp_reserve(conn, SAL_MSG_DOWNLOAD, sizeof(*m)) : NULL;
	if (!m) {
		error = request ? adp_unavailable(conn) : adp_no_request(conn);
		if (!request || adp_request_drop(conn, request))
			download_free(d);
		return error;
	}
	m->request = request;
	m->id = b->id;
	m->size = whole;
	m->into = place;
	adp_send(conn, true);
	return NULL;
}

/* Takes what->scatter. */
static PJRT_Error *download_known(PJRT_Buffer *b, const struct download *what, uint64_t whole,
				  PJRT_Event **out_event)
{
	struct adp_conn *conn = b->client->conn;
	struct download *d;
	PJRT_Error *error;

	d = malloc(sizeof(*d));
	if (!d || atomic_load(&b->deleted)) {
		PJRT_Error *refusal =
			d ? adp_error(SAL_INVALID_ARGUMENT, "Buffer has been deleted or donated.")
			  : adp_out_of_memory();

		free(what->scatter);
		free(d);
		return refusal;
	}
	*d = *what;
	d->conn = adp_conn_ref(conn);
	d->promise = adp_promise_create(conn);
	if (d->promise && b->is_output)
		adp_promise_with(d->promise, b->ready);
	if (d->promise)
		*out_event = adp_event_create(adp_promise_ref(d->promise), true);
	if (!d->promise || !*out_event) {
		download_free(d);
		return adp_out_of_memory();
	}
	if (!what->in_place && adp_prefetch_take(b, on_downloaded, d))
		return NULL;
	error = send_download(b, d, whole);
	if (error) {
		(void)adp_Event_Destroy(&(PJRT_Event_Destroy_Args){ .event = *out_event });
		*out_event = NULL;
	}
	return error;
}

/* Takes what->scatter. */
static PJRT_Error *download(PJRT_Buffer *b, const struct download *what, uint64_t whole,
			    PJRT_Event **out_event)
{
	PJRT_Buffer *known = NULL;
	PJRT_Error *error;

	if (!b->is_view)
		return download_known(b, what, whole, out_event);
	error = adp_view_copy(b, &known);
	if (error)
		free(what->scatter);
	else
		error = download_known(known, what, whole, out_event);
	(void)adp_Buffer_Destroy(&(PJRT_Buffer_Destroy_Args){ .buffer = known });
	return error;
}

static bool fill_strides(const PJRT_Buffer *b, const int64_t *minor_to_major, int64_t *out)
{
	return adp_dense_strides(b->rank, sal_type_bytes(b->type), b->dims, minor_to_major, out);
}

/*
 * How to reorder the bytes; *out is NULL if they are in order already. Tiled layouts are refused.
 */
static PJRT_Error *read_layout(const PJRT_Buffer *b, const PJRT_Buffer_MemoryLayout *layout,
			       struct scatter **out)
{
	int64_t row_major[SAL_RANK_MAX];
	const int64_t *order = row_major;
	struct scatter *s;
	size_t i;

	*out = NULL;
	for (i = 0; i < b->rank; i++)
		row_major[i] = (int64_t)(b->rank - 1 - i);
	if (layout) {
		if (layout->type != PJRT_Buffer_MemoryLayout_Type_Tiled ||
		    layout->tiled.num_tiles != 0 || layout->tiled.minor_to_major_size != b->rank)
			return adp_error(SAL_UNIMPLEMENTED,
					 "salus: PJRT_Buffer_ToHostBuffer with a "
					 "strided or tiled layout");
		order = layout->tiled.minor_to_major;
	}
	if (memcmp(order, b->minor_to_major, b->rank * sizeof(*order)) == 0)
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return adp_out_of_memory();
	s->rank = b->rank;
	s->element = sal_type_bytes(b->type);
	memcpy(s->dims, b->dims, b->rank * sizeof(*s->dims));
	if (!fill_strides(b, b->minor_to_major, s->from) || !fill_strides(b, order, s->to)) {
		free(s);
		return adp_error(
			SAL_INVALID_ARGUMENT,
			"salus: the layout names a dimension twice or one that does not exist");
	}
	*out = s;
	return NULL;
}

PJRT_Error *adp_Buffer_ToHostBuffer(PJRT_Buffer_ToHostBuffer_Args *args)
{
	PJRT_Buffer *b = args->src;
	uint64_t size = adp_host_bytes(b->type, b->dims, b->rank);
	struct download what = { .dst = args->dst, .size = size };
	PJRT_Error *error;

	if (!args->dst) {
		args->dst_size = (size_t)size;
		return NULL;
	}
	if (args->dst_size < size)
		return adp_error(SAL_INVALID_ARGUMENT,
				 "salus: the host buffer has %zu bytes, %llu are needed",
				 args->dst_size, (unsigned long long)size);
	error = read_layout(b, args->host_layout, &what.scatter);
	if (error)
		return error;
	return download(b, &what, size, &args->event);
}

PJRT_Error *adp_Buffer_CopyRawToHost(PJRT_Buffer_CopyRawToHost_Args *args)
{
	PJRT_Buffer *b = args->buffer;
	uint64_t whole = adp_host_bytes(b->type, b->dims, b->rank);
	struct download what = {
		.dst = args->dst,
		.skip = (uint64_t)args->offset,
		.size = (uint64_t)args->transfer_size,
	};

	if (args->offset < 0 || args->transfer_size < 0 || what.skip > whole ||
	    what.size > whole - what.skip)
		return adp_error(SAL_INVALID_ARGUMENT, "salus: bytes outside of the buffer");
	if (whole != b->bytes)
		return adp_error(SAL_UNIMPLEMENTED,
				 "salus: PJRT_Buffer_CopyRawToHost of a type smaller than a byte");
	return download(b, &what, whole, &args->event);
}

PJRT_Error *adp_download_into(PJRT_Buffer *b, void *dst, const struct adp_range *range)
{
	uint64_t size = adp_host_bytes(b->type, b->dims, b->rank);
	struct download what = { .dst = dst, .size = size, .in_place = range != NULL };
	PJRT_Event *event = NULL;
	PJRT_Error *error;

	if (range)
		what.range = *range;
	error = download(b, &what, size, &event);
	if (error)
		return error;
	error = adp_Event_Await(&(PJRT_Event_Await_Args){ .event = event });
	(void)adp_Event_Destroy(&(PJRT_Event_Destroy_Args){ .event = event });
	return error;
}
