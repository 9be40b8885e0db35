/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: bytes to the device and back, in every shape, and the events of transfers. */
#include "support/plugin_host.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

#define MB (UINT64_C(1) << 20)

/* Up and down */

/* Fills in bytes that depend on their offset, within the range of the type. */
static void fill(unsigned char *data, size_t size, PJRT_Buffer_Type type)
{
	size_t i;

	for (i = 0; i < size; i++)
		data[i] = (unsigned char)(i * 7 + 3);
	for (i = 0; i < size; i++) {
		if (type == PJRT_Buffer_Type_PRED)
			data[i] &= 1;
		if (type == PJRT_Buffer_Type_U4 || type == PJRT_Buffer_Type_F4E2M1FN)
			data[i] &= 15;
		if (type == PJRT_Buffer_Type_U2)
			data[i] &= 3;
		if (type == PJRT_Buffer_Type_S4) /* -8 to 7 */
			data[i] = (unsigned char)((data[i] & 15) - 8);
		if (type == PJRT_Buffer_Type_S2)
			data[i] = (unsigned char)((data[i] & 3) - 2);
	}
}

static size_t type_bytes(PJRT_Buffer_Type type)
{
	switch (type) {
	case PJRT_Buffer_Type_S16:
	case PJRT_Buffer_Type_U16:
	case PJRT_Buffer_Type_F16:
	case PJRT_Buffer_Type_BF16:
		return 2;
	case PJRT_Buffer_Type_S32:
	case PJRT_Buffer_Type_U32:
	case PJRT_Buffer_Type_F32:
		return 4;
	case PJRT_Buffer_Type_S64:
	case PJRT_Buffer_Type_U64:
	case PJRT_Buffer_Type_F64:
	case PJRT_Buffer_Type_C64:
		return 8;
	case PJRT_Buffer_Type_C128:
		return 16;
	default:
		return 1;
	}
}

/*
 * Whether the downloaded bytes equal the uploaded ones. Sub-byte types compare by their low bits.
 */
static bool same(const unsigned char *a, const unsigned char *b, size_t size, PJRT_Buffer_Type type)
{
	unsigned char mask = 0xff;
	size_t i;

	if (type == PJRT_Buffer_Type_S4 || type == PJRT_Buffer_Type_U4 ||
	    type == PJRT_Buffer_Type_F4E2M1FN)
		mask = 15;
	if (type == PJRT_Buffer_Type_S2 || type == PJRT_Buffer_Type_U2)
		mask = 3;
	for (i = 0; i < size; i++)
		if ((a[i] & mask) != (b[i] & mask))
			return false;
	return true;
}

static void every_type_goes_up_and_down(void **state)
{
	static const int64_t shapes[][3] = { { 1, 1, 1 }, { 3, 5, 7 }, { 2, 3, 4096 } };
	struct bed *t = *state;
	int type;
	size_t s;

	for (type = PJRT_Buffer_Type_PRED; type <= PJRT_Buffer_Type_F4E2M1FN; type++) {
		if (type == PJRT_Buffer_Type_TOKEN)
			continue;
		for (s = 0; s < 3; s++) {
			const int64_t *dims = shapes[s];
			size_t size = (size_t)(dims[0] * dims[1] * dims[2]) *
				      type_bytes((PJRT_Buffer_Type)type);
			unsigned char *up = malloc(size), *down = calloc(1, size);
			struct array a = {
				.type = (PJRT_Buffer_Type)type, .dims = dims, .rank = 3, .data = up
			};
			PJRT_Buffer *b;

			fill(up, size, a.type);
			b = put(t, &a);
			{
				ARGS(Buffer_ElementType, e, .buffer = b);
				ARGS(Buffer_ToHostBuffer, q, .src = b);

				ok(api->PJRT_Buffer_ElementType(&e));
				assert_int_equal(e.type, type);
				ok(api->PJRT_Buffer_ToHostBuffer(&q));
				assert_int_equal(q.dst_size, size);
			}
			get(b, down, size);
			if (!same(up, down, size, a.type))
				fail_msg("type %d, shape %zu", type, s);
			buffer_destroy(b);
			free(up);
			free(down);
		}
	}
}

static void every_semantics_is_the_same(void **state)
{
	struct bed *t = *state;
	int semantics;

	for (semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
	     semantics <= PJRT_HostBufferSemantics_kMutableZeroCopy; semantics++) {
		size_t n = 5000;
		float *data = malloc(n * sizeof(float)), *back = malloc(n * sizeof(float));
		const int64_t dims[] = { (int64_t)n };
		struct array a = { .type = F32,
				   .dims = dims,
				   .rank = 1,
				   .data = data,
				   .semantics = (PJRT_HostBufferSemantics)semantics };
		PJRT_Event *done;
		PJRT_Buffer *b;
		size_t i;

		for (i = 0; i < n; i++)
			data[i] = (float)i;
		ok(try_put(t, &a, &b, &done));
		if (semantics == PJRT_HostBufferSemantics_kImmutableOnlyDuringCall)
			memset(data, 0xff, n * sizeof(float));
		assert_int_equal(await(done), 0);
		memset(data, 0xff, n * sizeof(float)); /* the caller may write to the data again */
		get(b, back, n * sizeof(float));
		for (i = 0; i < n; i++)
			assert_true(back[i] == (float)i);
		buffer_destroy(b);
		free(data);
		free(back);
	}
}

struct stride_case {
	const char *name;
	int64_t dims[3], strides[3];
	size_t rank, start; /* in elements of int32 */
};

