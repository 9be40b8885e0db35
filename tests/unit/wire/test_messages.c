/* SPDX-License-Identifier: Apache-2.0 */
/* messages: valid and invalid messages, one row each. */
#include "wire/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Any message, with room for the largest tail. */
union any {
	struct sal_header header;
	struct sal_msg_compile compile;
	struct sal_msg_load load;
	struct sal_msg_fetch fetch;
	struct sal_msg_unload unload;
	struct sal_msg_upload upload;
	struct sal_msg_download download;
	struct sal_msg_execute execute;
	struct sal_msg_delete forget;
	struct sal_msg_copy copy;
	struct sal_msg_answer answer;
	struct sal_msg_reply reply;
	struct sal_msg_done done;
	struct sal_msg_released released;
	struct sal_msg_call call;
	unsigned char bytes[SAL_RECORD_MAX];
};

static union any *blank(uint16_t type, size_t fixed, size_t tail)
{
	union any *m = calloc(1, sizeof(*m));

	assert_non_null(m);
	m->header.type = type;
	m->header.size = sal_record_size(fixed, tail);
	return m;
}

/* Asserts whether the message is a valid submission or completion, and frees the message. */
static void expect(const char *what, union any *take_m, bool submit, bool complete)
{
	bool is_submit = sal_submit_is_valid(&take_m->header);
	bool is_complete = sal_complete_is_valid(&take_m->header);

	if (is_submit != submit || is_complete != complete)
		(void)fprintf(stderr, "%s: submit %d, complete %d\n", what, is_submit, is_complete);
	assert_int_equal(is_submit, submit);
	assert_int_equal(is_complete, complete);
	free(take_m);
}

#define VALID_SUBMIT(what, m) expect(what, m, true, false)
#define VALID_COMPLETE(what, m) expect(what, m, false, true)
#define INVALID(what, m) expect(what, m, false, false)

/* Types and sizes, the same for all */

/* Types without counts: the size is exact. */
static const struct {
	uint16_t type;
	size_t fixed;
	bool is_submit;
} plain[] = {
	{ SAL_MSG_COMPILE, sizeof(struct sal_msg_compile), true },
	{ SAL_MSG_LOAD, sizeof(struct sal_msg_load), true },
	{ SAL_MSG_FETCH, sizeof(struct sal_msg_fetch), true },
	{ SAL_MSG_UNLOAD, sizeof(struct sal_msg_unload), true },
	{ SAL_MSG_UPLOAD, sizeof(struct sal_msg_upload), true },
	{ SAL_MSG_DOWNLOAD, sizeof(struct sal_msg_download), true },
	{ SAL_MSG_EXECUTE, sizeof(struct sal_msg_execute), true },
	{ SAL_MSG_DELETE, sizeof(struct sal_msg_delete), true },
	{ SAL_MSG_COPY, sizeof(struct sal_msg_copy), true },
	{ SAL_MSG_AWAIT, sizeof(struct sal_msg_await), true },
	{ SAL_MSG_OPERANDS, sizeof(struct sal_msg_operands), true },
	{ SAL_MSG_ANSWER, sizeof(struct sal_msg_answer), true },
	{ SAL_MSG_EXPOSE, sizeof(struct sal_msg_expose), true },
	{ SAL_MSG_REPLY, sizeof(struct sal_msg_reply), false },
	{ SAL_MSG_DONE, sizeof(struct sal_msg_done), false },
	{ SAL_MSG_RELEASED, sizeof(struct sal_msg_released), false },
	{ SAL_MSG_CALL, sizeof(struct sal_msg_call), false },
	{ SAL_MSG_WITHDRAWN, sizeof(struct sal_msg_withdrawn), false },
};

#define PLAIN_COUNT (sizeof(plain) / sizeof(plain[0]))

/* A body of zeros is valid for every type: no counts, no tail. */
static void sizes_are_exact(void **state)
{
	size_t i, size;

	(void)state;
	for (i = 0; i < PLAIN_COUNT; i++)
		for (size = 0; size <= 256; size++) {
			union any *m = blank(plain[i].type, 0, 0);
			bool right = size == plain[i].fixed;

			m->header.size = (uint32_t)size;
			expect("size", m, right && plain[i].is_submit,
			       right && !plain[i].is_submit);
		}
}

