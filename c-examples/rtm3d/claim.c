#define _DEFAULT_SOURCE  /* flock */
#define _POSIX_C_SOURCE 200809L
#include "claim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "description.h"
#include "message.h"

/* What the first line of a worker's file says. */
typedef struct owner_t {
    char name[128], node[64];
    double lease;
    int is_locked;  /* whether the worker could lock its file */
} owner_t;
#define OWNER_FORMAT "%127s lease %lf locked %d node %63s"

/* Formats "shot-000012.claim-0" and the like. */
static const char *file_of(const claims_t *c, size_t shot, const char *suffix, char name[CLAIM_NAME])
{
    if (shot < c->shots)
        snprintf(name, CLAIM_NAME, "shot-%06zu.%s", shot + 1, suffix);
    else
        snprintf(name, CLAIM_NAME, "sum.%s", suffix);
    return name;
}

static const char *claim_of(const claims_t *c, size_t shot, unsigned number, char name[CLAIM_NAME])
{
    char suffix[32];
    snprintf(suffix, sizeof suffix, "claim-%u", number);
    return file_of(c, shot, suffix, name);
}

const char *claims_shot(const claims_t *c, size_t shot)
{
    static char text[64];

    if (shot >= c->shots)
        return "the sum";
    snprintf(text, sizeof text, "shot %zu of %zu", shot + 1, c->shots);
    return text;
}

/* Compares the survey's description with this worker's, line by line. */
static int compare(claims_t *c, char *theirs, char *ours, int is_part)
{
    const char *there, *here;

    c->is_refused = description_differs(theirs, ours, is_part, &there, &here);
    if (!c->is_refused)
        return 0;
    return complain("--claim %s: the survey there has %s, this worker has %s; give the worker the options and the configuration of the survey, or "
                    "another folder", c->dir, there, here);
}

/* Reads the description and compares it with that of this worker. */
static int check_job(claims_t *c, const char *description, int is_part)
{
    description_t theirs, ours;
    const description_read_t found = description_read(&theirs, c->folder, &c->survey);

    if (found == DESCRIPTION_MISSING)
        return complain("--claim %s: its file job cannot be read: %s", c->dir, shot_file_error());
    if (found == DESCRIPTION_DAMAGED)
        return complain("--claim %s: its file job is damaged: its checksum is wrong; remove the file, and a worker writes it again", c->dir);
    snprintf(ours.text, sizeof ours.text, "%s", description);
    return compare(c, theirs.text, ours.text, is_part);
}

/* Names the running kernel: locks are the same for all processes of a kernel. */
static void name_node(claims_t *c, const char *host)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");

    if (file == NULL || fscanf(file, "%63s", c->node) != 1)
        snprintf(c->node, sizeof c->node, "%.60s", host);
    if (file != NULL)
        fclose(file);
}

