/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server - start and stop, in the main thread.
 */
#include "service/server.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log/log.h"
#include "base/sys/clock.h"
#include "base/sys/machine.h"
#include "base/units.h"
#include "compile/pool/pool.h"
#include "core/engine.h"
#include "service/client/connections.h"
#include "service/client/listen.h"
#include "service/client/news.h"
#include "service/idmap.h"
#include "service/ledger.h"
#include "service/memory/stream.h"
#include "service/options.h"
#include "service/profile/recall.h"
#include "service/real/real.h"
#include "service/run/carrier.h"
#include "service/run/dispatch.h"
#include "service/run/tasks.h"
#include "service/run/watch.h"
#include "service/run/worker.h"
#include "service/trace.h"
#include "wire/facts.h"

#define HELPERS 2
#define LAST_WAIT_NS UINT64_C(2000000000)
#define LAST_LINES_MS 1000u
#define LAST_ALARM_S 4
/* Lanes for a policy that wants as many as fit, unless the operator names a number. */
#define LANES_UNASKED 8
/*
 * Sessions ask for memory in grains. The device's memory has GRAINS of them, or more, because no
 * grain is larger than GRAIN_BYTES_MAX.
 */
#define GRAINS 16384
#define GRAIN_BYTES_MAX (UINT64_C(1) << 20)
/* The part of a device's memory that we leave to the vendor. */
#define MEMORY_MARGIN 32

uint64_t svc_now_ns(void)
{
	return sal_now_ns();
}

static void on_signal(uv_signal_t *signal, int number)
{
	struct svc_server *server = signal->data;

	sal_log_info("server", "stopping signal=%d", number);
	(void)uv_signal_stop(signal);
	(void)sigaction(number, &(struct sigaction){ .sa_handler = SIG_DFL },
			NULL); /* the next signal ends salusd at once */
	uv_stop(&server->loop);
}

static void on_second(uv_timer_t *timer)
{
	struct svc_server *server = timer->data;

	if (!LIST_EMPTY(&server->clients)) {
		server->idle_since_ns = svc_now_ns();
		return;
	}
	if (svc_now_ns() - server->idle_since_ns > server->options.idle_exit_ns) {
		sal_log_info("server", "stopping, idle");
		uv_stop(&server->loop);
	}
}

/* Values of --tune are knobs of the first tuning, or parameters of the policy. */
static int tune(struct svc_server *server, struct sal_tuning *tuning, struct sal_err *err)
{
	const struct svc_options *o = &server->options;
	uint32_t i;

	for (i = 0; i < o->tune_count; i++) {
		struct sal_change change;
		int rc = sal_change_parse(o->policy, o->tunes[i], &change, err);

		if (rc < 0)
			return rc;
		if (tuning && change.is_knob)
			sal_knob_set(tuning, change.index, change.value);
		else if (!tuning && !change.is_knob)
			sal_engine_change(server->engine, svc_now_ns(), &change);
	}
	return SAL_OK;
}

static int open_engine(struct svc_server *server, struct sal_err *err)
{
	struct sal_engine_config cfg = {
		.capacity_bytes = server->options.memory_bytes,
		.policy = server->options.policy,
		.emit = svc_on_decision,
		.emit_ctx = server,
		.emit_events = true,
	};
	int rc;

	sal_tuning_default(&cfg.tuning);
	cfg.tuning.lanes = server->options.lanes;
	cfg.tuning.lane_cap = LANES_UNASKED;
	cfg.tuning.tiers = (uint32_t)server->has_tiers + server->tiers_change;
	cfg.tuning.stuck_ns = SAL_STUCK_NS;
	if (server->rows_are_cheap) /* a session's stream goes with it into another lane */
		cfg.tuning.move_ns = 0;
	server->grain_bytes = server->options.memory_bytes / GRAINS;
	if (server->grain_bytes > GRAIN_BYTES_MAX)
		server->grain_bytes = GRAIN_BYTES_MAX;
	if (server->grain_bytes == 0)
		server->grain_bytes = 1;
	svc_real_open(server);
	rc = tune(server, &cfg.tuning, err);
	if (rc >= 0)
		rc = svc_trace_open(&server->trace, &cfg, server->options.trace_records, err);
	if (rc >= 0)
		rc = sal_engine_create(&cfg, &server->engine, err);
	return rc < 0 ? rc : tune(server, NULL, err);
}

/* True for `fake`, and for `fake:` followed by the faults of the fake device. */
static bool is_fake(const struct svc_options *options)
{
	return strncmp(options->plugin_path, "fake", 4) == 0 &&
	       (options->plugin_path[4] == '\0' || options->plugin_path[4] == ':');
}

/*
 * A device knows its own memory. A small part stays free, because devices round the size of each
 * allocation up. A device that is the host may use what is allowed here.
 */
