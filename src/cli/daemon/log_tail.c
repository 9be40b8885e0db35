/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon/log_tail.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys/fd.h"

#define LINES 12
#define BYTES 8192

/* Reads the last bytes of the file. Returns their number. */
static size_t read_end(const char *path, off_t from, char *text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t got = 0;

	if (fd >= 0 && fstat(fd, &st) == 0) {
		if (from > st.st_size) /* the file was truncated meanwhile */
			from = 0;
		if (st.st_size - from > BYTES)
			from = st.st_size - BYTES;
		got = pread(fd, text, BYTES, from);
	}
	sal_close(&fd);
	return got > 0 ? (size_t)got : 0;
}

/* Where the last lines of the text begin. */
static const char *last_lines(const char *text, size_t length)
{
	const char *at = text + length;
	int lines = 0;

	while (at > text && lines < LINES)
		lines += *--at == '\n';
	return lines == LINES ? at + 1 : at;
}

void cli_log_tail(FILE *out, const char *path, off_t from)
{
	char text[BYTES];
	size_t length = read_end(path, from, text);
	const char *line, *end;

	while (length > 0 && text[length - 1] == '\n')
		length--;
	(void)fprintf(out, length ? "The end of its log, %s:\n" : "Its log says nothing: %s\n",
		      path);
	for (line = last_lines(text, length); line < text + length; line = end + 1) {
		end = memchr(line, '\n', (size_t)(text + length - line));
		if (!end)
			end = text + length;
		(void)fprintf(out, "  %.*s\n", (int)(end - line), line);
	}
}
