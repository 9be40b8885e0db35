/* SPDX-License-Identifier: Apache-2.0 */
/*
 * salus-compile - compiles programs for salusd in a process of its own. A crash of the compiler
 * ends only this process.
 *
 * Questions arrive on standard input, answers go to standard output, one at a time (frame.h). The
 * vendor's plugin may print anything, so both streams move to other descriptors before the plugin
 * is loaded. Standard output then goes to /dev/null. Standard error goes to the log.
 *
 * The process exits as soon as its input is closed, even during a compilation: a second thread
 * waits for that. (A parent death signal would arrive when the thread that started us ends, not
 * when the daemon ends.)
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/kinds.h"
#include "base/sys/guard.h"
#include "base/sys/io.h"
#include "base/sys/machine.h"
#include "base/sys/thread.h"
#include "base/sys/tidy.h"
#include "compile/allowance.h"
#include "compile/check.h"
#include "compile/frame.h"
#include "compile/hlo.h"
#include "device/compiler.h"
#include "device/option.h"
#include "wire/facts.h"

#define EXIT_USAGE 64
/* A helper that gets no question for this long gives free memory back. */
#define LULL_MS 200

struct worker {
	const struct sal_device_ops *ops;
	const struct sal_compiler_ops *compiler;
	struct sal_device *device; /* owned */
	struct sal_stream *stream; /* owned; with one device */
	struct sal_stream *wide; /* owned; with wide_devices of them; NULL: not open */
	uint32_t wide_devices;
	const char *plugin;
	const char *plugin_options[SAL_PLUGIN_OPTIONS_MAX + 1];
	size_t option_count;
	struct sal_helper_limits limits;
	bool is_proven; /* prove_linalg ran */
	int in, out;
};

struct answer {
	struct sal_frame frame;
	const void *parts[SAL_FRAME_PARTS];
};

/* Frames */

static bool send_answer(const struct worker *w, const struct answer *a)
{
	uint8_t head[SAL_FRAME_HEAD_BYTES];
	struct iovec all[1 + SAL_FRAME_PARTS] = { { head, sizeof(head) } };

	sal_frame_encode(&a->frame, head);
	for (int i = 0; i < SAL_FRAME_PARTS; i++)
		all[i + 1] = (struct iovec){ (void *)a->parts[i], a->frame.sizes[i] };
	return sal_writev_all(w->out, all, 1 + SAL_FRAME_PARTS);
}

static bool send_error(const struct worker *w, uint64_t id, const struct sal_err *err)
{
	struct answer a = { .frame = { .id = id,
				       .code = err->code ? (uint32_t)err->code : SAL_UNKNOWN,
				       .sizes = { strlen(err->text) } },
			    .parts = { err->text } };

	return send_answer(w, &a);
}

/* Compilation */

static bool send_compiled(const struct worker *w, uint64_t id, struct sal_text program,
			  struct sal_compiled *compiled, uint64_t scratch_bytes)
{
	struct sal_program_facts known = *w->compiler->facts(compiled);
	struct sal_text image = w->compiler->image(compiled);
	struct sal_text optimized = w->compiler->optimized(compiled);
	struct sal_output_facts *named = sal_kinds_of(program, w->ops->facts(w->device), &known);
	struct sal_err err = { 0 };
	size_t facts_size = 0;
	void *facts;
	struct answer a = { .frame = { .id = id, .sizes = { 0, image.size, optimized.size } },
			    .parts = { NULL, image.at, optimized.at } };
	bool fine;

	known.memory.temp += (int64_t)scratch_bytes;
	known.memory.peak += known.memory.peak > 0 ? (int64_t)scratch_bytes : 0;
	known.outputs = named ? named : known.outputs;
	facts = sal_program_facts_pack(&known, &facts_size);
	free(named);
	a.frame.sizes[0] = facts_size;
	a.parts[0] = facts;
	if (!facts)
		(void)sal_err_set(&err, SAL_RESOURCE_EXHAUSTED, "no memory for a program's facts");
	else if (sal_frame_bytes(a.frame.sizes) == UINT64_MAX)
		(void)sal_err_set(&err, SAL_RESOURCE_EXHAUSTED,
				  "the compiled program is too large: 1 GiB is the limit");
	fine = err.code ? send_error(w, id, &err) : send_answer(w, &a);
	free(facts);
	return fine;
}

/* XLA may run independent custom calls at the same time, one on each processor. */
static uint64_t scratch_at_once(const struct sal_check *check)
{
	uint64_t most;

	if (__builtin_mul_overflow(check->scratch_most, sal_machine_cpus(), &most) ||
	    most > check->scratch_bytes)
		return check->scratch_bytes;
	return most;
}

/*
 * Runs before anybody gets the program: the daemon loads, runs and stores every program that comes
 * from here.
 */
