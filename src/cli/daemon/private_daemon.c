/* SPDX-License-Identifier: Apache-2.0 */
/*
 *     salus run ──fork──> watcher ──fork──> salusd (a session of its own)
 *         ^                  │
 *         └───── pipe ───────┘  its pid; later its wait status, if it ends
 *
 * This process becomes the job, and salusd must not be a child of the job. Until salusd answers,
 * the watcher reports its end. Then the watcher exits, and init adopts salusd.
 */
#include "cli/daemon/private_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys/fd.h"
#include "cli/admin.h"
#include "cli/ask.h"
#include "cli/daemon/daemon_env.h"
#include "cli/deadline.h"

#define IDLE_EXIT "10min"
#define PATIENCE_MS 1000 /* after so long a message says what we wait for */
#define LOOK_MS 20
#define STOP_MS 2000

struct started {
	pid_t watcher;
	pid_t daemon;
	int news; /* read end of the watcher's pipe */
	bool ended;
	int status; /* as of waitpid(2), once it has ended */
};

static int ping(const char *socket, int wait_ms, json_t **out_reply, struct sal_err *err)
{
	json_t *request = json_pack("{s:s}", "op", "ping");
	int rc = cli_admin_ask(socket, request, wait_ms, out_reply, err);

	json_decref(request);
	return rc < 0 ? rc : cli_refusal(out_reply, err);
}

/*
 * Takes the lock, and returns a descriptor that holds it until it is closed. Waits for other
 * processes that start a daemon.
 */
static int lock(const struct cli_private_daemon *d, struct sal_err *err)
{
	int64_t deadline_ms = cli_deadline_in(d->wait_ms + STOP_MS + CLI_ANSWER_MS);
	int fd = open(d->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return sal_err_set(err, SAL_PERMISSION_DENIED, "%s: %s", d->lock, strerror(errno));
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (cli_deadline_left_ms(deadline_ms) == 0) {
			(void)close(fd);
			return sal_err_set(err, SAL_DEADLINE_EXCEEDED,
					   "another `salus run` is starting a salusd and has not "
					   "finished; it holds %s",
					   d->lock);
		}
		cli_sleep_ms(LOOK_MS);
	}
	return fd;
}

static void close_from(int first)
{
	int fd, end;

	if (close_range((unsigned)first, ~0u, 0) == 0)
		return;
	end = (int)sysconf(_SC_OPEN_MAX); /* before Linux 5.9 */
	for (fd = first; fd < end; fd++)
		(void)close(fd);
}

/* salusd keeps nothing of the terminal, directory and signals of the process that starts it. */
static void detach(int log_fd)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;
	int number;

	for (number = 1; number < NSIG; number++)
		(void)signal(number, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)setsid();
	(void)umask(077);
	if (null_fd < 0 || chdir("/") < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
	    dup2(log_fd, STDOUT_FILENO) < 0 || dup2(log_fd, STDERR_FILENO) < 0)
		_exit(127);
	close_from(STDERR_FILENO + 1);
}

static void become_daemon(const struct cli_private_daemon *d, int log_fd)
{
	char **env = cli_daemon_env(environ);

	detach(log_fd);
	if (env)
		(void)execle(d->program, d->program, "--socket", d->socket, "--idle-exit",
			     IDLE_EXIT, "--log", d->log, (char *)NULL, env);
	(void)dprintf(STDERR_FILENO, "salus: %s: %s\n", d->program, strerror(errno));
	_exit(127);
}

static void watch(const struct cli_private_daemon *d, int log_fd, int news, pid_t parent)
{
	pid_t pid;
	int status = 0;

	(void)signal(SIGCHLD, SIG_DFL); /* if it is ignored, there is nothing to wait for */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	pid = fork();
	if (pid == 0)
		become_daemon(d, log_fd);
	if (write(news, &pid, sizeof(pid)) < 0 || pid < 0)
		_exit(1);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	_exit(write(news, &status, sizeof(status)) < 0);
}

static int fork_watcher(const struct cli_private_daemon *d, int log_fd, struct started *s)
{
	pid_t parent = getpid();
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	s->news = ends[0];
	s->watcher = fork();
	if (s->watcher == 0)
		watch(d, log_fd, ends[1], parent);
	(void)close(ends[1]);
	if (s->watcher < 0)
		return -1;
	return read(s->news, &s->daemon, sizeof(s->daemon)) == sizeof(s->daemon) && s->daemon > 0
		       ? 0
		       : -1;
}

