/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin without a client: its table, its errors, its exports, and the errors of Create when no
 * daemon or a wrong one listens.
 */
#include "support/plugin_host.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/array.h"
#include "base/err.h"
#include "link/holding.h"
#include "link/ring.h"
#include "link/socket.h"
#include "wire/facts.h"
#include "wire/messages.h"

/* The table */

static void every_slot_is_filled(void **state)
{
	const char *base = (const char *)api;
	size_t at;

	(void)state;
	assert_int_equal(api->struct_size, PJRT_Api_STRUCT_SIZE);
	assert_int_equal(api->pjrt_api_version.major_version, 0);
	assert_int_equal(api->pjrt_api_version.minor_version, 81);
	for (at = offsetof(PJRT_Api, PJRT_Error_Destroy); at < PJRT_Api_STRUCT_SIZE;
	     at += sizeof(void *)) {
		void *slot;

		memcpy(&slot, base + at, sizeof(slot));
		if (!slot)
			fail_msg("slot %zu is empty",
				 (at - offsetof(PJRT_Api, PJRT_Error_Destroy)) / sizeof(void *));
	}
}

static void the_table_is_always_the_same(void **state)
{
	void *library = dlopen(host_plugin_path(), RTLD_LAZY);
	const PJRT_Api *(*get_api)(void);

	(void)state;
	assert_non_null(library);
	*(void **)&get_api = dlsym(library, "GetPjrtApi");
	assert_ptr_equal(get_api(), api);
	assert_ptr_equal(get_api(), get_api());
	(void)dlclose(library);
	assert_non_null(api->PJRT_Client_Create);
}

static void extensions_are_a_sound_list(void **state)
{
	const PJRT_Extension_Base *e;
	int n = 0;

	(void)state;
	for (e = api->extension_start; e; e = e->next) {
		assert_true(e->struct_size >= sizeof(*e));
		assert_true(++n < 100);
	}
}

#define CHECK_MISSING(name) refused(CALL(name), SAL_UNIMPLEMENTED, "PJRT_" #name)

static void missing_functions_say_so(void **state)
{
	(void)state;
	CHECK_MISSING(CopyToDeviceStream_Destroy);
	CHECK_MISSING(CopyToDeviceStream_AddChunk);
	CHECK_MISSING(CopyToDeviceStream_TotalBytes);
	CHECK_MISSING(CopyToDeviceStream_GranuleSize);
	CHECK_MISSING(CopyToDeviceStream_CurrentBytes);
	CHECK_MISSING(TopologyDescription_Create);
	CHECK_MISSING(Compile);
	CHECK_MISSING(AsyncHostToDeviceTransferManager_Destroy);
	CHECK_MISSING(AsyncHostToDeviceTransferManager_TransferData);
	CHECK_MISSING(Client_CreateBuffersForAsyncHostToDevice);
	CHECK_MISSING(AsyncHostToDeviceTransferManager_RetrieveBuffer);
	CHECK_MISSING(AsyncHostToDeviceTransferManager_Device);
	CHECK_MISSING(AsyncHostToDeviceTransferManager_BufferCount);
	CHECK_MISSING(AsyncHostToDeviceTransferManager_BufferSize);
	CHECK_MISSING(AsyncHostToDeviceTransferManager_SetBufferError);
	CHECK_MISSING(AsyncHostToDeviceTransferManager_AddMetadata);
	CHECK_MISSING(TopologyDescription_Deserialize);
	CHECK_MISSING(Client_CreateAliasBuffer);
	CHECK_MISSING(Client_FulfillAliasBuffer);
}

/* Calls that a framework may make without a client, and with NULL. */
static void nothing_is_destroyed(void **state)
{
	ARGS(Plugin_Attributes, a);

	(void)state;
	ok(CALL(Plugin_Initialize));
	ok(CALL(Plugin_Initialize));
	ok(api->PJRT_Plugin_Attributes(&a));
	CALL(Error_Destroy, .error = NULL);
	ok(CALL(Event_Destroy, .event = NULL));
	ok(CALL(Buffer_Destroy, .buffer = NULL));
	ok(CALL(Executable_Destroy, .executable = NULL));
	ok(CALL(LoadedExecutable_Destroy, .executable = NULL));
	ok(CALL(Client_Destroy, .client = NULL));
	ok(CALL(TopologyDescription_Destroy, .topology = NULL));
	ok(CALL(ExecuteContext_Destroy, .context = NULL));
}

