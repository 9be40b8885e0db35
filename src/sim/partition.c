/* SPDX-License-Identifier: Apache-2.0 */
/*
 * partition - the baseline of one fixed slice per job, as process-level sharing gives.
 */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

struct partition {
	const struct sim_workload *workload;
	uint64_t capacity_bytes;
	uint32_t *device; /* owned; of each job, UINT32_MAX: fits nowhere */
	uint64_t *free_bytes; /* owned; of each device */
	uint32_t devices;
};

static uint64_t peak_bytes(const struct sim_job *job)
{
	return job->needs.persist_bytes + job->needs.ephem_bytes;
}

static int by_peak(const void *a, const void *b, void *jobs)
{
	const struct sim_job *all = jobs;
	size_t ia = *(const size_t *)a, ib = *(const size_t *)b;
	uint64_t pa = peak_bytes(&all[ia]), pb = peak_bytes(&all[ib]);

	if (pa != pb)
		return pa > pb ? -1 : 1;
	return ia < ib ? -1 : ia > ib;
}

static uint32_t first_fit(struct partition *p, uint64_t bytes)
{
	uint32_t d;

	if (bytes > p->capacity_bytes)
		return UINT32_MAX;
	for (d = 0; d < p->devices; d++)
		if (p->free_bytes[d] >= bytes)
			break;
	if (d == p->devices)
		p->free_bytes[p->devices++] = p->capacity_bytes;
	p->free_bytes[d] -= bytes;
	return d;
}

static int partition_init(struct partition *p, struct sal_err *err)
{
	size_t n = p->workload->count, i;
	size_t *order = calloc(n, sizeof(*order));

	p->device = calloc(n, sizeof(*p->device));
	p->free_bytes = calloc(n, sizeof(*p->free_bytes));
	if (!order || !p->device || !p->free_bytes) {
		free(order);
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	}
	for (i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), by_peak, p->workload->jobs);
	for (i = 0; i < n; i++)
		p->device[order[i]] = first_fit(p, peak_bytes(&p->workload->jobs[order[i]]));
	free(order);
	return SAL_OK;
}

static void merge(struct sim_result *all, const struct sim_result *one)
{
	all->last_end_ns = one->last_end_ns > all->last_end_ns ? one->last_end_ns
							       : all->last_end_ns;
	all->busy_ns += one->busy_ns;
	all->switches += one->switches;
	all->page_outs += one->page_outs;
	all->iterations += one->iterations;
	all->events += one->events;
	all->refused += one->refused;
	all->peak_resident += one->peak_resident;
	all->peak_lanes += one->peak_lanes;
}

/* Run the jobs of one device by themselves. */
static int run_device(const struct partition *p, uint32_t device, const struct sim_options *options,
		      struct sim_result *all, struct sal_err *err)
{
	struct sim_workload part = { .jobs = calloc(p->workload->count, sizeof(*part.jobs)) };
	struct sim_result one;
	size_t i, k = 0;
	int rc;

	SAL_ASSERT(all->jobs);
	if (!part.jobs)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	for (i = 0; i < p->workload->count; i++)
		if (p->device[i] == device)
			part.jobs[part.count++] = p->workload->jobs[i];
	rc = sim_run(&part, &sal_policy_pack, options, &one, err);
	if (rc >= 0) {
		for (i = 0; i < p->workload->count; i++)
			if (p->device[i] == device) {
				all->jobs[i] = one.jobs[k++];
				all->jobs[i].job = &p->workload->jobs[i];
				all->jobs[i].device = device;
			}
		merge(all, &one);
		sim_result_fini(&one);
	}
	free(part.jobs); /* the names are the workload's */
	return rc;
}

static void refuse_misfits(const struct partition *p, struct sim_result *all)
{
	size_t i;

	all->first_submit_ns = SIM_NEVER;
	for (i = 0; i < p->workload->count; i++) {
		const struct sim_job *job = &p->workload->jobs[i];

		if (job->submit_ns < all->first_submit_ns)
			all->first_submit_ns = job->submit_ns;
		if (p->device[i] != UINT32_MAX)
			continue;
		all->jobs[i] = (struct sim_job_result){
			.job = job, .start_ns = SIM_NEVER, .end_ns = SIM_NEVER, .refused = true
		};
		all->refused++;
	}
}

int sim_run_static(const struct sim_workload *workload, const struct sim_options *options,
		   struct sim_result *out_result, struct sal_err *err)
{
	struct partition p = { .workload = workload, .capacity_bytes = options->capacity_bytes };
	struct sim_options bare = *options;
	uint32_t d;
	int rc;

	memset(out_result, 0, sizeof(*out_result));
	bare.keep_spans = false;
	bare.keep_records = false;
	rc = partition_init(&p, err);
	if (rc >= 0) {
		out_result->policy = "static";
		out_result->capacity_bytes = options->capacity_bytes;
		out_result->devices = p.devices;
		out_result->job_count = workload->count;
		out_result->jobs = calloc(workload->count, sizeof(*out_result->jobs));
		if (!out_result->jobs)
			rc = sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
		else
			refuse_misfits(&p, out_result);
	}
	for (d = 0; rc >= 0 && d < p.devices; d++)
		rc = run_device(&p, d, &bare, out_result, err);
	free(p.device);
	free(p.free_bytes);
	if (rc < 0)
		sim_result_fini(out_result);
	return rc;
}
