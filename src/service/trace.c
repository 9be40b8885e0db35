/* SPDX-License-Identifier: Apache-2.0 */
#include "service/trace.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int64_t read_clock(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int svc_trace_open(struct svc_trace *t, const struct sal_engine_config *cfg, uint64_t room,
		   struct sal_err *err)
{
	const struct sal_policy *policy = cfg->policy ? cfg->policy : &sal_policy_fifo;
	int64_t now_ns = read_clock(CLOCK_MONOTONIC);
	void *memory;

	*t = (struct svc_trace){
		.room = room,
		.head = {
			.magic = SAL_TRACE_MAGIC,
			.entry_bytes = sizeof(struct sal_trace_entry),
			.capacity_bytes = cfg->capacity_bytes,
			.start_ns = (uint64_t)now_ns,
			.realtime_ns = read_clock(CLOCK_REALTIME) - now_ns,
			.tuning = cfg->tuning,
		},
		.answer_fd = -1,
	};
	sal_trace_copy_name(t->head.policy, sizeof(t->head.policy), policy->name);
	memory = mmap(NULL, room * sizeof(*t->entries), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for the trace: %s",
				   strerror(errno));
	t->entries = memory;
	return SAL_OK;
}

void svc_trace_close(struct svc_trace *t)
{
	if (!t->entries)
		return;
	(void)munmap(t->entries, t->room * sizeof(*t->entries));
	t->entries = NULL;
	if (t->answer_fd >= 0)
		(void)close(t->answer_fd);
	t->answer_fd = -1;
}

void svc_trace_put(struct svc_trace *t, const struct sal_engine *engine, const struct sal_record *r,
		   const struct sal_session *s, const char *name, const struct sal_trace_span *span)
{
	struct sal_trace_entry *entry = &t->entries[t->put++ & (t->room - 1)];

	sal_trace_fill(entry, engine, r, s);
	if (r->what == SAL_OPEN && name)
		sal_trace_copy_name(entry->job.name, sizeof(entry->job.name), name);
	else if (r->what == SAL_DONE && span)
		entry->span = *span;
}

uint64_t svc_trace_bytes(uint64_t entries, uint64_t names)
{
	return sizeof(struct sal_trace_head) + entries * sizeof(struct sal_trace_entry) +
	       names * sizeof(struct sal_trace_name);
}

struct sal_trace_name *svc_trace_copy(const struct svc_trace *t, const struct sal_engine *engine,
				      void *to, uint64_t most)
{
	const struct sal_memory *memory = sal_engine_memory(engine);
	struct sal_trace_head *head = to;
	struct sal_trace_entry *out = (struct sal_trace_entry *)(head + 1);
	uint64_t count = svc_trace_count(t) < most ? svc_trace_count(t) : most;
	uint64_t first = (t->put - count) & (t->room - 1);
	uint64_t straight = count < t->room - first ? count : t->room - first;

	*head = t->head;
	head->count = count;
	head->dropped = t->put - count;
	head->memory = (struct sal_trace_memory){
		.persist_bytes = memory->persist_bytes,
		.lane_sum_bytes = memory->lane_sum_bytes,
	};
	memcpy(out, t->entries + first, straight * sizeof(*out));
	memcpy(out + straight, t->entries, (count - straight) * sizeof(*out));
	return (struct sal_trace_name *)(out + count);
}