static void huge_sizes_are_refused(void **state)
{
	static const uint32_t sizes[] = { SAL_RECORD_MAX, SAL_RECORD_MAX + 8, 1u << 31,
					  UINT32_MAX - 7, UINT32_MAX };
	size_t i, k;

	(void)state;
	for (i = 0; i < PLAIN_COUNT; i++)
		for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
			union any *m = blank(plain[i].type, 0, 0);

			m->header.size = sizes[k];
			INVALID("huge", m);
		}
}

static void unknown_types_are_refused(void **state)
{
	union any *m = blank(0, 0, 0);
	unsigned type;
	size_t i;

	(void)state;
	for (type = 0; type <= UINT16_MAX; type++) {
		bool known = false;

		for (i = 0; i < PLAIN_COUNT; i++)
			known |= plain[i].type == type;
		m->header = (struct sal_header){ .size = 64, .type = (uint16_t)type };
		if (!known) {
			assert_false(sal_submit_is_valid(&m->header));
			assert_false(sal_complete_is_valid(&m->header));
		}
	}
	free(m);
}

/* Submissions */

static void compile_needs_an_ended_format(void **state)
{
	union any *m = blank(SAL_MSG_COMPILE, sizeof(m->compile), 0);

	(void)state;
	memset(m->compile.format, 'x', 15);
	VALID_SUBMIT("15 characters", m);
	m = blank(SAL_MSG_COMPILE, sizeof(m->compile), 0);
	memset(m->compile.format, 'x', 16);
	INVALID("no end", m);
}

static void fetch_knows_what(void **state)
{
	static const uint32_t whats[] = { SAL_FETCH_FACTS, SAL_FETCH_OPTIMIZED, SAL_FETCH_SEALED,
					  SAL_FETCH_END, UINT32_MAX };
	size_t i;

	(void)state;
	for (i = 0; i < 5; i++) {
		union any *m = blank(SAL_MSG_FETCH, sizeof(m->fetch), 0);

		m->fetch.what = whats[i];
		expect("what", m, whats[i] < SAL_FETCH_END, false);
	}
}

static union any *upload(uint32_t rank, uint64_t size, uint64_t from, size_t tail)
{
	union any *m = blank(SAL_MSG_UPLOAD, sizeof(m->upload), tail);

	m->upload.rank = rank;
	m->upload.size = size;
	m->upload.from.size = from;
	return m;
}

static void upload_counts_its_tail(void **state)
{
	(void)state;
	VALID_SUBMIT("a number", upload(0, 4, 0, 4));
	VALID_SUBMIT("nothing", upload(1, 0, 0, 8));
	VALID_SUBMIT("the most inline", upload(1, SAL_INLINE_MAX, 0, 8 + SAL_INLINE_MAX));
	VALID_SUBMIT("the most dims", upload(SAL_RANK_MAX, 8, 0, 8 * SAL_RANK_MAX + 8));
	VALID_SUBMIT("in the arena", upload(2, 1 << 30, 1 << 30, 16));
	VALID_SUBMIT("2^64-1 in the arena", upload(2, UINT64_MAX, UINT64_MAX, 16));
	INVALID("too much inline", upload(1, SAL_INLINE_MAX + 1, 0, 8 + SAL_INLINE_MAX + 1));
	INVALID("too many dims", upload(SAL_RANK_MAX + 1, 8, 0, 8 * (SAL_RANK_MAX + 1) + 8));
	INVALID("2^32-1 dims", upload(UINT32_MAX, 8, 0, 16));
	INVALID("2^29 dims, which wrap", upload(1u << 29, 8, 0, 8));
	INVALID("dims missing", upload(2, 8, 0, 16));
	INVALID("bytes missing", upload(1, 16, 0, 16));
	INVALID("bytes too many", upload(1, 8, 0, 24));
	INVALID("2^64-1 inline", upload(1, UINT64_MAX, 0, 8));
	INVALID("2^64-8 inline, which wraps", upload(1, UINT64_MAX - 7, 0, 0));
	INVALID("two sizes", upload(1, 100, 101, 8));
	INVALID("both inline and in the arena", upload(1, 8, 8, 16));
}

static union any *download(uint64_t size, uint64_t into, size_t tail)
{
	union any *m = blank(SAL_MSG_DOWNLOAD, sizeof(m->download), tail);

	m->download.size = size;
	m->download.into.size = into;
	return m;
}

