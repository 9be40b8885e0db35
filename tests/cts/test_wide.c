/* SPDX-License-Identifier: Apache-2.0 */
/* Streams with several chips: every device through one suite. */
#include "device/compiler.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/plugin_watch.h"

#define F32 11
#define CHIPS 3
#define DEADLINE_S 60
#define MEETINGS 100

enum program_kind {
	EACH, /* (a, b) -> a + b, on two chips, into the memory of a */
	LAST, /* (a, b) -> a + b, on the last chip */
	MEET, /* (a, b) -> the sum of a + b over two chips; the fake does not add up */
	TOO_MANY, /* needs one chip more than there are */
	KINDS
};

struct subject {
	const char *name;
	const struct sal_device_ops *ops;
	const struct sal_compiler_ops *compiler;
	struct sal_device_config config;
	const char *programs[KINDS];
	struct sal_text options[KINDS];
	float met; /* what MEET makes of 1 */
};

struct bench {
	const struct subject *subject;
	const struct sal_device_ops *ops;
	struct sal_device *device;
	struct sal_stream *stream;
	struct sal_err err;
};

/* The end of an iteration */

struct outcome {
	pthread_mutex_t lock;
	pthread_cond_t told;
	int count, code;
};

static void note(void *ctx, int code, const char *message)
{
	struct outcome *o = ctx;

	(void)message;
	pthread_mutex_lock(&o->lock);
	o->count++;
	o->code = code;
	pthread_cond_signal(&o->told);
	pthread_mutex_unlock(&o->lock);
}

static int await(struct outcome *o)
{
	struct timespec until;
	int rc = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += DEADLINE_S;
	pthread_mutex_lock(&o->lock);
	while (o->count == 0 && rc == 0)
		rc = pthread_cond_timedwait(&o->told, &o->lock, &until);
	pthread_mutex_unlock(&o->lock);
	return rc ? -1 : o->code;
}

#define OUTCOME                                                           \
	{                                                                 \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 \
	}

static int setup(void **state)
{
	struct bench *t = calloc(1, sizeof(*t));

	t->subject = *state;
	t->ops = t->subject->ops;
	if (t->ops->open(&t->subject->config, &t->device, &t->err) < 0 ||
	    t->ops->open_wide(t->device, 0, CHIPS, &t->stream, &t->err) < 0) {
		print_error("%s\n", t->err.text);
		return -1;
	}
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct bench *t = *state;
	const struct subject *subject = t->subject;

	t->ops->close_stream(t->stream);
	t->ops->close(t->device);
	free(t);
	*state = (void *)subject;
	return 0;
}

static void fine(struct bench *t, int rc)
{
	if (rc < 0)
		fail_msg("%s: %s", sal_code_name(rc), t->err.text);
}

static struct sal_compiled *compile(struct bench *t, enum program_kind kind)
{
	struct sal_text program = { t->subject->programs[kind],
				    strlen(t->subject->programs[kind]) };
	struct sal_compiled *c = NULL;

	fine(t, t->subject->compiler->compile(t->stream, (struct sal_text){ "mlir", 4 }, program,
					      t->subject->options[kind], &c, &t->err));
	return c;
}

static struct sal_loaded *load(struct bench *t, enum program_kind kind)
{
	struct sal_compiled *c = compile(t, kind);
	struct sal_loaded *p = NULL;

	fine(t, t->ops->load(t->stream, t->subject->compiler->image(c), &p, &t->err));
	t->subject->compiler->free_compiled(c);
	return p;
}

static struct sal_buffer *put(struct bench *t, uint32_t chip, float value)
{
	const int64_t dims[] = { 1 };
	const struct sal_array array = { .type = F32, .rank = 1, .dims = dims };
	struct sal_buffer *b = NULL;

	fine(t, t->ops->upload(t->ops->chip(t->stream, chip), &array, &value, SAL_UPLOAD_COPY, NULL,
			       NULL, &b, &t->err));
	return b;
}

