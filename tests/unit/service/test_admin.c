/* SPDX-License-Identifier: Apache-2.0 */
/* Admin questions: answers show the engine's state, and settings change the engine's decisions. */
#include "unit/service/admin_bed.h"

#include <unistd.h>

#include "core/engine.h"
#include "loader/loader.h"
#include "core/lane.h"
#include "loader/loader.h"
#include "service/admin/admin.h"
#include "service/client/session.h"
#include "service/server.h"

/* Which job */

static void test_names(void **state)
{
	struct bed *b = bed_open(&sal_policy_fair, 1);
	const json_t *a;

	(void)state;
	assert_says(bed_ask(b, "{'op': 'why', 'job': 'x'}"), "error", "there is none at all");
	(void)bed_add_plain(b, "train");
	(void)bed_add_plain(b, "train.py");
	(void)bed_add_plain(b, "trace");
	(void)bed_add_plain(b, "2");
	(void)bed_add_plain(b, "twin");
	(void)bed_add_plain(b, "twin");
	(void)bed_add_plain(b, "gr\xff\xfc");
	assert_int_equal(bed_number(bed_ask(b, "{'op': 'why', 'job': 'train'}"), "id"), 1);
	assert_int_equal(bed_number(bed_ask(b, "{'op': 'why', 'job': 'train.'}"), "id"), 2);
	assert_int_equal(bed_number(bed_ask(b, "{'op': 'why', 'job': '2'}"), "id"), 2);
	assert_int_equal(bed_number(bed_ask(b, "{'op': 'why', 'job': 3}"), "id"), 3);
	a = bed_ask(b, "{'op': 'why', 'job': 'tra'}");
	assert_string_equal(bed_text(a, "code"), "INVALID_ARGUMENT");
	assert_says(a, "error", "train (id 1), train.py (id 2), trace (id 3)");
	assert_says(bed_ask(b, "{'op': 'kill', 'job': 'twin'}"), "error",
		    "twin (id 5), twin (id 6)");
	a = bed_ask(b, "{'op': 'pause', 'job': 'vgg'}");
	assert_string_equal(bed_text(a, "code"), "NOT_FOUND");
	assert_says(a, "error", "trace (id 3)");
	assert_says(a, "error", "gr?? (id 7)"); /* JSON cannot hold bytes that are not UTF-8 */
	assert_string_equal(bed_text(bed_ask(b, "{'op': 'why', 'job': 'gr'}"), "name"), "gr??");
	assert_string_equal(bed_text(bed_ask(b, "{'op': 'why', 'job': ''}"), "code"),
			    "INVALID_ARGUMENT");
	assert_string_equal(bed_text(bed_ask(b, "{'op': 'why', 'job': [1]}"), "code"),
			    "INVALID_ARGUMENT");
	assert_string_equal(bed_text(bed_ask(b, "{'op': 'why'}"), "code"), "INVALID_ARGUMENT");
	bed_close(b);
}

/* Ps */

static void test_states(void **state)
{
	static const struct {
		const char *name;
		struct sal_session session;
	} cases[] = {
		{ "idle", { .place = SAL_RESIDENT } },
		{ "paused", { .place = SAL_RESIDENT, .paused = true } },
		{ "waiting", { .in_waiting = true } },
		{ "waiting", { .in_waiting = true, .admitted = true } },
		{ "paged", { .admitted = true } },
		{ "paused", { .admitted = true, .paused = true } },
		{ "paging out", { .place = SAL_PAGING_OUT } },
		{ "paging in", { .place = SAL_PAGING_IN } },
		{ "refused", { .refused = true } },
	};
	struct sal_iteration it = { 0 };
	struct sal_lane lane = { 0 };
	struct sal_session ready = { .place = SAL_RESIDENT, .lane = &lane };
	struct svc_server server = { 0 };
	struct svc_session own = { .core = &ready, .server = &server };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sal_session core = cases[i].session;
		struct svc_session s = { .core = &core, .server = &server };

		TAILQ_INIT(&core.queue);
		assert_string_equal(svc_state_name(&s), cases[i].name);
		s.state = SVC_CLOSING; /* closing hides all other states */
		assert_string_equal(svc_state_name(&s), "closing");
	}
	TAILQ_INIT(&ready.queue);
	TAILQ_INSERT_TAIL(&ready.queue, &it, queue_link);
	assert_string_equal(svc_state_name(&own), "ready");
	ready.running = &it;
	ready.in_waiting = true;
	assert_string_equal(svc_state_name(&own), "running");
}

