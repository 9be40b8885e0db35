/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check, order, comparator, hlo: the programs that are accepted, and those that are refused, with
 * their messages.
 */
#include "compile/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/compile/message.h"

#define TEXT(s) ((struct sal_text){ s, sizeof(s) - 1 })
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* PrimitiveType */
enum {
	PRED = 1,
	S32 = 4,
	S8 = 2,
	U32 = 8,
	F32 = 11,
	TUPLE = 13,
	C64 = 15
};
/* Computations */
enum {
	ENTRY = 1,
	COMPARATOR = 2,
	FUSED = 3,
	INNER = 4
};

struct in {
	int64_t id;
	const char *opcode;
	uint32_t type;
	int64_t operands[4]; /* ends at the first 0: ids start at 1 */
	const char *direction; /* of compare; kind of fusion; target of custom-call */
	const char *comparison;
	uint64_t number; /* of a parameter; value of a constant; computation of a fusion */
};

static const char not_an_order[] = "cannot be proven to be a strict order";

/* Building */

static void put_shape(struct message *m, uint32_t field, uint32_t type, const int64_t *dims,
		      size_t rank)
{
	struct message shape = { .size = 0 };

	put_number(&shape, 2, type);
	for (size_t i = 0; i < rank; i++)
		put_number(&shape, 3, (uint64_t)dims[i]);
	put_message(m, field, &shape);
}

static void put_literal(struct message *m, const struct in *in)
{
	struct message literal = { .size = 0 };

	if (in->number || in->type != PRED)
		put_number(&literal, in->type == PRED ? 2 : 4, in->number);
	put_message(m, 8, &literal);
}

static void put_instruction(struct message *computation, const struct in *in)
{
	struct message m = { .size = 0 };

	put_text(&m, 1, in->opcode);
	put_text(&m, 2, in->opcode);
	put_shape(&m, 3, in->type, NULL, 0);
	put_number(&m, 35, (uint64_t)in->id);
	for (size_t i = 0; i < COUNT(in->operands) && in->operands[i]; i++)
		put_number(&m, 36, (uint64_t)in->operands[i]);
	if (strcmp(in->opcode, "parameter") == 0)
		put_number(&m, 9, in->number);
	else if (strcmp(in->opcode, "constant") == 0)
		put_literal(&m, in);
	else if (strcmp(in->opcode, "fusion") == 0 || strcmp(in->opcode, "call") == 0)
		put_number(&m, 38, in->number);
	if (strcmp(in->opcode, "fusion") == 0)
		put_text(&m, 11, in->direction);
	else if (strcmp(in->opcode, "compare") == 0)
		put_text(&m, 63, in->direction);
	if (in->comparison)
		put_text(&m, 72, in->comparison);
	put_message(computation, 2, &m);
}

static void put_computation(struct message *module, uint64_t id, const struct in *at, size_t count)
{
	struct message m = { .size = 0 };

	put_text(&m, 1, "computation");
	for (size_t i = 0; i < count; i++)
		put_instruction(&m, &at[i]);
	put_number(&m, 5, id);
	put_number(&m, 6, count ? (uint64_t)at[count - 1].id : 0);
	put_message(module, 3, &m);
}

/* An entry computation that sorts with COMPARATOR. */
static void put_sort(struct message *module, bool is_stable)
{
	struct message computation = { .size = 0 };
	struct message m = { .size = 0 };

	put_text(&m, 1, "sort.7");
	put_text(&m, 2, "sort");
	put_number(&m, 35, 1);
	put_number(&m, 38, COMPARATOR);
	put_number(&m, 60, is_stable);
	put_message(&computation, 2, &m);
	put_number(&computation, 5, ENTRY);
	put_number(&computation, 6, 1);
	put_message(module, 3, &computation);
}

static int check(const struct message *module, const char *platform, struct sal_err *err)
{
	struct message program = { .size = 0 };
	struct sal_check c = { .platform = { platform, strlen(platform) }, .format = TEXT("mlir") };

	put_message(&program, 1, module);
	c.optimized = (struct sal_text){ program.at, program.size };
	return sal_check_program(&c, err);
}

static void is_taken(const struct message *module)
{
	struct sal_err err = { 0 };

	if (check(module, "cpu", &err) < 0)
		fail_msg("refused: %s", err.text);
}

static void is_refused(const struct message *module, const char *words)
{
	struct sal_err err = { 0 };

	assert_true(check(module, "cpu", &err) < 0);
	if (!strstr(err.text, words))
		fail_msg("no \"%s\" in: %s", words, err.text);
}

static struct message sort_by(const struct in *at, size_t count, bool is_stable)
{
	struct message module = { .size = 0 };

	put_computation(&module, COMPARATOR, at, count);
	put_sort(&module, is_stable);
	return module;
}

#define takes(...)                                                        \
	do {                                                              \
		const struct in at_[] = { __VA_ARGS__ };                  \
		struct message module_ = sort_by(at_, COUNT(at_), false); \
		is_taken(&module_);                                       \
	} while (0)