static int choose_memory(struct svc_server *server, struct sal_err *err)
{
	const struct sal_device_facts *facts = server->ops->facts(server->device);
	struct svc_options *o = &server->options;
	char asked[SAL_UNITS_TEXT], had[SAL_UNITS_TEXT];

	if (o->memory_bytes > 0 && facts->memory_bytes > 0 && o->memory_bytes > facts->memory_bytes)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "--memory is %s, but the device has %s",
				   sal_bytes_format(o->memory_bytes, asked, sizeof(asked)),
				   sal_bytes_format(facts->memory_bytes, had, sizeof(had)));
	if (o->memory_bytes > 0)
		return SAL_OK;
	if (facts->memory_bytes > 0)
		o->memory_bytes = facts->memory_bytes - facts->memory_bytes / MEMORY_MARGIN;
	else if (facts->is_host || is_fake(o))
		o->memory_bytes = o->host_bytes;
	else
		return sal_err_set(err, SAL_FAILED_PRECONDITION,
				   "%s does not say how much memory its device has: give --memory",
				   o->plugin_path);
	return SAL_OK;
}

static void note_device(const struct svc_server *server)
{
	const struct sal_device_facts *f = server->ops->facts(server->device);

	sal_log_info("device", "opened platform=%.*s pjrt=%u.%u memory=%" PRIu64 " kind=%.*s",
		     (int)f->platform_name.size, f->platform_name.at, (unsigned int)f->api_major,
		     (unsigned int)f->api_minor, server->options.memory_bytes, (int)f->kind.size,
		     f->kind.at);
}

static bool tiers_change(const struct svc_server *server)
{
	return server->has_tiers && server->ops->set_tier &&
	       server->ops->set_tier(server->streams[0].device, 0) >= 0;
}

/* On the host, the heap knows better. */
static bool tells_memory(const struct svc_server *server)
{
	struct sal_stream_memory memory;

	return !server->ops->facts(server->device)->is_host &&
	       server->ops->memory(server->streams[0].device, &memory) >= 0;
}

static int open_device(struct svc_server *server, struct sal_err *err)
{
	const struct svc_options *o = &server->options;
	struct sal_device_config cfg = {
		.plugin_path = o->plugin_path,
		.plugin_options = o->plugin_options,
		.memory_bytes = o->memory_bytes ? o->memory_bytes : o->host_bytes,
	};
	int rc;

	server->ops = is_fake(&server->options) ? &sal_device_fake : &sal_device_pjrt;
	rc = server->ops->open(&cfg, &server->device, err);
	if (rc >= 0)
		rc = choose_memory(server, err);
	if (rc < 0)
		return rc;
	server->carries_in_done = server->ops->can_execute_in_done(server->device);
	server->has_tiers = server->ops->has_tiers(server->device);
	server->rows_are_cheap = !is_fake(o) && server->ops->facts(server->device)->is_host;
	server->has_link = !is_fake(o) && !server->ops->facts(server->device)->is_host;
	server->cpus = sal_machine_cpus();
	rc = svc_stream_open(server, 0, err);
	if (rc < 0)
		return rc;
	server->tiers_change = tiers_change(server);
	server->tells_memory = tells_memory(server);
	note_device(server);
	server->facts =
		sal_device_facts_pack(server->ops->facts(server->device), &server->fact_size);
	return server->facts ? SAL_OK : sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
}

static int open_pool(struct svc_server *server, struct sal_err *err)
{
	const struct sal_device_facts *facts = server->ops->facts(server->device);
	struct sal_compile_config cfg = {
		.helper_path = server->options.helper_path,
		.plugin_path = is_fake(&server->options) ? "fake" : server->options.plugin_path,
		.plugin_options = server->options.plugin_options,
		.cache_dir = server->options.cache_dir,
		.cache_bytes = server->options.cache_bytes,
		.platform_version = facts->platform_version,
		.device_kind = facts->kind,
		.api_major = facts->api_major,
		.api_minor = facts->api_minor,
		.helpers = HELPERS,
		.task_limit_ns = server->options.compile_time_ns,
		.helper_memory_bytes = server->options.compile_memory_bytes,
	};

	return sal_compile_pool_open(&server->loop, &cfg, &server->pool, err);
}

static void watch(struct svc_server *server)
{
	svc_connections_open(server);
	server->on_term.data = server;
	(void)uv_signal_init(&server->loop, &server->on_term);
	(void)uv_signal_start(&server->on_term, on_signal, SIGTERM);
	server->on_int.data = server;
	(void)uv_signal_init(&server->loop, &server->on_int);
	(void)uv_signal_start(&server->on_int, on_signal, SIGINT);
	server->idle_timer.data = server;
	(void)uv_timer_init(&server->loop, &server->idle_timer);
	if (server->options.idle_exit_ns)
		(void)uv_timer_start(&server->idle_timer, on_second, 1000, 1000);
}

