/* SPDX-License-Identifier: Apache-2.0 */
#include "support/plugin_host.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/sys/clock.h"

const PJRT_Api *api;

/* The process */

const char *host_plugin_path(void)
{
	return SAL_TEST_SALUS_PJRT;
}

bool host_is_sanitized(void)
{
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
	return true;
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return true;
#endif
	return false;
}

double host_patience(void)
{
	const char *factor = getenv("SALUS_TEST_PATIENCE");

	if (factor && atof(factor) > 0)
		return atof(factor);
	return host_is_sanitized() ? 5 : 1;
}

uint64_t host_now_ns(void)
{
	return sal_now_ns();
}

static void on_alarm(int number)
{
	static const char text[] = "\nthe test above took too long\n";

	(void)number;
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	abort();
}

void host_deadline(unsigned int seconds)
{
	(void)signal(SIGALRM, on_alarm);
	(void)alarm((unsigned int)(seconds * host_patience()));
}

static void *do_nothing(void *unused)
{
	return unused;
}

void host_load(void)
{
	const PJRT_Api *(*get_api)(void);
	void *library;
	pthread_t first;

	if (api)
		return;
	/* Sanitizers start a thread of their own with the first thread; it must not be counted. */
	if (pthread_create(&first, NULL, do_nothing, NULL) == 0)
		(void)pthread_join(first, NULL);
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	library = dlopen(host_plugin_path(), RTLD_LAZY | RTLD_LOCAL);
	if (!library) {
		(void)fprintf(stderr, "%s\n", dlerror());
		abort();
	}
	*(void **)&get_api = dlsym(library, "GetPjrtApi");
	if (!get_api)
		abort();
	api = get_api();
}

static size_t count_entries(const char *path)
{
	DIR *dir = opendir(path);
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n - 2;
}

size_t host_fd_count(void)
{
	return count_entries("/proc/self/fd") - 1; /* minus that of opendir */
}

size_t host_thread_count(void)
{
	return count_entries("/proc/self/task");
}

void host_expect_counts(size_t fds, size_t threads)
{
	uint64_t end = host_now_ns() + (uint64_t)(2e9 * host_patience());

	while ((host_fd_count() > fds || host_thread_count() > threads) && host_now_ns() < end)
		(void)usleep(1000);
	assert_int_equal(host_fd_count(), fds);
	assert_int_equal(host_thread_count(), threads);
}

uint64_t host_rss_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long total, resident = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu %lu", &total, &resident), 2);
	(void)fclose(f);
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t host_mapped_bytes(const char *word, size_t *out_count)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	uint64_t sum = 0;
	size_t count = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		unsigned long from, to;

		if (!strstr(line, word) || sscanf(line, "%lx-%lx", &from, &to) != 2)
			continue;
		sum += to - from;
		count++;
	}
	(void)fclose(f);
	if (out_count)
		*out_count = count;
	return sum;
}

