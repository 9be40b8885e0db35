/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/pool/helper.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "compile/pool/chatter.h"
#include "compile/frame.h"
#include "compile/store/image.h"
#include "compile/pool/launch.h"
#include "wire/facts.h"

#define MESSAGE_BYTES_MAX (UINT64_C(64) << 10)
#define HANDLES 4
/*
 * Most bytes in one write or read. The helper works at the same time, so a larger call could last
 * as long as the whole transfer.
 */
#define PIECE_BYTES ((size_t)1 << 20)

struct sal_helper {
	uv_process_t process;
	uv_pipe_t to, from; /* the helper's input and output */
	struct sal_chatter chatter;
	int open_handles;
	struct sal_helper_config cfg;
	bool busy; /* the answer is pending */
	bool ended; /* or ending: takes no more questions */
	const char *kill_reason; /* why the pool killed the helper; NULL: the pool did not */
	uint64_t id;

	/* The part of the question that is not sent yet. */
	uint8_t question[SAL_FRAME_HEAD_BYTES];
	struct sal_text unsent[1 + SAL_FRAME_PARTS]; /* borrowed: question, and the source */

	/* The part of the answer that has arrived. */
	uint8_t head[SAL_FRAME_HEAD_BYTES];
	size_t head_got;
	uint32_t code;
	char *message; /* owned; if code is not 0 */
	struct sal_image *image; /* owned; if code is 0 */
	char *body; /* borrowed: the bytes of message or image */
	size_t body_size, body_got;
};

/* The end */

static void forget_answer(struct sal_helper *h)
{
	free(h->message);
	sal_image_unref(h->image);
	h->message = NULL;
	h->image = NULL;
	h->body = NULL;
	h->head_got = h->body_size = h->body_got = 0;
}

static void on_close(uv_handle_t *handle)
{
	struct sal_helper *h = handle->data;

	if (--h->open_handles > 0)
		return;
	h->cfg.events->closed(h->cfg.ctx);
	forget_answer(h);
	free(h);
}

void sal_helper_stop(struct sal_helper *h)
{
	h->ended = true;
	(void)uv_process_kill(&h->process, SIGKILL);
}

static void kill_for(struct sal_helper *h, const char *kill_reason)
{
	if (!h->kill_reason)
		h->kill_reason = kill_reason;
	(void)uv_read_stop((uv_stream_t *)&h->from);
	sal_helper_stop(h);
}

static int describe_crash(const struct sal_helper *h, int signal, struct sal_err *err)
{
	const char *last = h->chatter.last;

	return sal_err_set(err, SAL_INTERNAL,
			   "the compiler crashed on this program: signal %d (%s)%s%s; no other "
			   "program is affected",
			   signal, strsignal(signal), *last ? ": " : "", last);
}

static int describe_limit(const struct sal_helper *h, int signal, struct sal_err *err)
{
	char limit[SAL_UNITS_TEXT];

	if (signal == SIGXCPU)
		return sal_err_set(
			err, SAL_DEADLINE_EXCEEDED,
			"the program took more than %s of processor time to compile, which is the "
			"limit (salusd --compile-time); no other program is affected",
			sal_duration_format(h->cfg.limits.cpu_s * 1000000000u, limit,
					    sizeof(limit)));
	return sal_err_set(err, SAL_RESOURCE_EXHAUSTED,
			   "the compiler needs more than %s of memory for this program, which is "
			   "the limit (salusd --compile-memory); no other program is affected",
			   sal_bytes_format(h->cfg.limits.memory_bytes, limit, sizeof(limit)));
}

static int describe_end(const struct sal_helper *h, int64_t status, int signal, struct sal_err *err)
{
	if (h->kill_reason)
		return sal_err_set(err, SAL_INTERNAL,
				   "the compiler process %s and was killed; no other program is "
				   "affected",
				   h->kill_reason);
	if (signal == SIGXCPU || (signal == 0 && status == SAL_EXIT_NO_MEMORY))
		return describe_limit(h, signal, err);
	if (signal == SIGKILL || signal == SIGTERM)
		return sal_err_set(err, SAL_ABORTED,
				   "the compiler process was killed by signal %d (%s), perhaps for "
				   "lack of memory; no other program is affected",
				   signal, strsignal(signal));
	if (signal != 0)
		return describe_crash(h, signal, err);
	return sal_err_set(err, SAL_INTERNAL,
			   "the compiler process exited with status %d before it answered; no "
			   "other program is affected",
			   (int)status);
}

/* The answer */

static bool is_program(const struct sal_image *image)
{
	struct sal_program_facts *facts = NULL;
	int rc = sal_program_facts_unpack(image->facts.at, image->facts.size, &facts, NULL);

	free(facts);
	return rc >= 0;
}

