/* A library that is loaded before libc (LD_PRELOAD) and makes file-system calls fail. Only calls
 * for files below the folder GPUZIP_FAULTS_DIR, and for that folder itself, are counted and can
 * fail.
 *
 * GPUZIP_FAULTS is a list of rules, separated by commas. A rule is CALL:WHEN:WHAT.
 *   CALL  open (also openat), write (also pwrite), read (also pread), fsync (also fdatasync),
 *         rename (also renameat), unlink (also unlinkat), ftruncate, fallocate, close; `any`: all of
 *         them
 *   WHEN  a number n: the n-th of these calls, from 1 on; `n+`: the n-th and all after it; `*`: all
 *   WHAT  EIO, ENOSPC, EDQUOT, EINTR, EXDEV, EINVAL, EROFS, EACCES: the call fails with this number
 *         and has no effect, except that close does close (as on Linux)
 *         short: a write or read transfers half of its bytes, at least one; other calls: no fault
 *         flip: a write or read succeeds with one bit flipped; other calls: no fault
 *         kill: the process gets SIGKILL before the call
 *         torn: the process gets SIGKILL after half of a write; before other calls
 *         stop: the process gets SIGSTOP before the call, which is made after a SIGCONT
 *         none: the call succeeds, and the log has a line of it
 *         power: like torn, and every open file loses what was written since its last fsync
 * The rule `random:P:SEED` makes P of 1000 calls fail, each in a way that such a call can fail on a
 * real system. P and SEED are numbers; the faults follow from SEED and the sequence of the calls.
 *
 * GPUZIP_FAULTS_LOG: a file to which one line is appended for each fault: the call and the fault.
 *
 * Every call of the process is counted by one thread at a time (a spin lock). */
#define _GNU_SOURCE
#include "faults.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum call { OPEN, WRITE, READ, FSYNC, RENAME, UNLINK, FTRUNCATE, FALLOCATE, CLOSE, ANY };
static const char *const call_names[] = {"open",   "write",     "read",      "fsync", "rename",
                                         "unlink", "ftruncate", "fallocate", "close", "any"};

