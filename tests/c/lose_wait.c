/* A library for LD_PRELOAD that loses the k-th wait of a stream for an event (cuStreamWaitEvent) of a
 * process, k from the environment variable GPUZIP_LOSE_WAIT, 0 for none: the call succeeds without
 * effect. The library under test looks the driver's functions up with dlsym, so dlsym is what this
 * library replaces. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef int (*wait_fn)(void *stream, void *event, unsigned flags);
typedef void *(*dlsym_fn)(void *library, const char *name);

static wait_fn real_wait;
static atomic_long waits;

static int wait_or_not(void *stream, void *event, unsigned flags)
{
    const char *lost = getenv("GPUZIP_LOSE_WAIT");
    if (lost && atomic_fetch_add(&waits, 1) + 1 == atol(lost))
        return 0;
    return real_wait(stream, event, flags);
}

void *dlsym(void *library, const char *name)
{
    static dlsym_fn real;
    void *found;
    if (!real) {
        /* glibc 2.34 moved dlsym into libc.so and gave it a new version. */
        found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
        if (!found)
            found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
        memcpy(&real, &found, sizeof found);
    }
    found = real(library, name);
    if (found && strcmp(name, "cuStreamWaitEvent") == 0) {
        memcpy(&real_wait, &found, sizeof found);
        const wait_fn wrapper = wait_or_not;
        memcpy(&found, &wrapper, sizeof found);
    }
    return found;
}
