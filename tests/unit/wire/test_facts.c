/* SPDX-License-Identifier: Apache-2.0 */
/* facts: packed and unpacked, and invalid bytes are refused. Also pack, which facts use. */
#include "wire/facts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/pack.h"

#define TEXT(literal)                        \
	{                                    \
		literal, sizeof(literal) - 1 \
	}

/* Pack */

static void numbers_are_little_endian(void **state)
{
	static const unsigned char expected[] = {
		0x04, 0x03, 0x02, 0x01, /* u32 */
		0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* u64 */
		0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* i64 */
		0x00, 0x00, 0x80, 0x3f, /* f32 */
		0x02, 0x00, 0x00, 0x00, 'a',  '\0', /* text */
	};
	unsigned char bytes[sizeof(expected)];
	struct sal_pack p;
	struct sal_unpack u;
	struct sal_text text;

	(void)state;
	sal_pack_init(&p, bytes, sizeof(bytes));
	sal_pack_u32(&p, 0x01020304u);
	sal_pack_u64(&p, 0x0102030405060708u);
	sal_pack_i64(&p, -2);
	sal_pack_f32(&p, 1.0f);
	sal_pack_text(&p, (struct sal_text){ "a\0", 2 });
	assert_false(p.failed);
	assert_int_equal(p.used, sizeof(expected));
	assert_memory_equal(bytes, expected, sizeof(expected));

	sal_unpack_init(&u, bytes, sizeof(bytes));
	assert_int_equal(sal_unpack_u32(&u), 0x01020304u);
	assert_int_equal(sal_unpack_u64(&u), 0x0102030405060708u);
	assert_int_equal(sal_unpack_i64(&u), -2);
	assert_true(sal_unpack_f32(&u) == 1.0f);
	text = sal_unpack_text(&u);
	assert_int_equal(text.size, 2);
	assert_ptr_equal(text.at, bytes + sizeof(bytes) - 2);
	assert_false(u.failed);
	assert_int_equal(u.left, 0);
}

static void writing_stays_within_bounds(void **state)
{
	unsigned char bytes[8] = { 0 };
	struct sal_pack p;

	(void)state;
	sal_pack_init(&p, bytes, 6);
	sal_pack_u32(&p, 1);
	assert_false(p.failed);
	sal_pack_u32(&p, 0xffffffffu);
	assert_true(p.failed);
	/* An error stays, even for a value that would fit. */
	sal_pack_bytes(&p, "x", 1);
	assert_int_equal(p.used, 4);
	assert_int_equal(bytes[4], 0);
}

static void counting_needs_no_memory(void **state)
{
	struct sal_pack p;

	(void)state;
	sal_pack_init(&p, NULL, 0);
	sal_pack_u64(&p, 1);
	sal_pack_text(&p, (struct sal_text)TEXT("four"));
	assert_false(p.failed);
	assert_int_equal(p.used, 16);
	sal_pack_text(&p, (struct sal_text){ "x", (size_t)UINT32_MAX + 1 });
	assert_true(p.failed);
}

static void reading_stays_within_bounds(void **state)
{
	static const unsigned char bytes[] = { 0xff, 0xff, 0xff, 0xff, 1, 2, 3 };
	struct sal_unpack u;

	(void)state;
	sal_unpack_init(&u, bytes, sizeof(bytes));
	assert_null(sal_unpack_text(&u).at);
	assert_true(u.failed);
	assert_int_equal(sal_unpack_u32(&u), 0);
	assert_null(sal_unpack_bytes(&u, 0));

	sal_unpack_init(&u, bytes, sizeof(bytes));
	assert_int_equal(sal_unpack_count(&u, 8), 0);
	assert_true(u.failed);

	sal_unpack_init(&u, bytes + 4, 3);
	assert_int_equal(sal_unpack_u32(&u), 0);
	assert_true(u.failed);
}

/* Facts */

static const int64_t version[] = { 1, -12, INT64_MAX };

static const struct sal_value values[] = {
	{ .name = TEXT("text"), .kind = SAL_VALUE_TEXT, .text = TEXT("of it") },
	{ .name = TEXT("int"), .kind = SAL_VALUE_INT, .number = INT64_MIN },
	{ .name = TEXT("ints"), .kind = SAL_VALUE_INTS, .numbers = version, .number_count = 3 },
	{ .name = TEXT("none"), .kind = SAL_VALUE_INTS },
	{ .name = TEXT("float"), .kind = SAL_VALUE_FLOAT, .real = 0.5f },
	{ .name = TEXT(""), .kind = SAL_VALUE_BOOL, .number = 1 },
};

