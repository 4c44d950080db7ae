/* See failing_memory.h. A request is the library's if its return address lies in the executable
 * segment of libgpuzip.so, which contains the Rust standard library, too. */
#define _GNU_SOURCE
#include "failing_memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *memory);

static uintptr_t text_begin, text_end;
static atomic_int how = FAIL_NEVER;
static atomic_ulong least;
static atomic_long first, asked, failed, failed_ever, live, small, peak;

/* The live blocks and mappings of the library: a hash table of addresses and sizes (open
 * addressing, linear probing). The address REMOVED marks a place whose block was given back. */
enum { PLACES = 1 << 18 };
static struct {
  uintptr_t address;
  size_t bytes;
} place[PLACES];
#define REMOVED 1
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int find_text(struct dl_phdr_info *info, size_t size, void *data)
{
  (void)size, (void)data;
  if (strstr(info->dlpi_name, "libgpuzip.so") == NULL) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type == PT_LOAD && (p->p_flags & PF_X))
      text_begin = info->dlpi_addr + p->p_vaddr, text_end = text_begin + p->p_memsz;
  }
  return 1;
}

static int is_library(void *caller)
{
  if (text_end == 0) dl_iterate_phdr(find_text, NULL);
  return (uintptr_t)caller >= text_begin && (uintptr_t)caller < text_end;
}

static int fails(size_t bytes)
{
  if (bytes < atomic_load(&least)) return 0;
  const int now = atomic_load(&how);
  const long number = atomic_fetch_add(&asked, 1) + 1, at = atomic_load(&first);
  if (!(now == FAIL_ONE && number == at) && !(now == FAIL_FROM && number >= at)) return 0;
  atomic_fetch_add(&failed, 1), atomic_fetch_add(&failed_ever, 1);
  errno = ENOMEM;
  return 1;
}

static long pieces(size_t bytes) { return bytes <= 131072 ? (long)((bytes + 255) / 256 * 256) : 0; }

static void keep(void *memory, size_t bytes)
{
  if (memory == NULL || memory == MAP_FAILED) return;
  pthread_mutex_lock(&mutex);
  size_t k = ((uintptr_t)memory >> 4) * 0x9E3779B97F4A7C15u >> 46;
  while (place[k % PLACES].address > REMOVED) k++;
  place[k % PLACES].address = (uintptr_t)memory, place[k % PLACES].bytes = bytes;
  atomic_fetch_add(&live, 1);
  const long now = atomic_fetch_add(&small, pieces(bytes)) + pieces(bytes);
  if (now > atomic_load(&peak)) atomic_store(&peak, now);
  pthread_mutex_unlock(&mutex);
}

static void leave(void *memory)
{
  if (memory == NULL) return;
  pthread_mutex_lock(&mutex);
  size_t k = ((uintptr_t)memory >> 4) * 0x9E3779B97F4A7C15u >> 46;
  while (place[k % PLACES].address != 0 && place[k % PLACES].address != (uintptr_t)memory) k++;
  if (place[k % PLACES].address != 0) {
    place[k % PLACES].address = REMOVED;
    atomic_fetch_sub(&live, 1);
    atomic_fetch_sub(&small, pieces(place[k % PLACES].bytes));
  }
  pthread_mutex_unlock(&mutex);
}

#define OF_LIBRARY is_library(__builtin_return_address(0))

void *malloc(size_t bytes)
{
  if (!OF_LIBRARY) return __libc_malloc(bytes);
  if (fails(bytes)) return NULL;
  void *memory = __libc_malloc(bytes);
  keep(memory, bytes);
  return memory;
}

void *calloc(size_t count, size_t bytes)
{
  if (!OF_LIBRARY) return __libc_calloc(count, bytes);
  if (fails(count * bytes)) return NULL;
  void *memory = __libc_calloc(count, bytes);
  keep(memory, count * bytes);
  return memory;
}

void *realloc(void *old, size_t bytes)
{
  if (!OF_LIBRARY) return __libc_realloc(old, bytes);
  if (fails(bytes)) return NULL;
  leave(old);
  void *memory = __libc_realloc(old, bytes);
  keep(memory == NULL ? old : memory, bytes);
  return memory;
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
  const int of_library = OF_LIBRARY;
  if (of_library && fails(bytes)) return ENOMEM;
  *memory = __libc_memalign(alignment, bytes);
  if (of_library) keep(*memory, bytes);
  return *memory == NULL ? ENOMEM : 0;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
  if (!OF_LIBRARY) return __libc_memalign(alignment, bytes);
  if (fails(bytes)) return NULL;
  void *memory = __libc_memalign(alignment, bytes);
  keep(memory, bytes);
  return memory;
}

void free(void *memory)
{
  if (OF_LIBRARY) leave(memory);
  __libc_free(memory);
}

static void *next(const char *name)
{
  void *function = dlsym(RTLD_NEXT, name);
  if (function == NULL) abort();
  return function;
}

void *mmap(void *address, size_t bytes, int access, int flags, int file, off_t offset)
{
  static void *(*real)(void *, size_t, int, int, int, off_t);
  if (real == NULL) *(void **)&real = next("mmap");
  const int of_library = OF_LIBRARY;
  if (of_library && fails(bytes)) return MAP_FAILED;
  void *memory = real(address, bytes, access, flags, file, offset);
  if (of_library) keep(memory, 1 << 20);
  return memory;
}

void *mmap64(void *address, size_t bytes, int access, int flags, int file, off_t offset)
{
  static void *(*real)(void *, size_t, int, int, int, off_t);
  if (real == NULL) *(void **)&real = next("mmap64");
  const int of_library = OF_LIBRARY;
  if (of_library && fails(bytes)) return MAP_FAILED;
  void *memory = real(address, bytes, access, flags, file, offset);
  if (of_library) keep(memory, 1 << 20);
  return memory;
}

int munmap(void *memory, size_t bytes)
{
  static int (*real)(void *, size_t);
  if (real == NULL) *(void **)&real = next("munmap");
  if (OF_LIBRARY) leave(memory);
  return real(memory, bytes);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument)
{
  static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (real == NULL) *(void **)&real = next("pthread_create");
  if (OF_LIBRARY && fails(SIZE_MAX)) return EAGAIN;
  return real(thread, attributes, run, argument);
}

void failing_memory_arm(int how_, long first_, unsigned long least_)
{
  atomic_store(&least, least_);
  atomic_store(&first, first_);
  atomic_store(&asked, 0), atomic_store(&failed, 0);
  atomic_store(&peak, atomic_load(&small));
  atomic_store(&how, how_);
}

void failing_memory_restart(void) { atomic_store(&asked, 0); }

long failing_memory_disarm(void)
{
  atomic_store(&how, FAIL_NEVER);
  return atomic_load(&asked);
}

long failing_memory_failed(void) { return atomic_load(&failed); }
long failing_memory_failed_ever(void) { return atomic_load(&failed_ever); }
long failing_memory_live(void) { return atomic_load(&live); }
long failing_memory_peak(void) { return atomic_load(&peak); }
