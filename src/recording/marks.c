/* SPDX-License-Identifier: Apache-2.0 */
#include "recording/marks.h"

#include <inttypes.h>

#define BYTES_PER_MIB 1048576.0

static void put_needs(const struct rec_events *e, const struct sal_record *r)
{
	(void)fprintf(e->out, "\"persistent_mib\":%.6g,\"ephemeral_mib\":%.6g",
		      (double)r->persist_bytes / BYTES_PER_MIB,
		      (double)r->ephem_bytes / BYTES_PER_MIB);
}

/* Only what runs behind more urgent jobs has a tier to tell. */
static void put_tier(const struct rec_events *e, const struct sal_record *r)
{
	if (r->what == SAL_GRANT && r->value > 0)
		(void)fprintf(e->out, "\"tier\":%" PRIu64 ",", r->value);
}

void rec_mark_in_lane(const struct rec_events *e, unsigned track, const char *job,
		      const struct sal_record *grant, const struct sal_trace_span *span)
{
	rec_event_interval(e, track, span->start_ns, span->end_ns);
	rec_event_name(e, job);
	(void)fprintf(e->out, ",\"cat\":\"lane\",\"args\":{\"iteration\":%" PRIu64 ",",
		      grant->iteration);
	put_tier(e, grant);
	put_needs(e, grant);
	(void)fputs("}}", e->out);
}

void rec_mark_in_job(const struct rec_events *e, unsigned track, const struct sal_record *grant,
		     const struct sal_trace_span *span)
{
	char name[40];

	/* The upper half of a client's number says what kind of request it was. */
	(void)snprintf(name, sizeof(name), "iteration %" PRIu32, (uint32_t)grant->iteration);
	rec_event_interval(e, track, span->start_ns, span->end_ns);
	rec_event_name(e, name);
	(void)fprintf(e->out,
		      ",\"cat\":\"iteration\",\"args\":{\"iteration\":%" PRIu64 ",\"lane\":%u,",
		      grant->iteration, grant->lane);
	put_tier(e, grant);
	put_needs(e, grant);
	(void)fputs("}}", e->out);
}

void rec_mark_copy(const struct rec_events *e, unsigned track, const struct sal_record *start,
		   uint64_t end_ns)
{
	rec_event_interval(e, track, start->now_ns, end_ns);
	rec_event_name(e, sal_what_name(start->what));
	(void)fprintf(e->out, ",\"cat\":\"page\",\"args\":{\"mib\":%.6g}}",
		      (double)start->value / BYTES_PER_MIB);
}

void rec_mark_wait(const struct rec_events *e, unsigned track, const char *why,
		   const struct sal_trace_span *span)
{
	rec_event_interval(e, track, span->start_ns, span->end_ns);
	rec_event_name(e, why);
	(void)fputs(",\"cat\":\"wait\"}", e->out);
}

void rec_mark_instant(const struct rec_events *e, unsigned track, const struct sal_record *r,
		      const char *policy)
{
	rec_event_open(e, "i", track, r->now_ns);
	rec_event_name(e, sal_what_name(r->what));
	(void)fprintf(e->out, ",\"cat\":\"%s\",\"s\":\"%s\",\"args\":{",
		      sal_record_is_decision(r) ? "decision" : "event", track ? "t" : "p");
	put_needs(e, r);
	if (r->lane != SAL_NO_LANE)
		(void)fprintf(e->out, ",\"lane\":%u", r->lane);
	if (r->reason != SAL_REASON_NONE) {
		(void)fputs(",\"reason\":", e->out);
		rec_json_text(e->out, sal_reason_name(r->reason));
	}
	if (policy) {
		(void)fputs(",\"policy\":", e->out);
		rec_json_text(e->out, policy);
	}
	(void)fputs("}}", e->out);
}

void rec_mark_limit(const struct rec_events *e, unsigned track, uint64_t now_ns,
		    uint64_t limit_bytes)
{
	rec_event_open(e, "i", track, now_ns);
	rec_event_name(e, limit_bytes ? "limit" : "no limit");
	(void)fprintf(e->out, ",\"cat\":\"event\",\"s\":\"t\",\"args\":{\"limit_mib\":%.6g}}",
		      (double)limit_bytes / BYTES_PER_MIB);
}

void rec_mark_memory(const struct rec_events *e, uint64_t from_ns, uint64_t capacity_bytes,
		     const struct sal_trace_memory *used)
{
	double capacity = (double)capacity_bytes;
	double persist = (double)used->persist_bytes, lanes = (double)used->lane_sum_bytes;

	rec_event_open(e, "C", 0, from_ns);
	(void)fprintf(e->out,
		      ",\"name\":\"memory (MiB)\",\"args\":{\"persistent\":%.3f,\"lanes\":%.3f,"
		      "\"free\":%.3f}}",
		      persist / BYTES_PER_MIB, lanes / BYTES_PER_MIB,
		      (capacity - persist - lanes) / BYTES_PER_MIB);
}

void rec_mark_queue(const struct rec_events *e, uint64_t from_ns, uint64_t waiting,
		    uint64_t running)
{
	rec_event_open(e, "C", 0, from_ns);
	(void)fprintf(e->out,
		      ",\"name\":\"iterations\",\"args\":{\"waiting\":%" PRIu64
		      ",\"running\":%" PRIu64 "}}",
		      waiting, running);
}