static const struct sal_memory_facts memories[] = {
	{ .id = 0, .kind_id = 42097224, .kind = TEXT("device"), .to_string = TEXT("DEVICE_0") },
	{ .id = 1, .kind_id = -272058569, .kind = TEXT("host"), .debug_string = TEXT("HOST_1") },
};

static const struct sal_device_facts device = {
	.platform_name = TEXT("cpu"),
	.platform_version = TEXT("1.2"),
	.plugin_attributes = { values, 6 },
	.topology_attributes = { values + 1, 1 },
	.topology = { "\0\1\2", 3 },
	.device_id = -1,
	.process_index = 2,
	.local_hardware_id = 3,
	.kind = TEXT("kind"),
	.debug_string = TEXT("debug"),
	.to_string = TEXT("to"),
	.device_attributes = { values, 2 },
	.memories = memories,
	.memory_count = 2,
	.default_memory = 1,
};

static const struct sal_chip_facts others[] = {
	{ .device_id = 1,
	  .local_hardware_id = 1,
	  .kind = TEXT("kind"),
	  .debug_string = TEXT("debug 1"),
	  .to_string = TEXT("to 1"),
	  .attributes = { values, 3 },
	  .memories = memories + 1,
	  .memory_count = 1 },
	{ .device_id = 7, .memories = memories, .memory_count = 2, .default_memory = 1 },
};
static const uint32_t chips[] = { 2, 0, 63 };

static const int64_t dims[] = { 128, 0 };
static const uint32_t donated[] = { 0, 7, 70000 };

static const struct sal_output_facts outputs[] = {
	{ .type = 11,
	  .rank = 2,
	  .dims = dims,
	  .memory_kind = TEXT("device"),
	  .layout = TEXT("{1,0}"),
	  .bytes = 1ull << 40 },
	{ .type = 1 },
};

static const struct sal_program_facts program = {
	.name = TEXT("jit_step"),
	.fingerprint = { "\xff\0", 2 },
	.replicas = 1,
	.partitions = 2,
	.code_bytes = 3,
	.outputs = outputs,
	.output_count = 2,
	.donated = donated,
	.donated_count = 3,
	.memory = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 },
	.costs = { values + 4, 1 },
	.device_assignment = TEXT("x"),
};

static void same_text(struct sal_text a, struct sal_text b)
{
	assert_int_equal(a.size, b.size);
	if (a.size > 0)
		assert_memory_equal(a.at, b.at, a.size);
}

static void same_values(struct sal_values a, struct sal_values b)
{
	assert_int_equal(a.count, b.count);
	for (size_t i = 0; i < a.count; i++) {
		const struct sal_value *x = &a.at[i];
		const struct sal_value *y = &b.at[i];

		same_text(x->name, y->name);
		assert_int_equal(x->kind, y->kind);
		same_text(x->text, y->text);
		assert_int_equal(x->number, y->number);
		assert_true(x->real == y->real);
		assert_int_equal(x->number_count, y->number_count);
		for (size_t k = 0; k < x->number_count; k++)
			assert_int_equal(x->numbers[k], y->numbers[k]);
	}
}

static void same_device(const struct sal_device_facts *a, const struct sal_device_facts *b)
{
	same_text(a->platform_name, b->platform_name);
	same_text(a->platform_version, b->platform_version);
	same_values(a->plugin_attributes, b->plugin_attributes);
	same_values(a->topology_attributes, b->topology_attributes);
	same_text(a->topology, b->topology);
	assert_int_equal(a->device_id, b->device_id);
	assert_int_equal(a->process_index, b->process_index);
	assert_int_equal(a->local_hardware_id, b->local_hardware_id);
	same_text(a->kind, b->kind);
	same_text(a->debug_string, b->debug_string);
	same_text(a->to_string, b->to_string);
	same_values(a->device_attributes, b->device_attributes);
	assert_int_equal(a->memory_count, b->memory_count);
	for (size_t i = 0; i < a->memory_count; i++) {
		assert_int_equal(a->memories[i].id, b->memories[i].id);
		assert_int_equal(a->memories[i].kind_id, b->memories[i].kind_id);
		same_text(a->memories[i].kind, b->memories[i].kind);
		same_text(a->memories[i].debug_string, b->memories[i].debug_string);
		same_text(a->memories[i].to_string, b->memories[i].to_string);
	}
	assert_int_equal(a->default_memory, b->default_memory);
}

