/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lapack - the system's LAPACK, found when the program starts to need it.
 *
 * LAPACK is loaded with dlopen, not linked. So Salus runs without it, and only programs that use
 * linear algebra are refused then. Any library with the Fortran names (dpotrf_) and 32-bit integers
 * will do. SALUS_LAPACK names the file of one. Otherwise we take the OpenBLAS of the wheel that
 * tools/setup installs, then the system's OpenBLAS, then its LAPACK.
 *
 * A routine has the same parameters for all element types, except that routines for complex
 * elements have more workspaces: every parameter of a Fortran routine is a pointer.
 *
 * OpenBLAS computes with threads of its own, which all callers in the process share. A lane that
 * calls LAPACK alone gets them all. A batch of problems is spread over the lane's own threads
 * instead (batch.h), and each problem is solved in one thread. While several lanes call LAPACK, each
 * call stays in its caller's thread: so a lane takes no processor from another one. Calls at low
 * priority (device.h: tier 1) use no other threads, because those have normal priority.
 *
 * Threads: any.
 */
#ifndef SAL_LINALG_LAPACK_H
#define SAL_LINALG_LAPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum lapack_type {
	LAPACK_S, /* float */
	LAPACK_D, /* double */
	LAPACK_C, /* float complex */
	LAPACK_Z, /* double complex */
	LAPACK_TYPES,
};

enum lapack_name {
	LAPACK_TRSM,
	LAPACK_POTRF,
	LAPACK_GETRF,
	LAPACK_GTSV,
	LAPACK_GEQRF,
	LAPACK_GEQP3,
	LAPACK_ORGQR, /* ungqr */
	LAPACK_ORMQR, /* unmqr */
	LAPACK_GESDD,
	LAPACK_GESVD,
	LAPACK_SYEVD, /* heevd */
	LAPACK_GEEV,
	LAPACK_GEES,
	LAPACK_GEHRD,
	LAPACK_SYTRD, /* hetrd */
	LAPACK_NAMES,
};

/* Cast to the routine's own type before a call. */
typedef void lapack_fn(void);

struct sal_lapack {
	lapack_fn *routines[LAPACK_NAMES][LAPACK_TYPES];
	void (*set_threads)(
		int count); /* NULL: the library has no threads, or we cannot steer them */
	int threads_max;
};

static inline bool lapack_is_complex(enum lapack_type type)
{
	return type >= LAPACK_C;
}

static inline size_t lapack_bytes(enum lapack_type type)
{
	return type == LAPACK_S ? 4 : type == LAPACK_Z ? 16 : 8;
}

/* float for S and C, double for D and Z. */
static inline enum lapack_type lapack_real(enum lapack_type type)
{
	return type == LAPACK_S || type == LAPACK_C ? LAPACK_S : LAPACK_D;
}

/* The name of a routine for a type, as in "zheevd". */
void sal_lapack_name(enum lapack_name name, enum lapack_type type, char out_text[8]);

/* Loads a library, which is never unloaded. path may be NULL: the system's. */
int sal_lapack_load(const char *path, struct sal_lapack *out_lapack, struct sal_err *err);

/*
 * The LAPACK of this process, loaded by the first call. NULL, with the reason in err, if there is
 * none. The handlers of custom calls use this: XLA passes them no context of ours.
 */
const struct sal_lapack *sal_lapack_get(struct sal_err *err);

/*
 * Call these around calls of routines: they decide how many threads LAPACK may use. is_spread: the
 * caller wants to spread a batch over threads of its lane. Returns false if the caller must stay in
 * its own thread.
 */
bool sal_lapack_enter(const struct sal_lapack *lapack, bool is_spread);
void sal_lapack_leave(void);

#endif
