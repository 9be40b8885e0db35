/* SPDX-License-Identifier: Apache-2.0 */
/* kinds: a program names the memories of its outputs. A list that does not fit changes nothing. */
#include "base/kinds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct sal_memory_facts memories[] = { { .kind = { "device", 6 } },
						    { .kind = { "pinned_host", 11 } } };
static const struct sal_output_facts plain[] = { { .memory_kind = { "device", 6 } },
						 { .memory_kind = { "device", 6 } } };
static const struct sal_program_facts facts = { .outputs = plain, .output_count = 2 };

static struct sal_output_facts *kinds(const char *program, bool is_host)
{
	struct sal_device_facts device = { .memories = memories,
					   .memory_count = 2,
					   .is_host = is_host };

	return sal_kinds_of((struct sal_text){ program, strlen(program) }, &device, &facts);
}

static void names_outputs(void **state)
{
	struct sal_output_facts *out = kinds("..salus.memory_kinds=,pinned_host;..", true);

	(void)state;
	assert_non_null(out);
	assert_ptr_equal(out[0].memory_kind.at, plain[0].memory_kind.at);
	assert_ptr_equal(out[1].memory_kind.at, memories[1].kind.at);
	free(out);
	out = kinds("salus.memory_kinds=pinned_host,device;", true);
	assert_non_null(out);
	assert_ptr_equal(out[0].memory_kind.at, memories[1].kind.at);
	assert_ptr_equal(out[1].memory_kind.at, memories[0].kind.at);
	free(out);
}

static void ignores_what_does_not_fit(void **state)
{
	static const char *const programs[] = {
		"",
		"salus.memory_kinds",
		"salus.memory_kinds=",
		"salus.memory_kinds=pinned_host,device",
		"salus.memory_kinds=;",
		"salus.memory_kinds=pinned_host;",
		"salus.memory_kinds=device,device,device;",
		"salus.memory_kinds=device,disk;",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++)
		assert_null(kinds(programs[i], true));
	assert_null(kinds("salus.memory_kinds=pinned_host,device;", false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_outputs),
		cmocka_unit_test(ignores_what_does_not_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