/* Checks the value, and frees the buffer. */
static void expect(struct bench *t, struct sal_buffer *take_b, float value)
{
	struct outcome o = OUTCOME;
	float data = 0;

	fine(t, t->ops->download(take_b, &data, sizeof(data), note, &o, &t->err));
	assert_int_equal(await(&o), SAL_OK);
	assert_true(data == value);
	t->ops->free_buffer(take_b);
}

/* Runs p on so many chips and frees the arguments. Returns the code of a failure. */
static int run(struct bench *t, struct sal_loaded *p, struct sal_buffer **args, size_t chips,
	       struct sal_buffer **outputs)
{
	struct outcome o = OUTCOME;
	struct sal_execution x = {
		.args = args,
		.arg_count = 2,
		.outputs = outputs,
		.output_count = 1,
		.chip_count = chips,
		.done = note,
		.done_ctx = &o,
	};
	int rc = t->ops->execute(p, &x, &t->err);

	for (size_t i = 0; i < 2 * chips; i++)
		t->ops->free_buffer(args[i]);
	return rc < 0 ? -rc : await(&o);
}

static void chips_are_described(void **state)
{
	struct bench *t = *state;
	const struct sal_device_facts *f = NULL;

	assert_ptr_equal(t->ops->chip(t->stream, 0), t->stream);
	fine(t, t->ops->describe(t->stream, &f, &t->err));
	assert_int_equal(f->device_id, 0);
	assert_int_equal(f->other_count, CHIPS - 1);
	for (size_t i = 0; i < f->other_count; i++) {
		assert_int_equal(f->others[i].device_id, i + 1);
		assert_true(f->others[i].memory_count > 0);
		assert_int_equal(f->others[i].memory_count, f->memory_count);
	}
}

static void programs_name_their_chips(void **state)
{
	struct bench *t = *state;
	const struct sal_compiler_ops *compiler = t->subject->compiler;
	struct sal_compiled *each = compile(t, EACH), *last = compile(t, LAST), *none = NULL;
	struct sal_text text = { t->subject->programs[TOO_MANY],
				 strlen(t->subject->programs[TOO_MANY]) };

	assert_int_equal(compiler->facts(each)->chip_count, 2);
	assert_int_equal(compiler->facts(each)->chips[0], 0);
	assert_int_equal(compiler->facts(each)->chips[1], 1);
	assert_int_equal(compiler->facts(last)->chip_count, 1);
	assert_int_equal(compiler->facts(last)->chips[0], CHIPS - 1);
	compiler->free_compiled(each);
	compiler->free_compiled(last);
	assert_true(compiler->compile(t->stream, (struct sal_text){ "mlir", 4 }, text,
				      t->subject->options[TOO_MANY], &none, &t->err) < 0);
	assert_null(none);
}

static void chips_compute_together(void **state)
{
	struct bench *t = *state;
	struct sal_loaded *each = load(t, EACH), *last = load(t, LAST);
	struct sal_buffer *args[] = { put(t, 0, 1), put(t, 0, 2), put(t, 1, 10), put(t, 1, 20) };
	struct sal_buffer *more[] = { put(t, 2, 4), put(t, 2, 5) };
	struct sal_buffer *out[2] = { NULL, NULL };

	assert_int_equal(run(t, each, args, 2, out), SAL_OK);
	expect(t, out[0], 3);
	expect(t, out[1], 30);
	assert_int_equal(run(t, last, more, 1, out), SAL_OK);
	expect(t, out[0], 9);
	t->ops->unload(each);
	t->ops->unload(last);
}

static void arguments_must_be_on_their_chip(void **state)
{
	struct bench *t = *state;
	struct sal_loaded *each = load(t, EACH), *last = load(t, LAST);
	struct sal_buffer *args[] = { put(t, 0, 1), put(t, 0, 2), put(t, 0, 3), put(t, 1, 4) };
	struct sal_buffer *few[] = { put(t, 0, 1), put(t, 0, 2) };
	struct sal_buffer *first[] = { put(t, 0, 1), put(t, 0, 2) };
	struct sal_buffer *out[2] = { NULL, NULL };

	assert_int_equal(run(t, each, args, 2, out), SAL_INVALID_ARGUMENT);
	assert_int_equal(run(t, each, few, 1, out), SAL_INVALID_ARGUMENT);
	assert_int_equal(run(t, last, first, 1, out), SAL_INVALID_ARGUMENT);
	assert_null(out[0]);
	assert_null(out[1]);
	t->ops->unload(each);
	t->ops->unload(last);
}

