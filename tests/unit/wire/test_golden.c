/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of every message, written out. A change of layout fails here first. Whoever changes the
 * layout on purpose increases the protocol's version (docs/PROTOCOL.md) and writes down the new
 * bytes.
 *
 * Bytes are in hexadecimal, one field to a line; "+N" stands for N zeros.
 */
#include "wire/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static unsigned nibble(char c)
{
	return c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a' + 10);
}

/* Converts hexadecimal digits to bytes; blanks separate them. Returns the number of bytes. */
static size_t read_hex(const char *hex, unsigned char *out)
{
	size_t n = 0;

	while (*hex) {
		if (*hex == ' ') {
			hex++;
		} else if (*hex == '+') {
			unsigned long zeros = strtoul(hex + 1, (char **)&hex, 10);

			memset(out + n, 0, zeros);
			n += zeros;
		} else {
			out[n++] = (unsigned char)(nibble(hex[0]) << 4 | nibble(hex[1]));
			hex += 2;
		}
	}
	return n;
}

static void assert_bytes(const void *message, size_t size, const char *hex)
{
	unsigned char expected[1024];

	assert_int_equal(read_hex(hex, expected), size);
	assert_memory_equal(message, expected, size);
}

#define ID1 UINT64_C(0x0102030405060708)
#define ID2 UINT64_C(0x1112131415161718)
#define ID3 UINT64_C(0x2122232425262728)
#define PLACE1                                                                             \
	{                                                                                  \
		.segment = 0x31323334, .offset = UINT64_C(0x4142434445464748), .size = ID3 \
	}
#define PLACE2                                                                             \
	{                                                                                  \
		.segment = 0x51525354, .offset = UINT64_C(0x6162636465666768), .size = ID2 \
	}

#define HEX1 "0807060504030201 "
#define HEX2 "1817161514131211 "
#define HEX3 "2827262524232221 "
#define HEX_PLACE1 "34333231 00000000 4847464544434241 " HEX3
#define HEX_PLACE2 "54535251 00000000 6867666564636261 " HEX2

/* Over the socket */

static void constants(void **state)
{
	static const char magic[8] = "SALUS1";
	uint64_t number = SAL_WIRE_MAGIC;

	(void)state;
	assert_memory_equal(&number, magic, 8);
	assert_int_equal(SAL_WIRE_MAJOR, 1);
	assert_int_equal(SAL_MINOR_HOLDING, 2);
	assert_int_equal(SAL_MINOR_REFUSED, 4);
	assert_int_equal(SAL_MINOR_MEMORIES, 7);
	assert_int_equal(SAL_MINOR_EXPOSE, 8);
	assert_int_equal(SAL_EXPOSE_MIN, 1048576);
	assert_true(SAL_GROW_BLOCK == UINT64_C(0x8000000000000000));
	assert_int_equal(SAL_MSG_REFUSED, 67);
	assert_int_equal(SAL_HELLO_BYTES_MIN, 184);
	assert_int_equal(SAL_HELLO_INFERENCE, 1);
	assert_int_equal(SAL_HELLO_UNDECLARED, 2);
	assert_int_equal(SAL_RANK_MAX, 64);
	assert_int_equal(SAL_ARGS_MAX, 65536);
	assert_int_equal(SAL_RECORD_MAX, 1048576);
	assert_int_equal(SAL_INLINE_MAX, 4096);
	assert_int_equal(SAL_SEGMENTS_MAX, 64);
	assert_int_equal(SAL_TEXT_MAX, 65536);
	assert_int_equal(SAL_CALL_ARRAYS_MAX, 256);
	assert_int_equal(SAL_CALL_ALIGN, 64);
}