static int start(struct cli_private_daemon *d, struct started *s, struct sal_err *err)
{
	int log_fd = open(d->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	int rc = SAL_OK;

	if (log_fd < 0)
		return sal_err_set(err, SAL_PERMISSION_DENIED, "log %s: %s", d->log,
				   strerror(errno));
	d->log_from = lseek(log_fd, 0, SEEK_END);
	if (fork_watcher(d, log_fd, s) < 0)
		rc = sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "cannot start %s: %s", d->program,
				 strerror(errno));
	(void)close(log_fd);
	return rc;
}

/* Waits at most this long for a report that the daemon ended. */
static bool has_ended(struct started *s, int wait_ms)
{
	struct pollfd p = { .fd = s->news, .events = POLLIN };

	if (!s->ended && poll(&p, 1, wait_ms) > 0) {
		s->ended = true;
		if (read(s->news, &s->status, sizeof(s->status)) != sizeof(s->status))
			s->status = 0; /* the watcher was killed */
	}
	return s->ended;
}

/* Also stops the processes that it started: they are one group. */
static void stop_daemon(struct started *s)
{
	(void)kill(-s->daemon, SIGTERM);
	if (has_ended(s, STOP_MS))
		return;
	(void)kill(-s->daemon, SIGKILL);
	(void)has_ended(s, STOP_MS);
}

/* Leaves no child and no descriptor to the job. */
static void forget(struct started *s)
{
	if (s->watcher > 0) {
		(void)kill(s->watcher, SIGKILL);
		while (waitpid(s->watcher, NULL, 0) < 0 && errno == EINTR)
			;
	}
	sal_close(&s->news);
}

static int report_end(int status, struct sal_err *err)
{
	if (WIFSIGNALED(status))
		return sal_err_set(err, SAL_UNAVAILABLE, "salusd was killed by signal %d (%s)",
				   WTERMSIG(status), strsignal(WTERMSIG(status)));
	return sal_err_set(err, SAL_UNAVAILABLE, "salusd ended with status %d before it answered",
			   WEXITSTATUS(status));
}

static int await(const struct cli_private_daemon *d, struct started *s, json_t **out_ping,
		 struct sal_err *err)
{
	int64_t patient_until_ms = cli_deadline_in(PATIENCE_MS);
	int64_t deadline_ms = cli_deadline_in(d->wait_ms);
	bool said = false, ended = false;
	int left_ms;

	while ((left_ms = cli_deadline_left_ms(deadline_ms)) > 0) {
		int wait_ms = left_ms < PATIENCE_MS ? left_ms : PATIENCE_MS;

		if (ping(d->socket, wait_ms, out_ping, NULL) >= 0)
			return SAL_OK;
		if (ended) /* after one more question: another daemon may have been faster */
			return report_end(s->status, err);
		if (!said && cli_deadline_left_ms(patient_until_ms) == 0) {
			(void)fprintf(stderr, "salus: starting salusd (log: %s)\n", d->log);
			said = true;
		}
		ended = has_ended(s, LOOK_MS);
	}
	stop_daemon(s);
	return sal_err_set(err, SAL_DEADLINE_EXCEEDED, "salusd did not answer within %d s",
			   (d->wait_ms + 999) / 1000);
}

static int start_and_await(struct cli_private_daemon *d, json_t **out_ping, struct sal_err *err)
{
	struct started s = { .watcher = -1, .daemon = -1, .news = -1 };
	int rc = start(d, &s, err);

	if (rc >= 0)
		rc = await(d, &s, out_ping, err);
	forget(&s);
	return rc;
}

int cli_private_daemon_ensure(struct cli_private_daemon *d, json_t **out_ping, struct sal_err *err)
{
	int lock_fd, rc;

	d->log_from = -1;
	if (ping(d->socket, CLI_ANSWER_MS, out_ping, NULL) >= 0)
		return SAL_OK;
	lock_fd = lock(d, err);
	if (lock_fd < 0)
		return lock_fd;
	/*
	 * Another process may have started a daemon meanwhile. A daemon that listens but hangs is
	 * not replaced.
	 */
	rc = ping(d->socket, CLI_ANSWER_MS, out_ping, err);
	if (rc == -SAL_UNAVAILABLE)
		rc = start_and_await(d, out_ping, err);
	(void)close(lock_fd);
	return rc;
}
