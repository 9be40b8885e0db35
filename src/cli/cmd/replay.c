/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd/replay.h"

#include <jansson.h>
#include <stdio.h>

#include "cli/ask.h"
#include "cli/cli.h"
#include "recording/replay.h"

#define LINE_BYTES 512

static const char *line_of(const struct sal_record *r, char *text, size_t size)
{
	if (r->what == 0)
		return "nothing";
	(void)sal_record_format(r, text, size);
	return text;
}

static int print_text(const struct rec_replay *replay)
{
	char recorded[LINE_BYTES], replayed[LINE_BYTES];

	(void)printf("%zu events, %zu decisions, %zu of them grants: %s\n", replay->events,
		     replay->decisions, replay->grants,
		     replay->identical ? "identical" : "then they differ");
	if (!replay->identical)
		(void)printf("entry %zu\n  recorded %s\n  replayed %s\n", replay->at,
			     line_of(&replay->recorded, recorded, sizeof(recorded)),
			     line_of(&replay->replayed, replayed, sizeof(replayed)));
	return cli_flush();
}

static int print_json(const struct rec_replay *replay)
{
	char recorded[LINE_BYTES], replayed[LINE_BYTES];
	json_t *object = json_pack("{s:b, s:I, s:I, s:I}", "identical", replay->identical, "events",
				   (json_int_t)replay->events, "decisions",
				   (json_int_t)replay->decisions, "grants",
				   (json_int_t)replay->grants);
	int rc;

	if (!replay->identical)
		(void)json_object_set_new(
			object, "difference",
			json_pack("{s:I, s:s, s:s}", "entry", (json_int_t)replay->at, "recorded",
				  line_of(&replay->recorded, recorded, sizeof(recorded)),
				  "replayed",
				  line_of(&replay->replayed, replayed, sizeof(replayed))));
	rc = cli_json_print(object);
	json_decref(object);
	return rc;
}

int cli_replay(const char *path, const struct sal_policy *const *policies, bool json)
{
	struct rec_trace trace;
	struct rec_replay replay;
	struct sal_err err = { 0 };
	int rc = rec_trace_read(path, &trace, &err);

	if (rc == -SAL_NOT_FOUND)
		return cli_fail(CLI_NO_INPUT, &err);
	if (rc < 0)
		return cli_fail(CLI_BAD_DATA, &err);
	rc = rec_replay_run(&trace, policies, &replay, &err);
	rec_trace_fini(&trace);
	if (rc < 0) {
		(void)sal_err_set(&err, err.code, "%s: %s", path, err.text);
		return cli_fail(CLI_BAD_DATA, &err);
	}
	rc = json ? print_json(&replay) : print_text(&replay);
	return rc == CLI_OK && !replay.identical ? CLI_FAILED : rc;
}