static void strides_are_honoured(void **state)
{
	static const struct stride_case cases[] = {
		{ "dense", { 2, 3, 4 }, { 48, 16, 4 }, 3, 0 },
		{ "transposed", { 4, 3 }, { 4, 16 }, 2, 0 },
		{ "every other", { 3, 2 }, { 16, 8 }, 2, 0 },
		{ "column-major", { 2, 3, 4 }, { 4, 8, 24 }, 3, 0 },
		{ "repeated", { 5, 4 }, { 0, 4 }, 2, 0 },
		{ "all one", { 3, 3, 3 }, { 0, 0, 0 }, 3, 7 },
		{ "backwards", { 12 }, { -4 }, 1, 11 },
		{ "upside down", { 3, 4 }, { -16, 4 }, 2, 8 },
		{ "both", { 3, 4 }, { -16, -4 }, 2, 11 },
		{ "backwards, every third", { 4 }, { -12 }, 1, 23 },
		{ "of one", { 1, 1, 1 }, { 999, -999, 12345 }, 3, 5 },
		{ "none", { 0, 4 }, { -16, 4 }, 2, 0 },
	};
	struct bed *t = *state;
	int32_t data[24];
	size_t i, k;

	for (k = 0; k < 24; k++)
		data[k] = (int32_t)(1000 + k);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct stride_case *c = &cases[i];
		struct array a = { .type = PJRT_Buffer_Type_S32,
				   .dims = c->dims,
				   .rank = c->rank,
				   .data = data + c->start,
				   .strides = c->strides };
		int32_t down[64] = { 0 };
		int64_t n = 1, at;
		PJRT_Buffer *b = put(t, &a);

		for (k = 0; k < c->rank; k++)
			n *= c->dims[k];
		get(b, down, (size_t)n * 4);
		for (at = 0; at < n; at++) {
			int64_t rest = at, offset = 0;

			for (k = c->rank; k-- > 0; rest /= c->dims[k])
				offset += rest % c->dims[k] * c->strides[k];
			if (down[at] != data[(int64_t)c->start + offset / 4])
				fail_msg("%s: element %d", c->name, (int)at);
		}
		buffer_destroy(b);
	}
}

/* Strides of a large array, which goes through the arena. */
static void large_strides_are_honoured(void **state)
{
	struct bed *t = *state;
	const int64_t n = 1500, dims[] = { n, n }, strides[] = { 4, n * 4 };
	int32_t *data = malloc((size_t)(n * n) * 4), *down = malloc((size_t)(n * n) * 4);
	int64_t i;
	PJRT_Buffer *b;

	for (i = 0; i < n * n; i++)
		data[i] = (int32_t)i;
	b = put(t, &(struct array){ .type = PJRT_Buffer_Type_S32,
				    .dims = dims,
				    .rank = 2,
				    .data = data,
				    .strides = strides });
	get(b, down, (size_t)(n * n) * 4);
	for (i = 0; i < n * n; i++)
		assert_int_equal(down[i], i % n * n + i / n);
	buffer_destroy(b);
	free(data);
	free(down);
}

static void nonsense_is_refused(void **state)
{
	struct bed *t = *state;
	const int64_t negative[] = { 2, -3 }, hidden[] = { 0, -1 }, vast[] = { INT64_MAX, 8 };
	const int64_t dims[] = { 2, 2 }, strides[] = { 4 };
	int64_t many[80];
	const float data[8] = { 0 };
	struct array a = { .type = F32, .rank = 2, .data = data };
	PJRT_Buffer *b;
	size_t i;

	a.dims = negative;
	refused(try_put(t, &a, &b, NULL), SAL_INVALID_ARGUMENT, NULL);
	a.dims = hidden;
	refused(try_put(t, &a, &b, NULL), SAL_INVALID_ARGUMENT, NULL);
	a.dims = vast;
	refused(try_put(t, &a, &b, NULL), SAL_INVALID_ARGUMENT, NULL);
	a.dims = dims;
	a.type = PJRT_Buffer_Type_TOKEN;
	refused(try_put(t, &a, &b, NULL), SAL_INVALID_ARGUMENT, NULL);
	a.type = PJRT_Buffer_Type_INVALID;
	refused(try_put(t, &a, &b, NULL), SAL_INVALID_ARGUMENT, NULL);
	a.type = (PJRT_Buffer_Type)12345;
	refused(try_put(t, &a, &b, NULL), SAL_INVALID_ARGUMENT, NULL);
	for (i = 0; i < 80; i++)
		many[i] = 1;
	a = (struct array){ .type = F32, .dims = many, .rank = 80, .data = data };
	refused(try_put(t, &a, &b, NULL), SAL_INVALID_ARGUMENT, NULL);
	refused(CALL(Client_BufferFromHostBuffer, .client = t->client, .data = data, .type = F32,
		     .dims = dims, .num_dims = 2, .byte_strides = strides, .num_byte_strides = 1,
		     .device = t->device),
		SAL_INVALID_ARGUMENT, NULL);
	b = put_vector(t, 1); /* the client still works */
	expect_vector(b, 1, 1);
	buffer_destroy(b);
}

/* An array larger than any memory: the call fails, and the client still works. */
static void too_much_is_refused(void **state)
{
	struct bed *t = *state;
	const int64_t dims[] = { INT64_C(1) << 44 };
	const float one = 1;
	const int64_t still[] = { 0 };
	PJRT_Buffer *b;

	assert_true(code_of(try_put(t,
				    &(struct array){ .type = F32,
						     .dims = dims,
						     .rank = 1,
						     .data = &one,
						     .strides = still },
				    &b, NULL)) == SAL_RESOURCE_EXHAUSTED);
	b = put_vector(t, 1);
	expect_vector(b, 1, 1);
	buffer_destroy(b);
}

