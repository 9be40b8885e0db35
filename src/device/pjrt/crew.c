/* SPDX-License-Identifier: Apache-2.0 */
#include "device/pjrt/crew.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/sys/thread.h"
#include "device/device.h"
#include "heap/meter.h"

#define TASKS "/proc/self/task"
#define STATUS_BYTES 4096

/* Puts the mark into the blocked signals of the calling thread. */
static void set_mark(uint32_t mark, sigset_t *out_before)
{
	sigset_t set;

	(void)pthread_sigmask(SIG_SETMASK, NULL, &set);
	*out_before = set;
	for (int i = 0; SIGRTMIN + i <= SIGRTMAX; i++) {
		if (mark >> i & 1)
			(void)sigaddset(&set, SIGRTMIN + i);
		else
			(void)sigdelset(&set, SIGRTMIN + i);
	}
	(void)pthread_sigmask(SIG_SETMASK, &set, NULL);
}

/* Reads the mark of a thread. 0: the thread has none, or is gone. */
static uint32_t read_mark(const char *thread)
{
	static const char label[] = "\nSigBlk:\t";
	char path[64], text[STATUS_BYTES];
	const char *at;
	size_t size;
	FILE *file;

	(void)snprintf(path, sizeof(path), TASKS "/%.20s/status", thread);
	file = fopen(path, "re");
	if (!file)
		return 0;
	size = fread(text, 1, sizeof(text) - 1, file);
	(void)fclose(file);
	text[size] = '\0';
	at = strstr(text, label);
	return at ? (uint32_t)(strtoull(at + sizeof(label) - 1, NULL, 16) >> (SIGRTMIN - 1)) : 0;
}

/* The kernel's name for the CPU clock of a thread: see clock_getcpuclockid. */
static clockid_t clock_of(pid_t thread)
{
	return (clockid_t)(~(uint32_t)thread << 3 | 6u);
}

/* 0: the thread is gone. */
static uint64_t thread_ns(pid_t thread)
{
	struct timespec used;

	if (clock_gettime(clock_of(thread), &used) != 0)
		return 0;
	return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static bool is_found(const struct vendor_crew *c, pid_t thread)
{
	for (uint32_t i = 0; i < c->thread_count; i++)
		if (c->threads[i].id == thread)
			return true;
	return false;
}

/* Of the calling thread: 0, or of another one. Returns 0, or -1 if the system refuses. */
static int lower(pid_t thread)
{
	const struct sched_param none = { .sched_priority = 0 };
	int rc = setpriority(PRIO_PROCESS, (id_t)thread, SAL_TIER_NICE);

	return sched_setscheduler(thread, SCHED_IDLE, &none) < 0 ? -1 : rc;
}

static int raise_to(pid_t thread, int nice, bool is_even)
{
	const struct sched_param none = { .sched_priority = 0 };

	if (sched_setscheduler(thread, is_even ? SCHED_BATCH : SCHED_OTHER, &none) < 0)
		return -1;
	return setpriority(PRIO_PROCESS, (id_t)thread, nice);
}

/* Under listing. If the system refuses, the thread stays as it is. */
static void set_class(const struct vendor_crew *c, pid_t thread)
{
	if (thread == c->own_id)
		return;
	if (c->tier > 0)
		(void)lower(thread);
	else
		(void)raise_to(thread, c->nice, c->is_even);
}

/* Under listing. */
static void add_thread(struct vendor_crew *c, pid_t thread)
{
	uint32_t n = c->thread_count;

	if (n == CREW_THREADS_MAX || is_found(c, thread))
		return;
	if (c->is_even || c->changes > 0)
		set_class(c, thread);
	c->threads[n] = (struct crew_thread){ thread, thread_ns(thread) };
	atomic_store_explicit(&c->thread_count, n + 1, memory_order_release);
}

/* Under listing. */
static void search(struct vendor_crew *c)
{
	DIR *tasks = opendir(TASKS);
	const struct dirent *entry;

	if (!c->threads)
		c->threads = calloc(CREW_THREADS_MAX, sizeof(*c->threads));
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread uses this directory. */
	while (c->threads && tasks && (entry = readdir(tasks)))
		if (entry->d_name[0] != '.' && read_mark(entry->d_name) == c->mark)
			add_thread(c, (pid_t)strtol(entry->d_name, NULL, 10));
	if (tasks)
		(void)closedir(tasks);
}

/* Under listing. */
static void set_classes(const struct vendor_crew *c)
{
	for (uint32_t i = 0; i < c->thread_count; i++)
		set_class(c, c->threads[i].id);
}

void sal_crew_muster(struct vendor_crew *c)
{
	uint32_t calls = atomic_fetch_add_explicit(&c->measured, 1, memory_order_relaxed) + 1;

	if (calls & (calls - 1))
		return; /* search before calls 1, 2, 4, 8, ... */
	(void)pthread_mutex_lock(&c->listing);
	search(c);
	(void)pthread_mutex_unlock(&c->listing);
}

void sal_crew_set_even(struct vendor_crew *c, bool is_even)
{
	if (atomic_load_explicit(&c->is_even, memory_order_relaxed) == is_even)
		return;
	(void)pthread_mutex_lock(&c->listing);
	if (c->is_even != is_even) {
		c->is_even = is_even;
		search(c);
		set_classes(c);
	}
	(void)pthread_mutex_unlock(&c->listing);
}

uint64_t sal_crew_busy_ns(const struct vendor_crew *c)
{
	uint32_t n = atomic_load_explicit(&c->thread_count, memory_order_acquire);
	uint64_t sum_ns = atomic_load_explicit(&c->guest_ns, memory_order_relaxed);

	if (n == CREW_THREADS_MAX)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t now_ns = thread_ns(c->threads[i].id);

		if (now_ns > c->threads[i].base_ns)
			sum_ns += now_ns - c->threads[i].base_ns;
	}
	return sum_ns;
}

