/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/carrier.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/log/log.h"
#include "base/sys/thread.h"
#include "base/sys/tidy.h"
#include "core/view.h"
#include "heap/heap.h"
#include "service/client/session.h"
#include "service/run/closing.h"
#include "service/run/dispatch.h"
#include "service/run/watch.h"
#include "service/run/worker.h"
#include "service/server.h"

/* So many carriers wait for work. Further idle carriers end. */
#define IDLE_MAX 4
/* The worker or a vendor's thread does so many errands of a session before others get a turn. */
#define GUEST_ERRANDS 16
/* The worker carries sessions for this long before it reads rings again. */
#define POSTED_NS UINT64_C(200000)
/* The worker looks at so many posted sessions for one that starts an iteration. */
#define SEARCH_MAX 16
/* How long a lane has memory that it may not keep. */
#define SETTLE_NS 100000000L
/* So many iterations may start before an errand that can wait. */
#define OVERTAKEN_MAX 4

/*
 * Who carries a session. The worker and the vendor's threads have other duties, so they leave long
 * errands to carriers.
 */
enum carrying {
	AS_CARRIER,
	AS_WORKER,
	AS_VENDOR
};

static void hand(struct svc_server *server, struct svc_session *s)
{
	struct svc_carriers *c = &server->carriers;

	(void)pthread_mutex_lock(&c->lock);
	TAILQ_INSERT_TAIL(&c->handed, s, handed_link);
	(void)pthread_cond_signal(&c->wake);
	(void)pthread_mutex_unlock(&c->lock);
}

static void post(struct svc_server *server, struct svc_session *s)
{
	s->is_posted = true;
	TAILQ_INSERT_TAIL(&server->posted, s, posted_link);
}

/* The device is idle until the iteration starts: an errand that can wait does, but not for ever. */
static bool overtakes(const struct svc_session *s, const struct svc_errand *errand)
{
	const struct svc_errand *first = STAILQ_FIRST(&s->errands);

	return errand->starts && !errand->computes && first && first->can_wait &&
	       first->overtaken < OVERTAKEN_MAX && !STAILQ_NEXT(first, link);
}

void svc_errand_post(struct svc_session *s, struct svc_errand *errand)
{
	svc_assert_locked(s->server);
	SAL_ASSERT(s->state != SVC_CLOSED);
	errand->overtaken = 0;
	if (overtakes(s, errand)) {
		STAILQ_FIRST(&s->errands)->overtaken++;
		STAILQ_INSERT_HEAD(&s->errands, errand, link);
	} else {
		STAILQ_INSERT_TAIL(&s->errands, errand, link);
	}
	if (s->is_carried || s->is_posted)
		return;
	(void)svc_session_ref(s); /* until the session has no errands */
	post(s->server, s);
}

/* The caller carries the session from now on. */
static void take(struct svc_server *server, struct svc_session *s)
{
	TAILQ_REMOVE(&server->posted, s, posted_link);
	s->is_posted = false;
	s->is_carried = true;
}

bool svc_errand_lend(struct svc_session *s, struct svc_errand *errand)
{
	svc_assert_locked(s->server);
	if (!errand->is_under_way || errand->is_lent)
		return false;
	errand->is_lent = true;
	s->is_carried = false;
	if (STAILQ_EMPTY(&s->errands)) {
		svc_session_unref(s); /* the execution has a reference of its own */
		return false;
	}
	post(s->server, s);
	return true;
}

static void do_nothing(struct svc_errand *errand)
{
	(void)errand;
}

/* The call of a lent errand has returned. True: the caller carries the session again. */
static bool take_back(struct svc_server *server, struct svc_session *s,
		      struct svc_errand *errand) SVC_LOCKED
{
	errand->is_lent = false;
	errand->begin = NULL;
	errand->call = do_nothing;
	errand->is_brief = true;
	svc_errand_post(s, errand);
	if (s->is_carried)
		return false;
	take(server, s);
	return true;
}