static void hello(void **state)
{
	struct sal_hello m = {
		.magic = SAL_WIRE_MAGIC,
		.major = 1,
		.minor = 6,
		.size = sizeof(m),
		.priority = 0x0a0b0c0d,
		.weight_milli = 1500,
		.kind = 1,
		.persist_bytes = ID1,
		.ephem_bytes = ID2,
		.total_ns = ID3,
		.name = "job",
		.deadline_ns = ID2,
		.devices = 8,
		.host_devices = 4,
	};

	(void)state;
	assert_bytes(&m, sizeof(m),
		     "53414c5553310000 " /* magic */
		     "01000000 06000000 " /* major, minor */
		     "c8000000 " /* size */
		     "0d0c0b0a " /* priority */
		     "dc050000 01000000 " /* weight_milli, kind */
		     HEX1 HEX2 HEX3 /* persist_bytes, ephem_bytes, total_ns */
		     "6a6f62 +125 " /* name */
		     HEX2 /* deadline_ns */
		     "08000000 04000000"); /* devices, host_devices */
}

static void welcome(void **state)
{
	struct sal_welcome m = {
		.magic = SAL_WIRE_MAGIC,
		.major = 1,
		.minor = 2,
		.size = sizeof(m),
		.code = 9,
		.session = ID1,
		.ring_bytes = 4u << 20,
		.segment_bytes = 64u << 20,
		.fact_bytes = ID2,
		.memory_bytes = ID3,
		.reason = "no",
	};

	(void)state;
	assert_bytes(&m, sizeof(m),
		     "53414c5553310000 " /* magic */
		     "01000000 02000000 " /* major, minor */
		     "40010000 " /* size */
		     "09000000 " /* code */
		     HEX1 /* session */
		     "0000400000000000 " /* ring_bytes */
		     "0000000400000000 " /* segment_bytes */
		     HEX2 HEX3 /* fact_bytes, memory_bytes */
		     "6e6f +254"); /* reason */
}

static void grow_and_grown(void **state)
{
	struct sal_grow ask = { .bytes = ID1 };
	struct sal_grown answer = { .code = 8, .segment = 3, .bytes = ID2 };

	(void)state;
	assert_bytes(&ask, sizeof(ask), HEX1);
	assert_bytes(&answer, sizeof(answer), "08000000 03000000 " HEX2);
}

/* Client to daemon */

static void compile(void **state)
{
	struct sal_msg_compile m = {
		.header = { .size = sizeof(m), .type = SAL_MSG_COMPILE },
		.request = ID1,
		.id = ID2,
		.program = PLACE1,
		.options = PLACE2,
		.format = "mlir",
	};

	(void)state;
	assert_bytes(&m, sizeof(m),
		     "58000000 0100 0000 " HEX1 HEX2 HEX_PLACE1 HEX_PLACE2 "6d6c6972 +12");
}

static void load(void **state)
{
	struct sal_msg_load m = {
		.header = { .size = sizeof(m), .type = SAL_MSG_LOAD },
		.request = ID1,
		.id = ID2,
		.blob = PLACE1,
	};

	(void)state;
	assert_bytes(&m, sizeof(m), "30000000 0200 0000 " HEX1 HEX2 HEX_PLACE1);
}

static void fetch(void **state)
{
	struct sal_msg_fetch m = {
		.header = { .size = sizeof(m), .type = SAL_MSG_FETCH },
		.request = ID1,
		.id = ID2,
		.what = SAL_FETCH_SEALED,
		.into = PLACE1,
	};

	(void)state;
	assert_bytes(&m, sizeof(m),
		     "38000000 0300 0000 " HEX1 HEX2 "02000000 00000000 " HEX_PLACE1);
}

static void unload(void **state)
{
	struct sal_msg_unload m = {
		.header = { .size = sizeof(m), .type = SAL_MSG_UNLOAD },
		.id = ID1,
	};

	(void)state;
	assert_bytes(&m, sizeof(m), "10000000 0400 0000 " HEX1);
}

