/* Restart files of a job: generations within a shot and between shots, and runs that go on from
 * them. Files of states for other programs. */
#define _POSIX_C_SOURCE 200809L
#include "everything.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { ARRAYS = 3 };

/* Describes the arrays of the program: `image` changes between shots only, `wave` and `live` within
 * a shot. Returns their number. */
static uint32_t describe(job_t *job, gpuzip_array_t arrays[ARRAYS])
{
  const uint32_t count = job->loss.shared ? 3 : 2;
  memset(arrays, 0, ARRAYS * sizeof *arrays);
  arrays[0].name = "image", arrays[0].field.data = job->image,
  arrays[0].field.n1 = sizeof job->image / 8;
  arrays[1].name = "wave", arrays[1].field.data = job->wave,
  arrays[1].field.n1 = sizeof job->wave / 8;
  arrays[1].scope = 1;
  arrays[2].name = "live", arrays[2].field.data = job->live,
  arrays[2].field.n1 = app_live_bytes(&job->apps[0]);
  arrays[2].scope = 1;
  for (int k = 0; k < ARRAYS; k++)
    arrays[k].field.n2 = arrays[k].field.n3 = 1, arrays[k].field.type = GPUZIP_TYPE_I64;
  arrays[2].field.type = GPUZIP_TYPE_BYTE;
  return count;
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

int32_t write_arrays(job_t *job)
{
  gpuzip_array_t arrays[ARRAYS];
  int32_t status;
  compute(&job->now, job->image, job->wave);
  if (job->loss.shared) app_get_live(&job->apps[0], job->live);
  const uint32_t count = describe(job, arrays);
  IN(job, status, gpuzip_persist_write(job->handles[0], job->now.shot, arrays, count, NULL));
  memset(job->image, 0x5a, sizeof job->image);
  if (job->loss.shared) memset(job->live, 0x5a, app_live_bytes(&job->apps[0]));
  return status;
}

static void forget(job_t *job, int from, int to)
{
  for (int k = from; k < to; k++) free(job->memos[k].levels);
  memmove(job->memos + from, job->memos + to,
          sizeof job->memos[0] * (size_t)(job->memos_kept - to));
  job->memos_kept -= to - from;
}

void forget_generations(job_t *job) { forget(job, 0, job->memos_kept), job->cloned = 0; }

/* Keeps what is known now. */
static void remember(job_t *job)
{
  if (job->memos_kept == GENERATIONS) forget(job, 0, 1);
  memo_t *memo = &job->memos[job->memos_kept++];
  memo->now = job->now, memo->levels = NULL;
  if (!job->loss.shared) return;
  memcpy(memo->is_kept, job->now.saved_at, sizeof memo->is_kept);
  memo->is_kept[job->now.live] = 1;
  memo->levels = app_keep(&job->apps[0], memo->is_kept);
}

int32_t write_generation(job_t *job, int within)
{
  int32_t status;
  CHECK(within == (job->now.it >= 0), "a generation of another point");
  /* If the call fails after it has begun, the generation may exist all the same. */
  remember(job);
  status = write_arrays(job);
  /* Refused before it began, or a snapshot that a thread has compressed does not fit the budgets or has
   * values that are refused. */
  if (status == GPUZIP_ERR_STATE || status == GPUZIP_ERR_BUDGET || status == GPUZIP_ERR_VALUES)
    forget(job, job->memos_kept - 1, job->memos_kept);
  if (status == GPUZIP_OK && once_in(&job->random, 2))
    IN(job, status, gpuzip_persist_wait(job->handles[0]));
  job->counts->written += status == GPUZIP_OK;
  job->holds |= status == GPUZIP_OK;
  return status;
}

/* Finds what was known when the generation was written: it must be the newest one, unless faults
 * were made. */
static const memo_t *memo_of(job_t *job, const gpuzip_generation_t *found)
{
  for (int k = job->memos_kept - 1; k >= 0; k--)
    if (job->memos[k].now.shot == found->shot && job->memos[k].now.it == found->it) {
      job->counts->older += k < job->memos_kept - 1;
      CHECK(k == job->memos_kept - 1 || faults_made() != job->faults_before,
            "generation %lld is not the newest", (long long)found->generation);
      return &job->memos[k];
    }
  CHECK(0, "generation %lld of shot %lld, action %lld, which nobody has written",
        (long long)found->generation, (long long)found->shot, (long long)found->it);
  return NULL;
}

/* Two generations of one action differ if the forward phase ended between them, and the newer one may not
 * have been written. Tells from the session which one it goes on from. */
static void tell_end(job_t *job)
{
  gpuzip_summary_t summary = {.struct_size = sizeof summary};
  int32_t status;
  if (!job->open || job->now.it < 0) return;
  IN(job, status, gpuzip_summary(job->handles[0], &summary));
  if (status != GPUZIP_OK) return;
  job->now.ended = summary.steps > 0;
  for (int k = 0; k < job->memos_kept; k++) {
    const shot_t *then = &job->memos[k].now;
    if (then->shot == job->now.shot && then->it == job->now.it && then->ended == job->now.ended)
      return;
  }
  CHECK(0, "the forward phase has%s ended in no generation", job->now.ended ? "" : " not");
}

/* Goes on from generation `found`. */
static int32_t go_on(job_t *job, const gpuzip_generation_t *found)
{
  gpuzip_array_t arrays[ARRAYS];
  int64_t image[2], wave[3];
  int32_t status;
  const memo_t *memo = memo_of(job, found);
  const shot_t *then = &memo->now;
  const uint32_t count = describe(job, arrays);
  memset(job->image, 0xa5, sizeof job->image), memset(job->wave, 0xa5, sizeof job->wave);
  IN(job, status, gpuzip_persist_read(job->handles[0], arrays, count, NULL));
  if (status != GPUZIP_OK) return status;
  compute(then, image, wave);
  CHECK(memcmp(image, job->image, sizeof image) == 0, "the image of shot %lld is another",
        (long long)then->shot);
  if (then->it >= 0)
    CHECK(memcmp(wave, job->wave, sizeof wave) == 0, "the wave of action %lld is another",
          (long long)then->it);
  job->now = *then;
  tell_end(job);
  app_spoil(&job->apps[0]);
  if (job->now.live >= 0) app_advance(&job->apps[0], job->now.live);
  if (job->loss.shared && then->it >= 0) {
    app_put_live(&job->apps[0], job->live);
    app_bring_back(&job->apps[0], memo->is_kept, memo->levels);
  }
  job->counts->restarts++;
  return GPUZIP_OK;
}

int32_t open_again(job_t *job)
{
  uint64_t before = job->faults_before;
  int32_t status;
  for (;;) {
    job->holds = 0;
    status = open_sessions(job);
    if (status == GPUZIP_OK && job->persist) status = open_folder(job);
    if (status == GPUZIP_OK || faults_made() == before) return status;
    before = faults_made();
    job->armed = 1; /* perhaps another thread makes the faults: they end, too */
    end_faults(job);
    job->counts->faulted++;
    close_sessions(job);
  }
}

/* Whether a restart without the profile of the run before may be refused: the profile has decided
 * what is stored. */
static int needs_profile(const job_t *job)
{
  const gpuzip_config_t *c = &job->config;
  return job->profiled && (c->compressor == GPUZIP_COMPRESSOR_AUTO || c->mixed_storage ||
                           c->codec_threads >= 0 ||
                           c->checkpointing_algorithm == GPUZIP_ALGORITHM_AUTO);
}

/* Gives the next session more memory than the one before had, and lets the application work in the slots where
 * it did not, or the other way round. Returns whether something has changed. */
static int change(gpuzip_config_t *c, random_t *random)
{
  const gpuzip_config_t before = *c;
  if (!c->policy && once_in(random, 2)) c->zero_copy = !c->zero_copy;
  if (c->cache_capacity) c->cache_capacity++;
  c->device_budget *= 2;
  c->host_budget *= 2;
  return memcmp(&before, c, sizeof before) != 0;
}

/* Removes the files of a folder, with `hidden` also those whose names begin with a dot. */
static void unlink_all(const char *path, int hidden)
{
  char file[640];
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
    if (hidden || entry->d_name[0] != '.') unlink(file);
  }
  if (folder != NULL) closedir(folder);
}

