/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server - the main thread: the socket, the greeting, the death of clients; start and stop.
 *
 * A connection is a client (its first bytes are a hello) or somebody with a question (a line of JSON). A
 * client's socket stays open as its death notice; all it ever says on it again is that it wants more shared
 * memory.
 */
#include "service/service.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "link/socket.h"
#include "wire/facts.h"

#define CLIENTS_MAX 4096
#define LINE_MAX_BYTES 65536
#define HELPERS 2
#define HELLO_MAX 4096
#define LAST_WAIT_NS UINT64_C(2000000000)
/* A connection that says nothing for that long is closed. */
#define HELLO_NS UINT64_C(2000000000)
/* Lanes that a policy gets which wants as many as fit, if the operator names no number. */
#define LANES_UNASKED 8
/* Memory is asked for in grains: so many of them are the device, but none is larger than this. */
#define GRAINS 16384
#define GRAIN_MOST (UINT64_C(1) << 20)

/* One connection. */
struct svc_client {
	LIST_ENTRY(svc_client) link; /* in server->clients */
	struct svc_server *server; /* borrowed */
	uv_poll_t poll;
	int fd; /* owned */
	struct svc_session *session; /* owned reference; NULL before the hello, and for questions */
	uint64_t open_ns;
	size_t filled;
	char bytes[LINE_MAX_BYTES]; /* what has come of the hello or the line */
};

/* --- connections ------------------------------------------------------------------------------------------ */

static void on_client_closed(uv_handle_t *handle)
{
	struct svc_client *c = handle->data;

	(void)close(c->fd);
	free(c);
}

/* The client hung up or was told to go. */
static void client_close(struct svc_client *c)
{
	struct svc_server *server = c->server;

	LIST_REMOVE(c, link);
	server->idle_since_ns = svc_now_ns();
	if (c->session) {
		svc_jobs_cancel(c->session);
		(void)pthread_mutex_lock(&server->lock);
		c->session->socket = -1;
		svc_session_kill(c->session, server->closing ? "salus: salusd has stopped"
							     : "salus: the session has ended");
		(void)pthread_mutex_unlock(&server->lock);
		svc_worker_wake(server); /* others may have been granted their turn */
		svc_session_unref(c->session);
	}
	(void)uv_poll_stop(&c->poll);
	uv_close((uv_handle_t *)&c->poll, on_client_closed);
}

static void close_fds(int *fds, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
}

/* A fresh socket takes this without waiting; one that does not is no client of ours. */
static int send_welcome(struct svc_client *c, const struct sal_err *refusal, int *fds)
{
	struct svc_server *server = c->server;
	struct sal_welcome welcome = {
		.magic = SAL_WIRE_MAGIC,
		.major = SAL_WIRE_MAJOR,
		.minor = SAL_WIRE_MINOR,
		.size = sizeof(welcome),
		.code = refusal ? refusal->code : 0,
		.session = c->session ? c->session->id : 0,
		.ring_bytes = SVC_RING_BYTES,
		.segment_bytes = SVC_SEGMENT_BYTES,
		.fact_bytes = refusal ? 0 : server->fact_size,
		.memory_bytes = server->options.memory_bytes,
	};
	int rc;

	if (refusal)
		(void)snprintf(welcome.reason, sizeof(welcome.reason), "%.*s", SAL_REASON_BYTES - 1,
			       refusal->text);
	rc = sal_socket_send(c->fd, &welcome, sizeof(welcome), fds, refusal ? 0 : 4, NULL);
	if (rc >= 0 && !refusal)
		rc = sal_socket_send(c->fd, server->facts, server->fact_size, NULL, 0, NULL);
	return rc;
}

static bool greet(struct svc_client *c)
{
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);
	struct sal_hello hello;
	struct sal_err err = { 0 };
	int fds[4];
	bool ok;

	memcpy(&hello, c->bytes, sizeof(hello));
	(void)getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	if (!sal_hello_is_valid(&hello))
		return false;
	if (hello.major != SAL_WIRE_MAJOR) {
		(void)sal_err_set(&err, SAL_FAILED_PRECONDITION,
				  "protocol %u.%u is not ours (%d.%d): the plugin is of another "
				  "version",
				  hello.major, hello.minor, SAL_WIRE_MAJOR, SAL_WIRE_MINOR);
		(void)send_welcome(c, &err, NULL);
		return false;
	}
	if (svc_session_create(c->server, &hello, &c->session, fds, &err) < 0) {
		(void)send_welcome(c, &err, NULL);
		return false;
	}
	(void)svc_session_ref(c->session); /* one for the server's list, one for us */
	(void)pthread_mutex_lock(&c->server->lock);
	c->session->pid = peer.pid;
	c->session->uid = peer.uid;
	c->session->socket = c->fd;
	(void)pthread_mutex_unlock(&c->server->lock);
	ok = send_welcome(c, NULL, fds) >= 0;
	close_fds(fds, 4);
	sal_log_info("session", "opened id=%" PRIu64 " name=%s pid=%d uid=%u", c->session->id,
		     c->session->name, (int)peer.pid, (unsigned)peer.uid);
	return ok;
}

