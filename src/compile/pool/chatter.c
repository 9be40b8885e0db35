/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/pool/chatter.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/container.h"
#include "base/log/log.h"

/* Lines in the log for each task. */
#define LINES_MAX 8
/* The pipe of a dead helper holds at most this many reads. */
#define REST_READS_MAX 64

static struct sal_chatter *chatter_of(uv_stream_t *stream)
{
	return SAL_CONTAINER_OF(stream, struct sal_chatter, pipe);
}

/* A line of a stack trace, which follows the line that says what went wrong. */
static bool is_trace(const char *line)
{
	return strncmp(line, "    @ ", strlen("    @ ")) == 0 ||
	       strncmp(line, "*** Check failure", strlen("*** Check failure")) == 0;
}

static void end_line(struct sal_chatter *c)
{
	if (c->used == 0)
		return;
	c->line[c->used] = '\0';
	c->used = 0;
	if (!is_trace(c->line))
		memcpy(c->last, c->line, sizeof(c->last));
	if (c->lines < LINES_MAX) {
		c->lines++;
		sal_log_info("compile", "helper=%d says: %s", c->pid, c->line);
	} else {
		c->dropped++;
	}
}

static void take(struct sal_chatter *c, const char *at, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		unsigned char byte = (unsigned char)at[i];

		if (byte == '\n')
			end_line(c);
		else if (c->used + 1 < sizeof(c->line))
			c->line[c->used++] = byte < ' ' || byte > '~' ? '?' : (char)byte;
	}
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct sal_chatter *c = chatter_of((uv_stream_t *)handle);

	(void)suggested;
	*buf = uv_buf_init(c->room, sizeof(c->room));
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buf)
{
	if (size > 0)
		take(chatter_of(stream), buf->base, (size_t)size);
	else if (size < 0)
		(void)uv_read_stop(stream);
}

void sal_chatter_start(struct sal_chatter *c, int pid)
{
	c->pid = pid;
	(void)uv_read_start((uv_stream_t *)&c->pipe, on_room, on_read);
}

void sal_chatter_reset(struct sal_chatter *c)
{
	if (c->dropped > 0)
		sal_log_info("compile", "helper=%d said %u lines more", c->pid, c->dropped);
	c->lines = c->dropped = 0;
	c->last[0] = '\0';
}

void sal_chatter_finish(struct sal_chatter *c)
{
	uv_os_fd_t fd;

	(void)uv_read_stop((uv_stream_t *)&c->pipe);
	if (uv_fileno((uv_handle_t *)&c->pipe, &fd) != 0)
		return;
	for (int i = 0; i < REST_READS_MAX; i++) {
		ssize_t n = read(fd, c->room, sizeof(c->room));

		if (n <= 0 && !(n < 0 && errno == EINTR))
			break;
		if (n > 0)
			take(c, c->room, (size_t)n);
	}
	end_line(c);
	if (c->dropped > 0)
		sal_log_info("compile", "helper=%d said %u lines more", c->pid, c->dropped);
}