int host_wait_child(pid_t pid, unsigned int seconds)
{
	uint64_t end = host_now_ns() + (uint64_t)(seconds * 1e9 * host_patience());
	int status = 0;

	for (;;) {
		pid_t got = waitpid(pid, &status, WNOHANG);

		if (got == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
		if (got < 0 || host_now_ns() > end)
			break;
		(void)usleep(2000);
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, &status, 0);
	return -1;
}

/* Errors */

int explain(PJRT_Error *error, char *text, size_t room)
{
	int code = 0;

	text[0] = '\0';
	if (error) {
		ARGS(Error_GetCode, c, .error = error);
		ARGS(Error_Message, m, .error = error);

		assert_null(api->PJRT_Error_GetCode(&c));
		api->PJRT_Error_Message(&m);
		(void)snprintf(text, room, "%.*s", (int)m.message_size, m.message);
		code = c.code;
		CALL(Error_Destroy, .error = error);
	}
	return code;
}

int code_of(PJRT_Error *error)
{
	char text[8];

	return explain(error, text, sizeof(text));
}

void ok_at(PJRT_Error *error, const char *file, int line)
{
	char text[512];
	int code = explain(error, text, sizeof(text));

	if (code) {
		print_error("code %d: %s\n", code, text);
		_fail(file, line);
	}
}

void refused_at(PJRT_Error *error, int code, const char *words, const char *file, int line)
{
	char text[1024];
	int got = explain(error, text, sizeof(text));

	if (got != code || text[0] == '\0' || (words && !strstr(text, words))) {
		print_error("code %d, not %d, or not \"%s\": %s\n", got, code, words ? words : "",
			    text);
		_fail(file, line);
	}
}

/* Daemons */

static int connect_to(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

static void show_log(const struct host_daemon *d)
{
	char path[96], line[512];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/log", d->dir);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		print_error("salusd: %s", line);
	if (f)
		(void)fclose(f);
}

static void run_daemon(const struct host_daemon *d, const char *plugin, const char *const *more)
{
	const char *argv[24] = { "salusd", "--socket", d->socket, "--cache", "none" };
	char log[96];
	int n = 5, fd;

	if (plugin) {
		argv[n++] = "--plugin";
		argv[n++] = plugin;
	}
	while (more && *more && n < 23)
		argv[n++] = *more++;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)snprintf(log, sizeof(log), "%s/log", d->dir);
	fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	(void)dup2(fd, STDOUT_FILENO);
	(void)dup2(fd, STDERR_FILENO);
	if (geteuid() != 0) /* otherwise only root can read its /proc/PID */
		(void)setenv("SALUS_DEBUG_CORE", "1", 1);
	(void)execv(SAL_TEST_SALUSD, (char *const *)argv);
	_exit(127);
}

void daemon_start(struct host_daemon *d, const char *plugin, const char *const *more)
{
	uint64_t end = host_now_ns() + (uint64_t)(60e9 * host_patience());
	int fd = -1;

	(void)snprintf(d->dir, sizeof(d->dir), "/tmp/salus-adaptor-XXXXXX");
	assert_non_null(mkdtemp(d->dir));
	(void)snprintf(d->socket, sizeof(d->socket), "%s/s.sock", d->dir);
	d->pid = fork();
	assert_true(d->pid >= 0);
	if (d->pid == 0)
		run_daemon(d, plugin, more);
	while ((fd = connect_to(d->socket)) < 0) {
		if (waitpid(d->pid, NULL, WNOHANG) != 0 || host_now_ns() > end) {
			show_log(d);
			fail_msg("salusd does not start");
		}
		(void)usleep(2000);
	}
	(void)close(fd);
	(void)setenv("SALUS_SOCKET", d->socket, 1);
}

static void remove_dir(const struct host_daemon *d)
{
	static const char *const names[] = { "s.sock", "s.sock.lock", "log" };
	char path[128];
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", d->dir, names[i]);
		(void)unlink(path);
	}
	(void)rmdir(d->dir);
}

static int stop_daemon(struct host_daemon *d)
{
	int status;

	if (d->pid <= 0)
		return 0;
	(void)kill(d->pid, SIGTERM);
	status = host_wait_child(d->pid, 20);
	d->pid = 0;
	if (status != 0)
		show_log(d);
	remove_dir(d);
	return status;
}

void daemon_stop(struct host_daemon *d)
{
	assert_int_equal(stop_daemon(d), 0);
}

void daemon_kill(struct host_daemon *d)
{
	if (d->pid <= 0)
		return;
	(void)kill(d->pid, SIGKILL);
	(void)waitpid(d->pid, NULL, 0);
	d->pid = 0;
	remove_dir(d);
}

void daemon_freeze(struct host_daemon *d)
{
	int status;

	assert_int_equal(kill(d->pid, SIGSTOP), 0);
	assert_int_equal(waitpid(d->pid, &status, WUNTRACED), d->pid);
	assert_true(WIFSTOPPED(status));
}