static void upload(void **state)
{
	struct {
		struct sal_msg_upload m;
		int64_t dims[2];
		unsigned char bytes[8];
	} all = {
		.m = { .header = { .size = 80, .type = SAL_MSG_UPLOAD, .device = 3, .memory = 2 },
		       .id = ID1,
		       .type = 11,
		       .rank = 2,
		       .size = 4,
		       .from = { .offset = ID2 } },
		.dims = { 1, -2 },
		.bytes = { 0xaa, 0xbb, 0xcc, 0xdd },
	};

	(void)state;
	assert_bytes(&all, sizeof(all),
		     "50000000 0500 03 02 " HEX1 "0b000000 02000000 " /* type, rank */
		     "0400000000000000 " /* size */
		     "00000000 00000000 " HEX2 "+8 " /* from */
		     "0100000000000000 feffffffffffffff " /* dims */
		     "aabbccdd 00000000"); /* the array, padded to eight bytes */
}

static void download(void **state)
{
	struct sal_msg_download m = {
		.header = { .size = sizeof(m), .type = SAL_MSG_DOWNLOAD },
		.request = ID1,
		.id = ID2,
		.size = ID3,
		.into = PLACE1,
	};

	(void)state;
	assert_bytes(&m, sizeof(m), "38000000 0600 0000 " HEX1 HEX2 HEX3 HEX_PLACE1);
}

static void execute(void **state)
{
	struct {
		struct sal_msg_execute m;
		uint64_t args[2];
		uint32_t keep[2];
	} all = {
		.m = { .header = { .size = 72, .type = SAL_MSG_EXECUTE, .device = 3, .devices = 1 },
		       .request = ID1,
		       .program = ID2,
		       .first_output = ID3,
		       .output_count = 5,
		       .arg_count = 2,
		       .retained_count = 1,
		       .flags = SAL_EXECUTE_CALLS | SAL_EXECUTE_NESTED },
		.args = { ID2, ID1 },
		.keep = { 1 },
	};

	(void)state;
	assert_bytes(&all, sizeof(all),
		     "48000000 0700 0301 " HEX1 HEX2 HEX3 /* request, program, first_output */
		     "05000000 02000000 01000000 03000000 " /* outputs, arguments, keep, flags */
		     HEX2 HEX1 "01000000 00000000");
}

static void forget(void **state)
{
	struct {
		struct sal_msg_delete m;
		uint64_t ids[2];
	} all = {
		.m = { .header = { .size = 32, .type = SAL_MSG_DELETE }, .count = 2 },
		.ids = { ID1, ID2 },
	};

	(void)state;
	assert_bytes(&all, sizeof(all), "20000000 0800 0000 02000000 00000000 " HEX1 HEX2);
}

static void copy(void **state)
{
	struct sal_msg_copy m = {
		.header = { .size = sizeof(m), .type = SAL_MSG_COPY, .device = 3, .memory = 2 },
		.from = ID1,
		.to = ID2,
	};

	(void)state;
	assert_bytes(&m, sizeof(m), "18000000 0900 03 02 " HEX1 HEX2);
}

static void await_buffer(void **state)
{
	struct sal_msg_await m = {
		.header = { .size = sizeof(m), .type = SAL_MSG_AWAIT },
		.request = ID1,
		.id = ID2,
	};

	(void)state;
	assert_bytes(&m, sizeof(m), "18000000 0a00 0000 " HEX1 HEX2);
}

static void expose(void **state)
{
	struct sal_msg_expose m = {
		.header = { .size = sizeof(m), .type = SAL_MSG_EXPOSE },
		.request = ID1,
		.id = ID2,
	};

	(void)state;
	assert_bytes(&m, sizeof(m), "18000000 0d00 0000 " HEX1 HEX2);
}

static void exposed_place(void **state)
{
	struct sal_exposed_place place = { .block = ID1, .bytes = ID2 };

	(void)state;
	assert_bytes(&place, sizeof(place), HEX1 HEX2);
}

static void withdrawn(void **state)
{
	struct sal_msg_withdrawn m = {
		.header = { .size = sizeof(m), .type = SAL_MSG_WITHDRAWN },
		.block = ID1,
	};

	(void)state;
	assert_bytes(&m, sizeof(m), "10000000 4500 0000 " HEX1);
}