static void scalars_and_nothing(void **state)
{
	static const int64_t empty[][2] = { { 0, 5 }, { 5, 0 }, { 0, 0 } };
	struct bed *t = *state;
	const double up = 2.5;
	double down = 0;
	char dummy = 'x';
	size_t i;
	PJRT_Buffer *b = put(t, &(struct array){ .type = PJRT_Buffer_Type_F64, .data = &up });

	{
		ARGS(Buffer_Dimensions, d, .buffer = b);

		ok(api->PJRT_Buffer_Dimensions(&d));
		assert_int_equal(d.num_dims, 0);
	}
	get(b, &down, sizeof(down));
	assert_true(down == 2.5);
	buffer_destroy(b);
	for (i = 0; i < 3; i++) {
		b = put(t, &(struct array){
				   .type = F32, .dims = empty[i], .rank = 2, .data = &dummy });
		{
			ARGS(Buffer_ToHostBuffer, q, .src = b);
			ARGS(Buffer_OnDeviceSizeInBytes, s, .buffer = b);

			ok(api->PJRT_Buffer_ToHostBuffer(&q));
			assert_int_equal(q.dst_size, 0);
			ok(api->PJRT_Buffer_OnDeviceSizeInBytes(&s));
			assert_int_equal(s.on_device_size_in_bytes, 0);
		}
		get(b, &dummy, 0); /* any pointer, as the wrapper passes one */
		get(b, &dummy, 1);
		assert_int_equal(dummy, 'x');
		buffer_destroy(b);
	}
}

static void a_big_one(struct bed *t, uint64_t bytes)
{
	const int64_t dims[] = { (int64_t)(bytes / 8) };
	uint64_t *up = malloc(bytes), *down = malloc(bytes), i;
	PJRT_Buffer *b;

	for (i = 0; i < bytes / 8; i++)
		up[i] = i * UINT64_C(0x9e3779b97f4a7c15);
	b = put(t, &(struct array){
			   .type = PJRT_Buffer_Type_U64, .dims = dims, .rank = 1, .data = up });
	get(b, down, bytes);
	assert_memory_equal(up, down, bytes);
	buffer_destroy(b);
	free(up);
	free(down);
}

static void big_ones(void **state)
{
	host_deadline(120);
	a_big_one(*state, 4096); /* the largest that fits into a record */
	a_big_one(*state, 4096 + 8);
	a_big_one(*state, 64 * MB);
	a_big_one(*state, 70 * MB);
	a_big_one(*state, 200 * MB);
}

static void many_at_once(void **state)
{
	enum {
		COUNT = 10000,
		SMALL = 16,
		LARGE = 1500 /* floats: too large for a record */
	};
	struct bed *t = *state;
	PJRT_Buffer **all = calloc(COUNT, sizeof(PJRT_Buffer *));
	float data[LARGE];
	int i, k;

	host_deadline(120);
	for (i = 0; i < COUNT; i++) {
		int64_t dims[] = { i % 4 == 0 ? LARGE : SMALL };

		for (k = 0; k < dims[0]; k++)
			data[k] = (float)(i + k);
		all[i] = put(t,
			     &(struct array){ .type = F32, .dims = dims, .rank = 1, .data = data });
	}
	for (i = COUNT - 1; i >= 0; i -= 7) {
		int n = i % 4 == 0 ? LARGE : SMALL;

		get(all[i], data, (size_t)n * sizeof(float));
		for (k = 0; k < n; k++)
			assert_true(data[k] == (float)(i + k));
	}
	for (i = 0; i < COUNT; i += 2)
		buffer_destroy(all[i]);
	for (i = 1; i < COUNT; i += 2)
		buffer_destroy(all[i]);
	free(all);
}

/* Deleted uploads leave room for later ones: the arena does not grow. */
static void the_arena_is_reused(void **state)
{
	struct bed *t = *state;
	size_t bytes = 8 * MB;
	const int64_t dims[] = { (int64_t)bytes };
	char *data = calloc(1, bytes);
	size_t before, after;
	uint64_t mapped;
	int i;

	host_deadline(120);
	(void)host_mapped_bytes("memfd:", &before);
	for (i = 0; i < 128; i++) { /* 1 GB */
		PJRT_Buffer *b = put(t, &(struct array){ .type = PJRT_Buffer_Type_U8,
							 .dims = dims,
							 .rank = 1,
							 .data = data });

		if (i % 4 == 0)
			get(b, data, bytes);
		buffer_destroy(b);
	}
	mapped = host_mapped_bytes("memfd:", &after);
	if (after > before + 3)
		fail_msg("%zu segments, %zu MB", after, (size_t)(mapped / MB));
	free(data);
}

/* Events */

struct callback {
	pthread_mutex_t lock;
	pthread_cond_t told;
	int count, code;
	PJRT_Event *destroy; /* destroyed by the callback itself */
};

static void callback_init(struct callback *c)
{
	memset(c, 0, sizeof(*c));
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->told, NULL);
}

static void on_ready(PJRT_Error *error, void *arg)
{
	struct callback *c = arg;
	int code = code_of(error);

	if (c->destroy)
		(void)CALL(Event_Destroy, .event = c->destroy);
	pthread_mutex_lock(&c->lock);
	c->count++;
	c->code = code;
	pthread_cond_signal(&c->told);
	pthread_mutex_unlock(&c->lock);
}

static int callback_wait(struct callback *c)
{
	int code;

	pthread_mutex_lock(&c->lock);
	while (c->count == 0)
		pthread_cond_wait(&c->told, &c->lock);
	assert_int_equal(c->count, 1);
	code = c->code;
	pthread_mutex_unlock(&c->lock);
	return code;
}

static void when_ready(PJRT_Event *e, struct callback *c)
{
	ok(CALL(Event_OnReady, .event = e, .callback = on_ready, .user_arg = c));
}

