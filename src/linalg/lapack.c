/* SPDX-License-Identifier: Apache-2.0 */
#include "linalg/lapack.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/array.h"

#define SYMBOL_BYTES 40

/* Names for real and for complex elements, without the letter of the type. */
static const char *const names[LAPACK_NAMES][2] = {
	[LAPACK_TRSM] = { "trsm", "trsm" },    [LAPACK_POTRF] = { "potrf", "potrf" },
	[LAPACK_GETRF] = { "getrf", "getrf" }, [LAPACK_GTSV] = { "gtsv", "gtsv" },
	[LAPACK_GEQRF] = { "geqrf", "geqrf" }, [LAPACK_GEQP3] = { "geqp3", "geqp3" },
	[LAPACK_ORGQR] = { "orgqr", "ungqr" }, [LAPACK_ORMQR] = { "ormqr", "unmqr" },
	[LAPACK_GESDD] = { "gesdd", "gesdd" }, [LAPACK_GESVD] = { "gesvd", "gesvd" },
	[LAPACK_SYEVD] = { "syevd", "heevd" }, [LAPACK_GEEV] = { "geev", "geev" },
	[LAPACK_GEES] = { "gees", "gees" },    [LAPACK_GEHRD] = { "gehrd", "gehrd" },
	[LAPACK_SYTRD] = { "sytrd", "hetrd" },
};

/*
 * The wheel that tools/setup installs ("": none was there when we were built), then the names of
 * Debian's packages, of other systems, and of the reference implementation.
 */
static const char *const libraries[] = { SAL_LAPACK, "libopenblas.so.0", "libopenblas.so",
					 "liblapack.so.3" };

/* What stands before the names of functions: nothing, or, in the wheel scipy-openblas32, this. */
static const char *const prefixes[] = { "", "scipy_" };

void sal_lapack_name(enum lapack_name name, enum lapack_type type, char out_text[8])
{
	(void)snprintf(out_text, 8, "%c%s", "sdcz"[type], names[name][lapack_is_complex(type)]);
}

/* True for threads that compute for tier 1. */
static bool has_low_priority(void)
{
	return getpriority(PRIO_PROCESS, 0) > getpriority(PRIO_PROCESS, (id_t)getpid());
}

/* NULL: the library has no such function, whatever the prefix. */
static void *find_function(void *library, const char *name)
{
	void *found = NULL;
	char symbol[SYMBOL_BYTES];

	for (size_t i = 0; i < SAL_COUNT(prefixes) && !found; i++) {
		(void)snprintf(symbol, sizeof(symbol), "%s%s", prefixes[i], name);
		found = dlsym(library, symbol);
	}
	return found;
}

static int find_routines(void *library, struct sal_lapack *l, struct sal_err *err)
{
	for (int name = 0; name < LAPACK_NAMES; name++) {
		for (int type = 0; type < LAPACK_TYPES; type++) {
			char text[8], symbol[10];
			void *found;

			sal_lapack_name((enum lapack_name)name, (enum lapack_type)type, text);
			(void)snprintf(symbol, sizeof(symbol), "%s_", text);
			found = find_function(library, symbol);
			if (!found)
				return sal_err_set(err, SAL_FAILED_PRECONDITION,
						   "the LAPACK library has no %s", symbol);
			memcpy(&l->routines[name][type], &found, sizeof(found));
		}
	}
	return SAL_OK;
}

static void find_threads(void *library, struct sal_lapack *l)
{
	void *set = find_function(library, "openblas_set_num_threads");
	void *get = find_function(library, "openblas_get_num_threads");
	int (*get_threads)(void);

	if (!set || !get)
		return;
	memcpy(&l->set_threads, &set, sizeof(set));
	memcpy(&get_threads, &get, sizeof(get));
	/* Its threads have the priority of the thread that loads it. */
	l->threads_max = has_low_priority() ? 1 : get_threads();
	l->set_threads(1);
}

static void *open_library(const char *path)
{
	const int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
	void *library = NULL;

	if (path)
		return dlopen(path, flags);
	for (size_t i = 0; i < SAL_COUNT(libraries) && !library; i++)
		if (*libraries[i])
			library = dlopen(libraries[i], flags);
	return library;
}

int sal_lapack_load(const char *path, struct sal_lapack *out_lapack, struct sal_err *err)
{
	void *library;
	int rc;

	memset(out_lapack, 0, sizeof(*out_lapack));
	library = open_library(path);
	if (!library && path)
		return sal_err_set(err, SAL_FAILED_PRECONDITION,
				   "SALUS_LAPACK names no library: %s", dlerror());
	if (!library)
		return sal_err_set(err, SAL_FAILED_PRECONDITION,
				   "the machine of salusd has no LAPACK: install OpenBLAS (Debian: "
				   "libopenblas0-pthread), or set SALUS_LAPACK to a library");
	rc = find_routines(library, out_lapack, err);
	if (rc >= 0)
		find_threads(library, out_lapack);
	(void)dlclose(library); /* only our reference */
	return rc;
}

/* The one LAPACK of the process. */
static struct {
	pthread_once_t once;
	int rc;
	struct sal_err err;
	struct sal_lapack lapack;
} shared = { .once = PTHREAD_ONCE_INIT };

static void load_shared(void)
{
	const char *path = getenv("SALUS_LAPACK"); // NOLINT(concurrency-mt-unsafe)

	shared.rc = sal_lapack_load(path && *path ? path : NULL, &shared.lapack, &shared.err);
}

const struct sal_lapack *sal_lapack_get(struct sal_err *err)
{
	(void)pthread_once(&shared.once, load_shared);
	if (shared.rc >= 0)
		return &shared.lapack;
	(void)sal_err_set(err, (enum sal_code) - shared.rc, "%s", shared.err.text);
	return NULL;
}

/* Who is in LAPACK, and with how many threads it computes. */
static struct {
	pthread_mutex_t lock;
	uint32_t callers;
	int threads;
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .threads = 1 };

bool sal_lapack_enter(const struct sal_lapack *lapack, bool is_spread)
{
	bool low = (is_spread || lapack->threads_max > 1) && has_low_priority();
	bool alone;
	int threads;

	(void)pthread_mutex_lock(&gate.lock);
	alone = ++gate.callers == 1 && !low;
	threads = alone && !is_spread ? lapack->threads_max : 1;
	if (lapack->set_threads && threads != gate.threads) {
		/* A call that is under way goes on with its threads, and its next step has one. */
		lapack->set_threads(threads);
		gate.threads = threads;
	}
	(void)pthread_mutex_unlock(&gate.lock);
	return alone;
}

void sal_lapack_leave(void)
{
	(void)pthread_mutex_lock(&gate.lock);
	gate.callers--;
	(void)pthread_mutex_unlock(&gate.lock);
}
