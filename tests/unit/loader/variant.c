/* SPDX-License-Identifier: Apache-2.0 */
/*
 * variant - policies for test_loader.c and the end-to-end tests, one shared object each. VARIANT
 * says which.
 */
#include "core/policy/file.h"

#define GOOD 1 /* the youngest first */
#define NO_SYMBOL 2 /* offers no policy */
#define UNDEFINED 3 /* calls a function that no policy may call */
#define OLD 4 /* of another version */
#define BUILT_IN 5 /* has the name of a built-in policy */
#define LIAR 6 /* picks a session that is not ready */
#define SLOW 7 /* takes a while to load: its constructor waits for a file to vanish */

#if VARIANT == SLOW
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void wait_for_file(void)
{
	const char *path = getenv("SAL_TEST_SLOW_WHILE");

	while (path && access(path, F_OK) == 0)
		(void)usleep(1000);
}
#endif

static struct sal_rank variant_rank(const void *state, const struct sal_session *s)
{
	(void)state;
	return (struct sal_rank){ .minor = UINT64_MAX - s->id };
}

#if VARIANT == UNDEFINED
void sal_engine_tick(void *engine, uint64_t now_ns);

static void variant_tune(void *state, const struct sal_tuning *tuning)
{
	(void)tuning;
	sal_engine_tick(state, 0);
}
#endif

#if VARIANT == LIAR
static struct sal_session *variant_pick(void *state, struct sal_lane *lane)
{
	static struct sal_session stranger;

	(void)state;
	(void)lane;
	return &stranger;
}
#endif

static void variant_set(void *state, uint32_t param, uint64_t value)
{
	(void)state;
	(void)param;
	(void)value;
}

static const struct sal_param variant_params[] = {
	{ "patience", "how long it waits for nothing", SAL_UNIT_TIME, 1000000, 1000, 1000000000 },
	{ 0 },
};

extern const struct sal_policy sal_policy_variant;
const struct sal_policy sal_policy_variant = {
#if VARIANT == BUILT_IN
	.name = "fair",
#elif VARIANT == LIAR
	.name = "liar",
	.pick = variant_pick,
#elif VARIANT == SLOW
	.name = "slow",
#else
	.name = "youngest",
#endif
	.idea = "the youngest first",
	.lanes = 1,
	.params = variant_params,
	.rank = variant_rank,
	.set = variant_set,
#if VARIANT == UNDEFINED
	.tune = variant_tune,
#endif
};

#if VARIANT == OLD
extern const struct sal_policy_file sal_policy_file;
const struct sal_policy_file sal_policy_file = { .abi = SAL_POLICY_ABI + 1 };
#elif VARIANT != NO_SYMBOL
SAL_POLICY_FILE(sal_policy_variant);
#endif
