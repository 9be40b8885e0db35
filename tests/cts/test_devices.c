/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One conformance suite for every device: it tests the promises of device/device.h.
 *
 * A subject is a device (the fake one in several configurations), with a source text for each of
 * the few programs that the suite needs. All programs work on vectors of four floats, except those
 * that fail.
 */
#include "device/compiler.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/fake/fake.h"
#include "device/option.h"
#include "heap/heap.h"
#include "support/plugin_watch.h"

#define F32 11 /* PJRT_Buffer_Type_F32 */
#define LANES 4 /* floats in a vector */
#define VECTOR_BYTES (LANES * sizeof(float))
#define DEADLINE_S 60
#define LAST_TYPE 29 /* PJRT_Buffer_Type_F4E2M1FN */

enum program_kind {
	ADD, /* (a, b) -> a + b, cheap enough to run inside execute */
	COSTLY, /* the same, with more computation */
	DONATE, /* the same, into the memory of a */
	TWO, /* (a, b) -> b, a */
	FAILING, /* () -> a vector; its computation fails */
	AFTER, /* the vector of FAILING -> a vector */
	MANY, /* (600 vectors) -> the sum of the last two */
	TURN, /* a vector -> a matrix in column-major order */
	BACK, /* the matrix of TURN -> the vector */
	BROKEN, /* cannot be compiled */
};

struct subject {
	const char *name;
	const struct sal_device_ops *ops;
	const struct sal_compiler_ops *compiler;
	struct sal_device_config config;
	const char *(*program)(enum program_kind kind);
	struct sal_text options;
	bool runs_inside; /* all its iterations end inside execute */
	bool chains; /* its done functions may call execute */
	bool copies; /* it never uses the host's memory, and has no tiers */
	bool fails_early; /* execute itself fails if there is no memory */
	uint64_t limit_bytes; /* the device says that it has so much memory; 0: it does not say */
};

static struct sal_text text_of(const char *text)
{
	return (struct sal_text){ text, strlen(text) };
}

/* The fake's programs */

static const char *fake_program(enum program_kind kind)
{
	switch (kind) {
	case ADD:
		return "fake 1\nname add\noutput f32 4 = add 0 1\n";
	case COSTLY:
		return "fake 1\nname costly\noutput f32 4 = add 0 1\ntime 100000\n";
	case DONATE:
		return "fake 1\nname donate\noutput f32 4 = add 0 1\ndonate 0 0\n";
	case TWO:
		return "fake 1\nname two\noutput f32 4 = copy 1\noutput f32 4 = copy 0\n";
	case FAILING:
		return "fake 1\noutput f32 4 = fill 0\nfail 8 as it was told to\n";
	case AFTER:
	case TURN:
	case BACK:
		return "fake 1\noutput f32 4 = copy 0\n";
	case MANY:
		return "fake 1\noutput f32 4 = add 598 599\n";
	default:
		return "fake 1\noutput f32 4 = divide 0 1\n";
	}
}

/* Programs for a vendor's plugin: StableHLO */

/*
 * CompileOptionsProto: executable_build_options (3) with num_replicas (4) and num_partitions (5) of
 * one.
 */
static const char compile_options[] = { 0x1a, 0x04, 0x20, 0x01, 0x28, 0x01 };

#define VECTOR "tensor<4xf32>"
#define HUGE_VECTOR "tensor<17592186044416xf32>" /* 2^46 bytes: larger than the address space */

static const char *many_program(void)
{
	static char text[32768];
	size_t used = 0;

	used += (size_t)sprintf(text + used, "module @many { func.func public @main(");
	for (int i = 0; i < 600; i++)
		used += (size_t)sprintf(text + used, "%s%%a%d: " VECTOR, i ? ", " : "", i);
	sprintf(text + used, ") -> " VECTOR " { %%0 = stablehlo.add %%a598, %%a599 : " VECTOR
			     " return %%0 : " VECTOR " } }");
	return text;
}

static const char *pjrt_program(enum program_kind kind)
{
	switch (kind) {
	case ADD:
		return "module @add { func.func public @main(%a: " VECTOR ", %b: " VECTOR
		       ") -> " VECTOR " { %0 = stablehlo.add %a, %b : " VECTOR
		       " return %0 : " VECTOR " } }";
	case COSTLY:
		return "module @costly { func.func public @main(%a: " VECTOR ", %b: " VECTOR
		       ") -> " VECTOR " { %r = stablehlo.broadcast_in_dim %a, dims = [0] : (" VECTOR
		       ") -> tensor<4x4096xf32> %t = stablehlo.transpose %r, dims = [1, 0] : "
		       "(tensor<4x4096xf32>) -> tensor<4096x4xf32> %d = stablehlo.dot %r, %t : "
		       "(tensor<4x4096xf32>, tensor<4096x4xf32>) -> tensor<4x4xf32> "
		       "%s = stablehlo.slice %d [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32> "
		       "%v = stablehlo.reshape %s : (tensor<1x4xf32>) -> " VECTOR
		       " %z = stablehlo.constant dense<0.0> : " VECTOR
		       " %q = stablehlo.multiply %v, %z : " VECTOR
		       " %x = stablehlo.add %a, %b : " VECTOR " %y = stablehlo.add %x, %q : " VECTOR
		       " return %y : " VECTOR " } }";
	case DONATE:
		return "module @donate { func.func public @main(%a: " VECTOR
		       " {tf.aliasing_output = 0 : i32}, %b: " VECTOR ") -> " VECTOR
		       " { %0 = stablehlo.add %a, %b : " VECTOR " return %0 : " VECTOR " } }";
	case TWO:
		return "module @two { func.func public @main(%a: " VECTOR ", %b: " VECTOR
		       ") -> (" VECTOR ", " VECTOR ") { return %b, %a : " VECTOR ", " VECTOR " } }";
	case FAILING: /* so costly that execute returns before its end */
		return "module @failing { func.func public @main() -> " HUGE_VECTOR
		       " { %0 = stablehlo.iota dim = 0 : " HUGE_VECTOR
		       " %1 = stablehlo.multiply %0, %0 : " HUGE_VECTOR " return %1 : " HUGE_VECTOR
		       " } }";
	case AFTER:
		return "module @after { func.func public @main(%a: " HUGE_VECTOR ") -> " VECTOR
		       " { %0 = stablehlo.slice %a [0:4] : (" HUGE_VECTOR ") -> " VECTOR
		       " return %0 : " VECTOR " } }";
	case TURN:
		return "module @turn { func.func public @main(%a: " VECTOR
		       ") -> (tensor<2x2xf32> {mhlo.layout_mode = \"{0,1}\"}) "
		       "{ %0 = stablehlo.reshape %a : (" VECTOR
		       ") -> tensor<2x2xf32> return %0 : tensor<2x2xf32> } }";
	case BACK:
		return "module @back { func.func public @main(%a: tensor<2x2xf32> "
		       "{mhlo.layout_mode = \"{0,1}\"}) -> " VECTOR
		       " { %0 = stablehlo.reshape %a : (tensor<2x2xf32>) -> " VECTOR
		       " return %0 : " VECTOR " } }";
	case MANY:
		return many_program();
	default:
		return "module @broken { func.func public @main() -> tensor<f32> { } }";
	}
}

/* Waiting */

struct outcome {
	pthread_mutex_t lock;
	pthread_cond_t told;
	unsigned int count;
	int code; /* of the last call */
	char text[256];
};

static void outcome_init(struct outcome *o)
{
	memset(o, 0, sizeof(*o));
	pthread_mutex_init(&o->lock, NULL);
	pthread_cond_init(&o->told, NULL);
}

static void note(void *ctx, int code, const char *message)
{
	struct outcome *o = ctx;

	pthread_mutex_lock(&o->lock);
	o->count++;
	o->code = code;
	snprintf(o->text, sizeof(o->text), "%.255s", message);
	pthread_cond_signal(&o->told);
	pthread_mutex_unlock(&o->lock);
}

static unsigned int told(struct outcome *o)
{
	unsigned int count;

	pthread_mutex_lock(&o->lock);
	count = o->count;
	pthread_mutex_unlock(&o->lock);
	return count;
}

/* Waits until this many calls of done, and returns the last code; -1: timeout. */
static int wait_for(struct outcome *o, unsigned int count)
{
	struct timespec until;
	int rc = 0;
	int code;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += DEADLINE_S;
	pthread_mutex_lock(&o->lock);
	while (o->count < count && rc == 0)
		rc = pthread_cond_timedwait(&o->told, &o->lock, &until);
	code = o->count < count ? -1 : o->code;
	pthread_mutex_unlock(&o->lock);
	return code;
}

/* A device with one stream, for a test */

struct bench {
	const struct subject *subject;
	const struct sal_device_ops *ops;
	const struct sal_compiler_ops *compiler;
	struct sal_device *device;
	struct sal_stream *stream;
	struct sal_err err;
};