#define refuses(words, ...)                                               \
	do {                                                              \
		const struct in at_[] = { __VA_ARGS__ };                  \
		struct message module_ = sort_by(at_, COUNT(at_), false); \
		is_refused(&module_, words);                              \
	} while (0)

#define PARAMETER(id, type, number)                              \
	{                                                        \
		id, "parameter", type, { 0 }, NULL, NULL, number \
	}
#define CONSTANT(id, type, value)                              \
	{                                                      \
		id, "constant", type, { 0 }, NULL, NULL, value \
	}
#define COMPARE(id, direction, a, b)                              \
	{                                                         \
		id, "compare", PRED, { a, b }, direction, NULL, 0 \
	}
#define COMPARE_AS(id, direction, kind, a, b)                     \
	{                                                         \
		id, "compare", PRED, { a, b }, direction, kind, 0 \
	}
#define OP(id, name, type, ...)                                \
	{                                                      \
		id, name, type, { __VA_ARGS__ }, NULL, NULL, 0 \
	}
#define FUSION(id, computation, ...)                                            \
	{                                                                       \
		id, "fusion", PRED, { __VA_ARGS__ }, "kLoop", NULL, computation \
	}
/* Two arrays: a, b, c, d are 1, 2, 3, 4. */
#define FOUR(type) \
	PARAMETER(1, type, 0), PARAMETER(2, type, 1), PARAMETER(3, type, 2), PARAMETER(4, type, 3)

/* Orders */

static void takes_one_key(void **state)
{
	(void)state;
	takes(FOUR(S32), COMPARE(5, "LT", 1, 2));
	takes(FOUR(S32), COMPARE(5, "GT", 1, 2));
	takes(FOUR(S32), COMPARE(5, "LT", 2, 1));
	takes(FOUR(S32), COMPARE(5, "GT", 3, 4));
	takes(FOUR(S32), COMPARE_AS(5, "LT", "SIGNED", 1, 2));
	takes(FOUR(U32), COMPARE_AS(5, "LT", "UNSIGNED", 1, 2));
	takes(FOUR(PRED), COMPARE(5, "LT", 1, 2));
	takes(FOUR(F32), COMPARE_AS(5, "LT", "TOTALORDER", 1, 2));
	takes(FOUR(S32), COMPARE(5, "GE", 1, 2), OP(6, "not", PRED, 5));
	takes(FOUR(S32), CONSTANT(5, PRED, 0)); /* all elements are equal */
}

static void refuses_comparators_without_order(void **state)
{
	static const char *const directions[] = { "LE", "GE", "EQ", "NE", "", "lt" };

	(void)state;
	for (size_t i = 0; i < COUNT(directions); i++)
		refuses(not_an_order, FOUR(S32), COMPARE(5, directions[i], 1, 2));
	refuses(not_an_order, FOUR(S32), CONSTANT(5, PRED, 1));
	refuses(not_an_order, FOUR(PRED), OP(5, "not", PRED, 1));
	refuses(not_an_order, FOUR(S32), COMPARE(5, "LT", 1, 4)); /* keys of different arrays */
	refuses(not_an_order, FOUR(S32), COMPARE(5, "LT", 1, 3)); /* both keys on one side */
	refuses(not_an_order, FOUR(S32), COMPARE(5, "LT", 1, 1));
	refuses(not_an_order, FOUR(S32), CONSTANT(5, S32, 3), COMPARE(6, "LT", 1, 5));
	refuses(not_an_order, FOUR(S32), COMPARE_AS(5, "LT", "UNSIGNED", 1, 2));
	refuses(not_an_order, FOUR(U32), COMPARE_AS(5, "LT", "SIGNED", 1, 2));
	refuses(not_an_order, FOUR(C64), COMPARE(5, "LT", 1, 2));
	refuses("sort sort.7 is refused", FOUR(S32), COMPARE(5, "LE", 1, 2));
}