static void same_program(const struct sal_program_facts *a, const struct sal_program_facts *b)
{
	same_text(a->name, b->name);
	same_text(a->fingerprint, b->fingerprint);
	assert_int_equal(a->replicas, b->replicas);
	assert_int_equal(a->partitions, b->partitions);
	assert_int_equal(a->code_bytes, b->code_bytes);
	assert_int_equal(a->output_count, b->output_count);
	for (size_t i = 0; i < a->output_count; i++) {
		const struct sal_output_facts *x = &a->outputs[i];
		const struct sal_output_facts *y = &b->outputs[i];

		assert_int_equal(x->type, y->type);
		assert_int_equal(x->rank, y->rank);
		for (uint32_t k = 0; k < x->rank; k++)
			assert_int_equal(x->dims[k], y->dims[k]);
		same_text(x->memory_kind, y->memory_kind);
		same_text(x->layout, y->layout);
		assert_int_equal(x->bytes, y->bytes);
	}
	assert_int_equal(a->donated_count, b->donated_count);
	assert_memory_equal(a->donated, b->donated, a->donated_count * sizeof(*a->donated));
	assert_memory_equal(&a->memory, &b->memory, sizeof(a->memory));
	same_values(a->costs, b->costs);
	same_text(a->device_assignment, b->device_assignment);
}

static void device_facts_come_back(void **state)
{
	struct sal_device_facts *back;
	size_t size;
	void *bytes = sal_device_facts_pack(&device, &size);

	(void)state;
	assert_non_null(bytes);
	assert_int_equal(sal_device_facts_unpack(bytes, size, &back, NULL), SAL_OK);
	same_device(&device, back);
	free(back);
	free(bytes);
}

static void program_facts_come_back(void **state)
{
	struct sal_program_facts *back;
	size_t size;
	void *bytes = sal_program_facts_pack(&program, &size);

	(void)state;
	assert_non_null(bytes);
	assert_int_equal(sal_program_facts_unpack(bytes, size, &back, NULL), SAL_OK);
	same_program(&program, back);
	free(back);
	free(bytes);
}

static void no_facts_come_back_too(void **state)
{
	const struct sal_device_facts no_device = { 0 };
	const struct sal_program_facts no_program = { 0 };
	struct sal_device_facts *d;
	struct sal_program_facts *p;
	size_t size;
	void *bytes = sal_device_facts_pack(&no_device, &size);

	(void)state;
	assert_int_equal(sal_device_facts_unpack(bytes, size, &d, NULL), SAL_OK);
	same_device(&no_device, d);
	free(d);
	free(bytes);
	bytes = sal_program_facts_pack(&no_program, &size);
	assert_int_equal(sal_program_facts_unpack(bytes, size, &p, NULL), SAL_OK);
	assert_int_equal(p->output_count, 0);
	assert_int_equal(p->donated_count, 0);
	free(p);
	free(bytes);
}

/* Neither form is accepted as the other. A truncated form is refused, and so is a trailing byte. */
static void other_bytes_are_refused(void **state)
{
	struct sal_device_facts *d;
	struct sal_program_facts *p;
	struct sal_err err = { 0 };
	size_t sizes[2];
	void *bytes[2] = { sal_device_facts_pack(&device, &sizes[0]),
			   sal_program_facts_pack(&program, &sizes[1]) };

	(void)state;
	assert_int_equal(sal_device_facts_unpack(bytes[1], sizes[1], &d, &err), -SAL_DATA_LOSS);
	assert_int_equal(err.code, SAL_DATA_LOSS);
	assert_null(d);
	assert_int_equal(sal_program_facts_unpack(bytes[0], sizes[0], &p, &err), -SAL_DATA_LOSS);
	assert_null(p);
	for (int i = 0; i < 2; i++) {
		for (size_t size = 0; size <= sizes[i] + 1; size++) {
			char *copy = calloc(1, size + 1);

			memcpy(copy, bytes[i], size < sizes[i] ? size : sizes[i]);
			copy = realloc(copy, size ? size : 1); /* exact size, for the sanitizer */
			if (size == sizes[i]) {
				free(copy);
				continue;
			}
			assert_int_equal(i ? sal_program_facts_unpack(copy, size, &p, &err)
					   : sal_device_facts_unpack(copy, size, &d, &err),
					 -SAL_DATA_LOSS);
			free(copy);
		}
		free(bytes[i]);
	}
}