static bool is_ready(PJRT_Event *e)
{
	ARGS(Event_IsReady, a, .event = e);

	ok(api->PJRT_Event_IsReady(&a));
	return a.is_ready;
}

static PJRT_Buffer *put_with_event(struct bed *t, PJRT_Event **out)
{
	static const float data[LANES] = { 1, 2, 3, 4 };
	static const int64_t dims[] = { LANES };
	PJRT_Buffer *b;

	ok(try_put(t, &(struct array){ .type = F32, .dims = dims, .rank = 1, .data = data }, &b,
		   out));
	return b;
}

static void done_events_live_in_any_order(void **state)
{
	struct bed *t = *state;
	struct callback c[4];
	PJRT_Event *e;
	PJRT_Buffer *b;
	int i;

	for (i = 0; i < 4; i++)
		callback_init(&c[i]);
	/* The event is destroyed right after its callback is registered. */
	b = put_with_event(t, &e);
	when_ready(e, &c[0]);
	ok(CALL(Event_Destroy, .event = e));
	buffer_destroy(b);
	assert_int_equal(callback_wait(&c[0]), 0);
	/* The event is destroyed by its own callback. */
	b = put_with_event(t, &e);
	c[1].destroy = e;
	when_ready(e, &c[1]);
	assert_int_equal(callback_wait(&c[1]), 0);
	/* The buffer is destroyed first. */
	b = (buffer_destroy(b), put_with_event(t, &e));
	buffer_destroy(b);
	when_ready(e, &c[2]);
	when_ready(e, &c[3]);
	assert_int_equal(callback_wait(&c[2]), 0);
	assert_int_equal(callback_wait(&c[3]), 0);
	assert_true(is_ready(e));
	ok(CALL(Event_Error, .event = e));
	ok(CALL(Event_Await, .event = e));
	assert_int_equal(await(e), 0);
	/* The event is never used. */
	b = put_with_event(t, &e);
	ok(CALL(Event_Destroy, .event = e));
	buffer_destroy(b);
}

/* The same for pending events, of an iteration that takes long. */
static void pending_events_live_in_any_order(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p;
	PJRT_Buffer *b[6];
	PJRT_Event *e[6];
	struct callback c[6];
	int i;

	if (!t->subject->is_fake)
		skip();
	p = compile_text(t, "fake 1\noutput f32 4 = fill 0\ntime 100000000\n");
	for (i = 0; i < 6; i++) {
		callback_init(&c[i]);
		ok(try_execute(&(struct run){ .loaded = p, .outputs = &b[i] }));
		e[i] = ready_event(b[i]);
	}
	assert_false(is_ready(e[5]));
	refused(CALL(Event_Error, .event = e[5]), SAL_FAILED_PRECONDITION, NULL);
	when_ready(e[0], &c[0]);
	ok(CALL(Event_Destroy, .event = e[0]));
	buffer_destroy(b[0]);
	c[1].destroy = e[1];
	when_ready(e[1], &c[1]);
	when_ready(e[2], &c[2]);
	buffer_destroy(b[2]);
	ok(CALL(Event_Destroy, .event = e[3]));
	assert_int_equal(callback_wait(&c[0]), 0);
	assert_int_equal(callback_wait(&c[1]), 0);
	assert_int_equal(callback_wait(&c[2]), 0);
	ok(CALL(Event_Error, .event = e[2]));
	ok(CALL(Event_Destroy, .event = e[2]));
	assert_int_equal(await(e[4]), 0);
	assert_int_equal(await(e[5]), 0);
	for (i = 0; i < 6; i++)
		if (i != 0 && i != 2)
			buffer_destroy(b[i]);
	loaded_destroy(p);
}

/* A callback may make any call that does not wait. */
struct nested {
	struct callback done;
	struct bed *bed;
	PJRT_Buffer *other; /* pending */
	PJRT_Event *other_ready;
	float data[LANES];
	struct callback downloaded;
	bool was_ready;
};

static void on_ready_goes_on(PJRT_Error *error, void *arg)
{
	struct nested *n = arg;
	PJRT_Buffer *b = put_vector(n->bed, 1);
	ARGS(Buffer_ToHostBuffer, a, .src = b, .dst = n->data, .dst_size = sizeof(n->data));

	n->was_ready = is_ready(n->other_ready);
	if (code_of(api->PJRT_Buffer_ToHostBuffer(&a)) == 0) {
		when_ready(a.event, &n->downloaded);
		(void)CALL(Event_Destroy, .event = a.event);
	}
	buffer_destroy(b);
	on_ready(error, &n->done);
}

static void callbacks_may_go_on(void **state)
{
	struct bed *t = *state;
	struct nested n = { .bed = t };
	PJRT_LoadedExecutable *p;
	PJRT_Buffer *first;
	PJRT_Event *e;

	if (!t->subject->is_fake)
		skip();
	host_deadline(20);
	callback_init(&n.done);
	callback_init(&n.downloaded);
	p = compile_text(t, "fake 1\noutput f32 4 = fill 0\ntime 100000000\n");
	ok(try_execute(&(struct run){ .loaded = p, .outputs = &first }));
	ok(try_execute(&(struct run){ .loaded = p, .outputs = &n.other }));
	n.other_ready = ready_event(n.other);
	e = ready_event(first);
	ok(CALL(Event_OnReady, .event = e, .callback = on_ready_goes_on, .user_arg = &n));
	assert_int_equal(callback_wait(&n.done), 0);
	assert_false(n.was_ready);
	assert_int_equal(callback_wait(&n.downloaded), 0);
	assert_true(n.data[3] == 4);
	assert_int_equal(await(n.other_ready), 0);
	ok(CALL(Event_Destroy, .event = e));
	buffer_destroy(first);
	buffer_destroy(n.other);
	loaded_destroy(p);
}

