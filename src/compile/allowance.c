/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/allowance.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Memory is short if the helper cannot map this fraction of its limit (one eighth). */
#define PROBE_PARTS 8
/*
 * The clock that RLIMIT_CPU uses, as the kernel encodes it: user and system time of this process,
 * counted in ticks. CLOCK_PROCESS_CPUTIME_ID is exact, and drifts away from the tick count over the
 * life of a helper.
 */
#define LIMIT_CLOCK ((clockid_t)(~0 * 8))

static bool is_memory_short(void)
{
	struct rlimit limit;
	size_t size;
	void *probe;

	if (getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return false;
	size = (size_t)limit.rlim_cur / PROBE_PARTS;
	probe = mmap(NULL, size, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (probe == MAP_FAILED)
		return true;
	(void)munmap(probe, size);
	return false;
}

/*
 * A vendor whose allocation fails aborts, or dereferences NULL. This handler runs on the thread
 * whose allocation failed, so errno holds the allocator's error. A large request that fails leaves
 * ENOMEM. A small request fails only when almost no memory is left.
 */
static void on_crash(int number)
{
	struct sigaction plain = { .sa_handler = SIG_DFL };

	if (errno == ENOMEM || is_memory_short())
		_exit(SAL_EXIT_NO_MEMORY);
	(void)sigaction(number, &plain, NULL);
	(void)raise(number);
}

void sal_allowance_open(const struct sal_helper_limits *limits)
{
	struct rlimit memory = { limits->memory_bytes, RLIM_INFINITY };
	struct sigaction crash = { .sa_handler = on_crash, .sa_flags = SA_NODEFER };

	if (limits->memory_bytes == 0 || setrlimit(RLIMIT_DATA, &memory) != 0)
		return;
	if (is_memory_short()) { /* a sanitizer build maps terabytes */
		memory.rlim_cur = RLIM_INFINITY;
		(void)setrlimit(RLIMIT_DATA, &memory);
		return;
	}
	memory.rlim_max = memory.rlim_cur;
	(void)setrlimit(RLIMIT_DATA, &memory);
	(void)sigemptyset(&crash.sa_mask);
	(void)sigaction(SIGABRT, &crash, NULL);
	(void)sigaction(SIGSEGV, &crash, NULL);
	(void)sigaction(SIGBUS, &crash, NULL);
	(void)sigaction(SIGILL, &crash, NULL); /* a compiler's trap */
	(void)sigaction(SIGTRAP, &crash, NULL);
}

static void limit_cpu(rlim_t soft)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_CPU, &limit) != 0)
		return;
	limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
	(void)setrlimit(RLIMIT_CPU, &limit);
}

void sal_allowance_begin(const struct sal_helper_limits *limits)
{
	struct timespec used;

	errno = 0;
	if (limits->cpu_s == 0 || clock_gettime(LIMIT_CLOCK, &used) != 0)
		return;
	limit_cpu((rlim_t)used.tv_sec + 1 + limits->cpu_s); /* + 1: rounds up */
}

void sal_allowance_end(void)
{
	limit_cpu(RLIM_INFINITY);
}