/* A peer may change any byte to any value. Accepted facts can be packed again. */
static void damage_does_no_harm(void **state)
{
	static const unsigned char worst[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
	size_t sizes[2];
	unsigned char *bytes[2] = { sal_device_facts_pack(&device, &sizes[0]),
				    sal_program_facts_pack(&program, &sizes[1]) };

	(void)state;
	for (size_t i = 0; i < sizes[0] * sizeof(worst); i++) {
		unsigned char *at = &bytes[0][i / sizeof(worst)];
		unsigned char was = *at;
		struct sal_device_facts *d;
		size_t size;

		*at = worst[i % sizeof(worst)];
		if (sal_device_facts_unpack(bytes[0], sizes[0], &d, NULL) == SAL_OK) {
			free(sal_device_facts_pack(d, &size));
			assert_int_equal(size, sizes[0]);
			free(d);
		}
		*at = was;
	}
	for (size_t i = 0; i < sizes[1] * sizeof(worst); i++) {
		unsigned char *at = &bytes[1][i / sizeof(worst)];
		unsigned char was = *at;
		struct sal_program_facts *p;
		size_t size;

		*at = worst[i % sizeof(worst)];
		if (sal_program_facts_unpack(bytes[1], sizes[1], &p, NULL) == SAL_OK) {
			free(sal_program_facts_pack(p, &size));
			assert_int_equal(size, sizes[1]);
			free(p);
		}
		*at = was;
	}
	free(bytes[0]);
	free(bytes[1]);
}

/* Facts of a single device have the form that older clients know: nothing follows. */
static void several_devices_make_the_round_trip(void **state)
{
	struct sal_device_facts wide = device, *back;
	size_t size, alone;
	void *bytes;

	(void)state;
	free(sal_device_facts_pack(&device, &alone));
	wide.others = others;
	wide.other_count = 2;
	bytes = sal_device_facts_pack(&wide, &size);
	assert_true(size > alone);
	assert_int_equal(sal_device_facts_unpack(bytes, size, &back, NULL), SAL_OK);
	same_device(&wide, back);
	assert_int_equal(back->other_count, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct sal_chip_facts *a = &others[i], *b = &back->others[i];

		assert_int_equal(a->device_id, b->device_id);
		assert_int_equal(a->local_hardware_id, b->local_hardware_id);
		same_text(a->kind, b->kind);
		same_text(a->debug_string, b->debug_string);
		same_text(a->to_string, b->to_string);
		same_values(a->attributes, b->attributes);
		assert_int_equal(a->memory_count, b->memory_count);
		same_text(a->memories[0].kind, b->memories[0].kind);
		assert_int_equal(a->default_memory, b->default_memory);
	}
	free(back);
	for (size_t cut = alone + 1; cut < size; cut++)
		assert_int_equal(sal_device_facts_unpack(bytes, cut, &back, NULL), -SAL_DATA_LOSS);
	assert_int_equal(sal_device_facts_unpack(bytes, alone, &back, NULL), SAL_OK);
	assert_int_equal(back->other_count, 0);
	free(back);
	free(bytes);
}

static void check_chips(const struct sal_program_facts *facts, size_t count, bool is_portable)
{
	struct sal_program_facts *back;
	size_t size;
	void *bytes = sal_program_facts_pack(facts, &size);

	assert_int_equal(sal_program_facts_unpack(bytes, size, &back, NULL), SAL_OK);
	assert_int_equal(back->chip_count, count);
	assert_int_equal(back->is_portable, is_portable);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(back->chips[i],
				 facts->chips && !is_portable ? facts->chips[i] : 0);
	free(back);
	free(bytes);
}

static void a_program_names_its_devices(void **state)
{
	static const uint32_t impossible[] = { 1, 64 };
	struct sal_program_facts facts = program, *back;
	size_t sizes[2];
	void *bytes;

	(void)state;
	check_chips(&facts, 1, false);
	facts.chips = chips;
	facts.chip_count = 3;
	check_chips(&facts, 3, false);
	facts.chip_count = 1;
	check_chips(&facts, 1, false);
	facts.is_portable = true;
	check_chips(&facts, 1, true);
	facts.is_portable = false;
	facts.chips = chips + 1; /* the first alone: as if nothing were said */
	free(sal_program_facts_pack(&facts, &sizes[0]));
	free(sal_program_facts_pack(&program, &sizes[1]));
	assert_int_equal(sizes[0], sizes[1]);
	facts.chips = impossible;
	facts.chip_count = 2;
	bytes = sal_program_facts_pack(&facts, &sizes[0]);
	assert_int_equal(sal_program_facts_unpack(bytes, sizes[0], &back, NULL), -SAL_DATA_LOSS);
	free(bytes);
}

static void donated_parameters_must_ascend(void **state)
{
	static const uint32_t wrong[] = { 7, 7 };
	struct sal_program_facts facts = { .donated = wrong, .donated_count = 2 };
	struct sal_program_facts *back;
	size_t size;
	void *bytes = sal_program_facts_pack(&facts, &size);

	(void)state;
	assert_int_equal(sal_program_facts_unpack(bytes, size, &back, NULL), -SAL_DATA_LOSS);
	free(bytes);
}

static void a_default_is_one_of_the_memories(void **state)
{
	struct sal_device_facts facts = { .memories = memories, .memory_count = 2 };
	struct sal_device_facts *back;
	size_t size;

	(void)state;
	for (facts.default_memory = 0; facts.default_memory < 4; facts.default_memory++) {
		void *bytes = sal_device_facts_pack(&facts, &size);

		assert_int_equal(sal_device_facts_unpack(bytes, size, &back, NULL),
				 facts.default_memory < 2 ? SAL_OK : -SAL_DATA_LOSS);
		free(back);
		free(bytes);
	}
}

/* Every byte of the mark counts, also the version of the form. */
static void another_mark_is_refused(void **state)
{
	struct sal_device_facts *d;
	struct sal_program_facts *p;
	size_t sizes[2];
	unsigned char *bytes[2] = { sal_device_facts_pack(&device, &sizes[0]),
				    sal_program_facts_pack(&program, &sizes[1]) };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		bytes[0][i]++;
		bytes[1][i]++;
		assert_int_equal(sal_device_facts_unpack(bytes[0], sizes[0], &d, NULL),
				 -SAL_DATA_LOSS);
		assert_int_equal(sal_program_facts_unpack(bytes[1], sizes[1], &p, NULL),
				 -SAL_DATA_LOSS);
		bytes[0][i]--;
		bytes[1][i]--;
	}
	free(bytes[0]);
	free(bytes[1]);
}