static void events_outlive_the_client(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD);
	PJRT_Buffer *args[] = { put_vector(t, 1), put_vector(t, 2) }, *sum;
	PJRT_Event *done, *ready;

	ok(try_execute(&(struct run){
		.loaded = p, .args = args, .arg_count = 2, .outputs = &sum, .done = &done }));
	ready = ready_event(sum);
	assert_int_equal(ready_code(sum), 0);
	buffer_destroy(sum);
	buffer_destroy(args[0]);
	buffer_destroy(args[1]);
	loaded_destroy(p);
	client_destroy(t->client);
	t->client = NULL;
	assert_true(is_ready(done));
	assert_int_equal(await(done), 0);
	assert_int_equal(await(ready), 0);
}

/* Downloads */

static void download_sizes(void **state)
{
	struct bed *t = *state;
	PJRT_Buffer *b = put_vector(t, 1);
	float data[2 * LANES] = { 0 };
	ARGS(Buffer_ToHostBuffer, query, .src = b);

	ok(api->PJRT_Buffer_ToHostBuffer(&query));
	assert_int_equal(query.dst_size, 16);
	assert_null(query.event);
	refused(try_get(b, data, 15), SAL_INVALID_ARGUMENT, "15 bytes");
	refused(try_get(b, data, 0), SAL_INVALID_ARGUMENT, NULL);
	get(b, data, 16);
	get(b, data, 32);
	assert_true(data[3] == 4 && data[4] == 0);
	buffer_destroy(b);
}

static PJRT_Error *get_with_layout(PJRT_Buffer *b, void *dst, size_t size, const int64_t *order,
				   size_t rank)
{
	PJRT_Buffer_MemoryLayout layout = {
		.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE,
		.type = PJRT_Buffer_MemoryLayout_Type_Tiled,
		.tiled = { .struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE,
			   .minor_to_major = order,
			   .minor_to_major_size = rank },
	};
	ARGS(Buffer_ToHostBuffer, a, .src = b, .dst = dst, .dst_size = size,
	     .host_layout = &layout);
	PJRT_Error *error = api->PJRT_Buffer_ToHostBuffer(&a);

	return error ? error : await_error(a.event);
}

static void download_with_a_layout(void **state)
{
	static const int64_t orders[][3] = { { 2, 1, 0 }, { 0, 1, 2 }, { 1, 2, 0 }, { 2, 0, 1 } };
	static const int64_t bad[][3] = { { 0, 0, 0 }, { 0, 1, 3 }, { -1, 1, 0 }, { 1, 1, 0 } };
	struct bed *t = *state;
	const int64_t dims[] = { 30, 5, 20 };
	int32_t up[30 * 5 * 20], down[30 * 5 * 20];
	PJRT_Buffer *b;
	size_t i;

	for (i = 0; i < 3000; i++)
		up[i] = (int32_t)i;
	b = put(t, &(struct array){
			   .type = PJRT_Buffer_Type_S32, .dims = dims, .rank = 3, .data = up });
	for (i = 0; i < 4; i++) {
		int64_t strides[3], stride = 1, x, y, z;
		int k;

		for (k = 0; k < 3; k++) {
			strides[orders[i][k]] = stride;
			stride *= dims[orders[i][k]];
		}
		memset(down, 0xff, sizeof(down));
		ok(get_with_layout(b, down, sizeof(down), orders[i], 3));
		for (x = 0; x < 30; x++)
			for (y = 0; y < 5; y++)
				for (z = 0; z < 20; z++)
					assert_int_equal(down[x * strides[0] + y * strides[1] +
							      z * strides[2]],
							 (x * 5 + y) * 20 + z);
	}
	for (i = 0; i < 4; i++)
		refused(get_with_layout(b, down, sizeof(down), bad[i], 3), SAL_INVALID_ARGUMENT,
			NULL);
	assert_true(code_of(get_with_layout(b, down, sizeof(down), orders[0], 2)) != 0);
	buffer_destroy(b);
}

static PJRT_Error *get_raw(PJRT_Buffer *b, void *dst, int64_t offset, int64_t size)
{
	ARGS(Buffer_CopyRawToHost, a, .buffer = b, .dst = dst, .offset = offset,
	     .transfer_size = size);
	PJRT_Error *error = api->PJRT_Buffer_CopyRawToHost(&a);

	return error ? error : await_error(a.event);
}

static void raw_ranges(void **state)
{
	static const int64_t sizes[] = { 64, 20000 }; /* in a record, in the arena */
	struct bed *t = *state;
	size_t i;

	for (i = 0; i < 2; i++) {
		int64_t n = sizes[i], k;
		unsigned char *up = malloc((size_t)n), *down = calloc(1, (size_t)n);
		PJRT_Buffer *b;

		for (k = 0; k < n; k++)
			up[k] = (unsigned char)(k * 3);
		b = put(t,
			&(struct array){
				.type = PJRT_Buffer_Type_U8, .dims = &n, .rank = 1, .data = up });
		ok(get_raw(b, down, 0, n));
		assert_memory_equal(up, down, (size_t)n);
		memset(down, 0, (size_t)n);
		ok(get_raw(b, down, 10, 5));
		assert_memory_equal(down, up + 10, 5);
		assert_int_equal(down[5], 0);
		ok(get_raw(b, down, n - 1, 1));
		assert_int_equal(down[0], up[n - 1]);
		ok(get_raw(b, down, n, 0));
		ok(get_raw(b, down, 0, 0));
		refused(get_raw(b, down, 0, n + 1), SAL_INVALID_ARGUMENT, NULL);
		refused(get_raw(b, down, n, 1), SAL_INVALID_ARGUMENT, NULL);
		refused(get_raw(b, down, -1, 1), SAL_INVALID_ARGUMENT, NULL);
		refused(get_raw(b, down, 1, -1), SAL_INVALID_ARGUMENT, NULL);
		refused(get_raw(b, down, 1, INT64_MAX), SAL_INVALID_ARGUMENT, NULL);
		buffer_destroy(b);
		free(up);
		free(down);
	}
}