static int bench_setup(void **state)
{
	struct bench *t = calloc(1, sizeof(*t));

	t->subject = *state;
	t->ops = t->subject->ops;
	t->compiler = t->subject->compiler;
	if (t->ops->open(&t->subject->config, &t->device, &t->err) < 0 ||
	    t->ops->open_stream(t->device, 0, &t->stream, &t->err) < 0) {
		print_error("%s\n", t->err.text);
		return -1;
	}
	*state = t;
	return 0;
}

static int bench_teardown(void **state)
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

/* A refusal has a code and a reason. */
static void refused(struct bench *t, int rc)
{
	assert_true(rc < 0);
	assert_int_equal(t->err.code, -rc);
	assert_true(t->err.text[0] != '\0');
	memset(&t->err, 0, sizeof(t->err));
}

static struct sal_compiled *compile(struct bench *t, enum program_kind kind)
{
	struct sal_compiled *c = NULL;

	fine(t, t->compiler->compile(t->stream, text_of("mlir"), text_of(t->subject->program(kind)),
				     t->subject->options, &c, &t->err));
	assert_non_null(c);
	return c;
}

static struct sal_loaded *load(struct bench *t, enum program_kind kind)
{
	struct sal_compiled *c = compile(t, kind);
	struct sal_loaded *p = NULL;

	fine(t, t->ops->load(t->stream, t->compiler->image(c), &p, &t->err));
	t->compiler->free_compiled(c);
	return p;
}

static struct sal_buffer *put(struct bench *t, struct sal_stream *s, float first)
{
	const float data[LANES] = { first, first + 1, first + 2, first + 3 };
	const int64_t dims[] = { LANES };
	const struct sal_array array = { .type = F32, .rank = 1, .dims = dims };
	struct sal_buffer *b = NULL;

	fine(t, t->ops->upload(s, &array, data, SAL_UPLOAD_COPY, NULL, NULL, &b, &t->err));
	assert_non_null(b);
	return b;
}

static struct sal_saved *save(struct bench *t, struct sal_buffer *b)
{
	struct sal_saved *saved = NULL;

	fine(t, t->ops->save(b, &saved, &t->err));
	assert_non_null(saved);
	fine(t, t->ops->await_saved(saved, &t->err));
	return saved;
}

/* Pages b out and in again, in each way that the device supports; takes b. */
static struct sal_buffer *page(struct bench *t, struct sal_stream *to, struct sal_buffer *take_b)
{
	struct sal_saved *saved = save(t, take_b);
	struct sal_buffer *back = NULL;

	if (t->ops->empty(take_b) >= 0) {
		fine(t, t->ops->refill(take_b, saved, &t->err));
		saved = save(t, take_b);
	}
	t->ops->free_buffer(take_b);
	fine(t, t->ops->restore(to, saved, &back, &t->err));
	assert_non_null(back);
	return back;
}

/* Downloads. Returns the code of a failure, from the call or from done. */
static int get(struct bench *t, struct sal_buffer *b, void *dst, size_t size)
{
	struct outcome o;
	int rc;

	outcome_init(&o);
	rc = t->ops->download(b, dst, size, note, &o, &t->err);
	if (rc < 0)
		return -rc;
	return wait_for(&o, 1);
}

/* Checks that b is first * scale, (first + 1) * scale, ... */
static void expect(struct bench *t, struct sal_buffer *b, float first, float scale)
{
	float data[LANES] = { 0 };

	assert_int_equal(get(t, b, data, sizeof(data)), SAL_OK);
	for (int i = 0; i < LANES; i++)
		assert_true(data[i] == (first + (float)i) * scale);
}

static struct sal_execution pair(struct sal_buffer **args, struct sal_buffer **outputs,
				 size_t output_count, struct outcome *o)
{
	outcome_init(o);
	return (struct sal_execution){
		.args = args,
		.arg_count = 2,
		.outputs = outputs,
		.output_count = output_count,
		.done = note,
		.done_ctx = o,
	};
}

/* Devices and streams */

static bool is_text(struct sal_text text)
{
	return text.size > 0 && text.at;
}

static void facts_are_sane(void **state)
{
	struct bench *t = *state;
	const struct sal_device_facts *f = t->ops->facts(t->device);

	assert_true(is_text(f->platform_name));
	assert_true(is_text(f->platform_version));
	assert_true(is_text(f->kind));
	assert_true(is_text(f->debug_string));
	assert_true(is_text(f->to_string));
	assert_true(f->device_id >= 0);
	assert_true(f->plugin_attributes.count > 0);
	for (size_t i = 0; i < f->plugin_attributes.count; i++)
		assert_true(is_text(f->plugin_attributes.at[i].name));
	assert_true(f->memory_count > 0);
	assert_true(f->default_memory < f->memory_count);
	for (size_t i = 0; i < f->memory_count; i++)
		assert_true(is_text(f->memories[i].kind));
	assert_ptr_equal(f, t->ops->facts(t->device));
}

static void nothing_is_closed(void **state)
{
	struct bench *t = *state;

	t->ops->close(NULL);
	t->ops->close_stream(NULL);
	t->ops->free_buffer(NULL);
	t->compiler->free_compiled(NULL);
	t->ops->unload(NULL);
}

static void streams_come_and_go(void **state)
{
	struct bench *t = *state;
	struct sal_stream *streams[3];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 3; i++) {
			struct sal_buffer *b;

			fine(t, t->ops->open_stream(t->device, 0, &streams[i], &t->err));
			b = put(t, streams[i], (float)i);
			expect(t, b, (float)i, 1);
			t->ops->free_buffer(b);
		}
		/* Also closes the bench's stream, so that the device has no stream for a moment. */
		t->ops->close_stream(t->stream);
		for (int i = 0; i < 3; i++)
			t->ops->close_stream(streams[i]);
		assert_true(is_text(t->ops->facts(t->device)->platform_name));
		fine(t, t->ops->open_stream(t->device, 0, &t->stream, &t->err));
	}
}

/* Buffers */

static void copied_data_can_be_reused(void **state)
{
	struct bench *t = *state;
	float data[LANES] = { 1, 2, 3, 4 };
	const int64_t dims[] = { LANES };
	const struct sal_array array = { .type = F32, .rank = 1, .dims = dims };
	struct sal_buffer *b;
	struct outcome released;

	outcome_init(&released);
	fine(t, t->ops->upload(t->stream, &array, data, SAL_UPLOAD_COPY, note, &released, &b,
			       &t->err));
	memset(data, 0xff, sizeof(data));
	assert_int_equal(wait_for(&released, 1), SAL_OK);
	expect(t, b, 1, 1);
	t->ops->free_buffer(b);
	assert_int_equal(told(&released), 1);
}

/* Aligned so that the CPU plugin does not copy. */
static float *aligned_data(float first)
{
	float *data = aligned_alloc(64, 64);

	assert_non_null(data);
	for (int i = 0; i < LANES; i++)
		data[i] = first + (float)i;
	return data;
}

static void aliased_data_is_released(void **state)
{
	struct bench *t = *state;
	float *data = aligned_data(5);
	const int64_t dims[] = { LANES };
	const struct sal_array array = { .type = F32, .rank = 1, .dims = dims };
	struct sal_buffer *b;
	struct outcome released;

	outcome_init(&released);
	fine(t, t->ops->upload(t->stream, &array, data, SAL_UPLOAD_ALIAS, note, &released, &b,
			       &t->err));
	expect(t, b, 5, 1);
	/* A device that can avoid the copy does. */
	if (t->subject->copies)
		assert_int_equal(wait_for(&released, 1), SAL_OK);
	else
		assert_int_equal(told(&released), 0);
	t->ops->free_buffer(b);
	assert_int_equal(wait_for(&released, 1), SAL_OK);
	assert_int_equal(told(&released), 1);
	free(data);
}

static void aliased_data_outlives_its_buffer(void **state)
{
	struct bench *t = *state;
	struct sal_loaded *p = load(t, ADD);
	const int64_t dims[] = { LANES };
	const struct sal_array array = { .type = F32, .rank = 1, .dims = dims };

	for (int i = 0; i < 50; i++) {
		float *data = aligned_data((float)i);
		struct sal_buffer *args[2];
		struct sal_buffer *out;
		struct outcome released, done;
		struct sal_execution x = pair(args, &out, 1, &done);

		outcome_init(&released);
		fine(t, t->ops->upload(t->stream, &array, data, SAL_UPLOAD_ALIAS, note, &released,
				       &args[0], &t->err));
		args[1] = put(t, t->stream, (float)i);
		fine(t, t->ops->execute(p, &x, &t->err));
		t->ops->free_buffer(args[0]);
		t->ops->free_buffer(args[1]);
		assert_int_equal(wait_for(&released, 1), SAL_OK);
		memset(data, 0xff, 64);
		free(data);
		assert_int_equal(wait_for(&done, 1), SAL_OK);
		expect(t, out, (float)i, 2);
		t->ops->free_buffer(out);
	}
	t->ops->unload(p);
}

