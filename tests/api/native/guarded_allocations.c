/* Preloaded: page-aligned allocations, which are the package's scratch and packed weights, end
 * at a page that nothing may touch, begin after another, and hold NaN. What was freed faults.
 * Large ones are refused. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };
static const size_t reserved = (size_t)1 << 40, most = (size_t)1 << 24;
static char *arena;
static size_t used;

typedef int (*allocate_function)(void **, size_t, size_t);
typedef void (*free_function)(void *);

__attribute__((constructor)) static void reserve(void) {
    void *memory =
        mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    arena = memory == MAP_FAILED ? NULL : memory;
}

static size_t pages(size_t size) { return (size + PAGE - 1) / PAGE * PAGE; }

/* A page with the size, a guard, the data, a guard. */
int posix_memalign(void **result, size_t alignment, size_t size) {
    static allocate_function next;
    if (alignment < PAGE || arena == NULL) {
        if (next == NULL) next = (allocate_function)dlsym(RTLD_NEXT, "posix_memalign");
        return next(result, alignment, size);
    }
    if (size > most) return ENOMEM;
    const size_t whole = pages(size) + 3 * PAGE;
    const size_t at = __atomic_fetch_add(&used, whole, __ATOMIC_RELAXED);
    if (at + whole > reserved) return ENOMEM;
    char *head = arena + at, *data = head + 2 * PAGE;
    if (mprotect(head, PAGE, PROT_READ | PROT_WRITE)) return ENOMEM;
    if (mprotect(data, pages(size), PROT_READ | PROT_WRITE)) return ENOMEM;
    *(size_t *)head = whole;
    memset(data, 0xff, pages(size));
    *result = data + pages(size) - size;
    return 0;
}

void free(void *p) {
    static free_function next;
    if (arena == NULL || (char *)p < arena || (char *)p >= arena + reserved) {
        if (next == NULL) next = (free_function)dlsym(RTLD_NEXT, "free");
        next(p);
        return;
    }
    char *head = (char *)((uintptr_t)p / PAGE * PAGE) - 2 * PAGE;
    mmap(head, *(size_t *)head, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
         -1, 0);
}