static void contexts_come_and_go(void **state)
{
	ARGS(ExecuteContext_Create, a);

	(void)state;
	ok(api->PJRT_ExecuteContext_Create(&a));
	assert_non_null(a.context);
	ok(CALL(ExecuteContext_Destroy, .context = a.context));
}

static void messages_live_as_long_as_their_error(void **state)
{
	PJRT_Error *first = CALL(Compile), *second = CALL(TopologyDescription_Create);
	ARGS(Error_Message, a, .error = first);
	ARGS(Error_Message, again, .error = first);
	ARGS(Error_GetCode, code, .error = first);

	(void)state;
	api->PJRT_Error_Message(&a);
	CALL(Error_Destroy, .error = second);
	api->PJRT_Error_Message(&again);
	assert_ptr_equal(a.message, again.message);
	assert_int_equal(a.message_size, strlen(a.message));
	assert_non_null(strstr(a.message, "PJRT_Compile"));
	ok(api->PJRT_Error_GetCode(&code));
	assert_int_equal(code.code, PJRT_Error_Code_UNIMPLEMENTED);
	CALL(Error_Destroy, .error = first);
}

/* A framework newer than the plugin sends longer structs. */
static void longer_structs_are_fine(void **state)
{
	struct {
		PJRT_ExecuteContext_Create_Args a;
		char more[64];
	} create = { .a = { .struct_size = sizeof(create) } };
	struct {
		PJRT_Plugin_Attributes_Args a;
		char more[64];
	} attributes = { .a = { .struct_size = sizeof(attributes) } };

	(void)state;
	ok(api->PJRT_ExecuteContext_Create(&create.a));
	ok(CALL(ExecuteContext_Destroy, .context = create.a.context));
	ok(api->PJRT_Plugin_Attributes(&attributes.a));
}

/* The file */

/* The lines that a command prints about the plugin. */
static size_t lines_of(const char *command, char lines[][256], size_t room)
{
	char whole[512];
	size_t n = 0;
	FILE *f;

	(void)snprintf(whole, sizeof(whole), "%s %s", command, host_plugin_path());
	f = popen(whole, "r"); /* NOLINT(cert-env33-c): fixed commands on a file of the build */
	assert_non_null(f);
	while (n < room && fgets(lines[n], 256, f))
		n++;
	assert_int_equal(pclose(f), 0);
	return n;
}

/* nm sorts by name. */
static void no_other_symbols_are_exported(void **state)
{
	static const char *const names[] = { "GetPjrtApi", "salus_old_function", "salus_old_jax" };
	char lines[16][256], end[64];

	(void)state;
	assert_int_equal(lines_of("nm -D --defined-only", lines, 16), SAL_COUNT(names));
	for (size_t i = 0; i < SAL_COUNT(names); i++) {
		(void)snprintf(end, sizeof(end), " T %s\n", names[i]);
		assert_non_null(strstr(lines[i], end));
	}
}

static void libc_is_all_it_needs(void **state)
{
	char lines[64][256];
	size_t i, n, needed = 0;

	(void)state;
	n = lines_of("readelf -d", lines, 64);
	for (i = 0; i < n; i++)
		if (strstr(lines[i], "(NEEDED)")) {
			needed++;
			assert_non_null(strstr(lines[i], "[libc.so.6]"));
		}
	assert_int_equal(needed, 1);
}

/* No daemon */

struct counts {
	size_t fds, threads;
};

static int greeting_setup(void **state)
{
	static struct counts counts;

	host_deadline(60);
	counts.fds = host_fd_count();
	counts.threads = host_thread_count();
	*state = &counts;
	return 0;
}

static int greeting_teardown(void **state)
{
	struct counts *c = *state;

	(void)unsetenv("SALUS_SOCKET");
	host_expect_counts(c->fds, c->threads);
	host_deadline(0);
	return 0;
}