/* The valid bits of an element of this type, as the host stores it. */
static unsigned char type_mask(int32_t type)
{
	switch (type) {
	case 1: /* PRED */
	case 24: /* S2: not negative */
		return 0x01;
	case 21: /* S4: not negative */
		return 0x07;
	case 22: /* U4 */
	case 29: /* F4E2M1FN */
		return 0x0f;
	case 25: /* U2 */
		return 0x03;
	default:
		return 0xff;
	}
}

static void round_trip(struct bench *t, int32_t type, const int64_t *dims, uint32_t rank)
{
	const struct sal_array array = { .type = type, .rank = rank, .dims = dims };
	size_t size = sal_type_bytes(type);
	struct sal_buffer *b;
	unsigned char *data, *back;

	for (uint32_t i = 0; i < rank; i++)
		size *= (size_t)dims[i];
	data = malloc(size + 1);
	back = malloc(size + 1);
	assert_true(data && back);
	for (size_t i = 0; i < size; i++)
		data[i] = (unsigned char)(i * 37 + 11) & type_mask(type);
	memset(back, 0xa5, size + 1);
	fine(t, t->ops->upload(t->stream, &array, data, SAL_UPLOAD_COPY, NULL, NULL, &b, &t->err));
	assert_int_equal(get(t, b, back, size), SAL_OK);
	if (memcmp(data, back, size) != 0)
		fail_msg("type %d, rank %u: not what it was", (int)type, (unsigned int)rank);
	assert_int_equal(back[size], 0xa5);
	b = page(t, t->stream, b);
	memset(back, 0xa5, size + 1);
	assert_int_equal(get(t, b, back, size), SAL_OK);
	if (memcmp(data, back, size) != 0)
		fail_msg("type %d, rank %u: not what it was before paging", (int)type,
			 (unsigned int)rank);
	t->ops->free_buffer(b);
	free(data);
	free(back);
}

static void all_types_make_the_round_trip(void **state)
{
	const int64_t dims[] = { 3, 5 };
	unsigned int count = 0;

	for (int32_t type = 1; type <= LAST_TYPE; type++) {
		if (sal_type_bytes(type) == 0)
			continue;
		round_trip(*state, type, dims, 2);
		round_trip(*state, type, NULL, 0);
		count++;
	}
	assert_int_equal(count, 28);
	assert_int_equal(sal_type_bytes(LAST_TYPE + 1), 0);
}

static void all_shapes_make_the_round_trip(void **state)
{
	const int64_t none[] = { 3, 0, 7 };
	const int64_t line[] = { 1000003 };
	const int64_t cube[] = { 2, 3, 4, 5, 6 };
	const int64_t ones[] = { 1, 1, 1, 1, 1, 1, 1, 1 };

	round_trip(*state, F32, NULL, 0);
	round_trip(*state, F32, none, 1);
	round_trip(*state, F32, none, 3);
	round_trip(*state, F32, line, 1);
	round_trip(*state, F32, cube, 5);
	round_trip(*state, F32, ones, 8);
}

static void paged_buffers_can_be_donated(void **state)
{
	struct bench *t = *state;
	struct sal_loaded *p = load(t, DONATE);
	struct sal_buffer *b = put(t, t->stream, 7);
	struct sal_buffer *args[2] = { page(t, t->stream, put(t, t->stream, 7)), b };
	struct sal_buffer *out;
	struct outcome done;
	struct sal_execution x = pair(args, &out, 1, &done);

	fine(t, t->ops->execute(p, &x, &t->err));
	assert_int_equal(wait_for(&done, 1), SAL_OK);
	out = page(t, t->stream, out);
	expect(t, out, 7, 2);
	t->ops->free_buffer(args[0]);
	t->ops->free_buffer(b);
	t->ops->free_buffer(out);
	t->ops->unload(p);
}

/* Runs a program of one argument, which it takes. */
static struct sal_buffer *apply(struct bench *t, enum program_kind kind, struct sal_buffer *take_b)
{
	struct sal_loaded *p = load(t, kind);
	struct sal_buffer *out = NULL;
	struct outcome done;
	struct sal_execution x = pair(&take_b, &out, 1, &done);

	x.arg_count = 1;
	fine(t, t->ops->execute(p, &x, &t->err));
	assert_int_equal(wait_for(&done, 1), SAL_OK);
	t->ops->free_buffer(take_b);
	t->ops->unload(p);
	return out;
}

/* An array whose dimensions the device keeps in another order has that order again. */
static void paged_buffers_keep_their_order(void **state)
{
	struct bench *t = *state;
	struct sal_buffer *b = apply(t, TURN, put(t, t->stream, 1));
	float before[LANES] = { 0 }, after[LANES] = { 0 };

	assert_int_equal(get(t, b, before, sizeof(before)), SAL_OK);
	if (t->ops == &sal_device_pjrt) /* its programs really turn */
		assert_true(before[1] == 3 && before[2] == 2);
	b = page(t, t->stream, b);
	assert_int_equal(get(t, b, after, sizeof(after)), SAL_OK);
	assert_memory_equal(before, after, sizeof(before));
	b = apply(t, BACK, b);
	expect(t, b, 1, 1);
	t->ops->free_buffer(b);
}

/* Copies of many buffers are under way at once, and can be awaited in any order. */
static void many_buffers_are_saved_at_once(void **state)
{
	struct bench *t = *state;
	struct sal_buffer *buffers[50];
	struct sal_saved *saved[50];

	for (int i = 0; i < 50; i++)
		buffers[i] = put(t, t->stream, (float)i);
	for (int i = 0; i < 50; i++)
		fine(t, t->ops->save(buffers[i], &saved[i], &t->err));
	for (int i = 49; i >= 0; i--) {
		fine(t, t->ops->await_saved(saved[i], &t->err));
		t->ops->free_buffer(buffers[i]);
		fine(t, t->ops->restore(t->stream, saved[i], &buffers[i], &t->err));
	}
	for (int i = 0; i < 50; i++) {
		expect(t, buffers[i], (float)i, 1);
		t->ops->free_buffer(buffers[i]);
	}
}

static void paged_buffers_change_streams(void **state)
{
	struct bench *t = *state;
	struct sal_stream *other;
	struct sal_buffer *b = put(t, t->stream, 3);

	fine(t, t->ops->open_stream(t->device, 0, &other, &t->err));
	b = page(t, other, b);
	expect(t, b, 3, 1);
	b = page(t, t->stream, b);
	expect(t, b, 3, 1);
	t->ops->free_buffer(b);
	t->ops->close_stream(other);
}

/* Adopts b, or pages it where the device cannot adopt; takes b. */
static struct sal_buffer *move(struct bench *t, struct sal_stream *to, struct sal_buffer *take_b)
{
	struct sal_buffer *out = NULL;

	if (t->ops->adopt(to, take_b, &out, &t->err) >= 0)
		return out;
	assert_null(out);
	return page(t, to, take_b);
}

/* Adds 1, 2, 3, 4 to *b, into its memory, on the stream of p. */
static void add_in_place(struct bench *t, struct sal_stream *s, struct sal_loaded *p,
			 struct sal_buffer **b)
{
	struct sal_buffer *args[2] = { *b, put(t, s, 1) };
	struct sal_buffer *out = NULL;
	struct outcome done;
	struct sal_execution x = pair(args, &out, 1, &done);

	fine(t, t->ops->execute(p, &x, &t->err));
	assert_int_equal(wait_for(&done, 1), SAL_OK);
	t->ops->free_buffer(args[0]);
	t->ops->free_buffer(args[1]);
	*b = out;
}

/* A buffer that changes streams keeps its contents, also if its memory is donated meanwhile. */
static void adopted_buffers_change_streams(void **state)
{
	struct bench *t = *state;
	struct sal_compiled *c = compile(t, DONATE);
	struct sal_stream *streams[2] = { t->stream, NULL };
	struct sal_buffer *b = put(t, t->stream, 0), *kept = put(t, t->stream, 5);
	struct sal_loaded *programs[2];

	fine(t, t->ops->open_stream(t->device, 1, &streams[1], &t->err));
	for (int i = 0; i < 2; i++)
		fine(t, t->ops->load(streams[i], t->compiler->image(c), &programs[i], &t->err));
	for (int i = 0; i < 20; i++) {
		struct sal_stream *to = streams[(i + 1) % 2];

		b = move(t, to, b);
		kept = move(t, to, kept);
		if (i % 3 > 0)
			add_in_place(t, to, programs[(i + 1) % 2], &b);
		expect(t, kept, 5, 1);
	}
	kept = page(t, streams[1], kept);
	expect(t, kept, 5, 1);
	t->ops->free_buffer(kept);
	for (int i = 0; i < 2; i++)
		t->ops->unload(programs[i]);
	{
		float data[LANES] = { 0 };

		assert_int_equal(get(t, b, data, sizeof(data)), SAL_OK);
		for (int i = 0; i < LANES; i++)
			assert_true(data[i] == (float)i + 13 * (float)(1 + i));
	}
	t->ops->free_buffer(b);
	t->ops->close_stream(streams[1]);
	t->compiler->free_compiled(c);
}