/* Facts, deletion, copies */

static void buffers_know_themselves(void **state)
{
	struct bed *t = *state;
	const int64_t dims[] = { 2, 3 };
	const int16_t data[6] = { 0 };
	PJRT_Buffer *b = put(
		t, &(struct array){
			   .type = PJRT_Buffer_Type_S16, .dims = dims, .rank = 2, .data = data });
	ARGS(Buffer_Dimensions, d, .buffer = b);
	ARGS(Buffer_UnpaddedDimensions, u, .buffer = b);
	ARGS(Buffer_DynamicDimensionIndices, y, .buffer = b);
	ARGS(Buffer_GetMemoryLayout, l, .buffer = b);
	ARGS(Buffer_OnDeviceSizeInBytes, s, .buffer = b);
	ARGS(Buffer_Device, device, .buffer = b);
	ARGS(Buffer_Memory, memory, .buffer = b);
	ARGS(Buffer_IsOnCpu, cpu, .buffer = b);

	ok(api->PJRT_Buffer_Dimensions(&d));
	ok(api->PJRT_Buffer_UnpaddedDimensions(&u));
	ok(api->PJRT_Buffer_DynamicDimensionIndices(&y));
	ok(api->PJRT_Buffer_GetMemoryLayout(&l));
	ok(api->PJRT_Buffer_OnDeviceSizeInBytes(&s));
	ok(api->PJRT_Buffer_Device(&device));
	ok(api->PJRT_Buffer_Memory(&memory));
	ok(api->PJRT_Buffer_IsOnCpu(&cpu));
	assert_int_equal(d.num_dims, 2);
	assert_memory_equal(d.dims, dims, sizeof(dims));
	assert_int_equal(u.num_dims, 2);
	assert_memory_equal(u.unpadded_dims, dims, sizeof(dims));
	assert_int_equal(y.num_dynamic_dims, 0);
	assert_int_equal(l.layout.type, PJRT_Buffer_MemoryLayout_Type_Tiled);
	assert_int_equal(l.layout.tiled.minor_to_major_size, 2);
	assert_int_equal(l.layout.tiled.minor_to_major[0], 1);
	assert_int_equal(l.layout.tiled.minor_to_major[1], 0);
	assert_int_equal(l.layout.tiled.num_tiles, 0);
	assert_int_equal(s.on_device_size_in_bytes, 12);
	assert_ptr_equal(device.device, t->device);
	assert_ptr_equal(memory.memory, t->memory);
	assert_int_equal(ready_code(b), 0);
	buffer_destroy(b);
}

static PJRT_Error *address_of(PJRT_Buffer *b, void **out)
{
	ARGS(Buffer_OpaqueDeviceMemoryDataPointer, a, .buffer = b);
	PJRT_Error *error = api->PJRT_Buffer_OpaqueDeviceMemoryDataPointer(&a);

	*out = a.device_memory_ptr;
	return error;
}

/* A buffer that is on the CPU must have an address. */
static void bytes_on_a_cpu_have_an_address(void **state)
{
	static const int64_t sizes[] = { 0, 16, 4096, 20000, 3 << 20 };
	struct bed *t = *state;
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		unsigned char *up = malloc((size_t)sizes[i] + 1);
		void *at = NULL, *again = NULL;
		PJRT_Buffer *b;

		fill(up, (size_t)sizes[i], PJRT_Buffer_Type_U8);
		b = put(t, &(struct array){ .type = PJRT_Buffer_Type_U8,
					    .dims = &sizes[i],
					    .rank = 1,
					    .data = up });
		{
			ARGS(Buffer_IsOnCpu, cpu, .buffer = b);
			ARGS(Buffer_UnsafePointer, p, .buffer = b);

			ok(api->PJRT_Buffer_IsOnCpu(&cpu));
			if (!cpu.is_on_cpu) {
				refused(address_of(b, &at), SAL_UNIMPLEMENTED, NULL);
				refused(api->PJRT_Buffer_UnsafePointer(&p), SAL_UNIMPLEMENTED,
					NULL);
				buffer_destroy(b);
				free(up);
				continue;
			}
			ok(CALL(Buffer_IncreaseExternalReferenceCount, .buffer = b));
			ok(address_of(b, &at));
			ok(address_of(b, &again));
			ok(api->PJRT_Buffer_UnsafePointer(&p));
			assert_ptr_equal(at, again);
			assert_true(p.buffer_pointer == (uintptr_t)at);
		}
		assert_memory_equal(at, up, (size_t)sizes[i]);
		ok(CALL(Buffer_Delete, .buffer = b)); /* the reference keeps the bytes valid */
		assert_memory_equal(at, up, (size_t)sizes[i]);
		ok(CALL(Buffer_DecreaseExternalReferenceCount, .buffer = b));
		assert_true(code_of(CALL(Buffer_DecreaseExternalReferenceCount, .buffer = b)) != 0);
		buffer_destroy(b);
		free(up);
	}
}