/* Loses all files of the node, if the shared folder has copies: the session has ended after them, unless the run
 * has begun with a clone and has not found it yet. */
static void lose_node(job_t *job)
{
  random_t random = job->random; /* the choices of the rest stay as they are */
  if (job->config.persist_shared_dir == NULL || faults_made() != job->faults_before || job->cloned) return;
  if (once_in(&random, 2)) unlink_all(job->folder, 0), job->counts->nodes_lost++;
}

/* Puts the newest generation into a folder of its own. Returns whether it is there. */
static int clone(job_t *job)
{
  random_t random = job->random; /* the choices of the rest stay as they are */
  int32_t status = GPUZIP_ERR_STATE;
  (void)once_in(&random, 2); /* the choice of lose_node */
  if (job->handles[0] == NULL || !job->holds || faults_made() != job->faults_before) return 0;
  if (!once_in(&random, 3)) return 0;
  unlink_all(job->clone, 0);
  IN(job, status, gpuzip_persist_clone(job->handles[0], job->clone));
  CHECK(status == GPUZIP_OK || faults_made() != job->faults_before, "no clone: %s", gpuzip_last_error());
  return status == GPUZIP_OK;
}

/* Begins another run with the clone: nothing else is left. */
static void begin_with_clone(job_t *job)
{
  int is_moved = 0;
  for (uint64_t before = UINT64_MAX; !is_moved && before != faults_made();) {
    before = faults_made();
    unlink_all(job->folder, 0), unlink_all(job->shared, 0);
    is_moved = (rmdir(job->folder) == 0 || errno == ENOENT) && rename(job->clone, job->folder) == 0;
  }
  CHECK(is_moved, "%s cannot be moved", job->clone);
  job->cloned = 1;
  job->counts->clones++;
}