/* Both sides must compute the same function, and it must give the same result each time. */
static void compares_functions(void **state)
{
	(void)state;
	takes(FOUR(S32), OP(5, "negate", S32, 1), OP(6, "negate", S32, 2), COMPARE(7, "LT", 5, 6));
	refuses(not_an_order, FOUR(S32), OP(5, "negate", S32, 1), COMPARE(6, "LT", 5, 2));
	takes(FOUR(S32), CONSTANT(5, S32, 9), OP(6, "xor", S32, 5, 1), OP(7, "xor", S32, 2, 5),
	      COMPARE(8, "LT", 6, 7));
	refuses(not_an_order, FOUR(S32), CONSTANT(5, S32, 9), CONSTANT(6, S32, 8),
		OP(7, "xor", S32, 5, 1), OP(8, "xor", S32, 6, 2), COMPARE(9, "LT", 7, 8));
	takes(FOUR(S32), CONSTANT(5, S32, 9), CONSTANT(6, S32, 9), OP(7, "add", S32, 5, 1),
	      OP(8, "add", S32, 6, 2), COMPARE(9, "LT", 7, 8));
	refuses(not_an_order, FOUR(S32), CONSTANT(5, S32, 9), OP(6, "subtract", S32, 5, 1),
		OP(7, "subtract", S32, 2, 5), COMPARE(8, "LT", 6, 7));
	takes(FOUR(S32), OP(5, "subtract", S32, 1, 3), OP(6, "subtract", S32, 2, 4),
	      COMPARE(7, "LT", 5, 6)); /* one key uses two arrays */
	refuses(not_an_order, FOUR(S32), OP(5, "subtract", S32, 1, 2), OP(6, "subtract", S32, 2, 1),
		COMPARE(7, "LT", 5, 6)); /* one key uses both sides */
	refuses(not_an_order, FOUR(S32), OP(5, "rng", S32, 1), OP(6, "rng", S32, 2),
		COMPARE(7, "LT", 5, 6));
	refuses(not_an_order, FOUR(S32), OP(5, "custom", S32, 1), OP(6, "custom", S32, 2),
		COMPARE(7, "LT", 5, 6));
	refuses(not_an_order, FOUR(F32), OP(5, "add", F32, 1, 3), OP(6, "add", F32, 2, 4),
		COMPARE_AS(7, "LT", "TOTALORDER", 5, 6)); /* the compiler may contract one side */
	refuses(not_an_order, FOUR(F32), OP(5, "convert", S32, 1), OP(6, "convert", S8, 2),
		COMPARE(7, "LT", 5, 6));
	refuses(not_an_order, FOUR(S32), OP(5, "negate", S32, 1, 3), OP(6, "negate", S32, 2, 4),
		COMPARE(7, "LT", 5, 6)); /* too many operands */
}

/*
 * JAX sorts floats like this: it replaces all zeros by one zero and all NaNs by one NaN, then
 * compares the bits as integers.
 */
static void accepts_comparators_of_jax(void **state)
{
	(void)state;
	takes(PARAMETER(1, F32, 0), PARAMETER(2, F32, 1), CONSTANT(3, F32, 1), CONSTANT(4, F32, 2),
	      CONSTANT(5, S32, 0), CONSTANT(6, S32, 7), COMPARE(7, "NE", 1, 1),
	      COMPARE(8, "NE", 2, 2), COMPARE(9, "EQ", 1, 4), COMPARE(10, "EQ", 2, 4),
	      OP(11, "select", F32, 9, 4, 1), OP(12, "select", F32, 10, 4, 2),
	      OP(13, "select", F32, 7, 3, 11), OP(14, "select", F32, 8, 3, 12),
	      OP(15, "bitcast-convert", S32, 13), OP(16, "bitcast-convert", S32, 14),
	      OP(17, "xor", S32, 6, 15), OP(18, "xor", S32, 6, 16), COMPARE(19, "LT", 15, 5),
	      COMPARE(20, "LT", 16, 5), OP(21, "select", S32, 19, 17, 15),
	      OP(22, "select", S32, 20, 18, 16), COMPARE(23, "LT", 21, 22));
	takes(PARAMETER(1, C64, 0), PARAMETER(2, C64, 1), OP(3, "real", F32, 1),
	      OP(4, "real", F32, 2), OP(5, "imag", F32, 1), OP(6, "imag", F32, 2),
	      COMPARE_AS(7, "LT", "TOTALORDER", 3, 4), COMPARE_AS(8, "EQ", "TOTALORDER", 3, 4),
	      COMPARE_AS(9, "LT", "TOTALORDER", 5, 6), OP(10, "and", PRED, 8, 9),
	      OP(11, "or", PRED, 7, 10));
}

static void takes_several_keys(void **state)
{
	(void)state;
	takes(FOUR(S32), COMPARE(5, "LT", 1, 2), COMPARE(6, "EQ", 1, 2), COMPARE(7, "GT", 3, 4),
	      OP(8, "and", PRED, 6, 7), OP(9, "or", PRED, 5, 8));
	takes(FOUR(S32), COMPARE(5, "LT", 3, 4), COMPARE(6, "EQ", 1, 2), COMPARE(7, "GT", 1, 2),
	      OP(8, "select", PRED, 6, 5, 7)); /* the second key decides first */
	takes(FOUR(S32), COMPARE(5, "NE", 1, 2), COMPARE(6, "LT", 3, 4), COMPARE(7, "LT", 1, 2),
	      OP(8, "select", PRED, 5, 7, 6));
	/* XLA makes sorts stable like this: if no element is less, the index decides. */
	takes(FOUR(S32), COMPARE(5, "LT", 1, 2), COMPARE(6, "LT", 2, 1), COMPARE(7, "EQ", 5, 6),
	      COMPARE(8, "LT", 3, 4), OP(9, "select", PRED, 7, 8, 5));
}