/* Frameworks destroy objects in any order when they exit. */
static void what_is_left_outlives_its_client(void **state)
{
	static const int64_t dims[] = { 20000 };
	struct bed *t = *state;
	unsigned char *up = malloc(20000);
	PJRT_LoadedExecutable *add = compile(t, PROGRAM_ADD);
	PJRT_Buffer *args[] = { put_vector(t, 1), put_vector(t, 10) }, *sum = NULL, *none = NULL,
		    *large;
	PJRT_Event *done = NULL;
	float data[LANES];
	void *at = NULL;
	int code;

	fill(up, 20000, PJRT_Buffer_Type_U8);
	large = put(t, &(struct array){
			       .type = PJRT_Buffer_Type_U8, .dims = dims, .rank = 1, .data = up });
	code = code_of(address_of(large, &at));
	ok(try_execute(&(struct run){
		.loaded = add, .args = args, .arg_count = 2, .outputs = &sum, .done = &done }));
	client_destroy(t->client);
	t->client = NULL;
	assert_true(code == SAL_UNIMPLEMENTED || memcmp(at, up, 20000) == 0);
	refused(try_get(args[0], data, sizeof(data)), SAL_UNAVAILABLE, NULL);
	refused(try_execute(&(struct run){
			.loaded = add, .args = args, .arg_count = 2, .outputs = &none }),
		SAL_UNAVAILABLE, NULL);
	(void)await(done);
	buffer_destroy(sum);
	buffer_destroy(args[0]);
	buffer_destroy(args[1]);
	loaded_destroy(add);
	buffer_destroy(large);
	free(up);
}

static void deleted_buffers_are_gone(void **state)
{
	struct bed *t = *state;
	PJRT_Buffer *b = put_vector(t, 1);
	float data[LANES];
	ARGS(Buffer_Dimensions, d, .buffer = b);

	assert_false(is_deleted(b));
	ok(CALL(Buffer_Delete, .buffer = b));
	assert_true(is_deleted(b));
	ok(CALL(Buffer_Delete, .buffer = b));
	refused(try_get(b, data, sizeof(data)), SAL_INVALID_ARGUMENT, "deleted");
	refused(get_raw(b, data, 0, 4), SAL_INVALID_ARGUMENT, "deleted");
	refused(CALL(Buffer_CopyToMemory, .buffer = b, .dst_memory = t->memory),
		SAL_INVALID_ARGUMENT, "deleted");
	refused(CALL(Buffer_CopyToDevice, .buffer = b, .dst_device = t->device),
		SAL_INVALID_ARGUMENT, "deleted");
	ok(api->PJRT_Buffer_Dimensions(&d));
	assert_int_equal(d.num_dims, 1);
	assert_int_equal(ready_code(b), 0);
	buffer_destroy(b);
}

/* A deleted buffer lives until its downloads end. The caller does not wait. */
static void deletion_lets_downloads_finish(void **state)
{
	struct bed *t = *state;
	size_t bytes = 32 * MB;
	const int64_t dims[] = { (int64_t)bytes };
	unsigned char *up = malloc(bytes), *down = calloc(1, bytes);
	int i;

	memset(up, 0x77, bytes);
	for (i = 0; i < 4; i++) {
		PJRT_Buffer *b = put(t, &(struct array){ .type = PJRT_Buffer_Type_U8,
							 .dims = dims,
							 .rank = 1,
							 .data = up });
		ARGS(Buffer_ToHostBuffer, a, .src = b, .dst = down, .dst_size = bytes);

		memset(down, 0, bytes);
		ok(api->PJRT_Buffer_ToHostBuffer(&a));
		if (i % 2)
			ok(CALL(Buffer_Delete, .buffer = b));
		buffer_destroy(b);
		assert_int_equal(await(a.event), 0);
		assert_memory_equal(up, down, bytes);
	}
	free(up);
	free(down);
}

static void copies_are_their_own(void **state)
{
	struct bed *t = *state;
	PJRT_Buffer *b = put_vector(t, 5);
	ARGS(Buffer_CopyToMemory, m, .buffer = b, .dst_memory = t->memory);
	ARGS(Buffer_CopyToDevice, d, .buffer = b, .dst_device = t->device);

	ok(api->PJRT_Buffer_CopyToMemory(&m));
	ok(api->PJRT_Buffer_CopyToDevice(&d));
	buffer_destroy(b);
	expect_vector(m.dst_buffer, 5, 1);
	buffer_destroy(m.dst_buffer);
	assert_int_equal(ready_code(d.dst_buffer), 0);
	expect_vector(d.dst_buffer, 5, 1);
	buffer_destroy(d.dst_buffer);
}

static void on_gone(void *data, void *arg)
{
	*(void **)arg = data;
}

/* The owner waits to be called back, and has the memory back at once. */
static void what_is_handed_over_is_copied(void **state)
{
	struct bed *t = *state;
	float data[LANES] = { 3, 4, 5, 6 };
	const int64_t dims[] = { LANES };
	void *gone = NULL;
	ARGS(Client_CreateViewOfDeviceBuffer, v, .client = t->client, .device_buffer_ptr = data,
	     .dims = dims, .num_dims = 1, .element_type = F32, .device = t->device,
	     .on_delete_callback = on_gone, .on_delete_callback_arg = &gone);

	if (t->subject->is_fake) { /* its memory has no address here */
		refused(api->PJRT_Client_CreateViewOfDeviceBuffer(&v), SAL_UNIMPLEMENTED,
			"belongs to salusd");
		return;
	}
	ok(api->PJRT_Client_CreateViewOfDeviceBuffer(&v));
	assert_ptr_equal(gone, data);
	expect_vector(v.buffer, 3, 1);
	buffer_destroy(v.buffer);
}

