/* SPDX-License-Identifier: Apache-2.0 */
#include "service/client/outbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/facts.h"
#include "link/socket.h"

/* salusd ends a client that leaves this many bytes unread. */
#define BACKLOG_MAX (64u << 20)

struct svc_letter {
	struct svc_letter *next;
	uint32_t size;
	_Alignas(8) unsigned char bytes[];
};

void svc_outbox_init(struct svc_outbox *box, void *ring_memory, int bell)
{
	memset(box, 0, sizeof(*box));
	(void)pthread_mutex_init(&box->lock, NULL);
	sal_ring_init(&box->ring, ring_memory, SVC_RING_BYTES);
	box->bell = bell;
	box->last = &box->first;
}

void svc_outbox_close(struct svc_outbox *box)
{
	(void)pthread_mutex_lock(&box->lock);
	if (box->batches > 0 && !box->closed && sal_ring_publish(&box->ring, true))
		sal_doorbell_ring(box->bell); /* show the last record, too */
	box->closed = true;
	while (box->first) {
		struct svc_letter *l = box->first;

		box->first = l->next;
		free(l);
	}
	box->last = &box->first;
	(void)pthread_mutex_unlock(&box->lock);
}

void svc_outbox_begin(struct svc_outbox *box)
{
	(void)pthread_mutex_lock(&box->lock);
	box->batches++;
	(void)pthread_mutex_unlock(&box->lock);
}

void svc_outbox_end(struct svc_outbox *box)
{
	(void)pthread_mutex_lock(&box->lock);
	box->batches--;
	if (box->batches == 0 && !box->closed && sal_ring_publish(&box->ring, true))
		sal_doorbell_ring(box->bell);
	(void)pthread_mutex_unlock(&box->lock);
}

static void flush(struct svc_outbox *box)
{
	bool wake = false;

	while (box->first) {
		struct svc_letter *l = box->first;
		void *at = sal_ring_reserve(&box->ring, l->size);

		if (!at && sal_ring_wait_for_room(&box->ring, l->size))
			break;
		if (!at)
			continue;
		memcpy(at, l->bytes, l->size);
		wake |= sal_ring_publish(&box->ring, true);
		box->first = l->next;
		box->backlog_bytes -= l->size;
		free(l);
	}
	if (!box->first)
		box->last = &box->first;
	if (wake)
		sal_doorbell_ring(box->bell);
}

static void add_to_backlog(struct svc_outbox *box, const void *fixed, size_t fixed_size,
			   const void *tail, size_t tail_size)
{
	uint32_t size = sal_record_size(fixed_size, tail_size);
	struct svc_letter *l = calloc(1, sizeof(*l) + size);

	if (!l) {
		box->backlog_bytes = BACKLOG_MAX + 1;
		return;
	}
	l->size = size;
	memcpy(l->bytes, fixed, fixed_size);
	if (tail_size)
		memcpy(l->bytes + fixed_size, tail, tail_size);
	*box->last = l;
	box->last = &l->next;
	box->backlog_bytes += size;
}

/* Post a record: a fixed part, whose header has the type, and a tail. */
static void post(struct svc_outbox *box, struct sal_header *fixed, size_t fixed_size,
		 const void *tail, size_t tail_size)
{
	uint32_t size = sal_record_size(fixed_size, tail_size);
	unsigned char *at = NULL;

	fixed->size = size;
	(void)pthread_mutex_lock(&box->lock);
	if (!box->closed && !box->first)
		at = sal_ring_reserve(&box->ring, size);
	if (at) {
		memcpy(at, fixed, fixed_size);
		if (tail_size)
			memcpy(at + fixed_size, tail, tail_size);
		if (box->batches == 0 && sal_ring_publish(&box->ring, true))
			sal_doorbell_ring(box->bell);
	} else if (!box->closed) {
		add_to_backlog(box, fixed, fixed_size, tail, tail_size);
		flush(box);
	}
	(void)pthread_mutex_unlock(&box->lock);
}

static void post_done(struct svc_outbox *box, uint16_t type, uint64_t request, int code,
		      struct sal_text tail)
{
	struct sal_msg_done m = {
		.header = { .type = type },
		.request = request,
		.code = code,
		.tail_size = (uint32_t)tail.size,
	};

	post(box, &m.header, sizeof(m), tail.at, tail.size);
}

void svc_outbox_done(struct svc_outbox *box, uint64_t request, int code, const void *tail,
		     size_t tail_size)
{
	post_done(box, SAL_MSG_DONE, request, code, (struct sal_text){ tail, tail_size });
}

void svc_outbox_refused(struct svc_outbox *box, uint64_t request, int code, const char *text)
{
	post_done(box, SAL_MSG_REFUSED, request, code,
		  (struct sal_text){ text, strnlen(text, SAL_INLINE_MAX) });
}

void svc_outbox_reply(struct svc_outbox *box, uint64_t request, int code, const char *text,
		      uint64_t value)
{
	size_t size = text ? strnlen(text, SAL_INLINE_MAX) : 0;
	struct sal_msg_reply m = {
		.header = { .type = SAL_MSG_REPLY },
		.request = request,
		.code = code,
		.text_size = (uint32_t)size,
		.value = value,
	};

	post(box, &m.header, sizeof(m), text, size);
}

void svc_outbox_released(struct svc_outbox *box, const struct sal_place_in_arena *place)
{
	struct sal_msg_released m = {
		.header = { .type = SAL_MSG_RELEASED },
		.place = *place,
	};

	post(box, &m.header, sizeof(m), NULL, 0);
}

void svc_outbox_withdrawn(struct svc_outbox *box, uint64_t block)
{
	struct sal_msg_withdrawn m = { .header = { .type = SAL_MSG_WITHDRAWN }, .block = block };

	post(box, &m.header, sizeof(m), NULL, 0);
}

void svc_outbox_call(struct svc_outbox *box, struct sal_msg_call *m)
{
	post(box, &m->header, sizeof(*m), m + 1, m->header.size - sizeof(*m));
}

void svc_outbox_goodbye(struct svc_outbox *box, const char *text)
{
	svc_outbox_done(box, 0, SAL_UNAVAILABLE, text, strnlen(text, SAL_INLINE_MAX));
}

void svc_outbox_news(struct svc_outbox *box, const char *text)
{
	svc_outbox_done(box, 0, SAL_OK, text, strnlen(text, SAL_INLINE_MAX));
}

void svc_outbox_flush(struct svc_outbox *box)
{
	(void)pthread_mutex_lock(&box->lock);
	if (box->first && !box->closed)
		flush(box);
	(void)pthread_mutex_unlock(&box->lock);
}

bool svc_outbox_is_overfull(struct svc_outbox *box)
{
	bool overfull;

	(void)pthread_mutex_lock(&box->lock);
	overfull = box->backlog_bytes > BACKLOG_MAX;
	(void)pthread_mutex_unlock(&box->lock);
	return overfull;
}