void daemon_thaw(struct host_daemon *d)
{
	assert_int_equal(kill(d->pid, SIGCONT), 0);
}

void daemon_ask(struct host_daemon *d, const char *question, char *answer, size_t room)
{
	int fd = connect_to(d->socket);
	size_t filled = 0;
	ssize_t n;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, question, strlen(question)), (ssize_t)strlen(question));
	while (filled + 1 < room && (n = read(fd, answer + filled, room - filled - 1)) > 0)
		filled += (size_t)n;
	answer[filled] = '\0';
	(void)close(fd);
}

static unsigned int count_sessions(struct host_daemon *d)
{
	char answer[65536];
	const char *at = answer;
	unsigned int n = 0;

	daemon_ask(d, "{\"op\":\"ps\"}\n", answer, sizeof(answer));
	while ((at = strstr(at, "\"pid\""))) {
		n++;
		at++;
	}
	return n;
}

void daemon_expect_sessions(struct host_daemon *d, unsigned int count)
{
	uint64_t end = host_now_ns() + (uint64_t)(10e9 * host_patience());

	while (count_sessions(d) != count && host_now_ns() < end)
		(void)usleep(5000);
	assert_int_equal(count_sessions(d), count);
}

/* Subjects */

/*
 * CompileOptionsProto: executable_build_options (3) with num_replicas (4) and num_partitions (5) of
 * one.
 */
static const char compile_options[] = { 0x1a, 0x04, 0x20, 0x01, 0x28, 0x01 };

#define FAKE_OUTPUTS 60
#define PJRT_OUTPUTS 300

static const char *fake_program(enum program_kind kind)
{
	static char many[4096];
	size_t used = 0;

	switch (kind) {
	case PROGRAM_ADD:
		return "fake 1\nname add\noutput f32 4 = add 0 1\n";
	case PROGRAM_DONATE:
		return "fake 1\nname donate\noutput f32 4 = add 0 1\ndonate 0 0\n";
	case PROGRAM_DONATE_BOTH:
		return "fake 1\nname both\noutput f32 4 = copy 1\noutput f32 4 = copy 0\n"
		       "donate 0 0\ndonate 1 1\n";
	case PROGRAM_SWAP:
		return "fake 1\nname swap\noutput f32 4 = copy 1\noutput f32 4 = copy 0\n";
	case PROGRAM_MANY_ARGS:
		return "fake 1\nname many\noutput f32 4 = add 98 99\n";
	case PROGRAM_MANY_OUTPUTS:
		used = (size_t)sprintf(many, "fake 1\n");
		for (int i = 0; i < FAKE_OUTPUTS; i++)
			used += (size_t)sprintf(many + used, "output f32 4 = copy 0\n");
		return many;
	case PROGRAM_NOTHING:
		return "fake 1\nname nothing\noutput f32 4 = fill 0\n";
	default:
		return "fake 1\noutput f32 4 = divide 0 1\n";
	}
}

static const struct subject fake_subject = {
	.name = "fake",
	.plugin = "fake",
	.is_fake = true,
	.program = fake_program,
	.broken_words = "is not a line of a fake program",
	.broken_code = PJRT_Error_Code_INVALID_ARGUMENT,
	.options = compile_options,
	.options_size = sizeof(compile_options),
	.many_outputs = FAKE_OUTPUTS,
};

#define VECTOR "tensor<4xf32>"

static const char *many_args(void)
{
	static char text[16384];
	size_t used = (size_t)sprintf(text, "module @many { func.func public @main(");

	for (int i = 0; i < 100; i++)
		used += (size_t)sprintf(text + used, "%s%%a%d: " VECTOR, i ? ", " : "", i);
	(void)sprintf(text + used, ") -> " VECTOR " { %%0 = stablehlo.add %%a98, %%a99 : " VECTOR
				   " return %%0 : " VECTOR " } }");
	return text;
}

