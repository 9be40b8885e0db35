/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon/job_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys/fd.h"
#include "link/paths.h"

#define VARIABLE "SALUS_RUN"

/* What the watching process needs. */
struct watcher {
	int job; /* descriptor of the job's process */
	int pipe; /* from that process before it becomes the job */
	const char *name, *note;
};

static bool is_quiet(void)
{
	const char *value = getenv("SALUS_QUIET");

	return value && *value;
}

/* Does an outer `salus run` watch? Its file goes when its job ends, but a process may outlive that. */
static bool is_watched(void)
{
	const char *path = getenv(VARIABLE);

	return path && *path && access(path, F_OK) == 0;
}

/* Makes the empty file. A stale one has the number of a process that is gone. */
static bool make_note(char *path, size_t size)
{
	char dir[SAL_PATH_BYTES];
	int fd;

	if (sal_path_runtime_dir(dir, sizeof(dir), NULL) < 0 ||
	    sal_path_make_private(dir, NULL) < 0 ||
	    (size_t)snprintf(path, size, "%s/run-%d", dir, (int)getpid()) >= size)
		return false;
	(void)unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return false;
	sal_close(&fd);
	return true;
}

static bool is_empty(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && st.st_size == 0;
}

/* Lets go of everything but stderr and the two descriptors. */
static void let_go(struct watcher *w)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* The keys that end a job are for the job. */
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGQUIT, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)dup2(null, STDIN_FILENO);
	(void)dup2(null, STDOUT_FILENO);
	w->job = fcntl(w->job, F_DUPFD_CLOEXEC, 100);
	w->pipe = fcntl(w->pipe, F_DUPFD_CLOEXEC, w->job + 1);
	if (w->job < 0 || w->pipe < 0)
		return;
	(void)close_range(STDERR_FILENO + 1, (unsigned)w->job - 1, 0);
	(void)close_range((unsigned)w->job + 1, (unsigned)w->pipe - 1, 0);
	(void)close_range((unsigned)w->pipe + 1, ~0U, 0);
	(void)!chdir("/"); /* the job's folder may go */
}

/* The pipe ends without a byte when the process becomes the job. */
static bool is_job(int pipe)
{
	char byte;
	ssize_t n;

	do
		n = read(pipe, &byte, 1);
	while (n < 0 && errno == EINTR);
	return n == 0;
}

static void await_end(int job)
{
	struct pollfd end = { .fd = job, .events = POLLIN };

	while (poll(&end, 1, -1) < 0 && errno == EINTR)
		;
}

_Noreturn static void watch(struct watcher *w)
{
	let_go(w);
	if (w->job >= 0 && w->pipe >= 0 && is_job(w->pipe)) {
		await_end(w->job);
		if (is_empty(w->note))
			(void)fprintf(stderr,
				      "salus: %s did not use the shared device: neither JAX nor "
				      "PyTorch/XLA opened it (SALUS_QUIET=1 hides this)\n",
				      w->name);
	}
	(void)unlink(w->note);
	_exit(0);
}

/* A process that is nobody's child here: its parent ends at once. */
static bool start_watcher(struct watcher *w)
{
	pid_t pid = fork();
	int status = 1;

	if (pid == 0) {
		pid = fork();
		if (pid == 0)
			watch(w);
		_exit(pid < 0);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && status == 0;
}

bool cli_job_watch_start(struct cli_job_watch *watch_of, const char *name)
{
	char note[SAL_PATH_BYTES];
	struct watcher w = { .job = -1, .name = name, .note = note };
	int ends[2] = { -1, -1 };
	bool ok;

	watch_of->pipe = -1;
	if (is_quiet() || is_watched() || !make_note(note, sizeof(note)))
		return false;
	w.job = (int)syscall(SYS_pidfd_open, getpid(), 0);
	ok = w.job >= 0 && pipe2(ends, O_CLOEXEC) == 0 && setenv(VARIABLE, note, 1) == 0;
	w.pipe = ends[0];
	ok = ok && start_watcher(&w);
	if (ok)
		watch_of->pipe = ends[1];
	else {
		(void)unlink(note);
		(void)unsetenv(VARIABLE);
		sal_close(&ends[1]);
	}
	sal_close(&ends[0]);
	sal_close(&w.job);
	return ok;
}

void cli_job_watch_cancel(struct cli_job_watch *watch_of)
{
	if (watch_of->pipe >= 0)
		(void)!write(watch_of->pipe, "", 1);
	sal_close(&watch_of->pipe);
}