/* The memory of an upload by alias is the caller's: nothing overwrites it, on no stream. */
static void adopted_aliases_stay_unchanged(void **state)
{
	_Alignas(64) float data[LANES] = { 0, 1, 2, 3 };
	struct bench *t = *state;
	struct sal_compiled *c = compile(t, DONATE);
	const int64_t dims[] = { LANES };
	const struct sal_array array = { .type = F32, .rank = 1, .dims = dims };
	struct sal_stream *other;
	struct sal_loaded *p;
	struct sal_buffer *b;
	struct outcome released;

	outcome_init(&released);
	fine(t, t->ops->open_stream(t->device, 0, &other, &t->err));
	fine(t, t->ops->load(other, t->compiler->image(c), &p, &t->err));
	fine(t, t->ops->upload(t->stream, &array, data, SAL_UPLOAD_ALIAS, note, &released, &b,
			       &t->err));
	b = move(t, other, b);
	expect(t, b, 0, 1);
	add_in_place(t, other, p, &b);
	assert_true(data[0] == 0 && data[3] == 3);
	t->ops->free_buffer(b);
	assert_int_equal(wait_for(&released, 1), SAL_OK);
	t->ops->unload(p);
	t->ops->close_stream(other);
	t->compiler->free_compiled(c);
}

static void saved_bytes_can_be_read(void **state)
{
	struct bench *t = *state;
	struct sal_buffer *b = put(t, t->stream, 5);
	struct sal_saved *saved = save(t, b);
	struct sal_text bytes = t->ops->saved_bytes(saved);
	float data[LANES];

	assert_int_equal(bytes.size, sizeof(data));
	memcpy(data, bytes.at, sizeof(data));
	assert_true(data[0] == 5 && data[LANES - 1] == 5 + LANES - 1);
	expect(t, b, 5, 1); /* save does not change the buffer */
	t->ops->free_saved(saved);
	t->ops->free_saved(NULL);
	t->ops->free_buffer(b);
}

static void empty_arrays_need_no_address(void **state)
{
	struct bench *t = *state;
	const int64_t dims[] = { 0 };
	const struct sal_array array = { .type = F32, .rank = 1, .dims = dims };
	struct sal_buffer *b;

	fine(t, t->ops->upload(t->stream, &array, NULL, SAL_UPLOAD_COPY, NULL, NULL, &b, &t->err));
	assert_int_equal(get(t, b, NULL, 0), SAL_OK);
	t->ops->free_buffer(b);
}

static void copies_stand_alone(void **state)
{
	struct bench *t = *state;
	struct sal_buffer *b = put(t, t->stream, 7);
	struct sal_buffer *copy;

	fine(t, t->ops->copy(b, 0, &copy, &t->err));
	t->ops->free_buffer(b);
	expect(t, copy, 7, 1);
	t->ops->free_buffer(copy);
}

/* The number of the memory of this kind; 0: the device has none. */
static uint32_t find_memory(struct bench *t, const char *kind)
{
	const struct sal_device_facts *f = t->ops->facts(t->device);

	for (size_t i = 0; i < f->memory_count; i++)
		if (f->memories[i].kind.size == strlen(kind) &&
		    memcmp(f->memories[i].kind.at, kind, strlen(kind)) == 0)
			return (uint32_t)i + 1;
	return 0;
}

/* To the host's memory, to another stream there, and back to the device. */
static void arrays_go_to_other_memories(void **state)
{
	struct bench *t = *state;
	uint32_t host = find_memory(t, "pinned_host");
	struct sal_buffer *b = put(t, t->stream, 7), *on_host, *moved, *back;
	struct sal_saved *saved;
	struct sal_stream *other;

	assert_int_not_equal(host, 0);
	fine(t, t->ops->copy(b, host, &on_host, &t->err));
	t->ops->free_buffer(b);
	expect(t, on_host, 7, 1);
	saved = save(t, on_host);
	t->ops->free_buffer(on_host);
	fine(t, t->ops->open_stream(t->device, 0, &other, &t->err));
	fine(t, t->ops->restore(other, saved, &moved, &t->err));
	expect(t, moved, 7, 1);
	fine(t, t->ops->copy(moved, 0, &back, &t->err));
	t->ops->free_buffer(moved);
	expect(t, back, 7, 1);
	t->ops->free_buffer(back);
	t->ops->close_stream(other);
}

/* Donating a copy must not change its source, even if the two share memory. */
static void copies_can_be_donated(void **state)
{
	struct bench *t = *state;
	struct sal_loaded *p = load(t, DONATE);
	struct sal_buffer *b = put(t, t->stream, 7);
	struct sal_buffer *args[2];
	struct sal_buffer *out;
	struct outcome done;
	struct sal_execution x = pair(args, &out, 1, &done);

	fine(t, t->ops->copy(b, 0, &args[0], &t->err));
	args[1] = b;
	fine(t, t->ops->execute(p, &x, &t->err));
	assert_int_equal(wait_for(&done, 1), SAL_OK);
	expect(t, out, 7, 2);
	expect(t, b, 7, 1);
	t->ops->free_buffer(args[0]);
	t->ops->free_buffer(b);
	t->ops->free_buffer(out);
	t->ops->unload(p);
}

static void buffers_tell_when_ready(void **state)
{
	struct bench *t = *state;
	struct sal_buffer *b = put(t, t->stream, 1);
	struct outcome ready;

	outcome_init(&ready);
	fine(t, t->ops->when_ready(b, note, &ready, &t->err));
	assert_int_equal(wait_for(&ready, 1), SAL_OK);
	fine(t, t->ops->when_ready(b, note, &ready, &t->err));
	assert_int_equal(wait_for(&ready, 2), SAL_OK);
	t->ops->free_buffer(b);
}

static void wrong_sizes_are_refused(void **state)
{
	struct bench *t = *state;
	struct sal_buffer *b = put(t, t->stream, 1);
	struct outcome never;
	char bytes[2 * VECTOR_BYTES];

	outcome_init(&never);
	refused(t, t->ops->download(b, bytes, VECTOR_BYTES - 1, note, &never, &t->err));
	refused(t, t->ops->download(b, bytes, VECTOR_BYTES + 1, note, &never, &t->err));
	refused(t, t->ops->download(b, bytes, 0, note, &never, &t->err));
	t->ops->free_buffer(b);
	assert_int_equal(told(&never), 0);
}

static void wrong_arrays_are_refused(void **state)
{
	struct bench *t = *state;
	const int64_t negative[] = { 4, -1 };
	const int64_t huge[] = { INT64_MAX / 2, 16 };
	const struct sal_array arrays[] = {
		{ 0, 0, NULL, 0 },  { 23, 0, NULL, 0 },	 { 99, 0, NULL, 0 },
		{ -1, 0, NULL, 0 }, { F32, 2, huge, 0 }, { F32, 2, negative, 0 },
	};
	const float data[LANES] = { 0 };

	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
		struct sal_buffer *b = (struct sal_buffer *)&t;

		refused(t, t->ops->upload(t->stream, &arrays[i], data, SAL_UPLOAD_COPY, NULL, NULL,
					  &b, &t->err));
		assert_null(b);
	}
}

static void thousands_of_buffers_leave_nothing(void **state)
{
	struct bench *t = *state;

	for (int i = 0; i < 3000; i++) {
		struct sal_buffer *b = put(t, t->stream, (float)i);

		if (i % 100 == 0)
			expect(t, b, (float)i, 1);
		t->ops->free_buffer(b);
	}
}

/* Programs */

static void programs_are_described(void **state)
{
	struct bench *t = *state;
	struct sal_compiled *c = compile(t, DONATE);
	const struct sal_program_facts *f = t->compiler->facts(c);

	assert_int_equal(f->name.size, strlen("donate"));
	assert_memory_equal(f->name.at, "donate", f->name.size);
	assert_true(is_text(f->fingerprint));
	assert_int_equal(f->replicas, 1);
	assert_int_equal(f->partitions, 1);
	assert_int_equal(f->output_count, 1);
	assert_int_equal(f->outputs[0].type, F32);
	assert_int_equal(f->outputs[0].rank, 1);
	assert_int_equal(f->outputs[0].dims[0], LANES);
	assert_int_equal(f->outputs[0].bytes, VECTOR_BYTES);
	assert_true(is_text(f->outputs[0].memory_kind));
	assert_int_equal(f->donated_count, 1);
	assert_int_equal(f->donated[0], 0);
	assert_int_equal(f->memory.output, VECTOR_BYTES);
	assert_int_equal(f->memory.alias, VECTOR_BYTES);
	assert_true(f->memory.temp >= 0);
	assert_true(f->costs.count > 0);
	assert_true(is_text(t->compiler->image(c)));
	assert_true(is_text(t->compiler->optimized(c)));
	t->compiler->free_compiled(c);

	c = compile(t, TWO);
	f = t->compiler->facts(c);
	assert_int_equal(f->output_count, 2);
	assert_int_equal(f->donated_count, 0);
	t->compiler->free_compiled(c);
}