static bool answer_question(struct svc_client *c)
{
	char *end = memchr(c->bytes, '\n', c->filled);
	int *fd = &c->server->trace.answer_fd; /* some answers come with a descriptor */
	char *answer;

	if (!end)
		return c->filled < sizeof(c->bytes);
	*end = '\0';
	answer = svc_admin_answer(c->server, c->fd, c->bytes);
	if (answer)
		(void)sal_socket_send(c->fd, answer, strlen(answer), fd, *fd >= 0 ? 1 : 0, NULL);
	free(answer);
	close_fds(fd, 1);
	*fd = -1;
	return false; /* one question, one answer */
}

/* One that does not read what it asked for must not hold up the others. */
static bool takes_bytes(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 0) > 0 && (p.revents & POLLOUT);
}

static bool grow(struct svc_client *c)
{
	struct sal_grown grown = { 0 };
	struct sal_grow ask;
	struct sal_err err = { 0 };
	int fd;
	bool ok;

	memcpy(&ask, c->bytes, sizeof(ask));
	c->filled = 0;
	(void)pthread_mutex_lock(&c->server->lock);
	fd = svc_session_grow(c->session, ask.bytes, &grown.segment, &grown.bytes, &err);
	(void)pthread_mutex_unlock(&c->server->lock);
	if (fd < 0)
		grown.code = err.code;
	ok = takes_bytes(c->fd) &&
	     sal_socket_send(c->fd, &grown, sizeof(grown), &fd, fd >= 0 ? 1 : 0, NULL) >= 0;
	if (fd >= 0)
		(void)close(fd);
	return ok;
}

/* A newer client's hello is longer than ours; what we do not know of it is skipped. */
static size_t hello_size(const struct svc_client *c)
{
	struct sal_hello hello;

	if (c->filled < sizeof(hello))
		return sizeof(hello);
	memcpy(&hello, c->bytes, sizeof(hello));
	return hello.size > sizeof(hello) && hello.size <= HELLO_MAX ? hello.size : sizeof(hello);
}

/* What has come is enough for something; false: hang up. */
static bool look_at(struct svc_client *c)
{
	if (c->session)
		return c->filled < sizeof(struct sal_grow) || grow(c);
	if (c->bytes[0] == '{')
		return answer_question(c);
	if (c->filled < hello_size(c))
		return true;
	c->filled = 0;
	return greet(c);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct svc_client *c = poll->data;
	size_t want = c->session	   ? sizeof(struct sal_grow)
		      : c->filled == 0	   ? 1
		      : c->bytes[0] == '{' ? sizeof(c->bytes)
					   : hello_size(c);
	ssize_t n;

	if (status < 0 || (events & UV_DISCONNECT && !(events & UV_READABLE))) {
		client_close(c);
		return;
	}
	/* Without waiting; descriptors that a client sends along are closed by the kernel. */
	n = recv(c->fd, c->bytes + c->filled, want - c->filled, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		client_close(c);
		return;
	}
	c->filled += (size_t)n;
	if (!look_at(c))
		client_close(c);
}

static uint32_t count_clients(const struct svc_server *server)
{
	const struct svc_client *c;
	uint32_t n = 0;

	LIST_FOREACH(c, &server->clients, link)
		n++;
	return n;
}

static void on_connection(uv_poll_t *poll, int status, int events);

