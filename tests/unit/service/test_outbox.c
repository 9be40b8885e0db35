/* SPDX-License-Identifier: Apache-2.0 */
/* outbox: order, backlog and the bound of the backlog, with one writer and with several. */
#include "service/server.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "link/socket.h"
#include "service/client/outbox.h"

/* An outbox and the client that reads it. */
struct post {
	void *memory; /* owned */
	int bell, ring_fd; /* owned */
	struct svc_outbox box;
	struct sal_ring client;
	struct sal_header *record; /* owned */
};

static int post_open(void **state)
{
	struct post *p = calloc(1, sizeof(*p));
	int rc;

	p->memory = aligned_alloc(64, sal_ring_span(SVC_RING_BYTES));
	p->record = aligned_alloc(8, SAL_RECORD_MAX);
	memset(p->memory, 0, sal_ring_span(SVC_RING_BYTES));
	rc = sal_doorbell_create(&p->ring_fd, &p->bell, NULL);
	svc_outbox_init(&p->box, p->memory, p->ring_fd);
	sal_ring_init(&p->client, p->memory, SVC_RING_BYTES);
	*state = p;
	return rc < 0;
}

static int post_close(void **state)
{
	struct post *p = *state;

	svc_outbox_close(&p->box);
	(void)pthread_mutex_destroy(&p->box.lock);
	(void)close(p->bell);
	(void)close(p->ring_fd);
	free(p->memory);
	free(p->record);
	free(p);
	return 0;
}