static const char *many_outputs(void)
{
	static char text[65536];
	size_t used = (size_t)sprintf(text, "module @outputs { func.func public @main(%%a: " VECTOR
					    ") -> (");

	for (int i = 0; i < PJRT_OUTPUTS; i++)
		used += (size_t)sprintf(text + used, "%s" VECTOR, i ? ", " : "");
	used += (size_t)sprintf(text + used, ") { return ");
	for (int i = 0; i < PJRT_OUTPUTS; i++)
		used += (size_t)sprintf(text + used, "%s%%a", i ? ", " : "");
	used += (size_t)sprintf(text + used, " : ");
	for (int i = 0; i < PJRT_OUTPUTS; i++)
		used += (size_t)sprintf(text + used, "%s" VECTOR, i ? ", " : "");
	(void)sprintf(text + used, " } }");
	return text;
}

static const char *pjrt_program(enum program_kind kind)
{
	switch (kind) {
	case PROGRAM_ADD:
		return "module @add { func.func public @main(%a: " VECTOR ", %b: " VECTOR
		       ") -> " VECTOR " { %0 = stablehlo.add %a, %b : " VECTOR
		       " return %0 : " VECTOR " } }";
	case PROGRAM_DONATE:
		return "module @donate { func.func public @main(%a: " VECTOR
		       " {tf.aliasing_output = 0 : i32}, %b: " VECTOR ") -> " VECTOR
		       " { %0 = stablehlo.add %a, %b : " VECTOR " return %0 : " VECTOR " } }";
	case PROGRAM_DONATE_BOTH:
		return "module @both { func.func public @main(%a: " VECTOR
		       " {tf.aliasing_output = 0 : i32}, %b: " VECTOR
		       " {tf.aliasing_output = 1 : i32}) -> (" VECTOR ", " VECTOR
		       ") { return %b, %a : " VECTOR ", " VECTOR " } }";
	case PROGRAM_SWAP:
		return "module @swap { func.func public @main(%a: " VECTOR ", %b: " VECTOR
		       ") -> (" VECTOR ", " VECTOR ") { return %b, %a : " VECTOR ", " VECTOR " } }";
	case PROGRAM_MANY_ARGS:
		return many_args();
	case PROGRAM_MANY_OUTPUTS:
		return many_outputs();
	case PROGRAM_NOTHING:
		return "module @nothing { func.func public @main() { return } }";
	default:
		return "module @broken { func.func public @main() -> tensor<f32> { } }";
	}
}

static const struct subject pjrt_subject = {
	.name = "pjrt",
	.program = pjrt_program,
	.broken_words = "non-empty function body",
	.broken_code = PJRT_Error_Code_UNKNOWN,
	.options = compile_options,
	.options_size = sizeof(compile_options),
	.many_outputs = PJRT_OUTPUTS,
};

const struct subject *host_subject;
static int bad_ends; /* daemons of groups that failed at their end */

/* The thread sanitizer does not understand a vendor's plugin, and reports false races. */
static bool can_watch_plugins(void)
{
#if defined(__SANITIZE_THREAD__)
	return false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
	return false;
#endif
#endif
	return true;
}

int host_main(int argc, char **argv, int (*suite)(void))
{
	const struct subject *const subjects[] = { &fake_subject, &pjrt_subject };
	const char *only = getenv("SALUS_TEST_SUBJECT");
	int failed = 0;
	size_t i;

	host_load();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	for (i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++) {
		host_subject = subjects[i];
		if (only && strcmp(only, host_subject->name) != 0)
			continue;
		if (!host_subject->is_fake &&
		    (access(SAL_PJRT_PLUGIN, R_OK) < 0 || !can_watch_plugins())) {
			print_message("SKIPPED: %s\n", host_subject->name);
			continue;
		}
		print_message("subject: %s\n", host_subject->name);
		failed += suite();
	}
	return failed + bad_ends;
}