/*
 * Do the first errand of the session. Releases the lock during the call. False: another thread
 * carries the session now.
 */
static bool run_first(struct svc_server *server, struct svc_session *s, enum carrying as) SVC_LOCKED
{
	struct svc_errand *errand = STAILQ_FIRST(&s->errands);
	struct svc_watched watched = { 0 };
	struct sal_payer before;
	bool hands_over, wake;

	STAILQ_REMOVE_HEAD(&s->errands, link);
	if (errand->begin && !errand->begin(errand))
		return true;
	errand->is_under_way = true;
	/*
	 * The call may never return, so this thread first hands over its other work. The worker
	 * need not: the watchman replaces it. A vendor's thread that starts an iteration does so
	 * afterwards, because ringing a client takes longer than the call, and the device is idle
	 * meanwhile. If that call does not return, the worker does the rest when the lane is stuck.
	 */
	hands_over = as == AS_CARRIER || (as == AS_VENDOR && !errand->starts);
	if (hands_over)
		svc_dispatch_show(server);
	wake = hands_over && svc_worker_has_work(server);
	svc_unlock(server);
	if (wake)
		svc_worker_wake(server);
	if (as == AS_WORKER)
		watched = svc_watch_begin(server);
	before = sal_payer_set(sal_payer_for(s->real.meter, false));
	errand->call(errand);
	(void)sal_payer_set(before);
	if (as == AS_WORKER)
		svc_watch_end(server, &watched);
	svc_lock(server);
	errand->is_under_way = false;
	if (errand->is_lent)
		return take_back(server, s, errand);
	errand->settle(errand);
	return true;
}

/* May a vendor's thread do this errand? */
static bool is_for_vendor(const struct svc_errand *errand)
{
	return !errand->computes && !errand->lowers;
}

/* No errands are left: nobody carries the session any more. */
static void put_down(struct svc_session *s) SVC_LOCKED
{
	s->is_carried = false;
	svc_session_try_end(s);
	svc_session_unref(s);
}

/*
 * Do the errands of the session. Dispatch after each errand, so that this thread also starts the
 * session's next iteration. Clients see the completion of the last iteration after that.
 */
static void carry(struct svc_server *server, struct svc_session *s, enum carrying as) SVC_LOCKED
{
	const struct svc_errand *errand;
	uint32_t n = 0;

	while ((errand = STAILQ_FIRST(&s->errands))) {
		if (as != AS_CARRIER && !errand->is_brief) {
			hand(server, s);
			return;
		}
		if ((as != AS_CARRIER && n++ == GUEST_ERRANDS) ||
		    (as == AS_VENDOR && !is_for_vendor(errand))) {
			s->is_carried = false;
			post(server, s);
			return;
		}
		if (!run_first(server, s, as))
			return;
		svc_dispatch_show(server);
		(void)svc_dispatch(server);
		if (as == AS_WORKER && !svc_worker_is_me(server))
			as = AS_CARRIER; /* the call took long: another thread has the role */
	}
	put_down(s);
	svc_dispatch_show(server);
}

/*
 * The session that the worker carries next: one that starts an iteration. After one that went before
 * others it is the first of them, so that they wait for twice as long at most.
 */
static struct svc_session *find_next(const struct svc_server *server)
{
	struct svc_session *first = TAILQ_FIRST(&server->posted), *s = first;
	uint32_t n;

	for (n = 1; !server->worker.has_overtaken && s && !STAILQ_FIRST(&s->errands)->starts; n++)
		s = n < SEARCH_MAX ? TAILQ_NEXT(s, posted_link) : NULL;
	return s ? s : first;
}

