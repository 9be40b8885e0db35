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

/* If the system refuses, the thread interrupts others as usual. */
static void set_class(pid_t thread, bool is_even)
{
	const struct sched_param none = { .sched_priority = 0 };

	(void)sched_setscheduler(thread, is_even ? SCHED_BATCH : SCHED_OTHER, &none);
}

/* Under the lock. */
static void add_thread(struct vendor_crew *c, pid_t thread)
{
	uint32_t n = c->thread_count;

	if (n == CREW_THREADS_MAX || is_found(c, thread))
		return;
	if (c->is_even)
		set_class(thread, true);
	c->threads[n] = (struct crew_thread){ thread, thread_ns(thread) };
	atomic_store_explicit(&c->thread_count, n + 1, memory_order_release);
}

/* Under the lock. */
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

void sal_crew_muster(struct vendor_crew *c)
{
	uint32_t calls = atomic_fetch_add_explicit(&c->measured, 1, memory_order_relaxed) + 1;

	if (calls & (calls - 1))
		return; /* search before calls 1, 2, 4, 8, ... */
	(void)pthread_mutex_lock(&c->lock);
	search(c);
	(void)pthread_mutex_unlock(&c->lock);
}

void sal_crew_set_even(struct vendor_crew *c, bool is_even)
{
	if (atomic_load_explicit(&c->is_even, memory_order_relaxed) == is_even)
		return;
	(void)pthread_mutex_lock(&c->lock);
	if (c->is_even != is_even) {
		c->is_even = is_even;
		search(c);
		for (uint32_t i = 0; i < c->thread_count; i++)
			set_class(c->threads[i].id, is_even);
	}
	(void)pthread_mutex_unlock(&c->lock);
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
	const struct sched_param none = { .sched_priority = 0 };
	struct vendor_crew *c = arg;
	sigset_t before;

	/* If the system refuses, the stream has the priority of tier 0. */
	(void)setpriority(PRIO_PROCESS, 0, SAL_TIER_NICE);
	(void)sched_setscheduler(0, SCHED_IDLE, &none);
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
	if (c->has_own && !pthread_equal(c->own, pthread_self()))
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

int sal_crew_init(struct vendor_crew *c, uint32_t mark, uint32_t tier)
{
	int rc = 0;

	*c = (struct vendor_crew){ .mark = mark, .has_own = tier > 0 };
	(void)pthread_mutex_init(&c->lock, NULL);
	(void)pthread_cond_init(&c->asked, NULL);
	(void)pthread_cond_init(&c->answered, NULL);
	if (c->has_own)
		rc = sal_thread_start(&c->own, "salus-tier-1", live, c);
	c->has_own = c->has_own && rc == 0;
	if (rc != 0)
		sal_crew_fini(c);
	return rc;
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
	free(c->threads);
	c->threads = NULL;
}