static void broken_programs_are_refused(void **state)
{
	struct bench *t = *state;
	struct sal_compiled *c = (struct sal_compiled *)&t;

	refused(t, t->compiler->compile(t->stream, text_of("mlir"),
					text_of(t->subject->program(BROKEN)), t->subject->options,
					&c, &t->err));
	assert_null(c);
	refused(t, t->compiler->compile(t->stream, text_of("mlir"), text_of(""),
					t->subject->options, &c, &t->err));
	assert_null(c);
}

static void broken_images_are_refused(void **state)
{
	struct bench *t = *state;
	struct sal_compiled *c = compile(t, ADD);
	struct sal_text image = t->compiler->image(c);
	struct sal_loaded *p = (struct sal_loaded *)&t;

	refused(t, t->ops->load(t->stream, text_of(""), &p, &t->err));
	assert_null(p);
	refused(t, t->ops->load(t->stream, text_of("nothing of the kind, but long enough"), &p,
				&t->err));
	assert_null(p);
	refused(t, t->ops->load(t->stream, (struct sal_text){ image.at, 5 }, &p, &t->err));
	refused(t, t->ops->load(t->stream, (struct sal_text){ image.at, image.size - 2 }, &p,
				&t->err));
	t->compiler->free_compiled(c);
}

static void images_load_on_another_stream(void **state)
{
	struct bench *t = *state;
	struct sal_compiled *c = compile(t, ADD);
	struct sal_text image = t->compiler->image(c);
	char *copy = malloc(image.size);
	struct sal_stream *other;
	struct sal_loaded *p;
	struct sal_buffer *args[2];
	struct sal_buffer *out;
	struct outcome done;
	struct sal_execution x = pair(args, &out, 1, &done);

	assert_non_null(copy);
	memcpy(copy, image.at, image.size);
	t->compiler->free_compiled(c);
	fine(t, t->ops->open_stream(t->device, 0, &other, &t->err));
	fine(t, t->ops->load(other, (struct sal_text){ copy, image.size }, &p, &t->err));
	memset(copy, 0, image.size);
	free(copy);
	args[0] = args[1] = put(t, other, 3);
	fine(t, t->ops->execute(p, &x, &t->err));
	assert_int_equal(wait_for(&done, 1), SAL_OK);
	expect(t, out, 3, 2);
	t->ops->free_buffer(out);
	t->ops->free_buffer(args[0]);
	t->ops->unload(p);
	t->ops->close_stream(other);
}

/* Iterations */

static void iterations_compute(void **state)
{
	struct bench *t = *state;
	struct sal_loaded *p = load(t, TWO);
	struct sal_buffer *args[2] = { put(t, t->stream, 10), put(t, t->stream, 20) };
	struct sal_buffer *outputs[2];
	struct outcome done;
	struct sal_execution x = pair(args, outputs, 2, &done);

	fine(t, t->ops->execute(p, &x, &t->err));
	assert_int_equal(wait_for(&done, 1), SAL_OK);
	assert_int_equal(told(&done), 1);
	expect(t, outputs[0], 20, 1);
	expect(t, outputs[1], 10, 1);
	expect(t, args[0], 10, 1); /* not donated */
	for (int i = 0; i < 2; i++) {
		t->ops->free_buffer(args[i]);
		t->ops->free_buffer(outputs[i]);
	}
	t->ops->unload(p);
}

static void outputs_can_be_used_at_once(void **state)
{
	struct bench *t = *state;
	struct sal_loaded *p = load(t, ADD);
	struct sal_buffer *args[2] = { put(t, t->stream, 1), NULL };
	struct sal_buffer *out;
	struct outcome done;
	struct sal_execution x = pair(args, &out, 1, &done);

	for (int i = 0; i < 10; i++) {
		args[1] = args[0];
		fine(t, t->ops->execute(p, &x, &t->err));
		t->ops->free_buffer(args[0]);
		args[0] = out;
	}
	/* All buffers and the program were freed while the iteration ran. */
	t->ops->unload(p);
	expect(t, args[0], 1, 1024);
	assert_int_equal(wait_for(&done, 10), SAL_OK);
	t->ops->free_buffer(args[0]);
}

static void many_arguments_fit(void **state)
{
	struct bench *t = *state;
	struct sal_loaded *p = load(t, MANY);
	struct sal_buffer *args[600];
	struct sal_buffer *out;
	struct outcome done;
	struct sal_execution x = pair(args, &out, 1, &done);

	for (int i = 0; i < 600; i++)
		args[i] = put(t, t->stream, i < 598 ? -1 : 4);
	x.arg_count = 600;
	fine(t, t->ops->execute(p, &x, &t->err));
	assert_int_equal(wait_for(&done, 1), SAL_OK);
	expect(t, out, 4, 2);
	for (int i = 0; i < 600; i++)
		t->ops->free_buffer(args[i]);
	t->ops->free_buffer(out);
	t->ops->unload(p);
}

static void donated_arguments_are_consumed(void **state)
{
	struct bench *t = *state;
	struct sal_loaded *p = load(t, DONATE);
	struct sal_buffer *args[2] = { put(t, t->stream, 1), put(t, t->stream, 1) };
	struct sal_buffer *out;
	struct sal_buffer *again = NULL;
	struct outcome done;
	struct sal_execution x = pair(args, &out, 1, &done);
	float data[LANES];

	fine(t, t->ops->execute(p, &x, &t->err));
	assert_int_equal(wait_for(&done, 1), SAL_OK);
	expect(t, out, 1, 2);
	assert_true(get(t, args[0], data, sizeof(data)) > SAL_OK);
	expect(t, args[1], 1, 1);
	x.outputs = &again;
	refused(t, t->ops->execute(p, &x, &t->err));
	assert_null(again);
	t->ops->free_buffer(args[0]);
	t->ops->free_buffer(args[1]);
	t->ops->free_buffer(out);
	t->ops->unload(p);
}

static void kept_arguments_are_not_consumed(void **state)
{
	struct bench *t = *state;
	struct sal_loaded *p = load(t, DONATE);
	struct sal_buffer *args[2] = { put(t, t->stream, 1), put(t, t->stream, 1) };
	const int64_t retained[] = { 0 };
	struct sal_buffer *out;
	struct outcome done;
	struct sal_execution x = pair(args, &out, 1, &done);

	x.retained = retained;
	x.retained_count = 1;
	for (unsigned int i = 1; i <= 3; i++) {
		fine(t, t->ops->execute(p, &x, &t->err));
		assert_int_equal(wait_for(&done, i), SAL_OK);
		expect(t, out, 1, 2);
		expect(t, args[0], 1, 1);
		t->ops->free_buffer(out);
	}
	t->ops->free_buffer(args[0]);
	t->ops->free_buffer(args[1]);
	t->ops->unload(p);
}

/* Nobody may write to the host's memory, even if a program could donate it. */
static void aliased_data_is_not_written(void **state)
{
	struct bench *t = *state;
	struct sal_loaded *p = load(t, DONATE);
	float *data = aligned_data(1);
	const int64_t dims[] = { LANES };
	const struct sal_array array = { .type = F32, .rank = 1, .dims = dims };
	struct sal_buffer *args[2] = { NULL, put(t, t->stream, 1) };
	struct sal_buffer *out;
	struct outcome done, released;
	struct sal_execution x = pair(args, &out, 1, &done);

	outcome_init(&released);
	fine(t, t->ops->upload(t->stream, &array, data, SAL_UPLOAD_ALIAS, note, &released, &args[0],
			       &t->err));
	fine(t, t->ops->execute(p, &x, &t->err));
	assert_int_equal(wait_for(&done, 1), SAL_OK);
	expect(t, out, 1, 2);
	t->ops->free_buffer(args[0]);
	t->ops->free_buffer(args[1]);
	t->ops->free_buffer(out);
	assert_int_equal(wait_for(&released, 1), SAL_OK);
	for (int i = 0; i < LANES; i++)
		assert_true(data[i] == (float)(1 + i));
	free(data);
	t->ops->unload(p);
}

static void errors_spread(void **state)
{
	struct bench *t = *state;
	struct sal_loaded *failing = load(t, FAILING);
	struct sal_loaded *after = load(t, AFTER);
	struct sal_buffer *bad = NULL;
	struct sal_buffer *worse = NULL;
	struct outcome done, ready;
	struct sal_execution x = pair(NULL, &bad, 1, &done);
	float data[LANES];

	x.arg_count = 0;
	if (t->subject->fails_early) {
		assert_int_equal(t->ops->execute(failing, &x, &t->err), -SAL_RESOURCE_EXHAUSTED);
		assert_null(bad);
		assert_int_equal(told(&done), 0);
		t->ops->unload(failing);
		t->ops->unload(after);
		return;
	}
	fine(t, t->ops->execute(failing, &x, &t->err));
	/* XLA wraps the reason, RESOURCE_EXHAUSTED, into INTERNAL. */
	assert_true(wait_for(&done, 1) > SAL_OK);
	assert_true(done.text[0] != '\0');
	outcome_init(&ready);
	fine(t, t->ops->when_ready(bad, note, &ready, &t->err));
	assert_true(wait_for(&ready, 1) > SAL_OK);

	x = pair(&bad, &worse, 1, &done);
	x.arg_count = 1;
	fine(t, t->ops->execute(after, &x, &t->err));
	assert_true(wait_for(&done, 1) > SAL_OK);
	assert_int_equal(told(&done), 1);
	assert_true(get(t, worse, data, sizeof(data)) > SAL_OK);
	t->ops->free_buffer(bad);
	t->ops->free_buffer(worse);

	/* The stream still works. */
	bad = put(t, t->stream, 1);
	expect(t, bad, 1, 1);
	t->ops->free_buffer(bad);
	t->ops->unload(failing);
	t->ops->unload(after);
}