bool svc_carry_posted(struct svc_server *server)
{
	uint64_t until_ns = svc_now_ns() + POSTED_NS;
	struct svc_session *s;
	uint32_t n;

	for (n = 0; (s = find_next(server)) && svc_worker_is_me(server) &&
		    (n == 0 || svc_now_ns() < until_ns);
	     n++) {
		server->worker.has_overtaken = s != TAILQ_FIRST(&server->posted);
		take(server, s);
		carry(server, s, AS_WORKER);
	}
	return n > 0;
}

void svc_carry_session(struct svc_session *s)
{
	if (!s->is_posted)
		return;
	take(s->server, s);
	carry(s->server, s, AS_WORKER);
}

/* A session of the lane whose first errand a vendor's thread may do: one that starts, if any. */
static struct svc_session *find_posted(struct svc_server *server, uint32_t lane)
{
	struct svc_session *s, *found = NULL;

	TAILQ_FOREACH(s, &server->posted, posted_link) {
		const struct svc_errand *first = STAILQ_FIRST(&s->errands);

		if (sal_session_lane(s->core) != lane || !first->is_brief || !is_for_vendor(first))
			continue;
		if (first->starts)
			return s;
		found = found ? found : s;
	}
	return found;
}

bool svc_carry_lane(struct svc_server *server, uint32_t lane)
{
	struct svc_session *s = find_posted(server, lane);

	if (!s)
		return false;
	take(server, s);
	carry(server, s, AS_VENDOR);
	return true;
}

static void *live(void *arg);

static int spawn(struct svc_server *server)
{
	struct svc_carriers *c = &server->carriers;
	int rc;

	(void)pthread_mutex_lock(&c->lock);
	c->threads++;
	(void)pthread_mutex_unlock(&c->lock);
	rc = sal_thread_start(NULL, "salus-carrier", live, server);
	if (rc == 0)
		return SAL_OK;
	(void)pthread_mutex_lock(&c->lock);
	c->threads--;
	c->lacks_thread = true;
	(void)pthread_mutex_unlock(&c->lock);
	sal_log_error("carrier", "no thread: %s", strerror(rc));
	svc_watch_again(server);
	return -SAL_RESOURCE_EXHAUSTED;
}

void svc_carriers_retry(struct svc_server *server)
{
	struct svc_carriers *c = &server->carriers;
	bool lacks;

	(void)pthread_mutex_lock(&c->lock);
	lacks = c->lacks_thread && c->idle == 0 && !c->stop;
	c->lacks_thread = false;
	(void)pthread_mutex_unlock(&c->lock);
	if (lacks)
		(void)spawn(server);
}

struct duty {
	bool is_worker;
	bool settles; /* gives back memory of lanes */
	struct svc_session *session; /* carry or destroy this session; NULL: none */
};

/* Under carriers->lock. False: there is nothing to do. */
static bool take_duty(struct svc_carriers *c, struct duty *out_duty)
{
	*out_duty = (struct duty){ .is_worker = c->role_is_free && !c->stop };
	if (out_duty->is_worker) {
		c->role_is_free = false;
		return true;
	}
	out_duty->session = TAILQ_FIRST(&c->handed);
	if (out_duty->session) {
		TAILQ_REMOVE(&c->handed, out_duty->session, handed_link);
		return true;
	}
	out_duty->settles = c->must_settle;
	c->must_settle = false;
	return out_duty->settles;
}

/*
 * Wait for something to do. False: this thread must end. The last idle carrier starts another one
 * before it gets busy.
 */
static bool wait_for_duty(struct svc_server *server, struct duty *out_duty)
{
	struct svc_carriers *c = &server->carriers;
	bool found, leaves_nobody;

	(void)pthread_mutex_lock(&c->lock);
	c->idle++;
	while (!(found = take_duty(c, out_duty)) && !c->stop && c->idle <= IDLE_MAX)
		(void)pthread_cond_wait(&c->wake, &c->lock);
	c->idle--;
	leaves_nobody = found && c->idle == 0 && !c->stop;
	if (!found) {
		c->threads--;
		(void)pthread_cond_broadcast(&c->ended);
	}
	(void)pthread_mutex_unlock(&c->lock);
	if (leaves_nobody)
		(void)spawn(server);
	return found;
}