static void finish_answer(struct sal_helper *h)
{
	struct sal_image *image = h->image;
	char *message = h->message;
	int code = (int)h->code;

	if (image && !is_program(image)) {
		kill_for(h, "sent a malformed description of its program");
		return;
	}
	h->image = NULL;
	h->message = NULL;
	forget_answer(h);
	h->busy = false;
	h->cfg.events->answered(h->cfg.ctx, code, message, image);
	free(message);
}

static int begin_message(struct sal_helper *h, const struct sal_frame *f)
{
	if (f->sizes[0] > MESSAGE_BYTES_MAX || f->sizes[1] || f->sizes[2] ||
	    f->code > SAL_UNAUTHENTICATED)
		return -SAL_DATA_LOSS;
	h->message = calloc(1, f->sizes[0] + 1);
	h->body = h->message;
	h->body_size = f->sizes[0];
	return h->message ? SAL_OK : -SAL_RESOURCE_EXHAUSTED;
}

static int begin_image(struct sal_helper *h, const struct sal_frame *f)
{
	h->image = sal_image_create(f->sizes);
	if (!h->image)
		return -SAL_RESOURCE_EXHAUSTED;
	h->body = sal_image_room(h->image);
	h->body_size = sal_image_bytes(h->image);
	return SAL_OK;
}

static void begin_body(struct sal_helper *h)
{
	struct sal_frame f;
	int rc = sal_frame_decode(h->head, &f);

	if (rc == SAL_OK && f.id != h->id)
		rc = -SAL_DATA_LOSS;
	h->code = f.code;
	if (rc == SAL_OK)
		rc = f.code ? begin_message(h, &f) : begin_image(h, &f);
	if (rc == -SAL_RESOURCE_EXHAUSTED)
		kill_for(h, "made a program that does not fit in memory");
	else if (rc < 0)
		kill_for(h, "sent a malformed answer");
	else if (h->body_size == 0)
		finish_answer(h);
}

/* The destination of the next bytes. */
static void find_room(struct sal_helper *h, char **out_at, size_t *out_size)
{
	if (h->body) {
		*out_at = h->body + h->body_got;
		*out_size = h->body_size - h->body_got;
	} else {
		*out_at = (char *)h->head + h->head_got;
		*out_size = sizeof(h->head) - h->head_got;
	}
}

static bool is_sending(const struct sal_helper *h)
{
	for (int i = 0; i < 1 + SAL_FRAME_PARTS; i++)
		if (h->unsent[i].size > 0)
			return true;
	return uv_stream_get_write_queue_size((const uv_stream_t *)&h->to) > 0;
}

static void take_bytes(struct sal_helper *h, size_t size)
{
	/* An answer to half a question would free the bytes that are still being sent. */
	if (!h->busy || is_sending(h)) {
		kill_for(h, "sent an answer without a question");
		return;
	}
	if (h->body) {
		h->body_got += size;
		if (h->body_got == h->body_size)
			finish_answer(h);
		return;
	}
	h->head_got += size;
	if (h->head_got == sizeof(h->head))
		begin_body(h);
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct sal_helper *h = handle->data;
	size_t size;

	(void)suggested;
	find_room(h, &buf->base, &size);
	buf->len = size < PIECE_BYTES ? size : PIECE_BYTES;
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buf)
{
	struct sal_helper *h = stream->data;

	(void)buf;
	if (size > 0)
		take_bytes(h, (size_t)size);
	else if (size < 0) /* dead or dying: the exit status gives the reason */
		sal_helper_stop(h);
}