static void operands(void **state)
{
	struct sal_msg_operands m = {
		.header = { .size = sizeof(m), .type = SAL_MSG_OPERANDS },
		.request = ID1,
		.call = ID2,
		.into = PLACE1,
	};

	(void)state;
	assert_bytes(&m, sizeof(m), "30000000 0b00 0000 " HEX1 HEX2 HEX_PLACE1);
}

static void answer(void **state)
{
	struct {
		struct sal_msg_answer m;
		char text[8];
	} all = {
		.m = { .header = { .size = 56, .type = SAL_MSG_ANSWER },
		       .call = ID1,
		       .code = 13,
		       .tail_size = 3,
		       .results = PLACE1 },
		.text = "why",
	};

	(void)state;
	assert_bytes(&all, sizeof(all),
		     "38000000 0c00 0000 " HEX1 "0d000000 03000000 " HEX_PLACE1 "776879 +5");
}

/* Daemon to client */

static void call(void **state)
{
	struct {
		struct sal_msg_call m;
		struct sal_call_shape shape;
		int64_t dim;
	} all = {
		.m = { .header = { .size = 80, .type = SAL_MSG_CALL },
		       .call = ID1,
		       .request = ID2,
		       .index = 5,
		       .operand_bytes = 6,
		       .result_bytes = 7,
		       .operand_count = 8,
		       .result_count = 9 },
		.shape = { .type = 11, .rank = 1, .bytes = 12 },
		.dim = 3,
	};

	(void)state;
	assert_bytes(&all, sizeof(all),
		     "50000000 4400 0000 " HEX1 HEX2 "05 +7 06 +7 07 +7 08000000 09000000 "
		     "0b000000 01000000 0c +7 03 +7");
}

static void reply(void **state)
{
	struct {
		struct sal_msg_reply m;
		char text[8];
	} all = {
		.m = { .header = { .size = 40, .type = SAL_MSG_REPLY },
		       .request = ID1,
		       .code = -1,
		       .text_size = 3,
		       .value = ID2 },
		.text = "why",
	};

	(void)state;
	assert_bytes(&all, sizeof(all),
		     "28000000 4000 0000 " HEX1 "ffffffff 03000000 " HEX2 "776879 +5");
}

static void done(void **state)
{
	struct {
		struct sal_msg_done m;
		char tail[8];
	} all = {
		.m = { .header = { .size = 32, .type = SAL_MSG_DONE },
		       .request = ID1,
		       .code = 13,
		       .tail_size = 2 },
		.tail = "ab",
	};

	(void)state;
	assert_bytes(&all, sizeof(all), "20000000 4100 0000 " HEX1 "0d000000 02000000 6162 +6");
}

static void released(void **state)
{
	struct sal_msg_released m = {
		.header = { .size = sizeof(m), .type = SAL_MSG_RELEASED },
		.place = PLACE1,
	};

	(void)state;
	assert_bytes(&m, sizeof(m), "20000000 4200 0000 " HEX_PLACE1);
}

static void pad(void **state)
{
	struct sal_header m = { .size = 0x0102, .type = SAL_MSG_PAD };

	(void)state;
	assert_bytes(&m, sizeof(m), "02010000 0000 0000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(constants), cmocka_unit_test(hello),
		cmocka_unit_test(welcome),   cmocka_unit_test(grow_and_grown),
		cmocka_unit_test(compile),   cmocka_unit_test(load),
		cmocka_unit_test(fetch),     cmocka_unit_test(unload),
		cmocka_unit_test(upload),    cmocka_unit_test(download),
		cmocka_unit_test(execute),   cmocka_unit_test(forget),
		cmocka_unit_test(copy),	     cmocka_unit_test(await_buffer),
		cmocka_unit_test(reply),     cmocka_unit_test(done),
		cmocka_unit_test(released),  cmocka_unit_test(pad),
		cmocka_unit_test(operands),  cmocka_unit_test(answer),
		cmocka_unit_test(call),	     cmocka_unit_test(expose),
		cmocka_unit_test(withdrawn), cmocka_unit_test(exposed_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
