/* SPDX-License-Identifier: Apache-2.0 */
#include "service/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/sys/clock.h"
#include "core/engine.h"

/* A snapshot lives this long after a client got it: enough time to copy the snapshot. */
#define SNAPSHOT_NS UINT64_C(10000000000)

static int64_t realtime_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int svc_trace_open(struct svc_trace *t, const struct sal_engine_config *cfg, uint64_t room,
		   struct sal_err *err)
{
	const struct sal_policy *policy = cfg->policy ? cfg->policy : &sal_policy_fifo;
	int64_t now_ns = (int64_t)sal_now_ns();
	void *memory;

	*t = (struct svc_trace){
		.room = room,
		.head = {
			.magic = SAL_TRACE_MAGIC,
			.entry_bytes = sizeof(struct sal_trace_entry),
			.capacity_bytes = cfg->capacity_bytes,
			.start_ns = (uint64_t)now_ns,
			.realtime_ns = realtime_ns() - now_ns,
			.tuning = cfg->tuning,
		},
	};
	sal_trace_copy_name(t->head.policy, sizeof(t->head.policy), sal_policy_name(policy));
	memory = mmap(NULL, room * sizeof(*t->entries), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for the trace: %s",
				   strerror(errno));
	t->entries = memory;
	return SAL_OK;
}

/* The magic goes first: a client whose copy has the magic has a whole copy. */
static void drop_oldest(struct svc_trace *t)
{
	struct svc_snapshot *s = &t->snapshots[0];
	const uint64_t no_magic = 0, page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (pwrite(s->fd, &no_magic, sizeof(no_magic), offsetof(struct sal_trace_head, magic)) > 0)
		(void)fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				(off_t)((s->bytes + page - 1) / page * page));
	(void)close(s->fd);
	t->snapshot_count--;
	memmove(s, s + 1, t->snapshot_count * sizeof(*s));
}

void svc_trace_close(struct svc_trace *t)
{
	if (!t->entries)
		return;
	(void)munmap(t->entries, t->room * sizeof(*t->entries));
	t->entries = NULL;
	while (t->snapshot_count > 0)
		drop_oldest(t);
}

void svc_trace_put(struct svc_trace *t, const struct sal_engine *engine, const struct sal_record *r,
		   const struct svc_trace_about *about)
{
	struct sal_trace_entry *entry = &t->entries[t->put++ & (t->room - 1)];

	sal_trace_fill(entry, engine, r, about->session, about->iteration);
	if (r->what == SAL_OPEN && about->name)
		sal_trace_copy_name(entry->job.name, sizeof(entry->job.name), about->name);
	else if (r->what == SAL_DONE)
		entry->span = about->span;
	else if (r->what == SAL_SET_POLICY && !engine)
		memcpy(entry->policy, t->head.policy, sizeof(entry->policy));
}

uint64_t svc_trace_bytes(uint64_t entries, uint64_t names)
{
	return sizeof(struct sal_trace_head) + entries * sizeof(struct sal_trace_entry) +
	       names * sizeof(struct sal_trace_name);
}

static void fill_head(const struct svc_trace *t, const struct sal_engine *engine,
		      struct sal_trace_head *head)
{
	const struct sal_memory *memory = sal_engine_memory(engine);

	*head = t->head;
	head->memory = (struct sal_trace_memory){
		.persist_bytes = memory->persist_bytes,
		.lane_sum_bytes = memory->lane_sum_bytes,
	};
}

/*
 * One round: copy the entries from first to end-1 that are not overwritten. Returns the first of
 * these entries.
 */
static uint64_t copy_round(const struct svc_trace *t, uint64_t first, uint64_t end,
			   struct sal_trace_entry *to)
{
	uint64_t oldest = t->put - svc_trace_count(t);
	uint64_t i = first > oldest ? first : oldest;

	for (first = i; i < end; i++)
		*to++ = t->entries[i & (t->room - 1)];
	return first < end ? first : end;
}

struct sal_trace_name *svc_trace_copy(const struct svc_trace *t, const struct sal_engine *engine,
				      struct svc_lock *lock, void *to, uint64_t most)
{
	struct sal_trace_head *head = to;
	struct sal_trace_entry *out = (struct sal_trace_entry *)(head + 1);
	uint64_t first, end, next;

	svc_lock_enter(lock);
	fill_head(t, engine, head);
	end = next = t->put;
	first = end - (svc_trace_count(t) < most ? svc_trace_count(t) : most);
	svc_lock_leave(lock);
	while (next > first) { /* newest first, because the oldest entries are overwritten first */
		uint64_t from = next - first > SVC_TRACE_ROUND ? next - SVC_TRACE_ROUND : first;
		uint64_t got;

		svc_lock_enter(lock);
		got = copy_round(t, from, next, out + (from - first));
		svc_lock_leave(lock);
		if (got > from) { /* older entries are overwritten */
			memmove(out, out + (from - first), (next - got) * sizeof(*out));
			memmove(out + (next - got), out + (next - first),
				(end - next) * sizeof(*out));
			first = next = got;
		} else {
			next = from;
		}
	}
	head->count = end - first;
	head->dropped = first;
	return (struct sal_trace_name *)(out + head->count);
}

void svc_trace_forget(struct svc_trace *t, uint64_t now_ns)
{
	while (t->snapshot_count > 0 && now_ns - t->snapshots[0].given_ns > SNAPSHOT_NS)
		drop_oldest(t);
}

struct svc_snapshot *svc_trace_add(struct svc_trace *t, const struct svc_snapshot *take_snapshot)
{
	if (t->snapshot_count == SVC_SNAPSHOTS_MAX)
		drop_oldest(t);
	t->snapshots[t->snapshot_count] = *take_snapshot;
	return &t->snapshots[t->snapshot_count++];
}
