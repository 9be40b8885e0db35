/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/python/interpreter.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Constants of Python's C API. */
#define FILE_INPUT 257
#define READ_ONLY 0x100
#define WRITABLE 0x200

typedef struct python_object object;

/* The functions of CPython that we use. All belong to its stable ABI. */
struct python {
	int (*is_initialized)(void);
	int (*lock)(void);
	void (*unlock)(int state);
	object *(*compile)(const char *source, const char *name, int start);
	object *(*eval)(object *code, object *globals, object *locals);
	object *(*builtins)(void);
	object *(*new_dict)(void);
	int (*set_item)(object *dict, const char *name, object *value);
	object *(*get_item)(object *dict, const char *name); /* borrowed */
	object *(*new_tuple)(ssize_t size);
	int (*fill_tuple)(object *tuple, ssize_t at, object *take_value);
	object *(*new_int)(long long value);
	object *(*new_view)(char *bytes, ssize_t size, int flags);
	object *(*call)(object *function, object *args);
	const char *(*text)(object *string, ssize_t *size);
	void (*clear_error)(void);
	void (*ref)(object *o);
	void (*unref)(object *o);
	object *none;
};

/*
 * Makes arrays, calls, copies the results. Returns the text of an exception, as jaxlib writes it,
 * or None.
 */
static const char source[] =
	"import numpy\n"
	"NAMES = {1: 'bool', 2: 'int8', 3: 'int16', 4: 'int32', 5: 'int64', 6: 'uint8',\n"
	"         7: 'uint16', 8: 'uint32', 9: 'uint64', 10: 'float16', 11: 'float32',\n"
	"         12: 'float64', 15: 'complex64', 16: 'bfloat16', 18: 'complex128',\n"
	"         19: 'float8_e5m2', 20: 'float8_e4m3fn', 23: 'float8_e4m3b11fnuz',\n"
	"         24: 'float8_e5m2fnuz', 25: 'float8_e4m3fnuz', 28: 'float8_e4m3',\n"
	"         29: 'float8_e3m4', 33: 'float8_e8m0fnu', 21: 'int4', 22: 'uint4',\n"
	"         26: 'int2', 27: 'uint2', 32: 'float4_e2m1fn'}\n"
	"BITS = {21: 4, 22: 4, 26: 2, 27: 2, 32: 4}\n"
	"TYPES = {}\n"
	"def find_type(number):\n"
	"    if number not in TYPES:\n"
	"        try:\n"
	"            TYPES[number] = numpy.dtype(NAMES[number])\n"
	"        except TypeError:\n"
	"            import ml_dtypes\n"
	"            TYPES[number] = numpy.dtype(getattr(ml_dtypes, NAMES[number]))\n"
	"    return TYPES[number]\n"
	"def unpack(view, number, dims):\n"
	"    bits = BITS[number]\n"
	"    raw = numpy.ndarray((len(view), 1), numpy.uint8, view)\n"
	"    codes = (raw >> numpy.arange(0, 8, bits, dtype=numpy.uint8)) & ((1 << bits) - 1)\n"
	"    codes = codes.astype(numpy.uint8).reshape(-1)[:numpy.prod(dims, dtype=int)]\n"
	"    if number == 32:\n"
	"        return codes.view(find_type(number)).reshape(dims)\n"
	"    values = codes.astype(numpy.int8)\n"
	"    if number in (21, 26):\n"
	"        values = (values ^ (1 << bits - 1)) - numpy.int8(1 << bits - 1)\n"
	"    return values.astype(find_type(number)).reshape(dims)\n"
	"def pack(value, view, number):\n"
	"    bits = BITS[number]\n"
	"    flat = numpy.ascontiguousarray(value).reshape(-1)\n"
	"    flat = flat.view(numpy.uint8) if number == 32 else (\n"
	"        flat.astype(numpy.int8).view(numpy.uint8))\n"
	"    codes = numpy.zeros(len(view) * (8 // bits), numpy.uint8)\n"
	"    codes[:flat.size] = flat & ((1 << bits) - 1)\n"
	"    shifted = codes.reshape(-1, 8 // bits) << numpy.arange(0, 8, bits, dtype=numpy.uint8)\n"
	"    numpy.ndarray((len(view),), numpy.uint8, view)[...] = shifted.sum(1)\n"
	"def operand(view, number, *dims):\n"
	"    if view is None:\n"
	"        return None\n"
	"    array = unpack(view, number, dims) if number in BITS else (\n"
	"        numpy.ndarray(dims, find_type(number), view).copy())\n"
	"    array.flags.writeable = False\n"
	"    return array\n"
	"def give(value, view, number, *dims):\n"
	"    if view is None:\n"
	"        return\n"
	"    value = numpy.asarray(value)\n"
	"    if value.shape != dims or value.dtype != find_type(number):\n"
	"        raise RuntimeError(f'a callback returned {value.dtype}{value.shape}, the '\n"
	"                           f'program expects {find_type(number)}{dims}')\n"
	"    if number in BITS:\n"
	"        pack(value, view, number)\n"
	"    else:\n"
	"        numpy.ndarray(dims, find_type(number), view)[...] = value\n"
	"def explain(error):\n"
	"    lines = ['Traceback (most recent call last):\\n']\n"
	"    at = error.__traceback__.tb_next\n"
	"    while at:\n"
	"        code = at.tb_frame.f_code\n"
	"        lines.append(f'  File \"{code.co_filename}\", line {at.tb_lineno}, '\n"
	"                     f'in {code.co_name}\\n')\n"
	"        at = at.tb_next\n"
	"    return 'CpuCallback error calling callback: ' + ''.join(lines) + (\n"
	"        f'{type(error).__name__}: {error}')\n"
	"def serve(function, operands, results):\n"
	"    try:\n"
	"        values = function(*[operand(*each) for each in operands])\n"
	"        if not isinstance(values, tuple) or len(values) != len(results):\n"
	"            raise RuntimeError('a callback must return a tuple with '\n"
	"                               f'{len(results)} results, not {values!r}')\n"
	"        for value, each in zip(values, results):\n"
	"            give(value, *each)\n"
	"    except BaseException as error:\n"
	"        return explain(error)\n"
	"    return None\n";

