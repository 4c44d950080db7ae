/* Restart files of a job: generations within a shot and between shots, and runs that go on from
 * them. */
#define _POSIX_C_SOURCE 200809L
#include "everything.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

enum { ARRAYS = 2 };

/* Describes the arrays of the program: `image` changes between shots only, `wave` within a shot. */
static void describe(job_t *job, gpuzip_array_t arrays[ARRAYS])
{
  memset(arrays, 0, ARRAYS * sizeof *arrays);
  arrays[0].name = "image", arrays[0].field.data = job->image, arrays[0].field.n1 = sizeof job->image / 8;
  arrays[1].name = "wave", arrays[1].field.data = job->wave, arrays[1].field.n1 = sizeof job->wave / 8;
  arrays[1].scope = 1;
  for (int k = 0; k < ARRAYS; k++) arrays[k].field.n2 = arrays[k].field.n3 = 1, arrays[k].field.type = GPUZIP_TYPE_I64;
}

/* Gives the arrays the values that they have at a point of a shot. */
static void compute(const shot_t *at, int64_t image[2], int64_t wave[3])
{
  image[0] = 7 * at->shot + 1, image[1] = ~at->shot;
  wave[0] = at->it, wave[1] = at->live, wave[2] = at->reversed;
}

int32_t open_folder(job_t *job)
{
  int32_t status;
  IN(job, status, gpuzip_persist_open(job->handles[0], NULL));
  return status;
}

int32_t write_generation(job_t *job, int within)
{
  gpuzip_array_t arrays[ARRAYS];
  int32_t status;
  CHECK(within == (job->now.it >= 0), "a generation of another point");
  compute(&job->now, job->image, job->wave);
  describe(job, arrays);
  /* If the call fails after it has begun, the generation may exist all the same. */
  if (job->memos_kept == GENERATIONS) memmove(job->memos, job->memos + 1, sizeof job->memos[0] * --job->memos_kept);
  job->memos[job->memos_kept++] = job->now;
  IN(job, status, gpuzip_persist_write(job->handles[0], job->now.shot, arrays, ARRAYS, NULL));
  memset(job->image, 0x5a, sizeof job->image);
  if (status == GPUZIP_OK && once_in(&job->random, 2)) IN(job, status, gpuzip_persist_wait(job->handles[0]));
  job->counts->written += status == GPUZIP_OK;
  return status;
}

/* Finds what was known when the generation was written: it must be the newest one, unless faults
 * were made. */
static const shot_t *memo_of(job_t *job, const gpuzip_generation_t *found)
{
  for (int k = job->memos_kept - 1; k >= 0; k--)
    if (job->memos[k].shot == found->shot && job->memos[k].it == found->it) {
      job->counts->older += k < job->memos_kept - 1;
      CHECK(k == job->memos_kept - 1 || faults_made() != job->faults_before, "generation %lld is not the newest", (long long)found->generation);
      return &job->memos[k];
    }
  CHECK(0, "generation %lld of shot %lld, action %lld, which nobody has written", (long long)found->generation, (long long)found->shot,
        (long long)found->it);
  return NULL;
}

/* Goes on from generation `found`. */
static int32_t go_on(job_t *job, const gpuzip_generation_t *found)
{
  gpuzip_array_t arrays[ARRAYS];
  int64_t image[2], wave[3];
  int32_t status;
  const shot_t *memo = memo_of(job, found);
  describe(job, arrays);
  memset(job->image, 0xa5, sizeof job->image), memset(job->wave, 0xa5, sizeof job->wave);
  IN(job, status, gpuzip_persist_read(job->handles[0], arrays, ARRAYS, NULL));
  if (status != GPUZIP_OK) return status;
  compute(memo, image, wave);
  CHECK(memcmp(image, job->image, sizeof image) == 0, "the image of shot %lld is another", (long long)memo->shot);
  if (memo->it >= 0) CHECK(memcmp(wave, job->wave, sizeof wave) == 0, "the wave of action %lld is another", (long long)memo->it);
  job->now = *memo;
  app_spoil(&job->apps[0]);
  app_advance(&job->apps[0], job->now.live);
  job->counts->restarts++;
  return GPUZIP_OK;
}

int32_t restart(job_t *job)
{
  gpuzip_generation_t found = {.struct_size = sizeof found};
  if (once_in(&job->random, 2) && job->handles[0] != NULL) (void)gpuzip_persist_wait(job->handles[0]);
  close_sessions(job);
  job->now.steps = job->memos[job->memos_kept - 1].steps;
  int32_t status = open_sessions(job);
  if (status == GPUZIP_OK) status = open_folder(job);
  if (status == GPUZIP_OK) IN(job, status, gpuzip_persist_find(job->handles[0], &found));
  job->tuned = 0;
  memset(job->given, 0, sizeof job->given);
  if (status != GPUZIP_OK) return status;
  if (found.generation != 0) return go_on(job, &found);
  CHECK(faults_made() != job->faults_before, "no generation is found");
  begin_shot(job);
  return GPUZIP_OK;
}

void remove_folder(const job_t *job)
{
  char path[512];
  DIR *folder = opendir(job->folder);
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    snprintf(path, sizeof path, "%s/%s", job->folder, entry->d_name);
    if (entry->d_name[0] != '.') unlink(path);
  }
  if (folder != NULL) closedir(folder), rmdir(job->folder);
}