static void check_lane(const json_t *lane, int index, double bytes, int id)
{
	assert_int_equal(bed_number(lane, "index"), index);
	assert_true(bed_number(lane, "bytes") == bytes);
	assert_int_equal(json_array_size(json_object_get(lane, "sessions")), 1);
	assert_int_equal(json_integer_value(json_array_get(json_object_get(lane, "sessions"), 0)),
			 id);
}

static void test_ps(void **state)
{
	struct bed *b = bed_open(&sal_policy_pack, 2);
	struct sal_job small = { .declared = { GIB, GIB / 2 }, .weight_milli = 2500 };
	struct sal_job large = { .declared = { 3 * GIB, GIB },
				 .kind = SAL_INFERENCE,
				 .total_ns = 5000 * MS,
				 .limit_bytes = 6 * GIB };
	struct svc_session *a = bed_add(b, "a", &small);
	const json_t *answer, *device, *lanes, *one, *two;

	(void)state;
	(void)bed_add(b, "b", &large);
	a->live_bytes = 12345;
	a->temp_bytes = 99;
	bed_submit(b, a, 0);
	bed_submit(b, a, 0);
	bed_end(b, a, 30 * MS);
	b->server.lanes[0].busy_ns = 30 * MS;
	b->server.lanes[0].iterations = 1;
	b->server.lanes[1].busy_ns = 5 * MS;
	bed_now_ns += 500 * MS;

	answer = bed_ask(b, "{'op': 'ps'}");
	device = json_object_get(answer, "device");
	assert_string_equal(bed_text(device, "platform"), "paper");
	assert_string_equal(bed_text(device, "policy"), "pack");
	assert_int_equal(bed_number(device, "lane_limit"), 2);
	assert_true(bed_number(device, "capacity_bytes") == 8.0 * GIB);
	assert_true(bed_number(device, "persist_bytes") == 4.0 * GIB);
	assert_true(bed_number(device, "lane_sum_bytes") == 1.5 * GIB);
	assert_true(bed_number(device, "busy_s") == 0.035);
	assert_true(bed_number(device, "now_s") == 1.53);
	assert_true(json_is_null(json_object_get(device, "gain"))); /* too short to know */
	lanes = json_object_get(answer, "lanes");
	assert_int_equal(json_array_size(lanes), 2);
	check_lane(json_array_get(lanes, 0), 0, GIB / 2.0, 1);
	check_lane(json_array_get(lanes, 1), 1, GIB, 2);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(lanes, 0), "running")),
			 1);
	assert_true(json_is_null(json_object_get(json_array_get(lanes, 1), "running")));
	one = json_array_get(json_object_get(answer, "sessions"), 0);
	two = json_array_get(json_object_get(answer, "sessions"), 1);
	assert_string_equal(bed_text(one, "state"), "running");
	assert_int_equal(bed_number(one, "iterations"), 1);
	assert_true(bed_number(one, "used_s") == 0.03);
	assert_int_equal(bed_number(one, "persist_bytes"), 12345);
	assert_true(bed_number(one, "held_bytes") == (double)GIB);
	assert_true(bed_number(one, "ephem_bytes") == GIB / 2.0);
	assert_true(bed_number(one, "weight") == 2.5);
	assert_true(bed_number(one, "idle_s") == 0);
	assert_string_equal(bed_text(one, "kind"), "training");
	assert_string_equal(bed_text(two, "kind"), "inference");
	assert_string_equal(bed_text(two, "state"), "idle");
	assert_true(bed_number(two, "idle_s") == 0.53);
	assert_true(bed_number(two, "total_s") == 5);
	assert_true(bed_number(two, "limit_bytes") == 6.0 * GIB);
	assert_int_equal(bed_number(two, "lane"), 1);
	bed_close(b);
}

