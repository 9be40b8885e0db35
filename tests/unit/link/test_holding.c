/* SPDX-License-Identifier: Apache-2.0 */
/* holding: its bytes, and which versions have one. */
#include "link/holding.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "link/ring.h"
#include "wire/messages.h"

#define BYTES UINT64_C(256)

/* As in docs/PROTOCOL.md. */
static void its_bytes(void **state)
{
	static const unsigned char golden[64] = {
		0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* limit_bytes */
		0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, /* persist_bytes */
		0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, /* peak_bytes */
	};
	struct sal_holding holding = {
		.limit_bytes = UINT64_C(0x0102030405060708),
		.persist_bytes = UINT64_C(0x1112131415161718),
		.peak_bytes = UINT64_C(0x2122232425262728),
	};

	(void)state;
	assert_int_equal(_Alignof(struct sal_holding), 64);
	assert_memory_equal(&holding, golden, sizeof(holding));
}

/*
 * A client without the holding checks the size of its memory, which is exactly that of the rings.
 */
static void it_lies_behind_the_rings(void **state)
{
	_Alignas(64) char memory[2 * (128 + BYTES) + 64];
	const size_t rings = sizeof(memory) - 64;
	uint32_t minor;

	(void)state;
	assert_int_equal(rings, 2 * sal_ring_span(BYTES));
	for (minor = 0; minor < SAL_MINOR_HOLDING; minor++) {
		assert_int_equal(sal_holding_span(BYTES, minor), rings);
		assert_null(sal_holding_find(memory, BYTES, minor));
	}
	for (; minor < SAL_MINOR_HOLDING + 2; minor++) {
		assert_int_equal(sal_holding_span(BYTES, minor), sizeof(memory));
		assert_ptr_equal(sal_holding_find(memory, BYTES, minor), memory + rings);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(its_bytes),
		cmocka_unit_test(it_lies_behind_the_rings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
