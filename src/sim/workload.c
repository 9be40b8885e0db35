/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/workload.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1e9
#define NS_PER_MS 1e6
#define BYTES_PER_MIB 1048576.0
/* Length of an iteration of a job that gives only its duration. */
#define DEFAULT_ITER_NS UINT64_C(100000000)
/* As for duration_s, so that the times of many jobs can be added. */
#define LENGTH_MAX_MS 1e12
#define COLUMNS_MAX 16

/* What a cell may hold, and where it goes. */
enum column {
	COL_JOB,
	COL_SUBMIT_S,
	COL_DURATION_S,
	COL_ITERATIONS,
	COL_ITER_MS,
	COL_PERSISTENT_MIB,
	COL_EPHEMERAL_MIB,
	COL_UTIL,
	COL_WEIGHT,
	COL_PRIORITY,
	COL_KIND,
	COL_REQUESTS_PER_S,
	COL_DEADLINE_MS,
	COL_COUNT
};

struct range {
	double least, most;
	bool whole;
	const char *expected;
};

static const char *const column_names[COL_COUNT] = {
	"job",		 "submit_s", "duration_s", "iterations", "iter_ms", "persistent_mib",
	"ephemeral_mib", "util",     "weight",	   "priority",	 "kind",    "requests_per_s",
	"deadline_ms",
};

static const struct range ranges[COL_COUNT] = {
	[COL_SUBMIT_S] = { 0, 1e9, false, "seconds from 0 to 1e9" },
	[COL_DURATION_S] = { 1e-9, 1e9, false, "seconds above 0, at most 1e9" },
	[COL_ITERATIONS] = { 1, 1e9, true, "a whole number from 1 to 1e9" },
	[COL_ITER_MS] = { 1e-6, 1e9, false, "milliseconds above 0, at most 1e9" },
	[COL_PERSISTENT_MIB] = { 0, 1e9, false, "MiB from 0 to 1e9" },
	[COL_EPHEMERAL_MIB] = { 0, 1e9, false, "MiB from 0 to 1e9" },
	[COL_UTIL] = { 1e-6, 1, false, "a share above 0, at most 1" },
	[COL_WEIGHT] = { 1e-3, 1e6, false, "a weight from 0.001 to 1e6" },
	[COL_PRIORITY] = { 0, 1e6, true, "a whole number from 0 to 1e6" },
	[COL_REQUESTS_PER_S] = { 1e-6, 1e6, false, "requests per second from 1e-6 to 1e6" },
	[COL_DEADLINE_MS] = { 1e-6, 1e9, false, "milliseconds above 0, at most 1e9" },
};

struct reader {
	const char *path;
	FILE *file;
	char *line; /* owned */
	size_t line_size;
	unsigned long line_number;
	enum column order[COLUMNS_MAX];
	size_t columns;
	struct sim_workload workload;
	size_t room;
	struct sal_err *err;
};

/* The cells of one row; empty cells are missing. */
struct row {
	const char *text[COL_COUNT];
	double number[COL_COUNT];
	bool given[COL_COUNT];
};

static int bad(struct reader *r, const char *what, const char *expected)
{
	return sal_err_set(r->err, SAL_INVALID_ARGUMENT, "%s:%lu: %s, expected %s", r->path,
			   r->line_number, what, expected);
}

static int bad_cell(struct reader *r, enum column c, const char *text, const char *expected)
{
	char what[96];

	(void)snprintf(what, sizeof(what), "%s is \"%.40s\"", column_names[c], text);
	return bad(r, what, expected);
}

