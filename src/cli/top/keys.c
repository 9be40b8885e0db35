/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys - what a key does.
 */
#include <stdio.h>
#include <string.h>

#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/top/top.h"

/* Asks the daemon. NULL: it failed, and the message says why. */
static json_t *ask(struct cli_top *top, json_t *take_request)
{
	struct sal_err err = { 0 };
	json_t *reply;

	if (cli_try_ask(take_request, &reply, &err) == CLI_OK)
		return reply;
	(void)snprintf(top->message, sizeof(top->message), "%.199s", err.text);
	return NULL;
}

static void steer(struct cli_top *top, const char *op, const char *done, uint64_t id)
{
	json_t *reply = ask(top, json_pack("{s:s, s:I}", "op", op, "job", (json_int_t)id));

	if (reply)
		(void)snprintf(top->message, sizeof(top->message), "%s %.128s (id %.0f)", done,
			       cli_json_text(reply, "name"), cli_json_number(reply, "id"));
	json_decref(reply);
}

static void pause_or_resume(struct cli_top *top)
{
	const struct cli_top_job *job = cli_top_find(top, top->chosen);
	bool paused;

	if (!job)
		return;
	paused = json_is_true(json_object_get(job->session, "paused"));
	steer(top, paused ? "resume" : "pause", paused ? "resumed" : "paused", job->id);
}

static void open_policies(struct cli_top *top)
{
	json_t *reply = ask(top, json_pack("{s:s}", "op", "policy"));
	const json_t *list = json_object_get(reply, "policies");
	size_t i;

	if (!reply)
		return;
	json_decref(top->policies);
	top->policies = reply;
	top->policy = 0;
	for (i = 0; i < json_array_size(list); i++)
		if (strcmp(cli_json_text(json_array_get(list, i), "name"),
			   cli_json_text(reply, "policy")) == 0)
			top->policy = i;
	top->mode = CLI_TOP_POLICY;
}

static void take_policy(struct cli_top *top)
{
	const json_t *list = json_object_get(top->policies, "policies");
	const char *name = cli_json_text(json_array_get(list, top->policy), "name");
	json_t *reply = ask(top, json_pack("{s:s, s:s}", "op", "policy", "name", name));

	if (reply)
		(void)snprintf(top->message, sizeof(top->message), "policy %.100s",
			       cli_json_text(reply, "policy"));
	json_decref(reply);
	top->mode = CLI_TOP_LIST;
}

static void key_in_policies(struct cli_top *top, int key)
{
	size_t count = json_array_size(json_object_get(top->policies, "policies"));

	if (key == CLI_KEY_UP || key == CLI_KEY_TEXT + 'k')
		top->policy -= top->policy > 0;
	else if (key == CLI_KEY_DOWN || key == CLI_KEY_TEXT + 'j')
		top->policy += top->policy + 1 < count;
	else if (key == CLI_KEY_ENTER)
		take_policy(top);
	else if (key == CLI_KEY_ESCAPE || key == CLI_KEY_TEXT + 'q')
		top->mode = CLI_TOP_LIST;
}

static void key_in_list(struct cli_top *top, int key)
{
	switch (key) {
	case CLI_KEY_UP:
	case CLI_KEY_TEXT + 'k':
		cli_top_move(top, -1);
		break;
	case CLI_KEY_DOWN:
	case CLI_KEY_TEXT + 'j':
		cli_top_move(top, 1);
		break;
	case CLI_KEY_TEXT + 's':
		top->sort = (top->sort + 1) % CLI_SORTS;
		cli_top_sort(top);
		break;
	case CLI_KEY_TEXT + 'p':
		pause_or_resume(top);
		break;
	case CLI_KEY_TEXT + 'K':
		top->victim = top->chosen;
		top->mode = top->victim ? CLI_TOP_KILL : CLI_TOP_LIST;
		break;
	case CLI_KEY_TEXT + 'o':
	case CLI_KEY_TEXT + 'P':
		open_policies(top);
		break;
	case CLI_KEY_TEXT + '?':
	case CLI_KEY_TEXT + 'h':
		top->mode = CLI_TOP_HELP;
		break;
	case CLI_KEY_TEXT + 'q':
		top->quit = true;
		break;
	default:
		break;
	}
}

void cli_top_key(struct cli_top *top, int key)
{
	if (key == CLI_KEY_NONE || key == CLI_KEY_RESIZE)
		return;
	top->message[0] = '\0';
	if (top->mode == CLI_TOP_KILL) {
		top->mode = CLI_TOP_LIST;
		if (key == CLI_KEY_TEXT + 'y' || key == CLI_KEY_TEXT + 'Y')
			steer(top, "kill", "killed", top->victim);
	} else if (top->mode == CLI_TOP_HELP) {
		top->mode = CLI_TOP_LIST;
	} else if (top->mode == CLI_TOP_POLICY) {
		key_in_policies(top, key);
	} else {
		key_in_list(top, key);
	}
}
