/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plugin tells the daemon: about the job, about programs, and about room in the ring. The
 * test plays the daemon.
 */
#include "support/scene.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static const struct lie honest = { .name = "none", .sleeps = true };

/* The job */

static const char *const wishes[] = { "SALUS_JOB_NAME", "SALUS_MEMORY", "SALUS_WEIGHT",
				      "SALUS_PRIORITY", "SALUS_TIME",	"SALUS_KIND",
				      "SALUS_DEADLINE" };

static struct sal_hello hello_of(const char *const values[7])
{
	struct sal_hello hello;
	struct scene s;
	size_t i;

	for (i = 0; i < 7; i++)
		assert_int_equal(values[i] ? setenv(wishes[i], values[i], 1) : unsetenv(wishes[i]),
				 0);
	scene_open(&s, &honest);
	hello = false_daemon_hello(&s.daemon);
	scene_close(&s);
	for (i = 0; i < 7; i++)
		assert_int_equal(unsetenv(wishes[i]), 0);
	return hello;
}

static void the_hello_is_what_was_wished(void **state)
{
	static const char *const none[7], *const all[7] = { "a job", "3KiB,5KiB", "2.5", "7",
							    "2s",    "inference", "20ms" };
	static const char *const some[7] = { [1] = "4096B", [5] = "training" };
	struct sal_hello h = hello_of(none);

	(void)state;
	assert_true(h.magic == SAL_WIRE_MAGIC && h.size == sizeof(h) && h.name[0]);
	assert_int_equal(h.priority, 20);
	assert_int_equal(h.weight_milli, 1000);
	assert_int_equal(h.persist_bytes + h.ephem_bytes + h.total_ns + h.deadline_ns, 0);
	assert_int_equal(h.kind, SAL_HELLO_UNDECLARED);
	h = hello_of(all);
	assert_string_equal(h.name, "a job");
	assert_int_equal(h.persist_bytes, 3072);
	assert_int_equal(h.ephem_bytes, 5120);
	assert_int_equal(h.weight_milli, 2500);
	assert_int_equal(h.priority, 7);
	assert_int_equal(h.total_ns, 2000000000);
	assert_int_equal(h.kind, SAL_HELLO_INFERENCE);
	assert_int_equal(h.deadline_ns, 20000000);
	h = hello_of(some);
	assert_int_equal(h.persist_bytes, 4096);
	assert_int_equal(h.ephem_bytes, 0);
	assert_int_equal(h.kind, SAL_HELLO_TRAINING);
}

static void expect_name(const char *job, const char *notebook, const char *expected)
{
	const char *const values[7] = { job };

	assert_int_equal(setenv("JPY_SESSION_NAME", notebook, 1), 0);
	assert_string_equal(hello_of(values).name, expected);
	assert_int_equal(unsetenv("JPY_SESSION_NAME"), 0);
}

/* Kernels of one Jupyter have the same SALUS_JOB_NAME, and different notebooks. */
static void a_kernel_has_the_name_of_its_notebook(void **state)
{
	(void)state;
	expect_name("lab", "/home/me/deep/a.ipynb", "lab/a.ipynb");
	expect_name("lab", "b.ipynb", "lab/b.ipynb");
	expect_name("lab", "", "lab");
	expect_name("lab", "folder/", "lab");
	expect_name(NULL, "b.ipynb", "jupyter/b.ipynb");
}

