#define _DEFAULT_SOURCE  /* flock */
#define _POSIX_C_SOURCE 200809L
#include "kept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "message.h"

#define LOCK "lock"
#define KIND "rtm3d_mpi --restart 1\n"  /* first line of the description, in the place of that of --claim */
#define SHOT_NAME 64
#define PATIENCE 20                     /* tenths of a second in which a killed run ends and frees its lock */

static const char *name_of(size_t shot, char name[SHOT_NAME])
{
    snprintf(name, SHOT_NAME, "shot-%06zu.image", shot + 1);
    return name;
}

/* Takes the lock of the folder, which ends with its process. Returns 0 or -1. */
static int take_lock(kept_t *k)
{
    const struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};

    k->lock = openat(k->folder, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (k->lock < 0)
        return complain("--restart %s: its file " LOCK " cannot be opened: %s", k->dir, strerror(errno));
    for (int i = 0; flock(k->lock, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS)
            return 0;  /* a file system without locks */
        if (errno != EWOULDBLOCK && errno != EINTR)
            return complain("--restart %s: its file " LOCK " cannot be locked: %s", k->dir, strerror(errno));
        if (i == PATIENCE)
            return complain("--restart %s: another run uses this folder; end that run, or give each run a folder of its own", k->dir);
        nanosleep(&pause, NULL);
    }
    return 0;
}

/* Whether the file belongs to generations of rtm3d --restart, or of --decompose. */
static int is_generation(const char *name)
{
    const char *const end = strrchr(name, '.');
    return end != NULL && strncmp(name, "gpuzip-r", 8) == 0 && strcmp(end, ".gen") == 0;
}

/* Whether the file is a shot or a description that was never completed. */
static int is_part(const char *name)
{
    const char *const end = strrchr(name, '.');
    return end != NULL && strcmp(end, ".part") == 0 &&
           (strncmp(name, "shot-", 5) == 0 || strncmp(name, DESCRIPTION_FILE ".", sizeof DESCRIPTION_FILE) == 0);
}

/* Lists the kept shots in k->has, from the names in the folder: looking for each of them would let a
 * network file system remember for some time that those are missing that other ranks write soon.
 * Removes what ranks left that died while they wrote. Returns KEPT_*. */
