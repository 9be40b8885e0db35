/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_bed - questions to a real engine on a clock that stands where it is put: a server without
 * threads, sockets or device.
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
	json_t *answer; /* owned: the last one */
};

extern uint64_t bed_now_ns;
extern unsigned bed_wakes; /* of the worker */
extern struct sal_compile_wait bed_wait; /* of every program that is compiled */
extern struct sal_compile_run bed_runs[2]; /* what the compiler is at work on */

/* 8 GiB, no paging. */
struct bed *bed_open(const struct sal_policy *policy, uint32_t lanes);
void bed_close(struct bed *b);

struct svc_session *bed_add(struct bed *b, const char *name, const struct sal_job *job);
struct svc_session *bed_add_plain(struct bed *b, const char *name);
/* What is granted starts at once. */
void bed_submit(struct bed *b, struct svc_session *s, uint64_t expected_ns);
void bed_end(struct bed *b, struct svc_session *s, uint64_t used_ns);

/* Asks with ' for ", and keeps the answer until the next. */
json_t *bed_ask(struct bed *b, const char *question);
const char *bed_text(const json_t *object, const char *key);
double bed_number(const json_t *object, const char *key);

#define assert_says(answer, key, part) assert_non_null(strstr(bed_text(answer, key), part))

#endif