static void carry_handed(struct svc_server *server, struct svc_session *s)
{
	bool wake;

	svc_lock(server);
	carry(server, s, AS_CARRIER);
	(void)svc_dispatch(server);
	svc_dispatch_show(server);
	wake = svc_worker_has_work(server);
	svc_unlock(server);
	if (wake)
		svc_worker_wake(server);
}

/* One thread at a time returns free memory to the system. */
static void tidy(struct svc_carriers *c)
{
	if (atomic_exchange(&c->tidies, true))
		return;
	sal_heap_trim(0);
	sal_tidy();
	atomic_store(&c->tidies, false);
}

/*
 * Lanes change their sizes often, one after the other. So the memory waits a little: perhaps a lane
 * needs it again.
 */
static void settle(void)
{
	(void)nanosleep(&(struct timespec){ .tv_nsec = SETTLE_NS }, NULL);
	sal_heap_settle();
}

static void *live(void *arg)
{
	struct svc_server *server = arg;
	struct duty duty;

	(void)prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0); /* the worker's ticks are short */
	while (wait_for_duty(server, &duty)) {
		if (duty.is_worker) {
			svc_worker_run(server);
		} else if (duty.settles) {
			settle();
		} else if (svc_session_is_forgotten(duty.session)) {
			svc_session_destroy(duty.session);
			tidy(&server->carriers);
		} else {
			carry_handed(server, duty.session);
		}
	}
	return NULL;
}

void svc_carriers_bury(struct svc_server *server, struct svc_session *s)
{
	hand(server, s);
}

void svc_carriers_settle(struct svc_server *server)
{
	struct svc_carriers *c = &server->carriers;

	(void)pthread_mutex_lock(&c->lock);
	if (!c->must_settle)
		(void)pthread_cond_signal(&c->wake);
	c->must_settle = true;
	(void)pthread_mutex_unlock(&c->lock);
}

void svc_carriers_offer_role(struct svc_server *server)
{
	struct svc_carriers *c = &server->carriers;

	(void)pthread_mutex_lock(&c->lock);
	c->role_is_free = true;
	(void)pthread_cond_signal(&c->wake);
	(void)pthread_mutex_unlock(&c->lock);
}

void svc_carriers_init(struct svc_carriers *c)
{
	pthread_condattr_t monotonic;

	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_mutex_init(&c->lock, NULL);
	(void)pthread_cond_init(&c->wake, NULL);
	(void)pthread_cond_init(&c->ended, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
	TAILQ_INIT(&c->handed);
}

void svc_carriers_fini(struct svc_carriers *c)
{
	(void)pthread_cond_destroy(&c->wake);
	(void)pthread_cond_destroy(&c->ended);
	(void)pthread_mutex_destroy(&c->lock);
}

int svc_carriers_start(struct svc_server *server, struct sal_err *err)
{
	svc_carriers_offer_role(server);
	if (spawn(server) < 0)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no thread for the worker");
	return SAL_OK;
}

bool svc_carriers_stop(struct svc_server *server, uint64_t wait_ns)
{
	struct svc_carriers *c = &server->carriers;
	uint64_t until_ns = svc_now_ns() + wait_ns;
	struct timespec until = { .tv_sec = (time_t)(until_ns / 1000000000u),
				  .tv_nsec = (long)(until_ns % 1000000000u) };
	bool all_ended;

	(void)pthread_mutex_lock(&c->lock);
	c->stop = true;
	(void)pthread_cond_broadcast(&c->wake);
	while (c->threads > 0 && pthread_cond_timedwait(&c->ended, &c->lock, &until) != ETIMEDOUT)
		;
	all_ended = c->threads == 0;
	(void)pthread_mutex_unlock(&c->lock);
	return all_ended;
}