/* Two jobs that each fill half of the device run side by side at full speed. */
static void test_gain(void **state)
{
	struct bed *b = bed_open(&sal_policy_pack, 2);
	struct sal_pace half = {
		.alone_ns = 500 * MS, .runs = 5, .alone_runs = 5, .util_milli = 500
	};
	struct sal_job job = { .declared = { GIB, GIB / 2 } };
	struct svc_session *a = bed_add(b, "a", &job), *c = bed_add(b, "c", &job);
	const json_t *answer, *gain;

	(void)state;
	b->executions[0].iteration.pace = b->executions[1].iteration.pace = &half;
	bed_submit(b, a, 500 * MS);
	bed_submit(b, c, 500 * MS);
	c->tier = 1;
	bed_end(b, a, 500 * MS);
	TAILQ_REMOVE(&c->executions, svc_execution_of(c->core->running), link);
	sal_engine_done(b->server.engine, bed_now_ns, c->core, 500 * MS);
	answer = bed_ask(b, "{'op': 'ps'}");
	gain = json_object_get(json_object_get(answer, "device"), "gain");
	assert_true(bed_number(gain, "lanes") == 2);
	assert_true(bed_number(gain, "rate") == 2);
	assert_int_equal(bed_number(json_array_get(json_object_get(answer, "sessions"), 1), "tier"),
			 1);
	bed_close(b);
}

/* Changes */

static void test_policy(void **state)
{
	struct bed *b = bed_open(&sal_policy_fair, 1);
	const json_t *answer = bed_ask(b, "{'op': 'policy'}"), *list;
	const struct sal_policy *const *p;
	char names[SAL_POLICY_NAMES_BYTES];
	size_t i = 0;

	(void)state;
	assert_string_equal(bed_text(answer, "policy"), "fair");
	list = json_object_get(answer, "policies");
	for (p = sal_policies; *p; p++, i++) {
		assert_string_equal(bed_text(json_array_get(list, i), "name"), (*p)->name);
		assert_string_equal(bed_text(json_array_get(list, i), "idea"), (*p)->idea);
	}
	assert_int_equal(json_array_size(list), i);
	assert_int_equal(bed_wakes, 0);

	assert_string_equal(bed_text(bed_ask(b, "{'op': 'policy', 'name': 'srtf'}"), "policy"),
			    "srtf");
	assert_ptr_equal(sal_engine_policy(b->server.engine), &sal_policy_srtf);
	assert_int_equal(bed_wakes, 1);
	assert_int_equal(bed_number(bed_ask(b, "{'op': 'policy', 'lanes': 3}"), "lane_limit"), 3);
	assert_int_equal(bed_number(bed_ask(b, "{'op': 'policy', 'lanes': 0}"), "lane_limit"), 1);
	assert_int_equal(bed_number(bed_ask(b, "{'op': 'policy', 'name': 'pack'}"), "lane_limit"),
			 SAL_LANES_MAX);
	answer = bed_ask(b, "{'op': 'policy', 'name': 'lifo'}");
	assert_string_equal(bed_text(answer, "code"), "INVALID_ARGUMENT");
	assert_says(answer, "error", sal_policy_names(", ", names, sizeof(names)));
	assert_string_equal(bed_text(bed_ask(b, "{'op': 'policy', 'name': 3}"), "code"),
			    "INVALID_ARGUMENT");
	assert_string_equal(bed_text(bed_ask(b, "{'op': 'policy', 'lanes': 'auto'}"), "lanes"),
			    "auto");
	assert_int_equal(sal_engine_tuning(b->server.engine)->lanes, SAL_LANES_AUTO);
	(void)bed_ask(b, "{'op': 'policy', 'lanes': 2}");
	assert_string_equal(bed_text(bed_ask(b, "{'op': 'policy', 'lanes': 'many'}"), "code"),
			    "INVALID_ARGUMENT");
	assert_string_equal(bed_text(bed_ask(b, "{'op': 'policy', 'lanes': 65}"), "code"),
			    "INVALID_ARGUMENT");
	assert_string_equal(bed_text(bed_ask(b, "{'op': 'policy', 'lanes': -1}"), "code"),
			    "INVALID_ARGUMENT");
	assert_ptr_equal(sal_engine_policy(b->server.engine), &sal_policy_pack);
	bed_close(b);
}

