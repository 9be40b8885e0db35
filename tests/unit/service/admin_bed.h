/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_bed - asks admin questions of a server that has a real engine, but no threads, sockets or
 * device. The test sets the clock.
 */
#ifndef SAL_TESTS_ADMIN_BED_H
#define SAL_TESTS_ADMIN_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "compile/pool/pool.h"
#include "core/policy.h"
#include "service/admin/admin.h"
#include "service/client/session.h"
#include "service/server.h"

#define MS UINT64_C(1000000)
#define GIB (UINT64_C(1) << 30)
#define JOBS_MAX 8

struct bed {
	struct svc_server server;
	struct svc_session sessions[JOBS_MAX];
	struct svc_execution executions[4 * JOBS_MAX];
	size_t session_count, execution_count;
	json_t *answer; /* owned: the last answer */
};

extern uint64_t bed_now_ns;
extern unsigned bed_wakes; /* how often the worker was woken */
extern struct sal_compile_wait bed_wait; /* the wait of every program that is compiled */
extern struct sal_compile_run bed_runs[2]; /* the compiler's current runs */

/* Opens a device of 8 GiB without paging. */
struct bed *bed_open(const struct sal_policy *policy, uint32_t lanes);
void bed_close(struct bed *b);

struct svc_session *bed_add(struct bed *b, const char *name, const struct sal_job *job);
struct svc_session *bed_add_plain(struct bed *b, const char *name);
/* Submits one iteration. A granted iteration starts at once. */
void bed_submit(struct bed *b, struct svc_session *s, uint64_t expected_ns);
void bed_end(struct bed *b, struct svc_session *s, uint64_t used_ns);

/* Asks a question written with ' instead of ". The answer is valid until the next question. */
json_t *bed_ask(struct bed *b, const char *question);
json_t *bed_ask_as(struct bed *b, uid_t uid, const char *question);
const char *bed_text(const json_t *object, const char *key);
double bed_number(const json_t *object, const char *key);

#define assert_says(answer, key, part) assert_non_null(strstr(bed_text(answer, key), part))

#endif
