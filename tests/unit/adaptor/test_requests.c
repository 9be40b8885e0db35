/* SPDX-License-Identifier: Apache-2.0 */
/* requests: each request is answered once, by its own number only. */
#include "adaptor/daemon/requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

#define FIRST_ROOM 256 /* as in requests.c */
#define MANY ((size_t)4 * FIRST_ROOM)

/* One request and its answer. */
struct asker {
	uint64_t number;
	unsigned int answers;
	int code;
};

static void on_answer(void *ctx, const struct adp_answer *answer)
{
	struct asker *a = ctx;

	a->answers++;
	a->code = answer->code;
}

static void ask(struct adp_requests *r, struct asker *a)
{
	*a = (struct asker){ .number = adp_requests_add(r, on_answer, a) };
	assert_true(a->number != 0);
}

static void answer(struct adp_requests *r, uint64_t number, int code)
{
	adp_requests_answer(r, number, &(struct adp_answer){ .code = code });
}

static void each_gets_its_own_answer(void **state)
{
	static struct asker askers[MANY];
	struct adp_requests r;
	size_t i, k;

	(void)state;
	adp_requests_init(&r);
	for (i = 0; i < MANY; i++) {
		ask(&r, &askers[i]);
		for (k = i < 300 ? 0 : i; k < i; k++)
			assert_true(askers[k].number != askers[i].number);
	}
	assert_int_equal(atomic_load(&r.owed), MANY);
	for (i = MANY; i-- > 0;)
		answer(&r, askers[i].number, (int)i + 1);
	for (i = 0; i < MANY; i++) {
		assert_int_equal(askers[i].answers, 1);
		assert_int_equal(askers[i].code, i + 1);
	}
	assert_int_equal(atomic_load(&r.owed), 0);
	adp_requests_fini(&r);
}

static void an_answer_that_comes_twice_reaches_nobody(void **state)
{
	struct asker old, young;
	struct adp_requests r;

	(void)state;
	adp_requests_init(&r);
	ask(&r, &old);
	answer(&r, old.number, 1);
	answer(&r, old.number, 2);
	assert_int_equal(old.answers, 1);
	assert_int_equal(old.code, 1);
	ask(&r, &young); /* in the same slot */
	assert_int_equal((uint32_t)young.number, (uint32_t)old.number);
	assert_true(young.number != old.number);
	answer(&r, old.number, 3);
	assert_int_equal(old.answers + young.answers, 1);
	answer(&r, young.number, 4);
	assert_int_equal(young.code, 4);
	assert_int_equal(atomic_load(&r.owed), 0);
	adp_requests_fini(&r);
}

static void numbers_of_nobody_are_ignored(void **state)
{
	struct asker a;
	struct adp_requests r;

	(void)state;
	adp_requests_init(&r);
	answer(&r, 1, 1); /* this slot does not exist */
	ask(&r, &a);
	answer(&r, 0, 1);
	answer(&r, a.number + 1, 1);
	answer(&r, (a.number & ~(uint64_t)UINT32_MAX) | (FIRST_ROOM + 1), 1);
	answer(&r, UINT64_MAX, 1);
	assert_int_equal(a.answers, 0);
	assert_true(adp_requests_drop(&r, a.number));
	assert_false(adp_requests_drop(&r, a.number));
	answer(&r, a.number, 1);
	assert_int_equal(a.answers, 0);
	assert_int_equal(atomic_load(&r.owed), 0);
	adp_requests_fini(&r);
}

/* The number of slots grows only with the number of requests in use at once. */
static void slots_are_used_again(void **state)
{
	static struct asker askers[FIRST_ROOM];
	struct adp_requests r;
	size_t i, round;

	(void)state;
	adp_requests_init(&r);
	for (round = 0; round < 10; round++) {
		for (i = 0; i < FIRST_ROOM; i++)
			ask(&r, &askers[i]);
		assert_int_equal(r.room, FIRST_ROOM);
		for (i = 0; i < FIRST_ROOM; i++)
			if (i % 2)
				answer(&r, askers[i].number, 1);
			else
				assert_true(adp_requests_drop(&r, askers[i].number));
	}
	adp_requests_fini(&r);
}

static void the_end_reaches_all(void **state)
{
	static struct asker askers[FIRST_ROOM];
	struct adp_requests r;
	size_t i;

	(void)state;
	adp_requests_init(&r);
	adp_requests_answer_all(&r, &(struct adp_answer){ .code = SAL_UNAVAILABLE });
	for (i = 0; i < FIRST_ROOM; i++) /* up to the last slot */
		ask(&r, &askers[i]);
	answer(&r, askers[7].number, 1);
	adp_requests_answer_all(&r, &(struct adp_answer){ .code = SAL_UNAVAILABLE });
	for (i = 0; i < FIRST_ROOM; i++) {
		assert_int_equal(askers[i].answers, 1);
		assert_int_equal(askers[i].code, i == 7 ? 1 : SAL_UNAVAILABLE);
	}
	assert_int_equal(atomic_load(&r.owed), 0);
	adp_requests_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_gets_its_own_answer),
		cmocka_unit_test(an_answer_that_comes_twice_reaches_nobody),
		cmocka_unit_test(numbers_of_nobody_are_ignored),
		cmocka_unit_test(slots_are_used_again),
		cmocka_unit_test(the_end_reaches_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
