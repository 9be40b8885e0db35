/* SPDX-License-Identifier: Apache-2.0 */
/* trace: the ring holds the last entries in order, and a copy of the ring has no gap. */
#include "service/trace.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/engine.h"

#define ROOM UINT64_C(8)

/* A trace ring and an engine that writes no records by itself. */
struct bed {
	struct svc_trace trace;
	struct sal_engine *engine; /* owned */
	struct sal_trace_head *copy; /* owned */
	struct svc_lock lock;
};

static void bed_open(struct bed *b)
{
	struct sal_engine_config cfg = {
		.capacity_bytes = 4096,
		.policy = &sal_policy_srtf,
	};

	memset(b, 0, sizeof(*b));
	svc_lock_init(&b->lock);
	sal_tuning_default(&cfg.tuning);
	assert_int_equal(svc_trace_open(&b->trace, &cfg, ROOM, NULL), SAL_OK);
	assert_int_equal(sal_engine_create(&cfg, &b->engine, NULL), SAL_OK);
	b->copy = malloc(svc_trace_bytes(2 * ROOM, 1));
	assert_non_null(b->copy);
}

static void bed_close(struct bed *b)
{
	svc_trace_close(&b->trace);
	svc_trace_close(&b->trace); /* a second close does nothing */
	sal_engine_destroy(b->engine);
	free(b->copy);
	svc_lock_fini(&b->lock);
}

static void put(struct bed *b, uint64_t first, uint64_t last)
{
	for (; first <= last; first++) {
		struct sal_record r = { .now_ns = first, .what = SAL_TICK, .lane = SAL_NO_LANE };

		svc_trace_put(&b->trace, b->engine, &r, &(struct svc_trace_about){ 0 });
	}
}

/* The copy holds entries first to last, and counts the entries before them. */
static void check(struct bed *b, uint64_t most, uint64_t first, uint64_t last)
{
	struct sal_trace_name *names =
		svc_trace_copy(&b->trace, b->engine, &b->lock, b->copy, most);
	const struct sal_trace_entry *entries = (const struct sal_trace_entry *)(b->copy + 1);
	uint64_t i;

	assert_int_equal(b->copy->magic, SAL_TRACE_MAGIC);
	assert_int_equal(b->copy->entry_bytes, sizeof(*entries));
	assert_int_equal(b->copy->count, last + 1 - first);
	assert_int_equal(b->copy->dropped, first - 1);
	for (i = 0; i < b->copy->count; i++)
		assert_int_equal(entries[i].record.now_ns, first + i);
	assert_ptr_equal(names, entries + b->copy->count);
	assert_int_equal((char *)(names + 1) - (char *)b->copy, svc_trace_bytes(b->copy->count, 1));
}

static void test_the_last_are_kept(void **state)
{
	uint64_t i;
	struct bed b;

	(void)state;
	bed_open(&b);
	check(&b, ROOM, 1, 0);
	for (i = 1; i <= 3 * ROOM + 3; i++) {
		put(&b, i, i);
		check(&b, ROOM, i > ROOM ? i - ROOM + 1 : 1, i);
		check(&b, 2 * ROOM, i > ROOM ? i - ROOM + 1 : 1, i);
	}
	check(&b, 3, i - 3, i - 1); /* the ring holds more entries than fit into the copy */
	check(&b, 0, i, i - 1);
	bed_close(&b);
}

static void test_the_head_tells_how_it_began(void **state)
{
	struct bed b;

	(void)state;
	bed_open(&b);
	assert_int_equal(sal_engine_set_policy(b.engine, 1, &sal_policy_fair, NULL), SAL_OK);
	put(&b, 1, 100);
	(void)svc_trace_copy(&b.trace, b.engine, &b.lock, b.copy, ROOM);
	assert_int_equal(b.copy->capacity_bytes, 4096);
	assert_string_equal(b.copy->policy, "srtf");
	assert_int_equal(b.copy->tuning.pass_bound, 64);
	assert_int_equal(b.copy->name_count, 0);
	bed_close(&b);
}

static void test_names_and_times(void **state)
{
	const struct sal_trace_entry *entries;
	struct svc_trace_about about = { .name = "a name that is longer than there is room for",
					 .span = { 5, 6 } };
	struct sal_session *s;
	struct sal_job job = { .declared = { 1024, 512 } };
	struct sal_record r = { .what = SAL_OPEN };
	struct bed b;

	(void)state;
	bed_open(&b);
	assert_int_equal(sal_engine_open(b.engine, 1, &job, NULL, &s, NULL), SAL_OK);
	about.session = s;
	svc_trace_put(&b.trace, b.engine, &r, &about);
	r.what = SAL_DONE;
	svc_trace_put(&b.trace, b.engine, &r, &about);
	(void)svc_trace_copy(&b.trace, b.engine, &b.lock, b.copy, ROOM);
	entries = (const struct sal_trace_entry *)(b.copy + 1);
	assert_string_equal(entries[0].job.name, "a name that is longer than th");
	assert_int_equal(entries[1].span.start_ns, 5);
	assert_int_equal(entries[1].span.end_ns, 6);
	assert_int_equal(b.copy->memory.persist_bytes, 1024);
	assert_int_equal(b.copy->memory.lane_sum_bytes, 512);
	bed_close(&b);
}

