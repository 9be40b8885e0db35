/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "recording/draw/picture.h"

#define NS_PER_S 1e9

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Interpolates between the two nearest of the sorted values. */
static double percentile(const double *sorted, size_t n, double share)
{
	double at = share * (double)(n - 1);
	size_t below = (size_t)at;

	if (below + 1 >= n)
		return sorted[n - 1];
	return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

/*
 * Stores the completion times of the jobs that ran, and adds up their queueing. Returns how many
 * ran.
 */
static size_t gather(const struct rec_picture *picture, double *jct_s, double *queue_s)
{
	size_t i, n = 0;

	for (i = 0; i < picture->job_count; i++) {
		const struct rec_job *job = &picture->jobs[i];

		if (job->refused)
			continue;
		jct_s[n++] = (double)(job->end_ns - job->submit_ns) / NS_PER_S;
		*queue_s += (double)(job->start_ns - job->submit_ns) / NS_PER_S;
	}
	return n;
}

int rec_summarise(const struct rec_picture *picture, struct rec_summary *out_summary,
		  struct sal_err *err)
{
	double *jct_s = calloc(picture->job_count + 1, sizeof(*jct_s));
	double queue_s = 0, sum_s = 0;
	size_t n, i;

	memset(out_summary, 0, sizeof(*out_summary));
	if (!jct_s)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	n = gather(picture, jct_s, &queue_s);
	for (i = 0; i < n; i++)
		sum_s += jct_s[i];
	if (n > 0) {
		qsort(jct_s, n, sizeof(*jct_s), by_value);
		out_summary->makespan_s =
			(double)(picture->last_end_ns - picture->first_submit_ns) / NS_PER_S;
		out_summary->mean_jct_s = sum_s / (double)n;
		out_summary->mean_queue_s = queue_s / (double)n;
		out_summary->median_jct_s = percentile(jct_s, n, 0.5);
		out_summary->p95_jct_s = percentile(jct_s, n, 0.95);
		out_summary->max_jct_s = jct_s[n - 1];
		out_summary->busy_share =
			picture->busy_ns / NS_PER_S / (out_summary->makespan_s * picture->devices);
	}
	free(jct_s);
	return SAL_OK;
}