/* A value of an unknown kind has an unknown length: here, a length that would fit. */
static void a_value_of_no_kind_is_refused(void **state)
{
	static const struct sal_value value = { .kind = SAL_VALUE_TEXT };
	const struct sal_program_facts facts = { .costs = { &value, 1 } };
	struct sal_program_facts *back;
	size_t size;
	unsigned char *bytes = sal_program_facts_pack(&facts, &size);
	unsigned char *kind = bytes + size - 12; /* before the value and device assignment */

	(void)state;
	assert_int_equal(*kind, SAL_VALUE_TEXT);
	*kind = 77;
	assert_int_equal(sal_program_facts_unpack(bytes, size - 4, &back, NULL), -SAL_DATA_LOSS);
	assert_int_equal(sal_program_facts_unpack(bytes, size, &back, NULL), -SAL_DATA_LOSS);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_default_is_one_of_the_memories),
		cmocka_unit_test(another_mark_is_refused),
		cmocka_unit_test(a_value_of_no_kind_is_refused),
		cmocka_unit_test(numbers_are_little_endian),
		cmocka_unit_test(writing_stays_within_bounds),
		cmocka_unit_test(counting_needs_no_memory),
		cmocka_unit_test(reading_stays_within_bounds),
		cmocka_unit_test(device_facts_come_back),
		cmocka_unit_test(program_facts_come_back),
		cmocka_unit_test(no_facts_come_back_too),
		cmocka_unit_test(other_bytes_are_refused),
		cmocka_unit_test(damage_does_no_harm),
		cmocka_unit_test(several_devices_make_the_round_trip),
		cmocka_unit_test(a_program_names_its_devices),
		cmocka_unit_test(donated_parameters_must_ascend),
	};

	return cmocka_run_group_tests_name("facts", tests, NULL, NULL);
}