static void wrong_iterations_are_refused(void **state)
{
	struct bench *t = *state;
	struct sal_loaded *p = load(t, ADD);
	struct sal_stream *other;
	struct sal_buffer *args[2] = { put(t, t->stream, 1), put(t, t->stream, 1) };
	struct sal_buffer *outputs[2] = { (void *)&t, (void *)&t };
	struct outcome never;
	struct sal_execution x = pair(args, outputs, 2, &never);
	struct sal_buffer *foreign;
	struct sal_buffer *mine = args[1];

	refused(t, t->ops->execute(p, &x, &t->err));
	assert_null(outputs[0]);
	assert_null(outputs[1]);
	x.output_count = 0;
	refused(t, t->ops->execute(p, &x, &t->err));
	x.output_count = 1;
	x.arg_count = 1;
	refused(t, t->ops->execute(p, &x, &t->err));
	assert_null(outputs[0]);

	x.arg_count = 2;
	fine(t, t->ops->open_stream(t->device, 0, &other, &t->err));
	foreign = put(t, other, 1);
	args[1] = foreign;
	refused(t, t->ops->execute(p, &x, &t->err));
	assert_int_equal(told(&never), 0);
	t->ops->free_buffer(foreign);
	t->ops->close_stream(other);
	t->ops->free_buffer(args[0]);
	t->ops->free_buffer(mine);
	t->ops->unload(p);
}

/* Threads */

struct runner {
	struct bench bench;
	struct sal_text image;
	bool failed;
};

/* Without cmocka's assertions, which work only on the main thread. */
static void *run_chain(void *arg)
{
	struct runner *r = arg;
	const struct sal_device_ops *ops = r->bench.ops;
	const float one[LANES] = { 1, 1, 1, 1 };
	const int64_t dims[] = { LANES };
	const struct sal_array array = { .type = F32, .rank = 1, .dims = dims };
	struct sal_buffer *args[2] = { NULL, NULL };
	struct sal_buffer *out;
	struct sal_loaded *p = NULL;
	struct outcome done;
	struct sal_execution x = pair(args, &out, 1, &done);
	float data[LANES] = { 0 };

	r->failed = ops->open_stream(r->bench.device, 0, &r->bench.stream, NULL) < 0 ||
		    ops->load(r->bench.stream, r->image, &p, NULL) < 0 ||
		    ops->upload(r->bench.stream, &array, one, SAL_UPLOAD_COPY, NULL, NULL, &args[0],
				NULL) < 0 ||
		    ops->upload(r->bench.stream, &array, one, SAL_UPLOAD_COPY, NULL, NULL, &args[1],
				NULL) < 0;
	for (unsigned int i = 1; i <= 500 && !r->failed; i++) {
		r->failed = ops->execute(p, &x, NULL) < 0 || wait_for(&done, i) != SAL_OK;
		ops->free_buffer(args[0]);
		args[0] = r->failed ? NULL : out;
	}
	if (!r->failed)
		r->failed = get(&r->bench, args[0], data, sizeof(data)) != SAL_OK || data[3] != 501;
	ops->free_buffer(args[0]);
	ops->free_buffer(args[1]);
	ops->unload(p);
	ops->close_stream(r->bench.stream);
	return NULL;
}

static void streams_run_side_by_side(void **state)
{
	struct bench *t = *state;
	struct sal_compiled *c = compile(t, DONATE);
	struct runner runners[3];
	pthread_t threads[3];

	for (int i = 0; i < 3; i++) {
		runners[i] = (struct runner){ .bench = *t, .image = t->compiler->image(c) };
		assert_int_equal(pthread_create(&threads[i], NULL, run_chain, &runners[i]), 0);
	}
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], NULL);
		assert_false(runners[i].failed);
	}
	t->compiler->free_compiled(c);
}

/* Tiers */

/* Calls of done, and how many of them came on a thread with SAL_TIER_NICE. */
struct nices {
	struct outcome outcome;
	atomic_uint low;
};

static void note_nice(void *ctx, int code, const char *message)
{
	struct nices *n = ctx;

	if (getpriority(PRIO_PROCESS, 0) == SAL_TIER_NICE)
		atomic_fetch_add(&n->low, 1);
	note(&n->outcome, code, message);
}

/* Runs the program on the stream. Returns how many of RUNS ended on a thread of low priority. */
#define RUNS 20

static unsigned int count_low(struct bench *t, struct sal_stream *s, enum program_kind kind)
{
	struct bench on = *t;
	struct sal_buffer *args[2] = { put(t, s, 1), put(t, s, 2) };
	struct nices nices = { .low = 0 };
	struct sal_buffer *out = NULL;
	struct sal_loaded *p;
	struct sal_execution x = { .args = args,
				   .arg_count = 2,
				   .outputs = &out,
				   .output_count = 1,
				   .is_measured = true,
				   .done = note_nice,
				   .done_ctx = &nices };

	on.stream = s;
	p = load(&on, kind);
	outcome_init(&nices.outcome);
	for (unsigned int i = 1; i <= RUNS; i++) {
		fine(t, t->ops->execute(p, &x, &t->err));
		assert_int_equal(wait_for(&nices.outcome, i), SAL_OK);
		t->ops->free_buffer(out);
	}
	t->ops->free_buffer(args[0]);
	t->ops->free_buffer(args[1]);
	t->ops->unload(p);
	return atomic_load(&nices.low);
}

/* Whoever calls execute: in tier 1, all that computes has a low priority. */
static void tier_1_computes_at_low_priority(void **state)
{
	static const enum program_kind kinds[] = { ADD, COSTLY };
	int own = getpriority(PRIO_PROCESS, 0);
	struct bench *t = *state;
	struct sal_stream *low;

	assert_int_equal(t->ops->has_tiers(t->device), !t->subject->copies);
	if (t->subject->copies)
		return;
	fine(t, t->ops->open_stream(t->device, 1, &low, &t->err));
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		assert_int_equal(count_low(t, low, kinds[i]), RUNS);
		assert_int_equal(count_low(t, t->stream, kinds[i]), 0);
	}
	assert_int_equal(getpriority(PRIO_PROCESS, 0), own); /* the caller stays as it is */
	t->ops->close_stream(low);
}

/* A stream that can change its tier computes at the priority of its tier, again and again. */
static void a_stream_changes_its_tier(void **state)
{
	static const uint32_t tiers[] = { 0, 1, 0, 1, 1, 0 };
	struct bench *t = *state;

	if (!t->ops->set_tier || t->ops->set_tier(t->stream, 0) < 0)
		return;
	for (size_t i = 0; i < sizeof(tiers) / sizeof(tiers[0]); i++) {
		fine(t, t->ops->set_tier(t->stream, tiers[i]));
		assert_int_equal(count_low(t, t->stream, ADD), tiers[i] ? RUNS : 0);
		assert_int_equal(count_low(t, t->stream, COSTLY), tiers[i] ? RUNS : 0);
	}
}

/* CPU time belongs to the stream whose threads used it, or whose call took it. */
static void busy_time_belongs_to_its_stream(void **state)
{
	struct bench *t = *state;
	struct sal_stream *streams[SAL_TIERS + 1] = { t->stream };
	uint64_t before_ns;

	if (t->subject->copies) {
		assert_int_equal(t->ops->busy_ns(t->stream), 0); /* it cannot tell */
		return;
	}
	for (uint32_t i = 0; i < SAL_TIERS; i++)
		fine(t, t->ops->open_stream(t->device, i, &streams[i + 1], &t->err));
	for (uint32_t i = 0; i <= SAL_TIERS; i++) {
		before_ns = t->ops->busy_ns(streams[i]);
		assert_int_equal(count_low(t, streams[i], COSTLY), i == SAL_TIERS ? RUNS : 0);
		assert_true(t->ops->busy_ns(streams[i]) > before_ns);
	}
	for (uint32_t i = 0; i < SAL_TIERS; i++)
		t->ops->close_stream(streams[i + 1]);
}

/* Memory */

/* Frees come late: the device may still work on what was freed. */
static void wait_for_use_below(struct bench *t, uint64_t bytes)
{
	struct sal_stream_memory now = { .used_bytes = bytes };

	for (int i = 0; i < DEADLINE_S * 1000 && now.used_bytes >= bytes; i++) {
		(void)usleep(1000);
		fine(t, t->ops->memory(t->stream, &now));
	}
	assert_true(now.used_bytes < bytes);
}