static void download_is_inline_or_in_the_arena(void **state)
{
	(void)state;
	VALID_SUBMIT("nothing", download(0, 0, 0));
	VALID_SUBMIT("the most inline", download(SAL_INLINE_MAX, 0, 0));
	VALID_SUBMIT("in the arena", download(1 << 30, 1 << 30, 0));
	INVALID("too much inline", download(SAL_INLINE_MAX + 1, 0, 0));
	INVALID("2^64-1 inline", download(UINT64_MAX, 0, 0));
	INVALID("two sizes", download(8, 16, 0));
	INVALID("with a tail", download(8, 0, 8));
}

static union any *execute(uint32_t args, uint32_t keep, uint32_t outputs, size_t tail)
{
	union any *m = blank(SAL_MSG_EXECUTE, sizeof(m->execute), tail);

	m->execute.arg_count = args;
	m->execute.retained_count = keep;
	m->execute.output_count = outputs;
	return m;
}

static void execute_counts_its_tail(void **state)
{
	(void)state;
	VALID_SUBMIT("nothing", execute(0, 0, 0, 0));
	VALID_SUBMIT("two and one", execute(2, 1, 3, 20));
	VALID_SUBMIT("the most",
		     execute(SAL_ARGS_MAX, SAL_ARGS_MAX, SAL_ARGS_MAX, (size_t)SAL_ARGS_MAX * 12));
	INVALID("too many arguments",
		execute(SAL_ARGS_MAX + 1, 0, 0, (size_t)(SAL_ARGS_MAX + 1) * 8));
	INVALID("too many outputs", execute(0, 0, SAL_ARGS_MAX + 1, 0));
	INVALID("keeps more than it has", execute(1, 2, 0, 16));
	INVALID("arguments missing", execute(2, 0, 0, 8));
	INVALID("keep missing", execute(2, 2, 0, 16));
	INVALID("tail too long", execute(1, 0, 0, 16));
	INVALID("2^32-1 of each", execute(UINT32_MAX, UINT32_MAX, 0, 0));
	INVALID("2^29 arguments, which wrap", execute(1u << 29, 0, 0, 0));
}

static union any *execute_on(uint8_t devices, uint32_t args, uint32_t outputs, size_t tail)
{
	union any *m = execute(args, 1, outputs, tail);

	m->header.devices = devices;
	return m;
}

/* Each device has its own list of arguments, and all have the same retained ones. */
static void execute_counts_a_list_for_each_device(void **state)
{
	(void)state;
	VALID_SUBMIT("one is one", execute_on(1, 2, 3, 20));
	VALID_SUBMIT("three", execute_on(3, 2, 3, 3 * 16 + 4));
	VALID_SUBMIT("the most devices",
		     execute_on(SAL_DEVICES_MAX, 2, 3, SAL_DEVICES_MAX * 16 + 4));
	VALID_SUBMIT("the most arguments",
		     execute_on(2, SAL_ARGS_MAX / 2, 1, (size_t)SAL_ARGS_MAX * 8 + 4));
	INVALID("a list is missing", execute_on(3, 2, 3, 2 * 16 + 4));
	INVALID("too many devices",
		execute_on(SAL_DEVICES_MAX + 1, 2, 3, (SAL_DEVICES_MAX + 1) * 16 + 4));
	INVALID("too many arguments together",
		execute_on(2, SAL_ARGS_MAX / 2 + 1, 1, (size_t)SAL_ARGS_MAX * 8 + 20));
	INVALID("too many outputs together", execute_on(2, 1, SAL_ARGS_MAX / 2 + 1, 20));
	INVALID("255 devices", execute_on(UINT8_MAX, 1, 1, UINT8_MAX * 8 + 4));
}

static void a_record_names_a_possible_device(void **state)
{
	union any *m = execute(0, 0, 0, 0);

	(void)state;
	m->header.device = SAL_DEVICES_MAX - 1;
	VALID_SUBMIT("the last", m);
	m = execute(0, 0, 0, 0);
	m->header.device = SAL_DEVICES_MAX;
	INVALID("one more", m);
}

static union any *forget(uint32_t count, size_t tail)
{
	union any *m = blank(SAL_MSG_DELETE, sizeof(m->forget), tail);

	m->forget.count = count;
	return m;
}