static PJRT_Error *try_create(const char *path)
{
	ARGS(Client_Create, a);
	PJRT_Error *error;

	if (path)
		(void)setenv("SALUS_SOCKET", path, 1);
	else
		(void)unsetenv("SALUS_SOCKET");
	error = api->PJRT_Client_Create(&a);
	if (!error)
		client_destroy(a.client);
	return error;
}

static void no_socket_is_named(void **state)
{
	(void)state;
	refused(try_create(NULL), SAL_FAILED_PRECONDITION, "salus run");
	refused(try_create(""), SAL_FAILED_PRECONDITION, "SALUS_SOCKET");
}

static void nobody_listens(void **state)
{
	char long_path[300];

	(void)state;
	refused(try_create("/nonexistent/s.sock"), SAL_UNAVAILABLE, "salus run");
	refused(try_create("/nonexistent/s.sock"), SAL_UNAVAILABLE, "/nonexistent/s.sock");
	refused(try_create("/dev/null"), SAL_UNAVAILABLE, "salus run");
	memset(long_path, 'x', sizeof(long_path));
	long_path[0] = '/';
	long_path[sizeof(long_path) - 1] = '\0';
	refused(try_create(long_path), SAL_INVALID_ARGUMENT, "too long");
}

static void nonsense_about_the_job_is_refused(void **state)
{
	static const char *const nonsense[][2] = {
		{ "SALUS_MEMORY", "much" }, { "SALUS_MEMORY", "1GiB,much" },
		{ "SALUS_TIME", "soon" },   { "SALUS_WEIGHT", "heavy" },
		{ "SALUS_WEIGHT", "-1" },   { "SALUS_PRIORITY", "very" },
		{ "SALUS_KIND", "game" },
	};
	char text[512];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		const char *comma = strchr(nonsense[i][1], ',');
		const char *word = comma ? comma + 1 : nonsense[i][1];
		int code;

		(void)setenv(nonsense[i][0], nonsense[i][1], 1);
		code = explain(try_create("/nonexistent/s.sock"), text, sizeof(text));
		(void)unsetenv(nonsense[i][0]);
		if (code != SAL_INVALID_ARGUMENT ||
		    !(strstr(text, nonsense[i][0]) || strstr(text, word)))
			fail_msg("%s=%s: %d, %s", nonsense[i][0], nonsense[i][1], code, text);
	}
}

/* The wrong daemon */

/*
 * A daemon that answers one hello with given bytes and descriptors, and then closes the connection.
 */
struct impostor {
	char dir[64], path[96];
	int listener;
	const void *bytes;
	size_t size;
	int fds[4];
	size_t fd_count;
	pthread_t thread;
};

static void send_bytes(int fd, const struct impostor *p)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = { 0 };
	struct iovec part = { .iov_base = (void *)p->bytes, .iov_len = p->size };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (p->size == 0)
		return;
	if (p->fd_count > 0) {
		struct cmsghdr *head;

		message.msg_control = control;
		message.msg_controllen = CMSG_SPACE(p->fd_count * sizeof(int));
		head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(p->fd_count * sizeof(int));
		memcpy(CMSG_DATA(head), p->fds, p->fd_count * sizeof(int));
	}
	(void)sendmsg(fd, &message, MSG_NOSIGNAL);
}

static void *answer_one(void *arg)
{
	struct impostor *p = arg;
	int fd = accept(p->listener, NULL, NULL);
	struct sal_hello hello;
	size_t filled = 0;
	ssize_t n;

	if (fd < 0)
		return NULL;
	while (filled < sizeof(hello) &&
	       (n = read(fd, (char *)&hello + filled, sizeof(hello) - filled)) > 0)
		filled += (size_t)n;
	send_bytes(fd, p);
	(void)close(fd);
	return NULL;
}

static void impostor_start(struct impostor *p)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	(void)snprintf(p->dir, sizeof(p->dir), "/tmp/salus-impostor-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	(void)snprintf(p->path, sizeof(p->path), "%s/s.sock", p->dir);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", p->path);
	p->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(p->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(p->listener, 4), 0);
	assert_int_equal(pthread_create(&p->thread, NULL, answer_one, p), 0);
}