/* What the device says of its memory follows what is done, or the device says nothing at all. */
static void memory_is_counted(void **state)
{
	struct bench *t = *state;
	const size_t size = sizeof(float) << 20;
	const int64_t dims[] = { 1 << 20 };
	const struct sal_array array = { .type = F32, .rank = 1, .dims = dims };
	struct sal_stream_memory memory;
	struct sal_buffer *b;
	float *data;

	assert_int_equal(t->ops->facts(t->device)->memory_bytes, t->subject->limit_bytes);
	if (t->subject->limit_bytes == 0) {
		assert_int_equal(t->ops->memory(t->stream, &memory), -SAL_UNIMPLEMENTED);
		assert_int_equal(memory.used_bytes, 0);
		return;
	}
	data = calloc(1, size);
	assert_non_null(data);
	wait_for_use_below(t, size);
	fine(t, t->ops->upload(t->stream, &array, data, SAL_UPLOAD_COPY, NULL, NULL, &b, &t->err));
	fine(t, t->ops->memory(t->stream, &memory));
	assert_in_range(memory.used_bytes, size, 2 * size - 1);
	assert_true(memory.peak_bytes >= memory.used_bytes);
	t->ops->free_buffer(b);
	wait_for_use_below(t, size);
	fine(t, t->ops->memory(t->stream, &memory));
	assert_true(memory.peak_bytes >= size);
	free(data);
}

/* A device with a limit refuses what is beyond it, and has its memory back afterwards. */
static void memory_has_a_limit(void **state)
{
	struct bench *t = *state;
	uint64_t part = t->subject->limit_bytes / 4;
	const int64_t dims[] = { (int64_t)(part / sizeof(float)) };
	const struct sal_array array = { .type = F32, .rank = 1, .dims = dims };
	struct sal_buffer *parts[4] = { NULL };
	struct sal_buffer *more = NULL;
	float *data;

	if (t->subject->limit_bytes == 0)
		return;
	data = calloc(1, part);
	assert_non_null(data);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 4; i++)
			fine(t, t->ops->upload(t->stream, &array, data, SAL_UPLOAD_COPY, NULL, NULL,
					       &parts[i], &t->err));
		refused(t, t->ops->upload(t->stream, &array, data, SAL_UPLOAD_COPY, NULL, NULL,
					  &more, &t->err));
		assert_null(more);
		for (int i = 0; i < 4; i++) {
			assert_int_equal(get(t, parts[i], data, part), SAL_OK);
			t->ops->free_buffer(parts[i]);
		}
	}
	free(data);
}

/* What done may do */

#define LINKS 1000

enum phase {
	IN_EXECUTE, /* the call has not returned, and done was not called */
	RETURNED, /* execute returned first: done continues the chain */
	ENDED, /* done was called first: the caller of execute continues the chain */
};

/* A chain of iterations: each takes the output of the previous one. */
struct chain {
	struct bench *bench;
	struct sal_loaded *program;
	struct sal_buffer *args[2];
	struct sal_buffer *out;
	unsigned int left;
	_Atomic enum phase phase;
	atomic_uint depth, deepest, inside; /* of nested done calls; inside execute */
	struct outcome end;
};

static void chain_init(struct chain *c, struct bench *t, enum program_kind kind)
{
	*c = (struct chain){ .bench = t, .program = load(t, kind), .left = LINKS };
	c->args[0] = put(t, t->stream, 0);
	c->args[1] = put(t, t->stream, 1);
	outcome_init(&c->end);
}

static void chain_fini(struct chain *c)
{
	const struct sal_device_ops *ops = c->bench->ops;

	ops->free_buffer(c->args[0]);
	ops->free_buffer(c->args[1]);
	ops->unload(c->program);
}

/* Waits until the chain has ended, and no thread uses it any more. Returns the code of the end. */
static int chain_wait(struct chain *c)
{
	int code = wait_for(&c->end, 1);

	while (atomic_load(&c->depth) > 0)
		(void)usleep(1000);
	return code;
}

/* Checks that the chain added LINKS times. */
static void chain_expect(struct chain *c)
{
	float data[LANES] = { 0 };

	assert_int_equal(get(c->bench, c->args[0], data, sizeof(data)), SAL_OK);
	for (int i = 0; i < LANES; i++)
		assert_true(data[i] == (float)i + LINKS * (float)(1 + i));
}

/* The output replaces its argument. Returns false after the last link. */
static bool chain_advance(struct chain *c)
{
	c->bench->ops->free_buffer(c->args[0]);
	c->args[0] = c->out;
	return --c->left > 0;
}

static void start_links(struct chain *c);

/* Executes again, unless this call is inside execute: then the caller of execute continues. */
static void on_link(void *ctx, int code, const char *message)
{
	struct chain *c = ctx;
	unsigned int depth = atomic_fetch_add(&c->depth, 1) + 1;

	if (depth > atomic_load(&c->deepest))
		atomic_store(&c->deepest, depth);
	if (code != SAL_OK) {
		note(&c->end, code, message);
	} else if (atomic_exchange(&c->phase, ENDED) == RETURNED) {
		if (chain_advance(c))
			start_links(c);
		else
			note(&c->end, SAL_OK, "");
	} else {
		atomic_fetch_add(&c->inside, 1);
	}
	atomic_fetch_sub(&c->depth, 1);
}

/*
 * A loop, not a recursion: after an iteration that ends inside the call, the loop starts the next
 * one.
 */
static void start_links(struct chain *c)
{
	struct sal_execution x = {
		.args = c->args,
		.arg_count = 2,
		.outputs = &c->out,
		.output_count = 1,
		.done = on_link,
		.done_ctx = c,
	};
	struct sal_err err = { 0 };

	do {
		atomic_store(&c->phase, IN_EXECUTE);
		if (c->bench->ops->execute(c->program, &x, &err) < 0) {
			note(&c->end, (int)err.code, err.text);
			return;
		}
		if (atomic_exchange(&c->phase, RETURNED) != ENDED)
			return;
	} while (chain_advance(c));
	note(&c->end, SAL_OK, "");
}

/*
 * A device that declares can_execute_in_done supports it: a thousand iterations, each started by
 * the done function of the previous one.
 */
static void iterations_chain_from_within_done(void **state)
{
	static const enum program_kind kinds[] = { ADD, COSTLY };
	struct bench *t = *state;
	struct chain chains[2];

	assert_int_equal(t->ops->can_execute_in_done(t->device), t->subject->chains);
	if (!t->subject->chains)
		return; /* the other test covers these devices */
	for (size_t i = 0; i < 2; i++) {
		struct chain *c = &chains[i];

		chain_init(c, t, kinds[i]);
		start_links(c);
		if (chain_wait(c) != SAL_OK)
			fail_msg("%u links left: %s", c->left, c->end.text);
		/* Nesting on one thread: in execute, in done. */
		assert_in_range(atomic_load(&c->deepest), 1, 2);
		if (t->subject->runs_inside)
			assert_int_equal(atomic_load(&c->inside), LINKS);
	}
	/* A download last: after it the stream may be busy for a moment, and run nothing inside. */
	for (size_t i = 0; i < 2; i++) {
		chain_expect(&chains[i]);
		chain_fini(&chains[i]);
	}
}

/* All devices support this: done only wakes a thread, which starts the next iteration. */
static void iterations_chain_by_waking(void **state)
{
	struct bench *t = *state;
	struct sal_execution x;
	struct outcome done;
	struct chain c;

	chain_init(&c, t, ADD);
	x = pair(c.args, &c.out, 1, &done);
	for (unsigned int i = 1; i <= LINKS; i++) {
		fine(t, t->ops->execute(c.program, &x, &t->err));
		assert_int_equal(wait_for(&done, i), SAL_OK);
		(void)chain_advance(&c);
	}
	assert_int_equal(told(&done), LINKS);
	chain_expect(&c);
	chain_fini(&c);
}

/* Another thread uses the device during a call of done. */
struct other {
	struct bench *bench;
	struct sal_loaded *program;
	struct sal_buffer *args[2];
	struct sal_buffer *out;
	struct outcome wanted, finished, done;
	int rc;
};

static void *use_device(void *arg)
{
	struct other *o = arg;
	struct bench *t = o->bench;
	struct sal_buffer *b = NULL, *copy = NULL;
	struct sal_execution x = pair(o->args, &o->out, 1, &o->done);
	const float data[LANES] = { 0 };
	const int64_t dims[] = { LANES };
	const struct sal_array array = { .type = F32, .rank = 1, .dims = dims };

	(void)wait_for(&o->wanted, 1);
	o->rc = t->ops->upload(t->stream, &array, data, SAL_UPLOAD_COPY, NULL, NULL, &b, NULL);
	if (o->rc >= 0)
		o->rc = t->ops->copy(b, 0, &copy, NULL);
	if (o->rc >= 0)
		o->rc = t->ops->execute(o->program, &x, NULL);
	t->ops->free_buffer(copy);
	t->ops->free_buffer(b);
	note(&o->finished, SAL_OK, "");
	return NULL;
}

