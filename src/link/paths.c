/* SPDX-License-Identifier: Apache-2.0 */
#include "link/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

#define PLUGIN "libsalus_pjrt.so"
#define MODULES "salus/python"

/* Where CMake installs libraries, below the prefix; in the build tree it is always lib. */
#ifndef SAL_LIBDIR
#define SAL_LIBDIR "lib"
#endif

__attribute__((format(printf, 4, 5))) static int
write_path(char *out, size_t size, struct sal_err *err, const char *fmt, ...)
{
	va_list args;
	int length;

	va_start(args, fmt);
	length = vsnprintf(out, size, fmt, args);
	va_end(args);
	if (length >= 0 && (size_t)length < size)
		return SAL_OK;
	if (size > 0)
		out[0] = '\0';
	return sal_err_set(err, SAL_INVALID_ARGUMENT, "a path of %d bytes is too long", length);
}

/* The value of a variable that holds an absolute path, else NULL. */
static const char *absolute_env(const char *name)
{
	const char *value = getenv(name);

	return value && value[0] == '/' ? value : NULL;
}

static bool is_our_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

int sal_path_runtime_dir(char *out, size_t size, struct sal_err *err)
{
	const char *base = absolute_env("XDG_RUNTIME_DIR");

	if (base && is_our_dir(base))
		return write_path(out, size, err, "%s/salus", base);
	return write_path(out, size, err, "/tmp/salus-%u", (unsigned)geteuid());
}

int sal_path_default_socket(char *out, size_t size, struct sal_err *err)
{
	char dir[SAL_PATH_BYTES];
	int rc = sal_path_runtime_dir(dir, sizeof(dir), err);

	out[0] = '\0';
	return rc < 0 ? rc : write_path(out, size, err, "%s/salusd.sock", dir);
}

int sal_path_socket(char *out, size_t size, bool *out_given, struct sal_err *err)
{
	const char *given = getenv("SALUS_SOCKET");
	char here[SAL_PATH_BYTES];

	if (out_given)
		*out_given = given && *given;
	if (!given || !*given)
		return sal_path_default_socket(out, size, err);
	if (*given == '/')
		return write_path(out, size, err, "%s", given);
	out[0] = '\0';
	if (!getcwd(here, sizeof(here)))
		return sal_err_set(err, SAL_NOT_FOUND, "the working directory: %s",
				   strerror(errno));
	return write_path(out, size, err, "%s/%s", here, given);
}

int sal_path_check_private(const char *dir, struct sal_err *err)
{
	struct stat st;

	if (lstat(dir, &st) < 0)
		return sal_err_set(err, errno == ENOENT ? SAL_NOT_FOUND : SAL_PERMISSION_DENIED,
				   "%s: %s", dir, strerror(errno));
	if (S_ISLNK(st.st_mode))
		return sal_err_set(err, SAL_PERMISSION_DENIED,
				   "%s is a symbolic link, it may lead anywhere; remove it", dir);
	if (!S_ISDIR(st.st_mode))
		return sal_err_set(err, SAL_PERMISSION_DENIED, "%s is no directory; remove it",
				   dir);
	if (st.st_uid != geteuid())
		return sal_err_set(err, SAL_PERMISSION_DENIED,
				   "%s belongs to user %u, not to you; set SALUS_SOCKET to a path "
				   "elsewhere",
				   dir, (unsigned)st.st_uid);
	if (st.st_mode & 077)
		return sal_err_set(err, SAL_PERMISSION_DENIED,
				   "%s is open to other users (mode %04o); close it with chmod 700",
				   dir, (unsigned)st.st_mode & 07777);
	return SAL_OK;
}

int sal_path_check_guarded(const char *dir, struct sal_err *err)
{
	struct stat st;

	if (stat(dir, &st) < 0)
		return sal_err_set(err, errno == ENOENT ? SAL_NOT_FOUND : SAL_PERMISSION_DENIED,
				   "%s: %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return sal_err_set(err, SAL_PERMISSION_DENIED, "%s is no directory", dir);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return sal_err_set(err, SAL_PERMISSION_DENIED,
				   "%s belongs to user %u, who could replace the socket; choose "
				   "another directory",
				   dir, (unsigned)st.st_uid);
	if (st.st_mode & 022)
		return sal_err_set(err, SAL_PERMISSION_DENIED,
				   "other users may write to %s (mode %04o) and could replace the "
				   "socket; close it with chmod go-w, or choose another directory",
				   dir, (unsigned)st.st_mode & 07777);
	return SAL_OK;
}

int sal_path_make_private(const char *dir, struct sal_err *err)
{
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return sal_err_set(err, SAL_PERMISSION_DENIED, "cannot make %s: %s", dir,
				   strerror(errno));
	return sal_path_check_private(dir, err);
}

