/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/service/admin_bed.h"

#include <stdio.h>
#include <stdlib.h>

#include "compile/pool/pool.h"
#include "core/engine.h"
#include "service/admin/admin.h"
#include "service/admin/answer_line.h"
#include "service/client/session.h"
#include "service/ledger.h"
#include "service/run/attend.h"
#include "service/run/closing.h"
#include "service/run/dispatch.h"
#include "service/run/worker.h"
#include "service/server.h"

uint64_t bed_now_ns;
unsigned bed_wakes;
struct sal_compile_wait bed_wait;
struct sal_compile_run bed_runs[2];

uint64_t svc_now_ns(void)
{
	return bed_now_ns;
}

void svc_worker_wake(struct svc_server *server)
{
	(void)server;
	bed_wakes++;
}

void svc_unpark(struct svc_session *s)
{
	s->retry = true;
}

const struct svc_execution *svc_session_running(const struct svc_session *s)
{
	return s->core->running ? svc_execution_of(s->core->running) : NULL;
}

void svc_session_kill(struct svc_session *s, const char *why)
{
	(void)why;
	s->state = SVC_CLOSING;
	TAILQ_REMOVE(&s->server->sessions, s, link);
	sal_engine_pause(s->server->engine, bed_now_ns, s->core); /* the session ends later */
}

struct svc_session *svc_session_ref(struct svc_session *s)
{
	return s;
}

void svc_session_unref(struct svc_session *s)
{
	(void)s;
}

void sal_compile_stats(const struct sal_compile_pool *pool, struct sal_compile_stats *out)
{
	(void)pool;
	memset(out, 0, sizeof(*out));
	out->compiled = 7;
}

void sal_compile_waiting(const struct sal_compile_request *request,
			 struct sal_compile_wait *out_wait)
{
	(void)request;
	*out_wait = bed_wait;
}

uint32_t sal_compile_runs(const struct sal_compile_pool *pool, struct sal_compile_run *out_runs,
			  uint32_t room)
{
	(void)pool;
	assert_true(room >= 2);
	memcpy(out_runs, bed_runs, sizeof(bed_runs));
	return 2;
}

static const struct sal_device_facts *facts(struct sal_device *d)
{
	static const struct sal_device_facts made_up = { .platform_name = { "paper", 5 } };

	(void)d;
	return &made_up;
}

static const struct sal_device_ops ops = { .name = "none", .facts = facts };

/* Grants start at once. */
static void on_decision(void *ctx, const struct sal_record *r, struct sal_session *s,
			struct sal_iteration *it)
{
	(void)ctx;
	(void)s;
	if (r->what == SAL_GRANT) {
		atomic_store(&svc_execution_of(it)->state, SVC_RUNNING);
		svc_execution_of(it)->start_ns = bed_now_ns;
	}
}

struct bed *bed_open(const struct sal_policy *policy, uint32_t lanes)
{
	struct bed *b = calloc(1, sizeof(*b));
	struct sal_engine_config cfg = {
		.capacity_bytes = 8 * GIB,
		.policy = policy,
		.emit = on_decision,
	};

	assert_non_null(b);
	bed_now_ns = 1000 * MS;
	sal_tuning_default(&cfg.tuning);
	cfg.tuning.lanes = lanes;
	cfg.tuning.page_bytes_per_s = 0;
	b->server.ops = &ops;
	svc_limits_default(&b->server.options.limits, 8 * GIB);
	svc_ledger_init(&b->server.ledger, &b->server.options.limits);
	TAILQ_INIT(&b->server.sessions);
	svc_lock_init(&b->server.lock);
	assert_int_equal(sal_engine_create(&cfg, &b->server.engine, NULL), SAL_OK);
	return b;
}

void bed_close(struct bed *b)
{
	sal_engine_destroy(b->server.engine);
	svc_lock_fini(&b->server.lock);
	svc_ledger_fini(&b->server.ledger);
	json_decref(b->answer);
	free(b);
}

struct svc_session *bed_add(struct bed *b, const char *name, const struct sal_job *job)
{
	struct svc_session *s = &b->sessions[b->session_count++];

	(void)snprintf(s->name, sizeof(s->name), "%s", name);
	s->server = &b->server;
	s->open_ns = bed_now_ns;
	TAILQ_INIT(&s->executions);
	assert_int_equal(sal_engine_open(b->server.engine, bed_now_ns, job, s, &s->core, NULL),
			 SAL_OK);
	s->id = s->core->id;
	TAILQ_INSERT_TAIL(&b->server.sessions, s, link);
	return s;
}

struct svc_session *bed_add_plain(struct bed *b, const char *name)
{
	return bed_add(b, name, &(struct sal_job){ 0 });
}

void bed_submit(struct bed *b, struct svc_session *s, uint64_t expected_ns)
{
	struct svc_execution *x = &b->executions[b->execution_count++];

	x->iteration.expected_ns = expected_ns;
	x->iteration.needs.persist_bytes = s->core->tracked_bytes;
	TAILQ_INSERT_TAIL(&s->executions, x, link);
	sal_engine_submit(b->server.engine, bed_now_ns, s->core, &x->iteration);
}

void bed_end(struct bed *b, struct svc_session *s, uint64_t used_ns)
{
	TAILQ_REMOVE(&s->executions, svc_execution_of(s->core->running), link);
	bed_now_ns += used_ns;
	sal_engine_done(b->server.engine, bed_now_ns, s->core, used_ns);
}

json_t *bed_ask(struct bed *b, const char *question)
{
	return bed_ask_as(b, 0, question);
}

json_t *bed_ask_as(struct bed *b, uid_t uid, const char *question)
{
	struct svc_asker asker = { .uid = uid, .has_fd_room = true };
	struct svc_answer_line *answer;
	char line[512], *c;

	(void)snprintf(line, sizeof(line), "%s", question);
	for (c = line; *c; c++)
		if (*c == '\'')
			*c = '"';
	answer = svc_admin_answer(&b->server, &asker, line);
	assert_non_null(answer);
	assert_int_equal(answer->text[answer->size - 1], '\n');
	json_decref(b->answer);
	b->answer = json_loads(answer->text, 0, NULL);
	assert_non_null(b->answer);
	svc_answer_line_unref(answer);
	return b->answer;
}

const char *bed_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	assert_non_null(text);
	return text;
}

double bed_number(const json_t *object, const char *key)
{
	assert_true(json_is_number(json_object_get(object, key)));
	return json_number_value(json_object_get(object, key));
}
