/* SPDX-License-Identifier: Apache-2.0 */
#include "linalg/targets.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "linalg/frame.h"

/*
 * XLA passes a handler nothing that tells its name. So each pair of a routine and a type has a
 * function of its own.
 */
#define HANDLER(routine, letter, type)                                              \
	static XLA_FFI_Error *handle_##routine##_##letter(XLA_FFI_CallFrame *frame) \
	{                                                                           \
		return sal_linalg_handle(frame, &sal_linalg_##routine, type);       \
	}
#define HANDLERS(routine)             \
	HANDLER(routine, s, LAPACK_S) \
	HANDLER(routine, d, LAPACK_D) \
	HANDLER(routine, c, LAPACK_C) \
	HANDLER(routine, z, LAPACK_Z)

HANDLERS(trsm)
HANDLERS(potrf)
HANDLERS(getrf)
HANDLERS(gtsv)
HANDLERS(geqrf)
HANDLERS(geqp3)
HANDLERS(orgqr)
HANDLERS(ormqr)
HANDLERS(gesdd)
HANDLERS(gesvd)
HANDLERS(syevd)
HANDLERS(geev)
HANDLERS(gees)
HANDLERS(gehrd)
HANDLERS(sytrd)
HANDLER(perturbed, any, LAPACK_S)
HANDLER(csr, any, LAPACK_S)
HANDLER(sink, any, LAPACK_S)

#define ROW(routine)                                                                      \
	{                                                                                 \
		&sal_linalg_##routine,                                                    \
		{                                                                         \
			handle_##routine##_s, handle_##routine##_d, handle_##routine##_c, \
				handle_##routine##_z                                      \
		}                                                                         \
	}

static const struct {
	const struct linalg_routine *routine;
	XLA_FFI_Handler *handlers[LAPACK_TYPES];
} rows[] = {
	ROW(trsm),  ROW(potrf), ROW(getrf), ROW(gtsv),	ROW(geqrf),
	ROW(geqp3), ROW(orgqr), ROW(ormqr), ROW(gesdd), ROW(gesvd),
	ROW(syevd), ROW(geev),	ROW(gees),  ROW(gehrd), ROW(sytrd),
};

/* One name for all types; none needs LAPACK. */
static const struct {
	const char *name;
	const struct linalg_routine *routine;
	XLA_FFI_Handler *handler;
} others[] = {
	{ "tridiagonal_solve_perturbed_ffi", &sal_linalg_perturbed, handle_perturbed_any },
	{ "cpu_csr_sparse_dense_ffi", &sal_linalg_csr, handle_csr_any },
	{ "dce_sink", &sal_linalg_sink, handle_sink_any },
};

size_t sal_linalg_target_count(void)
{
	return SAL_COUNT(rows) * LAPACK_TYPES + SAL_COUNT(others);
}

static void other_target(size_t i, struct linalg_target *out_target)
{
	*out_target = (struct linalg_target){
		.routine = others[i].routine,
		.handler = (linalg_handler *)others[i].handler,
	};
	(void)snprintf(out_target->name, sizeof(out_target->name), "%s", others[i].name);
}

void sal_linalg_target(size_t i, struct linalg_target *out_target)
{
	char routine[8];

	if (i >= SAL_COUNT(rows) * LAPACK_TYPES) {
		other_target(i - SAL_COUNT(rows) * LAPACK_TYPES, out_target);
		return;
	}
	*out_target = (struct linalg_target){
		.routine = rows[i / LAPACK_TYPES].routine,
		.type = (enum lapack_type)(i % LAPACK_TYPES),
		.handler = (linalg_handler *)rows[i / LAPACK_TYPES].handlers[i % LAPACK_TYPES],
	};
	sal_lapack_name(out_target->routine->name, out_target->type, routine);
	(void)snprintf(out_target->name, sizeof(out_target->name), "lapack_%s_ffi", routine);
}

bool sal_linalg_find(struct sal_text name, struct linalg_target *out_target)
{
	for (size_t i = 0; i < sal_linalg_target_count(); i++) {
		sal_linalg_target(i, out_target);
		if (strlen(out_target->name) == name.size &&
		    memcmp(out_target->name, name.at, name.size) == 0)
			return true;
	}
	return false;
}