static void init_lists(struct svc_server *server)
{
	svc_lock_init(&server->lock);
	svc_carriers_init(&server->carriers);
	svc_streams_init(server);
	svc_kinds_init(server);
	TAILQ_INIT(&server->sessions);
	TAILQ_INIT(&server->posted);
	TAILQ_INIT(&server->tasks);
	TAILQ_INIT(&server->untold);
	STAILQ_INIT(&server->decisions);
	STAILQ_INIT(&server->ready);
	TAILQ_INIT(&server->worker.attended);
	TAILQ_INIT(&server->worker.resting);
	svc_idmap_init(&server->by_id);
	svc_idmap_init(&server->programs);
}

int svc_server_open(struct svc_server *server, const struct svc_options *options,
		    struct sal_err *err)
{
	int rc;

	memset(server, 0, sizeof(*server));
	server->options = *options;
	svc_ledger_init(&server->ledger, &options->limits);
	server->listen.fd = server->listen.lock_fd = -1;
	server->worker.epoll = server->worker.alarm = -1;
	server->worker.bell = server->worker.ring_fd = -1;
	server->watch.timer = -1;
	server->start_ns = server->idle_since_ns = svc_now_ns();
	init_lists(server);
	(void)uv_loop_init(&server->loop);
	server->task_bell.data = server;
	(void)uv_async_init(&server->loop, &server->task_bell, svc_on_tasks);
	svc_news_open(server);
	rc = svc_listen_open(&server->listen, server->options.socket_path, err);
	if (rc >= 0)
		rc = open_device(server, err);
	if (rc >= 0)
		rc = open_engine(server, err);
	if (rc >= 0)
		rc = open_pool(server, err);
	if (rc >= 0)
		rc = svc_recall_open(server, err);
	if (rc >= 0)
		rc = svc_worker_open(server, err);
	if (rc >= 0)
		rc = svc_watch_start(server, err);
	if (rc >= 0)
		rc = svc_carriers_start(server, err);
	server->is_started = rc >= 0;
	if (rc >= 0)
		watch(server);
	return rc;
}

void svc_server_run(struct svc_server *server)
{
	(void)uv_run(&server->loop, UV_RUN_DEFAULT);
}

/* Close the server's own handles. The pool closes its own when its helpers have ended. */
static void close_handle(uv_handle_t *handle, void *server)
{
	if (handle->data == server && !uv_is_closing(handle))
		uv_close(handle, NULL);
}

/* Iterations cannot be interrupted. Running iterations get a moment to end. */
static bool wait_for_sessions(struct svc_server *server)
{
	uint64_t until_ns = svc_now_ns() + LAST_WAIT_NS;
	bool busy = server->is_started;

	while (busy) {
		busy = atomic_load(&server->alive) > 0 || atomic_load(&server->reporters) > 0;
		if (busy && svc_now_ns() > until_ns)
			return false;
		if (busy)
			(void)usleep(1000);
	}
	return true;
}

/* Stop all threads that use the device. False: one of them does not end. */
static bool stop_threads(struct svc_server *server)
{
	if (!wait_for_sessions(server))
		return false;
	svc_worker_stop(server);
	return !server->is_started || svc_carriers_stop(server, LAST_WAIT_NS);
}

static void close_device(struct svc_server *server)
{
	svc_streams_fini(server);
	if (server->ops)
		svc_vendor(server)->close(server->device);
}

static void on_alarm(int number)
{
	(void)number;
	_exit(0);
}

void svc_server_close(struct svc_server *server)
{
	struct sigaction last = { .sa_handler = on_alarm };

	server->closing = true;
	/* The alarm ends salusd even if something blocks. */
	(void)sigaction(SIGALRM, &last, NULL);
	(void)alarm(server->is_started ? LAST_ALARM_S : 0);
	svc_connections_close(server);
	svc_recall_save(server);
	svc_on_tasks(&server->task_bell); /* their sessions are gone: the tasks are dropped */
	while (server->preparing > 0) /* these tasks use the pool, a load uses the server */
		(void)uv_run(&server->loop, UV_RUN_ONCE);
	if (server->pool)
		sal_compile_pool_close(server->pool);
	if (!stop_threads(server)) {
		/* The vendor may still use the memory: leave freeing to the kernel. */
		sal_log_warn("server", "the device does not come to rest, leaving it as it is");
		svc_listen_close(&server->listen);
		(void)sal_log_flush(LAST_LINES_MS);
		_exit(0);
	}
	svc_watch_stop(server);
	svc_worker_close(server);
	uv_walk(&server->loop, close_handle, server);
	(void)uv_run(&server->loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&server->loop);
	svc_recall_close(server);
	sal_engine_destroy(server->engine);
	svc_trace_close(&server->trace);
	close_device(server);
	free(server->facts);
	svc_kinds_fini(server);
	svc_listen_close(&server->listen);
	svc_ledger_fini(&server->ledger);
	svc_idmap_fini(&server->by_id);
	svc_idmap_fini(&server->programs);
	(void)alarm(0);
	svc_carriers_fini(&server->carriers);
	svc_lock_fini(&server->lock);
}
