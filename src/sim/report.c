/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/report.h"

#include <inttypes.h>
#include <jansson.h>

#include "base/units.h"
#include "sim/picture.h"

#define NS_PER_S 1e9

static double jct_s(const struct sim_job_result *r)
{
	return (double)(r->end_ns - r->job->submit_ns) / NS_PER_S;
}

static double queue_s(const struct sim_job_result *r)
{
	return (double)(r->start_ns - r->job->submit_ns) / NS_PER_S;
}

static double mean_latency_s(const struct sim_job_result *r)
{
	return r->iterations ? (double)r->latency_sum_ns / (double)r->iterations / NS_PER_S : 0;
}

/* Was the job refused because of its deadline? */
static bool is_late(const struct sim_job_result *r)
{
	return r->refused && (r->reason == SAL_REFUSE_DEADLINE || r->reason == SAL_REFUSE_LOAD);
}

static void print_jobs(FILE *out, const struct sim_result *result)
{
	size_t i;

	(void)fprintf(out, "\n%s\n%-24s %10s %10s %10s %10s %10s %11s %9s\n", result->policy, "job",
		      "submit s", "queue s", "end s", "jct s", "device s", "latency ms",
		      "page-outs");
	for (i = 0; i < result->job_count; i++) {
		const struct sim_job_result *r = &result->jobs[i];
		double submit = (double)r->job->submit_ns / NS_PER_S;

		if (r->refused) {
			(void)fprintf(out, "%-24s %10.1f refused: %s\n", r->job->name, submit,
				      is_late(r) ? sal_reason_name(r->reason)
						 : "needs more than the device has");
			continue;
		}
		(void)fprintf(out, "%-24s %10.1f %10.1f %10.1f %10.1f %10.1f %11.2f %9" PRIu64 "\n",
			      r->job->name, submit, queue_s(r), (double)r->end_ns / NS_PER_S,
			      jct_s(r), (double)r->used_ns / NS_PER_S, mean_latency_s(r) * 1e3,
			      r->page_outs);
	}
}

int sim_report_text(FILE *out, const struct sim_result *results, size_t count, bool with_jobs,
		    struct sal_err *err)
{
	size_t i;

	(void)fprintf(out, "%-9s %9s %9s %9s %9s %9s %9s %6s %8s %9s %7s %8s %6s\n", "policy",
		      "makespan", "mean jct", "median", "p95", "max", "queue", "busy", "switches",
		      "page-outs", "refused", "resident", "lanes");
	for (i = 0; i < count; i++) {
		const struct sim_result *r = &results[i];
		struct rec_summary s;
		int rc = sim_summarise(r, &s, err);
		bool minutes = s.makespan_s >= 600;
		double unit = minutes ? 60 : 1;
		const char *u = minutes ? "min" : "s";

		if (rc < 0)
			return rc;
		(void)fprintf(out,
			      "%-9s %6.1f%-3s %6.1f%-3s %6.1f%-3s %6.1f%-3s %6.1f%-3s %6.1f%-3s "
			      "%5.1f%% %8" PRIu64 " %9" PRIu64 " %7" PRIu64 " %8u %6u\n",
			      r->policy, s.makespan_s / unit, u, s.mean_jct_s / unit, u,
			      s.median_jct_s / unit, u, s.p95_jct_s / unit, u, s.max_jct_s / unit,
			      u, s.mean_queue_s / unit, u, s.busy_share * 100, r->switches,
			      r->page_outs, r->refused, r->peak_resident, r->peak_lanes);
		if (r->devices > 1)
			(void)fprintf(out, "          on %u devices\n", r->devices);
	}
	for (i = 0; with_jobs && i < count; i++)
		print_jobs(out, &results[i]);
	return SAL_OK;
}

static uint64_t peak_bytes(const struct sim_job_result *r)
{
	return r->job->needs.persist_bytes + r->job->needs.ephem_bytes;
}

static void explain_deadlines(const struct sim_result *result, struct sal_words *out)
{
	const struct sim_job_result *first = NULL;
	char time[SAL_UNITS_TEXT], deadline[SAL_UNITS_TEXT];
	size_t i, count = 0;

	for (i = 0; i < result->job_count; i++) {
		if (!first && is_late(&result->jobs[i]))
			first = &result->jobs[i];
		count += is_late(&result->jobs[i]);
	}
	if (!first)
		return;
	sal_words_add(out,
		      "%s%zu of %zu jobs refused under %s: their deadlines cannot be met; %.60s "
		      "(%s, due within %s): %s",
		      out->used ? "; " : "", count, result->job_count, result->policy,
		      first->job->name,
		      sal_duration_format(first->job->iter_ns, time, sizeof(time)),
		      sal_duration_format(first->job->deadline_ns, deadline, sizeof(deadline)),
		      sal_reason_name(first->reason));
}