static void test_tune(void **state)
{
	static const char *const bad[] = {
		"{'op': 'policy', 'name': 'fair', 'tune': 'guess=1s'}",
		"{'op': 'policy', 'name': 'fair', 'tune': [3]}",
		"{'op': 'policy', 'name': 'fair', 'tune': ['guess=1s', 'gues=1s']}",
		"{'op': 'policy', 'name': 'fair', 'tune': ['guess=1s', 'short=1h']}",
	};
	struct bed *b = bed_open(&sal_policy_srtf, 1);
	const struct sal_tuning *tuning = sal_engine_tuning(b->server.engine);

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_string_equal(bed_text(bed_ask(b, bad[i]), "code"), "INVALID_ARGUMENT");
		assert_ptr_equal(sal_engine_policy(b->server.engine), &sal_policy_srtf);
		assert_int_equal(tuning->guess_ns, UINT64_C(600000000000));
	}
	assert_int_equal(bed_wakes, 0);
	(void)bed_ask(b, "{'op': 'policy', 'tune': ['guess=1s', 'short=0'], 'lanes': 2}");
	assert_int_equal(bed_wakes, 1);
	assert_int_equal(tuning->guess_ns, 1000000000);
	assert_int_equal(tuning->short_ns, 0);
	assert_int_equal(tuning->lanes, 2);
	bed_close(b);
}

static void test_set(void **state)
{
	static const char *const wrong[] = {
		"{'op': 'set', 'job': 's'}",
		"{'op': 'set', 'job': 's', 'wieght': 1}",
		"{'op': 'set', 'job': 's', 'weight': 0}",
		"{'op': 'set', 'job': 's', 'weight': '2'}",
		"{'op': 'set', 'job': 's', 'weight': 1e9}",
		"{'op': 'set', 'job': 's', 'priority': -1}",
		"{'op': 'set', 'job': 's', 'priority': 1.5}",
		"{'op': 'set', 'job': 's', 'priority': 4294967296}",
		"{'op': 'set', 'job': 's', 'memory': -1}",
		"{'op': 'set', 'job': 's', 'memory': '4GiB'}",
		"{'op': 'set', 'job': 's', 'time': -1}",
		"{'op': 'set', 'job': 's', 'time': 1e300}",
		"{'op': 'set', 'job': 's', 'kind': 'game'}",
		"{'op': 'set', 'job': 's', 'kind': 1}",
		"{'op': 'set', 'job': 's', 'deadline': -1}",
		"{'op': 'set', 'job': 's', 'priority': 9, 'weight': null}",
	};
	struct bed *b = bed_open(&sal_policy_fair, 1);
	struct svc_session *s = bed_add_plain(b, "s");
	const struct sal_job *job = &s->core->job;
	const json_t *answer;
	size_t i;

	(void)state;
	answer = bed_ask(b,
			 "{'op': 'set', 'job': 's', 'weight': 0.25, 'priority': 7, 'memory': 4096, "
			 "'time': 1.5, 'kind': 'inference', 'deadline': 0.02}");
	assert_true(json_is_true(json_object_get(answer, "ok")));
	assert_true(bed_number(answer, "weight") == 0.25);
	assert_int_equal(job->weight_milli, 250);
	assert_int_equal(job->priority, 7);
	assert_int_equal(job->limit_bytes, 4096);
	assert_int_equal(job->total_ns, 1500 * MS);
	assert_int_equal(job->kind, SAL_INFERENCE);
	assert_false(job->kind_undeclared);
	assert_int_equal(job->deadline_ns, 20 * MS);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		answer = bed_ask(b, wrong[i]);
		assert_string_equal(bed_text(answer, "code"), "INVALID_ARGUMENT");
		assert_true(*bed_text(answer, "error") != '\0');
	}
	assert_int_equal(job->priority, 7); /* all settings change, or none */
	assert_int_equal(job->weight_milli, 250);
	(void)bed_ask(b, "{'op': 'set', 'job': 's', 'memory': 0}");
	assert_int_equal(job->limit_bytes, 0);
	bed_close(b);
}

