/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call - a running program calls its client's Python and waits for the answer.
 *
 *     program ---> svc_call_serve --- record call ------------> plugin, which calls Python
 *                       |        <--- record operands --------- (large operands only)
 *                       |        ---- done: they are copied --->
 *     program <--- results       <--- record answer ----------- results, or an exception
 *
 * The thread that serves a call is the vendor's, or the carrier that started the iteration. It
 * waits until the client answers or its session ends. Nobody else waits for it: the carrier lends
 * the session to another thread (carrier.h), and an iteration that takes long makes its lane stuck,
 * so that the engine moves other sessions elsewhere.
 *
 * Python may itself run programs, and the call ends only after they have. So an execute that comes
 * from a callback is *nested*: it passes the session's queue, starts without a grant under that of
 * the iteration which calls, and runs in a stream of its own. The time of the outer iteration covers
 * it. It asks for memory as an upload does.
 *
 * The daemon knows a function only by its index. It neither reads nor stores addresses of a client.
 *
 * Threads: session->calls is under server->lock; each call has a lock of its own.
 */
#ifndef SAL_SERVICE_CALL_H
#define SAL_SERVICE_CALL_H

#include <sys/queue.h>

#include "device/call.h"
#include "service/client/intake.h"
#include "service/lock.h"

struct sal_msg_answer;
struct sal_msg_operands;
struct svc_call;
struct svc_execution;
struct svc_session;
struct svc_shared_program;

/* A sal_call_fn for the calls of an execution; ctx is the execution. */
int svc_call_serve(void *ctx, const struct sal_call *call, struct sal_err *err) SVC_UNLOCKED;

enum svc_taken svc_take_operands(struct svc_session *s,
				 const struct sal_msg_operands *m) SVC_LOCKED;
enum svc_taken svc_take_answer(struct svc_session *s, const struct sal_msg_answer *m) SVC_LOCKED;
/* Did the client answer recent calls within a moment, or ask for something meanwhile? */
bool svc_calls_are_quick(const struct svc_session *s) SVC_LOCKED;
/* May the client run nested iterations now? */
bool svc_nested_is_open(const struct svc_session *s) SVC_LOCKED;
/* Device bytes that a nested run of the program needs. */
uint64_t svc_nested_bytes(const struct svc_shared_program *p);
/* Start an execution without the engine. False: nothing calls any more, so the engine decides. */
bool svc_nested_start(struct svc_execution *x) SVC_LOCKED;
/* A nested execution has ended. */
void svc_nested_account(struct svc_execution *x) SVC_LOCKED;

/* The session ends: all its calls fail. */
void svc_calls_end(struct svc_session *s) SVC_LOCKED;

#endif
