/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top - `salus top`: the device, its lanes and the jobs, as they change.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/deadline.h"
#include "cli/screen.h"
#include "cli/top/top.h"

#define CELLS_USUAL 80
#define INTERVAL_LEAST_NS 100000000u
#define INTERVAL_MOST_NS 3600000000000u

struct request {
	bool once;
	int64_t interval_ms;
	struct cli_words words;
};

static int take_interval(struct request *q, const char *text)
{
	struct sal_err err = { 0 };
	uint64_t ns;

	if (!text || sal_duration_parse(text, &ns, &err) < 0)
		return cli_usage_error(&cli_cmd_top, "--interval: %s",
				       text ? err.text : "expected a duration such as 500ms");
	if (ns < INTERVAL_LEAST_NS || ns > INTERVAL_MOST_NS)
		return cli_usage_error(&cli_cmd_top, "--interval is %s, expected 100ms to 1h",
				       text);
	q->interval_ms = (int64_t)(ns / 1000000);
	return CLI_OK;
}

static int parse(struct request *q, int argc, char **argv)
{
	int i, n = 1, rc = CLI_OK;

	*q = (struct request){ .interval_ms = 1000 };
	for (i = 1; i < argc && rc == CLI_OK; i++) {
		if (strcmp(argv[i], "--once") == 0)
			q->once = true;
		else if (strcmp(argv[i], "--interval") == 0)
			rc = take_interval(q, ++i < argc ? argv[i] : NULL);
		else
			argv[n++] = argv[i];
	}
	if (rc == CLI_OK)
		rc = cli_parse_words(&cli_cmd_top, n, argv, &q->words);
	return rc == CLI_OK ? cli_expect_words(&cli_cmd_top, &q->words, 0, 0) : rc;
}

/* Gets the daemon's next answer. Returns an exit code; the reason of a failure is in err. */
static int sample(struct cli_top *top, struct sal_err *err)
{
	json_t *reply;
	int rc = cli_try_ask(json_pack("{s:s}", "op", "ps"), &reply, err);

	if (rc != CLI_OK)
		return rc;
	if (cli_top_update(top, reply))
		return CLI_OK;
	(void)sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	return CLI_FAILED;
}

/* A share is a difference of two samples. */
static int print_once(struct cli_top *top, const struct request *q)
{
	size_t width = cli_screen_width();
	struct sal_err err = { 0 };
	struct cli_canvas canvas;
	int rc = sample(top, &err);

	if (rc == CLI_OK) {
		cli_sleep_ms(q->interval_ms);
		rc = sample(top, &err);
	}
	if (rc != CLI_OK)
		return cli_fail((enum cli_exit)rc, &err);
	if (!cli_canvas_init(&canvas, width ? width : CELLS_USUAL,
			     top->job_count + (size_t)2 * CLI_TOP_LANES, top->is_utf8))
		return cli_no_memory();
	cli_top_draw(top, &canvas, false);
	cli_canvas_print(&canvas, stdout);
	cli_canvas_fini(&canvas);
	return cli_flush();
}

static bool show(const struct cli_top *top, struct cli_terminal *t)
{
	struct cli_canvas canvas;
	size_t width, height;

	cli_terminal_size(t, &width, &height);
	if (!cli_canvas_init(&canvas, width, height, top->is_utf8))
		return false;
	cli_top_draw(top, &canvas, true);
	cli_terminal_show(t, &canvas);
	cli_canvas_fini(&canvas);
	return true;
}

/* Runs until a key, a signal or the end of the daemon. Returns an exit code. */
static int live(struct cli_top *top, struct cli_terminal *t, const struct request *q,
		int *out_signal, struct sal_err *err)
{
	int64_t next_ms = cli_deadline_in(0);
	int rc = CLI_OK;

	while (rc == CLI_OK && !top->quit && !*out_signal) {
		int key;

		if (cli_deadline_left_ms(next_ms) == 0) {
			next_ms = cli_deadline_in(q->interval_ms);
			rc = sample(top, err);
		}
		if (rc != CLI_OK)
			break;
		if (!show(top, t)) {
			(void)sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
			return CLI_FAILED;
		}
		key = cli_terminal_key(t, cli_deadline_left_ms(next_ms), out_signal);
		if (key != CLI_KEY_NONE && key != CLI_KEY_RESIZE) {
			cli_top_key(top, key);
			next_ms = cli_deadline_in(q->interval_ms);
			rc = top->quit ? CLI_OK : sample(top, err); /* show the outcome at once */
		}
	}
	return rc;
}

static int run_live(struct cli_top *top, const struct request *q)
{
	struct sal_err err = { 0 };
	struct cli_terminal *t;
	int ended_by = 0;
	int rc = sample(top, &err); /* before ncurses takes the screen: there may be no daemon */

	if (rc != CLI_OK)
		return cli_fail((enum cli_exit)rc, &err);
	t = cli_terminal_open();
	if (!t) {
		(void)sal_err_set(&err, SAL_UNAVAILABLE,
				  "this terminal cannot be used (is TERM right?); `salus top "
				  "--once` needs none");
		return cli_fail(CLI_FAILED, &err);
	}
	rc = live(top, t, q, &ended_by, &err);
	cli_terminal_close(t);
	if (ended_by) {
		(void)signal(ended_by, SIG_DFL);
		(void)raise(ended_by);
	}
	return rc == CLI_OK ? CLI_OK : cli_fail((enum cli_exit)rc, &err);
}

static int print_json(void)
{
	json_t *reply;
	int rc = cli_ask(json_pack("{s:s}", "op", "ps"), &reply);

	if (rc == CLI_OK) {
		rc = cli_json_print(reply);
		json_decref(reply);
	}
	return rc;
}

static int run_top(int argc, char **argv)
{
	struct cli_top top = { .is_utf8 = cli_screen_is_utf8() };
	struct request q;
	int rc = parse(&q, argc, argv);

	if (rc != CLI_OK)
		return rc;
	if (q.words.json)
		return print_json();
	if (!q.once && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
		return cli_usage_error(&cli_cmd_top, "there is no terminal; --once needs none");
	top.least_s = (double)q.interval_ms / 2000;
	rc = q.once ? print_once(&top, &q) : run_live(&top, &q);
	cli_top_fini(&top);
	return rc;
}

const struct cli_command cli_cmd_top = {
	.name = "top",
	.summary = "the device, its lanes and the jobs, as they change",
	.usage = "[--interval T] [--once] [--json] [--socket PATH]\n"
		 "\n"
		 "  --interval T  time between two samples, such as 500ms (default 1s)\n"
		 "  --once        print one frame, made of two samples, and exit\n"
		 "  --json        print what `salus ps --json` prints\n"
		 "\n"
		 "`?` shows the keys. Exits with 69 when salusd goes away.\n",
	.run = run_top,
};