/* Fills a function pointer. False: this process has no such function. */
static bool find_symbol(const char *name, void *out_function)
{
	void *symbol = dlsym(RTLD_DEFAULT, name);

	memcpy(out_function, &symbol, sizeof(symbol));
	return symbol != NULL;
}

static bool find_python(struct python *p)
{
	const struct {
		const char *name;
		void *out;
	} wanted[] = {
		{ "Py_IsInitialized", &p->is_initialized },
		{ "PyGILState_Ensure", &p->lock },
		{ "PyGILState_Release", &p->unlock },
		{ "Py_CompileString", &p->compile },
		{ "PyEval_EvalCode", &p->eval },
		{ "PyEval_GetBuiltins", &p->builtins },
		{ "PyDict_New", &p->new_dict },
		{ "PyDict_SetItemString", &p->set_item },
		{ "PyDict_GetItemString", &p->get_item },
		{ "PyTuple_New", &p->new_tuple },
		{ "PyTuple_SetItem", &p->fill_tuple },
		{ "PyLong_FromLongLong", &p->new_int },
		{ "PyMemoryView_FromMemory", &p->new_view },
		{ "PyObject_CallObject", &p->call },
		{ "PyUnicode_AsUTF8AndSize", &p->text },
		{ "PyErr_Clear", &p->clear_error },
		{ "Py_IncRef", &p->ref },
		{ "Py_DecRef", &p->unref },
		{ "_Py_NoneStruct", &p->none },
	};

	for (size_t i = 0; i < SAL_COUNT(wanted); i++)
		if (!find_symbol(wanted[i].name, wanted[i].out))
			return false;
	return true;
}

/*
 * The functions are searched once: a search goes through all libraries of the process. A process
 * that has no Python yet may load it later, so a search in vain counts for nothing.
 */
static bool get_python(struct python *out_python)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct python python;
	static bool is_known;
	bool found;

	(void)pthread_mutex_lock(&lock);
	is_known = is_known || find_python(&python);
	found = is_known;
	*out_python = python;
	(void)pthread_mutex_unlock(&lock);
	return found && out_python->is_initialized() != 0;
}

/* Compiles the source. NULL: Python refused it, for instance because there is no numpy. */
static object *make_serve(const struct python *p)
{
	object *globals = p->new_dict();
	object *code = globals ? p->compile(source, "<salus>", FILE_INPUT) : NULL;
	object *result = NULL, *serve = NULL;

