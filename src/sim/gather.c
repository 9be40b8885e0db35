/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "sim/run_impl.h"

static void *grown(struct sim *sim, void *array, size_t count, size_t *room, size_t size)
{
	size_t more = *room ? *room * 2 : 1024;
	void *p;

	if (count < *room)
		return array;
	p = realloc(array, more * size);
	if (!p) {
		sim->out_of_memory = true;
		return NULL;
	}
	*room = more;
	return p;
}

void sim_add_span(struct sim *sim, uint32_t job, uint32_t lane, enum rec_span_kind kind,
		  uint64_t from_ns, uint64_t to_ns)
{
	struct sim_result *out = sim->out;
	struct rec_span *spans;
	size_t back;

	if (!sim->options->keep_spans)
		return;
	/*
	 * Iterations of one job without a gap are one span. Lanes alternate, so look back a little.
	 */
	for (back = 1; back <= SAL_LANES_MAX && back <= out->span_count; back++) {
		struct rec_span *s = &out->spans[out->span_count - back];

		if (s->kind != kind || s->lane != lane)
			continue;
		if (s->job != job || s->to_ns != from_ns)
			break;
		s->to_ns = to_ns;
		return;
	}
	spans = grown(sim, out->spans, out->span_count, &sim->span_room, sizeof(*spans));
	if (!spans)
		return;
	out->spans = spans;
	spans[out->span_count++] = (struct rec_span){
		.from_ns = from_ns,
		.to_ns = to_ns,
		.job = job,
		.lane = (uint16_t)lane,
		.kind = (uint16_t)kind,
	};
}

void sim_add_record(struct sim *sim, const struct sal_record *r)
{
	struct sim_result *out = sim->out;
	struct sal_record *records =
		grown(sim, out->records, out->record_count, &sim->record_room, sizeof(*records));

	if (!records)
		return;
	out->records = records;
	records[out->record_count++] = *r;
}

void sim_add_sample(struct sim *sim)
{
	const struct sal_memory *m = sal_engine_memory(sim->engine);
	struct sim_result *out = sim->out;
	struct rec_sample now = {
		.now_ns = sim->now_ns,
		.persist_bytes = m->persist_bytes,
		.lane_sum_bytes = m->lane_sum_bytes,
		.lanes = (uint32_t)__builtin_popcountll(m->open_mask),
		.resident = sal_engine_resident_count(sim->engine),
		.waiting = sal_engine_waiting_count(sim->engine),
	};
	struct rec_sample *samples, *last;

	if (out->sample_count > 0) {
		last = &out->samples[out->sample_count - 1];
		if (last->persist_bytes == now.persist_bytes && last->lanes == now.lanes &&
		    last->lane_sum_bytes == now.lane_sum_bytes && last->resident == now.resident &&
		    last->waiting == now.waiting)
			return;
		if (last->now_ns == now.now_ns) {
			*last = now;
			return;
		}
	}
	samples = grown(sim, out->samples, out->sample_count, &sim->sample_room, sizeof(*samples));
	if (!samples)
		return;
	out->samples = samples;
	samples[out->sample_count++] = now;
}