/* Runs only while there are connections that have not greeted, or could not be accepted. */
static void on_hello_timer(uv_timer_t *timer)
{
	struct svc_server *server = timer->data;
	struct svc_client *c, *next;
	bool silent = false;

	for (c = LIST_FIRST(&server->clients); c; c = next) {
		next = LIST_NEXT(c, link);
		if (c->session)
			continue;
		if (svc_now_ns() - c->open_ns > HELLO_NS)
			client_close(c);
		else
			silent = true;
	}
	if (!uv_is_active((uv_handle_t *)&server->listener))
		(void)uv_poll_start(&server->listener, UV_READABLE, on_connection);
	else if (!silent)
		(void)uv_timer_stop(timer);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
	struct svc_server *server = poll->data;
	struct timeval patience = { .tv_sec = 1 };
	struct svc_client *c;
	int fd;

	(void)events;
	if (status < 0)
		return;
	fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (!uv_is_active((uv_handle_t *)&server->hello_timer))
		(void)uv_timer_start(&server->hello_timer, on_hello_timer, 1000, 1000);
	if (fd < 0) { /* no descriptors left: look again when the timer comes */
		if (errno == EMFILE || errno == ENFILE)
			(void)uv_poll_stop(&server->listener);
		return;
	}
	c = count_clients(server) < CLIENTS_MAX ? calloc(1, sizeof(*c)) : NULL;
	if (!c || uv_poll_init(&server->loop, &c->poll, fd) < 0) {
		free(c);
		(void)close(fd);
		return;
	}
	(void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	c->server = server;
	c->fd = fd;
	c->open_ns = svc_now_ns();
	c->poll.data = c;
	LIST_INSERT_HEAD(&server->clients, c, link);
	(void)uv_poll_start(&c->poll, UV_READABLE | UV_DISCONNECT, on_readable);
}

/* --- start and stop ---------------------------------------------------------------------------------------- */

/* The socket is ours alone as long as we hold the lock beside it; a stale one is replaced. */
static int open_socket(struct svc_server *server, struct sal_err *err)
{
	const char *path = server->options.socket_path;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char lock_path[sizeof(address.sun_path) + 8];

	if (strlen(path) >= sizeof(address.sun_path))
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "%s: too long for a socket", path);
	memcpy(address.sun_path, path, strlen(path) + 1);
	(void)snprintf(lock_path, sizeof(lock_path), "%s.lock", path);
	server->lock_fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (server->lock_fd < 0)
		return sal_err_set(err, SAL_UNAVAILABLE, "%s: %s", lock_path, strerror(errno));
	if (flock(server->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return sal_err_set(err, SAL_ALREADY_EXISTS, "another salusd has %s", path);
	(void)unlink(path);
	server->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server->listen_fd < 0 ||
	    bind(server->listen_fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    chmod(path, 0600) < 0 || listen(server->listen_fd, 128) < 0)
		return sal_err_set(err, SAL_UNAVAILABLE, "%s: %s", path, strerror(errno));
	return SAL_OK;
}

static void on_signal(uv_signal_t *signal, int number)
{
	struct svc_server *server = signal->data;

	sal_log_info("server", "stopping signal=%d", number);
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
	server->grain_bytes = server->options.memory_bytes / GRAINS;
	if (server->grain_bytes > GRAIN_MOST)
		server->grain_bytes = GRAIN_MOST;
	if (server->grain_bytes == 0)
		server->grain_bytes = 1;
	server->tuning = cfg.tuning;
	rc = svc_trace_open(&server->trace, &cfg, server->options.trace_records, err);
	if (rc < 0)
		return rc;
	return sal_engine_create(&cfg, &server->engine, err);
}

/* `fake`, or `fake:` and the faults it shall have. */
static bool is_fake(const struct svc_options *options)
{
	return strncmp(options->plugin_path, "fake", 4) == 0 &&
	       (options->plugin_path[4] == '\0' || options->plugin_path[4] == ':');
}

static int open_device(struct svc_server *server, struct sal_err *err)
{
	struct sal_device_config cfg = {
		.plugin_path = server->options.plugin_path,
		.memory_bytes = server->options.memory_bytes,
	};
	int rc;

	server->ops = is_fake(&server->options) ? &sal_device_fake : &sal_device_pjrt;
	rc = server->ops->open(&cfg, &server->device, err);
	if (rc < 0)
		return rc;
	rc = server->ops->open_stream(server->device, &server->lanes[0].stream, err);
	if (rc < 0)
		return rc;
	server->facts =
		sal_device_facts_pack(server->ops->facts(server->device), &server->fact_size);
	return server->facts ? SAL_OK : sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
}

static int open_pool(struct svc_server *server, struct sal_err *err)
{
	struct sal_compile_config cfg = {
		.helper_path = server->options.helper_path,
		.plugin_path = is_fake(&server->options) ? "fake" : server->options.plugin_path,
		.cache_dir = server->options.cache_dir,
		.cache_bytes = server->options.cache_bytes,
		.platform_version = server->ops->facts(server->device)->platform_version,
		.helpers = HELPERS,
	};

	return sal_compile_pool_open(&server->loop, &cfg, &server->pool, err);
}

static void watch(struct svc_server *server)
{
	server->listener.data = server;
	(void)uv_poll_init(&server->loop, &server->listener, server->listen_fd);
	(void)uv_poll_start(&server->listener, UV_READABLE, on_connection);
	server->on_term.data = server;
	(void)uv_signal_init(&server->loop, &server->on_term);
	(void)uv_signal_start(&server->on_term, on_signal, SIGTERM);
	server->on_int.data = server;
	(void)uv_signal_init(&server->loop, &server->on_int);
	(void)uv_signal_start(&server->on_int, on_signal, SIGINT);
	server->hello_timer.data = server;
	(void)uv_timer_init(&server->loop, &server->hello_timer);
	server->idle_timer.data = server;
	(void)uv_timer_init(&server->loop, &server->idle_timer);
	if (server->options.idle_exit_ns)
		(void)uv_timer_start(&server->idle_timer, on_second, 1000, 1000);
}

int svc_server_open(struct svc_server *server, const struct svc_options *options,
		    struct sal_err *err)
{
	int rc;

	memset(server, 0, sizeof(*server));
	server->options = *options;
	server->listen_fd = server->lock_fd = -1;
	server->worker.epoll = server->worker.bell = server->worker.ring_fd = -1;
	TAILQ_INIT(&server->granted);
	TAILQ_INIT(&server->refused);
	STAILQ_INIT(&server->carrier.errands);
	(void)pthread_mutex_init(&server->carrier.lock, NULL);
	(void)pthread_cond_init(&server->carrier.wake, NULL);
	STAILQ_INIT(&server->ready);
	server->start_ns = server->idle_since_ns = svc_now_ns();
	(void)pthread_mutex_init(&server->lock, NULL);
	TAILQ_INIT(&server->sessions);
	TAILQ_INIT(&server->programs);
	TAILQ_INIT(&server->jobs);
	(void)uv_loop_init(&server->loop);
	server->job_bell.data = server;
	(void)uv_async_init(&server->loop, &server->job_bell, svc_on_jobs);
	svc_news_open(server);
	rc = open_socket(server, err);
	if (rc >= 0)
		rc = open_device(server, err);
	if (rc >= 0)
		rc = open_engine(server, err);
	if (rc >= 0)
		rc = open_pool(server, err);
	if (rc >= 0)
		rc = svc_recall_open(server, err);
	if (rc >= 0)
		rc = svc_carrier_start(server, err);
	if (rc >= 0)
		rc = svc_worker_start(server, err);
	if (rc >= 0)
		watch(server);
	return rc;
}

void svc_server_run(struct svc_server *server)
{
	(void)uv_run(&server->loop, UV_RUN_DEFAULT);
}

static void close_handle(uv_handle_t *handle, void *unused)
{
	(void)unused;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

/* Iterations cannot be interrupted; those that run when we stop have a moment to end. */
static bool wait_for_device(struct svc_server *server)
{
	uint64_t until = svc_now_ns() + LAST_WAIT_NS;
	bool busy = true;

	while (busy && server->engine && server->worker.started) {
		(void)pthread_mutex_lock(&server->lock);
		busy = server->running > 0 || atomic_load(&server->reporters) > 0;
		(void)pthread_mutex_unlock(&server->lock);
		if (busy && svc_now_ns() > until)
			return false;
		if (busy)
			(void)usleep(1000);
	}
	return true;
}

void svc_server_close(struct svc_server *server)
{
	struct svc_client *c;
	uint32_t i;

	server->closing = true;
	while ((c = LIST_FIRST(&server->clients)))
		client_close(c);
	svc_recall_save(server);
	if (!wait_for_device(server)) {
		/* The vendor may still use what we would free: leave it to the kernel. */
		sal_log_warn("server", "the device does not come to rest, leaving it as it is");
		(void)unlink(server->options.socket_path);
		_exit(0);
	}
	svc_carrier_stop(server);
	svc_on_jobs(&server->job_bell); /* of sessions that are gone: they are dropped */
	if (server->pool)
		sal_compile_pool_close(server->pool);
	svc_worker_stop(server);
	uv_walk(&server->loop, close_handle, NULL);
	(void)uv_run(&server->loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&server->loop);
	svc_recall_close(server);
	sal_engine_destroy(server->engine);
	svc_trace_close(&server->trace);
	if (server->ops) {
		for (i = 0; i < SAL_LANES_MAX; i++)
			server->ops->close_stream(server->lanes[i].stream);
		server->ops->close(server->device);
	}
	free(server->facts);
	if (server->listen_fd >= 0) {
		(void)unlink(server->options.socket_path);
		(void)close(server->listen_fd);
	}
	if (server->lock_fd >= 0)
		(void)close(server->lock_fd);
	(void)pthread_mutex_destroy(&server->carrier.lock);
	(void)pthread_cond_destroy(&server->carrier.wake);
	(void)pthread_mutex_destroy(&server->lock);
}