	if (code && p->set_item(globals, "__builtins__", p->builtins()) == 0)
		result = p->eval(code, globals, globals);
	if (result)
		serve = p->get_item(globals, "serve");
	if (serve)
		p->ref(serve);
	p->unref(result);
	p->unref(code);
	p->unref(globals);
	return serve;
}

/* With the interpreter's lock. The function is made once and stays. */
static object *find_serve(const struct python *p)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static object *serve;
	object *mine = NULL, *found;

	(void)pthread_mutex_lock(&lock);
	found = serve;
	(void)pthread_mutex_unlock(&lock);
	if (found)
		return found;
	mine = make_serve(p); /* may release the interpreter's lock: not under ours */
	(void)pthread_mutex_lock(&lock);
	if (!serve)
		serve = mine;
	found = serve;
	(void)pthread_mutex_unlock(&lock);
	return found;
}

/* (view or None, type, dims...). NULL: no memory. */
static object *describe(const struct python *p, const struct sal_call_shape *shape, char *bytes,
			int flags)
{
	const int64_t *dims = (const int64_t *)(shape + 1);
	object *tuple = p->new_tuple((ssize_t)shape->rank + 2);
	object *view = p->none;

	if (!tuple)
		return NULL;
	if (shape->type == SAL_TYPE_TOKEN)
		p->ref(view);
	else
		view = p->new_view(bytes, (ssize_t)shape->bytes, flags);
	if (!view || p->fill_tuple(tuple, 0, view) < 0 ||
	    p->fill_tuple(tuple, 1, p->new_int(shape->type)) < 0)
		goto fail;
	for (uint32_t i = 0; i < shape->rank; i++)
		if (p->fill_tuple(tuple, (ssize_t)i + 2, p->new_int(dims[i])) < 0)
			goto fail;
	return tuple;
fail:
	p->unref(tuple);
	return NULL;
}

/* A tuple of descriptions. Moves *shape behind the last one. */
static object *describe_all(const struct python *p, const struct sal_call_shape **shape,
			    uint32_t count, char *bytes, int flags)
{
	object *all = p->new_tuple((ssize_t)count);

	for (uint32_t i = 0; all && i < count; i++) {
		object *one = describe(p, *shape, bytes, flags);

		if (!one || p->fill_tuple(all, (ssize_t)i, one) < 0) {
			p->unref(all);
			return NULL;
		}
		bytes += sal_call_span((*shape)->bytes);
		*shape = sal_call_next(*shape);
	}
	return all;
}

/* The arguments of serve. NULL: no memory. */
static object *make_args(const struct python *p, const struct adp_python_call *call,
			 object *function)
{
	const struct sal_msg_call *m = call->record;
	const struct sal_call_shape *shape = (const struct sal_call_shape *)(m + 1);
	object *args = p->new_tuple(3);
	object *operands = NULL, *results = NULL;

	if (args)
		operands = describe_all(p, &shape, m->operand_count, call->operands, READ_ONLY);
	if (operands)
		results = describe_all(p, &shape, m->result_count, call->results, WRITABLE);
	if (!results) {
		p->unref(operands);
		p->unref(args);
		return NULL;
	}
	p->ref(function);
	(void)p->fill_tuple(args, 0, function);
	(void)p->fill_tuple(args, 1, operands);
	(void)p->fill_tuple(args, 2, results);
	return args;
}

/* With the interpreter's lock. */
static char *call_locked(const struct python *p, const struct adp_python_call *call)
{
	object *serve = find_serve(p);
	object *function = serve ? call->find(call->ctx) : NULL;
	object *args = function ? make_args(p, call, function) : NULL;
	object *result = args ? p->call(serve, args) : NULL;
	const char *text = NULL;
	char *copy = NULL;
	ssize_t size = 0;

	if (serve && !function)
		copy = strdup("salus: a program called a Python function that it does not have");
	else if (!result)
		copy = strdup("salus: Python or numpy refused to serve a callback");
	else if (result != p->none)
		text = p->text(result, &size);
	if (text)
		copy = strndup(text, (size_t)size);
	else if (result && result != p->none)
		copy = strdup("salus: a Python callback failed");
	p->clear_error();
	p->unref(result);
	p->unref(args);
	return copy;
}

char *adp_python_call(const struct adp_python_call *call)
{
	struct python python;
	char *text;
	int state;

	if (!get_python(&python))
		return strdup("salus: a program calls Python, and this process has none");
	state = python.lock();
	text = call_locked(&python, call);
	python.unlock(state);
	return text;
}