static void refuses_several_keys(void **state)
{
	(void)state;
	refuses(not_an_order, FOUR(S32), COMPARE(5, "LT", 1, 2), COMPARE(6, "LT", 3, 4),
		OP(7, "or", PRED, 5, 6));
	refuses(not_an_order, FOUR(S32), COMPARE(5, "LT", 1, 2), COMPARE(6, "LT", 3, 4),
		OP(7, "and", PRED, 5, 6));
	refuses(not_an_order, FOUR(S32), COMPARE(5, "LT", 1, 2), COMPARE(6, "LT", 3, 4),
		OP(7, "xor", PRED, 5, 6));
	refuses(not_an_order, FOUR(S32), COMPARE(5, "LT", 1, 2), COMPARE(6, "EQ", 1, 2),
		COMPARE(7, "LE", 3, 4), OP(8, "and", PRED, 6, 7), OP(9, "or", PRED, 5, 8));
	refuses(not_an_order, FOUR(S32), COMPARE(5, "LT", 1, 2), COMPARE(6, "EQ", 3, 4),
		COMPARE(7, "LT", 3, 4), OP(8, "and", PRED, 6, 7), OP(9, "or", PRED, 5, 8),
		OP(10, "not", PRED, 9));
	refuses(not_an_order, FOUR(F32), COMPARE_AS(5, "LT", "FLOAT", 1, 2),
		COMPARE_AS(6, "EQ", "FLOAT", 1, 2), COMPARE_AS(7, "LT", "FLOAT", 3, 4),
		OP(8, "and", PRED, 6, 7), OP(9, "or", PRED, 5, 8));
	/* An element selects the key that decides. */
	refuses(not_an_order, FOUR(PRED), COMPARE(5, "LT", 1, 2), COMPARE(6, "LT", 3, 4),
		OP(7, "select", PRED, 1, 5, 6));
}

/* NaN is neither less nor greater than any number. Merge sort works with that. */
static void floats_need_a_stable_sort(void **state)
{
	const struct in by_float[] = { FOUR(F32), COMPARE_AS(5, "LT", "FLOAT", 1, 2) };
	const struct in no_order[] = { FOUR(F32), COMPARE_AS(5, "LE", "FLOAT", 1, 2) };
	const struct in one_side[] = { FOUR(F32), COMPARE_AS(5, "LT", "FLOAT", 1, 3) };
	struct message module;

	(void)state;
	module = sort_by(by_float, COUNT(by_float), true);
	is_taken(&module);
	module = sort_by(by_float, COUNT(by_float), false);
	is_refused(&module, "without a total order");
	module = sort_by(no_order, COUNT(no_order), true);
	is_refused(&module, not_an_order);
	module = sort_by(one_side, COUNT(one_side), true);
	is_refused(&module, not_an_order);
}

/* Fusions */

static struct message fused(const struct in *inside, size_t count, const struct in *outside,
			    size_t outside_count)
{
	struct message module = { .size = 0 };

	put_computation(&module, FUSED, inside, count);
	put_computation(&module, COMPARATOR, outside, outside_count);
	put_sort(&module, false);
	return module;
}

static void expands_fusions(void **state)
{
	const struct in less[] = { PARAMETER(1, S32, 0), PARAMETER(2, S32, 1),
				   COMPARE(3, "LT", 1, 2) };
	const struct in straight[] = { FOUR(S32), FUSION(5, FUSED, 1, 2) };
	const struct in swapped[] = { FOUR(S32), FUSION(5, FUSED, 2, 1) };
	const struct in one_side[] = { FOUR(S32), FUSION(5, FUSED, 1, 3) };
	const struct in twice[] = { FOUR(S32), FUSION(5, FUSED, 1, 2), FUSION(6, FUSED, 2, 1),
				    OP(7, "or", PRED, 5, 6) };
	const struct in library[] = { FOUR(S32),
				      { 5, "fusion", PRED, { 1, 2 }, "kCustom", NULL, FUSED } };
	const struct in called[] = { FOUR(S32), { 5, "call", PRED, { 1, 2 }, NULL, NULL, FUSED } };
	struct message module;

	(void)state;
	module = fused(less, COUNT(less), straight, COUNT(straight));
	is_taken(&module);
	module = fused(less, COUNT(less), swapped, COUNT(swapped));
	is_taken(&module);
	module = fused(less, COUNT(less), called, COUNT(called));
	is_taken(&module);
	module = fused(less, COUNT(less), one_side, COUNT(one_side));
	is_refused(&module, not_an_order);
	module = fused(less, COUNT(less), twice, COUNT(twice));
	is_refused(&module, not_an_order);
	module = fused(less, COUNT(less), library, COUNT(library));
	is_refused(&module, not_an_order);
}