static void delete_counts_its_tail(void **state)
{
	const uint32_t most = (SAL_RECORD_MAX - sizeof(struct sal_msg_delete)) / 8;

	(void)state;
	VALID_SUBMIT("none", forget(0, 0));
	VALID_SUBMIT("three", forget(3, 24));
	VALID_SUBMIT("the most", forget(most, (size_t)most * 8));
	INVALID("missing", forget(3, 16));
	INVALID("too many", forget(2, 24));
	INVALID("2^32-1", forget(UINT32_MAX, 0));
	INVALID("2^29, which wraps", forget(1u << 29, 0));
}

/* Completions */

static void completions_count_their_tails(void **state)
{
	static const struct {
		uint32_t said;
		size_t sent;
		bool right;
	} rows[] = {
		{ 0, 0, true },
		{ 5, 5, true },
		{ 4096, 4096, true },
		{ 5, 0, false },
		{ 5, 16, false },
		{ UINT32_MAX, 0, false },
		{ UINT32_MAX - 7, 0, false },
		{ SAL_RECORD_MAX, 0, false },
		{ SAL_RECORD_MAX - 32, SAL_RECORD_MAX - 32, true },
		{ SAL_RECORD_MAX - 8, SAL_RECORD_MAX - 8,
		  false }, /* the record would be too large */
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		union any *m = blank(SAL_MSG_REPLY, sizeof(m->reply), rows[i].sent);

		m->reply.text_size = rows[i].said;
		expect("reply", m, false, rows[i].right);
		m = blank(SAL_MSG_DONE, sizeof(m->done), rows[i].sent);
		m->done.tail_size = rows[i].said;
		expect("done", m, false, rows[i].right);
		m = blank(SAL_MSG_REFUSED, sizeof(m->done), rows[i].sent);
		m->done.tail_size = rows[i].said;
		expect("refused without a code", m, false, false);
		m = blank(SAL_MSG_REFUSED, sizeof(m->done), rows[i].sent);
		m->done.tail_size = rows[i].said;
		m->done.code = 8;
		expect("refused", m, false, rows[i].right);
	}
	VALID_COMPLETE("released", blank(SAL_MSG_RELEASED, sizeof(struct sal_msg_released), 0));
}