static void impostor_end(struct impostor *p)
{
	assert_int_equal(pthread_join(p->thread, NULL), 0);
	(void)close(p->listener);
	(void)unlink(p->path);
	(void)rmdir(p->dir);
}

/* Creates a client against the impostor. Returns the code and the text of the error. */
static int meet(struct impostor *p, char *text, size_t room)
{
	int code;

	impostor_start(p);
	code = explain(try_create(p->path), text, room);
	impostor_end(p);
	return code;
}

static void it_hangs_up(void **state)
{
	struct impostor p = { .size = 0 };
	char text[512];

	(void)state;
	assert_int_equal(meet(&p, text, sizeof(text)), SAL_UNAVAILABLE);
	assert_non_null(strstr(text, "salus run"));
}

static void it_talks_garbage(void **state)
{
	char garbage[4096], text[512];
	size_t sizes[] = { 1, 100, sizeof(struct sal_welcome), sizeof(garbage) };
	size_t i;

	(void)state;
	memset(garbage, 0xa5, sizeof(garbage));
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct impostor p = { .bytes = garbage, .size = sizes[i] };

		assert_true(meet(&p, text, sizeof(text)) != 0);
		assert_non_null(strstr(text, "salus"));
		assert_true(strlen(text) > 20);
	}
}

static struct sal_welcome welcome(void)
{
	return (struct sal_welcome){
		.magic = SAL_WIRE_MAGIC,
		.major = SAL_WIRE_MAJOR,
		.minor = SAL_WIRE_MINOR,
		.size = sizeof(struct sal_welcome),
		.ring_bytes = UINT64_C(4) << 20,
		.segment_bytes = UINT64_C(1) << 20,
		.fact_bytes = 0,
	};
}

/* The error names both versions and says what to do. */
static void it_is_of_another_age(void **state)
{
	struct sal_welcome w = welcome();
	struct impostor p = { .bytes = &w, .size = sizeof(w) };
	char text[512], ours[32];

	(void)state;
	(void)snprintf(ours, sizeof(ours), "ours is %d.%d", SAL_WIRE_MAJOR, SAL_WIRE_MINOR);
	w.major = SAL_WIRE_MAJOR + 1;
	w.minor = 7;
	w.code = SAL_FAILED_PRECONDITION;
	(void)snprintf(w.reason, sizeof(w.reason), "protocol 1.0 is not ours");
	assert_int_equal(meet(&p, text, sizeof(text)), SAL_FAILED_PRECONDITION);
	assert_non_null(strstr(text, "2.7"));
	assert_non_null(strstr(text, ours));
	assert_true(strstr(text, "restart") || strstr(text, "install") || strstr(text, "same") ||
		    strstr(text, "version of"));
}

static void it_refuses_us(void **state)
{
	struct sal_welcome w = welcome();
	struct impostor p = { .bytes = &w, .size = sizeof(w) };
	char text[512];

	(void)state;
	w.code = SAL_RESOURCE_EXHAUSTED;
	(void)snprintf(w.reason, sizeof(w.reason), "there are too many of you");
	assert_int_equal(meet(&p, text, sizeof(text)), SAL_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(text, "too many of you"));
}

/*
 * The welcome of a daemon of this minor version, with one device only. `facts` follows the welcome.
 */
struct plain_welcome {
	struct sal_welcome w;
	unsigned char facts[4096];
};

static size_t fill_welcome(struct plain_welcome *all, uint32_t minor)
{
	static const struct sal_memory_facts memory = { .kind = { "device", 6 } };
	const struct sal_device_facts facts = { .memories = &memory, .memory_count = 1 };
	size_t size;
	void *packed = sal_device_facts_pack(&facts, &size);

	assert_true(packed && size <= sizeof(all->facts));
	memcpy(all->facts, packed, size);
	free(packed);
	all->w = welcome();
	all->w.minor = minor;
	all->w.fact_bytes = size;
	all->w.memory_bytes = 1000;
	return sizeof(all->w) + size;
}

static void open_memory(struct impostor *p, uint32_t minor)
{
	uint64_t rings = sal_holding_span(welcome().ring_bytes, minor);

	for (p->fd_count = 0; p->fd_count < 4; p->fd_count++) {
		p->fds[p->fd_count] =
			sal_shared_create("test", p->fd_count == 0 ? rings : 1 << 20, NULL);
		assert_true(p->fds[p->fd_count] >= 0);
	}
}