static void survives_odd_fusions(void **state)
{
	const struct in less[] = { PARAMETER(1, S32, 0), PARAMETER(2, S32, 1),
				   COMPARE(3, "LT", 1, 2) };
	const struct in itself[] = { PARAMETER(1, S32, 0), PARAMETER(2, S32, 1),
				     FUSION(3, FUSED, 1, 2) };
	const struct in doubling[] = { PARAMETER(1, S32, 0),	PARAMETER(2, S32, 1),
				       FUSION(3, FUSED, 1, 2),	FUSION(4, FUSED, 1, 2),
				       FUSION(5, FUSED, 1, 2),	FUSION(6, FUSED, 1, 2),
				       OP(7, "and", PRED, 3, 4) };
	const struct in straight[] = { FOUR(S32), FUSION(5, FUSED, 1, 2) };
	const struct in fewer[] = { FOUR(S32), FUSION(5, FUSED, 1) };
	const struct in nowhere[] = { FOUR(S32), FUSION(5, INNER, 1, 2) };
	struct message module;

	(void)state;
	module = fused(itself, COUNT(itself), straight, COUNT(straight));
	is_refused(&module, "too large");
	module = fused(doubling, COUNT(doubling), straight, COUNT(straight));
	is_refused(&module, "too large");
	module = fused(less, COUNT(less), fewer, COUNT(fewer));
	is_refused(&module, "not well-formed");
	module = fused(less, COUNT(less), nowhere, COUNT(nowhere));
	is_refused(&module, "not well-formed");
}

static void refuses_odd_comparators(void **state)
{
	struct message module = { .size = 0 };

	(void)state;
	refuses("not well-formed", FOUR(S32)); /* the root does not exist */
	refuses("not well-formed", PARAMETER(1, S32, 0), PARAMETER(1, S32, 1),
		COMPARE(2, "LT", 1, 1));
	refuses("not well-formed", FOUR(S32), OP(5, "not", PRED, 6), COMPARE(6, "LT", 1, 2));
	refuses("not well-formed", FOUR(S32), COMPARE(5, "LT", 1, 77));
	put_sort(&module, false);
	is_refused(&module, "damaged"); /* the computation does not exist */
	put_computation(&module, COMPARATOR, NULL, 0);
	is_refused(&module, "not well-formed");
}

/* What is taken is an order, on all elements of a small world */

/* Elements are pairs of numbers from 0 to 2. */
#define WORLD 9
#define NODES 14

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *seed >> 33;
}

static bool answer_of(const struct in *at, size_t count, int a, int b)
{
	const int elements[4] = { a % 3, b % 3, a / 3, b / 3 };
	int values[NODES + 1] = { 0 };

	for (size_t i = 0; i < count; i++) {
		int x = values[at[i].operands[0]], y = values[at[i].operands[1]];
		const char *name = at[i].opcode, *way = at[i].direction;
		int value = 0;

		if (strcmp(name, "parameter") == 0)
			value = elements[at[i].number];
		else if (strcmp(name, "constant") == 0)
			value = (int)at[i].number;
		else if (strcmp(name, "and") == 0)
			value = x && y;
		else if (strcmp(name, "or") == 0)
			value = x || y;
		else if (strcmp(name, "xor") == 0)
			value = x != y;
		else if (strcmp(name, "not") == 0)
			value = !x;
		else if (strcmp(name, "select") == 0)
			value = x ? y : values[at[i].operands[2]];
		else
			value = strcmp(way, "LT") == 0	 ? x < y
				: strcmp(way, "GT") == 0 ? x > y
				: strcmp(way, "EQ") == 0 ? x == y
				: strcmp(way, "LE") == 0 ? x <= y
				: strcmp(way, "GE") == 0 ? x >= y
							 : x != y;
		values[at[i].id] = value;
	}
	return values[at[count - 1].id];
}

static bool is_weak_order(const struct in *at, size_t count)
{
	bool r[WORLD][WORLD];

	for (int a = 0; a < WORLD; a++)
		for (int b = 0; b < WORLD; b++)
			r[a][b] = answer_of(at, count, a, b);
	for (int a = 0; a < WORLD; a++) {
		for (int b = 0; b < WORLD; b++) {
			if (r[a][b] && r[b][a])
				return false; /* this covers a == b */
			for (int c = 0; c < WORLD; c++) {
				bool ab = r[a][b] || r[b][a], bc = r[b][c] || r[c][b];

				if (r[a][b] && r[b][c] && !r[a][c])
					return false;
				if (!ab && !bc && (r[a][c] || r[c][a]))
					return false;
			}
		}
	}
	return true;
}

static size_t random_comparator(uint64_t *seed, struct in *at)
{
	static const char *const ways[] = { "LT", "GT", "EQ", "NE", "LE", "GE" };
	static const char *const ops[] = { "and", "or", "select", "not", "xor" };
	static const struct in four[] = { FOUR(S32) };
	size_t count = COUNT(four), compares = 1 + next_random(seed) % 4;
	int64_t first = (int64_t)count + 1;

	memcpy(at, four, sizeof(four));
	for (size_t i = 0; i < compares; i++, count++) {
		int64_t a = 1 + (int64_t)(next_random(seed) % 4);
		int64_t b = next_random(seed) % 8 ? (a - 1) / 2 * 2 + 2 - (a - 1) % 2
						  : 1 + (int64_t)(next_random(seed) % 4);

		at[count] =
			(struct in)COMPARE((int64_t)count + 1, ways[next_random(seed) % 6], a, b);
	}
	for (size_t i = next_random(seed) % 4; i > 0; i--, count++) {
		const char *op = ops[next_random(seed) % 5];
		struct in in = OP((int64_t)count + 1, op, PRED, 0);
		size_t operands = strcmp(op, "select") == 0 ? 3 : strcmp(op, "not") == 0 ? 1 : 2;

		for (size_t j = 0; j < operands; j++)
			in.operands[j] = first + (int64_t)(next_random(seed) %
							   (uint64_t)((int64_t)count + 1 - first));
		at[count] = in;
	}
	return count;
}