static void explain_memory(const struct sim_result *result, struct sal_words *out)
{
	uint64_t count = 0;
	const struct sim_job_result *largest = NULL;
	char device[SAL_UNITS_TEXT], persist[SAL_UNITS_TEXT], ephem[SAL_UNITS_TEXT];
	size_t i;

	for (i = 0; i < result->job_count; i++) {
		const struct sim_job_result *r = &result->jobs[i];

		if (!r->refused || is_late(r))
			continue;
		count++;
		if (!largest || peak_bytes(r) > peak_bytes(largest))
			largest = r;
	}
	if (!largest)
		return;
	sal_words_add(out,
		      "%" PRIu64 " of %zu jobs refused: they need more memory than the device "
		      "has (%s); %.60s needs %s and %s of scratch",
		      count, result->job_count,
		      sal_bytes_format(result->capacity_bytes, device, sizeof(device)),
		      largest->job->name,
		      sal_bytes_format(largest->job->needs.persist_bytes, persist, sizeof(persist)),
		      sal_bytes_format(largest->job->needs.ephem_bytes, ephem, sizeof(ephem)));
}

bool sim_report_refusals(const struct sim_result *results, size_t count, struct sal_words *out)
{
	bool is_any_done = false;
	size_t i;

	for (i = 0; i < count; i++) {
		is_any_done |= results[i].refused < results[i].job_count;
		/* A job that is too large for the device is so under every policy. */
		if (out->used == 0)
			explain_memory(&results[i], out);
		explain_deadlines(&results[i], out);
	}
	return is_any_done;
}

static bool is_ejected(const struct sim_result *r)
{
	return r->eject_reason != SAL_REASON_NONE;
}

void sim_report_ejections(const struct sim_result *results, size_t count, struct sal_words *out)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (is_ejected(&results[i]))
			sal_words_add(out, "%sat %.1f s fifo replaced %s, which %s",
				      out->used ? "; " : "",
				      (double)results[i].ejected_ns / NS_PER_S, results[i].policy,
				      sal_reason_name(results[i].eject_reason));
}

/* Null, or why and when fifo replaced the policy. */
static json_t *ejection_json(const struct sim_result *r)
{
	if (!is_ejected(r))
		return json_null();
	return json_pack("{s:f, s:s}", "at_s", (double)r->ejected_ns / NS_PER_S, "reason",
			 sal_reason_name(r->eject_reason));
}

static json_t *jobs_json(const struct sim_result *result)
{
	json_t *jobs = json_array();
	size_t i;

	for (i = 0; i < result->job_count; i++) {
		const struct sim_job_result *r = &result->jobs[i];
		json_t *job = json_pack("{s:s, s:f, s:b}", "job", r->job->name, "submit_s",
					(double)r->job->submit_ns / NS_PER_S, "refused",
					r->refused);

		if (!r->refused)
			(void)json_object_update_new(
				job, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:i}",
					       "queue_s", queue_s(r), "end_s",
					       (double)r->end_ns / NS_PER_S, "jct_s", jct_s(r),
					       "device_s", (double)r->used_ns / NS_PER_S,
					       "mean_latency_s", mean_latency_s(r), "max_latency_s",
					       (double)r->latency_max_ns / NS_PER_S, "iterations",
					       (json_int_t)r->iterations, "late",
					       (json_int_t)r->late, "page_outs",
					       (json_int_t)r->page_outs, "device", (int)r->device));
		(void)json_array_append_new(jobs, job);
	}
	return jobs;
}

static json_t *policy_json(const struct sim_result *r, const struct rec_summary *s)
{
	return json_pack(
		"{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:i, s:i, s:i, s:o}",
		"policy", r->policy, "makespan_s", s->makespan_s, "mean_jct_s", s->mean_jct_s,
		"median_jct_s", s->median_jct_s, "p95_jct_s", s->p95_jct_s, "max_jct_s",
		s->max_jct_s, "mean_queue_s", s->mean_queue_s, "busy_share", s->busy_share,
		"switches", (json_int_t)r->switches, "page_outs", (json_int_t)r->page_outs,
		"refused", (json_int_t)r->refused, "peak_resident", (int)r->peak_resident,
		"peak_lanes", (int)r->peak_lanes, "devices", (int)r->devices, "ejected",
		ejection_json(r));
}

int sim_report_json(FILE *out, const struct sim_result *results, size_t count, bool with_jobs,
		    struct sal_err *err)
{
	json_t *policies = json_array();
	json_t *root = json_pack("{s:o}", "policies", policies);
	size_t i;
	int rc = SAL_OK;

	for (i = 0; root && i < count; i++) {
		struct rec_summary s;
		json_t *policy;

		rc = sim_summarise(&results[i], &s, err);
		if (rc < 0)
			goto out;
		policy = policy_json(&results[i], &s);
		if (policy && with_jobs)
			(void)json_object_set_new(policy, "jobs", jobs_json(&results[i]));
		(void)json_array_append_new(policies, policy);
	}
	if (!root || json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) < 0)
		rc = sal_err_set(err, SAL_UNAVAILABLE, "cannot write the report");
	else
		(void)fputc('\n', out);
out:
	json_decref(root);
	return rc;
}