static void buffers_are_copied_between_chips(void **state)
{
	struct bench *t = *state;
	struct sal_buffer *b = put(t, 1, 7), *copy = NULL;
	struct sal_buffer *args[2], *out = NULL;
	struct sal_loaded *last = load(t, LAST);

	fine(t, t->ops->copy_to(b, t->ops->chip(t->stream, 2), 0, &copy, &t->err));
	args[0] = copy;
	args[1] = put(t, 2, 1);
	assert_int_equal(run(t, last, args, 1, &out), SAL_OK);
	expect(t, out, 8);
	expect(t, b, 7);
	t->ops->unload(last);
}

/* A buffer that was paged, or that another stream adopted, is still on its chip. */
static void buffers_keep_their_chip(void **state)
{
	struct bench *t = *state;
	struct sal_buffer *b = put(t, 2, 7), *back = NULL, *there = NULL, *out = NULL;
	struct sal_stream *other = NULL;
	struct sal_compiled *c = compile(t, LAST);
	struct sal_saved *saved = NULL;
	struct sal_loaded *p = NULL;

	fine(t, t->ops->open_wide(t->device, 1, CHIPS, &other, &t->err));
	fine(t, t->ops->load(other, t->subject->compiler->image(c), &p, &t->err));
	fine(t, t->ops->save(b, &saved, &t->err));
	t->ops->free_buffer(b);
	fine(t, t->ops->restore(t->ops->chip(t->stream, 2), saved, &back, &t->err));
	fine(t, t->ops->adopt(t->ops->chip(other, 2), back, &there, &t->err));
	{
		const int64_t dims[] = { 1 };
		const struct sal_array array = { .type = F32, .rank = 1, .dims = dims };
		const float one = 1;
		struct sal_buffer *args[2] = { there, NULL };

		fine(t, t->ops->upload(t->ops->chip(other, 2), &array, &one, SAL_UPLOAD_COPY, NULL,
				       NULL, &args[1], &t->err));
		assert_int_equal(run(t, p, args, 1, &out), SAL_OK);
	}
	expect(t, out, 8);
	t->ops->unload(p);
	t->subject->compiler->free_compiled(c);
	t->ops->close_stream(other);
}

/* Runs MEET again and again on a stream of its own. */
struct party {
	struct bench bench;
	struct sal_text image;
	float value;
	pthread_t thread;
};

static void *meet(void *arg)
{
	struct party *party = arg;
	struct bench *t = &party->bench;
	struct sal_loaded *p = NULL;

	fine(t, t->ops->load(t->stream, party->image, &p, &t->err));
	for (int i = 0; i < MEETINGS; i++) {
		struct sal_buffer *args[] = { put(t, 0, party->value), put(t, 0, 0), put(t, 1, 0),
					      put(t, 1, party->value) };
		struct sal_buffer *out[2] = { NULL, NULL };

		assert_int_equal(run(t, p, args, 2, out), SAL_OK);
		expect(t, out[0], party->value * t->subject->met);
		expect(t, out[1], party->value * t->subject->met);
	}
	t->ops->unload(p);
	return NULL;
}

/* Chips of one stream wait for each other, and never for those of another stream. */
static void streams_meet_apart(void **state)
{
	struct bench *t = *state;
	struct sal_compiled *c = compile(t, MEET);
	struct party parties[3];

	for (int i = 0; i < 3; i++) {
		parties[i] = (struct party){ .bench = *t,
					     .image = t->subject->compiler->image(c),
					     .value = (float)(i + 1) };
		fine(t, t->ops->open_wide(t->device, 0, CHIPS, &parties[i].bench.stream, &t->err));
		assert_int_equal(pthread_create(&parties[i].thread, NULL, meet, &parties[i]), 0);
	}
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pthread_join(parties[i].thread, NULL), 0);
		t->ops->close_stream(parties[i].bench.stream);
	}
	t->subject->compiler->free_compiled(c);
}