/* Opens the sessions again, and goes on from the newest generation, if there is one. */
static int32_t restart_as(job_t *job, const void *profile, uint64_t bytes,
                          gpuzip_generation_t *found)
{
  const int is_cloned = clone(job);
  close_sessions(job);
  if (is_cloned) begin_with_clone(job);
  else lose_node(job);
  job->now.steps = job->memos[job->memos_kept - 1].now.steps;
  job->holds = 0;
  int32_t status = open_sessions(job);
  if (status == GPUZIP_OK) status = open_folder(job);
  if (status == GPUZIP_OK && bytes > 0)
    IN(job, status, gpuzip_profile_import(job->handles[0], profile, bytes));
  if (status == GPUZIP_OK) IN(job, status, gpuzip_persist_find(job->handles[0], found));
  if (status == GPUZIP_OK) job->cloned = 0, job->holds = found->generation != 0;
  job->tuned = 0;
  job->in_hand = 0;
  memset(job->given, 0, sizeof job->given);
  return status == GPUZIP_OK && found->generation != 0 ? go_on(job, found) : status;
}

int32_t restart(job_t *job)
{
  gpuzip_generation_t found = {.struct_size = sizeof found};
  unsigned char profile[4096];
  uint64_t bytes = 0;
  const int asks = job->profiled && job->handles[0] != NULL && once_in(&job->random, 2);
  if (asks && gpuzip_profile_export(job->handles[0], profile, sizeof profile, &bytes) != GPUZIP_OK)
    bytes = 0;
  if (once_in(&job->random, 2) && job->handles[0] != NULL)
    (void)gpuzip_persist_wait(job->handles[0]);
  const gpuzip_config_t before = job->config;
  random_t random = job->random; /* the choices of the rest stay as they are */
  const int other = once_in(&random, 3) && change(&job->config, &random);
  int32_t status = restart_as(job, profile, bytes, &found);
  if (other && (status == GPUZIP_ERR_CONFIG || status == GPUZIP_ERR_BUDGET)) {
    /* What other budgets may not decide needs those of the run before. */
    count_refusal(status);
    job->config = before;
    status = restart_as(job, profile, bytes, &found);
  }
  if (status == GPUZIP_ERR_CONFIG && needs_profile(job)) {
    /* The run begins again in an empty folder. */
    count_refusal(status);
    close_sessions(job);
    remove_folder(job);
    forget_generations(job);
    status = open_again(job);
    begin_shot(job);
    return status;
  }
  if (status != GPUZIP_OK || found.generation != 0) return status;
  CHECK(faults_made() != job->faults_before || job->memos_kept == 0, "no generation is found");
  begin_shot(job);
  return GPUZIP_OK;
}