/* A nonsensical value is an error, not a guess. The plugin does not even connect. */
static void wishes_that_make_no_sense_are_refused(void **state)
{
	static const char *const nonsense[][2] = {
		{ "SALUS_PRIORITY", "7x" },    { "SALUS_PRIORITY", "-1" },
		{ "SALUS_WEIGHT", "0" },       { "SALUS_WEIGHT", "1x" },
		{ "SALUS_MEMORY", "1GiB,1x" }, { "SALUS_KIND", "trainings" },
		{ "SALUS_DEADLINE", "soon" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		ARGS(Client_Create, a);

		assert_int_equal(setenv(nonsense[i][0], nonsense[i][1], 1), 0);
		assert_int_equal(code_of(api->PJRT_Client_Create(&a)), SAL_INVALID_ARGUMENT);
		assert_int_equal(unsetenv(nonsense[i][0]), 0);
	}
}

/* Programs */

static char long_name[100 << 10];

/* Facts that take a tenth of the arena. */
static void with_a_long_name(struct sal_program_facts *f)
{
	memset(long_name, 'x', sizeof(long_name));
	f->name = (struct sal_text){ long_name, sizeof(long_name) };
}

#define LONG_TEXT (600 << 10) /* more than half of the arena */

/* Text, sealed bytes and facts of programs stay in the arena only while they are needed. */
static void programs_leave_the_arena(void **state)
{
	static const struct lie lie = { .name = "none",
					.sleeps = true,
					.of_program = with_a_long_name };
	char *text = malloc(LONG_TEXT);
	struct scene s;
	int i;

	(void)state;
	assert_non_null(text);
	memset(text, '#', LONG_TEXT);
	scene_open(&s, &lie);
	for (i = 0; i < 30; i++) {
		PJRT_LoadedExecutable *p = NULL;
		ARGS(Executable_DeserializeAndLoad, load, .client = s.bed.client,
		     .serialized_executable = text, .serialized_executable_size = LONG_TEXT);

		ok(try_compile(&s.bed, text, LONG_TEXT, &p));
		loaded_destroy(p);
		ok(api->PJRT_Executable_DeserializeAndLoad(&load));
		loaded_destroy(load.loaded_executable);
	}
	assert_int_equal(atomic_load(&s.daemon.growths), 0);
	free(text);
	scene_close(&s);
}

/* A program is unloaded once: when its last reference is dropped, or when it is deleted before. */
static void a_program_is_unloaded_once(void **state)
{
	PJRT_LoadedExecutable *p;
	PJRT_Executable *e;
	struct scene s;

	(void)state;
	scene_open(&s, &honest);
	p = compile_text(&s.bed, "any");
	e = executable_of(p);
	loaded_destroy(p);
	buffer_destroy(scene_put(&s, 100)); /* urgent: all earlier records are taken too */
	while (atomic_load(&s.daemon.records) < 3)
		(void)sched_yield();
	assert_int_equal(atomic_load(&s.daemon.unloads), 0);
	executable_destroy(e);
	p = compile_text(&s.bed, "other");
	assert_int_equal(atomic_load(&s.daemon.unloads), 1);
	ok(CALL(LoadedExecutable_Delete, .executable = p));
	loaded_destroy(p);
	loaded_destroy(compile_text(&s.bed, "third"));
	assert_int_equal(atomic_load(&s.daemon.unloads), 2);
	scene_close(&s);
}

/* Asks for the size, then for the bytes, as JAX does. */
static size_t optimized_program(PJRT_Executable *e)
{
	PJRT_Program program = { .struct_size = PJRT_Program_STRUCT_SIZE };
	ARGS(Executable_OptimizedProgram, a, .executable = e, .program = &program);

	ok(api->PJRT_Executable_OptimizedProgram(&a));
	program.code = malloc(program.code_size);
	assert_non_null(program.code);
	ok(api->PJRT_Executable_OptimizedProgram(&a));
	free(program.code);
	return program.code_size;
}

static void an_optimised_program_is_fetched_once(void **state)
{
	PJRT_LoadedExecutable *p;
	PJRT_Executable *e;
	unsigned int before;
	struct scene s;

	(void)state;
	scene_open(&s, &honest);
	p = compile_text(&s.bed, "any");
	e = executable_of(p);
	before = atomic_load(&s.daemon.records);
	assert_true(optimized_program(e) > 0);
	assert_int_equal(atomic_load(&s.daemon.records), before + 1);
	assert_true(optimized_program(e) > 0);
	loaded_destroy(p);
	executable_destroy(e);
	loaded_destroy(
		compile_text(&s.bed, "other")); /* unload, compile, facts, and no other record */
	assert_int_equal(atomic_load(&s.daemon.records), before + 4);
	scene_close(&s);
}

static void without_a_layout(struct sal_program_facts *f)
{
	static const int64_t dims[] = { 2, 3, 4 };
	static const struct sal_output_facts o = {
		.type = 11, .rank = 3, .dims = dims, .bytes = 96
	};

	f->outputs = &o;
}

static void an_output_without_a_layout_is_row_major(void **state)
{
	static const struct lie lie = { .name = "none",
					.sleeps = true,
					.of_program = without_a_layout };
	PJRT_LoadedExecutable *p;
	PJRT_Buffer *out = NULL;
	struct scene s;
	int i;

	(void)state;
	scene_open(&s, &lie);
	p = compile_text(&s.bed, "any");
	ok(try_execute(&(struct run){ .loaded = p, .outputs = &out }));
	{
		ARGS(Buffer_GetMemoryLayout, a, .buffer = out);

		ok(api->PJRT_Buffer_GetMemoryLayout(&a));
		assert_int_equal(a.layout.tiled.minor_to_major_size, 3);
		for (i = 0; i < 3; i++)
			assert_int_equal(a.layout.tiled.minor_to_major[i], 2 - i);
	}
	buffer_destroy(out);
	loaded_destroy(p);
	scene_close(&s);
}

/* Room in the ring */

/* The daemon sends more records than the ring holds. Only the first of them counts. */
static void over_and_over(struct spoken *s)
{
	s->times = FALSE_RING_BYTES / sizeof(struct sal_msg_done) + 1000;
}

struct hold {
	struct scene *scene;
	_Atomic bool called;
	int code; /* written before called */
};

/* The reader takes nothing from the ring until the ring is full. */
static void hold_until_full(PJRT_Error *error, void *arg)
{
	struct hold *h = arg;

	h->code = code_of(error);
	while (!atomic_load(&h->scene->daemon.is_full))
		(void)sched_yield(); /* or the deadline */
	atomic_store(&h->called, true);
}

static void a_daemon_that_waits_for_room_is_told(void **state)
{
	static const struct lie lie = {
		.name = "none", .speak = over_and_over, .to = ANSWER_EXECUTE, .once = true
	};
	PJRT_LoadedExecutable *p;
	PJRT_Buffer *out = NULL;
	PJRT_Event *done = NULL;
	struct scene s;
	struct hold hold = { .scene = &s };

	(void)state;
	scene_open(&s, &lie);
	p = compile_text(&s.bed, "any");
	false_daemon_hear(&s.daemon, false);
	ok(try_execute(&(struct run){ .loaded = p, .outputs = &out, .done = &done }));
	ok(CALL(Event_OnReady, .event = done, .callback = hold_until_full, .user_arg = &hold));
	false_daemon_hear(&s.daemon, true);
	while (!atomic_load(&hold.called))
		(void)sched_yield();
	assert_int_equal(hold.code, 0);
	loaded_destroy(compile_text(&s.bed, "other")); /* answered after all those records */
	ok(CALL(Event_Destroy, .event = done));
	buffer_destroy(out);
	loaded_destroy(p);
	scene_close(&s);
}

static int run_suite(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hello_is_what_was_wished),
		cmocka_unit_test(a_kernel_has_the_name_of_its_notebook),
		cmocka_unit_test(wishes_that_make_no_sense_are_refused),
		cmocka_unit_test(programs_leave_the_arena),
		cmocka_unit_test(a_program_is_unloaded_once),
		cmocka_unit_test(an_optimised_program_is_fetched_once),
		cmocka_unit_test(an_output_without_a_layout_is_row_major),
		cmocka_unit_test(a_daemon_that_waits_for_room_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	(void)setenv("SALUS_TEST_SUBJECT", "fake", 1); /* the false daemon has no device */
	return host_main(argc, argv, run_suite);
}