/* Faults that are no error number. */
enum { NONE = 0, SHORT = -1, FLIP = -2, KILL = -3, TORN = -4, POWER = -5, LOGGED = -6, STOP = -7 };
static const struct { const char *name; int fault;
} faults[] = {{"EIO", EIO},     {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EINTR", EINTR},
              {"EXDEV", EXDEV}, {"EINVAL", EINVAL}, {"EROFS", EROFS},   {"EACCES", EACCES},
              {"short", SHORT}, {"flip", FLIP},     {"kill", KILL},     {"torn", TORN},
              {"power", POWER}, {"none", LOGGED},   {"stop", STOP}};
enum { FAULTS = sizeof faults / sizeof faults[0] };

struct rule { enum call call; long first, last; int fault; };
enum { MOST_RULES = 16, MOST_FILES = 4096 };
static struct rule rules[MOST_RULES];
static int rule_count;
static long random_share;
static uint64_t random_state;
static long counts[ANY + 1];

/* What is known of a descriptor. */
static struct file { unsigned char watched; long long synced; } files[MOST_FILES];
static char folder[PATH_MAX];
static int log_file = -1;
static atomic_flag busy = ATOMIC_FLAG_INIT;
static int ready;
/* No fault ends the process: the faults are those of file_faults. */
static int goes_on;
static atomic_long made;

#define NEXT(name) ((__typeof__(&name))next_of(#name))
static void *next_of(const char *name)
{
    void *next = dlsym(RTLD_NEXT, name);
    if (!next) _exit(99);
    return next;
}

static void refuse(const char *text)
{
    fprintf(stderr, "GPUZIP_FAULTS: cannot read \"%s\"\n", text);
    _exit(98);
}

static int fault_of(const char *name)
{
    for (int k = 0; k < FAULTS; k++)
        if (!strcmp(faults[k].name, name)) return faults[k].fault;
    refuse(name);
    return NONE;
}

static const char *name_of(int fault)
{
    for (int k = 0; k < FAULTS; k++)
        if (faults[k].fault == fault) return faults[k].name;
    return "?";
}

static void read_rule(char *text)
{
    char *when = strchr(text, ':'), *what = when ? strchr(when + 1, ':') : NULL;
    if (!what) refuse(text);
    *when++ = 0;
    *what++ = 0;
    if (!strcmp(text, "random")) {
        random_share = atol(when);
        random_state = strtoull(what, NULL, 10) * 2 + 1;
        return;
    }
    if (rule_count == MOST_RULES) refuse("more than 16 rules");
    struct rule *rule = &rules[rule_count++];
    int call = 0;
    while (call <= ANY && strcmp(call_names[call], text)) call++;
    if (call > ANY) refuse(text);
    rule->call = (enum call)call;
    char *end;
    rule->first = *when == '*' ? 1 : strtol(when, &end, 10);
    rule->last = *when == '*' || *end == '+' ? LONG_MAX : rule->first;
    if (rule->first < 1) refuse(when);
    rule->fault = fault_of(what);
}

__attribute__((constructor)) static void begin(void)
{
    const char *dir = getenv("GPUZIP_FAULTS_DIR"), *text = getenv("GPUZIP_FAULTS"),
               *log = getenv("GPUZIP_FAULTS_LOG");
    if (!dir || !text || !realpath(dir, folder)) return;
    if (log)
        log_file = (int)syscall(SYS_openat, AT_FDCWD, log,
                                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    char *copy = strdup(text), *rest = copy;
    for (char *rule; (rule = strsep(&rest, ","));)
        if (*rule) read_rule(rule);
    free(copy);
    ready = 1;
}

void file_faults(long share, uint64_t seed)
{
    while (atomic_flag_test_and_set(&busy)) {
    }
    if (!ready && getcwd(folder, sizeof folder)) ready = 1;
    goes_on = 1;
    random_share = share;
    random_state = seed * 2 + 1;
    atomic_flag_clear(&busy);
}

long file_faults_made(void) { return made; }

static int is_watched(int fd) { return ready && fd >= 0 && fd < MOST_FILES && files[fd].watched; }

/* Whether a path, relative to the folder of descriptor `at`, is below the watched folder. */
static int is_below(int at, const char *path)
{
    if (!ready || !path) return 0;
    if (*path != '/') return at == AT_FDCWD ? goes_on : is_watched(at);
    size_t length = strlen(folder);
    return !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static uint64_t random_number(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state >> 33;
}

/* Faults that such a call can have on a real system. Kills are rare, and flips of written bytes
 * too, because each ends a whole run or generation. */
static int random_fault(enum call call)
{
    static const int of_call[ANY][8] = {{EIO, ENOSPC, EINTR, EACCES, EIO, EROFS, EINTR, KILL},
                                        {EIO, ENOSPC, EINTR, SHORT, SHORT, EDQUOT, FLIP, TORN},
                                        {EIO, EINTR, SHORT, SHORT, FLIP, EIO, EINTR, KILL},
                                        {EIO, ENOSPC, EDQUOT, EIO, EINTR, EIO, EINTR, POWER},
                                        {EIO, EINVAL, EXDEV, ENOSPC, EINTR, EROFS, EIO, POWER},
                                        {EIO, EINTR, EROFS, EACCES, EIO, EINTR, EIO, KILL},
                                        {EIO, EINTR, EROFS, EIO, EINTR, EIO, EINTR, KILL},
                                        {EIO, ENOSPC, EINVAL, EINTR, EIO, ENOSPC, EINTR, KILL},
                                        {EIO, EINTR, EIO, ENOSPC, EIO, EINTR, EIO, KILL}};
    int fault = of_call[call][random_number() % 8];
    if (fault <= KILL && (goes_on || random_number() % 4)) return EIO;
    return fault;
}

static void note(enum call call, int fault)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%s %s\n", call_names[call], name_of(fault));
    if (log_file >= 0) syscall(SYS_write, log_file, line, length);
}

static void end_process(int fault)
{
    if (fault == POWER)
        for (int fd = 0; fd < MOST_FILES; fd++) {
            struct stat found;
            if (files[fd].watched && !fstat(fd, &found) && S_ISREG(found.st_mode) &&
                found.st_size > files[fd].synced)
                syscall(SYS_ftruncate, fd, files[fd].synced);
        }
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Counts a call and returns its fault. A process that is to end before the call ends here. */
static int fault_for(enum call call)
{
    while (atomic_flag_test_and_set(&busy)) {
    }
    int fault = NONE;
    counts[call]++;
    counts[ANY]++;
    for (int k = 0; k < rule_count && !fault; k++) {
        long count = counts[rules[k].call];
        if ((rules[k].call == call || rules[k].call == ANY) && count >= rules[k].first &&
            count <= rules[k].last)
            fault = rules[k].fault;
    }
    if (!fault && random_share && random_number() % 1000 < (uint64_t)random_share)
        fault = random_fault(call);
    int moves = call == WRITE || call == READ;
    if (!moves && (fault == SHORT || fault == FLIP)) fault = NONE;
    if (call == READ && (fault == TORN || fault == POWER)) fault = KILL;
    if (fault) note(call, fault), made++;
    if (fault == STOP) kill(getpid(), SIGSTOP);
    if (fault == LOGGED || fault == STOP) fault = NONE;
    if (fault == KILL || (call != WRITE && (fault == TORN || fault == POWER))) end_process(fault);
    atomic_flag_clear(&busy);
    return fault;
}

static int opened(int fd, int below)
{
    if (fd >= 0 && fd < MOST_FILES) {
        struct stat found;
        files[fd].watched = (unsigned char)below;
        files[fd].synced = below && !fstat(fd, &found) ? found.st_size : 0;
    }
    return fd;
}

/* Returns from a function with the error `fault` if `fault` is one. */
#define FAIL_WITH(fault) \
    if ((fault) > 0) { \
        errno = (fault); \
        return -1; \
    }

#define MODE(mode) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list arguments; \
        va_start(arguments, flags); \
        mode = va_arg(arguments, mode_t); \
        va_end(arguments); \
    }

#define OPEN_FUNCTION(name) \
    int name(const char *path, int flags, ...) \
    { \
        MODE(mode) \
        int below = is_below(AT_FDCWD, path), fault = below ? fault_for(OPEN) : NONE; \
        FAIL_WITH(fault) \
        return opened(NEXT(name)(path, flags, mode), below); \
    }
OPEN_FUNCTION(open)
OPEN_FUNCTION(open64)

#define OPENAT_FUNCTION(name) \
    int name(int at, const char *path, int flags, ...) \
    { \
        MODE(mode) \
        int below = is_below(at, path), fault = below ? fault_for(OPEN) : NONE; \
        FAIL_WITH(fault) \
        return opened(NEXT(name)(at, path, flags, mode), below); \
    }
OPENAT_FUNCTION(openat)
OPENAT_FUNCTION(openat64)

/* A copy of bytes with one bit flipped; the caller frees it. */
static char *flipped(const void *from, size_t n)
{
    char *copy = malloc(n ? n : 1);
    memcpy(copy, from, n);
    if (n) copy[random_number() % n] ^= (char)(1 << random_number() % 8);
    return copy;
}

#define WRITE_FUNCTION(name, parameters, arguments) \
    ssize_t name parameters \
    { \
        int fault = is_watched(fd) && n ? fault_for(WRITE) : NONE; \
        FAIL_WITH(fault) \
        char *copy = NULL; \
        if (fault == SHORT || fault == TORN || fault == POWER) n = n > 1 ? n / 2 : n; \
        if (fault == FLIP) from = copy = flipped(from, n); \
        ssize_t written = NEXT(name) arguments; \
        if (fault == TORN || fault == POWER) end_process(fault); \
        free(copy); \
        return written; \
    }
WRITE_FUNCTION(write, (int fd, const void *from, size_t n), (fd, from, n))
WRITE_FUNCTION(pwrite, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
WRITE_FUNCTION(pwrite64, (int fd, const void *from, size_t n, off64_t at), (fd, from, n, at))

#define READ_FUNCTION(name, parameters, arguments)                                                 \
    ssize_t name parameters                                                                        \
    {                                                                                              \
        int fault = is_watched(fd) && n ? fault_for(READ) : NONE;                                  \
        FAIL_WITH(fault)                                                                           \
        if (fault == SHORT) n = n > 1 ? n / 2 : n;                                                 \
        ssize_t got = NEXT(name) arguments;                                                        \
        if (fault == FLIP && got > 0)                                                              \
            ((char *)to)[random_number() % (size_t)got] ^= (char)(1 << random_number() % 8);       \
        return got;                                                                                \
    }
READ_FUNCTION(read, (int fd, void *to, size_t n), (fd, to, n))
READ_FUNCTION(pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at))
READ_FUNCTION(pread64, (int fd, void *to, size_t n, off64_t at), (fd, to, n, at))

#define SYNC_FUNCTION(name) \
    int name(int fd) \
    { \
        int watched = is_watched(fd), fault = watched ? fault_for(FSYNC) : NONE; \
        FAIL_WITH(fault) \
        int result = NEXT(name)(fd); \
        if (!result && watched) opened(fd, 1); \
        return result; \
    }
SYNC_FUNCTION(fsync)
SYNC_FUNCTION(fdatasync)

/* A function whose result is 0 or -1. */
#define FUNCTION(call, name, parameters, arguments, watched) \
    int name parameters \
    { \
        int fault = (watched) ? fault_for(call) : NONE; \
        FAIL_WITH(fault) \
        return NEXT(name) arguments; \
    }
FUNCTION(RENAME, rename, (const char *from, const char *to), (from, to),
         is_below(AT_FDCWD, from) || is_below(AT_FDCWD, to))
FUNCTION(RENAME, renameat, (int at, const char *from, int to_at, const char *to),
         (at, from, to_at, to), is_below(at, from) || is_below(to_at, to))
FUNCTION(UNLINK, unlink, (const char *path), (path), is_below(AT_FDCWD, path))
FUNCTION(UNLINK, unlinkat, (int at, const char *path, int flags), (at, path, flags),
         is_below(at, path))
FUNCTION(FTRUNCATE, ftruncate, (int fd, off_t n), (fd, n), is_watched(fd))
FUNCTION(FTRUNCATE, ftruncate64, (int fd, off64_t n), (fd, n), is_watched(fd))
FUNCTION(FALLOCATE, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n),
         is_watched(fd))
FUNCTION(FALLOCATE, fallocate64, (int fd, int mode, off64_t at, off64_t n), (fd, mode, at, n),
         is_watched(fd))

/* close closes the file even if it fails. */
int close(int fd)
{
    int watched = is_watched(fd), fault = watched ? fault_for(CLOSE) : NONE;
    if (watched) files[fd].watched = 0;
    int result = NEXT(close)(fd);
    FAIL_WITH(fault)
    return result;
}

int closedir(DIR *stream)
{
    int fd = dirfd(stream);
    if (is_watched(fd)) files[fd].watched = 0;
    return NEXT(closedir)(stream);
}