/* The pipe may still hold an answer from before the helper's death. */
static void read_rest(struct sal_helper *h)
{
	uv_os_fd_t fd;

	(void)uv_read_stop((uv_stream_t *)&h->from);
	if (uv_fileno((uv_handle_t *)&h->from, &fd) != 0)
		return;
	while (!h->kill_reason && h->busy) {
		char *at;
		size_t size;
		ssize_t n;

		find_room(h, &at, &size);
		n = read(fd, at, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		take_bytes(h, (size_t)n);
	}
}

static void close_all(struct sal_helper *h, uv_close_cb closed)
{
	uv_close((uv_handle_t *)&h->to, closed);
	uv_close((uv_handle_t *)&h->from, closed);
	uv_close((uv_handle_t *)&h->chatter.pipe, closed);
	uv_close((uv_handle_t *)&h->process, closed);
}

static void on_ended(uv_process_t *process, int64_t status, int signal)
{
	struct sal_helper *h = process->data;
	struct sal_err err = { 0 };

	h->ended = true;
	read_rest(h);
	sal_chatter_finish(&h->chatter);
	(void)describe_end(h, status, signal, &err);
	close_all(h, on_close);
	h->cfg.events->ended(h->cfg.ctx, &err);
}

/* Start and question */

static void on_close_unstarted(uv_handle_t *handle)
{
	struct sal_helper *h = handle->data;

	if (--h->open_handles == 0)
		free(h);
}

int sal_helper_start(uv_loop_t *loop, const struct sal_helper_config *cfg,
		     struct sal_helper **out_helper, struct sal_err *err)
{
	struct sal_launch launch = { .path = cfg->path,
				     .plugin = cfg->plugin,
				     .plugin_options = cfg->plugin_options,
				     .limits = cfg->limits,
				     .ended = on_ended };
	struct sal_helper *h = calloc(1, sizeof(*h));
	int rc;

	*out_helper = NULL;
	if (!h)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a compiler process");
	h->cfg = *cfg;
	h->open_handles = HANDLES;
	(void)uv_pipe_init(loop, &h->to, 0);
	(void)uv_pipe_init(loop, &h->from, 0);
	(void)uv_pipe_init(loop, &h->chatter.pipe, 0);
	h->to.data = h->from.data = h->chatter.pipe.data = h;
	launch.in = &h->to;
	launch.out = &h->from;
	launch.err = &h->chatter.pipe;
	rc = sal_launch(loop, &launch, &h->process);
	h->process.data = h;
	if (rc < 0) {
		close_all(h, on_close_unstarted);
		return sal_err_set(err, SAL_UNAVAILABLE, "cannot start the compiler %s: %s",
				   cfg->path, uv_strerror(rc));
	}
	(void)uv_read_start((uv_stream_t *)&h->from, on_room, on_read);
	sal_chatter_start(&h->chatter, h->process.pid);
	*out_helper = h;
	return SAL_OK;
}

static int send_piece(struct sal_helper *h);

/* A helper that does not read is dead or dying. */
static void on_written(uv_write_t *write, int status)
{
	struct sal_helper *h = write->handle->data;

	free(write);
	if (status == 0)
		status = send_piece(h);
	if (status < 0 && status != UV_ECANCELED)
		sal_helper_stop(h);
}

/* Takes the next piece of the unsent bytes, and returns the number of buffers. */
static unsigned cut_piece(struct sal_helper *h, uv_buf_t bufs[1 + SAL_FRAME_PARTS])
{
	size_t room = PIECE_BYTES;
	unsigned count = 0;

	for (int i = 0; i < 1 + SAL_FRAME_PARTS && room > 0; i++) {
		struct sal_text *part = &h->unsent[i];
		size_t size = part->size < room ? part->size : room;

		if (size == 0)
			continue;
		bufs[count++] = uv_buf_init((char *)part->at, (unsigned)size);
		part->at += size;
		part->size -= size;
		room -= size;
	}
	return count;
}

static int send_piece(struct sal_helper *h)
{
	uv_buf_t bufs[1 + SAL_FRAME_PARTS];
	unsigned count = cut_piece(h, bufs);
	uv_write_t *write = count > 0 ? malloc(sizeof(*write)) : NULL;
	int rc;

	if (count == 0)
		return 0;
	rc = write ? uv_write(write, (uv_stream_t *)&h->to, bufs, count, on_written) : UV_ENOMEM;
	if (rc < 0)
		free(write);
	return rc;
}

int sal_helper_ask(struct sal_helper *h, uint64_t id, const struct sal_compile_source *source,
		   struct sal_err *err)
{
	struct sal_frame f = { .id = id,
			       .devices = source->devices,
			       .sizes = { source->format.size, source->program.size,
					  source->options.size } };
	int rc;

	SAL_ASSERT(sal_helper_is_idle(h));
	sal_frame_encode(&f, h->question);
	h->unsent[0] = (struct sal_text){ (const char *)h->question, sizeof(h->question) };
	h->unsent[1] = source->format;
	h->unsent[2] = source->program;
	h->unsent[3] = source->options;
	rc = send_piece(h);
	if (rc < 0) {
		memset(h->unsent, 0, sizeof(h->unsent));
		return sal_err_set(err, SAL_UNAVAILABLE, "cannot ask the compiler: %s",
				   uv_strerror(rc));
	}
	sal_chatter_reset(&h->chatter);
	h->busy = true;
	h->id = id;
	return SAL_OK;
}

bool sal_helper_is_idle(const struct sal_helper *h)
{
	return !h->busy && !h->ended;
}

int sal_helper_pid(const struct sal_helper *h)
{
	return h->process.pid;
}