static bool is_ringing(int bell)
{
	struct pollfd p = { .fd = bell, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* The next completion, or NULL. The completion is valid by the client's check. */
static const struct sal_header *take(struct post *p, bool *out_wake)
{
	enum sal_ring_take got = sal_ring_take(&p->client, p->record, out_wake);

	assert_int_not_equal(got, SAL_RING_BROKEN);
	if (got == SAL_RING_EMPTY)
		return NULL;
	assert_true(sal_complete_is_valid(p->record));
	return p->record;
}

static const struct sal_msg_done *take_done(struct post *p)
{
	bool wake;
	const struct sal_header *h = take(p, &wake);

	assert_non_null(h);
	assert_int_equal(h->type, SAL_MSG_DONE);
	return (const struct sal_msg_done *)h;
}

static void completions_say_what_they_were_told(void **state)
{
	struct sal_place_in_arena place = { .segment = 3, .offset = 64, .size = 128 };
	struct post *p = *state;
	const struct sal_msg_done *done;
	const struct sal_msg_reply *reply;
	const struct sal_msg_released *released;
	bool wake;

	svc_outbox_done(&p->box, 7, 0, "abc", 3);
	svc_outbox_reply(&p->box, 8, SAL_NOT_FOUND, "nothing there", 0);
	svc_outbox_reply(&p->box, 9, 0, NULL, 42);
	svc_outbox_released(&p->box, &place);
	done = take_done(p);
	assert_true(done->request == 7 && done->code == 0 && done->tail_size == 3);
	assert_memory_equal(done + 1, "abc", 3);
	reply = (const struct sal_msg_reply *)take(p, &wake);
	assert_true(reply->request == 8 && reply->code == SAL_NOT_FOUND);
	assert_int_equal(reply->text_size, 13);
	assert_memory_equal(reply + 1, "nothing there", 13);
	reply = (const struct sal_msg_reply *)take(p, &wake);
	assert_true(reply->request == 9 && reply->code == 0 && reply->value == 42);
	released = (const struct sal_msg_released *)take(p, &wake);
	assert_memory_equal(&released->place, &place, sizeof(place));
	assert_null(take(p, &wake));
}

static void long_sentences_are_cut(void **state)
{
	char text[SAL_INLINE_MAX + 100];
	struct post *p = *state;
	const struct sal_msg_reply *reply;
	bool wake;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	svc_outbox_reply(&p->box, 1, SAL_INTERNAL, text, 0);
	reply = (const struct sal_msg_reply *)take(p, &wake);
	assert_int_equal(reply->text_size, SAL_INLINE_MAX);
}

static void who_sleeps_is_woken(void **state)
{
	struct post *p = *state;

	svc_outbox_done(&p->box, 1, 0, NULL, 0);
	assert_false(is_ringing(p->bell));
	(void)take_done(p);
	assert_true(sal_ring_sleep(&p->client));
	svc_outbox_done(&p->box, 2, 0, NULL, 0);
	assert_true(is_ringing(p->bell));
}

/* The completions of one batch become visible together and wake the client once. */
static void nothing_shows_before_the_end(void **state)
{
	struct post *p = *state;
	bool wake;

	assert_true(sal_ring_sleep(&p->client));
	svc_outbox_begin(&p->box);
	svc_outbox_done(&p->box, 1, 0, NULL, 0);
	svc_outbox_done(&p->box, 2, 0, "bytes", 5);
	assert_false(is_ringing(p->bell));
	assert_null(take(p, &wake));
	svc_outbox_end(&p->box);
	assert_true(is_ringing(p->bell));
	assert_int_equal(take_done(p)->request, 1);
	assert_int_equal(take_done(p)->request, 2);
	assert_null(take(p, &wake));
}

/* Four times as many completions as the ring holds: none is lost, and the order is preserved. */
static void a_backlog_keeps_the_order(void **state)
{
	static const char data[1000];
	struct post *p = *state;
	uint64_t sent, taken = 0;
	bool wake, waited = false;

	for (sent = 0; sent < 4 * SVC_RING_BYTES / sizeof(data); sent++)
		svc_outbox_done(&p->box, sent, 0, data, sizeof(data));
	assert_true(p->box.backlog_bytes > 2 * SVC_RING_BYTES);
	while (taken < sent) {
		const struct sal_header *h = take(p, &wake);

		/* The client rings after making room if the outbox waits for room. */
		waited |= wake;
		if (!h) {
			svc_outbox_flush(&p->box);
			continue;
		}
		assert_int_equal(((const struct sal_msg_done *)h)->request, taken);
		taken++;
		/* A new completion must not overtake the backlog. */
		if (taken == 10)
			svc_outbox_done(&p->box, sent++, 0, NULL, 0);
	}
	assert_true(waited);
	assert_int_equal(p->box.backlog_bytes, 0);
	assert_null(p->box.first);
	assert_false(svc_outbox_is_overfull(&p->box));
}

static void a_backlog_without_end_is_overfull(void **state)
{
	static const char data[SAL_INLINE_MAX];
	struct post *p = *state;
	unsigned i;

	/* Besides the ring's 4 MiB, the backlog may hold 64 MiB. */
	for (i = 0; i < (60u << 20) / sizeof(data); i++)
		svc_outbox_done(&p->box, i, 0, data, sizeof(data));
	assert_false(svc_outbox_is_overfull(&p->box));
	for (i = 0; i < (9u << 20) / sizeof(data); i++)
		svc_outbox_done(&p->box, i, 0, data, sizeof(data));
	assert_true(svc_outbox_is_overfull(&p->box));
}

/* A client that claims to have read too much harms only itself. */
static void a_lying_reader_only_hurts_itself(void **state)
{
	static const char data[SAL_INLINE_MAX];
	struct post *p = *state;
	struct sal_ring_shared *shared = p->memory;
	unsigned i;

	for (i = 0; i < 3000; i++) {
		atomic_store(&shared->tail, UINT64_C(0x123456789) * i);
		atomic_store(&shared->head, UINT64_C(0x987654321) * i);
		svc_outbox_done(&p->box, i, 0, data, sizeof(data));
		assert_true(p->box.ring.head - p->box.ring.tail <= SVC_RING_BYTES);
	}
}

static void what_is_closed_takes_no_more(void **state)
{
	struct post *p = *state;
	bool wake;

	svc_outbox_close(&p->box);
	svc_outbox_done(&p->box, 1, 0, NULL, 0);
	svc_outbox_flush(&p->box);
	assert_null(take(p, &wake));
}

/* The worker and the vendor's threads write at once, and a client reads slowly. */
#define WRITERS 3
#define EACH 20000

struct writer {
	struct post *post;
	uint64_t number;
};

static void *write_many(void *arg)
{
	static const char data[600];
	struct writer *w = arg;
	uint64_t i;

	for (i = 0; i < EACH; i++)
		svc_outbox_done(&w->post->box, w->number << 32 | i, 0, data, i % sizeof(data));
	return NULL;
}

static void several_writers_each_keep_their_order(void **state)
{
	struct post *p = *state;
	struct writer writers[WRITERS];
	pthread_t threads[WRITERS];
	uint64_t next[WRITERS] = { 0 };
	unsigned i, taken = 0;
	bool wake;

	for (i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){ p, i };
		assert_int_equal(pthread_create(&threads[i], NULL, write_many, &writers[i]), 0);
	}
	while (taken < WRITERS * EACH) {
		const struct sal_header *h = take(p, &wake);
		uint64_t request;

		if (!h || wake)
			svc_outbox_flush(&p->box);
		if (!h)
			continue;
		request = ((const struct sal_msg_done *)h)->request;
		assert_int_equal(request & UINT32_MAX, next[request >> 32]);
		next[request >> 32]++;
		taken++;
	}
	for (i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, post_open, post_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(completions_say_what_they_were_told),
		TEST(long_sentences_are_cut),
		TEST(who_sleeps_is_woken),
		TEST(nothing_shows_before_the_end),
		TEST(a_backlog_keeps_the_order),
		TEST(a_backlog_without_end_is_overfull),
		TEST(a_lying_reader_only_hurts_itself),
		TEST(what_is_closed_takes_no_more),
		TEST(several_writers_each_keep_their_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
