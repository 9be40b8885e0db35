/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin - answers questions: one line of JSON in, one line of JSON out.
 */
#include "service/admin/admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "service/admin/answer_line.h"
#include "service/client/session.h"
#include "service/server.h"

json_t *svc_json_text(const char *text)
{
	json_t *json = json_string(text);
	char *copy, *c;

	if (json)
		return json;
	copy = strdup(text);
	for (c = copy; c && *c; c++)
		if ((unsigned char)*c >= 0x80)
			*c = '?';
	json = json_string(copy ? copy : "?");
	free(copy);
	return json;
}

enum match {
	BY_ID,
	BY_NAME,
	BY_PREFIX,
	MATCHES
};

static bool matches(const struct svc_session *s, const char *job, enum match how)
{
	char id[24];

	if (how == BY_NAME)
		return strcmp(s->name, job) == 0;
	if (how == BY_PREFIX)
		return strncmp(s->name, job, strlen(job)) == 0;
	(void)snprintf(id, sizeof(id), "%" PRIu64, s->id);
	return strcmp(id, job) == 0;
}

/* Returns how many sessions match. *out is the last of them; words lists all. */
static uint32_t match_jobs(struct svc_server *server, const char *job, enum match how, bool is_open,
			   struct svc_session **out, struct sal_words *words)
{
	struct svc_session *s;
	uint32_t count = 0;

	*words = (struct sal_words){ 0 };
	TAILQ_FOREACH(s, &server->sessions, link) {
		if ((s->state == SVC_OPEN) != is_open || !matches(s, job, how))
			continue;
		sal_words_add(words, "%s%s (id %" PRIu64 ")", count ? ", " : "", s->name, s->id);
		*out = s;
		count++;
	}
	return count;
}

struct svc_session *svc_find_job(struct svc_question *q)
{
	json_t *named = json_object_get(q->object, "job");
	struct svc_session *s = NULL;
	struct sal_words words;
	char number[24];
	const char *job = json_string_value(named);
	uint32_t count = 0;
	int how;

	if (json_is_integer(named)) {
		(void)snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT,
			       json_integer_value(named));
		job = number;
	}
	if (!job || !*job) {
		(void)sal_err_set(&q->err, SAL_INVALID_ARGUMENT,
				  "\"job\" must name a job: its id, its name, or how the "
				  "name begins");
		return NULL;
	}
	for (how = BY_ID; how < MATCHES && count == 0; how++)
		count = match_jobs(q->server, job, (enum match)how, true, &s, &words);
	for (how = BY_ID; how < MATCHES && count == 0; how++) /* then try closing sessions */
		count = match_jobs(q->server, job, (enum match)how, false, &s, &words);
	if (count == 1)
		return s;
	if (count > 1) {
		(void)sal_err_set(&q->err, SAL_INVALID_ARGUMENT,
				  "%u jobs are called \"%.60s\": %s; name one by its id", count,
				  job, words.at);
		return NULL;
	}
	count = match_jobs(q->server, "", BY_PREFIX, true, &s, &words);
	(void)sal_err_set(&q->err, SAL_NOT_FOUND, "there is no job \"%.60s\"; %s%s", job,
			  count ? "there are " : "there is none at all", words.at);
	return NULL;
}

static const struct {
	const char *op;
	json_t *(*answer)(struct svc_question *q);
} questions[] = {
	{ "ping", svc_answer_ping },	 { "ps", svc_answer_ps },     { "why", svc_answer_why },
	{ "policy", svc_answer_policy }, { "set", svc_answer_set },   { "pause", svc_answer_pause },
	{ "resume", svc_answer_resume }, { "kill", svc_answer_kill }, { "trace", svc_answer_trace },
	{ "limits", svc_answer_limits },
};

static json_t *answer(struct svc_question *q)
{
	const char *op = json_string_value(json_object_get(q->object, "op"));
	size_t i;

	for (i = 0; op && i < SAL_COUNT(questions); i++)
		if (strcmp(questions[i].op, op) == 0)
			return questions[i].answer(q);
	if (op)
		(void)sal_err_set(&q->err, SAL_UNIMPLEMENTED, "salusd does not know that question");
	else
		(void)sal_err_set(&q->err, SAL_INVALID_ARGUMENT,
				  "a question is an object with an \"op\"");
	return NULL;
}

/* Is this `ps`? Its answer takes long, and is the same for all askers. */
static bool is_shared(const struct svc_question *q)
{
	const char *op = json_string_value(json_object_get(q->object, "op"));

	return op && strcmp(op, "ps") == 0;
}

static json_t *refusal(const struct sal_err *err)
{
	return json_pack("{s:b, s:s, s:o}", "ok", 0, "code", sal_code_name(err->code), "error",
			 svc_json_text(err->text));
}

static struct svc_answer_line *put_into_words(struct svc_question *q)
{
	json_t *reply = answer(q);
	struct svc_answer_line *a;
	char *text;

	if (q->waits)
		return NULL;
	if (!reply)
		reply = refusal(&q->err);
	text = json_dumps(reply, JSON_COMPACT);
	json_decref(reply);
	a = svc_answer_line_create(text, q->fd);
	free(text);
	return a;
}

struct svc_answer_line *svc_admin_answer(struct svc_server *server, struct svc_asker *asker,
					 const char *line)
{
	struct svc_question q = {
		.server = server,
		.pid = asker->pid,
		.uid = asker->uid,
		.has_fd_room = asker->has_fd_room,
		.has_loaded = asker->has_loaded,
		.fd = -1,
	};
	struct svc_answer_line *a;

	q.object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	if (!asker->shared || !is_shared(&q)) {
		a = put_into_words(&q);
	} else {
		if (!*asker->shared)
			*asker->shared = put_into_words(&q);
		a = *asker->shared ? svc_answer_line_ref(*asker->shared) : NULL;
	}
	asker->waits = q.waits;
	json_decref(q.object);
	return a;
}