static void takes_only_orders(void **state)
{
	uint64_t seed = 20261116;
	int taken = 0, orders = 0;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (int i = 0; i < 20000; i++) {
		struct in at[NODES];
		size_t count = random_comparator(&seed, at);
		struct message module = sort_by(at, count, false);
		bool is_order = is_weak_order(at, count);

		orders += is_order;
		if (check(&module, "cpu", NULL) < 0)
			continue;
		taken++;
		if (!is_order)
			fail_msg("comparator %d is taken, but is no order", i);
	}
	print_message("%d of %d orders are taken\n", taken, orders);
	assert_true(taken > 1000 && taken > orders / 2);
}

/* Custom calls */

struct dims {
	uint32_t type;
	size_t rank;
	int64_t at[3];
};

static struct message call_of(const char *target, const struct dims *operand,
			      const struct dims *parts, size_t part_count)
{
	struct message module = { .size = 0 };
	struct message computation = { .size = 0 };
	struct message in = { .size = 0 };
	struct message shape = { .size = 0 };

	put_text(&in, 2, "parameter");
	put_shape(&in, 3, operand->type, operand->at, operand->rank);
	put_number(&in, 35, 1);
	put_message(&computation, 2, &in);
	in.size = 0;
	put_text(&in, 1, "top.3");
	put_text(&in, 2, "custom-call");
	put_text(&in, 28, target);
	put_number(&shape, 2, TUPLE);
	for (size_t i = 0; i < part_count; i++)
		put_shape(&shape, 4, parts[i].type, parts[i].at, parts[i].rank);
	put_message(&in, 3, &shape);
	put_number(&in, 35, 2);
	put_bytes(&in, 36, "\1", 1); /* packed */
	put_message(&computation, 2, &in);
	put_number(&computation, 6, 2);
	put_message(&module, 3, &computation);
	return module;
}

static void checks_shapes_of_topk(void **state)
{
	static const struct {
		struct dims operand, parts[3];
		size_t part_count;
		bool taken;
	} cases[] = {
		{ { F32, 1, { 16 } }, { { F32, 1, { 4 } }, { S32, 1, { 4 } } }, 2, true },
		{ { F32, 1, { 16 } }, { { F32, 1, { 16 } }, { S32, 1, { 16 } } }, 2, true },
		{ { F32, 1, { 16 } }, { { F32, 1, { 0 } }, { S32, 1, { 0 } } }, 2, true },
		{ { F32, 2, { 3, 16 } }, { { F32, 2, { 3, 4 } }, { S32, 2, { 3, 4 } } }, 2, true },
		{ { F32, 1, { 16 } }, { { F32, 1, { 17 } }, { S32, 1, { 17 } } }, 2, false },
		{ { F32, 1, { 16 } }, { { F32, 1, { 4 } }, { S32, 1, { 3 } } }, 2, false },
		{ { F32, 1, { 16 } }, { { F32, 1, { 3 } }, { S32, 1, { 4 } } }, 2, false },
		{ { F32, 1, { 16 } }, { { F32, 1, { -1 } }, { S32, 1, { -1 } } }, 2, false },
		{ { F32, 1, { 16 } }, { { F32, 1, { 4 } }, { S8, 1, { 4 } } }, 2, false },
		{ { F32, 1, { 16 } }, { { S8, 1, { 4 } }, { S32, 1, { 4 } } }, 2, false },
		{ { S32, 1, { 16 } }, { { F32, 1, { 4 } }, { S32, 1, { 4 } } }, 2, false },
		{ { F32, 2, { 3, 16 } }, { { F32, 2, { 4, 4 } }, { S32, 2, { 4, 4 } } }, 2, false },
		{ { F32, 2, { 3, 16 } }, { { F32, 2, { 3, 4 } }, { S32, 2, { 2, 4 } } }, 2, false },
		{ { F32, 2, { 3, 16 } }, { { F32, 1, { 4 } }, { S32, 1, { 4 } } }, 2, false },
		{ { F32, 1, { 16 } }, { { F32, 2, { 1, 4 } }, { S32, 2, { 1, 4 } } }, 2, false },
		{ { F32, 0, { 0 } }, { { F32, 0, { 0 } }, { S32, 0, { 0 } } }, 2, false },
		{ { F32, 3, { 2, 3, 9 } },
		  { { F32, 3, { 2, 3, 4 } }, { S32, 3, { 2, 3, 4 } } },
		  2,
		  false },
		{ { F32, 1, { 16 } }, { { F32, 1, { 4 } } }, 1, false },
		{ { F32, 1, { 16 } },
		  { { F32, 1, { 4 } }, { S32, 1, { 4 } }, { S32, 1, { 4 } } },
		  3,
		  false },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct message m =
			call_of("TopK", &cases[i].operand, cases[i].parts, cases[i].part_count);

		if (cases[i].taken)
			is_taken(&m);
		else
			is_refused(&m, "top.3 to TopK is refused");
	}
}