static int run_suite(const struct subject *subject)
{
	struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(chips_are_described, setup, teardown),
		cmocka_unit_test_setup_teardown(programs_name_their_chips, setup, teardown),
		cmocka_unit_test_setup_teardown(chips_compute_together, setup, teardown),
		cmocka_unit_test_setup_teardown(arguments_must_be_on_their_chip, setup, teardown),
		cmocka_unit_test_setup_teardown(buffers_are_copied_between_chips, setup, teardown),
		cmocka_unit_test_setup_teardown(buffers_keep_their_chip, setup, teardown),
		cmocka_unit_test_setup_teardown(streams_meet_apart, setup, teardown),
	};

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tests[i].initial_state = (void *)subject;
	return _cmocka_run_group_tests(subject->name, tests, sizeof(tests) / sizeof(tests[0]), NULL,
				       NULL);
}

#define V "tensor<1xf32>"
#define SUM(replicas, donate)                                                                 \
	"module @sum attributes {mhlo.num_replicas = " replicas " : i32} { func.func public " \
	"@main(%a: " V donate ", %b: " V ") -> " V " { %0 = stablehlo.add %a, %b : " V        \
	" return %0 : " V " } }"

#define ALL_REDUCE                                                                               \
	"module @meet attributes {mhlo.num_replicas = 2 : i32} { func.func public @main(%a: " V  \
	", %b: " V ") -> " V " { %0 = stablehlo.add %a, %b : " V                                 \
	" %1 = \"stablehlo.all_reduce\"(%0) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): "         \
	"%s = stablehlo.add %x, %y : tensor<f32> stablehlo.return %s : tensor<f32> }) "          \
	"{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (" V ") -> " V " return %1 : " V \
	" } }"

/*
 * CompileOptionsProto: executable_build_options (3) with num_replicas (4), num_partitions (5) and
 * the device_assignment (9): replica_count, computation_count, the devices.
 */
static const char two_replicas[] =
	"\x1a\x10\x20\x02\x28\x01\x4a\x0a\x08\x02\x10\x01\x1a\x04\x0a\x02\x00\x01";
static const char last_chip[] =
	"\x1a\x0f\x20\x01\x28\x01\x4a\x09\x08\x01\x10\x01\x1a\x03\x0a\x01\x02";
static const char fourth_chip[] =
	"\x1a\x0f\x20\x01\x28\x01\x4a\x09\x08\x01\x10\x01\x1a\x03\x0a\x01\x03";

int main(void)
{
	const struct subject fake = {
		.name = "fake",
		.ops = &sal_device_fake,
		.compiler = &sal_compiler_fake,
		.config = { .plugin_path = "fake", .memory_bytes = 1 << 24 },
		.programs = { "fake 1\nchips 2\noutput f32 1 = add 0 1\ndonate 0 0\n",
			      "fake 1\nchip 2\noutput f32 1 = add 0 1\n",
			      "fake 1\nchips 2\noutput f32 1 = add 0 1\n",
			      "fake 1\nchips 4\noutput f32 1 = add 0 1\n" },
		.met = 1,
	};
	const struct subject pjrt = {
		.name = "pjrt",
		.ops = &sal_device_pjrt,
		.compiler = &sal_compiler_pjrt,
		.config = { .plugin_path = SAL_PJRT_PLUGIN },
		.programs = { SUM("2", " {tf.aliasing_output = 0 : i32}"), SUM("1", ""), ALL_REDUCE,
			      SUM("1", "") },
		.met = 2,
		.options = { { two_replicas, sizeof(two_replicas) - 1 },
			     { last_chip, sizeof(last_chip) - 1 },
			     { two_replicas, sizeof(two_replicas) - 1 },
			     { fourth_chip, sizeof(fourth_chip) - 1 } },
	};
	int failed = run_suite(&fake);

	if (access(SAL_PJRT_PLUGIN, R_OK) < 0 || !can_watch_plugins()) {
		print_message("SKIPPED: pjrt\n");
		return failed;
	}
	return failed + run_suite(&pjrt);
}
