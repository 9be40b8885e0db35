/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/watch.h"

#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log/log.h"
#include "base/sys/fd.h"
#include "base/sys/thread.h"
#include "service/run/carrier.h"
#include "service/server.h"

#define TOO_LONG_NS UINT64_C(1500000)
#define AGAIN_NS UINT64_C(10000000)

static void set_timer(struct svc_watch *w, uint64_t at_ns)
{
	struct itimerspec t = { .it_value = { .tv_sec = (time_t)(at_ns / 1000000000u),
					      .tv_nsec = (long)(at_ns % 1000000000u) } };

	(void)timerfd_settime(w->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

struct svc_watched svc_watch_begin(struct svc_server *server)
{
	struct svc_watch *w = &server->watch;
	uint64_t now_ns = svc_now_ns();
	uint64_t outer_ns = atomic_exchange_explicit(&w->call_ns, now_ns, memory_order_relaxed);

	/*
	 * Pairs with the fence in on_timer: the watchman sees the call, or the worker sees that no
	 * timer runs.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&w->is_set, memory_order_relaxed)) {
		atomic_store_explicit(&w->is_set, true, memory_order_relaxed);
		set_timer(w, now_ns + TOO_LONG_NS);
	}
	return (struct svc_watched){ now_ns, outer_ns };
}

void svc_watch_end(struct svc_server *server, const struct svc_watched *call)
{
	uint64_t since_ns = call->since_ns;

	/* If another thread got the role, call_ns is 0 or belongs to the next worker. */
	(void)atomic_compare_exchange_strong_explicit(&server->watch.call_ns, &since_ns,
						      call->outer_ns, memory_order_relaxed,
						      memory_order_relaxed);
}

void svc_watch_leave(struct svc_server *server)
{
	atomic_store_explicit(&server->watch.call_ns, 0, memory_order_relaxed);
	server->worker.has_holder = false;
	svc_carriers_offer_role(server);
}

void svc_watch_rest(struct svc_server *server)
{
	if (!atomic_load_explicit(&server->watch.is_set, memory_order_relaxed))
		return;
	atomic_store_explicit(&server->watch.is_set, false, memory_order_relaxed);
	set_timer(&server->watch, 0);
}

/* Give the role to another thread, unless the call that began at since_ns has returned. */
static void replace_worker(struct svc_server *server, uint64_t since_ns)
{
	bool was_late;

	svc_lock(server);
	was_late = server->worker.has_holder &&
		   atomic_compare_exchange_strong(&server->watch.call_ns, &since_ns, 0);
	if (was_late)
		server->worker.has_holder = false;
	svc_unlock(server);
	if (was_late) {
		sal_log_debug("watch", "a call keeps the worker: another one takes over");
		svc_carriers_offer_role(server);
	}
}

/* The timer has expired. */
static void on_timer(struct svc_server *server)
{
	struct svc_watch *w = &server->watch;
	uint64_t since_ns;

	atomic_store_explicit(&w->is_set, false, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst); /* see svc_watch_begin */
	since_ns = atomic_load_explicit(&w->call_ns, memory_order_relaxed);
	if (since_ns == 0)
		return;
	if (svc_now_ns() >= since_ns + TOO_LONG_NS) {
		replace_worker(server, since_ns);
	} else {
		atomic_store_explicit(&w->is_set, true, memory_order_relaxed);
		set_timer(w, since_ns + TOO_LONG_NS);
	}
}

void svc_watch_again(struct svc_server *server)
{
	atomic_store_explicit(&server->watch.is_set, true, memory_order_relaxed);
	set_timer(&server->watch, svc_now_ns() + AGAIN_NS);
}

static void *watch(void *arg)
{
	struct svc_server *server = arg;
	uint64_t expirations;

	while (!atomic_load(&server->watch.stop))
		if (read(server->watch.timer, &expirations, sizeof(expirations)) > 0) {
			on_timer(server);
			svc_carriers_retry(server);
		}
	return NULL;
}

int svc_watch_start(struct svc_server *server, struct sal_err *err)
{
	struct svc_watch *w = &server->watch;
	int rc;

	w->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (w->timer < 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no timer for the worker");
	rc = sal_thread_start(&w->thread, "salus-watch", watch, server);
	if (rc != 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no thread: %s", strerror(rc));
	w->started = true;
	return SAL_OK;
}

void svc_watch_stop(struct svc_server *server)
{
	struct svc_watch *w = &server->watch;

	if (w->started) {
		atomic_store(&w->stop, true);
		set_timer(w, 1);
		(void)pthread_join(w->thread, NULL);
		w->started = false;
	}
	sal_close(&w->timer);
}