static int list(kept_t *k)
{
    const int copy = openat(k->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *entry;
    int code = KEPT_OPEN;

    if (folder == NULL) {
        complain("--restart %s: the folder cannot be listed: %s", k->dir, strerror(errno));
        if (copy >= 0)
            close(copy);
        return KEPT_FAILED;
    }
    while (code == KEPT_OPEN && (entry = readdir(folder)) != NULL) {
        char name[SHOT_NAME];
        size_t shot;

        if (is_generation(entry->d_name)) {
            complain("--restart %s: the folder holds files of rtm3d --restart or of --decompose (%s); give another folder", k->dir, entry->d_name);
            code = KEPT_REFUSED;
        } else if (is_part(entry->d_name)) {
            unlinkat(k->folder, entry->d_name, 0);
        } else if (sscanf(entry->d_name, "shot-%zu", &shot) == 1 && shot - 1 < k->shots &&
                   strcmp(entry->d_name, name_of(shot - 1, name)) == 0) {
            k->has[shot - 1] = 1;
            k->count++;
        }
    }
    closedir(folder);
    return code;
}

/* Compares the description of the kept shots with that of this rank. Returns KEPT_*. */
static int check_job(kept_t *k, const description_t *d)
{
    const char *there, *here;
    description_t theirs, ours = *d;
    const description_read_t found = description_read(&theirs, k->folder, &k->survey);

    if (found == DESCRIPTION_MISSING) {
        complain("--restart %s: rank %d cannot read its file job, which all ranks need to see: %s", k->dir, k->rank, shot_file_error());
        return KEPT_FAILED;
    }
    if (found == DESCRIPTION_DAMAGED) {
        complain("--restart %s: its file job is damaged: its checksum is wrong; remove the file: a run with the options of the kept shots uses "
                 "them, and another one computes them again", k->dir);
        return KEPT_FAILED;
    }
    if (!description_differs(theirs.text, ours.text, 0, &there, &here))
        return KEPT_OPEN;
    if (strncmp(there, "rtm3d-survey", 12) == 0)
        complain("--restart %s: the folder belongs to workers of rtm3d --claim; give another folder", k->dir);
    else if (k->rank == 0)
        complain("--restart %s: the run that wrote the files had %s, this run has %s; give the options and the configuration of that run, or "
                 "another folder", k->dir, there, here);
    else
        complain("--restart %s: rank 0 has %s, rank %d has %s; give all ranks the same budgets, or algorithm and snapshots", k->dir, there, k->rank,
                 here);
    return KEPT_REFUSED;
}

/* Whether the file job is of this kind of run, so that it may be replaced. */
static int is_own_job(const kept_t *k)
{
    description_t theirs;
    uint32_t checksum;

    return description_read(&theirs, k->folder, &checksum) == DESCRIPTION_GOOD && strncmp(theirs.text, KIND, sizeof KIND - 1) == 0;
}

/* What rank 0 does before the other ranks open the folder. Returns KEPT_*. */
static int open_first(kept_t *k, const description_t *d)
{
    int code;

    if (mkdir(k->dir, 0777) != 0 && errno != EEXIST) {
        complain("--restart %s: the folder cannot be made: %s", k->dir, strerror(errno));
        return KEPT_FAILED;
    }
    k->folder = open(k->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (k->folder < 0) {
        complain("--restart %s: the folder cannot be opened: %s", k->dir, strerror(errno));
        return KEPT_FAILED;
    }
    if (take_lock(k) != 0)
        return KEPT_FAILED;
    if ((code = list(k)) != KEPT_OPEN)
        return code;
    if (k->count == 0 && is_own_job(k))
        unlinkat(k->folder, DESCRIPTION_FILE, 0);  /* no shot depends on the options of the run before */
    if (description_write(d->text, k->folder) != 0) {
        complain("--restart %s: its file job cannot be written: %s", k->dir, strerror(errno));
        return KEPT_FAILED;
    }
    return check_job(k, d);
}

static int open_other(kept_t *k, const description_t *d)
{
    k->folder = open(k->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (k->folder >= 0)
        return check_job(k, d);
    complain("--restart %s: rank %d cannot open the folder, which all ranks need to see: %s", k->dir, k->rank, strerror(errno));
    return KEPT_FAILED;
}

/* Reads a shot. Returns 1: it is right; 0: it is not, and `why` says why; -1: it cannot be opened. */
static int look(const kept_t *k, size_t shot, image_t *image, char name[SHOT_NAME], const char **why)
{
    double misfit;
    const shot_read_t found = shot_file_read(k->folder, name_of(shot, name), (shot_key_t){k->survey, shot}, image, &misfit, why);

    if (found == SHOT_MISSING)
        *why = "there is no such file any more";
    if (found == SHOT_FAILED)
        return complain("--restart %s: %s cannot be opened: %s", k->dir, name, shot_file_error());
    return found == SHOT_GOOD;
}

/* Reads this rank's part of the kept shots. Returns KEPT_*. */
static int check_shots(kept_t *k, image_t *one, int ranks)
{
    size_t seen = 0;

    for (size_t i = 0; i < k->shots; i++) {
        char name[SHOT_NAME];
        const char *why = "";
        int found;

        if (!k->has[i] || seen++ % (size_t)ranks != (size_t)k->rank)
            continue;
        if ((found = look(k, i, one, name, &why)) < 0)
            return KEPT_FAILED;
        if (!found)
            warn("--restart %s: %s is damaged: %s; the shot is computed again", k->dir, name, why);
        k->has[i] = (signed char)found;
    }
    return KEPT_OPEN;
}

static int worst(int code, MPI_Comm comm)
{
    MPI_Allreduce(MPI_IN_PLACE, &code, 1, MPI_INT, MPI_MAX, comm);
    return code;
}

int kept_open(kept_t *k, const char *dir, const description_t *d, size_t shots, image_t *one, MPI_Comm comm)
{
    description_t own;
    int code, ranks;

    *k = (kept_t){.dir = dir, .folder = -1, .lock = -1, .shots = shots, .has = calloc(shots, 1)};
    MPI_Comm_rank(comm, &k->rank);
    MPI_Comm_size(comm, &ranks);
    memset(&own, 0, sizeof own);
    description_add(&own, KIND "%s", strchr(d->text, '\n') + 1);
    signal(SIGXFSZ, SIG_IGN);  /* a write beyond the largest size of a file is then an error */
    code = k->has != NULL ? KEPT_OPEN : KEPT_FAILED;
    if (code != KEPT_OPEN)
        complain("rank %d: no memory for a list of %zu shots", k->rank, shots);
    if ((code = worst(code, comm)) != KEPT_OPEN ||
        (code = worst(k->rank == 0 ? open_first(k, &own) : KEPT_OPEN, comm)) != KEPT_OPEN ||
        (code = worst(k->rank != 0 ? open_other(k, &own) : KEPT_OPEN, comm)) != KEPT_OPEN)
        return code;
    MPI_Bcast(k->has, (int)shots, MPI_SIGNED_CHAR, 0, comm);
    if ((code = worst(check_shots(k, one, ranks), comm)) != KEPT_OPEN)
        return code;
    MPI_Allreduce(MPI_IN_PLACE, k->has, (int)shots, MPI_SIGNED_CHAR, MPI_MIN, comm);
    k->count = 0;
    for (size_t i = 0; i < shots; i++)
        k->count += k->has[i] != 0;
    return KEPT_OPEN;
}

void kept_close(kept_t *k)
{
    if (k->dir == NULL)
        return;
    if (k->lock >= 0)
        close(k->lock);
    if (k->folder >= 0)
        close(k->folder);
    free(k->has);
    *k = (kept_t){.folder = -1, .lock = -1};
}

int kept_write(const kept_t *k, size_t shot, const image_t *image)
{
    char name[SHOT_NAME];

    if (shot_file_write(k->folder, name_of(shot, name), (shot_key_t){k->survey, shot}, image, 0.0) == 0)
        return 1;
    warn("--restart %s: the run goes on without the file of shot %zu of %zu: %s", k->dir, shot + 1, k->shots, strerror(errno));
    return 0;
}

int kept_read(const kept_t *k, size_t shot, image_t *image)
{
    char name[SHOT_NAME];
    const char *why = "";
    const int found = look(k, shot, image, name, &why);

    if (found < 0)
        return -1;
    return found ? 0 : complain("--restart %s: %s was right before and is damaged now: %s; start the run again", k->dir, name, why);
}