/* A thread that adds entries all the time, as the engine does under its lock. */
struct putter {
	struct bed *bed;
	_Atomic bool stop;
};

static void *put_on(void *ctx)
{
	struct putter *p = ctx;
	uint64_t next = 1;

	while (!atomic_load(&p->stop)) {
		svc_lock_enter(&p->bed->lock);
		put(p->bed, next, next + 99);
		svc_lock_leave(&p->bed->lock);
		next += 100;
	}
	return NULL;
}

/* Entries that are overwritten during the copy are left out at the old end: the copy has no gap. */
static void test_a_copy_while_entries_come(void **state)
{
	const uint64_t room = UINT64_C(4) * SVC_TRACE_ROUND;
	struct sal_engine_config cfg = { .capacity_bytes = 4096 };
	time_t end = time(NULL) + 30;
	unsigned cut = 0;
	struct putter p = { 0 };
	pthread_t thread;
	struct bed b;

	(void)state;
	bed_open(&b);
	svc_trace_close(&b.trace);
	sal_tuning_default(&cfg.tuning);
	assert_int_equal(svc_trace_open(&b.trace, &cfg, room, NULL), SAL_OK);
	free(b.copy);
	b.copy = malloc(svc_trace_bytes(room, 1));
	assert_non_null(b.copy);
	p.bed = &b;
	assert_int_equal(pthread_create(&thread, NULL, put_on, &p), 0);
	while (cut < 2 && time(NULL) < end) {
		const struct sal_trace_entry *entries =
			(const struct sal_trace_entry *)(b.copy + 1);
		uint64_t k;

		(void)svc_trace_copy(&b.trace, b.engine, &b.lock, b.copy, room);
		cut += b.copy->dropped > 0 && b.copy->count < room;
		for (k = 0; k < b.copy->count; k++)
			assert_int_equal(entries[k].record.now_ns, b.copy->dropped + k + 1);
		(void)sched_yield();
	}
	atomic_store(&p.stop, true);
	(void)pthread_join(thread, NULL);
	assert_int_equal(cut, 2);
	bed_close(&b);
}

static struct svc_snapshot make_snapshot(uint64_t now_ns)
{
	struct svc_snapshot s = { .bytes = 5000, .made_ns = now_ns, .given_ns = now_ns };
	const uint64_t magic = SAL_TRACE_MAGIC;

	s.fd = memfd_create("test", MFD_CLOEXEC);
	assert_true(s.fd >= 0);
	assert_int_equal(ftruncate(s.fd, (off_t)s.bytes), 0);
	assert_int_equal(pwrite(s.fd, &magic, sizeof(magic), 0), sizeof(magic));
	return s;
}

/* The content of a snapshot, read through a descriptor that was kept. */
static uint64_t read_magic(int fd)
{
	uint64_t magic = 1;

	assert_int_equal(pread(fd, &magic, sizeof(magic), 0), sizeof(magic));
	return magic;
}

static void test_snapshots_are_few_and_do_not_last(void **state)
{
	const uint64_t s_ns = 1000000000;
	int kept[SVC_SNAPSHOTS_MAX + 1];
	struct stat st;
	struct bed b;
	unsigned i;

	(void)state;
	bed_open(&b);
	for (i = 0; i <= SVC_SNAPSHOTS_MAX; i++) {
		struct svc_snapshot s = make_snapshot((i + 1) * s_ns);

		kept[i] = dup(s.fd);
		assert_ptr_equal(svc_trace_add(&b.trace, &s), &b.trace.snapshots[i < 4 ? i : 3]);
	}
	assert_int_equal(b.trace.snapshot_count, SVC_SNAPSHOTS_MAX);
	assert_int_equal(read_magic(kept[0]), 0);
	assert_int_equal(fstat(kept[0], &st), 0);
	assert_int_equal(st.st_blocks, 0);
	assert_int_equal(read_magic(kept[1]), SAL_TRACE_MAGIC);
	svc_trace_forget(&b.trace, 13 * s_ns);
	assert_int_equal(b.trace.snapshot_count, SVC_SNAPSHOTS_MAX - 1);
	assert_int_equal(read_magic(kept[1]), 0);
	bed_close(&b);
	for (i = 0; i <= SVC_SNAPSHOTS_MAX; i++) {
		assert_int_equal(read_magic(kept[i]), 0);
		(void)close(kept[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_last_are_kept),
		cmocka_unit_test(test_the_head_tells_how_it_began),
		cmocka_unit_test(test_names_and_times),
		cmocka_unit_test(test_a_copy_while_entries_come),
		cmocka_unit_test(test_snapshots_are_few_and_do_not_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
