/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "adaptor/python/old.h"
#include "base/array.h"

static bool may_call(const char *program)
{
	return adp_old_may_call(program, strlen(program));
}

static bool is_raw(const char *program)
{
	return adp_old_is_raw(program, strlen(program));
}

/* Runs first: nothing else may have said so. */
static void a_newer_jax_is_left_alone(void **state)
{
	(void)state;
	assert_false(adp_old_is_here());
	assert_false(may_call("call @xla_ffi_python_cpu_callback"));
	assert_null(adp_old_find(0));
	assert_null(adp_old_find(UINT64_C(1) << 32));
}

static void only_added_functions_are_found(void **state)
{
	enum {
		COUNT = 200
	}; /* more than the first piece of memory holds */
	static char functions[COUNT];
	uint64_t indices[COUNT];

	(void)state;
	for (size_t i = 0; i < COUNT; i++)
		indices[i] = salus_old_function(&functions[i]);
	for (size_t i = 0; i < COUNT; i++) {
		assert_true(indices[i] > UINT32_MAX); /* no index of a newer JAX */
		assert_ptr_equal(adp_old_find(indices[i]), &functions[i]);
	}
	assert_null(adp_old_find(indices[COUNT - 1] + 1));
	assert_null(adp_old_find(indices[0] - 1));
	assert_null(adp_old_find(0));
	assert_null(adp_old_find(UINT64_MAX));
}

static void programs_are_known_by_their_calls(void **state)
{
	(void)state;
	salus_old_jax();
	assert_true(adp_old_is_here());
	assert_true(may_call("call @xla_ffi_python_cpu_callback"));
	assert_false(may_call("call @xla_python_cpu_callback"));
	assert_false(may_call(""));
	assert_true(is_raw("call @xla_python_cpu_callback"));
	assert_false(is_raw("call @xla_ffi_python_cpu_callback"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_newer_jax_is_left_alone),
		cmocka_unit_test(only_added_functions_are_found),
		cmocka_unit_test(programs_are_known_by_their_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