static int check_compiled(const struct worker *w, struct sal_text format, struct sal_text program,
			  struct sal_compiled *compiled, uint64_t *out_scratch_bytes,
			  struct sal_err *err)
{
	struct sal_check check = { .platform = w->ops->facts(w->device)->platform_name,
				   .format = format,
				   .program = program,
				   .optimized = w->compiler->optimized(compiled) };

	int rc;

	*out_scratch_bytes = 0;
	if (w->ops == &sal_device_fake)
		return SAL_OK; /* programs of the fake device are not HLO */
	rc = sal_check_program(&check, err);
	*out_scratch_bytes = scratch_at_once(&check);
	return rc;
}

static bool compile(const struct worker *w, struct sal_stream *s, const struct sal_frame *f,
		    const char *bytes)
{
	struct sal_text format = { bytes, f->sizes[0] };
	struct sal_text program = { format.at + format.size, f->sizes[1] };
	struct sal_text options = { program.at + program.size, f->sizes[2] };
	struct sal_compiled *compiled = NULL;
	struct sal_err err = { 0 };
	uint64_t scratch_bytes;
	bool fine;

	if (w->compiler->compile(s, format, program, options, &compiled, &err) < 0)
		return send_error(w, f->id, &err);
	if (check_compiled(w, format, program, compiled, &scratch_bytes, &err) < 0)
		fine = send_error(w, f->id, &err);
	else
		fine = send_compiled(w, f->id, program, compiled, scratch_bytes);
	w->compiler->free_compiled(compiled);
	return fine;
}

/* A stream with so many devices. One wide stream stays open: jobs with several devices are rare. */
static int find_stream(struct worker *w, uint32_t devices, struct sal_stream **out_stream,
		       struct sal_err *err)
{
	int rc = SAL_OK;

	*out_stream = w->stream;
	if (devices <= 1)
		return SAL_OK;
	if (w->wide && w->wide_devices != devices) {
		w->ops->close_stream(w->wide);
		w->wide = NULL;
	}
	if (!w->wide && !w->ops->open_wide)
		return sal_err_set(err, SAL_UNIMPLEMENTED, "the device cannot be divided");
	if (!w->wide)
		rc = w->ops->open_wide(w->device, 0, devices, &w->wide, err);
	w->wide_devices = devices;
	*out_stream = w->wide;
	return rc;
}

static bool compile_within(struct worker *w, const struct sal_frame *f, const char *bytes)
{
	struct sal_err err = { 0 };
	struct sal_stream *s;
	bool fine;

	if (find_stream(w, f->devices, &s, &err) < 0)
		return send_error(w, f->id, &err);
	sal_allowance_begin(&w->limits);
	fine = compile(w, s, f, bytes);
	sal_allowance_end();
	return fine;
}

static int open_device(struct worker *w, struct sal_err *err)
{
	struct sal_device_config cfg = { .plugin_path = w->plugin,
					 .plugin_options = w->plugin_options };
	int rc = SAL_OK;

	if (w->stream)
		return SAL_OK;
	if (!w->device)
		rc = w->ops->open(&cfg, &w->device, err);
	if (rc >= 0)
		rc = w->ops->open_stream(w->device, 0, &w->stream, err);
	if (rc < 0)
		(void)fprintf(stderr, "salus-compile: %s\n", err->text);
	return rc;
}

/* Returns false if the daemon is gone, or if this process cannot continue. */
static bool serve_one(struct worker *w)
{
	uint8_t head[SAL_FRAME_HEAD_BYTES];
	struct sal_err err = { 0 };
	struct sal_frame f;
	char *bytes;
	bool fine;

	if (!sal_read_all(w->in, head, sizeof(head)) || sal_frame_decode(head, &f) < 0)
		return false;
	bytes = malloc(sal_frame_bytes(f.sizes) + 1);
	if (!bytes)
		return false;
	fine = sal_read_all(w->in, bytes, sal_frame_bytes(f.sizes));
	if (fine && open_device(w, &err) < 0)
		fine = send_error(w, f.id, &err); /* the next question tries again */
	else if (fine)
		fine = compile_within(w, &f, bytes);
	free(bytes);
	return fine;
}

/*
 * A plugin that refuses our handlers of linear algebra does so without a word. So we compile a call
 * to one of them, and say in the log if that fails.
 */