/* Beds */

#define TEST_SECONDS 60

PJRT_Client *client_create(void)
{
	ARGS(Client_Create, a);

	ok(api->PJRT_Client_Create(&a));
	assert_non_null(a.client);
	return a.client;
}

void client_destroy(PJRT_Client *client)
{
	ok(CALL(Client_Destroy, .client = client));
}

int bed_open(void **state)
{
	struct bed *t = calloc(1, sizeof(*t));

	host_load();
	t->subject = host_subject;
	daemon_start(&t->daemon, t->subject->plugin, NULL);
	*state = t;
	return 0;
}

int bed_close(void **state)
{
	struct bed *t = *state;

	/* Not an assertion of cmocka: it ignores failures here. */
	if (stop_daemon(&t->daemon) != 0) {
		print_error("[  FAILED  ] salusd failed at its end\n");
		bad_ends++;
	}
	*state = NULL;
	free(t);
	return 0;
}

static void join(struct bed *t)
{
	t->fds = host_fd_count();
	t->threads = host_thread_count();
	t->client = client_create();
	{
		ARGS(Client_AddressableDevices, a, .client = t->client);

		ok(api->PJRT_Client_AddressableDevices(&a));
		assert_int_equal(a.num_addressable_devices, 1);
		t->device = a.addressable_devices[0];
	}
	{
		ARGS(Device_DefaultMemory, a, .device = t->device);

		ok(api->PJRT_Device_DefaultMemory(&a));
		t->memory = a.memory;
	}
}

int bed_setup(void **state)
{
	host_deadline(TEST_SECONDS);
	join(*state);
	return 0;
}

int bed_teardown(void **state)
{
	struct bed *t = *state;

	if (t->client)
		client_destroy(t->client);
	t->client = NULL;
	host_expect_counts(t->fds, t->threads);
	host_deadline(0);
	return 0;
}

int bed_setup_own(void **state)
{
	host_deadline(TEST_SECONDS);
	(void)bed_open(state);
	join(*state);
	return 0;
}

int bed_teardown_own(void **state)
{
	struct bed *t = *state;
	int rc = bed_teardown(state);

	if (t->daemon.pid > 0)
		daemon_stop(&t->daemon);
	*state = NULL;
	free(t);
	return rc;
}

/* Programs */

PJRT_Error *try_compile(struct bed *t, const char *text, size_t size, PJRT_LoadedExecutable **out)
{
	PJRT_Program program = {
		.struct_size = PJRT_Program_STRUCT_SIZE,
		.code = (char *)text,
		.code_size = size,
		.format = "mlir",
		.format_size = 4,
	};
	ARGS(Client_Compile, a, .client = t->client, .program = &program,
	     .compile_options = t->subject->options,
	     .compile_options_size = t->subject->options_size);
	PJRT_Error *error = api->PJRT_Client_Compile(&a);

	*out = a.executable;
	return error;
}

PJRT_LoadedExecutable *compile_text(struct bed *t, const char *text)
{
	PJRT_LoadedExecutable *loaded = NULL;

	ok(try_compile(t, text, strlen(text), &loaded));
	assert_non_null(loaded);
	return loaded;
}

PJRT_LoadedExecutable *compile(struct bed *t, enum program_kind kind)
{
	return compile_text(t, t->subject->program(kind));
}

void loaded_destroy(PJRT_LoadedExecutable *loaded)
{
	ok(CALL(LoadedExecutable_Destroy, .executable = loaded));
}

PJRT_Executable *executable_of(PJRT_LoadedExecutable *loaded)
{
	ARGS(LoadedExecutable_GetExecutable, a, .loaded_executable = loaded);

	ok(api->PJRT_LoadedExecutable_GetExecutable(&a));
	assert_non_null(a.executable);
	return a.executable;
}

void executable_destroy(PJRT_Executable *executable)
{
	ok(CALL(Executable_Destroy, .executable = executable));
}