void remove_folder(const job_t *job)
{
  for (uint64_t before = UINT64_MAX; before != faults_made();) {
    before = faults_made();
    const char *const folders[] = {job->folder, job->shared, job->clone};
    int left = 0;
    for (int k = 0; k < 3; k++) unlink_all(folders[k], 0), left += rmdir(folders[k]) != 0 && errno != ENOENT;
    if (left == 0) return;
  }
  CHECK(0, "%s or %s cannot be removed", job->folder, job->shared);
}

/* Compares the file of a field with `values`, and removes the file. Returns whether it was there. */
static int is_exported(const job_t *job, uint32_t k, const unsigned char *values)
{
  const size_t bytes = job->apps[0].bytes[k];
  unsigned char *found = malloc(bytes);
  char name[400];
  snprintf(name, sizeof name, "%s/field%u-%09d.npy", job->states, k, job->now.live);
  FILE *file = fopen(name, "rb");
  if (file != NULL) {
    CHECK(found != NULL && fseek(file, -(long)bytes, SEEK_END) == 0 && fread(found, 1, bytes, file) == bytes &&
              memcmp(found, values, bytes) == 0,
          "%s has other bytes than the state", name);
    fclose(file);
  }
  free(found);
  return file != NULL;
}

int32_t export_live(job_t *job)
{
  random_t random = job->random; /* the choices of the rest stay as they are */
  const app_t *app = &job->apps[0];
  const uint64_t before = faults_made();
  int32_t status;
  (void)once_in(&random, 2);
  if (job->now.live < 0 || !once_in(&random, 50)) return GPUZIP_OK;
  IN(job, status,
     gpuzip_export(job->handles[0], job->states, job->now.live, app->fields, app->nfields, NULL));
  unsigned char *live = malloc(app_live_bytes(app)), *at = live;
  CHECK(live != NULL, "no memory");
  app_get_live(app, live);
  for (uint32_t k = 0; k < app->nfields && before == faults_made(); at += app->bytes[k++])
    CHECK(is_exported(job, k, at) == (status == GPUZIP_OK), "the file of field %u", k);
  free(live);
  int is_removed = 0;
  for (uint64_t seen = UINT64_MAX; !is_removed && seen != faults_made();) {
    seen = faults_made();
    unlink_all(job->states, seen != job->faults_before); /* a fault may keep a temporary file */
    is_removed = rmdir(job->states) == 0 || errno == ENOENT;
  }
  CHECK(is_removed, "a part of a file is left in %s", job->states);
  job->counts->exported += status == GPUZIP_OK;
  /* After a fault the session goes on, unless an earlier call has failed. */
  return faults_made() == job->faults_before ? status : GPUZIP_OK;
}
