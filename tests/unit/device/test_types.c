/* SPDX-License-Identifier: Apache-2.0 */
/* types: the numbers that base/ repeats are equal to those of the vendor's header. */
#include "base/facts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pjrt_c_api.h>

#include "base/err.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)

SAME(SAL_VALUE_TEXT, PJRT_NamedValue_kString);
SAME(SAL_VALUE_INT, PJRT_NamedValue_kInt64);
SAME(SAL_VALUE_INTS, PJRT_NamedValue_kInt64List);
SAME(SAL_VALUE_FLOAT, PJRT_NamedValue_kFloat);
SAME(SAL_VALUE_BOOL, PJRT_NamedValue_kBool);
SAME(SAL_OK, PJRT_Error_Code_OK);
SAME(SAL_CANCELLED, PJRT_Error_Code_CANCELLED);
SAME(SAL_UNKNOWN, PJRT_Error_Code_UNKNOWN);
SAME(SAL_INVALID_ARGUMENT, PJRT_Error_Code_INVALID_ARGUMENT);
SAME(SAL_DEADLINE_EXCEEDED, PJRT_Error_Code_DEADLINE_EXCEEDED);
SAME(SAL_NOT_FOUND, PJRT_Error_Code_NOT_FOUND);
SAME(SAL_ALREADY_EXISTS, PJRT_Error_Code_ALREADY_EXISTS);
SAME(SAL_PERMISSION_DENIED, PJRT_Error_Code_PERMISSION_DENIED);
SAME(SAL_RESOURCE_EXHAUSTED, PJRT_Error_Code_RESOURCE_EXHAUSTED);
SAME(SAL_FAILED_PRECONDITION, PJRT_Error_Code_FAILED_PRECONDITION);
SAME(SAL_ABORTED, PJRT_Error_Code_ABORTED);
SAME(SAL_OUT_OF_RANGE, PJRT_Error_Code_OUT_OF_RANGE);
SAME(SAL_UNIMPLEMENTED, PJRT_Error_Code_UNIMPLEMENTED);
SAME(SAL_INTERNAL, PJRT_Error_Code_INTERNAL);
SAME(SAL_UNAVAILABLE, PJRT_Error_Code_UNAVAILABLE);
SAME(SAL_DATA_LOSS, PJRT_Error_Code_DATA_LOSS);
SAME(SAL_UNAUTHENTICATED, PJRT_Error_Code_UNAUTHENTICATED);

static const struct {
	PJRT_Buffer_Type type;
	size_t bytes;
} types[] = {
	{ PJRT_Buffer_Type_INVALID, 0 },
	{ PJRT_Buffer_Type_PRED, 1 },
	{ PJRT_Buffer_Type_S8, 1 },
	{ PJRT_Buffer_Type_S16, 2 },
	{ PJRT_Buffer_Type_S32, 4 },
	{ PJRT_Buffer_Type_S64, 8 },
	{ PJRT_Buffer_Type_U8, 1 },
	{ PJRT_Buffer_Type_U16, 2 },
	{ PJRT_Buffer_Type_U32, 4 },
	{ PJRT_Buffer_Type_U64, 8 },
	{ PJRT_Buffer_Type_F16, 2 },
	{ PJRT_Buffer_Type_F32, 4 },
	{ PJRT_Buffer_Type_F64, 8 },
	{ PJRT_Buffer_Type_BF16, 2 },
	{ PJRT_Buffer_Type_C64, 8 },
	{ PJRT_Buffer_Type_C128, 16 },
	{ PJRT_Buffer_Type_F8E5M2, 1 },
	{ PJRT_Buffer_Type_F8E4M3FN, 1 },
	{ PJRT_Buffer_Type_F8E4M3B11FNUZ, 1 },
	{ PJRT_Buffer_Type_F8E5M2FNUZ, 1 },
	{ PJRT_Buffer_Type_F8E4M3FNUZ, 1 },
	{ PJRT_Buffer_Type_S4, 1 },
	{ PJRT_Buffer_Type_U4, 1 },
	{ PJRT_Buffer_Type_TOKEN, 0 },
	{ PJRT_Buffer_Type_S2, 1 },
	{ PJRT_Buffer_Type_U2, 1 },
	{ PJRT_Buffer_Type_F8E4M3, 1 },
	{ PJRT_Buffer_Type_F8E3M4, 1 },
	{ PJRT_Buffer_Type_F8E8M0FNU, 1 },
	{ PJRT_Buffer_Type_F4E2M1FN, 1 },
};

static void every_type_has_its_size(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		assert_int_equal(types[i].type, i);
		assert_int_equal(sal_type_bytes((int32_t)types[i].type), types[i].bytes);
	}
}

static void other_numbers_have_none(void **state)
{
	(void)state;
	assert_int_equal(sal_type_bytes(-1), 0);
	assert_int_equal(sal_type_bytes(INT32_MIN), 0);
	assert_int_equal(sal_type_bytes((int32_t)(sizeof(types) / sizeof(types[0]))), 0);
	assert_int_equal(sal_type_bytes(INT32_MAX), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_has_its_size),
		cmocka_unit_test(other_numbers_have_none),
	};

	return cmocka_run_group_tests_name("types", tests, NULL, NULL);
}