static struct message instruction(const char *opcode, const char *target)
{
	struct message module = { .size = 0 };
	struct message computation = { .size = 0 };
	struct message in = { .size = 0 };

	put_text(&in, 2, opcode);
	put_text(&in, 28, target);
	put_message(&computation, 2, &in);
	put_message(&module, 3, &computation);
	return module;
}

/* Eigenvalues: the matrix becomes its vectors; values; info. */
static void checks_shapes_of_linear_algebra(void **state)
{
	static const struct {
		struct dims operand, parts[3];
		size_t part_count;
	} wrong[] = {
		{ { F32, 2, { 8, 8 } }, { { F32, 2, { 8, 8 } }, { F32, 1, { 8 } } }, 2 },
		{ { F32, 2, { 8, 8 } },
		  { { F32, 2, { 9, 9 } }, { F32, 1, { 8 } }, { S32, 0, { 0 } } },
		  3 },
		{ { F32, 2, { 8, 8 } },
		  { { F32, 2, { 8, 8 } }, { F32, 1, { 9 } }, { S32, 0, { 0 } } },
		  3 },
		{ { F32, 2, { 8, 8 } },
		  { { F32, 2, { 8, 8 } }, { S32, 1, { 8 } }, { S32, 0, { 0 } } },
		  3 },
		{ { F32, 2, { 8, 8 } },
		  { { F32, 2, { 8, 8 } }, { F32, 1, { 8 } }, { S8, 0, { 0 } } },
		  3 },
		{ { F32, 2, { 8, 4 } },
		  { { F32, 2, { 8, 4 } }, { F32, 1, { 4 } }, { S32, 0, { 0 } } },
		  3 },
		{ { F32, 1, { 8 } },
		  { { F32, 1, { 8 } }, { F32, 1, { 8 } }, { S32, 0, { 0 } } },
		  3 },
		{ { S32, 2, { 8, 8 } },
		  { { S32, 2, { 8, 8 } }, { F32, 1, { 8 } }, { S32, 0, { 0 } } },
		  3 },
	};
	const struct dims operand = { F32, 2, { 8, 8 } };
	const struct dims parts[] = { operand, { F32, 1, { 8 } }, { S32, 0, { 0 } } };
	struct message m = call_of("lapack_ssyevd_ffi", &operand, parts, 3);
	struct message program = { .size = 0 };
	struct sal_check c = { .platform = TEXT("cpu"), .format = TEXT("mlir") };

	(void)state;
	put_message(&program, 1, &m);
	c.optimized = (struct sal_text){ program.at, program.size };
	assert_int_equal(sal_check_program(&c, NULL), SAL_OK);
	assert_true(c.scratch_bytes >= (1 + 6 * 8 + 2 * 8 * 8) * sizeof(float));
	assert_true(c.scratch_most == c.scratch_bytes);
	for (size_t i = 0; i < COUNT(wrong); i++) {
		m = call_of("lapack_ssyevd_ffi", &wrong[i].operand, wrong[i].parts,
			    wrong[i].part_count);
		is_refused(&m, "a call of ssyevd is refused");
	}
	m = instruction("custom-call", "lapack_spotrf_ffi");
	is_refused(&m, "a call of spotrf is refused");
}

static void takes_calls_by_name(void **state)
{
	static const char *const others[] = { "memcpy",
					      "topk",
					      "TopK2",
					      "",
					      "__cublas$gemm",
					      "xla_python_cpu_callback",
					      "xla_ffi_python_cpu_callbacks" };
	struct sal_err err = { 0 };
	struct message m;

	(void)state;
	for (size_t i = 0; i < COUNT(others); i++) {
		m = instruction("custom-call", others[i]);
		is_refused(&m, others[i]);
		is_refused(&m, "not supported through Salus yet");
	}
	m = instruction("custom-call", "xla_ffi_python_cpu_callback");
	assert_int_equal(check(&m, "cpu", &err), SAL_OK);
	assert_int_equal(check(&m, "cuda", &err), -SAL_UNIMPLEMENTED);
	m = instruction("custom-call", "xla_ffi_partitioned_python_cpu_callback");
	assert_int_equal(check(&m, "cpu", &err), SAL_OK);
	m = instruction("custom-call", "SliceToDynamic");
	is_refused(&m, "size is known only when the program runs");
	m = instruction("custom-call", "__cublas$gemm");
	assert_int_equal(check(&m, "cuda", &err), SAL_OK);
	m = instruction("custom-call", "__cublas$");
	assert_int_equal(check(&m, "cuda", &err), -SAL_UNIMPLEMENTED);
	m = instruction("custom-call", "memcpy");
	assert_int_equal(check(&m, "cuda", &err), -SAL_UNIMPLEMENTED);
}

