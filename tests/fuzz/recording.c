/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings: whatever is in the file, it is refused, or can be shown and put to an engine. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "sim/replay.h"

static void use(const struct sim_recording *rec)
{
	struct sal_err err = { 0 };
	struct sim_replay replay;
	FILE *null = fopen("/dev/null", "w");

	if (!null || sim_recording_write(null, rec, NULL, &err) < 0)
		abort();
	sim_recording_list(null, rec, NULL);
	if (sim_recording_draw(null, rec, &err) < 0 && !err.text[0])
		abort();
	(void)fclose(null);
	if (sim_replay_run(rec, &replay, &err) < 0 && !err.text[0])
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("recording", MFD_CLOEXEC);
	struct sim_recording rec;
	struct sal_err err = { 0 };
	char path[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (sim_recording_read(path, &rec, &err) >= 0) {
		use(&rec);
		sim_recording_fini(&rec);
	} else if (!err.text[0]) {
		abort();
	}
	(void)close(fd);
	return 0;
}
