/* SPDX-License-Identifier: Apache-2.0 */
/* `limits`: every limit, its current use, and the largest user. */
#include "unit/service/admin_bed.h"

#include "base/err.h"
#include "core/engine.h"
#include "service/client/session.h"
#include "service/ledger.h"
#include "service/server.h"

/* Asks again and returns the row of this name. */
static const json_t *row(struct bed *b, const char *name)
{
	const json_t *limits = json_object_get(bed_ask(b, "{'op': 'limits'}"), "limits");
	size_t i;

	for (i = 0; i < json_array_size(limits); i++) {
		const json_t *r = json_array_get(limits, i);

		if (strcmp(bed_text(r, "name"), name) == 0)
			return r;
	}
	return NULL;
}

static void expect(struct bed *b, const char *name, double limit, double used, const char *by)
{
	const json_t *r = row(b, name);

	assert_non_null(r);
	assert_true(bed_number(r, "limit") == limit);
	assert_true(bed_number(r, "used") == used);
	assert_string_equal(bed_text(r, "by"), by);
}

static void open_account(struct bed *b, struct svc_session *s, uid_t uid, uint64_t buffers)
{
	assert_int_equal(svc_account_open(&s->account, &b->server.ledger, uid, NULL), SAL_OK);
	assert_int_equal(svc_limit_take(s, SVC_BUFFERS, buffers, NULL), SAL_OK);
}

static void close_account(struct svc_session *s)
{
	svc_limit_give(s, SVC_BUFFERS, s->account.used[SVC_BUFFERS]);
	svc_account_close(&s->account);
}

static void use_is_told_by_scope(void **state)
{
	struct bed *b = bed_open(&sal_policy_fair, 1);
	struct svc_session *one = bed_add_plain(b, "one"), *two = bed_add_plain(b, "two");
	struct svc_session *three = bed_add_plain(b, "three");

	(void)state;
	expect(b, "daemon-buffers", 800000, 0, "");
	expect(b, "user-buffers", 400000, 0, "");
	open_account(b, one, 1000, 30);
	open_account(b, two, 1000, 30);
	open_account(b, three, 1001, 40);
	expect(b, "daemon-buffers", 800000, 100, "");
	expect(b, "user-buffers", 400000, 60, "user 1000");
	expect(b, "job-buffers", 100000, 40, "three (id 3)");
	assert_string_equal(bed_text(row(b, "job-buffers"), "option"), "--limit job-buffers");
	assert_string_equal(bed_text(row(b, "job-arena"), "unit"), "bytes");
	close_account(one);
	close_account(two);
	close_account(three);
	expect(b, "daemon-buffers", 800000, 0, "");
	bed_close(b);
}

static void every_limit_has_a_row(void **state)
{
	struct bed *b = bed_open(&sal_policy_fair, 1);
	const json_t *limits;
	size_t i, rows = 0;
	int scope, what;

	(void)state;
	for (scope = 0; scope < SVC_SCOPES; scope++)
		for (what = 0; what < SVC_RESOURCES; what++)
			rows += svc_limit_applies((enum svc_scope)scope, (enum svc_resource)what);
	limits = json_object_get(bed_ask(b, "{'op': 'limits'}"), "limits");
	assert_true(json_array_size(limits) > rows);
	for (i = 0; i < json_array_size(limits); i++) {
		assert_int_equal(bed_text(json_array_get(limits, i), "option")[0], '-');
		assert_int_not_equal(bed_text(json_array_get(limits, i), "help")[0], '\0');
	}
	assert_non_null(row(b, "memory"));
	b->server.options.limits.max[SVC_JOB][SVC_PROGRAMS] = 0;
	assert_true(json_is_null(json_object_get(row(b, "job-programs"), "limit")));
	bed_close(b);
}

static void no_weight_over_its_limit(void **state)
{
	struct bed *b = bed_open(&sal_policy_fair, 1);
	const json_t *answer;

	(void)state;
	(void)bed_add_plain(b, "one");
	(void)bed_add_plain(b, "two");
	assert_true(bed_number(bed_ask(b, "{'op': 'set', 'job': 1, 'weight': 1000}"), "weight") ==
		    1000);
	answer = bed_ask(b, "{'op': 'set', 'job': 2, 'weight': 1000.1}");
	assert_string_equal(bed_text(answer, "code"), "INVALID_ARGUMENT");
	assert_says(answer, "error", "--limit job-weight=N");
	expect(b, "job-weight", 1000, 1000, "one (id 1)");
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(use_is_told_by_scope),
		cmocka_unit_test(every_limit_has_a_row),
		cmocka_unit_test(no_weight_over_its_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
