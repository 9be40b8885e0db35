/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adopt - a buffer changes streams without a copy, if this process can reach its memory.
 *
 * The new buffer is one over host memory that the vendor uses as it is, and that memory is the old
 * buffer's. A loan keeps the owner of the memory alive until the vendor is done with all buffers
 * that use the memory. A buffer may change streams many times, and its memory may pass to outputs
 * by donation. So loans are found by the address of the memory: there is one loan for each memory,
 * and no chain of loans.
 */
#include <stdlib.h>
#include <unistd.h>

#include "device/pjrt/saved.h"

/* The vendor returns a loan some microseconds after the last buffer is freed. */
#define LOAN_NAP_US 100

struct vendor_loan {
	LIST_ENTRY(vendor_loan) link; /* in device->loans; under device->lock */
	struct sal_device *device; /* borrowed */
	const void *bytes;
	PJRT_Buffer *owner; /* owned */
	const struct sal_stream *home; /* borrowed: of the owner; NULL: there is no owner */
	uint32_t users; /* under device->lock */
};

static struct vendor_loan_list *list_of(struct sal_device *d, const void *bytes)
{
	/* Memory of buffers is aligned to 64 bytes or more. */
	return &d->loans[(uintptr_t)bytes / 64 % VENDOR_LOAN_LISTS];
}

static void destroy(const struct sal_device *d, PJRT_Buffer *buffer)
{
	VENDOR_ARGS(d, PJRT_Buffer_Destroy_Args, end, .buffer = buffer);

	sal_vendor_drop(d, d->api->PJRT_Buffer_Destroy(&end.args));
}

/* The loan of this memory gets one more user. NULL: there is no loan. */
static struct vendor_loan *find(struct sal_device *d, const void *bytes)
{
	struct vendor_loan *loan;

	pthread_mutex_lock(&d->lock);
	LIST_FOREACH(loan, list_of(d, bytes), link)
		if (loan->bytes == bytes)
			break;
	if (loan)
		loan->users++;
	pthread_mutex_unlock(&d->lock);
	return loan;
}

/* A new loan with one user, still without an owner. NULL: no memory. */
static struct vendor_loan *begin(struct sal_device *d, const void *bytes)
{
	struct vendor_loan *loan = calloc(1, sizeof(*loan));

	if (!loan)
		return NULL;
	*loan = (struct vendor_loan){ .device = d, .bytes = bytes, .users = 1 };
	pthread_mutex_lock(&d->lock);
	LIST_INSERT_HEAD(list_of(d, bytes), loan, link);
	pthread_mutex_unlock(&d->lock);
	return loan;
}

/* The vendor is done with a buffer over the memory. */
static void on_returned(void *ctx, int code, const char *message)
{
	struct vendor_loan *loan = ctx;
	struct sal_device *d = loan->device;
	bool is_last;

	(void)code;
	(void)message;
	pthread_mutex_lock(&d->lock);
	is_last = --loan->users == 0;
	if (is_last)
		loan->bytes = NULL; /* nobody finds the loan any more */
	pthread_mutex_unlock(&d->lock);
	if (!is_last)
		return;
	if (loan->owner)
		destroy(d, loan->owner);
	pthread_mutex_lock(&d->lock);
	LIST_REMOVE(loan, link);
	pthread_mutex_unlock(&d->lock);
	free(loan);
}

static bool has_loans(const struct sal_stream *s)
{
	struct sal_device *d = s->device;
	const struct vendor_loan *loan;
	bool any = false;

	pthread_mutex_lock(&d->lock);
	for (size_t i = 0; i < VENDOR_LOAN_LISTS; i++)
		LIST_FOREACH(loan, &d->loans[i], link)
			any |= loan->home == s;
	pthread_mutex_unlock(&d->lock);
	return any;
}

void sal_vendor_await_loans(const struct sal_stream *s)
{
	while (has_loans(s))
		(void)usleep(LOAN_NAP_US);
}

static void see(void *bytes, size_t size, void *out_bytes)
{
	(void)size;
	*(void **)out_bytes = bytes;
}

/* Makes b a buffer over memory. The event fires when the vendor does not use the memory any more. */
static int lay_over(struct sal_buffer *b, const struct vendor_shape *shape, const void *bytes,
		    PJRT_Event **out_done, struct sal_err *err)
{
	const struct sal_stream *s = b->stream;
	const struct sal_device *d = s->device;
	int rc;

	VENDOR_ARGS(d, PJRT_Client_BufferFromHostBuffer_Args, put, .client = s->client,
		    .data = bytes, .type = shape->type, .dims = shape->dims,
		    .num_dims = shape->rank, .device = s->chip,
		    .memory = sal_vendor_memory(s, shape->memory),
		    .host_buffer_semantics = b->is_immutable
						     ? PJRT_HostBufferSemantics_kImmutableZeroCopy
						     : PJRT_HostBufferSemantics_kMutableZeroCopy);

	rc = sal_vendor_check(d, d->api->PJRT_Client_BufferFromHostBuffer(&put.args), err);
	if (rc < 0)
		return rc;
	b->buffer = put.args.buffer;
	*out_done = put.args.done_with_host_buffer;
	return SAL_OK;
}

/* Lets b use the memory of the old buffer, and frees the old buffer. */
static int take_over(struct sal_buffer *b, const struct vendor_shape *shape, const void *bytes,
		     struct sal_buffer *old, struct sal_err *err)
{
	struct sal_device *d = b->stream->device;
	struct vendor_loan *loan = find(d, bytes);
	bool is_new = !loan;
	PJRT_Event *done;
	int rc;

	if (is_new)
		loan = begin(d, bytes);
	if (!loan)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a buffer");
	rc = lay_over(b, shape, bytes, &done, err);
	if (rc < 0) {
		on_returned(loan, 0, NULL);
		return rc;
	}
	if (is_new) {
		loan->owner = old->buffer;
		loan->home = old->stream;
		old->buffer = NULL;
	}
	sal_pjrt_free_buffer(old);
	sal_vendor_when(d, done, on_returned, loan);
	return SAL_OK;
}

int sal_pjrt_adopt(struct sal_stream *s, struct sal_buffer *take_buffer,
		   struct sal_buffer **out_buffer, struct sal_err *err)
{
	struct vendor_shape shape;
	struct sal_buffer *b;
	void *bytes = NULL;
	int rc;

	*out_buffer = NULL;
	if (!s->device->facts.is_host || !sal_vendor_reach(take_buffer, see, (void *)&bytes) ||
	    sal_vendor_shape(take_buffer->stream, take_buffer->buffer, &shape, NULL) < 0 ||
	    !shape.row_major)
		return sal_err_set(err, SAL_UNIMPLEMENTED, "the buffer needs a copy");
	b = calloc(1, sizeof(*b));
	if (!b)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a buffer");
	b->stream = s;
	b->host_bytes = take_buffer->host_bytes;
	b->is_immutable = take_buffer->is_immutable;
	rc = take_over(b, &shape, bytes, take_buffer, err);
	if (rc < 0) {
		free(b);
		return rc;
	}
	*out_buffer = b;
	return SAL_OK;
}