/* Bytes of the UTF-8 character at text; 0 if it is not valid. */
static size_t char_length(const unsigned char *text, const unsigned char *end)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = *text < 0x80 ? 1 : *text < 0xc0 ? 0 : *text < 0xe0 ? 2 : *text < 0xf0 ? 3 : 4;
	uint32_t c = n == 1 ? *text : *text & (0x7fu >> n);
	size_t i;

	if (n == 0 || *text > 0xf4 || n > (size_t)(end - text))
		return 0;
	for (i = 1; i < n; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (text[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || (c & 0xfffe) == 0xfffe)
		return 0;
	return (c < 0x20 && c != '\t') || c == 0x7f ? 0 : n;
}

/* Names go into JSON and XML, which allow text only. */
static bool is_text(const char *line)
{
	const unsigned char *at = (const unsigned char *)line, *end = at + strlen(line);
	size_t n;

	for (; at < end; at += n) {
		n = char_length(at, end);
		if (n == 0)
			return false;
	}
	return true;
}

/* Reads the next line without its end, skips blank lines. 0 at the end of the file. */
static int next_line(struct reader *r)
{
	ssize_t n;

	while ((n = getline(&r->line, &r->line_size, r->file)) >= 0) {
		r->line_number++;
		if (memchr(r->line, 0, (size_t)n))
			return bad(r, "there is a NUL byte in the line", "text");
		while (n > 0 && (r->line[n - 1] == '\n' || r->line[n - 1] == '\r'))
			r->line[--n] = '\0';
		if (!is_text(r->line))
			return bad(r, "there is something that is no text in the line",
				   "UTF-8 without control characters");
		if (n > 0)
			return 1;
	}
	r->line_number += r->line_number == 0; /* of an empty file: where the header should be */
	if (ferror(r->file))
		return sal_err_set(r->err, SAL_NOT_FOUND, "%s: %s", r->path, strerror(errno));
	return 0;
}

static char *trim(char *text)
{
	char *end;

	while (isspace((unsigned char)*text))
		text++;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	return text;
}

static int find_column(const char *name)
{
	int c;

	for (c = 0; c < COL_COUNT; c++)
		if (strcmp(column_names[c], name) == 0)
			return c;
	return -1;
}

static bool has_column(const struct reader *r, enum column c)
{
	size_t i;

	for (i = 0; i < r->columns; i++)
		if (r->order[i] == c)
			return true;
	return false;
}

static int add_column(struct reader *r, const char *name)
{
	char what[96];
	int c = find_column(name);

	if (c < 0) {
		(void)snprintf(what, sizeof(what), "unknown column \"%.40s\"", name);
		return bad(r, what,
			   "job, submit_s, duration_s, iterations, iter_ms, persistent_mib, "
			   "ephemeral_mib, util, weight, priority, kind, requests_per_s or "
			   "deadline_ms");
	}
	if (has_column(r, (enum column)c)) {
		(void)snprintf(what, sizeof(what), "column %s stands twice", name);
		return bad(r, what, "each column once");
	}
	r->order[r->columns++] = (enum column)c;
	return SAL_OK;
}

static int read_header(struct reader *r)
{
	char *rest, *cell;
	int rc = next_line(r);

	if (rc <= 0)
		return rc < 0 ? rc : bad(r, "the file is empty", "a header with column names");
	rest = r->line;
	if (strncmp(rest, "\xef\xbb\xbf", 3) == 0)
		rest += 3;
	while ((cell = strsep(&rest, ","))) {
		rc = add_column(r, trim(cell));
		if (rc < 0)
			return rc;
	}
	if (!has_column(r, COL_JOB) || !has_column(r, COL_SUBMIT_S))
		return bad(r, "job or submit_s is missing", "both");
	if (!has_column(r, COL_DURATION_S) &&
	    !(has_column(r, COL_ITERATIONS) && has_column(r, COL_ITER_MS)))
		return bad(r, "no length of the jobs", "duration_s, or iterations and iter_ms");
	return SAL_OK;
}

static int read_number(struct reader *r, enum column c, const char *text, double *out_number)
{
	const struct range *range = &ranges[c];
	char *end;

	*out_number = strtod(text, &end);
	if (*end || end == text || !isfinite(*out_number) || *out_number < range->least ||
	    *out_number > range->most || (range->whole && floor(*out_number) != *out_number))
		return bad_cell(r, c, text, range->expected);
	return SAL_OK;
}

static int read_cell(struct reader *r, enum column c, char *text, struct row *row)
{
	row->text[c] = text;
	row->given[c] = *text != '\0';
	if (!row->given[c])
		return SAL_OK;
	if (c == COL_KIND && strcmp(text, "training") != 0 && strcmp(text, "inference") != 0)
		return bad_cell(r, c, text, "training or inference");
	if (c == COL_JOB && strchr(text, '"'))
		return bad_cell(r, c, text, "a name without quotes");
	if (c == COL_JOB || c == COL_KIND)
		return SAL_OK;
	return read_number(r, c, text, &row->number[c]);
}

static int read_row(struct reader *r, struct row *row)
{
	char what[96];
	char *rest = r->line, *cell;
	size_t n = 0;
	int rc;

	*row = (struct row){ .text = { [COL_JOB] = "", [COL_KIND] = "" } };
	while ((cell = strsep(&rest, ","))) {
		if (n < r->columns) {
			rc = read_cell(r, r->order[n], trim(cell), row);
			if (rc < 0)
				return rc;
		}
		n++;
	}
	if (n != r->columns) {
		char expected[48];

		(void)snprintf(what, sizeof(what), "%zu cells", n);
		(void)snprintf(expected, sizeof(expected), "%zu as in the header", r->columns);
		return bad(r, what, expected);
	}
	if (!row->given[COL_JOB])
		return bad(r, "job is empty", "a name");
	if (!row->given[COL_SUBMIT_S])
		return bad(r, "submit_s is empty", ranges[COL_SUBMIT_S].expected);
	if (row->given[COL_DURATION_S] == (row->given[COL_ITERATIONS] || row->given[COL_ITER_MS]) ||
	    row->given[COL_ITERATIONS] != row->given[COL_ITER_MS])
		return bad(r, "the length of the job is unclear",
			   "either duration_s, or iterations and iter_ms");
	if (row->number[COL_ITERATIONS] * row->number[COL_ITER_MS] > LENGTH_MAX_MS)
		return bad(r, "the job is too long", "iterations times iter_ms of at most 1e12");
	if (row->given[COL_REQUESTS_PER_S] && !row->given[COL_DEADLINE_MS] &&
	    row->given[COL_KIND] && strcmp(row->text[COL_KIND], "inference") != 0)
		return bad(r, "requests_per_s of a training job", "kind inference, or none");
	return SAL_OK;
}

static void set_length(struct sim_job *job, const struct row *row)
{
	if (row->given[COL_DURATION_S]) {
		uint64_t total = (uint64_t)llround(row->number[COL_DURATION_S] * NS_PER_S);

		job->iter_ns = total < DEFAULT_ITER_NS ? total : DEFAULT_ITER_NS;
		job->iterations = (total + job->iter_ns - 1) / job->iter_ns;
		job->last_iter_ns = total - (job->iterations - 1) * job->iter_ns;
	} else {
		job->iterations = (uint64_t)row->number[COL_ITERATIONS];
		job->iter_ns = (uint64_t)llround(row->number[COL_ITER_MS] * NS_PER_MS);
		job->last_iter_ns = job->iter_ns;
	}
}

static double cell_or(const struct row *row, enum column c, double otherwise)
{
	return row->given[c] ? row->number[c] : otherwise;
}

static int add_job(struct reader *r, const struct row *row)
{
	struct sim_job *job;

	if (r->workload.count == r->room) {
		size_t room = r->room ? r->room * 2 : 64;
		struct sim_job *jobs = realloc(r->workload.jobs, room * sizeof(*jobs));

		if (!jobs)
			return sal_err_set(r->err, SAL_RESOURCE_EXHAUSTED, "out of memory");
		r->workload.jobs = jobs;
		r->room = room;
	}
	job = &r->workload.jobs[r->workload.count];
	memset(job, 0, sizeof(*job));
	job->name = strdup(row->text[COL_JOB]);
	if (!job->name)
		return sal_err_set(r->err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	r->workload.count++;
	job->line = r->line_number;
	job->submit_ns = (uint64_t)llround(row->number[COL_SUBMIT_S] * NS_PER_S);
	set_length(job, row);
	job->needs.persist_bytes =
		(uint64_t)llround(cell_or(row, COL_PERSISTENT_MIB, 0) * BYTES_PER_MIB);
	job->needs.ephem_bytes =
		(uint64_t)llround(cell_or(row, COL_EPHEMERAL_MIB, 0) * BYTES_PER_MIB);
	job->util = cell_or(row, COL_UTIL, 1);
	job->weight_milli = (uint32_t)llround(cell_or(row, COL_WEIGHT, 1) * 1000);
	job->priority = (uint32_t)cell_or(row, COL_PRIORITY, 20);
	job->kind_undeclared = row->given[COL_REQUESTS_PER_S] && !row->given[COL_KIND];
	if (row->given[COL_KIND] && strcmp(row->text[COL_KIND], "inference") == 0)
		job->kind = SAL_INFERENCE;
	job->deadline_ns = (uint64_t)llround(cell_or(row, COL_DEADLINE_MS, 0) * NS_PER_MS);
	if (row->given[COL_REQUESTS_PER_S])
		job->request_gap_ns = (uint64_t)llround(NS_PER_S / row->number[COL_REQUESTS_PER_S]);
	return SAL_OK;
}

static int by_name(const void *a, const void *b, void *jobs)
{
	const struct sim_job *all = jobs;

	return strcmp(all[*(const size_t *)a].name, all[*(const size_t *)b].name);
}

static int check_names(struct reader *r)
{
	size_t *order = calloc(r->workload.count + 1, sizeof(*order));
	const struct sim_job *twice = NULL;
	size_t i;

	if (!order)
		return sal_err_set(r->err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	for (i = 0; i < r->workload.count; i++)
		order[i] = i;
	qsort_r(order, r->workload.count, sizeof(*order), by_name, r->workload.jobs);
	for (i = 1; i < r->workload.count; i++) {
		size_t a = order[i - 1], b = order[i];

		if (by_name(&a, &b, r->workload.jobs) != 0)
			continue;
		if (!twice || r->workload.jobs[a > b ? a : b].line < twice->line)
			twice = &r->workload.jobs[a > b ? a : b];
	}
	free(order);
	if (!twice)
		return SAL_OK;
	r->line_number = twice->line;
	return bad_cell(r, COL_JOB, twice->name, "a name that no other job has");
}

static int read_all(struct reader *r)
{
	struct row row;
	int rc = read_header(r);

	if (rc < 0)
		return rc;
	while ((rc = next_line(r)) > 0) {
		rc = read_row(r, &row);
		if (rc < 0)
			return rc;
		rc = add_job(r, &row);
		if (rc < 0)
			return rc;
	}
	if (rc < 0)
		return rc;
	if (r->workload.count == 0)
		return bad(r, "there are no jobs", "a row for each");
	return check_names(r);
}

int sim_workload_read(const char *path, struct sim_workload *out_workload, struct sal_err *err)
{
	struct reader r = { .path = path, .err = err };
	int rc;

	memset(out_workload, 0, sizeof(*out_workload));
	r.file = fopen(path, "re");
	if (!r.file)
		return sal_err_set(err, SAL_NOT_FOUND, "%s: %s", path, strerror(errno));
	rc = read_all(&r);
	free(r.line);
	(void)fclose(r.file);
	if (rc < 0)
		sim_workload_fini(&r.workload);
	else
		*out_workload = r.workload;
	return rc;
}

void sim_workload_fini(struct sim_workload *workload)
{
	size_t i;

	for (i = 0; i < workload->count; i++)
		free(workload->jobs[i].name);
	free(workload->jobs);
	workload->jobs = NULL;
	workload->count = 0;
}

uint64_t sim_job_total_ns(const struct sim_job *job)
{
	return (job->iterations - 1) * job->iter_ns + job->last_iter_ns;
}
