/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin - the questions that salusd answers.
 *
 *     admin.c         reads the line; finds the question and the job
 *     view.c          ping, ps: the state of device, lanes and sessions
 *     why.c           why: the reason why one job waits (why.h)
 *     admin/limits.c  limits: each limit with its use
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
	bool has_fd_room; /* the answer may include a descriptor */
	bool has_loaded; /* the file that the line names is loaded (load.h) */
	bool waits; /* result: answer the line again when the file is loaded */
	struct svc_answer_line *
		/* The answer to all `ps` questions of this round; may be NULL. */
		*shared;
};

/*
 * Answer one line with one line. The caller owns a reference. NULL for lack of memory, or if
 * asker->waits.
 */
struct svc_answer_line *svc_admin_answer(struct svc_server *server, struct svc_asker *asker,
					 const char *line);

/* One question: the JSON object, and who asks. */
struct svc_question {
	struct svc_server *server; /* borrowed */
	json_t *object; /* borrowed */
	pid_t pid; /* 0: unknown */
	uid_t uid;
	bool has_fd_room;
	bool has_loaded, waits; /* as in struct svc_asker */
	int fd; /* owned: sent with the answer; -1: none */
	struct sal_err err; /* why there is no answer */
};

/* Make JSON from a user's text. If the text is not UTF-8, bytes outside ASCII become "?". */
json_t *svc_json_text(const char *text);

/*
 * Find the session that "job" in the question names: by its id, its name, or the beginning of its
 * name. NULL and q->err if there is not exactly one. Under server->lock.
 */
struct svc_session *svc_find_job(struct svc_question *q);

/* The state of a session, in a word or two. */
const char *svc_state_name(const struct svc_session *s);

/* The properties that the user declared: weight, priority, kind, total time. */
json_t *svc_describe_job(const struct sal_job *job, uint32_t weight_milli);

static inline double svc_seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* Make the answers. NULL: q->err says why there is none. */
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