/* The client sees its new limit, its memory in use and its peak. */
static void test_set_shows(void **state)
{
	struct bed *b = bed_open(&sal_policy_fair, 1);
	struct svc_session *s = bed_add_plain(b, "s");
	struct sal_holding seen = { .limit_bytes = 1 };

	(void)state;
	s->live_bytes = 100;
	s->peak_bytes = 300;
	(void)bed_ask(b, "{'op': 'set', 'job': 's', 'memory': 4096}"); /* has no holding */
	s->holding = &seen;
	(void)bed_ask(b, "{'op': 'set', 'job': 's', 'weight': 2}");
	assert_int_equal(seen.limit_bytes, 4096);
	assert_int_equal(seen.persist_bytes, 100);
	assert_int_equal(seen.peak_bytes, 300);
	(void)bed_ask(b, "{'op': 'set', 'job': 's', 'memory': 17179869184}");
	assert_int_equal(seen.limit_bytes, 8 * GIB); /* the device has no more */
	(void)bed_ask(b, "{'op': 'set', 'job': 's', 'memory': 8192}");
	assert_int_equal(seen.limit_bytes, 8192);
	(void)bed_ask(b, "{'op': 'set', 'job': 's', 'memory': 0}");
	assert_int_equal(seen.limit_bytes, 8 * GIB);
	bed_close(b);
}

static void test_pause_resume_kill(void **state)
{
	struct bed *b = bed_open(&sal_policy_fair, 1);
	struct svc_session *s = bed_add_plain(b, "s"), *t = bed_add_plain(b, "t");

	(void)state;
	assert_string_equal(bed_text(bed_ask(b, "{'op': 'pause', 'job': 's'}"), "state"), "paused");
	bed_submit(b, s, 0);
	assert_null(s->core->running);
	bed_submit(b, t, 0);
	assert_non_null(t->core->running);
	bed_end(b, t, MS);
	bed_wakes = 0;
	assert_string_equal(bed_text(bed_ask(b, "{'op': 'resume', 'job': 's'}"), "state"),
			    "running");
	assert_non_null(s->core->running);
	assert_true(bed_wakes > 0); /* the worker has to start it */
	assert_int_equal(bed_number(bed_ask(b, "{'op': 'kill', 'job': 't'}"), "id"), t->id);
	assert_int_equal(json_array_size(json_object_get(bed_ask(b, "{'op': 'ps'}"), "sessions")),
			 1);
	assert_string_equal(bed_text(bed_ask(b, "{'op': 'kill', 'job': 't'}"), "code"),
			    "NOT_FOUND");
	bed_close(b);
}

static int before_each(void **state)
{
	(void)state;
	bed_wakes = 0;
	return 0;
}

/* Whoever may change the policy may not bring code, unless he is the daemon's user. */
static void test_only_the_daemons_user_loads_files(void **state)
{
	static const char question[] = "{'op': 'policy', 'name': '/none/mine.so'}";
	struct bed *b = bed_open(&sal_policy_fair, 1);
	struct sal_loader loader = { 0 };

	(void)state;
	b->server.options.loader = &loader;
	assert_says(bed_ask_as(b, geteuid() + 1, question), "error", "who runs salusd, may load");
	assert_string_equal(bed_text(b->answer, "code"), "PERMISSION_DENIED");
	assert_says(bed_ask_as(b, geteuid(), "{'op': 'policy', 'name': './mine.so'}"), "error",
		    "must start with a /");
	assert_says(bed_ask_as(b, geteuid() + 1, "{'op': 'policy', 'name': 'srtf'}"), "policy",
		    "srtf");
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_names, before_each),
		cmocka_unit_test_setup(test_only_the_daemons_user_loads_files, before_each),
		cmocka_unit_test_setup(test_states, before_each),
		cmocka_unit_test_setup(test_ps, before_each),
		cmocka_unit_test_setup(test_gain, before_each),
		cmocka_unit_test_setup(test_policy, before_each),
		cmocka_unit_test_setup(test_tune, before_each),
		cmocka_unit_test_setup(test_set, before_each),
		cmocka_unit_test_setup(test_set_shows, before_each),
		cmocka_unit_test_setup(test_pause_resume_kill, before_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
