/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/picture.h"

#include <stdlib.h>
#include <string.h>

#include "recording/draw/svg.h"

static struct rec_job drawn(const struct sim_job_result *r)
{
	return (struct rec_job){
		.name = r->job->name,
		.submit_ns = r->job->submit_ns,
		.start_ns = r->start_ns,
		.end_ns = r->end_ns,
		.used_ns = r->used_ns,
		.iterations = r->iterations,
		.page_outs = r->page_outs,
		.refused = r->refused,
	};
}

int sim_picture_init(struct rec_picture *picture, const struct sim_result *result,
		     struct sal_err *err)
{
	size_t i;

	*picture = (struct rec_picture){
		.policy = result->policy,
		.capacity_bytes = result->capacity_bytes,
		.devices = result->devices,
		.jobs = calloc(result->job_count + 1, sizeof(*picture->jobs)),
		.job_count = result->job_count,
		.rows = result->arrivals,
		.first_submit_ns = result->first_submit_ns,
		.last_end_ns = result->last_end_ns,
		.busy_ns = result->busy_ns,
		.page_outs = result->page_outs,
		.refused = result->refused,
		.spans = result->spans,
		.span_count = result->span_count,
		.samples = result->samples,
		.sample_count = result->sample_count,
	};
	if (!picture->jobs)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	for (i = 0; i < result->job_count; i++)
		picture->jobs[i] = drawn(&result->jobs[i]);
	return SAL_OK;
}

void sim_picture_fini(struct rec_picture *picture)
{
	free(picture->jobs);
	*picture = (struct rec_picture){ 0 };
}

int sim_summarise(const struct sim_result *result, struct rec_summary *out_summary,
		  struct sal_err *err)
{
	struct rec_picture picture;
	int rc = sim_picture_init(&picture, result, err);

	memset(out_summary, 0, sizeof(*out_summary));
	if (rc >= 0)
		rc = rec_summarise(&picture, out_summary, err);
	sim_picture_fini(&picture);
	return rc;
}

int sim_svg_write(FILE *out, const struct sim_result *results, size_t count, struct sal_err *err)
{
	struct rec_picture *pictures = calloc(count + 1, sizeof(*pictures));
	int rc = SAL_OK;
	size_t i;

	if (!pictures)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	for (i = 0; rc >= 0 && i < count; i++)
		rc = sim_picture_init(&pictures[i], &results[i], err);
	if (rc >= 0)
		rc = rec_svg_write(out, pictures, count, err);
	for (i = 0; i < count; i++)
		sim_picture_fini(&pictures[i]);
	free(pictures);
	return rc;
}