static void prove_linalg(struct worker *w)
{
	static const char program[] =
		"func.func public @main(%a: tensor<1x1xf32>) -> (tensor<1x1xf32>, tensor<i32>) {\n"
		"  %r:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {api_version = 4 : i32,\n"
		"    backend_config = {uplo = 76 : ui8}}\n"
		"    : (tensor<1x1xf32>) -> (tensor<1x1xf32>, tensor<i32>)\n"
		"  return %r#0, %r#1 : tensor<1x1xf32>, tensor<i32>\n"
		"}\n";
	/* A CompileOptionsProto: one replica, one partition. */
	static const char options[] = { 0x1a, 0x04, 0x20, 0x01, 0x28, 0x01 };
	struct sal_compiled *compiled = NULL;
	struct sal_err err = { 0 };

	w->is_proven = true;
	if (!w->stream || !sal_text_is(w->ops->facts(w->device)->platform_name, "cpu"))
		return;
	if (w->compiler->compile(w->stream, (struct sal_text){ "mlir", 4 },
				 (struct sal_text){ program, sizeof(program) - 1 },
				 (struct sal_text){ options, sizeof(options) }, &compiled,
				 &err) < 0)
		(void)fprintf(stderr, "salus-compile: linear algebra does not work: %s\n",
			      err.text);
	w->compiler->free_compiled(compiled);
}

/*
 * What can wait until no question comes for a while. Compiling a large program takes gigabytes, so
 * free memory goes back to the system: not after each program, because trimming the heap takes a
 * noticeable part of the time of a small compilation, and the job is about to send its next program.
 */
static void use_lull(struct worker *w)
{
	struct pollfd next = { .fd = w->in, .events = POLLIN };

	if (poll(&next, 1, LULL_MS) != 0)
		return;
	if (!w->is_proven && w->ops != &sal_device_fake)
		prove_linalg(w);
	sal_tidy();
}

static void choose_ops(struct worker *w)
{
	bool fake = strcmp(w->plugin, "fake") == 0 || strncmp(w->plugin, "fake:", 5) == 0;

	w->ops = fake ? &sal_device_fake : &sal_device_pjrt;
	w->compiler = fake ? &sal_compiler_fake : &sal_compiler_pjrt;
}

/* Process */

static void *watch(void *ctx)
{
	const struct worker *w = ctx;
	struct pollfd p = { .fd = w->in, .events = POLLRDHUP };

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		continue;
	_exit(0); /* skips the vendor's destructors: they may wait for the compilation */
	return NULL;
}

static bool start_watching(struct worker *w)
{
	return sal_thread_start(NULL, "salus-watch", watch, w) == 0;
}

/* Runs before any code of the vendor. */
static bool move_streams(struct worker *w)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	w->in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	w->out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (null < 0 || w->in < 0 || w->out < 0)
		return false;
	return dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0 && close(null) == 0;
}

static void harden(void)
{
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	sal_guard_memory();
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGINT, SIG_IGN); /* Ctrl-C is for the daemon */
}

static const char usage[] =
	"usage: salus-compile --plugin PATH|fake [--plugin-option NAME=VALUE]... [--memory-bytes N]\n"
	"                     [--cpu-seconds N]\n\n"
	"Compiles programs for salusd. salusd starts this program and talks to it: questions on\n"
	"standard input, answers on standard output, both binary.\n";

/* Returns -1 to continue, or the exit status. */
static int parse(struct worker *w, int argc, char **argv)
{
	static const struct option options[] = {
		{ "plugin", required_argument, NULL, 'p' },
		{ "plugin-option", required_argument, NULL, 'o' },
		{ "memory-bytes", required_argument, NULL, 'm' },
		{ "cpu-seconds", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) !=
	       -1) { // NOLINT(concurrency-mt-unsafe)
		if (c == 'p')
			w->plugin = optarg;
		if (c == 'o' && w->option_count == SAL_PLUGIN_OPTIONS_MAX)
			return EXIT_USAGE;
		if (c == 'o')
			w->plugin_options[w->option_count++] = optarg;
		if (c == 'm')
			w->limits.memory_bytes = strtoull(optarg, NULL, 10);
		if (c == 'c')
			w->limits.cpu_s = strtoull(optarg, NULL, 10);
		if (c == 'h') {
			(void)fputs(usage, stdout);
			return EXIT_SUCCESS;
		}
		if (c == '?')
			return EXIT_USAGE;
	}
	if (w->plugin && optind == argc)
		return -1;
	(void)fputs(usage, stderr);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	struct worker w = { .in = -1, .out = -1 };
	struct sal_err err = { 0 };
	int status = parse(&w, argc, argv);

	if (status >= 0)
		return status;
	choose_ops(&w);
	harden();
	sal_allowance_open(&w.limits);
	if (!move_streams(&w) || !start_watching(&w)) {
		(void)fprintf(stderr, "salus-compile: cannot start: %s\n", strerror(errno));
		return EXIT_FAILURE;
	}
	(void)open_device(&w, &err); /* in advance: opening takes time */
	do
		use_lull(&w);
	while (serve_one(&w));
	_exit(EXIT_SUCCESS);
}