static void refuses_feeds(void **state)
{
	static const char *const feeds[] = { "infeed", "outfeed",   "send",
					     "recv",   "send-done", "recv-done" };
	struct message m;

	(void)state;
	for (size_t i = 0; i < COUNT(feeds); i++) {
		m = instruction(feeds[i], "");
		is_refused(&m, feeds[i]);
	}
	m = instruction("add", "");
	is_taken(&m);
}

/* Programs */

static void checks_without_an_optimised_program(void **state)
{
	struct message bad = instruction("infeed", "");
	struct message good = instruction("add", "");
	struct sal_check c = { .platform = TEXT("cpu"),
			       .format = TEXT("mlir"),
			       .program = TEXT("x") };
	struct sal_err err = { 0 };

	(void)state;
	assert_int_equal(sal_check_program(&c, &err), -SAL_UNIMPLEMENTED);
	assert_non_null(strstr(err.text, "cannot check it"));
	c.platform = TEXT("other");
	assert_int_equal(sal_check_program(&c, &err), SAL_OK);
	c.format = TEXT("hlo");
	c.program = (struct sal_text){ bad.at, bad.size };
	assert_int_equal(sal_check_program(&c, &err), -SAL_UNIMPLEMENTED);
	c.program = (struct sal_text){ good.at, good.size };
	assert_int_equal(sal_check_program(&c, &err), SAL_OK);
	c.optimized = TEXT("\x0a\x00"); /* an empty module */
	assert_int_equal(sal_check_program(&c, &err), -SAL_DATA_LOSS);
}

/* MLIR has no such instructions: XLA refuses them. */
static void refuses_instructions_of_the_compiler(void **state)
{
	static const char *const own[] = { "fusion",	   "bitcast",	 "async-start",
					   "async-update", "async-done", "copy-start",
					   "copy-done" };
	struct message good = { .size = 0 };
	struct message module = instruction("add", "");
	struct sal_check c = { .platform = TEXT("cpu"), .format = TEXT("hlo") };
	struct sal_err err = { 0 };

	(void)state;
	put_message(&good, 1, &module);
	c.optimized = (struct sal_text){ good.at, good.size };
	c.program = (struct sal_text){ module.at, module.size };
	assert_int_equal(sal_check_program(&c, &err), SAL_OK);
	for (size_t i = 0; i < COUNT(own); i++) {
		struct message sent = instruction(own[i], "");

		is_taken(&sent); /* allowed in the optimised program */
		c.program = (struct sal_text){ sent.at, sent.size };
		assert_int_equal(sal_check_program(&c, &err), -SAL_INVALID_ARGUMENT);
		assert_non_null(strstr(err.text, own[i]));
	}
	c.program = TEXT("no module");
	assert_int_equal(sal_check_program(&c, &err), -SAL_DATA_LOSS);
}

static void refuses_damaged_programs(void **state)
{
	struct message m = instruction("add", "");
	struct message twice = { .size = 0 };
	struct message in = { .size = 0 };
	struct message computation = { .size = 0 };

	(void)state;
	put_raw(&twice, m.at, m.size);
	put_raw(&twice, m.at, m.size); /* two computations with one id */
	is_refused(&twice, "well-formed");
	put_text(&in, 2, "add");
	put_text(&in, 2, "infeed"); /* other readers take the last one */
	put_message(&computation, 2, &in);
	m.size = 0;
	put_message(&m, 3, &computation);
	is_refused(&m, "damaged");
	computation.size = in.size = m.size = 0;
	put_number(&in, 2, 1); /* an opcode that is a number */
	put_message(&computation, 2, &in);
	put_message(&m, 3, &computation);
	is_refused(&m, "damaged");
	m.size = 0;
	put_number(&m, 3, 1);
	is_refused(&m, "well-formed");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_one_key),
		cmocka_unit_test(refuses_comparators_without_order),
		cmocka_unit_test(compares_functions),
		cmocka_unit_test(accepts_comparators_of_jax),
		cmocka_unit_test(takes_several_keys),
		cmocka_unit_test(refuses_several_keys),
		cmocka_unit_test(floats_need_a_stable_sort),
		cmocka_unit_test(expands_fusions),
		cmocka_unit_test(survives_odd_fusions),
		cmocka_unit_test(refuses_odd_comparators),
		cmocka_unit_test(takes_only_orders),
		cmocka_unit_test(checks_shapes_of_topk),
		cmocka_unit_test(checks_shapes_of_linear_algebra),
		cmocka_unit_test(takes_calls_by_name),
		cmocka_unit_test(refuses_feeds),
		cmocka_unit_test(checks_without_an_optimised_program),
		cmocka_unit_test(refuses_instructions_of_the_compiler),
		cmocka_unit_test(refuses_damaged_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