/* Buffers */

PJRT_Error *try_put(struct bed *t, const struct array *a, PJRT_Buffer **out, PJRT_Event **out_done)
{
	ARGS(Client_BufferFromHostBuffer, b, .client = t->client, .data = a->data, .type = a->type,
	     .dims = a->dims, .num_dims = a->rank, .byte_strides = a->strides,
	     .num_byte_strides = a->strides ? a->rank : 0, .host_buffer_semantics = a->semantics,
	     .device = t->device);
	PJRT_Error *error = api->PJRT_Client_BufferFromHostBuffer(&b);

	*out = NULL;
	if (error)
		return error;
	*out = b.buffer;
	if (out_done)
		*out_done = b.done_with_host_buffer;
	else
		return await_error(b.done_with_host_buffer);
	return NULL;
}

PJRT_Buffer *put(struct bed *t, const struct array *a)
{
	PJRT_Buffer *b;

	ok(try_put(t, a, &b, NULL));
	assert_non_null(b);
	return b;
}

PJRT_Buffer *put_vector(struct bed *t, float first)
{
	const float data[LANES] = { first, first + 1, first + 2, first + 3 };
	const int64_t dims[] = { LANES };

	return put(t, &(struct array){ .type = F32, .dims = dims, .rank = 1, .data = data });
}

PJRT_Error *try_get(PJRT_Buffer *b, void *dst, size_t size)
{
	ARGS(Buffer_ToHostBuffer, a, .src = b, .dst = dst, .dst_size = size);
	PJRT_Error *error = api->PJRT_Buffer_ToHostBuffer(&a);

	if (error)
		return error;
	return await_error(a.event);
}

void get(PJRT_Buffer *b, void *dst, size_t size)
{
	ok(try_get(b, dst, size));
}

void expect_vector_at(PJRT_Buffer *b, float first, float step, const char *file, int line)
{
	float data[LANES] = { -1, -1, -1, -1 };

	ok_at(try_get(b, data, sizeof(data)), file, line);
	for (int i = 0; i < LANES; i++)
		if (data[i] != first + (float)i * step) {
			print_error("element %d is %f\n", i, (double)data[i]);
			_fail(file, line);
		}
}

void buffer_destroy(PJRT_Buffer *b)
{
	ok(CALL(Buffer_Destroy, .buffer = b));
}

bool is_deleted(PJRT_Buffer *b)
{
	ARGS(Buffer_IsDeleted, a, .buffer = b);

	ok(api->PJRT_Buffer_IsDeleted(&a));
	return a.is_deleted;
}

PJRT_Event *ready_event(PJRT_Buffer *b)
{
	ARGS(Buffer_ReadyEvent, a, .buffer = b);

	ok(api->PJRT_Buffer_ReadyEvent(&a));
	assert_non_null(a.event);
	return a.event;
}

PJRT_Error *await_error(PJRT_Event *e)
{
	PJRT_Error *error = CALL(Event_Await, .event = e);

	ok(CALL(Event_Destroy, .event = e));
	return error;
}

int await(PJRT_Event *e)
{
	return code_of(await_error(e));
}

int ready_code(PJRT_Buffer *b)
{
	return await(ready_event(b));
}

PJRT_Error *try_execute(const struct run *r)
{
	PJRT_ExecuteOptions options = {
		.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE,
		.non_donatable_input_indices = r->retained,
		.num_non_donatable_input_indices = r->retained_count,
	};
	PJRT_Buffer *const *args = r->args;
	PJRT_Buffer **outputs = r->outputs;
	ARGS(LoadedExecutable_Execute, a, .executable = r->loaded, .options = &options,
	     .argument_lists = &args, .num_devices = r->devices ? r->devices : 1,
	     .num_args = r->arg_count, .output_lists = &outputs, .device_complete_events = r->done,
	     .execute_device = r->device);

	return api->PJRT_LoadedExecutable_Execute(&a);
}