/* Waits for a call and makes it. False: the thread must end. */
static bool serve(struct vendor_crew *c)
{
	crew_call_fn *call;

	(void)pthread_mutex_lock(&c->lock);
	while (!c->call && !c->ends)
		(void)pthread_cond_wait(&c->asked, &c->lock);
	call = c->call;
	(void)pthread_mutex_unlock(&c->lock);
	if (!call)
		return false;
	call(c->ctx);
	(void)pthread_mutex_lock(&c->lock);
	c->call = NULL;
	c->ctx = NULL;
	(void)pthread_cond_broadcast(&c->answered);
	(void)pthread_mutex_unlock(&c->lock);
	return true;
}

static void *live(void *arg)
{
	struct vendor_crew *c = arg;
	sigset_t before;

	/* If the system refuses, the stream has the priority of tier 0. */
	(void)lower(0);
	atomic_store(&c->own_id, gettid());
	set_mark(c->mark, &before);
	while (serve(c))
		;
	return NULL;
}

/* The context of a call is on the stack of a caller that waits: no two calls have the same. */
static void ask(struct vendor_crew *c, crew_call_fn *call, void *ctx)
{
	(void)pthread_mutex_lock(&c->lock);
	while (c->call)
		(void)pthread_cond_wait(&c->answered, &c->lock);
	c->call = call;
	c->ctx = ctx;
	(void)pthread_cond_signal(&c->asked);
	while (c->ctx == ctx)
		(void)pthread_cond_wait(&c->answered, &c->lock);
	(void)pthread_mutex_unlock(&c->lock);
}

void sal_crew_call(struct vendor_crew *c, crew_call_fn *call, void *ctx)
{
	if (sal_crew_calls_own(c) && !pthread_equal(c->own, pthread_self()))
		ask(c, call, ctx);
	else
		call(ctx);
}

void sal_crew_create(struct vendor_crew *c, crew_call_fn *call, void *ctx)
{
	sigset_t before;

	if (c->has_own) {
		ask(c, call, ctx);
		return;
	}
	set_mark(c->mark, &before);
	call(ctx);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	sal_payer_forget(); /* the mark is not this thread's */
}

/* Returns 0 or an errno. */
static int start_own(struct vendor_crew *c)
{
	int rc = sal_thread_start(&c->own, "salus-tier-1", live, c);

	atomic_store_explicit(&c->has_own, rc == 0, memory_order_release);
	return rc;
}

int sal_crew_init(struct vendor_crew *c, uint32_t mark, uint32_t tier)
{
	int rc = 0;

	*c = (struct vendor_crew){ .mark = mark,
				   .tier = tier,
				   .nice = getpriority(PRIO_PROCESS, 0) };
	(void)pthread_mutex_init(&c->listing, NULL);
	(void)pthread_mutex_init(&c->lock, NULL);
	(void)pthread_cond_init(&c->asked, NULL);
	(void)pthread_cond_init(&c->answered, NULL);
	if (tier > 0)
		rc = start_own(c);
	if (rc != 0)
		sal_crew_fini(c);
	return rc;
}

static void *try_to_raise(void *arg)
{
	bool *can_raise = arg;
	int nice = getpriority(PRIO_PROCESS, 0);

	*can_raise = lower(0) == 0 && raise_to(0, nice, false) == 0;
	return NULL;
}

bool sal_crew_can_raise(void)
{
	bool can_raise = false;
	pthread_t thread;

	/* In a thread of its own, which may stay low. */
	if (sal_thread_start(&thread, "salus-tier-1", try_to_raise, &can_raise) == 0)
		(void)pthread_join(thread, NULL);
	return can_raise;
}

void sal_crew_set_tier(struct vendor_crew *c, uint32_t tier)
{
	/* A thread of low priority may look for threads just now: do not wait for it. */
	if (atomic_load_explicit(&c->tier, memory_order_relaxed) == tier ||
	    pthread_mutex_trylock(&c->listing) != 0)
		return;
	if (c->tier != tier && (tier == 0 || c->has_own || start_own(c) == 0)) {
		c->tier = tier;
		c->changes++;
		if ((c->changes & (c->changes - 1)) == 0)
			search(c); /* at changes 1, 2, 4, 8, ... */
		set_classes(c);
	}
	(void)pthread_mutex_unlock(&c->listing);
}

void sal_crew_fini(struct vendor_crew *c)
{
	if (c->has_own) {
		(void)pthread_mutex_lock(&c->lock);
		c->ends = true;
		(void)pthread_cond_signal(&c->asked);
		(void)pthread_mutex_unlock(&c->lock);
		(void)pthread_join(c->own, NULL);
	}
	(void)pthread_cond_destroy(&c->asked);
	(void)pthread_cond_destroy(&c->answered);
	(void)pthread_mutex_destroy(&c->lock);
	(void)pthread_mutex_destroy(&c->listing);
	free(c->threads);
	c->threads = NULL;
}