/* An answer has a text, or results in the record, or results in the arena. */
static void answers_have_one_kind_of_tail(void **state)
{
	static const struct {
		int32_t code;
		uint32_t said;
		size_t sent;
		uint64_t place;
		bool right;
	} rows[] = {
		{ 0, 4, 4, 0, true },
		{ 0, 0, 0, 4, true },
		{ 0, 4, 4, 4, false },
		{ 0, SAL_INLINE_MAX, SAL_INLINE_MAX, 0, true },
		{ 0, SAL_INLINE_MAX + 1, SAL_INLINE_MAX + 1, 0, false },
		{ 13, SAL_INLINE_MAX + 1, SAL_INLINE_MAX + 1, 0, true },
		{ 13, SAL_TEXT_MAX, SAL_TEXT_MAX, 0, true },
		{ 13, SAL_TEXT_MAX + 1, SAL_TEXT_MAX + 1, 0, false },
		{ 13, 4, 4, 4, false },
		{ 13, 16, 4, 0, false },
		{ -1, UINT32_MAX, 0, 0, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		union any *m = blank(SAL_MSG_ANSWER, sizeof(m->answer), rows[i].sent);

		m->answer.code = rows[i].code;
		m->answer.tail_size = rows[i].said;
		m->answer.results.size = rows[i].place;
		expect("answer", m, rows[i].right, false);
	}
}

/* A call of one operand and one result, each with one dimension. */
static union any *call_of(uint64_t operand_bytes, uint64_t result_bytes, size_t sent)
{
	const size_t shapes = 2 * (sizeof(struct sal_call_shape) + sizeof(int64_t));
	union any *m = blank(SAL_MSG_CALL, sizeof(m->call), shapes + sent);
	struct sal_call_shape *shape = (struct sal_call_shape *)(&m->call + 1);

	m->call.operand_count = m->call.result_count = 1;
	m->call.operand_bytes = sal_call_span(operand_bytes);
	m->call.result_bytes = sal_call_span(result_bytes);
	*shape = (struct sal_call_shape){ 11, 1, operand_bytes };
	shape = (struct sal_call_shape *)((int64_t *)(shape + 1) + 1);
	*shape = (struct sal_call_shape){ 11, 1, result_bytes };
	return m;
}

static struct sal_call_shape *first_shape(union any *m)
{
	return (struct sal_call_shape *)(&m->call + 1);
}

static void calls_add_up(void **state)
{
	union any *m;

	(void)state;
	VALID_COMPLETE("small", call_of(4, 4, SAL_CALL_ALIGN));
	VALID_COMPLETE("empty", call_of(0, 0, 0));
	VALID_COMPLETE("most", call_of(SAL_INLINE_MAX, 4, SAL_INLINE_MAX));
	VALID_COMPLETE("large", call_of(SAL_INLINE_MAX + 1, 1 << 30, 0));
	INVALID("operands missing", call_of(4, 4, 0));
	INVALID("operands too long", call_of(4, 4, (size_t)2 * SAL_CALL_ALIGN));
	INVALID("large operands in the record", call_of(SAL_INLINE_MAX + 1, 4, SAL_INLINE_MAX + 8));
	INVALID("more than an array can have", call_of(SAL_CALL_BYTES_MAX + 1, 4, 0));
	m = call_of(4, 4, SAL_CALL_ALIGN);
	m->call.operand_bytes++;
	INVALID("operand bytes", m);
	m = call_of(4, 4, SAL_CALL_ALIGN);
	m->call.result_bytes--;
	INVALID("result bytes", m);
	m = call_of(4, 4, SAL_CALL_ALIGN);
	m->call.result_count++;
	INVALID("a shape behind the end", m);
	m = call_of(4, 4, SAL_CALL_ALIGN);
	m->call.operand_count = UINT32_MAX;
	INVALID("operand count", m);
	m = call_of(4, 4, SAL_CALL_ALIGN);
	first_shape(m)->rank = SAL_RANK_MAX + 1;
	INVALID("rank", m);
	m = call_of(4, 4, SAL_CALL_ALIGN);
	first_shape(m)->rank = UINT32_MAX;
	INVALID("huge rank", m);
}

/* The greeting */

static struct sal_hello good_hello(void)
{
	return (struct sal_hello){ .magic = SAL_WIRE_MAGIC,
				   .major = SAL_WIRE_MAJOR,
				   .minor = SAL_WIRE_MINOR,
				   .size = sizeof(struct sal_hello),
				   .name = "job" };
}

static void hello_is_ours_whole_and_named(void **state)
{
	struct sal_hello h = good_hello();

	(void)state;
	assert_true(sal_hello_is_valid(&h));
	h.minor = 77; /* a later minor version has more fields after the known ones */
	h.size = sizeof(h) + 64;
	assert_true(sal_hello_is_valid(&h));
	h.major = 9; /* refused later, with a reason */
	assert_true(sal_hello_is_valid(&h));
	h = good_hello();
	h.size = SAL_HELLO_BYTES_MIN; /* a client before minor 3 */
	assert_true(sal_hello_is_valid(&h));
	h.size = SAL_HELLO_BYTES_MIN - 1;
	assert_false(sal_hello_is_valid(&h));
	h = good_hello();
	h.magic ^= 1;
	assert_false(sal_hello_is_valid(&h));
	h = good_hello();
	memset(h.name, 'x', sizeof(h.name));
	assert_false(sal_hello_is_valid(&h));
	h.name[sizeof(h.name) - 1] = '\0';
	assert_true(sal_hello_is_valid(&h));
}

static void record_sizes_are_multiples_of_eight(void **state)
{
	size_t tail;

	(void)state;
	for (tail = 0; tail < 100; tail++) {
		uint32_t size = sal_record_size(24, tail);

		assert_int_equal(size % 8, 0);
		assert_true(size >= 24 + tail && size < 24 + tail + 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_exact),
		cmocka_unit_test(huge_sizes_are_refused),
		cmocka_unit_test(unknown_types_are_refused),
		cmocka_unit_test(compile_needs_an_ended_format),
		cmocka_unit_test(fetch_knows_what),
		cmocka_unit_test(upload_counts_its_tail),
		cmocka_unit_test(download_is_inline_or_in_the_arena),
		cmocka_unit_test(execute_counts_its_tail),
		cmocka_unit_test(execute_counts_a_list_for_each_device),
		cmocka_unit_test(a_record_names_a_possible_device),
		cmocka_unit_test(delete_counts_its_tail),
		cmocka_unit_test(completions_count_their_tails),
		cmocka_unit_test(answers_have_one_kind_of_tail),
		cmocka_unit_test(calls_add_up),
		cmocka_unit_test(hello_is_ours_whole_and_named),
		cmocka_unit_test(record_sizes_are_multiples_of_eight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
