/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings: any file is refused, or can be shown, drawn and replayed. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "recording/replay.h"

static void use(const struct rec_trace *trace)
{
	struct sal_err err = { 0 };
	struct rec_replay replay;
	FILE *null = fopen("/dev/null", "w");

	if (!null || rec_trace_write(null, trace, NULL, &err) < 0)
		abort();
	rec_trace_list(null, trace, NULL);
	if (rec_trace_draw(null, trace, &err) < 0 && !err.text[0])
		abort();
	(void)fclose(null);
	if (rec_replay_run(trace, NULL, &replay, &err) < 0 && !err.text[0])
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("recording", MFD_CLOEXEC);
	struct rec_trace trace;
	struct sal_err err = { 0 };
	char path[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (rec_trace_read(path, &trace, &err) >= 0) {
		use(&trace);
		rec_trace_fini(&trace);
	} else if (!err.text[0]) {
		abort();
	}
	(void)close(fd);
	return 0;
}
