/* SPDX-License-Identifier: Apache-2.0
 * The two functions that onnxruntime looks for in an execution provider library.
 *
 * They hand over to functions that the Python package opendpu.onnxruntime binds when it has loaded
 * this library.
 */
#include <stddef.h>

typedef void *(*create_function)(const char *, const void *, const void *, void **, size_t, size_t *);
typedef void *(*release_function)(void *);

static create_function bound_create;
static release_function bound_release;

/* The first table of OrtApiBase, and the first function of OrtApi, see opendpu.onnxruntime.abi. */
typedef const void *const *(*get_api_function)(unsigned version);
typedef void *(*create_status_function)(int code, const char *message);

void opendpu_bind(create_function create, release_function release)
{
    bound_create = create;
    bound_release = release;
}

void *CreateEpFactories(const char *name, const void *base, const void *logger, void **factories,
                        size_t room, size_t *count)
{
    if (bound_create)
        return bound_create(name, base, logger, factories, room, count);
    *count = 0;
    const void *const *api = ((get_api_function)((const void *const *)base)[0])(1);
    return ((create_status_function)api[0])(
        1, "this library works in Python: call opendpu.onnxruntime.register()");
}

void *ReleaseEpFactory(void *factory)
{
    return bound_release ? bound_release(factory) : NULL;
}