/* Makes the file of this worker, under a name that no worker had before. */
static int make_worker(claims_t *c)
{
    char host[65] = "", line[256];
    int length, is_locked;

    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        strcpy(host, "node");
    for (char *at = host; *at != '\0'; at++)
        if (*at == '/' || *at == ' ')
            *at = '_';
    name_node(c, host);
    for (unsigned k = 0; c->file < 0; k++) {
        snprintf(c->name, sizeof c->name, "worker-%s-%ld-%u", host, (long)getpid(), k);
        c->file = openat(c->folder, c->name, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (c->file < 0 && errno != EEXIST)
            return complain("--claim %s: a worker cannot make its file there: %s", c->dir, strerror(errno));
    }
    is_locked = flock(c->file, LOCK_EX | LOCK_NB) == 0;
    length = snprintf(line, sizeof line, "%s lease %.17g locked %d node %s\n", c->name, c->lease, is_locked, c->node);
    if (write(c->file, line, (size_t)length) != length)
        return complain("--claim %s: %s cannot be written: %s", c->dir, c->name, strerror(errno));
    c->beaten = seconds();
    return 0;
}

static int open_folder(claims_t *c, const char *dir, size_t shots)
{
    *c = (claims_t){.dir = dir, .folder = -1, .file = -1, .shots = shots};
    c->folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return c->folder >= 0 ? 0 : complain("--claim %s: the folder cannot be opened: %s", dir, strerror(errno));
}

int claims_look(claims_t *c, const char *dir, const char *description, size_t shots)
{
    return open_folder(c, dir, shots) == 0 && check_job(c, description, 1) == 0 ? 0 : -1;
}

int claims_open(claims_t *c, const char *dir, const char *description, size_t shots, double lease)
{
    *c = (claims_t){.folder = -1, .file = -1};
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return complain("--claim %s: the folder cannot be made: %s", dir, strerror(errno));
    if (open_folder(c, dir, shots) != 0)
        return -1;
    c->lease = lease;
    if (make_worker(c) != 0)
        return -1;
    if (description_write(description, c->folder) != 0)
        return complain("--claim %s: its file job cannot be written: %s", dir, strerror(errno));
    return check_job(c, description, 0);
}

void claims_close(claims_t *c)
{
    if (c->folder < 0)
        return;
    claims_release(c);
    if (c->file >= 0)
        close(c->file);
    close(c->folder);
    c->folder = c->file = -1;
}

/* Appends a line to this worker's file. A full disk loses the line and nothing else. */
static void note(claims_t *c, const char *what, const char *shot, const char *more)
{
    char line[512], date[32];
    const time_t now = time(NULL);
    struct tm utc;
    int length;

    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    length = snprintf(line, sizeof line, "%s %s %s%s\n", date, what, shot, more);
    if (write(c->file, line, (size_t)length) == length)
        c->beaten = seconds();
}

void claims_beat(claims_t *c)
{
    const double now = seconds(), interval = c->lease < 20.0 ? c->lease / 4.0 : 5.0;

    if (c->file < 0 || now - c->beaten < interval)
        return;
    c->beaten = now;
    futimens(c->file, NULL);
}

/* Seconds since the last sign of life in the file, by the clock of the file system. */
static double silence(const claims_t *c, const struct stat *info)
{
    struct stat own;

    if (futimens(c->file, NULL) != 0 || fstat(c->file, &own) != 0)
        return 0.0;
    return (double)(own.st_mtim.tv_sec - info->st_mtim.tv_sec) + 1e-9 * (double)(own.st_mtim.tv_nsec - info->st_mtim.tv_nsec);
}

/* Judges the worker whose file is open as `file`. Describes it in c->owner, with the reason if the
 * worker is dead. Returns CLAIM_HELD, CLAIM_TAKEN if the worker is this one, and CLAIM_FAILED if it
 * is dead. */
static claim_t judge(claims_t *c, int file)
{
    owner_t owner = {.name = "a worker", .lease = c->lease};
    char line[320] = "";
    struct stat info, own;
    double silent;

    if (fstat(file, &info) != 0 || fstat(c->file, &own) != 0)
        return CLAIM_HELD;
    if (info.st_ino == own.st_ino)
        return CLAIM_TAKEN;
    if (pread(file, line, sizeof line - 1, 0) < 0 || sscanf(line, OWNER_FORMAT, owner.name, &owner.lease, &owner.is_locked, owner.node) != 4)
        owner.lease = c->lease;
    snprintf(c->owner, sizeof c->owner, "%s", owner.name);
    if (owner.is_locked && strcmp(owner.node, c->node) == 0 && flock(file, LOCK_SH | LOCK_NB) == 0) {
        snprintf(c->owner, sizeof c->owner, "%s, which has ended", owner.name);
        return CLAIM_FAILED;
    }
    silent = silence(c, &info);
    if (silent <= owner.lease)
        return CLAIM_HELD;
    snprintf(c->owner, sizeof c->owner, "%s, silent for %.0f s", owner.name, silent);
    return CLAIM_FAILED;
}

int claims_committed(const claims_t *c, size_t shot)
{
    char name[CLAIM_NAME];
    struct stat info;
    return fstatat(c->folder, file_of(c, shot, "image", name), &info, 0) == 0;
}

/* Makes the link that claims the shot, after `number` dead workers. */
static claim_t make_claim(claims_t *c, size_t shot, unsigned number)
{
    char name[CLAIM_NAME], more[256] = "";

    if (linkat(c->folder, c->name, c->folder, claim_of(c, shot, number, name), 0) != 0) {
        if (errno == EEXIST) {
            snprintf(c->owner, sizeof c->owner, "another worker");
            return CLAIM_HELD;
        }
        complain("--claim %s: %s cannot be linked to %s: %s", c->dir, name, c->name, strerror(errno));
        return CLAIM_FAILED;
    }
    snprintf(c->claim, sizeof c->claim, "%s", name);
    /* Another worker may have committed the shot after this one had looked. */
    if (claims_committed(c, shot)) {
        claims_release(c);
        return CLAIM_COMMITTED;
    }
    if (number > 0) {
        snprintf(more, sizeof more, ", from %s", c->owner);
        warn("%s: taken over from %s", claims_shot(c, shot), c->owner);
    }
    note(c, "begins", claims_shot(c, shot), more);
    fprintf(stderr, RTM_PROGRAM ": %s is with %s\n", claims_shot(c, shot), c->name);
    return CLAIM_TAKEN;
}

claim_t claims_take(claims_t *c, size_t shot)
{
    char name[CLAIM_NAME];

    if (claims_committed(c, shot))
        return CLAIM_COMMITTED;
    for (unsigned number = 0;; number++) {
        const int file = shot_file_open(c->folder, claim_of(c, shot, number, name));
        claim_t found;

        if (file < 0 && errno == ENOENT)
            return make_claim(c, shot, number);
        if (file < 0) {
            complain("--claim %s: %s cannot be opened: %s", c->dir, name, shot_file_error());
            return CLAIM_FAILED;
        }
        found = judge(c, file);
        close(file);
        if (found == CLAIM_TAKEN)  /* it could not be given back before */
            snprintf(c->claim, sizeof c->claim, "%s", name);
        if (found != CLAIM_FAILED)
            return found;
    }
}

void claims_release(claims_t *c)
{
    if (c->claim[0] != '\0')
        unlinkat(c->folder, c->claim, 0);
    c->claim[0] = '\0';
}

int claims_commit(claims_t *c, size_t shot, const image_t *image, double misfit)
{
    char name[CLAIM_NAME];

    file_of(c, shot, "image", name);
    if (!claims_committed(c, shot) && shot_file_write(c->folder, name, (shot_key_t){c->survey, shot}, image, misfit) != 0) {
        const int why = errno;
        if (!claims_committed(c, shot)) {
            claims_release(c);
            return complain("--claim %s: %s was computed, but %s cannot be written: %s; what is committed stays; mend this and start workers again",
                            c->dir, claims_shot(c, shot), name, strerror(why));
        }
    }
    note(c, "commits", claims_shot(c, shot), "");
    claims_release(c);
    return 0;
}

shot_read_t claims_read(claims_t *c, size_t shot, image_t *image, double *misfit)
{
    char name[CLAIM_NAME];
    const char *why = "";
    shot_read_t found;

    file_of(c, shot, "image", name);
    found = shot_file_read(c->folder, name, (shot_key_t){c->survey, shot}, image, misfit, &why);
    if (found == SHOT_DAMAGED)
        warn("--claim %s: %s is damaged: %s", c->dir, name, why);
    if (found == SHOT_FAILED)
        complain("--claim %s: %s cannot be opened: %s", c->dir, name, shot_file_error());
    return found;
}

void claims_discard(claims_t *c, size_t shot)
{
    char name[CLAIM_NAME];

    note(c, "discards", claims_shot(c, shot), ", which is damaged");
    unlinkat(c->folder, file_of(c, shot, "image", name), 0);
}

void claims_sweep(claims_t *c)
{
    const int copy = openat(c->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *entry;

    if (folder == NULL) {
        if (copy >= 0)
            close(copy);
        return;
    }
    while ((entry = readdir(folder)) != NULL) {
        const char *const name = entry->d_name, *const end = strrchr(name, '.');
        const int is_ours = strncmp(name, "shot-", 5) == 0 || strncmp(name, "sum.", 4) == 0 || strncmp(name, DESCRIPTION_FILE ".", sizeof DESCRIPTION_FILE) == 0;
        if (is_ours && end != NULL && (strncmp(end, ".claim-", 7) == 0 || strcmp(end, ".part") == 0))
            unlinkat(c->folder, name, 0);
    }
    closedir(folder);
}
