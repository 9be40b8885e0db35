/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server - a real salusd in this process, on the fake device, for the harnesses that need one. The
 * first use creates the server, and exit ends it. Its socket is in its own folder under /tmp.
 */
#ifndef SAL_TESTS_FUZZ_SERVER_H
#define SAL_TESTS_FUZZ_SERVER_H

#include "service/server.h"

/* is_running: a thread serves. Otherwise the caller is the server's main thread. */
struct svc_server *fuzz_server(bool is_running);
const char *fuzz_server_path(void);

#endif