static void tell_holding(const struct impostor *p, uint64_t peak_bytes, uint64_t limit_bytes)
{
	struct sal_holding told = { .peak_bytes = peak_bytes, .limit_bytes = limit_bytes };
	off_t at = (off_t)(2 * sal_ring_span(welcome().ring_bytes));

	assert_int_equal(pwrite(p->fds[0], &told, sizeof(told), at), sizeof(told));
}

static void expect_stats(PJRT_Client *client, int64_t peak_bytes, int64_t limit_bytes)
{
	ARGS(Client_AddressableDevices, devices, .client = client);
	ARGS(Device_MemoryStats, now);

	ok(api->PJRT_Client_AddressableDevices(&devices));
	now.device = devices.addressable_devices[0];
	ok(api->PJRT_Device_MemoryStats(&now));
	assert_true(now.peak_bytes_in_use_is_set && now.bytes_limit_is_set);
	assert_int_equal(now.bytes_in_use, 0);
	assert_int_equal(now.peak_bytes_in_use, peak_bytes);
	assert_int_equal(now.bytes_limit, limit_bytes);
}

/*
 * A daemon without the holding tells the limit once. A later daemon tells it at any time, and its
 * last values stay.
 */
static void it_is_of_another_minor(void **state)
{
	static const uint32_t minors[] = { 0, 1, SAL_MINOR_HOLDING, 77 };
	struct plain_welcome all;
	size_t i, k;

	(void)state;
	for (i = 0; i < sizeof(minors) / sizeof(minors[0]); i++) {
		struct impostor p = { .bytes = &all, .size = fill_welcome(&all, minors[i]) };
		bool tells = minors[i] >= SAL_MINOR_HOLDING;
		ARGS(Client_Create, a);

		open_memory(&p, minors[i]);
		if (tells)
			tell_holding(&p, 40, 700);
		impostor_start(&p);
		(void)setenv("SALUS_SOCKET", p.path, 1);
		ok(api->PJRT_Client_Create(&a));
		impostor_end(&p);
		expect_stats(a.client, tells ? 40 : 0, tells ? 700 : 1000);
		if (tells) {
			tell_holding(&p, 50, 900);
			expect_stats(a.client, 50, 900);
		}
		client_destroy(a.client);
		for (k = 0; k < p.fd_count; k++)
			(void)close(p.fds[k]);
	}
}

/* A thousand failed connections leave nothing behind. */
static void failures_leave_nothing(void **state)
{
	uint64_t before, after;
	int i;

	(void)state;
	for (i = 0; i < 100; i++)
		assert_true(code_of(try_create("/nonexistent/s.sock")) != 0);
	before = host_rss_bytes();
	for (i = 0; i < 1000; i++)
		assert_true(code_of(try_create("/nonexistent/s.sock")) != 0);
	after = host_rss_bytes();
	assert_true(host_is_sanitized() || after < before + (8u << 20));
}

#define GREETING(test) cmocka_unit_test_setup_teardown(test, greeting_setup, greeting_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_slot_is_filled),
		cmocka_unit_test(the_table_is_always_the_same),
		cmocka_unit_test(extensions_are_a_sound_list),
		cmocka_unit_test(missing_functions_say_so),
		cmocka_unit_test(nothing_is_destroyed),
		cmocka_unit_test(contexts_come_and_go),
		cmocka_unit_test(messages_live_as_long_as_their_error),
		cmocka_unit_test(longer_structs_are_fine),
		cmocka_unit_test(no_other_symbols_are_exported),
		cmocka_unit_test(libc_is_all_it_needs),
		GREETING(no_socket_is_named),
		GREETING(nobody_listens),
		GREETING(nonsense_about_the_job_is_refused),
		GREETING(it_hangs_up),
		GREETING(it_talks_garbage),
		GREETING(it_is_of_another_age),
		GREETING(it_refuses_us),
		GREETING(it_is_of_another_minor),
		GREETING(failures_leave_nothing),
	};

	host_load();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
