/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin - the questions that salusd answers.
 *
 *     admin.c         the line, which question it is, which job it means
 *     view.c          ping, ps: everything there is to see
 *     why.c           why: what one job waits for (why.h)
 *     admin/limits.c  limits: each with its use
 *     steer.c         policy, set, pause, resume, kill: changes while jobs run
 *     trace_answer.c  trace: the last events and decisions
 *
 * Threads: the main thread. Each answer takes server->lock itself.
 */
#ifndef SAL_SERVICE_ADMIN_H
#define SAL_SERVICE_ADMIN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/err.h"
#include "base/words.h"

struct sal_job;
struct svc_answer_line;
struct svc_server;
struct svc_session;

/* Who asks. */
struct svc_asker {
	pid_t pid; /* 0: unknown */
	uid_t uid;
	bool has_fd_room; /* the answer may have a descriptor */
	struct svc_answer_line *
		/* The answer that others get who ask for `ps` in this round; may be NULL. */
		*shared;
};

/* Answer one line with one line. The caller owns a reference. NULL for lack of memory. */
struct svc_answer_line *svc_admin_answer(struct svc_server *server, const struct svc_asker *asker,
					 const char *line);

/* One question: the object, and who asks. */
struct svc_question {
	struct svc_server *server; /* borrowed */
	json_t *object; /* borrowed */
	pid_t pid; /* 0: unknown */
	uid_t uid;
	bool has_fd_room;
	int fd; /* owned: goes with the answer; -1: none */
	struct sal_err err; /* why there is no answer */
};

/* A text that may contain what other people chose. JSON is UTF-8: any other byte becomes "?". */
json_t *svc_json_text(const char *text);

/*
 * The session that "job" in the question names: an id, a name, or the beginning of one. NULL and
 * q->err if there is not exactly one. Under server->lock.
 */
struct svc_session *svc_find_job(struct svc_question *q);

/* What a session does, in a word or two. */
const char *svc_state_name(const struct svc_session *s);

/* What the user declared about a job: weight, priority, kind, total time. */
json_t *svc_describe_job(const struct sal_job *job, uint32_t weight_milli);

static inline double svc_seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* The answers; NULL: q->err says why not. */
json_t *svc_answer_ping(struct svc_question *q);
json_t *svc_answer_ps(struct svc_question *q);
json_t *svc_answer_why(struct svc_question *q);
json_t *svc_answer_limits(struct svc_question *q);
json_t *svc_answer_policy(struct svc_question *q);
json_t *svc_answer_set(struct svc_question *q);
json_t *svc_answer_pause(struct svc_question *q);
json_t *svc_answer_resume(struct svc_question *q);
json_t *svc_answer_kill(struct svc_question *q);
json_t *svc_answer_trace(struct svc_question *q); /* trace_answer.c */

#endif