/* Like mkdir -p; false if dir is no directory we can write to afterwards. */
static bool make_dirs(const char *dir)
{
	char path[SAL_PATH_BYTES];
	char *slash;

	if (write_path(path, sizeof(path), NULL, "%s", dir) < 0)
		return false;
	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(path, 0700); /* the last call decides */
		*slash = '/';
	}
	(void)mkdir(path, 0700);
	return access(path, R_OK | W_OK | X_OK) == 0;
}

/* $VARIABLE/salus, else ~/SUBDIR/salus; false if there is neither or it cannot be written. */
static bool home_dir(const char *variable, const char *subdir, char *out, size_t size)
{
	const char *base = absolute_env(variable);
	const char *home = absolute_env("HOME");
	int rc;

	if (base)
		rc = write_path(out, size, NULL, "%s/salus", base);
	else if (home)
		rc = write_path(out, size, NULL, "%s/%s/salus", home, subdir);
	else
		return false;
	return rc >= 0 && make_dirs(out);
}

static int made_runtime_dir(char *out, size_t size, struct sal_err *err)
{
	int rc = sal_path_runtime_dir(out, size, err);

	return rc < 0 ? rc : sal_path_make_private(out, err);
}

int sal_path_log(char *out, size_t size, struct sal_err *err)
{
	char dir[SAL_PATH_BYTES];
	int rc = SAL_OK;

	out[0] = '\0';
	if (!home_dir("XDG_STATE_HOME", ".local/state", dir, sizeof(dir)))
		rc = made_runtime_dir(dir, sizeof(dir), err);
	return rc < 0 ? rc : write_path(out, size, err, "%s/salusd.log", dir);
}

int sal_path_cache_dir(char *out, size_t size, struct sal_err *err)
{
	char dir[SAL_PATH_BYTES];
	int rc;

	out[0] = '\0';
	if (home_dir("XDG_CACHE_HOME", ".cache", dir, sizeof(dir)))
		return write_path(out, size, err, "%s", dir);
	rc = made_runtime_dir(dir, sizeof(dir), err);
	if (rc >= 0)
		rc = write_path(out, size, err, "%s/cache", dir);
	if (rc >= 0 && !make_dirs(out))
		rc = sal_err_set(err, SAL_PERMISSION_DENIED, "cannot make %s", out);
	if (rc < 0)
		out[0] = '\0';
	return rc;
}

/* The directory of the running executable. */
static int program_dir(char *out, size_t size, struct sal_err *err)
{
	ssize_t length = readlink("/proc/self/exe", out, size - 1);

	if (length <= 0)
		return sal_err_set(err, SAL_NOT_FOUND, "/proc/self/exe: %s", strerror(errno));
	out[length] = '\0';
	*strrchr(out, '/') = '\0';
	return SAL_OK;
}

/* The file at base/relative, without links and dots. */
static int resolve(const char *base, const char *relative, char *out, size_t size,
		   struct sal_err *err)
{
	char path[SAL_PATH_BYTES];
	char *real;
	int rc;

	out[0] = '\0';
	rc = write_path(path, sizeof(path), err, "%s/%s", base, relative);
	if (rc < 0)
		return rc;
	real = realpath(path, NULL);
	if (!real)
		return sal_err_set(err, SAL_NOT_FOUND, "%s: %s; is Salus installed whole?", path,
				   strerror(errno));
	rc = write_path(out, size, err, "%s", real);
	free(real);
	return rc;
}

int sal_path_program(const char *name, char *out, size_t size, struct sal_err *err)
{
	char dir[SAL_PATH_BYTES];
	int rc;

	out[0] = '\0';
	rc = program_dir(dir, sizeof(dir), err);
	return rc < 0 ? rc : resolve(dir, name, out, size, err);
}

int sal_path_plugin(char *out, size_t size, struct sal_err *err)
{
	char dir[SAL_PATH_BYTES];
	int rc;

	out[0] = '\0';
	rc = program_dir(dir, sizeof(dir), err);
	if (rc < 0)
		return rc;
	rc = resolve(dir, "../" SAL_LIBDIR "/" PLUGIN, out, size, err);
	return rc == -SAL_NOT_FOUND ? resolve(dir, "../lib/" PLUGIN, out, size, err) : rc;
}

int sal_path_modules(char *out, size_t size, struct sal_err *err)
{
	char dir[SAL_PATH_BYTES];
	int rc = sal_path_plugin(dir, sizeof(dir), err);

	out[0] = '\0';
	if (rc < 0)
		return rc;
	*strrchr(dir, '/') = '\0';
	return resolve(dir, MODULES, out, size, err);
}
