/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace - `salus trace`: the last events and decisions of the daemon's scheduler, for Perfetto, for
 * programs, as a picture, and for `salus sim --replay`.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys/fd.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/deadline.h"
#include "cli/save.h"
#include "link/socket.h"
#include "recording/trace.h"

/* Work that takes less time shows no progress. */
#define QUIET_MS 1000

enum form {
	FOR_PERFETTO,
	FOR_PROGRAMS,
	FOR_PEOPLE
};

struct request {
	const char *path; /* NULL: stdout */
	enum form form;
};

/* What to write, and since when. */
struct output {
	const struct rec_trace *trace;
	enum form form;
	int64_t quiet_until_ms;
};

static int parse(struct request *q, int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "json", no_argument, NULL, 'j' },
		{ "svg", no_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	*q = (struct request){ 0 };
	optind = 1;
	while ((option = getopt_long(argc, argv, ":o:", long_options, NULL)) != -1) {
		if (option == 'o') {
			q->path = optarg;
		} else if (option == 'j') {
			q->form = FOR_PROGRAMS;
		} else if (option == 's') {
			q->form = FOR_PEOPLE;
		} else {
			return cli_option_error(&cli_cmd_trace, long_options, option, argv);
		}
	}
	if (optind < argc)
		return cli_usage_error(&cli_cmd_trace, "unexpected argument \"%s\"", argv[optind]);
	return CLI_OK;
}

static int read_shared(int fd, struct rec_trace *out, struct sal_err *err)
{
	struct stat st;
	void *bytes;
	int rc;

	if (fd < 0 || fstat(fd, &st) < 0)
		return sal_err_set(err, SAL_DATA_LOSS, "salusd sent no trace with its answer");
	bytes = sal_shared_map(fd, (uint64_t)st.st_size);
	if (!bytes)
		return sal_err_set(err, SAL_DATA_LOSS, "cannot map the trace: %s", strerror(errno));
	rc = rec_trace_copy(bytes, (size_t)st.st_size, out, err);
	(void)munmap(bytes, (size_t)st.st_size);
	return rc;
}

static int get_trace(struct rec_trace *out)
{
	struct sal_err err = { 0 };
	json_t *reply;
	int fd = -1, rc;

	rc = cli_ask_fd(json_pack("{s:s}", "op", "trace"), &reply, &fd);
	if (rc != CLI_OK)
		return rc;
	json_decref(reply);
	rc = read_shared(fd, out, &err);
	sal_close(&fd);
	if (rc < 0)
		return cli_fail(rc == -SAL_UNAVAILABLE ? CLI_TRY_LATER : CLI_FAILED, &err);
	return CLI_OK;
}

static void tell(void *ctx, size_t done, size_t of)
{
	const struct output *o = ctx;

	if (cli_deadline_left_ms(o->quiet_until_ms) == 0)
		(void)fprintf(stderr, "\r%3zu %%\r", done * 100 / of);
}

static int write_to(FILE *file, const void *what, struct sal_err *err)
{
	struct output o = *(const struct output *)what;
	struct rec_progress progress = { tell, &o };
	const struct rec_progress *p = isatty(STDERR_FILENO) ? &progress : NULL;

	o.quiet_until_ms = cli_deadline_in(QUIET_MS);
	if (o.form == FOR_PERFETTO)
		return rec_trace_write(file, o.trace, p, err);
	if (o.form == FOR_PEOPLE)
		return rec_trace_draw(file, o.trace, err);
	rec_trace_list(file, o.trace, p);
	return SAL_OK;
}

static int write_trace(const struct request *q, const struct rec_trace *trace)
{
	struct output o = { .trace = trace, .form = q->form };
	struct sal_err err = { 0 };
	int rc;

	if (q->path) {
		rc = cli_save(q->path, write_to, &o, &err);
		return rc < 0 ? cli_fail(CLI_CANNOT_CREATE, &err) : CLI_OK;
	}
	rc = write_to(stdout, &o, &err);
	return rc < 0 ? cli_fail(CLI_FAILED, &err) : cli_flush();
}

static int run_trace(int argc, char **argv)
{
	struct rec_trace trace;
	struct request q;
	int rc = parse(&q, argc, argv);

	if (rc == CLI_OK)
		rc = get_trace(&trace);
	if (rc != CLI_OK)
		return rc;
	rc = write_trace(&q, &trace);
	if (rc == CLI_OK)
		(void)fprintf(stderr, "%zu records, %zu older ones dropped\n",
			      rec_trace_count(&trace), rec_trace_dropped(&trace));
	rec_trace_fini(&trace);
	return rc;
}

const struct cli_command cli_cmd_trace = {
	.name = "trace",
	.summary = "the last events and decisions of the scheduler, for Perfetto and for replay",
	.usage =
		"[-o FILE] [--json | --svg]\n"
		"\n"
		"The last events and decisions of salusd as Chrome trace JSON, for ui.perfetto.dev: a\n"
		"track for each lane and each job, counters for memory and queue. `salus sim --replay\n"
		"FILE` repeats them.\n"
		"\n"
		"  -o, --output FILE  write to FILE instead of stdout\n"
		"  --json             write the records as plain objects instead\n"
		"  --svg              draw a picture instead: jobs, lanes and memory over time\n",
	.run = run_trace,
};