static PJRT_Error *view_with_layout(const struct bed *t, void *data,
				    PJRT_Buffer_MemoryLayout *layout, PJRT_Buffer **out)
{
	static const int64_t dims[] = { 2, 3, 4 };
	void *gone = NULL;
	ARGS(Client_CreateViewOfDeviceBuffer, v, .client = t->client, .device_buffer_ptr = data,
	     .dims = dims, .num_dims = 3, .element_type = PJRT_Buffer_Type_S32, .layout = layout,
	     .device = t->device, .on_delete_callback = on_gone, .on_delete_callback_arg = &gone);
	PJRT_Error *error = api->PJRT_Client_CreateViewOfDeviceBuffer(&v);

	*out = v.buffer;
	return error;
}

/* The numbers of a view whose elements lie `strides` apart. */
static void expect_view(PJRT_Buffer *b, const int64_t strides[3])
{
	static const int64_t row_major[] = { 2, 1, 0 };
	int32_t down[24];
	int64_t i;

	ok(get_with_layout(b, down, sizeof(down), row_major, 3));
	for (i = 0; i < 24; i++)
		assert_int_equal(down[i],
				 i / 12 * strides[0] + i / 4 % 3 * strides[1] + i % 4 * strides[2]);
	buffer_destroy(b);
}

/* A transposed array of numpy arrives as a view with its dimensions in another order. */
static void views_have_layouts(void **state)
{
	static const int64_t orders[][3] = { { 2, 1, 0 }, { 0, 1, 2 }, { 1, 2, 0 } };
	static const int64_t strides[][3] = { { 12, 4, 1 }, { 1, 2, 6 }, { 12, 1, 3 } };
	static const int64_t bad[] = { 0, 0, 1 }, bytes[] = { 4, 8, 24 };
	struct bed *t = *state;
	PJRT_Buffer_MemoryLayout layout = { .struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE,
					    .type = PJRT_Buffer_MemoryLayout_Type_Tiled };
	PJRT_Buffer *b = NULL;
	int32_t data[24];
	size_t i;

	if (t->subject->is_fake)
		skip();
	for (i = 0; i < 24; i++)
		data[i] = (int32_t)i;
	layout.tiled.minor_to_major_size = 3;
	for (i = 0; i < 3; i++) {
		layout.tiled.minor_to_major = orders[i];
		ok(view_with_layout(t, data, &layout, &b));
		expect_view(b, strides[i]);
	}
	layout.tiled.minor_to_major = bad;
	refused(view_with_layout(t, data, &layout, &b), SAL_INVALID_ARGUMENT, NULL);
	layout.tiled.minor_to_major = orders[0];
	layout.tiled.minor_to_major_size = 2;
	refused(view_with_layout(t, data, &layout, &b), SAL_INVALID_ARGUMENT, NULL);
	layout.type = PJRT_Buffer_MemoryLayout_Type_Strides;
	layout.strides.byte_strides = bytes;
	layout.strides.num_byte_strides = 3;
	ok(view_with_layout(t, data, &layout, &b));
	expect_view(b, strides[1]);
}

/*
 * On a full device the upload fails, the use of its buffer gives the reason, and the next upload
 * works.
 */
static void a_full_device_poisons_the_buffer(void **state)
{
	static const char *const small[] = { "--memory", "32MiB", NULL };
	struct bed *t = *state;
	struct host_daemon daemon = { 0 };
	PJRT_Client *first = t->client;
	PJRT_Device *device = t->device;
	ARGS(Client_Devices, devices);
	size_t bytes = 40 * MB;
	const int64_t dims[] = { (int64_t)bytes };
	PJRT_Buffer *b, *fine;
	char *data;

	if (!t->subject->is_fake)
		skip();
	data = calloc(1, bytes);
	daemon_start(&daemon, "fake", small);
	t->client = client_create();
	devices.client = t->client;
	ok(api->PJRT_Client_Devices(&devices));
	t->device = devices.devices[0];
	b = put(t, &(struct array){
			   .type = PJRT_Buffer_Type_U8, .dims = dims, .rank = 1, .data = data });
	refused(try_get(b, data, bytes), SAL_RESOURCE_EXHAUSTED, NULL);
	assert_int_equal(ready_code(b), SAL_RESOURCE_EXHAUSTED);
	buffer_destroy(b);
	fine = put_vector(t, 1);
	expect_vector(fine, 1, 1);
	buffer_destroy(fine);
	client_destroy(t->client);
	daemon_stop(&daemon);
	t->client = first;
	t->device = device;
	(void)setenv("SALUS_SOCKET", t->daemon.socket, 1);
	free(data);
}

#define T(test) cmocka_unit_test_setup_teardown(test, bed_setup, bed_teardown)

static int run_suite(void)
{
	const struct CMUnitTest tests[] = {
		T(every_type_goes_up_and_down),
		T(every_semantics_is_the_same),
		T(strides_are_honoured),
		T(large_strides_are_honoured),
		T(nonsense_is_refused),
		T(too_much_is_refused),
		T(scalars_and_nothing),
		T(big_ones),
		T(many_at_once),
		T(the_arena_is_reused),
		T(done_events_live_in_any_order),
		T(pending_events_live_in_any_order),
		T(callbacks_may_go_on),
		T(events_outlive_the_client),
		T(download_sizes),
		T(download_with_a_layout),
		T(raw_ranges),
		T(buffers_know_themselves),
		T(bytes_on_a_cpu_have_an_address),
		T(deleted_buffers_are_gone),
		T(deletion_lets_downloads_finish),
		T(copies_are_their_own),
		T(what_is_handed_over_is_copied),
		T(views_have_layouts),
		T(what_is_left_outlives_its_client),
		T(a_full_device_poisons_the_buffer),
	};

	return cmocka_run_group_tests(tests, bed_open, bed_close);
}

int main(int argc, char **argv)
{
	return host_main(argc, argv, run_suite);
}
