/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/program/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adaptor/client/client.h"
#include "adaptor/daemon/conn.h"
#include "adaptor/error.h"
#include "adaptor/program/fetch.h"
#include "adaptor/program/program.h"

/* Longest name of a module in the name of a file. */
#define NAME_MAX_BYTES 128
/* Field 1 of HloProto and of HloModuleProtoWithConfig: the module. */
#define MODULE_TAG 0x0a

/* Flags are words of XLA_FLAGS. The value of the last one that starts so; NULL: there is none. */
static const char *find_flag(const char *flags, const char *start, size_t *out_size)
{
	size_t size = strlen(start);
	const char *found = NULL;

	while (flags && *flags) {
		size_t word;

		flags += strspn(flags, " \t\r\n");
		word = strcspn(flags, " \t\r\n");
		if (word >= size && memcmp(flags, start, size) == 0) {
			found = flags + size;
			*out_size = word - size;
		}
		flags += word;
	}
	return found;
}

/* The folder; false if there is to be no dump. */
static bool find_folder(const char *flags, char folder[PATH_MAX])
{
	size_t size = 0;
	const char *value = find_flag(flags, "--xla_dump_to=", &size);

	if (!value || size == 0 || size >= PATH_MAX)
		return false;
	memcpy(folder, value, size);
	folder[size] = '\0';
	return true;
}

/* Like XLA: text is what is written if no flag asks for another form. True: and nobody writes it. */
static bool misses_text(const char *flags)
{
	size_t size;

	if (getenv("SALUS_DUMP_TEXT")) /* our Python module writes it when the job ends */
		return false;
	return find_flag(flags, "--xla_dump_hlo_as_text", &size) ||
	       !find_flag(flags, "--xla_dump_hlo_as_", &size);
}

static void say(const PJRT_Client *client, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void say(const PJRT_Client *client, const char *fmt, ...)
{
	va_list args;

	if (adp_conn_is_quiet(client->conn))
		return;
	va_start(args, fmt);
	(void)vfprintf(stderr, fmt, args);
	va_end(args);
}

/* Makes the folder and those above it. */
static void make_folder(char *folder)
{
	char *slash;

	for (slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(folder, 0777);
		*slash = '/';
	}
	(void)mkdir(folder, 0777);
}

/* The name of the program, without characters that a file's name must not have. */
static void copy_name(char out[NAME_MAX_BYTES], struct sal_text name)
{
	size_t i;

	for (i = 0; i < name.size && i + 1 < NAME_MAX_BYTES; i++)
		out[i] = strchr("/\\ :*?\"<>|[]", name.at[i]) ? '_' : name.at[i];
	out[i] = '\0';
}

static bool write_all(int fd, const char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, bytes, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		bytes += n;
		size -= (size_t)n;
	}
	return true;
}

static void write_file(const PJRT_Client *client, const char *path, struct sal_text bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	bool is_written = fd >= 0 && write_all(fd, bytes.at, bytes.size);

	if (!is_written)
		say(client, "salus: --xla_dump_to: %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		(void)close(fd);
}

/* The first field of an HloModuleProtoWithConfig is all of an HloProto. */
static struct sal_text hlo_proto(const char *bytes, size_t size)
{
	struct sal_text all = { bytes, 0 };
	uint64_t length = 0;
	size_t i;

	if (size == 0 || (unsigned char)bytes[0] != MODULE_TAG)
		return all;
	for (i = 1; i < size && i < 10; i++) {
		length |= (uint64_t)(bytes[i] & 0x7f) << (7 * (i - 1));
		if (!(bytes[i] & 0x80))
			break;
	}
	if (i < size && length <= size - i - 1)
		all.size = i + 1 + (size_t)length;
	return all;
}

static void dump_optimized(struct adp_program *p, const char *path)
{
	struct PJRT_Executable executable = { .program = p };
	PJRT_Program program = { .struct_size = PJRT_Program_STRUCT_SIZE };
	PJRT_Executable_OptimizedProgram_Args args = { .executable = &executable,
						       .program = &program };
	PJRT_Error *error = adp_fetch_optimized(&args);

	program.code = error || program.code_size == 0 ? NULL : calloc(1, program.code_size);
	if (program.code)
		error = adp_fetch_optimized(&args);
	if (program.code && !error)
		write_file(p->client, path, hlo_proto(program.code, program.code_size));
	adp_Error_Destroy(&(PJRT_Error_Destroy_Args){ .error = error });
	free(program.code);
}

void adp_dump(struct adp_program *p, const PJRT_Program *sent)
{
	const char *flags = getenv("XLA_FLAGS");
	const struct sal_text *platform = &p->client->facts->platform_name;
	char folder[PATH_MAX], name[NAME_MAX_BYTES], path[PATH_MAX + 2 * NAME_MAX_BYTES];
	bool is_hlo = sent->format_size == 3 && memcmp(sent->format, "hlo", 3) == 0;
	unsigned int number;

	if (!flags || !find_folder(flags, folder))
		return;
	number = atomic_fetch_add(&p->client->dumped, 1) + 1;
	if (number == 1 && misses_text(flags))
		say(p->client,
		    "salus: --xla_dump_to: XLA is in another process and writes no text for this "
		    "one. %s gets protobufs (.hlo.pb) and StableHLO bytecode (.mlirbc).\n",
		    folder);
	make_folder(folder);
	copy_name(name, p->facts->name);
	(void)snprintf(path, sizeof(path), "%s/module_%04u.%s.before_optimizations.%s", folder,
		       number, name, is_hlo ? "hlo.pb" : "mlirbc");
	write_file(p->client, path, (struct sal_text){ sent->code, sent->code_size });
	(void)snprintf(path, sizeof(path), "%s/module_%04u.%s.%.*s_after_optimizations.hlo.pb",
		       folder, number, name, (int)platform->size, platform->at);
	dump_optimized(p, path);
}