/*
 * Blocks, which a done function must not do: only this shows that the device holds no lock during
 * the call.
 */
static void let_other_finish(void *ctx, int code, const char *message)
{
	struct other *o = ctx;

	note(&o->wanted, code, message);
	(void)wait_for(&o->finished, 1);
}

static void done_holds_no_lock(void **state)
{
	struct bench *t = *state;
	struct other o = { .bench = t, .program = load(t, ADD) };
	pthread_t thread;

	o.args[0] = put(t, t->stream, 0);
	o.args[1] = put(t, t->stream, 1);
	outcome_init(&o.wanted);
	outcome_init(&o.finished);
	assert_int_equal(pthread_create(&thread, NULL, use_device, &o), 0);
	fine(t, t->ops->when_ready(o.args[0], let_other_finish, &o, &t->err));
	pthread_join(thread, NULL);
	assert_int_equal(told(&o.finished), 1);
	assert_int_equal(o.rc, SAL_OK);
	assert_int_equal(wait_for(&o.done, 1), SAL_OK);
	expect(t, o.out, 0.5F, 2);
	t->ops->free_buffer(o.out);
	t->ops->free_buffer(o.args[0]);
	t->ops->free_buffer(o.args[1]);
	t->ops->unload(o.program);
}

/* The bytes of an upload that the vendor may use in place are not the heap's: nobody copies them. */
static void shared_memory_stays(void **state)
{
	_Alignas(64) float shared[LANES] = { 5, 6, 7, 8 };
	struct bench *t = *state;
	const int64_t dims[] = { LANES };
	const struct sal_array array = { .type = F32, .rank = 1, .dims = dims };
	struct sal_buffer *b = NULL, *moved = NULL;
	struct sal_stream *other;
	struct sal_saved *saved;
	struct outcome released;

	outcome_init(&released);
	fine(t, t->ops->upload(t->stream, &array, shared, SAL_UPLOAD_ALIAS, note, &released, &b,
			       &t->err));
	fine(t, t->ops->leave(b, &saved, &t->err));
	fine(t, t->ops->await_saved(saved, &t->err));
	assert_ptr_equal(t->ops->saved_bytes(saved).at, shared);
	fine(t, t->ops->empty(b));
	assert_true(shared[3] == 8);
	fine(t, t->ops->refill(b, saved, &t->err));
	expect(t, b, 5, 1);

	fine(t, t->ops->open_stream(t->device, 0, &other, &t->err));
	fine(t, t->ops->leave(b, &saved, &t->err));
	fine(t, t->ops->await_saved(saved, &t->err));
	fine(t, t->ops->restore(other, saved, &moved, &t->err));
	t->ops->free_buffer(b);
	assert_int_equal(wait_for(&released, 1), SAL_OK);
	memset(shared, 0, sizeof(shared));
	expect(t, moved, 5, 1);
	t->ops->free_buffer(moved);
	t->ops->close_stream(other);
}

/* All of them */

#define ON_BENCH(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)

static int run_suite(const struct subject *subject)
{
	struct CMUnitTest tests[] = {
		ON_BENCH(facts_are_sane),
		ON_BENCH(nothing_is_closed),
		ON_BENCH(streams_come_and_go),
		ON_BENCH(copied_data_can_be_reused),
		ON_BENCH(aliased_data_is_released),
		ON_BENCH(aliased_data_outlives_its_buffer),
		ON_BENCH(all_types_make_the_round_trip),
		ON_BENCH(all_shapes_make_the_round_trip),
		ON_BENCH(paged_buffers_can_be_donated),
		ON_BENCH(paged_buffers_keep_their_order),
		ON_BENCH(many_buffers_are_saved_at_once),
		ON_BENCH(paged_buffers_change_streams),
		ON_BENCH(adopted_buffers_change_streams),
		ON_BENCH(adopted_aliases_stay_unchanged),
		ON_BENCH(saved_bytes_can_be_read),
		ON_BENCH(empty_arrays_need_no_address),
		ON_BENCH(copies_stand_alone),
		ON_BENCH(arrays_go_to_other_memories),
		ON_BENCH(copies_can_be_donated),
		ON_BENCH(buffers_tell_when_ready),
		ON_BENCH(wrong_sizes_are_refused),
		ON_BENCH(wrong_arrays_are_refused),
		ON_BENCH(thousands_of_buffers_leave_nothing),
		ON_BENCH(programs_are_described),
		ON_BENCH(broken_programs_are_refused),
		ON_BENCH(broken_images_are_refused),
		ON_BENCH(images_load_on_another_stream),
		ON_BENCH(iterations_compute),
		ON_BENCH(outputs_can_be_used_at_once),
		ON_BENCH(many_arguments_fit),
		ON_BENCH(donated_arguments_are_consumed),
		ON_BENCH(kept_arguments_are_not_consumed),
		ON_BENCH(aliased_data_is_not_written),
		ON_BENCH(errors_spread),
		ON_BENCH(wrong_iterations_are_refused),
		ON_BENCH(streams_run_side_by_side),
		ON_BENCH(tier_1_computes_at_low_priority),
		ON_BENCH(a_stream_changes_its_tier),
		ON_BENCH(busy_time_belongs_to_its_stream),
		ON_BENCH(memory_is_counted),
		ON_BENCH(memory_has_a_limit),
		ON_BENCH(iterations_chain_by_waking),
		ON_BENCH(iterations_chain_from_within_done),
		ON_BENCH(done_holds_no_lock),
	};

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tests[i].initial_state = (void *)subject;
	return _cmocka_run_group_tests(subject->name, tests, sizeof(tests) / sizeof(tests[0]), NULL,
				       NULL);
}

/* The heap, once started, stays. */
static int run_with_heap(const struct subject *subject)
{
	struct CMUnitTest tests[] = { ON_BENCH(shared_memory_stays) };

	tests[0].initial_state = (void *)subject;
	if (!sal_heap_start()) {
		print_message("SKIPPED: pjrt, with the heap: there are no addresses for it\n");
		return 0;
	}
	return _cmocka_run_group_tests("pjrt, with the heap", tests, 1, NULL, NULL);
}

/*
 * The discrete device calls itself "cpu" or not, reports a lack of memory early or late, and has
 * fast or slow transfers. Each of its errors in use aborts the process.
 */
static int run_discrete(void)
{
#define LIMIT "memory_limit=67108864"
	static const struct {
		const char *name;
		const char *options[SAL_PLUGIN_OPTIONS_MAX];
		bool fails_early;
	} devices[] = {
		{ "discrete", { LIMIT }, true },
		{ "discrete, as cpu", { LIMIT, "platform=cpu", "late_errors=true" }, false },
		{ "discrete, slow",
		  { LIMIT, "bandwidth=1000000000", "visible_devices:ints=0" },
		  true },
	};
	int failed = 0;

	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		const struct subject discrete = {
			.name = devices[i].name,
			.ops = &sal_device_pjrt,
			.compiler = &sal_compiler_pjrt,
			.config = { .plugin_path = SAL_TEST_DISCRETE,
				    .plugin_options = devices[i].options },
			.program = pjrt_program,
			.options = { compile_options, sizeof(compile_options) },
			.copies = true,
			.fails_early = devices[i].fails_early,
			.limit_bytes = 67108864,
		};

		failed += run_suite(&discrete);
	}
	return failed;
}

int main(void)
{
	static const struct {
		const char *path;
		bool runs_inside, chains;
	} fakes[] = { { "fake", false, false },
		      { "fake:chained", false, true },
		      { "fake:inline", true, false },
		      { "fake:inline,chained", true, true },
		      { "fake:strict", false, false } };
	const struct subject pjrt = {
		.name = "pjrt",
		.ops = &sal_device_pjrt,
		.compiler = &sal_compiler_pjrt,
		.config = { .plugin_path = SAL_PJRT_PLUGIN },
		.program = pjrt_program,
		.options = { compile_options, sizeof(compile_options) },
		.chains = true, /* XLA:CPU */
	};
	int failed = 0;

	for (size_t i = 0; i < sizeof(fakes) / sizeof(fakes[0]); i++) {
		const struct subject fake = {
			.name = fakes[i].path,
			.ops = &sal_device_fake,
			.compiler = &sal_compiler_fake,
			.config = { .plugin_path = fakes[i].path, .memory_bytes = 1 << 24 },
			.program = fake_program,
			.runs_inside = fakes[i].runs_inside,
			.chains = fakes[i].chains,
		};

		failed += run_suite(&fake);
	}
	if (access(SAL_PJRT_PLUGIN, R_OK) < 0) {
		print_message("SKIPPED: pjrt: there is no %s\n", SAL_PJRT_PLUGIN);
		return failed;
	}
	if (!can_watch_plugins()) {
		print_message("SKIPPED: pjrt: under the thread sanitizer\n");
		return failed;
	}
	return failed + run_suite(&pjrt) + run_discrete() + run_with_heap(&pjrt);
}
